# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""IPS on the log of an algorithm that learned, and the template of its family."""

from __future__ import annotations

from collections.abc import Callable
from numbers import Real
from typing import Any

import numpy as np

from skope_ope._sklearn import Interval, StrOptions
from skope_ope.evaluators.adaptive_logger._weightings import (
    WEIGHTINGS,
    RoundsInOrder,
    round_scores,
)
from skope_ope.evaluators.base._evaluator import BaseEvaluator
from skope_ope.evaluators.core._auto import RowsInMemory
from skope_ope.evaluators.core._drowned import beyond_floats
from skope_ope.evaluators.core._engine import Job
from skope_ope.evaluators.core._estimate import estimate_of_rounds
from skope_ope.evaluators.core._overlap import Overlap, Support, weight_entries
from skope_ope.evaluators.core._overlap_findings import overlap_findings
from skope_ope.evaluators.core._policy_value import PolicyValue
from skope_ope.evaluators.core._reach import CornerReach, terms_at
from skope_ope.evaluators.core._requires import LogFacts
from skope_ope.evaluators.core._rounds import PositiveRounds, Rounds, combined_weights
from skope_ope.evaluators.core._rows import Rows
from skope_ope.evaluators.core._summary import Summary
from skope_ope.evaluators.core._target import Target, check_target
from skope_ope.evaluators.core._warnings import (
    propensity_warnings,
    unformed_warning,
    warnings_of,
)
from skope_ope.evaluators.core._weight_bound import LOGGED, stated_weight
from skope_ope.evaluators.sequential._log_facts import first_reversal, reversal_warnings
from skope_ope.exceptions import LogsWarning
from skope_ope.logs._row_container import known_range

COMPARE_OTHERS = (
    "Compare the value with other weightings. They give less weight to rounds "
    "where the logger seldom takes the policy's actions."
)
NO_PARTS = (
    "computes the weight of every round from all earlier rounds, which lazy logs do "
    "not keep. Load rounds into memory: lazy.partitions[k].read() or "
    "lazy.sample(100_000, random_state=0). Or use ConfidenceSequence, whose "
    "update(lazy, policy) reads part by part."
)


class AdaptiveLoggerEvaluator(BaseEvaluator):
    """Base class of the evaluators of logs whose logger learned while it acted."""

    # The scores of the rounds are weighed by what earlier rounds tell.

    proposal = "logger"
    counts = rounds = None  # `Counts` and `RoundsInOrder`, where they are `resolved`
    _parameter_constraints: dict = {
        "weighting": [StrOptions(set(WEIGHTINGS))],
        "logger": [callable, None],
        "floor_decay": [Interval(Real, 0, 1, closed="left"), None],
    }

    def check_logs(self, logs):
        super().check_logs(logs)
        name = type(self).__name__
        if logs.group is not None:
            raise ValueError(
                f"{name} needs independent contexts and rewards, and rounds of a "
                "group depend on each other. If yours do not, leave the groups "
                "out: logs.replace(group=None). Otherwise use DoublyRobust: it "
                "clusters errors by group, but ignores that the logger learned."
            )
        self._refuse_weights(logs, None)
        if self.weighting != "uniform" and logs.logging_proba is None:
            raise ValueError(
                f"weighting={self.weighting!r} needs the probabilities of all "
                "actions in every round. Build the logs with logging_proba=..., or "
                "use weighting='uniform', which needs propensities only."
            )

    def _refuse_weights(self, logs, sample_weight):
        if combined_weights(logs, sample_weight) is not None:
            raise ValueError(
                f"{type(self).__name__} computes the weights of rounds from "
                "earlier rounds, so it takes no sample_weight. Use logs without "
                "weights."
            )

    @property
    def combine(self):
        """The mean of the scores, or their weighted mean."""
        return self.counts.combine

    def _check_lazy(self):
        raise ValueError(f"{type(self).__name__} {NO_PARTS}")

    def resolved(self, facts, rows=None):
        """Return the evaluator that knows what every round of a policy counts.

        Parameters
        ----------
        facts : LogFacts
            Not used.
        rows : RowsInMemory
            All rounds, in the order of time.

        Raises
        ------
        ValueError
            If these cannot be asked.
        """
        if rows is None:
            raise ValueError(f"it {NO_PARTS}")
        rounds = RoundsInOrder(self, rows)
        counts = WEIGHTINGS[self.weighting](rounds)
        return self.with_parameters(counts=counts, rounds=rounds)

    def terms(self, rounds):
        """Return the scores of all rounds times what they count, and that."""
        return self.counts.terms(round_scores(rounds))

    def diagnostics_of(self, summary, estimate):
        """Return entries of weights and shares, and what is said of the order."""
        rounds, overlap, h = self.rounds, summary.overlap, self.counts.h
        logs, size = rounds.logs, summary.counted.effective_sample_size
        entries = {"weighting": self.weighting} | weight_entries(overlap)
        entries["unsupported_mass"] = overlap.missing_mass
        entries["smallest_propensity"] = float(logs.propensity.min())
        if h is not None:  # who counts at all, and how unequally
            total = h.sum()
            entries["largest_share"] = float(h.max() / total) if total else np.nan
        if self.requires.model:
            entries["uncovered_rounds"] = int(self.reward_model_.n_uncovered_)
            entries["correction"] = float(rounds.correction.mean())
        entries |= {"effective_sample_size": size, "effective_share": size / len(logs)}
        about = summary.job.target, self.requires.model, COMPARE_OTHERS, summary.counted
        warned = reversal_warnings(first_reversal(logs.timestamp))
        warned += _shuffled_warnings(logs)
        warned += warnings_of(overlap_findings(overlap, logs, *about))
        return entries, warned + propensity_warnings(logs)

    def _evaluate(self, policy, logs, sample_weight):
        self._refuse_weights(logs, sample_weight)
        target, positive = Target(policy, logs), PositiveRounds(logs)
        check_target(self, target)
        source, support = None, Support(positive)
        if self.requires.model:
            source = self.reward_model_
        rows = RowsInMemory(target, source, positive, (support,))
        with beyond_floats():
            one = self.resolved(LogFacts(len(logs), logs=logs), rows)
            return one._value(positive.design, target, support.overlaps[id(target)])

    def _value(self, design, target, overlap):
        """Return the value of a policy."""
        rounds, logs = self.rounds, self.rounds.logs
        terms = self.terms(rounds.given)
        estimate = estimate_of_rounds(design, terms, self.combine)
        summary = Summary(self, estimate.sums, None)
        summary.job, summary.overlap = Job(self, target), overlap
        summary.counted = _counted_overlap(
            overlap, rounds.given.w, self.counts.h, design
        )
        entries, warned = self.diagnostics_of(summary, estimate)
        if overlap.missing_mass > 1 - 1e-9 and not self.requires.model:
            estimate = estimate.without_value()  # the logs say nothing of this policy
        if np.isnan(estimate.value):
            warned.append(unformed_warning(self))
        limits, lost = known_range(logs), overlap.missing_mass
        return AdaptiveLoggerValue(
            estimate,
            Rows(design, np.stack(terms), logs=logs),
            estimator=type(self).__name__,
            effective_sample_size=summary.counted.effective_sample_size,
            diagnostics={"n_rounds": len(logs)} | entries,
            warnings=warned,
            reach=CornerReach(limits, self._corners, reward=logs.reward, lost=lost),
            by_group=not self.counts.by_context,
        )

    def _corners(self, limits, max_weight=None):
        """Return the terms of all rounds with the worst and with the best reward."""
        # Every round has the largest weight that it might have had, or none; see
        # `CornerReach`.
        given = self.rounds.given
        w, largest, source = given.w, self.rounds.largest_weights, "logging_proba"
        if max_weight is not None:
            largest, source = np.full(len(w), stated_weight(max_weight, w)), "stated"
        elif largest is None:
            largest, source = np.full(len(w), w.max()), LOGGED

        def terms(weight, end):
            rounds = Rounds(w=weight, r=end, q=given.q, v=given.v)
            return terms_at(*self.terms(rounds))

        some = largest, np.zeros(len(w))
        corners = [[terms(weight, end) for weight in some] for end in limits]
        own = [terms(w, end) for end in limits]
        return corners, own, float(largest.max()), source

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.order_dependent = True
        tags.takes_groups = False
        tags.on_policy_mean = self.weighting == "uniform"
        return tags


class AdaptiveIPS(AdaptiveLoggerEvaluator):
    r"""Inverse propensity scoring for logs of a bandit algorithm [1]_.

    The scores :math:`G_t = w_t r_t`, :math:`w_t = \pi(a_t|x_t) / p_t`, weighted as in
    :class:`AdaptiveDR`, which has the smaller variance if rewards are not near zero.
    Read more in the :ref:`User Guide <adaptive_logs>`.

    Parameters
    ----------
    weighting : str, default="uniform"
        What a round counts: "uniform", "two_point", "min_variance",
        "stable_variance" or "cadr", see :class:`AdaptiveDR`.
    logger : callable, default=None
        ``logger(t, X)``, see :class:`AdaptiveDR`.
    floor_decay : float, default=None
        Exponent of the logger's floor, see :class:`AdaptiveDR`.

    Attributes
    ----------
    n_actions_ : int
        Number of actions in the logs of `fit`.

    See Also
    --------
    AdaptiveDR : Subtracts a model of the rewards.
    IPS : The same value as "uniform", with intervals of independent rounds.

    References
    ----------
    .. [1] Hadad, V., Hirshberg, D. A., Zhan, R., Wager, S., & Athey, S. (2021).
       Confidence intervals for policy evaluation in adaptive experiments. PNAS
       118(15).

    Examples
    --------
    >>> from skope_ope import AdaptiveIPS, ConstantPolicy
    >>> from skope_ope.datasets import make_adaptive_logs
    >>> logs = make_adaptive_logs(means=[0.5, 0.4], random_state=0)
    >>> result = AdaptiveIPS().fit(logs).evaluate(ConstantPolicy(1))
    >>> low, high = result.confidence_interval(method="student")
    >>> bool(low < 0.4 < high)
    True
    """

    def __init__(
        self,
        *,
        weighting: str = "uniform",
        logger: Callable[..., Any] | None = None,
        floor_decay: float | None = None,
    ) -> None:
        self.weighting = weighting
        self.logger = logger
        self.floor_decay = floor_decay


class AdaptiveLoggerValue(PolicyValue):
    """Value of a policy on the log of an algorithm that learned."""

    # Its round values are differences of a martingale: given the past, each has the
    # value as its mean. Their spread is the standard error.

    _resamples = False

    def __init__(self, estimate, rows, *, by_group=True, **given):
        super().__init__(estimate, rows, **given)
        self._by_group = by_group

    def by(self, key):
        """Values of groups of rounds, see `PolicyValue.by`."""
        if not self._by_group:
            raise ValueError(
                "weights that differ by context are normalised over all rounds, so "
                "they give no values of groups of rounds. For these use "
                "weighting='uniform'."
            )
        return super().by(key)

    def _derived(self, estimate, rows, **given):
        return AdaptiveLoggerValue(estimate, rows, by_group=self._by_group, **given)


def _counted_overlap(overlap, w, h, design):
    """Return the sums of the weights times what the rounds count, on average one."""
    if h is None or not h.any():
        return overlap
    out = Overlap(design, len(w))
    out.add(design.block(0, len(w)), w * (h / h.mean()))
    return out


def _shuffled_warnings(logs):
    """Return a warning where the rows do not follow each other as they were stored."""
    if logs._in_order:
        return []
    return [
        LogsWarning(
            "the rows are not in the order of the log, perhaps after a shuffled "
            "split. This evaluator needs that order: it treats earlier rows as the "
            "past of later ones. Split by time: train_test_split(logs, "
            "shuffle=False)."
        )
    ]
