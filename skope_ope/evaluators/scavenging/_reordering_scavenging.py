# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Expected clicks if the shown items had another order."""

from __future__ import annotations

import numpy as np

from skope_ope._types import ArrayLike, RandomSeed
from skope_ope.evaluators.scavenging._attention_decay import AttentionDecay
from skope_ope.evaluators.scavenging._page_evaluator import (
    PageEvaluator,
    PageFormula,
    inverse,
)
from skope_ope.evaluators.scavenging._pages import item_labels, slate_items
from skope_ope.exceptions import SupportWarning


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

    def __init__(
        self,
        *,
        attention: AttentionDecay | ArrayLike,
        n_bootstrap: int | None = None,
        random_state: RandomSeed = None,
    ) -> None:
        self.attention = attention
        self.n_bootstrap = n_bootstrap
        self.random_state = random_state

    def _formula(self):
        return PageFormula(reordered_ratio, _influence)

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
            "unnormalized_sum": float(_gained(tables, attention)),
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


def _gained(tables, attention):
    moved = tables.moved()
    moved = moved @ attention[: moved.shape[1]]
    return (np.where(moved != 0, moved, 0.0) * inverse(attention)).sum()


def reordered_ratio(tables, attention):
    """Return the clicks expected of the new order per logged click."""
    clicks = tables.clicks.sum()
    return _gained(tables, attention) / clicks if clicks else float("nan")


def _influence(pages, tables, attention):
    clicks = tables.clicks.sum()
    if not clicks:
        return np.full(len(pages), np.nan)
    slot = pages.rewarded % pages.n_slots
    gained = pages.to @ attention[: pages.to.shape[1]] * inverse(attention)[slot]
    ratio = reordered_ratio(tables, attention)
    return pages.page_sums(of_reward=pages.reward * (gained - ratio) / clicks)
