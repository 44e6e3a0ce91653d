# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""What an audit of slates tells about their logger, and about a policy."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from skope_ope import (
    PlackettLuceSlatePolicy,
    PseudoInverse,
    SlateIPS,
    SlateLogs,
    UniformSlatePolicy,
    audit,
)
from skope_ope.datasets import make_slate_logs
from skope_ope.policies import EmpiricalSlatePolicy, SampledSlatePolicy
from tests._quiet import quiet
from tests.audit._told import names, of_policy

WORLDS = {
    "rankings": {},
    "sharp": {"logging_temperature": 0.3},
    "product": {"logging": "product"},
    "uniform": {"logging": "uniform"},
    "longer": {"n_slots": 4, "n_candidates": 9},
}


WHAT = "slates against the logging policy"
OF_THE_LOGGER = {"contradicting_propensity", "impossible_slates", "slate_calibration"}
OF_THE_LOGGER |= {"slate_counts", "slate_misfit", "slate_order", "slate_pairs"}


def rebuilt(logs, **fields):
    """The same slates with other fields."""
    kept = ("context", "slate", "reward", "item_features", "n_candidates")
    given = {name: getattr(logs, name) for name in (*kept, "logging_policy")}
    return SlateLogs(**(given | fields))


def compared(logs, seed=0):
    """Return what an audit tells about slates and their logging policy."""
    found = audit(logs, random_state=seed)
    facts = {k: v for k, v in found.facts.items() if "compared" in str(v) or k == WHAT}
    return facts, [one for one in found.findings if one.name in OF_THE_LOGGER]


def kinds(logs, seed=0):
    return [one.name for one in compared(logs, seed)[1]]


@pytest.mark.few_cases(2)
@pytest.mark.parametrize("world", WORLDS)
def test_right_logs_are_quiet(world):
    for seed in range(4):
        logs = make_slate_logs(400, random_state=seed, **WORLDS[world])
        facts, found = compared(logs, seed)
        assert not found
        assert facts.pop(WHAT) == "400 rounds compared"
        assert list(facts.values()) == ["400 pages compared"] * 2 * (world == "uniform")


@pytest.mark.theory
@pytest.mark.parametrize("world", WORLDS)
def test_hundred_right_logs_are_quiet(world):
    logs = (make_slate_logs(1000, random_state=s, **WORLDS[world]) for s in range(100))
    assert not any(kinds(one) for one in logs)


@pytest.mark.few_cases(2)
@pytest.mark.parametrize("temperature", [0.5, 0.8, 1.25, 2.0])
def test_a_logger_of_another_temperature_is_seen(temperature):
    for seed in range(2):
        logs, other = (
            make_slate_logs(1000, random_state=seed, **given)
            for given in ({}, {"logging_temperature": temperature})
        )
        found = compared(rebuilt(logs, logging_policy=other.logging_policy))[1]
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
        assert kinds(rebuilt(logs, slate=FAULTS[fault](logs.slate)))


def test_a_uniform_logger_that_is_none():
    logs = make_slate_logs(1000, random_state=0)
    found = compared(rebuilt(logs, logging_policy=UniformSlatePolicy(3)))[1]
    told = {one.name: one for one in found}
    assert set(told) == {"slate_pairs", "slate_order", "slate_counts", "slate_misfit"}
    assert told["slate_misfit"].columns == ("slot 0",)
    one = told["slate_counts"]
    assert one.columns[0].startswith("slot ")
    assert abs(one.number) > 4 and one.effect > 0.1
    assert "Given the slots before, the logging policy expects" in one.found


def test_pages_that_were_not_random_are_the_second_cause():
    logs = make_slate_logs(3000, logging="uniform", random_state=0)
    slate = logs.slate.copy()
    slate[:1000] = [0, 1, 2]
    found = compared(rebuilt(logs, slate=slate))[1]
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
    [one] = compared(logs)[1]
    assert one.name == "slate_misfit" and one.effect > 0.1
    told = list(one.rows)
    assert (shown[told, 0] == X[told].argmax(axis=1)).mean() > 0.5
    assert not kinds(rebuilt(logs, logging_policy=true))


def test_empty_slots_are_decisions():
    """One of two candidates, and the second slot stays empty."""
    n = 200
    action = np.arange(n) % 2
    slate = np.column_stack([action, np.full(n, -1)])
    policy = EmpiricalSlatePolicy([[0, -1], [1, -1]])
    logs = SlateLogs(np.zeros((n, 1)), slate, np.zeros(n), logging_policy=policy)
    assert not kinds(logs)


def test_impossible_slates_are_named():
    slate = np.tile([[0, 1], [1, 0], [0, 2], [2, 0], [1, 2], [2, 1]], (17, 1))[:100]
    slate[[7, 30]] = 0
    fields = {"n_candidates": 3, "logging_policy": UniformSlatePolicy(2)}
    [one] = compared(SlateLogs(np.zeros((100, 1)), slate, np.zeros(100), **fields))[1]
    assert one.name == "impossible_slates" and one.severity == "error"
    assert one.rows == (7, 30) and one.number == 0.02
    assert "slot 1 of row 7 holds candidate 0" in one.found


def test_propensities_that_are_not_the_policys():
    logs = make_slate_logs(300, random_state=0)
    p = logs.propensity.copy()
    p[[3, 8]] *= 2
    [one] = compared(rebuilt(logs, propensity=p))[1]
    assert one.name == "contradicting_propensity" and one.rows == (3, 8)
    assert_allclose(one.effect, 1.0)


def test_weighted_rounds_are_thinned():
    """Every round that shows candidate 0 first was kept, one in four of the others."""
    rng = np.random.RandomState(0)
    logs = make_slate_logs(3000, random_state=1)
    common = logs.slate[:, 0] == 0
    some = logs[np.flatnonzero(common | (rng.random_sample(3000) < 0.25))]
    weight = np.where(some.slate[:, 0] == 0, 1.0, 4.0)
    assert kinds(some)
    assert not kinds(some.with_columns(sample_weight=weight))


def test_what_is_compared_and_what_cannot_be():
    def told(logs):
        facts, found = compared(logs)
        assert not found
        return facts[WHAT]

    logs, group = make_slate_logs(200, random_state=0), np.repeat(np.arange(200), 20)
    facts, found = compared(rebuilt(logs[group], group=group))
    one_a_group = "200 of 4,000 rounds compared, one a group"
    assert not found and list(facts.values()) == [one_a_group]
    assert "no logging_policy" in told(rebuilt(logs, logging_policy=None))
    assert "fewer than 30" in told(logs[:20])
    assert "fewer than 30" in told(logs[:1])
    sampled = SampledSlatePolicy(logs.logging_policy, n_samples=10)
    assert "means of draws" in told(rebuilt(logs, logging_policy=sampled))
    drawn = compared(make_slate_logs(5000, n_candidates=50, random_state=0))[0][WHAT]
    n = 60_000 // (3 * 51)
    text = f"{n} of 5,000 rounds compared, drawn at random: each takes 153"
    assert drawn.startswith(text)


# -- policies -------------------------------------------------------------------------
N = 600
RNG = np.random.RandomState(0)
SLATES = np.array([RNG.permutation(4)[:2] for _ in range(N)])
REWARD = (RNG.random_sample(N) < 0.3).astype(float)
FIRST = np.tile([0, 1], (N, 1))


def logs_of(slates=SLATES, **fields):
    return SlateLogs(np.zeros((N, 1)), slates, REWARD, n_candidates=4, **fields)


UNIFORM = logs_of(logging_policy=UniformSlatePolicy(2))


@pytest.mark.parametrize("policy", [FIRST, PlackettLuceSlatePolicy([1, 2, 3, 4.0], 2)])
def test_weights_of_slates_and_of_slots(policy):
    facts, found = of_policy(policy, UNIFORM)
    assert found == []
    for what, evaluator in (("slates", SlateIPS()), ("slots", PseudoInverse())):
        told = quiet(evaluator.fit(UNIFORM), policy).diagnostics
        size = facts[f"effective sample size ({what})"]
        assert size == pytest.approx(told["effective_sample_size"])
        assert facts[f"mean weight ({what})"] == pytest.approx(told["mean_weight"])
    assert not any(name.startswith("tail shape") for name in facts)  # two sizes


def test_a_tail_shape_says_from_where_on_it_is_heavy():
    weights = np.exp(2 * RNG.normal(size=(N, 4)))
    logs = UNIFORM.replace(reward=RNG.exponential(size=N))
    facts, _ = of_policy(PlackettLuceSlatePolicy(weights, 2), logs)
    shapes = [name for name in facts if name.startswith("tail shape")]
    assert shapes and all(name.endswith(", heavy above 0.7") for name in shapes)


def test_what_the_logger_never_shows():
    two = np.array([[0, 1], [1, 0]])[RNG.randint(2, size=N)]
    logs = logs_of(two, logging_policy=EmpiricalSlatePolicy([[0, 1], [1, 0]]))
    assert of_policy(FIRST, logs)[1] == []
    facts, found = of_policy(np.tile([2, 3], (N, 1)), logs)
    expected = [("low_overlap", "error"), *2 * [("unsupported_mass", "warning")]]
    assert sorted(names(found)) == expected
    assert facts["share never shown (slates)"] == 1


def test_a_policy_made_from_the_logged_slates():
    _, found = of_policy(SLATES, UNIFORM)
    assert names(found) == 2 * [("mean_weight", "error")]
    assert "learned from these rounds" in found[0].text
    for one, what in zip(found, ("slates", "slots"), strict=True):
        assert one.found.startswith(f"Weights of {what}: The mean importance weight")


def test_what_is_known_of_the_logger_decides():
    facts, _ = of_policy(FIRST, logs_of(propensity=np.full(N, 1 / 12)))
    assert "mean weight (slates)" in facts
    assert "mean weight (slots)" not in facts
    facts, found = of_policy(FIRST, logs_of())
    assert found == []
    assert facts["weights of the policy"].startswith("not possible")
    # marginals do not tell whole slates
    facts, _ = of_policy(np.full((N, 2, 4), 0.25), UNIFORM)
    assert "mean weight (slates)" not in facts
    assert facts["mean weight (slots)"] == pytest.approx(1)
    facts, found = of_policy(FIRST[:1], UNIFORM[:1])  # one round, of another slate
    assert names(found) == [("low_overlap", "error")]
    assert "mean weight (slots)" in facts
