# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""The example on loggers sees scavenging that is wrong, and tests that are silent."""

from types import SimpleNamespace

from skope_ope.exceptions import ExplorationWarning
from tests.examples._assertions import every_assertion_can_fail


def scavenges(value, interval, warnings):
    """Return the replacement of `evaluate` by one that always says the same."""
    found = SimpleNamespace(
        value=value,
        standard_error=0.0,
        warnings=warnings,
        confidence_interval=lambda: interval,
    )
    return {"skope_ope.ExplorationScavenging.evaluate": lambda self, policy: found}


test_every_assertion_can_fail = every_assertion_can_fail(
    "3_families/plot_which_loggers_need_no_propensities.py",
    {
        "always wrong, and told": scavenges(0.0, (0, 0), [ExplorationWarning("", 9.0)]),
        "always covers, never told": scavenges(0.6, (0.1, 0.9), []),
    },
    args=["--repetitions", "10", "--n-rounds", "1000"],
)
