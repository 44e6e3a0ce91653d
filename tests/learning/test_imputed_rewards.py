# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Rewards of slots imputed from those of slates."""

import tracemalloc
from itertools import permutations

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from skope_ope import PlackettLuceSlatePolicy, SlateLogs, UniformSlatePolicy
from skope_ope.base import BaseSlatePolicy
from skope_ope.learning._pseudo_inverse_ranker import ImputedRewards
from skope_ope.policies import (
    EmpiricalSlatePolicy,
    MixtureSlatePolicy,
    ProductSlatePolicy,
)
from tests.policies._slate_worlds import (
    enumerated_distribution,
    enumerated_moments,
    rounds,
)


def logs_of(slates, reward, m, logger, **fields):
    fields = {"item_features": np.eye(m), "n_candidates": m, **fields}
    context = np.zeros((len(slates), 1))
    return SlateLogs(context, slates, reward, logging_policy=logger, **fields)


def imputed(*batches):
    rewards = ImputedRewards("a test")
    for logs in batches:
        rewards.add(logs)
    return rewards


def one_each(logs):
    """Imputed rewards of single rounds."""
    return np.concatenate([imputed(logs[[i]]).mean() for i in range(len(logs))])


PAIRS = EmpiricalSlatePolicy([[0, 1], [1, 0]])
LOGGERS = {
    "uniform": (2, UniformSlatePolicy(2)),
    "uniform, all shown": (4, UniformSlatePolicy(4)),
    "plackett-luce": (2, PlackettLuceSlatePolicy([4.0, 1.0, 2.0, 1.0], 2)),
    "equal weights": (3, PlackettLuceSlatePolicy(np.ones(4), 3)),
    "product": (2, ProductSlatePolicy([[0.1, 0.2, 0.3, 0.4], [0.4, 0.0, 0.5, 0.1]])),
    "mixture": (2, MixtureSlatePolicy([UniformSlatePolicy(2), PAIRS], [0.3, 0.7])),
    "given slates": (2, EmpiricalSlatePolicy([[0, 1], [1, 2], [2, 3], [3, -1]])),
}


def close(found, expected, atol=1e-12):
    assert_allclose(found, expected, rtol=0, atol=atol)


@pytest.mark.parametrize("name", LOGGERS)
def test_slates_have_their_values_in_expectation(name, global_random_seed):
    """Sum over all slates s of mu(s) V(s) Gamma^+ 1_s tells every slate's value."""
    n_slots, logger = LOGGERS[name]
    phi = np.random.RandomState(global_random_seed).normal(size=(n_slots, 4))
    slates, proba = enumerated_distribution(logger, rounds(1, n_slots, 4))
    slates, proba = slates[proba[0] > 0], proba[0, proba[0] > 0]
    indicator = (slates[:, :, None] == np.arange(4)).astype(float)
    value = np.einsum("sja,ja->s", indicator, phi)
    logs = logs_of(slates, value, 4, logger)
    found = np.einsum("s,sja->ja", proba, one_each(logs))
    close(np.einsum("sja,ja->s", indicator, found), value)


@pytest.mark.few_cases(3)
@pytest.mark.parametrize("name", LOGGERS)
def test_equals_the_pseudoinverse_of_enumerated_moments(name, global_random_seed):
    n_slots, logger = LOGGERS[name]
    empty = rounds(30, n_slots, 4)
    reward = np.random.RandomState(global_random_seed).normal(size=30)
    slates = logger.sample(empty, global_random_seed)
    gamma = enumerated_moments(logger, empty[:1])[1][0].reshape(n_slots * 4, -1)
    indicator = (slates[:, :, None] == np.arange(4)).reshape(30, -1)
    expected = reward[:, None] * (indicator @ np.linalg.pinv(gamma, 1e-10))
    logs = logs_of(slates, reward, 4, logger)
    found = one_each(logs).reshape(30, -1)
    assert_allclose(found, expected, atol=1e-12, rtol=1e-12)
    close(imputed(logs).mean()[0].ravel(), expected.mean(axis=0))


@pytest.mark.few_cases(2)
@pytest.mark.parametrize(("n_slots", "m"), [(1, 3), (2, 3), (3, 3), (3, 6), (5, 10)])
def test_closed_form_of_uniform_rankings(n_slots, m, global_random_seed):
    """That of equal weights goes through the second moments."""
    rng = np.random.RandomState(global_random_seed)
    uniform = UniformSlatePolicy(n_slots)
    slates = uniform.sample(rounds(20, n_slots, m), rng)
    reward = rng.normal(size=20)
    weights = PlackettLuceSlatePolicy(np.ones(m), n_slots)
    assert weights.closed_form(rounds(1, n_slots, m)) is None
    one, other = (one_each(logs_of(slates, reward, m, p)) for p in (uniform, weights))
    close(one, other)


def test_candidates_that_vary(global_random_seed):
    """Every query has its own moments, and slots nobody is left for have none."""
    rng = np.random.RandomState(global_random_seed)
    n_candidates = rng.randint(1, 6, size=60)
    n_candidates[0] = 5
    blank = rounds(60, 3, n_candidates)
    for logger in (UniformSlatePolicy(3), PlackettLuceSlatePolicy(np.ones(5), 3)):
        slates = logger.sample(blank, global_random_seed)
        reward = rng.normal(size=60)
        logs = logs_of(slates, reward, 5, logger, n_candidates=n_candidates)
        rewards = imputed(logs)
        assert len(rewards.counts) == len(np.unique(n_candidates))
        queries = zip(rewards.offered, rewards.mean(), rewards.counts, strict=True)
        for offered, mean, count in queries:
            m = offered[0].sum()
            same, shown = n_candidates == m, min(m, 3)
            assert count == same.sum()
            uniform = UniformSlatePolicy(shown)
            few = logs_of(slates[same][:, :shown], logs.reward[same], m, uniform)
            expected = np.zeros((3, 5))
            expected[:shown, :m] = imputed(few).mean()[0]
            close(mean, expected)


def test_streaming_is_the_batch(global_random_seed):
    rng = np.random.RandomState(global_random_seed)
    item_id = np.array([permutation[:4] for permutation in permutations(range(5))])
    item_id = item_id[rng.choice(len(item_id), size=7, replace=False)]
    query = rng.randint(7, size=500)
    logger = PlackettLuceSlatePolicy(lambda logs: logs.context, 3)
    context = rng.randint(1, 4, size=(7, 4))[query].astype(float)
    slates = PlackettLuceSlatePolicy(context, 3).sample(rounds(500, 3, 4), rng)
    given, features = (context, slates, rng.normal(size=500)), rng.normal(size=(5, 2))
    fields = {"n_candidates": 4, "logging_policy": logger}
    logs = SlateLogs(*given, item_id=item_id[query], item_features=features, **fields)
    batch, parts = imputed(logs), imputed(logs[:3], logs[3:200], logs[200:])
    assert len(batch.counts) == len(parts.counts) == 7
    assert batch.n_rounds == parts.n_rounds == 500
    key = [f.tolist() for f in batch.features]
    same = [parts.features.tolist().index(k) for k in key]
    assert_array_equal(batch.counts, parts.counts[same])
    close(batch.mean(), parts.mean()[same])
    # the same features round by round are the same queries
    each = SlateLogs(*given, item_features=features[item_id[query]], **fields)
    each = imputed(each)
    same = [each.features.tolist().index(k) for k in key]
    close(batch.mean(), each.mean()[same])


SEVERAL_DISTRIBUTIONS = {
    "others": [[1.0, 2, 3], [5, 1, 1]],
    "one in two orders": [[4.0, 1, 1], [1, 4, 1]],
    "one in many orders": [[4.0, 2, 1], [1, 4, 2], [2, 1, 4], [4, 1, 2], [3, 3, 1]],
}


@pytest.mark.few_cases
@pytest.mark.parametrize("n_slots", [1, 2, 3])
@pytest.mark.parametrize(
    "weights", SEVERAL_DISTRIBUTIONS.values(), ids=SEVERAL_DISTRIBUTIONS
)
def test_distributions_may_differ_within_a_query(weights, n_slots, global_random_seed):
    """Each round has the pseudoinverse of its own distribution."""
    rng = np.random.RandomState(global_random_seed)
    weights = np.array(weights)[rng.randint(len(weights), size=40)]
    blank = rounds(40, n_slots, 3)
    slates = PlackettLuceSlatePolicy(weights, n_slots).sample(blank, rng)
    logger = PlackettLuceSlatePolicy("weight", n_slots)
    logs = logs_of(slates, rng.normal(size=40), 3, logger)
    logs = logs.with_columns(weight=weights)
    rewards = imputed(logs)
    assert len(rewards.counts) == 1
    gamma = enumerated_moments(logger, logs)[1].reshape(40, n_slots * 3, -1)
    indicator = (slates[:, :, None] == np.arange(3)).reshape(40, -1)
    each = [
        reward * np.linalg.pinv(matrix, 1e-10, hermitian=True) @ shown
        for reward, matrix, shown in zip(logs.reward, gamma, indicator, strict=True)
    ]
    expected = np.mean(each, axis=0).reshape(n_slots, 3)
    close(rewards.mean()[0], expected)
    streamed = imputed(logs[:1], logs[1:20], logs[20:])
    close(streamed.mean()[0], expected)


def test_a_query_whose_weights_are_in_another_order_is_learned_without_bias():
    """All slates as often as two distributions with the same weights show them."""
    weights = np.array([[4.0, 1, 1], [1, 4, 1]])
    slates = np.array(list(permutations(range(3), 2)))
    logger = PlackettLuceSlatePolicy("weight", 2)
    phi = np.array([[0.1, 0.5, 0.2], [0.3, 0.1, 0.4]])
    value = phi[[0, 1], slates].sum(axis=1)
    logs = logs_of(np.tile(slates, (2, 1)), np.tile(value, 2), 3, logger)
    logs = logs.with_columns(weight=np.repeat(weights, 6, axis=0))
    times = 30 * logger.slate_proba(logs)
    close(times, times.round())
    logs = logs[np.repeat(np.arange(12), times.round().astype(int))]
    found = imputed(logs).mean()[0, [0, 1], slates].sum(axis=1)
    close(found, value, atol=1e-13)
    # where all candidates are shown, slates do not tell slots from candidates
    weights = [[0.749, 0.915], [0.803, 0.745], [0.624, 0.846], [0.638, 1.092]]
    features = np.arange(16.0).reshape(4, 2, 2)
    slates = [[0, 1], [0, 1], [1, 0], [1, 0]]
    logs = logs_of(slates, np.ones(4), 2, logger, item_features=features)
    logs = logs.with_columns(weight=weights)
    rewards = imputed(logs)
    proba = logger.slate_proba(logs)
    shown = (np.array(slates)[:, :, None] == np.arange(2)).astype(float)
    expected = shown / (2 * proba)[:, None, None]  # by hand: two slates, apart
    order = [features[:, 0, 0].tolist().index(f) for f in rewards.features[:, 0, 0]]
    close(rewards.mean(), expected[order], atol=1e-13)


@pytest.mark.thorough
def test_a_million_pages_take_little_memory():
    rng = np.random.RandomState(0)
    n, uniform = 100_000, UniformSlatePolicy(5)
    slates = uniform.sample(rounds(n, 5, 10), rng)
    item_id = np.arange(250).reshape(25, 10)[rng.randint(25, size=n)]
    fields = {"item_id": item_id, "item_features": rng.normal(size=(250, 3))}
    logs = logs_of(slates, rng.normal(size=n), 10, uniform, **fields)
    rewards = imputed(logs)
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    for _ in range(9):
        rewards.add(logs)
    kept = tracemalloc.get_traced_memory()[0] - before
    tracemalloc.stop()
    assert rewards.counts.sum() == rewards.n_rounds == 1_000_000
    assert kept < 2**20


class SampleOnly:
    """A slate policy without the extension points of ours."""

    def slot_marginals(self, logs):
        return np.full((len(logs), 2, 3), 1 / 3)

    def slate_proba(self, logs, slates=None):
        return np.full(len(logs), 1 / 6)

    def sample(self, logs, random_state=None):
        return np.tile([0, 1], (len(logs), 1))


def test_bad_input():
    uniform = UniformSlatePolicy(2)

    def logs(shown, m=3, **fields):
        return logs_of(shown, [1.0, 0.0][: len(shown)], m, uniform, **fields)

    good = logs([[0, 1], [1, 2]])
    unknown, foreign = (good.replace(logging_policy=p) for p in (None, SampleOnly()))
    assert not isinstance(SampleOnly(), BaseSlatePolicy)
    probabilities = "SampleOnly does not give the probabilities"
    for batches, error, message in (
        ([unknown], ValueError, "a test needs the policy that chose"),
        ([foreign], TypeError, probabilities),
        ([logs([[0, 1]], item_features=None)], ValueError, "features of candidates"),
        ([logs([[0, 1], [2, 2]])], ValueError, r"slate \[2, 2\] at row 1"),
        ([good, logs([[0, 1]], 4)], ValueError, r"same numbers .*2, 4\) after \(2, 3"),
    ):
        with pytest.raises(error, match=message):
            imputed(*batches)


def test_rounds_weigh_as_their_column_says():
    logger = PlackettLuceSlatePolicy([4.0, 1.0, 2.0, 1.0], 2)
    slates = np.array(list(permutations(range(4), 2)))
    reward = np.random.RandomState(0).random_sample(len(slates))
    for policy in (logger, UniformSlatePolicy(2)):
        logs = logs_of(slates, reward, 4, policy)
        times = np.arange(len(slates)) % 3  # every third round does not count
        repeated = imputed(logs[np.repeat(np.arange(len(slates)), times)])
        weighted = imputed(logs.with_columns(sample_weight=times))
        assert_allclose(weighted.mean(), repeated.mean(), atol=1e-12)
        with pytest.raises(ValueError, match="column 'sample_weight' weights the rou"):
            imputed(logs.with_columns(sample_weight=-times))
