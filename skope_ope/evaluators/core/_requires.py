# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""What an evaluator requires of logs, models and policies, and what fit is given."""

from collections.abc import Iterable
from dataclasses import dataclass
from numbers import Integral, Real
from typing import Literal

import numpy as np

from skope_ope._sklearn import HasMethods, Interval
from skope_ope.logs import BanditLogs, SlateLogs
from skope_ope.logs._folds import check_cv_kind
from skope_ope.logs._row_container import RowContainer
from skope_ope.logs._validation import is_vector, is_y
from skope_ope.logs.checks._propensity_sums import estimating_step
from skope_ope.logs.lazy._lazy_logs import LazyLogs
from skope_ope.reward_models._part_models import check_model_column
from skope_ope.reward_models._slate_reward_models import given_slate_source
from skope_ope.reward_models._sources import (
    check_prefit,
    given_source,
    is_source,
    refuse_non_models,
)


@dataclass(frozen=True)
class Requires:
    """What an evaluator requires; checks, reading, tags and frames ask it.

    Parameters
    ----------
    weights : bool, default=True
        Whether importance weights enter, so that propensities must be known.
    model : bool, default=False
        Whether a reward model enters, and so the policy's probabilities of all actions.
    mixture : bool or "if known", default=False
        Whether the mixture of all loggers enters: their probabilities of the logged
        action, and their shares in the whole log.
    reward_range : bool, default=False
        Whether the lower end of the rewards enters: rewards are not negative, or their
        range is known.
    divergences : {"pooled", "per_logger"}, default=None
        Whether the weights of loggers follow from divergences that the rounds of all
        tell, or those of each; None: from none that are estimated.
    refits : bool, default=False
        Whether the reward model is fitted anew for every policy.
    all_actions : bool, default=False
        Whether the policy's probabilities of all actions enter without a model, too.
    logs : tuple of type, default=(BanditLogs,)
        Kinds of logs that it takes.
    slates : tuple of str, default=()
        What logs of slates must hold: "logger", the logging policy; "propensity", that
        or the probability of every logged slate; "slot_reward".
    """

    weights: bool = True
    model: bool = False
    mixture: bool | Literal["if known"] = False
    reward_range: bool = False
    divergences: Literal["pooled", "per_logger"] | None = None
    refits: bool = False
    all_actions: bool = False
    logs: tuple = (BanditLogs,)
    slates: tuple = ()

    def mixes(self, logs: BanditLogs) -> bool:
        """Whether the mixture of all loggers enters the terms of some logs.

        Parameters
        ----------
        logs : BanditLogs
            The logs, or what is known of them.

        Returns
        -------
        mixes : bool
            Of "if known": whether the logs hold the probabilities of all loggers.
        """
        if self.mixture == "if known":
            return getattr(logs, "logger_proba", None) is not None
        return bool(self.mixture)

    def asks_logger(self, logs: SlateLogs) -> bool:
        """Whether the probabilities of the policy that composed the slates enter.

        Parameters
        ----------
        logs : SlateLogs
            The logs, or what is known of them.

        Returns
        -------
        asks : bool
        """
        recorded = "propensity" in self.slates and logs.propensity is not None
        return bool({"logger", "propensity"} & {*self.slates}) and not recorded


@dataclass(frozen=True)
class LogFacts:
    """What is known of the whole log before its rounds are summed.

    Parameters
    ----------
    n_rounds : int or None
        Number of its rounds; None where others may be added.
    in_parts : bool, default=False
        Whether the log is read in parts.
    logs : BanditLogs or SlateLogs, default=None
        Its rounds, or some of them.
    """

    n_rounds: int | None
    in_parts: bool = False
    logs: object = None


def check_required(evaluator, logs):
    """Raise if logs lack rounds or a field that an evaluator requires."""
    name, requires = type(evaluator).__name__, evaluator.requires
    if not len(logs):
        raise ValueError("the logs are empty: an estimate needs at least one round.")
    if logs.propensity is None and requires.weights:
        raise ValueError(
            f"{name} needs the propensities of the logged actions, "
            "which these logs do not have. Pass propensity=..., estimate them with "
            f"{estimating_step(logs)}, or use DirectMethod, which needs none, or "
            "ExplorationScavenging where the logger ignored the context."
        )
    if requires.reward_range and logs.reward_range is None and logs.reward.min() < 0:
        row = int(np.argmin(logs.reward))
        raise ValueError(
            f"{name} needs non-negative rewards, got {logs.reward[row]:.6g} "
            f"at row {row}. Pass reward_range=(low, high) to the logs: the lower "
            "bound is then subtracted and added back."
        )


def check_refittable(evaluator, model, cv):
    """Raise where a model cannot be fitted anew for every policy."""
    name, refittable = type(evaluator).__name__, model is None or hasattr(model, "fit")
    if not refittable or type(model).__name__ == "FrozenEstimator":
        raise ValueError(
            f"{name} refits the reward model for every policy, so it takes no "
            "number, array, column or frozen model. Pass an unfitted model, or "
            "use DoublyRobust."
        )
    if isinstance(cv, str):
        raise ValueError(
            f"{name} refits the reward model, so it cannot use "
            "cv='prefit'. Pass another cv, or use DoublyRobust."
        )


# What may stand for a reward model, and how rounds are held out of its fits.
REWARD_MODEL_CONSTRAINTS = {
    "reward_model": [HasMethods(["fit", "predict"]), "array-like", Real, str, None],
    # what "cv_object" stands for, which is made anew at every check
    "cv": [
        Interval(Integral, 2, None, closed="left"),
        HasMethods(["split", "get_n_splits"]),
        Iterable,
        None,
    ],
}


def checked_model(evaluator, logs, model):
    """Return the reward model that was given to fit; None where it is y."""
    # Evaluators that use a model check it. The others refuse only what no evaluator
    # takes.
    lazy = isinstance(logs, LazyLogs)
    known = lazy or isinstance(logs, RowContainer)  # others are refused later
    if model is None or is_source(model) or not known:
        return model
    if is_vector(model):
        if not lazy and is_y(model, len(logs)):
            return None
        raise ValueError(_vector_refused(model, None if lazy else len(logs)))
    refuse_non_models(model, "reward_model")
    if not evaluator.requires.model:
        _check_unused(logs, model)
    return model


def check_model_of_call(logs, reward_model, cv):
    """Raise where no evaluator can use a reward model, or folds, for these logs."""
    if reward_model is not None and not is_source(reward_model):
        refuse_non_models(reward_model, "reward_model")
        _check_unused(logs, reward_model)
    if not isinstance(cv, str):
        check_cv_kind(cv)
    elif cv != "prefit" or reward_model is not None:  # evaluators may have their own
        check_prefit(reward_model, cv)


def _check_unused(logs, model):
    lazy = isinstance(logs, LazyLogs)
    if hasattr(model, "fit") and not hasattr(model, "predict"):
        raise TypeError(
            f"reward_model is {type(model).__name__}, which has no predict. Pass a "
            "scikit-learn model, or leave it out."
        )
    if lazy and isinstance(model, str):
        check_model_column(model, logs)
    elif (logs._log_type if lazy else type(logs)) is BanditLogs:
        given_source(model, None if lazy else logs)
    else:
        given_slate_source(model, lambda model: model)


def _vector_refused(vector, n_rounds):
    """Return why an array of one dimension is neither y nor a reward model."""
    if n_rounds is None:
        return (
            "reward_model is an array of one dimension. Lazy logs hold actions and "
            "rewards and take no y; leave it out."
        )
    return (
        f"reward_model is an array of one dimension with {len(vector)} entries, the "
        f"logs have {n_rounds} rounds. Predictions have the shape (n_rounds, "
        "n_actions); y of scikit-learn has an entry per round and is ignored."
    )
