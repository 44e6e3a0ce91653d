# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Small fixed worlds, on which every evaluator's numbers are written down.

Only numpy's `RandomState` and public names are used, so that any version of the package
can be asked. Every world is logs with two policies, the columns or objects of
`World.policies`, and a column "day" by which values are split.
"""

from dataclasses import dataclass, field

import numpy as np

from skope_ope import (
    BanditLogs,
    EpsilonGreedy,
    PlackettLuceSlatePolicy,
    SlateLogs,
    UniformSlatePolicy,
)
from skope_ope.policies import EmpiricalSlatePolicy, ProductSlatePolicy


@dataclass
class World:
    """Logs, what is evaluated on them, and how exactly their rewards are stored."""

    logs: object
    policies: tuple
    sample_weight: object = None  # where logs have none: given to evaluate
    atol: float = 1e-12
    facts: dict = field(default_factory=dict)


def drawn(probabilities, rng):
    """One action per row of probabilities."""
    below = probabilities.cumsum(axis=1) > rng.random_sample((len(probabilities), 1))
    below[:, -1] = True
    return below.argmax(axis=1)


def with_day(logs, **columns):
    """Logs with the label that splits their rounds."""
    day = np.arange(len(logs)) * 7 % 3
    return logs.with_columns(day=day, **columns)


def eight_rounds():
    """The eight rounds of three actions that are computed by hand elsewhere."""
    x = np.repeat([0, 1], 4)
    mu = np.array([[0.5, 0.3, 0.2], [0.2, 0.2, 0.6]])[x]
    action = np.array([0, 1, 2, 0, 2, 2, 0, 1])
    rows = x[:, None], action, [0, 1, 1, 1, 0, 1, 1, 0], mu[np.arange(8), action]
    logs = BanditLogs(*rows, logging_proba=mu)
    pi = np.array([[0.1, 0.1, 0.8], [0.6, 0.3, 0.1]])[x]
    q_hat = np.array([[0.3, 0.4, 0.6], [0.7, 0.5, 0.2]])[x]
    return World(with_day(logs, pi=pi, other=mu, q_hat=q_hat), ("pi", "other"))


def logged(n, n_actions, seed, *, offset=None, never=None, whole=True, **fields):
    """Rounds of one logger; rewards are 0/1, or real about an offset."""
    rng = np.random.RandomState(seed)
    mu = 0.8 * rng.dirichlet(np.ones(n_actions), n) + 0.2 / n_actions
    if never is not None:
        mu[:, never] = 0.0
        mu /= mu.sum(axis=1, keepdims=True)
    pi = rng.dirichlet(np.ones(n_actions), n)
    other = 0.5 * pi + 0.5 / n_actions
    action = drawn(mu, rng)
    mean = 0.2 + 0.6 * rng.random_sample((n, n_actions))
    rows = np.arange(n)
    if offset is None:
        reward = (rng.random_sample(n) < mean[rows, action]).astype(float)
        q_hat = mean
    else:  # in sixty-fourths, which are exact at 1e6
        noise = np.round(64 * rng.normal(size=n)) / 64
        reward = offset + np.round(64 * mean[rows, action]) / 64 + noise
        q_hat = offset + mean
    fields |= {"actions": np.arange(n_actions), "logging_proba": mu if whole else None}
    context = np.column_stack([rng.normal(size=n), rows % 5])
    logs = BanditLogs(context, action, reward, mu[rows, action], **fields)
    return World(with_day(logs, pi=pi, other=other, q_hat=q_hat), ("pi", "other"))


def weights(n, seed, n_zero=0):
    """Sample weights, some of them zero."""
    omega = np.random.RandomState(seed).choice([0.5, 1.0, 2.0, 4.0], n)
    omega[np.arange(n_zero) * 3] = 0.0
    return omega


def one_tiny_propensity():
    """All weights are small but one, of 1e12, whose round gives the value."""
    world = logged(30, 2, 8, offset=0.0, reward_range=(-6, 6))
    proba = world.logs.propensity.copy()
    proba[4] = 1e-12
    logs = world.logs.replace(propensity=proba, logging_proba=None)
    return World(logs, world.policies)


def several_loggers(n, seed, *, offset=0.0, spread=1.0, never=False, **fields):
    """Rounds of three loggers; of which one may never take the first action."""
    rng = np.random.RandomState(seed)
    n_loggers, n_actions, rows = 3, 3, np.arange(n)
    mu = 0.8 * rng.dirichlet(np.ones(n_actions), (n_loggers, n)) + 0.2 / n_actions
    if never:
        mu[0, :, 0] = 0.0
        mu[0] /= mu[0].sum(axis=1, keepdims=True)
    pi = rng.dirichlet(np.ones(n_actions), n)
    logger = rng.choice(n_loggers, n, p=np.array([1, 2, 3]) / 6)
    action = drawn(mu[logger, rows], rng)
    reward = offset + np.round(64 * spread * (action + rng.normal(size=n))) / 64
    fields |= {"actions": np.arange(n_actions), "logger": logger}
    fields |= {"logger_proba": mu[:, rows, action].T, "logging_proba": mu[logger, rows]}
    context = np.column_stack([rows % 4, rng.normal(size=n)])
    logs = BanditLogs(context, action, reward, mu[logger, rows, action], **fields)
    q_hat = offset + spread * np.tile([0.25, 1.0, 1.75], (n, 1))
    logs = with_day(logs, pi=pi, other=0.5 * pi + 1 / 6, q_hat=q_hat)
    return World(logs, ("pi", "other"))


def uniform_log(n, seed, n_actions=3):
    """Uniformly logged clicks, for policies that learn as well."""
    rng = np.random.RandomState(seed)
    mu = np.full((n, n_actions), 1 / n_actions)
    x = rng.normal(size=(n, 2))
    action = drawn(mu, rng)
    chance = 1 / (1 + np.exp(-x[:, 0] * (action - 1) + 0.5))
    reward = (rng.random_sample(n) < chance).astype(float)
    logs = BanditLogs(x, action, reward, mu[:, 0], logging_proba=mu)
    pi = np.where(x[:, :1] > 0, [[0.1, 0.2, 0.7]], [[0.7, 0.2, 0.1]])
    logs = with_day(logs, pi=pi, other=mu, q_hat=np.full((n, n_actions), 0.4))
    world = World(logs, ("pi", "other"))
    world.facts["learners"] = (EpsilonGreedy(epsilon=0.1), EpsilonGreedy(epsilon=0.5))
    return world


def unlike_log(n, seed):
    """Clicks of a logger with unequal probabilities, and policies near it."""
    world = logged(n, 3, seed)
    mu = world.logs.logging_proba
    pi = 0.7 * mu + 0.3 * world.logs.columns["pi"]
    world.logs = world.logs.with_columns(near=pi)
    world.policies = ("near", "other")
    world.facts["learners"] = (EpsilonGreedy(epsilon=0.3), EpsilonGreedy(epsilon=0.6))
    return world


def context_free_log(n, seed, *, never=None, **fields):
    """A logger that ignores the context, within two halves of the log."""
    rng = np.random.RandomState(seed)
    half = (np.arange(n) >= n // 2).astype(int)
    mu = np.array([[0.5, 0.3, 0.2], [0.2, 0.3, 0.5]])
    if never is not None:
        mu[:, never] = 0
        mu /= mu.sum(axis=1, keepdims=True)
    action = drawn(mu[half], rng)
    x = rng.normal(size=(n, 2))
    reward = action + np.round(64 * (rng.normal(size=n) + x[:, 0])) / 64
    logs = BanditLogs(x, action, reward, actions=range(3), **fields)
    pi = rng.dirichlet(np.ones(3), n)
    logs = with_day(logs, pi=pi, other=0.5 * pi + 1 / 6, half=half)
    return World(logs, ("pi", "other"))


def logs_of_a_lottery(n, seed):
    """Which of three loggers acts is drawn; the target says which one should."""
    rng = np.random.RandomState(seed)
    logger = rng.choice(3, n, p=[0.2, 0.3, 0.5])
    mu = np.array([[0.6, 0.2, 0.2], [0.2, 0.6, 0.2], [0.2, 0.2, 0.6]])
    action = drawn(mu[logger], rng)
    reward = action + np.round(64 * rng.normal(size=n)) / 64
    known = {"logger": logger, "logger_proba": mu[:, action].T}
    logs = BanditLogs(rng.normal(size=(n, 2)), action, reward, **known)
    pi = rng.dirichlet(np.ones(3), n)
    logs = with_day(logs, pi=pi, other=0.5 * pi + 1 / 6)
    return World(logs, ("pi", "other"))


PRODUCT = np.array([[0.1, 0.1, 0.2, 0.2, 0.4], [0.2] * 5, [0.3, 0.1, 0.3, 0.1, 0.2]])
FEW_SLATES = [[2, 3, 1], [0, 1, 2], [1, 0, 3], [2, 1, 0]]


def slates(n, kind, seed, weighted=False):
    """Clicks on three slots of five candidates, under one of four loggers."""
    rng = np.random.RandomState(seed)
    appeal = np.array([0.3, 0.6, 1.0, 1.6, 2.5])
    logger = {
        "uniform": UniformSlatePolicy(3),
        "product": ProductSlatePolicy(PRODUCT),
        "plackett_luce": PlackettLuceSlatePolicy(appeal, 3),
        "empirical": EmpiricalSlatePolicy(FEW_SLATES),
    }[kind]
    x = rng.normal(size=(n, 2))
    shown = _draw_slates(kind, n, appeal, rng)
    chance = np.array([0.8, 0.5, 0.3]) * np.array([0.1, 0.3, 0.5, 0.4, 0.2])[shown]
    clicks = (rng.random_sample(shown.shape) < chance).astype(float)
    known = {"n_candidates": 5, "logging_policy": logger}
    logs = SlateLogs(x, shown, None, slot_reward=clicks, **known)
    best = np.where(x[:, :1] > 0, [[2, 3, 1]], [[3, 2, 4]])
    logs = with_day(logs, best=best)
    mild = PlackettLuceSlatePolicy([0.5, 1.0, 1.5, 1.5, 1.0], 3)
    if kind == "empirical":  # one of the two slates is outside the range
        mild = EmpiricalSlatePolicy(FEW_SLATES[:3], [0.5, 0.25, 0.25])
    if kind == "product":
        mild = ProductSlatePolicy(np.full((3, 5), 0.2))
    omega = weights(n, seed) if weighted else None
    return World(logs, ("best", mild), sample_weight=omega)


def _draw_slates(kind, n, appeal, rng):
    if kind == "empirical":
        return np.array(FEW_SLATES)[rng.choice(len(FEW_SLATES), n)]
    if kind == "product":
        shares = PRODUCT[0], None, PRODUCT[2]
        return np.column_stack([rng.choice(5, n, p=share) for share in shares])
    score = np.zeros(5) if kind == "uniform" else np.log(appeal)
    return np.argsort(-(score + rng.gumbel(size=(n, 5))), axis=1)[:, :3]


WORLDS = {  # of a family
    "eight": ("static", eight_rounds),
    "clicks": ("static", lambda: logged(500, 4, 1, whole=False)),
    "real_weighted": (
        "static",
        lambda: logged(40, 3, 2, offset=0.0, **weighted(40, 2)),
    ),
    "zero_weights": ("static", lambda: logged(60, 3, 3, **zero_weights(60, 3, 15))),
    "unseen": ("static", lambda: logged(60, 4, 4, never=3)),
    "far": ("static", lambda: _rounded(logged(500, 3, 5, offset=1e6))),
    "tiny": ("static", one_tiny_propensity),
    "loggers": ("multi_logger", lambda: several_loggers(300, 11)),
    "loggers_weighted": (
        "multi_logger",
        lambda: several_loggers(90, 12, **zero_weights(90, 12, 6)),
    ),
    "logger_left_out": ("multi_logger", lambda: several_loggers(200, 13, never=True)),
    "loggers_far": (
        "multi_logger",
        lambda: _rounded(several_loggers(300, 14, offset=1e6, spread=0.125)),
    ),
    "uniform_log": ("sequential", lambda: uniform_log(500, 21)),
    "unlike_log": ("sequential", lambda: unlike_log(400, 22)),
    "context_free": ("scavenging", lambda: context_free_log(300, 31)),
    "context_free_weighted": (
        "scavenging",
        lambda: context_free_log(90, 32, **zero_weights(90, 32, 9)),
    ),
    "context_free_unseen": ("scavenging", lambda: context_free_log(60, 33, never=2)),
    "lottery": ("lottery", lambda: logs_of_a_lottery(200, 34)),
    "slates_uniform": ("slate", lambda: slates(200, "uniform", 41)),
    "slates_product": ("slate", lambda: slates(200, "product", 42)),
    "slates_plackett_luce": ("slate", lambda: slates(120, "plackett_luce", 43)),
    "slates_left_out": ("slate", lambda: slates(100, "empirical", 45)),
    "slates_weighted": ("slate", lambda: slates(200, "uniform", 44, weighted=True)),
}


def weighted(n, seed):
    return {"sample_weight": weights(n, seed), "reward_range": (-6, 6)}


def zero_weights(n, seed, n_zero):
    return {"sample_weight": weights(n, seed, n_zero=n_zero)}


def _rounded(world):
    world.atol = 1e-9  # a reward of 1e6 is rounded by 1e-10
    return world
