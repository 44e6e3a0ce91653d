# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Sums of an estimate over a part of a log: parts add up to the whole.

The sums of an estimate merge where every term depends on its round and on parameters
that were stated beforehand. Shares of a mixture, divergences, a smoothing of 1/sqrt(n),
parameters that are "auto" and models that are fitted to the rounds depend on the whole
log: an evaluator refuses to be summed in parts until they are stated.
"""

from math import nan

import skope_ope
from skope_ope.evaluators.core._estimate import Estimate


class Summary:
    """Sums of one evaluator on one policy over a part of a log.

    Parameters
    ----------
    sums : Sums
        Sums of the terms.
    combine : callable
        The function of the means that is the estimate.
    pooling_of : callable
        Takes the `Frame` of the sums and returns the pooling of its strata.
    about : dict
        What must be the same in all parts: evaluator, policy, stated parameters.
    tally : Tally
        What else was seen.
    """

    def __init__(self, sums, combine, pooling_of, about, tally):
        self.sums, self.combine, self.pooling_of = sums, combine, pooling_of
        self.about = {"version": skope_ope.__version__, **about}
        self.tally = tally

    def __add__(self, other):
        """Return the summary of both parts."""
        if not isinstance(other, Summary):
            return NotImplemented
        names = self.about | other.about
        unlike = [k for k in names if self.about.get(k) != other.about.get(k)]
        if unlike:
            found = "; ".join(
                f"{k}: {self.about.get(k)} and {other.about.get(k)}" for k in unlike
            )
            raise ValueError(
                f"these sums are not parts of one estimate, they differ in {found}."
            )
        sums, tally = self.sums + other.sums, self.tally + other.tally
        return Summary(sums, self.combine, self.pooling_of, self.about, tally)

    def __radd__(self, other):
        """Return self for the 0 that `sum` begins with."""
        return self if other == 0 else NotImplemented

    def estimate(self):
        """Return the `Estimate` of all parts.

        Where the variance was lost in the rounding of the sums, and the rewards are
        not all the same, the error is NaN: the rounds that would tell it are gone.
        """
        found = Estimate(self.sums, self.combine, self.pooling_of(self.sums.frame))
        low, high = self.tally.reward_range
        return found.with_error(nan) if found.lost and low < high else found

    def to_table(self, n_buckets=1000):
        """Return the summary as a dict of arrays.

        Parameters
        ----------
        n_buckets : int, default=1000
            Groups are merged into as many hash buckets, so that the table stays small.
        """
        sums = self.sums
        if sums.frame.clustered and len(sums.frame.clusters) > n_buckets:
            sums = sums.bucketed(n_buckets)
        return sums.to_table() | self.tally.to_table()
