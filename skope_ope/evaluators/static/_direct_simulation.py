# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""A policy that learns from the rewards of a model, along the contexts of a log."""

import numpy as np

from skope_ope.evaluators.core._blocks import Chunks, check_answer, check_block
from skope_ope.evaluators.core._design import design_of
from skope_ope.evaluators.core._estimate import GivenEstimate
from skope_ope.evaluators.core._policy_value import PolicyValue
from skope_ope.evaluators.core._rounds import combined_weights
from skope_ope.evaluators.core._rows import Rows
from skope_ope.exceptions import ModelErrorWarning, SingleTrajectoryWarning
from skope_ope.logs._row_container import own, take_rows
from skope_ope.policies._adaptive import AdaptivePolicy, contexts_of, fresh_copy, learn

MOST_SIMULATED = 256  # rounds; every round is an update here


def simulate(policy, logs, predict):
    """Let a policy act and learn in every round, rewarded by the model."""
    policy = fresh_copy(policy, logs)
    context = contexts_of(policy, logs)
    model = Chunks(predict, logs)
    uniforms = draws(logs)
    # 0/1 rewards are drawn from the model: its means are no rewards.
    binary = bool(((logs.reward == 0) | (logs.reward == 1)).all())
    values = np.empty(len(logs))
    start, size = 0, 1
    while start < len(logs):
        stop = min(start + size, len(logs))
        X = take_rows(context, slice(start, stop))
        offered = None if logs.available is None else logs.available[start:stop]
        block = policy.look_ahead(own(X, policy), own(offered, policy))
        check_block(block.proba, stop - start, logs.n_actions, offered, start)
        q = model.rows(start, stop)
        at, stale = 0, False
        while at < stop - start and not stale:
            proba = block.proba[at]
            values[start + at] = proba @ q[at]
            u_action, u_reward = uniforms[start + at].tolist()
            action = draw(proba, u_action)
            reward = q[at, action].item()
            if binary:
                reward = float(u_reward < reward)
            at += 1
            chance = proba.item(action)
            row = take_rows(X, slice(at - 1, at))
            changed = learn(policy, row, action, reward, chance)
            check_answer(changed, policy)
            if changed:
                stale = at < stop - start and not block.refresh(at, action)
        size = at if stale else min(2 * size, MOST_SIMULATED)
        start += at
    return values, policy


def draws(logs):
    """Two uniform numbers per round: one for the action, one for the reward."""
    # They are seeded by the place of the first round in the logs as they were built:
    # the same logs give the same numbers, parts of the logs give other numbers.
    seed = int(logs.row_id.position[0]) % 2**32
    return np.random.RandomState(seed).random_sample((len(logs), 2))


def draw(proba, u):
    """Return the action whose interval of cumulative probabilities holds u."""
    cumulative = proba.cumsum()
    action = int(np.searchsorted(cumulative, u * cumulative[-1], side="right"))
    return min(action, len(proba) - 1)


def simulates(evaluator, target):
    """Whether an evaluator lets a policy that learns act on a model of the rewards."""
    return isinstance(target.policy, AdaptivePolicy) and not evaluator.requires.weights


def simulated_value(evaluator, target, logs, sample_weight):
    """Return the value of a policy that learns from the rewards of a model."""
    if combined_weights(logs, sample_weight) is not None:
        raise ValueError(
            "the rounds of a policy that learns cannot be weighted by "
            "sample_weight; use logs without weights."
        )
    values, learned = simulate(target.policy, logs, evaluator.reward_model_.bind(logs))
    return SimulatedValue(values, learned, logs, evaluator)


def model_error_warning():
    """Return what is said of a standard error without that of the model."""
    return ModelErrorWarning(
        "the standard error of DirectMethod leaves out the error of the reward model, "
        "which may be far larger. To include it, use DoublyRobust."
    )


class SimulatedValue(PolicyValue):
    """Value of a policy that learns from the rewards of the reward model."""

    _independent_rounds = False

    def __init__(self, values, learned_policy, logs, evaluator):
        design = design_of(logs)
        value = float(values.mean())
        super().__init__(
            GivenEstimate(value, float("nan"), len(logs) - 1, values, design),
            Rows(design, values[None], logs=logs),
            estimator=type(evaluator).__name__,
            diagnostics={
                "n_rounds": len(logs),
                "uncovered_rounds": int(evaluator.reward_model_.n_uncovered_),
                "model_error_included": False,
            },
            warnings=[
                SingleTrajectoryWarning(
                    "one simulated trajectory of a policy that learns has no standard "
                    "error: it is NaN. Evaluate parts of the logs with repeated_runs.",
                    1,
                ),
                model_error_warning(),
            ],
            leaves_bias_out=evaluator.leaves_bias_out,
        )
        self.learned_policy = learned_policy
