# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""The example on methods sees intervals that never cover, and that always do."""

from tests.examples._assertions import every_assertion_can_fail
from tests.examples._values import Interval


def says(**limits):
    def confidence_interval(self, level=0.95, method="auto", **_):
        return Interval(limits.get(method, limits["other"]))

    return {"skope_ope.evaluators.PolicyValue.confidence_interval": confidence_interval}


test_every_assertion_can_fail = every_assertion_can_fail(
    "1_first_steps/plot_which_interval_to_use.py",
    {
        "none covers": says(other=(98, 99)),
        "sequences never cover": {
            "example:betting_sequence": lambda w, r, after, **_: (99 + after, after),
            "example:students": lambda z, t: (t - 1e9, t + 1e9),
        },
        "all cover, one is too wide": says(other=(-98, 98), auto=(-99999, 99999)),
    },
    args=["--repetitions", "8", "--n-jobs", "1"],
)
