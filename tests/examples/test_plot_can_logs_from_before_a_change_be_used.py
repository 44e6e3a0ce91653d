# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Can logs from before a change be used? The script can be proved wrong."""

from types import SimpleNamespace

from tests.examples._assertions import every_assertion_can_fail
from tests.examples._constants import says


def nothing_found(logs):
    return SimpleNamespace(findings=())


test_every_assertion_can_fail = every_assertion_can_fail(
    "3_families/plot_can_logs_from_before_a_change_be_used.py",
    {
        "parts always agree": {"skope_ope.evaluate": says(value=0.0)},
        "parts never agree": {
            "skope_ope.evaluate": says(value=0.0, step=1.0),
            "skope_ope.audit": nothing_found,
        },
    },
    args=["--n-logs", "25"],
)
