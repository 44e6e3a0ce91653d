# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""The landing example sees evaluators that all say the same."""

from tests.examples._assertions import every_assertion_can_fail
from tests.examples._values import evaluates_to

test_every_assertion_can_fail = every_assertion_can_fail(
    "1_first_steps/plot_shop_in_ten_lines.py",
    {"all alike": evaluates_to(4)},
)
