# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""The template of evaluators of slate policies: one formula of per-round arrays."""

from dataclasses import dataclass, field, replace
from functools import partial
from math import isfinite, isnan, nan

import numpy as np

from skope_ope.evaluators.base._evaluator import BaseEvaluator
from skope_ope.evaluators.core._estimability import (
    Estimable,
    SlateValue,
    of_weights,
)
from skope_ope.evaluators.core._estimate import MANY_TERMS, Estimate, estimate_of_rounds
from skope_ope.evaluators.core._functions import mean, ratio, sum_of_two
from skope_ope.evaluators.core._halves import in_upper_half, rounds_of_halves
from skope_ope.evaluators.core._largest_deviation import WeightedRounds
from skope_ope.evaluators.core._part_weights import ROUNDS
from skope_ope.evaluators.core._plain_weights import PlainWeights
from skope_ope.evaluators.core._positive_rounds import Part, PositiveRounds
from skope_ope.evaluators.core._reach import range_alone
from skope_ope.evaluators.core._requires import Requires
from skope_ope.evaluators.core._rows import Rows
from skope_ope.evaluators.core._sample_weights import combined_weights
from skope_ope.evaluators.core._slate_deviation import (
    SlateDeviation,
    SlateExtremes,
    SlateFormula,
)
from skope_ope.evaluators.core._slate_target import SlateTarget, check_width, method
from skope_ope.evaluators.core._sums import halves_of, weighted_of
from skope_ope.evaluators.core._sums import weights_of as weights_of_policy
from skope_ope.evaluators.core._support_findings import slate_support_findings
from skope_ope.evaluators.core._warnings import propensity_warnings, warnings_of
from skope_ope.evaluators.slate._known_of_sums import (
    known_of_slates,
    overlaps_of_sums,
    tally_of,
    weights_of,
)
from skope_ope.evaluators.slate._slot_support import support_of_slots
from skope_ope.evaluators.slate._support import form_of
from skope_ope.evaluators.slate._uniform_rankings import is_possible
from skope_ope.logs import SlateLogs
from skope_ope.logs._known_range import known_range
from skope_ope.logs._slate_fields import EMPTY, has_slot_rewards, row_of_another_reward
from skope_ope.logs.checks._lost_rows import LOST_ROWS
from skope_ope.policies.slate._slate_base import BaseSlatePolicy


@dataclass
class SlateTerms:
    """Per-round terms of a slate evaluator, and what is known of them."""

    terms: tuple  # per-round terms
    # The function of their means that is the estimate, see `_functions`
    combine: object = mean
    # Importance weights of the rounds. Where all of them are zero, there is no estimate
    weight: object = None
    # Rounds that enter the estimate; None: all of them. The others have weight zero
    used: object = None
    # Rounds that the estimate is about, where others enter it with terms of zero only;
    # None: those that are used
    known: object = None
    expected: object = None  # means of the weights under the logger; None: one
    supported: bool = True  # whether the means of the weights are known
    # Numbers, or functions that give them
    diagnostics: dict = field(default_factory=dict)
    warnings: list = field(default_factory=list)
    bound: object = None  # see `PolicyValue.deviation_bound`; a function of a module
    # Whether the first term moves by `weight` where the reward of a round moves by one
    follows_reward: bool = False
    smooth: tuple = ()  # numbers of the terms that no reward enters
    # Whether the estimate is the mean or the ratio of the rewards times `weight`, which
    # is never negative and has mean one
    plain: bool = False
    possible: float = 0.0  # the largest weight that a logged slate may have
    # Of a round with weight zero whether its reward tells what the policy earns; None:
    # of none. Then there is an estimate where all weights are zero
    informs: object = None
    instead: object = None  # what stands for `weight` where that is zero in all rounds

    def __post_init__(self):
        self.choices = [w for w in (self.weight, self.instead) if w is not None]
        if self.instead is not None and not self.weight.any():
            self.weight = self.instead

    def positive(self, logs, sample_weight, kind=PositiveRounds):
        """Return the rounds that enter: those that are used, of positive weight."""
        if self.used is not None and not self.used.all():
            sample_weight = self.used * (
                1.0 if sample_weight is None else sample_weight
            )
        return kind(logs, sample_weight)

    def upper(self, logs):
        """Return which rounds are in the upper half: see `SlateDeviation`."""
        upper = in_upper_half(logs)
        return upper ^ (self.weight < 0) if self.follows_reward else upper

    def weighted(self, logs):
        """Return weighted rewards, weights, and the sizes of these."""
        w = self.weight
        return w * logs.reward, w, w if w.min(initial=0) >= 0 else np.abs(w)

    def extremes(self, logs, positive):
        """Return the `SlateExtremes` of the rounds that enter."""
        w, reward = positive.of(self.weight), positive.of(logs.reward)
        first, *others = (positive.of(term) for term in self.terms)
        halves = rounds_of_halves(logs.reward, np.flatnonzero(self.upper(logs)))
        if not len(w):
            return SlateExtremes(rounds=halves)
        rest = others[0] - w if self.combine is ratio else np.zeros(1)
        if self.combine is sum_of_two:  # both move alike: one term
            first, others = first + others[0], []
        stated = logs.reward_range  # where there is none, it may be that of yes and no
        known = stated is not None and isfinite(stated[1] - stated[0])
        moved = [first + w * (r - reward) for r in (stated if known else (0.0, 1.0))]
        terms = np.array([min_and_max(term) for term in (*moved, *others)])
        ends = min_and_max(w), min_and_max(rest)
        return SlateExtremes(*ends, terms, halves, self.possible)

    def of_part(self):
        """Return the terms with the weights that are zero only where all others are."""
        return self if self.instead is None else replace(self, weight=self.instead)

    def left_out(self, omega):
        """Get the rounds of positive weight that the estimate is not about, or None."""
        known = self.used if self.known is None else self.known
        if known is None or known.all():
            return None
        return ~known if omega is None else ~known & (omega > 0)

    def estimable(self, positive):
        """Return terms and combine that tell where there is no estimate."""
        if self.weight is None:
            return self.terms, Estimable(self.combine, weighed=False)
        size = self.weight
        if size.min(initial=0) < 0:
            size = np.abs(size)
        if self.informs is not None:
            size = size + self.informs
        if positive.mask is not None:
            size = np.where(positive.mask, size, 0.0)
        return (*self.terms, size), Estimable(self.combine, weighed=True)


class SlateEvaluator(BaseEvaluator):
    """Base class of evaluators of slate policies.

    A subclass implements `_terms(target, logs)`, and names in `_needs` what the logs
    must hold: "logger", "propensity" (either it or the logger), "slot_reward".
    """

    requires = Requires(weights=False, logs=(SlateLogs,))
    _needs = ()

    def _terms(self, target, logs):
        """Return the `SlateTerms` for a policy on logs."""
        raise TypeError(f"{type(self).__name__} does not define _terms.")

    def check_logs(self, logs):
        super().check_logs(logs)
        name, needs = type(self).__name__, self._needs
        if "slot_reward" in needs and logs.slot_reward is None:
            raise ValueError(
                f"{name} needs the rewards of the slots. Pass slot_reward=... of shape "
                "(n_rounds, n_slots) to SlateLogs."
            )
        other = row_of_another_reward(logs) if "slot_reward" in needs else None
        if other is not None:  # a value of clicks beside a baseline of purchases
            raise ValueError(
                f"{name} adds the rewards of slots, but reward is not their sum: "
                f"at row {other} it is {logs.reward[other]:.6g}, and the slot "
                f"rewards add to {logs.slot_reward[other].sum():.6g}. To value the "
                "slot rewards, build the logs without reward. To value reward, use "
                "PseudoInverse."
            )
        if logs.logging_policy is None:
            whole = "propensity" in needs and logs.propensity is None
            if "logger" in needs or whole:
                instead = " or propensity=..., the probability of every logged slate,"
                at_hand = (
                    " If slots were filled independently, these logs have the "
                    "column for it: "
                    "logs.replace(logging_policy=ProductSlatePolicy('slot_propensity'))."
                )
                raise ValueError(
                    f"{name} needs the logging policy, which these logs do not have. "
                    f"Pass logging_policy=...{instead if whole else ''} to SlateLogs "
                    "or logs.replace: UniformSlatePolicy, ProductSlatePolicy, "
                    "PlackettLuceSlatePolicy, or EmpiricalSlatePolicy.seen_in(logs, "
                    "by=...) for one that drew from the slates it shows."
                    f"{at_hand * ('slot_propensity' in logs.columns)}"
                )
        elif self._asks_logger(logs):
            check_logged_slates(logs)

    def _support_on(self, policy, logs=None):
        """Return what `SupportDisplay` shows of a policy on the rounds."""
        logs = self.logs_ if logs is None else logs
        self._check_kind(logs)
        target = SlateTarget(policy, logs)
        return support_of_slots(target, target.logs)

    def _asks_logger(self, logs):
        """Whether the probabilities of the logging policy are used."""
        needs = self._needs
        return "logger" in needs or ("propensity" in needs and logs.propensity is None)

    def _doubts_of_logger(self, logs):
        """Return warnings where the logs speak against their logging policy."""
        logger = logs.logging_policy
        if not (isinstance(logger, BaseSlatePolicy) and self._asks_logger(logs)):
            return self._lost_rows(logs)
        return [*propensity_warnings(logs), *logger._doubts(logs)]

    def _lost_rows(self, logs):
        """Return a warning where rows of pages are missing."""
        found = logs._quick_propensity_findings[1] if self._needs else []
        return warnings_of(one for one in found if one.name == LOST_ROWS)

    def _evaluate(self, policy, logs, sample_weight):
        target = SlateTarget(policy, logs)
        found = self._terms(target, target.logs)
        omega = combined_weights(logs, sample_weight)
        positive = found.positive(logs, omega)
        terms, combine = found.estimable(positive)
        design = positive.design
        upper = found.upper(logs)
        estimate = estimate_of_rounds(design, terms, combine, upper=upper)
        name = type(self).__name__
        about_weights = partial(
            of_weights,
            found.weight,
            found.expected,
            found.supported,
            by_slot=has_slot_rewards(logs),
        )
        known, findings, size = about_weights(design)
        warned = [*self._doubts_of_logger(logs), *found.warnings]
        warned += warnings_of(findings)
        left_out = found.left_out(omega)
        if left_out is not None:
            share = left_out if omega is None else left_out * omega
            known["left_out_share"] = float(share.mean())
        if isnan(estimate.value):
            warned.append(combine.warning(name, estimate))
        weighted = omega is not None and found.bound is not None
        return SlateValue(
            estimate,
            Rows(
                design,
                partial(np.stack, terms),
                logs=logs,
                left_out=left_out,
                upper=upper,
            ),
            about_weights=about_weights,
            estimator=name,
            effective_sample_size=size,
            diagnostics={"n_rounds": positive.n} | known | found.diagnostics,
            warnings=warned,
            bound=refuse_unequal_weights if weighted else found.bound,
            leaves_bias_out=self.leaves_bias_out,
            reach=self._deviation(found, positive),
            plain_weights=_plain_weights(found, positive),
        )

    def _deviation(self, found, positive):
        """Return what finds how far the value of a round may lie from the estimate."""
        logs = positive.all_logs
        if not found.follows_reward:
            return range_alone(logs)
        terms, upper = partial(np.stack, found.weighted(logs)), found.upper(logs)
        return SlateDeviation(
            SlateFormula(found.combine, found.smooth),
            known_range(logs),
            found.extremes(logs, positive),
            logs._reward_extremes,
            WeightedRounds(Rows(positive.design, terms, logs=logs, upper=upper)),
            rounds=(found.terms, found.weight, logs.reward),
        )

    def resolved(self, facts, rows=None):
        """Return the evaluator; raise where it draws slates of parts of a log."""
        logger = facts.logs.logging_policy
        if facts.in_parts and not getattr(logger, "exact", True):
            raise ValueError(
                f"the pair probabilities of {type(logger).__name__} "
                "are means over draws. Use the exact logging policy."
            )
        return self

    def _enter(self, whole, name):
        part, logs = whole.part, whole.logs
        for policy in whole.policies:
            target = whole.target(policy, make=SlateTarget)
            found = self._terms(target, target.logs)
            positive = found.positive(logs, part.sample_weight, Part)
            terms, combine = found.of_part().estimable(positive)
            if len(terms) > MANY_TERMS:
                raise ValueError(
                    f"{type(self).__name__} cannot be summed over parts of a log: "
                    f"it would need the products of {len(terms)} terms. Use "
                    "control_variates='single', or rounds in memory: "
                    "lazy.sample(100_000, random_state=0)."
                )
            sums = whole.sums_by(ROUNDS)
            if found.used is not None and not found.used.all():
                # those that are left out are not the same for other policies
                sums = whole.sums_by(f"{name}: {policy}", positive.design)
            job, owner = (name, policy, None), weights_of_policy(name, policy)
            whole.facts[job] = {"combine": combine, "smooth": found.smooth}
            whole.add_terms(job, sums, terms)
            if found.follows_reward:
                whole.ends[job] = found.extremes(logs, positive)
                where = f"halves of {name}: {policy}"
                own = whole.sums_by(where, positive.design, found.upper(logs))
                whole.add_terms(halves_of(job), own, terms)
                whole.add_terms(weighted_of(name, policy), own, found.weighted(logs))
            whole.tallies[owner] = tally_of(found, positive, part)
            if found.weight is not None:
                whole.add_terms(owner, sums, weights_of(found, whole.n_total))

    def _estimate_of_sums(self, summary):
        return Estimate(summary.sums, summary.facts["combine"])

    def _overlap_of_sums(self, summary):
        return overlaps_of_sums(summary)[0]

    def _known_of_sums(self, summary, log, n_rounds):
        return known_of_slates(self, summary, log)

    def _told_warnings(self, told):
        """Return warnings of what `told_sums` of parts of a log say, as shares."""
        lost = told.get("unsupported_share", nan)
        return warnings_of(slate_support_findings(lost, self._shows))

    _shows = "slates"  # what the logger may never show

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        return tags


def _plain_weights(found, positive):
    """Return the `PlainWeights` of a value that is of weighted rewards, or None."""
    if not found.plain:
        return None
    ratio = found.combine is not mean
    return PlainWeights(positive.all_logs, positive, lambda: found.weight, ratio)


def min_and_max(values):
    """Return the smallest and the largest of some numbers."""
    return float(values.min()), float(values.max())


def refuse_unequal_weights(result, delta, **assumptions):
    """Raise: the theorem needs rounds of equal weight."""
    raise ValueError(
        f"the theorem that bounds the deviation of {result.estimator} needs rounds "
        "of equal weight, and these have different sample weights. Use "
        "confidence_interval, or evaluate without sample weights."
    )


def logged_proba(logs):
    """Probability of the logged slates under the logger."""
    if logs.propensity is not None:
        return logs.propensity
    return method(logs.logging_policy, "slate_proba")(logs, logs.slate)


def check_logged_slates(logs):
    """Raise where the logging policy could not have composed a logged slate."""
    logger = logs.logging_policy
    if isinstance(logger, BaseSlatePolicy):
        logger._check_logs(logs)
        check_width(logger._slots_of(logs), logs, "the logging policy")
    if form_of(logger, logs) == "uniform":
        proba = is_possible(logs).astype(float)
    else:
        proba = method(logger, "slate_proba")(logs, logs.slate)
    wrong = ~(proba > 0)
    if wrong.any():
        row = int(np.flatnonzero(wrong)[0])
        raise ValueError(
            f"the logging policy {type(logger).__name__} gives probability "
            f"{proba[row]:.6g} to the logged slate {logs.slate[row].tolist()} at "
            f"row {row} ({int(wrong.sum())} such rows), so it did not choose this "
            "slate. Correct the policy, the candidates or the slates."
            f"{_of_short_slates(logs, row)}"
        )


def _of_short_slates(logs, row):
    """Return what to do where a slate may be of a page with fewer slots."""
    slate = logs.slate[row]
    empty = np.flatnonzero(slate == EMPTY)
    if not len(empty) or (slate == EMPTY).all():
        return ""
    if (slate[empty[0] :] != EMPTY).any():
        return " A slot before its last item is empty: was an item not logged?"
    return (
        f" Did this page have {empty[0]} slots only? Then let its last slots offer "
        "nothing: SlateLogs.from_frame(..., logging_policy=...) does so, or set "
        f"candidates[{row}, {empty[0]}:] to False, with candidates of shape (n_rounds, "
        "n_slots, n_candidates). A policy that you evaluate leaves them empty, too."
    )
