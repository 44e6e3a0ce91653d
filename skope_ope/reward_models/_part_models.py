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

from skope_ope._part_tasks import merge_parts, task_count
from skope_ope.logs import SlateLogs
from skope_ope.logs._folds import FULL, HeldOut
from skope_ope.logs._hash_folds import HashKFold
from skope_ope.propensities._weighted_fit import weight_parameter
from skope_ope.reward_models._action_reward_model import warn_unweighted
from skope_ope.reward_models._cross_fit import (
    CrossFittedModel,
    FoldModels,
    MeanReward,
)
from skope_ope.reward_models._fold_sums import FoldSums
from skope_ope.reward_models._learned_models import learned_models
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
    if lazy.partitions is None:
        raise TypeError(
            "a lazy frame gives sums, no rounds that a reward model could learn from "
            "or predict. Pass the name of a column of predictions as reward_model, or "
            "write the frame as parquet files and scan these."
        )
    n_sample = _checked_sample(n_sample)
    plans = {  # they raise before anything is read
        name: _Plan(evaluator, *model_and_folds(evaluator, reward_model, cv), lazy)
        for name, evaluator in evaluators.items()
        if evaluator._uses_model
    }
    return _sources(list(plans.items()), Fits(lazy, n_sample, random_state, n_jobs))


def source_on(source, lazy):
    """Return what predicts the rounds of other lazy logs than those of fit.

    Parameters
    ----------
    source : source
        Of `part_models`, or of a fit to logs in memory.
    lazy : LazyLogs
        The rounds that are to be predicted.
    """
    if hasattr(source, "on"):
        return source.on(lazy)
    if hasattr(source, "held_out_"):
        raise ValueError(
            "the reward model was fitted to logs in memory, whose rounds could not be "
            "known again in a log in parts. Fit the evaluator on lazy logs, or pass a "
            "model of other rounds as FrozenEstimator(ActionRewardModel(model)"
            ".fit(logs))."
        )
    return source


def hash_folds(cv):
    """Return the folds of a log in parts.

    Parameters
    ----------
    cv : int, HashKFold or None
        `None` is 5.

    Raises
    ------
    TypeError
        For folds that follow from all rounds.
    """
    if isinstance(cv, HashKFold):
        return cv
    if cv is None:
        return HashKFold()
    if isinstance(cv, Integral) and not isinstance(cv, bool):
        folds = HashKFold(int(cv))
        folds._validate_params()
        return folds
    raise TypeError(
        "the rounds of a log in parts are shared out to folds by HashKFold, one by one "
        "or by their group; others need all rounds at once. Pass cv=HashKFold(5) or a "
        f"number of folds, got {cv!r}."
    )


def _checked_sample(n_sample):
    if n_sample is None or (isinstance(n_sample, str) and n_sample == "auto"):
        return n_sample
    if isinstance(n_sample, Real) and n_sample == int(n_sample) and n_sample >= 2:
        return int(n_sample)
    raise ValueError(
        "n_sample must be a number of rounds of at least 2, None for all of them, or "
        f"'auto', got {n_sample!r}."
    )


class _Plan:
    """What stands for the reward model of an evaluator: a source, or a fit.

    Parameters
    ----------
    evaluator : evaluator
        What uses it.
    model, cv : object
        Its reward model and folds.
    lazy : LazyLogs
        The rounds.
    """

    def __init__(self, evaluator, model, cv, lazy):
        self.given = self.model = self.cv = None
        slates = lazy.log_type is SlateLogs
        if is_source(model):
            self.given = model
        elif slates:
            self.given = given_slate_source(model, evaluator._fittable)
        else:
            self.given = given_source(model, None)
        if isinstance(self.given, ColumnSource):
            _check_column(self.given.name, lazy)
        if self.given is not None:
            return
        if isinstance(cv, str):
            if slates:
                self.given = frozen_slate_source(model, cv, evaluator._fittable)
            else:
                self.given = frozen_source(model, cv)
            return
        self.model, self.cv = evaluator._fittable(model), hash_folds(cv)
        self._of = model

    def is_like(self, other):
        """Tell whether another plan makes the same fits."""
        return (
            self._of is other._of
            and type(self.model) is type(other.model)
            and getattr(self.model, "by_action", None)
            == getattr(other.model, "by_action", None)
            and self.cv.get_params() == other.cv.get_params()
        )


def _check_column(name, lazy):
    """Raise where the lazy logs read no column of this name."""
    if name not in lazy.columns:
        raise ValueError(
            f"reward_model {name!r} is not a column of the logs (they have "
            f"{sorted(lazy.columns)}). Name it in scan_logs(..., columns={{{name!r}: "
            "[...]}), with one column of the files per action."
        )


def _sources(plans, fits):
    """Return the sources by name; like plans share one."""
    sources, done = {}, []
    fits.folds = [plan.cv for _, plan in plans if plan.cv is not None]
    for name, plan in plans:
        source = plan.given
        if source is None:
            source = next((s for known, s in done if known.is_like(plan)), None)
        if source is None:
            source = fits.of(plan.model, plan.cv)
            done.append((plan, source))
        sources[name] = source
    return sources


class Fits:
    """Fits of reward models to partitions; what several need is read once.

    Parameters
    ----------
    lazy : LazyLogs
        The rounds.
    n_sample : int, None or "auto"
        See `part_models`.
    random_state : int
        Which rounds are drawn.
    n_jobs : int or None
        Tasks at a time.
    """

    folds = ()  # all that will be asked for, so that one pass sums for all

    def __init__(self, lazy, n_sample="auto", random_state=0, n_jobs=None):
        self.lazy, self.n_sample = lazy, n_sample
        self.random_state, self.n_jobs = random_state, n_jobs

    def of(self, model, cv):
        """Return the source of a model.

        Parameters
        ----------
        model : MeanReward, ActionRewardModel or slate model
            What is fitted.
        cv : HashKFold
            The folds.
        """
        kind = PartSlateModels if self.lazy.log_type is SlateLogs else PartModels
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
        lazy = self.lazy.needing(context=False, columns=())
        tasks = lazy.tasks(task_count(len(lazy.partitions)))
        total = merge_parts(_sums_of_part, tasks, folds, n_jobs=self.n_jobs)
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
        models = learned_models(model, cv, self._with_context, self.n_jobs)
        return models, None, sums.n, "all rounds, by partial_fit"

    def _fitted(self, model, cv):
        sample = self._sample
        fold = cv.fold_of(sample)
        cv._check_sizes(np.bincount(fold, minlength=cv.n_splits))
        held_out = HeldOut.of_folds(sample, fold)
        if self.lazy.log_type is SlateLogs:
            fitted = CrossFittedSlateModel(model, sample, held_out)
        else:
            fitted = CrossFittedModel(model, sample, held_out, n_jobs=self.n_jobs)
        whole = len(sample) == self.n_rounds
        way = "all rounds" if whole else "a random sample"
        drawn = len(sample), self.random_state
        of_all = partial(fit_to_sample, model, self._with_context, *drawn)
        return fitted.models_, of_all, len(sample), way

    @property
    def _with_context(self):
        return self.lazy.needing(context=True, columns=())

    @cached_property
    def _sample(self):
        n = N_SAMPLE if self.n_sample == "auto" else self.n_sample
        n = self.n_rounds if n is None else min(n, self.n_rounds)
        return self._with_context.sample(n, random_state=self.random_state)


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


def _sums_of_part(part, folds):
    logs = part.read()
    if logs is None:
        return None
    return _Several({name: FoldSums.of(logs, cv) for name, cv in folds.items()})


class _OnPartitions:
    """Models of the folds of lazy logs, on any partition of these logs.

    Parameters
    ----------
    model : model
        What was fitted.
    cv : HashKFold
        The folds.
    lazy : LazyLogs
        The rounds of fit.
    models : dict
        The fitted models by fold, perhaps that of all rounds among them.
    of_all : callable or None
        Fits the one of all rounds, where it is not among them.
    model_rounds : int
        Rounds that they were fitted to, of all folds.
    way : str
        How.
    """

    n_uncovered_ = 0  # every round is in a fold

    def __init__(self, model, cv, lazy, models, of_all, model_rounds, way):
        self.model, self.cv, self.lazy = model, cv, lazy
        self.models_, self._fit_all = models, of_all
        self.model_rounds, self.way = model_rounds, way

    @property
    def facts(self):
        """What the diagnostics of a value say of the model."""
        return {"model_rounds": self.model_rounds, "model_fitted_to": self.way}

    def _folds(self, logs):
        if logs._origin != self.lazy.origin:
            return np.full(len(logs), FULL)
        return self.cv.fold_of(logs)

    @cached_property
    def _of_all(self):
        """The model of all rounds of the sample, fitted when other logs first ask."""
        if FULL in self.models_:
            return self.models_[FULL]
        return self._fit_all()

    def __getstate__(self):
        # without it, so that evaluating changes neither the pickle nor the hash
        return {k: v for k, v in self.__dict__.items() if k != "_of_all"}


class PartModels(_OnPartitions, FoldModels):
    """Models of actions for partitions, see `part_models`."""

    @property
    def asks_models(self):
        """Whether a prediction asks a model of scikit-learn, and not a table."""
        return not isinstance(self.model, MeanReward)


class PartSlateModels(_OnPartitions, FoldSlateModels):
    """Models of slates for partitions, see `part_models`."""
