# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Reward models for logs in parts: every round by a model that never saw its fold.

The fold of a round follows from its group, or from its position in the source, so a
part of the log is predicted wherever it is read. Means are exact; other models are
fitted to a random sample of the rounds, or learn partition by partition.
"""

from functools import cached_property, partial
from numbers import Integral, Real

import numpy as np
from sklearn.base import clone

from skope_ope._part_tasks import merge_parts, named, task_count
from skope_ope.logs import SlateLogs
from skope_ope.logs._folds import FULL, HeldOut
from skope_ope.logs._hash_folds import HashKFold
from skope_ope.reward_models._cross_fit import (
    CrossFittedModel,
    FoldModels,
    MeanReward,
)
from skope_ope.reward_models._fold_sums import FoldSums
from skope_ope.reward_models._slate_reward_models import (
    CrossFittedSlateModel,
    FoldSlateModels,
    FrozenSlateModel,
    MeanSlateModel,
    frozen_slate_source,
    given_slate_source,
)
from skope_ope.reward_models._sources import (
    ColumnSource,
    FrozenSource,
    given_source,
    is_source,
    model_and_folds,
)

N_SAMPLE = 2_000_000  # rounds that models are fitted to, unless another number is given


def part_models(
    evaluators,
    reward_model,
    cv,
    lazy,
    *,
    n_sample="auto",
    random_state=0,
    n_jobs=None,
    verbose=0,
):
    """Return what predicts rewards for the partitions of lazy logs.

    Parameters
    ----------
    evaluators : dict
        Evaluators by name. Their own `reward_model` and `cv` come first.
    reward_model : model, number, str, FrozenEstimator or None
        What the others share. `None`: the out-of-fold mean reward per action.
    cv : int, HashKFold, "prefit" or None
        The folds of the shared model; an int is `HashKFold` of so many. `None`: those
        of each evaluator.
    lazy : LazyLogs
        The rounds.
    n_sample : int, None or "auto", default="auto"
        How many rounds, drawn at random, a model is fitted to; the whole log where it
        is not larger. `None`: all rounds, by `partial_fit` partition by partition
        where the model has it, otherwise in memory. "auto": 2,000,000, and all rounds
        where the model has `partial_fit`.
    random_state : int, default=0
        Which rounds are drawn: the same whatever the partitions and `n_jobs`.
    n_jobs : int, default=None
        Tasks at a time, as in scikit-learn.
    verbose : int, default=0
        As in scikit-learn.

    Returns
    -------
    sources : dict
        For every evaluator that uses a model, by its name: what `bind(logs)` (slates:
        `predict(logs, call)`) asks for the rounds of a partition. One object where
        evaluators share it.
    """
    wanted = {
        name: (evaluator, *model_and_folds(evaluator, reward_model, cv))
        for name, evaluator in evaluators.items()
        if evaluator._uses_model
    }
    plans = {
        name: _plan(*about, lazy) for name, about in wanted.items()
    }  # raises before anything is read
    return _Fits(lazy, n_sample, random_state, n_jobs, verbose).sources(plans)
