# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause

import math

import pytest

from skope_ope.logs._text_files import number, numbers, quoted, whole_number

NO_NUMBERS = ["", " ", "x", "0_1.0", "1_0", "_1", "1,5", "0x1", "1e", "--1", "1 2"]
OTHER_SCRIPTS = ["\uff11", "\u0663", "1\u0663", "\u00b2", "\u22121", "1\u00a0"]


@pytest.mark.parametrize(
    ("text", "value"),
    [("1", 1), ("-0.5", -0.5), (" 1 ", 1), ("+1e-3", 0.001), (".5", 0.5), ("5.", 5)],
)
def test_numbers_may_be_written_in_these_ways(text, value):
    assert number(text) == value


@pytest.mark.parametrize("text", NO_NUMBERS + OTHER_SCRIPTS)
def test_texts_that_are_no_numbers(text):
    with pytest.raises(ValueError, match=r"number|float"):
        number(text)
    with pytest.raises(ValueError, match=r"number|float"):
        list(numbers(["1", text, "2"]))


def test_what_is_not_finite_is_left_to_the_caller():
    assert math.isnan(number("nan"))
    assert number("inf") == -number("-Infinity") == math.inf
    assert number("1" * 5000) == math.inf


@pytest.mark.parametrize("text", ["nan", "inf", "-Infinity", "1e999", "1" * 5000])
def test_numbers_can_be_wanted_finite(text):
    assert number("1.5", finite=True) == 1.5
    with pytest.raises(ValueError, match="finite"):
        number(text, finite=True)


def test_many_at_once():
    assert list(numbers(["1", "2.5"])) == [1.0, 2.5]
    assert list(numbers([])) == []


@pytest.mark.parametrize(
    ("text", "value"), [("0", 0), ("-7", -7), (" 3 ", 3), ("9" * 18, 10**18 - 1)]
)
def test_whole_numbers(text, value):
    assert whole_number(text) == value


@pytest.mark.parametrize(
    "text", [*NO_NUMBERS, *OTHER_SCRIPTS, "1.0", "1e3", "9" * 19, "1" * 5000, "- 1"]
)
def test_texts_that_are_no_whole_numbers(text):
    with pytest.raises(ValueError, match="not a whole number"):
        whole_number(text)


def test_long_texts_are_cut_in_messages():
    assert quoted("abc") == "'abc'"
    shown = quoted("1" * 5000)
    assert shown.startswith("'1111")
    assert shown.endswith("1... (5,002 characters)")
    assert len(shown) < 100
