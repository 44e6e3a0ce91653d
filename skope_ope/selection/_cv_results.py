# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""The table of results of a search, in the form of scikit-learn's searches."""

import warnings
from numbers import Integral

import numpy as np
from scipy.stats import rankdata
from sklearn.exceptions import FitFailedWarning

from skope_ope.exceptions import OPEWarning


def cv_results(params, outcomes):
    """Return `cv_results_`."""
    results = {}
    for name in ("fit_time", "score_time"):
        seconds = np.array([[getattr(o, name) for o in row] for row in outcomes])
        results[f"mean_{name}"] = seconds.mean(axis=1)
        results[f"std_{name}"] = seconds.std(axis=1)
    results |= {**param_columns(params), "params": params}
    scores = np.array([[o.score for o in row] for row in outcomes])
    for split, column in enumerate(scores.T):
        results[f"split{split}_test_score"] = column.copy()
    with np.errstate(invalid="ignore"):  # an infinite error_score has no deviation
        results["mean_test_score"] = scores.mean(axis=1)
        results["std_test_score"] = scores.std(axis=1)
    results["rank_test_score"] = ranks(results["mean_test_score"])
    return results


def param_columns(params):
    """Return the masked columns `param_<name>` of a list of parameters."""
    columns = {}
    for name in sorted({name for one in params for name in one}):
        known = [k for k, one in enumerate(params) if name in one]
        values = [params[k][name] for k in known]
        column = np.ma.masked_all(len(params), dtype=_kind_of(values, len(params)))
        for k, value in zip(known, values, strict=True):
            column[k] = value
        columns[f"param_{name}"] = column
    return columns


def _kind_of(values, n_candidates):
    numbers = all(isinstance(value, (bool, int, float, np.number)) for value in values)
    if not numbers or len(values) < n_candidates:
        return object
    return np.array(values).dtype


def ranks(scores):
    """Rank scores, 1 for the greatest; those that are NaN come last, together."""
    worst = np.min(scores, where=~np.isnan(scores), initial=np.inf)
    worst = worst - 1 if np.isfinite(worst) else -np.inf
    filled = np.where(np.isnan(scores), worst, scores)
    return rankdata(-filled, method="min").astype(np.int32)


def chosen(refit, results):
    """Return the index of the best candidate, by rank or as a callable says."""
    if not callable(refit):
        return int(results["rank_test_score"].argmin())
    best = refit(results)
    if not isinstance(best, Integral):
        raise TypeError(
            f"refit must return the index of a candidate, got {type(best).__name__}."
        )
    if not 0 <= best < len(results["params"]):
        raise IndexError(
            f"refit must return the index of one of {len(results['params'])} "
            f"candidates, got {best}."
        )
    return int(best)


def check_any_score(results, outcomes):
    """Raise where no candidate has a score in all splits."""
    if np.isfinite(results["mean_test_score"]).any():
        return
    params, (split, first) = next(
        (params, found)
        for params, row in zip(results["params"], outcomes, strict=True)
        for found in enumerate(row)
        if not np.isfinite(found[1].score)
    )
    raise ValueError(
        f"none of {len(outcomes)} candidates has a score in all "
        f"{len(outcomes[0])} splits: there is nothing to choose from. The first "
        f"reason, of {params} in split {split}: {first.reason}"
    )


def report_failures(outcomes, error_score):
    """Warn of fits and scores that failed; raise where no candidate was fitted."""
    every = [one for row in outcomes for one in row]
    failed = [one.fit_error for one in every if one.fit_error]
    if failed:
        most = max(set(failed), key=failed.count)
        told = f"{len(failed)} fits failed out of a total of {len(every)}"
        if len(failed) == len(every):
            raise ValueError(
                f"all {told}: the candidates are misconfigured. Pass "
                f"error_score='raise' to stop at the first. The most frequent "
                f"error:\n{most}"
            )
        warnings.warn(
            FitFailedWarning(
                f"{told}; the score of these is {error_score}. The most frequent "
                f"error:\n{most}"
            ),
            stacklevel=4,
        )
    failed = [one.score_error for one in every if one.score_error]
    if failed:
        warnings.warn(
            OPEWarning(
                f"{len(failed)} of {len(every)} scores failed and are {error_score}. "
                f"The most frequent error:\n{max(set(failed), key=failed.count)}",
                len(failed),
            ),
            stacklevel=4,
        )
