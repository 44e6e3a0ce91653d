# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""What several tests ask of public calls."""

import warnings

from skope_ope import IPS, UniformPolicy, UniformSlatePolicy, compare_policies


def quietly(call, *args, **given):
    """The answer of a call, without its warnings."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return call(*args, **given)


def interval_of(value, *args, **given):
    """Its confidence interval, in silence."""
    return quietly(value.confidence_interval, *args, **given)


def logged_value(logs):
    """The mean reward of the logs, which comparisons with the logger subtract."""
    policy, evaluator = UniformPolicy(), IPS()
    if hasattr(logs, "n_slots"):
        policy, evaluator = UniformSlatePolicy(logs.n_slots), None
    found = quietly(compare_policies, {"one": policy}, logs, evaluator=evaluator)
    return found.reference
