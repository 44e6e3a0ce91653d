# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Can the log of a bandit be used? The script can be proved wrong."""

from tests.examples._assertions import every_assertion_can_fail


def says(error, low, high):
    def limits(*_):
        return error, low, high, low, high

    return {"example:limits": limits, "example:mean_of": limits}


test_every_assertion_can_fail = every_assertion_can_fail(
    "3_families/plot_can_the_log_of_a_bandit_be_used.py",
    {"none covers": says(1.0, 2.0, 2.0), "all cover": says(0.0, -9.0, 9.0)},
    args=["--n-logs", "25"],
)
