# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""What does a log not know? The script sees decisions that no log made."""

from tests.examples._assertions import every_assertion_can_fail
from tests.examples._values import Stuck


class Gain(Stuck):
    """A gain that is told from zero."""

    warnings = ()


class Decided(dict):
    """A comparison or a report that decides the same, whatever the log holds."""

    level_of_each = 0.95

    def __init__(self, decision, policies):
        super().__init__(dict.fromkeys(policies, Gain(other=(1.0, 2.0))))
        self.decision, self.differences = decision, self
        self.choice = next(iter(policies)) if decision == "deploy" else None


def always(decision):
    """Stand for `compare_policies` or `report`."""
    return lambda policies, logs: Decided(decision, policies)


test_every_assertion_can_fail = every_assertion_can_fail(
    "1_first_steps/plot_what_does_a_log_not_know.py",
    {
        "only a report deploys": {
            "skope_ope.compare_policies": always("undecided"),
            "skope_ope.report": always("deploy"),
        },
        "always": {"skope_ope.compare_policies": always("deploy")},
    },
    args=["--repetitions", "4", "--n-rounds", "3000"],
)
