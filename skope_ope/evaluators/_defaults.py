# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""The rows of the first table, by what the logs tell of the logger."""

from skope_ope.evaluators.multi_logger import MultiLoggerDR, MultiLoggerIPS
from skope_ope.evaluators.slate import (
    IndependentSlotIPS,
    PseudoInverse,
    SlateDirectMethod,
    SlateIPS,
)
from skope_ope.evaluators.static import (
    IPS,
    SNDR,
    SNIPS,
    DirectMethod,
    DoublyRobust,
)
from skope_ope.logs import SlateLogs
from skope_ope.logs._propensity_audit import acting_loggers
from skope_ope.logs._slate_fields import has_slot_rewards

# What rows need beyond actions and rewards. None of these leaves a bias out of its
# interval by design; where nothing is known, a model is all that there is.
PROPENSITIES = "propensities"
ALL_LOGGERS = "the probabilities of all loggers (logger_proba)"
SLATE_PROPENSITIES = "propensities or a logging policy"
LOGGING_POLICY = "a logging policy"

DEFAULTS = {
    "IPS": IPS(),
    "SNIPS": SNIPS(),
    "DoublyRobust": DoublyRobust(),
    "SNDR": SNDR(),
}
BALANCED = {
    "BalancedIPS": MultiLoggerIPS(pooling="balanced"),
    "BalancedDR": MultiLoggerDR(pooling="balanced"),
}
MODEL_ALONE = {"DirectMethod": DirectMethod()}

SLATE_IPS = {"SlateIPS": SlateIPS()}
SLATE_RATIO = {"wIPS": SlateIPS(self_normalized=True)}
PSEUDO_INVERSES = {
    "PseudoInverse": PseudoInverse(),
    "wPI": PseudoInverse(self_normalized=True),
    "ControlledPI": PseudoInverse(control_variates="multiple"),
}
SLOT_BY_SLOT = {"IndependentSlotIPS": IndependentSlotIPS()}
SLATE_MODEL_ALONE = {"SlateDirectMethod": SlateDirectMethod()}

# Names of rows that are no names of classes: settings of one that is.
FORMS = (
    BALANCED
    | SLATE_RATIO
    | {name: PSEUDO_INVERSES[name] for name in ("wPI", "ControlledPI")}
)


def default_evaluators(logs, n_loggers=None):
    """Return the evaluators of the first table, and what the others need."""
    if isinstance(logs, SlateLogs):
        return _slate_defaults(logs)
    if logs.propensity is None:
        return dict(MODEL_ALONE), dict.fromkeys(DEFAULTS, PROPENSITIES)
    if (acting_loggers(logs) if n_loggers is None else n_loggers) == 1:
        return dict(DEFAULTS), {}
    if logs.logger_proba is None:
        return dict(DEFAULTS), dict.fromkeys(BALANCED, ALL_LOGGERS)
    return DEFAULTS | BALANCED, {}


def _slate_defaults(logs):
    if logs.logging_policy is not None:
        by_slot = has_slot_rewards(logs)
        return SLATE_IPS | PSEUDO_INVERSES | (SLOT_BY_SLOT if by_slot else {}), {}
    left_out = dict.fromkeys(PSEUDO_INVERSES, LOGGING_POLICY)
    if logs.propensity is not None:
        return SLATE_IPS | SLATE_RATIO, left_out
    return dict(SLATE_MODEL_ALONE), (
        dict.fromkeys(SLATE_IPS | SLATE_RATIO, SLATE_PROPENSITIES) | left_out
    )
