# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""The example on clicks by slot sees evaluators that all say the same."""

from tests.examples._assertions import every_assertion_can_fail
from tests.examples._values import evaluates_to

test_every_assertion_can_fail = every_assertion_can_fail(
    "3_families/plot_is_the_click_on_each_slot_worth_logging.py",
    {"all alike": evaluates_to(4)},
)
