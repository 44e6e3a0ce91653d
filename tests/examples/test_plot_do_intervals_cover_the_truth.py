# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""The example on coverage sees intervals that never cover, and that always do."""

from tests.examples._assertions import every_assertion_can_fail
from tests.examples._values import evaluates_to

test_every_assertion_can_fail = every_assertion_can_fail(
    "1_first_steps/plot_do_intervals_cover_the_truth.py",
    {
        "Student's never cover": evaluates_to(11, student=(8, 9), normal=(-9, 9)),
        "all cover": evaluates_to(11, student=(-9, 9), normal=(-9, 9)),
    },
    args=["--repetitions", "20", "--n-jobs", "1"],
)
