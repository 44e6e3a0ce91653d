# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""The policy under evaluation, a chunk of rounds at a time."""

from copy import copy

import numpy as np

from skope_ope.exceptions import RowError
from skope_ope.logs._row_container import own
from skope_ope.logs._validation import check_distributions, plain
from skope_ope.policies._action_probabilities import (
    answers_alone,
    policy_probabilities,
    resolve_policy,
)
from skope_ope.policies._adaptive import AdaptivePolicy


class Target:
    """Probabilities of a policy on the rounds of some logs."""

    def __init__(self, policy, logs):
        resolved = resolve_policy(policy, logs)
        is_array = isinstance(resolved, np.ndarray)
        self.column = policy if isinstance(policy, str) else None
        self.array = resolved if is_array else None
        self.policy = None if is_array else resolved
        self.logged_only = is_array and resolved.ndim == 1

    def on(self, logs, name):
        """Return the target on other logs, of which an evaluator of a name asks it."""
        policy = self.column if self.policy is None else self.policy
        if policy is None:
            raise ValueError(
                f"{name} fits its model to the policy on the rounds of fit, and "
                "the array has the policy's probabilities of other rounds "
                "only. Pass the policy, or the name of a column that the logs "
                "of fit also have."
            )
        return type(self)(policy, logs)

    def of(self, positive):
        """Return the target on the rounds that enter."""
        if self.array is None or positive.mask is None:
            return self
        out = copy(self)
        out.array = self.array[positive.mask]
        return out

    def chunk(self, rounds, start):
        """Probabilities of `rounds`, which begin at the row `start` of the logs."""
        if self.array is not None:
            return np.asarray(self.array[start : start + len(rounds)], dtype=np.float64)
        try:
            proba = policy_probabilities(self.policy, rounds)
        except RowError as error:  # the policy knows no rows but those of the chunk
            before, row, after = error.args
            raise RowError(before, row + start, after) from error
        return np.asarray(proba, dtype=np.float64)

    def logged(self, rounds, start):
        """Probabilities of the logged actions, of a policy that answers alone."""
        return self.policy.logged_proba(own(rounds, self.policy))

    def answers_alone(self, logs):
        """Whether the policy tells all that its support and its weights need."""
        # Then no table of the probabilities of all actions is made of it.
        known = logs.logging_proba is None and logs.loggers is None
        return known and self.policy is not None and answers_alone(self.policy)


def check_target(evaluator, target):
    """Raise where a policy is none that an evaluator can value."""
    refuse_learning(type(evaluator).__name__, target)
    if evaluator.requires.model or evaluator.requires.all_actions:
        check_all_actions(evaluator, target)


def check_target_on(evaluator, target, logs):
    """Raise where it cannot value a policy on logs as it sees them, see `by_logger`."""
    if evaluator.sampling.arms != "logger":
        check_target(evaluator, target)
        return
    try:
        check_target(evaluator, target)
        if target.policy is not None:
            policy_probabilities(target.policy, logs[:1])
        elif target.array is not None:  # else columns, which a query checks
            check_distributions("policy", np.asarray(target.array, dtype=np.float64))
    except ValueError as error:
        raise ValueError(said_of_loggers(str(error), logs)) from error


def said_of_loggers(text, logs):
    """Say of loggers what was said of actions."""
    text = text.split(" If they can be taken")[0]
    text = text.replace("action", "logger").split("; the probability of the logged")[0]
    return (
        f"{text.rstrip('.')}. With match='logger' the policy chooses among the loggers "
        f"{[plain(label) for label in logs.actions]}."
    )


def loggers_as_actions(logs):
    """Return logs whose actions are the loggers."""
    if logs.loggers is None:
        raise ValueError(
            "match='logger' needs the logger of every round. Pass logger=... to "
            "BanditLogs, or use match='action'."
        )
    out = logs._copy()
    out.__dict__.update(
        actions=logs.loggers,
        action=logs.logger,
        action_index=logs.logger_index,
        **dict.fromkeys(
            ("available", "propensity", "logging_proba", "logger_proba"), None
        ),
        action_context=None,
    )
    return out


def refuse_learning(name, target):
    """Raise where the policy learns: its probabilities depend on its history."""
    if isinstance(target.policy, AdaptivePolicy):
        raise TypeError(
            f"{type(target.policy).__name__} learns while it acts, and {name} "
            "evaluates stationary policies. Use DRns, RejectionSampling or Replay. "
            "Or evaluate the policy as it is now: policy.frozen()."
        )


def check_all_actions(evaluator, target):
    """Raise where only the probability of the logged action is known."""
    if target.logged_only:
        raise ValueError(
            f"{type(evaluator).__name__} needs the policy's probabilities of all "
            "actions, an array of shape (n_rounds, n_actions), or of files one column "
            "per action: columns={'pi': [...]}. With the probability of the logged "
            "action alone, use IPS, SNIPS, MultiLoggerIPS, Replay or "
            "RejectionSampling: evaluators=['IPS', 'SNIPS'] of evaluate."
        )
