# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""What every evaluator shares: fit, evaluate, score."""

from __future__ import annotations

from copy import copy
from dataclasses import dataclass, fields
from types import MappingProxyType
from typing import Any, Self

from sklearn import get_config
from sklearn.utils import Tags
from sklearn.utils.metadata_routing import UNUSED
from sklearn.utils.validation import check_is_fitted

from skope_ope._parallel import one_call
from skope_ope._progress import fit_progress, untold
from skope_ope._sklearn import (
    CallbackSupport,
    Estimator,
    Interval,
    once_fitted,
    validate_parameter_constraints,
)
from skope_ope._types import ArrayLike, PolicyLike, RewardModelLike
from skope_ope.evaluators.base._question import question_about, refuse_weights
from skope_ope.evaluators.base._summed_values import sums_of
from skope_ope.evaluators.core._auto import with_numbers
from skope_ope.evaluators.core._design import Sampling
from skope_ope.evaluators.core._drowned import beyond_floats
from skope_ope.evaluators.core._functions import mean
from skope_ope.evaluators.core._policy_value import PolicyValue
from skope_ope.evaluators.core._requires import (
    Requires,
    check_refittable,
    check_required,
    checked_model,
)
from skope_ope.evaluators.core._summary import unstated_model
from skope_ope.evaluators.core._warnings import rounds_warnings
from skope_ope.evaluators.parts._part_sums import head_of
from skope_ope.exceptions import warn_user
from skope_ope.logs import BanditLogs, SlateLogs
from skope_ope.logs._row_container import RowContainer
from skope_ope.logs.lazy._lazy_logs import LazyLogs, refuse_lazy
from skope_ope.reward_models._action_reward_model import match_actions
from skope_ope.reward_models._part_models import part_models, source_on
from skope_ope.reward_models._sources import (
    fittable,
    given_source,
    is_source,
    reward_source,
)


@dataclass(slots=True)
class EvaluatorTags(Tags):
    """Tags of scikit-learn, and the laws that an evaluator keeps.

    Parameters
    ----------
    handles : tuple of str, default=("bandit",)
        Kinds of logs it takes.
    needs_propensity : bool, default=True
        Whether the logs must hold propensities.
    needs_reward_model : bool, default=False
        Whether it uses a reward model.
    refits_reward_model : bool, default=False
        Whether it refits the model for every policy, and so refuses fitted ones,
        numbers and arrays.
    parameters_after_model : tuple of str or None, default=None
        Names of parameters that do not change the fit of the reward model. Candidates
        of a search that differ only in these share one fit. `None`: fits are not
        shared.
    order_dependent : bool, default=False
        Whether the order of the rounds matters; such evaluators refuse sample
        weights.
    takes_groups : bool, default=True
        Whether it takes logs with groups; others refuse them.
    uniform_logger : bool, default=False
        Whether it assumes that the logger chose uniformly.
    on_policy_mean : bool, default=False
        Whether evaluating the logger gives the mean reward (where a reward model is
        used: with the same number for all actions).
    constant_reward : bool, default=False
        Whether constant rewards (with the model equal to them) give that constant.
    scale_equivariant : bool, default=True
        Whether rewards (and the model) times c give the value times c > 0.
    shift_equivariant : bool, default=False
        Whether rewards (and the model) plus c give the value plus c.
    consistent : bool, default=False
        Whether the value is exactly the true value, for any reward model, on a log with
        every cell (context, action, reward) once, weighted by its probability. For
        slates the reward of each slot depends only on the item in it.
    """

    handles: tuple = ("bandit",)
    needs_propensity: bool = True
    needs_reward_model: bool = False
    refits_reward_model: bool = False
    parameters_after_model: tuple | None = None
    order_dependent: bool = False
    takes_groups: bool = True
    uniform_logger: bool = False
    on_policy_mean: bool = False
    constant_reward: bool = False
    scale_equivariant: bool = True
    shift_equivariant: bool = False
    consistent: bool = False


class BaseEvaluator(CallbackSupport, Estimator):
    """Base class of evaluators: what these members say of it, all else follows.

    A subclass of `StaticEvaluator` states what it `requires`, and gives the `terms` of
    a round and the function of their means, `combine`. The same formula serves arrays
    of rounds in memory or of files, and columns of a lazy frame.
    """

    # What the logs must hold: checks, reading, tags and frames ask it.
    requires = Requires()
    # What one sample is, so what the strata are.
    sampling = Sampling()
    # Against which distribution weights are: "logger", "own_logger" or "mixture".
    proposal = None
    # The estimate as a function of the means of the terms, with its gradient.
    combine = staticmethod(mean)
    # How the first term rises where all rewards rise by one: not (None), by the weight
    # of the round (WEIGHT), or by the term of this number.
    shift_with = None
    # Numbers of the terms that no reward enters, as values of a model.
    smooth = ()
    # The bias that no interval includes, in a few words; False: there is none.
    leaves_bias_out = False

    def terms(self, rounds: Any) -> tuple[Any, ...]:
        """Return the terms of some rounds: the formula.

        Parameters
        ----------
        rounds : Rounds
            With the weight `w` (`b` against the mixture of the loggers), the reward
            `r`, the model values `q` of the logged action and `v` of the policy, and
            what is made of them: `gain` w r, `residual` r - q, `correction` w (r - q).
            They are arrays with an entry per round, or columns of a lazy frame.

        Returns
        -------
        terms : tuple
            Arrays, or columns, with an entry per round.
        """
        raise TypeError(f"{type(self).__name__} does not define terms(rounds).")

    def weights(self, w: Any) -> Any:
        """Return what importance weights become in the terms.

        Parameters
        ----------
        w : array or column
            Importance weights.

        Returns
        -------
        weights : array or column
            The same where they are taken as they are.
        """
        return w

    def stratum_weights(self, summary: Any) -> Any:
        """Return what a round of every stratum counts, up to a factor.

        Parameters
        ----------
        summary : Summary
            Sums over the strata: `summary.sums.frame.strata` are their labels.

        Returns
        -------
        weights : ndarray of shape (n_strata,) or None
            None: all rounds are one sample, and count the same.
        """

    def resolved(self, facts: Any, rows: Any = None) -> Self:
        """Return the evaluator without a parameter that depends on the whole log.

        Parameters
        ----------
        facts : LogFacts
            What is known of the whole log: `n_rounds`, None where other parts may be
            added, and whether it is read `in_parts`.
        rows : RowsInMemory or RowsOfPolicy, default=None
            Weights and model values of all rounds; None where they cannot be asked.

        Returns
        -------
        evaluator : BaseEvaluator
            This one, or a copy with numbers in the place of such parameters.

        Raises
        ------
        ValueError
            If neither tells them; with what to pass instead.
        """
        return with_numbers(self, rows)

    def check_logs(self, logs: BanditLogs | SlateLogs) -> None:
        """Raise if the logs lack what the evaluator requires.

        Parameters
        ----------
        logs : BanditLogs or SlateLogs
            Logs in memory, or the first rounds of others.
        """
        refuse_lazy(logs)  # displays and searches look at rounds
        check_required(self, logs)

    def fit_reward_model(
        self,
        logs: BanditLogs | SlateLogs,
        model: RewardModelLike,
        cv: Any = None,
        target: Any = None,
        progress: Any = untold,
    ) -> Any:
        """Return what predicts the rewards of some logs, out of fold.

        Parameters
        ----------
        logs : BanditLogs or SlateLogs
            The rounds.
        model : model, number, array, str or None
            What stands for the reward model.
        cv : int, splitter, iterable or "prefit", default=None
            How rounds are split for cross-fitting.
        target : Target, default=None
            The policy, where `requires.refits`.
        progress : callable, default=untold
            Tells how far the fits are.

        Returns
        -------
        source : object
            Whose `bind(logs)` gives a predictor of blocks of rounds.
        """
        return reward_source(model, logs, cv, progress=progress)

    def diagnostics_of(self, summary: Any, estimate: Any) -> tuple[Any, Any]:
        """Return what only evaluators of this family tell of a value.

        Parameters
        ----------
        summary : Summary
            The sums that the value is made of.
        estimate : Estimate
            The value and its standard error.

        Returns
        -------
        entries : dict
            Of the diagnostics: numbers, or functions that are called when read.
        warnings : list of OPEWarning
            Of the value.
        """
        return {}, []

    # -- what follows from them --------------------------------------------------------
    # logs and policy stand where scikit-learn has X: they are not metadata.
    __metadata_request__fit = {"logs": UNUSED, "reward_model": UNUSED}
    __metadata_request__score = {"policy": UNUSED, "logs": UNUSED}
    _parameter_constraints: dict = {}
    _model_of_fit = None
    _chosen = MappingProxyType({})  # numbers that "auto" is for a policy, by parameter

    def fit(
        self,
        logs: BanditLogs | SlateLogs | LazyLogs,
        reward_model: RewardModelLike = None,
    ) -> Self:
        """Keep the logs and fit the reward model, if there is one.

        Parameters
        ----------
        logs : BanditLogs, or SlateLogs where the evaluator takes them
            The logged rounds, or `LazyLogs` of either kind. Lazy logs are read part by
            part, and their reward model is fitted as `summarize` says.
        reward_model : model, number, array or str, default=None
            Used if that of the constructor is None. Evaluators without a reward model
            check it and do not use it. An array of shape (n_rounds, n_actions) holds
            predictions. One of shape (n_rounds,) is the y of scikit-learn's tools and
            is ignored: the logs hold actions and rewards.

        Returns
        -------
        self : evaluator

        Raises
        ------
        TypeError
            If `logs` are not logs, or `reward_model` is nothing that predicts.
        ValueError
            If a reward model is given here and to the constructor, or the logs lack
            what the evaluator needs.
        """
        if not get_config()["skip_parameter_validation"]:
            self._validate_params()
        lazy = isinstance(logs, LazyLogs)
        reward_model = checked_model(self, logs, reward_model)
        progress = fit_progress(self, logs, 2 if lazy else None)
        with one_call(), progress as progress:
            if lazy:
                fitted = self._fitted_on_lazy(logs, reward_model, progress)
            else:
                self._check_kind(logs)
                self.check_logs(logs)
                fitted = self._fitted(logs, reward_model, progress)
        # all at once: a fit that is interrupted leaves the one before it whole
        self.__dict__ = {
            name: value
            for name, value in self.__dict__.items()
            if name.startswith("_") or not name.endswith("_")
        } | fitted
        return self

    def _validate_params(self):
        """Raise where a parameter is not what it may be."""
        # Not by `get_params`, which reads the signature of the class at every call:
        # that takes as long as the evaluation of a small log.
        constraints, given = self._parameter_constraints, vars(self)
        defaults = getattr(type(self).__init__, "__kwdefaults__", None) or {}
        parameters = {
            name: given[name]
            for name, allowed in constraints.items()
            if name in given and not _is_usual(given[name], allowed, defaults.get(name))
        }
        if parameters:
            validate_parameter_constraints(constraints, parameters, type(self).__name__)

    def _fitted(self, logs, reward_model, progress=untold):
        """Return the fitted attributes by name; a subclass adds its own."""
        found = {"n_features_in_": logs.n_features, "logs_": logs}
        if isinstance(logs, SlateLogs):
            found["n_slots_"] = logs.n_slots
        else:
            found |= {"actions_": logs.actions, "n_actions_": logs.n_actions}
        found["_model_of_fit"] = reward_model  # for a search that fits rows in order
        if self.requires.model:
            found |= self._fitted_model(logs, reward_model, progress)
        return found

    def _fitted_on_lazy(self, lazy, reward_model, progress):
        """Return the fitted attributes on lazy logs."""
        lazy = lazy.labelled()
        head = head_of(lazy)
        self._check_kind(head)
        self.check_logs(head)
        self._check_lazy()
        source = reward_model
        if self.requires.model and not self._takes_earlier(reward_model):
            model, source = self._one_model(reward_model), None
            if lazy.frame is not None:  # columns and numbers need no fit
                source = self._given_source(model, head)
            if source is None:
                found = part_models(
                    {THE_ONE: self}, model, None, lazy, progress=progress
                )
                source = found[THE_ONE]
        found = self._fitted_in_parts(head, source, lazy.n_rounds)
        return found | {"logs_": lazy, "_model_of_fit": reward_model}

    def _check_lazy(self):
        """Raise where lazy logs keep too little for the evaluator."""

    def _takes_earlier(self, reward_model):
        """Whether the mean of the rounds before stands for a reward model."""
        return False

    def _fitted_in_parts(self, head, reward_model, n_rounds):
        """Return the fitted attributes on logs that are read in parts."""
        return self._fitted(head, reward_model)

    def _fitted_model(self, logs, reward_model, progress):
        model, cv = self._one_model(reward_model), vars(self).get("cv")
        if self.requires.refits:
            check_refittable(self, model, cv)
            return {"model_to_refit_": model}
        source = self.fit_reward_model(logs, model, cv, progress=progress)
        return {"reward_model_": source}

    def _given_source(self, model, logs):
        """Return the source of predictions of a model that needs no fit, or None."""
        found = given_source(model, logs)
        if found is None and self.cv == "prefit":
            return reward_source(model, logs, self.cv)
        return found

    def _take_source(self, source):
        """Take a reward source in place of one of a fit."""
        self.reward_model_ = source

    def _fittable(self, model):
        """Return what is fitted to the folds of a log in parts, or raise."""
        if self.requires.refits:
            raise ValueError(
                f"{type(self).__name__} fits its reward model to all rounds for every "
                "policy, which is not possible when a log is read in parts. Use "
                "DoublyRobust, or load rounds into memory: lazy.sample(1_000_000)."
            )
        return fittable(model)

    def with_parameters(self, **parameters: Any) -> Self:
        """Return a copy with other parameters, fitted as it is.

        Parameters
        ----------
        **parameters : object
            By name; they are not checked.

        Returns
        -------
        evaluator : BaseEvaluator
        """
        out = copy(self)
        vars(out).update(parameters)
        return out

    def _one_model(self, reward_model):
        if is_source(reward_model):  # of a search: an equal model, fitted already
            return reward_model
        if reward_model is None:
            return self.reward_model
        if self.reward_model is not None:
            raise ValueError(
                "reward_model was given to the constructor and to fit; give it once."
            )
        return reward_model

    def _check_kind(self, logs):
        """Raise if these are not logs, or logs of another kind."""
        if isinstance(logs, self.requires.logs):
            return
        kinds = self.requires.logs
        names = " or ".join(kind.__name__ for kind in kinds)
        how = " Build them with " + " or ".join(_HOW[kind] for kind in kinds)
        raise TypeError(f"logs must be {names}, got {type(logs).__name__}.{how}.")

    def evaluate(
        self,
        policy: PolicyLike,
        logs: BanditLogs | SlateLogs | LazyLogs | None = None,
        sample_weight: ArrayLike | None = None,
    ) -> PolicyValue:
        """Estimate the value of a policy.

        Parameters
        ----------
        policy : policy, array or str
            A fitted policy, an array of its probabilities of shape (n_rounds,
            n_actions) for the rows of the logs, or the name of a column.
        logs : BanditLogs or LazyLogs, default=None
            Rounds to evaluate on; `None`: those of `fit`. Rounds that were in `fit`
            are predicted out of fold, others by a model of all rounds of `fit`.
        sample_weight : array-like of shape (n_rounds,), default=None
            Weights of the rounds, multiplied with those of the logs.

        Returns
        -------
        result : PolicyValue
            Value, standard error, diagnostics.

        Raises
        ------
        TypeError
            If `policy` is not a policy.
        ValueError
            If the policy's probabilities are not distributions over the actions of
            the logs.
        """
        result = self._result(policy, logs, sample_weight)
        warn_user(result.warnings)
        return result

    # Searches make NaN of errors of `score`, and raise where there is none.
    @once_fitted
    def score(
        self,
        policy: PolicyLike,
        logs: BanditLogs | SlateLogs | LazyLogs | None = None,
        sample_weight: ArrayLike | None = None,
    ) -> float:
        """Estimated value of a policy, `evaluate(...).value`.

        Parameters
        ----------
        policy : policy, array or str
            See `evaluate`.
        logs : BanditLogs, default=None
            Rounds to evaluate on; `None`: those of `fit`.
        sample_weight : array-like of shape (n_rounds,), default=None
            Weights of the rounds.

        Returns
        -------
        value : float
            Greater is better.

        Raises
        ------
        TypeError
            If given logs in place of a policy.
        NotFittedError
            Before `fit`: there is no `score` yet, so that a search without `scoring`
            raises at once. Pass it `scoring=EvaluatorScorer(policy)`.
        """
        if isinstance(policy, RowContainer):
            raise TypeError(
                f"score expects a policy, got {type(policy).__name__}. In a search or "
                "in cross_validate pass scoring=EvaluatorScorer(policy)."
            )
        return self.evaluate(policy, logs, sample_weight).value

    def _result(self, policy, logs, sample_weight):
        if not hasattr(self, "logs_"):  # tags take longer than a small evaluation
            check_is_fitted(self)
        of_fit = logs is None
        logs = self.logs_ if of_fit else logs
        if isinstance(logs, LazyLogs):
            return self._value_on_lazy(policy, logs, sample_weight)
        if not of_fit:
            self._check_kind(logs)
            self.check_logs(logs)
            self._match_those_of_fit(logs)
            self._match_features(logs)
        with one_call(), beyond_floats():
            result = self._evaluate(policy, logs, sample_weight)
        return result._with_warnings(rounds_warnings(policy, logs))

    def _value_on_lazy(self, policy, lazy, sample_weight):
        refuse_weights(sample_weight)
        self._check_lazy()
        model = self._model_of_fit if self.requires.model else None
        question = question_about({None: policy}, lazy, reward_model=model)
        self._validate_params()
        self._check_kind(question.head)
        self.check_logs(question.head)
        question = question.of({THE_ONE: self})
        if lazy is not self.logs_:
            self._match_those_of_fit(question.head)
            if lazy.frame is None:  # columns and numbers need no features
                self._match_features(question.head)
        sources = {}
        if self.requires.model and not self._takes_earlier(model):
            if not hasattr(self, "reward_model_"):  # a fit in memory made none
                self._fittable(model)  # says why
            sources = {THE_ONE: source_on(self.reward_model_, question.logs)}
        return self._answer(question, sources, lazy is self.logs_)

    def _answer(self, question, sources, of_fit):
        """Return the value from sums over lazy logs, perhaps those of the fit."""
        question.check_sums()
        return sums_of(question, sources)._by_job()[None, THE_ONE]

    def _unstated_model(self):
        """Get why its reward model cannot serve parts of a log; None: it can."""
        if not self.requires.model:
            return None
        if self.requires.refits:
            return (
                "its reward model is fitted to all rounds for every policy. Use "
                "DoublyRobust with a model that is already fitted."
            )
        if not type(self).fit_reward_model.__module__.startswith("skope_ope."):
            return (
                "its reward model comes from a fit_reward_model of its own, and needs "
                "all rounds. Evaluate rounds in memory: lazy.sample(1_000_000)."
            )
        return unstated_model(self.reward_model_)

    def _match_features(self, logs):
        """Raise if other logs have another number of features than those of fit."""
        if logs.n_features != self.n_features_in_:
            raise ValueError(
                f"the logs have {logs.n_features} features, those of fit had "
                f"{self.n_features_in_}."
            )

    def _match_those_of_fit(self, logs):
        """Raise if other logs have other actions or slots than those of fit."""
        kind = getattr(self.logs_, "_log_type", type(self.logs_))
        if type(logs) is not kind:
            raise TypeError(
                f"logs must be {kind.__name__} like those of fit, got "
                f"{type(logs).__name__}."
            )
        if not isinstance(logs, SlateLogs):
            match_actions(self.actions_, logs.actions)
        elif logs.n_slots != self.n_slots_:
            raise ValueError(
                f"the logs have {logs.n_slots} slots, those of fit had {self.n_slots_}."
            )

    def __sklearn_is_fitted__(self):
        return hasattr(self, "logs_")

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        known = {f.name: getattr(tags, f.name) for f in fields(tags)}
        known["estimator_type"] = "policy_evaluator"
        return EvaluatorTags(
            **known,
            handles=tuple(_KIND_NAMES[kind] for kind in self.requires.logs),
            needs_propensity=self.requires.weights,
            needs_reward_model=self.requires.model,
            refits_reward_model=self.requires.refits,
            shift_equivariant=self.shift_with is not None,
        )


def _is_usual(value, allowed, default):
    """Whether a parameter is None, a number or a text that its constraints name."""
    # What is not may still be allowed: the constraints of scikit-learn are asked, which
    # takes as long as the evaluation of a small log.
    if type(value) in (int, float):
        return value is default or any(
            isinstance(one, Interval) and one.is_satisfied_by(value) for one in allowed
        )
    kind = str if isinstance(value, str) else value
    return (kind is None or kind is str) and kind in list(allowed)


THE_ONE = "evaluator"  # the name of one by itself
_KIND_NAMES = {BanditLogs: "bandit", SlateLogs: "slate"}
_HOW = {
    BanditLogs: "BanditLogs(context, action, reward, propensity) or "
    "BanditLogs.from_frame(frame, action=..., reward=..., context=[...])",
    SlateLogs: "SlateLogs(context, slate, reward, slot_reward=...)",
}
