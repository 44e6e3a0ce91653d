# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""The example on default intervals sees limits that are wrong, and too wide."""

from tests.examples._assertions import every_assertion_can_fail
from tests.examples._values import evaluates_to

test_every_assertion_can_fail = every_assertion_can_fail(
    "1_first_steps/plot_do_the_default_intervals_hold.py",
    {
        "beyond the range": evaluates_to(auto=(5, 6), student=(-99, 99)),
        "far too wide": evaluates_to(auto=(0, 1), student=(0, 1e-9)),
    },
    args=["--repetitions", "4", "--n-jobs", "1"],
)
