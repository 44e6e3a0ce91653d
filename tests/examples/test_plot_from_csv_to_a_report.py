# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""The way from csv to a report is seen to go wrong where the package is broken."""

from itertools import cycle
from types import SimpleNamespace

import pytest

from skope_ope import ConstantPolicy
from tests.examples._assertions import every_assertion_can_fail

pytest.importorskip("pandas")


class FixedRule(ConstantPolicy):
    """Learns nothing, quickly."""

    def __init__(self, *args):
        super().__init__("No E-Mail")


def broken(decisions, text, gain=0.0):
    """Return reports that decide as told in turn, and write pages with a text."""
    decisions = cycle(decisions)

    def report(policies, logs, path, **kwargs):
        path.write_text(text)
        decision = next(decisions)
        return SimpleNamespace(
            decision=decision,
            choice="learned" if decision == "deploy" else None,
            headline=decision,
            sentence=decision,
            alarms=[SimpleNamespace(severity="error", text="")],
            values="",
            path=path,
            comparison=SimpleNamespace(
                differences={
                    None: SimpleNamespace(value=gain),
                    "learned": SimpleNamespace(value=gain),
                },
                plot=lambda: None,
            ),
        )

    return {"skope_ope.report": report, "skope_ope.RewardModelPolicy": FixedRule}


test_every_assertion_can_fail = every_assertion_can_fail(
    "1_first_steps/plot_from_csv_to_a_report.py",
    {
        "everything is deployed": broken(["deploy"], "<script>http"),
        "nothing is deployed": broken(["keep"], "http"),
    },
)
