# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Scores of every action in every round, whose mean over a policy is its value."""

import numpy as np

from skope_ope.logs._validation import check_finite

FORMULA = ("terms", "weights", "combine")  # what makes the value of an evaluator


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
    if evaluator._no_scores is not None:
        return evaluator._no_scores
    if evaluator._is_auto:
        name = evaluator._auto.name
        return f"{name}='auto' is chosen for every policy. Pass a number"
    own = _has_own_formula(type(evaluator))
    return "it is a subclass with a different formula" if own else None


def _has_own_formula(kind):
    """Whether a subclass changes the formula of the class that has scores."""
    order = kind.__mro__
    stated = _first(order, "_no_scores")
    return any(_first(order, name) < stated for name in FORMULA)


def _first(order, name):
    return next(i for i, one in enumerate(order) if name in vars(one))
