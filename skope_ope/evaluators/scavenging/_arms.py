# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
r"""Sums of mean rewards of arms: the estimate that needs no propensities.

A log is a set of arms, each of them a separate sample. With :math:`T_c` rounds in
cell c (an arm, or an arm in a stratum) the estimate is

.. math:: \hat V = \sum_c W_c\, \bar y_c, \qquad y_i = w_i r_i,

with :math:`w_i = h(a_i|x_i)` and :math:`W_c` the share of the stratum. Where arms are
known policies and the logged action is matched, :math:`w_i = h(a_i|x_i) / \hat
p(a_i|x_i)` with the mixture :math:`\hat p` of the arms, and :math:`W_c` the share of
the arm. Cells are the strata of the one statistic: independent samples, so that
:math:`SE^2 = \sum_c W_c^2 s_c^2 / T_c`.
"""

from dataclasses import dataclass, field, replace
from functools import partial

import numpy as np

from skope_ope.evaluators.core._design import Design
from skope_ope.evaluators.core._engine import offset_of
from skope_ope.evaluators.core._estimate import Estimate, error_of
from skope_ope.evaluators.core._functions import mean, ratio
from skope_ope.evaluators.core._mean_weight import log_evidence
from skope_ope.evaluators.core._pooling import Shares
from skope_ope.evaluators.core._sums import sums_of_rounds

SURE = 4  # standard errors
REWARDED, WEIGHTS = 0, 1  # the terms w r and w


def arm_terms(weights, reward):
    """Return the terms w r and w."""
    return weights * reward, weights


@dataclass
class Arms:
    """Rounds as samples of arms."""

    code: np.ndarray  # the arm of every round
    n_arms: int  # number of arms
    wanted: np.ndarray  # probability with which the policy wants what was logged
    reward: np.ndarray  # rewards
    stratum: np.ndarray | None = None  # rounds in which arms were chosen by one rule
    # Probability of the logged action under every arm, where arms are policies
    under: np.ndarray | None = None
    # Sample weight and cluster of every round; None: they are alike and independent
    design: Design | None = None
    self_normalized: bool = False  # whether the value is divided by the mean weight
    # Whether the policy wants the arm of the round anywhere in its stratum; None: it
    # wants every arm
    sought: np.ndarray | None = None
    offset: float = field(init=False)

    def __post_init__(self):
        if self.design is None:
            self.design = Design(len(self.code))
        # the value follows a shift of the rewards only where it is a ratio
        self.offset = offset_of(self.reward) if self.self_normalized else 0.0

    @property
    def omega(self):
        """Sample weights, or None."""
        return self.design.omega

    def take(self, rows):
        """Return the arms of some rounds only (an array of ints)."""
        names = ("code", "wanted", "reward", "stratum", "under", "sought")
        fields = {name: getattr(self, name) for name in names}
        taken = {k: v[rows] for k, v in fields.items() if v is not None}
        return replace(self, design=self.design.take(rows), **taken)

    def cells(self):
        """Return the cell of every round, and the number of every cell."""
        if self.stratum is None:
            return self.code, np.arange(self.n_arms)
        cell = self.stratum * self.n_arms + self.code
        n_cells = (int(self.stratum.max()) + 1) * self.n_arms
        if n_cells <= 2 * len(cell) + 1000:
            return cell, np.arange(n_cells)
        kept, cell = np.unique(cell, return_inverse=True)
        return cell.ravel(), kept

    def weights(self):
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
        np.add.at(
            counts, (stratum, self.code), 1.0 if self.omega is None else self.omega
        )
        mixture = counts / np.maximum(counts.sum(axis=1, keepdims=True), 1e-300)
        if len(mixture) == 1:
            return self.under @ mixture[0]
        return np.einsum("ij,ij->i", self.under, mixture[stratum])

    def terms(self, weights):
        """Return the terms w r and w, ndarray of shape (2, n_rounds)."""
        return np.stack(arm_terms(weights, self.reward - self.offset))

    def sums(self, design, terms):
        """Return the sums of the terms over the cells, the strata of a design."""
        moves = WEIGHTS if self.self_normalized else None
        return sums_of_rounds(design, terms, self.offset, moves=moves)

    def estimate(self):
        """Return the `ArmsEstimate`."""
        return ArmsEstimate(self)

    def mean_weight_z(self, expected=1.0):
        """Return how far the mean weight is from what it should be, in errors."""
        # The error is that of the mean if it were as it should be, so that weights that
        # are all alike, and wrong, are not taken for exact ones.
        gap = self._summed(self.weights() - expected)
        error = float(np.sqrt(gap @ gap))
        return float(gap.sum()) / error if error > 1e-9 else 0.0

    def evidence_above(self, expected=1.0):
        """Return ln E of a mean weight above what it should be, see `_mean_weight`."""
        unit = self._summed(np.full(len(self.code), expected)).max()
        gap = self._summed(self.weights() - expected) / unit
        return log_evidence(float(gap.sum()), float(gap @ gap))

    def _summed(self, values):
        """Return weighted values of the rounds, or of their groups."""
        if self.omega is not None:
            values = self.omega * values
        if self.design.clustered:
            return np.bincount(self.design.cluster, values)
        return values

    def unseen_mass(self):
        """Estimate the policy's mass on arms that were never logged."""
        # The mean weight estimates the mass on the others. What is missing of one
        # counts where it is more than noise.
        ones = replace(self, reward=np.ones(len(self.code)), self_normalized=False)
        known = ones.estimate()
        values, cluster = known.round_values(), self.design.cluster
        several = len(values) > 1
        noise = error_of(values, known.value, cluster) if several else 0.0
        lost = 1 - known.value
        return lost if lost > max(SURE * noise, 1e-9) else 0.0


class ArmsEstimate(Estimate):
    """Estimate of a policy's value from arms."""

    def __init__(self, arms):
        cell, numbers = arms.cells()
        design = arms.design.with_strata(cell, numbers.tolist())
        w = arms.weights()
        self.design = design
        self.terms = arms.terms(w)
        sums = arms.sums(design, self.terms)
        share = partial(
            _shares, numbers // arms.n_arms, arms.under is not None, self._sought(arms)
        )
        combine = ratio if arms.self_normalized else mean
        super().__init__(sums, combine, share)
        if self.lost:  # in the rounding of squares: those of the rounds tell it
            super().__init__(sums, combine, share, rounds=(self.terms, design))
        self.mean_weight = self.means[WEIGHTS]
        counted = np.atleast_1d(self.shares.weight)[cell] * w
        if design.omega is not None:
            counted = counted * design.omega
        square = float(counted @ counted)
        self.effective_sample_size = (
            float(counted.sum() ** 2 / square) if square else float("nan")
        )
        self.n_alone = int((self.shares.needed & (self.frame.units == 1)).sum())
        if self.n_alone:
            self.standard_error = float("nan")

    def _sought(self, arms):
        """Return the cells that the policy may go to, or None for all."""
        if arms.sought is None:
            return None
        counted = arms.sought.astype(float)
        if arms.omega is not None:
            counted = counted * arms.omega
        return np.bincount(self.design.stratum, counted, self.design.n_strata) > 0

    def round_values(self, terms=None, design=None, rows=None):
        """Return z_i, ndarray of shape (n_rounds,)."""
        terms = self.terms if terms is None else terms
        return super().round_values(terms, self.design, rows)


def _shares(stratum_of, mixes, sought, mass, units):
    """Weigh the mean of every cell by the share of its stratum, or by its own."""
    mass = np.atleast_1d(mass)
    share = mass / mass.sum()
    if not mixes:
        by_stratum = np.bincount(stratum_of, mass)
        share = by_stratum[stratum_of] / by_stratum.sum()
    weight = np.divide(share, mass, out=np.zeros(len(mass)), where=mass > 0)
    # A cell of one round has no spread; it matters where the policy may go there, be
    # it in other rounds than the one that was logged.
    needed = (units > 0) if sought is None else (units > 0) & sought
    if len(weight) == 1:
        weight = float(weight[0])
    return Shares(weight, np.arange(len(mass)), needed)


class ArmTerms:
    """The terms w r and w of parts of a log, a formula in a pass over the rounds."""

    def __init__(self, self_normalized, shares=None):
        self.shift_with = WEIGHTS if self_normalized else None
        self.shares = shares

    def terms(self, rounds):
        w = rounds.pi
        if self.shares is not None:
            p = rounds.block.logs.logger_proba[rounds.block.rows] @ self.shares
            # what nobody wants or does has no weight: a round of weight zero
            w = np.divide(w, p, out=np.zeros_like(p), where=p > 0)
        return arm_terms(w, rounds.r)


class ColumnArmTerms(ArmTerms):
    """The same of the columns of a lazy frame, which knows the mixture itself."""

    def terms(self, rounds):
        w = rounds.pi if self.shares is None else rounds.b
        return arm_terms(w, rounds.r)
