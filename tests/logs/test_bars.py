# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause

import re
from math import inf, nan

import pytest

from skope_ope.logs._html import Scale, axis, interval_bar, share_bar


def places(made, name="x1"):
    return [float(x) for x in re.findall(rf'{name}="([\d.]+)%"', made)]


@pytest.mark.parametrize(
    "numbers", [[0.013, 0.0066, 0.02], [-3.0, 4.0], [5e-7], [1e6, -2e5], [], [nan, inf]]
)
def test_zero_and_all_numbers_lie_on_the_scale(numbers):
    scale = Scale(numbers)
    assert 0 in [round(tick / scale.step) for tick in scale.ticks]
    assert 2 <= len(scale.ticks) <= 7
    for x in [0, *(x for x in numbers if abs(x) < inf)]:
        assert 0 <= float(scale.place(x).strip("%")) <= 100


def test_ticks_are_round_numbers():
    assert Scale([-0.4, 0.9]).ticks == [-0.5, 0.0, 0.5, 1.0]


def test_a_bar_lies_where_its_numbers_are():
    scale = Scale([-1, 1])
    made = interval_bar(scale, 0.5, -1, 1, "new: gain 0.5", "open")
    left, right = places(made, "x1")[1], places(made, "x2")[1]
    assert (left, right) == (4, 96)
    assert places(made, "cx") == [73]
    assert 'aria-label="new: gain 0.5"' in made


def test_the_chosen_one_has_another_shape():
    made = interval_bar(Scale([1]), 0.5, 0.1, 1, "", "chosen")
    assert "<circle" not in made and "<path" in made


@pytest.mark.parametrize(("low", "high"), [(nan, nan), (-inf, inf)])
def test_no_interval_is_drawn_where_there_is_none(low, high):
    made = interval_bar(Scale([1]), 0.5, low, high, "", "open")
    assert made.count("<line") == 1  # the line of zero
    assert "nan" not in made and "inf" not in made


def test_no_mark_is_drawn_without_a_value():
    assert "<circle" not in interval_bar(Scale([1]), nan, nan, nan, "", "open")


def shown(scale, text_of, room):
    made = axis(scale, text_of, room)
    return re.findall(r"<text[^>]*>([^<]*)<", made)


def test_texts_of_ticks_do_not_touch():
    scale = Scale([-0.02, 0.06])
    assert len(scale.ticks) == 5
    assert shown(scale, lambda x: f"{x:+.2f}", 40) == [
        "-0.02",
        "+0.00",
        "+0.02",
        "+0.04",
        "+0.06",
    ]
    assert shown(scale, lambda x: f"{x:+.2f}", 15) == ["+0.00", "+0.06"]


def test_ends_are_labelled_where_there_is_no_line_of_zero():
    scale = Scale([0.61, 0.69], 5, zero=False)
    texts = shown(scale, lambda x: f"{x:.2f}", 12)
    assert texts == ["0.60", "0.70"]


def test_the_axis_tells_every_tick():
    scale = Scale([-1, 1])
    made = axis(scale, lambda x: f"{x:+g}")
    assert made.count("<text") == len(scale.ticks)


@pytest.mark.parametrize(("share", "width"), [(0.25, "25.00%"), (1.5, "100.00%")])
def test_a_share_is_filled_so_far(share, width):
    assert f'width="{width}"' in share_bar(share)
