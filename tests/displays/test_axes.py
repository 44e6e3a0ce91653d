# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""What all displays do: compute without matplotlib, draw where they are told."""

import builtins

import numpy as np
import pytest

from skope_ope import (
    IPS,
    BanditLogs,
    ClippingCurveDisplay,
    PolicyValueDisplay,
    UniformPolicy,
    WeightsDisplay,
    compare_policies,
    evaluate,
)


def logs_of_two_actions():
    return BanditLogs(
        np.zeros((6, 1)),
        [0, 1, 1, 0, 1, 0],
        [1, 0, 1, 0, 1, 1],
        [0.5, 0.25, 0.25, 0.75, 0.5, 0.5],
    )


MAKERS = {
    "values": lambda e: PolicyValueDisplay.from_evaluator(e, UniformPolicy()),
    "weights": lambda e: WeightsDisplay.from_evaluator(e, UniformPolicy()),
    "clipping": lambda e: ClippingCurveDisplay.from_evaluator(e, UniformPolicy()),
}


@pytest.fixture(params=MAKERS)
def display(request):
    return MAKERS[request.param](IPS().fit(logs_of_two_actions()))


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
    evaluator = IPS().fit(logs_of_two_actions())
    for make in MAKERS.values():
        make(evaluator)
    table = evaluate(UniformPolicy(), logs_of_two_actions(), evaluators="IPS")
    with pytest.raises(ImportError, match="PolicyValueDisplay"):
        table.plot()


def test_plot_into_own_axes(pyplot, display):
    figure, ax = pyplot.subplots()
    assert display.plot(ax) is display
    assert display.ax_ is ax
    assert display.figure_ is figure
    assert pyplot.get_fignums() == [figure.number]


def test_plot_makes_a_figure(pyplot, display):
    display.plot()
    assert pyplot.get_fignums() == [display.figure_.number]
    display.figure_.canvas.draw()  # nothing is left to be found wrong later


def test_plotting_twice_draws_the_same(pyplot, display):
    first = display.plot().ax_
    second = display.plot().ax_
    assert first is not second
    assert first.get_xlim() == second.get_xlim()
    assert first.get_ylim() == second.get_ylim()


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
