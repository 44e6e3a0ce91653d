# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Sums of many arrays over the rounds of every stratum, by one product a block."""

import numpy as np

FEW = 8  # strata for which a dot product each beats counting
ENTRIES = 24  # of one product; larger ones would wake BLAS threads


class StratumSums:
    """Sums over strata of arrays that come a block of rounds at a time.

    Who wants sums reserves rows and fills them in every block. They are added up by
    one product for all, when the next block begins or sums are read.

    Parameters
    ----------
    cells : ndarray of shape (n_rounds,)
        Stratum of every round.
    n_cells : int
        Number of strata.
    """

    def __init__(self, cells, n_cells):
        self.cells, self.n_cells = cells, n_cells
        self._totals = np.zeros((0, n_cells))
        self._page = np.empty((0, 0))  # fresh memory for every block would cost time
        self._indicators = None  # likewise
        self._block, self._sums, self._filled = (0, 0), None, False

    def reserve(self, k):
        """Return where the sums of k arrays are."""
        low = len(self._totals)
        self._totals = np.vstack([self._totals, np.zeros((k, self.n_cells))])
        self._page = np.vstack([self._page, np.empty((k, self._page.shape[1]))])
        return slice(low, low + k)

    def page(self, where, start, n):
        """Return memory of shape (k, n) for the arrays of the rounds from start on."""
        self.of_block(start, start + n)
        self._filled = True
        if self._page.shape[1] < n:
            self._page = np.empty((len(self._page), n))
        return self._page[where, :n]

    def of_block(self, start, stop):
        """Return a function that sums arrays of the rounds start..stop-1."""
        if (start, stop) != self._block:
            self._add_up()
            shape = self.n_cells, stop - start
            if 1 < self.n_cells <= FEW:
                self._indicators = fitting(self._indicators, shape)
            cells = self.cells[start:stop]
            self._sums = partial_sums(cells, self.n_cells, self._indicators)
            self._block = start, stop
        return self._sums

    def __getitem__(self, where):
        """Return the sums so far, of shape (k, n_cells)."""
        self._add_up()
        return self._totals[where]

    def _add_up(self):
        if self._filled:
            start, stop = self._block
            self._totals += self._sums(self._page[:, : stop - start])
            self._filled = False


def fitting(memory, shape):
    """Return memory of a shape, the given one where it has it."""
    fits = memory is not None and memory.shape == shape
    return memory if fits else np.empty(shape)


def partial_sums(codes, n_codes, out=None):
    """Return a function that sums the rows of each code.

    It takes an array of shape (n,) or (k, n) and returns (n_codes,) or (k, n_codes).
    """
    if n_codes == 1:
        return lambda values: values.sum(axis=-1, keepdims=True)
    if n_codes > FEW:
        return lambda values: np.apply_along_axis(
            lambda row: np.bincount(codes, row, n_codes), -1, values
        )
    rows = indicators(codes, n_codes, out).T
    step = ENTRIES // n_codes

    def sums(values):
        if values.ndim == 1 or len(values) <= step:
            return values @ rows
        parts = [values[k : k + step] @ rows for k in range(0, len(values), step)]
        return np.concatenate(parts)

    return sums


def indicators(codes, n_codes, out=None):
    """Return one row per code, one where it is."""
    out = np.empty((n_codes, len(codes))) if out is None else out
    labels = np.arange(n_codes)
    if n_codes < 256:  # compared faster
        codes, labels = codes.astype(np.uint8), labels.astype(np.uint8)
    out[:] = codes == labels[:, None]
    return out
