# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""What does a log not know? The script sees decisions that no log made."""

from types import SimpleNamespace

from tests.examples._assertions import every_assertion_can_fail


class Decided(SimpleNamespace):
    """A comparison or a report that decides the same, whatever the log holds."""

    def __len__(self):
        return len(self.records)

    def to_records(self):
        return self.records


def always(decision):
    """Stand for `compare_policies` or `report`: all gains are told from zero."""

    def decide(policies, logs):
        record = {"difference_low": 1.0, "difference_high": 2.0, "warnings": ""}
        choice = next(iter(policies)) if decision == "deploy" else None
        records = [record] * len(policies)
        return Decided(decision=decision, choice=choice, records=records)

    return decide


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
