# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""How often is "deploy" wrong? The script sees decisions that no log made."""

from types import SimpleNamespace

from tests.examples._assertions import every_assertion_can_fail


def always(decision, answer):
    """Stand for `compare_policies`: the same answer, whatever the logs say."""
    record = {"answer": answer, "rounds_needed": 0}
    record |= {"difference_low": 1.0, "difference_high": 2.0}
    found = SimpleNamespace(
        decision=decision, differences={}, to_records=lambda: [record]
    )
    return lambda *_, **__: found


test_every_assertion_can_fail = every_assertion_can_fail(
    "2_tuning/plot_how_often_is_deploy_wrong.py",
    {
        "always": {"skope_ope.compare_policies": always("deploy", "better")},
        "never": {"skope_ope.compare_policies": always("undecided", "cannot tell")},
    },
    args=["--repetitions", "6"],
)
