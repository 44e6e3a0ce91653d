# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""The report on five logs: its assertions fail where all logs look alike."""

from collections import defaultdict
from types import SimpleNamespace
from unittest.mock import MagicMock

from tests.examples._assertions import every_assertion_can_fail

ALIKE = SimpleNamespace(
    value=1.0,
    standard_error=0.1,
    warnings=[SimpleNamespace(value=0.0)],
    diagnostics=defaultdict(lambda: 3.0),
    confidence_interval=lambda method="auto": (1.0, 1.0),
)

test_every_assertion_can_fail = every_assertion_can_fail(
    "1_first_steps/plot_reading_a_diagnostics_report.py",
    {
        "all logs look alike": {
            "skope_ope.IPS.evaluate": lambda self, policy: ALIKE,
            "skope_ope.DoublyRobust.evaluate": lambda self, policy: ALIKE,
            "skope_ope.displays.PolicyValueDisplay": MagicMock(),
            "skope_ope.displays.ClippingCurveDisplay": MagicMock(),
            "skope_ope.displays.WeightsDisplay.share_of_largest": lambda self, share: (
                share
            ),
        }
    },
)
