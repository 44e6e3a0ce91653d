# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause

from math import inf, nan
from types import SimpleNamespace

import pytest

from skope_ope.reports._recommendation import RewardUnits

POINTS, PLAIN = RewardUnits(True, 2, 3, 2), RewardUnits(False, 3, 3, 2)


@pytest.mark.parametrize(
    ("told", "text"),
    [
        (POINTS.value(0.0752), "7.52%"),
        (POINTS.gain(0.0135), "+1.350"),
        (POINTS.gain(-0.0135), "-1.350"),
        (POINTS.worded_value(0.0752), "7.52%"),
        (POINTS.worded_gain(0.0135), "1.35 points"),
        (POINTS.worded_limit(-0.0066, "+"), "-0.66"),
        (PLAIN.value(1234.5678), "1,234.568"),
        (PLAIN.gain(0.1), "+0.100"),
        (PLAIN.worded_gain(0.1, "+"), "+0.10 per round"),
    ],
)
def test_numbers_are_written_as_people_say_them(told, text):
    assert told == text


@pytest.mark.parametrize("units", [POINTS, PLAIN])
@pytest.mark.parametrize("x", [nan, inf, -inf])
def test_what_is_no_number_is_a_dash(units, x):
    assert units.value(x) == units.gain(x) == "-"


def test_what_is_rounded_to_zero_has_no_sign():
    assert POINTS.gain(-1e-9) == POINTS.gain(0.0) == "0.000"


def test_relative_gains_are_whole_percents_or_have_two_digits():
    assert [RewardUnits.share(x) for x in (0.219, -0.0132, 12.3, nan)] == [
        "+22%",
        "-1.3%",
        "+1,230%",
        "-",
    ]
    assert RewardUnits.share(0.219, "") == "22%"


def values(*errors):
    return [SimpleNamespace(standard_error=error) for error in errors]


def test_places_follow_the_standard_errors():
    # errors of .35 points have two digits, in tables and in sentences
    units = RewardUnits.of(values(0.0035), values(0.0035), percent=True)
    assert (units.of_values, units.of_gains, units.in_words) == (2, 2, 2)
    assert units.worded_gain(0.0135) == "1.35 points"
    units = RewardUnits.of(values(35.0), values(3500.0), percent=False)
    assert (units.of_values, units.of_gains, units.in_words) == (0, 0, 0)


def test_values_without_an_error_have_places_too():
    units = RewardUnits.of(values(nan), values(0.0), percent=False)
    assert units.value(0.5) == "0.5000"


def test_a_gain_agrees_with_the_two_values_in_a_sentence():
    units = RewardUnits.of(values(0.01), values(0.001), percent=True)
    assert units.worded_value(0.5) == f"{units.worded_limit(0.5)}%"
