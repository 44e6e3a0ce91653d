# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""The example on few clicks sees intervals that never cover, and that always do."""

from tests.examples._assertions import every_assertion_can_fail
from tests.examples._values import Stuck


def says(*interval):
    return {"skope_ope.SNIPS.evaluate": lambda self, policy: Stuck(other=interval)}


test_every_assertion_can_fail = every_assertion_can_fail(
    "1_first_steps/plot_which_interval_for_few_clicks.py",
    {"none covers": says(2, 2), "all cover": says(-9, 9)},
    args=["--repetitions", "20", "--n-jobs", "1"],
)
