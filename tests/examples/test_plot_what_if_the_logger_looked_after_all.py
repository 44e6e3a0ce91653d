# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
import warnings
from types import SimpleNamespace

from skope_ope.exceptions import ExplorationWarning
from tests.examples._assertions import every_assertion_can_fail


def constant(self, policy):
    return SimpleNamespace(value=0.5, standard_error=0.0)


def worried(self, policy):
    warnings.warn("the logger looked", ExplorationWarning, stacklevel=2)
    return constant(self, policy)


def with_values(evaluate):
    return {
        "skope_ope.ExplorationScavenging.fit": lambda self, logs: self,
        "skope_ope.ExplorationScavenging.evaluate": evaluate,
    }


test_every_assertion_can_fail = every_assertion_can_fail(
    "3_families/plot_what_if_the_logger_looked_after_all.py",
    {"constant values": with_values(constant), "always told": with_values(worried)},
    args=["--n-logs", "10"],
)
