# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Scores of every action in every round, whose mean over a policy is its value."""

import numpy as np

from skope_ope.evaluators.core._auto import auto_parameters
from skope_ope.evaluators.core._functions import (
    mean,
    mean_plus_ratio,
    ratio,
    sum_of_two,
)
from skope_ope.evaluators.core._plain_weights import PROBE, PROBE_WITH_MODEL
from skope_ope.evaluators.core._requires import LogFacts
from skope_ope.logs._validation import check_finite


def doubly_robust_scores(logs, expected, w):
    r"""Return :math:`S_i(a) = q_i(a) + 1[a_i = a] w_i (r_i - q_i(a))`."""
    scores = np.empty((len(logs), logs.n_actions))
    scores[:] = expected
    logged = np.arange(len(logs)), logs.action_index
    scores[logged] += w * residual(logs.reward, scores[logged])
    return scores


def residual(reward, expected):
    """Return reward - expected, 0 where they differ by rounding only."""
    difference = reward - expected
    size = np.maximum(np.abs(reward), np.abs(expected))
    return np.where(np.abs(difference) <= 1e-12 * size, 0.0, difference)


def action_scores(evaluator, logs):
    """Return the scores of an evaluator whose value is linear in the policy."""
    why = _why_none(evaluator)
    if why:
        raise ValueError(
            f"{type(evaluator).__name__} has no scores of actions: {why}. Use "
            "DoublyRobust, IPS or DirectMethod."
        )
    expected = 0.0
    if evaluator.requires.model:
        expected = evaluator.reward_model_.bind(logs)(logs, 0)
        check_finite("reward_model", expected)
    if not evaluator.requires.weights:
        return np.array(expected, dtype=np.float64)  # the source may keep its own
    return doubly_robust_scores(logs, expected, evaluator.weights(1 / logs.propensity))


def _why_none(evaluator):
    """Return why an evaluator has no scores; None: it has."""
    for name, auto in auto_parameters(evaluator).items():
        if auto.neutral is not None:  # no bound on the weights
            return "its weights are not linear in the policy's probabilities"
        return f"{name}='auto' is chosen for every policy. Pass a number"
    evaluator = evaluator.resolved(LogFacts(len(PROBE.r)))
    requires, combine = evaluator.requires, evaluator.combine
    if evaluator.sampling.by != "rounds" or evaluator.proposal != "logger":
        return "its weights depend on all loggers"
    if requires.refits:
        return "its reward model is fitted anew for every policy"
    if combine in (ratio, mean_plus_ratio):
        return "it divides by the sum of the weights of the policy"
    if not _is_clipped(evaluator.weights(PROBE.w)):
        return "its weights are not linear in the policy's probabilities"
    if not _is_linear(evaluator):
        return "its value is not known to be linear in the policy's probabilities"
    return None


def _is_clipped(weights):
    """Whether weights are as they were, but for a bound from above."""
    return np.array_equal(weights, np.minimum(PROBE.w, weights.max()))


def _is_linear(evaluator):
    """Whether the formula is that of `doubly_robust_scores`, on a few rounds."""
    combine, requires = evaluator.combine, evaluator.requires
    if combine not in (mean, sum_of_two):
        return False
    rounds = PROBE_WITH_MODEL if requires.model else PROBE
    score, w = 0.0, evaluator.weights(rounds.w)
    if requires.weights:
        score = w * (rounds.residual if requires.model else rounds.r)
    expected = rounds.v + score if requires.model else score
    found = combine(evaluator.terms(rounds))[0]
    return np.allclose(found, expected, rtol=1e-12, atol=0)
