# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""The lower limit of a mean from fixed bets on terms that are not negative."""

import numpy as np

# Bets by factors of two: for terms about one that are seen 10 to 1e8 times. Those that
# suit thousands of rounds have the greatest shares of the capital.
POWERS = np.arange(-14, 7)
BETS = 2.0**POWERS
SHARES = 1 / (1 + ((POWERS + 4) / 3) ** 2)
SHARES /= SHARES.sum()
BLOCK = 1 << 12  # rounds: their bets fit the cache
N_STEPS = 200
TOLERANCE = 1e-13


class BettingBound:
    """Lower limit of a mean from terms that are not negative, as rounds come in."""

    # There may be several terms a round: the mean of those of a kind is the one that is
    # sought, which is not negative, plus a known offset. Each kind gets the same share
    # of the capital.

    def __init__(self, needed, offsets=(0.0,)):
        self.needed = needed
        self.offsets = np.repeat(np.asarray(offsets, dtype=np.float64), len(BETS))
        self.bets = np.tile(BETS, len(offsets))
        shares = np.tile(SHARES / len(offsets), len(offsets))
        self.growth = np.log(shares)  # of the capital, so far
        self.n, self.total = 0, 0.0

    def take(self, terms, after):
        """Take the terms of further rounds."""
        n_rounds, limits = len(terms[0]), []
        for start in range(0, n_rounds, BLOCK):
            stop = min(start + BLOCK, n_rounds)
            inside = after[(after > start) & (after <= stop)] - start
            block = [one[start:stop] for one in terms]
            limits.append(self._take_block(block, inside))
        return np.concatenate(limits)

    def _take_block(self, terms, after):
        """Take the terms of a few rounds."""
        size = len(terms[0])
        starts = np.unique([0, *after[after < size]])
        logs = np.concatenate([np.log(1 + np.outer(BETS, one)) for one in terms])
        pieces = np.add.reduceat(logs, starts, axis=1)
        growth = self.growth[:, None] + np.cumsum(pieces, axis=1)
        totals = self.total + np.cumsum(np.add.reduceat(terms[0], starts))
        self.growth, self.total = growth[:, -1], float(totals[-1])
        n, self.n = self.n, self.n + size
        if not len(after):
            return np.empty(0)
        places = np.arange(len(after))  # the piece that ends there
        return self._roots(growth[:, places], totals[places], n + after)

    def _roots(self, growth, totals, n):
        """Return the least means that the capital does not exclude."""
        # The logarithm of the capital falls with the mean and is convex. Steps of
        # Newton's method that leave the bracket are replaced by bisection.
        bets, offsets = self.bets[:, None], self.offsets[:, None]

        def surplus(mean):
            grown = 1 + bets * (offsets + mean)
            logs = growth - n * np.log(grown)
            most = logs.max(axis=0)
            parts = np.exp(logs - most)
            capital = parts.sum(axis=0)
            slope = -n * (parts * (bets / grown)).sum(axis=0) / capital
            return most + np.log(capital) - self.needed, slope

        low = np.zeros(len(n))
        high = np.maximum(totals / n - self.offsets[0], 0.0)  # there it is at most one
        at_zero, _ = surplus(low)
        mean = np.where(at_zero > 0, high, 0.0)
        high = mean.copy()
        for _ in range(N_STEPS):
            value, slope = surplus(mean)
            low, high = np.where(value > 0, mean, low), np.where(value > 0, high, mean)
            step = mean - value / slope
            step = np.where((step >= low) & (step <= high), step, (low + high) / 2)
            moved, mean = np.abs(step - mean), step
            if np.all(moved <= TOLERANCE * (mean + self.offsets[0])):
                break
        return np.where(at_zero > 0, mean, 0.0)
