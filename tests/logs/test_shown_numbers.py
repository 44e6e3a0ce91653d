# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause

from math import inf, nan

import pytest

from skope_ope.logs._shown_numbers import (
    called,
    column,
    counts,
    decimals,
    error_text,
    figure,
    fixed,
    level_text,
    p_text,
    places_of_interval,
    share,
    span,
)


@pytest.mark.parametrize(
    ("errors", "places"),
    [
        ([0.0123], 3),
        ([0.00123, 0.0012, 7e-6], 4),
        ([12.0], 0),
        ([1.2], 1),
        ([1234.0], 0),
        ([1e-12], 8),
        ([0.0, nan, inf], 4),
        ([], 4),
    ],
)
def test_a_typical_standard_error_has_two_digits(errors, places):
    assert decimals(errors) == places


@pytest.mark.parametrize(
    ("x", "places", "text"),
    [
        (1234.5678, 2, "1,234.57"),
        (0.5, 4, "0.5000"),
        (7918, 0, "7,918"),
        (-0.0001, 2, "0.00"),
        (123456789.0, 1, "123,456,789.0"),
        (1e-12, 8, "1e-12"),
        (1e20, 0, "1e+20"),
        (None, 2, "-"),
        (nan, 2, "-"),
        (-inf, 2, "-inf"),
    ],
)
def test_numbers_with_decimals(x, places, text):
    assert fixed(x, places) == text


@pytest.mark.parametrize(
    ("x", "text"),
    [(0.0136, "+0.014"), (-0.0136, "-0.014"), (0.0, "0.000"), (inf, "+inf")],
)
def test_gains_are_signed(x, text):
    assert fixed(x, 3, "+") == text


@pytest.mark.parametrize(
    ("x", "text"),
    [
        (18.2982, "18.3"),
        (0.966001, "0.966"),
        (0.5, "0.5"),
        (0, "0"),
        (7918, "7,918"),
        (7918.4, "7,918"),
        (1e-4, "0.0001"),
        (0.00012345, "0.0001234"),
        (999999.5, "1,000,000"),
        (1e6, "1,000,000"),
        (1234567.8, "1,234,568"),
        (1.5e-5, "1.5e-05"),
        (2e15, "2e+15"),
        (0.99999, "1"),
        (nan, "-"),
        (None, "-"),
    ],
)
def test_numbers_by_themselves(x, text):
    assert figure(x) == text


@pytest.mark.parametrize("power", range(-4, 7))
@pytest.mark.parametrize("factor", [1, 1.2345, 9.9999])
def test_no_exponents(power, factor):
    x = factor * 10.0**power
    assert "e" not in figure(x) + figure(-x, 3) + fixed(x, decimals([x / 9]))
    assert float(figure(x).replace(",", "")) == pytest.approx(x, rel=5e-4)


@pytest.mark.parametrize(
    ("values", "texts"),
    [
        ([1.0, 20.0, 3000.0], ["1", "20", "3,000"]),
        ([0.5, 0.25, nan], ["0.50", "0.25", "-"]),
        ([0.12345, 12.3456, None], ["0.12", "12.35", "-"]),
        ([0.5, inf], ["0.5", "inf"]),
        ([1e-7, 2e-7], ["1e-07", "2e-07"]),
        ([0.0, 0.0], ["0", "0"]),
        ([], []),
    ],
)
def test_a_column_has_one_format(values, texts):
    assert column(values) == texts


def test_effective_rounds_are_whole_unless_few_count():
    assert counts([5709.3, 120.6, nan]) == ["5,709", "121", "-"]
    assert counts([5.26, 1200.0]) == ["5.3", "1,200.0"]
    assert counts([5, 1200]) == ["5", "1,200"]


def test_shares_are_percents_that_never_seem_zero():
    assert [share(x) for x in (0.4234, 0.0, 1e-5, 1, nan)] == [
        "42.3%",
        "0.0%",
        "<0.1%",
        "100.0%",
        "-",
    ]
    assert share(0.4234, 0) == "42%"
    assert share(0.001, 0) == "<1%"


def test_levels_and_p_values():
    assert [level_text(x) for x in (0.95, 0.999, 0.5)] == ["95%", "99.9%", "50%"]
    assert level_text(1 - 0.05 / 3, 5) == "98.333%"
    assert [p_text(p) for p in (0.0004, 0.0123, 1.0, nan)] == [
        "<0.001",
        "0.012",
        "1.000",
        "-",
    ]


def test_limits_have_the_decimals_of_an_error():
    places = places_of_interval(0.47681, 0.55513)  # about four errors of 0.02
    assert span(0.47681, 0.55513, places) == "0.477 to 0.555"
    assert span(-0.5, 0.25, 1, "+", "%") == "-0.5% to +0.2%"


def test_a_repr_says_nan():
    assert called(nan, 3) == "nan"
    assert called(0.12345, 3) == "0.123"


def test_no_error_looks_like_zero():
    assert error_text(0.0002, 3) == "<0.001"
    assert error_text(0.02, 2, "%") == "0.02%"
    assert error_text(0.002, 2, "%") == "<0.01%"
    assert error_text(0.0, 3) == "0.000"
    assert error_text(nan, 3) == error_text(None, 3) == "-"
