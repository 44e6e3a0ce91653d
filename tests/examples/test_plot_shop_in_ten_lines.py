# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""The landing example sees a rule that is kept back, and an interval that misses."""

from tests.examples._assertions import every_assertion_can_fail

test_every_assertion_can_fail = every_assertion_can_fail(
    "1_first_steps/plot_shop_in_ten_lines.py",
    {
        "the rule is kept back": {"skope_ope.reports.Report.decision": "keep"},
        "the interval misses": {"example:new": 9.0},
    },
)
