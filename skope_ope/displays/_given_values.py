# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Values that a user gives to displays: what they must be, and what they are called."""

from collections.abc import Mapping

import numpy as np

from skope_ope._inside import fitted_evaluator


def static_evaluator(evaluator, logs, ability, hint=""):
    """Return a fitted evaluator that has an ability of static ones, and the logs."""
    evaluator, logs = fitted_evaluator(evaluator, logs)
    if not hasattr(evaluator, ability):
        name = type(evaluator).__name__
        raise TypeError(f"a static evaluator is needed, got {name}.{hint}")
    return evaluator, logs


def is_value(value):
    """Tell whether something is a PolicyValue: it has an interval of its own."""
    return hasattr(value, "confidence_interval") and hasattr(value, "estimator")


def checked_values(values):
    """Return a dict of values by name, of a `ValueTable`, a dict or a single value."""
    if is_value(values):
        return {values.estimator: values}
    if not isinstance(values, Mapping):
        raise TypeError(
            "values must be a ValueTable, a dict of PolicyValue or a PolicyValue, "
            f"got {type(values).__name__}."
        )
    if not values:
        raise ValueError("values is empty: there is nothing to show.")
    for key, value in values.items():
        if not is_value(value):
            raise TypeError(
                f"values[{key!r}] must be a PolicyValue, which carries its "
                f"interval, got {type(value).__name__}. Use "
                "evaluator.evaluate(policy), not score(policy)."
            )
    return dict(values)


def keyed_values(evaluator, policy, logs=None):
    """Return values of one policy or a dict of them, by one evaluator or several."""
    if isinstance(evaluator, Mapping):
        found = {name: fitted_evaluator(one, logs) for name, one in evaluator.items()}
    else:
        one, rounds = fitted_evaluator(evaluator, logs)
        found = {type(one).__name__: (one, rounds)}
    if not isinstance(policy, Mapping):
        return {name: one.evaluate(policy, at) for name, (one, at) in found.items()}
    return {
        (key, name): one.evaluate(target, at)
        for key, target in policy.items()
        for name, (one, at) in found.items()
    }


def checked_curve(values, what, low, high=np.inf):
    """Return the increasing numbers by which values are given, and the values."""
    if is_value(values):
        raise TypeError(
            f"values must be a dict of PolicyValue by the {what}, got one PolicyValue."
        )
    values = checked_values(values)
    for key in values:
        number = isinstance(key, (int, float, np.integer, np.floating))
        if not (number and low <= key <= high):
            raise ValueError(
                f"values must be a dict by the {what}, numbers in [{low:g}, {high:g}], "
                f"got the key {key!r}."
            )
    keys = sorted(values)
    return np.array(keys, dtype=float), [values[key] for key in keys]


def value_and_limits(values, level):
    """Return values, and the ends of their intervals, as arrays."""
    low, high = np.array([one._interval(level) for one in values], dtype=float).T
    return np.array([one.value for one in values]), low, high


def key_texts(keys):
    """Return what values are called: keys, or "policy, evaluator" of pairs."""
    # What all pairs have in common is left out.
    pairs = [key if isinstance(key, tuple) else (None, key) for key in keys]
    policies, evaluators = (
        list(dict.fromkeys(part)) for part in zip(*pairs, strict=True)
    )
    if len(policies) == 1:
        return [str(evaluator) for _, evaluator in pairs]
    if len(evaluators) == 1:
        return [str(policy) for policy, _ in pairs]
    return [f"{policy}, {evaluator}" for policy, evaluator in pairs]
