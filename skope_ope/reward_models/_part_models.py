# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Reward models for logs in parts: every round by a model that never saw its fold.

The fold of a round follows from its group, or from its position in the source, so a
part of the log is predicted wherever it is read. Means are exact; other models are
fitted to a random sample of the rounds, or learn partition by partition.
"""

from copy import copy
from numbers import Integral, Real

from sklearn.utils import check_random_state

from skope_ope._meant import meant
from skope_ope._progress import untold
from skope_ope.logs import BanditLogs, SlateLogs
from skope_ope.logs._folds import HashKFold
from skope_ope.reward_models._part_fits import Fits, key_of_folds
from skope_ope.reward_models._slate_reward_models import (
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
