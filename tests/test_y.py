# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""The y of scikit-learn's tools, wherever something is fitted on logs."""

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from sklearn.base import clone
from sklearn.experimental import enable_halving_search_cv  # noqa: F401
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.model_selection import (
    HalvingGridSearchCV,
    KFold,
    StratifiedKFold,
    cross_validate,
    learning_curve,
)
from sklearn.preprocessing import StandardScaler
from sklearn.utils import get_tags

from skope_ope import (
    IPS,
    ActionRewardModel,
    AttentionDecay,
    BanditLogs,
    ClassifierPolicy,
    DoublyRobust,
    EvaluatorScorer,
    OPESearchCV,
    PolicyScorer,
    PropensityClipper,
    ReorderingScavenging,
    SlateDoublyRobust,
    SlateIPS,
    SlateLogs,
    SlopeSearch,
    UniformPolicy,
    UniformSlatePolicy,
    scan_logs,
)
from skope_ope.evaluators import ReorderingPolicy
from skope_ope.policies import ProductSlatePolicy
from skope_ope.reward_models import AdditiveSlateModel
from tests import test_common as common
from tests.test_common import DEFAULTS, LEARNED_POLICIES, POLICIES

RNG = np.random.RandomState(0)
N = 120
ACTION = RNG.randint(2, size=N)
X = RNG.normal(size=(N, 2))
REWARD = (RNG.uniform(size=N) < 0.3 + 0.3 * ACTION).astype(float)
LOGGERS = {"logger": np.arange(N) % 2, "logger_proba": np.full((N, 2), 0.5)}
LOGS = BanditLogs(X, ACTION, REWARD, 0.5, **LOGGERS, group=np.arange(N) // 2)
LOGS = LOGS.with_columns(q=np.full((N, 2), 0.4))
SLATE = np.array([RNG.permutation(3)[:2] for _ in range(N)])
SLOT_REWARD = (RNG.uniform(size=(N, 2)) < 0.4).astype(float)
SLATES = SlateLogs(
    X,
    SLATE,
    SLOT_REWARD.sum(axis=1),
    slot_reward=SLOT_REWARD,
    logging_policy=UniformSlatePolicy(2),
    item_features=RNG.normal(size=(N, 3, 2)),
)
GARBAGE = ["garbage", object(), np.zeros(3), [0.0, 1.0], {}, len, True, Ridge, 1j]

pytestmark = [
    pytest.mark.filterwarnings(f"ignore::skope_ope.exceptions.{name}")
    for name in ("OPEWarning", "ExplorationWarning")
]


def name_of(value):
    return type(value).__name__


def logs_for(evaluator):
    logs = LOGS if "bandit" in get_tags(evaluator).handles else SLATES
    return logs if get_tags(evaluator).takes_groups else LOGS.replace(group=None)


def policy_for(evaluator):
    if "bandit" in get_tags(evaluator).handles:
        return UniformPolicy()
    if isinstance(evaluator, ReorderingScavenging):
        return ReorderingPolicy("random").fit(SLATES)
    return UniformSlatePolicy(2)


def with_own_model(evaluator):
    """Return one with a model and a seed, where it has such parameters."""
    of_slates = isinstance(evaluator, SlateDoublyRobust)
    model = AdditiveSlateModel() if of_slates else Ridge()
    own = {"reward_model": model, "random_state": 0}
    own = {name: value for name, value in own.items() if hasattr(evaluator, name)}
    return clone(evaluator).set_params(**own)


def y_of(logs):
    labels = np.array(["a", "b"])[ACTION]
    found = [logs.reward, logs.reward.tolist(), tuple(logs.reward), labels]
    return [*found, labels.astype(object).tolist()]


@pytest.mark.few_cases(6)
@pytest.mark.parametrize("evaluator", DEFAULTS, ids=name_of)
def test_evaluators_ignore_y(evaluator):
    logs, policy = logs_for(evaluator), policy_for(evaluator)
    evaluator = with_own_model(evaluator)
    without = clone(evaluator).fit(logs).score(policy)
    for y in y_of(logs):
        assert_array_equal(clone(evaluator).fit(logs, y).score(policy), without)


@pytest.mark.few_cases
@pytest.mark.parametrize("bad", GARBAGE, ids=name_of)
@pytest.mark.parametrize("evaluator", DEFAULTS, ids=name_of)
def test_every_evaluator_refuses_what_predicts_nothing(evaluator, bad):
    with pytest.raises((TypeError, ValueError), match=r"reward_model|reward model"):
        clone(evaluator).fit(logs_for(evaluator), bad)


def test_models_are_no_y():
    for model in (Ridge(), 0.5, "q", np.full((N, 2), 0.4), ActionRewardModel(Ridge())):
        IPS().fit(LOGS, model)
    for model in (Ridge(), 0.5, AdditiveSlateModel()):
        SlateIPS().fit(SLATES, model)
    with pytest.raises(ValueError, match=r"shape \(120, 2\).*got \(120, 3\)"):
        IPS().fit(LOGS, np.zeros((N, 3)))
    with pytest.raises(TypeError, match="StandardScaler, which has no predict"):
        IPS().fit(LOGS, StandardScaler())
    with pytest.raises(TypeError, match="number or None, got str"):
        SlateIPS().fit(SLATES, "q")
    logs = BanditLogs(X[:4], ["a"] * 4, [0.0, 1.0, 1.0, 0.0], np.ones(4))
    q = np.array([[0.2], [0.4], [0.6], [0.8]])
    assert repr(DoublyRobust().fit(logs, q).reward_model_) == "array of shape (4, 1)"
    no_model = DoublyRobust().fit(logs, q[:, 0]).reward_model_
    assert repr(no_model).startswith("mean reward of every action")
    with pytest.raises(ValueError, match="give it once"):
        DoublyRobust(reward_model=Ridge()).fit(logs, q)
    with pytest.raises(ValueError, match="with 3 entries, the logs have 120 rounds"):
        IPS().fit(LOGS, np.zeros(3))
    with pytest.raises(ValueError, match="have 120 rounds, y has 3 entries"):
        UniformPolicy().fit(LOGS, np.zeros(3))


def test_lazy_logs_take_no_y(tmp_path):
    pytest.importorskip("pyarrow")  # it reads the file
    path = tmp_path / "log.csv"
    path.write_text("action,reward,p,x\n" + "a,1,.5,1\nb,0,.5,2\n" * 10)
    roles = {"action": "action", "reward": "reward", "propensity": "p"}
    lazy = scan_logs(path, **roles, context=["x"])
    for evaluator in (IPS(), DoublyRobust()):
        with pytest.raises(ValueError, match=r"Lazy logs .* take no y; leave it out"):
            evaluator.fit(lazy, np.zeros(20))
    with pytest.raises(ValueError, match="'garbage' is not a column"):
        IPS().fit(lazy, "garbage")
    with pytest.raises(TypeError, match="takes no y beside logs"):
        UniformPolicy().fit(lazy, np.zeros(20))


@pytest.mark.frames
def test_series_are_y():
    pandas, polars = pytest.importorskip("pandas"), pytest.importorskip("polars")
    arrow = pytest.importorskip("pyarrow")
    for make in (pandas.Series, polars.Series, arrow.array):
        for values in (LOGS.reward, np.array(["a", "b"])[ACTION].tolist()):
            fitted = DoublyRobust(reward_model=0.5).fit(LOGS, make(values))
            assert repr(fitted.reward_model_) == "0.5 everywhere"
            ClassifierPolicy().fit(LOGS, make(values))


BANDIT = [*POLICIES, *common.ADAPTIVE_POLICIES, *LEARNED_POLICIES]
SLATE_POLICIES = [*common.SLATE_POLICIES, *common.SLATE_LEARNERS]
SLATED = [*SLATE_POLICIES, ReorderingPolicy(), AttentionDecay()]
MODELS = [ActionRewardModel(Ridge())]
SEARCHES = [
    OPESearchCV(IPS(), {"cmax": [1.0, 2.0]}, scoring=EvaluatorScorer(UniformPolicy())),
    SlopeSearch(IPS(), {"cmax": [2.0, 1.0]}, scoring=EvaluatorScorer(UniformPolicy())),
]
FITTED_ON_LOGS = [
    *((one, LOGS) for one in [*BANDIT, *common.LOG_TRANSFORMERS, *MODELS, *SEARCHES]),
    *((one, SLATES) for one in [*SLATED, AdditiveSlateModel()]),
]


@pytest.mark.few_cases(9)
@pytest.mark.parametrize(("estimator", "logs"), FITTED_ON_LOGS, ids=name_of)
def test_policies_searches_steps_and_models_ignore_y(estimator, logs):
    for y in (None, *y_of(logs)):
        clone(estimator).fit(logs, y)


@pytest.mark.few_cases
@pytest.mark.parametrize("bad", GARBAGE, ids=name_of)
@pytest.mark.parametrize(
    ("estimator", "logs"),
    [pair for pair in FITTED_ON_LOGS if not hasattr(pair[0], "transform")],
    ids=name_of,
)
def test_what_is_no_y_is_refused(estimator, logs, bad):
    with pytest.raises((TypeError, ValueError), match="takes no y beside logs"):
        clone(estimator).fit(logs, bad)


def test_reward_models_do_not_take_y_for_weights():
    weight = RNG.uniform(0.1, 3, size=N)
    plain = ActionRewardModel(Ridge()).fit(LOGS).predict(X)
    with_y = ActionRewardModel(Ridge()).fit(LOGS, LOGS.reward).predict(X)
    assert_array_equal(with_y, plain)
    weighted = ActionRewardModel(Ridge()).fit(LOGS, None, weight).predict(X)
    by_name = ActionRewardModel(Ridge()).fit(LOGS, sample_weight=weight).predict(X)
    assert_array_equal(weighted, by_name)
    assert not np.allclose(weighted, plain)


@pytest.mark.few_cases(6)
@pytest.mark.parametrize("evaluator", DEFAULTS, ids=name_of)
def test_cross_validation_of_evaluators_with_y(evaluator):
    logs, policy = logs_for(evaluator), policy_for(evaluator)
    y = ACTION if isinstance(logs, BanditLogs) else SLATE[:, 0]
    evaluator = with_own_model(evaluator)
    validator = evaluator if isinstance(evaluator, ReorderingScavenging) else None
    scoring = EvaluatorScorer(policy, validator=validator)
    options = {"scoring": scoring, "error_score": "raise"}
    cv = StratifiedKFold(3)
    with_y = cross_validate(evaluator, logs, y, cv=cv, **options)["test_score"]
    folds = list(cv.split(X, y))
    without = cross_validate(evaluator, logs, cv=folds, **options)["test_score"]
    assert_array_equal(with_y, without)
    assert np.isfinite(with_y).all()


BY_CLASS = {"cv": StratifiedKFold(3), "error_score": "raise"}


@pytest.mark.few_cases(4)
@pytest.mark.parametrize("policy", [*POLICIES, *LEARNED_POLICIES], ids=name_of)
def test_cross_validation_of_policies_with_y(policy):
    logs, how = LOGS.replace(group=None), {"scoring": PolicyScorer(IPS()), **BY_CLASS}
    scores = cross_validate(policy, logs, LOGS.action, **how)["test_score"]
    assert np.isfinite(scores).all()


@pytest.mark.parametrize("policy", SLATE_POLICIES, ids=name_of)
def test_cross_validation_of_slate_policies_with_y(policy):
    if isinstance(policy, ProductSlatePolicy):  # it has a column per candidate
        policy = ProductSlatePolicy([[0.3, 0.3, 0.4], [0.1, 0.5, 0.4]])
    how = {"scoring": PolicyScorer(SlateIPS()), **BY_CLASS}
    scores = cross_validate(policy, SLATES, SLATE[:, 0], **how)["test_score"]
    assert scores.shape == (3,)


def test_halving_and_learning_curves_with_the_actions_as_y():
    policy, grid = ClassifierPolicy(LogisticRegression()), {"epsilon": [0.1, 0.5, 1.0]}
    how = {"scoring": PolicyScorer(IPS()), **BY_CLASS, "cv": 2, "random_state": 0}
    search = HalvingGridSearchCV(policy, grid, **how).fit(LOGS, LOGS.action)
    assert search.n_iterations_ >= 2
    assert isinstance(search.best_estimator_, ClassifierPolicy)
    how = {"scoring": EvaluatorScorer(UniformPolicy()), **BY_CLASS}
    _, _, scores = learning_curve(IPS(), LOGS, LOGS.action, **how)
    assert np.isfinite(scores).all()


def test_our_search_hands_y_to_the_splitter():
    seen = []

    class Listening(KFold):
        def split(self, X, y=None, groups=None):
            seen.append(y)
            return super().split(X, y, groups)

    scoring = EvaluatorScorer(UniformPolicy())
    y = np.arange(N) % 3
    search = OPESearchCV(IPS(), {"cmax": [1.0]}, scoring=scoring, cv=Listening(2))
    logs = LOGS.replace(group=None)
    search.fit(logs, y)
    assert seen[0] is y
    search.fit(logs)
    assert_array_equal(seen[1], LOGS.action)


def test_searches_are_what_they_search_over():
    for search in SEARCHES:
        assert get_tags(search).estimator_type == "policy_evaluator"
    scoring = PolicyScorer(IPS())
    search = OPESearchCV(ClassifierPolicy(), {"epsilon": [0.1]}, scoring=scoring)
    of_policies = get_tags(ClassifierPolicy()).estimator_type
    assert get_tags(search).estimator_type == of_policies


@pytest.mark.parametrize(
    "estimator",
    [*BANDIT, *MODELS, AdditiveSlateModel(), PropensityClipper(), *DEFAULTS, *SEARCHES],
    ids=name_of,
)
def test_logs_and_offers_are_no_metadata(estimator):
    routing = estimator.get_metadata_routing()
    for method in ("fit", "partial_fit", "predict", "predict_proba", "score"):
        requests = getattr(routing, method).requests
        assert not {"logs", "available", "slates", "policy"} & set(requests)
