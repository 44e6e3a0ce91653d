# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Synthetic bandit logs whose true values are known."""

from __future__ import annotations

from functools import partial
from numbers import Integral, Real
from typing import TYPE_CHECKING

import numpy as np
from scipy.special import expit, softmax
from sklearn.utils import Bunch, check_random_state

from skope_ope._sklearn import Interval, StrOptions, validate_params
from skope_ope.logs import BanditLogs
from skope_ope.policies import FunctionPolicy

if TYPE_CHECKING:
    from typing import Literal

    from skope_ope._types import RandomSeed

# Fresh contexts over which the value in expectation is averaged: its error is 1/362
# of the standard deviation of a policy's value over contexts.
N_POPULATION = 2**17
CONTEXT_CHUNK = 2**14


@validate_params(
    {
        "n_rounds": [Interval(Integral, 1, None, closed="left")],
        "n_features": [Interval(Integral, 1, None, closed="left")],
        "n_actions": [Interval(Integral, 1, None, closed="left")],
        "reward": [StrOptions({"binary", "continuous"})],
        "effect": [Interval(Real, 0, None, closed="left")],
        "noise": [Interval(Real, 0, None, closed="left")],
        "logging_temperature": [Interval(Real, 0, None, closed="right")],
        "target_temperature": [Interval(Real, 0, None, closed="both")],
        "world_random_state": ["random_state"],
        "random_state": ["random_state"],
        "return_truth": ["boolean"],
    },
    prefer_skip_nested_validation=True,
)
def make_bandit_logs(
    n_rounds: int = 1000,
    *,
    n_features: int = 5,
    n_actions: int = 3,
    reward: Literal["binary", "continuous"] = "binary",
    effect: float = 1.0,
    noise: float = 1.0,
    logging_temperature: float = 1.0,
    target_temperature: float = 0.5,
    world_random_state: RandomSeed = None,
    random_state: RandomSeed = None,
    return_truth: bool = False,
) -> tuple[BanditLogs, FunctionPolicy, Bunch]:
    """Generate bandit logs, a policy to evaluate, and the policy's true value.

    Contexts are independent standard normals. The score of an action is linear in the
    context. The logger prefers actions by other scores, which depend on the context,
    too. So the mean logged reward of an action is not its mean reward in all contexts.
    Read more in the :ref:`User Guide <datasets>`.

    Parameters
    ----------
    n_rounds : int, default=1000
        Number of logged rounds.
    n_features : int, default=5
        Number of context features.
    n_actions : int, default=3
        Number of actions, labelled 0 to n_actions - 1.
    reward : {"binary", "continuous"}, default="binary"
        Rewards 0/1 with probability ``expit(score)``, or ``score`` plus normal
        noise, which may be negative.
    effect : float, default=1.0
        Size of the differences between actions. At 0 the reward does not depend on the
        action, and all policies have the same value.
    noise : float, default=1.0
        Standard deviation of the noise of continuous rewards.
    logging_temperature : float, default=1.0
        Temperature of the logger's softmax. Small values mean little exploration;
        ``np.inf`` is a uniform logger.
    target_temperature : float, default=0.5
        Temperature of the evaluated policy's softmax over the true effects. 0 takes
        the best action with probability one; ``np.inf`` is the uniform policy.
    world_random_state : int, RandomState instance or None, default=None
        Seed of the coefficients. Use one number with different `random_state` to draw
        several logs with the same coefficients. `None`: `random_state` also draws the
        coefficients.
    random_state : int, RandomState instance or None, default=None
        Seed of the contexts, actions and rewards.
    return_truth : bool, default=False
        Also return the policy to evaluate and its true value.

    Returns
    -------
    logs : BanditLogs
        With `propensity` and `logging_proba`. `reward_range` is (0, 1) for binary
        rewards.
    policy : FunctionPolicy
        Stationary policy to evaluate, already fitted. Only if `return_truth`.
    truth : Bunch
        Only if `return_truth`.

        value : float
            Value of `policy` on exactly these contexts. It is the expectation of
            unbiased evaluators over new draws of actions and rewards.
        expected_rewards : ndarray of shape (n_rounds, n_actions)
            Expected reward of every action in every round. The value of any policy
            `pi` on the rows `rows` is
            ``(pi * expected_rewards[rows]).sum(axis=1).mean()``.
        population_value : float
            Expected value of `policy` over contexts, estimated by the mean over 2**17
            new contexts.
        population_error : float
            Standard error of `population_value`.

    Notes
    -----
    With coefficients ``beta``, ``theta_a``, ``phi_a`` drawn once per world from
    normals of variance 1 / n_features (biases ``b_a`` from standard normals):

    - ``score(x, a) = x beta + effect * (x theta_a + b_a)``
    - logger: ``softmax_a(x phi_a / logging_temperature)``
    - policy: ``softmax_a((x theta_a + b_a) / target_temperature)``

    Examples
    --------
    >>> from skope_ope.datasets import make_bandit_logs
    >>> logs, policy, truth = make_bandit_logs(random_state=0, return_truth=True)
    >>> logs
    BanditLogs(n_rounds=1000, n_features=5, n_actions=3)
    >>> truth.expected_rewards.shape
    (1000, 3)
    >>> f"{truth.value:.3f} against {logs.reward.mean():.3f} under the logger"
    '0.654 against 0.504 under the logger'
    """
    rng = check_random_state(random_state)
    world_rng = rng if world_random_state is None else world_random_state
    world = _World(n_features, n_actions, effect, reward, world_rng)

    context = rng.standard_normal((n_rounds, n_features))
    logging_proba = _softmax(context @ world.phi, logging_temperature)
    action, propensity = draw_actions(logging_proba, rng)
    expected = world.expected_rewards(context)
    mean = expected[np.arange(n_rounds), action]
    if reward == "binary":
        rewards = (rng.random_sample(n_rounds) < mean).astype(float)
    else:
        rewards = mean + noise * rng.standard_normal(n_rounds)
    logs = BanditLogs(
        context,
        action,
        rewards,
        propensity,
        actions=np.arange(n_actions),
        logging_proba=logging_proba,
        reward_range=(0.0, 1.0) if reward == "binary" else None,
    )
    if not return_truth:
        return logs

    prefer = partial(
        _target_proba,
        theta=world.theta,
        bias=world.bias,
        temperature=target_temperature,
    )
    policy = FunctionPolicy(prefer).fit(logs)
    population_value, population_error = world.population_value(prefer, rng)
    truth = Bunch(
        value=float((prefer(context) * expected).sum(axis=1).mean()),
        expected_rewards=expected,
        population_value=population_value,
        population_error=population_error,
    )
    return logs, policy, truth


class _World:
    """Coefficients of one synthetic world."""

    def __init__(self, n_features, n_actions, effect, reward, random_state):
        rng = check_random_state(random_state)
        scale = n_features**-0.5
        self.beta = scale * rng.standard_normal(n_features)
        self.theta = scale * rng.standard_normal((n_features, n_actions))
        self.bias = rng.standard_normal(n_actions)
        self.phi = scale * rng.standard_normal((n_features, n_actions))
        self.effect = effect
        self.reward = reward

    def expected_rewards(self, context):
        """Return the expected reward of every action."""
        score = self.effect * (context @ self.theta + self.bias)
        score += (context @ self.beta)[:, None]
        return expit(score) if self.reward == "binary" else score

    def population_value(self, proba, rng):
        """Return the value over fresh contexts and its standard error."""
        value = np.empty(N_POPULATION)
        for start in range(0, N_POPULATION, CONTEXT_CHUNK):
            context = rng.standard_normal((CONTEXT_CHUNK, len(self.beta)))
            terms = proba(context) * self.expected_rewards(context)
            value[start : start + CONTEXT_CHUNK] = terms.sum(axis=1)
        return float(value.mean()), float(value.std() / N_POPULATION**0.5)


def _softmax(score, temperature):
    """Softmax of the rows; the best column at temperature 0, uniform at infinity."""
    if temperature == 0:
        return np.eye(score.shape[1])[score.argmax(axis=1)]
    # Differences first: a tiny temperature sends them to -inf, never to NaN.
    with np.errstate(over="ignore"):
        score = (score - score.max(axis=1, keepdims=True)) / temperature
    return softmax(score, axis=1)


def _target_proba(context, theta, bias, temperature):
    return _softmax(np.asarray(context) @ theta + bias, temperature)


# -- draw logged actions from a logging distribution -----------------------------------


def draw_actions(proba, rng):
    """Draw one action per row; never one of probability zero."""
    cumulative = np.cumsum(proba, axis=1)
    # Scaling by the row's own total keeps u below it whatever the rounding, and
    # "<=" steps over columns that add nothing.
    u = rng.random_sample(len(proba)) * cumulative[:, -1]
    action = (cumulative <= u[:, None]).sum(axis=1)
    return action, proba[np.arange(len(proba)), action]
