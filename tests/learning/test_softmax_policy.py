# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause

import pickle
import tracemalloc
import warnings

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.model_selection import GridSearchCV, GroupKFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import (
    FunctionTransformer,
    OneHotEncoder,
    PolynomialFeatures,
    StandardScaler,
)

from skope_ope import (
    IPS,
    SNIPS,
    BanditLogs,
    DoublyRobust,
    LogSmoothing,
    PolicyScorer,
    SoftmaxPolicy,
)
from skope_ope.datasets import make_bandit_logs
from skope_ope.learning import _softmax
from skope_ope.learning._softmax import (
    DoublyRobustValue,
    IPSValue,
    LogLikelihood,
    LogSmoothingValue,
    SNIPSValue,
    SoftmaxRounds,
)
from skope_ope.learning._softmax_policy import Penalised
from skope_ope.policies import action_probabilities

pytestmark = pytest.mark.filterwarnings("ignore::skope_ope.exceptions.OPEWarning")

LOGS = make_bandit_logs(400, reward="continuous", effect=2, random_state=0)
TRAIN, TEST = LOGS[:200], LOGS[200:]
N, K = 60, 4
OBJECTIVES = ("dr", "ips", "snips", "log_smoothing")


def world(seed, grouped, weighted, reward_range=None):
    """Rounds with everything that enters an objective, drawn at random."""
    rng = np.random.RandomState(seed)
    available = rng.random_sample((N, K)) < 0.7
    action = rng.randint(K, size=N)
    available[np.arange(N), action] = True
    logs = BanditLogs(
        rng.normal(size=(N, 3)),
        action,
        rng.random_sample(N) - (0.0 if reward_range is None else 0.5),
        rng.uniform(0.1, 1, size=N),
        actions=np.arange(K),
        available=available,
        group=rng.randint(15, size=N) if grouped else None,
        sample_weight=rng.uniform(0.5, 2, size=N) if weighted else None,
        reward_range=reward_range,
    )
    return logs, rng.normal(size=(N, K)), rng.normal(size=(K, 4))


def objective_of(name, logs, q_hat, pessimism):
    """An objective, its rounds and the evaluator whose value it is."""
    given = logs.context, logs.action_index, logs.available
    if name == "dr":
        rounds = SoftmaxRounds(*given, lambda start, stop: q_hat[start:stop])
        value = DoublyRobustValue(logs, rounds.logged_q_hat(), pessimism)
        return value, rounds, DoublyRobust(reward_model=q_hat)
    objective, evaluator = {
        "ips": (IPSValue, IPS()),
        "snips": (SNIPSValue, SNIPS()),
        "log_smoothing": (LogSmoothingValue, LogSmoothing()),
    }[name]
    return objective(logs, pessimism), SoftmaxRounds(*given), evaluator


worlds = pytest.mark.parametrize(
    ("grouped", "weighted"), [(False, False), (True, False), (True, True)]
)


@worlds
@pytest.mark.parametrize("pessimism", [0.0, 1.645])
@pytest.mark.parametrize("name", OBJECTIVES)
def test_values_and_errors_are_those_of_the_evaluators(
    name, pessimism, grouped, weighted, global_random_seed
):
    logs, q_hat, theta = world(global_random_seed, grouped, weighted)
    objective, rounds, evaluator = objective_of(name, logs, q_hat, pessimism)
    value, _ = Penalised(rounds, objective, np.full(N, 1 / N))(theta)
    proba = rounds.probabilities(theta, slice(0, N))
    expected = evaluator.fit(logs).evaluate(proba)
    error = expected.standard_error
    assert value == pytest.approx(expected.value - pessimism * error, abs=1e-12)


@pytest.mark.few_cases
@worlds
@pytest.mark.parametrize("pessimism", [0.0, 1.645])
@pytest.mark.parametrize("name", [*OBJECTIVES, "likelihood"])
def test_gradients_are_finite_differences(
    name, pessimism, grouped, weighted, global_random_seed, monkeypatch
):
    logs, q_hat, theta = world(global_random_seed, grouped, weighted)
    if name == "likelihood":
        _, rounds, _ = objective_of("ips", logs, q_hat, 0.0)
        objective = LogLikelihood(np.random.RandomState(0).random_sample(N))
    else:
        objective, rounds, _ = objective_of(name, logs, q_hat, pessimism)
    share = np.random.RandomState(1).dirichlet(np.ones(N))
    how = {"entropy": 0.3, "penalty": 0.2, "anchor": theta[::-1]}
    problem = Penalised(rounds, objective, share, **how)
    _, gradient = problem(theta)
    for position in np.ndindex(*theta.shape):
        step = np.zeros_like(theta)
        step[position] = 1e-5
        slope = (problem(theta + step)[0] - problem(theta - step)[0]) / 2e-5
        assert slope == pytest.approx(gradient[position], abs=1e-7)


def test_negative_rewards_with_a_range_are_smoothed_as_by_the_evaluator():
    logs, q_hat, theta = world(0, False, False, reward_range=(-0.5, 1.0))
    objective, rounds, evaluator = objective_of("log_smoothing", logs, q_hat, 0.0)
    value, _ = Penalised(rounds, objective, np.full(N, 1 / N))(theta)
    proba = rounds.probabilities(theta, slice(0, N))
    assert value == pytest.approx(evaluator.fit(logs).score(proba), abs=1e-12)
    unknown = BanditLogs(logs.context, logs.action, logs.reward, logs.propensity)
    with pytest.raises(ValueError, match=r"non-negative rewards, got -.* at row"):
        SoftmaxPolicy(objective="log_smoothing").fit(unknown)


@pytest.mark.few_cases(1)
@pytest.mark.parametrize("objective", OBJECTIVES)
def test_results_do_not_depend_on_blocks(objective, monkeypatch):
    logs = TRAIN[:90]  # five blocks and a part of one
    logs = logs.replace(reward=logs.reward - logs.reward.min(), logging_proba=None)
    policy = SoftmaxPolicy(objective=objective, pessimism=0.5, entropy=0.1, alpha=0.1)
    policy.set_params(reward_model=0.5 if objective == "dr" else None)
    expected = clone(policy).fit(logs)
    monkeypatch.setattr(_softmax, "BLOCK_BYTES", 8 * 3 * 17)
    for kept in (1 << 28, 0):
        monkeypatch.setattr(_softmax, "KEPT_BYTES", kept)
        found = clone(policy).fit(logs)
        assert_allclose(found.coef_, expected.coef_, rtol=1e-3, atol=1e-3)
        assert found.objective_ == pytest.approx(expected.objective_, rel=1e-6)


def test_the_anchor_is_a_logistic_regression_of_the_logged_actions():
    policy = SoftmaxPolicy(FunctionTransformer(), alpha=1e9).fit(TRAIN)
    model = LogisticRegression(tol=1e-8, max_iter=1000)
    model.fit(TRAIN.context, TRAIN.action)
    centred = model.coef_ - model.coef_.mean(axis=0)
    assert_allclose(policy.coef_ - policy.coef_.mean(axis=0), centred, atol=5e-3)
    policy.set_params(anchor="uniform").fit(TRAIN)
    assert_allclose(policy.coef_, 0, atol=1e-6)


def test_the_top_is_a_top():
    """No policy nearby has a larger objective; further starts only climb higher."""
    policy = SoftmaxPolicy(reward_model=Ridge(), alpha=0.1).fit(TRAIN)
    evaluator = DoublyRobust(reward_model=Ridge()).fit(TRAIN)
    value = evaluator.score(policy)
    assert value > evaluator.score(SoftmaxPolicy(alpha=1e9).fit(TRAIN))
    reached = [
        clone(policy).set_params(n_starts=n).fit(TRAIN).objective_ for n in (1, 2, 3, 5)
    ]
    assert reached[0] == pytest.approx(policy.objective_, rel=1e-12)
    assert (np.diff(reached) >= 0).all()
    again = clone(policy).set_params(n_starts=5).fit(TRAIN)
    assert again.objective_ == reached[-1]


@pytest.mark.few_cases(1)
@pytest.mark.parametrize("objective", ["ips", "snips"])
def test_the_best_softmax_of_two_actions_and_no_features(objective):
    """The value is a function of one number, whose top is found by a grid."""
    rng = np.random.RandomState(0)
    action = rng.randint(2, size=400)
    reward = rng.random_sample(400) + 0.3 * action
    logs = BanditLogs(np.zeros((400, 1)), action, reward, np.full(400, 0.5))
    policy = SoftmaxPolicy(objective=objective, entropy=2.0).fit(logs)
    evaluator = (IPS() if objective == "ips" else SNIPS()).fit(logs)
    grid = np.linspace(0.01, 0.99, 981)

    def top(p):
        entropy = -(p * np.log(p) + (1 - p) * np.log(1 - p))
        pi = np.tile([1 - p, p], (400, 1))
        return evaluator.score(pi) + 2 * reward.std() * entropy

    best = grid[np.argmax([top(p) for p in grid])]
    assert policy.predict_proba([[0.0]])[0, 1] == pytest.approx(best, abs=2e-3)


def test_pessimism_prefers_what_is_sure():
    """Two rounds of large weight make one action look better than the usual one."""
    action = np.r_[np.zeros(200, int), 1, 1]
    reward = np.r_[np.tile([0.0, 1.0], 100), 1.0, 1.0]
    propensity = np.r_[np.full(200, 0.99), 0.01, 0.01]
    logs = BanditLogs(np.zeros((202, 1)), action, reward, propensity)
    hopeful, bound, smooth = (
        SoftmaxPolicy(**{"objective": "ips", **kind}, alpha=0)
        .fit(logs)
        .predict_proba([[0.0]])[0, 1]
        for kind in ({}, {"pessimism": 2.0}, {"objective": "log_smoothing"})
    )
    assert hopeful > 0.99
    assert max(bound, smooth) < 0.5


def test_entropy_keeps_exploring():
    spread = [
        SoftmaxPolicy(entropy=entropy).fit(TRAIN).predict_proba(TEST.context)
        for entropy in (0.0, 0.5, 50.0)
    ]
    entropies = [-(p * np.log(p + 1e-300)).sum(axis=1).mean() for p in spread]
    assert entropies[0] < entropies[1] < entropies[2]
    assert_allclose(spread[-1], 1 / 3, atol=0.02)


def test_units_of_rewards_and_weights_of_rounds():
    policy = SoftmaxPolicy(reward_model=Ridge(), alpha=0.1, entropy=0.1)
    expected = policy.fit(TRAIN).coef_
    moved = TRAIN.replace(reward=1000 * TRAIN.reward + 7)
    assert_allclose(policy.fit(moved).coef_, expected, rtol=1e-3, atol=1e-3)
    far = TRAIN.replace(reward=TRAIN.reward + 1e6)  # does not end the ascent
    for objective in ("dr", "snips"):
        learner = SoftmaxPolicy(objective=objective)
        here = learner.fit(TRAIN).predict_proba(TEST.context)
        assert_allclose(learner.fit(far).predict_proba(TEST.context), here, atol=1e-5)
    # a round of weight two is the round twice
    weight = 1.0 + np.arange(200) % 2
    twice = TRAIN[np.repeat(np.arange(200), weight.astype(int))]
    how = {"objective": "snips", "alpha": 0.1, "tol": 1e-7}
    policy = SoftmaxPolicy(FunctionTransformer(), **how)
    expected = policy.fit(twice).coef_
    found = clone(policy).fit(TRAIN.replace(sample_weight=weight)).coef_
    assert_allclose(found, expected, atol=0.02)


def test_groups_stay_together_in_the_fits_of_the_model():
    group = np.arange(200) // 4
    logs = TRAIN.replace(group=group)
    policy = SoftmaxPolicy(reward_model=Ridge()).fit(logs)
    split = SoftmaxPolicy(reward_model=Ridge(), cv=GroupKFold(5)).fit(logs)
    assert_array_equal(policy.coef_, split.coef_)
    alone = SoftmaxPolicy(reward_model=Ridge()).fit(TRAIN)
    assert np.abs(alone.coef_ - policy.coef_).max() > 0


def test_features_of_any_transformer():
    """Intervals of a number need a curve, which a line cannot follow."""
    rng = np.random.RandomState(0)
    x = rng.uniform(-2, 2, size=(3000, 1))
    action = rng.randint(2, size=3000)
    reward = (action == (np.abs(x[:, 0]) > 1)).astype(float)
    logs = BanditLogs(x, action, reward, 0.5)
    train, test = logs[:1500], logs[1500:]
    right = np.abs(test.context[:, 0]) > 1
    squares = make_pipeline(PolynomialFeatures(2, include_bias=False), StandardScaler())
    line, curve = SoftmaxPolicy().fit(train), SoftmaxPolicy(squares).fit(train)
    assert np.mean(curve.predict(test.context) == right) > 0.97
    assert np.mean(line.predict(test.context) == right) < 0.8
    pd = pytest.importorskip("pandas")
    names = ["low", "mid", "high"]
    words = np.array(names)[rng.randint(3, size=900)]
    action = rng.randint(2, size=900)
    reward = (action == (words == "mid")).astype(float)
    logs = BanditLogs(pd.DataFrame({"word": words}), action, reward, 0.5)
    policy = SoftmaxPolicy(OneHotEncoder()).fit(logs)
    assert policy.predict(pd.DataFrame({"word": names})).tolist() == [0, 1, 0]


@pytest.mark.parametrize("unit", [1e-3, 1.0, 50.0])
def test_sparse_contexts_are_scaled_by_one_factor(unit):
    fields = (TRAIN.action, TRAIN.reward, TRAIN.propensity)
    logs = BanditLogs(sparse.csr_matrix(unit * TRAIN.context), *fields)
    size = np.sqrt((TRAIN.context**2).sum(axis=1).mean())
    dense = BanditLogs(10 / size * TRAIN.context, *fields)
    found = SoftmaxPolicy(reward_model=0.0).fit(logs)
    expected = SoftmaxPolicy(FunctionTransformer(), reward_model=0.0).fit(dense)
    assert_allclose(found.coef_, expected.coef_, atol=1e-3)
    proba = pickle.loads(pickle.dumps(found)).predict_proba(logs.context)
    assert_allclose(proba, expected.predict_proba(dense.context), atol=1e-3)


def test_contexts_without_any_entry_and_with_missing_ones():
    fields = (TRAIN.action, TRAIN.reward, TRAIN.propensity)
    logs = BanditLogs(sparse.csr_matrix(TRAIN.context.shape), *fields)
    proba = SoftmaxPolicy(reward_model=0.0).fit(logs).predict_proba(logs.context[:1])
    assert_allclose(proba.sum(), 1)
    context = TRAIN.context.copy()
    context[3, 0] = np.nan
    proba = SoftmaxPolicy(reward_model=0.0).fit(BanditLogs(context, *fields))
    assert np.isfinite(proba.predict_proba(context)).all()
    logs = BanditLogs(sparse.csr_matrix(context), *fields)
    with pytest.raises(ValueError, match=r"missing or infinite.*SimpleImputer"):
        SoftmaxPolicy(reward_model=0.0).fit(logs)


@pytest.mark.thorough
def test_a_search_over_alpha():
    scorer = PolicyScorer(DoublyRobust(reward_model=Ridge()))
    grid = {"alpha": [1e-3, 1e-1, 1e3]}
    search = GridSearchCV(SoftmaxPolicy(), grid, scoring=scorer, cv=3).fit(TRAIN)
    assert search.best_params_["alpha"] < 1e3
    assert np.isfinite(search.cv_results_["mean_test_score"]).all()


def test_ascents_that_stop_or_do_not_begin():
    with pytest.warns(ConvergenceWarning, match="stopped after max_iter=2 steps"):
        SoftmaxPolicy(max_iter=2).fit(TRAIN)
    # no evidence and a single action
    with pytest.raises(ValueError, match="cannot tell actions apart"):
        SoftmaxPolicy().fit(TRAIN.replace(reward=np.ones(200)))
    given = np.zeros((3, 1)), ["b"] * 3, [1.0, 1, 1], 0.9
    policy = SoftmaxPolicy().fit(BanditLogs(*given, actions=["a", "b"]))
    assert_allclose(policy.predict_proba([[0.0]]), [[0, 1]])


@pytest.mark.thorough
def test_it_gains_on_other_rounds(global_random_seed):
    how = {"world_random_state": 3, "random_state": global_random_seed}
    how |= {"n_actions": 5, "effect": 2.0, "return_truth": True}
    logs, _, truth = make_bandit_logs(6000, **how)
    q = truth.expected_rewards[3000:]
    logger = (logs.logging_proba[3000:] * q).sum(axis=1).mean()
    for objective in ("dr", "snips", "log_smoothing"):
        policy = SoftmaxPolicy(objective=objective).fit(logs[:3000])
        value = (action_probabilities(policy, logs[3000:]) * q).sum(axis=1).mean()
        assert value > logger + 0.6 * (q.max(axis=1).mean() - logger)


@pytest.mark.theory
def test_memory_does_not_grow_with_rounds_times_actions(monkeypatch):
    """1,000 actions: a table of 20,000 rounds would take 160 MB."""
    rng = np.random.RandomState(0)
    n, k = 20_000, 1000
    given = rng.normal(size=(n, 5)), rng.randint(k, size=n), rng.random_sample(n), 1 / k
    logs = BanditLogs(*given, actions=np.arange(k))
    monkeypatch.setattr(_softmax, "KEPT_BYTES", 0)  # as with a million rounds
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        tracemalloc.start()
        SoftmaxPolicy(reward_model=0.5, max_iter=3).fit(logs)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    assert peak < 40e6
