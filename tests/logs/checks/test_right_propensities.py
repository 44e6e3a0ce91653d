# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Right logs of many kinds raise no alarm about propensities, and wrong ones do."""

import numpy as np
import pytest

from tests.logs.checks._found import (
    draw,
    findings,
    logs_of,
    plain_logs,
    quick,
    softmax,
    urn,
    world,
)
from tests.logs.checks.test_propensity_fit import right_branch, shop

# Each kind gives right logs, and wrong ones for the quick tests and the models alike.


def of_a_softmax(seed, scale=1):
    x, mu, action, p = world(2000, seed, scale)
    yield logs_of(x, action, p)
    yield logs_of(x, action, p.astype(np.float32))
    yield logs_of(x, action, np.maximum(p.round(2), 0.01))
    yield logs_of(x, action, None, logging_proba=mu)
    if scale == 1:
        yield logs_of(x, action, p), logs_of(x, action, 0.6 * p)


def of_a_sharp_softmax(seed):
    yield from of_a_softmax(seed, 3)


def of_a_very_sharp_softmax(seed):
    x, mu, action, p = world(2000, seed, 20.0)
    yield logs_of(x, action, p)
    yield logs_of(x, action, None, logging_proba=mu)


def of_another_softmax(seed):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(3000, 6))
    mu = softmax(2 * x @ rng.normal(scale=0.5, size=(6, 5)))
    action = draw(mu, rng)
    yield logs_of(x, action, mu[np.arange(3000), action])


def of_many_uniform_actions(seed):
    """Some of 300 have never been seen; of 66 each was some thirty times."""
    for k, n in ((300, 1100), (66, 2000)):
        action = np.random.default_rng(seed).integers(k, size=n)
        for actions in (None, np.arange(k)):
            yield plain_logs(action, np.full(n, 1 / k), actions=actions)


def of_hardly_an_exploration(seed):
    rng = np.random.default_rng(seed)
    for k, epsilon in ((300, 0.02), (40, 0.02), (5, 0.001)):
        best = rng.integers(k, size=2000) if k == 40 else np.zeros(2000, int)
        mu = epsilon / k + (1 - epsilon) * np.eye(k)[best]
        action = draw(mu, rng)
        yield plain_logs(action, mu[np.arange(2000), action])


def of_a_learner(seed):
    rng = np.random.default_rng(seed)
    sums, counts, q = np.ones(4), np.full(4, 2.0), rng.random(4) * 0.3
    action, p = np.zeros(1500, dtype=int), np.zeros(1500)
    for t in range(1500):
        mu = np.full(4, 0.2 / 4)
        mu[(sums / counts).argmax()] += 0.8
        action[t] = rng.choice(4, p=mu)
        p[t] = mu[action[t]]
        counts[action[t]] += 1
        sums[action[t]] += rng.random() < q[action[t]]
    yield plain_logs(action, p)


def of_an_urn(seed):
    """What was drawn early is drawn ever more often: the future tells the past."""
    logs = urn(2000, 20, seed)
    yield logs[np.random.default_rng(seed).permutation(2000)]  # order of the rows stays
    yield logs.replace(group=np.arange(2000) // 2)
    yield logs, logs.replace(propensity=logs.propensity * 0.8)


def of_groups_that_repeat_a_choice(seed):
    for n, scale in ((150, 2), (400, 0.5)):
        x, _, action, p = world(n, seed, scale=scale)
        rows = np.repeat(np.arange(n), 20)
        fields = x[rows], action[rows]
        right = logs_of(*fields, p[rows], group=rows)
        yield (right, logs_of(*fields, p[rows] / 2, group=rows)) if n > 150 else right
    few = np.arange(400) // 20  # groups
    yield logs_of(x, action, p, group=few)


def of_subsampled_rounds(seed):
    x, _, action, p = world(10_000, seed)
    kept = np.where(action == 0, 1.0, 0.25)
    rows = np.random.default_rng(seed).random(10_000) < kept
    x, action, p, weight = x[rows], action[rows], p[rows], 1 / kept[rows]
    right = logs_of(x, action, p, sample_weight=weight)
    yield right, logs_of(x, action, p)
    yield right, right.replace(propensity=0.7 * p)


def of_loggers_and_offers(seed):
    rng = np.random.default_rng(seed)
    x, mu, _, _ = world(2000, seed)
    logger = np.arange(2000) % 2
    offered = rng.random((2000, 4)) < 0.5
    offered[np.arange(2000), rng.integers(4, size=2000)] = True
    mu = np.where(logger[:, None], mu**3, mu) * offered
    mu /= mu.sum(axis=1, keepdims=True)
    action = draw(mu, rng)
    p = mu[np.arange(2000), action]
    yield logs_of(x, action, p, logger=logger, available=offered)
    yield logs_of(x, action, p, available=offered)
    # actions of their own: 0 or 1, and 1 or 2
    action = rng.integers(2, size=2000) + logger
    right = plain_logs(action, np.full(2000, 0.5), logger=logger)
    yield right, right.replace(propensity=np.where(logger, 0.3, 0.5))


def of_a_shop(seed):
    x, vip, hour, action = shop(3000, seed)
    yield logs_of(x, action, right_branch(vip, hour, action))


def of_rare_actions(seed):
    rng = np.random.default_rng(seed)
    x = rng.integers(3, size=(3000, 5))
    mu = np.full((3000, 30), 0.002) + 0.94 * np.eye(30)[x.sum(axis=1)]
    action = draw(mu, rng)
    yield logs_of(x, action, mu[np.arange(3000), action])


def of_two_levels(seed):
    rng = np.random.default_rng(seed)
    x = rng.integers(2, size=(600, 10))
    p = np.where(x[:, 0] ^ x[:, 1], 0.9, 0.05)
    action = (rng.random(600) < p).astype(int)
    yield logs_of(x, action, np.where(action, p, 1 - p))


KINDS = [kind for name, kind in globals().items() if name.startswith("of_")]


SEEDS = [0, *(pytest.param(seed, marks=pytest.mark.thorough) for seed in (1, 2))]


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("kind", KINDS)
def test_right_logs_are_left_alone_and_wrong_ones_are_not(kind, seed):
    for case in kind(seed):
        right, wrong = case if isinstance(case, tuple) else (case, None)
        assert {one.name for one in quick(right)} <= {"rounded_propensities"}
        assert not findings(right, "propensity_misfit")
        if wrong is not None:
            assert [one.name for one in quick(wrong) if one.is_alarm]
            assert findings(wrong, "propensity_misfit")
