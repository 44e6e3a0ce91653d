# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause

"""What a requirement may say, and what is refused at which character."""

from argparse import ArgumentTypeError
from math import nan

import pytest

from skope_ope._shell._require import requirement


@pytest.mark.parametrize(
    ("text", "left", "sign", "right"),
    [
        ("new.lower > logger", ("new", None, ("lower",)), ">", ("logger", None, ())),
        ("new>=old.upper", ("new", None, ()), ">=", ("old", None, ("upper",))),
        (
            "a-b/SNIPS.gain.lower <= Ünd_1/'IPS:cmax=10'.value",
            ("a-b", "SNIPS", ("gain", "lower")),
            "<=",
            ("Ünd_1", "IPS:cmax=10", ("value",)),
        ),
        (' x . gain < y / "a b" ', ("x", None, ("gain",)), "<", ("y", "a b", ())),
    ],
)
def test_policies_evaluators_and_fields(text, left, sign, right):
    found = requirement(text)
    assert found.operator == sign
    for side, expected in zip(found.sides, (left, right), strict=True):
        assert (side.name, side.evaluator, side.fields) == expected
        assert (side.number, side.answer, side.is_verdict) == (None, None, False)
    assert str(found) == text


@pytest.mark.parametrize(
    ("text", "number"),
    [("0", 0), ("-1", -1), ("+.5", 0.5), ("1e-3", 0.001), ("2.", 2), ("1.5E+2", 150)],
)
def test_numbers(text, number):
    assert requirement(f"new > {text}").right.number == number
    assert requirement(f"{text}<new").left.number == number


@pytest.mark.parametrize(
    "text", ["trustworthy", "caution", "not supported", "'not supported'", '"caution"']
)
def test_answers_of_verdicts(text):
    found = requirement(f"new.verdict >= {text}")
    assert found.right.answer == text.strip("'\"")
    assert [side.is_verdict for side in found.sides] == [True, True]


def test_numbers_are_compared_and_nan_satisfies_nothing():
    for sign, below, same, above in (
        (">", False, False, True),
        (">=", False, True, True),
        ("<", True, False, False),
        ("<=", True, True, False),
    ):
        found = requirement(f"new {sign} 0")
        assert [found.holds(x, 0.0) for x in (-1.0, 0.0, 1.0)] == [below, same, above]
        assert not found.holds(nan, 0.0)
        assert not found.holds(0.0, nan)


@pytest.mark.parametrize(
    ("text", "place", "message"),
    [
        ("", 1, "a number or a policy stands here, got 'the end'"),
        ("new", 4, "one of >= <= == > < stands here, got 'the end'"),
        ("new.lower >", 12, "a number or a policy stands here, got 'the end'"),
        ("new.lowr > 1", 5, "one of value, lower, upper, gain, standard_error, eff"),
        ("new. > 1", 6, "one of value, lower"),
        ("new.lower.upper > 1", 11, "nothing more stands here, got 'upper'"),
        ("new.gain.verdict > 1", 10, "one of value, lower, upper stands here"),
        ("logger.gain > 0", 8, "one of value, lower, upper stands here, got 'gain'"),
        ("logger/IPS > 0", 1, "the logger's value is its mean, by no evaluator"),
        ("new.lower => 3", 11, "'=' does not fit into a requirement"),
        ("new > 3 > 2", 9, "nothing more (further requirements are further options)"),
        ("1 > 0", 1, "neither side is about a policy or the logger"),
        ("caution < trustworthy", 1, "neither side is about a policy"),
        ("new == 3", 5, "numbers are compared with > >= < <="),
        ("new.verdict > 3", 1, "a verdict is compared with one of 'not supported', "),
        ("new.verdict == trustworthi", 1, "a verdict is compared with one of"),
        ("new > caution", 1, "a verdict is compared with one of"),
        ("new > 'good'", 7, "'good' is none of the answers 'not supported', "),
        ("new > not", 10, "supported stands here, got 'the end'"),
        ("new/ > 3", 6, "the name of an evaluator stands here, got '>'"),
        ("new/IPS:cmax=10 > 3", 8, "':' does not fit into a requirement"),
        ("new > 1.5.3", 7, "'1' does not fit into a requirement"),
        ("new > 3x", 7, "'3' does not fit into a requirement"),
        (
            "__import__('os').system('ls') > 3",
            11,
            "'(' does not fit into a requirement",
        ),
        ("new > $HOME", 7, "'$' does not fit into a requirement"),
        ("\x1b[2J > 3", 1, r"'\x1b' does not fit into a requirement"),
        ("<b>new</b> > 3", 1, "a number or a policy stands here, got '<'"),
    ],
)
def test_what_is_no_requirement_is_refused_at_its_character(text, place, message):
    with pytest.raises(ArgumentTypeError) as caught:
        requirement(text)
    told = str(caught.value)
    assert f"at character {place}, {message}" in told
    assert "is no requirement such as 'new.lower > logger'" in told
    assert "\x1b" not in told


def test_names_must_exist():
    found = requirement("new.lower > logger")
    found.check_names(["new", "old"])
    with pytest.raises(ValueError, match="no policy is called 'new'"):
        found.check_names(["old"])
