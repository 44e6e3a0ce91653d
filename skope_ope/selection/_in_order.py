# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Splits whose rows come in the order of the logs."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from skope_ope._types import Splitter, SplitterLike


def in_order(splitter: SplitterLike) -> Splitter:
    """Sort the rows of every split, for evaluators that need the order of the log.

    `ShuffleSplit` and others give the rows of a part in any order, but a history must
    be simulated in the order of time. `EvaluatorScorer` also sorts the rows, but this
    takes another fit. `in_order` avoids that fit. Read more in the :ref:`User Guide
    <sequential_search>`.

    Parameters
    ----------
    splitter : int, splitter or iterable of (train, test)
        What you would pass as `cv`. An int is `KFold`.

    Returns
    -------
    splitter : splitter
        Gives the same parts, sorted.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.model_selection import ShuffleSplit
    >>> from skope_ope import in_order
    >>> cv = in_order(ShuffleSplit(1, train_size=0.5, random_state=0))
    >>> [(train, test)] = cv.split(np.zeros((6, 1)))
    >>> train, test
    (array([0, 3, 4]), array([1, 2, 5]))
    """
    if isinstance(splitter, InOrder):
        return splitter
    if isinstance(splitter, (int, np.integer)) and not isinstance(splitter, bool):
        from sklearn.model_selection import KFold

        return InOrder(KFold(int(splitter)))
    if not hasattr(splitter, "split") or isinstance(splitter, (str, type)):
        if isinstance(splitter, (str, type)) or not isinstance(splitter, Iterable):
            raise TypeError(
                "in_order takes a splitter, a number of folds or pairs (train, test), "
                f"got {splitter!r}."
            )
        from sklearn.model_selection import check_cv

        splitter = check_cv(list(splitter))
    return InOrder(splitter)


class InOrder:
    """A splitter that sorts the rows of another one's parts."""

    def __init__(self, splitter):
        self.splitter = splitter

    def split(self, X, y=None, groups=None):
        """Yield sorted rows of the training and of the test part."""
        for train, test in self.splitter.split(X, y, groups):
            yield _sorted_rows(train), _sorted_rows(test)

    def get_n_splits(self, X=None, y=None, groups=None):
        """Return the number of splits."""
        return self.splitter.get_n_splits(X, y, groups)

    def __repr__(self):
        return f"in_order({self.splitter!r})"


def _sorted_rows(rows):
    rows = np.asarray(rows)
    return np.flatnonzero(rows) if rows.dtype == bool else np.sort(rows)
