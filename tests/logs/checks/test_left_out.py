# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Actions that chance left out of a log are told from those no logger takes."""

import warnings

import numpy as np
import pytest

from skope_ope import BanditLogs, PropensityEstimator, UniformPolicy, audit, evaluate
from skope_ope.exceptions import SupportWarning

N, K = 1300, 300


def rounds(seed=0, could=K, claimed=None, n_rounds=N):
    """A uniform logger of the first `could` of 300 actions."""
    random = np.random.RandomState(seed)
    action = random.randint(could, size=n_rounds)
    p = np.full(n_rounds, 1 / (claimed or could))
    return action, (random.random_sample(n_rounds) < 0.1).astype(float), p


def logs_of(action, reward, p, **fields):
    fields = {"actions": np.arange(K)} | fields
    return BanditLogs(np.zeros((len(action), 1)), action, reward, p, **fields)


def support_warnings(logs):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        evaluate(UniformPolicy(), logs, evaluators=["IPS", "DirectMethod"])
    return [w for w in caught if isinstance(w.message, SupportWarning)]


def test_what_chance_left_out_and_what_not():
    n_unseen = 0
    for seed in range(10):
        logs = logs_of(*rounds(seed))
        n_unseen += len(logs._unseen)
        assert support_warnings(logs) == []
        found = audit(UniformPolicy(), logs)
        assert found.ok
        assert found.facts["unsupported mass"] == pytest.approx(len(logs._unseen) / K)
    assert n_unseen > 20
    [one] = [one for one in found.findings if one.name == "unsupported_mass"]
    assert f"to {len(logs._unseen)} of 300 actions that are missing" in one.text
    # the mean of the inverse counts what could be taken
    for seed in range(10):
        logs = logs_of(*rounds(seed, could=290))
        assert not logs._left_out_by_chance
        [told] = support_warnings(logs)
        assert told.message.value == pytest.approx(len(logs._unseen) / K)
    # a policy that wants what was left out loses it
    logs = logs_of(*rounds(0))
    proba = np.full(K, 0.8 / K)
    proba[logs._unseen] += 0.2 / len(logs._unseen)
    with pytest.warns(SupportWarning) as record:
        value = evaluate(np.tile(proba, (N, 1)), logs, evaluators=["IPS"])["IPS"]
    assert record[0].message.value == pytest.approx(0.2 + 0.8 * len(logs._unseen) / K)
    assert value.diagnostics["mean_weight"] == pytest.approx(0.8)


def test_chance_does_not_leave_out_what_is_logged_often():
    assert not logs_of(*rounds(0, 290, K, 10_000))._left_out_by_chance
    dropped = np.array([0.1, 0.3, 0.3, 0.3])
    action = np.random.RandomState(0).randint(1, 4, 3000)
    reward = np.zeros(3000)
    few = logs_of(action, reward, dropped[action], actions=np.arange(4))
    assert not few._left_out_by_chance
    action, reward, p = rounds(0, n_rounds=10_000)
    assert logs_of(*rounds(0))._left_out_by_chance
    kept = action != 7
    assert not logs_of(action[kept], reward[kept], p[kept])._left_out_by_chance
    action = np.random.RandomState(0).randint(20_000, size=N)
    p = np.full(N, 1 / 20_000)
    logs = logs_of(action, np.zeros(N), p, actions=np.arange(20_000))
    assert logs._left_out_by_chance


def test_what_does_not_tell_and_varied_offers():
    action, reward, p = rounds(0)
    given = logs_of(action, reward, p)
    assert given._left_out_by_chance
    unknown = logs_of(action, reward, None)
    assert not unknown._left_out_by_chance
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        estimated = PropensityEstimator().fit_transform(unknown)
    assert not estimated._left_out_by_chance
    weight = np.arange(N) % 2 + 1.0
    assert not logs_of(action, reward, p, sample_weight=weight)._left_out_by_chance
    mu = np.full((N, K), 1 / K)
    assert not logs_of(action, reward, p, logging_proba=mu)._left_out_by_chance
    assert not logs_of(action[:1], reward[:1], p[:1])._left_out_by_chance
    everything = logs_of(np.arange(K), np.zeros(K), np.full(K, 1 / K))
    assert not everything._left_out_by_chance
    action, reward, p = (np.repeat(part, 10) for part in rounds(0))
    user = np.repeat(np.arange(N), 10)
    assert logs_of(action, reward, p, group=user)._left_out_by_chance
    assert not logs_of(action, reward, p)._left_out_by_chance
    apart = rounds(0, 290, K, 10 * N)
    assert not logs_of(*apart, group=user)._left_out_by_chance
    # varied offers
    random = np.random.RandomState(0)
    available = random.random_sample((N, K)) < 0.8
    action = np.array([random.choice(np.flatnonzero(row)) for row in available])
    p = 1 / available.sum(axis=1)
    logs = logs_of(action, np.zeros(N), p, available=available)
    assert len(logs._unseen)
    assert logs._left_out_by_chance
    less = available.copy()
    less[:, logs._unseen] = False  # nobody offers them, says the propensity
    wrong = logs_of(action, np.zeros(N), 1 / less.sum(axis=1), available=available)
    assert not wrong._left_out_by_chance
