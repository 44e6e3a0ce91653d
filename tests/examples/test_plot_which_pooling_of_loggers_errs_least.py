# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Which way to pool several loggers errs least? The script can be proved wrong."""

from tests.examples._assertions import every_assertion_can_fail
from tests.examples._constants import says

test_every_assertion_can_fail = every_assertion_can_fail(
    "3_families/plot_which_pooling_of_loggers_errs_least.py",
    {"a constant": {"skope_ope.evaluate": says(value=0.0)}},
    args=["--n-logs", "12"],
)
