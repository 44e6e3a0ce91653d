# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Bandit logs whose true values are known: synthetic, supervised, of bandits."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from numbers import Integral, Real
from typing import Any, Literal

import numpy as np
from scipy import sparse
from scipy.special import expit, ndtr, softmax
from sklearn.utils import Bunch, check_random_state

from skope_ope._sklearn import Interval, StrOptions, validate_params
from skope_ope._types import Array, ArrayLike, Contexts, RandomSeed
from skope_ope.logs import BanditLogs
from skope_ope.logs._validation import as_numbers, check_distributions
from skope_ope.policies import FunctionPolicy, action_probabilities

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


# -- supervised data as bandit logs: every reward is known, so is every value ----------

CONFOUNDED_SHARE = 0.7


def make_logs_from_classification(
    X: Contexts,
    y: ArrayLike,
    *,
    logging: Any = "confounded",
    actions: ArrayLike | None = None,
    random_state: RandomSeed = None,
) -> tuple[BanditLogs, Array]:
    r"""Turn a classification problem into bandit logs with full information.

    The actions are the classes. The reward of an action is 1 if it is a label of the
    row, and 0 otherwise. The logs hold the reward of one drawn action per row. The
    rewards of all actions are also returned, so that the true value of every policy is
    known. Read more in the :ref:`User Guide <datasets>`.

    Parameters
    ----------
    X : array, sparse matrix or data frame of shape (n_rounds, n_features)
        The context, kept as it is.
    y : array-like of shape (n_rounds,) or (n_rounds, n_actions)
        One label per row, or a 0/1 indicator of the labels of each row (dense or
        sparse), as `sklearn.preprocessing.MultiLabelBinarizer` makes of sets.
    logging : {"confounded", "uniform"}, array-like or policy, default="confounded"
        Distribution from which the logged actions are drawn.

        - "confounded": the rule of [1]_ (see Notes). It depends on the label, so the
          log is confounded given the context. Evaluators that use the logged
          propensities correct for this; reward models are biased.
        - "uniform": every action with the same probability.
        - array of shape (n_rounds, n_actions), or (n_actions,) for all rows:
          probabilities, in the order of the actions.
        - policy: any policy that can be evaluated on the logs.
    actions : array-like of shape (n_actions,), default=None
        Ordered labels. `None`: the sorted distinct labels of `y`, or the column
        numbers of an indicator.
    random_state : int, RandomState instance or None, default=None
        Seed of the logging probabilities of "confounded" and of the drawn actions.

    Returns
    -------
    logs : BanditLogs
        With `propensity`, `logging_proba` and `reward_range=(0, 1)`.
    rewards : ndarray of shape (n_rounds, n_actions)
        Rewards of all actions. The value of a policy with probabilities `pi` is
        ``(pi * rewards).sum(axis=1).mean()``.

    Raises
    ------
    ValueError
        If `y` does not hold labels, `logging` is none of the above, or its rows do not
        sum to one.

    Notes
    -----
    Confounded logging: with labels c of the row and s_a uniform on [0.1, 1], drawn
    for every row and action,

    .. math::

        \mu(a \mid x) = 0.3 \frac{s_a}{\sum_b s_b} + 0.7 \frac{1(a \in c)}{|c|}

    A row without labels uses the first part alone, normalised.

    References
    ----------
    .. [1] Dudik, Erhan, Langford, Li (2012). Sample-efficient nonstationary policy
       evaluation for contextual bandits. UAI.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from skope_ope.datasets import make_logs_from_classification
    >>> X, y = load_digits(return_X_y=True)
    >>> logs, rewards = make_logs_from_classification(X, y, random_state=0)
    >>> logs
    BanditLogs(n_rounds=1797, n_features=64, n_actions=10)
    >>> uniform = 0.1 * rewards.sum(axis=1).mean()
    >>> f"{uniform:.2f}"  # what a uniform policy would earn
    '0.10'
    """
    labels, rewards = _full_information(y, actions)
    rng = check_random_state(random_state)
    proba = _logging_proba(X, labels, rewards, logging, rng)
    action, propensity = draw_actions(proba, rng)
    logs = BanditLogs(
        X,
        labels[action],
        rewards[np.arange(len(rewards)), action],
        propensity,
        actions=labels,
        logging_proba=proba,
        reward_range=(0.0, 1.0),
    )
    return logs, rewards


def _full_information(y, actions):
    """Ordered labels and the rewards of all of them."""
    y = y.toarray() if sparse.issparse(y) else np.asarray(y)
    if y.ndim not in (1, 2) or y.shape[0] == 0:
        raise ValueError(
            "y must hold one label per row, or a 0/1 indicator of shape (n_rounds, "
            f"n_actions), and at least one row; got shape {y.shape}."
        )
    if y.ndim == 1:
        # The codes, the messages about missing and unknown labels: those of logs.
        logs = BanditLogs(np.empty((len(y), 0)), y, np.zeros(len(y)), actions=actions)
        return logs.actions, np.eye(logs.n_actions)[logs.action_index]
    if y.dtype.kind not in "biuf" or not np.isin(y, (0, 1)).all():
        row = column = 0
        if y.dtype.kind in "biuf":
            row, column = np.argwhere(~np.isin(y, (0, 1)))[0]
        raise ValueError(
            "a two-dimensional y must be a 0/1 indicator of labels, got "
            f"{y[row, column]!r} at row {row}, column {column}. Use "
            "sklearn.preprocessing.MultiLabelBinarizer for sets of labels and "
            "y.ravel() for a column."
        )
    labels = np.arange(y.shape[1]) if actions is None else np.asarray(actions)
    if labels.shape != (y.shape[1],):
        raise ValueError(
            f"actions must name the {y.shape[1]} columns of y, got shape "
            f"{labels.shape}."
        )
    return labels, y.astype(np.float64)


def _logging_proba(X, labels, rewards, logging, rng):
    n_rounds, n_actions = rewards.shape
    if isinstance(logging, str):
        if logging == "uniform":
            return np.full((n_rounds, n_actions), 1 / n_actions)
        if logging == "confounded":
            return _confounded(rewards, rng)
        raise ValueError(
            'logging must be "confounded", "uniform", an array of probabilities or '
            f"a policy, got {logging!r}."
        )
    if not hasattr(logging, "predict_proba") and not hasattr(logging, "logs_proba"):
        proba = np.asarray(logging)
        if proba.ndim == 1:
            proba = np.broadcast_to(proba, (n_rounds, len(proba)))
        proba = as_numbers("logging", proba, ndim=2)
        if proba.shape != rewards.shape:
            raise ValueError(
                f"logging must have shape {rewards.shape} (n_rounds, n_actions), got "
                f"{proba.shape}."
            )
        check_distributions("logging", proba)
        return proba
    # A log in which nothing has happened yet aligns the classes of the policy with
    # the actions, and its probabilities are checked.
    action = np.resize(labels, n_rounds)
    logs = BanditLogs(X, action, np.zeros(n_rounds), actions=labels)
    return action_probabilities(logging, logs)


def _confounded(rewards, rng):
    proba = rng.uniform(0.1, 1.0, size=rewards.shape)
    proba /= proba.sum(axis=1, keepdims=True)
    n_labels = rewards.sum(axis=1, keepdims=True)
    share = np.where(n_labels > 0, CONFOUNDED_SHARE, 0.0)
    proba *= 1 - share
    proba += share * rewards / np.maximum(n_labels, 1)
    return proba


# -- logs of bandit algorithms, whose probabilities follow what they have seen ---------

NODES, NODE_WEIGHTS = np.polynomial.hermite_e.hermegauss(24)
NODE_WEIGHTS = NODE_WEIGHTS / NODE_WEIGHTS.sum()


@validate_params(
    {
        "n_rounds": [Interval(Integral, 1, None, closed="left")],
        "means": ["array-like"],
        "logger": [StrOptions({"thompson", "epsilon_greedy"})],
        "floor_decay": [Interval(Real, 0, None, closed="left")],
        "update_every": [Interval(Integral, 1, None, closed="left")],
        "reward": [StrOptions({"binary", "continuous"})],
        "noise": [Interval(Real, 0, None, closed="neither")],
        "random_state": ["random_state"],
        "return_truth": ["boolean"],
    },
    prefer_skip_nested_validation=True,
)
def make_adaptive_logs(
    n_rounds: int = 1000,
    *,
    means: ArrayLike = (0.5, 0.5),
    logger: Literal["thompson", "epsilon_greedy"] = "thompson",
    floor_decay: float = 0.5,
    update_every: int = 1,
    reward: Literal["binary", "continuous"] = "binary",
    noise: float = 1.0,
    random_state: RandomSeed = None,
    return_truth: bool = False,
) -> tuple[BanditLogs, Bunch]:
    r"""Generate the log of a bandit algorithm that learns while it acts.

    Every context is a segment of users, in which the algorithm learns separately. Its
    probabilities are recorded. With K actions and the exponent a, every action has at
    least the probability :math:`t^{-a} / K` in round t, the floor. The mean reward of
    an action in such a log is biased downwards: actions with low early rewards are
    tried less often. Read more in the :ref:`User Guide <adaptive_logs>`.

    Parameters
    ----------
    n_rounds : int, default=1000
        Number of logged rounds.
    means : array-like of shape ([n_contexts,] n_actions), default=(0.5, 0.5)
        Expected reward of every action, with one row per context. All contexts are
        equally likely. With a single row, the logger ignores the context.
    logger : {"thompson", "epsilon_greedy"}, default="thompson"
        Thompson sampling with normal posteriors, or the action with the best mean. An
        action without a round has the prior mean: one half for binary rewards, zero
        for continuous ones.
    floor_decay : float, default=0.5
        The exponent a of the floor. With 0 the logger is uniform.
    update_every : int, default=1
        Number of rounds between updates of the algorithm. 1 updates after every round,
        `n_rounds` never.
    reward : {"binary", "continuous"}, default="binary"
        Rewards 0/1, or the mean plus normal noise.
    noise : float, default=1.0
        Standard deviation of the noise of continuous rewards.
    random_state : int, RandomState instance or None, default=None
        Seed of contexts, actions and rewards.
    return_truth : bool, default=False
        Also return the true values.

    Returns
    -------
    logs : BanditLogs
        With `propensity`, `logging_proba`, and the number of the round as
        `timestamp`; the context is the number of the segment. `reward_range` is
        (0, 1) for binary rewards.
    truth : Bunch
        Only if `return_truth`.

        action_values : ndarray of shape (n_actions,)
            Value of always taking this action.
        expected_rewards : ndarray of shape (n_rounds, n_actions)
            Expected reward of every action in every round.
        logger : callable
            ``logger(t, X)``, the probabilities of the logger in round t (from 0) at
            contexts X, as `AdaptiveDR` takes them.

    Notes
    -----
    An action has n rounds, and S is the sum of their rewards. The posterior of its mean
    is normal with mean :math:`(S + m_0) / (n + 1)` and standard deviation
    :math:`\sigma / \sqrt{n + 1}`; the prior mean :math:`m_0` and :math:`\sigma` are
    both 1/2 for binary rewards, and 0 and `noise` for continuous ones. The probability
    that an action is the best is computed by Gauss-Hermite quadrature.

    Examples
    --------
    >>> from skope_ope.datasets import make_adaptive_logs
    >>> logs, truth = make_adaptive_logs(
    ...     means=[0.5, 0.4], random_state=0, return_truth=True
    ... )
    >>> logs
    BanditLogs(n_rounds=1000, n_features=1, n_actions=2)
    >>> truth.action_values
    array([0.5, 0.4])
    >>> [int((logs.action == arm).sum()) for arm in logs.actions]
    [677, 323]
    """
    world = AdaptiveWorld(means, logger, floor_decay, update_every, reward, noise)
    rng = check_random_state(random_state)
    histories = simulate_histories(world, 1, n_rounds, rng)
    segment, action = histories.segment[0], histories.action[0]
    rounds = np.arange(n_rounds)
    proba = histories.proba[0, rounds, segment]
    logs = BanditLogs(
        segment[:, None].astype(float),
        action,
        histories.reward[0],
        proba[rounds, action],
        actions=np.arange(world.n_actions),
        logging_proba=proba,
        timestamp=rounds,
        reward_range=(0.0, 1.0) if reward == "binary" else None,
    )
    if not return_truth:
        return logs
    return logs, Bunch(
        action_values=world.means.mean(axis=0),
        expected_rewards=world.means[segment],
        logger=RecordedLogger(histories.proba[0]),
    )


class AdaptiveWorld:
    """Segments with mean rewards, and an algorithm that learns them."""

    def __init__(self, means, logger, floor_decay, update_every, reward, noise=1.0):
        means = np.asarray(means, dtype=float)
        self.means = as_numbers("means", np.atleast_2d(means), 2)
        self.binary = reward == "binary"
        if self.binary and not ((self.means >= 0) & (self.means <= 1)).all():
            raise ValueError(
                "means of binary rewards are probabilities, got "
                f"{self.means.min():.6g} to {self.means.max():.6g}. Use "
                "reward='continuous' for others."
            )
        self.floor_decay, self.update_every = floor_decay, update_every
        self.noise = 0.5 if self.binary else noise
        self.prior = 0.5 if self.binary else 0.0
        self.prefer = {"thompson": self._thompson, "epsilon_greedy": _greedy}[logger]

    @property
    def n_segments(self):
        """Number of contexts."""
        return self.means.shape[0]

    @property
    def n_actions(self):
        """Number of actions."""
        return self.means.shape[1]

    def proba(self, t, total, count):
        """Return the probabilities in round t (from 1), with the floor."""
        best = self.prefer((total + self.prior) / (count + 1), count)
        floor = t**-self.floor_decay / self.n_actions
        return floor + (1 - self.n_actions * floor) * best

    def _thompson(self, mean, count):
        """Return the probability of every action that its mean is the largest."""
        sd = self.noise / np.sqrt(count + 1)
        value = mean[..., None] + sd[..., None] * NODES  # of the action at the nodes
        above = np.ones_like(value)
        for other in range(self.n_actions):
            z = (value - mean[..., other, None, None]) / sd[..., other, None, None]
            z[..., other, :] = np.inf  # it need not be above itself
            above *= ndtr(z)
        best = above @ NODE_WEIGHTS
        return best / best.sum(axis=-1, keepdims=True)


def _greedy(mean, count):
    """Return probability one for the action with the largest mean, ties divided."""
    best = mean == mean.max(axis=-1, keepdims=True)
    return best / best.sum(axis=-1, keepdims=True)


@dataclass(frozen=True)
class Histories:
    """Many logs of the same algorithm, an array with a row for each."""

    segment: np.ndarray  # (n_logs, n_rounds)
    action: np.ndarray  # (n_logs, n_rounds)
    reward: np.ndarray  # (n_logs, n_rounds)
    proba: np.ndarray  # (n_logs, n_rounds, n_segments, n_actions), of all segments


def simulate_histories(world, n_logs, n_rounds, rng):
    """Let the algorithm act in many worlds at once."""
    S, K = world.means.shape
    logs = np.arange(n_logs)
    segment = rng.randint(S, size=(n_rounds, n_logs))
    uniform = rng.random_sample((n_rounds, n_logs))
    luck = (
        rng.random_sample((n_rounds, n_logs))
        if world.binary
        else world.noise * rng.standard_normal((n_rounds, n_logs))
    )
    total, count = np.zeros((2, n_logs, S, K))
    seen = total.copy(), count.copy()  # at the last update
    action = np.empty((n_rounds, n_logs), dtype=np.intp)
    reward = np.empty((n_rounds, n_logs))
    proba = np.empty((n_rounds, n_logs, S, K))
    for t in range(n_rounds):
        if t % world.update_every == 0:
            seen = total.copy(), count.copy()
        proba[t] = world.proba(t + 1, *seen)
        below = np.cumsum(proba[t, logs, segment[t]], axis=1)
        action[t] = (below[:, :-1] <= uniform[t][:, None] * below[:, -1:]).sum(axis=1)
        mean = world.means[segment[t], action[t]]
        reward[t] = luck[t] < mean if world.binary else mean + luck[t]
        total[logs, segment[t], action[t]] += reward[t]
        count[logs, segment[t], action[t]] += 1
    return Histories(segment.T, action.T, reward.T, proba.swapaxes(0, 1))


class RecordedLogger:
    """The probabilities that an algorithm had in every round, in every segment."""

    def __init__(self, proba):
        self.proba = proba

    def __call__(self, t, X):
        """Return the probabilities of round t (from 0) at contexts X."""
        return self.proba[t, np.asarray(X)[:, 0].astype(int)]
