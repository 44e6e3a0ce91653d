# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Expected clicks if the shown items had another order, and policies that reorder."""

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
    slate_items,
)
from skope_ope.evaluators.scavenging._position_scavenging import PageEvaluator, inverse
from skope_ope.exceptions import SupportWarning
from skope_ope.logs import SlateLogs
from skope_ope.logs._validation import EMPTY, check_y, label_codes
from skope_ope.logs.lazy._lazy_logs import kind_of
from skope_ope.policies._learned_rounds import remember_rows


class ReorderingScavenging(PageEvaluator):
    r"""Expected clicks per logged click, had the shown items been reordered [1]_.

    .. math:: \hat R(h) = \frac{\sum_t \sum_i r_{ti}\, C_{\sigma(a_{ti}, x_t)} / C_i}
        {\sum_t \sum_i r_{ti}}

    with the slot :math:`\sigma(a, x)` of the item after reordering. For a random order
    the mean of :math:`C_\sigma` is used. Above 1 the new order is better. If the
    attention is known, only the factoring assumption is needed, and slates may be
    composed in any way. If `AttentionDecay` estimates it, slates must be composed
    without the context. Read more in the :ref:`User Guide <positions>`.

    Parameters
    ----------
    attention : AttentionDecay or array-like of shape (n_slots,)
        Attention of the slots, or an estimator of it. A clone of the estimator is
        fitted to the logs of `fit`.
    n_bootstrap : int, default=None
        Bootstrap samples of pages for the standard error. `None`: 200 if the attention
        is estimated (each sample estimates it anew). None if it is known: the standard
        error is then that of `round_values`.
    random_state : int, RandomState instance or None, default=None
        Seeds the bootstrap.

    Attributes
    ----------
    attention_ : ndarray of shape (n_slots,)
        The attention that is used.
    attention_estimator_ : AttentionDecay or None
        The fitted estimator of the attention.
    predictability_ : Predictability
        That of `attention_estimator_`. NaN if the attention is known.
    seed_ : int
        Seeds the bootstrap.

    See Also
    --------
    ReorderingPolicy : Orders by click rates of training logs, or at random.
    PositionScavenging : For policies that show other items.

    Notes
    -----
    The diagnostics give the numerator, `unnormalized_sum`. Learn click rates on other
    pages than those that you reorder. On the same pages, items that were clicked by
    chance move up, and the value is too good.

    References
    ----------
    .. [1] Langford, J., Strehl, A., & Wortman, J. (2008). Exploration scavenging.
       ICML.

    Examples
    --------
    >>> import numpy as np
    >>> from skope_ope import ReorderingScavenging, SlateLogs
    >>> slates, clicks = np.array([[0, 1], [1, 0]]), [[1, 0], [0, 1]]
    >>> logs = SlateLogs(np.zeros((2, 1)), slates, None, slot_reward=clicks)
    >>> evaluator = ReorderingScavenging(attention=[1.0, 0.5]).fit(logs)
    >>> evaluator.score(slates), evaluator.score([[0, 1], [0, 1]])
    (1.0, 1.5)
    """

    _paired = True  # of two impressions of an item, each moves to a slot of its own

    def _statistic(self, tables, attention):
        clicks = tables.clicks.sum()
        return _clicks_reordered(tables, attention) / clicks if clicks else float("nan")

    def _influence(self, pages, tables, attention):
        clicks = tables.clicks.sum()
        if not clicks:
            return np.full(len(pages), np.nan)
        slot = pages.rewarded % pages.n_slots
        gained = pages.to @ attention[: pages.to.shape[1]] * inverse(attention)[slot]
        ratio = self._statistic(tables, attention)
        return pages.page_sums(of_reward=pages.reward * (gained - ratio) / clicks)

    def _check_target(self, target, logs):
        if target.slates is None:
            return
        same = np.zeros(len(logs), dtype=bool)
        if target.slates.shape[1] == logs.n_slots:
            labels = item_labels(logs)
            new, old = (
                np.sort(slate_items(logs, slates, labels), axis=1)
                for slates in (target.slates, logs.slate)
            )
            same = (new == old).all(axis=1)
        if not same.all():
            row = int(np.flatnonzero(~same)[0])
            raise ValueError(
                f"the policy shows {target.slates[row].tolist()} at row {row}, "
                "which does not reorder the logged slate "
                f"{logs.slate[row].tolist()}. For policies that show other items "
                "use PositionScavenging."
            )

    def _facts_and_warnings(self, pages, tables, attention):
        kept = pages.to.sum(axis=1)
        if (np.abs(kept - 1) > 1e-6).any():
            worst = int(np.argmax(np.abs(kept - 1)))
            raise ValueError(
                f"the policy shows a clicked item of row {pages.page[worst]} with "
                f"probability {kept[worst]:.6g}, but a reordering shows every "
                "logged item. For policies that show other items use "
                "PositionScavenging."
            )
        clicks = float(tables.clicks.sum())
        diagnostics = {
            "n_rounds": len(pages),
            "clicks": clicks,
            "unnormalized_sum": float(_clicks_reordered(tables, attention)),
            "attention": attention,
        }
        warned = []
        if not clicks:
            diagnostics["value"] = float("nan")
            warned.append(
                SupportWarning(
                    "the logs hold no clicks, so the share of clicks is NaN. Use "
                    "logs with clicks.",
                    0.0,
                )
            )
        return diagnostics, warned

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.scale_equivariant = False  # a ratio to the logged clicks
        return tags


def _clicks_reordered(tables, attention):
    moved = tables.moved()
    moved = moved @ attention[: moved.shape[1]]
    return (np.where(moved != 0, moved, 0.0) * inverse(attention)).sum()


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
        "order": [StrOptions({"click_rate", "random"}), Mapping]
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
