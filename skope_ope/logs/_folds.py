# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Which rounds are held out of which fit, wherever the rounds turn up."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator, Sequence
from numbers import Integral
from typing import Any

import numpy as np

from skope_ope._sklearn import Estimator, Interval
from skope_ope._types import Array, ArrayLike
from skope_ope.logs._bandit_logs import BanditLogs
from skope_ope.logs._coded_labels import check_group
from skope_ope.logs._known_rows import places_among, rows_among
from skope_ope.logs._labels import PRIME, ROOT, label_hash
from skope_ope.logs._row_container import RowContainer
from skope_ope.logs._slate_logs import SlateLogs

FULL, UNCOVERED = -1, -2  # folds of rows that were not in fit, and of uncovered rows


class HeldOut:
    """Folds of some logs, and the fold of any row, recognised by `rows_among`."""

    def __init__(self, logs, cv):
        self.logs = logs
        position = repeated_positions(logs)
        if _is_fold_count(cv):
            self.fold = numbered_folds(cv, logs, position)
            self.train = OtherFolds(self.fold)
            return
        self.fold = np.full(len(logs), UNCOVERED)
        self.train = []
        for k, (train, test) in enumerate(_checked_folds(cv, logs, position)):
            self.train.append(train)
            self.fold[test[self.fold[test] == UNCOVERED]] = k
        if (self.fold == UNCOVERED).all():
            raise ValueError(
                "cv gives no test round. A generator can be used only once: pass "
                "list(splitter.split(logs)) or the splitter itself."
            )
        if position is not None:
            covered = self.fold != UNCOVERED
            place = places_among(position[~covered], position[covered])
            fold = self.fold[covered][place]
            self.fold[~covered] = np.where(place < 0, UNCOVERED, fold)

    @classmethod
    def of_folds(cls, logs, fold):
        """Return the same of rows whose folds are known, all of them tested once."""
        held_out = object.__new__(cls)
        held_out.logs, held_out.fold = logs, fold
        held_out.train = OtherFolds(fold)
        return held_out

    def train_sums(self, codes, n_codes, weights):
        """Sum weights by code over the training part of every fold."""
        # `weights` is a list of arrays, or of None, which counts the rows; for each the
        # sums have the shape (n_folds, n_codes).
        n_folds = len(self.train)
        if isinstance(self.train, OtherFolds):
            cells = self.fold * n_codes + codes
            sums = [np.bincount(cells, one, n_folds * n_codes) for one in weights]
            return [sums_of_others(one.reshape(n_folds, n_codes)) for one in sums]
        sums = [np.empty((n_folds, n_codes)) for _ in weights]
        for k, train in enumerate(self.train):
            part = codes[train]
            for out, one in zip(sums, weights, strict=True):
                out[k] = np.bincount(part, None if one is None else one[train], n_codes)
        return sums

    def __repr__(self):
        return f"{len(self.train)} folds of {len(self.logs):,} rounds"

    def of(self, logs):
        """Fold of every row of `logs`; `FULL` for rows that were not split."""
        if logs is self.logs:
            return self.fold
        rows = rows_among(logs, self.logs)
        return np.where(rows < 0, FULL, self.fold[rows])

    def inside(self, k):
        """Return the other folds as pairs of rows of the training part of fold k."""
        # What is fitted inside of a fold by them has seen none of its test rounds.
        rows = self.train[k]
        pairs = []
        for other in range(len(self.train)):
            train = np.flatnonzero(np.isin(rows, self.train[other]))
            test = np.flatnonzero(self.fold[rows] == other)
            if other != k and train.size and test.size:
                pairs.append((train, test))
        return pairs


class OtherFolds(Sequence):
    """Training rows where every row is in one test part: those of all other folds."""

    # They are made when they are asked for; what only counts rows needs none.

    def __init__(self, fold):
        self._fold, self._n_folds = fold, int(fold.max()) + 1

    def __len__(self):
        return self._n_folds

    def __getitem__(self, k):
        if not 0 <= k < self._n_folds:
            raise IndexError(f"fold {k} of {self._n_folds}")
        return np.flatnonzero(self._fold != k)


def sums_of_others(cells):
    """Sum all rows of a table but one, for each of them, without a difference."""
    # What a huge entry rounds away would not come back when it is subtracted.
    sums = np.zeros(cells.shape)
    sums[1:] = np.cumsum(cells[:-1], axis=0)
    sums[:-1] += np.cumsum(cells[:0:-1], axis=0)[::-1]
    return sums


def repeated_positions(logs):
    """Positions of the rows by origin where a row occurs more than once, or None."""
    return logs._position if logs._repeats_rows else None


def folds_of(cv, logs, y=None):
    """Return checked pairs (train, test) of row numbers."""
    folds = list(_checked_folds(cv, logs, repeated_positions(logs), y))
    empty = [k for k, (_, test) in enumerate(folds) if not test.size]
    if empty or not folds:
        where = f" in fold {empty[0]}" if empty else ""
        raise ValueError(f"cv gives no test round{where}.")
    return folds


def _checked_folds(cv, logs, position, y=None):
    for k, parts in enumerate(_fold_pairs(cv, logs, position, y)):
        try:
            train, test = parts
        except (TypeError, ValueError) as error:
            raise ValueError(
                f"cv must give pairs (train, test), got {parts!r} as fold {k}."
            ) from error
        train, test = _as_rows(train, len(logs)), _as_rows(test, len(logs))
        learned = np.zeros(len(logs), dtype=bool)
        learned[train] = True
        both = test[learned[test]]
        if both.size:
            raise ValueError(
                f"cv puts row {both[0]} into the training and the test part of fold "
                f"{k}. The model would predict a round whose reward it has seen. Use "
                "disjoint parts."
            )
        if position is not None:  # nor may a copy of a test row be learned from
            train = train[~np.isin(position[train], position[test])]
        if not train.size:
            raise ValueError(f"cv leaves no training round in fold {k}.")
        yield train, test


def _as_rows(rows, n_rounds):
    rows = np.asarray(rows)
    if rows.size == 0:
        return np.zeros(0, dtype=np.intp)
    if rows.ndim != 1 or rows.dtype.kind not in "biu":
        raise ValueError(
            "cv must give row numbers or boolean masks, got an array of shape "
            f"{rows.shape} and dtype {rows.dtype}."
        )
    if rows.dtype == bool:
        if len(rows) != n_rounds:
            raise ValueError(
                f"cv gives a mask of {len(rows)} rows, the logs have {n_rounds}."
            )
        return np.flatnonzero(rows)
    outside = np.flatnonzero((rows < 0) | (rows >= n_rounds))
    if outside.size:
        raise ValueError(
            f"cv names row {rows[outside[0]]}, the logs have rows 0 to {n_rounds - 1}."
        )
    return rows


def _is_fold_count(cv):
    whole = isinstance(cv, (int, np.integer)) and not isinstance(cv, bool)
    return cv is None or whole


def _fold_pairs(cv, logs, position, y=None):
    if _is_fold_count(cv):
        fold = numbered_folds(cv, logs, position)
        parts = enumerate(OtherFolds(fold))
        return ((train, np.flatnonzero(fold == k)) for k, train in parts)
    check_cv_kind(cv)
    if hasattr(cv, "split"):
        kind = type(cv)
        of_groups = kind.__module__.startswith("sklearn.") and "Group" in kind.__name__
        if of_groups and logs.group is None:
            raise ValueError(
                f"cv={kind.__name__} needs groups, which the logs do not have. "
                "Build them with group=..., or give another splitter."
            )
        # it warns of groups, which folds in the order of time cannot keep together
        ordered = kind.__name__ == "TimeSeriesSplit"
        groups = None if ordered else logs.group
        y = getattr(logs, "action", None) if y is None else y
        return cv.split(logs, y, groups=groups)
    return cv


def check_cv_kind(cv):
    """Raise where `cv` gives no folds of any rounds."""
    if isinstance(cv, type):
        raise TypeError(f"cv is the class {cv.__name__}; make an instance.")
    if _is_fold_count(cv):
        if cv is not None and cv < 2:
            raise ValueError(f"cv must be at least 2 folds, got {cv}.")
        return
    pairs = isinstance(cv, Iterable) and getattr(cv, "shape", True)  # no number
    if isinstance(cv, str) or not (hasattr(cv, "split") or pairs):
        wanted = "a number of folds, a splitter or pairs (train, test)"
        raise TypeError(f"cv must be {wanted}, got {cv!r}.")


def numbered_folds(cv, logs, position):
    """Return the fold of every row, where all that is said is their number."""
    # `cv`: see `HeldOut`; `position`: see `repeated_positions`.
    check_cv_kind(cv)
    cv = 5 if cv is None else int(cv)
    groups, unit = logs.group_index, "rounds"
    if groups is not None:
        unit = "groups"
    elif position is not None:
        groups = position  # a round drawn twice must stay on one side
    n_units = len(logs) if groups is None else len(np.unique(groups))
    if n_units < 2:
        raise ValueError(
            f"cross-fitting needs at least two {unit} to hold one out, got {n_units} "
            f"{unit}. Pass predictions as an array, a number, or a fitted model as "
            "FrozenEstimator(model)."
        )
    n_splits = min(cv, n_units)
    logger = getattr(logs, "logger_index", None)
    if logger is not None and not n_splits <= np.bincount(logger).max() < len(logs):
        logger = None
    if groups is None and logger is None:  # KFold, which lists the rows of all parts
        sizes = np.full(n_splits, n_units // n_splits)
        sizes[: n_units % n_splits] += 1
        return np.repeat(np.arange(n_splits), sizes)
    from sklearn.model_selection import GroupKFold, StratifiedKFold

    if groups is not None:
        parts = GroupKFold(n_splits).split(logs, groups=groups)
    else:
        parts = StratifiedKFold(n_splits).split(logs, logger)
    fold = np.empty(len(logs), dtype=np.intp)
    with warnings.catch_warnings():  # a logger of few rounds is in some folds only
        warnings.simplefilter("ignore", UserWarning)
        for k, (_, test) in enumerate(parts):
            fold[test] = k
    return fold


# -- folds that follow from the labels of the groups alone -----------------------------


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
