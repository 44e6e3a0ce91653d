# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""What a comparison decides, what it doubts, and the sentence that says so."""

import numpy as np
import pytest
from scipy.stats import norm, t

from skope_ope import BanditLogs
from skope_ope.exceptions import (
    AdaptiveLoggerWarning,
    FewEventsWarning,
    FewGroupsWarning,
    LearnedRoundsWarning,
    LowOverlapWarning,
    OPEWarning,
    PropensityWarning,
    SupportWarning,
    TailWarning,
)
from skope_ope.selection import PolicyComparison, rounds_needed
from tests._values import stated_value

SYSTEM = "the system that made the log"
N = 1000
LOGS = BanditLogs(np.zeros((N, 1)), [0] * N, np.arange(N) / N, [1.0] * N)
NOISE = np.random.default_rng(0).normal(size=N)
NOISE = (NOISE - NOISE.mean()) / NOISE.std(ddof=1) * N**0.5
MILD = LowOverlapWarning("", 12.0)  # forbids nothing
WEIGHT = "few rounds carry most of the weight"
LEARNED = LearnedRoundsWarning("", 0.5)


def stated(value, error=0.05, *warnings, **about):
    """Return a value with this error beside a reference without noise."""
    about = {"estimator": "IPS", "logs": LOGS, "warnings": warnings} | about
    values = value + error * NOISE
    return stated_value(value, error, N, round_values=values, **about)


LOGGER = stated(0.5, 0.0)


def compared(*values, reference=LOGGER, names="abcdefg", baseline="logger", **options):
    named = dict(zip(names, values, strict=False))
    return PolicyComparison(named, reference, baseline, **options)


class NewWarning(OPEWarning):
    """Nobody has thought about it yet."""


NEITHER, BETTER, BOTH = set(), {"better"}, {"better", "worse"}


@pytest.mark.parametrize(
    ("forbids", "warning", "text"),
    [
        (NEITHER, MILD, WEIGHT),
        (NEITHER, FewGroupsWarning("", 12.0), "few groups"),
        (BOTH, LowOverlapWarning("", 0.0), "no logged round with information on"),
        (BETTER, LEARNED, "learned from 50.0% of these"),
        (BOTH, FewEventsWarning("", 3.0), "fewer than ten effective events"),
        (BOTH, AdaptiveLoggerWarning("", 0.01), "a logger that learned from these"),
        (BOTH, PropensityWarning("", 5.0), "propensities or acceptance ratios"),
        (BOTH, TailWarning("", 0.5), "few rounds make most of the spread"),
        (BOTH, TailWarning("", 0.5, "tail_of_sums"), "sums that do not show whether"),
        (BOTH, NewWarning(""), "a NewWarning"),
        (BETTER, LearnedRoundsWarning(""), "a LearnedRoundsWarning"),
    ],
)
def test_what_a_warning_forbids(forbids, warning, text):
    better, worse = (compared(stated(v, 0.05, warning)) for v in (0.8, 0.2))
    assert better.decision == ("undecided" if "better" in forbids else "deploy")
    assert worse.decision == ("undecided" if "worse" in forbids else "keep")
    assert text in better.sentence and "(a)" in better.sentence
    assert type(warning).__name__ in better.to_records()[0]["warnings"]


def test_a_baseline_that_learned_is_valued_too_high():
    for value, decision in ((0.8, "deploy"), (0.2, "undecided")):
        found = compared(stated(value), reference=stated(0.5, 0.0, LEARNED))
        assert found.decision == decision
        assert ("learned" in found.sentence) and f"({SYSTEM})" in found.sentence


@pytest.mark.parametrize(
    ("low", "high", "width", "decides"),
    [
        (0.2, 0.3, 1.0, True),  # .9 * .2 > .1
        (0.1, 0.3, 1.0, False),
        (0.1, 0.3, 0.5, True),
        (0.2, 0.3, None, False),  # what was not logged may be worth anything
    ],
)
@pytest.mark.parametrize(("sign", "decision"), [(1, "deploy"), (-1, "keep")])
def test_mass_that_was_not_logged(low, high, width, decides, sign, decision):
    error = (high - low) / 2 / t.ppf(0.975, N - 1)
    value = stated(0.5 + sign * (low + high) / 2, error, SupportWarning("", 0.1))
    known = None if width is None else (0.0, width)
    found = compared(value, reward_range=known)
    assert found.decision == (decision if decides else "undecided")
    if sign > 0 or not decides:
        assert "10% of the decisions not in the log (a)" in found.sentence


@pytest.mark.parametrize(
    ("masses", "of_logger", "share"),
    [((0.1, 0.05), (0.2,), "35%"), ((0.1,), (float("nan"),), "100%")],
)
def test_masses_add_up(masses, of_logger, share):
    value, reference = (
        stated(v, e, *(SupportWarning("", mass) for mass in given))
        for v, e, given in ((0.8, 0.05, masses), (0.5, 0.0, of_logger))
    )
    assert f"{share} of the dec" in compared(value, reference=reference).sentence


def test_a_bias_by_design():
    found = compared(stated(0.8, estimator="DRos", leaves_bias_out="what it shrinks"))
    assert found.decision == "undecided"
    told = "what it shrinks, which the interval of DRos leaves out (a)."
    assert found.sentence.endswith(told)


NAN = float("nan")
SAME = "a gain that is the same in every round"


@pytest.mark.parametrize(
    ("value", "error", "reference", "text"),
    [
        (NAN, NAN, 0.5, "no value (NaN) (a)"),
        (0.9, NAN, NAN, "no value (NaN) (the system that made the log)"),
        (0.6, NAN, 0.5, "no standard error (NaN) (a)"),
        *((v, e, 0.5, SAME) for v, e in ((0.6, 0.0), (0.5, 0.0), (0.6, 1e-15))),
    ],
)
def test_a_gain_that_is_not_known(value, error, reference, text):
    found = compared(stated(value, error), reference=stated(reference, 0.0))
    assert found.decision == "undecided" and text in found.sentence


# -- answers and the decision ---------------------------------------------------------
@pytest.mark.parametrize(
    ("gains", "decision", "choice"),
    [
        ([(0.5, 0.2), (0.25, 0.01), (-0.3, 0.05), (0.0, 0.05)], "deploy", "b"),
        ([(-0.3, 0.05), (-0.2, 0.05)], "keep", None),
        ([(-0.3, 0.05), (0.0, 0.05)], "undecided", None),
        ([(0.3, 0.05), (0.3, 0.05)], "deploy", "a"),  # the first of equal ones
    ],
)
def test_the_decision(gains, decision, choice):
    found = compared(*(stated(0.5 + gain, error) for gain, error in gains))
    assert (found.decision, found.choice) == (decision, choice)


@pytest.mark.parametrize(
    ("gain", "answer"), [(0.3, "better"), (-0.3, "worse"), (0.05, "cannot tell")]
)
def test_the_answer_is_that_of_the_interval(gain, answer):
    values = [stated(0.5 + gain), *(stated(0.5) for _ in range(3))]
    record = compared(*values, level=0.9).to_records()[0]
    half = t.ppf(1 - 0.1 / 8, N - 1) * 0.05
    ends = record["difference_low"], record["difference_high"]
    assert ends == pytest.approx((gain - half, gain + half))
    assert record["answer"] == answer
    if answer != "cannot tell":
        assert np.isnan(record["rounds_needed"])
        return
    expected = rounds_needed(gain, 0.05 * N**0.5, level=0.9, n_comparisons=4)
    assert record["rounds_needed"] == pytest.approx(expected, rel=0.02)  # Student's
    assert record["rounds_needed"] > N


def test_policies_that_act_alike_have_no_answer():
    found = compared(stated(0.9, 0.05, LEARNED), alike=["a"])
    record = found.to_records()[0]
    assert record["answer"] == "cannot tell" and np.isnan(record["rounds_needed"])
    assert "learned" not in found.sentence


# -- the sentence ---------------------------------------------------------------------
def test_deploy_and_keep():
    found = compared(stated(0.8, 0.05, MILD), stated(0.7), stated(0.2))
    assert found.sentence == (
        f"Deploy a: by IPS it is better than {SYSTEM}, with a reward of 0.800 instead "
        "of 0.500 per round (+0.300 per round, +0.180 to +0.420). b is better than "
        f"{SYSTEM}, too. The choice has the greatest lower limit. Mind: {WEIGHT} (a)."
    )
    tail = "More reward counts as better."
    assert compared(stated(0.2)).sentence == (
        f"Keep {SYSTEM}: by IPS a is worse, with a reward of 0.200 instead of 0.500 "
        f"per round (-0.300 per round, -0.398 to -0.202). {tail}"
    )
    assert compared(stated(0.2), stated(0.3)).sentence == (
        f"Keep {SYSTEM}: by IPS a and b are all worse; the nearest, b, with a reward "
        "of 0.300 instead of 0.500 per round (-0.200 per round, -0.312 to -0.088). "
        f"{tail}"
    )


def test_undecided_and_alike():
    assert compared(stated(0.55), stated(0.2)).sentence == (
        f"Undecided: these 1,000 rounds cannot tell a from {SYSTEM}. For a (+0.050 per "
        "round, -0.062 to +0.162), about 8,500 more rounds (9,500 in all) would decide "
        "with probability 0.8, if the true gain equals the estimate. b is worse than "
        f"{SYSTEM}. More reward counts as better."
    )
    text = compared(stated(0.5), stated(0.51), alike=["a"]).sentence
    told = f"cannot tell b from {SYSTEM}. a acts as {SYSTEM} does. For b"
    assert told in text
    assert compared(stated(0.5), alike=["a"]).sentence == (
        f"Undecided: a acts as {SYSTEM} does in these rounds, so the choice makes "
        "no difference."
    )


def test_how_many_rounds_are_told():
    z = norm.ppf(0.975) + norm.ppf(0.8)
    for gain, text in (
        (0.0001, "a decision would take more than 100 times as many rounds, if the"),
        (0.02, "about 49 times as many rounds would decide with probability 0.8"),
        (0.05, "about 6,900 more rounds (7,900 in all) would decide with probability"),
    ):
        assert text in compared(stated(0.5 + gain)).sentence
        needed = (z * 0.05 * N**0.5 / gain) ** 2
        assert (needed > 100 * N) == ("more than 100" in text)
    text = compared(*(stated(0.45) for _ in range(5)), stated(0.51)).sentence
    assert f"cannot tell 6 policies from {SYSTEM}" in text
    assert "For f" in text and "For a" not in text
    assert "The table gives the numbers for the others." in text


def test_what_stands_against_it():
    learned = stated(0.8, 0.05, LEARNED)
    assert compared(learned, learned).sentence == (
        f"Undecided: a seems better than {SYSTEM} (+0.300 per round, +0.188 to +0.412) "
        f"and b seems better than {SYSTEM} (+0.300 per round, +0.188 to +0.412), but "
        "there are doubts. Doubts that prevent a decision: learned from 50.0% of these "
        "rounds (a and b)."
    )
    text = compared(learned, stated(0.51)).sentence
    assert f"These 1,000 rounds cannot tell b from {SYSTEM}. For b" in text
    text = compared(*[learned] * 4).sentence
    assert f"4 policies seem better or worse than {SYSTEM}, but" in text
    # more rounds bring more events: these do not prevent a decision for good
    few = compared(stated(0.55, 0.05, FewEventsWarning("", 3.0), LEARNED)).sentence
    assert "prevent a decision: learned" in few and "events" not in few
