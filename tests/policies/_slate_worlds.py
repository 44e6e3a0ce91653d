# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""All slates of small worlds, and the moments of a policy summed over them."""

from itertools import product

import numpy as np
from numpy.testing import assert_allclose

from skope_ope import PlackettLuceSlatePolicy, SlateLogs, UniformSlatePolicy
from skope_ope.policies import MixtureSlatePolicy, ProductSlatePolicy


def rounds(n_rounds, n_slots, n_candidates, **fields):
    """Rounds in which nothing was shown yet."""
    return SlateLogs(
        np.zeros((n_rounds, 1)),
        np.full((n_rounds, n_slots), -1),
        np.zeros(n_rounds),
        **{"n_candidates": n_candidates, **fields},
    )


def all_slates(n_slots, n_candidates):
    """Every slate, empty slots and repetitions included: (n_slates, n_slots)."""
    return np.array(list(product(range(-1, n_candidates), repeat=n_slots)))


def ranking_distribution(weights, slates):
    """Probability of slates drawn without repetition, weights by (slot, candidate)."""
    proba, every = np.ones(len(slates)), np.arange(len(slates))
    taken = np.zeros((len(slates), weights.shape[1]), dtype=bool)
    for slot, shown in enumerate(slates.T):
        left = np.where(taken, 0.0, weights[slot])
        total = left.sum(axis=1)
        drawn = left[every, shown] / np.where(total > 0, total, 1.0)
        proba *= np.where(shown < 0, total == 0, drawn)
        taken[every, shown] |= shown >= 0
    return proba


def independent_distribution(table, slates):
    """Probability of slates filled slot by slot, table by (slot, candidate)."""
    proba = np.ones(len(slates))
    for slot, shown in enumerate(slates.T):
        proba *= np.where(shown < 0, not table[slot].any(), table[slot, shown])
    return proba


def distribution_by_formula(policy, logs, slates):
    """Probability of slates in every round, (n_rounds, n_slates), or None.

    Nothing here is asked of the policy but its parameters.
    """
    kind, shape = type(policy), (len(logs), logs.n_slots, logs.max_candidates)
    if kind is MixtureSlatePolicy:
        parts = [
            enumerated_distribution(one, logs, slates)[1] for one in policy.policies
        ]
        return np.tensordot(policy.weights, parts, axes=1)
    if kind is ProductSlatePolicy:
        table = policy.slot_proba
        table = logs.columns[table] if isinstance(table, str) else table
        table = table(logs) if callable(table) else np.asarray(table)
        return np.stack(
            [independent_distribution(t, slates) for t in np.broadcast_to(table, shape)]
        )
    if kind is UniformSlatePolicy:
        weights = np.ones(shape[2])
    elif kind is PlackettLuceSlatePolicy:
        weights = policy.weights
        weights = logs.columns[weights] if isinstance(weights, str) else weights
        weights = weights(logs) if callable(weights) else np.asarray(weights)
    else:
        return None
    weights = np.broadcast_to(np.atleast_2d(weights), (shape[0], shape[2]))
    offered = True if logs.offered is None else logs.offered
    if np.ndim(offered) == 2:
        offered = offered[:, None]
    tables = np.broadcast_to(np.where(offered, weights[:, None], 0.0), shape)
    return np.stack([ranking_distribution(table, slates) for table in tables])


def enumerated_distribution(policy, logs, slates=None):
    """Probability of all slates in every round, (n_rounds, n_slates)."""
    if slates is None:
        slates = all_slates(logs.n_slots, logs.max_candidates)
    proba = distribution_by_formula(policy, logs, slates)
    if proba is None:
        columns = [
            policy.slate_proba(logs, np.tile(slate, (len(logs), 1))) for slate in slates
        ]
        proba = np.stack(columns, axis=1)
    return slates, proba


def enumerated_moments(policy, logs):
    """Slot marginals and second moments of every round by enumeration."""
    slates, proba = enumerated_distribution(policy, logs)
    indicator = (slates[:, :, None] == np.arange(logs.max_candidates)).astype(float)
    marginals = np.einsum("ns,sja->nja", proba, indicator)
    gamma = np.einsum("ns,sja,skb->njakb", proba, indicator, indicator)
    return marginals, gamma


def moments_of_distributions(policy, logs):
    """Second moments of every round, candidates in the order of the round."""
    distributions = policy.distributions(logs)
    n_slots, n_candidates = logs.n_slots, logs.max_candidates
    gamma = np.empty((len(distributions), n_slots, n_candidates, n_slots, n_candidates))
    for batch in distributions.batches():
        gamma[batch.numbers] = batch.second_moments()
    place = np.broadcast_to(distributions.place, (len(logs), n_candidates))
    return np.stack(
        [
            gamma[distribution][:, where][:, :, :, where]
            for distribution, where in zip(distributions.index, place, strict=True)
        ]
    )


def check_moments(policy, logs, atol=1e-14):
    """Compare the distribution of a policy with its enumeration, in every round."""
    slates, proba = enumerated_distribution(policy, logs)
    assert_allclose(proba.sum(axis=1), 1.0, rtol=0, atol=1e-14)
    for slate, column in zip(slates, proba.T, strict=True):
        found = policy.slate_proba(logs, np.tile(slate, (len(logs), 1)))
        assert_allclose(found, column, rtol=0, atol=1e-15)
    marginals, gamma = enumerated_moments(policy, logs)
    assert_allclose(policy.slot_marginals(logs), marginals, rtol=0, atol=atol)
    assert_allclose(moments_of_distributions(policy, logs), gamma, rtol=0, atol=atol)
    distributions = policy.distributions(logs)
    table = np.stack(
        [
            distributions.slot_marginals()[distribution]
            for distribution in distributions.index
        ]
    )
    assert_allclose(distributions.marginals(marginals), table, rtol=0, atol=atol)


def check_sample(policy, logs, seed, n_draws=20_000):
    """Compare the frequencies of draws with the distribution of the first round."""
    slates, proba = enumerated_distribution(policy, logs[:1])
    drawn = policy.sample(logs[np.zeros(n_draws, dtype=int)], seed)
    digits = (logs.max_candidates + 1) ** np.arange(logs.n_slots)[::-1]
    counts = np.bincount((drawn + 1) @ digits, minlength=len(slates))
    possible = proba[0] > 0
    assert not counts[~possible].any()
    error = np.sqrt(n_draws * proba[0] * (1 - proba[0]))[possible]
    deviation = np.abs(counts - n_draws * proba[0])[possible]
    # 100 seeds times some dozens of slates: five standard errors, and one draw
    assert (deviation <= 5 * error + 1).all()
