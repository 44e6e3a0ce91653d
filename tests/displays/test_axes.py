# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""What all displays do: compute without matplotlib, draw where they are told."""

import builtins
import pickle
from itertools import pairwise

import numpy as np
import pytest

from skope_ope import (
    IPS,
    SNIPS,
    BanditLogs,
    ConfidenceSequence,
    DRns,
    RejectionSampling,
    UniformPolicy,
    compare_policies,
    displays,
    evaluate,
)
from skope_ope.displays import (
    ClippingCurveDisplay,
    ConfidenceSequenceDisplay,
    ConvergenceDisplay,
    HistoryDisplay,
    PolicyComparisonDisplay,
    PolicyValueDisplay,
    QuantileCurveDisplay,
    SensitivityDisplay,
    SupportDisplay,
    WeightsDisplay,
)

pytestmark = pytest.mark.filterwarnings("ignore::skope_ope.exceptions.OPEWarning")
NAME = "always the most popular offer of the last weeks, $5 and more"


def logs_of_two_actions():
    rows = [0, 1, 1, 0, 1, 0], [1, 0, 1, 0, 1, 1], [0.5, 0.25, 0.25, 0.75, 0.5, 0.5]
    return BanditLogs(np.zeros((6, 1)), *rows)


def made(evaluator, **given):
    """Return a maker: of an evaluator class, on logs, with a policy."""
    return lambda make: (
        lambda logs: make.from_evaluator(evaluator.fit(logs), UniformPolicy(), **given)
    )


MAKERS = {
    PolicyValueDisplay: made(IPS()),
    WeightsDisplay: made(IPS(cmax=1.5)),
    SupportDisplay: made(IPS()),
    ClippingCurveDisplay: made(IPS(cmax=1.5)),
    SensitivityDisplay: made(SNIPS(), baseline=0.4),
    ConvergenceDisplay: made(SNIPS()),
    ConfidenceSequenceDisplay: lambda make: (
        lambda logs: make.from_sequence(
            ConfidenceSequence(baseline="logger", every=2).update(logs, UniformPolicy())
        )
    ),
    HistoryDisplay: made(RejectionSampling(random_state=0)),
    QuantileCurveDisplay: made(DRns(reward_model=0.5, random_state=0), q_range=[0.1]),
    PolicyComparisonDisplay: lambda make: (
        lambda logs: make.from_evaluator(
            SNIPS().fit(logs), {NAME: UniformPolicy(), "other": np.full((6, 2), 0.5)}
        )
    ),
}


@pytest.fixture(params=MAKERS, ids=lambda make: make.__name__)
def display(request):
    return MAKERS[request.param](request.param)(logs_of_two_actions())


def own_axes(display):
    """Return as many axes of a user's figure as a display draws into by default."""
    import matplotlib.pyplot as plt

    return plt.subplots(len(display.plot().figure_.axes), squeeze=False)[1].ravel()


def test_every_display_is_looked_at():
    assert {make.__name__ for make in MAKERS} == set(displays.__all__)


@pytest.fixture
def no_matplotlib(monkeypatch):
    original = builtins.__import__

    def refusing(name, *args, **kwargs):
        if name.split(".")[0] == "matplotlib":
            raise ImportError(f"No module named {name!r}")
        return original(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", refusing)


def test_plot_without_matplotlib_names_the_extra(no_matplotlib, display):
    message = rf"{type(display).__name__}\.plot needs .* 'skope-ope\[plot\]'"
    with pytest.raises(ImportError, match=message):
        display.plot()


def test_data_are_computed_without_matplotlib(no_matplotlib):
    for make, made_by in MAKERS.items():
        made_by(make)(logs_of_two_actions())
    table = evaluate(UniformPolicy(), logs_of_two_actions(), evaluators="IPS")
    with pytest.raises(ImportError, match="PolicyValueDisplay"):
        table.plot()


@pytest.mark.few_cases(4)
def test_plot_into_own_axes(pyplot, display):
    axes = own_axes(display)
    figures = pyplot.get_fignums()
    style = pyplot.rcParams.copy()
    ax = axes if len(axes) > 1 else axes[0]
    assert display.plot(ax) is display
    assert display.ax_ is axes[0]
    assert display.figure_ is axes[0].figure
    assert all(one.has_data() for one in axes)
    assert pyplot.get_fignums() == figures
    assert pyplot.rcParams == style
    assert axes[0].spines["top"].get_visible()  # the user's style


def shown_texts(figure):
    """Yield the texts that are drawn, without ticks beyond the limits."""
    from matplotlib.text import Text

    beyond = set()
    for ax in figure.axes:
        for axis in (ax.xaxis, ax.yaxis):
            low, high = sorted(axis.get_view_interval())
            for tick in axis.get_major_ticks():
                if not low <= tick.get_loc() <= high:
                    beyond |= {tick.label1, tick.label2}
    for text in figure.findobj(Text):
        if text.get_visible() and text.get_text().strip() and text not in beyond:
            yield text


@pytest.mark.few_cases(4)
def test_a_new_figure_is_legible(pyplot, display):
    """Labels are there, in the figure, not small; legends cover no data."""
    style = pyplot.rcParams.copy()
    assert display.plot() is display
    assert pyplot.rcParams == style
    figure = display.figure_
    assert pyplot.get_fignums() == [figure.number]
    figure.canvas.draw()
    for text in shown_texts(figure):
        box = text.get_window_extent()
        assert box.x0 > -1 and box.x1 < figure.bbox.width + 1, text
        assert box.y0 > -1 and box.y1 < figure.bbox.height + 1, text
        assert text.get_fontsize() >= 8, text
    legends = [ax.get_legend() for ax in figure.axes if ax.get_legend() is not None]
    shown = set(shown_texts(figure))
    for ax in figure.axes:
        assert ax.get_window_extent().width > 0.2 * figure.bbox.width
        for labels in (ax.get_xticklabels(), ax.get_yticklabels()):
            boxes = [label.get_window_extent() for label in labels if label in shown]
            assert not any(a.overlaps(b) for a, b in pairwise(boxes))
        for legend in legends:
            assert not legend.get_window_extent().overlaps(ax.get_window_extent())
    assert any(ax.get_xlabel() for ax in figure.axes)
    first = figure.axes[0]
    assert first.get_ylabel() or any(t.get_text() for t in first.get_yticklabels())


@pytest.mark.few_cases(4)
def test_plotting_twice_draws_the_same(pyplot, display):
    first = display.plot().ax_
    second = display.plot().ax_
    assert first is not second
    assert first.get_xlim() == second.get_xlim()
    assert first.get_ylim() == second.get_ylim()


@pytest.mark.thorough
def test_names_of_rows_are_drawn_letter_by_letter():
    """A pair of dollars is no formula, and a control is told."""
    pytest.importorskip("matplotlib").use("Agg")
    name = "$5 \\frac$ \x1b[31m"
    policies = {name: UniformPolicy(), "other": np.full((6, 2), 0.5)}
    logs = logs_of_two_actions()
    table = evaluate(policies, logs, evaluators=["IPS", "SNIPS"])
    comparison = compare_policies(policies, logs, evaluator=IPS(), baseline=name)
    for display in (
        table.plot(),
        PolicyValueDisplay.from_values({name: table[name, "IPS"]}).plot(),
        comparison.plot(),
    ):
        display.figure_.canvas.draw()
        axes = display.ax_
        legend = axes.get_legend()
        texts = [*axes.get_yticklabels(), *(legend.get_texts() if legend else [])]
        drawn = [text.get_text() for text in texts]
        assert any(text.startswith(r"\$5 \frac\$ \x1b[31m") for text in drawn)


@pytest.mark.parametrize("starts", [True, False])
def test_the_first_figure_leaves_interactive_mode_as_the_backend_sets_it(
    pyplot, monkeypatch, starts
):
    """The backend of a notebook switches it on when the first figure starts it."""
    subplots = pyplot.subplots

    def first(*args, **kwargs):
        (pyplot.ion if starts else pyplot.ioff)()
        return subplots(*args, **kwargs)

    display = MAKERS[PolicyValueDisplay](PolicyValueDisplay)(logs_of_two_actions())
    was = pyplot.isinteractive()
    monkeypatch.setattr(pyplot, "subplots", first)
    (pyplot.ioff if starts else pyplot.ion)()
    try:
        for _ in range(2):
            display.plot()
            assert pyplot.isinteractive() == starts
    finally:
        (pyplot.ion if was else pyplot.ioff)()


# How names, numbers and series are drawn


def sequences(names, **given):
    """Curves of those names, drawn."""
    rows = {"n_rounds": [1, 10], "low": [0.1] * 2, "high": [0.3] * 2}
    rows["estimate"] = [0.2] * 2
    return ConfidenceSequenceDisplay.from_values(dict.fromkeys(names, rows), **given)


def legend_of(display):
    texts = display.ax_.get_legend().get_texts()
    return [text.get_text().replace("\n", " ") for text in texts]


@pytest.mark.few_cases(3)
@pytest.mark.parametrize(
    "names, texts",
    [
        (["IPS", "SNIPS"], ["IPS", "SNIPS"]),
        ([("new", "IPS"), ("new", "SNIPS")], ["IPS", "SNIPS"]),
        ([("new", "IPS"), ("old", "IPS")], ["new", "old"]),
        ([("new", "IPS"), ("old", "SNIPS")], ["new, IPS", "old, SNIPS"]),
        ([3, "x"], ["3", "x"]),
        (["$5 \\frac$", "red \x1b[31m"], ["\\$5 \\frac\\$", "red \\x1b[31m"]),
        (["_private", "two words"], [" _private", "two words"]),  # or it is left out
    ],
)
def test_names_are_drawn_letter_by_letter_without_what_all_share(pyplot, names, texts):
    assert legend_of(sequences(names).plot()) == texts


def test_long_names_are_broken_where_words_end(pyplot):
    names = ["temperature_of_the_softmax_of_the_policy", "x" * 500 + " the end", ""]
    legend = sequences(names).plot().ax_.get_legend().get_texts()
    of_words, long = (text.get_text().split("\n") for text in legend[:2])
    assert len(of_words) > 1 and all(line.endswith("_") for line in of_words[:-1])
    assert len(long) <= 3 and max(map(len, long)) <= max(map(len, of_words)) + 4
    assert long[-1].endswith("the end")  # where names often differ


def test_series_are_told_apart_twice(pyplot):
    """By colour and by shape, and not by the colours that mean something."""
    display = sequences(range(30), baseline=0.25).plot(truth=0.2)
    found = [(line.get_color(), line.get_marker()) for line in display.lines_]
    assert len(set(found)) == 30
    assert len({marker for _, marker in found[:5]}) == 5
    others = [line for line in display.ax_.lines if line not in display.lines_]
    meant = {line.get_color() for line in others if line.get_label()[0] != "_"}
    assert meant and not meant & {color for color, _ in found}


def tick_texts(axis):
    axis.figure.canvas.draw()
    low, high = axis.get_view_interval()
    ticks = zip(axis.get_majorticklocs(), axis.get_ticklabels(), strict=True)
    return [text.get_text() for at, text in ticks if low <= at <= high]


@pytest.mark.few_cases(2)
@pytest.mark.parametrize(
    "kind, ticks, texts",
    [
        ("value", [0.61, 0.62, 0.63], ["0.61", "0.62", "0.63"]),
        ("value", [1e-5, 2e-5], ["0.00001", "0.00002"]),
        ("rounds", [0, 2e6, 4e6], ["0", "2,000,000", "4,000,000"]),
        ("gain", [-0.1, 0, 0.1], ["\N{MINUS SIGN}0.1", "0.0", "+0.1"]),
        ("share", [0, 0.025, 0.05], ["0.0%", "2.5%", "5.0%"]),
    ],
)
def test_ticks_are_written_in_full(pyplot, kind, ticks, texts):
    if kind == "share":
        axis = SupportDisplay.from_values([0.5, 0.5], [0.5, 0.5]).plot().ax_.xaxis
    else:
        ax = sequences(["a"], gain=kind == "gain").plot().ax_
        axis = ax.xaxis if kind == "rounds" else ax.yaxis
    axis.set_ticks(ticks)
    assert tick_texts(axis) == texts


def test_ticks_of_logarithmic_axes(pyplot):
    w = np.geomspace(0.5, 20, 3000)
    ax = WeightsDisplay.from_values(w).plot(panels="tail").ax_
    # The limits lie beyond the ticks, which older matplotlib rounds down.
    ax.set(xlim=(0.4, 30), ylim=(9e-5, 1.1))
    assert tick_texts(ax.xaxis) == ["0.5", "1", "2", "5", "10", "20"]
    texts = tick_texts(ax.yaxis)
    assert texts[0] == "0.01%" and texts[-1] == "100%" and "10%" in texts


@pytest.mark.few_cases
@pytest.mark.parametrize("width", [2.5, 6.0])
@pytest.mark.parametrize("limits", [(0, 1.9e6), (-0.12, 0.36), (0.613, 0.6901)])
def test_numbers_keep_their_distance(pyplot, width, limits):
    _, ax = pyplot.subplots(figsize=(width, 2), layout="constrained")
    sequences(["a"]).plot(ax)
    ax.get_legend().remove()
    ax.set_xlim(*limits)
    texts = tick_texts(ax.xaxis)
    assert 2 <= len(texts) <= 10
    shown = [text for text in ax.get_xticklabels() if text.get_text() in texts]
    boxes = [text.get_window_extent() for text in shown]
    assert not any(a.overlaps(b) for a, b in pairwise(boxes))


@pytest.mark.parametrize("layout", [None, "constrained"])
def test_a_legend_stands_beside_the_axes(pyplot, layout):
    figure, axes = pyplot.subplots(1, 2, layout=layout)
    for _ in range(2):  # again: nothing more is given away
        sequences(["a name of some length", "b"]).plot(axes[0])
    figure.canvas.draw()
    box = axes[0].get_legend().get_window_extent()
    for ax in axes:
        assert not box.overlaps(ax.get_window_extent())
    assert axes[0].get_window_extent().width > 0.1 * figure.bbox.width


@pytest.mark.parametrize("n_policies", [2, 5])
def test_the_legend_covers_no_data(pyplot, n_policies):
    policies = {f"policy {i}": UniformPolicy() for i in range(n_policies)}
    table = evaluate(policies, logs_of_two_actions(), evaluators=["IPS", "SNIPS"])
    figure = table.plot(truth=dict.fromkeys(policies, 0.5)).figure_
    figure.canvas.draw()
    [legend] = [ax.get_legend() for ax in figure.axes if ax.get_legend()]
    box = legend.get_window_extent()
    for ax in figure.axes:
        assert not box.overlaps(ax.get_window_extent())
        for line in ax.lines:
            assert not box.overlaps(line.get_window_extent())
    assert box.x1 <= figure.bbox.x1 + 1 and box.y1 <= figure.bbox.y1 + 1


# What a gallery prints, and what pickles hold


def test_displays_say_what_they_hold():
    counts = ["1 value", "6 weights", "2 actions", "30 values", "15 odds ratios"]
    counts += ["1 curve, 6 sizes", "1 sequence", "6 rounds", "1 value"]
    counts += ["undecided, 2 gains"]
    for (make, made_by), told in zip(MAKERS.items(), counts, strict=True):
        assert repr(made_by(make)(logs_of_two_actions())) == f"{make.__name__}({told})"
    found = WeightsDisplay.from_values(np.ones(2000))  # large counts are grouped
    assert repr(found) == "WeightsDisplay(2,000 weights)"


def test_what_was_drawn_stays_behind(pyplot):
    display = WeightsDisplay.from_values([1.0, 2.0]).plot(panels="shares")
    display.figure_.unpicklable = lambda: None  # as many a figure holds
    back = vars(pickle.loads(pickle.dumps(display)))
    assert back and not any(name.endswith("_") for name in back)
    assert callable(display.figure_.unpicklable)
