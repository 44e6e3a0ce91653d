# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""What parts of a log keep of the weights of slates, and what a value is told of it."""

from math import isnan, nan

from skope_ope.evaluators.core._mean_weight import bounded
from skope_ope.evaluators.core._overlap import Overlap, weight_entries
from skope_ope.evaluators.core._part_weights import UNKNOWN_LENGTH
from skope_ope.evaluators.core._reach import range_only
from skope_ope.evaluators.core._slate_deviation import SlateDeviation, SlateFormula
from skope_ope.evaluators.core._sums import halves_of
from skope_ope.evaluators.core._support_findings import no_overlap_finding
from skope_ope.evaluators.core._tally import Tally
from skope_ope.evaluators.core._warnings import propensity_warnings, warnings_of
from skope_ope.evaluators.core._weight_findings import slate_weight_findings
from skope_ope.logs._known_range import known_range

SUMMED = ("unsupported_share", "outside_range_share", "negative_weight_share")
SUMMED += ("altered_rows", "correction")  # means over all rounds
N_TERMS = 4  # of a choice of weights


def weights_of(found, n_total):
    """Return the weights of slates as the overlap of all parts of a log needs them."""
    # Those are w and w less its mean, plus one, and both bounded, see `Summary`; and
    # the same of what stands for w where that is zero in all rounds.
    n_total = UNKNOWN_LENGTH if n_total is None else n_total
    out = ()
    for w in found.choices:
        for one in (w, _balance(found, w)):
            out += one, bounded(one, n_total, one.max())
    return out


def _balance(found, w):
    """Return weights less their means, plus one."""
    return w if found.expected is None else w + 1 - found.expected


def tally_of(found, positive, part):
    """Return the `Tally` of what is known of slates."""
    tally, n = Tally([None], [], table=False), len(part.all_logs)
    omega = part.omega
    told = {"n_rounds": n, "mass": n if omega is None else float(omega.sum())}
    known = found.diagnostics
    told |= {name: n * known[name] for name in SUMMED if name in known}
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
        balance = _balance(found, w)
        tally.most |= {
            f"largest {k}": max(float(counted.max()), 0.0),
            f"below {k}": float(positive.of(-w).max(initial=0.0)),
            f"balance below {k}": float(positive.of(-balance).max(initial=0.0)),
        }
    return tally


def overlaps_of_sums(summary):
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
    told = {name: sums[name] / sums["n_rounds"] for name in SUMMED if name in sums}
    entries, warned, size = {"n_rounds": summary.n}, [], nan
    if log is not None and evaluator._asks_logger(log):
        warned += propensity_warnings(log)
    elif log is not None:
        warned += evaluator._lost_rows(log)
    warned += evaluator._told_warnings(told)
    overlap, balance = overlaps_of_sums(summary)
    if overlap is not None:
        size, mean = overlap.effective_sample_size, 1.0
        if sums["expected"]:
            mean = 1 + overlap.mean_weight - balance.mean_weight
            entries["expected_weight"] = mean
        entries |= weight_entries(overlap, balance)
        found = [no_overlap_finding()]
        if overlap.sum_w2:
            supported = not sums["unsupported"]
            found = slate_weight_findings(overlap, balance, mean, supported)
        warned += warnings_of(found)
    if sums.get("left_out"):
        entries["left_out_share"] = sums["left_out"] / sums["mass"]
    if "uncovered_rounds" in summary.tally.most:
        entries["uncovered_rounds"] = int(summary.tally.most["uncovered_rounds"])
    if isnan(estimate.value):
        warned.append(estimate.combine.warning(type(evaluator).__name__, estimate))
    return estimate, {
        "effective_sample_size": size,
        "diagnostics": entries | told,
        "warnings": warned,
        "reach": _deviation(summary, log),
    }


def _deviation(summary, log):
    """Return what finds how far the value of a round may lie from the estimate."""
    limits = None if log is None else known_range(log)
    if summary.ends is None:
        return range_only(limits)
    facts = summary.facts
    formula = SlateFormula(facts["combine"].combine, tuple(facts["smooth"]))
    seen, halves = (
        summary.counts.reward_range,
        summary.found.sums.of(halves_of(summary.key)),
    )
    about = limits, summary.ends, seen, summary.weighted
    return SlateDeviation(formula, *about, halves)
