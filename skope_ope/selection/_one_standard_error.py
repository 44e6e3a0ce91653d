# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""The choice of a candidate by an upper bound on its error."""

import numpy as np


def one_standard_error(cv_results, metric=None):
    r"""Choose the candidate whose error is least by an upper bound, for `refit=`.

    Over the K splits of a search, with losses :math:`l_k` (minus the scores), the
    choice minimises [1]_

    .. math:: \bar l + s / \sqrt K, \qquad
        s^2 = \frac{1}{K - 1} \sum_k (l_k - \bar l)^2.

    (Not the textbook's rule that prefers the simplest model within one standard
    error.) A candidate that failed in a split is not chosen.

    Parameters
    ----------
    cv_results : dict
        `cv_results_` of a search.
    metric : str, default=None
        Which score, where a search has several: pass
        ``refit=functools.partial(one_standard_error, metric="...")``.

    Returns
    -------
    best_index : int
        The first one, where several tie.

    Raises
    ------
    ValueError
        If every candidate failed, or `metric` is needed or unknown.

    Notes
    -----
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
    bound = upper_bounds(split_losses(cv_results, metric))
    best = int(np.argmin(bound))
    if not np.isfinite(bound[best]):
        raise ValueError(
            f"all {len(bound)} candidates failed in some split: none has an error. "
            "Pass error_score='raise' to the search to see why."
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
            f"the search has the scores {names}, not metric={metric!r}. Say which one "
            "chooses: refit=functools.partial(one_standard_error, metric=...)."
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
