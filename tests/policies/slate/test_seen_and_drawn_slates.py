# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Policies that are known by slates: given, seen in logs, or drawn."""

import pickle
from itertools import product

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.special import factorial
from sklearn.base import clone

from skope_ope import (
    PlackettLuceSlatePolicy,
    PseudoInverse,
    SlateLogs,
    UniformSlatePolicy,
)
from skope_ope.exceptions import PropensityWarning
from skope_ope.policies import EmpiricalSlatePolicy, SampledSlatePolicy
from skope_ope.policies.slate._empirical_slate_policy import alike_ratio, alike_warnings
from tests._frames import every_library, frame_of
from tests.evaluators.slate._worlds import additive, quietly, rankings, world
from tests.policies._slate_worlds import (
    check_moments,
    check_sample,
    moments_of_distributions,
    rounds,
)

SLATES = [[0, 1], [1, 2], [0, 1], [2, 2], [1, -1]]


def test_distinct_slates_are_alike(global_random_seed):
    logs = rounds(3, 2, 3)
    policy = EmpiricalSlatePolicy(SLATES)
    given = np.array([[0, 1], [2, 2], [2, 1]])
    assert_allclose(policy.slate_proba(logs, given), [0.25, 0.25, 0])
    assert len(policy.distributions(logs)) == 1
    unequal = EmpiricalSlatePolicy(SLATES, [0.1, 0.2, 0.3, 0.0, 0.4])
    assert_allclose(unequal.slate_proba(logs, np.array([[0, 1]] * 3)), 0.4)
    for one in (policy, unequal):
        check_moments(one, logs)
        check_sample(one, logs, global_random_seed)


SHOWN = [[0, 1], [1, 0], [0, 1], [2, 1], [2, 1]]


def test_slates_seen_in_logs_by_label():
    given = np.zeros((5, 1)), SHOWN, np.zeros(5)
    logs, alone = SlateLogs(*given, group=[*"aabba"]), SlateLogs(*given)
    seen = EmpiricalSlatePolicy.seen_in(logs, frequencies=False, by="group")
    assert_allclose(seen.slate_proba(logs), [1 / 3, 1 / 3, 1 / 2, 1 / 2, 1 / 3])
    check_moments(seen, logs)
    assert len(seen.distributions(logs)) == 2
    often = EmpiricalSlatePolicy.seen_in(logs[:4], by="group")
    assert_allclose(often.slate_proba(logs[:4]), 0.5)
    weighted = alone.with_columns(sample_weight=[1.0, 3, 1, 1, 4])
    for some, by, expected in (
        (alone, None, [0.4, 0.2, 0.4, 0.4, 0.4]),
        (weighted, None, [0.2, 0.3, 0.2, 0.5, 0.5]),
        (weighted, [*"aabba"], [1 / 8, 3 / 8, 1 / 2, 1 / 2, 1 / 2]),
    ):
        often = EmpiricalSlatePolicy.seen_in(some, by=by)
        assert_allclose(often.slate_proba(some), expected)


QUERIES = [*"aabba"]


@pytest.mark.parametrize(
    "labels",
    [QUERIES, [1, 1, 2, 2, 1], np.array([1.5, 1.5, 2, 2, 1.5])],
    ids=["text", "integers", "floats"],
)
def test_by_is_a_column_a_field_a_function_or_an_array(labels):
    users = [0, 1, 2, 3, 4]  # whose rounds these are says nothing of the slates
    logs = SlateLogs(np.zeros((5, 1)), SHOWN, np.zeros(5), group=users)
    logs = logs.with_columns(query=labels).replace(timestamp=[0, 0, 1, 1, 0])
    want = [1 / 3, 1 / 3, 1 / 2, 1 / 2, 1 / 3]  # every slate once
    rows = [3, 0, 4]
    for by in ("query", "timestamp", lambda logs: logs.columns["query"], labels):
        seen = clone(EmpiricalSlatePolicy.seen_in(logs, by=by))
        assert_allclose(seen.slate_proba(logs), want)
        assert_allclose(seen.slate_proba(logs[rows]), np.take(want, rows))
        assert_array_equal(seen.slate_proba(logs, seen.sample(logs, 0)), want)
    together = EmpiricalSlatePolicy.seen_in(logs, by=None)
    assert_allclose(together.slate_proba(logs), [0.4, 0.2, 0.4, 0.4, 0.4])
    again = pickle.loads(pickle.dumps(EmpiricalSlatePolicy.seen_in(logs, by=labels)))
    assert_allclose(again.slate_proba(logs[rows]), np.take(want, rows))


def test_groups_choose_the_slates_where_they_are_named():
    logs = rounds(4, 2, 3, group=[0, 0, 1, 1])
    assert not isinstance(EmpiricalSlatePolicy.seen_in(logs).slates, dict)
    by_group = EmpiricalSlatePolicy({0: [[0, 1]], 1: [[1, 0]]})
    shown = np.array([[0, 1]] * 4)
    with pytest.raises(ValueError, match=r'`by` is missing.*or by="group"'):
        by_group.slate_proba(logs, shown)
    proba = by_group.set_params(by="group").slate_proba(logs, shown)
    assert_array_equal(proba, [1, 1, 0, 0])
    # groups and offers of the logs
    policy = EmpiricalSlatePolicy({0: [[0, 1]]}, by="group")
    with pytest.raises(ValueError, match="the logs have no `group`"):
        policy.slot_marginals(rounds(2, 2, 3))

    def marginals(mask):
        logs = rounds(2, 2, 3, candidates=np.array(mask, dtype=bool), group=[0, 0])
        return policy.slot_marginals(logs)

    with pytest.raises(ValueError, match="candidate 1, which row 1 does not offer"):
        marginals([[1, 1, 1], [1, 0, 1]])
    mask = [[[1, 0, 1], [1, 1, 1]], [[1, 0, 1], [1, 1, 1]]]
    assert_array_equal(marginals(mask)[:, 1, 1], 1)
    mask[1][1][1] = 0
    with pytest.raises(ValueError, match="candidate 1 in slot 1, which row 1 does not"):
        marginals(mask)


def test_bad_labels():
    logs, seen_in = rounds(3, 2, 3), EmpiricalSlatePolicy.seen_in
    for by, message in (
        ("absent", "the logs have no `absent`, by which slates"),
        ("timestamp", "the logs have no `timestamp`"),
        ("context", r"by='context' must be 1-d \(n_rounds,\)"),
        ([1, 2], r"one label per round \(3\), got 2"),
        ([1.0, np.nan, 2.0], "by has a missing label .* at row 1"),
    ):
        with pytest.raises(ValueError, match=message):
            seen_in(logs, by=by)
    with pytest.raises(TypeError, match="logs must be SlateLogs, got ndarray"):
        seen_in(np.zeros((3, 2), dtype=int))
    # an array of labels belongs to its rows
    with pytest.raises(ValueError, match=r"these are other rows\. Carry the labels"):
        seen_in(logs, by=[0, 0, 1]).slate_proba(rounds(3, 2, 3))
    with pytest.raises(ValueError, match="these are other rows"):
        seen_in(logs[:2], by=[0, 1]).slate_proba(logs)


def test_bad_slates():
    logs = rounds(2, 2, 3, group=[0, 0])
    two = {0: [[0, 1]], 1: [[1, 0]]}
    for slates, proba, error, message in (
        ([[0, 3]], None, ValueError, "slates show candidate 3, the logs have 3"),
        ([[0, 1], [2]], None, ValueError, "slates is no rectangular array"),
        ([[0.5, 1]], None, TypeError, "slates must hold integers"),
        ([], None, ValueError, r"shape \(n_slates, n_slots\)"),
        ([[0, -2]], None, ValueError, "slates holds -2"),
        ([[0, 1]], [0.5, 0.5], ValueError, "proba has 2 entries, slates has 1"),
        ([[0, 1]], [0.5], ValueError, "sum to 1, got minimum 0.5, sum 0.5"),
        ({1: [[0, 1]]}, None, ValueError, "no label 0, which row 0 has"),
        (two | {1: [[0]]}, None, ValueError, r"number of slots, got \[1, 2\]"),
        ({0: [[0, 1]]}, [1.0], TypeError, "proba must be a dict"),
        (two, {0: [1.0]}, ValueError, "the slates of label 1"),
    ):
        with pytest.raises(error, match=message):
            by = "group" if isinstance(slates, dict) else None
            EmpiricalSlatePolicy(slates, proba, by=by).slot_marginals(logs)


@pytest.mark.thorough
def test_many_rounds_in_parts():
    slates = np.array([[a, b] for a in range(30) for b in range(30)])
    policy = EmpiricalSlatePolicy(slates)
    logs = rounds(20_000, 2, 30)
    drawn = policy.sample(logs, 0)
    assert_array_equal(policy.slate_proba(logs, drawn), 1 / 900)


@pytest.mark.frames
@every_library
def test_labels_may_be_a_column_of_the_context(library):
    pytest.importorskip("narwhals")
    columns = {"query": ["a", "b", "a", "b"], "device": [0, 1, 1, 0]}
    slate = [[0, 1], [2, 0], [0, 1], [2, 0]]
    logs = SlateLogs(frame_of(library, columns), slate, np.zeros(4))
    policy = EmpiricalSlatePolicy.seen_in(logs, by="query")
    assert list(policy.slates) == ["a", "b"]
    assert policy.slate_proba(logs).tolist() == [1.0] * 4
    carried = logs.with_columns(query=["b"] * 4)  # a column of the logs comes first
    assert list(EmpiricalSlatePolicy.seen_in(carried, by="query").slates) == ["b"]
    with pytest.raises(ValueError, match="nor one of the context"):
        EmpiricalSlatePolicy.seen_in(logs, by="user")


@pytest.mark.parametrize("sizes", [[(2, 4)], [(3, 3)], [(2, 2), (3, 2)], [(4, 1)]])
def test_the_ratio_has_mean_one_where_all_are_alike(sizes):
    """All counts of n rounds in lists of S slates, each with its probability."""
    lists = []
    for n_slates, n in sizes:
        counts = [c for c in product(range(n + 1), repeat=n_slates) if sum(c) == n]
        chance = [
            factorial(n) / np.prod(factorial(np.array(c))) / n_slates**n for c in counts
        ]
        lists.append(list(zip(counts, chance, strict=True)))
    mean = total = 0.0
    for drawn in product(*lists):
        p = np.prod([chance for _, chance in drawn])
        total += p
        mean += p * np.exp(alike_ratio([np.array(c) for c, _ in drawn]))
    assert_allclose([mean, total], 1)


@pytest.mark.theory
@pytest.mark.parametrize(
    ("n_lists", "n_slates", "n"),
    [(1, 2, 50), (1, 6, 1000), (1, 100, 2), (50, 6, 10), (200, 6, 3), (5, 100, 200)],
)
def test_false_alarms_are_rare(n_lists, n_slates, n, global_random_seed):
    """At most one in a thousand by Markov's inequality; most cases have far fewer."""
    rng = np.random.RandomState(global_random_seed)
    alike, alarms = np.full(n_slates, 1 / n_slates), 0
    for _ in range(200):
        counts = rng.multinomial(n, alike, size=n_lists)
        slates = [np.arange(n_slates)[:, None]] * n_lists
        alarms += len(alike_warnings("Logger", list(range(n_lists)), counts, slates))
    assert alarms <= 3  # of 200: probability 7e-5 and less


@pytest.mark.parametrize(("n_lists", "n"), [(1, 1000), (50, 20), (200, 10)])
def test_shares_that_differ_are_seen(n_lists, n, global_random_seed):
    rng = np.random.RandomState(global_random_seed)
    counts = rng.multinomial(n, [0.4, 0.2, 0.1, 0.1, 0.1, 0.1], size=n_lists)
    slates = [np.arange(12).reshape(6, 2)] * n_lists
    (warned,) = alike_warnings("Logger", list(range(n_lists)), counts, slates)
    assert warned.value == alike_ratio(counts) > np.log(1000)
    assert isinstance(warned, PropensityWarning)


def test_differences_that_do_not_matter():
    """Shares of 50.5% and 49.5%: a million rounds see it, values do not."""
    counts, slates = [np.array([505_000, 495_000])], [np.array([[0], [1]])]
    assert alike_ratio(counts) > 30
    assert not alike_warnings("Logger", [None], counts, slates)
    # one round a list tells nothing
    assert_allclose(alike_ratio([np.array([0, 1, 0])] * 50), 0, atol=1e-9)


def draw(logs, rng):
    return np.stack([rng.permutation(3)[:2] for _ in range(len(logs))])


def test_marginals_are_means_over_draws(global_random_seed):
    logs = rounds(3, 2, 3)
    policy = SampledSlatePolicy(draw, n_samples=2000, random_state=global_random_seed)
    marginals = policy.slot_marginals(logs)
    assert_allclose(marginals.sum(axis=2), 1)
    # 18 shares for 100 seeds: five standard errors
    assert np.abs(marginals - 1 / 3).max() < 5 * np.sqrt(2 / 9 / 2000)
    assert_array_equal(policy.slot_marginals(logs), marginals)
    shown = policy.sample(logs, 0)
    rows = np.arange(3)[:, None]
    want = marginals[rows, [0, 1], shown]
    assert_array_equal(policy.marginal_proba(logs, shown), want)
    # what can only be sampled has no distribution
    policy = SampledSlatePolicy(draw, n_samples=3)
    logs = SlateLogs(np.zeros((2, 1)), [[0, 1], [2, 0]], [0, 1])
    for method in (policy.distributions, policy.slate_proba):
        with pytest.raises(TypeError, match=r"Do not use it as a logger"):
            method(logs)
    # rounds may be taken in parts, and their moments be asked for again
    logs = rounds(3, 2, 3)
    rng = np.random.RandomState(0)
    inner = PlackettLuceSlatePolicy([3.0, 2.0, 1.0], 2)
    policy = SampledSlatePolicy(inner, n_samples=100, random_state=rng)
    first = moments_of_distributions(policy, logs)
    assert_array_equal(moments_of_distributions(policy, logs[1:]), first[1:])
    assert_array_equal(policy.slot_marginals(logs), policy.slot_marginals(logs))
    assert rng.randint(10**6) == np.random.RandomState(0).randint(10**6)


def test_second_moments_of_a_policy(global_random_seed):
    rng = np.random.default_rng(global_random_seed)
    weights = rng.uniform(0.2, 1, (4, 4))
    weights[3] = [1, 2, 2, 1]  # exchangeable candidates share their counts
    logs = rounds(4, 2, 4).with_columns(w=weights)
    inner = PlackettLuceSlatePolicy("w", 2)
    policy = SampledSlatePolicy(inner, n_samples=4000, random_state=global_random_seed)
    gamma, want = (moments_of_distributions(one, logs) for one in (policy, inner))
    error = np.sqrt(want * (1 - want) / 4000)
    # some 250 entries for 100 seeds
    assert (np.abs(gamma - want) <= 5.5 * error + 1e-15).all()
    slates = inner.sample(logs, 0)
    expected = inner.slate_proba(logs, slates)
    assert_array_equal(policy.slate_proba(logs, slates), expected)
    again = moments_of_distributions(policy, logs[[3, 1]])
    assert_allclose(again, gamma[[3, 1]], rtol=0, atol=1e-15)


def test_a_target_that_is_sampled_is_unbiased(global_random_seed):
    """Equation 6: the mean over all that may be drawn is the policy's value."""
    slates = rankings(3, 4)
    phi = np.random.RandomState(0).random_sample((3, 4))
    logger = PlackettLuceSlatePolicy([4.0, 3.0, 2.0, 1.0], 3)
    logs, proba = world(logger, slates, additive(slates, phi), 4)

    def value(policy):
        return quietly(PseudoInverse(), policy, logs, proba).value

    def always(slate):
        return lambda logs, rng: np.tile(slate, (len(logs), 1))

    values = [value(SampledSlatePolicy(always(one), n_samples=1)) for one in slates]
    policy = PlackettLuceSlatePolicy([1.0, 6.0, 3.0, 1.0], 3)
    chance, values = policy.slate_proba(logs, slates), np.array(values)
    truth = chance @ additive(slates, phi)
    assert chance @ values == pytest.approx(value(policy), rel=1e-12)
    assert value(policy) == pytest.approx(truth, rel=1e-12)

    def one_slate(logs, rng):
        return np.repeat(policy.sample(logs[:1], rng), len(logs), axis=0)

    # the value of draws is their mean; either way all rounds, which share a
    # distribution, have the same draws
    tolerance = 5 * np.sqrt(chance @ (values - truth) ** 2) / np.sqrt(4000)
    how = {"n_samples": 4000, "random_state": global_random_seed}
    for inner in (policy, one_slate):
        assert abs(value(SampledSlatePolicy(inner, **how)) - truth) < tolerance
    # what other policies would give does not pass
    assert abs(value(UniformSlatePolicy(3)) - truth) > tolerance
    assert (abs(values - truth) > tolerance).mean() > 0.9


def test_bad_samplers():
    for policy, n_samples, error, message in (
        (3, 10, TypeError, "must have sample"),
        (draw, 0, ValueError, "n_samples must be a positive integer, got 0"),
        (lambda logs, rng: np.zeros((2, 2)), 2, TypeError, "must hold integers"),
        (lambda logs, rng: draw(logs, rng)[:, :1], 2, ValueError, "has 1 slots"),
        (lambda logs, rng: draw(logs, rng) + 2, 2, ValueError, "candidates are 0 to 2"),
    ):
        with pytest.raises(error, match=message):
            policy = SampledSlatePolicy(policy, n_samples=n_samples)
            policy.slot_marginals(rounds(2, 2, 3))
