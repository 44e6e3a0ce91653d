# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""What a few sums tell of recorded propensities, and what to do about it."""

from math import exp, log

import numpy as np

from skope_ope.exceptions import PropensityWarning
from skope_ope.logs._e_value import SURE
from skope_ope.logs._finding import Finding
from skope_ope.logs._inverse_propensities import InversePropensities
from skope_ope.logs._propensity_audit import (
    ROUNDING,
    action_count_chance,
    action_count_z,
    estimating_step,
    propensity_by_action,
)
from skope_ope.logs._propensity_calibration import calibration_evidence
from skope_ope.logs._validation import plain

SURPRISE = 1e-5  # chances below this are told
SMALL, SMALL_Z = 1.05, 4.5  # of the mean of 1/p over all frequent actions
RARE, RARE_Z = 1.1, 4.5  # over one action
LARGE, LARGE_Z = 1.1, 4.0
ROUGH = 0.02  # of the smallest propensity: rounding that is worth a note
MOST_ROWS = 10


def quick_propensity_findings(logs):
    """Return what costs a few sums to know of the propensities of logs.

    Every alarm needs a deviation beyond chance (all tests together ring for one right
    log in a thousand) and one that matters: of 5% over all actions, of 10% for one.

    Parameters
    ----------
    logs : BanditLogs
        The rounds.

    Returns
    -------
    facts : dict
        What could be tested.
    findings : list of Finding
    """
    what = "propensity tests"
    if logs.propensity is None:
        return {what: "not possible: the log has no propensities"}, []
    if logs.propensity_estimated:
        return {what: "none: the propensities were estimated"}, [_estimated(logs)]
    if logs.propensity.min() >= 1 - 1e-9:
        told = {what: "not possible: all propensities are 1"}
        return told, [] if logs.n_actions == 1 else [_certain()]
    inverse = InversePropensities(logs)
    found = [
        _impossible(logs),
        _miscounted(logs, inverse),
        _miscalibrated(logs),
        _too_small(logs, inverse),
        _too_large(logs, inverse),
        _rounded(logs, inverse),
    ]
    return {what: "made"}, [one for one in found if one is not None]


def _alarm(name, found, advice, number, effect, **more):
    return Finding(
        name,
        "error",
        found,
        advice,
        float(number),
        float(effect),
        category=PropensityWarning,
        **more,
    )


def estimate_advice(logs):
    """Return the last resort where propensities were not written down."""
    return (
        "They were not recorded when the actions were drawn: estimate them with "
        f"{estimating_step(logs)}."
    )


def propensity_findings(logs, random_state=0):
    """Return what `logs` keep of `quick_propensity_findings`: a check of an audit."""
    return logs.quick_propensity_findings


# -- notes ----------------------------------------------------------------------------
def _estimated(logs):
    return Finding(
        "estimated_propensities",
        "note",
        "The propensities were estimated, so no test can tell whether they are right. "
        "What the logger knew and the context does not hold biases every estimate.",
    )


def _certain():
    return Finding(
        "certain_propensities",
        "note",
        "All propensities are 1: the logger is said to have had no choice, and the log "
        "tells nothing about other actions in the same context.",
        (
            "If the logger did draw its actions, 1 stands for unknown propensities: "
            "record them, or build the logs without and estimate them.",
        ),
    )


def _rounded(logs, inverse):
    step, lowest = inverse.half_step, float(logs.propensity.min())
    if step < ROUGH * lowest or _looks_exact(logs, step):
        return None
    effect = step / lowest
    return Finding(
        "rounded_propensities",
        "note",
        f"The propensities are rounded to steps of {2 * step:g}: the smallest, "
        f"{lowest:.3g}, may be off by {effect:.0%}, and so may the weights of its "
        "rounds. The tests allow for it.",
        ("Record propensities with all their digits.",),
        2 * step,
        effect,
        rows=_first(logs.propensity == lowest),
    )


def _looks_exact(logs, half_step):
    """Tell whether few distinct values add up to one by themselves, as .9 and .1 do."""
    by_action = propensity_by_action(logs)
    if by_action is not None and abs(by_action.sum() - 1) < ROUNDING:
        return True
    values = np.unique(np.rint(logs.propensity / (2 * half_step))) * 2 * half_step
    if len(values) > 2:
        return False
    others = (1 - values[-1] * (len(values) == 2)) / values[0]
    return abs(others - round(others)) < ROUNDING


# -- alarms ---------------------------------------------------------------------------
def _impossible(logs):
    """Find what right propensities make too rare for a log, however skewed they are."""
    p = logs.propensity
    row = int(p.argmin())
    chance = float(p[row]) * len(logs) * logs.n_actions  # a bound
    if chance >= SURPRISE:
        return None
    return _alarm(
        "impossible_propensity",
        f"Row {row} has propensity {p[row]:.3g}: right propensities bring one that "
        f"small into a log of {len(logs)} rounds with {logs.n_actions} actions with "
        f"probability {chance:.1g} at most, and its weight drowns all others.",
        (
            "It is a placeholder, or that of a model of the logger that does not know "
            "how the logger explores: record the probability that the action was drawn "
            "with.",
            "Drop the row, or bound the weights with PropensityClipper(low=...).",
        ),
        chance,
        1 / (len(logs) * p[row]),
        rows=_smallest(p, p < SURPRISE / (len(logs) * logs.n_actions)),
    )


def _miscounted(logs, inverse):
    """Compare counts with their exact law, where it is known."""
    if logs.action_count_law is None or logs.sample_weight is not None:
        return None
    mean = logs.action_count_law[0]
    excess = logs.action_counts - mean
    slack = inverse.half_step * len(logs) if logs.logging_proba is None else 0.0
    effect = np.maximum(np.abs(excess) - slack, 0) / np.maximum(mean, 1)
    chance = logs.n_actions * action_count_chance(logs)  # any of them may be the worst
    chance[effect <= RARE - 1] = 1
    worst = int(chance.argmin())
    if chance[worst] >= SURPRISE:
        return None
    often = excess[worst] > 0
    z = float(action_count_z(logs)[worst])
    return _alarm(
        "action_too_frequent" if often else "action_too_rare",
        f"Action {plain(logs.actions[worst])!r} was logged "
        f"{int(logs.action_counts[worst])} times, where the propensities let expect "
        f"{mean[worst]:.6g} ({z:+.1f} standard errors).",
        (
            "The propensities are those of another action, of another version of the "
            "logger, or of a logger that was never in force (1 / number of actions).",
            *(
                ()
                if often
                else ("Rounds of this action were dropped on the way into the log.",)
            ),
            estimate_advice(logs),
        ),
        z,
        effect[worst],
        columns=(plain(logs.actions[worst]),),
        rows=_first(logs.action_index == worst),
    )


def _miscalibrated(logs):
    if logs.logging_proba is None:
        return None
    evidence, sharpness = calibration_evidence(logs)
    if evidence <= SURE + log(10):
        return None
    how = "more often" if sharpness > 1 else "less often"
    return _alarm(
        "propensity_calibration",
        f"The logger took its likelier actions {how} than `logging_proba` says: its "
        f"temperature divided by {sharpness:.3g} fits the logged actions better "
        f"(e-value {power_of_ten(evidence)}).",
        (
            "The softmax was computed with another temperature than the one in force, "
            "or from scores of another version of the logger.",
            "The rows of `logging_proba` belong to other rounds.",
            estimate_advice(logs),
        ),
        evidence,
        max(sharpness, 1 / sharpness) - 1,
    )


def power_of_ten(evidence):
    return (
        f"10^{evidence / log(10):.0f}"
        if evidence > log(1e6)
        else f"{exp(evidence):.0f}"
    )


def _too_small(logs, inverse):
    all_of_them = inverse.too_small()
    if all_of_them.beyond(SMALL_Z, SMALL):
        return _alarm(
            "propensity_too_small",
            f"The mean of 1 / propensity over the frequent actions is "
            f"{all_of_them.ratio:.3g} times their number ({_errors(all_of_them.z)} "
            "above it): the actions were taken more often than the propensities say.",
            _small_advice(logs),
            all_of_them.z,
            all_of_them.ratio - 1,
            rows=_smallest(logs.propensity, inverse.frequent),
        )
    ratios = inverse.by_action()
    ratios[logs.action_counts < 2 * MOST_ROWS] = 0
    found = []
    for action in np.flatnonzero(ratios > RARE).tolist():
        excess = inverse.too_small_for(action)
        if excess.beyond(RARE_Z, RARE):
            found.append((excess.z, action, excess))
    if not found:
        return None
    _, action, excess = max(found)
    label = plain(logs.actions[action])
    return _alarm(
        "propensity_too_small",
        f"Action {label!r} was logged {excess.ratio:.3g} times as often as its "
        f"propensities let expect ({_errors(excess.z)} more).",
        _small_advice(logs),
        excess.z,
        excess.ratio - 1,
        columns=(label,),
        rows=_smallest(logs.propensity, logs.action_index == action),
    )


def _small_advice(logs):
    return (
        "The propensities belong to other rounds, another action or another version of "
        "the logger: check the join and the order of the rows.",
        "Rounds of some actions were dropped on the way into the log: the others then "
        "look too frequent. Log all rounds, or renormalise the propensities over what "
        "was kept.",
        "They are parts of the probability: multiplied by the share of a filter, a "
        "position or an experiment.",
        estimate_advice(logs),
    )


def _too_large(logs, inverse):
    excess = inverse.too_large()
    if excess is None or not excess.beyond(LARGE_Z, LARGE):
        return None
    p = logs.propensity
    lowest = p == p.min()
    advice = [
        "Contexts differ in the actions that were offered: pass `available`.",
        "The propensities are those of the likeliest action, or those of a logger that "
        "explored less.",
        estimate_advice(logs),
    ]
    if logs.available is not None or logs.logging_proba is not None:
        del advice[0]
    rows = _first(p == p.max())
    if 0.01 < lowest.mean() < 1 and inverse.half_step == 0:
        rows = _first(lowest)
        advice.insert(
            0,
            f"{lowest.mean():.1%} of the rounds have exactly the smallest propensity, "
            f"{p.min():.4g}: smaller ones were raised to it. Use the ones before that.",
        )
    return _alarm(
        "propensity_too_large",
        f"The mean of 1 / propensity is too small for the number of actions that the "
        f"logger took, by {excess.ratio - 1:.0%} ({_errors(excess.z)}): propensities "
        "are too large, or some actions were not offered in some contexts.",
        advice,
        excess.z,
        excess.ratio - 1,
        rows=rows,
    )


def _errors(z):
    return "without any spread" if np.isinf(z) else f"{z:.1f} standard errors"


def _first(mask):
    return np.flatnonzero(mask)[:MOST_ROWS].tolist()


def _smallest(p, mask):
    """Return the rows with the smallest propensities among some, in order."""
    rows = np.flatnonzero(mask)
    if len(rows) > MOST_ROWS:
        rows = rows[np.argpartition(p[rows], MOST_ROWS)[:MOST_ROWS]]
    return np.sort(rows).tolist()
