# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Splits in which every candidate has its own share of training rounds."""

import numpy as np

from skope_ope._inside import fitted_part
from skope_ope.evaluators.core._wrapped import bare
from skope_ope.selection._candidates import check_evaluator, is_adaptive
from skope_ope.selection._in_order import in_order
from skope_ope.selection._shared_fits import fits_by_model
from skope_ope.selection._validators import common_horizon, validator_for


def own_shares(estimator, scorer, logs, candidates, error_score):
    """Return the share of training rounds of every candidate."""
    learns, known, shares = is_adaptive(scorer.policy), {}, []
    fits = fits_by_model(estimator, logs, candidates)
    for one in candidates:
        share = 0.5
        try:
            candidate, _ = fitted_part(fits[one.key].fit(one.params))
            check_evaluator(candidate)
            horizon = common_horizon(candidate) if learns else None
            if horizon not in known:
                given = logs if logs.propensity is not None else candidate.logs_
                validator, given = bare(scorer.validator, given, tune=True)
                validator = validator_for(given, validator, horizon)
                known[horizon] = _variance(validator.fit(given), scorer.policy)
            own = _variance(candidate, scorer.policy)
            total = own + known[horizon]
            if np.isfinite(total) and total > 0:
                share = own / total
        except Exception:
            if isinstance(error_score, str):
                raise
        shares.append(share)
    return np.array(shares)


def _n_units(logs):
    return len(logs) if logs.group is None else logs.n_groups


def check_units(logs):
    """Raise where there is nothing to split."""
    if _n_units(logs) < 2:
        what = "round" if logs.group is None else "group"
        raise ValueError(f"a split needs two {what}s, the logs have one.")


def n_train_of(share, logs):
    """Return how many rounds, or groups, a share of them is; at least one."""
    n = _n_units(logs)
    return int(np.clip(round(share * n), 1, n - 1))


def shares_of(share, logs, n_splits, seed):
    """Random splits whose training parts hold a share of rounds, or groups."""
    from sklearn.model_selection import GroupShuffleSplit, ShuffleSplit, check_cv

    n = _n_units(logs)
    n_train = n_train_of(share, logs)
    sizes = {"train_size": n_train, "test_size": n - n_train}
    if logs.group is None:
        return in_order(ShuffleSplit(n_splits, random_state=seed, **sizes))
    splitter = in_order(GroupShuffleSplit(n_splits, random_state=seed, **sizes))
    return check_cv(list(splitter.split(logs, groups=logs.group_index)))


def _variance(evaluator, policy):
    return evaluator._result(policy, None, None).standard_error ** 2
