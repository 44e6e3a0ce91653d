# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Rules for the candidate that a search refits: in an order, or the simplest."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

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


# -- the choice of a candidate by its score less one standard error --------------------


def one_standard_error(cv_results: Mapping[Any, Any], metric: str | None = None) -> int:
    r"""Choose by the mean score minus one standard error, for `refit=`.

    Over the scores :math:`s_k` of the K splits of a search the choice maximises

    .. math:: \bar s - \sqrt{\frac{1}{K (K - 1)} \sum_k (s_k - \bar s)^2}.

    Scores of `PolicyScorer` are values. The choice has the greatest value minus one
    standard error, so it is less often best by chance. Scores of `EvaluatorScorer` are
    losses with a minus sign. The choice has the smallest upper bound of its loss [1]_.
    This is not the textbook rule, which takes the simplest model within one standard
    error of the best. A candidate that failed in a split is not chosen.

    Parameters
    ----------
    cv_results : dict
        `cv_results_` of a search.
    metric : str, default=None
        Name of the score, if a search has several: pass
        ``refit=functools.partial(one_standard_error, metric="...")``.

    Returns
    -------
    best_index : int
        Index of the chosen candidate; if several tie, the first one.

    Raises
    ------
    ValueError
        If every candidate failed, or `metric` is needed or unknown.

    Notes
    -----
    `cv_results_["std_test_score"]` divides by K, not by K - 1: it is too small by
    :math:`\sqrt{(K - 1) / K}`, and is not used.

    With a callable `refit`, scikit-learn's searches have no `best_score_`: it is
    ``cv_results_["mean_test_score"][best_index_]``.

    References
    ----------
    .. [1] Cief, M., Kveton, B., & Kompan, M. (2025). Cross-validated off-policy
       evaluation. AAAI.

    Examples
    --------
    >>> import numpy as np
    >>> from skope_ope import one_standard_error
    >>> results = {"split0_test_score": np.array([-0.0, -0.2]),
    ...            "split1_test_score": np.array([-0.4, -0.2])}
    >>> one_standard_error(results)
    1
    """
    losses = split_losses(cv_results, metric)
    bound = upper_bounds(losses)
    best = int(np.argmin(bound))
    if not np.isfinite(bound[best]):
        split = int(np.flatnonzero(~np.isfinite(losses[:, 0]))[0])
        first = cv_results["params"][0] if "params" in cv_results else "the first"
        raise ValueError(
            f"all {len(bound)} candidates failed in some split, so none can be "
            f"chosen: the score of {first} in split {split} is "
            f"{-losses[split, 0]:.4g}. The warnings of the search say why a score is "
            "NaN (OPESearchCV repeats the first of them here), and "
            "error_score='raise' shows errors."
        )
    return best


def split_losses(cv_results, metric=None):
    """Return minus the scores of every split, shape (n_splits, n_candidates)."""
    names = sorted(
        key.removeprefix("split0_test_")
        for key in cv_results
        if key.startswith("split0_test_")
    )
    if metric is None and len(names) == 1:
        [metric] = names
    if metric not in names:
        raise ValueError(
            f"the search has the scores {names}, not metric={metric!r}. Name the "
            "score to choose by: refit=functools.partial(one_standard_error, "
            "metric=...)."
        )
    columns = []
    while f"split{len(columns)}_test_{metric}" in cv_results:
        column = cv_results[f"split{len(columns)}_test_{metric}"]
        columns.append(-np.asarray(column, dtype=float))
    return np.stack(columns)


def upper_bounds(losses):
    """Mean plus one standard error of the losses; infinite where one is missing."""
    n_splits = len(losses)
    failed = ~np.isfinite(losses).all(axis=0)
    losses = np.where(failed, 0.0, losses)
    bound = losses.mean(axis=0)
    if n_splits > 1:
        bound = bound + losses.std(axis=0, ddof=1) / np.sqrt(n_splits)
    return np.where(failed, np.inf, bound)
