# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""
What the example on audits calls right: logs that look odd and have no fault
============================================================================

Every log comes with a policy that shares its support: no weight is large. An alarm
about any of them is a false one.
"""

import numpy as np
from _faults import (
    N_ACTIONS,
    N_FEATURES,
    log_of,
    policy_of,
    softmax,
    softmax_log,
    taken,
)
from sklearn.linear_model import LogisticRegression

from skope_ope import BanditLogs, PropensityEstimator


def _softmax(scale, **more):
    def world(n_rounds, seed):
        log = softmax_log(n_rounds, seed, scale, **more)
        return BanditLogs(**log.fields), log.pi

    return world


def _whole_law(scale):
    """The whole logging distribution in the place of the logged action's."""

    def world(n_rounds, seed):
        log = softmax_log(n_rounds, seed, scale)
        del log.fields["propensity"]
        return BanditLogs(**log.fields, logging_proba=log.mu), log.pi

    return world


def _many_uniform(n_rounds, seed):
    """Uniform over 300 actions, of which some have never been drawn."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n_rounds, N_FEATURES))
    action = rng.integers(300, size=n_rounds)
    reward = (rng.random(n_rounds) < 0.1 + action / 600).astype(float)
    logs = BanditLogs(
        x, action, reward, np.full(n_rounds, 1 / 300), actions=np.arange(300)
    )
    return logs, np.full((n_rounds, 300), 1 / 300)


def _rounded_third(n_rounds, seed):
    """p = .33 written down for 1/3."""
    log = softmax_log(n_rounds, seed, 0.0, n_actions=3)
    log.fields["propensity"] = np.full(n_rounds, 0.33)
    return BanditLogs(**log.fields), np.tile([0.5, 0.3, 0.2], (n_rounds, 1))


def _certain(n_rounds, seed):
    """A deterministic logger, and itself as the policy."""
    log = softmax_log(n_rounds, seed)
    always = np.eye(N_ACTIONS)[log.mu.argmax(axis=1)]
    log = log_of(log.fields["context"], log.logits, log.q, _more(seed), always)
    return BanditLogs(**log.fields), always


def _two_digits(scale):
    def world(n_rounds, seed):
        log = softmax_log(n_rounds, seed, scale)
        rounded = np.maximum(log.fields["propensity"].round(2), 0.01)
        log.fields["propensity"] = rounded
        return BanditLogs(**log.fields), log.pi

    return world


def _epsilon_greedy(n_rounds, seed):
    """The best action of a rule with probability .985, each other one with .005."""
    log = softmax_log(n_rounds, seed)
    mu = np.eye(N_ACTIONS)[log.mu.argmax(axis=1)] * 0.98 + 0.02 / N_ACTIONS
    log = log_of(log.fields["context"], log.logits, log.q, _more(seed), mu)
    pi = np.eye(N_ACTIONS)[mu.argmax(axis=1)] * 0.99 + 0.01 / N_ACTIONS
    return BanditLogs(**log.fields), pi


def _estimated(n_rounds, seed):
    log = softmax_log(n_rounds, seed)
    del log.fields["propensity"]
    logs = BanditLogs(**log.fields)
    return PropensityEstimator().fit_transform(logs), log.pi


def _estimated_by_hand(n_rounds, seed):
    """A logistic regression fitted to all rounds; nothing in the logs says so."""
    log = softmax_log(n_rounds, seed)
    x, action = log.fields["context"], log.fields["action"]
    mu = LogisticRegression().fit(x, action).predict_proba(x)
    log.fields["propensity"] = taken(mu, action)
    return BanditLogs(**log.fields), policy_of(np.log(mu))


def _campaign(n_rounds, seed):
    """Few discrete columns that repeat, three mails at random, buyers in a hundred."""
    rng = _more(seed)
    x = np.column_stack(
        [
            rng.integers(1, 13, n_rounds),  # months since the last purchase
            rng.integers(0, 2, (n_rounds, 3)),
            rng.integers(0, 3, n_rounds),
        ]
    ).astype(float)
    action = np.array(["men", "none", "women"])[rng.integers(3, size=n_rounds)]
    buys = rng.random(n_rounds) < np.where(action == "none", 0.006, 0.012)
    spend = buys * rng.gamma(2.0, 50.0, n_rounds).round(2)
    logs = BanditLogs(x, action, spend, np.full(n_rounds, 1 / 3))
    return logs, np.tile([0.5, 0.2, 0.3], (n_rounds, 1))


def _users(n_rounds, seed):
    """Users of five rounds, whose contexts are alike but not equal."""
    rng = _more(seed)
    user = np.arange(n_rounds) // 5
    log = softmax_log(n_rounds, seed)
    x = rng.normal(size=(user[-1] + 1, N_FEATURES))[user]
    x = 0.8 * x + 0.6 * log.fields["context"]
    logits = x @ rng.normal(scale=0.5, size=(N_FEATURES, N_ACTIONS))
    log = log_of(x, logits, log.q, rng)
    return BanditLogs(**log.fields, group=user), log.pi


def _sticky_users(n_rounds, seed):
    """Users of five rounds with one context, for whom one action was drawn once."""
    user = np.arange(n_rounds) // 5
    log = softmax_log(user[-1] + 1, seed)
    rng = _more(seed)
    rows = {name: value[user] for name, value in log.fields.items()}
    rate = taken(log.q, log.fields["action"])[user]
    rows["reward"] = (rng.random(n_rounds) < rate).astype(float)
    return BanditLogs(**rows, group=user), log.pi[user]


def _sessions(n_rounds, seed):
    """Sessions of four rounds with one context; every action is drawn anew."""
    session = np.arange(n_rounds) // 4
    log = softmax_log(session[-1] + 1, seed)
    log = log_of(
        log.fields["context"][session], log.logits[session], log.q[session], _more(seed)
    )
    return BanditLogs(**log.fields), log.pi


def _reward(draw):
    """Softmax logs with rewards drawn from their means."""

    def world(n_rounds, seed):
        log = softmax_log(n_rounds, seed)
        mean = taken(log.q, log.fields["action"])
        log.fields["reward"] = draw(mean, _more(seed))
        return BanditLogs(**log.fields), log.pi

    return world


def _labels(n_rounds, seed):
    """Rewards without noise: whether the action was the label of a classifier."""
    log = softmax_log(n_rounds, seed)
    label = (log.fields["context"] @ _more(seed).normal(size=(4, 4))).argmax(axis=1)
    log.fields["reward"] = (log.fields["action"] == label).astype(float)
    return BanditLogs(**log.fields), log.pi


def _available(n_rounds, seed):
    """Each action is offered in three of four rounds, the first in all of them."""
    rng = _more(seed)
    log = softmax_log(n_rounds, seed)
    offered = rng.random((n_rounds, N_ACTIONS)) < 0.75
    offered[:, 0] = True
    logits = np.where(offered, log.logits, -np.inf)
    log = log_of(log.fields["context"], logits, log.q, rng)
    return BanditLogs(**log.fields, available=offered), log.pi


def _two_loggers(n_rounds, seed):
    """One logger after the other; both probabilities are known in every round."""
    rng = _more(seed)
    log = softmax_log(n_rounds, seed)
    logger = np.where(np.arange(n_rounds) < 0.4 * n_rounds, "old", "new")
    both = np.stack([log.mu, softmax(0.5 * log.logits)], axis=-1)
    mu = np.where((logger == "new")[:, None], both[..., 0], both[..., 1])
    log = log_of(log.fields["context"], log.logits, log.q, rng, mu)
    logger_proba = both[np.arange(n_rounds), log.fields["action"]]
    return BanditLogs(**log.fields, logger=logger, logger_proba=logger_proba), log.pi


def _in_time(n_rounds, seed):
    """Contexts have a daily rhythm, and each is near to the one before it."""
    rng = _more(seed)
    x = rng.normal(size=(n_rounds, N_FEATURES))
    for i in range(1, n_rounds):
        x[i] = 0.5 * x[i - 1] + 0.75**0.5 * x[i]
    x[:, 0] += np.sin(2 * np.pi * np.arange(n_rounds) / 300)
    logits = x @ rng.normal(scale=0.5, size=(N_FEATURES, N_ACTIONS))
    log = log_of(x, logits, softmax_log(n_rounds, seed).q, rng)
    return BanditLogs(**log.fields, timestamp=60.0 * np.arange(n_rounds)), log.pi


def _without_context(n_rounds, seed):
    """A bandit that looks at nothing: every action has its probability."""
    log = softmax_log(n_rounds, seed)
    mu = np.tile([0.4, 0.3, 0.2, 0.1], (n_rounds, 1))
    log = log_of(log.fields["context"], np.log(mu), log.q, _more(seed), mu)
    return BanditLogs(**log.fields), log.pi


def _subsampled(n_rounds, seed):
    """Of the rounds without a reward one in four is there, and stands for four."""
    log = softmax_log(4 * n_rounds, seed)
    rewarded = log.fields["reward"] > 0
    rows = np.flatnonzero(rewarded | (_more(seed).random(len(rewarded)) < 0.25))
    rows = rows[:n_rounds]
    weight = np.where(rewarded, 1.0, 4.0)[rows]
    fields = {name: value[rows] for name, value in log.fields.items()}
    return BanditLogs(**fields, sample_weight=weight), log.pi[rows]


def _more(seed):
    return np.random.default_rng([seed, 2])


RIGHT_LOGS = {
    "softmax": _softmax(1),
    "softmax, logits x 2": _softmax(2),
    "softmax, logits x 3": _softmax(3),
    "softmax, whole law": _whole_law(1),
    "softmax, logits x 3, whole law": _whole_law(3),
    "softmax, 12 actions": _softmax(1, n_actions=12),
    "softmax, 40 actions": _softmax(1, n_actions=40),
    "uniform, 300 actions": _many_uniform,
    "p = .33 for 1/3": _rounded_third,
    "p = 1": _certain,
    "p of two digits": _two_digits(1),
    "p of two digits, logits x 3": _two_digits(3),
    "epsilon-greedy, .02": _epsilon_greedy,
    "estimated": _estimated,
    "estimated by hand": _estimated_by_hand,
    "campaign, contexts repeat": _campaign,
    "users": _users,
    "users with one action each": _sticky_users,
    "sessions with one context": _sessions,
    "lognormal rewards": _reward(lambda q, rng: q * rng.lognormal(0, 1, len(q))),
    "rewards 1 in 200": _reward(
        lambda q, rng: (rng.random(len(q)) < q / 60).astype(float)
    ),
    "rewards below zero": _reward(lambda q, rng: q - 1 + 0.1 * rng.normal(size=len(q))),
    "rewards without noise": _labels,
    "actions on offer vary": _available,
    "two loggers": _two_loggers,
    "contexts with a rhythm": _in_time,
    "without context": _without_context,
    "subsampled, with weights": _subsampled,
}


def right(name, n_rounds, seed):
    """Return right logs and a policy, as an array of shape (n_rounds, n_actions)."""
    return RIGHT_LOGS[name](n_rounds, seed)
