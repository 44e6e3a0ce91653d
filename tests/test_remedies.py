# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""The step that a message names is followed, and arrives.

A case is a mistake, words of its message, and the step that these words name. Words
that are code are run as they stand, see `run`.
"""

import json

import numpy as np
import pytest
from scipy import sparse
from sklearn.calibration import CalibratedClassifierCV
from sklearn.frozen import FrozenEstimator
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.model_selection import GridSearchCV, GroupKFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MaxAbsScaler
from sklearn.svm import LinearSVC

import skope_ope as ope
from skope_ope import IPS, BanditLogs, SlateLogs, UniformPolicy
from skope_ope import policies as policies_of
from skope_ope.readers import from_obp

pandas = pytest.importorskip("pandas")
pytestmark = [
    pytest.mark.frames,
    pytest.mark.filterwarnings("ignore::skope_ope.exceptions.OPEWarning"),
]

N = 120
RNG = np.random.RandomState(0)
X, CODE = RNG.normal(size=(N, 2)), RNG.randint(2, size=N)
A, R, P = np.array(["a", "b"])[CODE], RNG.randint(2, size=N) * 1.0, np.full(N, 0.5)
FIELDS = {"context": X, "action": A, "reward": R, "propensity": P}
THIRDS, HALVES, PAIRS = (
    np.tile([0.3, 0.7], (N, 1)),
    np.full((N, 2), 0.5),
    RNG.uniform(size=(N, 2)),
)
FRAME = pandas.DataFrame({"x": X[:, 0], "a": A, "r": R, "p": P})
TABLE = FRAME.assign(ra=PAIRS[:, 0], rb=PAIRS[:, 1])
BY_ACTION = PAIRS[np.arange(N), CODE]  # the reward of the logged action
POLICY, ROLES = UniformPolicy(), {"action": "a", "reward": "r", "context": ["x"]}
JSON = ['{"a": 0.25, "b": 0.75}'] * N
OF_JSON = np.where(CODE == 0, 0.25, 0.75)


def build(**change):
    return BanditLogs(**FIELDS | change)


def framed(frame, **roles):
    return BanditLogs.from_frame(frame, **ROLES | roles)


def with_entry(values, row, entry):
    out = np.array(values)
    out = out.astype(object) if entry is None else out
    out[row] = entry
    return out


def value(logs, policy=POLICY, evaluator=None):
    """Fail unless a value comes out."""
    found = (evaluator or IPS()).fit(logs).score(policy)
    assert np.isfinite(found)
    return found


def run(code, **names):
    """Return what code of a message makes of values."""
    scope = {"np": np, "pandas": pandas, "json": json, **names}
    *before, last = code.split("; ")
    exec("; ".join(before), scope)
    return eval(last, scope)


LOGS = build()
UNKNOWN = build(propensity=None)
CLASSIFIER = LogisticRegression().fit(X, A)


def pages(**change):
    fields = {"context": np.zeros((4, 1)), "slate": [[0, 1]] * 4, "n_candidates": 3}
    return SlateLogs(**fields | {"reward": [1.0, 0, 1, 0]} | change)


UNIFORM = ope.UniformSlatePolicy(2)
DRAWN = {"logging_policy": UNIFORM}
FEEDBACK = {"n_rounds": N, "n_actions": 2, "action": CODE, "reward": R, "pscore": P}
TAKE = "[json.loads(one)[str(action)] for one, action in zip(values, actions)]"
PLACE = "[json.loads(one)[code] for one, code in zip(values, codes)]"
SPREAD = "pandas.DataFrame([json.loads(one) for one in values])"
PLACES = "code = [['a', 'b'].index(one) for one in frame[action]]"
ASSIGN = (
    "frame.assign(reward=frame[['ra', 'rb']].to_numpy()[np.arange(len(frame)), code])"
)
COLUMNS = f"{PLACES}. Add it to the frame: {ASSIGN}"
PICK = "reward[np.arange(len(reward)), code]"
NORMALISED = "logging_proba / logging_proba.sum(axis=1, keepdims=True)"
LABELS = "(labels[:, None] == logs.actions)"


def of_json(code, **names):
    found = run(code, values=JSON, **names)
    np.testing.assert_allclose(found, OF_JSON)
    return found


def one_reward(frame):
    logs = framed(frame, reward="reward", propensity="p")
    np.testing.assert_allclose(logs.reward, BY_ACTION)


def columns_of_json():
    made = run(SPREAD, values=JSON).add_prefix("p_")
    logs = framed(pandas.concat([FRAME, made], axis=1), logging_proba=["p_a", "p_b"])
    np.testing.assert_allclose(logs.propensity, OF_JSON)


def searched(estimator, scoring):
    search = GridSearchCV(estimator, {}, scoring=scoring, cv=3, error_score="raise")
    assert np.isfinite(search.fit(LOGS).best_score_)


def interval(logs, **how):
    IPS().fit(logs).evaluate(POLICY).confidence_interval(**how)


def ranged(reward_range):
    logs = build(reward=50 * R, reward_range=reward_range)
    interval(logs, method="empirical_bernstein")


def mixed(policy):
    return policies_of.MixturePolicy([policy, POLICY], [0.5, 0.5])


LEARNING = policies_of.EpsilonGreedy()
LOGGERS = np.arange(N) % 2
TWO_LOGGERS = build(logger=LOGGERS)
OLD = np.array(A, dtype=object)
MIXED = np.where(CODE == 0, 1, OLD)

CASES = {
    # -- fields of logs
    "no context": (
        lambda: build(context=None),
        "np.empty((n_rounds, 0))",
        lambda: value(build(context=run("np.empty((n_rounds, 0))", n_rounds=N))),
    ),
    "one feature": (
        lambda: build(context=X[:, 0]),
        "x.reshape(-1, 1)",
        lambda: value(build(context=run("x.reshape(-1, 1)", x=X[:, 0]))),
    ),
    "context of mixed kinds": (
        lambda: build(context=np.array([["u", 1]] * N, dtype=object)),
        "go into a pandas, polars or pyarrow frame",
        lambda: value(
            build(context=pandas.DataFrame([["u", 1]] * N, columns=["u", "v"]))
        ),
    ),
    "propensity above 1": (
        lambda: build(propensity=3),
        "such as 1/3",
        lambda: value(build(propensity=1 / 3)),
    ),
    "propensity as a percentage": (
        lambda: build(propensity=100 * P),
        "Pass the probability itself",
        lambda: value(build(propensity=P)),
    ),
    "propensity of truth values": (
        lambda: build(propensity=P > 0),
        "or 1.0 for a logger that does not explore",
        lambda: build(propensity=1.0),
    ),
    "propensity 0": (
        lambda: build(propensity=with_entry(P, 3, 0)),
        "estimate the propensities with PropensityEstimator",
        lambda: value(ope.PropensityEstimator().fit_transform(UNKNOWN)),
    ),
    "propensity missing": (
        lambda: build(propensity=with_entry(P, 3, np.nan)),
        "leave all out and estimate them with PropensityEstimator",
        lambda: value(ope.PropensityEstimator().fit_transform(UNKNOWN)),
    ),
    "no propensity": (
        lambda: value(UNKNOWN),
        "or use DirectMethod",
        lambda: value(UNKNOWN, evaluator=ope.DirectMethod(reward_model=Ridge())),
    ),
    "action missing": (
        lambda: build(action=with_entry(A, 3, None)),
        "if no action was a choice, make it a label of its own",
        lambda: build(action=np.where(np.arange(N) == 3, "none", A)),
    ),
    "actions of mixed kinds": (
        lambda: build(action=MIXED),
        "Pass the ordered labels as `actions`",
        lambda: value(build(action=MIXED, actions=np.array([1, "b"], dtype=object))),
    ),
    "an action that is not listed": (
        lambda: build(actions=["a"]),
        "Add it there",
        lambda: value(build(actions=["a", "b"])),
    ),
    "reward of a row each": (
        lambda: build(reward=R[:, None]),
        "np.ravel",
        lambda: value(build(reward=run("np.ravel", reward=R)(R[:, None]))),
    ),
    "reward of all rounds": (
        lambda: build(reward=1.0),
        "np.full(n_rounds, 1.0)",
        lambda: value(build(reward=run("np.full(n_rounds, 1.0)", n_rounds=N))),
    ),
    "reward by action": (
        lambda: build(reward=PAIRS),
        PICK,
        lambda: np.testing.assert_allclose(
            run(
                f"code = np.unique(action, return_inverse=True)[1]; {PICK}",
                action=A,
                reward=PAIRS,
            ),
            BY_ACTION,
        ),
    ),
    "reward missing": (
        lambda: build(reward=with_entry(R, 3, np.nan)),
        "Where each action has a column of rewards, take that of the logged action",
        lambda: build(reward=BY_ACTION),
    ),
    "reward missing for a reason": (
        lambda: build(reward=with_entry(R, 3, np.nan)),
        "Otherwise bound the gain: fill in what is worst for it, then what is best",
        lambda: [value(build(reward=with_entry(R, 3, one))) for one in (0, 1)],
    ),
    "reward out of its range": (
        lambda: build(reward_range=(0, 0.5)),
        "Widen the range",
        lambda: value(build(reward_range=(0, 1))),
    ),
    "numbers as texts": (
        lambda: build(reward=R.astype(str)),
        "np.asarray(..., dtype=float)",
        lambda: value(build(reward=np.asarray(R.astype(str), dtype=float))),
    ),
    "words in place of numbers": (
        lambda: framed(FRAME.assign(r=np.where(R > 0, "yes", "no")), propensity="p"),
        "Write 1 for yes and 0 for no",
        lambda: value(framed(FRAME, propensity="p")),
    ),
    "offers as numbers": (
        lambda: build(available=np.ones((N, 2), int)),
        "available.astype(bool)",
        lambda: value(
            build(
                available=run("available.astype(bool)", available=np.ones((N, 2), int))
            )
        ),
    ),
    "an action that was not offered": (
        lambda: build(available=np.tile([True, False], (N, 1))),
        "Correct `available`, or leave it out",
        lambda: value(build()),
    ),
    "probabilities of another sum": (
        lambda: build(logging_proba=2 * HALVES),
        NORMALISED,
        lambda: value(build(logging_proba=run(NORMALISED, logging_proba=2 * HALVES))),
    ),
    "probabilities that contradict": (
        lambda: build(logging_proba=THIRDS),
        "Pass only one of the two",
        lambda: value(build(propensity=None, logging_proba=THIRDS)),
    ),
    "a logged action of probability 0": (
        lambda: build(propensity=None, logging_proba=np.tile([1.0, 0], (N, 1))),
        "Correct logging_proba, or leave it out",
        lambda: value(build()),
    ),
    "negative weights": (
        lambda: build(sample_weight=-P),
        "Use 1 / (probability of being kept)",
        lambda: value(build(sample_weight=1 / P)),
    ),
    "a larger table of items": (
        lambda: build(action_context=np.eye(3)),
        "name all: actions=[...]",
        lambda: value(build(action_context=np.eye(3), actions=["a", "b", "c"])),
    ),
    "a table of other items": (
        lambda: build(action_context=np.eye(46)),
        "pass action_context[places]",
        lambda: value(build(action_context=np.eye(46)[[7, 31]])),
    ),
    "times as texts": (
        lambda: build(timestamp=["2026-01-01"] * N),
        "np.asarray(timestamp, dtype='datetime64[us]')",
        lambda: value(
            build(
                timestamp=run(
                    "np.asarray(timestamp, dtype='datetime64[us]')",
                    timestamp=["2026-01-01"] * N,
                )
            )
        ),
    ),
    # -- frames
    "weights as JSON": (
        lambda: framed(FRAME.assign(w=JSON), propensity="p", sample_weight="w"),
        TAKE,
        lambda: value(
            framed(
                FRAME.assign(w=of_json(TAKE, actions=A)),
                propensity="p",
                sample_weight="w",
            )
        ),
    ),
    "propensities as JSON lists": (
        lambda: build(propensity=np.array(["[0.25, 0.75]"] * N, dtype=object)),
        PLACE,
        lambda: value(
            build(propensity=run(PLACE, values=["[0.25, 0.75]"] * N, codes=CODE))
        ),
    ),
    "propensities as dictionaries": (
        lambda: framed(FRAME.assign(p=[{"a": 0.25, "b": 0.75}] * N), propensity="p"),
        "[one[action] for one, action in zip(values, actions)]",
        lambda: run(
            "[one[action] for one, action in zip(values, actions)]",
            values=[{"a": 0.25, "b": 0.75}] * N,
            actions=A,
        ),
    ),
    "probabilities as JSON": (
        lambda: framed(FRAME.assign(w=JSON), logging_proba="w"),
        SPREAD,
        columns_of_json,
    ),
    "probabilities as a list of one JSON": (
        lambda: framed(FRAME.assign(w=JSON), logging_proba=["w"]),
        SPREAD,
        columns_of_json,
    ),
    "rewards by action in a dictionary": (
        lambda: framed(TABLE, reward={"a": "ra", "b": "rb"}),
        COLUMNS,
        lambda: one_reward(run(f"{PLACES}; {ASSIGN}", frame=TABLE, action="a")),
    ),
    "rewards by action in a list": (
        lambda: framed(TABLE, reward=["ra", "rb"]),
        COLUMNS.replace("['a', 'b'].index", "labels.index"),
        lambda: one_reward(run(f"{PLACES}; {ASSIGN}", frame=TABLE, action="a")),
    ),
    "rewards by action in a list, of a source": (
        lambda: ope.scan_logs(TABLE, action="a", reward=["ra", "rb"]),
        COLUMNS.replace("['a', 'b']", "labels").replace(
            "to the frame", "to the source"
        ),
        lambda: one_reward(run(f"{PLACES}; {ASSIGN}", frame=TABLE, action="a")),
    ),
    "an array as a column": (
        lambda: framed(FRAME, propensity=P),
        "frame.assign(p=...), and pass 'p'",
        lambda: value(framed(FRAME.assign(p=P), propensity="p")),
    ),
    "a name as the context": (
        lambda: framed(FRAME, context="x"),
        "Use ['x']",
        lambda: framed(FRAME, context=["x"]),
    ),
    "no word on the context": (
        lambda: framed(FRAME, context=None),
        "the columns to leave out with exclude",
        lambda: value(framed(FRAME, context=None, exclude=[], propensity="p")),
    ),
    # -- policies
    "action_dist of obp": (
        lambda: value(LOGS, HALVES[:, :, None]),
        "[:, :, 0]",
        lambda: value(LOGS, HALVES[:, :, None][:, :, 0]),
    ),
    "a list as action_dist": (
        lambda: value(LOGS, HALVES[:, :, None].tolist()),
        "[:, :, 0]",
        lambda: value(LOGS, HALVES[:, :, None][:, :, 0].tolist()),
    ),
    "action_dist of several positions": (
        lambda: value(LOGS, np.full((N, 2, 3), 0.5)),
        "[np.arange(n_rounds), :, position]",
        lambda: value(
            LOGS,
            run(
                "proba[np.arange(n_rounds), :, position]",
                proba=np.full((N, 2, 3), 0.5),
                n_rounds=N,
                position=np.arange(N) % 3,
            ),
        ),
    ),
    "a function that gives action_dist": (
        lambda: value(LOGS, ope.FunctionPolicy(lambda X: np.full((len(X), 2, 1), 0.5))),
        "[:, :, 0]",
        lambda: value(LOGS, ope.FunctionPolicy(lambda X: np.full((len(X), 2), 0.5))),
    ),
    "codes as a policy": (
        lambda: value(LOGS, CODE),
        LABELS,
        lambda: value(LOGS, run(LABELS, labels=A[::-1], logs=LOGS)),
    ),
    "truth values as a policy": (
        lambda: value(LOGS, (A == "b").astype(object)),
        LABELS,
        lambda: value(LOGS, run(LABELS, labels=A[::-1], logs=LOGS)),
    ),
    "a classifier as a policy": (
        lambda: value(LOGS, LogisticRegression()),
        "ClassifierPolicy(LogisticRegression()).fit(logs)",
        lambda: value(
            LOGS,
            run(
                "ClassifierPolicy(LogisticRegression()).fit(logs)",
                logs=LOGS,
                ClassifierPolicy=ope.ClassifierPolicy,
                LogisticRegression=LogisticRegression,
            ),
        ),
    ),
    "a fitted classifier": (
        lambda: value(LOGS, CLASSIFIER),
        "ClassifierPolicy(FrozenEstimator(clf)).fit(logs)",
        lambda: value(
            LOGS, ope.ClassifierPolicy(FrozenEstimator(CLASSIFIER)).fit(LOGS)
        ),
    ),
    "a function as a policy": (
        lambda: value(LOGS, lambda X: HALVES),
        "FunctionPolicy(func)",
        lambda: value(LOGS, ope.FunctionPolicy(lambda X: HALVES)),
    ),
    "a class as a policy": (
        lambda: value(LOGS, UniformPolicy),
        "make an instance",
        lambda: value(LOGS, UniformPolicy()),
    ),
    "an array of other rows": (
        lambda: value(LOGS[:50], HALVES),
        "logs.with_columns(name=...) and pass the column's name",
        lambda: value(LOGS.with_columns(name=HALVES)[:50], "name"),
    ),
    "one label of all rows": (
        lambda: value(LOGS, ope.FunctionPolicy(lambda X: "a")),
        "np.full(len(X), 'a')",
        lambda: value(LOGS, ope.FunctionPolicy(lambda X: np.full(len(X), "a"))),
    ),
    "one probability of a row": (
        lambda: value(LOGS, ope.FunctionPolicy(lambda X: np.full(len(X), 0.5))),
        "np.column_stack([1 - p, p])",
        lambda: value(
            LOGS,
            ope.FunctionPolicy(
                lambda X: run("np.column_stack([1 - p, p])", p=np.full(len(X), 0.5))
            ),
        ),
    ),
    "an unknown action": (
        lambda: value(LOGS, ope.ConstantPolicy("c")),
        "actions=[...] when building the logs",
        lambda: value(
            build(actions=["a", "b", "c"]),
            policies_of.MixturePolicy([POLICY, ope.ConstantPolicy("c")], [0.9, 0.1]),
        ),
    ),
    "a policy that learns": (
        lambda: value(LOGS, LEARNING),
        "Use DRns, RejectionSampling or Replay",
        lambda: [
            value(LOGS, LEARNING, one)
            for one in (
                ope.DRns(reward_model=0.5),
                ope.RejectionSampling(),
                ope.Replay(),
            )
        ],
    ),
    "a policy that learns, as it is now": (
        lambda: value(LOGS, LEARNING),
        "policy.frozen()",
        lambda: value(LOGS, policies_of.EpsilonGreedy().fit(LOGS).frozen()),
    ),
    "a policy that has not begun is no frozen one": (
        lambda: policies_of.LinUCB().frozen(),
        "Call 'fit'",
        lambda: value(LOGS, policies_of.LinUCB().fit(LOGS).frozen()),
    ),
    "texts of LinUCB": (
        lambda: value(build(context=FRAME[["a"]]), policies_of.LinUCB(), ope.Replay()),
        "LinUCB(features=FrozenEstimator(ContextEncoder().fit(earlier)))",
        lambda: value(
            build(context=FRAME[["a"]]),
            policies_of.LinUCB(
                features=FrozenEstimator(ope.ContextEncoder().fit(FRAME[["a"]]))
            ),
            ope.Replay(),
        ),
    ),
    "negative rewards": (
        lambda: ope.ClassifierPolicy().fit(build(reward=-R)),
        "Use IPSPolicy",
        lambda: value(LOGS, ope.IPSPolicy().fit(build(reward=-R))),
    ),
    "sparse contexts with gaps": (
        lambda: ope.SoftmaxPolicy().fit(
            build(context=sparse.csr_matrix(with_entry(X, (3, 0), np.nan)))
        ),
        "features=make_pipeline(SimpleImputer(), MaxAbsScaler())",
        lambda: ope.SoftmaxPolicy(
            features=make_pipeline(SimpleImputer(), MaxAbsScaler())
        ).fit(build(context=sparse.csr_matrix(with_entry(X, (3, 0), np.nan)))),
    ),
    # -- evaluators and searches
    "a logger that is not uniform": (
        lambda: value(build(propensity=0.7), POLICY, ope.Replay()),
        "Use RejectionSampling or DRns",
        lambda: [
            value(build(propensity=0.7), POLICY, one)
            for one in (ope.RejectionSampling(), ope.DRns(reward_model=0.5))
        ],
    ),
    "weights of a history": (
        lambda: value(build(sample_weight=1 + R), POLICY, ope.DRns(reward_model=0.5)),
        "Use a static evaluator",
        lambda: value(build(sample_weight=1 + R), POLICY, IPS()),
    ),
    "an interval that needs a range": (
        lambda: ranged(None),
        "build the logs with reward_range=(low, high)",
        lambda: ranged((0, 50)),
    ),
    "a sensitivity of another value": (
        lambda: IPS().fit(LOGS).evaluate(POLICY).sensitivity(),
        "Use SNIPS().fit(logs).evaluate(policy)",
        lambda: ope.SNIPS().fit(LOGS).evaluate(POLICY).sensitivity(),
    ),
    "a jackknife without groups": (
        lambda: interval(LOGS, method="jackknife"),
        "Give the logs their group=..., or use 'student'",
        lambda: [
            interval(build(group=np.arange(N) % 30), method="jackknife"),
            interval(LOGS, method="student"),
        ],
    ),
    "too few resamples": (
        lambda: interval(LOGS, method="bootstrap", n_resamples=5),
        "Use at least 40",
        lambda: interval(LOGS, method="bootstrap", n_resamples=40),
    ),
    "losses where rewards are smoothed": (
        lambda: value(build(reward=-R), POLICY, ope.evaluators.LogSmoothing()),
        "Pass reward_range=(low, high) to the logs",
        lambda: value(
            build(reward=-R, reward_range=(-1, 0)),
            POLICY,
            ope.evaluators.LogSmoothing(),
        ),
    ),
    "a model that is fitted anew": (
        lambda: value(LOGS, POLICY, ope.evaluators.MRDR(reward_model=0.5)),
        "Pass an unfitted model, or use DoublyRobust",
        lambda: [
            value(LOGS, POLICY, ope.evaluators.MRDR(reward_model=Ridge())),
            value(LOGS, POLICY, ope.DoublyRobust(reward_model=0.5)),
        ],
    ),
    "what several loggers would have done": (
        lambda: value(TWO_LOGGERS, POLICY, ope.MultiLoggerIPS(pooling="balanced")),
        "compute it with logs.with_logger_policies({name: policy})",
        lambda: value(
            TWO_LOGGERS.with_logger_policies({0: POLICY, 1: POLICY}),
            POLICY,
            ope.MultiLoggerIPS(pooling="balanced"),
        ),
    ),
    "a classifier without probabilities as a model": (
        lambda: value(LOGS, POLICY, ope.DirectMethod(reward_model=LinearSVC())),
        "Use CalibratedClassifierCV around it",
        lambda: value(
            LOGS,
            POLICY,
            ope.DirectMethod(reward_model=CalibratedClassifierCV(LinearSVC())),
        ),
    ),
    "a temperature without probabilities": (
        lambda: (
            ope.ClassifierPolicy(LinearSVC(), temperature=1.0)
            .fit(LOGS)
            .predict_proba(X)
        ),
        "Use temperature=None",
        lambda: value(LOGS, ope.ClassifierPolicy(LinearSVC()).fit(LOGS)),
    ),
    "a mixture with a policy that learns": (
        lambda: value(LOGS, mixed(LEARNING)),
        "Mix policy.frozen()",
        lambda: value(LOGS, mixed(policies_of.EpsilonGreedy().fit(LOGS).frozen())),
    ),
    "a list of policies": (
        lambda: ope.evaluate([POLICY, POLICY], LOGS),
        "evaluate({'a': ..., 'b': ...}, logs)",
        lambda: ope.evaluate({"a": POLICY, "b": POLICY}, LOGS),
    ),
    "a classifier of other rewards": (
        lambda: ope.DirectMethod(reward_model=LogisticRegression()).fit(
            build(reward=2 * R)
        ),
        "Use a regressor",
        lambda: value(
            build(reward=2 * R), POLICY, ope.DirectMethod(reward_model=Ridge())
        ),
    ),
    "features of actions": (
        lambda: ope.DirectMethod(
            reward_model=ope.ActionRewardModel(Ridge(), encoding="action_context")
        ).fit(LOGS),
        "Use encoding='one_hot'",
        lambda: value(
            LOGS,
            POLICY,
            ope.DirectMethod(
                reward_model=ope.ActionRewardModel(Ridge(), encoding="one_hot")
            ),
        ),
    ),
    "an array as a model of other logs": (
        lambda: ope.DirectMethod(reward_model=HALVES).fit(LOGS).score(POLICY, LOGS[:9]),
        "logs.with_columns(q_hat=...), reward_model='q_hat'",
        lambda: (
            ope.DirectMethod(reward_model="q_hat")
            .fit(LOGS.with_columns(q_hat=HALVES))
            .score(POLICY, LOGS.with_columns(q_hat=HALVES)[:9])
        ),
    ),
    "folds of groups": (
        lambda: ope.DirectMethod(reward_model=Ridge(), cv=GroupKFold(3)).fit(LOGS),
        "Build them with group=...",
        lambda: value(
            build(group=np.arange(N) % 9),
            POLICY,
            ope.DirectMethod(reward_model=Ridge(), cv=GroupKFold(3)),
        ),
    ),
    "a search over evaluators": (
        lambda: GridSearchCV(IPS(), {}).fit(LOGS),
        "no scoring is specified",
        lambda: searched(IPS(), ope.EvaluatorScorer(POLICY)),
    ),
    "logs as a policy": (
        lambda: IPS().fit(LOGS).score(LOGS),
        "scoring=EvaluatorScorer(policy)",
        lambda: searched(IPS(), ope.EvaluatorScorer(POLICY)),
    ),
    "a policy that scores itself": (
        lambda: ope.IPSPolicy().fit(LOGS).score(LOGS),
        "scoring=PolicyScorer(evaluator)",
        lambda: searched(ope.IPSPolicy(), ope.PolicyScorer(IPS())),
    ),
    "arrays as logs": (
        lambda: IPS().fit(X),
        "BanditLogs(context, action, reward, propensity)",
        lambda: value(BanditLogs(X, A, R, P)),
    ),
    "arguments in another order": (
        lambda: ope.evaluate(LOGS, POLICY),
        "evaluate(policies, logs)",
        lambda: ope.evaluate(POLICY, LOGS),
    ),
    "policies of loggers": (
        lambda: LOGS.with_logger_policies({0: POLICY}),
        "logger=..., the label of the logger of every round",
        lambda: TWO_LOGGERS.with_logger_policies({0: POLICY, 1: POLICY}),
    ),
    "a logger without a policy": (
        lambda: TWO_LOGGERS.with_logger_policies({0: POLICY}),
        "policies needs exactly the loggers [0, 1]",
        lambda: TWO_LOGGERS.with_logger_policies({0: POLICY, 1: POLICY}),
    ),
    "logs that lack a field": (
        lambda: ope.concat([LOGS, build(propensity=None)]),
        "Give it to all logs, or leave it out of all",
        lambda: value(ope.concat([LOGS, build()])),
    ),
    "ranges that differ": (
        lambda: ope.concat([LOGS, build(reward_range=(0, 1))]),
        "Give all logs the range that holds for all rewards",
        lambda: ope.concat([build(reward_range=(0, 1)), build(reward_range=(0, 1))]),
    ),
    # -- slates
    "pages of other lengths": (
        lambda: pages(slate=[[0, 1], [1], [0, 1], [0, 1]]),
        "Fill shorter slates with -1",
        lambda: pages(slate=[[0, 1], [1, -1], [0, 1], [0, 1]]),
    ),
    "labels in slates": (
        lambda: pages(slate=[["u", "v"]] * 4),
        "labels go to SlateLogs.from_frame",
        lambda: SlateLogs.from_frame(
            pandas.DataFrame({"s1": ["u", "v"], "s2": ["v", "u"], "r": [0.0, 1.0]}),
            item=["s1", "s2"],
            reward="r",
            context=[],
        ),
    ),
    "rewards of slots": (
        lambda: pages(reward=np.ones((4, 2))),
        "Rewards of slots are slot_reward",
        lambda: pages(reward=None, slot_reward=np.ones((4, 2))),
    ),
    "no logging policy": (
        lambda: value(pages(), UNIFORM, ope.PseudoInverse()),
        "logging_policy=... to SlateLogs or logs.replace: UniformSlatePolicy",
        lambda: value(pages().replace(**DRAWN), UNIFORM, ope.PseudoInverse()),
    ),
    "no rewards of slots": (
        lambda: value(pages(**DRAWN), UNIFORM, ope.IndependentSlotIPS()),
        "Pass slot_reward=... of shape (n_rounds, n_slots)",
        lambda: value(
            pages(reward=None, slot_reward=np.ones((4, 2)), **DRAWN),
            UNIFORM,
            ope.IndependentSlotIPS(),
        ),
    ),
    # -- dictionaries of obp
    "obp without a context": (
        lambda: from_obp(FEEDBACK | {"context": None}),
        "['context'] is None. Without features it is np.empty((n_rounds, 0))",
        lambda: value(
            from_obp(
                FEEDBACK | {"context": run("np.empty((n_rounds, 0))", n_rounds=N)}
            ),
        ),
    ),
    "obp without the key of the context": (
        lambda: from_obp(FEEDBACK),
        "has no 'context'; it has 'n_rounds', 'n_actions', 'action', 'reward', "
        "'pscore'. Without features it is np.empty((n_rounds, 0))",
        lambda: value(from_obp(FEEDBACK | {"context": np.empty((N, 0))})),
    ),
    "obp without rewards": (
        lambda: from_obp(FEEDBACK | {"context": X, "reward": None}),
        "['reward'] is None. Fill it in",
        lambda: value(from_obp(FEEDBACK | {"context": X})),
    ),
}


@pytest.mark.parametrize(("wrong", "words", "step"), CASES.values(), ids=CASES)
def test_the_step_arrives(wrong, words, step):
    with pytest.raises((ValueError, TypeError, AttributeError)) as info:
        wrong()
    assert words in str(info.value)
    step()
