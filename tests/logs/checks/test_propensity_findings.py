# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Wrong propensities are told with numbers and remedies, right ones are left alone."""

import re
import warnings
from itertools import product

import numpy as np
import pytest

from skope_ope import IPS, PropensityEstimator, Replay, UniformPolicy
from tests.logs.checks._found import draw, findings, logs_of, plain_logs, quick, world


def found(logs, alarms=True):
    """Findings by name: alarms, or all."""
    return {one.name: one for one in quick(logs) if one.is_alarm or not alarms}


# -- right logs -----------------------------------------------------------------------
def test_how_numbers_are_written():
    action = np.random.default_rng(0).integers(3, size=200_000)
    logs = plain_logs(action, np.full(200_000, 0.33))
    assert list(found(logs, alarms=False)) == ["rounded_propensities"]
    assert found(logs) == {}
    third = plain_logs(action, np.full(200_000, 1 / 3))
    assert found(third, alarms=False) == {}
    # counts of a sentence have commas and expectations four digits
    action = np.random.default_rng(0).choice(3, size=40_000, p=[0.2, 0.45, 0.35])
    law = np.full((40_000, 3), 1 / 3)
    logs = plain_logs(action, None, logging_proba=law)
    told = found(logs)["action_too_rare"].found
    number = r"\d{1,2},\d{3}"  # an expectation of thousands has no decimals
    assert re.search(f"logged {number} times in {number} rounds, where", told)
    assert re.search(rf"predict {number} \(-", told)


def test_a_logger_without_a_choice():
    x, mu, _, _ = world()
    best = mu.argmax(axis=1)
    logs = logs_of(x, best, np.ones(3000))
    assert list(found(logs, alarms=False)) == ["certain_propensities"]
    assert found(logs) == {}
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # evaluated on itself it has nothing to fear
        assert IPS().fit(logs).evaluate(np.eye(4)[best]).value == 0
    assert found(logs_of(x, np.zeros(3000), np.ones(3000)), alarms=False) == {}
    # certain in half of the contexts, in the others one of two
    action = np.where(x[:, 0] > 0, 2, np.random.default_rng(0).integers(2, size=3000))
    assert found(logs_of(x, action, np.where(x[:, 0] > 0, 1, 0.5))) == {}


@pytest.mark.parametrize("epsilon", [0.05, 0.15])
def test_greedy_choices_that_are_recorded_as_certain(epsilon):
    x, mu, _, _ = world(3000)
    best = mu.argmax(axis=1)
    law = np.full((3000, 4), epsilon / 4)
    law[np.arange(3000), best] += 1 - epsilon
    action = draw(law, np.random.default_rng(0))
    p = law[np.arange(3000), action]
    assert found(logs_of(x, action, p)) == {}
    alarm = found(logs_of(x, action, np.where(action == best, 1.0, p)))
    assert "greedy choices" in alarm["propensity_too_small"].advice[0]


def test_offers_and_loggers_that_are_not_passed():
    # it looks as if the logger chose between more actions
    rng = np.random.default_rng(0)
    x, _, _, _ = world()
    offered = rng.random((3000, 4)) < 0.5
    offered[np.arange(3000), rng.integers(4, size=3000)] = True
    mu = offered / offered.sum(axis=1, keepdims=True)
    action = draw(mu, rng)
    p = mu[np.arange(3000), action]
    assert found(logs_of(x, action, p, available=offered)) == {}
    alarm = found(logs_of(x, action, p))["propensity_too_large"]
    assert "`available`" in alarm.advice[0]
    action = rng.integers(2, size=3000) + np.arange(3000) % 2
    assert "propensity_too_large" in found(plain_logs(action, np.full(3000, 0.5)))


# -- faults ---------------------------------------------------------------------------
def test_counts_of_few_and_of_many_rounds():
    rng = np.random.default_rng(0)
    action = rng.choice(3, 2000, p=[0.5, 0.3, 0.2])
    alarm = found(plain_logs(action, np.full(2000, 1 / 3)))
    assert list(alarm) == ["action_too_frequent"]  # and not the same thing twice
    alarm = alarm["action_too_frequent"]
    excess = (action == 0).sum() - 2000 / 3
    assert alarm.number == pytest.approx(excess / np.sqrt(2000 * 2 / 9))
    assert alarm.effect == pytest.approx(excess / (2000 / 3))
    assert alarm.actions == (0,)
    assert (action[list(alarm.rows)] == 0).all()
    mu = np.tile([0.3, 0.2, 0.5], (2000, 1))
    alarm = found(plain_logs(action, None, logging_proba=mu))["action_too_rare"]
    assert alarm.actions == (2,)
    assert "dropped" in alarm.text
    # many rounds make no alarm of a few percent
    action = np.random.default_rng(0).choice(2, 100_000, p=[0.515, 0.485])
    logs = plain_logs(action, np.full(100_000, 0.5))
    assert logs._action_counts[0] - 50_000 > 8 * 158  # standard errors
    assert found(logs) == {}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        Replay().fit(logs).evaluate(UniformPolicy())


def test_propensities_that_are_too_small_or_large():
    x, _, action, p = world()
    alarm = found(logs_of(x, action, 0.8 * p))["propensity_too_small"]
    assert alarm.severity == "error"
    assert alarm.effect == pytest.approx(0.25, abs=0.08)
    assert len(alarm.rows) == 10
    assert p[list(alarm.rows)].max() <= np.sort(p)[200]
    assert "PropensityEstimator" in alarm.advice[-1]
    # of a single action
    one = np.where(action == 2, 0.7 * p, p)
    alarm = found(logs_of(x, action, one))["propensity_too_small"]
    assert alarm.actions in ((2,), ())
    assert (action[list(alarm.rows)] == 2).all() or not alarm.actions
    # of all rounds alike, which is no wonder in four
    action, quarter = np.arange(200) % 2, np.full(200, 0.25)
    alarm = found(plain_logs(action, quarter))["propensity_too_small"]
    assert alarm.number == np.inf
    assert found(plain_logs(action[:4], quarter[:4])) == {}
    # propensities that are too large
    x, mu, action, p = world()
    clipped = found(logs_of(x, action, np.maximum(p, 0.2)))["propensity_too_large"]
    assert "exactly the smallest propensity, 0.2" in clipped.advice[0]
    assert (p[list(clipped.rows)] <= 0.2).all()
    assert any("use SlateLogs" in one for one in clipped.advice)
    of_the_best = found(logs_of(x, action, mu.max(axis=1)))["propensity_too_large"]
    assert "likeliest" in of_the_best.text


def test_impossible_propensities():
    x, _, action, p = world()
    p = p.copy()
    p[17] = 1e-12
    alarm = found(logs_of(x, action, p))["impossible_propensity"]
    assert alarm.rows == (17,)
    assert alarm.number == pytest.approx(1e-12 * 3000 * 4)
    p[17] = 1e-7  # one in a thousand logs may hold it
    assert found(logs_of(x, action, p)) == {}
    # one of very many actions: uniform rankings of twenty items
    rankings = plain_logs(np.arange(500), np.full(500, 4e-19))
    assert found(rankings, alarms=False) == {}
    with pytest.raises(ValueError, match=r"row 1 .*its inverse is infinite"):
        plain_logs([0, 1], [0.5, 5e-324])
    # right propensities are hardly ever impossible
    mu = np.array([0.5, 0.5 - 1e-6, 1e-6])
    rung = 0.0
    for log in product(range(3), repeat=3):
        logs = plain_logs(np.array(log), mu[list(log)], actions=range(3))
        if "impossible_propensity" in found(logs):
            rung += mu[list(log)].prod()
    assert 0 < rung < 1e-5


@pytest.mark.parametrize("sharpness", [0.25, 0.5, 2, 4])
def test_another_temperature(sharpness):
    x, mu, action, _ = world()
    wrong = mu**sharpness / (mu**sharpness).sum(axis=1, keepdims=True)
    alarms = found(logs_of(x, action, None, logging_proba=wrong))
    alarm = alarms["propensity_calibration"]
    assert ("more often" in alarm.found) == (sharpness < 1)
    if 0.5 <= sharpness <= 2:
        assert alarm.effect == pytest.approx(1)
    uniform = np.full((3000, 4), 0.25)  # at any temperature the same
    for right in (mu, uniform):
        logs = logs_of(x, action, None, logging_proba=right)
        assert "propensity_calibration" not in found(logs)


# -- notes, and what cannot be tested -------------------------------------------------
def test_rounded_propensities():
    x, _, action, p = world(scale=2)
    logs = logs_of(x, action, np.maximum(p.round(2), 0.01))
    note = found(logs, alarms=False)["rounded_propensities"]
    assert note.severity == "note"
    assert note.number == 0.01
    assert note.effect == pytest.approx(0.5)
    assert "If they were rounded" in note.found
    # a fault is seen all the same
    assert found(logs_of(x, action, np.maximum((p * 0.7).round(2), 0.01)))
    for exact in ([0.9, 0.1], [0.5, 0.5]):
        rare = plain_logs(np.arange(1000) % 2, np.tile(exact, 500))
        assert "rounded_propensities" not in found(rare, alarms=False)


def test_logs_that_allow_no_test_or_only_that_of_an_audit():
    x, _, action, p = world(50)
    unknown = found(logs_of(x, action, None), alarms=False)
    assert list(unknown) == ["unknown_propensities"]
    for n in (1, 2, 3):
        assert found(logs_of(x[:n], action[:n], p[:n]), alarms=False) == {}
    many = np.arange(100_000)
    assert found(plain_logs(many, np.full(100_000, 1e-5)), alarms=False) == {}
    mu = np.full((60, 3), 1 / 3)  # few rounds: none above 4 / sqrt(60)
    assert found(plain_logs(np.arange(60) % 3, None, logging_proba=mu)) == {}
    # estimated propensities are tested by audits alone
    x, _, action, p = world(600)
    logs = PropensityEstimator().fit_transform(logs_of(x, action, None))
    assert found(logs, alarms=False) == {}
    assert findings(logs, "estimated_propensities")
    wrong = logs.replace(propensity=np.roll(p, 1) / 2)
    assert list(found(wrong)) == ["propensity_too_small"]
    told = wrong._quick_propensity_findings[0]
    assert told == {"propensity tests": "propensity_too_small"}


def test_evaluators_warn_of_alarms_and_keep_notes_to_themselves():
    x, _, action, p = world(500)
    p = p.round(1).clip(0.1)
    noted = logs_of(x, action, p)
    assert list(found(noted, alarms=False)) == ["rounded_propensities"]
    assert not IPS().fit(noted).evaluate(UniformPolicy()).warnings
    wrong = logs_of(x, action, 0.5 * p)
    [alarm] = found(wrong).values()
    with pytest.warns(alarm.category) as caught:
        value = IPS().fit(wrong).evaluate(UniformPolicy())
    assert alarm.text in [str(w.message) for w in caught]
    assert alarm.number in [w.value for w in value.warnings]


# -- means of 1/p, by rounds and by groups --------------------------------------------


def test_rounds_repeated_in_their_group_say_no_more_than_once():
    x, _, action, p = world(400)
    rows = np.repeat(np.arange(400), 3)
    alone, grouped, repeated = (
        found(logs_of(x[k], action[k], p[k] / 2, group=group))["propensity_too_small"]
        for k, group in ((rows[::3], None), (rows[::3], rows[::3]), (rows, rows))
    )
    assert (grouped.number, grouped.effect) == (alone.number, alone.effect)
    assert repeated.effect == pytest.approx(alone.effect, rel=1e-12)
    assert repeated.number == pytest.approx(alone.number, rel=1e-12)


@pytest.mark.parametrize(
    ("p", "n_actions", "step"),
    [
        ([0.33], 3, 0.01),
        ([np.float32(0.33)], 3, 0.01),
        ([0.5, 0.1], 3, 0.01),  # settings, not roundings to one digit
        (np.arange(1, 10) / 10, 3, 0.1),
        ([0.005, 0.123], 3, 0.001),
        ([1 / 3, 0.5], 3, None),
        # what adds up over the actions was not rounded
        ([0.05, 0.05], 20, None),
        ([0.05, 0.05], 19, 0.01),
        ([0.9, 0.1], 2, None),
        ([0.9, 0.1], 3, 0.01),
    ],
)
def test_the_grid_of_rounded_propensities(p, n_actions, step):
    p = np.resize(np.asarray(p, dtype=float), 300)
    logs = plain_logs(np.arange(300) % n_actions, p, actions=range(n_actions))
    note = found(logs, alarms=False).get("rounded_propensities")
    assert (None if note is None else note.number) == step
