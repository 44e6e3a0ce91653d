# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""The example on users sees errors that are wrong where groups are given."""

from collections import defaultdict

from tests.examples._assertions import every_assertion_can_fail
from tests.examples._values import Stuck


def worse_with_groups(policies, logs, evaluators):
    """Intervals cover all but where users are known."""
    limits = (-9, 9) if logs.group is None else (8, 9)
    return defaultdict(lambda: Stuck(student=limits))


test_every_assertion_can_fail = every_assertion_can_fail(
    "1_first_steps/plot_do_intervals_know_about_users.py",
    {"wrong with groups": {"skope_ope.evaluate": worse_with_groups}},
    args=["--repetitions", "15", "--n-jobs", "1"],
)
