# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Evaluators by name: the families' classes, and the rows of the first table."""

from inspect import Parameter, signature

from sklearn.base import clone

from skope_ope._texts import nearest
from skope_ope.evaluators import (
    adaptive_logger,
    multi_logger,
    scavenging,
    sequential,
    slate,
    static,
)
from skope_ope.evaluators.base._evaluator import BaseEvaluator
from skope_ope.evaluators.core._requires import Requires
from skope_ope.evaluators.multi_logger import MultiLoggerDR, MultiLoggerIPS
from skope_ope.evaluators.slate import (
    IndependentSlotIPS,
    PseudoInverse,
    SlateDirectMethod,
    SlateIPS,
)
from skope_ope.evaluators.static import IPS, SNDR, SNIPS, DirectMethod, DoublyRobust
from skope_ope.logs import BanditLogs, SlateLogs
from skope_ope.logs._validation import has_slot_rewards
from skope_ope.logs.checks._propensity_sums import acting_loggers

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
# What a row is whose name is no name of a class, but of settings of one.
SETTINGS = {
    "BalancedIPS": "MultiLoggerIPS with the mixture of all loggers",
    "BalancedDR": "MultiLoggerDR with the mixture of all loggers",
    "wIPS": "SlateIPS, divided by the sum of the weights",
    "wPI": "PseudoInverse, divided by the sum of the weights",
    "ControlledPI": "PseudoInverse with multiple control variates",
}
FORMS = {
    name: one
    for name, one in (BALANCED | SLATE_RATIO | PSEUDO_INVERSES).items()
    if name in SETTINGS
}
# What an evaluator may be given without becoming another estimator.
INPUTS = {"reward_model", "cv", "random_state"}

# -- names of classes -----------------------------------------------------------------
FAMILIES = (static, sequential, scavenging, multi_logger, adaptive_logger, slate)


def _classes_in(family):
    """Return the classes of evaluators of a family by name."""
    listed = {name: getattr(family, name) for name in family.__all__}
    return {
        name: cls
        for name, cls in listed.items()
        if isinstance(cls, type) and issubclass(cls, BaseEvaluator)
    }


STATIC = _classes_in(static)  # none depends on the order of the rounds
ALL = {name: cls for one in FAMILIES for name, cls in _classes_in(one).items()}


def _kinds(cls):
    """Return the kinds of logs that a class takes."""
    requires = cls.requires  # a property where it follows parameters
    return (requires if isinstance(requires, Requires) else cls().requires).logs


def names_for(kind):
    """Return all names of evaluators that take a kind of logs, forms of them last."""
    classes = [name for name, cls in ALL.items() if kind in _kinds(cls)]
    return classes + [name for name, one in FORMS.items() if kind in one.requires.logs]


def evaluator_named(name, kind=BanditLogs):
    """Return the evaluator with a name, with its default parameters."""
    if name in FORMS and kind in FORMS[name].requires.logs:
        return clone(FORMS[name])
    cls = ALL.get(name)
    if cls is None or kind not in _kinds(cls):
        raise unknown_evaluator(name, kind)
    try:
        return cls()
    except TypeError:
        parameters = signature(cls).parameters.values()
        needed = [one.name for one in parameters if one.default is Parameter.empty]
        raise ValueError(
            f"{name} has no default for {', '.join(needed)}: pass an instance, "
            f"{name}({', '.join(f'{one}=...' for one in needed)})."
        ) from None


def unknown_evaluator(name, kind=BanditLogs):
    """Return the error about a name that no evaluator has."""
    known = names_for(kind)
    # what a name is called for short, as DR or DM (the first of several); then what
    # is spelt nearly like it
    short = {"".join(filter(str.isupper, n)).lower(): n for n in reversed(known)}
    near = short.get(name.lower()) or nearest(name, known, cutoff=0.7)
    meant = f" Did you mean {near}?" if near else ""
    if name in ALL or name in FORMS:
        other = "slates" if kind is BanditLogs else "logs of single actions"
        meant = f" {name} is for {other}.{meant}"
    return ValueError(
        f"evaluator {name!r} is unknown; there are {', '.join(known)}.{meant}"
    )


# -- rows of the first table ----------------------------------------------------------
def default_evaluators(logs, n_loggers=None):
    """Return the evaluators of the first table, and what the others need."""
    if isinstance(logs, SlateLogs):
        if logs.logging_policy is not None:
            by_slot = SLOT_BY_SLOT if has_slot_rewards(logs) else {}
            return SLATE_IPS | PSEUDO_INVERSES | by_slot, {}
        left_out = dict.fromkeys(PSEUDO_INVERSES, LOGGING_POLICY)
        of_weights = SLATE_IPS | SLATE_RATIO
        if logs.propensity is not None:
            return of_weights, left_out
        left_out = dict.fromkeys(of_weights, SLATE_PROPENSITIES) | left_out
        return dict(SLATE_MODEL_ALONE), left_out
    if logs.propensity is None:
        return dict(MODEL_ALONE), dict.fromkeys(DEFAULTS, PROPENSITIES)
    if (acting_loggers(logs) if n_loggers is None else n_loggers) == 1:
        return dict(DEFAULTS), {}
    if logs.logger_proba is None:
        return dict(DEFAULTS), dict.fromkeys(BALANCED, ALL_LOGGERS)
    return DEFAULTS | BALANCED, {}


def is_one_of(evaluator, recommended):
    """Whether an evaluator is a row of the first table, perhaps with another model."""
    if type(evaluator) is not type(recommended):
        return False
    # not by `get_params`, which reads the signature of the class at every call
    return all(
        getattr(evaluator, name) == getattr(recommended, name)
        for name in recommended._parameter_constraints
        if name not in INPUTS
    )


def row_of(evaluator):
    """Return the name of an evaluator's row, None where that is named by its class."""
    rows = (name for name, one in FORMS.items() if is_one_of(evaluator, one))
    return next(rows, None)


def told_row(name):
    """Return the name of a row and, where that is no name of a class, what it is."""
    return f"{name} ({SETTINGS[name]})" if name in SETTINGS else name
