# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""A model of the logger beats propensities that are wrong, and no others."""

import numpy as np
import pytest
from scipy import sparse

from skope_ope import PropensityEstimator, audit
from skope_ope.logs.checks._propensity_fit import fitted_propensity_findings
from tests.logs.checks._found import draw, findings, logs_of, plain_logs, softmax, world

RULE = np.array([[0.1, 0.3, 0.3, 0.3], [0.4, 0.4, 0.1, 0.1], [0.55, 0.15, 0.15, 0.15]])


def alarms(logs, random_state=0):
    return findings(logs, "propensity_misfit", random_state=random_state)


# -- right logs -----------------------------------------------------------------------
def test_what_is_seen_and_what_is_not_tested():
    # only who knows the loggers can tell
    rng, logger = np.random.default_rng(0), np.arange(2000) % 2
    swapped = np.where(logger, 0.2, 0.8)
    action = (rng.random(2000) < np.where(logger, 0.8, 0.2)).astype(int)
    p = np.where(action == 1, swapped, 1 - swapped)
    assert alarms(plain_logs(action, p, logger=logger))
    # what a group repeats and what was left out
    x, _, action, p = world(400, 0)
    rows = np.repeat(np.arange(400), 20)
    [alarm] = alarms(logs_of(x[rows], action[rows], p[rows] / 2, group=rows))
    assert alarm.effect > 0.5
    assert alarms(logs_of(x, action, p / 2, group=np.arange(400) // 20)) == []  # few
    x, _, action, p = world(8000)
    rows = np.random.default_rng(0).random(8000) < np.where(action == 0, 1.0, 0.25)
    [alarm] = alarms(logs_of(x[rows], action[rows], p[rows]))
    assert alarm.actions == (0,)
    # a huge effect is said in words
    x, _, action, p = world(2000)
    [alarm] = alarms(logs_of(x, action, p * 1e-4))
    assert alarm.effect > 1000
    assert "many times over" in alarm.found and "%" not in alarm.found
    x, _, action, p = world(12_000)
    logs = logs_of(x, action, 0.8 * p)
    one, same, other = (alarms(logs, seed)[0].number for seed in (0, 0, 1))
    assert one == same != other
    # what is not tested
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


# -- contexts of any kind -------------------------------------------------------------
def contexts(x):
    """The sign of the first column tells the action, in all kinds of contexts."""
    pd = pytest.importorskip("pandas")
    side, rows = x[:, 0] > 0, np.arange(len(x))
    wide = sparse.csr_matrix((np.ones(len(x)), (rows, side + 5)), (len(x), 50_000))
    names, noise = np.where(side, "yes", "no"), [f"user {i}" for i in rows]
    holes = np.where(x[:, 1] > 0, np.nan, x[:, 1])
    return {
        "array": x,
        "holes": np.column_stack([holes, x[:, 0]]),
        "sparse": wide,
        "frame": pd.DataFrame({"id": noise, "side": names, "day": x[:, 1]}),
        "category": pd.DataFrame({"side": pd.Categorical(names)}),
        "bool": pd.DataFrame({"side": side, "gap": pd.array(side, dtype="boolean")}),
    }


@pytest.mark.few_cases(3)
@pytest.mark.parametrize(
    "kind", ["array", "holes", "sparse", "frame", "category", "bool"]
)
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
    rate = np.where(gone, 0.9 - 0.8 * x, 0.15 + 0.7 * x)
    action = (rng.random(8000) < rate).astype(int)
    frame = pd.DataFrame({"x": x, "hour": np.where(gone, np.nan, 9)})
    [alarm] = alarms(logs_of(frame, action, np.full(8000, 0.5)))
    assert "column 'hour' is missing" in alarm.found


def test_a_temperature_that_is_a_quarter_too_high_is_seen_in_long_logs():
    n_alarms = {1.0: 0, 1.25: 0}
    for seed in range(6):
        rng = np.random.default_rng(seed)
        x = rng.normal(size=(10_000, 4))
        logits = x @ rng.normal(scale=0.5, size=(4, 4))
        recorded = softmax(logits)
        for temperature in n_alarms:
            action = draw(softmax(logits / temperature), rng)
            logs = logs_of(x, action, recorded[np.arange(len(x)), action])
            found = fitted_propensity_findings(logs)[1]
            n_alarms[temperature] += any(one.is_alarm for one in found)
    assert n_alarms[1.0] == 0
    assert n_alarms[1.25] >= 3
