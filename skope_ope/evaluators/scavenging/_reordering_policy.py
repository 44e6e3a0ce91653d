# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Policies that reorder what was shown."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import numpy as np
from sklearn.utils.validation import check_is_fitted

from skope_ope._progress import TellsOfFit
from skope_ope._sklearn import Estimator, StrOptions, fit_context
from skope_ope._types import Array
from skope_ope.evaluators.scavenging._pages import (
    item_codes,
    item_labels,
    make_pages,
)
from skope_ope.logs import SlateLogs
from skope_ope.logs._validation import EMPTY, check_y, label_codes
from skope_ope.logs.lazy._lazy_logs import kind_of
from skope_ope.policies._learned_rounds import remember_rows


class ReorderingPolicy(TellsOfFit, Estimator):
    """Show the items of the logged slate in another order.

    Read more in the :ref:`User Guide <positions>`.

    Parameters
    ----------
    order : {"click_rate", "random"} or mapping, default="click_rate"
        "click_rate" orders items by their click rate in the logs of `fit`, the highest
        first. "random" makes all orders equally likely. A mapping from item labels to
        scores orders by score, the highest first. Unknown items have the score 0, and
        ties keep the logged order. Empty slots stay empty. Only "click_rate" needs
        `fit`.

    Attributes
    ----------
    items_ : ndarray of shape (n_items,)
        Labels of the items that have a score.
    scores_ : ndarray of shape (n_items,)
        Their scores.

    See Also
    --------
    ReorderingScavenging : Evaluates it.

    Examples
    --------
    >>> import numpy as np
    >>> from skope_ope import SlateLogs
    >>> from skope_ope.evaluators import ReorderingPolicy
    >>> clicks = [[0, 1], [1, 0], [0, 0]]
    >>> logs = SlateLogs(np.zeros((3, 1)), [[0, 1], [1, 0], [0, 1]], None,
    ...                  slot_reward=clicks)
    >>> ReorderingPolicy().fit(logs).reorder(logs)
    array([[1, 0],
           [1, 0],
           [1, 0]])
    """

    _parameter_constraints: dict = {
        "order": [StrOptions({"click_rate", "random"}), Mapping],
    }

    def __init__(
        self, order: Literal["click_rate", "random"] | Mapping[Any, Any] = "click_rate"
    ) -> None:
        self.order = order

    @fit_context(prefer_skip_nested_validation=True)
    def fit(self, logs, y=None):
        """Learn the click rates of the items, or take the scores as they are.

        Parameters
        ----------
        logs : SlateLogs
            Pages with rewards per slot, others than those that are evaluated.
        y : array-like of shape (n_rounds,), default=None
            Ignored.

        Returns
        -------
        self : ReorderingPolicy
        """
        if not isinstance(logs, SlateLogs):
            raise TypeError(f"logs must be SlateLogs, got {kind_of(logs)}.")
        check_y(y, len(logs), type(self).__name__)
        self.n_features_in_ = logs.n_features
        if self._learns():
            pages = make_pages(logs)
            tables, labels = pages.tables(), item_labels(logs)
            shown, clicks = tables.impressions.sum(axis=1), tables.clicks.sum(axis=1)
            self.items_ = np.arange(pages.n_items) if labels is None else labels
            self.scores_ = clicks / np.maximum(shown, 1)
        else:
            self.items_, self.scores_ = self._scores()
        remember_rows(self, logs if self._learns() else None)
        return self

    def _learns(self):
        return isinstance(self.order, str) and self.order == "click_rate"

    def _scores(self):
        """Return items and their scores."""
        self._validate_params()
        if self._learns():
            check_is_fitted(self)
            return self.items_, self.scores_
        given = self.order if isinstance(self.order, Mapping) else {}
        if not given:
            return np.zeros(0, dtype=np.intp), np.zeros(0)
        return np.array(list(given)), np.array(list(given.values()), dtype=float)

    def _order(self, logs):
        """Return the logged slots in their new order; empty ones keep their places."""
        items, item_scores = self._scores()
        labels = item_labels(logs)
        known = np.arange(logs.max_candidates) if labels is None else labels
        found = label_codes(items, known)
        scores = np.append(np.append(item_scores, 0.0)[found], 0.0)  # unknown: 0
        score = scores[item_codes(logs, logs.slate, labels)]
        empty = logs.slate == EMPTY
        order = np.argsort(np.where(empty, np.inf, -score), axis=1, kind="stable")
        # the best items go to the first of the slots that are filled
        places = np.argsort(empty, axis=1, kind="stable")
        out = np.empty_like(order)
        np.put_along_axis(out, places, order, axis=1)
        return out

    def reorder(self, logs: SlateLogs) -> Array:
        """Return the slates in their new order.

        Parameters
        ----------
        logs : SlateLogs
            Logged slates.

        Returns
        -------
        slates : ndarray of int of shape (n_rounds, n_slots)
            The same candidates in other slots.
        """
        if isinstance(self.order, str) and self.order == "random":
            raise ValueError(
                "order='random' is a mean over all orders, so it has no single "
                "slate. Evaluate the policy itself."
            )
        return np.take_along_axis(logs.slate, self._order(logs), axis=1)

    def shown_marginals(self, logs: SlateLogs) -> Array:
        """Return where the shown items go.

        Parameters
        ----------
        logs : SlateLogs
            Logged slates.

        Returns
        -------
        proba : ndarray of shape (n_rounds, n_slots, n_slots)
            Probability that the item of a slot (second axis) moves to another.
        """
        filled = logs.slate != EMPTY
        if isinstance(self.order, str) and self.order == "random":
            both = filled[:, :, None] & filled[:, None, :]
            size = np.maximum(filled.sum(axis=1), 1)
            return both / size[:, None, None]
        n_slots = logs.n_slots
        to = np.argsort(self._order(logs), axis=1)
        proba = (to[:, :, None] == np.arange(n_slots)).astype(float)
        return proba * filled[:, :, None]

    def slot_marginals(self, logs: SlateLogs) -> Array:
        """Return the probability of every candidate in every slot.

        Parameters
        ----------
        logs : SlateLogs
            Logged slates.

        Returns
        -------
        proba : ndarray of shape (n_rounds, n_slots, n_candidates)
            Candidates that were not shown have probability 0.
        """
        moves = self.shown_marginals(logs)
        out = np.zeros((len(logs), logs.n_slots, logs.max_candidates))
        rows = np.arange(len(logs))
        for slot in range(logs.n_slots):  # empty slots add nothing to any candidate
            out[rows, :, np.maximum(logs.slate[:, slot], 0)] += moves[:, slot]
        return out
