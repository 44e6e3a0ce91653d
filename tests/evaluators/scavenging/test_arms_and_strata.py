# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Exact moments of scavenging, strata and clusters, and what slates have in common."""

import tracemalloc
from itertools import product

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import sparse
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LinearRegression

from skope_ope import (
    BanditLogs,
    EpsilonGreedy,
    ExplorationScavenging,
    RankingPolicy,
    SlateLogs,
)
from skope_ope.exceptions import LowOverlapWarning
from tests.evaluators.scavenging._toys import (
    S6_X,
    SL4_SLATES,
    caught,
    enumerate_rounds,
    s6,
    sl4,
)
from tests.evaluators.slate._worlds import showed

pytestmark = [
    pytest.mark.filterwarnings("ignore:the value, .* lies outside the range"),
    pytest.mark.filterwarnings("ignore:1 of the actions that"),
]
ROUND_ROBIN = np.array([0, 1, 0, 1])
SURE = 0.9  # the probability of the arm x: no log leaves the policy without a match


def evaluated(logs, policy, sample_weight=None, **settings):
    """The value, in silence."""
    scavenger = ExplorationScavenging(**settings).fit(logs)
    return caught(lambda: scavenger.evaluate(policy, sample_weight=sample_weight))[0]


def mostly(x, n_arms=2):
    """A policy that takes arm x nine times in ten, else arm 1 - x."""
    other = np.eye(n_arms)[1 - x]
    return SURE * np.eye(n_arms)[x] + (1 - SURE) * other


def worth(x, arm):
    """Arm x earns .3 in context 0 and .2 in context 1, the other .6."""
    return np.where(arm == x, np.where(x == 0, 0.3, 0.2), 0.6)


TRUTH = SURE * 0.25 + (1 - SURE) * 0.6


def moments_of(arms, reward_probability, evaluate):
    """Exact mean and variance of a value, and the mean of its square error."""
    found = []
    for chance, x, reward in enumerate_rounds(arms, reward_probability):
        value = evaluate(x, reward)
        moments = value.value, value.value**2, value.standard_error**2
        found.append(chance * np.array([1, *moments]))
    total, mean, second, square = np.sum(found, axis=0)
    assert_allclose(total, 1)
    return mean, second - mean**2, square


def scavenge(code):
    def evaluate(x, reward):
        logs = BanditLogs(x[:, None], code, reward, actions=[0, 1])
        return evaluated(logs, mostly(x))

    return evaluate


def test_unbiased_with_its_error_where_the_counts_are_fixed():
    mean, variance, square = moments_of(ROUND_ROBIN, worth, scavenge(ROUND_ROBIN))
    assert_allclose(mean, TRUTH, rtol=1e-12)
    assert_allclose(square, variance, rtol=1e-12)


@pytest.mark.theory
def test_missing_arms_add_nothing_under_independent_logging():
    total = 0.0
    for code in product((0, 1), repeat=3):
        total += moments_of(code, worth, scavenge(code))[0] / 8
    assert_allclose(total, TRUTH * (1 - 1 / 8), rtol=1e-12)


@pytest.mark.few_cases(1)
@pytest.mark.parametrize("n_rounds, expected", [(3, 0.2659125), (5, 0.2280983671875)])
def test_a_logger_that_looks_at_the_past_biases_downwards(n_rounds, expected):
    """Consistent, not unbiased: the policy is worth .9 * .25 + .1 * .75."""
    table = np.array([[0.3, 0.9], [0.6, 0.2]])  # by context and arm
    found = np.zeros(2)
    for reward in map(np.array, product((0.0, 1.0), repeat=n_rounds)):
        code = np.array([0, 1])
        while len(code) < n_rounds:  # the better arm so far, arm 1 among equals
            means = [reward[: len(code)][code == arm].mean() for arm in (0, 1)]
            code = np.append(code, int(means[1] >= means[0]))
        for x in map(np.array, product((0, 1), repeat=n_rounds)):
            q = table[x, code]
            chance = np.where(reward == 1, q, 1 - q).prod() / 2**n_rounds
            found += chance * np.array([1, scavenge(code)(x, reward).value])
    assert_allclose(found, [1, expected], rtol=1e-12)
    assert expected < SURE * 0.25 + (1 - SURE) * 0.75


def test_matching_actions_beats_matching_labels():
    """Both loggers agree in context 0."""
    loggers = ROUND_ROBIN

    def earned(x, logger):
        return np.where(x == 0, 0.3, np.where(logger == 1, 0.2, 0.9))

    def by(match):
        def evaluate(x, reward):
            acts = np.stack([0 * x, x], axis=1)  # of both loggers
            action = acts[np.arange(len(x)), loggers]
            proba = (acts == action[:, None]).astype(float)
            about = {"actions": [0, 1], "logger": loggers, "logger_proba": proba}
            logs = BanditLogs(x[:, None], action, reward, **about)
            policy = mostly(x)  # among the loggers
            if match == "action":
                policy = (policy[:, :, None] * np.eye(2)[acts]).sum(axis=1)
            return evaluated(logs, policy, match=match)

        return evaluate

    truth = 0.15 + 0.5 * (SURE * 0.2 + (1 - SURE) * 0.9)
    label = moments_of(loggers, earned, by("logger"))
    action = moments_of(loggers, earned, by("action"))
    for mean, variance, square in (label, action):
        assert_allclose([mean, square], [truth, variance], rtol=1e-12)
    assert action[1] < 0.8 * label[1]


def test_constant_policies_make_the_mixture_the_plain_form():
    rng = np.random.RandomState(0)
    code, pi = rng.randint(3, size=50), rng.dirichlet(np.ones(3), 50)
    rounds = np.empty((50, 0)), code, rng.rand(50)
    loggers = {"logger": code, "logger_proba": np.eye(3)[code]}
    plain, mixed = (evaluated(BanditLogs(*rounds, **one), pi) for one in ({}, loggers))
    assert_allclose(mixed.value, plain.value)
    assert_allclose(mixed.standard_error, plain.standard_error)
    assert_allclose(mixed.round_values, plain.round_values)


def test_strata_are_weighted_by_their_shares():
    rng = np.random.RandomState(1)
    rounds = np.empty((60, 0)), rng.randint(2, size=60), rng.rand(60)
    logs = BanditLogs(*rounds).with_columns(day=rng.randint(3, size=60))
    pi = rng.dirichlet(np.ones(2), 60)
    found = evaluated(logs, pi, strata="day")
    days = [logs.columns["day"] == day for day in range(3)]
    parts = [(rows.mean(), evaluated(logs[rows], pi[rows])) for rows in days]
    assert_allclose(found.value, sum(share * part.value for share, part in parts))
    square = sum((share * part.standard_error) ** 2 for share, part in parts)
    assert_allclose(found.standard_error**2, square)
    # values by groups are estimates of their own
    weight, side = 0.5 + np.random.RandomState(2).rand(60), np.arange(60) % 2
    for ratio in (False, True):
        settings = {"strata": "day", "self_normalized": ratio}
        taken = evaluated(logs, pi, weight, **settings).by(side)[0]
        again = evaluated(logs[::2], pi[::2], weight[::2], **settings)
        assert_allclose(taken.value, again.value, rtol=1e-14)
    # clusters that cross arms are summed
    user = np.random.RandomState(4).randint(12, size=60)
    found = evaluated(logs.replace(group=user), pi)
    code = logs.action_index
    y, counts = pi[np.arange(60), code] * logs.reward, np.bincount(code)
    means = np.bincount(code, y) / counts
    of_user = np.bincount(user, (y - means[code]) / counts[code])
    assert_allclose(found.value, means.sum())
    assert_allclose(found.standard_error**2, 12 / 11 * (of_user**2).sum())
    assert found.degrees_of_freedom <= 11


def mass(logs, policy, sample_weight=None, **settings):
    found = evaluated(logs, policy, sample_weight, **settings)
    return found.diagnostics["unsupported_mass"]


def test_missing_mass_is_that_of_the_stratum_and_weighted():
    logs = s6(actions=[0, 1, 2]).with_columns(day=[0, 0, 0, 0, 1, 1])
    pi = np.tile([0.5, 0.3, 0.2], (6, 1))
    assert_allclose(mass(logs, pi), 0.2)
    # on the second day action 1 only
    found = mass(logs[[0, 1, 2, 3, 4]], pi[:5], strata="day")
    assert_allclose(found, (4 * 0.2 + 0.7) / 5)
    omega = np.array([1.5, 0.5, 2.0, 1.0, 0.0, 1.0])
    lost = np.array([0.0, 0.1, 0.2, 0.3, 1.0, 0.1])
    pi = np.column_stack([(1 - lost) / 2, (1 - lost) / 2, lost])
    assert_allclose(mass(logs, pi, omega), omega @ lost / omega.sum())
    # rows of weight zero alone want what was never logged: nothing is missing
    pi = np.array([[0.5, 0.5, 0]] * 4 + [[0, 0, 1.0]] + [[0.5, 0.5, 0]])
    assert np.isfinite(evaluated(logs, pi, omega, on_missing="nan").value)
    assert mass(logs, pi, omega) == 0
    wanted = SL4_SLATES.copy()
    wanted[0] = [0, 1, 3, 2]  # never shown
    assert mass(sl4(), wanted) == 0.25
    assert mass(sl4(), wanted, 1.0 * (np.arange(4) > 0)) == 0


def test_mass_of_slates_that_were_never_logged():
    """Only probabilities of the logged slates are known, and they are noisy."""

    class Known:
        def __init__(self, proba):
            self.proba = np.array(proba)

        def slate_proba(self, logs, slates):
            return self.proba

    slates = np.array([[0, 1], [1, 0]])[[0, 1, 0, 1, 1]]
    logs = SlateLogs(np.zeros((5, 1)), slates, np.arange(5.0))
    some = Known([0.5, 0.2, 0.5, 0.2, 0.2])
    for ratio in (False, True):
        assert_allclose(mass(logs, some, self_normalized=ratio), 0.3)
    assert mass(logs, Known(np.full(5, 0.5))) == 0
    # one less 0.95, but within the noise of the contexts
    assert mass(logs, Known([0.9, 0.1, 0.1, 0.5, 0.4])) == 0
    # slates that are sought where they were shown once
    target = SL4_SLATES[[1, 1, 1, 2]]
    for strata, weight in ((None, None), ("half", None), (None, [1.0, 1, 1, 0])):
        logs = sl4().with_columns(half=[0, 0, 1, 1])
        found = evaluated(logs, target, weight, strata=strata)
        assert found.diagnostics["fewest_rounds"] == 1
        assert np.isnan(found.standard_error)
        if strata is not None:  # slate 1 in stratum 1
            assert_allclose(found.diagnostics["unsupported_mass"], 0.25)


def test_distinct_slates_in_distinct_strata_take_no_square_of_them():
    n = 4000
    slate = np.stack([np.arange(n), np.roll(np.arange(n), 1)], axis=1)
    logs = SlateLogs(np.zeros((n, 1)), slate, np.ones(n)).with_columns(day=np.arange(n))
    scavenger = ExplorationScavenging(strata="day").fit(logs)
    tracemalloc.start()
    with pytest.warns(LowOverlapWarning):
        value = scavenger.evaluate(slate)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert_allclose(value.value, 1)
    assert peak < 2000 * n  # 64,000 bytes a round, where it was a table


# two strata, those of S6_X, in columns of many kinds
X = S6_X
STRATA = {
    "None": np.array(["a", None])[X],
    "NaN": np.array([1.0, np.nan])[X],
    "mixed": np.array([np.nan, None, "b"], dtype=object)[[2, 0, 2, 1, 0, 2]],
    "pairs": np.array([[0, "u"], [1, None]], dtype=object)[X],
    "NaT": np.array(["2026-01-01", "NaT"], dtype="datetime64[D]")[X],
    "tables": np.stack([X, 1 - X, X, X], axis=1).reshape(6, 2, 2),
}


def values_by(logs, strata):
    """Value and round values, which tell strata apart."""
    found = evaluated(logs, mostly(S6_X), strata=strata)
    return np.append(found.round_values, found.value)


def test_strata_of_many_kinds():
    logs = s6().with_columns(x=X, **STRATA)
    expected = values_by(logs, "x")
    for name in STRATA:
        assert_allclose(values_by(logs, name), expected, err_msg=name)
    assert not np.allclose(values_by(logs, None), expected)
    # fields
    pair = np.stack([X, [0, 0, 1, 1, 1, 1]], axis=1).astype(float)
    number = 2 * pair[:, 0] + pair[:, 1]
    expected = values_by(s6().with_columns(x=number), "x")
    for context in (pair, sparse.csr_matrix(pair)):
        assert_allclose(values_by(s6(context=context), "context"), expected)
    offered = np.ones((6, 2), bool)
    alike = s6(group=[3, 3, 4, 4, 5, 5], available=offered)
    assert_allclose(values_by(alike, "available"), values_by(alike, None))
    group = alike.with_columns(x=[0, 0, 1, 1, 2, 2])
    assert_allclose(values_by(alike, "group"), values_by(group, "x"))


@pytest.mark.frames
@pytest.mark.parametrize("library", ["pandas", "polars", "pyarrow"])
def test_strata_of_a_frame(library):
    lib = pytest.importorskip(library)
    data = {"word": ["a", "b", "a", None, "b", "a"], "number": [0, 0, 1, 1, 0, 0]}
    frame = (lib.table if library == "pyarrow" else lib.DataFrame)(data)
    logs = s6(context=frame).with_columns(x=[0, 1, 2, 3, 1, 0])
    assert_allclose(values_by(logs, "context"), values_by(logs, "x"))


OFFERS = np.array([[1, 1, 0]] * 3 + [[1, 1, 1]] * 3, dtype=bool)
OFFERED = s6(actions=[0, 1, 2], available=OFFERS)
IN_PARTS = OFFERED.with_columns(x=[0, 0, 1, 1, 1, 1])
SLOTS = "fills 5 slots, but the logs have 4"


@pytest.mark.parametrize(
    ("logs", "policy", "settings", "error", "message"),
    [
        (s6(), None, {"strata": "day"}, ValueError, "'day' is neither .*with_columns"),
        (s6(), None, {"strata": "timestamp"}, ValueError, "neither"),  # not in these
        (s6(), None, {"match": "logger"}, ValueError, "Pass logger="),
        (OFFERED, None, {}, ValueError, r"rows 0 and 3\. .*strata='available'"),
        (IN_PARTS, None, {"strata": "x"}, ValueError, "rows 2 and 3 of one stratum"),
        (s6(), EpsilonGreedy(), {}, TypeError, r"EpsilonGreedy learns .*frozen\(\)"),
        (s6(), np.full(6, 0.5), {}, ValueError, "probabilities of all actions"),
        (sl4(), np.tile([0, 1, 2, 3, -1], (4, 1)), {}, ValueError, SLOTS),
    ],
)
def test_what_it_cannot_use(logs, policy, settings, error, message):
    scavenger = ExplorationScavenging(**settings)
    with pytest.raises(error, match=message):
        scavenger.fit(logs) if policy is None else scavenger.fit(logs).evaluate(policy)


def test_slates_are_known_by_their_items():
    names = np.array([list("abcd"), list("badc"), list("abcd"), list("abcd")])
    slates = np.array([[0, 1, 2, 3], [1, 0, 3, 2], [0, 1, 2, 3], [3, 2, 1, 0]])
    logs = sl4(slate=slates, item_id=names)  # three times a, b, c, d
    found = evaluated(logs, slates)
    reward = logs.reward
    assert_allclose(found.value, reward[:3].mean() + reward[3])
    assert found.diagnostics["unsupported_mass"] == 0
    assert mass(sl4(), np.tile([0, 1, 2, -1], (4, 1))) == 1
    # many slots overflow nothing
    rng = np.random.RandomState(0)
    slate = np.stack([rng.permutation(100)[:30] for _ in range(10)])
    reward = np.arange(20.0)
    logs = SlateLogs(np.zeros((20, 1)), np.concatenate([slate] * 2), reward)
    found = evaluated(logs, logs.slate)
    assert found.diagnostics["fewest_rounds"] == 2
    assert_allclose(found.value, reward.sum() / 2)  # ten slates, of two rounds each


def test_a_deterministic_policy_is_its_slates(global_random_seed):
    rng = np.random.RandomState(global_random_seed)
    slate = np.argsort(rng.random_sample((300, 4)), axis=1)[:, :2]
    names = rng.randint(3, size=(300, 4))  # two candidates may be one item
    clicks, features = rng.randint(2, size=slate.shape), rng.normal(size=(300, 4, 1))
    about = {"n_candidates": 4, "item_id": names, "item_features": features}
    logs = showed(slate, slot_reward=clicks, **about)
    regressor = LinearRegression().fit([[0.0], [1.0]], [0.0, 1.0])
    policy = RankingPolicy(FrozenEstimator(regressor), 2)
    found = evaluated(logs, policy)
    expected = evaluated(logs, policy.deterministic_slates(logs))
    assert_allclose(found.round_values, expected.round_values)
    told = dict(expected.diagnostics)
    assert dict(found.diagnostics) == pytest.approx(told, nan_ok=True)
