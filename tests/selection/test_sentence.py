# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause

import pytest

from skope_ope.exceptions import LearnedRoundsWarning, LowOverlapWarning
from skope_ope.selection._doubts import Doubt
from skope_ope.selection._gain_answers import GainAnswer, rough, sentence_of

NAN = float("nan")
WEIGHT = "few rounds carry most of the weight"


def verdict(name, answer, gain=0.1, doubts=(), alike=False, rounds=NAN):
    return GainAnswer(name, answer, gain, gain - 0.1, gain + 0.1, doubts, alike, rounds)


def sentence(*answers, choice=None):
    return sentence_of(
        list(answers), choice, "the logger", "IPS", lambda x: f"{x:+.2f}", 1000
    )


def test_deploy():
    mind = Doubt("a", WEIGHT, LowOverlapWarning, frozenset())
    text = sentence(
        verdict("a", "better", 0.3, (mind,)),
        verdict("b", "better", 0.2),
        verdict("c", "worse", -0.3),
        choice="a",
    )
    assert text == (
        "Deploy a: by IPS it is better than the logger (+0.30 per round, +0.20 to "
        "+0.40). b is better than the logger, too. The choice has the greatest lower "
        f"limit. Mind: {WEIGHT} (a)."
    )


def test_keep():
    assert sentence(verdict("a", "worse", -0.3)) == (
        "Keep the logger: by IPS a is worse (-0.30 per round, -0.40 to -0.20). "
        "Greater rewards count as better."
    )
    text = sentence(verdict("a", "worse", -0.3), verdict("b", "worse", -0.2))
    assert text == (
        "Keep the logger: by IPS a and b are all worse (nearest b, -0.20 per round, "
        "-0.30 to -0.10). Greater rewards count as better."
    )


def test_undecided():
    text = sentence(
        verdict("a", "cannot tell", 0.05, rounds=5432), verdict("b", "worse", -0.3)
    )
    assert text == (
        "Undecided: these 1,000 rounds cannot tell a from the logger. For a (+0.05 per "
        "round, -0.05 to +0.15), about 4,400 more rounds (5,400 in all) would decide "
        "with probability 0.8, if the true gain equals the estimate. b is worse than "
        "the logger. Greater rewards count as better."
    )


def test_numbers_of_rounds_that_are_no_plan():
    text = sentence(verdict("a", "cannot tell", 0.001, rounds=3.5e7))
    assert text == (
        "Undecided: these 1,000 rounds cannot tell a from the logger. For a (+0.00 per "
        "round, -0.10 to +0.10), a decision would take more than 100 times as many "
        "rounds, if the true gain equals the estimate."
    )


def test_many_rounds_are_told_as_times_the_log():
    text = sentence(verdict("a", "cannot tell", 0.05, rounds=51_234))
    assert "), about 51 times as many rounds would decide with" in text
    text = sentence(verdict("a", "cannot tell", 0.05, rounds=9_900))
    assert "), about 8,900 more rounds (9,900 in all) would decide with" in text


def test_undecided_among_many():
    many = [verdict(f"p{k}", "cannot tell", -0.05, rounds=2e6) for k in range(5)]
    many.append(verdict("best", "cannot tell", 0.01, rounds=3e6))
    text = sentence(*many)
    assert "cannot tell 6 policies from the logger" in text
    assert "For best" in text and "For p0" not in text
    assert "The table gives the numbers for the others." in text


def test_what_stands_against_it():
    learned = Doubt("a", "learned", LearnedRoundsWarning)
    other = Doubt("b", "learned", LearnedRoundsWarning)
    text = sentence(
        verdict("a", "cannot tell", 0.3, (learned,)),
        verdict("b", "cannot tell", 0.3, (other,)),
    )
    assert text == (
        "Undecided: a seems better than the logger (+0.30 per round, +0.20 to +0.40) "
        "and b seems better than the logger (+0.30 per round, +0.20 to +0.40), but "
        "there are doubts. Doubts that prevent a decision: learned (a and "
        "b)."
    )
    text = sentence(
        verdict("a", "cannot tell", 0.3, (learned,)),
        verdict("b", "cannot tell", 0.01, rounds=3000),
    )
    assert "These 1,000 rounds cannot tell b from the logger. For b" in text
    many = [verdict(f"p{k}", "cannot tell", 0.3, (learned,)) for k in range(4)]
    assert "4 policies seem better or worse than the logger, but" in sentence(*many)


def test_alike():
    text = sentence(
        verdict("a", "cannot tell", 0.0, alike=True), verdict("b", "cannot tell", 0.01)
    )
    assert text == (
        "Undecided: these 1,000 rounds cannot tell b from the logger. a acts as the "
        "logger does."
    )
    assert sentence(verdict("a", "cannot tell", 0.0, alike=True)) == (
        "Undecided: a acts as the logger does in these rounds, so the choice makes "
        "no difference."
    )


@pytest.mark.parametrize(
    "number, text",
    [(0.2, "0"), (7, "7"), (12.3, "12"), (5432, "5,400"), (1.26e6, "1,300,000")],
)
def test_two_digits(number, text):
    assert rough(number) == text
