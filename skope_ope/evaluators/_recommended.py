# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Which row of a table is to be believed: a rule that never looks at the values."""

from typing import NamedTuple

from skope_ope._sklearn import inside
from skope_ope.evaluators._names import (
    BALANCED,
    DEFAULTS,
    PSEUDO_INVERSES,
    SLATE_RATIO,
    is_one_of,
)
from skope_ope.evaluators.slate import IndependentSlotIPS
from skope_ope.exceptions import AdaptiveLoggerWarning, PropensityWarning
from skope_ope.logs.checks._propensity_sums import acting_loggers
from skope_ope.logs.checks._slate_logger import LOST_ROWS
from skope_ope.logs.sums._log_sums import has_field, known_fields
from skope_ope.policies._adaptive import AdaptivePolicy

MISFIT = (
    "the propensities do not fit the logged actions: trust no row of this table "
    "until they are corrected"
)
SLATES_MISFIT = (
    "the candidates or the logging policy do not fit the logged slates: trust no row "
    "of this table until they are corrected"
)
ROWS_LOST = (
    "rows of pages are missing from the logs: trust no row of this table until they "
    "are there"
)
BY_SLOT = (
    "IndependentSlotIPS uses the rewards of the slots and needs fewer rounds, but it "
    "is right only if no slot affects the reward of another"
)
WRONG_WEIGHTS = (
    "the weights are wrong, because of the propensities or of the policy's "
    "probabilities: trust no row with this warning until they are corrected"
)

ESTIMATED = (
    "the propensities are estimated: its value is right if they are right or if "
    "its reward model is, and the model lowers its variance"
)
LOGGER_LEARNED = (
    "the logger learned while it acted, so the intervals of all rows may be too "
    "narrow; AdaptiveDR is made for such logs"
)
LEARNS = (
    "this rule is for policies that do not learn while they act; for those that do, "
    "use DRns, RejectionSampling or Replay"
)


def learns(policy):
    """Whether a policy, or what a search or Pipeline around it uses, learns."""
    return isinstance(policy, AdaptivePolicy) or isinstance(
        inside(policy), AdaptivePolicy
    )


class Recommendation(NamedTuple):
    """The evaluator that is recommended for some logs."""

    name: str | None  # the name of its row; None: nothing is recommended
    evaluator: object  # an unfitted one, likewise
    reason: str  # why this one, or why none, in a sentence without a full stop


def recommended_evaluator(logs, n_loggers=None, more=()):
    """Return the evaluator that is recommended for some logs."""
    # The rule depends on what the logs tell of the logger, never on a value: choosing
    # among values would choose their errors. It takes the form with the lowest error
    # among those that leave no bias out of their interval.
    told = known_fields(logs).union(more)
    if "slate" in told:
        return _for_slates(told)
    if "propensity" not in told:
        return Recommendation(
            None,
            None,
            "without propensities only a reward model can be used, and no interval "
            "includes its error; record propensities, or estimate them with "
            "PropensityEstimator",
        )
    n_loggers = acting_loggers(logs) if n_loggers is None else n_loggers
    if n_loggers > 1 and "logger_proba" in told:
        return _of(
            BALANCED,
            "BalancedDR",
            "the probabilities of all loggers are known, so the rounds are weighted "
            "by the mixture of all loggers, and a reward model lowers the variance",
        )
    if "propensity" in more or getattr(logs, "propensity_estimated", False):
        return _of(DEFAULTS, "DoublyRobust", ESTIMATED)
    return _of(
        DEFAULTS,
        "DoublyRobust",
        "the propensities make it unbiased even if its reward model is wrong, and "
        "the model lowers its variance",
    )


def _for_slates(told):
    if "logging_policy" in told:
        return _of(
            PSEUDO_INVERSES,
            "ControlledPI",
            "the logging policy is known; if the value of a slate is about a sum "
            "over its slots, PseudoInverse with multiple control variates has the "
            "lowest error in most worlds",
        )
    if "propensity" in told:
        return _of(
            SLATE_RATIO,
            "wIPS",
            "probabilities are known only for whole slates; it stays in the range of "
            "the rewards, and assumes nothing about the slots",
        )
    return Recommendation(
        None,
        None,
        "without a logging policy or propensities only a reward model can be used, "
        "and no interval includes its error; pass logging_policy=... to SlateLogs",
    )


def _of(rows, name, reason):
    return Recommendation(name, rows[name], reason)


def plain_row(rows, otherwise):
    """Return what decides among rows of the first table where no model can be used."""
    names = [one for one in ("BalancedIPS", "SNIPS") if one in rows]
    return rows[names[0]] if names else otherwise


def recommended_row(logs, evaluators, n_loggers=None, left_out=()):
    """Return which of some evaluators is recommended, and why it or none."""
    found = recommended_evaluator(logs, n_loggers)
    if found.name is None:
        return None, found.reason
    alike = [
        name for name, one in evaluators.items() if is_one_of(one, found.evaluator)
    ]
    if found.name in alike:
        return found.name, found.reason + _also(evaluators)
    if len(alike) == 1:
        return alike[0], found.reason + _also(evaluators)
    if alike:
        names = ", ".join(map(str, alike))
        return None, f"{names} differ only in their reward models"
    if found.name in left_out:
        lacking = left_out[found.name]
        return None, f"{found.name} would be recommended, but the logs lack {lacking}"
    return None, f"these logs allow {found.name}, which was not asked for"


def _also(evaluators):
    """Return what is said of a row that assumes more than the recommended one."""
    by_slot = any(isinstance(e, IndependentSlotIPS) for e in evaluators.values())
    return f"; {BY_SLOT}" if by_slot else ""


def recommend(logs, evaluators, left_out, values, policies=(), n_loggers=None):
    """Return the recommended row and why it or none; `values` may raise doubts."""
    row, reason = recommended_row(logs, evaluators, n_loggers, left_out)
    if row is None and any(map(learns, policies)):
        reason = LEARNS
    return row, reason if values is None else doubted_reason(row, reason, logs, values)


def doubted_reason(name, reason, logs, values):
    """Get the reason for a row, unless propensities or weights are wrong: then that."""
    values = list(values)
    doubt = _doubt(logs, values)
    if doubt:
        return f"{doubt}; {reason}" if name is None else doubt
    # the values know it from their pass over the rounds
    told = (type(warning) for value in values for warning in value.warnings)
    return f"{reason}; {LOGGER_LEARNED}" if AdaptiveLoggerWarning in told else reason


def _doubt(logs, values):
    """Return what is wrong with the weights of all rows, or of some; or nothing."""
    if misfits(logs):
        return misfit_reason(logs)
    if has_field(logs, "slate") or not has_field(logs, "propensity"):
        return ""
    # not its subclass, which tells of a bias by design
    kinds = {type(warning) for value in values for warning in value.warnings}
    return WRONG_WEIGHTS if PropensityWarning in kinds else ""


def misfits(logs):
    """Return the alarms of a logger that does not fit the logged actions or slates."""
    if not (has_field(logs, "slate") or has_field(logs, "propensity")):
        return []
    return [one for one in logs._quick_propensity_findings[1] if one.is_alarm]


def misfit_reason(logs):
    """Return why no row is to be trusted where `misfits` finds something."""
    if not has_field(logs, "slate"):
        return MISFIT
    return ROWS_LOST if misfits(logs)[0].name == LOST_ROWS else SLATES_MISFIT
