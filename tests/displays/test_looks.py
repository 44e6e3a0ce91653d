# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Names, numbers and legends as displays draw them."""

from itertools import pairwise

import pytest

from skope_ope.displays._looks import (
    BASELINE,
    DOUBT,
    MARKERS,
    SERIES,
    TRUTH,
    as_drawn,
    legend_beside,
    log_numbers_on,
    numbers_on,
    series_style,
)


@pytest.mark.parametrize(
    "name, drawn",
    [
        ("$5 \\frac$", "\\$5 \\frac\\$"),
        ("red \x1b[31m", "red \\x1b[31m"),
        ("_private", " _private"),  # matplotlib leaves such labels out
        (3, "3"),
    ],
)
def test_names_are_drawn_letter_by_letter(name, drawn):
    assert as_drawn(name) == drawn


def test_long_names_are_broken_where_words_end():
    text = as_drawn("temperature_of_the_softmax", 12)
    assert text.split("\n") == ["temperature_", "of_the_", "softmax"]
    lines = as_drawn("x" * 500 + " the end", 22).split("\n")
    assert len(lines) <= 3 and max(map(len, lines)) <= 22
    assert lines[-1].endswith("the end")  # where names often differ
    assert as_drawn("two words", 22) == "two words"
    assert as_drawn("", 22) == ""


def test_series_are_told_apart_twice():
    """By colour and by shape, and not by the colours that mean something."""
    found = [tuple(series_style(i).values())[:2] for i in range(30)]
    assert len(set(found)) == 30
    assert len({marker for _, marker in found[:5]}) == 5 < len(MARKERS)
    assert not {BASELINE, DOUBT, TRUTH} & set(SERIES)


def tick_texts(axis):
    axis.figure.canvas.draw()
    low, high = axis.get_view_interval()
    ticks = zip(axis.get_majorticklocs(), axis.get_ticklabels(), strict=True)
    return [text.get_text() for at, text in ticks if low <= at <= high]


MINUS = "\N{MINUS SIGN}"


@pytest.mark.few_cases(2)
@pytest.mark.parametrize(
    "ticks, options, texts",
    [
        ([0.61, 0.62, 0.63], {}, ["0.61", "0.62", "0.63"]),
        ([0, 2e6, 4e6], {}, ["0", "2,000,000", "4,000,000"]),
        ([-0.1, 0, 0.1], {"signed": True}, [f"{MINUS}0.1", "0.0", "+0.1"]),
        ([0, 0.025, 0.05], {"share": True}, ["0.0%", "2.5%", "5.0%"]),
        ([1e-5, 2e-5], {}, ["0.00001", "0.00002"]),
    ],
)
def test_ticks_are_written_in_full(pyplot, ticks, options, texts):
    _, ax = pyplot.subplots()
    ax.set_xticks(ticks)
    numbers_on(ax.xaxis, **options)
    assert tick_texts(ax.xaxis) == texts


def test_ticks_of_logarithmic_axes(pyplot):
    _, ax = pyplot.subplots()
    # The limits lie beyond the ticks, which older matplotlib rounds down.
    ax.set(xscale="log", yscale="log", xlim=(0.4, 30), ylim=(9e-5, 1.1))
    log_numbers_on(ax.xaxis)
    log_numbers_on(ax.yaxis, share=True)
    assert tick_texts(ax.xaxis) == ["0.5", "1", "2", "5", "10", "20"]
    assert tick_texts(ax.yaxis) == ["0.01%", "0.1%", "1%", "10%", "100%"]


@pytest.mark.parametrize("layout", [None, "constrained"])
def test_a_legend_stands_beside_the_axes(pyplot, layout):
    figure, axes = pyplot.subplots(1, 2, layout=layout)
    axes[0].plot([0, 1], label="a name of some length")
    legend = legend_beside(axes[0])
    legend = legend_beside(axes[0])  # again: nothing more is given away
    figure.canvas.draw()
    box = legend.get_window_extent()
    for ax in axes:
        assert not box.overlaps(ax.get_window_extent())
    assert axes[0].get_window_extent().width > 0.1 * figure.bbox.width
    assert legend_beside(axes[1]) is None


def test_a_legend_of_several_axes_names_things_once(pyplot):
    _, axes = pyplot.subplots(1, 2, layout="constrained")
    for ax in axes:
        ax.plot([0, 1], label="both")
    axes[0].plot([0, 1], label="one")
    legend = legend_beside(axes[1], of=axes)
    assert [text.get_text() for text in legend.get_texts()] == ["both", "one"]


@pytest.mark.few_cases
@pytest.mark.parametrize("width", [2.5, 6.0])
@pytest.mark.parametrize("limits", [(0, 1.9e6), (-0.12, 0.36), (0.613, 0.6901)])
def test_numbers_keep_their_distance(pyplot, width, limits):
    _, ax = pyplot.subplots(figsize=(width, 2), layout="constrained")
    ax.set_xlim(*limits)
    numbers_on(ax.xaxis, signed=True)
    texts = tick_texts(ax.xaxis)
    assert 2 <= len(texts) <= 10
    shown = [text for text in ax.get_xticklabels() if text.get_text() in texts]
    boxes = [text.get_window_extent() for text in shown]
    assert not any(a.overlaps(b) for a, b in pairwise(boxes))
