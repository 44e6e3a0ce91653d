# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
r"""Sums of the mean rewards of arms: the estimate that needs no propensities.

A log is a set of arms, each of them a sample of its own. With :math:`T_c` rounds in
cell c (an arm, or an arm in a stratum) the estimate is

.. math:: \hat V = \sum_c W_c\, \bar y_c, \qquad y_i = w_i r_i,

with :math:`w_i = h(a_i|x_i)` and :math:`W_c` the share of the stratum. Where arms are
known policies and the logged action is matched, :math:`w_i = h(a_i|x_i) / \hat
p(a_i|x_i)` with the mixture :math:`\hat p` of the arms, and :math:`W_c` the share of
the arm. Cells are independent samples, so :math:`SE^2 = \sum_c W_c^2 s_c^2 / T_c`. The
round values

.. math:: z_i = \hat V + \sqrt{\frac{n (n - 1)}{T_c (T_c - 1)}}\, W_c (y_i - \bar y_c)

average to the estimate, and sd(z) / sqrt(n) is exactly that standard error; so is that
of the difference of two policies.
"""

from dataclasses import dataclass, replace

import numpy as np

SURE = 4  # standard errors


@dataclass
class Estimate:
    """What the arms tell of a policy."""

    value: float
    standard_error: float
    round_values: np.ndarray
    mean_weight: float
    effective_sample_size: float
    n_alone: int = 0  # cells of one round, where the policy may go


@dataclass
class Arms:
    """Rounds as samples of arms.

    Attributes
    ----------
    code : ndarray of int of shape (n_rounds,)
        The arm of every round.
    n_arms : int
        Number of arms.
    wanted : ndarray of shape (n_rounds,)
        Probability with which the policy wants what was logged.
    reward : ndarray of shape (n_rounds,)
        Rewards.
    stratum : ndarray of int of shape (n_rounds,) or None
        Rounds in which arms were chosen by one rule.
    under : ndarray of shape (n_rounds, n_arms) or None
        Probability of the logged action under every arm, where arms are policies.
    omega : ndarray of shape (n_rounds,) or None
        Sample weights.
    self_normalized : bool
        Whether the value is divided by the mean weight.
    sought : ndarray of bool of shape (n_rounds,) or None
        Whether the policy wants the arm of the round anywhere in its stratum; None:
        it wants every arm.
    """

    code: np.ndarray
    n_arms: int
    wanted: np.ndarray
    reward: np.ndarray
    stratum: np.ndarray | None = None
    under: np.ndarray | None = None
    omega: np.ndarray | None = None
    self_normalized: bool = False
    sought: np.ndarray | None = None

    def take(self, rows):
        """Return the arms of some rounds only."""
        names = ("code", "wanted", "reward", "stratum", "under", "omega", "sought")
        fields = {name: getattr(self, name) for name in names}
        return replace(self, **{k: v[rows] for k, v in fields.items() if v is not None})

    def cells(self):
        """Return the cell of every round, and the stratum of every cell."""
        if self.stratum is None:
            return self.code, np.zeros(self.n_arms, dtype=np.intp)
        cell = self.stratum * self.n_arms + self.code
        n_cells = (int(self.stratum.max()) + 1) * self.n_arms
        if n_cells <= 2 * len(cell) + 1000:
            return cell, np.arange(n_cells) // self.n_arms
        kept, cell = np.unique(cell, return_inverse=True)
        return cell.ravel(), kept // self.n_arms

    def weights(self, cell, stratum_of, mass):
        """Return the weight of every round, and that of the mean of every cell."""
        share = np.bincount(stratum_of, mass)
        if self.under is None:
            return self.wanted, share[stratum_of] / share.sum()
        stratum = np.zeros(len(cell), dtype=np.intp)
        if self.stratum is not None:
            stratum = self.stratum
        counts = np.zeros((len(share), self.n_arms))
        np.add.at(
            counts, (stratum, self.code), 1.0 if self.omega is None else self.omega
        )
        mixture = counts / np.maximum(counts.sum(axis=1, keepdims=True), 1e-300)
        if len(mixture) == 1:
            p = self.under @ mixture[0]
        else:
            p = np.einsum("ij,ij->i", self.under, mixture[stratum])
        # what nobody wants or does has no weight: a round of weight zero
        w = np.divide(self.wanted, p, out=np.zeros_like(p), where=p > 0)
        return w, mass / mass.sum()

    def estimate(self):
        """Return the `Estimate`."""
        n = len(self.code)
        cell, stratum_of = self.cells()
        n_cells = len(stratum_of)
        rounds = np.bincount(cell, minlength=n_cells)
        mass = rounds.astype(float)
        if self.omega is not None:
            rounds = np.bincount(cell[self.omega > 0], minlength=n_cells)
            mass = np.bincount(cell, self.omega, minlength=n_cells)
        w, of_cell = self.weights(cell, stratum_of, mass)

        def totals(values):
            values = values if self.omega is None else self.omega * values
            return np.bincount(cell, values, minlength=n_cells)

        per_mass = np.divide(1.0, mass, out=np.zeros(n_cells), where=mass > 0)
        factor = of_cell * per_mass  # what a round of the cell counts
        mean_weight = float(factor @ totals(w))
        total = float(factor @ totals(w * self.reward))
        value, u = total, w * self.reward
        if self.self_normalized:
            if mean_weight <= 0:
                return Estimate(*[float("nan")] * 2, np.full(n, np.nan), 0.0, np.nan)
            value = total / mean_weight
            u = w * (self.reward - value) / mean_weight
        residual = u - (totals(u) * per_mass)[cell]
        if self.omega is not None:
            residual = self.omega * residual
        # A cell of one round has no spread; it matters where the policy may go there,
        # be it in other rounds than the one that was logged.
        alone = rounds == 1
        if self.sought is not None and alone.any():
            alone &= totals(self.sought.astype(float)) > 0
        n_alone = int(alone.sum())
        small = np.where(rounds > 1, rounds / np.maximum(rounds - 1.0, 1.0), 0.0)
        spread = np.sqrt(n * max(n - 1, 0) * small) * factor
        round_values = value + spread[cell] * residual
        error = float("nan")
        if n > 1 and not n_alone:
            error = float(round_values.std(ddof=1) / np.sqrt(n))
        counted = factor[cell] * (w if self.omega is None else w * self.omega)
        square = float(counted @ counted)
        size = float(counted.sum() ** 2 / square) if square else float("nan")
        return Estimate(value, error, round_values, mean_weight, size, n_alone)

    def mean_weight_z(self, expected=1.0):
        """Return how far the mean weight is from what it should be, in errors.

        The error is that of the mean if it were as it should be, so that weights that
        are all alike, and wrong, are not taken for exact ones.
        """
        cell, stratum_of = self.cells()
        omega = np.ones(len(cell)) if self.omega is None else self.omega
        mass = np.bincount(cell, omega, len(stratum_of))
        gap = omega * (self.weights(cell, stratum_of, mass)[0] - expected)
        error = float(np.sqrt(gap @ gap))
        return float(gap.sum()) / error if error > 1e-9 else 0.0

    def unseen_mass(self):
        """Estimate the policy's mass on arms that were never logged.

        The mean weight estimates the mass on the others. What is missing of one counts
        where it is more than noise.
        """
        n = len(self.code)
        known = replace(self, reward=np.ones(n), self_normalized=False).estimate()
        noise = known.round_values.std() / np.sqrt(n)
        lost = 1 - known.value
        return lost if lost > max(SURE * noise, 1e-9) else 0.0
