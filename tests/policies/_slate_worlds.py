# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""All slates of small worlds, and the moments of a policy summed over them."""

from itertools import product

import numpy as np

from skope_ope import SlateLogs


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


def enumerated_law(policy, logs):
    """Probability of all slates in every round, (n_rounds, n_slates)."""
    slates = all_slates(logs.n_slots, logs.max_candidates)
    columns = [
        policy.slate_proba(logs, np.tile(slate, (len(logs), 1))) for slate in slates
    ]
    return slates, np.stack(columns, axis=1)


def enumerated_moments(policy, logs):
    """Slot marginals and second moments of every round by enumeration."""
    slates, proba = enumerated_law(policy, logs)
    indicator = (slates[:, :, None] == np.arange(logs.max_candidates)).astype(float)
    marginals = np.einsum("ns,sja->nja", proba, indicator)
    gamma = np.einsum("ns,sja,skb->njakb", proba, indicator, indicator)
    return marginals, gamma


def moments_of_laws(policy, logs):
    """Second moments of every round from the laws, candidates in the round's order."""
    laws = policy.laws(logs)
    n_slots, n_candidates = logs.n_slots, logs.max_candidates
    gamma = np.empty((len(laws), n_slots, n_candidates, n_slots, n_candidates))
    for batch in laws.batches():
        gamma[batch.laws] = batch.second_moments()
    place = np.broadcast_to(laws.place, (len(logs), n_candidates))
    return np.stack(
        [
            gamma[law][:, where][:, :, :, where]
            for law, where in zip(laws.index, place, strict=True)
        ]
    )


def check_moments(policy, logs, atol=1e-14):
    """Compare the law of a policy with its enumeration, in every round."""
    _, proba = enumerated_law(policy, logs)
    np.testing.assert_allclose(proba.sum(axis=1), 1.0, atol=1e-14)
    marginals, gamma = enumerated_moments(policy, logs)
    np.testing.assert_allclose(policy.slot_marginals(logs), marginals, atol=atol)
    np.testing.assert_allclose(moments_of_laws(policy, logs), gamma, atol=atol)
    laws = policy.laws(logs)
    table = np.stack([laws.slot_marginals()[law] for law in laws.index])
    np.testing.assert_allclose(laws.marginals(marginals), table, atol=atol)


def check_sample(policy, logs, seed, n_draws=20_000):
    """Compare the frequencies of draws with the law of the first round."""
    slates, proba = enumerated_law(policy, logs[:1])
    drawn = policy.sample(logs[np.zeros(n_draws, dtype=int)], seed)
    digits = (logs.max_candidates + 1) ** np.arange(logs.n_slots)[::-1]
    counts = np.bincount((drawn + 1) @ digits, minlength=len(slates))
    possible = proba[0] > 0
    assert not counts[~possible].any()
    error = np.sqrt(n_draws * proba[0] * (1 - proba[0]))[possible]
    deviation = np.abs(counts - n_draws * proba[0])[possible]
    # 100 seeds times some dozens of slates: five standard errors, and one draw
    assert (deviation <= 5 * error + 1).all()
