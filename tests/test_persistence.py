# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Whatever is public comes back from pickle and from skops as it was."""

import pickle
from functools import cached_property

import numpy as np
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.linear_model import Ridge
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.utils import get_tags

from skope_ope import (
    IPS,
    SNIPS,
    ActionRewardModel,
    AttentionDecay,
    ClassifierPolicy,
    ConfidenceSequence,
    ContextEncoder,
    DoublyRobust,
    DRns,
    EpsilonGreedy,
    EvaluatorScorer,
    OPESearchCV,
    PolicyScorer,
    PropensityClipper,
    PropensityEstimator,
    SlopeSearch,
    UniformPolicy,
    UniformSlatePolicy,
    audit,
    compare_policies,
    evaluate,
    exceptions,
    report,
    scan_logs,
    suggest,
    summarize,
)
from skope_ope.audit import VerdictThresholds
from skope_ope.datasets import RankingWorld, make_bandit_logs, make_slate_logs
from skope_ope.displays import (
    ClippingCurveDisplay,
    ConfidenceSequenceDisplay,
    ConvergenceDisplay,
    HistoryDisplay,
    PolicyComparisonDisplay,
    PolicyValueDisplay,
    QuantileCurveDisplay,
    SensitivityDisplay,
    SupportDisplay,
    WeightsDisplay,
)
from skope_ope.evaluators import ReorderingPolicy, logger_overlap
from skope_ope.exceptions import RowError
from skope_ope.intervals import ConfidenceInterval
from skope_ope.logs import BanditLogs, DistinctViews, HashKFold, SlateLogs
from skope_ope.propensities import LoggerPropensityEstimator
from skope_ope.reward_models import AdditiveSlateModel
from tests import test_common
from tests.packaging._tree import public_objects

pytestmark = [
    pytest.mark.filterwarnings("ignore::skope_ope.exceptions.OPEWarning"),
    pytest.mark.filterwarnings("ignore:lbfgs failed:UserWarning"),
]
LOGS = make_bandit_logs(200, random_state=0)
SLATES = make_slate_logs(200, random_state=0)
UNIFORM = UniformPolicy().fit(LOGS)


def two_loggers():
    rng = np.random.RandomState(0)
    logger = rng.randint(2, size=200)
    proba = np.where(logger[:, None] == 0, [0.5, 0.5], [0.8, 0.2])
    action = (rng.random_sample(200) > proba[:, 0]).astype(int)
    told = np.column_stack([np.full(200, 0.5), np.where(action == 0, 0.8, 0.2)])
    reward = rng.random_sample(200)
    return BanditLogs(
        rng.normal(size=(200, 2)),
        action,
        reward,
        logger=logger,
        logger_proba=told,
        timestamp=np.arange(200),
    )


LOGGERS = two_loggers()


def positions():
    """Logs of two items in two slots, shown in either order, with clicks."""
    rng = np.random.RandomState(0)
    slate = np.where(rng.randint(2, size=(200, 1)) == 1, [0, 1], [1, 0])
    clicks = rng.randint(2, size=(200, 2))
    return SlateLogs(
        np.zeros((200, 1)),
        slate,
        slot_reward=clicks,
        logging_policy=UniformSlatePolicy(2),
    )


POSITIONS = positions()


def logs_for(estimator):
    """Return logs that an evaluator, a policy or a transformer can be fitted to."""
    name = type(estimator).__name__
    if name.startswith("MultiLogger") or isinstance(
        estimator, LoggerPropensityEstimator
    ):
        return LOGGERS
    if name.startswith("Adaptive") and hasattr(estimator, "evaluate"):
        return LOGGERS
    if name.startswith(("Position", "Reordering", "Attention")):
        return POSITIONS
    if isinstance(estimator, DistinctViews):
        return LOGS.replace(timestamp=np.arange(200), group=np.arange(200) // 2)
    if isinstance(estimator, test_common.EmpiricalSlatePolicy):
        return POSITIONS
    slates = [*test_common.SLATE_POLICIES, *test_common.SLATE_LEARNERS]
    slates = {type(one) for one in slates} | {AdditiveSlateModel}
    evaluates = hasattr(estimator, "evaluate")
    if type(estimator) in slates or (evaluates and SlateLogs in estimator._log_kinds):
        return SLATES
    if evaluates and get_tags(estimator).uniform_logger:
        return LOGS.replace(propensity=np.full(200, 1 / 3))
    return LOGS


def fitted(estimator):
    return clone(estimator).fit(logs_for(estimator))


ESTIMATORS = [
    *test_common.DEFAULTS,
    *test_common.POLICIES,
    *test_common.ADAPTIVE_POLICIES,
    *test_common.BATCH_POLICIES,
    *test_common.LEARNED_POLICIES,
    *test_common.SLATE_POLICIES,
    *test_common.SLATE_LEARNERS,
    *test_common.LOG_TRANSFORMERS,
    ActionRewardModel(Ridge()),
    AdditiveSlateModel(Ridge()),
    AttentionDecay(),
    ReorderingPolicy(),
]


def of_evaluator(evaluator):
    """Return a fitted evaluator and a value of it."""
    fit = fitted(evaluator)
    if isinstance(fit.logs_, SlateLogs):
        slate = fit.logs_.slate
        return [fit, fit.evaluate(slate)]
    policy = UNIFORM if fit.logs_.n_actions == 3 else UniformPolicy()
    return [fit, fit.evaluate(policy)]


def values():
    table = evaluate({"u": UNIFORM, "b": "b"}, LOGS.with_columns(b=PROBA))
    single = evaluate(UNIFORM, LOGS)
    value = single["SNIPS"]
    rng = np.random.RandomState(0)
    return {
        "table": single,
        "table of policies": table,
        "table of other names": evaluate(dict.fromkeys([1, ("b", 1)], UNIFORM), LOGS),
        "comparison of other names": compare_policies(
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
        "comparison": compare_policies({"u": UNIFORM, "b": PROBA}, LOGS),
        "comparison of slates": compare_policies(
            {"u": UniformSlatePolicy(SLATES.n_slots)}, SLATES
        ),
        "table of slates": evaluate(UniformSlatePolicy(SLATES.n_slots), SLATES),
        "audit": audit(UNIFORM, LOGS),
        "audit of logs": audit(LOGS),
        "audit of slates": audit(SLATES),
        "overlap": logger_overlap(UniformPolicy(), LOGGERS),
        "report": report({"u": UNIFORM, "b": PROBA}, LOGS),
        "report of slates": report({"u": UniformSlatePolicy(SLATES.n_slots)}, SLATES),
        "summary": summarize(UNIFORM, LOGS),
        "summary of policies": summarize(
            {"u": UNIFORM, "b": "b"}, LOGS.with_columns(b=PROBA), by=["b"][:0]
        ),
        "summary of slates": summarize(UniformSlatePolicy(SLATES.n_slots), SLATES),
        "summary of groups": summarize(
            UNIFORM, LOGS.replace(group=rng.randint(9, size=200)), by=["action"]
        ),
        "sequence": ConfidenceSequence().update(LOGS, UNIFORM),
    }


PROBA = np.tile([0.2, 0.3, 0.5], (200, 1))
SIZES = [50, 200]
GRID = {"cmax": [1.0, 2.0]}
SCORER = EvaluatorScorer(UNIFORM)


def searches():
    return {
        "evaluator scorer": SCORER,
        "policy scorer": PolicyScorer(IPS()),
        "GridSearchCV": GridSearchCV(DoublyRobust(), GRID, scoring=SCORER, cv=2).fit(
            LOGS
        ),
        "OPESearchCV": OPESearchCV(DoublyRobust(), GRID, scoring=SCORER, cv=2).fit(
            LOGS
        ),
        "SlopeSearch": SlopeSearch(IPS(), {"cmax": [2.0, 1.0]}, scoring=SCORER).fit(
            LOGS
        ),
        "Pipeline": make_pipeline(PropensityEstimator(), IPS()).fit(LOGS),
    }


def displays():
    fit = SNIPS().fit(LOGS)
    table = evaluate({"u": UNIFORM, "b": PROBA}, LOGS)
    ordered = DRns(horizon=20, random_state=0).fit(LOGS)
    policy = EpsilonGreedy(0.2)
    return {
        "PolicyValueDisplay": PolicyValueDisplay.from_evaluator(fit, UNIFORM),
        "PolicyComparisonDisplay": PolicyComparisonDisplay.from_values(
            compare_policies({"u": UNIFORM}, LOGS)
        ),
        "WeightsDisplay": WeightsDisplay.from_evaluator(fit, UNIFORM),
        "SupportDisplay": SupportDisplay.from_evaluator(fit, UNIFORM),
        "ClippingCurveDisplay": ClippingCurveDisplay.from_evaluator(
            fit, UNIFORM, param_range=[1.0, 2.0]
        ),
        "ConfidenceSequenceDisplay": ConfidenceSequenceDisplay.from_sequence(
            ConfidenceSequence().update(LOGS, UNIFORM)
        ),
        "SensitivityDisplay": SensitivityDisplay.from_evaluator(fit, UNIFORM),
        "ConvergenceDisplay": ConvergenceDisplay.from_evaluator(
            fit, UNIFORM, sizes=[50, 200]
        ),
        "ConvergenceDisplay of policies": ConvergenceDisplay.from_values(
            table, sizes=[50, 200]
        ),
        "PolicyValueDisplay of policies": PolicyValueDisplay.from_values(table),
        "HistoryDisplay": HistoryDisplay.from_values(ordered.evaluate(policy)),
        "QuantileCurveDisplay": QuantileCurveDisplay.from_evaluator(ordered, policy),
    }


def others():
    X, y = np.arange(8.0)[:, None], [0, 1, 2, 0, 0, 2, 0, 1]
    return {
        "logs": LOGS,
        "logs of loggers": LOGGERS.with_columns(b=np.arange(200)),
        "slates": SLATES,
        "rows of slates": SLATES[::3],
        "sparse logs": BanditLogs(sparse.eye(4).tocsr(), list("abab"), [0, 1, 1, 0]),
        "folds": HashKFold(3),
        "world": RankingWorld(X, y, [7, 7, 7, 7, 9, 9, 9, 9], n_slots=2),
        "clipper": PropensityClipper(0.1).fit(LOGS),
        "encoder": ContextEncoder().fit(X),
        "suggestion": suggest(UNIFORM, LOGS),
    }


def cases():
    """Return functions by name, each of which makes an object, or several."""
    found = {}
    for estimator in test_common.DEFAULTS:
        found[repr(estimator)] = lambda one=estimator: of_evaluator(one)
    for estimator in ESTIMATORS[len(test_common.DEFAULTS) :]:
        name = test_common.without_addresses(estimator)
        found[name] = lambda one=estimator: [one, fitted(one)]
    return found


def state_of(one):
    """Return what makes up an object."""
    kinds = type(one).__mro__
    cached = {
        name
        for kind in kinds
        for name, value in vars(kind).items()
        if isinstance(value, cached_property)
    }
    state = one.__getstate__() if hasattr(one, "__getstate__") else vars(one)
    if not isinstance(state, dict):
        return state
    return {name: state[name] for name in sorted(state) if name not in cached}


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
    elif isinstance(state_of(left), dict):
        assert_same(state_of(left), state_of(right), where, seen)
    else:
        assert_same(state_of(left), state_of(right), where, seen)


def through_skops(one):
    """Return an object that was written by skops and read again."""
    io = pytest.importorskip("skops.io")
    data = io.dumps(one)
    return io.loads(data, trusted=io.get_untrusted_types(data=data))


def assert_persists(one):
    """Raise unless an object comes back from both as it was."""
    name = type(one).__name__
    data = pickle.dumps(one)
    back = pickle.loads(data)
    assert_same(back, one, f"pickle: {name}")
    assert_looks(back, one)
    back = through_skops(one)
    if isinstance(one, ConfidenceInterval):  # all that skops writes of a tuple
        assert type(back) is tuple and back == one
        return
    assert_same(back, one, f"skops: {name}")
    assert_looks(back, one)


def assert_looks(back, one):
    if " at 0x" not in repr(one):
        assert repr(back) == repr(one)


CASES = cases()


@pytest.mark.few_cases(20)
@pytest.mark.parametrize("name", CASES)
def test_estimators(name):
    for one in CASES[name]():
        assert_persists(one)


def lazy(folder):
    """Return logs that are read in parts, and what is fitted to them."""
    pytest.importorskip("pyarrow")
    frame = LOGS.to_frame()
    for k in range(2):
        frame.iloc[k::2].to_parquet(folder / f"{k}.parquet")
    logs = scan_logs(
        folder,
        action="action",
        reward="reward",
        propensity="propensity",
        context=[f"context_{k}" for k in range(LOGS.n_features)],
        actions=LOGS.actions,
    )
    fit = DoublyRobust().fit(logs)
    return {"logs": logs, "evaluator": fit, "table": evaluate(UNIFORM, logs)}


@pytest.mark.frames
def test_lazy_logs(tmp_path):
    for one in lazy(tmp_path).values():
        assert_persists(one)


def of_warnings():
    """Return an instance of every warning and error."""
    found = {"RowError": RowError("reward is NaN", 3, ". Drop it.")}
    for name, cls in vars(exceptions).items():
        if isinstance(cls, type) and issubclass(cls, Warning):
            found[name] = cls("of a number", 0.5)
    return found


@pytest.mark.parametrize("name", of_warnings())
def test_warnings_and_errors_are_pickled(name):
    one = of_warnings()[name]
    assert_same(pickle.loads(pickle.dumps(one)), one, name)


@pytest.mark.thorough
def test_a_display_comes_back_without_its_drawing():
    plt = pytest.importorskip("matplotlib.pyplot")
    for name, display in displays().items():
        display.plot()
        for back in (pickle.loads(pickle.dumps(display)), through_skops(display)):
            assert not hasattr(back, "figure_"), name
            back.plot()
            assert back.figure_ is not display.figure_
        plt.close("all")


# Those of which nobody makes objects.
BASES = {
    "AdaptivePolicy",
    "BaseEvaluator",
    "BaseLogTransformer",
    "BasePolicy",
    "BaseSlatePolicy",
    "EvaluatorTags",
    "SlateEvaluator",
    "StaticEvaluator",
}


@pytest.mark.frames
def test_every_public_class_is_among_them(tmp_path):
    made = [one for make in CASES.values() for one in make()]
    for some in (values(), searches(), displays(), others(), lazy(tmp_path)):
        made += some.values()
    made += of_warnings().values()
    known = {type(one) for one in made}
    classes = {one for _, one in public_objects().values() if isinstance(one, type)}
    missing = {one.__name__ for one in classes - known}
    assert missing == BASES


@pytest.mark.parametrize("make", [values, searches, displays, others])
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
    """Return a log whose context is a frame with a text and a gap."""
    module = pytest.importorskip(library)
    columns = {"x": [0.5, None, 2.0] * 8, "city": ["ulm", "bonn"] * 12}
    make = module.table if library == "pyarrow" else module.DataFrame
    return BanditLogs(make(columns), list("abc") * 8, [1.0, 0.0] * 12, 1 / 3)


@pytest.mark.frames
@pytest.mark.parametrize("library", ["pandas", "polars", "pyarrow"])
def test_frames_as_the_guide_says(library):
    logs = logs_of_a_frame(library)
    evaluator = DoublyRobust(reward_model=Ridge()).fit(logs)
    back = pickle.loads(pickle.dumps(evaluator))
    assert back.score(UniformPolicy()) == evaluator.score(UniformPolicy())
    assert type(pickle.loads(pickle.dumps(logs)).context) is type(logs.context)
    policy = ClassifierPolicy().fit(logs)
    proba = through_skops(policy).predict_proba(logs.context)
    assert_same(proba, policy.predict_proba(logs.context), "policy")
    model = ActionRewardModel(Ridge()).fit(logs)
    rewards = through_skops(model).predict(logs.context)
    assert_same(rewards, model.predict(logs.context), "model")


@pytest.mark.frames
def test_what_skops_makes_of_frames():
    io = pytest.importorskip("skops.io")
    logs = logs_of_a_frame("polars")
    evaluator = DoublyRobust(reward_model=Ridge()).fit(logs)
    back = through_skops(evaluator)
    assert back.score(UniformPolicy()) == evaluator.score(UniformPolicy())
    pandas, pyarrow = map(logs_of_a_frame, ("pandas", "pyarrow"))
    with pytest.raises(TypeError):
        io.dumps(pandas)
    table = pyarrow.context
    assert len(io.dumps(table)) == len(io.dumps(table[:1]))  # no content at all
