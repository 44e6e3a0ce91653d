# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""The example on the model alone sees evaluators that all say the same."""

from tests.examples._assertions import every_assertion_can_fail
from tests.examples._values import evaluates_to

test_every_assertion_can_fail = every_assertion_can_fail(
    "3_families/plot_when_is_the_model_alone_better.py",
    {"all alike": evaluates_to(4)},
)
