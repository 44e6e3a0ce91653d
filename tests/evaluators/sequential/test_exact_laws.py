# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Unbiasedness by enumeration: every log of a small world, and every uniform number.

A decision depends on its uniform number only through the interval between thresholds
c pi / p in which it falls; one number per interval, with the interval's length as
probability, makes expectations finite sums.
"""

import warnings
from collections import Counter, defaultdict
from itertools import pairwise, product
from math import comb, fsum

import numpy as np
import pytest

from skope_ope import BanditLogs, DRns, RejectionSampling, Replay
from skope_ope.exceptions import OPEWarning
from tests._learners import RulePolicy, contrary_rule, spec_rule

pytestmark = pytest.mark.theory
P_X = (0.4, 0.6)
Q = ((0.2, 0.7), (0.6, 0.3))  # probability of reward 1
Q_HAT = np.array([[0.5, 0.6], [0.2, 0.7]])
MU = ((0.25, 0.75), (0.75, 0.25))
LEVELS = (0, 0.01, 0.05, 0.1, 0.5, 1)


def chance_of(x, a, r):
    return P_X[x] * (Q[x][a] if r else 1 - Q[x][a])


def online(rule, n_rounds, history=(), chance=1.0):
    """Yield every history of a policy that acts online, with its probability."""
    if len(history) == n_rounds:
        yield history, chance
        return
    for x, a, r in product((0, 1), repeat=3):
        pi = rule(list(history), x)[a]
        if pi > 0:
            grown = (*history, (x, a, r))
            yield from online(rule, n_rounds, grown, chance * pi * chance_of(x, a, r))


def logs_of(rounds, mu=MU):
    x, a, r = (np.array(column) for column in zip(*rounds, strict=True))
    p = None if mu is None else np.asarray(mu)[x, a]
    return BanditLogs(x[:, None].astype(float), a, r, p, actions=[0, 1])


def result_of(evaluator, policy, logs, u):
    """Evaluate with given uniform numbers."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", OPEWarning)
        evaluator.fit(logs)
        evaluator.uniforms_ = np.array(u)
        return evaluator.evaluate(policy)


def cells(thresholds):
    """One number inside of every interval between thresholds, and its length."""
    bounds = [0.0, *sorted({t for t in thresholds if 0 < t < 1}), 1.0]
    return [((low + high) / 2, high - low) for low, high in pairwise(bounds)]


def outcomes(mu, thresholds_of):
    """Outcomes (x, a, r, u) of a logged round, with their probabilities."""
    return [
        ((x, a, r, u), chance_of(x, a, r) * mu[x][a] * length)
        for x, a, r in product((0, 1), repeat=3)
        for u, length in cells(thresholds_of(x, a))
    ]


def law_of_histories(evaluator, policy, mu, thresholds_of, n_rounds, n_accepted):
    """Law of the first accepted rounds, given that there are so many; its mean."""
    law, total, gain = defaultdict(float), 0.0, 0.0
    for rows in product(outcomes(mu, thresholds_of), repeat=n_rounds):
        chance = np.prod([p for _, p in rows])
        rounds = [row[:3] for row, _ in rows]
        logs = logs_of(rounds, None if isinstance(evaluator, Replay) else mu)
        result = result_of(evaluator, policy, logs, [row[3] for row, _ in rows])
        if len(result.accepted) < n_accepted:
            assert np.isnan(result.value)
            continue
        history = tuple(rounds[k] for k in result.accepted[:n_accepted])
        law[history] += chance
        gain += chance * result.trajectory_values[0]
        total += chance
    return {history: p / total for history, p in law.items()}, gain / total, total


TRUE_GAIN = fsum(p * sum(r for _, _, r in h) / 3 for h, p in online(contrary_rule, 3))


def assert_same_law(law, rule):
    expected = dict(online(rule, 3))
    assert set(law) == {history for history, p in expected.items() if p > 0}
    assert max(abs(law[history] - expected[history]) for history in law) < 1e-15


def test_replayed_histories_have_the_online_law():
    """Theorem 1 of the replay paper, difference 0."""
    uniform = ((0.5, 0.5), (0.5, 0.5))
    law, gain, total = law_of_histories(
        Replay(horizon=3), RulePolicy(contrary_rule), uniform, lambda x, a: (), 4, 3
    )
    assert abs(total - 5 / 16) < 1e-15  # at least 3 of 4 rounds, each with 1 / K
    assert_same_law(law, contrary_rule)
    assert abs(gain - TRUE_GAIN) < 1e-13


def test_rejection_sampling_is_exact_where_plain_replay_is_not():
    def thresholds(x, a):
        return (0.25 / MU[x][a],)

    policy = RulePolicy(contrary_rule)
    law, gain, total = law_of_histories(
        RejectionSampling(cmax=0.25, horizon=3), policy, MU, thresholds, 4, 3
    )
    assert abs(total - (4 * 0.25**3 * 0.75 + 0.25**4)) < 1e-15
    assert_same_law(law, contrary_rule)
    assert abs(gain - TRUE_GAIN) < 1e-13
    assert abs(TRUE_GAIN - 0.5412) < 1e-15

    # The same logs without their propensities, taken for uniform ones.
    plain, biased, _ = law_of_histories(
        Replay(horizon=3), policy, MU, lambda x, a: (), 4, 3
    )
    assert abs(biased - 0.6156231306) < 1e-10
    expected = dict(online(contrary_rule, 3))
    assert max(abs(plain[h] - expected[h]) for h in plain) > 0.02


def test_stationary_policies_have_mean_r_equal_to_the_value_times_mean_c():
    """E[R] = V E[C] for every q: c is known before its round."""
    pi = np.array([[0.75, 0.25], [0.5, 0.5]])
    mu = ((0.25, 0.75), (0.5, 0.5))
    value = fsum(P_X[x] * pi[x, a] * Q[x][a] for x in (0, 1) for a in (0, 1))
    ratios = {mu[x][a] / pi[x, a] for x in (0, 1) for a in (0, 1)}

    def thresholds(x, a):
        return [min(1.0, c) * pi[x, a] / mu[x][a] for c in ratios]

    rows = outcomes(mu, thresholds)
    last = outcomes(mu, lambda x, a: ())  # nothing depends on its uniform number
    # a bound on p that is known beforehand: the smallest logged p is not one
    worst = {"acceptance": "worst_case", "cmax": 0.25}
    settings = [{"q": q} for q in LEVELS] + [worst]
    sums = np.zeros((len(settings), 3))
    for rounds in product(rows, rows, last):
        chance = np.prod([p for _, p in rounds])
        x = [row[0] for row, _ in rounds]
        logs = logs_of([row[:3] for row, _ in rounds], mu)
        u = [row[3] for row, _ in rounds]
        for row, setting in zip(sums, settings, strict=True):
            evaluator = DRns(reward_model=Q_HAT[x], **setting)
            result = result_of(evaluator, pi[x], logs, u)
            total = result.acceptance_ratios.sum()
            row += chance * np.array([result.value * total, total, result.value])
    np.testing.assert_allclose(sums[:, 0], value * sums[:, 1], rtol=0, atol=1e-14)
    assert abs(sums[3, 2] - value) > 1e-3  # the ratio itself is not unbiased


def one_context(rounds, p):
    """Logs of a world without contexts, of rounds (a, r)."""
    a, r = (np.array(column) for column in zip(*rounds, strict=True))
    return BanditLogs(np.zeros((len(a), 1)), a, r, np.asarray(p)[a], actions=[0, 1])


def test_progressive_validation_holds_for_the_numerator():
    """E[R] - E[sum c v] = 0 with v the true value after each history; R/C is biased."""
    q, q_hat, p = (0.3, 0.8), (0.5, 0.6), (0.5, 0.5)
    levels = {p[a] / pi for a in (0, 1) for pi in (0.2, 0.5, 0.8)}
    thresholds = [min(1.0, c) * pi / 0.5 for c in levels for pi in (0.2, 0.5, 0.8)]
    rows = [
        ((a, r, u), p[a] * (q[a] if r else 1 - q[a]) * length)
        for a, r in product((0, 1), repeat=2)
        for u, length in cells(thresholds)
    ]
    policy = RulePolicy(spec_rule)
    gaps = Counter()
    for level in (0.0, 0.25, 0.5, 1.0):
        for rounds in product(rows, rows, rows[:: len(cells(thresholds))]):
            chance = np.prod([c for _, c in rounds[:2]])
            (a, r, _), _ = rounds[2]  # of the last round u does not matter
            chance *= p[a] * (q[a] if r else 1 - q[a])
            logs = one_context([row[:2] for row, _ in rounds], p)
            evaluator = DRns(q=level, reward_model=np.tile(q_hat, (3, 1)))
            result = result_of(evaluator, policy, logs, [row[2] for row, _ in rounds])
            progressive = result.progressive_policy_
            assert abs(progressive.weights_.sum() - 1) < 1e-15
            truth = float(progressive.predict_proba(np.zeros((1, 1)))[0] @ q)
            total = result.acceptance_ratios.sum()
            gaps["mass", level] += chance
            gaps["R - sum c v", level] += chance * (result.value - truth) * total
            gaps["R / C - v", level] += chance * (result.value - truth)
    for level in (0.0, 0.25, 0.5, 1.0):
        assert abs(gaps["mass", level] - 1) < 1e-14
        assert abs(gaps["R - sum c v", level]) < 1e-15
    assert abs(gaps["R / C - v", 0.25]) > 0.002  # the ratio is biased in short logs


ONE = {"mu": (0.25, 0.75), "q": (0.3, 0.8), "q_hat": (0.5, 0.6)}  # no contexts


def chance_in_one(a, r):
    return ONE["q"][a] if r else 1 - ONE["q"][a]


def histories(n_rounds, history=(), chance=1.0):
    """Yield every history of the learner in the world without contexts."""
    if len(history) == n_rounds:
        yield history, chance
        return
    pi = spec_rule([(0, *row) for row in history], 0)
    for a, r in product((0, 1), repeat=2):
        grown = (*history, (a, r))
        yield from histories(n_rounds, grown, chance * pi[a] * chance_in_one(a, r))


def sum_of_blocks(path, c):
    """E[sum_t c R_B(t)] along one history, rejected rounds summed as geometric series.

    Every block holds (1 - c) / c rejected rounds on average, and for constant c each
    adds its c R to the sum: the engine is asked for the history alone, and again with
    one rejected round of every kind put before every accepted one.
    """

    def total(rounds, u):
        evaluator = DRns(
            acceptance="worst_case",
            cmax=c,
            normalize=False,
            reward_model=np.tile(ONE["q_hat"], (len(rounds), 1)),
        )
        logs = one_context(rounds, ONE["mu"])
        result = result_of(evaluator, RulePolicy(spec_rule), logs, u)
        assert result.accepted.tolist() == [k for k in range(len(u)) if not u[k]]
        return result.value * len(path)

    base = total(path, [0.0] * len(path))
    expected = base
    for t in range(len(path)):
        pi = spec_rule([(0, *row) for row in path[:t]], 0)
        for a, r in product((0, 1), repeat=2):
            refused = 1 - c * pi[a] / ONE["mu"][a]
            chance = chance_in_one(a, r) * ONE["mu"][a] * refused / (1 - c)
            rounds = [*path[:t], (a, r), *path[t:]]
            u = [0.0] * len(rounds)
            u[t] = 1 - 1e-12
            expected += (1 - c) / c * chance * (total(rounds, u) - base)
    return expected


def test_worst_case_sums_are_exact_for_a_learner():
    """E[sum_t c_t R_B(t)] = E_pi[sum_t r_t] over T = 3 complete blocks."""
    truth = estimate = 0.0
    for path, chance in histories(3):
        truth += chance * sum(r for _, r in path)
        estimate += chance * sum_of_blocks(path, 0.25)
    assert abs(truth - 1.7505) < 1e-14
    assert abs(estimate - truth) < 1e-14


def expected_sum(level, n_rounds, history=(), ratios=(), c=1.0):
    """E[sum of c_t R_B(t)] of DR-ns, over all blocks of up to 60 rejected rounds.

    E[R_B] = V(history) / P(accept) by Wald's identity; what the next blocks give
    depends on how often each ratio was seen. Also returns the mass of these blocks.
    """
    pi, mu = spec_rule([(0, *row) for row in history], 0), ONE["mu"]
    accept = [min(1.0, c * pi[a] / mu[a]) for a in (0, 1)]
    refuse = [mu[a] * (1 - accept[a]) for a in (0, 1)]
    total = c * np.dot(pi, ONE["q"]) / sum(mu[a] * accept[a] for a in (0, 1))
    if len(history) + 1 == n_rounds:
        return total, 1.0
    mass = 0.0
    for m0, m1 in product(range(61), repeat=2):
        rejected = comb(m0 + m1, m0) * refuse[0] ** m0 * refuse[1] ** m1
        if m0 + m1 > 60 or rejected < 1e-13:
            continue
        for a, r in product((0, 1), repeat=2):
            chance = rejected * mu[a] * accept[a] * chance_in_one(a, r)
            seen = Counter(dict(ratios))
            seen[mu[0] / pi[0]] += m0 + (a == 0)
            seen[mu[1] / pi[1]] += m1 + (a == 1)
            sample = list(seen.elements())
            wanted = float(np.quantile(sample, level, method="inverted_cdf"))
            rest, inner = expected_sum(
                level,
                n_rounds,
                (*history, (a, r)),
                tuple(sorted(seen.items())),
                min(1.0, wanted),
            )
            total += chance * rest
            mass += chance * inner
    return total, mass


def test_a_large_quantile_is_visibly_biased_for_a_learner(global_random_seed):
    """With q = .5 the same sum is 2.21, not 1.75, and the engine says so, too."""
    estimate, mass = expected_sum(0.5, 3)
    assert abs(mass - 1) < 1e-9
    assert abs(estimate - 2.2089211888) < 1e-8
    rng = np.random.RandomState(global_random_seed)
    n_logs, length = 800, 60
    sums = []
    for _ in range(n_logs):
        a = (rng.random_sample(length) < ONE["mu"][1]).astype(int)
        r = (rng.random_sample(length) < np.take(ONE["q"], a)).astype(int)
        logs = one_context(list(zip(a, r, strict=True)), ONE["mu"])
        evaluator = DRns(q=0.5, horizon=3, reward_model=0.5, normalize=False)
        u = rng.random_sample(length)
        result = result_of(evaluator, RulePolicy(spec_rule), logs, u)
        sums.append(3 * result.trajectory_values[0])
    error = np.std(sums, ddof=1) / np.sqrt(n_logs)
    assert abs(np.mean(sums) - estimate) < 4 * error
