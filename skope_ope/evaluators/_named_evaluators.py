# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Evaluators that words on the command line name."""

from skope_ope._sklearn import StrOptions
from skope_ope.evaluators._names import (
    STATIC,
    evaluator_named,
    names_for,
    unknown_evaluator,
)
from skope_ope.logs import BanditLogs
from skope_ope.logs._text_files import number, whole_number


def named_evaluators(texts, cv=5):
    """Return evaluators by name and parameters, such as `IPS` or `IPS:cmax=10`."""
    chosen = {}
    known = {name.lower(): name for name in names_for(BanditLogs)}
    for text in STATIC if tuple(texts) == ("all",) else texts:
        name, *settings = text.split(":")
        if name.lower() not in known:
            raise unknown_evaluator(name)
        evaluator = evaluator_named(known[name.lower()])
        own = [
            key for key in evaluator.get_params() if key not in ("reward_model", "cv")
        ]
        for setting in settings:
            key, _, value = setting.partition("=")
            if key not in own:
                raise ValueError(
                    f"{text!r}: {known[name.lower()]} has "
                    f"{'no parameter' if not own else 'the parameter ' + own[0]}, got "
                    f"{key!r}."
                )
            evaluator.set_params(**{key: _parsed(evaluator, key, value, text)})
        if "cv" in evaluator.get_params():
            evaluator.set_params(cv=cv)
        label = ":".join([known[name.lower()], *settings])
        if label in chosen:
            raise ValueError(f"evaluator {label!r} is named twice.")
        chosen[label] = evaluator
    return chosen


def _parsed(evaluator, key, value, text):
    """Return a parameter from a word: None, a choice, true or false, or a number."""
    if value.lower() == "none":
        return None
    for constraint in evaluator._parameter_constraints[key]:
        if isinstance(constraint, StrOptions) and value in constraint.options:
            return value
        if constraint == "boolean" and value.lower() in ("true", "false"):
            return value.lower() == "true"
    try:
        return _int_or_float(value)
    except ValueError:
        raise ValueError(f"{text!r}: {value!r} is not a number.") from None


def _int_or_float(text):
    """Return an int where the text is one: lengths are counts."""
    try:
        return whole_number(text)
    except ValueError:
        return number(text)
