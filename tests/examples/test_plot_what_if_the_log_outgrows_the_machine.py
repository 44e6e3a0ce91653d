# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""The example on large logs sees values that are wrong, and totals that forget."""

import pytest

from tests.examples._assertions import every_assertion_can_fail

pytest.importorskip("pyarrow")
SUMMED = "skope_ope.evaluators.core._summed_value.SummedValue"

test_every_assertion_can_fail = every_assertion_can_fail(
    "3_families/plot_what_if_the_log_outgrows_the_machine.py",
    {
        "wrong values and errors": {
            f"{SUMMED}.value": property(lambda self: 0.9),
            f"{SUMMED}.standard_error": property(lambda self: 1e-3),
        },
        "a total that forgets": {
            "skope_ope.evaluators.ValueSummary.load": lambda path: 0
        },
    },
    args=["--days", "3", "--rounds", "4000"],
)
