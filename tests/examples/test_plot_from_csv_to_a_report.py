# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""The way from csv to a report is seen to go wrong where the package is broken."""

from types import SimpleNamespace

import pytest

from skope_ope import ConstantPolicy
from tests.examples._assertions import every_assertion_can_fail

pytest.importorskip("pandas")


class FixedRule(ConstantPolicy):
    """Learns nothing, quickly."""

    def __init__(self, *args):
        super().__init__("No E-Mail")


def broken(decision, page, gain=0.0):
    """Return reports that all decide the same, with one page."""
    gains = dict.fromkeys([None, "learned"], SimpleNamespace(value=gain))

    def report(policies, logs, path=None, **kwargs):
        if path is not None:
            path.write_text(page)
        return SimpleNamespace(
            decision=decision,
            choice="learned" if decision == "deploy" else None,
            headline=decision,
            sentence=decision,
            alarms=[SimpleNamespace(severity="error", text="")],
            values="",
            path=path,
            to_html=lambda: page,
            comparison=SimpleNamespace(differences=gains, plot=lambda: None),
        )

    return {"skope_ope.report": report, "skope_ope.RewardModelPolicy": FixedRule}


test_every_assertion_can_fail = every_assertion_can_fail(
    "1_first_steps/plot_from_csv_to_a_report.py",
    {
        "everything is deployed": broken("deploy", "<script>"),
        "nothing is deployed": broken("keep", "http"),
    },
)
