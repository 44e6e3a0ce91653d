# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause

from itertools import permutations

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from skope_ope import PlackettLuceSlatePolicy, UniformSlatePolicy
from skope_ope.policies import (
    EmpiricalSlatePolicy,
    MixtureSlatePolicy,
    ProductSlatePolicy,
)
from skope_ope.policies.slate import _slate_distributions
from skope_ope.policies.slate._distinct_rows import distinct_rows
from tests.policies._slate_worlds import check_moments, moments_of_distributions, rounds


def test_rows_that_differ_by_the_order_of_candidates_share_a_distribution(
    global_random_seed,
):
    rng = np.random.default_rng(global_random_seed)
    rank = rng.permuted(np.tile(np.arange(1, 7), (50, 1)), axis=1)
    logs = rounds(50, 3, 6).with_columns(rank=rank)
    policy = PlackettLuceSlatePolicy.from_ranks("rank", 3)
    distributions = policy.distributions(logs)
    assert len(distributions) == 1
    assert_array_equal(distributions.items[0, :, 0], [1, 0.5, 0.5, 0.25, 0.25, 0.25])
    (batch,) = distributions.batches()
    assert_array_equal(batch.sizes, [1, 2, 3])
    assert_array_equal(batch.types, [0, 1, 1, 2, 2, 2])
    assert batch.moments.pairs.shape == (1, 3, 3, 3, 3)
    check_moments(policy, logs[:5])


def test_slates_and_marginals_in_the_order_of_the_distribution():
    logs = rounds(2, 2, 3).with_columns(w=[[1.0, 3.0, 2.0], [3.0, 2.0, 1.0]])
    distributions = PlackettLuceSlatePolicy("w", 2).distributions(logs)
    assert len(distributions) == 1
    assert_array_equal(distributions.order, [[1, 2, 0], [0, 1, 2]])
    assert_array_equal(distributions.place, [[2, 0, 1], [0, 1, 2]])
    assert_array_equal(
        distributions.slates(np.array([[0, -1], [0, 2]])), [[2, -1], [0, 2]]
    )
    q = np.arange(12.0).reshape(2, 2, 3)
    assert_array_equal(distributions.marginals(q)[0, 0], [1, 2, 0])
    assert_array_equal(distributions.marginals(q)[1], q[1])


def test_one_distribution_for_all_rows_holds_nothing_per_row():
    distributions = UniformSlatePolicy(2).distributions(rounds(1000, 2, 4))
    assert len(distributions) == 1
    assert distributions.order.shape == distributions.place.shape == (1, 4)
    assert distributions.index.shape == (1000,)
    assert distributions.index.strides == (0,)


def test_varying_numbers_of_candidates_make_a_distribution_each():
    logs = rounds(6, 3, [2, 4, 3, 4, 2, 5])
    distributions = UniformSlatePolicy(3).distributions(logs)
    assert len(distributions) == 4
    assert {tuple(batch.sizes) for batch in distributions.batches()} == {
        (2, 3),
        (4, 1),
        (3, 2),
        (5,),
    }
    check_moments(UniformSlatePolicy(3), logs)


def test_batches_do_not_change_the_moments(global_random_seed, monkeypatch):
    rng = np.random.default_rng(global_random_seed)
    logs = rounds(20, 3, 4).with_columns(w=rng.uniform(0.1, 1, (20, 4)))
    policy = MixtureSlatePolicy(
        [PlackettLuceSlatePolicy("w", 3), UniformSlatePolicy(3)], [0.7, 0.3]
    )
    whole, marginals = (
        moments_of_distributions(policy, logs),
        policy.slot_marginals(logs),
    )
    distributions = policy.distributions(logs)
    assert len(list(distributions.batches(1))) == len(distributions) == 20
    gamma = {}
    for batch in distributions.batches(1):
        gamma[int(batch.numbers[0])] = batch.second_moments()[0]
    for row, distribution in enumerate(distributions.index):
        place = distributions.place[row]
        one = gamma[int(distribution)][:, place][:, :, :, place]
        assert_allclose(one, whole[row], rtol=0, atol=1e-15)
    monkeypatch.setattr(_slate_distributions, "MAX_BYTES", 1)
    assert_allclose(policy.slot_marginals(logs), marginals, rtol=0, atol=1e-15)


def test_signed_zeros_are_the_same_weight():
    mask = np.array([[True, False], [True, False]])
    logs = rounds(2, 1, 2, candidates=mask)
    weights = np.array([[1.0, -0.0], [1.0, 0.0]])
    distributions = PlackettLuceSlatePolicy("w", 1).distributions(
        logs.with_columns(w=weights)
    )
    assert len(distributions) == 1


@pytest.mark.parametrize("dtype", [float, bool, int])
def test_distinct_rows(dtype):
    table = np.array([[1, 0, 1], [0, 0, 1], [1, 0, 1], [0, 0, 0]]).astype(dtype)
    first, index = distinct_rows(table)
    assert len(first) == 3
    assert_array_equal(table[first][index], table)


def test_rows_that_meet_in_one_number_are_told_apart(monkeypatch):
    class Blind:
        def __init__(self, seed):
            pass

        def randint(self, low, high, size, dtype):
            return np.full(size, 2**63 - 1, dtype=dtype)  # 2 f + 1 is -1: a plain sum

    monkeypatch.setattr(np.random, "RandomState", Blind)
    table = np.array([[1, 2], [2, 1], [1, 2]])
    first, index = distinct_rows(table)
    assert_array_equal(table[first][index], table)


def weights_of(logger, target, slates, m):
    """Pseudoinverse weights of slates, from the definition."""
    slates = np.asarray(slates)
    logs = rounds(1, slates.shape[1], m)
    gamma = moments_of_distributions(logger, logs)[0].reshape([slates.shape[1] * m] * 2)
    marginals = target.slot_marginals(logs)[0].ravel()
    shown = (slates[:, :, None] == np.arange(m)).reshape(len(slates), -1)
    inverse = np.linalg.pinv(gamma, rcond=1e-10, hermitian=True)
    return shown @ inverse @ marginals


def only(slate):
    return EmpiricalSlatePolicy([slate])


def test_the_world_that_tells_rankings_from_products():
    phi = np.array([[0.1, 0.5, 0.2], [0.3, 0.1, 0.4]])
    slates = np.array(list(permutations(range(3), 2)))
    reward = phi[[0, 1], slates].sum(axis=1)
    weights = weights_of(UniformSlatePolicy(2), only([1, 2]), slates, 3)
    assert_allclose(weights.mean(), 1, rtol=1e-13)
    assert_allclose((weights * reward).mean(), 0.9, rtol=1e-13)
    product = ProductSlatePolicy(np.full((2, 3), 1 / 3))
    wrong = weights_of(product, only([1, 2]), slates, 3)
    assert_allclose((wrong * reward).mean(), 61 / 60, rtol=1e-12)


def test_weights_of_given_slates():
    uniform = UniformSlatePolicy(2)
    slates = [(2, 0), (2, 1), (0, 2), (1, 0), (0, 1)]
    weights = weights_of(uniform, only([2, 0]), slates, 3)
    assert_allclose(weights, [5, 1, 1, 1, -1], rtol=1e-12)
    pairs = list(permutations(range(4), 2))
    weights = weights_of(uniform, only([0, 1]), pairs, 4)
    assert set(weights.round(9)) == {-2, -0.5, 1, 2.5, 7}
    product = ProductSlatePolicy(np.full((3, 2), 0.5))
    slates = [(0, 0, 0), (0, 0, 1), (0, 1, 1), (1, 1, 1)]
    weights = weights_of(product, only([0, 0, 0]), slates, 2)
    assert_allclose(weights, [4, 2, 0, -2], rtol=0, atol=1e-12)


def test_pi_equal_mu_gives_weight_one():
    policy = PlackettLuceSlatePolicy([4, 3, 2, 1], 3)
    slates = list(permutations(range(4), 3))
    assert_allclose(weights_of(policy, policy, slates, 4), 1, rtol=1e-12)


@pytest.mark.parametrize("weights", [[5, 2, 2, 1, 1, 1], [1] * 6])
def test_types_make_the_pseudoinverse(weights):
    # the decomposition that DistributionBatch describes
    logs = rounds(1, 3, 6)
    (batch,) = PlackettLuceSlatePolicy(weights, 3).distributions(logs).batches()
    S, P, n = batch.moments.same[0], batch.moments.pairs[0], batch.sizes
    types = len(n)
    each = np.arange(types)
    M = np.sqrt(np.outer(n, n)) * P
    M[:, :, each, each] += S - P[:, :, each, each]
    M = M.transpose(0, 2, 1, 3).reshape(3 * types, 3 * types)
    inverse = np.linalg.pinv(M, rcond=1e-10, hermitian=True)
    mean = (batch.types[:, None] == each) / np.sqrt(n)
    inverse = inverse.reshape(3, types, 3, types)
    out = np.einsum("jtku,at,bu->jakb", inverse, mean, mean)
    for t in np.flatnonzero(n > 1):
        A = np.linalg.pinv(S[:, :, t] - P[:, :, t, t], rcond=1e-10, hermitian=True)
        rest = np.diag(1.0 * (batch.types == t)) - np.outer(mean[:, t], mean[:, t])
        out += np.einsum("jk,ab->jakb", A, rest)
    gamma = batch.second_moments()[0].reshape(18, 18)
    want = np.linalg.pinv(gamma, rcond=1e-10, hermitian=True)
    assert_allclose(out.reshape(18, 18), want, rtol=0, atol=1e-12)
