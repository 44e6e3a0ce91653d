# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Whatever is public comes back from pickle and from skops as it was."""

import pickle
from functools import cached_property, partial

import numpy as np
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.linear_model import Ridge
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.utils import get_tags

import skope_ope as ope
from skope_ope.audit import VerdictThresholds
from skope_ope.base import Requires, Sampling
from skope_ope.datasets import RankingWorld, make_bandit_logs, make_slate_logs
from skope_ope.evaluators import ReorderingPolicy, logger_overlap
from skope_ope.intervals import ConfidenceInterval
from skope_ope.logs import BanditLogs, HashKFold, SlateLogs
from skope_ope.reward_models import AdditiveSlateModel
from tests import test_common
from tests.packaging._tree import public_objects

pytestmark = [
    pytest.mark.filterwarnings("ignore::skope_ope.exceptions.OPEWarning"),
    pytest.mark.filterwarnings("ignore:lbfgs failed:UserWarning"),
]
LOGS = make_bandit_logs(200, random_state=0)
SLATES = make_slate_logs(200, random_state=0)
UNIFORM = ope.UniformPolicy().fit(LOGS)


RNG = np.random.RandomState(0)
LOGGER = RNG.randint(2, size=200)
SHARES = np.where(LOGGER[:, None] == 0, [0.5, 0.5], [0.8, 0.2])
ACTION = (RNG.random_sample(200) > SHARES[:, 0]).astype(int)
LOGGERS = BanditLogs(
    RNG.normal(size=(200, 2)),
    ACTION,
    RNG.random_sample(200),
    logger=LOGGER,
    logger_proba=np.column_stack([np.full(200, 0.5), np.where(ACTION == 0, 0.8, 0.2)]),
    timestamp=np.arange(200),
)
# two items in two slots, shown in either order, with clicks
POSITIONS = SlateLogs(
    np.zeros((200, 1)),
    np.where(RNG.randint(2, size=(200, 1)) == 1, [0, 1], [1, 0]),
    slot_reward=RNG.randint(2, size=(200, 2)),
    logging_policy=ope.UniformSlatePolicy(2),
)


def logs_for(estimator):
    """Return logs that an evaluator, a policy or a transformer can be fitted to."""
    name, evaluates = type(estimator).__name__, hasattr(estimator, "evaluate")
    slates = [*test_common.SLATE_POLICIES, *test_common.SLATE_LEARNERS]
    slates = {type(one) for one in slates} | {AdditiveSlateModel}
    if name.startswith(("MultiLogger", "LoggerPropensity")):
        return LOGGERS
    if name.startswith("Adaptive") and evaluates:
        return LOGGERS
    if name.startswith(("Position", "Reordering", "Attention", "EmpiricalSlate")):
        return POSITIONS
    if name == "DistinctViews":
        return LOGS.replace(timestamp=np.arange(200), group=np.arange(200) // 2)
    if type(estimator) in slates or (
        evaluates and SlateLogs in estimator.requires.logs
    ):
        return SLATES
    if evaluates and get_tags(estimator).uniform_logger:
        return LOGS.replace(propensity=np.full(200, 1 / 3))
    return LOGS


def fitted(estimator):
    return clone(estimator).fit(logs_for(estimator))


def both(estimator):
    return [estimator, fitted(estimator)]


ESTIMATORS = [*test_common.UNDER_SCIKIT_LEARNS_CONTRACT, AdditiveSlateModel(Ridge())]
ESTIMATORS += [ope.AttentionDecay(), ReorderingPolicy()]


def of_evaluator(evaluator):
    fit = fitted(evaluator)
    if isinstance(fit.logs_, SlateLogs):
        slate = fit.logs_.slate
        return [fit, fit.evaluate(slate)]
    policy = UNIFORM if fit.logs_.n_actions == 3 else ope.UniformPolicy()
    return [fit, fit.evaluate(policy)]


def values():
    both, policies = {"u": UNIFORM, "b": PROBA}, {"u": UNIFORM, "b": "b"}
    slate, logs = ope.UniformSlatePolicy(SLATES.n_slots), LOGS.with_columns(b=PROBA)
    grouped = LOGS.replace(group=np.random.RandomState(0).randint(9, size=200))
    single = ope.evaluate(UNIFORM, LOGS)
    value = single["SNIPS"]
    return {
        "table": single,
        "table of policies": ope.evaluate(policies, logs),
        "table of other names": ope.evaluate(
            dict.fromkeys([1, ("b", 1)], UNIFORM), LOGS
        ),
        "comparison of other names": ope.compare_policies(
            dict.fromkeys([None, True, False], UNIFORM), LOGS
        ),
        "difference": single["SNIPS"] - single["IPS"],
        "lift": value.lift(0.4),
        "sensitivity": value.sensitivity([1.0, 1.5]),
        "values by action": value.by("action"),
        "interval": value.confidence_interval(),
        "diagnostics": value.diagnostics,
        "verdict": value.verdict,
        "thresholds": VerdictThresholds(),
        "comparison": ope.compare_policies(both, LOGS),
        "comparison of slates": ope.compare_policies({"u": slate}, SLATES),
        "table of slates": ope.evaluate(slate, SLATES),
        "audit": ope.audit(UNIFORM, LOGS),
        "audit of logs": ope.audit(LOGS),
        "audit of slates": ope.audit(SLATES),
        "overlap": logger_overlap(ope.UniformPolicy(), LOGGERS),
        "report": ope.report(both, LOGS),
        "report of slates": ope.report({"u": slate}, SLATES),
        "summary": ope.summarize(UNIFORM, LOGS),
        "summary of policies": ope.summarize(policies, logs),
        "summary of slates": ope.summarize(slate, SLATES),
        "summary of groups": ope.summarize(UNIFORM, grouped, by=["action"]),
        "sequence": ope.ConfidenceSequence().update(LOGS, UNIFORM),
    }


PROBA = np.tile([0.2, 0.3, 0.5], (200, 1))
GRID = {"cmax": [1.0, 2.0]}
SCORER = ope.EvaluatorScorer(UNIFORM)


def searches():
    search = {"param_grid": GRID, "scoring": SCORER, "cv": 2}
    slope = ope.SlopeSearch(ope.IPS(), {"cmax": [2.0, 1.0]}, scoring=SCORER)
    return {
        "evaluator scorer": SCORER,
        "policy scorer": ope.PolicyScorer(ope.IPS()),
        "GridSearchCV": GridSearchCV(ope.DoublyRobust(), **search).fit(LOGS),
        "OPESearchCV": ope.OPESearchCV(ope.DoublyRobust(), **search).fit(LOGS),
        "SlopeSearch": slope.fit(LOGS),
        "Pipeline": make_pipeline(ope.PropensityEstimator(), ope.IPS()).fit(LOGS),
    }


def drawings():
    fit, sizes = (ope.SNIPS().fit(LOGS), UNIFORM), {"sizes": [50, 200]}
    table = ope.evaluate({"u": UNIFORM, "b": PROBA}, LOGS)
    ordered, policy = (
        ope.DRns(horizon=20, random_state=0).fit(LOGS),
        ope.EpsilonGreedy(0.2),
    )
    sequence = ope.ConfidenceSequence().update(LOGS, UNIFORM)
    comparison = ope.compare_policies({"u": UNIFORM}, LOGS)
    found = [
        ope.displays.PolicyValueDisplay.from_evaluator(*fit),
        ope.displays.PolicyComparisonDisplay.from_values(comparison),
        ope.displays.WeightsDisplay.from_evaluator(*fit),
        ope.displays.SupportDisplay.from_evaluator(*fit),
        ope.displays.ClippingCurveDisplay.from_evaluator(*fit, param_range=[1.0, 2.0]),
        ope.displays.ConfidenceSequenceDisplay.from_sequence(sequence),
        ope.displays.SensitivityDisplay.from_evaluator(*fit),
        ope.displays.ConvergenceDisplay.from_evaluator(*fit, **sizes),
        ope.displays.ConvergenceDisplay.from_values(table, **sizes),
        ope.displays.PolicyValueDisplay.from_values(table),
        ope.displays.HistoryDisplay.from_values(ordered.evaluate(policy)),
        ope.displays.QuantileCurveDisplay.from_evaluator(ordered, policy),
    ]
    return {f"{k} {type(one).__name__}": one for k, one in enumerate(found)}


def others():
    X, y = np.arange(8.0)[:, None], [0, 1, 2, 0, 0, 2, 0, 1]
    return {
        "logs": LOGS,
        "logs of loggers": LOGGERS.with_columns(b=np.arange(200)),
        "slates": SLATES,
        "rows of slates": SLATES[::3],
        "sparse logs": BanditLogs(sparse.eye(4).tocsr(), list("abab"), [0, 1, 1, 0]),
        "folds": HashKFold(3),
        "requires": Requires(model=True),
        "sampling": Sampling("loggers", 3),
        "world": RankingWorld(X, y, [7, 7, 7, 7, 9, 9, 9, 9], n_slots=2),
        "clipper": ope.PropensityClipper(0.1).fit(LOGS),
        "encoder": ope.ContextEncoder().fit(X),
        "suggestion": ope.suggest(UNIFORM, LOGS),
    }


def cases():
    n = len(test_common.DEFAULTS)
    found = {repr(one): partial(of_evaluator, one) for one in ESTIMATORS[:n]}
    for one in ESTIMATORS[n:]:
        found[test_common.without_addresses(one)] = partial(both, one)
    return found


def state_of(one):
    state = one.__getstate__() if hasattr(one, "__getstate__") else vars(one)
    if not isinstance(state, dict):
        return state
    members = {
        name: kind for cls in type(one).__mro__ for name, kind in vars(cls).items()
    }
    return {
        name: state[name]
        for name in sorted(state)
        if not isinstance(members.get(name), cached_property)
    }


def assert_same(left, right, where, seen=None):
    """Raise unless two objects are alike in all that they consist of."""
    seen = set() if seen is None else seen
    assert type(left) is type(right), where
    if id(left) in seen or left is right:
        return
    seen.add(id(left))
    if isinstance(left, np.ndarray) and left.dtype.names:
        for name in left.dtype.names:
            assert_same(left[name], right[name], f"{where}[{name!r}]", seen)
    elif isinstance(left, np.ndarray) and left.dtype != object:
        np.testing.assert_array_equal(left, right, err_msg=where)
        assert left.dtype == right.dtype, where
    elif isinstance(left, (list, tuple, np.ndarray)):
        assert len(left) == len(right), where
        assert_same(
            *(getattr(one, "__dict__", {}) for one in (left, right)), where, seen
        )
        for k, pair in enumerate(zip(left, right, strict=True)):
            assert_same(*pair, f"{where}[{k}]", seen)
    elif isinstance(left, dict):
        assert list(left) == list(right), where
        for name in left:
            assert_same(left[name], right[name], f"{where}[{name!r}]", seen)
    elif isinstance(left, (set, frozenset)):
        assert left == right, where
    elif sparse.issparse(left):
        assert (left != right).nnz == 0, where
    elif isinstance(left, np.random.RandomState):
        assert_same(left.get_state(), right.get_state(), where, seen)
    elif isinstance(left, (str, bytes, int, float, complex, np.generic, type(None))):
        assert left == right or (left != left and right != right), where
    elif isinstance(left, BaseException):
        assert left.args == right.args, where
        assert_same(vars(left), vars(right), where, seen)
    else:
        assert_same(state_of(left), state_of(right), where, seen)


def through_skops(one):
    io = pytest.importorskip("skops.io")
    data = io.dumps(one)
    return io.loads(data, trusted=io.get_untrusted_types(data=data))


def assert_persists(one):
    """Raise unless an object comes back from both as it was."""
    name = type(one).__name__
    for how, back in (
        ("pickle", pickle.loads(pickle.dumps(one))),
        ("skops", through_skops(one)),
    ):
        if how == "skops" and isinstance(one, ConfidenceInterval):
            assert type(back) is tuple and back == one  # all that it writes of a tuple
            continue
        assert_same(back, one, f"{how}: {name}")
        assert repr(back) == repr(one) or " at 0x" in repr(one)


CASES = cases()


@pytest.mark.few_cases(20)
@pytest.mark.parametrize("name", CASES)
def test_estimators(name):
    for one in CASES[name]():
        assert_persists(one)


def lazy(folder):
    pytest.importorskip("pyarrow")
    frame = LOGS.to_frame()
    for k in range(2):
        frame.iloc[k::2].to_parquet(folder / f"{k}.parquet")
    roles = {name: name for name in ("action", "reward", "propensity")}
    context = [f"context_{k}" for k in range(LOGS.n_features)]
    logs = ope.scan_logs(folder, **roles, context=context, actions=LOGS.actions)
    fit = ope.DoublyRobust().fit(logs)
    return {"logs": logs, "evaluator": fit, "table": ope.evaluate(UNIFORM, logs)}


@pytest.mark.frames
def test_lazy_logs(tmp_path):
    for one in lazy(tmp_path).values():
        assert_persists(one)


def of_warnings():
    found = {"RowError": ope.exceptions.RowError("reward is NaN", 3, ". Drop it.")}
    for name, cls in vars(ope.exceptions).items():
        if isinstance(cls, type) and issubclass(cls, Warning):
            found[name] = cls("of a number", 0.5)
    return found


def test_warnings_and_errors_are_pickled():
    for name, one in of_warnings().items():
        assert_same(pickle.loads(pickle.dumps(one)), one, name)


@pytest.mark.thorough
def test_a_display_comes_back_without_its_drawing():
    plt = pytest.importorskip("matplotlib.pyplot")
    for name, display in drawings().items():
        display.plot()
        for back in (pickle.loads(pickle.dumps(display)), through_skops(display)):
            assert not hasattr(back, "figure_"), name
            back.plot()
            assert back.figure_ is not display.figure_
        plt.close("all")


# Those of which nobody makes objects.
BASES = {"AdaptivePolicy", "BaseEvaluator", "BaseLogTransformer", "BasePolicy"}
BASES |= {"BaseSlatePolicy", "EvaluatorTags", "SlateEvaluator", "StaticEvaluator"}


@pytest.mark.frames
def test_every_public_class_is_among_them(tmp_path):
    made = [one for make in CASES.values() for one in make()]
    for some in (values(), searches(), drawings(), others(), lazy(tmp_path)):
        made += some.values()
    made += of_warnings().values()
    known = {type(one) for one in made}
    classes = {one for _, one in public_objects().values() if isinstance(one, type)}
    missing = {one.__name__ for one in classes - known}
    assert missing == BASES


@pytest.mark.parametrize("make", [values, searches, drawings, others])
def test_results(make):
    wrong = []
    for name, one in make().items():
        try:
            assert_persists(one)
        except Exception as error:
            error.add_note(name)
            wrong.append(error)
    if wrong:
        raise ExceptionGroup(f"{len(wrong)} do not come back", wrong)


def logs_of_a_frame(library):
    module = pytest.importorskip(library)
    columns = {"x": [0.5, None, 2.0] * 8, "city": ["ulm", "bonn"] * 12}
    make = module.table if library == "pyarrow" else module.DataFrame
    return BanditLogs(make(columns), list("abc") * 8, [1.0, 0.0] * 12, 1 / 3)


@pytest.mark.frames
@pytest.mark.parametrize("library", ["pandas", "polars", "pyarrow"])
def test_frames_as_the_guide_says(library):
    logs = logs_of_a_frame(library)
    evaluator = ope.DoublyRobust(reward_model=Ridge()).fit(logs)
    back = pickle.loads(pickle.dumps(evaluator))
    assert back.score(ope.UniformPolicy()) == evaluator.score(ope.UniformPolicy())
    assert type(pickle.loads(pickle.dumps(logs)).context) is type(logs.context)
    policy = ope.ClassifierPolicy().fit(logs)
    proba = through_skops(policy).predict_proba(logs.context)
    assert_same(proba, policy.predict_proba(logs.context), "policy")
    model = ope.ActionRewardModel(Ridge()).fit(logs)
    rewards = through_skops(model).predict(logs.context)
    assert_same(rewards, model.predict(logs.context), "model")

    if library == "polars":
        back = through_skops(evaluator)
        assert back.score(ope.UniformPolicy()) == evaluator.score(ope.UniformPolicy())


@pytest.mark.frames
def test_what_skops_makes_of_frames():
    io = pytest.importorskip("skops.io")
    pandas, pyarrow = map(logs_of_a_frame, ("pandas", "pyarrow"))
    with pytest.raises(TypeError):
        io.dumps(pandas)
    table = pyarrow.context
    assert len(io.dumps(table)) == len(io.dumps(table[:1]))  # no content at all
