# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause

import pickle

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.linear_model import LinearRegression

from skope_ope import (
    BanditLogs,
    PlackettLuceSlatePolicy,
    RankingPolicy,
    UniformSlatePolicy,
)
from skope_ope.policies import (
    EmpiricalSlatePolicy,
    MixtureSlatePolicy,
    ProductSlatePolicy,
    SampledSlatePolicy,
)
from skope_ope.policies.slate import _slate_base
from tests.policies._slate_worlds import check_moments, check_sample, rounds

FEATURES = np.array([[0.0], [3.0], [1.0], [2.0]])
RANKER = RankingPolicy(LinearRegression(), 2).fit(FEATURES, FEATURES[:, 0])
SOFT = RankingPolicy(LinearRegression(), 2, temperature=0.7).fit(
    FEATURES, FEATURES[:, 0]
)
UNIFORM, BY_COLUMN = UniformSlatePolicy(2), PlackettLuceSlatePolicy("w", 2)
PRODUCT = ProductSlatePolicy("p")
LISTS = {0: [[0, 1], [2, -1], [1, 0]], 1: [[1, 1], [3, 0]]}
SEEN = EmpiricalSlatePolicy(LISTS, by="group")
POLICIES = [
    UNIFORM,
    BY_COLUMN,
    PlackettLuceSlatePolicy([4, 3, 2, 1], 2),
    PlackettLuceSlatePolicy(lambda logs: logs.columns["w"] ** 2, 2),
    PRODUCT,
    ProductSlatePolicy([[0.1, 0.2, 0.3, 0.4], [0, 0, 0, 1]]),
    SEEN,
    MixtureSlatePolicy([BY_COLUMN, UNIFORM], [0.9, 0.1]),
    MixtureSlatePolicy(
        [MixtureSlatePolicy([SEEN, PRODUCT], [0.5, 0.5]), UNIFORM, RANKER],
        [0.4, 0.3, 0.3],
    ),
    RANKER,
    SOFT,
    RankingPolicy(LinearRegression(), 2, alpha=1.5).fit(FEATURES, FEATURES[:, 0]),
]
IDS = [f"{i}-{type(policy).__name__}" for i, policy in enumerate(POLICIES)]


def world(seed, n_rounds=5, **fields):
    rng = np.random.default_rng(seed)
    p = rng.dirichlet(np.ones(4), (n_rounds, 2))
    logs = rounds(
        n_rounds,
        2,
        4,
        item_features=FEATURES,
        group=rng.permutation(np.arange(n_rounds) % 2),
        **fields,
    )
    return logs.with_columns(w=rng.uniform(0.1, 1, (n_rounds, 4)), p=p)


@pytest.mark.few_cases(4)
@pytest.mark.parametrize("policy", POLICIES, ids=IDS)
def test_moments_equal_enumeration(policy, global_random_seed):
    check_moments(policy, world(global_random_seed))


@pytest.mark.parametrize("policy", POLICIES, ids=IDS)
def test_draws_follow_the_distribution(policy, global_random_seed):
    check_sample(policy, world(global_random_seed), global_random_seed)


RANKINGS = [UNIFORM, BY_COLUMN, RANKER, SOFT, POLICIES[7], POLICIES[11]]


@pytest.mark.few_cases
@pytest.mark.parametrize("policy", RANKINGS, ids=repr)
@pytest.mark.parametrize("by_slot", [False, True])
def test_candidates_that_vary(policy, by_slot, global_random_seed):
    rng = np.random.default_rng(global_random_seed)
    mask = rng.random((5, 2, 4) if by_slot else (5, 4)) < 0.5
    logs = world(global_random_seed, candidates=mask)
    check_moments(policy, logs)
    check_sample(policy, logs, global_random_seed, n_draws=2000)
    drawn = policy.sample(logs, 0)
    rows, slots = np.nonzero(drawn >= 0)
    offered = mask[rows, slots] if by_slot else mask[rows]
    assert offered[np.arange(len(rows)), drawn[rows, slots]].all()


@pytest.mark.parametrize("policy", POLICIES, ids=IDS)
def test_results_do_not_depend_on_chunks(policy, global_random_seed, monkeypatch):
    logs = world(global_random_seed, 7)
    if isinstance(policy, MixtureSlatePolicy):
        pytest.skip("its members draw one after the other")
    whole = (
        policy.sample(logs, 3),
        policy.slate_proba(logs),
        policy.slot_marginals(logs),
    )
    monkeypatch.setattr(_slate_base, "CHUNK_BYTES", 600)
    assert_array_equal(policy.sample(logs, 3), whole[0])
    assert_array_equal(policy.slate_proba(logs), whole[1])
    assert_array_equal(policy.slot_marginals(logs), whole[2])


@pytest.mark.parametrize("policy", POLICIES, ids=IDS)
def test_prefixes_and_marginals_of_slates(policy, global_random_seed):
    logs = world(global_random_seed)
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


@pytest.mark.parametrize("policy", [*POLICIES[:3], *POLICIES[4:]], ids=str)
def test_policies_are_estimators(policy):
    logs = world(0)
    copy = pickle.loads(pickle.dumps(policy))
    assert_array_equal(copy.slot_marginals(logs), policy.slot_marginals(logs))
    unfitted = clone(policy)
    assert unfitted is not policy
    assert repr(unfitted) == repr(policy)


def test_deterministic_policies_name_their_slates():
    logs = world(0)
    assert_array_equal(RANKER.deterministic_slates(logs), [[1, 3]] * 5)
    for policy in (UNIFORM, SOFT, PRODUCT, SEEN):
        assert policy.deterministic_slates(logs) is None


def test_closed_forms():
    logs = world(0)
    assert UNIFORM.closed_form(logs) == "uniform"
    assert PRODUCT.closed_form(logs) == "product"
    assert BY_COLUMN.closed_form(logs) is None
    overlapping = world(0, candidates=np.ones((5, 2, 4), dtype=bool))
    assert UNIFORM.closed_form(overlapping) is None
    apart = np.zeros((5, 2, 4), dtype=bool)
    apart[:, 0, :2] = apart[:, 1, 2:] = True
    logs = world(0, candidates=apart)
    assert UNIFORM.closed_form(logs) == "product"
    assert_allclose(UNIFORM.slot_marginals(logs), apart / 2)


def test_exact_and_sampled():
    assert all(policy.exact for policy in POLICIES)
    sampled = SampledSlatePolicy(UNIFORM)
    assert not sampled.exact
    assert not MixtureSlatePolicy([UNIFORM, sampled], [0.5, 0.5]).exact


@pytest.mark.parametrize("policy", POLICIES, ids=IDS)
def test_other_logs_are_refused(policy):
    bandit = BanditLogs(np.zeros((2, 1)), [0, 1], [0.0, 1.0])
    for method in (policy.slot_marginals, policy.distributions, policy.sample):
        with pytest.raises(TypeError, match="act on SlateLogs, got BanditLogs"):
            method(bandit)


@pytest.mark.parametrize(
    ("slates", "error", "message"),
    [
        ([[0.5, 1]] * 5, TypeError, "must hold integers"),
        ([[0, 4]] * 5, ValueError, "candidate 4 at row 0, slot 1: candidates are 0 to"),
        ([[-2, 1]] * 5, ValueError, "candidate -2 at row 0"),
        ([[0, 1]] * 4, ValueError, r"with 5 rounds, got \(4, 2\)"),
        ([[0, 1, 2]] * 5, ValueError, "the slates have 3 slots, .* fills 2"),
        ([0, 1, 2, 3, 0], ValueError, "must have shape"),
    ],
)
def test_bad_slates(slates, error, message):
    for policy in (UNIFORM, PRODUCT, SEEN):
        with pytest.raises(error, match=message):
            policy.slate_proba(world(0), np.array(slates))


@pytest.mark.parametrize("n_slots", [0, 5])
def test_slates_longer_than_their_candidates(n_slots):
    message = "at least 1" if n_slots == 0 else "n_slots=5 is more than the 4 candid"
    for policy in (UniformSlatePolicy(n_slots), PlackettLuceSlatePolicy("w", n_slots)):
        with pytest.raises(ValueError, match=message):
            policy.slot_marginals(world(0))
    with pytest.raises(TypeError, match="n_slots must be an integer"):
        UniformSlatePolicy(2.0).slot_marginals(world(0))


def test_repeated_and_missing_items_have_no_probability():
    logs = world(0)
    for slate in ([1, 1], [1, -1], [-1, 1], [-1, -1]):
        shown = np.array([slate] * 5)
        assert_array_equal(UNIFORM.slate_proba(logs, shown), 0)
        assert_array_equal(BY_COLUMN.slate_proba(logs, shown), 0)
    twice = PRODUCT.slate_proba(logs, np.array([[1, 1]] * 5))
    assert_allclose(twice, logs.columns["p"][:, :, 1].prod(axis=1))


def test_masks_for_other_slots_are_refused():
    logs = world(0, candidates=np.ones((5, 2, 4), dtype=bool))
    with pytest.raises(
        ValueError, match=r"candidates has 2 slots, but the policy fills 3"
    ):
        UniformSlatePolicy(3).slot_marginals(logs)
