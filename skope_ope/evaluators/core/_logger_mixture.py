# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
r"""Whether the means of groups of rounds are values, where loggers are pooled as one.

Rounds that are weighted by :math:`\pi / \bar\pi`, with the mixture :math:`\bar\pi` of
all loggers, average to the value over the rounds of all loggers together. Over rounds
that other loggers made than the mixture predicts, such as those of one logger or of
one day, they average to something else.
"""

import numpy as np
from scipy.special import ndtr

from skope_ope.evaluators.core._design import in_order
from skope_ope.evaluators.core._uniform_counts import SURPRISE
from skope_ope.exceptions import LoggerWarning
from skope_ope.logs._validation import plain

MATERIAL = 0.05  # of the rounds of a group: fewer than that in the wrong place are few


class LoggerMixture:
    r"""Loggers whose rounds are weighted as those of one, their mixture."""

    def __init__(self, index, proba, shares):
        self.index, self.proba, self.shares = index, proba, shares

    def take(self, rows):
        """Return the loggers of some rounds (an array of ints), and the same shares."""
        return LoggerMixture(self.index[rows], self.proba[rows], self.shares)

    def doubt(self, labels, places, design):
        """Return a `LoggerWarning` where means of groups are no values, or None."""
        # They are none where a group has another mixture than that of all rounds. That
        # is certain where every group has rounds of one logger, and seen where it has
        # more or fewer rounds of one than all loggers would have made of its contexts
        # and actions.
        omega = np.ones(len(self.index)) if design.omega is None else design.omega
        joint = self.shares * self.proba
        mixture = joint.sum(axis=1)
        mixture[mixture == 0] = 1.0  # a round of weight zero
        gap = -joint / mixture[:, None]
        expected = -gap
        gap[np.arange(len(gap)), self.index] += 1
        gap *= omega[:, None]
        spread = omega[:, None] ** 2 * expected * (1 - expected)
        if design.clustered:  # whose rounds may all be those of one logger
            spread = None
        apart = all(len(set(self.index[rows].tolist())) == 1 for rows in places)
        tests = len(places) * len(self.shares)
        found = []
        for place, rows in enumerate(places):
            if not self._matters(rows, mixture):
                continue
            shift = gap[rows].sum(axis=0)
            if spread is None:
                cluster = np.unique(design.cluster[rows], return_inverse=True)[1]
                sums = np.zeros((int(cluster.max()) + 1, len(self.shares)))
                np.add.at(sums, cluster, gap[rows])
                variance = (sums**2).sum(axis=0)
            else:
                variance = spread[rows].sum(axis=0)
            z = np.abs(shift) / np.sqrt(np.maximum(variance, 1e-300))
            seen = 2 * ndtr(-z) * tests < SURPRISE
            seen &= np.abs(shift) > MATERIAL * omega[rows].sum()
            if apart or seen.any():
                found.append(place)
        if not found or len(self.shares) < 2:
            return None
        return _warning(labels, found)

    def _matters(self, rows, mixture):
        """Whether the mixture of a group's own loggers gives other weights."""
        own = np.bincount(self.index[rows], minlength=len(self.shares)) / len(rows)
        return bool((np.abs(self.proba[rows] @ own / mixture[rows] - 1) > 1e-9).any())


def doubt_of_parts(whole, parts):
    """Get a `LoggerWarning` where means of groups of rounds are no values, or None."""
    # Sums do not tell what all loggers would have made of the contexts and actions of a
    # group: it is suspect where its loggers have other shares than in all rounds.
    loggers = whole.counts.loggers
    if len(loggers) < 2:
        return None
    by_logger = whole.counts.counts.sum(axis=1)
    shares = by_logger / by_logger.sum()
    tests, found, labels = len(parts) * len(loggers), [], in_order(parts)
    for place, label in enumerate(labels):
        part = parts[label]
        if part.counts is None:
            continue
        own = np.zeros(len(loggers))
        places = [loggers.index(one) for one in part.counts.loggers]
        own[places] = part.counts.counts.sum(axis=1)
        frame = next(iter(part.sums.joints.values())).frame
        units = own.sum()
        if frame.clustered:  # whose rounds may all be those of one logger
            units = len(frame.cluster_sizes)
        gap = np.abs(own / own.sum() - shares)
        spread = np.sqrt(np.maximum(shares * (1 - shares) / units, 1e-300))
        seen = 2 * ndtr(-gap / spread) * tests < SURPRISE
        if (seen & (gap > MATERIAL)).any():
            found.append(place)
    return _warning(labels, found) if found else None


def _warning(labels, found):
    return LoggerWarning(
        f"the means of {len(found)} of {len(labels)} groups are not values of the "
        f"policy ({plain(labels[found[0]])!r} is the first). Balanced weights use the "
        "mixture of all loggers, and other loggers acted in these groups. Only the "
        "mean over all rounds is the value. Use pooling='naive' for values of "
        "groups, or evaluate each group by itself: evaluate(policy, logs[rows]).",
        len(found),
    )
