# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Whether the logged rounds, or a group of them, say anything about a slate policy."""

from math import isnan

from skope_ope.evaluators.core._functions import ratio
from skope_ope.evaluators.core._overlap import Overlap, weight_entries
from skope_ope.evaluators.core._policy_value import PolicyValue
from skope_ope.evaluators.core._support_findings import (
    no_overlap_finding,
    no_round_finding,
    not_normalised_finding,
)
from skope_ope.evaluators.core._weight_findings import slate_weight_findings


class Estimable:
    """A function of means that exists where weights say something about the policy."""

    # Weights of slates may be negative: their sum tells neither that there is one, nor
    # may it be divided by where it is not positive.

    def __init__(self, combine, weighed):
        self.combine, self.weighed = combine, weighed

    @property
    def divisor(self):
        """Number of the mean that weights are counted by: of their sizes, if known."""
        divisor = getattr(self.combine, "divisor", None)
        return -1 if self.weighed and divisor is not None else divisor

    def __call__(self, m):
        if not self._borne(m) or not self._normalised(m):
            raise ZeroDivisionError
        if not self.weighed:
            return self.combine(m)
        value, slopes = self.combine(m[:-1])
        return value, (*slopes, 0.0)

    def _borne(self, m):
        return m[-1] > 0 if self.weighed else not isnan(m[0])

    def _normalised(self, m):
        return self.combine is not ratio or m[1] > 0

    def warning(self, name, estimate):
        """Return the warning that says why the estimate of an evaluator is NaN."""
        m = estimate.means
        if self._borne(m) and not self._normalised(m):
            total = m[1] * estimate.sums.mass
            return not_normalised_finding(name, total).warning()
        return no_round_finding(name).warning()


def of_weights(weight, expected, supported, design, by_slot=False):
    """Return diagnostics, findings and effective size that weights of slates tell."""
    n_rounds = int(design.count.sum())
    if weight is None or not n_rounds:
        return {}, [], float("nan")
    overlap = balance = Overlap(design, n_rounds)
    block = design.block(0, design.n_rounds)
    overlap.add(block, weight)
    entries = {}
    if expected is not None:  # weights that would have mean one
        balance = Overlap(design, n_rounds)
        balance.add(block, weight + 1 - expected)
        entries["expected_weight"] = 1 + overlap.mean_weight - balance.mean_weight
    entries |= weight_entries(overlap, balance)
    found = [no_overlap_finding()]
    if overlap.sum_w2:
        mean = entries.get("expected_weight", 1.0)
        found = slate_weight_findings(overlap, balance, mean, supported, by_slot)
    return entries, found, overlap.effective_sample_size


class SlateValue(PolicyValue):
    """Value of a slate policy, whose groups say why they have none."""

    def __init__(self, *args, about_weights, **kwargs):
        super().__init__(*args, **kwargs)
        self._about_weights = about_weights  # what they tell of a design

    def _overlap_without(self, design):
        entries, _, size = self._about_weights(design)
        return size, entries | {"n_rounds": int(design.count.sum())}

    def _checked_group(self, estimate):
        if not isnan(estimate.value):
            return estimate, []
        return estimate, [estimate.combine.warning(self.estimator, estimate)]
