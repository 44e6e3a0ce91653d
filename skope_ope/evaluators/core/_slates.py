# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Values of slate policies: from the terms of all rounds, or from sums over parts.

Weights of a slate are known for all rounds of a part at once, so its terms enter the
pass as they are. Weights of slates may be negative, and what they should average to is
known: one, or their means under the logger.
"""

from dataclasses import dataclass, field, replace
from functools import partial
from math import isfinite, isnan, nan

import numpy as np

from skope_ope.evaluators.core._estimate import MANY_TERMS, estimate_of_rounds
from skope_ope.evaluators.core._functions import mean, ratio, sum_of_two
from skope_ope.evaluators.core._halves import in_upper_half, rounds_of_halves
from skope_ope.evaluators.core._largest_deviation import WeightedRounds
from skope_ope.evaluators.core._mean_weight import bounded
from skope_ope.evaluators.core._overlap import Overlap, weight_entries
from skope_ope.evaluators.core._overlap_findings import (
    no_overlap_finding,
    no_round_finding,
    not_normalised_finding,
    slate_weight_findings,
)
from skope_ope.evaluators.core._part_weights import ROUNDS, UNKNOWN_LENGTH
from skope_ope.evaluators.core._plain_weights import PlainWeights
from skope_ope.evaluators.core._policy_value import PolicyValue
from skope_ope.evaluators.core._reach import range_only
from skope_ope.evaluators.core._rounds import Part, PositiveRounds
from skope_ope.evaluators.core._rows import Rows
from skope_ope.evaluators.core._slate_deviation import (
    SlateDeviation,
    SlateExtremes,
    SlateFormula,
)
from skope_ope.evaluators.core._slate_target import SlateTarget
from skope_ope.evaluators.core._sums import halves_of, weighted_of, weights_of
from skope_ope.evaluators.core._tally import Tally
from skope_ope.evaluators.core._warnings import propensity_warnings, warnings_of
from skope_ope.logs import SlateLogs
from skope_ope.logs._row_container import known_range
from skope_ope.logs._validation import has_slot_rewards
from skope_ope.logs.checks._slate_logger import LOST_ROWS
from skope_ope.policies.slate._slate_base import BaseSlatePolicy

SHARES = ("unsupported_share", "outside_range_share", "negative_weight_share")
SHARES += ("altered_rows", "correction")  # means over all rounds
N_TERMS = 4  # of a choice of weights


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
    # A function of sample weights that tells of which rounds (an array of ints, or all)
    # the reward tells what the policy earns, though its weight is zero; None: of none.
    # Then there is an estimate where all weights are zero
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
        terms = np.array([_lowest_and_highest(term) for term in (*moved, *others)])
        ends = _lowest_and_highest(w), _lowest_and_highest(rest)
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
        if self.informs is not None and not positive.of(size).any():
            size = self.informs(positive.omega)
        if positive.mask is not None:
            size = np.where(positive.mask, size, 0.0)
        return (*self.terms, size), Estimable(self.combine, weighed=True)


class Estimable:
    """A function of means that exists where weights say something about the policy."""

    # Weights of slates may be negative: their sum tells neither that there is one, nor
    # may it be divided by where it is not positive.

    def __init__(self, combine, weighed):
        self.combine, self.weighed = combine, weighed

    @property
    def divisor(self):
        """Number of the mean that weights are counted by: of their sizes, if known."""
        divisor = getattr(self.combine, "divisor", None)
        return -1 if self.weighed and divisor is not None else divisor

    def __call__(self, m):
        if not self._borne(m) or not self._normalised(m):
            raise ZeroDivisionError
        if not self.weighed:
            return self.combine(m)
        value, slopes = self.combine(m[:-1])
        return value, (*slopes, 0.0)

    def _borne(self, m):
        return m[-1] > 0 if self.weighed else not isnan(m[0])

    def _normalised(self, m):
        return self.combine is not ratio or m[1] > 0

    def warning(self, name, estimate):
        """Return the warning that says why the estimate of an evaluator is NaN."""
        m = estimate.means
        if self._borne(m) and not self._normalised(m):
            total = m[1] * estimate.sums.mass
            return not_normalised_finding(name, total).warning()
        return no_round_finding(name).warning()


class SlateValue(PolicyValue):
    """Value of a slate policy, whose groups say why they have none."""

    def __init__(self, *args, weights, informs, **kwargs):
        super().__init__(*args, **kwargs)
        # see `of_weights`, and `SlateTerms`
        self._weights, self._informs = weights, informs

    def _overlap_without(self, design):
        weight, expected, *about = self._weights
        pair = overlaps_of_weights(weight, expected, design)
        entries, _, size = of_weights(*pair, *about)
        return size, entries | {"n_rounds": int(design.count.sum())}

    def _group_estimate(self, places):
        estimate, rows = super()._group_estimate(places)
        if isnan(estimate.value) and self._informs is not None:
            known = self._informs(rows.design.omega, places)
            terms = np.stack([*rows.terms[:-1], known])
            rows = Rows(rows.design, terms, upper=rows.upper)
            estimate = rows.estimate(self._estimate)
        return estimate, rows

    def _of_group(self, places, label):
        found, weight = super()._of_group(places, label), self._weights[0]
        if isnan(found.value) or weight is None or weight[places].any():
            return found
        return found._with_warnings([no_overlap_finding().warning()])

    def __getstate__(self):
        return super().__getstate__() | {"_informs": None}  # it holds the logs

    def _checked_group(self, estimate):
        if not isnan(estimate.value):
            return estimate, []
        return estimate, [estimate.combine.warning(self.estimator, estimate)]


# -- rounds in memory ------------------------------------------------------------------
def value_of_slates(evaluator, policy, logs, omega):
    """Return the value of a policy from rounds in memory, `omega` their weights."""
    target = SlateTarget(policy, logs)
    found = evaluator.slate_terms(target, target.logs)
    positive, left_out = found.positive(logs, omega), found.left_out(omega)
    terms, combine = found.estimable(positive)
    design = positive.design
    estimate = estimate_of_rounds(design, terms, combine)
    weights = found.weight, found.expected, found.supported, has_slot_rewards(logs)
    pair = overlaps_of_weights(*weights[:2], design)
    known, findings, size = of_weights(*pair, *weights[2:])
    warned = [*_doubts_of_logger(evaluator, logs), *found.warnings]
    warned += warnings_of(findings)
    if left_out is not None:
        share = left_out if omega is None else left_out * omega
        known["left_out_share"] = float(share.mean())
    name = type(evaluator).__name__
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
            upper=partial(found.upper, logs),
        ),
        weights=weights,
        informs=found.informs,
        estimator=name,
        effective_sample_size=size,
        diagnostics={"n_rounds": positive.n} | known | found.diagnostics,
        warnings=warned,
        bound=_refuse_unequal_weights if weighted else found.bound,
        leaves_bias_out=evaluator.leaves_bias_out,
        reach=_deviation(found, positive),
        plain_weights=_plain_weights(found, positive),
    )


def _deviation(found, positive):
    """Return what finds how far the value of a round may lie from the estimate."""
    logs = positive.all_logs
    if not found.follows_reward:
        return range_only(known_range(logs))
    upper = partial(found.upper, logs)

    def weighted():
        return np.stack(found.weighted(logs))

    return SlateDeviation(
        SlateFormula(found.combine, found.smooth),
        known_range(logs),
        partial(found.extremes, logs, positive),
        logs._reward_extremes,
        WeightedRounds(Rows(positive.design, weighted, logs=logs, upper=upper)),
        rounds=(found.terms, found.weight, logs.reward),
    )


def _plain_weights(found, positive):
    """Return the `PlainWeights` of a value that is of weighted rewards, or None."""
    if not found.plain:
        return None
    ratio = found.combine is not mean
    return PlainWeights(positive.all_logs, positive, lambda: found.weight, ratio)


def _refuse_unequal_weights(result, delta, **assumptions):
    """Raise: the theorem needs rounds of equal weight."""
    raise ValueError(
        f"the theorem that bounds the deviation of {result.estimator} needs rounds "
        "of equal weight, and these have different sample weights. Use "
        "confidence_interval, or evaluate without sample weights."
    )


# -- parts of a log --------------------------------------------------------------------
def add_slates(whole, name, evaluator):
    """Add to a pass over a part what an evaluator sums of all policies."""
    part, logs = whole.part, whole.logs
    for policy in whole.policies:
        target = whole.target(policy, make=SlateTarget)
        found = evaluator.slate_terms(target, target.logs)
        positive = found.positive(logs, part.sample_weight, Part)
        terms, combine = found.of_part().estimable(positive)
        if len(terms) > MANY_TERMS:
            raise ValueError(
                f"{type(evaluator).__name__} cannot be summed over parts of a log: "
                f"it would need the products of {len(terms)} terms. Use "
                "control_variates='single', or rounds in memory: "
                "lazy.sample(100_000, random_state=0)."
            )
        sums = whole.sums_by(ROUNDS)
        if found.used is not None and not found.used.all():
            # those that are left out are not the same for other policies
            sums = whole.sums_by(f"{name}: {policy}", positive.design)
        job, owner = (name, policy, None), weights_of(name, policy)
        whole.facts[job] = {"combine": combine, "smooth": found.smooth}
        whole.add_terms(job, sums, terms)
        if found.follows_reward:
            whole.ends[job] = found.extremes(logs, positive)
            where = f"halves of {name}: {policy}"
            own = whole.sums_by(where, positive.design, found.upper(logs))
            whole.add_terms(halves_of(job), own, terms)
            whole.add_terms(weighted_of(name, policy), own, found.weighted(logs))
        whole.tallies[owner] = _tally_of(found, positive, part)
        if found.weight is not None:
            whole.add_terms(owner, sums, _terms_of_weights(found, whole.n_total))


def _terms_of_weights(found, n_total):
    """Return the weights of slates as the overlap of all parts of a log needs them."""
    # Those are w and w less its mean, plus one, and both bounded, see `Summary`; and
    # the same of what stands for w where that is zero in all rounds.
    n_total = UNKNOWN_LENGTH if n_total is None else n_total
    out = ()
    for w in found.choices:
        for one in (w, balanced(w, found.expected)):
            out += one, bounded(one, n_total, one.max())
    return out


def _tally_of(found, positive, part):
    """Return the `Tally` of what is known of slates."""
    tally, n = Tally([None], [], table=False), len(part.all_logs)
    omega = part.omega
    told = {"n_rounds": n, "mass": n if omega is None else float(omega.sum())}
    known = found.diagnostics
    told |= {name: n * known[name] for name in SHARES if name in known}
    if "uncovered_rounds" in known:  # the source knows those of all parts
        tally.most["uncovered_rounds"] = float(known["uncovered_rounds"])
    left_out = found.left_out(part.omega)
    if left_out is not None:
        told["left_out"] = float((left_out * (1.0 if omega is None else omega)).sum())
    told["unsupported"] = float(not found.supported)
    told["expected"] = float(found.expected is not None)
    tally.told_sums = told
    for k, w in enumerate(found.choices):
        counted = w if positive.omega is None else positive.omega * w
        balance = positive.of(balanced(w, found.expected))
        tally.most |= {
            f"largest {k}": max(float(counted.max()), 0.0),
            f"below {k}": float(positive.of(-w).max(initial=0.0)),
            f"balance below {k}": float((-balance).max(initial=0.0)),
        }
    return tally


def slate_shares(summary):
    """Return means over all rounds of what parts of a log told of slates, by name."""
    sums = summary.tally.told_sums
    return {name: sums[name] / sums["n_rounds"] for name in SHARES if name in sums}


def overlaps_of_slates(summary):
    """Return the overlap, and that of weights less what they should be; or None."""
    weights, tally = summary.weights, summary.tally
    if weights is None or not summary.n:
        return None, None
    several = weights.n_terms > N_TERMS
    choice = 1 if several and not tally.most["largest 0"] else 0
    scale = summary.n / summary.mass
    scaled, pair = weights.scaled(scale), []
    for begin, what in ((0, "below"), (2, "balance below")):
        at = N_TERMS * choice + begin
        one = Overlap.__new__(Overlap)
        one.n, one.missing = summary.n, 0.0
        one.sums, one.bounded = scaled.some([at]), scaled.some([at + 1])
        one.max_w = scale * tally.most[f"largest {choice}"]
        one.min_w = -tally.most[f"{what} {choice}"]
        pair.append(one)
    return pair if tally.told_sums["expected"] else (pair[0], pair[0])


def known_of_slates(evaluator, summary, log):
    """Return the estimate, and what a value is told beside it, by name."""
    estimate, sums = summary.estimate(), summary.tally.told_sums
    entries, warned = {"n_rounds": summary.n}, []
    if log is not None:
        warned += _doubts_of_logger(evaluator, log)
    more, own = evaluator.diagnostics_of(summary, estimate)
    warned += own
    pair, supported = overlaps_of_slates(summary), not sums["unsupported"]
    told, findings, size = of_weights(*pair, supported)
    warned += warnings_of(findings)
    entries |= told
    if sums.get("left_out"):
        entries["left_out_share"] = sums["left_out"] / sums["mass"]
    if "uncovered_rounds" in summary.tally.most:
        entries["uncovered_rounds"] = int(summary.tally.most["uncovered_rounds"])
    if isnan(estimate.value):
        warned.append(estimate.combine.warning(type(evaluator).__name__, estimate))
    return estimate, {
        "effective_sample_size": size,
        "diagnostics": entries | more | slate_shares(summary),
        "warnings": warned,
        "reach": _deviation_of_sums(summary, log),
    }


def _deviation_of_sums(summary, log):
    """Return what finds how far the value of a round may lie from the estimate."""
    limits, facts = None if log is None else known_range(log), summary.facts
    if summary.ends is None:
        return range_only(limits)
    formula = SlateFormula(facts["combine"].combine, tuple(facts["smooth"]))
    halves = summary.found.sums.of(halves_of(summary.key))
    about = limits, summary.ends, summary.counts.reward_range, summary.weighted
    return SlateDeviation(formula, *about, halves)


# -- what weights and the logger tell --------------------------------------------------
def balanced(weight, expected):
    """Return weights, moved by what is known of their means so that these are one."""
    return weight if expected is None else weight + 1 - expected


def overlaps_of_weights(weight, expected, design):
    """Return the overlap of rounds, and that of weights less what they should be."""
    n_rounds = int(design.count.sum())
    if weight is None or not n_rounds:
        return None, None
    block = design.block(0, design.n_rounds)
    overlap = balance = Overlap(design, n_rounds)
    overlap.add(block, weight)
    if expected is not None:
        balance = Overlap(design, n_rounds)
        balance.add(block, balanced(weight, expected))
    return overlap, balance


def of_weights(overlap, balance, supported, by_slot=False):
    """Return entries, findings and the effective size that weights of slates tell."""
    if overlap is None:
        return {}, [], nan
    expected, entries = 1.0, {}
    if balance is not overlap:  # weights that would have mean one
        expected = 1 + overlap.mean_weight - balance.mean_weight
        entries["expected_weight"] = expected
    entries |= weight_entries(overlap, balance)
    found = [no_overlap_finding()]
    if overlap.sum_w2:
        found = slate_weight_findings(overlap, balance, expected, supported, by_slot)
    return entries, found, overlap.effective_sample_size


def _doubts_of_logger(evaluator, log):
    """Return warnings where what is known of a log speaks against its logger."""
    logger = getattr(log, "logging_policy", None)
    ours = isinstance(logger, BaseSlatePolicy)
    if evaluator.requires.asks_logger(log) and (ours or not isinstance(log, SlateLogs)):
        return [*propensity_warnings(log), *(logger._doubts(log) if ours else ())]
    found = log._quick_propensity_findings[1] if evaluator.requires.slates else []
    return warnings_of(one for one in found if one.name == LOST_ROWS)


def _lowest_and_highest(values):
    return float(values.min()), float(values.max())
