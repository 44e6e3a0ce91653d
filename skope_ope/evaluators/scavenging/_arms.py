# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Rounds in memory as samples of arms, and the value that is made of them."""

from dataclasses import dataclass, replace

import numpy as np

from skope_ope.evaluators.core._arms import Arms
from skope_ope.evaluators.core._design import Design
from skope_ope.evaluators.core._engine import offset_of
from skope_ope.evaluators.core._halves import rounds_of_halves
from skope_ope.evaluators.core._largest_deviation import Extremes
from skope_ope.evaluators.core._policy_value import PolicyValue
from skope_ope.evaluators.core._rows import Rows
from skope_ope.evaluators.core._sums import sums_of_rounds


@dataclass
class ArmRounds:
    """Rounds as samples of arms."""

    evaluator: object
    code: np.ndarray  # the arm of every round
    n_arms: int  # number of arms
    wanted: np.ndarray  # probability with which the policy wants what was logged
    reward: np.ndarray  # rewards
    design: Design  # sample weight and cluster of every round
    stratum: np.ndarray | None = None  # rounds in which arms were chosen by one rule
    # Probability of the logged action under every arm, where arms are policies
    under: np.ndarray | None = None
    # Whether the policy wants the arm of the round anywhere in its stratum; None: it
    # wants every arm
    sought: np.ndarray | None = None

    def take(self, rows):
        """Return the arms of some rounds only (an array of ints)."""
        names = ("code", "wanted", "reward", "stratum", "under", "sought")
        fields = {name: getattr(self, name) for name in names}
        taken = {k: v[rows] for k, v in fields.items() if v is not None}
        return replace(self, design=self.design.take(rows), **taken)

    def sums(self, **known):
        """Return the `Arms` of these rounds, and `known` facts of them."""
        cell, numbers = self._cells()
        design = self.design.with_strata(cell, numbers.tolist())
        moves, w = self.evaluator.shift_with, self._weights()
        # the value follows a shift of the rewards only where it is a ratio
        offset = 0.0 if moves is None else offset_of(self.reward)
        terms = np.stack([w * (self.reward - offset), w])
        sought = None
        if self.sought is not None:
            counted = self._counted(self.sought.astype(float))
            sought = np.bincount(cell, counted, len(numbers)) > 0
        return Arms(
            self.evaluator,
            sums_of_rounds(design, terms, offset, moves=moves),
            self.under is not None,
            sought,
            numbers // self.n_arms,
            self.n_arms,
            is_wanted=bool(self._counted(self.wanted).any()),
            rounds=(terms, design),
            **known,
        )

    def extremes(self, upper):
        """Return the largest weight of every cell, and the rounds of either half."""
        cell, numbers = self._cells()
        largest = np.zeros(len(numbers))
        np.maximum.at(largest, cell, (self._counted(1.0) > 0) * self._weights())
        out = Extremes(dict(zip(numbers.tolist(), largest.tolist(), strict=True)))
        out.rounds = rounds_of_halves(self.reward, np.flatnonzero(upper))
        return out

    def _cells(self):
        """Return the cell of every round, and the number of every cell."""
        if self.stratum is None:
            return self.code, np.arange(self.n_arms)
        cell = self.stratum * self.n_arms + self.code
        n_cells = (int(self.stratum.max()) + 1) * self.n_arms
        if n_cells <= 2 * len(cell) + 1000:
            return cell, np.arange(n_cells)
        kept, cell = np.unique(cell, return_inverse=True)
        return cell.ravel(), kept

    def _weights(self):
        """Return the weight of every round, ndarray of shape (n_rounds,)."""
        if self.under is None:
            return self.wanted
        p = self._mixture()
        # what nobody wants or does has no weight: a round of weight zero
        return np.divide(self.wanted, p, out=np.zeros_like(p), where=p > 0)

    def _mixture(self):
        """Return the probability of every logged action under the mixture."""
        stratum = self.stratum
        if stratum is None:
            stratum = np.zeros(len(self.code), dtype=np.intp)
        counts = np.zeros((int(stratum.max()) + 1, self.n_arms))
        np.add.at(counts, (stratum, self.code), self._counted(1.0))
        mixture = counts / np.maximum(counts.sum(axis=1, keepdims=True), 1e-300)
        if len(mixture) == 1:
            return self.under @ mixture[0]
        return np.einsum("ij,ij->i", self.under, mixture[stratum])

    def _counted(self, values):
        """Return values times the sample weights of the rounds."""
        omega = self.design.omega
        return values if omega is None else values * omega


class ScavengedValue(PolicyValue):
    """Value of a policy from arms, whose counts are those of the rounds it is of."""

    def __init__(self, estimate, rows, *, arms, bound_facts, **known):
        super().__init__(estimate, rows, **known)
        self.arms, self.bound_facts = arms, bound_facts
        self.arm_counts = np.bincount(arms.code, minlength=arms.n_arms)

    def _group_estimate(self, places):
        # the counts of the arms, and the mixture of the loggers, are the group's own
        return _estimated(self.arms.take(places))

    def _estimate_without(self, left_out):
        arms, rows = self.arms, self._rows
        arms = replace(arms, design=arms.design.without(left_out))
        return _estimated(arms, rows.row_id, rows.logs, left_out)

    def _overlap_without(self, design):
        found = replace(self.arms, design=design).sums()
        return found.effective_sample_size, {"mean_weight": found.mean_weight}


def _estimated(arms, *about):
    """Return the estimate from some rounds, and their `Rows`."""
    found = arms.sums()
    terms, design = found.rounds
    return found.estimate, Rows(design, terms, *about)
