# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""The importance weights with which an evaluator values a policy."""

from skope_ope.evaluators.core._engine import Extract, terms_of
from skope_ope.evaluators.core._target import Target
from skope_ope.evaluators.static import StaticEvaluator
from skope_ope.evaluators.static._base import combined_weights


def weights_of(evaluator, policy, logs=None):
    """Untransformed weights pi(a|x) / p of the logged actions, one per round."""
    name = type(evaluator).__name__
    if not isinstance(evaluator, StaticEvaluator):
        raise TypeError(f"a static evaluator is needed, got {name}.")
    if not evaluator._uses_weights:
        raise ValueError(
            f"{name} uses no importance weights: there is nothing to show. Fit IPS() "
            "to the same logs to see how far the policy is from the logger."
        )
    logs = evaluator.logs_ if logs is None else logs
    evaluator._check_logs(logs)
    weight = Extract(lambda rounds: (rounds.w,))
    return terms_of(weight, logs, Target(policy, logs), None)[0]


def chosen(evaluator, policy, logs=None):
    """Return the evaluator, with the number that "auto" is for this policy."""
    logs = evaluator.logs_ if logs is None else logs
    target, weight = Target(policy, logs), combined_weights(logs, None)
    source = evaluator._source_for(target, logs, weight)
    return evaluator._chosen(target, logs, source, weight)
