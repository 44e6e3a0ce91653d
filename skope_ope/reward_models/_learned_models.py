# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Models of the folds of a log that learn partition by partition."""

import numpy as np
from joblib import effective_n_jobs
from sklearn.base import clone

from skope_ope._part_tasks import merge_parts, named
from skope_ope._progress import untold
from skope_ope.logs._folds import FULL


def learned_models(model, cv, lazy, n_jobs=None, progress=untold, **engine):
    """Return a model for every fold, and that of all rounds, by fold."""
    # They learn from the partitions in their order. Workers share out the models, and
    # each reads the log once.
    folds = [*range(cv.n_splits), FULL]
    workers = min(effective_n_jobs(n_jobs), len(folds))
    tasks = [(_Folds(folds[first::workers]),) for first in range(workers)]
    inside, engine["progress"] = untold, progress
    if workers == 1:
        inside, engine["progress"] = progress, untold
    given = model, cv, lazy, inside
    found = merge_parts(
        _learned, tasks, given, n_jobs=n_jobs, name="share of reward model", **engine
    )
    return {fold: found[fold] for fold in folds}


class _Folds:
    """The folds whose models a worker teaches."""

    def __init__(self, folds):
        self.folds = folds
        numbers = ", ".join(str(fold) for fold in folds if fold != FULL)
        self.name = f"the reward models of the folds {numbers}"


class _Models(dict):
    """Models by fold, which add up."""

    def __add__(self, other):
        return _Models(self | other)


def _learned(part, given):
    """Return the models of some folds."""
    model, cv, lazy, progress = given
    models = _Models({fold: clone(model) for fold in part.folds})
    parts = progress(lazy.read(), len(lazy.partitions), "partition")
    for partition, logs in parts:
        if logs is None:
            continue
        try:
            fold = cv.fold_of(logs)
            for k, one in models.items():
                rows = None if k == FULL else np.flatnonzero(fold != k)
                if rows is None or rows.size:
                    one._partial_fit_rows(logs, rows)
        except Exception as error:  # the user learns where, whatever it was
            raise named(error, partition.name) from error
    return models
