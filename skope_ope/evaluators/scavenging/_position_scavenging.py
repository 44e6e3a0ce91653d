# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Clicks of other slates, by items and positions."""

from __future__ import annotations

from functools import partial

import numpy as np

from skope_ope._types import ArrayLike, RandomSeed
from skope_ope.evaluators.core._warnings import unformed_warning
from skope_ope.evaluators.scavenging._attention_decay import AttentionDecay
from skope_ope.evaluators.scavenging._page_evaluator import (
    PageEvaluator,
    PageFormula,
    inverse,
)
from skope_ope.evaluators.scavenging._predictability import item_predictability
from skope_ope.exceptions import SupportWarning


class PositionScavenging(PageEvaluator):
    r"""Expected rewards per page of another policy over slates, by positions [1]_.

    .. math:: \hat V(h) = \sum_t \sum_i \frac{r_{ti}}{C_i}
        \frac{C_{\sigma(a_{ti}, x_t)}}{T_{a_{ti}}}

    Here h gives item a the slot :math:`\sigma(a, x)`, and :math:`T_a` is the number of
    impressions of a in all slots. An item that h does not show has attention 0. If h is
    random, the mean attention is used. No propensities are needed. It assumes the
    factoring assumption, slates composed independently of the context, and that the log
    shows every item of h somewhere. A warning says if the context predicts the items of
    the first slots. Read more in the :ref:`User Guide <positions>`.

    Parameters
    ----------
    attention : AttentionDecay or array-like of shape (n_slots,)
        Attention of the slots, or an estimator of it. A clone of the estimator is
        fitted to the logs of `fit`.
    pooled : bool, default=False
        Divide the clicks of an item by its total attention, instead of dividing every
        click by the attention of its slot. Then small coefficients do no harm.
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
        Gain in out-of-fold log-loss of predicting the item of one of the first slots
        from the context, and its z.
    seed_ : int
        Seeds the bootstrap.

    See Also
    --------
    ReorderingScavenging : For policies that reorder what was shown.
    ExplorationScavenging : Matches whole slates, without the factoring assumption.

    References
    ----------
    .. [1] Langford, J., Strehl, A., & Wortman, J. (2008). Exploration scavenging.
       ICML.

    Examples
    --------
    >>> import numpy as np
    >>> from skope_ope import PositionScavenging, SlateLogs
    >>> slates = [[0, 1], [1, 0], [0, 1], [1, 0]]
    >>> clicks = [[1, 0], [0, 1], [0, 1], [1, 0]]
    >>> logs = SlateLogs(np.zeros((4, 1)), slates, None, slot_reward=clicks)
    >>> evaluator = PositionScavenging(attention=[1.0, 0.5]).fit(logs)
    >>> round(evaluator.score(np.tile([0, 1], (4, 1))), 3)
    1.125
    """

    _parameter_constraints: dict = {
        **PageEvaluator._parameter_constraints,
        "pooled": ["boolean"],
    }

    def __init__(
        self,
        *,
        attention: AttentionDecay | ArrayLike,
        pooled: bool = False,
        n_bootstrap: int | None = None,
        random_state: RandomSeed = None,
    ) -> None:
        self.attention = attention
        self.pooled = pooled
        self.n_bootstrap = n_bootstrap
        self.random_state = random_state

    def _formula(self):
        return PageFormula(
            partial(position_value, pooled=self.pooled),
            partial(_influence, pooled=self.pooled),
        )

    def _predictability(self, logs, estimator, of_fit=False):
        if of_fit and estimator is not None:
            return estimator.predictability_  # of the same logs
        known, here = (
            super()._predictability(logs, estimator),
            item_predictability(logs),
        )
        return known if known.z > here.z else here

    def _facts_and_warnings(self, pages, tables, attention):
        shown = tables.impressions.sum(axis=1)
        wanted = pages.wanted @ attention[: pages.wanted.shape[1]]
        never = np.append(shown == 0, True)
        total = float(wanted.sum())
        mass = float(wanted[never].sum() / total) if total else float("nan")
        diagnostics = {
            "n_rounds": len(pages),
            "unsupported_mass": mass,
            "fewest_impressions": float(
                shown[(wanted[:-1] > 0) & (shown > 0)].min(initial=np.inf)
            ),
            "clicks": float(tables.clicks.sum()),
            "attention": attention,
        }
        warned = []
        if mass > 1e-9:
            warned.append(
                SupportWarning(
                    f"the policy gives {mass:.2%} of its attention to items that "
                    "were never logged. The value leaves out their clicks.",
                    mass,
                )
            )
        if not mass < 1 - 1e-9:
            warned.append(unformed_warning(self))
            diagnostics["value"] = float("nan")
        return diagnostics, warned


def _exposures(tables, attention, pooled):
    """Return what divides the clicks of an item, and what multiplies each of them."""
    if pooled:
        seen = np.where(tables.impressions > 0, attention, 0.0)  # unknown where unused
        return (tables.impressions * seen).sum(axis=1), np.ones(len(attention))
    return tables.impressions.sum(axis=1), inverse(attention)


def position_value(tables, attention, pooled):
    """Return sum_a N_a / D_a, rewards by exposure of every item."""
    exposure, per_click = _exposures(tables, attention, pooled)
    gained = _gained(tables, attention, per_click)
    return np.divide(
        gained, exposure, out=np.zeros_like(gained), where=exposure > 0
    ).sum()


def _gained(tables, attention, per_click):
    moved = tables.moved_to(attention)
    # a slot without clicks adds nothing, whatever its attention
    return np.where(moved != 0, moved * per_click, 0.0).sum(axis=1)


def _influence(pages, tables, attention, pooled):
    exposure, per_click = _exposures(tables, attention, pooled)
    share = np.divide(1.0, exposure, out=np.zeros_like(exposure), where=exposure > 0)
    item, slot = np.divmod(pages.rewarded, pages.n_slots)
    gained = pages.reward * (pages.to @ attention[: pages.to.shape[1]])
    gained = gained * per_click[slot] * share[item]
    rate = _gained(tables, attention, per_click) * share**2
    of_slot = np.nan_to_num(attention) if pooled else np.ones(pages.n_slots)
    return pages.page_sums(-np.outer(rate, of_slot), gained)
