# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Every kind of bad input raises, and the message names field, row and remedy."""

import numpy as np
import pytest
from scipy import sparse
from sklearn.base import BaseEstimator
from sklearn.exceptions import NotFittedError
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.model_selection import GridSearchCV, KFold, TimeSeriesSplit
from sklearn.neighbors import KNeighborsRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from skope_ope import (
    IPS,
    MRDR,
    SNIPS,
    ActionRewardModel,
    BanditLogs,
    ClassifierPolicy,
    ConstantPolicy,
    DirectMethod,
    DoublyRobust,
    FunctionPolicy,
    LogSmoothing,
    MixturePolicy,
    PropensityClipper,
    PropensityEstimator,
    UniformPolicy,
    evaluate,
)
from skope_ope.exceptions import ModelErrorWarning
from skope_ope.utils import all_evaluators

pytestmark = pytest.mark.filterwarnings("ignore::skope_ope.exceptions.OPEWarning")

N = 12
LABELS = np.array(["a", "b", "c"])
CODES = np.arange(N) % 3
MU = np.tile([0.5, 0.3, 0.2], (N, 1))
PI = np.tile([0.2, 0.3, 0.5], (N, 1))
X = np.random.RandomState(0).normal(size=(N, 2))
Q = np.random.RandomState(1).random_sample((N, 3))
FIELDS = {
    "context": X,
    "action": LABELS[CODES],
    "reward": np.arange(N) / 4.0,
    "propensity": MU[np.arange(N), CODES],
    "logging_proba": MU,
    "logger": np.array(["old", "new"] * 6),
    "logger_proba": np.full((N, 2), MU[np.arange(N), CODES][:, None]),
    "available": np.ones((N, 3), dtype=bool),
    "action_context": np.ones((3, 2)),
    "timestamp": np.arange(N),
    "group": np.arange(N) // 2,
    "sample_weight": np.ones(N),
}
for _values in (*FIELDS.values(), MU, PI, X, Q):
    _values.flags.writeable = False


def build(**fields):
    """Logs of the four main fields and of those given, which may be bad."""
    main = ("context", "action", "reward", "propensity")
    if "logger_proba" in fields:
        fields = {"logger": FIELDS["logger"], **fields}
    return BanditLogs(**{**{name: FIELDS[name] for name in main}, **fields})


def put(values, key, value):
    out = np.array(values)
    if not np.can_cast(np.min_scalar_type(value), out.dtype) or value is None:
        out = out.astype(object if out.dtype.kind == "U" else float)
    out[key] = value
    return out


LOGS = build()


def test_the_fields_are_good():
    logs = BanditLogs(**FIELDS)
    assert IPS().fit(logs).evaluate(PI).n_rounds == N


# -- lengths --------------------------------------------------------------------------
@pytest.mark.parametrize("name", FIELDS)
def test_lengths_that_differ(name):
    short = FIELDS[name][:-1]
    match = {
        "action": "context has 12 rows, action has 11: all fields",
        "logging_proba": r"logging_proba must have shape \(12, 3\).*got \(11, 3\)",
        "available": r"available must have shape \(12, 3\), got \(11, 3\)",
        "action_context": r"action_context must have shape \(3,\).*got \(2, 2\)",
    }.get(name, f"{name} has 11 rows, action has 12: all fields .* one entry per round")
    with pytest.raises(ValueError, match=match):
        build(**{name: short})


@pytest.mark.parametrize(
    ("call", "match"),
    [
        (
            lambda: IPS().fit(LOGS).evaluate(PI[:5]),
            r"\(5, 3\).*12 rounds.*with_columns",
        ),
        (lambda: IPS().fit(LOGS).evaluate(PI[:5, 0]), r"\(5,\).*12 rounds"),
        (lambda: evaluate(PI[:5], LOGS), r"policy has shape \(5, 3\).*12 rounds"),
        (lambda: DoublyRobust().fit(LOGS, Q[:5]), r"shape \(12, 3\).*got \(5, 3\)"),
        (
            lambda: IPS().fit(LOGS).evaluate(PI, sample_weight=np.ones(5)),
            "sample_weight has 5 rows, the log has 12",
        ),
        (
            lambda: LOGS.with_columns(pi=PI[:5]),
            r"column 'pi' must have one entry per round \(12\), got shape \(5, 3\)",
        ),
        (
            lambda: IPS().fit(LOGS).evaluate(PI).by(np.ones(5)),
            r"key must have one label per round \(12\), got 5",
        ),
    ],
    ids=["policy", "logged", "evaluate", "q_hat", "sample_weight", "column", "by"],
)
def test_arrays_for_other_rounds(call, match):
    with pytest.raises(ValueError, match=match):
        call()


# -- empty ----------------------------------------------------------------------------
@pytest.mark.parametrize(
    "call",
    [
        lambda: BanditLogs(np.empty((0, 2)), [], [], []),
        lambda: IPS().fit(LOGS[:0]),
        lambda: DirectMethod().fit(LOGS[:0]),
        lambda: IPS().fit(LOGS).evaluate(UniformPolicy(), LOGS[:0]),
        lambda: DoublyRobust().fit(LOGS).evaluate(UniformPolicy(), LOGS[:0]),
        lambda: evaluate(UniformPolicy(), LOGS[:0]),
        lambda: ActionRewardModel(Ridge()).fit(LOGS[:0]),
    ],
    ids=["build", "IPS", "DM", "other logs", "DR on other logs", "evaluate", "model"],
)
def test_empty_logs(call):
    with pytest.raises(ValueError, match="the logs are empty"):
        call()


def test_nothing_to_learn_or_to_evaluate():
    with pytest.raises(ValueError, match="no row of the logs has a positive reward"):
        ClassifierPolicy().fit(LOGS[:0])
    with pytest.raises(ValueError, match=r"at least two rounds .* got 0 rounds"):
        PropensityEstimator().fit(LOGS[:0])
    with pytest.raises(ValueError, match="policies is empty; name at least one"):
        evaluate({}, LOGS)
    with pytest.raises(ValueError, match="evaluators is empty; name at least one"):
        evaluate(PI, LOGS, evaluators=[])


# -- NaN and infinity -----------------------------------------------------------------
BAD_NUMBERS = [np.nan, np.inf, -np.inf]


@pytest.mark.parametrize("bad", BAD_NUMBERS, ids=str)
@pytest.mark.parametrize(
    "name",
    ["reward", "propensity", "logging_proba", "logger_proba", "sample_weight"],
)
def test_numbers_that_are_not_finite(name, bad):
    values = put(FIELDS[name], 3, bad)
    with pytest.raises(ValueError, match=f"{name} must be finite, got {bad} at row 3"):
        build(**{name: values})


@pytest.mark.parametrize("bad", BAD_NUMBERS, ids=str)
def test_other_fields_that_are_not_finite(bad):
    with pytest.raises(ValueError, match=f"action_context must be finite, got {bad}"):
        build(action_context=put(FIELDS["action_context"], (1, 1), bad))
    word = "missing" if np.isnan(bad) else "infinite"
    with pytest.raises(ValueError, match=f"timestamp is {word} at row 3"):
        build(timestamp=put(FIELDS["timestamp"], 3, bad))
    for name in ("group", "action", "logger"):
        with pytest.raises(ValueError, match=rf"{name} has a missing label .* row 3"):
            build(**{name: put(CODES, 3, bad)})


@pytest.mark.parametrize("name", ["action", "group", "logger"])
def test_missing_labels(name):
    with pytest.raises(
        ValueError, match=rf"{name} has a missing label \(None\) at row"
    ):
        build(**{name: put(LABELS[CODES], 3, None)})


def test_missing_times():
    days = np.arange(N).astype("M8[D]")
    with pytest.raises(ValueError, match=r"timestamp is missing at row 5 \(1 such"):
        build(timestamp=put(days, 5, np.datetime64("NaT")))


@pytest.mark.parametrize("bad", BAD_NUMBERS, ids=str)
@pytest.mark.parametrize("evaluator", [IPS(), SNIPS(), DirectMethod()], ids=repr)
def test_policies_that_are_not_finite(evaluator, bad):
    wrong = put(PI, (3, 1), bad)  # at a logged action, and at one that was not
    other = put(PI, (3, 2), bad)
    match = f"policy must (sum to 1|not be negative).*got {bad} at row 3"
    for pi in (wrong, other):
        fitted = evaluator.fit(LOGS.with_columns(pi=pi))
        for policy in (pi, "pi", FunctionPolicy(lambda X, pi=pi: pi)):
            with pytest.raises(ValueError, match=match):
                fitted.evaluate(policy)


@pytest.mark.parametrize("bad", BAD_NUMBERS, ids=str)
def test_probabilities_of_logged_actions_that_are_not_finite(bad):
    with pytest.raises(ValueError, match=rf"in \[0, 1\], got {bad} at row 3"):
        IPS().fit(LOGS).evaluate(put(PI[:, 0], 3, bad))


class Constant(BaseEstimator):
    """A fitted model that predicts a number for all of three actions."""

    def __init__(self, number):
        self.number = number
        self.fitted_ = True

    def fit(self, X, y=None):
        return self

    def predict(self, X):
        return np.full((len(X), 3), self.number)


@pytest.mark.parametrize("bad", BAD_NUMBERS, ids=str)
def test_models_that_are_not_finite(bad):
    never = np.tile([1.0, 0.0, 0.0], (N, 1))  # even where the policy never goes
    wrong = put(Q, (3, 1), bad)
    columns = LOGS.with_columns(q_hat=wrong)
    for evaluator, logs, model in (
        (DoublyRobust(), LOGS, wrong),
        (DirectMethod(), LOGS, wrong),
        (DoublyRobust(reward_model="q_hat"), columns, None),
    ):
        with pytest.raises(ValueError, match="reward_model") as info:
            evaluator.fit(logs, model).evaluate(never)
        assert f"must be finite, got {bad} at row 3" in str(info.value)
    with pytest.raises(ValueError, match=f"finite number, got {bad}"):
        DoublyRobust().fit(LOGS, bad)
    with pytest.raises(ValueError, match="reward_model must be finite"):
        DoublyRobust().fit(LOGS, FrozenEstimator(Constant(bad))).evaluate(PI)


@pytest.mark.parametrize("bad", BAD_NUMBERS, ids=str)
def test_weights_of_an_evaluation_that_are_not_finite(bad):
    with pytest.raises(ValueError, match=f"sample_weight must be finite, got {bad}"):
        IPS().fit(LOGS).evaluate(PI, sample_weight=put(np.ones(N), 3, bad))


@pytest.mark.parametrize("bad", BAD_NUMBERS, ids=str)
def test_contexts_are_the_business_of_who_uses_them(bad):
    logs = build(context=put(X, (3, 1), bad))
    assert np.isfinite(IPS().fit(logs).score(PI))  # IPS does not
    word = "NaN" if np.isnan(bad) else "infinity"
    with pytest.raises(ValueError, match=f"contains {word}") as info:
        DoublyRobust(reward_model=Ridge(), cv=2).fit(logs)
    assert "reward model of action 'a'" in info.value.__notes__[0]
    with pytest.raises(ValueError, match=f"contains {word}"):
        ClassifierPolicy(LogisticRegression()).fit(logs)
    if np.isnan(bad):  # the default fills them
        ClassifierPolicy().fit(logs)


def test_masked_arrays():
    masked = np.ma.masked_array(FIELDS["reward"], mask=np.arange(N) == 4)
    with pytest.raises(ValueError, match="reward is masked at row 4: drop these rows"):
        build(reward=masked)
    assert build(reward=np.ma.masked_array(FIELDS["reward"])).reward[4] == 1


# -- propensities ---------------------------------------------------------------------
@pytest.mark.parametrize(
    ("value", "match"),
    [
        (0.0, r"got 0 at row 3 \(1 such rows\)\. A round with propensity 0 cannot"),
        (-0.1, r"got -0\.1 at row 3 .*PropensityEstimator"),
        (1.1, r"got 1\.1 at row 3 .* not its inverse and not a percentage"),
        (5e-324, r"got 4\.94.*e-324 at row 3 .*Such a small probability"),
        (1 + 1e-6, r"got 1\.000001 at row 3"),
    ],
)
def test_propensities_out_of_range(value, match):
    with pytest.raises(ValueError, match=r"propensity must lie in \(0, 1\], " + match):
        build(propensity=put(FIELDS["propensity"], 3, value))
    if value > 0:
        assert build(propensity=np.full(N, 1 + 1e-12)).propensity.max() > 1


def test_propensities_of_loggers_out_of_range():
    for value in (-0.1, 1.1):
        with pytest.raises(ValueError, match=f"got {value} at row 3, logger 'old'"):
            build(logger_proba=put(FIELDS["logger_proba"], (3, 1), value))
    zero = put(FIELDS["logger_proba"], (2, 1), 0.0)
    with pytest.raises(ValueError, match="logger_proba is 0 at row 2"):
        build(logger_proba=zero, propensity=None)


def test_propensities_that_contradict_the_distribution():
    with pytest.raises(
        ValueError, match=r"0\.5 at row 0 contradicts logging_proba.*0\.2"
    ):
        build(logging_proba=MU[:, ::-1])
    with pytest.raises(ValueError, match="at row 0 contradicts logger_proba"):
        build(logger_proba=0.5 * FIELDS["logger_proba"])


@pytest.mark.parametrize(
    ("name", "cls"),
    [(name, cls) for name, cls in all_evaluators() if BanditLogs in cls._log_kinds],
)
def test_propensities_that_are_missing(name, cls):
    unknown = build(propensity=None)
    if name in ("DirectMethod", "ExplorationScavenging", "Replay"):
        assert np.isfinite(cls().fit(unknown).score(PI))
        return
    match = f"{name} needs the propensities .*PropensityEstimator, or use DirectMethod"
    with pytest.raises(ValueError, match=match):
        cls().fit(unknown)
    with pytest.raises(ValueError, match=match):
        cls().fit(LOGS).evaluate(UniformPolicy(), unknown)
    with pytest.raises(ValueError, match=match):
        evaluate(PI, unknown, evaluators=name)


def test_propensities_to_clip_that_are_missing():
    with pytest.raises(ValueError, match="Put PropensityEstimator in front of it"):
        PropensityClipper(low=0.1).fit(build(propensity=None))


# -- distributions --------------------------------------------------------------------
OFFERED = np.ones((N, 3), dtype=bool)
OFFERED[4, 2] = False  # b was logged there

DISTRIBUTIONS = {
    "sum": (0.9 * PI, r"must sum to 1 over the actions, got 0\.9 at row 0 \(12 such"),
    "one sum": (put(PI, (3, 0), 0.21), r"got 1\.01 at row 3 \(1 such.*Normalise"),
    "negative": (
        put(put(PI, (3, 1), -0.1), (3, 2), 0.9),
        r"must not be negative, got -0\.1 at row 3, column 1\. Clip",
    ),
    "not offered": (PI, r"0\.5 to action 2 at row 4, where it is not available.*Renor"),
}


@pytest.mark.parametrize("case", DISTRIBUTIONS)
def test_distributions_of_the_logger(case):
    proba, match = DISTRIBUTIONS[case]
    available = OFFERED if case == "not offered" else None
    with pytest.raises(ValueError, match=f"logging_proba .*{match}"):
        build(logging_proba=proba, propensity=None, available=available)


@pytest.mark.parametrize("case", DISTRIBUTIONS)
@pytest.mark.parametrize("evaluator", [IPS(), DirectMethod()], ids=repr)
def test_distributions_of_the_policy(case, evaluator):
    proba, match = DISTRIBUTIONS[case]
    available = OFFERED if case == "not offered" else None
    logs = build(available=available).with_columns(pi=proba)
    for policy in (proba, "pi", proba.tolist()):
        with pytest.raises(ValueError, match=f"policy .*{match}"):
            evaluator.fit(logs).evaluate(policy)
    if available is None:  # over offers, functions are renormalised
        with pytest.raises(ValueError, match=f"policy .*{match}"):
            evaluator.fit(logs).evaluate(FunctionPolicy(lambda X: proba))


def test_offers():
    with pytest.raises(
        ValueError, match=r"'b' was logged at row 4, where it is not `av"
    ):
        build(available=put(OFFERED, (4, 1), False))
    logs = build(available=OFFERED)
    for policy in (ConstantPolicy("c"), ConstantPolicy("c").fit(logs)):
        with pytest.raises(ValueError, match="at row 4"):
            IPS().fit(logs).evaluate(policy)


@pytest.mark.parametrize("value", [-0.5, 1.5])
def test_probabilities_of_logged_actions_out_of_range(value):
    with pytest.raises(ValueError, match=rf"in \[0, 1\], got {value} at row 3"):
        SNIPS().fit(LOGS).evaluate(put(PI[:, 0], 3, value))


# -- policies -------------------------------------------------------------------------
CLASSIFIER = LogisticRegression().fit(X, LABELS[CODES])
STRANGER = LogisticRegression().fit(X, np.array(["a", "b", "z"])[CODES])
SOFT = ClassifierPolicy(LogisticRegression(), temperature=1.0)


def test_labels_that_the_logs_do_not_know():
    soft = SOFT.fit(X, np.array(["a", "b", "z"])[CODES])
    for policy in (soft, ConstantPolicy("z")):
        with pytest.raises(
            ValueError, match=r"do not know: \['z'\].*actions=\[\.\.\.\]"
        ):
            IPS().fit(LOGS).evaluate(policy)
    with pytest.raises(ValueError, match="'z' is not among the actions"):
        ConstantPolicy("z").fit(LOGS)
    named = build(actions=["a", "b", "c", "z"])  # the remedy
    assert np.isfinite(IPS().fit(named).score(soft))


@pytest.mark.parametrize(
    "classifier",
    [
        CLASSIFIER,
        LogisticRegression(),
        make_pipeline(StandardScaler(), LogisticRegression()).fit(X, LABELS[CODES]),
        GridSearchCV(LogisticRegression(), {"C": [1]}, cv=2).fit(X, LABELS[CODES]),
        FrozenEstimator(CLASSIFIER),
    ],
    ids=["fitted", "unfitted", "pipeline", "search", "frozen"],
)
@pytest.mark.parametrize(
    "call",
    [
        lambda policy: IPS().fit(LOGS).evaluate(policy),
        lambda policy: DirectMethod().fit(LOGS).score(policy),
        lambda policy: evaluate(policy, LOGS),
        lambda policy: evaluate({"mine": policy}, LOGS),
        lambda policy: IPS().fit(LOGS).evaluate(MixturePolicy([policy], [1.0])),
    ],
    ids=["evaluate", "score", "one call", "dict", "mixture"],
)
def test_bare_classifiers(classifier, call):
    with pytest.raises(TypeError, match=r"not a policy\. Wrap it: ClassifierPolicy"):
        call(classifier)


@pytest.mark.parametrize(
    ("policy", "match"),
    [
        (LOGS, r"a policy is expected, got BanditLogs.*\.fit\(logs\)"),
        (IPS(), "a policy is expected, got the evaluator IPS"),
        (UniformPolicy, "got the class UniformPolicy; make an instance"),
        (Ridge().fit(X, CODES), "needs predict_proba and classes_.*got Ridge"),
        (None, "needs predict_proba and classes_.*got NoneType"),
        (3, "needs predict_proba and classes_.*got int"),
        ({"a": 1.0}, "needs predict_proba and classes_.*got dict"),
        (lambda X: PI, r"FunctionPolicy\(func\)"),
    ],
    ids=["logs", "evaluator", "class", "regressor", "None", "int", "dict", "function"],
)
def test_what_is_no_policy(policy, match):
    with pytest.raises(TypeError, match=match):
        IPS().fit(LOGS).evaluate(policy)


def test_logs_as_policy():
    with pytest.raises(TypeError, match=r"scoring=EvaluatorScorer\(policy\)"):
        IPS().fit(LOGS).score(LOGS)
    with pytest.raises(TypeError, match=r"call is evaluate\(policies, logs\)"):
        evaluate(LOGS, UniformPolicy())
    with pytest.raises(
        TypeError, match=r"evaluate\(\{'a': \.\.\., 'b': \.\.\.\}, logs"
    ):
        evaluate([UniformPolicy(), SOFT], LOGS)


def test_columns_that_are_missing():
    with pytest.raises(
        ValueError, match=r"'pi' is not a column .* \['mu'\].*with_colu"
    ):
        IPS().fit(LOGS.with_columns(mu=MU)).evaluate("pi")
    with pytest.raises(ValueError, match=r"'q' is not a column .* \[\].*with_columns"):
        DoublyRobust(reward_model="q").fit(LOGS)


def test_features_that_differ():
    wide = np.column_stack([X, X])
    policy = ClassifierPolicy().fit(wide, LABELS[CODES])
    with pytest.raises(ValueError, match="fitted on 4 features, the logs have 2"):
        IPS().fit(LOGS).evaluate(policy)
    with pytest.raises(
        ValueError, match="the logs have 4 features, those of fit had 2"
    ):
        DoublyRobust().fit(LOGS).evaluate(UniformPolicy(), build(context=wide))
    pandas = pytest.importorskip("pandas")
    named = build(context=pandas.DataFrame(X, columns=["age", "hour"]))
    other = ClassifierPolicy().fit(
        pandas.DataFrame(X, columns=["hour", "size"]), LABELS[CODES]
    )
    with pytest.raises(ValueError, match="feature names") as info:
        IPS().fit(named).evaluate(other)
    assert "age" in str(info.value)


@pytest.mark.parametrize(
    "policy",
    [
        ClassifierPolicy(),
        MixturePolicy([UniformPolicy(), ClassifierPolicy()], [0.5, 0.5]),
        FrozenEstimator(ClassifierPolicy()),
        GridSearchCV(ClassifierPolicy(), {"epsilon": [0.0]}),
    ],
    ids=["policy", "in a mixture", "frozen", "search"],
)
def test_unfitted_policies(policy):
    with pytest.raises(NotFittedError, match="not fitted"):
        IPS().fit(LOGS).evaluate(policy)


def test_policies_whose_output_is_no_distribution():
    for wrong, match in (
        (PI[:, :2], r"shape \(12, 2\), expected \(12, 3\)"),
        (PI[:5], r"shape \(5, 3\), expected \(12, 3\)"),
        (None, "must hold numbers"),
    ):
        with pytest.raises((ValueError, TypeError), match=match):
            IPS().fit(LOGS).evaluate(FunctionPolicy(lambda X, wrong=wrong: wrong))
    for wrong in (PI.astype(complex), PI.astype(str), PI.astype(object)):
        with pytest.raises(TypeError, match=f"numbers, got .*{wrong.dtype}"):
            IPS().fit(LOGS).evaluate(FunctionPolicy(lambda X, wrong=wrong: wrong))


def test_actions_in_place_of_probabilities():
    taken = CLASSIFIER.predict(X)
    table = taken[:, None] == LOGS.actions
    assert IPS().fit(LOGS).score(taken) == IPS().fit(LOGS).score(table)
    wrong = np.where(taken == "a", "z", taken)
    with pytest.raises(ValueError, match="policy names 'z' at row"):
        IPS().fit(LOGS).evaluate(wrong)
    with pytest.raises(TypeError, match=r"actions, or .* floats"):
        IPS().fit(LOGS).evaluate((CODES == 0).astype(int))
    agrees = LABELS[CODES] == "a"  # what is meant by the probability of the logged
    assert IPS().fit(LOGS).score(agrees) == IPS().fit(LOGS).score(ConstantPolicy("a"))


# -- reward models and folds ----------------------------------------------------------
@pytest.mark.parametrize(
    ("model", "error", "match"),
    [
        (Q[1:, 0], ValueError, "one dimension with 11 entries.*12 rounds"),
        (Q[..., None], ValueError, r"must have shape \(12, 3\).*got \(12, 3, 1\)"),
        (Q.astype(str), TypeError, "reward_model must hold numbers, got dtype <U"),
        (Q.astype(object), TypeError, "must hold numbers, got dtype object.*dtype=flo"),
        (Q.astype(complex), TypeError, "reward_model must hold real numbers"),
        (Ridge, TypeError, "is the class Ridge; make an instance"),
        pytest.param(
            lambda X: Q,
            TypeError,
            "must be a scikit-learn model.*got function",
            id="function",
        ),
        ({"a": Q}, TypeError, "must be a scikit-learn model.*got dict"),
        (True, TypeError, "must be a scikit-learn model.*got bool"),
        (
            UniformPolicy(),
            TypeError,
            r"is the policy UniformPolicy.*evaluate\(policy\)",
        ),
        (StandardScaler(), ValueError, "implementing 'fit' and 'predict'"),
        (FrozenEstimator(Ridge()), NotFittedError, "Ridge instance is not fitted yet"),
    ],
    ids=repr,
)
def test_what_is_no_reward_model(model, error, match):
    with pytest.raises(error, match=match):
        DoublyRobust().fit(LOGS, model)


@pytest.mark.parametrize(
    "model", [Q, 0.5, "q", FrozenEstimator(Constant(1.0))], ids=repr
)
def test_mrdr_refits_its_model(model):
    with pytest.raises(
        ValueError, match=r"Pass an unfitted model, or use DoublyRobust"
    ):
        MRDR().fit(LOGS, model)


def test_a_fitted_model_of_one_action():
    for evaluator in (
        DoublyRobust(reward_model=Ridge().fit(X, CODES), cv="prefit"),
        DoublyRobust(reward_model=FrozenEstimator(Ridge().fit(X, CODES))),
    ):
        with pytest.raises(
            ValueError, match=r"every action.*got \(12,\).*ActionReward"
        ):
            evaluator.fit(LOGS).evaluate(PI)


def test_a_classifier_of_rewards_that_are_not_binary():
    for reward, match in (
        (FIELDS["reward"], r"0 or 1, got 1\.5 at row 0 .*Use a regressor"),
        (np.where(CODES == 0, 1.0, -1.0), "0 or 1, got -1 at row 1 .*Use a regressor"),
    ):
        evaluator = DoublyRobust(reward_model=LogisticRegression(), cv=2)
        with pytest.raises(ValueError, match=match):
            evaluator.fit(build(reward=reward))


def test_a_model_given_twice():
    with pytest.raises(ValueError, match="constructor and to fit; give it once"):
        DoublyRobust(reward_model=Ridge()).fit(LOGS, Ridge())


BINARY = build(reward=(np.arange(N) == 0).astype(float))


@pytest.mark.parametrize(
    ("reward", "model"),
    [
        (np.ones(N), LogisticRegression()),
        (np.zeros(N), LogisticRegression()),
        (np.full(N, 0.5), Ridge()),
        ((np.arange(N) == 0) * 1.0, LogisticRegression()),  # one class in most folds
    ],
    ids=["ones", "zeros", "constant", "one success"],
)
def test_constant_and_one_class_folds(reward, model):
    logs = build(reward=reward)
    result = DirectMethod(reward_model=model, cv=4).fit(logs).evaluate(PI)
    if np.ptp(reward) == 0:
        np.testing.assert_allclose(result.value, reward[0], rtol=1e-12)
        assert result.standard_error < 1e-15
    else:
        assert 0 <= result.value <= 1


def test_an_action_that_a_training_fold_lacks():
    once = put(CODES, 5, 0)
    once = np.where(once == 2, 0, once)
    once[7] = 2
    logs = build(action=LABELS[once])
    with pytest.warns(
        ModelErrorWarning, match=r"1 action.*\(\['c'\]; 1 in fold 1\)"
    ) as found:
        DirectMethod(reward_model=Ridge(), cv=3).fit(logs)
    assert found[0].message.value == 1


@pytest.mark.parametrize(
    ("cv", "match"),
    [
        (1, r"'cv' parameter of DoublyRobust must be an int in the range \[2"),
        (2.5, "'cv' parameter of DoublyRobust must be"),
        ("pre", "cv must be 'prefit', a number or folds, got 'pre'"),
        ("prefit", "cv='prefit' needs a fitted reward_model, got None"),
        ([(np.arange(N), np.arange(N))], "row 0 into the training and the test part"),
        ([(np.arange(N), np.arange(N, 20))], "cv names row 12, .* rows 0 to 11"),
        ([(np.arange(0), np.arange(4))], "no training round in fold 0"),
        ([1, 2], r"pairs \(train, test\), got 1"),
        (KFold(20), "n_splits=20 greater than the number of samples"),
    ],
    ids=str,
)
def test_folds_that_cannot_be(cv, match):
    with pytest.raises(ValueError, match=match):
        DoublyRobust(cv=cv).fit(LOGS)


def test_rounds_that_cannot_be_split():
    with pytest.raises(ValueError, match=r"at least two groups .* got 1 groups"):
        DoublyRobust().fit(build(group=np.zeros(N)))
    with pytest.raises(ValueError, match=r"at least two rounds .* got 1 rounds"):
        DoublyRobust().fit(LOGS[:1])
    result = DoublyRobust(cv=TimeSeriesSplit(2)).fit(LOGS).evaluate(PI)
    assert result.diagnostics["uncovered_rounds"] == 4  # counted, not silent


def test_too_few_rounds_for_a_model():
    model = KNeighborsRegressor(n_neighbors=5)
    with pytest.raises(ValueError, match="n_neighbors") as info:
        DoublyRobust(reward_model=model, cv=2).fit(LOGS).evaluate(PI)
    assert "encoding='one_hot'" in info.value.__notes__[0]


# -- kinds and dimensions -------------------------------------------------------------
NUMBERS = [
    "reward",
    "propensity",
    "logging_proba",
    "logger_proba",
    "sample_weight",
    "action_context",
]


@pytest.mark.parametrize("name", NUMBERS)
def test_texts_objects_and_complex_numbers(name):
    values = FIELDS[name]
    with pytest.raises(TypeError, match=rf"{name} must hold numbers, got dtype <U\d+"):
        build(**{name: values.astype(str)})
    for objects in (values.astype(object), np.full(values.shape, None)):
        with pytest.raises(TypeError, match=f"{name} .*dtype object .* dtype=float"):
            build(**{name: objects})
    with pytest.raises(TypeError, match=f"{name} must hold real numbers, got complex"):
        build(**{name: values.astype(complex)})
    with pytest.raises(
        TypeError, match=f"{name} must hold numbers, got dtype datetime"
    ):
        build(**{name: np.zeros(values.shape, dtype="M8[D]")})


@pytest.mark.parametrize("name", NUMBERS)
def test_wrong_dimensions_of_numbers(name):
    values = FIELDS[name]
    for wrong in (values[..., None], values[0]):
        if name == "action_context" and wrong.ndim == 3:
            continue  # features per round: tested with the lengths
        if name == "propensity" and not wrong.ndim:
            continue  # one number for all rounds
        with pytest.raises(ValueError, match=rf"{name} must have .* got"):
            build(**{name: wrong})
    if values.ndim == 1:
        with pytest.raises(ValueError, match=r"\(12, 1\). Flatten it with np\.ravel"):
            build(**{name: values[:, None]})
        if name != "propensity":
            with pytest.raises(ValueError, match=r"np\.full\(n_rounds, 0\.5\)"):
                build(**{name: 0.5})


@pytest.mark.parametrize("name", [*FIELDS])
def test_rows_of_uneven_length(name):
    with pytest.raises(ValueError, match=f"{name} is no rectangular array"):
        build(**{name: [[1.0], [1.0, 2.0]] * 6})


@pytest.mark.parametrize("name", ["action", "group", "logger"])
def test_wrong_labels(name):
    column = FIELDS[name][:, None]  # a column of groups is a table of them
    for wrong in (FIELDS[name][0], np.array(None), *([column] * (name != "group"))):
        with pytest.raises(ValueError, match=f"{name} must be 1-d"):
            build(**{name: wrong})
    with pytest.raises(TypeError, match=f"{name} must hold labels, got complex"):
        build(**{name: CODES * 1j})
    with pytest.raises(ValueError, match=r"the text 'item'\. from_frame takes names"):
        build(**{name: "item"})
    mixed = put(LABELS[CODES].astype(object), 3, 7)
    if name != "group":  # which needs no order
        with pytest.raises(
            TypeError, match=f"{name} mixes labels that cannot be order"
        ):
            build(**{name: mixed})


@pytest.mark.parametrize(
    ("actions", "match"),
    [
        (["a", "b"], r"action 'c' at row 2 is not among actions \['a', 'b'\]. Add it"),
        ([0, 1, 2], r"action 'a' at row 0 is not among actions \[0, 1, 2\]"),
        (["a", "b", "c", "c"], "actions must be distinct"),
        (["a", "b", "c", None], r"actions has a missing label \(None\)"),
        ([["a", "b", "c"]], "actions must be 1-d"),
    ],
    ids=str,
)
def test_wrong_sets_of_actions(actions, match):
    with pytest.raises(ValueError, match=match):
        build(actions=actions)


@pytest.mark.parametrize(
    ("context", "error", "match"),
    [
        (None, TypeError, "context must not be None"),
        (
            X[:, 0],
            ValueError,
            r"2-d .* got shape \(12,\). Reshape one feature with x.res",
        ),
        (X[..., None], ValueError, r"2-d .* got shape \(12, 2, 1\)"),
        (X.astype(str), TypeError, "real numbers, got dtype <U.*ColumnTransformer"),
        (X.astype(object), TypeError, "real numbers, got dtype object"),
        (X.astype(complex), TypeError, "real numbers, got dtype complex"),
        (
            sparse.csr_matrix(X * 1j),
            TypeError,
            "context must hold numbers, got complex",
        ),
        ({"x": X[:, 0]}, ValueError, "context must be 2-d"),
    ],
    ids=["None", "1-d", "3-d", "texts", "objects", "complex", "sparse", "dict"],
)
def test_wrong_contexts(context, error, match):
    with pytest.raises(error, match=match):
        build(context=context)


@pytest.mark.parametrize("dtype", [str, object, int, float, complex])
def test_offers_that_are_not_boolean(dtype):
    with pytest.raises(TypeError, match=r"available must be boolean.*\.astype\(bool\)"):
        build(available=FIELDS["available"].astype(dtype))


@pytest.mark.parametrize(
    "timestamp",
    [
        FIELDS["timestamp"].astype(str),
        FIELDS["timestamp"].astype(object),
        FIELDS["timestamp"].astype(complex),
        FIELDS["timestamp"][:, None],
    ],
    ids=["texts", "objects", "complex", "2-d"],
)
def test_wrong_times(timestamp):
    with pytest.raises(
        TypeError, match=r"timestamp must be 1-d and .*datetime64\[us\]"
    ):
        build(timestamp=timestamp)


@pytest.mark.parametrize(
    ("policy", "error", "match"),
    [
        (PI.astype(str), TypeError, "policy must hold numbers, got dtype <U"),
        (PI.astype(object), TypeError, "policy must hold numbers, got dtype object"),
        (PI.astype(complex), TypeError, "policy must hold real numbers, got complex"),
        (PI[..., None], ValueError, r"array of shape \(12, 3\), got \(12, 3, 1\)"),
        (
            PI[:, :1],
            ValueError,
            r"shape \(12, 1\), but the logs have 12 rounds and 3 act",
        ),
        (np.array(0.5), ValueError, r"array of shape \(12, 3\), got \(\)"),
        (
            [[0.5, 0.5, 0.0], [1.0, 0.0]] * 6,
            ValueError,
            "policy is no rectangular array",
        ),
    ],
    ids=["texts", "objects", "complex", "3-d", "one column", "0-d", "uneven"],
)
def test_wrong_arrays_for_a_policy(policy, error, match):
    with pytest.raises(error, match=match):
        IPS().fit(LOGS).evaluate(policy)


@pytest.mark.parametrize(
    ("weight", "error", "match"),
    [
        (np.ones(N).astype(str), TypeError, "sample_weight must hold numbers"),
        (np.ones((N, 1)), ValueError, r"sample_weight must have 1 dimension\(s\)"),
        (-np.ones(N), ValueError, "non-negative and positive somewhere"),
        (np.zeros(N), ValueError, "non-negative and positive somewhere"),
    ],
    ids=["texts", "2-d", "negative", "zero"],
)
def test_wrong_weights_of_an_evaluation(weight, error, match):
    with pytest.raises(error, match=match):
        IPS().fit(LOGS).evaluate(PI, sample_weight=weight)


def test_wrong_weights_of_the_logs():
    with pytest.raises(ValueError, match=r"not be negative, got -1 at row 2\. Use 1 /"):
        build(sample_weight=put(np.ones(N), 2, -1.0))
    with pytest.raises(ValueError, match="sample_weight is zero everywhere"):
        build(sample_weight=np.zeros(N))


@pytest.mark.parametrize("frames", ["pandas", "polars", "pyarrow"])
def test_frames_follow_the_names_of_their_columns(frames):
    module = pytest.importorskip(frames)
    make = module.table if frames == "pyarrow" else module.DataFrame
    fitted = IPS().fit(LOGS)

    def frame(values, names):
        return make(dict(zip(names, values.T, strict=True)))

    turned = frame(PI[:, ::-1], ["c", "b", "a"])
    assert fitted.score(turned) == fitted.score(PI)
    logs = build(logging_proba=frame(MU[:, ::-1], ["c", "b", "a"]))
    np.testing.assert_array_equal(logs.logging_proba, MU)
    offered = build(available=frame(OFFERED[:, ::-1], ["c", "b", "a"]))
    np.testing.assert_array_equal(offered.available, OFFERED)
    model = frame(Q[:, ::-1], ["c", "b", "a"])
    assert DirectMethod().fit(LOGS, model).score(PI) == (
        DirectMethod().fit(LOGS, Q).score(PI)
    )
    strange = frame(PI, ["c", "b", "x"])
    match = r"columns of {} are \['c', 'b', 'x'\], the actions are \['a', 'b', 'c'\]"
    with pytest.raises(ValueError, match=match.format("policy")):
        fitted.evaluate(strange)
    with pytest.raises(ValueError, match=match.format("logging_proba")):
        build(logging_proba=strange)
    with pytest.raises(ValueError, match=match.format("reward_model")):
        DoublyRobust().fit(LOGS, strange)


# -- logs and parameters --------------------------------------------------------------
@pytest.mark.parametrize("logs", [X, None, [LOGS, LOGS]], ids=["array", "None", "list"])
def test_what_are_no_logs(logs):
    with pytest.raises(TypeError, match=r"logs must be BanditLogs.*from_frame"):
        IPS().fit(logs)
    if logs is not None:
        with pytest.raises(TypeError, match="logs must be BanditLogs"):
            IPS().fit(LOGS).evaluate(PI, logs)
    with pytest.raises(TypeError, match=r"call is evaluate\(policies, logs\)"):
        evaluate(PI, logs)
    with pytest.raises(TypeError, match="logs must be BanditLogs"):
        ActionRewardModel(Ridge()).fit(logs)
    with pytest.raises(TypeError, match="takes BanditLogs"):
        PropensityClipper().fit(logs)


def test_actions_of_other_logs():
    other = build(action=np.array(["a", "b", "z"])[CODES])
    with pytest.raises(ValueError, match=r"action 'z' of the logs was unknown in fit"):
        IPS().fit(LOGS).evaluate(UniformPolicy(), other)


def test_rewards_of_the_wrong_sign():
    negative = build(reward=FIELDS["reward"] - 1)
    with pytest.raises(ValueError, match=r"got -1 at row 0\. Pass reward_range"):
        LogSmoothing().fit(negative)
    with pytest.raises(ValueError, match=r"at row 0 is negative\. Use IPSPolicy"):
        ClassifierPolicy().fit(negative)


@pytest.mark.parametrize(
    ("evaluators", "error", "match"),
    [
        ("IPSS", ValueError, "'IPSS' is unknown; there are IPS, SNIPS"),
        ([IPS(), IPS(cmax=2.0)], ValueError, "two evaluators are called 'IPS'"),
        ([IPS], TypeError, "got the class IPS; make an instance"),
        ([3], TypeError, "names or evaluators, got int"),
        ([IPS(cmax=-1)], ValueError, r"'cmax' parameter of IPS must be a float in"),
    ],
    ids=str,
)
def test_wrong_evaluators(evaluators, error, match):
    with pytest.raises(error, match=match):
        evaluate(PI, LOGS, evaluators=evaluators)


def test_offers_beside_logs():
    policy = ClassifierPolicy().fit(LOGS)
    for one in (policy, UniformPolicy()):
        with pytest.raises(TypeError, match="available was given beside BanditLogs"):
            one.predict_proba(LOGS, np.ones((len(LOGS), LOGS.n_actions), bool))
