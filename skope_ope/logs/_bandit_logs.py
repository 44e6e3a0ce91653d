# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Logged decisions of a contextual bandit: one action and one reward a round."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from skope_ope._types import Array, ArrayLike, Contexts
from skope_ope.exceptions import RowError
from skope_ope.logs._coded_labels import Grouped, coded_as, coded_labels
from skope_ope.logs._fields import (
    BANDIT,
    fields_of,
    indexed_fields,
    replaceable_fields,
    row_fields,
)
from skope_ope.logs._frames import Framed
from skope_ope.logs._html import logs_html
from skope_ope.logs._known_rows import Recognised
from skope_ope.logs._labels import count_codes
from skope_ope.logs._row_container import (
    RowContainer,
    check_row_labels,
    labels_to_keep,
)
from skope_ope.logs._shown_numbers import figure
from skope_ope.logs._validation import (
    Checked,
    check_agreement,
    check_context,
    check_distributions,
    check_length,
    check_propensity,
    plain,
    refuse_rows,
    rewards_told,
    value_range,
)
from skope_ope.logs.checks import _propensity_sums
from skope_ope.logs.checks._adaptive_logger import FIRST_ROUNDS, learning_findings
from skope_ope.logs.checks._order import trailing_zeros
from skope_ope.logs.checks._propensity_findings import quick_propensity_findings
from skope_ope.logs.checks._propensity_fit import estimated_propensity_findings
from skope_ope.logs.checks._propensity_sums import choices_of, left_out_by_chance

TELLING = ("logging_proba", "logger_proba")


def agreed_propensity(logs, names=TELLING):
    """Return the propensity of some logs, after a look at the fields that tell it."""
    propensity = logs.propensity
    for name in names:
        proba = getattr(logs, name)
        if proba is None:
            continue
        code = logs.action_index if name == "logging_proba" else logs.logger_index
        told = proba[np.arange(len(logs)), code]
        if propensity is None:
            _check_possible(logs, name, told)
            propensity = check_propensity(told, len(logs))
        else:
            check_agreement(propensity, name, told)
    return propensity


def _check_possible(logs, name, told):
    """Raise where a field says that what was logged cannot have been."""
    never = np.flatnonzero(told < np.finfo(float).tiny)
    if not never.size:
        return
    row, whose = int(never[0]), ""
    if name == "logger_proba":
        whose = f" under logger {plain(logs.logger[row])!r}, which acted there"
        if not logs.logger_proba[row].any():
            whose += ", and under every other logger"
    raise ValueError(
        f"{name} is {told[row]:.9g} at row {row} for the logged action "
        f"{plain(logs.action[row])!r}{whose} ({len(never)} such rows). A logged action "
        f"has a positive probability. Correct {name}, or leave it out."
    )


@dataclass(frozen=True, eq=False, repr=False)
class BanditLogs(Framed, Grouped, Recognised, Checked, RowContainer):
    """Logs of (context, action, reward, propensity), one row per round.

    The constructor validates every field. Nothing changes the logs later: arrays are
    kept as read-only views, and frames as they are. The order of the rows is the order
    of the rounds; rows of different arguments belong together by their positions. Read
    more in the :ref:`User Guide <logs>`.

    Parameters
    ----------
    context : array, sparse matrix or data frame of shape (n_rounds, n_features)
        What was known when the action was chosen. pandas, polars and pyarrow tables
        are kept as they are.
    action : array-like of shape (n_rounds,)
        The logged action; labels of any kind.
    reward : array-like of shape (n_rounds,)
        The logged reward, any real number; greater is better.
    propensity : float or array-like of shape (n_rounds,), default=None
        Probability with which the logger chose `action`, in (0, 1]. One number holds
        for all rounds: 1/3 for a trial that drew among three arms. `None` means
        unknown, unless `logging_proba` (or `logger` and `logger_proba`) gives it.
    actions : array-like of shape (n_actions,), default=None
        Ordered labels of all actions. `None`: the sorted distinct logged ones.
    logging_proba : array-like of shape (n_rounds, n_actions), default=None
        Probabilities of all actions under the logger, if known.
    logger : array-like of shape (n_rounds,), default=None
        Label of the logger that acted in each round.
    logger_proba : array-like of shape (n_rounds, n_loggers), default=None
        Probability of the logged action under every logger, columns in the order of
        `loggers`.
    available : array-like of bool of shape (n_rounds, n_actions), default=None
        Whether each action was offered. `None`: all were.
    action_context : array-like, default=None
        Features of the actions, of shape (n_actions, n_action_features) or
        (n_rounds, n_actions, n_action_features).
    timestamp : array-like of shape (n_rounds,), default=None
        When each round was logged: numbers or datetimes.
    group : array-like of shape (n_rounds,) or (n_rounds, n_parts), default=None
        Labels of rounds that belong together, such as those of a user or a session.
        The rows of a 2-d array or frame become tuples.
    sample_weight : array-like of shape (n_rounds,), default=None
        Non-negative weights for subsampled logs, 1 / (probability of being kept).
    reward_range : tuple of (float, float), default=None
        Known bounds of the reward. Leave it out if there are none, as often with money:
        bounds that are not sure make intervals too narrow or too wide.

    Attributes
    ----------
    n_rounds : int
        Number of rounds, that of the rows.
    actions : ndarray of shape (n_actions,)
        Ordered labels.
    action_index : ndarray of shape (n_rounds,)
        Codes 0..n_actions-1 of the logged actions.
    loggers : ndarray of shape (n_loggers,) or None
        Ordered labels of the loggers.
    group_index : ndarray of shape (n_rounds,) or None
        Codes 0..n_groups-1 of the groups.
    n_groups : int or None
        Number of groups.
    row_id : RowId
        Origin and position of every row, kept by indexing and pickling.
    columns : dict
        Named row fields added by `with_columns`.
    propensity_estimated : bool
        Whether the propensities were estimated from these rounds, as by
        `PropensityEstimator`. Such propensities are not tested: they fit the rounds
        by construction.
    reward_name : str or None
        What the reward is called where decisions are told: the name of its column or
        of its Series.

    Raises
    ------
    ValueError, TypeError
        If a field is empty, has the wrong length, is not finite or contradicts another
        field. The message names the field, the row and the value, and says what to do.
        So it is where the pandas index of a field shows rows in another order.

    Examples
    --------
    >>> from skope_ope import BanditLogs
    >>> logs = BanditLogs(
    ...     context=[[0.1], [0.7], [0.4]],
    ...     action=["blue", "red", "blue"],
    ...     reward=[1.0, 0.0, 1.0],
    ...     propensity=[0.5, 0.5, 0.5],
    ... )
    >>> logs
    BanditLogs(n_rounds=3, n_features=1, n_actions=2)
    >>> logs[1:].action
    array(['red', 'blue'], dtype='<U4')
    """

    context: Any
    action: Array
    reward: Array
    propensity: Any = None
    actions: Array = None  # set below where it is not given
    logging_proba: Any = None
    logger: Any = None
    logger_proba: Any = None
    available: Any = None
    action_context: Any = None
    timestamp: Any = None
    group: Any = None
    sample_weight: Any = None
    reward_range: tuple[float, float] | None = None

    _instead = (
        ": functions of features take the context, permutation_importance(policy, "
        "logs.context, None, scoring=lambda p, X, _: fitted.score("
        "action_probabilities(p, replace(logs, context=X)))) with fitted = "
        "DoublyRobust().fit(logs) and replace of dataclasses"
    )
    _row_fields = row_fields(BANDIT)
    _carried_fields = (*fields_of(BANDIT, False), "loggers", "_group_labels")
    _carried_fields += ("propensity_estimated", "reward_name")
    propensity_estimated = False

    def __init__(
        self,
        context: Contexts,
        action: ArrayLike,
        reward: ArrayLike,
        propensity: float | ArrayLike | None = None,
        *,
        actions: ArrayLike | None = None,
        logging_proba: ArrayLike | None = None,
        logger: ArrayLike | None = None,
        logger_proba: ArrayLike | None = None,
        available: ArrayLike | None = None,
        action_context: ArrayLike | None = None,
        timestamp: ArrayLike | None = None,
        group: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
        reward_range: tuple[float, float] | None = None,
    ) -> None:
        given = dict(locals())
        state = self.__dict__  # the class is frozen for everybody else
        state["context"] = check_context(context)
        coded = coded_labels("action", action)
        state["action"] = coded[0]
        n_rounds = len(self)
        if n_rounds == 0:
            raise ValueError("the logs are empty: at least one round is needed.")
        check_length("context", self.context, n_rounds)
        found = coded_as("action", coded, actions, "actions")
        state["actions"], state["action_index"] = found
        if actions is None:  # then each of them was logged
            state["_unseen"] = np.zeros(0, dtype=np.intp)
        self._start_rows()
        fields = {name: given[name] for name in indexed_fields(BANDIT)}
        state["_labels"] = labels_to_keep(fields, n_rounds)
        self._set_reward(reward, reward_range)
        self._set_logger(logger)
        self._set("available", available)  # probabilities must agree with it
        for name in row_fields(BANDIT):
            if name not in state:
                self._set(name, given[name])
        state["propensity"] = agreed_propensity(self)

    def _check_propensity(self, propensity):
        return check_propensity(propensity, len(self))

    def _check_logging_proba(self, proba):
        check_distributions("logging_proba", proba, self.available)
        return proba

    def _check_available(self, available):
        offered = available[np.arange(len(self)), self.action_index]
        refuse_rows(
            ~offered,
            lambda row: f"action {plain(self.action[row])!r} was logged",
            ", where it is not `available`",
            "Correct `available`, or leave it out.",
        )
        return available

    def _check_sample_weight(self, weight):
        if weight.size and not weight.any():
            raise ValueError("sample_weight is zero everywhere: no round counts.")
        return weight

    def _check_logger_proba(self, proba):
        if self.loggers is None:
            raise ValueError(
                "logger_proba needs `logger`, the logger that acted in each round: "
                "its columns follow the sorted distinct loggers."
            )
        if proba.shape[1] != len(self.loggers):
            raise ValueError(
                f"logger_proba must have one column per logger ({len(self.loggers)}: "
                f"{self.loggers.tolist()}), got {proba.shape[1]}."
            )
        if proba.size and (proba.min() < 0 or proba.max() > 1 + 1e-9):
            row, column = np.argwhere((proba < 0) | (proba > 1 + 1e-9))[0]
            found = f"logger_proba must lie in [0, 1], got {proba[row, column]:.6g}"
            raise RowError(found, row, f", logger {plain(self.loggers[column])!r}.")
        return proba

    def _set_logger(self, logger):
        state = self.__dict__
        state["logger"] = state["loggers"] = state["logger_index"] = None
        if logger is not None:
            coded = coded_labels("logger", logger)
            check_length("logger", coded[0], len(self))
            state["logger"] = coded[0]
            listed = logger.labels if getattr(logger, "listed", False) else None
            found = coded_as("logger", coded, listed, "loggers")
            state["loggers"], state["logger_index"] = found

    if TYPE_CHECKING:  # policies give logs this method

        def with_logger_policies(self, policies: dict[Any, Any]) -> BanditLogs: ...

    def replace(self, **fields: Any) -> BanditLogs:
        """Return the same rows with other values in some fields.

        Parameters
        ----------
        **fields : array-like
            New values of `propensity`, `logging_proba`, `logger_proba`,
            `available`, `reward`, `sample_weight`, `timestamp` or `group`. `None`
            removes the field. A new `logger_proba` must agree with `propensity`. A
            new `propensity` may differ from both distributions, as clipped ones do.
            It counts as given, not as estimated.

        Returns
        -------
        logs : BanditLogs
            New logs with the same `row_id`; other fields are shared.
        """
        out = self._copy()
        allowed = replaceable_fields(BANDIT)
        if "available" in fields:  # the logging distribution must agree with it
            fields = {"logging_proba": self.logging_proba, **fields}
        if "propensity" in fields:
            out.__dict__["propensity_estimated"] = False
        for name in sorted(fields):  # `available` comes first
            if name not in allowed:
                raise ValueError(
                    f"{name!r} cannot be replaced, only {allowed}. Policies "
                    "and models may have learned from other fields: build new logs."
                )
            check_row_labels(name, fields[name], self)
            out._set(name, fields[name])
        if fields.get("logger_proba") is not None and out.propensity is not None:
            agreed_propensity(out, ["logger_proba"])
        return out

    def _with_estimates(self, **fields):
        """Return `replace(**fields)` whose propensities are said to be estimated."""
        out = self.replace(**fields)
        out.__dict__["propensity_estimated"] = True
        return out

    def __len__(self) -> int:
        return len(self.action)

    def _is_row_aligned(self, name):
        return name != "action_context" or self.action_context.ndim == 3

    @property
    def n_actions(self) -> int:
        """Number of actions."""
        return len(self.actions)

    @cached_property
    def _action_counts(self) -> Array:
        """How often each action was logged, ndarray of shape (n_actions,)."""
        return count_codes(self.action_index, self.n_actions)

    @cached_property
    def _logger_counts(self) -> Array:
        """How many rounds each logger made, ndarray of shape (n_loggers,)."""
        return count_codes(self.logger_index, len(self.loggers))

    @cached_property
    def _unseen(self) -> Array:
        """Codes of the actions that were never logged."""
        return np.flatnonzero(self._action_counts == 0)

    @cached_property
    def _lowest_propensity(self) -> float:
        """The smallest propensity."""
        return float(self.propensity.min())

    @cached_property
    def _mean_log_propensity(self) -> float:
        """Mean of the logarithms of the propensities."""
        return float(np.log(self.propensity).mean())

    def _propensities_below(self, limit):
        """Return those propensities, rising, with their rows and actions' codes."""
        rows = np.flatnonzero(self.propensity < limit)
        rows = rows[np.argsort(self.propensity[rows], kind="stable")]
        return self.propensity[rows], rows, self.action_index[rows]

    @cached_property
    def _quick_propensity_findings(self) -> Any:
        """Facts and findings of the tests that every value makes of propensities."""
        return quick_propensity_findings(self)

    @cached_property
    def _estimated_propensity_findings(self) -> Any:
        """The same of estimated propensities, which decisions and audits ask for."""
        return estimated_propensity_findings(self)

    @cached_property
    def _learning_findings(self) -> Any:
        """Finding where the propensities of the first rounds follow earlier rewards."""
        return learning_findings(self, FIRST_ROUNDS)

    # late rewards, for which every value asks
    _trailing_zeros = cached_property(trailing_zeros)

    @property
    def _weighs_unevenly(self) -> bool:
        """Whether the sample weights differ."""
        return _propensity_sums.uneven_weight(self, slice(None)) is not None

    @cached_property
    def _choices(self) -> Any:
        """What the rounds say about the actions that the logger could take."""
        return choices_of(self)

    @cached_property
    def _left_out_by_chance(self) -> Any:
        """Whether the logger could take the actions that it never took."""
        return left_out_by_chance(self)

    _inverse_propensity_z = cached_property(_propensity_sums.inverse_propensity_z)
    _propensity_by_action = cached_property(_propensity_sums.propensity_by_action)
    _action_count_law = cached_property(_propensity_sums.action_count_law)
    propensities_drift = cached_property(_propensity_sums.propensities_drift)

    def __repr__(self):
        sizes = ("n_rounds", "n_features", "n_actions")
        parts = [f"{name}={getattr(self, name)}" for name in sizes]
        if self.loggers is not None:
            parts.append(f"n_loggers={len(self.loggers)}")
        if self.propensity is None:
            parts.append("propensity=None")
        return f"BanditLogs({', '.join(parts)})"

    def summary(self) -> dict[Any, Any]:
        """Describe the logs in a dict of short texts.

        Returns
        -------
        summary : dict
            Rounds, actions, features, ranges of rewards and propensities, loggers.
        """
        return bandit_summary(self)

    def _repr_html_(self):
        return logs_html(self)


def bandit_summary(logs):
    """Return rounds, actions, features, ranges and loggers as a dict of texts."""
    counts = logs._action_counts
    if not len(logs):
        return {"rounds": "0", "actions": f"{logs.n_actions}"}
    out = {
        "rounds": f"{len(logs):,}",
        "actions": f"{logs.n_actions} (logged {counts.min():,} to "
        f"{counts.max():,} times)",
        "features": f"{logs.n_features} ({type(logs.context).__name__})",
        "reward": rewards_told(logs),
        "propensity": "unknown",
    }
    if logs.propensity is not None:
        out["propensity"] = value_range(logs.propensity)
    if logs.reward_range is not None:
        out["reward range"] = " to ".join(map(figure, logs.reward_range))
    if logs.loggers is not None:
        pairs = zip(logs.loggers.tolist(), logs._logger_counts.tolist(), strict=True)
        out["loggers"] = ", ".join(f"{name}: {size:,}" for name, size in pairs)
    if logs.group is not None:
        out["groups"] = f"{logs.n_groups:,}"
    if logs.available is not None:
        out["offered actions"] = value_range(logs.available.sum(axis=1))
    if logs.timestamp is not None:
        out["time"] = f"{logs.timestamp.min()} to {logs.timestamp.max()}"
    if logs.sample_weight is not None:
        out["sample weight"] = value_range(logs.sample_weight)
    if logs.columns:
        out["columns"] = ", ".join(logs.columns)
    return out
