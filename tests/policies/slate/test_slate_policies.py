# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Slate policies: distributions that are summed over all slates."""

from functools import partial
from itertools import permutations
from math import comb

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.linear_model import LinearRegression

from skope_ope import (
    BanditLogs,
    PlackettLuceSlatePolicy,
    RankingPolicy,
    SlateIPS,
    SlateLogs,
    UniformPolicy,
    UniformSlatePolicy,
)
from skope_ope.policies import (
    EmpiricalSlatePolicy,
    MixtureSlatePolicy,
    ProductSlatePolicy,
    SampledSlatePolicy,
)
from tests._frames import every_library, frame_of
from tests._quiet import quiet
from tests.evaluators.slate._worlds import showed
from tests.policies._slate_worlds import (
    all_slates,
    check_moments,
    check_sample,
    moments_of_distributions,
    rounds,
)

FEATURES = np.array([[0.0], [3.0], [1.0], [2.0]])
RANKER = RankingPolicy(LinearRegression(), 2).fit(FEATURES, FEATURES[:, 0])
SOFT = clone(RANKER).set_params(temperature=0.7).fit(FEATURES, FEATURES[:, 0])
UNIFORM, BY_COLUMN = UniformSlatePolicy(2), PlackettLuceSlatePolicy("w", 2)
PRODUCT = ProductSlatePolicy("p")
LISTS = {0: [[0, 1], [2, -1], [1, 0]], 1: [[1, 1], [3, 0]]}
SEEN = EmpiricalSlatePolicy(LISTS, by="group")
SEVERAL = MixtureSlatePolicy([SEEN, PRODUCT], [0.5, 0.5])
POLICIES = [
    UNIFORM,
    BY_COLUMN,
    PlackettLuceSlatePolicy([4, 3, 2, 1], 2),
    PlackettLuceSlatePolicy(lambda logs: logs.columns["w"] ** 2, 2),
    PRODUCT,
    ProductSlatePolicy([[0.1, 0.2, 0.3, 0.4], [0, 0, 0, 1]]),
    SEEN,
    MixtureSlatePolicy([BY_COLUMN, UNIFORM], [0.9, 0.1]),
    MixtureSlatePolicy([SEVERAL, UNIFORM, RANKER], [0.4, 0.3, 0.3]),
    RANKER,
    SOFT,
    clone(RANKER).set_params(alpha=1.5).fit(FEATURES, FEATURES[:, 0]),
]
IDS = [f"{i}-{type(policy).__name__}" for i, policy in enumerate(POLICIES)]


def some_rounds(seed, n_rounds=5, **fields):
    rng = np.random.default_rng(seed)
    p = rng.dirichlet(np.ones(4), (n_rounds, 2))
    fields["group"] = rng.permutation(np.arange(n_rounds) % 2)
    logs = rounds(n_rounds, 2, 4, item_features=FEATURES, **fields)
    return logs.with_columns(w=rng.uniform(0.1, 1, (n_rounds, 4)), p=p)


@pytest.mark.few_cases(4)
@pytest.mark.parametrize("policy", POLICIES, ids=IDS)
def test_moments_equal_enumeration(policy, global_random_seed):
    check_moments(policy, some_rounds(global_random_seed))


@pytest.mark.parametrize("policy", POLICIES, ids=IDS)
def test_draws_follow_the_distribution(policy, global_random_seed):
    check_sample(policy, some_rounds(global_random_seed), global_random_seed)


RANKINGS = [UNIFORM, BY_COLUMN, RANKER, SOFT, POLICIES[7], POLICIES[11]]


@pytest.mark.few_cases
@pytest.mark.parametrize("policy", RANKINGS, ids=repr)
@pytest.mark.parametrize("by_slot", [False, True])
def test_candidates_that_vary(policy, by_slot, global_random_seed):
    rng = np.random.default_rng(global_random_seed)
    mask = rng.random((5, 2, 4) if by_slot else (5, 4)) < 0.5
    logs = some_rounds(global_random_seed, candidates=mask)
    check_moments(policy, logs)
    check_sample(policy, logs, global_random_seed, n_draws=2000)
    drawn = policy.sample(logs, 0)
    rows, slots = np.nonzero(drawn >= 0)
    offered = mask[rows, slots] if by_slot else mask[rows]
    assert offered[np.arange(len(rows)), drawn[rows, slots]].all()


@pytest.mark.parametrize("policy", POLICIES, ids=IDS)
def test_prefixes_and_marginals_of_slates(policy, global_random_seed):
    logs = some_rounds(global_random_seed)
    slates = policy.sample(logs, 1)
    prefix = policy.prefix_proba(logs, slates)
    assert (np.diff(prefix, axis=1) <= 1e-15).all()
    assert (prefix > 0).all()
    assert_array_equal(policy.slate_proba(logs, slates), prefix[:, -1])
    marginals = policy.slot_marginals(logs)
    single = policy.marginal_proba(logs, slates)
    assert_allclose(single[:, 0], prefix[:, 0], rtol=0, atol=1e-14)
    for row in range(len(logs)):
        for slot, shown in enumerate(slates[row]):
            want = 1 - marginals[row, slot].sum()
            if shown >= 0:
                want = marginals[row, slot, shown]
            assert_allclose(single[row, slot], want, rtol=0, atol=1e-14)


def test_deterministic_slates_and_closed_forms():
    logs = some_rounds(0)
    assert_array_equal(RANKER.deterministic_slates(logs), [[1, 3]] * 5)
    for policy in (UNIFORM, SOFT, PRODUCT, SEEN):
        assert policy.deterministic_slates(logs) is None
    assert UNIFORM.closed_form(logs) == "uniform"
    assert PRODUCT.closed_form(logs) == "product"
    assert BY_COLUMN.closed_form(logs) is None
    overlapping = some_rounds(0, candidates=np.ones((5, 2, 4), dtype=bool))
    assert UNIFORM.closed_form(overlapping) is None
    apart = np.zeros((5, 2, 4), dtype=bool)
    apart[:, 0, :2] = apart[:, 1, 2:] = True
    logs = some_rounds(0, candidates=apart)
    assert UNIFORM.closed_form(logs) == "product"
    assert_allclose(UNIFORM.slot_marginals(logs), apart / 2)
    assert all(policy.exact for policy in POLICIES)
    sampled = SampledSlatePolicy(UNIFORM)
    assert not sampled.exact
    assert not MixtureSlatePolicy([UNIFORM, sampled], [0.5, 0.5]).exact
    # repeated and missing items have no probability
    logs = some_rounds(0)
    for slate in ([1, 1], [1, -1], [-1, 1], [-1, -1]):
        shown = np.array([slate] * 5)
        assert_array_equal(UNIFORM.slate_proba(logs, shown), 0)
        assert_array_equal(BY_COLUMN.slate_proba(logs, shown), 0)
    twice = PRODUCT.slate_proba(logs, np.array([[1, 1]] * 5))
    assert_allclose(twice, logs.columns["p"][:, :, 1].prod(axis=1))


def test_other_logs_are_refused():
    bandit = BanditLogs(np.zeros((2, 1)), [0, 1], [0.0, 1.0])
    for policy in POLICIES:
        for method in (policy.slot_marginals, policy.distributions, policy.sample):
            with pytest.raises(TypeError, match="act on SlateLogs, got BanditLogs"):
                method(bandit)


def test_bad_slates():
    for slates, error, message in (
        ([[0.5, 1]] * 5, TypeError, "must hold integers"),
        ([[0, 4]] * 5, ValueError, "candidate 4 at row 0, slot 1: candidates are 0 to"),
        ([[-2, 1]] * 5, ValueError, "candidate -2 at row 0"),
        ([[0, 1]] * 4, ValueError, r"with 5 rounds, got \(4, 2\)"),
        ([[0, 1, 2]] * 5, ValueError, "the slates have 3 slots, .* fills 2"),
        ([0, 1, 2, 3, 0], ValueError, "must have shape"),
    ):
        for policy in (UNIFORM, PRODUCT, SEEN):
            with pytest.raises(error, match=message):
                policy.slate_proba(some_rounds(0), np.array(slates))


def test_slates_longer_than_their_candidates():
    for n, message in ((0, "at least 1"), (5, "n_slots=5 is more than the 4 candid")):
        for policy in (UniformSlatePolicy(n), PlackettLuceSlatePolicy("w", n)):
            with pytest.raises(ValueError, match=message):
                policy.slot_marginals(some_rounds(0))
    with pytest.raises(TypeError, match="n_slots must be an integer"):
        UniformSlatePolicy(2.0).slot_marginals(some_rounds(0))
    logs = some_rounds(0, candidates=np.ones((5, 2, 4), dtype=bool))
    message = "candidates has 2 slots, but the policy fills 3"
    with pytest.raises(ValueError, match=message):
        UniformSlatePolicy(3).slot_marginals(logs)


@every_library
def test_columns_of_a_frame_stand_in_the_order_of_the_slots(library):
    logs = showed([[0, 2], [1, 3]], [1.0, 2.0], logging_policy=UNIFORM)
    evaluator = SlateIPS().fit(logs)
    for names in (("slot_2", "slot_10"), ("top", "below")):
        given = dict(zip(names, ([0, 1], [2, 3]), strict=True))
        assert quiet(evaluator, frame_of(library, given)).value == 12 * 1.5
    turned = frame_of(library, {"slot_2": [0, 1], "slot_1": [2, 3]})
    with pytest.raises(ValueError, match=r"are \['slot_2', 'slot_1'\].*order of their"):
        evaluator.evaluate(turned)


def test_a_hundred_candidates_of_seven_weights():
    sizes = np.array([1, 2, 4, 8, 16, 32, 37])
    weights = np.repeat(2.0 ** -np.arange(7), sizes)
    policy = PlackettLuceSlatePolicy(weights, 10)
    logs = rounds(1, 10, 100)
    slots = policy.slot_marginals(logs)[0]
    assert_allclose(slots.sum(axis=1), 1, rtol=0, atol=1e-13)
    pairs = moments_of_distributions(policy, logs)[0]
    off = ~np.eye(10, dtype=bool)
    assert_allclose(pairs.sum(axis=(1, 3))[off], 1, rtol=0, atol=1e-12)
    # the first slot is a single draw, the second one from what it left
    first = weights / weights.sum()
    assert_allclose(slots[0], first, rtol=1e-13)
    second = first[:, None] * weights / (weights.sum() - weights[:, None])
    np.fill_diagonal(second, 0)
    assert_allclose(pairs[0, :, 1], second, rtol=1e-12)


def test_too_many_sets_are_refused_by_their_number():
    for m in (50, 100, 1000):
        policy = PlackettLuceSlatePolicy(np.linspace(1, 2, m), 10)
        needed = f"first 9 of 10 slots can show {comb(m, 9):,} sets of candidates"
        moments = partial(moments_of_distributions, policy)
        for ask in (policy.slot_marginals, moments):
            with pytest.raises(ValueError, match=needed) as found:
                ask(rounds(1, 10, m))
            assert f"{m} candidates have {m} distinct weights" in str(found.value)


@pytest.mark.few_cases(1)
@pytest.mark.parametrize(("m", "n_slots"), [(70, 2), (50, 5)])
def test_many_candidates_of_distinct_weights_in_few_slots(m, n_slots):
    """The sets of four of fifty, 230,300, are still few enough."""
    weights = np.random.default_rng(0).uniform(0.1, 1, m)
    policy = PlackettLuceSlatePolicy(weights, n_slots)
    logs = rounds(1, n_slots, m)
    slots = policy.slot_marginals(logs)[0]
    pairs = moments_of_distributions(policy, logs)[0]
    p = weights / weights.sum()
    want = p[:, None] * p / (1 - p[:, None])
    np.fill_diagonal(want, 0)
    assert_allclose(pairs[0, :, 1], want, rtol=1e-12)
    assert_allclose(slots[1], want.sum(axis=0), rtol=1e-12)
    for j, k in permutations(range(n_slots), 2):
        assert_allclose(pairs[j, :, k].sum(axis=1), slots[j], rtol=0, atol=1e-13)


def test_rankings_by_hand():
    for m, n_slots in ((3, 2), (4, 4), (5, 3), (4, 1)):
        slates = np.array(list(permutations(range(m), n_slots)))
        logs = rounds(len(slates), n_slots, m)
        policy = UniformSlatePolicy(n_slots)
        proba = policy.slate_proba(logs, slates)
        assert_allclose(proba, 1 / len(slates), rtol=1e-14)
        assert_allclose(policy.slot_marginals(logs), 1 / m, rtol=1e-14)
        check_moments(policy, logs[:1])
    # a round with few candidates leaves slots empty
    policy, logs = UniformSlatePolicy(3), rounds(2, 3, [2, 5])
    marginals = policy.slot_marginals(logs)
    assert_allclose(marginals[0, :, :2], [[0.5, 0.5], [0.5, 0.5], [0, 0]])
    assert_allclose(marginals[1], 0.2)
    drawn = policy.sample(logs, 0)
    assert drawn[0, 2] == -1
    assert_allclose(policy.slate_proba(logs, drawn), [1 / 2, 1 / 60])
    # by hand
    policy = PlackettLuceSlatePolicy([1, 2, 3], 2)
    logs = rounds(1, 2, 3)
    assert_allclose(policy.slate_proba(logs, np.array([[2, 0]])), 3 / 6 * 1 / 3)
    second = [2 / 6 / 4 + 3 / 6 / 3, 1 / 6 * 2 / 5 + 3 / 6 * 2 / 3, 0]
    second[2] = 1 - sum(second)
    assert_allclose(policy.slot_marginals(logs)[0], [[1 / 6, 2 / 6, 3 / 6], second])
    # prefixes multiply draws from what is left
    policy = PlackettLuceSlatePolicy([4, 3, 2, 1], 3)
    prefix = policy.prefix_proba(rounds(1, 3, 4), np.array([[1, 3, 0]]))[0]
    assert_allclose(prefix, [3 / 10, 3 / 10 * 1 / 7, 3 / 10 * 1 / 7 * 4 / 6])
    # equal weights are uniform
    logs = rounds(2, 3, 5)
    slates = np.array([[0, 1, 2], [4, 2, 0]])
    one, two = PlackettLuceSlatePolicy([2.5] * 5, 3), UniformSlatePolicy(3)
    assert_allclose(one.slate_proba(logs, slates), two.slate_proba(logs, slates))
    assert_allclose(one.slot_marginals(logs), two.slot_marginals(logs))


def test_weights_by_array_function_and_column():
    logs = rounds(3, 2, 4).with_columns(w=np.arange(1, 13).reshape(3, 4))
    by_column = PlackettLuceSlatePolicy("w", 2).slot_marginals(logs)
    by_function = PlackettLuceSlatePolicy(lambda logs: logs.columns["w"], 2)
    assert_array_equal(by_function.slot_marginals(logs), by_column)
    first = PlackettLuceSlatePolicy([1, 2, 3, 4], 2).slot_marginals(logs)
    assert_allclose(first[0], by_column[0])
    again = PlackettLuceSlatePolicy("w", 2).slot_marginals(logs[[2, 0]])
    assert_allclose(again, by_column[[2, 0]], rtol=1e-14)
    # weights of what is not offered are not looked at
    logs = rounds(1, 2, 3, candidates=np.array([[True, True, False]]))
    marginals = PlackettLuceSlatePolicy([1, 3, np.nan], 2).slot_marginals(logs)
    assert_allclose(marginals, [[[0.25, 0.75, 0], [0.75, 0.25, 0]]])


def rank_weights(ranks, alpha):
    return PlackettLuceSlatePolicy.from_ranks(ranks, 1, alpha=alpha).weights


def test_rank_weights():
    rank = np.arange(1, 129)
    assert_array_equal(rank_weights(rank, 0), 1)
    want = 2.0 ** (-1.5 * np.array([int(np.log2(r) + 1e-12) for r in rank]))
    assert_allclose(rank_weights(rank, 1.5), want, rtol=1e-15)
    # exact at every power of two, where a logarithm may be rounded down
    powers = 2.0 ** np.arange(50)
    assert_array_equal(rank_weights(powers, 1), 1 / powers)
    with pytest.raises(ValueError, match="ranks must have 1 dim"):
        rank_weights([[1, 2]], 1)
    with pytest.raises(ValueError, match="ranks must be at least 1, the best, got 0"):
        rank_weights([0, 1], 1)
    with pytest.raises(ValueError, match="alpha must be at least 0, got -1"):
        rank_weights([1], -1)


TABLE = np.array([[0.2, 0.3, 0.5], [1.0, 0.0, 0.0]])


def test_slots_are_independent(global_random_seed):
    logs = rounds(2, 2, 3)
    policy = ProductSlatePolicy(TABLE)
    slates = np.array([[2, 0], [1, 1]])
    assert_allclose(policy.slate_proba(logs, slates), [0.5, 0])
    assert_allclose(policy.prefix_proba(logs, slates), [[0.5, 0.5], [0.3, 0]])
    assert_array_equal(policy.slot_marginals(logs), [TABLE, TABLE])
    assert len(policy.distributions(logs)) == 1
    check_moments(policy, logs)
    # tables of rounds, by column and function
    table = np.random.default_rng(global_random_seed).dirichlet(np.ones(3), (4, 2))
    table[1, 1] = 0  # a slot that the round does not have
    logs = rounds(4, 2, 3).with_columns(p=table)
    policy = ProductSlatePolicy("p")
    assert_array_equal(policy.slot_marginals(logs), table)
    check_moments(policy, logs)
    check_sample(policy, logs[1:2], global_random_seed)
    own = ProductSlatePolicy(lambda logs: logs.columns["p"] * 1.0)
    assert_array_equal(own.slot_marginals(logs), table)
    assert_array_equal(policy.sample(logs, 0)[1, 1], -1)
    # probabilities of the logged candidates only
    logs = SlateLogs(np.zeros((2, 1)), [[0, 1], [2, -1]], [1.0, 0.0])
    logs = logs.with_columns(p=[[0.5, 0.25], [0.1, 1.0]])
    assert_array_equal(policy.marginal_proba(logs), [[0.5, 0.25], [0.1, 1.0]])
    assert_array_equal(policy.slate_proba(logs), [0.125, 0.1])
    assert policy.closed_form(logs) == "product"
    for method in (policy.slot_marginals, policy.distributions, policy.sample):
        with pytest.raises(ValueError, match="of the logged candidates only"):
            method(logs)
    with pytest.raises(ValueError, match="of the logged candidates only"):
        policy.slate_proba(logs, np.array([[0, 0], [2, -1]]))
    bad = logs.with_columns(p=[[0.5, 0.0], [0.1, 1.0]])
    with pytest.raises(ValueError, match=r"in \(0, 1\], got 0 at row 0, slot 1"):
        policy.slate_proba(bad)


def test_epsilon_uniform_shares_distributions(global_random_seed):
    rng = np.random.default_rng(global_random_seed)
    rank = rng.permuted(np.tile(np.arange(1, 6), (30, 1)), axis=1)
    logs = rounds(30, 2, 5).with_columns(w=2.0**-rank)
    steep, uniform = PlackettLuceSlatePolicy("w", 2), UniformSlatePolicy(2)
    policy = MixtureSlatePolicy([steep, uniform], [0.9, 0.1])
    assert len(policy.distributions(logs)) == 1
    want = 0.9 * steep.slot_marginals(logs) + 0.1 * uniform.slot_marginals(logs)
    assert_allclose(policy.slot_marginals(logs), want)
    distributions = policy.distributions(logs)
    table = distributions.slot_marginals()[distributions.index]
    assert_allclose(distributions.marginals(want), table, rtol=0, atol=1e-15)
    # which rows share a distribution
    rng = np.random.default_rng(global_random_seed)
    rank = rng.permuted(np.tile(np.arange(1, 7), (50, 1)), axis=1)
    logs = rounds(50, 3, 6).with_columns(rank=rank)
    policy = PlackettLuceSlatePolicy.from_ranks("rank", 3)
    assert len(policy.distributions(logs)) == 1
    check_moments(policy, logs[:5])
    # one distribution for all rows holds nothing per row
    distributions = UniformSlatePolicy(2).distributions(rounds(1000, 2, 4))
    assert len(distributions) == 1
    assert distributions.order.shape == distributions.place.shape == (1, 4)
    assert distributions.index.shape == (1000,)
    assert distributions.index.strides == (0,)
    # varying numbers of candidates make a distribution each
    logs = rounds(6, 3, [2, 4, 3, 4, 2, 5])
    assert len(UniformSlatePolicy(3).distributions(logs)) == 4
    check_moments(UniformSlatePolicy(3), logs)


def test_fit_fits_clones():
    features = np.array([[1.0], [3.0], [2.0]])
    ranker = RankingPolicy(LinearRegression(), 2)
    policy = MixtureSlatePolicy([ranker, UniformSlatePolicy(2)], [0.5, 0.5])
    logs = rounds(1, 2, 3, item_features=features)
    assert policy.fit(features, [1, 3, 2]) is policy
    assert not hasattr(ranker, "reward_model_")
    assert_allclose(policy.slot_marginals(logs)[0, 0], [1 / 6, 4 / 6, 1 / 6])
    assert not hasattr(clone(policy), "policies_")


def test_an_empty_slot_before_a_filled_one_is_possible_by_slot_only():
    mask = np.array([[[False, False], [True, True]]])
    logs = rounds(1, 2, 2, candidates=mask)
    policy = UniformSlatePolicy(2)
    slates = all_slates(2, 2)
    proba = [policy.slate_proba(logs, slate[None])[0] for slate in slates]
    assert_array_equal(slates[np.array(proba) > 0], [[-1, 0], [-1, 1]])
    check_moments(policy, logs)
    assert policy.sample(logs, 0)[0, 0] == -1
    # distributions with other supports and the same types
    # both distributions have two types of two candidates, one with a slot without
    # weight
    mask = np.ones((2, 2, 4), dtype=bool)
    mask[0, 1, 2:] = False
    mask[1, 0, :2] = False
    check_moments(UniformSlatePolicy(2), rounds(2, 2, 4, candidates=mask))
    # nothing is offered at all
    logs = rounds(2, 2, 3, candidates=np.array([[False] * 3, [True] * 3]))
    assert_array_equal(policy.slot_marginals(logs)[0], 0)
    assert_array_equal(policy.sample(logs, 0)[0], [-1, -1])
    check_moments(policy, logs)
    # weights far apart are drawn
    logs = rounds(1, 3, 3)
    policy = PlackettLuceSlatePolicy([1e-200, 1.0, 1e200], 3)
    assert_array_equal(policy.sample(logs, 0), [[2, 1, 0]])
    assert_allclose(policy.slate_proba(logs, np.array([[2, 1, 0]])), 1)


def ranked(weights):
    return PlackettLuceSlatePolicy(weights, 2)


def product(table):
    return ProductSlatePolicy(table)


def mixed(policies, weights):
    return MixtureSlatePolicy(policies, weights)


ONE, OTHER = UniformSlatePolicy(1), ProductSlatePolicy([[1, 0, 0]])
SHORT = r"n_slots, n_candidates\) with 2 rounds and 3"
CANNOT = [
    (ranked([1, 0, 1]), ValueError, "positive, got 0 for candidate 1 at row 0"),
    (ranked([1, -2, 1]), ValueError, "positive, got -2 for candidate 1 at row 0"),
    (ranked([1, np.nan, 1]), ValueError, "positive, got nan for candidate 1"),
    (ranked([1, np.inf, 1]), ValueError, "positive, got nan for candidate 1"),
    (ranked([1, 2]), ValueError, r"\(n_candidates,\) = \(3,\) or .*got \(2,\)"),
    (ranked([[1, 2, 3]] * 3), ValueError, r"= \(2, 3\), got \(3, 3\)"),
    (ranked("absent"), ValueError, "'absent' is not a column of the logs"),
    (ranked(["a", "b", "c"]), TypeError, "weights must hold numbers"),
    (product(TABLE * 2), ValueError, "sum to 1 .*got 2 at row 0, slot 0"),
    (product(-TABLE), ValueError, "non-neg.*got -0.2 for candidate 0 at row 0, slot 0"),
    (product(TABLE[:, :2]), ValueError, SHORT),
    (product(np.tile(TABLE, (3, 1, 1))), ValueError, "with 2 rounds"),
    (product(TABLE * np.nan), ValueError, "slot_proba must be finite"),
    (product("absent"), ValueError, "'absent' is not a column of the logs"),
    (mixed(UNIFORM, [1]), TypeError, "must be a list of slate policies"),
    (mixed([], []), TypeError, "must be a list of slate policies"),
    (mixed([UniformPolicy()], [1]), TypeError, "made of slate policies, got Uniform"),
    (mixed([UNIFORM], [0.5, 0.5]), ValueError, "one entry per policy"),
    (mixed([UNIFORM], [0.5]), ValueError, "sum to 1"),
    (mixed([UNIFORM, ONE], [0.5, 0.5]), ValueError, r"of slots, got \[1, 2\]"),
    (mixed([UNIFORM, OTHER], [0.5, 0.5]), ValueError, "same number of slots"),
]


def test_parameters_that_cannot_be():
    for policy, error, message in CANNOT:
        with pytest.raises(error, match=message):
            policy.sample(rounds(2, 2, 3), 0)
    logs = rounds(2, 2, 3, candidates=np.array([[True] * 3, [True, True, False]]))
    with pytest.raises(ValueError, match=r"0\.5 for candidate 2 at row 1, slot 0"):
        product(TABLE).slot_marginals(logs)
