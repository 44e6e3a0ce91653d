# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Reductions to weighted classification: their examples, IPSPolicy and DRPolicy."""

import warnings
from itertools import pairwise

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LinearRegression, LogisticRegression, Perceptron, Ridge
from sklearn.model_selection import GroupKFold, KFold, TimeSeriesSplit
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import PolynomialFeatures, StandardScaler
from sklearn.svm import LinearSVC

from skope_ope import (
    ActionRewardModel,
    BanditLogs,
    ClassifierPolicy,
    DoublyRobust,
    DRPolicy,
    IPSPolicy,
)
from skope_ope.datasets import make_bandit_logs
from tests.learning._worlds import ByHeart, all_that_can_happen, random_world

# Examples
# three rounds: above, below, and exactly what was expected
THREE_ROUNDS = BanditLogs(
    [[0.0], [1.0], [2.0]], ["a", "b", "c"], [3.0, -1.0, 1.0], [0.5, 0.25, 0.1]
)


def examples(policy, logs, monkeypatch):
    """What the classifier of a policy was given."""
    monkeypatch.setattr(ByHeart, "fits", ())
    policy.set_params(classifier=ByHeart()).fit(logs)
    return ByHeart.fits[0]


OFFERED = np.array([[1, 1, 0], [0, 1, 1], [0, 1, 1]], dtype=bool)
SOME_OFFERED = {"available": OFFERED, "sample_weight": [1.0, 0.5, 1.5]}


@pytest.mark.parametrize(
    ("shrinkage", "fields", "expected"),
    [
        # the first round speaks for its action, the second for the others, the third
        # for none
        (None, {}, [(0, "a", 4), (1, "a", 8), (1, "c", 8)]),
        # lam = 4: 4 w / (w^2 + 4), for w = 2 and 4
        (4, {}, [(0, "a", 2), (1, "a", 1.6), (1, "c", 1.6)]),
        (None, SOME_OFFERED, [(0, "a", 4), (1, "c", 4)]),
    ],
)
def test_examples_by_hand(shrinkage, fields, expected, monkeypatch):
    policy = IPSPolicy(baseline=1.0, shrinkage=shrinkage)
    found = examples(policy, THREE_ROUNDS.replace(**fields), monkeypatch)
    assert [one[:2] for one in found] == [one[:2] for one in expected]
    assert_allclose([one[2] for one in found], [one[2] for one in expected])


def test_weighted_accuracy_is_the_estimated_value_up_to_a_constant(
    global_random_seed, monkeypatch
):
    rng = np.random.RandomState(global_random_seed)
    offered = rng.random_sample((50, 4)) < 0.7
    offered[:, 2] = True
    action = np.where(offered, rng.random_sample((50, 4)), -1).argmax(axis=1)
    reward, p = rng.normal(size=50), rng.uniform(0.1, 1, size=50)
    keep = rng.random_sample(50)
    fields = {"available": offered, "sample_weight": keep / keep.mean()}
    given = np.arange(50.0)[:, None], action, reward, p
    logs = BanditLogs(*given, actions=range(4), **fields)
    fit = examples(IPSPolicy(baseline=0.3), logs, monkeypatch)
    rows, codes, weight = (np.array(column) for column in zip(*fit, strict=True))
    difference = []
    for _ in range(5):  # policies that choose among what is offered
        chosen = np.where(offered, rng.random_sample((50, 4)), -1).argmax(axis=1)
        accuracy = weight @ (chosen[rows.astype(int)] == codes)
        value = logs.sample_weight @ ((reward - 0.3) / p * (chosen == action))
        difference.append(value - accuracy)
    assert_allclose(difference, difference[0])


@pytest.mark.few_cases(1)
@pytest.mark.parametrize("offers", [False, True], ids=["all offered", "some"])
def test_a_perfect_classifier_gives_the_best_policy(global_random_seed, offers):
    """In expectation over all logs, whatever the baseline or the model."""
    for seed in range(3):
        mu, q, available = random_world(10 * global_random_seed + seed, offers=offers)
        logs = all_that_can_happen(mu, q, available)
        wrong = np.random.RandomState(seed).normal(size=(6, 5))  # by context
        wrong = wrong[logs.context[:, 0].astype(int)]
        policies = [
            IPSPolicy(ByHeart(), baseline=0),
            IPSPolicy(ByHeart()),
            IPSPolicy(ByHeart(), baseline=-3.0),
            DRPolicy(ByHeart(), reward_model=wrong, shrinkage=None, n_steps=200),
        ]
        best = np.where(available, q, -1).argmax(axis=1)
        contexts = np.arange(6.0)[:, None]
        for policy in policies:
            proba = policy.fit(logs).predict_proba(contexts, available)
            assert_array_equal(proba.argmax(axis=1), best)


def test_actions_logged_alone_or_never():
    given = np.zeros((3, 1)), ["b"] * 3, [1.0, 2, 3]
    for policy in (IPSPolicy(epsilon=0.2), DRPolicy(epsilon=0.2, temperature=1.0)):
        policy.fit(BanditLogs(*given, 1.0))
        assert_allclose(policy.predict_proba([[0.0]]), [[1.0]])
        policy.fit(BanditLogs(*given, 0.9, actions=["a", "b"]))
        assert_allclose(policy.predict_proba([[0.0]]), [[0.1, 0.9]])
    # actions never logged are the last resort
    rng = np.random.RandomState(0)
    action = rng.randint(2, size=60)
    given = rng.normal(size=(60, 2)), action, -1.0 - action, 0.5
    logs = BanditLogs(*given, actions=[0, 1, 2])
    for policy in (IPSPolicy(), DRPolicy(), IPSPolicy(baseline=5.0)):
        proba = policy.fit(logs).predict_proba(logs.context)
        assert_allclose(proba[:, 2], 0)
        only = np.array([[False, False, True]])
        assert_allclose(policy.predict_proba(logs.context[:1], only), only)


def test_no_evidence_is_an_error():
    alike, nothing = {"reward": [0.1] * 6}, {"reward": [0.0] * 6}
    given = {"context": np.zeros((6, 1)), "action": [0, 1, 2] * 2, "propensity": 0.5}
    for policy, fields in (
        (IPSPolicy(), alike),
        (DRPolicy(), alike),
        (IPSPolicy(baseline=0.1), alike),
        (IPSPolicy(baseline=0), nothing),
        (IPSPolicy(), {"available": np.eye(3, dtype=bool)[[0, 1, 2] * 2]}),
    ):
        logs = BanditLogs(**given | {"reward": np.arange(6.0)} | fields)
        with pytest.raises(ValueError, match="cannot tell actions apart"):
            policy.fit(logs)


# IPSPolicy
BINARY = make_bandit_logs(300, random_state=0)
REAL = make_bandit_logs(300, reward="continuous", random_state=0)
CONTEXTS = BINARY.context


@pytest.mark.parametrize(
    "classifier", [LogisticRegression(), GaussianNB(), KNeighborsClassifier(3)], ids=str
)
def test_simpler_policies_are_special_cases(classifier):
    ips = IPSPolicy(classifier, baseline=0, temperature=1.0).fit(BINARY)
    other = ClassifierPolicy(classifier, temperature=1.0).fit(BINARY)
    expected = other.predict_proba(CONTEXTS)
    assert_allclose(ips.predict_proba(CONTEXTS), expected, rtol=1e-6)
    dr = DRPolicy(classifier, n_steps=0, temperature=1.0).fit(REAL)
    ips = IPSPolicy(classifier, temperature=1.0).fit(REAL)
    assert_array_equal(dr.predict_proba(CONTEXTS), ips.predict_proba(CONTEXTS))


def test_baselines():
    given = np.zeros((4, 1)), [0, 1, 0, 1], [0.0, 1, 1, 5], 0.5
    logs, known = BanditLogs(*given), BanditLogs(*given, reward_range=(-10.0, 10.0))
    weighted = logs.replace(sample_weight=[1.0, 0, 0, 3])
    for some, where, expected in (
        (logs, "mean", 1.75),
        (logs, "median", 1),
        (logs, "midrange", 2.5),
        (logs, 7, 7),
        (weighted, "mean", 3.75),
        (weighted, "median", 5),
        (logs.replace(sample_weight=[0.0, 2, 1, 3]), "median", 1),
        (known, "midrange", 0),
        (REAL, "median", np.sort(REAL.reward)[149]),
        (BINARY, "midrange", 0.5),
    ):
        assert_allclose(IPSPolicy(baseline=where).fit(some).baseline_, expected)
    # where rewards start does not matter, and a weight of two is the round twice
    moved = REAL.replace(reward=REAL.reward - 7.5)
    weight = 1.0 + np.arange(300) % 2
    twice = REAL[np.repeat(np.arange(300), weight.astype(int))]
    for where in ("mean", "median", "midrange"):
        policy = IPSPolicy(baseline=where, temperature=1.0)
        before = policy.fit(REAL).predict_proba(CONTEXTS)
        assert_allclose(policy.fit(moved).predict_proba(CONTEXTS), before, atol=1e-4)
        policy.set_params(classifier=LogisticRegression(tol=1e-8))
        expected = policy.fit(twice).predict_proba(CONTEXTS)
        policy.fit(REAL.replace(sample_weight=weight))
        assert_allclose(policy.predict_proba(CONTEXTS), expected, atol=1e-4)


def test_infinite_shrinkage_of_ips_is_none():
    policy = IPSPolicy(temperature=1.0)
    expected = policy.fit(REAL).predict_proba(CONTEXTS)
    policy.set_params(shrinkage=np.inf).fit(REAL)
    assert_allclose(policy.predict_proba(CONTEXTS), expected)
    policy.set_params(shrinkage=1e9).fit(REAL)
    assert_allclose(policy.predict_proba(CONTEXTS), expected, atol=1e-3)
    policy.set_params(shrinkage=0.5).fit(REAL)
    assert np.abs(policy.predict_proba(CONTEXTS) - expected).max() > 0.01
    # one lucky round of an action that loses on average
    x, action = np.zeros((101, 1)), np.r_[np.arange(100) % 2, 1]
    reward = np.r_[1.0 - np.arange(100) % 2, 1.0]
    logs = BanditLogs(x, action, reward, np.r_[np.full(100, 0.5), 1e-3])
    assert IPSPolicy(baseline=0.5).fit(logs).predict(x[:1]) == [1]
    assert IPSPolicy(baseline=0.5, shrinkage=10).fit(logs).predict(x[:1]) == [0]


# DRPolicy
LOGS = make_bandit_logs(300, reward="continuous", random_state=0)
X = LOGS.context


def step(chance, rewards, first):
    """The examples of one step, by the formula."""
    gap = chance * (rewards - rewards.min(axis=1, keepdims=True))
    gap *= of_logged(first) / gap[np.arange(300), LOGS.action_index].sum()
    return sorted((X[i, 0], a, gap[i, a]) for i, a in zip(*gap.nonzero(), strict=True))


def of_logged(fit):
    """The weight of the examples of a fit that are labelled with the logged action."""
    logged = set(zip(X[:, 0], LOGS.action_index, strict=True))
    return sum(weight for x, action, weight in fit if (x, action) in logged)


def by_heart(fit):
    """The classifier that learned the examples of a fit."""
    x, y, weight = (np.array(column) for column in zip(*fit, strict=True))
    return ByHeart().fit(x[:, None], y.astype(int), weight)


def smoothed(classifier):
    return (1 - 1e-6) * classifier.predict_proba(X) + 1e-6 / 3


def test_the_steps_are_those_of_the_formula(monkeypatch):
    q_hat = np.random.RandomState(0).normal(size=(300, 3))
    w = 1 / LOGS.propensity
    rows = np.arange(300), LOGS.action_index
    for shrinkage, weight in ((0, 0 * w), (4.0, 4 * w / (w**2 + 4)), (None, w)):
        monkeypatch.setattr(ByHeart, "fits", ())
        policy = DRPolicy(ByHeart(), reward_model=q_hat, shrinkage=shrinkage, n_steps=2)
        policy.fit(LOGS)
        rewards = q_hat.copy()
        rewards[rows] += weight * (LOGS.reward - q_hat[rows])
        fits = ByHeart.fits
        assert len(fits) == 3
        if shrinkage is None:  # as infinite
            ByHeart.fits = ()
            policy.set_params(shrinkage=np.inf).fit(LOGS)
            assert ByHeart.fits == fits
        for before, after in pairwise(fits):
            expected = step(smoothed(by_heart(before)), rewards, fits[0])
            assert_allclose(after, expected)
    # columns and encodings stand for models
    given, named = DRPolicy(reward_model=q_hat), DRPolicy(reward_model="q_hat")
    expected = given.set_params(n_steps=2).fit(LOGS).predict_proba(X)
    named.set_params(n_steps=2).fit(LOGS.with_columns(q_hat=q_hat))
    assert_array_equal(named.predict_proba(X), expected)
    model = ActionRewardModel(Ridge(), encoding="one_hot")
    policy = DRPolicy(reward_model=model, n_steps=1).fit(LOGS)
    assert policy.predict_proba(X).shape == (300, 3)


def test_no_step_lowers_the_estimated_value(global_random_seed):
    """As the classifier is the likeliest of all: contexts are few."""
    rng = np.random.RandomState(global_random_seed)
    x, action = rng.randint(5, size=400), rng.randint(3, size=400)
    reward = rng.normal(size=400) + (x == action)
    logs = BanditLogs(x[:, None], action, reward, np.full(400, 1 / 3))
    q_hat = rng.normal(size=(400, 3))
    evaluator = DoublyRobust(reward_model=q_hat).fit(logs)
    values = []
    for n_steps in range(12):
        policy = DRPolicy(ByHeart(), reward_model=q_hat, shrinkage=None)
        policy.set_params(n_steps=n_steps, temperature=1.0)
        with warnings.catch_warnings():  # of rounds that it has learned from
            warnings.simplefilter("ignore")
            values.append(evaluator.score(policy.fit(logs)))
    assert (np.diff(values) > -1e-5).all()
    assert values[-1] > values[0] + 0.01


def test_the_model_never_sees_the_reward_that_it_is_corrected_by(monkeypatch):
    """A model that learns every reward by heart would leave nothing to correct."""
    folds = KFold(3)
    q_hat = np.empty((300, 3))
    for train, test in folds.split(X):
        model = ActionRewardModel(LinearRegression()).fit(LOGS[train])
        q_hat[test] = model.predict(X[test])
    fits = []
    for model in (LinearRegression(), q_hat):
        monkeypatch.setattr(ByHeart, "fits", ())
        DRPolicy(ByHeart(), reward_model=model, cv=folds, n_steps=2).fit(LOGS)
        fits.append(ByHeart.fits)
    for found, expected in zip(*fits, strict=True):
        assert_allclose(found, expected)


@pytest.mark.thorough
def test_the_default_model_suits_the_rewards_and_the_classifier():
    binary = make_bandit_logs(300, random_state=0)
    scaled = make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000))
    policy = DRPolicy(temperature=1.0, n_steps=1)
    ridge = make_pipeline(StandardScaler(), Ridge())
    for logs, model in ((binary, scaled), (LOGS, ridge)):
        expected = clone(policy).set_params(reward_model=model).fit(logs)
        found = policy.fit(logs).predict_proba(logs.context)
        assert_allclose(found, expected.predict_proba(logs.context), rtol=1e-9)
    behind = make_pipeline(PolynomialFeatures(2), LogisticRegression(max_iter=1000))
    model = make_pipeline(PolynomialFeatures(2), Ridge())
    policy = DRPolicy(behind, temperature=1.0, n_steps=1)
    expected = clone(policy).set_params(reward_model=model).fit(LOGS)
    found = policy.fit(LOGS).predict_proba(X)
    assert_array_equal(found, expected.predict_proba(X))


@pytest.mark.thorough
def test_classifiers_without_probabilities_take_steps():
    truth = make_bandit_logs(3000, reward="continuous", random_state=0)
    train, test = truth[:1500], truth[1500:]
    for classifier in (LinearSVC(), Perceptron(), OnlyNames()):
        first = IPSPolicy(classifier).fit(train)
        later = DRPolicy(classifier, n_steps=4).fit(train)
        evaluator = DoublyRobust(reward_model=Ridge()).fit(test)
        gain = evaluator.evaluate(later) - evaluator.evaluate(first)
        assert gain.value > -2 * gain.standard_error


class OnlyNames(ClassifierMixin, BaseEstimator):
    """Neither probabilities nor a decision function."""

    def fit(self, X, y, sample_weight=None):
        self.inner_ = LogisticRegression().fit(X, y, sample_weight)
        self.classes_ = self.inner_.classes_
        return self

    def predict(self, X):
        return self.inner_.predict(X)


@pytest.mark.thorough
@pytest.mark.filterwarnings("ignore::skope_ope.exceptions.OPEWarning")  # few rounds
def test_it_takes_the_steps_of_the_largest_value_on_rounds_held_out():
    """By hand: policies of two thirds, judged by `DoublyRobust` on the rest."""
    chosen = set()
    for seed in range(4):
        logs = make_bandit_logs(60, reward="continuous", random_state=seed)
        folds = list(KFold(3).split(logs))
        if seed % 2:
            rng = np.random.RandomState(seed)
            available = rng.random_sample((60, 3)) < 0.5
            available[np.arange(60), logs.action_index] = True
            fields = {"available": available, "logging_proba": None}
            group, weight = rng.randint(20, size=60), rng.uniform(1, 3, size=60)
            logs = logs.replace(group=group, sample_weight=weight, **fields)
            folds = list(GroupKFold(3).split(logs, groups=logs.group))
        evaluator = DoublyRobust(reward_model=Ridge(), cv=folds).fit(logs)
        values = []
        for n_steps in range(3):
            proba = np.empty((60, 3))
            for train, test in folds:
                inside = [
                    (np.flatnonzero(~held), np.flatnonzero(held))
                    for held in (np.isin(train, rows) for _, rows in folds)
                    if held.any()
                ]
                policy = DRPolicy(reward_model=Ridge(), cv=inside, n_steps=n_steps)
                policy.fit(logs[train])
                rest = logs[test]
                proba[test] = policy.predict_proba(rest.context, rest.available)
            values.append(evaluator.score(proba))
        policy = DRPolicy(reward_model=Ridge(), cv=3).fit(logs)
        assert policy.n_steps_ == np.argmax(values)
        fixed = clone(policy).set_params(n_steps=policy.n_steps_).fit(logs)
        X = logs.context
        assert_array_equal(policy.predict_proba(X), fixed.predict_proba(X))
        chosen.add(policy.n_steps_)
    assert len(chosen) > 1


def test_folds_in_the_order_of_time_and_folds_without_evidence():
    assert DRPolicy(cv=TimeSeriesSplit(3)).fit(LOGS).n_steps_ in (0, 1, 2)
    x = np.arange(40.0)[:, None]
    reward = np.r_[np.ones(3), np.zeros(37)]  # no other fold has a reward
    logs = BanditLogs(x, np.arange(40) % 2, reward, 0.5)
    assert DRPolicy(reward_model=0.5).fit(logs).n_steps_ in (0, 1, 2)
    # one round cannot choose the steps
    logs = LOGS.replace(group=np.zeros(300))
    with pytest.raises(ValueError, match="Pass a number of steps"):
        DRPolicy(reward_model=0.0).fit(logs)
    DRPolicy(reward_model=0.0, n_steps=1).fit(logs)


@pytest.mark.thorough
def test_folds_of_every_form_choose_the_steps():
    pairs = list(KFold(3).split(LOGS))
    expected = DRPolicy(cv=3).fit(LOGS)
    for folds in (iter(pairs), pairs):
        assert DRPolicy(cv=folds).fit(LOGS).n_steps_ == expected.n_steps_
    # folds of the second time hold out what was held out before
    repeated = pairs + list(KFold(4).split(LOGS))
    assert DRPolicy(cv=repeated).fit(LOGS).n_steps_ in (0, 1, 2)
    # folds without weight are left out
    heavy = np.arange(300) < 50  # all of them in the test part of the first fold
    logs = LOGS.replace(sample_weight=heavy.astype(float))
    assert DRPolicy().fit(logs).n_steps_ in (0, 1, 2)
    # the choice of steps does not flood with warnings
    policy = DRPolicy(LogisticRegression(max_iter=2))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        policy.fit(LOGS)
    unfinished = [w for w in caught if w.category is ConvergenceWarning]
    assert len(unfinished) == policy.n_steps_ + 1  # the fits of what is deployed
