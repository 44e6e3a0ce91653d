# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""What every stationary policy shares."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.utils import ClassifierTags
from sklearn.utils.validation import check_is_fitted

from skope_ope._progress import TellsOfFit
from skope_ope._sklearn import Estimator
from skope_ope._types import Array, Contexts
from skope_ope.logs import BanditLogs
from skope_ope.logs._row_container import own
from skope_ope.logs._validation import check_y, is_frame, label_codes, row_sums
from skope_ope.logs.lazy._lazy_logs import LazyLogs
from skope_ope.policies._policy_outputs import named_table

PROBA_ENTRIES = 1 << 16  # probabilities that are computed at once
NOT_OFFERED = np.array([-np.inf, 0.0])  # what scores get, by `available`


class BasePolicy(TellsOfFit, Estimator):
    """Base class of stationary policies.

    A subclass implements `_proba(X, available)`, with one column per entry of
    `classes_`. If it depends on row fields other than the context, it also implements
    `logs_proba(logs)`, with one column per entry of `logs.actions`.

    A policy may offer two more methods, always both. They save memory with very many
    actions: evaluators that need no more never hold a table of all probabilities. Both
    return one number per round:

    - ``logged_proba(logs)``, the probability of the logged action;
    - ``mass_on(logs, codes)``, the probability of a set of actions, given by their
      distinct indices into `logs.actions`.

    Both respect `logs.available`. Up to rounding, they equal the results of
    `action_probabilities`: the column of the logged action, and the sum over the
    columns of the set. They also raise if the policy gives probability to actions that
    the logs do not know. A subclass that changes the probabilities of its parent must
    define both methods again; the methods of the parent are not used.
    """

    def fit(self, X, y=None):
        """Learn the set of actions.

        Parameters
        ----------
        X : BanditLogs, or array-like of shape (n_samples, n_features)
            Logs, whose `actions` become `classes_`, or contexts.
        y : array-like of shape (n_samples,), default=None
            Action labels, if `X` are contexts. Ignored if `X` are logs.

        Returns
        -------
        self : object
        """
        self.classes_ = self._actions_of(X, y)
        return self

    def get_metadata_routing(self) -> Any:
        """Return the metadata requests of the methods, for scikit-learn.

        Returns
        -------
        routing : MetadataRequest
            It does not include `available`, which is part of the logs.
        """
        routing = super().get_metadata_routing()
        # __metadata_request__predict_proba would be read for predict, too
        routing.predict_proba.requests.pop("available", None)
        return routing

    def _actions_of(self, X, y):
        if isinstance(X, (BanditLogs, LazyLogs)):
            lazy = isinstance(X, LazyLogs)
            check_y(y, None if lazy else len(X), type(self).__name__)
            return (X.labelled() if lazy else X).actions
        if y is None:
            raise ValueError(
                f"{type(self).__name__}.fit needs logs, or contexts and action labels "
                "(X, y); y is missing."
            )
        return np.unique(np.asarray(y))

    def predict_proba(self, X: Contexts, available: Array | None = None) -> Array:
        """Probability of every action.

        Parameters
        ----------
        X : array, sparse matrix or frame of shape (n_rounds, n_features), or BanditLogs
            Contexts; or logs, whose `context` and `available` are used.
        available : ndarray of bool of shape (n_rounds, n_classes), default=None
            Offered actions, in the order of `classes_`, if `X` are contexts.

        Returns
        -------
        proba : ndarray of shape (n_rounds, n_classes)
        """
        check_is_fitted(self)
        if isinstance(X, BanditLogs):
            return self._on_logs(X, available)
        if available is not None:
            available = self._check_available(available, n_rows(X))
        return self._named(self._proba(X, available))

    def _named(self, given):
        """Return what `_proba` gives; columns of a frame are matched by name."""
        frame = not isinstance(given, np.ndarray) and is_frame(given)
        if not frame or not hasattr(self, "classes_"):
            return given
        return named_table(self, given, self.classes_)

    def _on_logs(self, logs, available):
        """Return what `predict_proba` does, for the rounds of logs."""
        if available is not None:
            raise TypeError(
                "available was given beside BanditLogs, which hold their own. Pass "
                "logs.replace(available=...), or logs.context and available."
            )
        classes, logs = getattr(self, "classes_", logs.actions), own(logs, self)
        if not hasattr(self, "logs_proba"):
            special = hasattr(self, "context_of")  # some need more of a row
            X = self.context_of(logs) if special else logs.context
            return self._named(self._proba(X, offers(logs, classes)))
        proba = named_table(self, self.logs_proba(logs), logs.actions, "logs_proba")
        codes = label_codes(logs.actions, classes)
        out = np.zeros((len(logs), len(classes)))
        out[:, codes >= 0] = proba[:, codes[codes >= 0]]
        return out

    def _check_available(self, available, n_rounds):
        available = np.asarray(available)
        n_actions = len(self.classes_) if hasattr(self, "classes_") else "n_actions"
        known = isinstance(n_actions, int)
        if (
            available.dtype != bool
            or available.ndim != 2
            or len(available) != n_rounds
            or (known and available.shape[1] != n_actions)
        ):
            raise ValueError(
                f"available must be a boolean array of shape ({n_rounds}, {n_actions}),"
                " one column per entry of classes_, got dtype "
                f"{available.dtype}, shape {available.shape}."
            )
        return available

    def predict(self, X: Contexts) -> Array:
        """Most likely action of every round; of several, the first.

        Parameters
        ----------
        X : array, sparse matrix or frame of shape (n_rounds, n_features), or BanditLogs
            Contexts; or logs, whose `context` and `available` are used.

        Returns
        -------
        action : ndarray of shape (n_rounds,)
        """
        check_is_fitted(self)
        best = first_best(self.predict_proba(X))
        known = hasattr(self, "classes_") or not isinstance(X, BanditLogs)
        return (self.classes_ if known else X.actions)[best]


class FitFree:
    """What can be evaluated without `fit`, and accepts contexts of any kind."""

    def __sklearn_is_fitted__(self):
        return True

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.requires_fit = False
        tags.no_validation = True
        tags.input_tags.sparse = tags.input_tags.allow_nan = True
        return tags


class FitFreePolicy(FitFree, BasePolicy):
    """Base class of policies that can be evaluated without `fit`."""

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.classifier_tags = ClassifierTags()  # read where there is a predict_proba
        return tags


def offers(logs, classes):
    """Return which of the labels `classes` the logs offer, or None for all of them."""
    if logs.available is None:
        return None
    codes = label_codes(logs.actions, classes)
    known = codes >= 0
    available = np.zeros((len(logs), len(classes)), dtype=bool)
    available[:, known] = logs.available[:, codes[known]]
    return available


def mixture_weights(weights, n_policies):
    """Return the weights of a mixture: one per policy, a probability each."""
    weights = np.asarray(weights, dtype=float)
    if weights.shape != (n_policies,):
        raise ValueError(
            f"weights must have one entry per policy ({n_policies}), got shape "
            f"{weights.shape}."
        )
    if not ((weights >= 0).all() and abs(weights.sum() - 1) <= 1e-9):
        raise ValueError(
            f"weights must be non-negative and sum to 1, got {weights.tolist()}."
        )
    return weights


def n_rows(X):
    """Rows of an array, a sparse matrix, a frame or a list of rows."""
    return X.shape[0] if hasattr(X, "shape") else len(X)


def first_best(scores):
    """Column of the largest score of each row."""
    # Scores within 1e-12 (relative) of the maximum are tied; the lowest index wins, so
    # that rounding in another order of summation does not change a decision.
    best = scores.max(axis=1, keepdims=True)
    # inf marks what comes first, -inf what may not be chosen: they have no margin
    with np.errstate(invalid="ignore"):
        margin = np.where(np.isinf(best), best, best - 1e-12 * np.abs(best))
    return np.argmax(scores >= margin, axis=1)


def first_best_of_list(scores):
    """Return what `first_best` does for one row, a list, without numpy's overhead."""
    best = max(scores)
    index = scores.index(best)
    if index and best - best == 0:  # inf - inf is nan
        margin = best - 1e-12 * abs(best)
        if max(scores[:index]) >= margin:
            return next(i for i, score in enumerate(scores) if score >= margin)
    return index


def greedy(scores, epsilon=0.0, available=None):
    """Epsilon-greedy distribution over (offered) actions from scores."""
    if available is not None:
        check_some_available(available)
        scores = np.where(available, scores, -np.inf)
    return mostly(first_best(scores), scores.shape[1], epsilon, available)


def mostly(chosen, n_actions, epsilon=0.0, available=None):
    """Take one action of every round, but for exploration of the (offered) actions."""
    if available is not None and epsilon:
        return in_blocks(_mostly_offered, n_actions, chosen, available, epsilon=epsilon)
    if len(chosen) < n_actions:
        return explore(one_hot(chosen, n_actions), epsilon)
    # no round differs from others with the same action
    return explore(np.eye(n_actions), epsilon).take(chosen, axis=0)


def _mostly_offered(chosen, available, epsilon):
    proba = _shared(epsilon, available)
    proba[np.arange(len(chosen)), chosen] += 1 - epsilon
    return proba


def _shared(mass, available):
    """Return tables in which the offered actions have the same part of a mass."""
    proba = available.astype(np.float64)
    proba *= (mass / row_sums(available))[:, None]
    return proba


def soften(scores, temperature, available=None):
    """Softmax of the rows at a temperature; a score of -inf has probability 0."""
    # Actions that are not offered have probability 0, too. Where all that is offered
    # has a score of -inf, it is all the same.
    offered = scores
    if available is not None:  # a sum is sooner than a mask
        offered = scores + NOT_OFFERED.take(available.view(np.int8))
    best = row_max(offered)
    if available is not None:
        unknown = np.isneginf(best)
        best[unknown] = 0.0
    proba = scores - best[:, None]
    if available is not None:
        proba[unknown] = 0.0
        np.minimum(proba, 0.0, out=proba)  # those not offered must not overflow
    with np.errstate(over="ignore"):  # a tiny temperature sends the others to -inf
        proba /= temperature  # in place: new tables would take most of the time
        np.exp(proba, out=proba)
    if available is not None:
        proba *= available  # exp is four times as slow where scores are -inf
    proba /= row_sums(proba)[:, None]
    return proba


def one_hot(index, n_actions):
    """Give probability 1 to one action of every round."""
    proba = np.zeros((len(index), n_actions))
    proba[np.arange(len(index)), index] = 1.0
    return proba


def explore(proba, epsilon, available=None):
    """Mix a distribution with uniform exploration of the (offered) actions."""
    if epsilon == 0:
        return proba
    uniform = epsilon / proba.shape[1]
    if available is not None:
        uniform = _shared(epsilon, available)
    proba = (1 - epsilon) * proba
    proba += uniform
    return proba


def row_max(table):
    """Return the largest number of every row, several times faster than numpy."""
    if table.shape[1] > 32 or len(table) < 100:
        return table.max(axis=1)
    out = table[:, 0].copy()
    for column in table.T[1:]:
        np.maximum(out, column, out=out)
    return out


def in_blocks(act, n_actions, *tables, **named):
    """Return probabilities of all actions, computed for some rounds at a time."""
    # Intermediate results stay in the cache, and need little memory.
    n_rounds, step = len(tables[0]), max(PROBA_ENTRIES // n_actions, 1)
    if n_rounds <= step:
        return act(*tables, **named)
    out = np.empty((n_rounds, n_actions))
    for start in range(0, n_rounds, step):
        rows = slice(start, start + step)
        parts = [None if table is None else table[rows] for table in tables]
        out[rows] = act(*parts, **named)
    return out


def restrict(proba, available):
    """Renormalise a distribution over the offered actions."""
    # Raises where a policy gives no offered action any probability: it says nothing
    # about what it would do there.
    if available is None:
        return proba
    check_some_available(available)
    kept = np.where(available, proba, 0.0)
    mass = kept.sum(axis=1, keepdims=True)
    check_some_mass(mass[:, 0] > 0)
    return kept / mass


def check_some_mass(some):
    """Raise where no offered action has any probability."""
    lost = np.flatnonzero(~some)
    if lost.size:
        raise ValueError(
            f"the policy gives probability 0 to every offered action at row {lost[0]} "
            f"({lost.size} such rows). Add exploration, or use a policy that takes "
            "offered actions only."
        )


def check_some_available(available, rows=None):
    """Raise where no action of the policy is offered, at `rows` of the logs."""
    empty = np.flatnonzero(~row_max(available))
    if empty.size:
        first = empty[0] if rows is None else rows[empty[0]]
        raise ValueError(
            f"none of the policy's actions is offered at row {first} ({empty.size} "
            "such rows). Use a rule that takes another action there, such as a "
            "FunctionPolicy, or evaluate it on the other rows, logs[rows]."
        )
