# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""The lines that `suggest` gives: they run where `logs` and `policy` are."""

import sys

from sklearn import config_context

from skope_ope.selection._suggestion import one_line


def code_for(found):
    """Return lines of Python that do what is suggested."""
    evaluators = [one for one in (found["evaluator"], found["check"]) if one]
    steps = [one[0] for one in evaluators if hasattr(one, "steps")]
    with config_context(print_changed_only=True):
        return "\n".join(_lines(evaluators, steps))


def _lines(evaluators, steps):
    last = [one[-1] if hasattr(one, "steps") else one for one in evaluators]
    names = {}
    for where, name in sorted(
        {name for one in [*last, *steps] for name in _classes(one)}
    ):
        names.setdefault(where, []).append(name)
    lines = [f"from {where} import {', '.join(own)}" for where, own in names.items()]
    lines.append("")
    if steps:
        lines.append(f"known = {one_line(steps[0])}.fit_transform(logs)")
    for place, one in enumerate(last):
        name = "check" if place else "value"
        # a check of a log that needs a step is one on the log with it
        logs = "known" if steps and hasattr(evaluators[place], "steps") else "logs"
        lines.append(f"{name} = {one_line(one)}.fit({logs}).evaluate(policy)")
    lines.append("print(value.value, value.confidence_interval())")
    if len(last) > 1:
        lines.append("print(check.value)  # about the same, or look for the reason")
    return lines


def _classes(evaluator):
    """Return module and name of the classes that the line of an evaluator names."""
    found = {_place(type(evaluator))}
    for value in evaluator.get_params(deep=True).values():
        if hasattr(value, "get_params"):
            found.add(_place(type(value)))
    return found


def _place(kind):
    package, *rest = kind.__module__.split(".")
    if kind.__name__ in getattr(sys.modules[package], "__all__", ()):
        return package, kind.__name__
    public = [one for one in rest if one[0] != "_"]
    return ".".join([package, *public]), kind.__name__
