# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Public signatures share one order and one default each."""

import inspect

import skope_ope
from skope_ope.utils import all_evaluators


def public_callables():
    """Public functions, and public methods of public classes, by name."""
    for name in skope_ope.__all__:
        value = getattr(skope_ope, name)
        yield name, value
        if inspect.isclass(value):
            for method, member in inspect.getmembers(value, callable):
                if not method.startswith("_"):
                    yield f"{name}.{method}", member


def test_no_public_callable_takes_logs_before_policies():
    found = set()
    for name, value in public_callables():
        try:
            parameters = list(inspect.signature(value).parameters)
        except ValueError:  # of a class written in C
            continue
        both = [one for one in parameters if one in ("policy", "policies", "logs")]
        if len(both) > 1:
            found.add(name)
            # new rounds come first, as in partial_fit; a suggestion needs no policy
            first = ("ConfidenceSequence.update", "suggest")
            assert both[-1] == "logs" or name in first, name
    assert {"evaluate", "compare_policies", "logger_overlap", "IPS.score"} <= found


def test_parameters_of_evaluators_are_keyword_only():
    for name, cls in all_evaluators():
        for parameter in inspect.signature(cls).parameters.values():
            assert parameter.kind is parameter.KEYWORD_ONLY, (name, parameter)


def test_one_default_each():
    """Policies, audits and intervals are seeded, all else is as scikit-learn's is."""
    asked_twice = "audit", "confidence_interval", "confidence_intervals"
    for name, value in public_callables():
        try:
            parameters = inspect.signature(value).parameters
        except ValueError:
            continue
        seeded = hasattr(value, "predict_proba") or hasattr(value, "slot_marginals")
        seeded = seeded or value.__name__ in asked_twice
        for one in ("random_state", "n_bootstrap", "n_jobs"):
            if one in parameters:
                expected = 0 if seeded and one == "random_state" else None
                assert parameters[one].default is expected, name
