# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""The example on lost probabilities sees evaluators and estimates that mislead."""

import numpy as np

from tests.examples._assertions import every_assertion_can_fail
from tests.examples._values import Stuck

noise = np.random.RandomState(0)


def estimates_are_noise(logs, image):
    """Estimated propensities give any value, also with all columns."""
    return {
        "recorded": 0.75,
        "estimated": noise.normal(0.75, 0.3),
        "columns missing": noise.normal(0.75, 0.3),
    }


test_every_assertion_can_fail = every_assertion_can_fail(
    "3_families/plot_what_if_the_loggers_left_no_probabilities.py",
    {
        "noise": {"example:values_of": estimates_are_noise},
        "all alike": {"skope_ope.MultiLoggerIPS.evaluate": lambda *_: Stuck()},
    },
)
