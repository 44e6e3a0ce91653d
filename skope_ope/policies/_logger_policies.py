# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""`logs.with_logger_policies()`: logs stand above policies, so these give it them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from skope_ope._types import PolicyLike
from skope_ope.logs import BanditLogs
from skope_ope.logs._validation import (
    check_agreement,
    check_distributions,
    check_propensity,
    plain,
)
from skope_ope.policies._action_probabilities import (
    policy_probabilities,
    resolve_policy,
)
from skope_ope.policies._adaptive import AdaptivePolicy

ASKED_AT_ONCE = 1 << 20  # probabilities asked of a policy at once


def with_logger_policies(self, policies: Mapping[Any, PolicyLike]) -> BanditLogs:
    """Compute the probability of every logged action under every logger.

    The policies of the loggers give `logger_proba`, and `propensity` if the logs have
    none. Read more in the :ref:`User Guide <multi_logger>`.

    Parameters
    ----------
    policies : dict
        The policy of every logger, by label: a policy object, an array of shape
        (n_rounds, n_actions), or the name of such a column. An array of shape
        (n_rounds,) gives the probabilities of the logged actions only.

    Returns
    -------
    logs : BanditLogs
        The same rounds with `logger_proba` and `propensity`.

    Raises
    ------
    TypeError
        If a policy learns while it acts: its probabilities depend on its history.
    ValueError
        If a logger has no policy. If a policy gives probability 0 to an action that its
        logger took. If the probabilities contradict the recorded propensities.

    See Also
    --------
    LoggerPropensityEstimator : If you do not have the policies.

    Examples
    --------
    >>> import numpy as np
    >>> from skope_ope import BanditLogs, UniformPolicy
    >>> logs = BanditLogs(
    ...     np.zeros((3, 1)), ["a", "b", "a"], [1.0, 0.0, 1.0], logger=[0, 1, 1]
    ... )
    >>> b_mostly = np.tile([0.2, 0.8], (3, 1))
    >>> logs = logs.with_logger_policies({0: UniformPolicy(), 1: b_mostly})
    >>> logs.logger_proba
    array([[0.5, 0.2],
           [0.5, 0.8],
           [0.5, 0.2]])
    >>> logs.propensity
    array([0.5, 0.8, 0.2])
    """
    logs = self
    if logs.loggers is None:
        raise ValueError(
            "the logs have no logger: build them with logger=..., the label of the "
            "logger of every round."
        )
    if not hasattr(policies, "keys"):
        raise TypeError(
            "policies must be a dict of policies by the labels of the loggers, got "
            f"{type(policies).__name__}."
        )
    labels = logs.loggers.tolist()
    for names, others, what in (
        (labels, policies, "has no policy"),
        (policies, labels, "is not a logger of the logs"),
    ):
        for name in names:
            if name not in others:
                raise ValueError(
                    f"{name!r} {what}: policies needs exactly the loggers {labels}, "
                    f"got {list(policies)}."
                )
    proba = np.empty((len(logs), len(labels)))
    for column, label in zip(proba.T, labels, strict=True):
        column[:] = _logged_probability(policies[label], label, logs)
    told = proba[np.arange(len(logs)), logs.logger_index]
    never = np.flatnonzero(told <= 0)
    if never.size:
        row = int(never[0])
        raise ValueError(
            f"the policy of logger {labels[logs.logger_index[row]]!r} gives "
            f"probability {told[row]:.6g} to {plain(logs.action[row])!r}, which it "
            f"logged at row {row} ({never.size} such rows). So another policy acted. "
            "Correct the policy or drop the rows."
        )
    if logs.propensity is None:
        return logs.replace(
            logger_proba=proba, propensity=check_propensity(told, len(logs))
        )
    check_agreement(logs.propensity, "the policies of the loggers", told)
    return logs.replace(logger_proba=proba)


# its name in messages, and by which pickles find it
with_logger_policies.__qualname__ = "BanditLogs.with_logger_policies"
BanditLogs.with_logger_policies = with_logger_policies


def _logged_probability(policy, label, logs):
    """Probability of the logged actions, a chunk of rounds at a time."""
    policy = resolve_policy(policy, logs)
    if isinstance(policy, AdaptivePolicy):
        raise TypeError(
            f"the policy of logger {label!r}, {type(policy).__name__}, learns while "
            "it acts, so its probabilities depend on its history. Pass its recorded "
            "probabilities as an array of shape (n_rounds,). If it stopped learning, "
            "pass policy.frozen()."
        )
    given = policy if isinstance(policy, np.ndarray) else None
    if given is not None and given.ndim == 1:
        return given
    out = np.empty(len(logs))
    chunk = max(ASKED_AT_ONCE // logs.n_actions, 1)
    for start in range(0, len(logs), chunk):
        rounds = logs[start : start + chunk]
        if given is None:
            proba = policy_probabilities(policy, rounds)
        else:
            proba = np.asarray(given[start : start + chunk], dtype=np.float64)
        check_distributions(
            f"the policy of logger {label!r}", proba, rounds.available, start
        )
        out[start : start + chunk] = proba[np.arange(len(rounds)), rounds.action_index]
    return out
