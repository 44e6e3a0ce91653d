# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""The example on watching sees sequences that always decide, and that never do."""

import numpy as np

from tests.examples._assertions import every_assertion_can_fail


def lies_at(low, high):
    """Return the replacement of the intervals by thirty that are all the same."""
    kept = np.zeros(
        30,
        [("n_rounds", int), ("time", int)]
        + [(name, float) for name in ("low", "high", "estimate")],
    )
    kept["n_rounds"] = 1000 * np.arange(1, 31)
    kept["low"], kept["high"] = low, high
    return {"skope_ope.ConfidenceSequence.intervals_": property(lambda self: kept)}


test_every_assertion_can_fail = every_assertion_can_fail(
    "3_families/plot_when_may_i_stop_watching.py",
    {
        "always above zero": lies_at(0.1, 0.2),
        "never above zero": lies_at(-1.0, 1.0),
    },
    args=["--repetitions", "40"],
)
