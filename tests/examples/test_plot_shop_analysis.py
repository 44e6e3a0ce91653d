# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""The whole analysis of a shop is seen to go wrong where the package is broken."""

import pytest

from tests.examples._assertions import every_assertion_can_fail

pytest.importorskip("pandas")

test_every_assertion_can_fail = every_assertion_can_fail(
    "1_first_steps/plot_shop_analysis.py",
    {
        "faults are seen, intervals hold nothing, the worst is kept": {
            "skope_ope.audit.Audit.ok": False,
            "skope_ope.selection.PolicyComparison.level_of_each": 0.001,
            "skope_ope.selection.PolicyComparison.decision": "keep",
            "skope_ope.selection.PolicyComparison.choice": "coupon for all",
        },
    },
)
