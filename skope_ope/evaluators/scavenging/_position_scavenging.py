# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Clicks of other slates, by items and positions, and the template of evaluators."""

from __future__ import annotations

import warnings
from dataclasses import replace
from functools import partial
from numbers import Integral
from typing import Any, Self

import numpy as np
from sklearn.base import clone
from sklearn.utils import check_random_state

from skope_ope._progress import untold
from skope_ope._sklearn import Interval
from skope_ope._types import ArrayLike, RandomSeed
from skope_ope.evaluators.base._evaluator import BaseEvaluator
from skope_ope.evaluators.core._design import design_of
from skope_ope.evaluators.core._estimate import spread_estimate
from skope_ope.evaluators.core._policy_value import PolicyValue
from skope_ope.evaluators.core._requires import Requires
from skope_ope.evaluators.core._rounds import combined_weights
from skope_ope.evaluators.core._rows import Rows
from skope_ope.evaluators.core._slate_target import SlateTarget
from skope_ope.evaluators.core._warnings import unformed_warning
from skope_ope.evaluators.parts._part_tables import bare_evaluator
from skope_ope.evaluators.scavenging._attention_decay import AttentionDecay
from skope_ope.evaluators.scavenging._pages import (
    bootstrap,
    draw_pages,
    make_pages,
    seeds_of,
)
from skope_ope.evaluators.scavenging._predictability import (
    Predictability,
    item_predictability,
)
from skope_ope.exceptions import ExplorationWarning, LowOverlapWarning, SupportWarning
from skope_ope.logs import SlateLogs
from skope_ope.logs._known_rows import rows_among
from skope_ope.logs._validation import as_numbers

N_BOOTSTRAP = 200  # where the attention is estimated


class PageEvaluator(BaseEvaluator):
    """Base class of evaluators that take pages apart by positions."""

    # A subclass gives `_statistic(tables, attention)`, the value, `_influence(pages,
    # tables, attention)`, the contributions of the pages to it, whose sum is zero, and
    # `_facts_and_warnings(pages, tables, attention)`, its diagnostics and warnings.

    requires = Requires(weights=False, logs=(SlateLogs,))
    _paired = False  # see `make_pages`
    _parameter_constraints: dict = {
        "attention": ["array-like", AttentionDecay],
        "n_bootstrap": [Interval(Integral, 2, None, closed="left"), None],
        "random_state": ["random_state"],
    }

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

    def fit(self, logs: SlateLogs, reward_model: Any = None) -> Self:
        """Keep the logs, and estimate the attention where it is to be estimated.

        Parameters
        ----------
        logs : SlateLogs
            Pages with rewards per slot.
        reward_model : object, default=None
            Ignored.

        Returns
        -------
        self : evaluator
        """
        return super().fit(logs, reward_model)

    def _fitted(self, logs, reward_model, progress=untold):
        found, estimator = super()._fitted(logs, reward_model, progress), None
        if hasattr(self.attention, "fit"):
            with warnings.catch_warnings():  # every result carries it
                warnings.simplefilter("ignore", ExplorationWarning)
                estimator = clone(self.attention).fit(logs)
            attention = estimator.coefficients_
        else:
            attention = _check_attention(self.attention, logs.n_slots)
        return found | {
            "attention_estimator_": estimator,
            "attention_": attention,
            "seed_": check_random_state(self.random_state).randint(2**31 - 1),
            "predictability_": self._predictability(logs, estimator, of_fit=True),
        }

    def resolved(self, facts, rows=None):
        """Return the evaluator; raise where the log is read in parts."""
        if facts.in_parts:
            raise ValueError(
                "its pages, and its attention if estimated, need the whole log. "
                "Evaluate rounds in memory: lazy.sample(1_000_000)."
            )
        return self

    def _predictability(self, logs, estimator, of_fit=False):
        """How predictable slates are that must not depend on the context."""
        if estimator is None:
            return Predictability(arm="item")
        # the rounds behind an attention say nothing of what other pages gain by it
        return replace(estimator.predictability_, rows=None)

    def check_logs(self, logs):
        super().check_logs(logs)
        if logs.slot_reward is None:
            raise ValueError(
                f"{type(self).__name__} needs the rewards of the slots. Pass "
                "slot_reward=... of shape (n_rounds, n_slots) to SlateLogs."
            )

    def _evaluate(self, policy, logs, sample_weight):
        omega = combined_weights(logs, sample_weight)
        target = SlateTarget(policy, logs, same_width=False, may_move=True)
        self._check_target(target, logs)
        pages = make_pages(target.logs, target, self._paired)
        tables = pages.tables(omega)
        if pages.to.shape[1] > len(self.attention_):
            raise ValueError(
                f"the policy fills {pages.to.shape[1]} slots, but the attention of "
                f"{len(self.attention_)} slots is known. Use a policy with as many "
                "slots."
            )
        attention = self._usable_attention(pages, tables)
        diagnostics, warned = self._facts_and_warnings(pages, tables, attention)
        predicted = self.predictability_
        if logs is not self.logs_:
            predicted = self._predictability(logs, self.attention_estimator_)
        diagnostics["predictability_z"] = predicted.z
        diagnostics["predictability_gain"] = predicted.gain
        design = design_of(logs, omega)
        values = self._value_and_round_values(pages, attention, omega)
        estimate, replicates, seeds = spread_estimate(*values, design), None, None
        if np.isnan(diagnostics.pop("value", 0.0)):
            estimate = estimate.without_value()
        n_bootstrap = self.n_bootstrap
        if n_bootstrap is None and self.attention_estimator_ is not None:
            n_bootstrap = N_BOOTSTRAP
        if n_bootstrap is not None and not np.isnan(estimate.value):
            seeds = seeds_of(np.random.RandomState(self.seed_), n_bootstrap)
            replicates = self._replicates(pages, logs, design, seeds)
            estimate = estimate.with_error(_spread_of_replicates(replicates, warned))
        bias = predicted.bias(*values)
        warned += predicted.warnings(bias, estimate.standard_error)
        return PageValue(
            estimate,
            Rows(design, values[1][None], logs=logs),
            estimator=type(self).__name__,
            diagnostics=diagnostics,
            warnings=warned,
            bound=refuse_bound,
            of_pages=bare_evaluator(self),
            pages=pages,
            attention=attention,
            replicates=replicates,
            seeds=seeds,
        )

    def _value_and_round_values(self, pages, attention, omega=None):
        """Return the value and its linearised round values, of known attention."""
        tables = pages.tables(omega)
        value = float(self._statistic(tables, attention))
        change = self._influence(pages, tables, attention)
        if omega is not None:
            change = omega * change
        return value, value + len(pages) * change

    def _replicates(self, pages, logs, design, seeds):
        """Values of bootstrap samples, with the attention estimated in each of them."""
        # A page that is also in the logs of fit, in whatever object, is drawn once: the
        # attention follows the noise of its clicks. Pages of one group are drawn
        # together.
        estimator, others, rows = self.attention_estimator_, None, None
        if estimator is not None and logs is not self.logs_:
            others, rows = make_pages(self.logs_), np.arange(len(logs))
            if logs.row_id != self.logs_.row_id:  # -1 where a page is not in them
                rows = rows_among(logs, self.logs_)
        statistic = partial(
            _value_of_sample,
            evaluator=bare_evaluator(self),
            attention=np.nan_to_num(self.attention_),
            estimator=estimator,
            others=others,
            rows=rows,
            weights=design.omega,
            clusters=design.cluster,
            others_clusters=None if others is None else self.logs_.group_index,
        )
        return bootstrap(statistic, pages, seeds)

    def _usable_attention(self, pages, tables):
        """Return the attention, 0 for slots that neither logs nor policy use."""
        # It raises where a slot of the logs has none, or one of the policy's is
        # unknown.
        attention = self.attention_
        wrong = (tables.impressions.sum(axis=0) > 0) & ~(attention > 0)
        wanted = pages.wanted.sum(axis=0) > 0
        wrong[: len(wanted)] |= wanted & np.isnan(attention[: len(wanted)])
        if wrong.any():
            slot = int(np.flatnonzero(wrong)[0])
            raise ValueError(
                f"the attention of slot {slot} is {attention[slot]:.6g}, but items "
                f"are shown there ({int(wrong.sum())} such slots). Clicks cannot "
                "be divided by it. Leave the slot out, or estimate the attention "
                "from logs that have clicks there."
            )
        return np.nan_to_num(attention)

    def _check_target(self, target, logs):
        """Raise if the policy cannot be evaluated."""


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

    def _exposures(self, tables, attention):
        """Return what divides the clicks of an item, and what multiplies each."""
        if self.pooled:
            seen = np.where(tables.impressions > 0, attention, 0.0)  # NaN where unused
            return (tables.impressions * seen).sum(axis=1), np.ones(len(attention))
        return tables.impressions.sum(axis=1), inverse(attention)

    def _statistic(self, tables, attention):
        exposure, per_click = self._exposures(tables, attention)
        gained = _clicks_gained(tables, attention, per_click)
        return quotient(gained, exposure).sum()

    def _influence(self, pages, tables, attention):
        exposure, per_click = self._exposures(tables, attention)
        share = quotient(1.0, exposure)
        item, slot = np.divmod(pages.rewarded, pages.n_slots)
        gained = pages.reward * (pages.to @ attention[: pages.to.shape[1]])
        gained = gained * per_click[slot] * share[item]
        rate = _clicks_gained(tables, attention, per_click) * share**2
        of_slot = np.nan_to_num(attention) if self.pooled else np.ones(pages.n_slots)
        return pages.page_sums(-np.outer(rate, of_slot), gained)

    def _predictability(self, logs, estimator, of_fit=False):
        if of_fit and estimator is not None:
            return estimator.predictability_  # of the same logs
        known = super()._predictability(logs, estimator)
        here = item_predictability(logs)
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


class PageValue(PolicyValue):
    """Value of a policy from positions on pages."""

    def __init__(
        self, estimate, rows, *, of_pages, pages, attention, replicates, seeds, **kwargs
    ):
        super().__init__(estimate, rows, **kwargs)
        self._of_pages = of_pages  # the evaluator, without the logs of `fit`
        self.pages, self.attention = pages, attention
        self.replicates, self.seeds = replicates, seeds

    def _group_estimate(self, places):
        rows = self._rows.take(places)
        pages = self.pages.take(places)
        known = self.attention, rows.design.omega
        values = self._of_pages._value_and_round_values(pages, *known)
        return spread_estimate(*values, rows.design), rows

    def _estimate_without(self, left_out):
        rows = self._rows.without(left_out)
        known = self.attention, rows.design.omega
        value, terms = self._of_pages._value_and_round_values(self.pages, *known)
        facts = rows.row_id, rows.logs, left_out
        estimate = spread_estimate(value, terms, rows.design)
        if self.replicates is not None:  # they are those of all pages
            estimate = estimate.without_error()
        return estimate, Rows(rows.design, terms[None], *facts)

    def _paired_estimate(self, other, value, change):
        estimate, warned = super()._paired_estimate(other, value, change)
        seeds = getattr(other, "seeds", None)
        if self.seeds is not None and seeds == self.seeds:
            spread = float((self.replicates - other.replicates).std(ddof=1))
            estimate = estimate.with_error(spread)
        return estimate, warned


def refuse_bound(result, delta, **assumptions):
    """Raise: no theorem is about clicks that are divided by attention."""
    raise ValueError(
        f"no theorem bounds the deviation of {result.estimator}. The theorems of "
        "exploration scavenging are about whole actions, and this value divides "
        "clicks by attention and by counts of items. Use confidence_interval."
    )


def _spread_of_replicates(replicates, warned):
    """Return the standard deviation of replicates, NaN and a warning if one failed."""
    error = float(replicates.std(ddof=1))
    if np.isfinite(error):
        return error
    failed = int((~np.isfinite(replicates)).sum())
    warned.append(
        LowOverlapWarning(
            f"the standard error is NaN: {failed} of {len(replicates)} bootstrap "
            "samples hold a slot without clicks. Use more pages, or fewer slots.",
            failed,
        )
    )
    return float("nan")


def _value_of_sample(
    pages,
    rng,
    evaluator,
    attention,
    estimator,
    others,
    rows,
    weights,
    clusters,
    others_clusters,
):
    """Value of a bootstrap sample of pages, or of their groups."""
    if others is None:  # the attention, if it is estimated, comes from the same pages
        omega = draw_pages(rng, len(pages), clusters)
        drawn = attention
        if estimator is not None:
            drawn = estimator._coefficients_of(pages, omega)
    else:
        times = draw_pages(rng, len(others), others_clusters)
        drawn = estimator._coefficients_of(others, times)
        omega, new = times[rows], rows < 0
        if new.any():
            omega[new] = draw_pages(rng, int(new.sum()))
    attention = np.where(attention > 0, drawn, 0.0)
    weighted = omega if weights is None else omega * weights
    return evaluator._statistic(pages.tables(weighted), attention)


def _check_attention(attention, n_slots):
    attention = as_numbers("attention", attention)
    if attention.shape != (n_slots,) or attention.min() < 0:
        raise ValueError(
            f"attention must hold {n_slots} numbers of 0 or more, one per slot of "
            f"the logs, got {attention.tolist()}."
        )
    return attention


def quotient(above, below):
    """Return above / below, 0 where nothing is below."""
    return np.divide(above, below, out=np.zeros(len(below)), where=below > 0)


def inverse(attention):
    """1 / C, and 0 in slots without attention, which nothing was shown in."""
    return quotient(1.0, attention)


def _clicks_gained(tables, attention, per_click):
    moved = tables.moved_to(attention)
    # a slot without clicks adds nothing, whatever its attention
    return np.where(moved != 0, moved * per_click, 0.0).sum(axis=1)
