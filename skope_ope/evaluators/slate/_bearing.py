# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Whether the logged rounds, or some of them, bear on a slate policy at all."""

from dataclasses import dataclass

import numpy as np

from skope_ope.exceptions import LowOverlapWarning, SupportWarning


@dataclass
class Bearing:
    """What decides whether an estimate can be formed, of all rounds or of a group.

    Attributes
    ----------
    name : str
        The evaluator.
    n_rounds : int
        Number of rounds.
    weight : ndarray of shape (n_rounds,) or None
        Importance weights; None where the evaluator has none.
    divisor : ndarray of shape (n_rounds,) or None
        What is summed in the denominator of a ratio.
    used : ndarray of bool of shape (n_rounds,) or None
        Rounds that are not left out; None: all.
    omega : ndarray of shape (n_rounds,) or None
        Sample weights.
    """

    name: str
    n_rounds: int
    weight: object = None
    divisor: object = None
    used: object = None
    omega: object = None

    def of(self, rows):
        """Return the same for a group of the rounds."""
        arrays = (self.weight, self.divisor, self.used, self.omega)
        picked = (None if array is None else array[rows] for array in arrays)
        return Bearing(self.name, len(rows), *picked)

    @property
    def n_used(self):
        """Number of rounds that are not left out."""
        return self.n_rounds if self.used is None else int(self.used.sum())

    def _weighted(self, values):
        counted = 1.0 if self.used is None else self.used
        return values * (counted if self.omega is None else counted * self.omega)

    def warnings(self):
        """Return the reasons for which there is no estimate, as warnings."""
        nothing = self.n_used == 0
        if self.weight is not None and not nothing:
            nothing = not self._weighted(self.weight).any()
        if nothing:
            return [
                SupportWarning(
                    f"{self.name} cannot form an estimate: no logged round bears on "
                    "the policy. The value is NaN.",
                    float("nan"),
                )
            ]
        if self.divisor is None:
            return []
        total = float(np.sum(self._weighted(self.divisor)))
        if total > 0:
            return []
        return [
            LowOverlapWarning(
                f"{self.name} cannot form an estimate: the weights sum to "
                f"{total:.4g}, and what is normalised by them is no estimate. The "
                "value is NaN.",
                total,
            )
        ]
