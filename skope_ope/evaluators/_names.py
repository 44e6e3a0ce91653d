# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Evaluators by name: the classes of the families, and the forms of the rules."""

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
from skope_ope.evaluators._rules import FORMS
from skope_ope.evaluators.base._evaluator import BaseEvaluator
from skope_ope.evaluators.core._requires import Requires
from skope_ope.logs import BanditLogs

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
EVALUATORS = {name: cls for one in FAMILIES for name, cls in _classes_in(one).items()}


def _kinds(cls):
    """Return the kinds of logs that a class takes."""
    requires = cls.requires  # a property where it follows parameters
    return (requires if isinstance(requires, Requires) else cls().requires).logs


def names_for(kind):
    """Return all names of evaluators that take a kind of logs, forms of them last."""
    classes = [name for name, cls in EVALUATORS.items() if kind in _kinds(cls)]
    return classes + [name for name, one in FORMS.items() if kind in one.requires.logs]


def evaluator_named(name, kind=BanditLogs):
    """Return the evaluator with a name, with its default parameters."""
    if name in FORMS and kind in FORMS[name].requires.logs:
        return clone(FORMS[name])
    cls = EVALUATORS.get(name)
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
    if name in EVALUATORS or name in FORMS:
        other = "slates" if kind is BanditLogs else "logs of single actions"
        meant = f" {name} is for {other}.{meant}"
    return ValueError(
        f"evaluator {name!r} is unknown; there are {', '.join(known)}.{meant}"
    )
