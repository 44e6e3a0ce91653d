# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Fits of reward models to the folds of lazy logs."""

from functools import cached_property, partial

import numpy as np
from sklearn.base import clone

from skope_ope._part_tasks import merge_parts, task_count
from skope_ope._progress import untold
from skope_ope.logs import SlateLogs
from skope_ope.logs._folds import FULL, HeldOut
from skope_ope.logs.lazy._partitions import read_partitions
from skope_ope.propensities._weighted_fit import weight_parameter
from skope_ope.reward_models._action_reward_model import warn_unweighted
from skope_ope.reward_models._cross_fit import CrossFittedModel, MeanReward
from skope_ope.reward_models._fold_sums import FoldSums, check_folds
from skope_ope.reward_models._learned_models import learned_models
from skope_ope.reward_models._partition_sources import PartModels, PartSlateModels
from skope_ope.reward_models._slate_reward_models import (
    CrossFittedSlateModel,
    MeanSlateModel,
)

N_SAMPLE = 2_000_000  # rounds that models are fitted to, unless another number is given


class Fits:
    """Fits of reward models to partitions; what several need is read once."""

    def __init__(
        self,
        lazy,
        folds,
        n_sample,
        random_state,
        n_jobs=None,
        verbose=0,
        progress=untold,
    ):
        self.lazy, self.folds = lazy, folds
        self.n_sample, self.random_state = n_sample, random_state
        self.engine = {"n_jobs": n_jobs, "verbose": verbose, "progress": progress}

    def of(self, model, cv):
        """Return the source of a model."""
        kind = PartSlateModels if self.lazy._log_type is SlateLogs else PartModels
        if isinstance(model, (MeanReward, MeanSlateModel)):
            found = self._means(model, cv)
        elif self._learns_in_parts(model):
            found = self._learned(model, cv)
        else:
            found = self._fitted(model, cv)
        return kind(model, cv, self.lazy, *found)

    def _learns_in_parts(self, model):
        """Whether a model learns from all rounds, partition by partition."""
        if not hasattr(model, "partial_fit") or isinstance(self.n_sample, int):
            return False
        return self.n_sample is None or self.n_rounds > N_SAMPLE

    @cached_property
    def n_rounds(self):
        """Number of rounds; where no footer tells it, they are counted."""
        n_rounds = self.lazy.n_rounds
        return next(iter(self._sums.values())).n if n_rounds is None else n_rounds

    @cached_property
    def _sums(self):
        """`FoldSums` by folds, from one pass without contexts."""
        folds = {_key(cv): cv for cv in self.folds}
        lazy = self.lazy._needing(context=False, columns=())
        tasks = lazy._tasks(task_count(len(lazy.partitions)))
        total = merge_parts(
            _sums_of_part,
            tasks,
            folds,
            read=read_partitions,
            name="partial sum",
            **self.engine,
        )
        if total is None:
            raise ValueError("the logs are empty: an estimate needs a round.")
        return total

    def _means(self, model, cv):
        sums = self._sums[_key(cv)]
        sums.check(cv)
        if isinstance(model, MeanSlateModel):
            models, of_all = sums.means(MeanReward())
            models = {k: _slate_mean(mean) for k, mean in models.items()}
            of_all = _slate_mean(of_all)
        else:
            if model.by_action:
                sums.warn_of_missing(model)
            models, of_all = sums.means(model)
        return models | {FULL: of_all}, None, sums.n, "all rounds"

    def _learned(self, model, cv):
        sums = self._sums[_key(cv)]
        sums.check(cv)
        sums.warn_of_missing(model)
        if sums.weighted is not None and weight_parameter(model.model) is None:
            warn_unweighted(model)
        models = learned_models(model, cv, self._with_context, **self.engine)
        return models, None, sums.n, "all rounds, by partial_fit"

    def _fitted(self, model, cv):
        sample = self._sample
        fold = cv.fold_of(sample)
        check_folds(np.bincount(fold), cv)
        held_out = HeldOut.of_folds(sample, fold)
        if self.lazy._log_type is SlateLogs:
            progress = self.engine["progress"]
            fitted = CrossFittedSlateModel(model, sample, held_out, progress)
        else:
            engine = {key: self.engine[key] for key in ("n_jobs", "progress")}
            fitted = CrossFittedModel(model, sample, held_out, **engine)
        whole = len(sample) < self._drawn or len(sample) == self.lazy.n_rounds
        way = "all rounds" if whole else "a random sample"
        drawn = len(sample), self.random_state
        of_all = partial(fit_to_sample, model, self._with_context, *drawn)
        return fitted.models_, of_all, len(sample), way

    @property
    def _with_context(self):
        return self.lazy._needing(context=True, columns=())

    @cached_property
    def _sample(self):
        lazy, n_jobs = self._with_context, self.engine["n_jobs"]
        return lazy.sample(self._drawn, random_state=self.random_state, n_jobs=n_jobs)

    @property
    def _drawn(self):
        """How many rounds are asked for; of fewer all are taken."""
        if self.n_sample is None:
            return self.n_rounds + 1
        return N_SAMPLE if self.n_sample == "auto" else self.n_sample


def fit_to_sample(model, lazy, n_sample, random_state):
    """Return a model fitted to rounds that are drawn anew: they are not kept."""
    return clone(model).fit(lazy.sample(n_sample, random_state=random_state))


def _slate_mean(model):
    return MeanSlateModel(float(model.means_[0])).fit(None)


def _key(cv):
    return tuple(sorted(cv.get_params().items()))


class _Several(dict):
    """Sums by name, which add up."""

    def __add__(self, other):
        return _Several({name: one + other[name] for name, one in self.items()})


def _sums_of_part(logs, folds):
    return _Several({name: FoldSums.of(logs, cv) for name, cv in folds.items()})
