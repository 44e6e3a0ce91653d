# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause

import pytest

from skope_ope import IPS, UniformPolicy, compare_policies, displays, evaluate
from skope_ope.datasets import make_bandit_logs
from skope_ope.displays._looks import Shown, counted

LOGS, POLICY, _ = make_bandit_logs(600, random_state=0, return_truth=True)


def test_numbers_of_things():
    assert [counted(n, "value") for n in (0, 1, 2000)] == [
        "0 values",
        "1 value",
        "2,000 values",
    ]


@pytest.mark.parametrize("name", displays.__all__)
def test_all_displays_say_what_they_hold(name):
    assert issubclass(getattr(displays, name), Shown)


def test_what_a_gallery_prints():
    policies = {"new": POLICY, "uniform": UniformPolicy()}
    table = evaluate(policies, LOGS, evaluators=["IPS", "SNIPS"])
    found = [
        displays.PolicyValueDisplay.from_values(table),
        displays.WeightsDisplay.from_evaluator(IPS().fit(LOGS), POLICY),
        displays.SupportDisplay.from_evaluator(IPS().fit(LOGS), POLICY),
        displays.SensitivityDisplay.from_values(table["new", "SNIPS"], gamma=[1, 2]),
        displays.PolicyComparisonDisplay.from_values(compare_policies(policies, LOGS)),
    ]
    assert list(map(repr, found)) == [
        "PolicyValueDisplay(4 values)",
        "WeightsDisplay(600 weights)",
        "SupportDisplay(3 actions)",
        "SensitivityDisplay(2 odds ratios)",
        "PolicyComparisonDisplay(deploy, 2 gains)",
    ]


@pytest.mark.parametrize("n_policies", [2, 5])
def test_the_legend_covers_no_data(pyplot, n_policies):
    policies = {f"policy {i}": UniformPolicy() for i in range(n_policies)}
    table = evaluate(policies, LOGS, evaluators=["IPS", "SNIPS", "DoublyRobust"])
    display = table.plot(truth=dict.fromkeys(policies, 0.5))
    assert repr(display) == f"PolicyValueDisplay({3 * n_policies} values)"
    figure = display.figure_
    figure.canvas.draw()
    [legend] = [ax.get_legend() for ax in figure.axes if ax.get_legend()]
    box = legend.get_window_extent()
    for ax in figure.axes:
        assert not box.overlaps(ax.get_window_extent())
        for line in ax.lines:
            assert not box.overlaps(line.get_window_extent())
    assert box.x1 <= figure.bbox.x1 + 1 and box.y1 <= figure.bbox.y1 + 1
