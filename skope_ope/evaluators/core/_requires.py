# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""What an evaluator requires of logs, models and policies."""

from dataclasses import dataclass
from typing import Literal

from skope_ope.logs._bandit_logs import BanditLogs


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
    logs : tuple of type, default=(BanditLogs,)
        Kinds of logs that it takes.
    """

    weights: bool = True
    model: bool = False
    mixture: bool | Literal["if known"] = False
    reward_range: bool = False
    logs: tuple = (BanditLogs,)

    def mixes(self, logs):
        """Whether the mixture of all loggers enters the terms of some logs."""
        if self.mixture == "if known":
            return getattr(logs, "logger_proba", None) is not None
        return self.mixture
