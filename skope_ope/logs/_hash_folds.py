# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Folds that follow from the labels of the groups alone."""

from __future__ import annotations

from numbers import Integral
from typing import TYPE_CHECKING

import numpy as np

from skope_ope._sklearn import Estimator, Interval
from skope_ope.logs._groups import check_group
from skope_ope.logs._label_hash import PRIME, ROOT, label_hash
from skope_ope.logs._row_container import RowContainer

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from skope_ope._types import Array, ArrayLike
    from skope_ope.logs._bandit_logs import BanditLogs
    from skope_ope.logs._slate_logs import SlateLogs


class HashKFold(Estimator):
    r"""Folds by a hash of the group.

    A group is always in the same fold: for any part of the rows, in any order, in any
    process. So you can split the parts of a large log separately, and later rows do
    not move earlier ones. With many groups, the folds are about equally large. Read
    more in the :ref:`User Guide <hash_folds>`.

    Parameters
    ----------
    n_splits : int, default=5
        Number of folds, at least 2.
    random_state : int, default=None
        Each number gives one fixed assignment of groups to folds. `None` is the same
        as 0: nothing is random.

    Notes
    -----
    A group with integer label :math:`g` lies in fold

    .. math:: (g \bmod P) \cdot 48271^{s + 3} \bmod P \bmod K, \qquad P = 2^{31} - 1,

    with :math:`s` the `random_state` and :math:`K` folds. Labels of other kinds are
    replaced by the CRC-32 of their text; whole floats are integers.

    Examples
    --------
    >>> import numpy as np
    >>> from skope_ope import BanditLogs
    >>> from skope_ope.logs import HashKFold
    >>> user = ["ann", "bob", "cid", "ann", "dee", "bob"]
    >>> logs = BanditLogs(np.zeros((6, 1)), [0, 1] * 3, np.ones(6), group=user)
    >>> cv = HashKFold(n_splits=2)
    >>> [logs[test].group.tolist() for _, test in cv.split(logs)]
    [['ann', 'ann', 'dee'], ['bob', 'cid', 'bob']]
    >>> [logs[3:][test].group.tolist() for _, test in cv.split(logs[3:])]
    [['ann', 'dee'], ['bob']]
    """

    _parameter_constraints: dict = {
        "n_splits": [Interval(Integral, 2, None, closed="left")],
        "random_state": [Interval(Integral, 0, PRIME - 5, closed="both"), None],
    }
    __metadata_request__split = {"groups": True}  # as scikit-learn's own splitters

    def __init__(self, n_splits: int = 5, random_state: int | None = None) -> None:
        self.n_splits = n_splits
        self.random_state = random_state

    def split(
        self,
        X: BanditLogs | SlateLogs | ArrayLike,
        y: Any = None,
        groups: ArrayLike | None = None,
    ) -> Iterator[Any]:
        """Generate training and test rows of every fold.

        Parameters
        ----------
        X : BanditLogs, SlateLogs or array-like of shape (n_rounds, ...)
            The rows to split.
        y : object, default=None
            Ignored.
        groups : array-like of shape (n_rounds,), default=None
            Labels of the groups. `None`: the groups of the logs. Logs without groups
            use the `row_id` of each row, which folds and samples keep. Arrays use the
            row numbers.

        Yields
        ------
        train, test : ndarray of int
            Row numbers, in order.

        Raises
        ------
        ValueError
            If a fold would be empty.
        """
        fold = self.fold_of(X, groups)
        sizes = np.bincount(fold, minlength=self.n_splits)
        if not sizes.all():
            raise ValueError(
                f"fold {int(np.argmin(sizes))} of {self.n_splits} would be empty. The "
                f"{len(fold)} rounds have too few groups for so many folds, or they "
                "are themselves a fold of the same hash. Use fewer folds, or another "
                "random_state."
            )
        for k in range(self.n_splits):
            yield np.flatnonzero(fold != k), np.flatnonzero(fold == k)

    def get_n_splits(self, X: Any = None, y: Any = None, groups: Any = None) -> int:
        """Return the number of folds.

        Parameters
        ----------
        X, y, groups : object, default=None
            Ignored.

        Returns
        -------
        n_splits : int
        """
        return self.n_splits

    def fold_of(
        self, X: BanditLogs | SlateLogs | ArrayLike, groups: ArrayLike | None = None
    ) -> Array:
        """Return the fold in which every row is tested.

        The fold depends only on the row, so parts of a log can be split separately.

        Parameters
        ----------
        X : BanditLogs, SlateLogs or array-like of shape (n_rounds, ...)
            The rows.
        groups : array-like of shape (n_rounds,), default=None
            Labels of the groups, see `split`.

        Returns
        -------
        fold : ndarray of int of shape (n_rounds,)
            Numbers 0..n_splits-1.

        Examples
        --------
        >>> from skope_ope.logs import HashKFold
        >>> HashKFold(n_splits=2).fold_of(range(3), ["ann", "bob", "ann"]).tolist()
        [0, 1, 0]
        """
        self._validate_params()
        if hasattr(X, "partitions"):
            raise TypeError(
                "HashKFold cannot split lazy logs, whose rows are not in memory. Pass "
                "a partition, fold_of(lazy.partitions[0].read()), or pass "
                "cv=HashKFold() to an evaluator."
            )
        n_rounds = X.shape[0] if hasattr(X, "shape") else len(X)
        if groups is not None:
            number = label_hash(check_group(groups, n_rounds))
        elif not isinstance(X, RowContainer):
            number = label_hash(np.arange(n_rounds))
        elif X.group is None:
            number = label_hash(X.row_id.position)
        else:
            number = label_hash(X.groups)[X.group_index]
        multiplier = pow(ROOT, 2 + (self.random_state or 0), PRIME)
        # By ROOT or its square, labels that follow each other would share a fold.
        return number * multiplier % PRIME % self.n_splits
