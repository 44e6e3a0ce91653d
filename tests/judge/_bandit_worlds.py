# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Random rounds of single actions: how they were logged, and what is odd in them."""

import warnings

import numpy as np
from sklearn.naive_bayes import GaussianNB

from skope_ope import BanditLogs
from skope_ope.exceptions import PropensityWarning
from skope_ope.policies import MixturePolicy, UniformPolicy
from skope_ope.propensities import PropensityEstimator
from tests.evaluators._reference_worlds import (
    World,
    context_free_log,
    drawn,
    logs_of_a_lottery,
    weights,
    with_day,
)

LABELS = {
    "int": np.array([7, -2, 3, 12]),
    "str": np.array(["ünsure", "b", "a c", "d"]),
    "bool": np.array([False, True]),
    "float": np.array([2.5, -0.25, 1e3, 0.125]),
    "date": np.datetime64("2026-02-27") + np.arange(4),
}
REWARDS = ("clicks", "far", "real", "tiny", "ratings", "heavy", "negative")
GROUPS = (None, "int", "str")
WEIGHTS = (None, "positive", "zeros")
TIMES = (None, "int", "date")
FAMILY = {"loggers": "multi_logger", "adaptive": "adaptive"}
KINDS = ("propensity", "whole", "loggers", "acting", "adaptive", "unknown", "estimated")
KINDS += ("unseen", "available", "items")


def labels_of_groups(n, kind, rng):
    """Groups of sizes that all differ, so that folds never hang on ties."""
    if kind is None:
        return None
    group = np.repeat(np.arange(n), np.arange(2, n + 2))[:n]
    last = group[-1]
    group = rng.permutation(np.where(group == last, last - 1, group))
    return group if kind == "int" else np.char.add("user ", group.astype(str))


def times(n, kind):
    if kind is None:
        return None
    seconds = 977 * np.arange(n)
    start = np.datetime64("2026-03-01T00:00:00")
    return seconds if kind == "int" else start + seconds.astype("timedelta64[s]")


def fields_of(n, traits, rng, *names):
    """The fields that any world may have, as its traits tell."""
    omega = {"positive": 0, "zeros": n // 9}.get(traits["weights"])
    fields = {
        "group": labels_of_groups(n, traits["groups"], rng),
        "timestamp": times(n, traits["times"]),
        "sample_weight": None if omega is None else weights(n, n, n_zero=omega),
    }
    return {name: fields[name] for name in names or fields}


def rewards(kind, mean, action, rng):
    """Rewards of logged actions, a model of all, and their range if it is known."""
    logged = mean[np.arange(len(mean)), action]
    noise = rng.normal(size=len(mean))
    scales = {"far": (1e6, 1.0), "tiny": (0.0, 1e-3), "negative": (-4.0, 0.25)}
    off, scale = scales.get(kind, (0.0, 1.0))
    if kind == "clicks":
        return (rng.random_sample(len(mean)) < logged).astype(float), mean, None
    if kind == "ratings":
        return np.clip(logged + 0.4 * noise, 0.0, 2.0), mean, (0.0, 2.0)
    if kind == "heavy":
        noise = rng.pareto(1.5, len(mean))
    if kind == "far":  # in sixty-fourths, which are exact at 1e6
        logged, noise = np.round(64 * logged) / 64, np.round(64 * noise) / 64
    return off + scale * (logged + noise), off + scale * mean, None


def loggers_of(kind, n, k, rng):
    """Distributions of three loggers, or of one, and which of them acted."""
    n_loggers = 3 if kind in ("loggers", "acting") else 1
    every = 0.8 * rng.dirichlet(np.ones(k), (n_loggers, n)) + 0.2 / k
    if kind == "unseen":
        every[..., -1] = 0.0
    return every, rng.choice(n_loggers, n)


def offered_actions(n, k, rng):
    """Offers of at least two actions, of which the last is never one."""
    offered = rng.random_sample((n, k)) < 0.7
    offered[:, :2] = True
    offered[:, -1] = False
    return offered


def learning_log(mean, kind, rng):
    """Distributions of a logger that learns, its actions, rewards, and the model."""
    n, k = mean.shape
    mu, action, reward = np.empty((n, k)), np.empty(n, int), np.empty(n)
    total, count = np.zeros(k), np.ones(k)
    for t in range(n):
        mu[t] = 0.4 / k
        mu[t, (total / count + 1e-3 * np.arange(k)).argmax()] += 0.6
        action[t] = drawn(mu[t : t + 1], rng)[0]
        one, q_hat, known = rewards(kind, mean[t : t + 1], action[t : t + 1], rng)
        reward[t] = one[0]
        total[action[t]] += reward[t] - q_hat.mean()
        count[action[t]] += 1
    everywhere = rewards(kind, mean, action, np.random.RandomState(0))[1]
    return mu, action, reward, everywhere, known


def bandit_world(kind, traits, seed):
    rng = np.random.RandomState(seed)
    n = rng.randint(60, 180)
    labels = LABELS[traits["labels"]]
    if len(labels) == 2 and kind in ("unseen", "available"):
        labels = LABELS["int"]
    k = len(labels)
    rows = np.arange(n)
    x = rng.normal(size=(n, 2))
    mean = 0.2 + 0.6 * rng.random_sample((n, k))
    every, logger = loggers_of(kind, n, k, rng)
    pi = rng.dirichlet(np.ones(k), n)
    other = 0.5 * pi + 0.5 / k
    fields = fields_of(n, traits, rng)
    if kind == "available":
        fields["available"] = offered_actions(n, k, rng)
        every, pi, other = (one * fields["available"] for one in (every, pi, other))
    given = (every, pi, other)
    every, pi, other = (one / one.sum(axis=-1, keepdims=True) for one in given)
    mu = every[logger, rows]
    if kind == "adaptive":
        mu, action, reward, q_hat, known = learning_log(mean, traits["rewards"], rng)
    else:
        action = drawn(mu, rng)
        reward, q_hat, known = rewards(traits["rewards"], mean, action, rng)
    if kind not in ("unknown", "estimated"):
        fields["propensity"] = mu[rows, action]
    if kind in ("whole", "available", "adaptive") or (kind == "loggers" and n % 2):
        fields["logging_proba"] = mu
    if kind in ("loggers", "acting"):
        fields["logger"] = np.array(["old", "new", "a/b"])[logger]
    if kind == "loggers":  # columns in the order of the sorted loggers
        fields["logger_proba"] = every[[2, 1, 0]][:, rows, action].T
    if kind == "items":
        fields["action_context"] = rng.normal(size=(k, 3))
    fields |= {"actions": labels, "reward_range": known}
    logs = BanditLogs(x, labels[action], reward, **fields)
    if kind == "estimated":
        with warnings.catch_warnings():
            # some lie below the floor
            warnings.simplefilter("ignore", PropensityWarning)
            logs = PropensityEstimator(GaussianNB()).fit_transform(logs)
    logs = with_day(logs, pi=pi, other=other, q_hat=q_hat)
    world = World(logs, ("pi", "other"))
    world.facts["family"] = FAMILY.get(kind, "static")
    world.facts["object"] = MixturePolicy([UniformPolicy(), "other"], [0.25, 0.75])
    if n % 2 and kind != "available":
        world.facts["object"] = UniformPolicy()
    return world


def scavenging_world(kind, traits, seed):
    """Logs without propensities whose logger, or whose choice of it, is blind."""
    n = 60 + 7 * seed % 120
    if kind == "lottery":
        world = logs_of_a_lottery(n, seed)
    else:
        rng = np.random.RandomState(seed)
        names = ("group", "timestamp", "sample_weight")
        world = context_free_log(n, seed, **fields_of(n, traits, rng, *names))
    world.facts["family"] = "lottery" if kind == "lottery" else "scavenging"
    world.facts["object"] = UniformPolicy()
    return world
