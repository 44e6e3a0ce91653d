# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Arms whose rounds were summed in parts of a log."""

from functools import cached_property, partial
from math import nan, sqrt

import numpy as np

from skope_ope.evaluators.core._estimate import Estimate
from skope_ope.evaluators.core._functions import mean, ratio
from skope_ope.evaluators.core._mean_weight import (
    deviations,
    log_evidence,
    squares_about,
)
from skope_ope.evaluators.core._sums import total
from skope_ope.evaluators.scavenging._arms import WEIGHTS, _shares


def estimate_of_sums(self_normalized, mixes, on_missing, summary):
    """Return the estimate of the arms of all parts of a log.

    Parameters
    ----------
    self_normalized, mixes : bool
        Whether the value is divided by the mean weight, and whether arms are loggers
        whose mixture chose the actions.
    on_missing : {"warn", "nan"}
        Where the policy wants arms that were never logged.
    summary : Summary
        Sums of the terms w r and w by arm, and what was seen beside them.
    """
    sums, tally = summary.sums, summary.tally
    frame, sought = sums.frame, None
    if not mixes:
        wanted = dict(zip(tally.actions, tally.wanted[0].tolist(), strict=True))
        sought = np.array([wanted[label] > 0 for label in frame.strata])
    share = partial(_shares, np.zeros(frame.n_strata, dtype=int), mixes, sought)
    found = Estimate(sums, ratio if self_normalized else mean, share)
    if (found.shares.needed & (frame.count == 1)).any():
        found = found.without_error()
    missing = tally.missing_mass(summary.counts)
    nothing = not tally.largest[0] or missing > 1 - 1e-9
    if nothing or (missing > 1e-9 and on_missing == "nan"):
        found = found.without_value()
    return found


class SummedArms:
    """What the sums of arms tell beside their estimate, as `Arms` does of rounds.

    Parameters
    ----------
    summary : Summary
        Sums of the terms w r and w by arm, and what was seen beside them.
    estimate : Estimate
        What was made of them.
    """

    def __init__(self, summary, estimate):
        self.summary, self.estimate = summary, estimate
        self._weights = summary.sums.some([WEIGHTS])

    @property
    def missing_mass(self):
        """Mean of the policy's probability of arms that were never logged."""
        return self.summary.missing_mass

    @property
    def mean_weight(self):
        """One in expectation."""
        return self.estimate.means[WEIGHTS]

    @property
    def largest(self):
        """Largest probability of an arm that was logged, times its sample weight."""
        return self.summary.tally.largest[0]

    @property
    def mean_gain(self):
        """Mean of the weighted rewards."""
        return float(self.summary.sums._plain(0.0)[0]) / self.summary.mass

    @property
    def n_alone(self):
        """Number of arms of one round, where the policy may go."""
        shares, frame = self.estimate.shares, self.estimate.frame
        return int((shares.needed & (frame.units == 1)).sum())

    @cached_property
    def effective_sample_size(self):
        """(sum w)^2 / sum w^2 of the weights as they count."""
        share = np.atleast_1d(self.estimate.shares.weight)
        square = total(share * share * np.atleast_1d(squares_about(self._weights, 0.0)))
        return self.mean_weight**2 / square if square else nan

    def fewest_rounds(self, n_rounds):
        """Return the fewest rounds of an arm that was logged, and is wanted."""
        counts, tally = self.summary.counts, self.summary.tally
        rounds = dict(
            zip(counts.actions, counts.counts.sum(axis=0).tolist(), strict=True)
        )
        wanted = zip(tally.actions, tally.wanted[0].tolist(), strict=True)
        found = [rounds[arm] for arm, mass in wanted if mass > 0 and rounds[arm]]
        return int(min(found, default=n_rounds))

    def mean_weight_z(self, expected=1.0):
        """Return how far the mean weight is from what it should be, in errors."""
        gap, square, _ = deviations(self._weights, 1.0, expected)
        error = sqrt(square)
        return gap / error if error > 1e-9 else 0.0

    def evidence_above(self, expected=1.0):
        """Return ln E of a mean weight above what it should be, see `_mean_weight`."""
        gap, square, unit = deviations(self._weights, 1.0, expected)
        unit *= expected
        return log_evidence(gap / unit, square / unit**2)
