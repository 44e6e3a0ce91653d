# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Unbiasedness by enumeration: every log of a small world, and every uniform number."""

from collections import Counter, defaultdict
from itertools import product
from math import comb, fsum

import numpy as np
import pytest

from skope_ope import DRns, RejectionSampling, Replay
from tests._learners import RulePolicy, contrary_rule, spec_rule
from tests.evaluators.sequential._worlds import (
    MU,
    ONE,
    ONE_MU,
    P_X,
    Q,
    chance_of,
    logs_of,
    online,
    outcomes,
    result_of,
)

pytestmark = pytest.mark.theory
Q_HAT = np.array([[0.5, 0.6], [0.2, 0.7]])
CLICKS, MODEL, MU_1 = ONE["q"][0], (0.5, 0.6), ONE_MU[0]


def laws_of_histories(evaluator, mus, thresholds_of, n_rounds, n_accepted):
    """Law of the first accepted rounds, given that there are so many; its mean.

    Under every logger of `mus`, whose thresholds for the uniform numbers are equal.
    """
    law, total, gain = defaultdict(float), 0.0, 0.0
    cells = zip(*(outcomes(mu, thresholds_of) for mu in mus), strict=True)
    cells = [(each[0][0], np.array([p for _, p in each])) for each in cells]
    mu = None if isinstance(evaluator, Replay) else mus[0]
    for rows in product(cells, repeat=n_rounds):
        chance = np.prod([p for _, p in rows], axis=0)
        rounds, u = [row[:3] for row, _ in rows], [row[3] for row, _ in rows]
        result = result_of(evaluator, RulePolicy(contrary_rule), logs_of(rounds, mu), u)
        if len(result.accepted) < n_accepted:
            assert np.isnan(result.value)
            continue
        history = tuple(rounds[k] for k in result.accepted[:n_accepted])
        law[history] += chance
        gain += chance * result.trajectory_values[0]
        total += chance
    laws = [{h: p[k] / total[k] for h, p in law.items()} for k in range(len(mus))]
    return list(zip(laws, gain / total, total, strict=True))


def assert_same_law(law, n_rounds):
    """Compare with the histories of the policy online, and return its mean reward."""
    expected = dict(online(contrary_rule, n_rounds))
    assert set(law) == {history for history, p in expected.items() if p > 0}
    assert max(abs(law[history] - expected[history]) for history in law) < 1e-15
    return fsum(p * sum(r for _, _, r in h) / n_rounds for h, p in expected.items())


def test_replayed_histories_have_the_online_law_of_uniform_logs_alone():
    """Theorem 1 of the replay paper, difference 0."""
    uniform = ((0.5, 0.5), (0.5, 0.5))
    replay, loggers = Replay(horizon=3), [uniform, MU]
    own, other = laws_of_histories(replay, loggers, lambda x, a: (), 4, 3)
    law, gain, total = own
    assert abs(total - 5 / 16) < 1e-15  # at least 3 of 4 rounds, each with 1 / K
    true_gain = assert_same_law(law, 3)
    assert abs(gain - true_gain) < 1e-13
    assert abs(true_gain - 0.5412) < 1e-15
    plain, biased, _ = other
    assert abs(biased - 0.6156231306) < 1e-10
    expected = dict(online(contrary_rule, 3))
    assert max(abs(plain[h] - expected[h]) for h in plain) > 0.02


def test_rejection_sampling_is_exact_where_plain_replay_is_not():
    def thresholds(x, a):
        return (0.25 / MU[x][a],)

    evaluator = RejectionSampling(cmax=0.25, horizon=2)
    [(law, gain, total)] = laws_of_histories(evaluator, [MU], thresholds, 3, 2)
    assert abs(total - (3 * 0.25**2 * 0.75 + 0.25**3)) < 1e-15
    assert abs(gain - assert_same_law(law, 2)) < 1e-13


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
    # a larger q than 1/2 takes the larger of two ratios, any other the smaller
    settings = [{"q": 0.1}, {"q": 1}, worst]
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
    assert abs(sums[0, 2] - value) > 1e-3  # the ratio itself is not unbiased


def test_progressive_validation_holds_for_the_numerator():
    """E[R] - E[sum c v] = 0 with v the true value after each history; R/C is biased."""
    pis, mu = (0.2, 0.5, 0.8), ((0.5, 0.5),)
    thresholds = [min(1.0, 0.5 / one) * pi / 0.5 for one in pis for pi in pis]
    rows = outcomes(mu, lambda x, a: thresholds, **ONE)
    last = outcomes(mu, lambda x, a: (), **ONE)  # its uniform number does not matter
    for level in (0.25, 1.0):  # of two ratios the smaller, or the larger
        sums = np.zeros(3)
        for rounds in product(rows, rows, last):
            chance = np.prod([p for _, p in rounds])
            logs = logs_of([row[:3] for row, _ in rounds], mu)
            evaluator = DRns(q=level, reward_model=np.tile(MODEL, (3, 1)))
            u = [row[3] for row, _ in rounds]
            result = result_of(evaluator, RulePolicy(spec_rule), logs, u)
            progressive = result.progressive_policy_
            assert abs(progressive.weights_.sum() - 1) < 1e-15
            truth = float(progressive.predict_proba(np.zeros((1, 1)))[0] @ CLICKS)
            gap = result.value - truth
            sums += chance * np.array([1, gap * result.acceptance_ratios.sum(), gap])
        assert abs(sums[0] - 1) < 1e-14
        assert abs(sums[1]) < 1e-15
        assert level == 1 or abs(sums[2]) > 0.002  # R / C is biased in short logs


def sum_of_blocks(path, c):
    """E[sum_t c R_B(t)] along one history, rejected rounds summed as geometric series.

    Every block holds (1 - c) / c rejected rounds on average, and for constant c each
    adds its c R to the sum: the engine is asked for the history alone, and again with
    one rejected round of every kind put before every accepted one.
    """

    def total(rounds, u):
        setting = {"acceptance": "worst_case", "cmax": c, "normalize": False}
        evaluator = DRns(reward_model=np.tile(MODEL, (len(rounds), 1)), **setting)
        result = result_of(evaluator, RulePolicy(spec_rule), logs_of(rounds, ONE_MU), u)
        assert result.accepted.tolist() == [k for k in range(len(u)) if not u[k]]
        return result.value * len(path)

    base = total(path, [0.0] * len(path))
    expected = base
    for t in range(len(path)):
        pi = spec_rule(path[:t], 0)
        for a, r in product((0, 1), repeat=2):
            refused = 1 - c * pi[a] / MU_1[a]
            chance = chance_of(0, a, r, **ONE) * MU_1[a] * refused / (1 - c)
            rounds = [*path[:t], (0, a, r), *path[t:]]
            u = [0.0] * len(rounds)
            u[t] = 1 - 1e-12
            expected += (1 - c) / c * chance * (total(rounds, u) - base)
    return expected


def test_worst_case_sums_are_exact_for_a_learner():
    """E[sum_t c_t R_B(t)] = E_pi[sum_t r_t] over T = 3 complete blocks."""
    truth = estimate = 0.0
    for path, chance in online(spec_rule, 3, **ONE):
        truth += chance * sum(r for _, _, r in path)
        estimate += chance * sum_of_blocks(path, 0.25)
    assert abs(truth - 1.7505) < 1e-14
    assert abs(estimate - truth) < 1e-14


def expected_sum(level, n_rounds, history=(), ratios=(), c=1.0):
    """E[sum of c_t R_B(t)] of DR-ns, over all blocks of up to 60 rejected rounds.

    E[R_B] = V(history) / P(accept) by Wald's identity; what the next blocks give
    depends on how often each ratio was seen. Also returns the mass of these blocks.
    """
    pi = spec_rule(history, 0)
    accept = [min(1.0, c * pi[a] / MU_1[a]) for a in (0, 1)]
    refuse = [MU_1[a] * (1 - accept[a]) for a in (0, 1)]
    total = c * np.dot(pi, CLICKS) / np.dot(MU_1, accept)
    if len(history) + 1 == n_rounds:
        return total, 1.0
    mass = 0.0
    for m0, m1 in product(range(61), repeat=2):
        rejected = comb(m0 + m1, m0) * refuse[0] ** m0 * refuse[1] ** m1
        if m0 + m1 > 60 or rejected < 1e-13:
            continue
        for a, r in product((0, 1), repeat=2):
            chance = rejected * MU_1[a] * accept[a] * chance_of(0, a, r, **ONE)
            seen = Counter(dict(ratios))
            seen[MU_1[0] / pi[0]] += m0 + (a == 0)
            seen[MU_1[1] / pi[1]] += m1 + (a == 1)
            sample = list(seen.elements())
            wanted = float(np.quantile(sample, level, method="inverted_cdf"))
            known = (*history, (0, a, r)), tuple(sorted(seen.items())), min(1.0, wanted)
            rest, inner = expected_sum(level, n_rounds, *known)
            total += chance * rest
            mass += chance * inner
    return total, mass


def test_a_large_quantile_is_visibly_biased_for_a_learner(global_random_seed):
    """With q = .5 the same sum is 2.21, not 1.75, and the engine says so, too."""
    estimate, mass = expected_sum(0.5, 3)
    assert abs(mass - 1) < 1e-9
    assert abs(estimate - 2.2089211888) < 1e-8
    rng = np.random.RandomState(global_random_seed)
    sums = []
    for _ in range(800):
        a = (rng.random_sample(60) < MU_1[1]).astype(int)
        r = (rng.random_sample(60) < np.take(CLICKS, a)).astype(int)
        logs = logs_of(np.column_stack([np.zeros(60, int), a, r]), ONE_MU)
        evaluator = DRns(q=0.5, horizon=3, reward_model=0.5, normalize=False)
        u = rng.random_sample(60)
        result = result_of(evaluator, RulePolicy(spec_rule), logs, u)
        sums.append(3 * result.trajectory_values[0])
    assert abs(np.mean(sums) - estimate) < 4 * np.std(sums, ddof=1) / np.sqrt(800)


def weighted_rule(history, x):
    """.8 on the arm with the larger weighted (sum + 1) / (pulls + 2)."""
    if not history:
        return [0.5, 0.5]
    pulls, sums = [0.0, 0.0], [0.0, 0.0]
    for _, a, r, weight in history:
        pulls[a] += weight
        sums[a] += weight * r
    scores = [(sums[a] + 1) / (pulls[a] + 2) for a in (0, 1)]
    return [0.8, 0.2] if scores[0] >= scores[1] else [0.2, 0.8]


class WeightedRulePolicy(RulePolicy):
    """A rule that is told how often a round counts."""

    takes_weight = True

    def update(self, X, action, reward, proba, weight=1.0):
        self.history.append((None, action, reward, weight))
        return True


@pytest.mark.parametrize(("level", "ask"), [(0.5, "blocks"), (1.0, "rows")])
def test_weighted_sums_over_accepted_rounds_have_the_right_expectation(level, ask):
    """Over all logs of three rounds, for a policy that learns from the weights.

    E[sum w f(a, r)] = E[sum c E_pi f], and with V(h) for f, E[R - sum w V(h)] = 0. Both
    fail where an accepted round counts once.
    """
    policy, pis = WeightedRulePolicy(weighted_rule, ask=ask), (0.2, 0.5, 0.8)
    levels = {1.0, *(p / pi for p in MU_1 for pi in pis)}
    later = {min(1.0, c) * pi / p for c in levels for pi in pis for p in MU_1}
    rows = [
        outcomes(ONE_MU, lambda x, a, thresholds=thresholds: thresholds, **ONE)
        for thresholds in ([0.5 / p for p in MU_1], later)
    ]
    sums, expected = Counter(), Counter()
    f = {"mass": (1, 1), "arm 1": (0, 1), "reward": CLICKS}
    for rounds in product(*rows):
        for a, r, last in product((0, 1), (0, 1), (0.0, 1 - 1e-12)):
            # of the last round only the chance to be accepted matters
            chance = np.prod([c for _, c in rounds])
            chance *= MU_1[a] * chance_of(0, a, r, **ONE)
            played = [row[:3] for row, _ in rounds] + [(0, a, r)]
            u = [row[3] for row, _ in rounds] + [last]
            setting = {"q": level, "normalize": "pooled", "excess": "weight"}
            evaluator = DRns(reward_model=np.tile(MODEL, (3, 1)), **setting)
            result = result_of(evaluator, policy, logs_of(played, ONE_MU), u)
            history = result.learned_policy.history
            c, accepted = result.acceptance_ratios, result.accepted.tolist()
            before = np.searchsorted(accepted, range(3))
            acted = [weighted_rule(history[:k], None) for k in before]
            accept = min(1.0, c[2] * acted[2][a] / MU_1[a])
            chance *= accept if last == 0.0 else 1 - accept
            if chance == 0:
                continue
            for (_, arm, reward, weight), k in zip(history, accepted, strict=True):
                assert weight == max(1.0, c[k] * acted[k][arm] / MU_1[arm])
                sums["mass"] += chance * weight
                sums["arm 1"] += chance * weight * arm
                sums["reward"] += chance * weight * reward
                sums["once: arm 1"] += chance * arm
            for name, values in f.items():
                expected[name] += chance * np.dot(c, np.array(acted) @ values)
            values = np.array([np.dot(acted[k], CLICKS) for k in accepted])
            total = result.value * c.sum()
            told = [row[3] for row in history]
            sums["R - V"] += chance * (total - np.dot(told, values))
            sums["once: R - V"] += chance * (total - values.sum())
    for name in f:
        assert abs(sums[name] - expected[name]) < 1e-13
    assert abs(sums["R - V"]) < 1e-13
    assert abs(sums["once: arm 1"] - expected["arm 1"]) > 0.02
    assert sums["once: R - V"] > 0.05
