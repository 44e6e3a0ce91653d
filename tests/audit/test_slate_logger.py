# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause

import numpy as np
import pytest
from numpy.testing import assert_allclose

from skope_ope import PlackettLuceSlatePolicy, SlateLogs, UniformSlatePolicy, audit
from skope_ope.audit._slate_logger import decision_laws, slate_logger_findings
from skope_ope.datasets import make_slate_logs
from skope_ope.policies import (
    EmpiricalSlatePolicy,
    ProductSlatePolicy,
    SampledSlatePolicy,
)

WORLDS = {
    "rankings": {},
    "sharp": {"logging_temperature": 0.3},
    "product": {"logging": "product"},
    "uniform": {"logging": "uniform"},
    "longer": {"n_slots": 4, "n_candidates": 9},
}


def rebuilt(logs, **fields):
    """The same slates with other fields."""
    kept = ("context", "slate", "reward", "item_features", "n_candidates")
    given = {name: getattr(logs, name) for name in (*kept, "logging_policy")}
    return SlateLogs(**(given | fields))


def names(logs, seed=0):
    return [one.name for one in slate_logger_findings(logs, seed)[1]]


@pytest.mark.few_cases(2)
@pytest.mark.parametrize("world", WORLDS)
def test_right_logs_are_quiet(world):
    for seed in range(4):
        logs = make_slate_logs(400, random_state=seed, **WORLDS[world])
        facts, found = slate_logger_findings(logs, seed)
        assert not found
        assert facts.pop("slates against the logging policy") == "400 rounds compared"
        assert list(facts.values()) == ["400 pages compared"] * 2 * (world == "uniform")


@pytest.mark.theory
@pytest.mark.parametrize("world", WORLDS)
def test_hundred_right_logs_are_quiet(world):
    logs = (make_slate_logs(1000, random_state=s, **WORLDS[world]) for s in range(100))
    assert not any(names(one) for one in logs)


@pytest.mark.few_cases(2)
@pytest.mark.parametrize("temperature", [0.5, 0.8, 1.25, 2.0])
def test_a_logger_of_another_temperature_is_seen(temperature):
    for seed in range(2):
        logs = make_slate_logs(1000, random_state=seed)
        other = make_slate_logs(
            1000, random_state=seed, logging_temperature=temperature
        ).logging_policy
        found = slate_logger_findings(rebuilt(logs, logging_policy=other))[1]
        [one] = [one for one in found if one.name == "slate_calibration"]
        assert one.is_alarm and one.number > np.log(1000)
        # the true one divides by this: the logger is less sure than a colder policy
        assert (one.effect > 0) and ("less sure" in one.found) == (temperature < 1)
        assert one.category.__name__ == "PropensityWarning"


FAULTS = {
    "other rounds": lambda s: s[np.random.RandomState(0).permutation(len(s))],
    "renamed": lambda s: (s + 1) % 5,
    "sorted": lambda s: np.sort(s, axis=1),
    "reversed": lambda s: s[:, ::-1].copy(),
}


@pytest.mark.few_cases(2)
@pytest.mark.parametrize("fault", FAULTS)
def test_slates_of_something_else_are_seen(fault):
    for seed in range(2):
        logs = make_slate_logs(1000, random_state=seed)
        assert names(rebuilt(logs, slate=FAULTS[fault](logs.slate)))


def test_a_uniform_logger_that_is_none():
    logs = make_slate_logs(1000, random_state=0)
    found = slate_logger_findings(rebuilt(logs, logging_policy=UniformSlatePolicy(3)))
    pairs, order, one, fitted = found[1]
    assert (pairs.name, order.name) == ("slate_pairs", "slate_order")
    assert fitted.name == "slate_misfit" and fitted.columns == ("slot 0",)
    assert one.name == "slate_counts" and one.columns[0].startswith("slot ")
    assert abs(one.number) > 4 and one.effect > 0.1
    assert "Given the slots before, the logging policy expects" in one.found


def test_pages_that_were_not_random_are_the_second_cause():
    logs = make_slate_logs(3000, logging="uniform", random_state=0)
    slate = logs.slate.copy()
    slate[:1000] = [0, 1, 2]
    found = slate_logger_findings(rebuilt(logs, slate=slate))[1]
    [one] = [one for one in found if one.name == "slate_pairs"]
    assert one.advice[0].startswith("The candidates were not passed")
    assert one.advice[1].startswith("Pages of another logging policy are among these")


def test_counts_that_hide_the_context():
    """All candidates are as frequent as a uniform logger would show them."""
    rng = np.random.RandomState(0)
    X, first = rng.randn(1000, 5), np.tile(np.arange(3), (1000, 1))
    bare = SlateLogs(X, first, np.zeros(1000), n_candidates=5)
    true = PlackettLuceSlatePolicy(lambda logs: np.exp(logs.context), n_slots=3)
    shown = true.sample(bare, 0)
    logs = rebuilt(bare, slate=shown, logging_policy=UniformSlatePolicy(3))
    (one,) = slate_logger_findings(logs)[1]
    assert one.name == "slate_misfit" and one.effect > 0.1
    told = list(one.rows)
    assert (shown[told, 0] == X[told].argmax(axis=1)).mean() > 0.5
    assert not names(rebuilt(logs, logging_policy=true))


def test_laws_by_hand():
    """Weights 1, 1, 2: the second slot is drawn from what is left."""
    logs = SlateLogs(np.zeros((2, 1)), [[2, 0], [0, 1]], [1.0, 0.0], n_candidates=3)
    policy = PlackettLuceSlatePolicy([1, 1, 2], n_slots=2)
    laws = decision_laws(policy, logs, policy.prefix_proba(logs))
    first = [0.25, 0.25, 0.5, 0]
    assert_allclose(laws[0], [first, [0.5, 0.5, 0, 0]], atol=1e-12)
    assert_allclose(laws[1], [first, [0, 1 / 3, 2 / 3, 0]], atol=1e-12)


def test_empty_slots_are_decisions():
    """One of two candidates, and the second slot stays empty."""
    n = 200
    action = np.arange(n) % 2
    slate = np.column_stack([action, np.full(n, -1)])
    policy = EmpiricalSlatePolicy([[0, -1], [1, -1]])
    logs = SlateLogs(np.zeros((n, 1)), slate, np.zeros(n), logging_policy=policy)
    laws = decision_laws(policy, logs, policy.prefix_proba(logs))
    assert_allclose(laws[0], [[0.5, 0.5, 0], [0, 0, 1]], atol=1e-12)
    assert not names(logs)


def test_impossible_slates_are_named():
    slate = np.tile([[0, 1], [1, 0], [0, 2], [2, 0], [1, 2], [2, 1]], (17, 1))[:100]
    slate[[7, 30]] = 0
    logs = SlateLogs(
        np.zeros((100, 1)),
        slate,
        np.zeros(100),
        n_candidates=3,
        logging_policy=UniformSlatePolicy(2),
    )
    (one,) = slate_logger_findings(logs)[1]
    assert one.name == "impossible_slates" and one.severity == "error"
    assert one.rows == (7, 30) and one.number == 0.02
    assert "slot 1 of row 7 holds candidate 0" in one.found


def test_propensities_that_are_not_the_policys():
    logs = make_slate_logs(300, random_state=0)
    p = logs.propensity.copy()
    p[[3, 8]] *= 2
    wrong = rebuilt(logs, propensity=p)
    (one,) = slate_logger_findings(wrong)[1]
    assert one.name == "contradicting_propensity" and one.rows == (3, 8)
    assert_allclose(one.effect, 1.0)


def test_weighted_rounds_are_thinned():
    """Every round that shows candidate 0 first was kept, one in four of the others."""
    rng = np.random.RandomState(0)
    logs = make_slate_logs(3000, random_state=1)
    common = logs.slate[:, 0] == 0
    some = logs[np.flatnonzero(common | (rng.random_sample(3000) < 0.25))]
    weight = np.where(some.slate[:, 0] == 0, 1.0, 4.0)
    assert names(some)
    assert not names(some.with_columns(sample_weight=weight))


def test_a_group_that_repeats_its_slate_is_one_round():
    logs = make_slate_logs(200, random_state=0)
    again = logs[np.repeat(np.arange(200), 20)]
    group = np.repeat(np.arange(200), 20)
    sticky = rebuilt(again, group=group)
    facts, found = slate_logger_findings(sticky)
    told = "200 of 4,000 rounds compared, one a group"
    assert not found and list(facts.values()) == [told]


def test_a_sample_says_why_it_is_one():
    logs = make_slate_logs(5000, n_candidates=50, random_state=0)
    facts = slate_logger_findings(logs)[0]
    n = 60_000 // (3 * 51)
    told = f"{n} of 5,000 rounds compared, drawn at random: each takes 153"
    assert facts["slates against the logging policy"].startswith(told)


def test_what_cannot_be_compared_is_said():
    logs = make_slate_logs(100, random_state=0)

    def told(logs):
        facts, found = slate_logger_findings(logs)
        assert not found
        return facts["slates against the logging policy"]

    assert "no logging_policy" in told(rebuilt(logs, logging_policy=None))
    assert "fewer than 30" in told(logs[:20])
    assert "fewer than 30" in told(logs[:1])
    sampled = SampledSlatePolicy(logs.logging_policy, n_samples=10)
    assert "means of draws" in told(rebuilt(logs, logging_policy=sampled))


def test_a_policy_that_refuses_is_an_alarm():
    logs = make_slate_logs(100, random_state=0)
    other = ProductSlatePolicy(np.full((3, 4), 0.25))  # of four candidates
    (one,) = slate_logger_findings(rebuilt(logs, logging_policy=other))[1]
    assert one.name == "logging_policy_refuses" and one.is_alarm


def test_the_audit_asks():
    logs = make_slate_logs(300, random_state=0)
    wrong = rebuilt(logs, slate=(logs.slate + 1) % 5)
    assert "slates against the logging policy" in audit(logs).facts
    found = {one.name for one in audit(wrong).alarms}
    assert found & {"slate_counts", "slate_calibration"}
