# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""The example on exploration sees uniform loggers and values that are far off."""

from skope_ope.datasets import make_adaptive_logs
from tests.examples._assertions import every_assertion_can_fail
from tests.examples._values import Stuck


def uniform(*args, floor_decay, **kwargs):
    """Explore always, whatever exponent is asked for."""
    return make_adaptive_logs(*args, floor_decay=0.0, **kwargs)


test_every_assertion_can_fail = every_assertion_can_fail(
    "3_families/plot_how_much_must_a_bandit_keep_exploring.py",
    {
        "far off": {"skope_ope.AdaptiveDR.evaluate": lambda *_: Stuck()},
        "uniform": {"skope_ope.datasets.make_adaptive_logs": uniform},
    },
)
