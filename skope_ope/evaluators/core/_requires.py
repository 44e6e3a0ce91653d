# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""What an evaluator requires of logs, models and policies."""

from dataclasses import dataclass
from typing import Literal

import numpy as np

from skope_ope.logs import BanditLogs, SlateLogs
from skope_ope.logs._propensity_audit import estimating_step


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
