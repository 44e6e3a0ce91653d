# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""A small world for every situation that `suggest` tells, with its true value."""

import numpy as np

from skope_ope import BanditLogs, ConstantPolicy, EpsilonGreedy, SlateLogs
from skope_ope.datasets import make_adaptive_logs, make_bandit_logs, make_slate_logs
from skope_ope.evaluators import ReorderingPolicy

ALWAYS_ONE = ConstantPolicy(1)


def one_logger(seed=0, n_rounds=2000, **world):
    logs, policy, truth = make_bandit_logs(
        n_rounds, random_state=seed, return_truth=True, **world
    )
    return logs, policy, truth.value


def one_logger_unknown(seed=0):
    logs, policy, value = one_logger(seed)
    return logs.replace(propensity=None, logging_proba=None), policy, value


def _of_actions(seed, proba, n_rounds=2000, **fields):
    """Return a log in which action 1 is worth .3 plus .2 x, and action 0 .4."""
    rng = np.random.default_rng(seed)
    x = rng.random(n_rounds)
    p = proba(x, np.arange(n_rounds))
    action = (rng.random(n_rounds) < p).astype(int)
    reward = rng.random(n_rounds) < np.where(action, 0.3 + 0.2 * x, 0.4)
    made = {name: made(p, action) for name, made in fields.items()}
    return BanditLogs(x[:, None], action, reward.astype(float), **made)


def _own(p, action):
    return np.where(action, p, 1 - p)


def deterministic(seed=0):
    def rule(x, t):
        return (x > 0.5).astype(float)

    return _of_actions(seed, rule, propensity=_own), ALWAYS_ONE, None


def deterministic_unknown(seed=0):
    logs, policy, _ = deterministic(seed)
    return logs.replace(propensity=None), policy, None


def blind_logger(seed=0):
    return _of_actions(seed, lambda x, t: t % 2 == 0), ALWAYS_ONE, 0.4


def _of_loggers(seed, **fields):
    """Return a log of two loggers by turns, which differ in the same context."""
    who = np.arange(2000) % 2

    def proba(x, t):
        return np.where(who, 0.2 + 0.6 * x, 0.5)

    logs = _of_actions(seed, proba, logger=lambda p, a: who, **fields)
    return logs


def _both(logs, of_one, of_two):
    """Return the logs with the chances of action 1 of both loggers."""
    a = logs.action_index
    return logs.replace(
        logger_proba=np.column_stack([_own(of_one * 1.0, a), _own(of_two * 1.0, a)])
    )


def several_loggers(seed=0):
    logs = _of_loggers(seed, propensity=_own)
    x = logs.context[:, 0]
    return _both(logs, 0.5 + 0 * x, 0.2 + 0.6 * x), ALWAYS_ONE, 0.4


def several_deterministic_loggers(seed=0):
    who = np.arange(2000) % 2

    def proba(x, t):
        return np.where(who, x > 0.3, x < 0.6).astype(float)

    logs = _of_actions(seed, proba, logger=lambda p, a: who, propensity=_own)
    x = logs.context[:, 0]
    return _both(logs, x < 0.6, x > 0.3), ALWAYS_ONE, 0.4


def several_loggers_apart(seed=0):
    return _of_loggers(seed, propensity=_own), ALWAYS_ONE, 0.4


def several_loggers_unknown(seed=0):
    return _of_loggers(seed), ALWAYS_ONE, 0.4


def adaptive_logger(seed=0):
    logs = make_adaptive_logs(5000, means=(0.6, 0.4), random_state=seed)
    return logs, ConstantPolicy(0), 0.6


def learner_uniform(seed=0):
    logs = make_bandit_logs(3000, logging_temperature=np.inf, random_state=seed)
    return logs, EpsilonGreedy(), None


def learner(seed=0):
    return one_logger(seed)[0], EpsilonGreedy(), None


def learner_unknown(seed=0):
    return one_logger_unknown(seed)[0], EpsilonGreedy(), None


def slates(seed=0):
    world = {"reward": "additive", "logging": "uniform", "target_temperature": 1.0}
    world |= {"random_state": seed, "return_truth": True}
    logs, policy, truth = make_slate_logs(2000, **world)
    fields = {name: getattr(logs, name) for name in ("n_candidates", "logging_policy")}
    whole = SlateLogs(logs.context, logs.slate, logs.reward, **fields)
    return whole, policy, truth.value


def slates_propensities(seed=0):
    logs, policy, value = slates(seed)
    proba = logs.logging_policy.slate_proba(logs, logs.slate)
    return logs.replace(propensity=proba, logging_policy=None), policy, value


def slates_unknown(seed=0):
    logs, policy, _ = slates(seed)
    return logs.replace(logging_policy=None), policy, None


def slot_clicks(seed=0):
    rng = np.random.default_rng(seed)
    pages = np.array([rng.permutation(3)[:2] for _ in range(3000)])
    chance = np.array([0.6, 0.4, 0.2])[pages] * [1.0, 0.5]
    clicks = (rng.random(pages.shape) < chance).astype(float)
    logs = SlateLogs(rng.random((3000, 1)), pages, None, slot_reward=clicks)
    return logs, np.tile([0, 1], (3000, 1)), 0.6 + 0.4 * 0.5


def slot_clicks_reordered(seed=0):
    logs, _, _ = slot_clicks(seed)
    return logs[1500:], ReorderingPolicy().fit(logs[:1500]), None


WORLDS = {
    one.__name__: one
    for one in (
        one_logger,
        one_logger_unknown,
        deterministic,
        blind_logger,
        several_loggers,
        several_loggers_apart,
        several_loggers_unknown,
        adaptive_logger,
        learner_uniform,
        learner,
        learner_unknown,
        slates,
        slates_propensities,
        slates_unknown,
        slot_clicks,
        slot_clicks_reordered,
    )
}
