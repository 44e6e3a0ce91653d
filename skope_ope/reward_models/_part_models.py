# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Reward models for logs in parts: every round by a model that never saw its fold.

The fold of a round follows from its group, or from its position in the source, so a
part of the log is predicted wherever it is read. Means are exact; other models are
fitted to a random sample of the rounds, or learn partition by partition.
"""

from copy import copy
from functools import cached_property, partial
from numbers import Integral, Real

import numpy as np
from joblib import effective_n_jobs
from sklearn.base import clone
from sklearn.utils import check_random_state

from skope_ope._parallel import merge_parts, named, task_count
from skope_ope._progress import untold
from skope_ope._texts import meant
from skope_ope.logs import BanditLogs, SlateLogs
from skope_ope.logs._folds import FULL, HashKFold, HeldOut, sums_of_others
from skope_ope.logs._validation import column_weights
from skope_ope.logs.lazy._partitions import read_partitions
from skope_ope.propensities._model_fits import weight_parameter
from skope_ope.reward_models._action_reward_model import warn_unweighted
from skope_ope.reward_models._cross_fit import (
    CrossFittedModel,
    FoldModels,
    MeanReward,
    summands,
    warn_of_missing,
)
from skope_ope.reward_models._slate_reward_models import (
    CrossFittedSlateModel,
    FoldSlateModels,
    MeanSlateModel,
    frozen_slate_source,
    given_slate_source,
)
from skope_ope.reward_models._sources import (
    ColumnSource,
    frozen_source,
    given_source,
    is_source,
    model_and_folds,
)


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
    progress=untold,
):
    """Return what predicts rewards for the partitions of lazy logs."""
    n_sample = _checked_sample(n_sample)
    if isinstance(lazy, BanditLogs | SlateLogs):
        if n_sample == "auto":
            n_sample = max(len(lazy), 2)
        lazy = _MemoryLogs(lazy)
    if not isinstance(random_state, Integral):
        random_state = check_random_state(random_state).randint(2**31 - 1)
    plans = {  # they raise before anything is read
        name: _ModelPlan(evaluator, *model_and_folds(evaluator, reward_model, cv), lazy)
        for name, evaluator in evaluators.items()
        if evaluator.requires.model
    }
    to_fit = [name for name, plan in plans.items() if plan.given is None]
    if to_fit and lazy.partitions is None:
        raise TypeError(
            f"{type(evaluators[to_fit[0]]).__name__} needs a reward model, which "
            "cannot be fitted to a lazy frame: a lazy frame gives sums, not rounds. "
            "Pass the name of a column of predictions as reward_model, or write the "
            "frame as parquet files and scan these."
        )
    folds = [plan.cv for plan in plans.values() if plan.cv is not None]
    engine = {"n_jobs": n_jobs, "verbose": verbose, "progress": progress}
    fits = Fits(lazy, folds, n_sample, random_state, **engine)
    found = {}
    for plan in plans.values():  # like plans share one
        if plan.key not in found:
            fitted = plan.given is None
            found[plan.key] = fits.of(plan.model, plan.cv) if fitted else plan.given
    return {name: found[plan.key] for name, plan in plans.items()}


class _MemoryLogs:
    """Logs in memory as lazy logs of one partition, as far as models ask."""

    name = "the logs in memory"
    frame = None

    def __init__(self, logs):
        self._logs, self._log_type = logs, type(logs)
        self.n_rounds, self.columns = len(logs), logs.columns
        self.partitions = (self,)
        self.roles = {} if logs.group is None else {"group": ("group",)}

    @property
    def _origin(self):
        """Token of the rows."""
        return self._logs.row_id.origin

    def read(self):
        """Yield the one partition and all rounds."""
        yield self, self._logs

    def logs(self, reader):
        """Return all rounds, as a partition does."""
        return self._logs

    def _needing(self, context=True, columns=None):
        """Return self: all of it is in memory."""
        return self

    def _tasks(self, n_tasks):
        """Return the one partition as a task."""
        return [self.partitions]

    def sample(self, n, random_state=None, n_jobs=None):
        """Return some rounds, or all."""
        if n >= self.n_rounds:
            return self._logs
        rng = check_random_state(random_state)
        return self._logs[rng.permutation(self.n_rounds)[:n]]


def source_on(source, lazy):
    """Return what predicts the rounds of other lazy logs than those of fit."""
    if hasattr(source, "on"):
        return source.on(lazy)
    if hasattr(source, "held_out_"):
        slates = lazy._log_type is SlateLogs
        model = "AdditiveSlateModel" if slates else "ActionRewardModel"
        raise ValueError(
            "the reward model was fitted to logs in memory, whose rounds cannot be "
            "recognised in a log in parts. Fit the evaluator on lazy logs, or pass a "
            "model that was fitted to other rounds: "
            f"FrozenEstimator({model}(regressor).fit(logs))."
        )
    return source


def hash_folds(cv):
    """Return the folds of a log in parts."""
    if isinstance(cv, HashKFold):
        return cv
    if cv is None:
        return HashKFold()
    if isinstance(cv, Integral) and not isinstance(cv, bool):
        folds = HashKFold(int(cv))
        folds._validate_params()
        return folds
    raise TypeError(
        "a log in parts can only be split by HashKFold; other splitters need all "
        f"rounds at once. Pass cv=HashKFold(5) or a number of folds, got {cv!r}."
    )


def _checked_sample(n_sample):
    if n_sample is None or (isinstance(n_sample, str) and n_sample == "auto"):
        return n_sample
    if isinstance(n_sample, Real) and float(n_sample).is_integer() and n_sample >= 2:
        return int(n_sample)
    raise ValueError(
        "n_sample must be a number of rounds of at least 2, None for all of them, or "
        f"'auto', got {n_sample!r}."
    )


class _ModelPlan:
    """What stands for the reward model of an evaluator: a source, or a fit."""

    def __init__(self, evaluator, model, cv, lazy):
        self.given = self.model = self.cv = None
        slates = lazy._log_type is SlateLogs
        if is_source(model):
            self.given = model
        elif slates:
            self.given = given_slate_source(model, evaluator._fittable)
        else:
            self.given = given_source(model, None)
        if isinstance(self.given, ColumnSource):
            check_model_column(self.given.name, lazy)
        self.key = id(model), type(self.given)  # what predicts the same
        if self.given is not None:
            return
        if isinstance(cv, str):
            if slates:
                self.given = frozen_slate_source(model, cv, evaluator._fittable)
            else:
                self.given = frozen_source(model, cv)
            self.key = id(self.given)
            return
        self.model, self.cv = evaluator._fittable(model), hash_folds(cv)
        by_action = getattr(self.model, "by_action", None)
        self.key = id(model), type(self.model), by_action, key_of_folds(self.cv)
        one = copy(evaluator)
        one.reward_model_ = self  # it says as much of the model as what is fitted
        reason = one._unstated_model()
        if reason:
            raise ValueError(
                f"{type(evaluator).__name__} cannot be summed over parts of a log: "
                f"{reason}"
            )


def check_model_column(name, lazy):
    """Raise where the lazy logs read no column of this name."""
    if name not in lazy.columns:
        raise ValueError(
            f"reward_model {name!r} is not a column of the logs (they have "
            f"{sorted(lazy.columns)}).{meant(name, lazy.columns)} Name it in "
            f"scan_logs(..., columns={{{name!r}: [...]}}), with one column of "
            "the files per action."
        )


N_SAMPLE = 2_000_000  # rounds that models are fitted to, unless another number is given


class Fits:
    """Fits of reward models to partitions; what several need is read once."""

    def __init__(self, lazy, folds, n_sample, random_state, **engine):
        self.lazy, self.folds = lazy, folds
        self.n_sample, self.random_state = n_sample, random_state
        self.engine = engine  # n_jobs, verbose, progress

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
        folds = {key_of_folds(cv): cv for cv in self.folds}
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

    def _checked_sums(self, cv):
        sums = self._sums[key_of_folds(cv)]
        check_folds(sums.counts.sum(axis=1), cv)
        return sums

    def _means(self, model, cv):
        sums = self._checked_sums(cv)
        if isinstance(model, MeanSlateModel):
            means = sums.means(MeanReward())
            numbers = {fold: float(mean.means_[0]) for fold, mean in means.items()}
            models = {fold: MeanSlateModel(q).fit(None) for fold, q in numbers.items()}
        else:
            if model.by_action:
                sums.warn_of_missing(model)
            models = sums.means(model)
        return models, None, sums.n, "all rounds"

    def _learned(self, model, cv):
        sums = self._checked_sums(cv)
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


def key_of_folds(cv):
    """Return what equal folds have in common."""
    return tuple(sorted(cv.get_params().items()))


class _Several(dict):
    """Sums by name, which add up."""

    def __add__(self, other):
        return _Several({name: one + other[name] for name, one in self.items()})


def _sums_of_part(logs, folds):
    return _Several({name: FoldSums.of(logs, cv) for name, cv in folds.items()})


# -- sums of rewards by fold and action, which parts of a log add up -------------------


class FoldSums:
    """What the means of all folds need, of a part of a log or of all of it."""

    def __init__(self, actions, counts, plain, weighted=None):
        self.actions, self.counts = actions, counts
        self.plain, self.weighted = plain, weighted

    @classmethod
    def of(cls, logs, cv):
        """Return the sums of some rounds."""
        if isinstance(logs, SlateLogs):
            actions, codes = np.zeros(1, dtype=int), 0
            weight = column_weights(logs, of_part=True)
        else:
            actions, codes = logs.actions, logs.action_index
            weight = logs.sample_weight
        shape = cv.n_splits, len(actions)
        cells = cv.fold_of(logs) * shape[1] + codes

        def sums(values=None):
            return np.bincount(cells, values, shape[0] * shape[1]).reshape(shape)

        weighted = None
        if weight is not None:
            weighted = tuple(map(sums, summands(logs.reward, weight)))
        return cls(actions, sums(), sums(logs.reward), weighted)

    def __add__(self, other):
        """Return the sums of both parts."""
        if not isinstance(other, FoldSums):
            return NotImplemented
        if not np.array_equal(self.actions, other.actions):
            raise ValueError(
                f"parts have other actions: {self.actions.tolist()[:8]} and "
                f"{other.actions.tolist()[:8]}."
            )
        weighted = None
        if self.weighted is not None or other.weighted is not None:
            pairs = zip(self._masses, other._masses, strict=True)
            weighted = tuple(one + more for one, more in pairs)
        counts, plain = self.counts + other.counts, self.plain + other.plain
        return FoldSums(self.actions, counts, plain, weighted)

    @property
    def _masses(self):
        if self.weighted is not None:
            return self.weighted
        return self.plain, self.counts.astype(float)

    @property
    def n(self):
        """Number of rounds."""
        return int(self.counts.sum())

    def warn_of_missing(self, model):
        """Warn of actions that the model of a fold does not see."""
        counts, logged = sums_of_others(self.counts), self.counts.sum(axis=0)
        warn_of_missing(self.actions, counts, logged, model)

    def means(self, model):
        """Return the mean rewards of the others of every fold, and of all, by fold."""
        masses, plain = (
            [np.vstack([sums_of_others(one), one.sum(axis=0)]) for one in cells]
            for cells in (self._masses, (self.plain, self.counts))
        )
        models = model.of_sums(self.actions, masses, plain)
        return dict(zip([*range(len(models) - 1), FULL], models, strict=True))


def check_folds(sizes, cv):
    """Raise where one fold has all rounds; others may be empty, as of few groups."""
    if np.count_nonzero(sizes) < 2:
        raise ValueError(
            f"all {int(sizes.sum())} rounds are in one fold of {cv!r}: they have too "
            "few groups. Use another random_state of HashKFold. Or pass as "
            "reward_model the name of a column of predictions, a number, or a model "
            "that was fitted to other rounds, FrozenEstimator(model)."
        )


# -- models of the folds of a log that learn partition by partition --------------------


def learned_models(model, cv, lazy, n_jobs=None, progress=untold, **engine):
    """Return a model for every fold, and that of all rounds, by fold."""
    # They learn from the partitions in their order. Workers share out the models, and
    # each reads the log once.
    folds = [*range(cv.n_splits), FULL]
    workers = min(effective_n_jobs(n_jobs), len(folds))
    tasks = [(_Folds(folds[first::workers]),) for first in range(workers)]
    one = workers == 1
    inside, engine["progress"] = (progress, untold) if one else (untold, progress)
    given = model, cv, lazy, inside
    found = merge_parts(
        _learn_some, tasks, given, n_jobs=n_jobs, name="share of reward model", **engine
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


def _learn_some(part, given):
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


# -- models of the folds of lazy logs, on any of their partitions, in any process ------


class _OnPartitions:
    """Models of the folds of lazy logs, on any partition of these logs."""

    n_uncovered_ = 0  # every round is in a fold
    _common = None  # rounds of fit that other logs have, too

    def __init__(self, model, cv, lazy, models, of_all, model_rounds, way):
        self.model, self.cv, self.lazy = model, cv, lazy
        self.models_, self._fit_all = models, of_all
        self.model_rounds, self.way = model_rounds, way

    @property
    def facts(self):
        """What the diagnostics of a value say of the model."""
        return {"model_rounds": self.model_rounds, "model_fitted_to": self.way}

    def _folds(self, logs):
        if logs._origin == self.lazy._origin:
            return self._fold_of(logs)
        fold = np.full(len(logs), FULL)
        if self._common is None:
            return fold
        position = self._common.positions(logs)
        seen = np.flatnonzero(position >= 0)
        if seen.size:
            fold[seen] = self._fold_of(logs[seen], position[seen])
        return fold

    def _fold_of(self, logs, position=None):
        """Return the folds of rounds of fit: as they were shared out there."""
        if self.lazy.roles.get("group") is not None:
            if logs.group is None:
                raise self._of_other_groups(None)
            return self.cv.fold_of(logs)
        if position is None and logs.group is not None:
            position = logs.row_id.position  # those groups were not known in fit
        return self.cv.fold_of(logs, position)

    def _of_other_groups(self, group):
        own, other = (
            "no group" if one is None else f"group={_spelled_columns(one)}"
            for one in (self.lazy.roles["group"], group)
        )
        return ValueError(
            f"the reward model holds out rounds of fit by {own}, but these logs, which "
            f"share rounds with fit, have {other}. So these rounds cannot be predicted "
            f"out of fold. Scan these logs with {own}, too, or fit to logs that were "
            "scanned in the same way."
        )

    def on(self, lazy):
        """Return what predicts the rounds of other lazy logs."""
        # By the model of all rounds, but for partitions that are in the logs of fit,
        # too. It is fitted here, before this travels to workers, where it is needed.
        group, own = lazy.roles.get("group"), self.lazy.roles.get("group")
        others = own is not None and group != own
        if lazy._origin == self.lazy._origin:
            if others:
                raise self._of_other_groups(group)
            return self
        other = copy(self)
        common = CommonPartitions(lazy, self.lazy)
        if others and common.n_common:
            raise self._of_other_groups(group)
        other.models_ = dict(self.models_) if common.n_common else {}
        if common.n_common < len(lazy.partitions):
            other.models_[FULL] = self._of_all
        other._common = common
        return other

    @cached_property
    def _of_all(self):
        """The model of all rounds of the sample, fitted when other logs first ask."""
        if FULL in self.models_:
            return self.models_[FULL]
        try:
            return self._fit_all()
        except OSError as error:
            error.add_note(
                "The reward model of all rounds of fit is fitted to the files of fit "
                "when you first evaluate on other logs. This model does not need the "
                "files later: "
                "FrozenEstimator(ActionRewardModel(model).fit(lazy.sample(1_000_000)))."
            )
            raise


class PartModels(_OnPartitions, FoldModels):
    """Models of actions for partitions, see `part_models`."""


class PartSlateModels(_OnPartitions, FoldSlateModels):
    """Models of slates for partitions, see `part_models`."""


def _spelled_columns(names):
    return repr(names[0] if len(names) == 1 else list(names))


# -- rounds of a lazy log that another lazy log holds, too: the same file and row group
# Fitted to a month and asked about one of its days, a model must not predict rounds
# that it has seen.


class CommonPartitions:
    """Where the rounds of some lazy logs lie in others."""

    def __init__(self, lazy, known):
        self.origin = lazy._origin
        starts = {part.key: part.start for part in known.partitions}
        common = [part.key in starts for part in lazy.partitions]
        self.n_common = sum(common)
        if not self.n_common:
            return
        ends = []
        for part, is_common in zip(lazy.partitions, common, strict=True):
            there = starts.get(part.key)
            if part.start is None or (is_common and there is None):
                raise ValueError(
                    f"{lazy.partitions[common.index(True)].name} was also in the logs "
                    "of fit, but the numbers of its rounds are unknown before the "
                    "files are read. So they cannot be predicted out of fold. Evaluate "
                    "on the logs of fit, on other files, or on parquet files."
                )
            ends.append((part.start, there if is_common else -1))
        self._starts, self._there = np.array(ends).T

    def positions(self, logs):
        """Return the position in the known logs of every row of logs; -1: none."""
        position = logs.row_id.position
        if logs._origin != self.origin or not self.n_common:
            return np.full(len(position), -1)
        part = np.searchsorted(self._starts, position, side="right") - 1
        there = self._there[part]
        return np.where(there < 0, -1, there + position - self._starts[part])
