# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""What all displays do: compute without matplotlib, draw where they are told."""

import builtins
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
    return BanditLogs(
        np.zeros((6, 1)),
        [0, 1, 1, 0, 1, 0],
        [1, 0, 1, 0, 1, 1],
        [0.5, 0.25, 0.25, 0.75, 0.5, 0.5],
    )


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
    assert all(
        ax.get_ylabel() or any(label.get_text() for label in ax.get_yticklabels())
        for ax in figure.axes[:1]
    )


@pytest.mark.few_cases(4)
def test_plotting_twice_draws_the_same(pyplot, display):
    first = display.plot().ax_
    second = display.plot().ax_
    assert first is not second
    assert first.get_xlim() == second.get_xlim()
    assert first.get_ylim() == second.get_ylim()


@pytest.mark.thorough
def test_names_are_drawn_letter_by_letter():
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
