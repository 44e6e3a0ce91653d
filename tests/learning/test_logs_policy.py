# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""What all learned policies have in common."""

from functools import cache
from inspect import signature

import numpy as np
import pytest
import sklearn
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from sklearn.base import clone, is_classifier
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.ensemble import (
    HistGradientBoostingClassifier,
    HistGradientBoostingRegressor,
    RandomForestClassifier,
)
from sklearn.exceptions import NotFittedError
from sklearn.feature_selection import SelectKBest
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.model_selection import GridSearchCV, train_test_split
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC
from sklearn.utils import get_tags

from skope_ope import (
    BanditLogs,
    DoublyRobust,
    DRPolicy,
    IPSPolicy,
    PropensityEstimator,
    RewardModelPolicy,
    SoftmaxPolicy,
)
from skope_ope.base import SlateEvaluator
from skope_ope.datasets import make_bandit_logs
from skope_ope.policies import action_probabilities
from skope_ope.utils import all_evaluators
from tests._frames import frame_of

pytestmark = pytest.mark.filterwarnings("ignore::skope_ope.exceptions.OPEWarning")

POLICIES = {
    "IPSPolicy": IPSPolicy(),
    "DRPolicy": DRPolicy(cv=3),  # with 5 folds all that follows takes twice as long
    "RewardModelPolicy": RewardModelPolicy(Ridge()),
    "SoftmaxPolicy": SoftmaxPolicy(temperature=None),
    "weighted": RewardModelPolicy(Ridge(), weight="inverse_propensity"),
}
REDUCTIONS = {name: POLICIES[name] for name in ("IPSPolicy", "DRPolicy")}
every_policy = pytest.mark.parametrize("policy", POLICIES.values(), ids=POLICIES)
every_reduction = pytest.mark.parametrize("policy", REDUCTIONS.values(), ids=REDUCTIONS)

LOGS = make_bandit_logs(400, reward="continuous", effect=2, random_state=0)
TRAIN, TEST = LOGS[:200], LOGS[200:]
X = TEST.context


def of_labels(labels):
    """The training rounds with other labels of the three actions."""
    labels = np.asarray(labels)
    given = TRAIN.context, labels[TRAIN.action], TRAIN.reward, TRAIN.propensity
    return BanditLogs(*given, actions=labels)


# -- acting ---------------------------------------------------------------------------
@pytest.mark.few_cases(3)
@every_policy
def test_epsilon_and_temperature(policy):
    greedy = clone(policy).fit(TRAIN).predict_proba(X)
    assert_array_equal(np.unique(greedy), [0, 1])
    mixed = clone(policy).set_params(epsilon=0.3).fit(TRAIN).predict_proba(X)
    assert_allclose(mixed, 0.7 * greedy + 0.1)
    soft = clone(policy).set_params(temperature=1.0).fit(TRAIN).predict_proba(X)
    assert soft.max() < 1
    # what is the worst in every round is in no example of DRPolicy's last classifier
    assert (soft > 0).all() or isinstance(policy, DRPolicy)
    assert_allclose(soft.sum(axis=1), 1)
    cold = clone(policy).set_params(temperature=1e-9).fit(TRAIN).predict_proba(X)
    assert_allclose(cold, greedy, atol=1e-6)


@pytest.mark.few_cases(4)
@every_policy
@pytest.mark.parametrize("temperature", [None, 0.5])
def test_only_what_is_offered_is_taken(policy, temperature):
    rng = np.random.RandomState(0)
    offered = rng.random_sample((200, 3)) < 0.5
    offered[np.arange(200), TRAIN.action] = True
    logs = TRAIN.replace(available=offered, logging_proba=None)
    policy = clone(policy).set_params(temperature=temperature, epsilon=0.2).fit(logs)
    proba = action_probabilities(policy, logs)
    assert_allclose(proba.sum(axis=1), 1)
    assert_array_equal(proba > 0, offered | (proba > 0))
    assert (proba[~offered] == 0).all()
    share = 0.2 / offered.sum(axis=1, keepdims=True)
    assert (proba >= share * offered - 1e-12).all()
    assert_allclose(proba[offered.sum(axis=1) == 1].max(axis=1), 1)
    everything = np.ones((200, 3), dtype=bool)
    found = policy.predict_proba(X, everything)
    assert_allclose(found, policy.predict_proba(X), atol=1e-12)
    with pytest.raises(ValueError, match="none of the policy's actions is offered at"):
        policy.predict_proba(X, ~everything)


@pytest.mark.few_cases(3)
@every_policy
def test_it_is_a_target_of_every_evaluator(policy):
    policy = clone(policy).set_params(epsilon=0.3).fit(TRAIN)
    # rewards 0/1 and a uniform logger, as some want them
    logs = make_bandit_logs(200, logging_temperature=np.inf, random_state=1)
    proba = action_probabilities(policy, logs)
    for name, evaluator in all_evaluators():
        of_slates = "attention" in signature(evaluator).parameters
        if not of_slates and not issubclass(evaluator, SlateEvaluator):
            fitted = evaluator().fit(logs)
            assert fitted.score(policy) == pytest.approx(fitted.score(proba)), name


# -- learning -------------------------------------------------------------------------
CLASSIFIERS = [
    LinearSVC(),
    GaussianNB(),
    RandomForestClassifier(10, random_state=0),
    HistGradientBoostingClassifier(max_iter=10),
    KNeighborsClassifier(15),  # takes no weights
    LinearDiscriminantAnalysis(),  # neither
    make_pipeline(StandardScaler(), LogisticRegression()),
    make_pipeline(StandardScaler(), KNeighborsClassifier(15)),
    GridSearchCV(LogisticRegression(), {"C": [0.1, 1.0]}, cv=2),
]


@pytest.mark.few_cases(9)
@every_reduction
@pytest.mark.parametrize("classifier", CLASSIFIERS, ids=str)
def test_any_classifier_learns(policy, classifier):
    policy = clone(policy).set_params(classifier=classifier)
    if isinstance(policy, DRPolicy):
        policy.set_params(n_steps=1)  # "auto" fits the same classifier twelve times
    policy.fit(TRAIN)
    proba = policy.predict_proba(X)
    with sklearn.config_context(enable_metadata_routing=True):
        again = clone(policy).fit(TRAIN)
    assert_array_equal(again.predict_proba(X), proba)
    assert DoublyRobust().fit(TEST).score(policy) > TEST.reward.mean() + 0.3


@cache
def learned_from_integers(policy):
    policy = clone(policy).set_params(epsilon=0.2).fit(of_labels([0, 1, 2]))
    return policy.predict_proba(X)


@pytest.mark.few_cases(9)
@every_policy
@pytest.mark.parametrize(
    "labels",
    [
        [3, -1, 9],
        [1.0, 2.0, 3.0],
        [0.5, 1.5, 2.5],
        [b"x", b"y", b"z"],
        np.array([3, -1, 9], dtype=object),
        ["x", "y", "z"],
    ],
    ids=str,
)
def test_labels_of_any_kind(policy, labels):
    expected = learned_from_integers(policy)
    logs = of_labels(labels)
    policy = clone(policy).set_params(epsilon=0.2).fit(logs)
    assert policy.classes_ is logs.actions
    proba = policy.predict_proba(X)
    if [*labels] == sorted(labels):  # else a classifier sorts them, and rounds anew
        assert_allclose(proba, expected)
    else:
        assert np.mean(proba == expected) > 0.98
    assert {*policy.predict(X).tolist()} <= {*logs.actions.tolist()}


@pytest.mark.few_cases(3)
@every_policy
def test_sparse_contexts_and_frames(policy):
    expected = clone(policy).fit(TRAIN).predict_proba(X)
    fields = (TRAIN.action, TRAIN.reward, TRAIN.propensity)
    logs = BanditLogs(sparse.csc_matrix(TRAIN.context), *fields)
    close = clone(policy).fit(logs).predict_proba(sparse.csr_matrix(X))
    assert np.mean(close == expected) > 0.98  # other solvers
    for library in ("pandas", "polars"):
        frame, other = (
            frame_of(library, {name: rows[:, j] for j, name in enumerate("uvwxy")})
            for rows in (TRAIN.context, X)
        )
        fitted = clone(policy).fit(BanditLogs(frame, *fields))
        assert_array_equal(fitted.predict_proba(other), expected)


@every_reduction
def test_contexts_with_missing_values(policy):
    context = TRAIN.context.copy()
    context[::7, 0] = np.nan
    logs = BanditLogs(context, TRAIN.action, TRAIN.reward, TRAIN.propensity)
    tree = HistGradientBoostingClassifier(max_iter=3)
    policy = clone(policy).set_params(classifier=tree)
    assert get_tags(policy).input_tags.allow_nan
    assert policy.fit(logs).predict_proba(context).shape == (200, 3)


@pytest.mark.filterwarnings("ignore:.*ContextEncoder")
@pytest.mark.parametrize("row", [5, 150])
@pytest.mark.parametrize(
    "policy",
    [DRPolicy(LogisticRegression()), DRPolicy(reward_model=Ridge())],
    ids=["classifier", "reward_model"],
)
def test_a_value_that_is_missing_in_one_fold_alone(policy, row):
    context = TRAIN.context.copy()
    context[row, 0] = np.nan
    logs = BanditLogs(context, TRAIN.action, TRAIN.reward, TRAIN.propensity)
    assert get_tags(policy).input_tags.allow_nan
    proba = clone(policy).fit(logs).predict_proba(context)
    assert_allclose(proba.sum(axis=1), 1)


@pytest.mark.few_cases(2)
@every_policy
def test_it_learns_behind_a_step_of_logs(policy):
    unknown = TRAIN.replace(propensity=None, logging_proba=None)
    steps = make_pipeline(PropensityEstimator(), clone(policy)).fit(unknown)
    alone = clone(policy).fit(PropensityEstimator().fit_transform(unknown))
    expected = DoublyRobust().fit(TEST).score(alone)
    assert DoublyRobust().fit(TEST).score(steps) == pytest.approx(expected)


def test_the_remedy_names_the_step_for_several_loggers():
    given = np.zeros((4, 1)), [0, 1, 1, 0], np.ones(4)
    logs = BanditLogs(*given, logger=["a", "a", "b", "b"])
    for policy in (IPSPolicy(), DRPolicy(), clone(POLICIES["weighted"])):
        with pytest.raises(ValueError, match="estimate them with LoggerPropensityEst"):
            policy.fit(logs)


# -- the estimator --------------------------------------------------------------------
@pytest.mark.few_cases(3)
@every_policy
def test_a_fit_starts_anew_and_a_clone_is_unfitted(policy):
    fitted = clone(policy).fit(TRAIN)
    for method in ("predict", "predict_proba"):
        with pytest.raises(NotFittedError):
            getattr(clone(fitted), method)(X)
    again = fitted.fit(TRAIN[:100]).predict_proba(X)  # forgets what it knew
    assert_array_equal(again, clone(policy).fit(TRAIN[:100]).predict_proba(X))
    # tags and pages
    assert not is_classifier(policy)
    assert get_tags(policy).requires_fit
    # models begin with an encoder by default, or are put behind one
    assert get_tags(policy).input_tags.allow_nan
    inner = Ridge() if isinstance(policy, RewardModelPolicy) else LogisticRegression()
    assert get_tags(policy).input_tags.sparse == get_tags(inner).input_tags.sparse
    for one in (policy, fitted):
        assert type(policy).__name__ in one._repr_html_()


def test_tags_follow_what_is_inside():
    tree = HistGradientBoostingClassifier()
    assert not get_tags(IPSPolicy(tree)).input_tags.sparse
    assert get_tags(DRPolicy(tree)).input_tags.allow_nan
    selected = make_pipeline(SelectKBest(), Ridge())  # no encoder comes before it
    assert not get_tags(DRPolicy(tree, reward_model=selected)).input_tags.allow_nan
    model = HistGradientBoostingRegressor()
    assert get_tags(RewardModelPolicy(model)).input_tags.allow_nan


# -- the estimator --------------------------------------------------------------------


def value_on_held_out(policy, logs, y=None):
    return DoublyRobust().fit(logs).score(policy)


ONE_STEP = DRPolicy(LogisticRegression(), reward_model=Ridge(), cv=3, n_steps=1)
WEIGHTS = {"weight": ["uniform", "inverse_propensity"]}


@pytest.mark.few_cases(2)
@pytest.mark.parametrize(
    ("policy", "grid"),
    [
        (IPSPolicy(LogisticRegression()), {"shrinkage": [None, 10], "epsilon": [0, 1]}),
        (ONE_STEP, {"reward_model__alpha": [1, 10], "classifier__C": [0.1, 1]}),
        (IPSPolicy(), {"baseline": ["mean", "median"], "temperature": [None, 1e3]}),
        (IPSPolicy(), {"classifier": [GaussianNB(), KNeighborsClassifier()]}),
        (RewardModelPolicy(Ridge()), WEIGHTS | {"reward_model__alpha": [1, 10]}),
    ],
    ids=str,
)
def test_a_search_tunes_it(policy, grid):
    search = GridSearchCV(policy, grid, scoring=value_on_held_out, cv=3).fit(TRAIN)
    assert np.isfinite(search.cv_results_["mean_test_score"]).all()
    best = search.best_params_
    assert best.get("epsilon") in (None, 0) and best.get("temperature") is None
    assert DoublyRobust().fit(TEST).score(search) > TEST.reward.mean() + 0.5


# -- honesty and power ----------------------------------------------------------------
@pytest.mark.theory
@every_policy
def test_no_gain_where_actions_have_no_effect(policy, global_random_seed):
    held_out, optimistic = [], []
    for world in range(30):
        seed = 100 * global_random_seed + world
        how = {"effect": 0.0, "logging_temperature": 2.0, "random_state": seed}
        logs = make_bandit_logs(200, **how)
        train, test = train_test_split(logs, random_state=seed)
        fitted = clone(policy).fit(train)
        for rows, gains in ((test, held_out), (train, optimistic)):
            gain = DoublyRobust().fit(rows).score(fitted) - rows.reward.mean()
            gains.append(gain)
    error = np.std(held_out, ddof=1) / 30**0.5
    assert abs(np.mean(held_out)) < 4 * error
    # on the rounds that it was learned from it would seem a great success
    assert np.mean(optimistic) > 4 * np.std(optimistic, ddof=1) / 30**0.5


def drawn(n_rounds, n_test, world, seed, **how):
    """Rounds to learn from, others, and what every action brings in the others."""
    how |= {"world_random_state": world, "random_state": seed, "return_truth": True}
    logs, _, truth = make_bandit_logs(n_rounds + n_test, effect=2.0, **how)
    return logs[:n_rounds], logs[n_rounds:], truth.expected_rewards[n_rounds:]


@pytest.mark.few_cases(6)
@every_policy
@pytest.mark.parametrize("reward", ["binary", "continuous"])
def test_it_learns_what_is_best(policy, reward, global_random_seed):
    # the world is fixed, how much there is to gain in it as well
    how = {"n_actions": 4, "reward": reward}
    train, test, q = drawn(4000, 4000, 1, global_random_seed, **how)
    logger = (test.logging_proba * q).sum(axis=1)
    learned = (action_probabilities(clone(policy).fit(train), test) * q).sum(axis=1)
    gain = learned - logger
    assert gain.mean() > 30 * gain.std(ddof=1) / len(gain) ** 0.5
    assert gain.mean() > 0.8 * (q.max(axis=1) - logger).mean()


@pytest.mark.theory
@every_policy
def test_more_rounds_come_closer_to_the_best(policy, global_random_seed):
    regrets = {}
    for n_rounds in (300, 5_000):
        parts = []
        for draw in range(3):
            seed = 10 * global_random_seed + draw
            train, test, q = drawn(n_rounds, 1000, 2, seed)
            pi = action_probabilities(clone(policy).fit(train), test)
            parts.append((q.max(axis=1) - (pi * q).sum(axis=1)).mean())
        regrets[n_rounds] = np.mean(parts)
    assert regrets[5_000] < regrets[300]
