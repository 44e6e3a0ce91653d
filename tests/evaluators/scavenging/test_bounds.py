# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause

from itertools import product

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.linear_model import LogisticRegression

from skope_ope import (
    BanditLogs,
    ClassifierPolicy,
    ExplorationScavenging,
    PositionScavenging,
    ReorderingScavenging,
)
from skope_ope.exceptions import (
    FewGroupsWarning,
    LearnedRoundsWarning,
    LowOverlapWarning,
    SupportWarning,
)
from tests.evaluators.scavenging._toys import (
    S6_X,
    SL4_ATTENTION,
    SL4_SLATES,
    enumerate_rounds,
    s6,
    sl4,
)

# Six rounds give 4/3 for rewards of 0 and 1: that it warns is tested with all warnings.
pytestmark = [
    pytest.mark.filterwarnings("ignore:the value, .* lies outside the range"),
    pytest.mark.filterwarnings("ignore:1 of the actions that the policy takes"),
]
TARGET = np.eye(2)[S6_X]
SHORT = {"form": "1/k", "uniform_logging": True}
TABLE = {  # counts: Theorem 3, half of it, Theorem 5, with ln(2 / delta)
    (50, 50): (1.199146, 0.599573, 0.592083, 0.543241),
    (500, 500): (0.425014, 0.212507, 0.187233, 0.171788),
    (900, 100): (0.633573, 0.316786, 0.187233, 0.171788),
    (5000, 5000): (0.147471, 0.073736, 0.059208, 0.054324),
    (2500,) * 4: (0.427615, 0.213807, 0.127438, 0.108648),
}


def evaluate(logs, policy=TARGET, **settings):
    return ExplorationScavenging(**settings).fit(logs).evaluate(policy)


@pytest.mark.parametrize("counts", TABLE, ids=str)
def test_table_of_bounds(counts):
    n, k = sum(counts), len(counts)
    code = np.repeat(np.arange(k), counts)
    logs = BanditLogs(np.empty((n, 0)), code, code % 2)
    value = evaluate(logs, np.full((n, k), 1 / k))
    asked = [{}, SHORT] if len(set(counts)) == 1 else [{}]
    found = [
        value.deviation_bound(0.05, method=method, **one)
        for one in asked
        for method in ("azuma", "hoeffding")
    ]
    assert_allclose(found, TABLE[counts][: len(found)], rtol=0, atol=5.1e-7)


def test_the_range_is_known_and_includes_zero():
    """Rewards 0 and 1 are yes and no; revenue of .5 and .75 may once be 50."""
    one = evaluate(s6()).deviation_bound(0.05)
    assert one > 0
    value = evaluate(s6(reward=[2, 3, 1, 4, 2, 2]))
    for span, scale in (((1, 4), 4), ((-1, 4), 5)):  # unwanted rounds count as zero
        assert_allclose(value.deviation_bound(0.05, reward_range=span), scale * one)
    for seen in (np.full(6, 0.5), 0.25 * s6().reward + 0.5, np.zeros(6)):
        value = evaluate(s6(reward=seen))
        with pytest.raises(ValueError, match=r"known in advance.*Pass reward_range"):
            value.deviation_bound(0.05)
        assert value.deviation_bound(0.05, reward_range=(0, 1)) > 0


def in_turn(counts, seen):
    """Choose the arm that was logged least, whatever happened."""
    return int(np.argmin(counts))


def while_alike(counts, seen):
    """Choose in turn while all rewards are alike, then arm 0: it looks at the past."""
    return int(np.argmin(counts)) if len(set(seen)) < 2 else 0


@pytest.mark.few_cases(2)
@pytest.mark.parametrize(
    ("n_arms", "n_rounds", "delta", "logger"),
    [
        *((1, n, delta, in_turn) for n, delta in ((3, 0.2), (12, 0.14))),
        *((2, 10, 0.0019, logger) for logger in (in_turn, while_alike)),
    ],
)
def test_the_constant_of_the_bound(n_arms, n_rounds, delta, logger):
    """All outcomes: the bound fails with probability delta at most, half of it above.

    What counts of a round is a fair coin, the widest there is; the truth is one half
    per arm.
    """
    errors, bounds, known = [], [], {}
    for coins in product((0, 1), repeat=n_rounds):
        counts, code = [0] * n_arms, []
        for t in range(n_rounds):
            code.append(logger(counts, coins[:t]))
            counts[code[-1]] += 1
        earned = np.bincount(code, coins, n_arms)  # by what the policy wants
        errors.append(abs((earned / counts).sum() - n_arms / 2))
        if tuple(counts) not in known:
            logs = BanditLogs(np.empty((n_rounds, 0)), code, np.ones(n_rounds))
            value = evaluate(logs, np.full((n_rounds, n_arms), 1 / n_arms))
            asked = {"method": "hoeffding", "reward_range": (0, 1)}
            known[tuple(counts)] = value.deviation_bound(delta, **asked)
        bounds.append(known[tuple(counts)])
    errors, bounds = np.array(errors), np.array(bounds)
    assert np.mean(errors > bounds) <= delta < np.mean(errors > bounds / 2)


def test_a_uniform_target_does_not_make_the_short_form_valid():
    """Means (.9, .1), nine in ten rounds of arm 0: the 1/k estimator misses V = .5."""
    code = np.repeat([0, 1], [9, 1])
    mean = np.array([0.9, 0.1])[code]
    value = evaluate(BanditLogs(np.empty((10, 0)), code, mean), np.full((10, 2), 0.5))
    assert_allclose([value.value, value.diagnostics["uniform_value"]], [0.5, 0.82])


def test_bounds_of_theorems():
    result = evaluate(s6(actions=[0, 1, 2]), np.column_stack([TARGET, np.zeros(6)]))
    with pytest.raises(ValueError, match=r"2 was never logged .*actions that it can"):
        result.deviation_bound(0.05)
    k, n, known = 3, 6, {"arms": [0, 1]}
    expected = 2 * np.sqrt(2 * np.log(2 * k * n / 0.05) / 3)
    assert_allclose(result.deviation_bound(0.05, **known), expected)
    short = result.deviation_bound(0.05, **known, method="hoeffding")
    assert_allclose(short, expected / 2)
    plain = evaluate(s6())
    bound = plain.deviation_bound(0.1)
    scaled = evaluate(s6(reward=np.arange(6.0), reward_range=(0, 5)))
    assert_allclose(scaled.deviation_bound(0.1), 5 * bound)
    assert_allclose(plain.deviation_bound(0.1, reward_range=(-1, 1)), 2 * bound)
    # arms that are played and were never logged
    pi = np.full((6, 3), 1 / 3)
    with pytest.warns(SupportWarning, match="33.33%"):
        result = evaluate(s6(actions=[0, 1, 2]), pi)
    for arms in (None, [0, 1, 2]):
        with pytest.raises(ValueError, match=r"plays 2, which was never.*33\.33% of"):
            result.deviation_bound(0.05, arms=arms)
    with pytest.raises(ValueError, match="leaves out 2, which the policy plays"):
        result.deviation_bound(0.05, arms=[0, 1])


def test_the_short_form_needs_uniform_logging():
    plain = evaluate(s6())
    with pytest.raises(ValueError, match="pass uniform_logging=True"):
        plain.deviation_bound(0.05, form="1/k")
    about = 2 * np.mean(TARGET[np.arange(6), s6().action] * s6().reward)
    assert_allclose(plain.diagnostics["uniform_value"], about)
    expected = abs(plain.value - about) + 2 * np.sqrt(2 * np.log(4 / 0.05) / 6)
    assert_allclose(plain.deviation_bound(0.05, **SHORT), expected)
    thirds = s6(actions=[0, 1, 2], propensity=np.full(6, 0.3333))
    value = evaluate(thirds, np.column_stack([TARGET, np.zeros(6)]))
    assert np.isfinite(value.deviation_bound(0.05, **SHORT))
    code, half = np.repeat([0, 1], [900, 100]), np.full((1000, 2), 0.5)
    uneven = evaluate(BanditLogs(np.zeros((1000, 1)), code, code), half)
    tilted = evaluate(s6(propensity=[0.4, 0.6, 0.6, 0.4, 0.6, 0.4]))
    refused = [(uneven, r"contradicts the logs: .* 100 to 900")]
    refused.append((tilted, "contradicts the propensities"))
    for p in (1.0, 0.9, 0.51):
        value = evaluate(s6(propensity=np.full(6, p)))
        refused.append((value, f"row 0 has {p:g}, not 1/2"))
    for value, match in refused:
        with pytest.raises(ValueError, match=match):
            value.deviation_bound(0.05, **SHORT)


@pytest.mark.parametrize(
    ("settings", "asked", "match"),
    [
        ({"self_normalized": True}, {}, "do not cover self_normalized=True"),
        ({"strata": "x"}, {}, "do not cover strata"),
        ({}, {"form": "short"}, "form must be 'arms' or '1/k'"),
        ({}, {"method": "markov"}, "'azuma' or 'hoeffding'"),
        ({}, {"arms": [7]}, r"one or more of \[0, 1\], got \[7\]"),
        ({}, {"arms": []}, r"one or more of \[0, 1\], got \[\]"),
        ({}, {"arms": [0]}, r"arms=\[0\] leaves out 1, which the policy plays"),
        ({}, {"n_actions": 2}, "has no parameter 'n_actions'"),
    ],
)
def test_bounds_that_do_not_hold(settings, asked, match):
    value = evaluate(s6().with_columns(x=S6_X), **settings)
    with pytest.raises(ValueError, match=match):
        value.deviation_bound(0.05, **asked)


def test_values_without_a_bound():
    match = r"known in advance. The logged rewards, 0 to 5,"
    with pytest.raises(ValueError, match=match):
        evaluate(s6(reward=np.arange(6.0))).deviation_bound(0.05)
    weighted = ExplorationScavenging().fit(s6()).evaluate(TARGET, None, np.arange(6.0))
    with pytest.raises(ValueError, match="do not cover sample weights"):
        weighted.deviation_bound(0.05)
    with pytest.warns(SupportWarning):
        thirds = np.full((6, 3), 1 / 3)
        value = evaluate(s6(actions=[0, 1, 2]), thirds, on_missing="nan")
    with pytest.raises(ValueError, match="the value is NaN"):
        value.deviation_bound(0.05)
    rng, action = np.random.RandomState(0), np.arange(200) % 2
    rounds = rng.normal(size=(200, 2)), action, 1.0 * (rng.random_sample(200) < 0.5)
    logs = BanditLogs(*rounds, propensity=np.full(200, 0.5))
    policy = ClassifierPolicy(LogisticRegression()).fit(logs)
    with pytest.warns(LearnedRoundsWarning):
        value = evaluate(logs, policy)
    with pytest.raises(ValueError, match="a policy that learned from these rounds"):
        value.deviation_bound(0.05)


@pytest.mark.parametrize("method", ["azuma", "hoeffding"])
def test_the_short_form_bounds_the_value_and_not_another(method):
    """Scavenging says 1, the 1/k estimator 10/60: its bound lies around that."""
    # ten actions by chance as uneven as 1 to 11; the rare one earns all
    action = np.repeat(np.arange(10), [1, 3, 4, 5, 6, 6, 7, 8, 9, 11])
    logs = BanditLogs(np.zeros((60, 1)), action, (action == 0).astype(float))
    with pytest.warns(LowOverlapWarning):
        result = evaluate(logs, np.tile(np.eye(10)[0], (60, 1)))
    assert result.value == 1
    about = result.diagnostics["uniform_value"]
    assert_allclose(about, 1 / 6)
    for delta in (0.01, 0.5, 0.999):
        radius = result.deviation_bound(delta, **SHORT, method=method)
        union = 1 if method == "hoeffding" else 10
        around = 10 * np.sqrt(2 * np.log(2 * union / delta) / 60)  # Theorem 5
        # whatever Theorem 5 allows for the truth lies within the radius
        assert result.value - radius <= about - around + 1e-12
        assert result.value + radius >= about + around - 1e-12


VARIANTS = {
    "plain": ({}, {}),
    "hoeffding": ({}, {"method": "hoeffding"}),
    "named arms": ({}, {"arms": [0, 1], "method": "hoeffding"}),
    "uniform": ({}, {**SHORT, "method": "hoeffding"}),
    "logger": ({"match": "logger"}, {"method": "hoeffding"}),
    "ratio": ({"self_normalized": True}, {}),
    "strata": ({"strata": "x"}, {}),
    "mixture": ({}, {}),
}
REFUSED = ("ratio", "strata", "mixture")


@pytest.mark.few_cases(2)
@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.filterwarnings("ignore::skope_ope.exceptions.OPEWarning")
def test_the_bound_holds_for_the_very_value_or_refuses(variant):
    """All logs of four rounds in turn, of 0/1 rewards with means of .8 and .3."""
    settings, asked = VARIANTS[variant]
    arms = np.arange(4) % 2
    total, failed = 0.0, {0.2: 0.0, 0.9: 0.0}
    truth = (0.8 + 0.3) / 2  # the policy takes arm x; the rewards are of arm != x
    about = {"actions": [0, 1], "reward_range": (0, 1)}
    if variant in ("logger", "mixture"):
        about["logger"] = arms
    if variant == "mixture":
        about["logger_proba"] = np.eye(2)[arms]
    for chance, x, reward in enumerate_rounds(
        arms, lambda x, a: np.where(a == x, np.where(x == 0, 0.8, 0.3), 0.5)
    ):
        logs = BanditLogs(x[:, None], arms, reward, **about).with_columns(x=x)
        result = evaluate(logs, np.eye(2)[x], **settings)
        total += chance
        refusal = "the theorems do not cover" if variant in REFUSED else None
        if refusal is None and np.isnan(result.value):  # no round matched
            refusal = "the value is NaN"
        for delta in failed:
            if refusal is not None:
                with pytest.raises(ValueError, match=refusal):
                    result.deviation_bound(delta, **asked)
                continue
            radius = result.deviation_bound(delta, **asked)
            failed[delta] += chance * (abs(result.value - truth) > radius)
    assert_allclose(total, 1)
    assert all(chance <= delta for delta, chance in failed.items())


def test_rounds_of_groups_have_no_bound():
    """Four groups of 500 equal rounds: the bound of single rounds fails too often."""
    group, action = np.arange(2000) % 4, np.arange(2000) // 4 % 2
    half, far = np.full((2000, 2), 0.5), 0
    for coins in product((0.0, 1.0), repeat=4):
        fields = {"reward_range": (0, 1)}
        reward = np.array(coins)[group]
        alone = BanditLogs(np.zeros((2000, 1)), action, reward, **fields)
        value = evaluate(alone, half)
        far += abs(value.value - 0.5) > value.deviation_bound(0.05)
        with pytest.warns(FewGroupsWarning):
            grouped = evaluate(alone.replace(group=group), half)
        with pytest.raises(ValueError, match="do not cover groups"):
            grouped.deviation_bound(0.05)
    assert far / 16 > 0.05


def test_pages_have_no_bound():
    for pooled in (False, True):
        scavenger = PositionScavenging(attention=SL4_ATTENTION, pooled=pooled)
        value = scavenger.fit(sl4()).evaluate(SL4_SLATES)
        with pytest.raises(ValueError, match="divides clicks by attention"):
            value.deviation_bound(0.05)
    ratio = ReorderingScavenging(attention=SL4_ATTENTION).fit(sl4())
    with pytest.raises(ValueError, match=r"Reordering.*Use confidence_interval"):
        ratio.evaluate(SL4_SLATES).deviation_bound(0.05)
