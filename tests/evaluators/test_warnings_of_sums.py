# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Warnings of values from merged sums, against those of the same rounds in memory."""

import warnings

import numpy as np
import pytest

from skope_ope import (
    IPS,
    SNIPS,
    BanditLogs,
    DirectMethod,
    DoublyRobust,
    SoftmaxPolicy,
    evaluate,
    summarize,
)
from skope_ope.datasets import make_adaptive_logs, make_bandit_logs
from skope_ope.exceptions import LearnedRoundsWarning, OPEWarning
from tests.logs._worlds import parts_of, world

EVALUATORS = {"IPS": IPS(), "SNIPS": SNIPS(), "DR": DoublyRobust(reward_model=0.1)}


def told(value):
    """Return kinds, names and numbers of the warnings of a value, in order."""
    found = [(type(w).__name__, w.name, float(w.value)) for w in value.warnings]
    return sorted(found, key=lambda one: one[:2])


def both(policy, logs, n_parts, seed, evaluators=EVALUATORS):
    """Return the values in memory, and those of random parts."""
    policies = {"new": policy}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", OPEWarning)
        table = evaluate(policies, logs, evaluators=evaluators)
        parts = [
            summarize(policies, part, evaluators=evaluators)
            for part in parts_of(logs, n_parts, seed)
        ]
        return table, sum(parts).values()


@pytest.mark.few_cases(4)
@pytest.mark.parametrize("seed", range(16))
def test_warnings_are_those_of_memory(seed):
    logs = world(seed)
    rng = np.random.default_rng(seed)
    pi = np.tile(rng.dirichlet(np.ones(logs.n_actions)), (len(logs), 1))
    table, merged = both("pi", logs.with_columns(pi=pi), 1 + seed % 5, seed)
    for key, value in table.items():
        expected, found = told(value), told(merged[key])
        assert [one[:2] for one in found] == [one[:2] for one in expected]
        numbers = [
            # a part bounds its weights by a root of its own size
            [one[2] for one in some if one[1] != "mean_weight"]
            for some in (found, expected)
        ]
        np.testing.assert_allclose(*numbers, rtol=1e-7)
    assert merged.recommended == table.recommended
    assert merged.reason == table.reason


def test_some_worlds_warn_and_some_do_not():
    names = set()
    for seed in range(8):
        logs = world(seed)
        pi = np.full((len(logs), logs.n_actions), 1 / logs.n_actions)
        table, _ = both("pi", logs.with_columns(pi=pi), 1, seed)
        names |= {name for value in table.values() for _, name, _ in told(value)}
    assert {"impossible_propensity", "propensity_too_small", "trailing_zeros"} <= names


@pytest.mark.thorough
def test_a_logger_that_learned():
    logs = make_adaptive_logs(n_rounds=6_000, random_state=0)
    pi = np.full((len(logs), 2), 0.5)
    table, merged = both("pi", logs.with_columns(pi=pi), 4, 0)
    names = [name for _, name, _ in told(merged["new", "IPS"])]
    assert "adaptive_logger" in names
    assert told(table["new", "IPS"]) == told(merged["new", "IPS"])


def test_a_policy_that_has_learned_from_some_rounds():
    logs = make_bandit_logs(n_rounds=600, random_state=0)
    policy = SoftmaxPolicy(alpha=1.0).fit(logs[100:250])
    table, merged = both(policy, logs, 5, 0, {"IPS": IPS()})
    [expected], [found] = (
        [w for w in each["new", "IPS"].warnings if isinstance(w, LearnedRoundsWarning)]
        for each in (table, merged)
    )
    assert str(found) == str(expected)
    assert found.value == 0.25


def test_columns_by_which_is_asked_leave_the_warnings_as_they_are():
    logs = world(5)  # rewards are missing at the end
    logs = logs.with_columns(
        pi=np.full((len(logs), logs.n_actions), 1 / logs.n_actions),
        day=np.arange(len(logs)) % 3,
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", OPEWarning)
        values = [
            summarize({"new": "pi"}, logs, evaluators=["SNIPS"], by=by).values()
            for by in (None, "day")
        ]
    first, second = (told(each["new", "SNIPS"]) for each in values)
    assert [one[:2] for one in first] == [one[:2] for one in second]
    assert "trailing_zeros" in [name for _, name, _ in first]


def test_a_weight_whose_square_no_float_holds():
    rng = np.random.default_rng(0)
    p = np.full(400, 0.5)
    p[17] = 1e-90
    action, reward = rng.integers(0, 2, 400), rng.random(400)
    logs = BanditLogs(np.zeros((400, 0)), action, reward, p)
    table, merged = both(
        "pi", logs.with_columns(pi=np.full((400, 2), 0.5)), 3, 0, {"IPS": IPS()}
    )
    expected, found = (each["new", "IPS"] for each in (table, merged))
    assert [one[:2] for one in told(found)] == [one[:2] for one in told(expected)]
    assert np.isnan(found.standard_error) and np.isnan(expected.standard_error)
    assert any("Row 17 has the smallest propensity" in str(w) for w in found.warnings)


def test_an_error_that_sums_have_lost_is_said_to_be_so():
    logs = world(1)
    pi = np.random.default_rng(1).dirichlet(np.ones(logs.n_actions), len(logs))
    evaluators = {"DM": DirectMethod(reward_model=0.1)}
    _, merged = both("pi", logs.with_columns(pi=pi), 4, 0, evaluators)
    value = merged["new", "DM"]
    assert value.value == pytest.approx(0.1)
    names = [warning.name for warning in value.warnings]
    assert ("lost_error" in names) == bool(np.isnan(value.standard_error))
