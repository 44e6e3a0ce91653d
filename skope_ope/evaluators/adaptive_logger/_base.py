# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""The template of evaluators of logs whose logger learned while it acted."""

from functools import partial
from numbers import Real

import numpy as np

from skope_ope._sklearn import Interval, StrOptions
from skope_ope.evaluators.adaptive_logger._scored_rounds import ScoredRounds
from skope_ope.evaluators.adaptive_logger._weightings import WEIGHTINGS
from skope_ope.evaluators.base._evaluator import BaseEvaluator
from skope_ope.evaluators.core._drowned import beyond_floats
from skope_ope.evaluators.core._engine import Extract, terms_of
from skope_ope.evaluators.core._estimate import estimate_of_rounds
from skope_ope.evaluators.core._overlap import Overlap, Support, weight_entries
from skope_ope.evaluators.core._policy_value import PolicyValue
from skope_ope.evaluators.core._positive_rounds import PositiveRounds
from skope_ope.evaluators.core._reach import CornerReach, terms_at
from skope_ope.evaluators.core._rows import Rows
from skope_ope.evaluators.core._sample_weights import combined_weights
from skope_ope.evaluators.core._target import Target
from skope_ope.evaluators.core._warnings import (
    propensity_warnings,
    unformed_warning,
    warnings_of,
)
from skope_ope.evaluators.core._weight_bound import LOGGED, stated_weight
from skope_ope.evaluators.core._weight_findings import overlap_findings
from skope_ope.evaluators.sequential._history import first_reversal
from skope_ope.evaluators.sequential._warnings import reversal_warnings
from skope_ope.evaluators.static._base import check_all_actions, refuse_learning
from skope_ope.exceptions import LogsWarning
from skope_ope.logs._known_range import known_range

COMPARE = (
    "Compare the value with other weightings. They give less weight to rounds "
    "where the logger seldom takes the policy's actions."
)
_W = Extract(lambda rounds: (rounds.w,))
_W_V_Q = Extract(lambda rounds: (rounds.w, rounds.v, rounds.q))


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


class AdaptiveLoggerEvaluator(BaseEvaluator):
    """Base class of the evaluators of logs whose logger learned while it acted."""

    # The scores of the rounds are weighed by what earlier rounds tell.

    _parameter_constraints: dict = {
        "weighting": [StrOptions(set(WEIGHTINGS))],
        "logger": [callable, None],
        "floor_decay": [Interval(Real, 0, 1, closed="left"), None],
    }

    def _check_logs(self, logs):
        super()._check_logs(logs)
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

    def _check_lazy(self):
        raise ValueError(
            f"{type(self).__name__} computes the weight of every round from all "
            "earlier rounds, which lazy logs do not keep. Load rounds into memory: "
            "lazy.partitions[k].read() or lazy.sample(100_000, random_state=0). Or use "
            "ConfidenceSequence, whose update(lazy, policy) reads part by part."
        )

    def _refuse_weights(self, logs, sample_weight):
        if combined_weights(logs, sample_weight) is not None:
            raise ValueError(
                f"{type(self).__name__} computes the weights of rounds from "
                "earlier rounds, so it takes no sample_weight. Use logs without "
                "weights."
            )

    def _evaluate(self, policy, logs, sample_weight):
        self._refuse_weights(logs, sample_weight)
        target, positive = Target(policy, logs), PositiveRounds(logs)
        refuse_learning(type(self).__name__, target)
        if self.requires.model:
            check_all_actions(self, target)
        support = Support(positive)
        scored = self._scored(target, logs, positive, support)
        overlap = support.overlaps[id(target)]
        with beyond_floats():
            return self._policy_value(scored, target, positive, overlap)

    def _scored(self, target, logs, positive, support):
        """Return the `ScoredRounds` of a policy."""
        source = self.reward_model_ if self.requires.model else None
        extract = _W if source is None else _W_V_Q
        w, *model = terms_of(extract, logs, target, source, positive, [support])
        v, q = model or np.zeros((2, len(logs)))
        return ScoredRounds(self, target, logs, w, v, q)

    def _policy_value(self, scored, target, positive, overlap):
        logs, design = positive.all_logs, positive.design
        form = WEIGHTINGS[self.weighting](scored)
        terms = form.terms(scored.scores)
        estimate = estimate_of_rounds(design, terms, form.combine)
        counted = _counted(overlap, scored.w, form.shares(), design)
        about = target, self.requires.model, COMPARE
        found = overlap_findings(overlap, logs, *about, counted)
        warned = reversal_warnings(first_reversal(logs.timestamp))
        warned += _shuffled_warnings(logs) + warnings_of(found)
        warned += propensity_warnings(logs)
        if overlap.missing_mass > 1 - 1e-9 and not self.requires.model:
            estimate = estimate.without_value()  # the logs say nothing of this policy
        if np.isnan(estimate.value):
            warned.append(unformed_warning(self))
        size = counted.effective_sample_size
        return AdaptiveLoggerValue(
            estimate,
            Rows(design, np.stack(terms), logs=logs),
            estimator=type(self).__name__,
            effective_sample_size=size,
            diagnostics=self._facts(scored, form, overlap)
            | {"effective_sample_size": size, "effective_share": size / len(logs)},
            warnings=warned,
            reach=CornerReach(
                known_range(logs),
                partial(_corners, scored, form),
                reward=logs.reward,
                lost=overlap.missing_mass,
            ),
            by_group=form.by_group,
        )

    def _facts(self, scored, form, overlap):
        """Return the diagnostics."""
        shares, n_rounds = form.shares(), len(scored)
        facts = {"n_rounds": n_rounds, "weighting": self.weighting}
        facts |= weight_entries(overlap)
        facts["unsupported_mass"] = overlap.missing_mass
        facts["smallest_propensity"] = float(scored.logs.propensity.min())
        if shares is not None:  # who counts at all, and how unequally
            total = shares.sum()
            facts["largest_share"] = float(shares.max() / total) if total else np.nan
        if self.requires.model:
            facts["uncovered_rounds"] = int(self.reward_model_.n_uncovered_)
            facts["correction"] = float(scored.correction.mean())
        return facts

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.order_dependent = True
        tags.takes_groups = False
        tags.on_policy_mean = self.weighting == "uniform"
        return tags


def _corners(scored, form, limits, max_weight=None):
    """Return the terms of all rounds with the worst and with the best reward."""
    # Every round has the largest weight that it might have had, or none; see
    # `CornerReach`.
    v, q, w = scored.v, scored.q, scored.w
    largest, source = scored.largest_weights, "logging_proba"
    if max_weight is not None:
        largest, source = np.full(len(w), stated_weight(max_weight, w)), "stated"
    elif largest is None:
        largest, source = np.full(len(w), w.max()), LOGGED

    def terms(weight, end):
        return terms_at(*form.terms(v + weight * (end - q)))

    corners = [[terms(some, end) for some in (largest, 0.0)] for end in limits]
    own = [terms(w, end) for end in limits]
    return corners, own, float(largest.max()), source


def _counted(overlap, w, shares, design):
    """Return the sums of the weights times what the rounds count, on average one."""
    if shares is None or not shares.any():
        return overlap
    out = Overlap(design, len(w))
    out.add(design.block(0, len(w)), w * (shares / shares.mean()))
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
