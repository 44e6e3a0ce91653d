# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""A model of the logger beats propensities that are wrong, and no others."""

import numpy as np
import pytest
from scipy import sparse

from skope_ope import PropensityEstimator, audit
from tests.logs.checks._found import (
    draw,
    findings,
    logs_of,
    plain_logs,
    softmax,
    urn,
    world,
)

RULE = np.array([[0.1, 0.3, 0.3, 0.3], [0.4, 0.4, 0.1, 0.1], [0.55, 0.15, 0.15, 0.15]])


def alarms(logs, random_state=0):
    return findings(logs, "propensity_misfit", random_state=random_state)


# -- right logs -----------------------------------------------------------------------
@pytest.mark.parametrize("scale", [1, 3])
def test_right_propensities_are_not_beaten(scale):
    for seed in range(3):
        x, _, action, p = world(2000, seed, scale)
        assert alarms(logs_of(x, action, p)) == []
        rounded = np.maximum(p.round(2), 0.01)
        assert alarms(logs_of(x, action, rounded)) == []


def test_many_actions_that_the_log_does_not_name():
    for seed in range(3):
        rng = np.random.default_rng(seed)
        action = np.where(rng.random(2000) < 0.98, 0, rng.integers(1, 300, size=2000))
        p = np.where(action == 0, 0.98, 0.02 / 299)
        assert alarms(logs_of(np.zeros((2000, 1)), action, p)) == []
        action = rng.integers(300, size=1100)
        assert (
            alarms(logs_of(np.zeros((1100, 1)), action, np.full(1100, 1 / 300))) == []
        )


def test_a_logger_that_learns():
    for seed in range(3):
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
        assert alarms(plain_logs(action, p)) == []


def test_a_logger_whose_future_tells_its_past():
    # right propensities, but what was drawn early is drawn ever more often
    for seed in range(4):
        logs = urn(2000, 20, seed)
        assert alarms(logs) == []
        mixed = np.random.default_rng(seed).permutation(2000)
        assert alarms(logs[mixed]) == []  # the order is the one in which they stood
        assert alarms(logs.replace(group=np.arange(2000) // 2)) == []
        wrong = logs.replace(propensity=logs.propensity * 0.8)
        assert [one.name for one in alarms(wrong)] == ["propensity_misfit"]


def test_rounds_that_repeat_the_choice_of_their_group():
    for seed in range(2):
        x, _, action, p = world(150, seed, scale=2)
        rows = np.repeat(np.arange(150), 20)
        logs = logs_of(x[rows], action[rows], p[rows], group=rows)
        assert alarms(logs) == []
    x, _, action, p = world(400, 0)
    rows = np.repeat(np.arange(400), 20)
    [alarm] = alarms(logs_of(x[rows], action[rows], p[rows] / 2, group=rows))
    assert alarm.effect > 0.5
    assert alarms(logs_of(x, action, p / 2, group=np.arange(400) // 20)) == []  # few


def test_rounds_that_were_subsampled():
    x, _, action, p = world(8000)
    kept = np.where(action == 0, 1.0, 0.25)
    rows = np.random.default_rng(0).random(8000) < kept
    x, action, p, weight = x[rows], action[rows], p[rows], 1 / kept[rows]
    assert alarms(logs_of(x, action, p, sample_weight=weight)) == []
    [alarm] = alarms(logs_of(x, action, p))
    assert alarm.actions == (0,)
    assert alarms(logs_of(x, action, np.roll(p, 1), sample_weight=weight))


def test_loggers_and_offers():
    rng = np.random.default_rng(0)
    x, mu, _, _ = world(2000)
    logger = np.arange(2000) % 2
    offered = rng.random((2000, 4)) < 0.5
    offered[np.arange(2000), rng.integers(4, size=2000)] = True
    mu = np.where(logger[:, None], mu**3, mu) * offered
    mu /= mu.sum(axis=1, keepdims=True)
    action = draw(mu, rng)
    p = mu[np.arange(2000), action]
    fields = {"logger": logger, "available": offered}
    assert alarms(logs_of(x, action, p, **fields)) == []
    assert alarms(logs_of(x, action, np.roll(p, 1), **fields))
    # the propensities of the other logger: only who knows the loggers can tell
    swapped = np.where(logger, 0.2, 0.8)
    action = (rng.random(2000) < np.where(logger, 0.8, 0.2)).astype(int)
    p = np.where(action == 1, swapped, 1 - swapped)
    assert alarms(plain_logs(action, p, logger=logger))


# -- faults ---------------------------------------------------------------------------
FAULTS = {
    "of another row": lambda mu, action: np.roll(mu[np.arange(len(mu)), action], 1),
    "of another action": lambda mu, action: mu[np.arange(len(mu)), (action + 1) % 4],
    "times .9": lambda mu, action: 0.9 * mu[np.arange(len(mu)), action],
    "uniform": lambda mu, action: np.full(len(mu), 0.25),
    "half the temperature": lambda mu, action: (
        mu**2 / (mu**2).sum(axis=1, keepdims=True)
    )[np.arange(len(mu)), action],
}


@pytest.mark.few_cases
@pytest.mark.parametrize("scale", [1, 3])
@pytest.mark.parametrize("fault", FAULTS)
def test_wrong_propensities_are_beaten(fault, scale):
    x, mu, action, _ = world(2000, 1, scale)
    [alarm] = alarms(logs_of(x, action, FAULTS[fault](mu, action)))
    assert alarm.name == "propensity_misfit"
    assert alarm.severity == "error"
    assert alarm.number > np.log(1000)
    assert alarm.effect > 0.035
    [worst] = alarm.actions
    assert len(alarm.rows) == 10
    assert (action[list(alarm.rows)] == worst).all()
    assert "estimate them with PropensityEstimator." in alarm.advice[-1]


def test_a_huge_effect_is_said_in_words():
    x, _, action, p = world(2000)
    [alarm] = alarms(logs_of(x, action, p * 1e-4))
    assert alarm.effect > 1000
    assert "many times over" in alarm.found and "%" not in alarm.found


def test_the_same_rounds_are_drawn_for_the_same_seed():
    x, _, action, p = world(12_000)
    logs = logs_of(x, action, 0.8 * p)
    one, same, other = (alarms(logs, seed)[0].number for seed in (0, 0, 1))
    assert one == same != other


def test_what_is_not_tested():
    x, _, action, p = world(300)
    for logs in (
        logs_of(x, action, None),
        logs_of(x, action, np.ones(300)),
        PropensityEstimator().fit_transform(logs_of(x, action, None)),
    ):
        assert alarms(logs) == []
    for n in (1, 5):
        facts = audit(logs_of(x[:n], action[:n], p[:n])).facts
        assert "fewer than 30 rounds" in facts["propensities against a fitted logger"]
    one = logs_of(x, np.zeros(300), np.full(300, 0.5))  # of a single action
    assert alarms(one)
    assert alarms(one.replace(propensity=np.full(300, 1 - 1e-6))) == []


# -- contexts of any kind -------------------------------------------------------------
def contexts(x):
    """The sign of the first column tells the action, in all kinds of contexts."""
    pd = pytest.importorskip("pandas")
    side = x[:, 0] > 0
    wide = sparse.csr_matrix(
        (np.ones(len(x)), (np.arange(len(x)), side + 5)), shape=(len(x), 50_000)
    )
    names = np.where(side, "yes", "no")
    noise = [f"user {i}" for i in range(len(x))]
    holes = np.where(x[:, 1] > 0, np.nan, x[:, 1])
    return {
        "array": x,
        "holes": np.column_stack([holes, x[:, 0]]),
        "sparse": wide,
        "frame": pd.DataFrame({"id": noise, "side": names, "day": x[:, 1]}),
        "category": pd.DataFrame({"side": pd.Categorical(names)}),
        "bool": pd.DataFrame({"side": side, "gap": pd.array(side, dtype="boolean")}),
    }


KINDS = ["array", "holes", "sparse", "frame", "category", "bool"]


@pytest.mark.few_cases(3)
@pytest.mark.parametrize("kind", KINDS)
def test_contexts_of_any_kind(kind):
    x = np.random.default_rng(0).normal(size=(1500, 2))
    mu = softmax(np.column_stack([np.where(x[:, 0] > 0, 2.0, -2.0), np.zeros(1500)]))
    action = draw(mu, np.random.default_rng(1))
    p = mu[np.arange(1500), action]
    context = contexts(x)[kind]
    assert alarms(logs_of(context, action, p)) == []
    assert alarms(logs_of(context, action, np.roll(p, 1)))


@pytest.mark.parametrize("wrong", [slice(0, 2000), slice(2000, 4000)])
def test_a_fault_of_half_a_log_is_seen(wrong):
    x, _, action, p = world(4000, 1)
    p = p.copy()
    p[wrong] = np.random.default_rng(0).permutation(p[wrong])
    assert [one.name for one in alarms(logs_of(x, action, p))] == ["propensity_misfit"]


# -- combinations of values -----------------------------------------------------------
def shop(n, seed=0):
    """Contexts (vip, hour, basket) of a shop, and the branches of its rule."""
    rng = np.random.default_rng(seed)
    vip, hour = rng.random(n) < 0.15, rng.integers(24, size=n)
    x = np.column_stack([vip, hour, rng.gamma(4, 10, n)])
    return x, vip, hour, draw(RULE[np.where(vip, 0, np.where(hour >= 18, 1, 2))], rng)


def wrong_branch(vip, hour, action):
    """The vip branch comes last: vips of the evening get the others' propensities."""
    return RULE[np.where(hour >= 18, 1, np.where(vip, 0, 2)), action]


def right_branch(vip, hour, action):
    return RULE[np.where(vip, 0, np.where(hour >= 18, 1, 2)), action]


@pytest.mark.parametrize("seed", range(3))
def test_a_branch_in_the_wrong_place(seed):
    x, vip, hour, action = shop(10_000, seed)
    [alarm] = alarms(logs_of(x, action, wrong_branch(vip, hour, action)))
    assert (alarm.name, alarm.severity) == ("propensity_misfit", "error")
    assert set(alarm.columns) == {0, 1}
    assert alarm.actions[0] in (2, 3)  # logged three times as often as recorded
    assert "context column 0 is 1 and context column 1 is" in alarm.found
    assert "times as often as its propensities predict" in alarm.found
    assert "at most one log of" in alarm.found
    assert vip[list(alarm.rows)].all() and (hour[list(alarm.rows)] >= 15).all()
    assert alarms(logs_of(x, action, right_branch(vip, hour, action))) == []


def test_a_limit_that_is_off_by_one():
    x, vip, hour, action = shop(10_000)
    late = RULE[np.where(vip, 0, np.where(hour > 18, 1, 2)), action]
    [alarm] = alarms(logs_of(x, action, late))
    assert alarm.columns == (1,)
    assert "context column 1 is 18 (" in alarm.found


def test_a_combination_whose_columns_alone_are_right():
    rng = np.random.default_rng(0)
    x = rng.integers(2, size=(8000, 4))
    odd = x[:, 1] ^ x[:, 3]
    action = (rng.random(8000) < np.where(odd, 0.8, 0.2)).astype(int)
    [alarm] = alarms(logs_of(x, action, np.full(8000, 0.5)))
    assert set(alarm.columns) == {1, 3}


def test_groups_weights_and_offers():
    x, vip, hour, action = shop(10_000)
    wrong = wrong_branch(vip, hour, action)
    right = right_branch(vip, hour, action)
    group = np.arange(10_000) // 2
    assert alarms(logs_of(x, action, wrong, group=group))
    assert alarms(logs_of(x, action, right, group=group)) == []
    kept = np.where(action == 0, 1.0, 0.5)
    rows = np.random.default_rng(0).random(10_000) < kept
    some = {"sample_weight": 1 / kept[rows]}
    assert alarms(logs_of(x[rows], action[rows], right[rows], **some)) == []
    assert alarms(logs_of(x[rows], action[rows], wrong[rows], **some))


def test_names_of_cells():
    pd = pytest.importorskip("pandas")
    _, vip, hour, action = shop(10_000)
    frame = pd.DataFrame({"segment": np.where(vip, "vip", "new"), "hour": hour})
    [alarm] = alarms(logs_of(frame, action, wrong_branch(vip, hour, action)))
    assert "column 'segment' is 'vip' and column 'hour' is" in alarm.found
    assert alarm.columns == ("segment", "hour")
    rng = np.random.default_rng(0)
    x, gone = rng.integers(2, size=(2, 8000)).astype(bool)
    action = (rng.random(8000) < np.where(gone, 0.9 - 0.8 * x, 0.15 + 0.7 * x)).astype(
        int
    )
    frame = pd.DataFrame({"x": x, "hour": np.where(gone, np.nan, 9)})
    [alarm] = alarms(logs_of(frame, action, np.full(8000, 0.5)))
    assert "column 'hour' is missing" in alarm.found


def of_a_shop(rng):
    x, vip, hour, action = shop(3000, rng)
    return logs_of(x, action, right_branch(vip, hour, action))


def of_a_softmax(rng):
    x = rng.normal(size=(3000, 6))
    mu = softmax(2 * x @ rng.normal(scale=0.5, size=(6, 5)))
    action = draw(mu, rng)
    return logs_of(x, action, mu[np.arange(3000), action])


def of_rare_actions(rng):
    x = rng.integers(3, size=(3000, 5))
    mu = np.full((3000, 30), 0.002) + 0.94 * np.eye(30)[x.sum(axis=1)]
    action = draw(mu, rng)
    return logs_of(x, action, mu[np.arange(3000), action])


def of_two_levels(rng):
    x = rng.integers(2, size=(600, 10))
    p = np.where(x[:, 0] ^ x[:, 1], 0.9, 0.05)
    action = (rng.random(600) < p).astype(int)
    return logs_of(x, action, np.where(action, p, 1 - p))


@pytest.mark.parametrize(
    "right", [of_a_shop, of_a_softmax, of_rare_actions, of_two_levels]
)
def test_right_laws_of_many_kinds_are_left_alone(right):
    for seed in range(5):
        assert alarms(right(np.random.default_rng(seed))) == []
