# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Ten lines: their assertions fail where all evaluators say the same."""

from collections import defaultdict

from tests.examples._assertions import every_assertion_can_fail


class One:
    """A value of 1 without a mark, whose difference from others is -1, with doubt."""

    leaves_bias_out = False

    def __init__(self, value=1.0, standard_error=0.1):
        self.value, self.standard_error = value, standard_error

    def __sub__(self, other):
        return One(-1.0, 1.0)

    def confidence_interval(self):
        return self.value, self.value


class AllTheSame(defaultdict):
    recommended = "IPS"

    def plot(self, truth):
        pass


test_every_assertion_can_fail = every_assertion_can_fail(
    "1_first_steps/plot_first_estimate_in_ten_lines.py",
    {"every value is 1": {"skope_ope.evaluate": lambda *_, **__: AllTheSame(One)}},
)
