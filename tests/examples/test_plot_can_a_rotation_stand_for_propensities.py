# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
from types import SimpleNamespace

import numpy as np

from tests.examples._assertions import every_assertion_can_fail


def constant(self, policy):
    """A value, and an interval that holds the truth only by luck."""
    return SimpleNamespace(
        value=0.8,
        standard_error=0.1,
        confidence_interval=lambda: np.array([0.7, 0.75]),
        deviation_bound=lambda *args, **options: 0.0,
    )


test_every_assertion_can_fail = every_assertion_can_fail(
    "3_families/plot_can_a_rotation_stand_for_propensities.py",
    {
        "constant values": {
            "skope_ope.ExplorationScavenging.fit": lambda self, logs: self,
            "skope_ope.ExplorationScavenging.evaluate": constant,
        },
    },
    args=["--n-rotations", "12"],
)
