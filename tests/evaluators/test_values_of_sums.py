# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Values from merged sums say what values in memory say: diagnostics and warnings."""

import warnings

import numpy as np
import pytest
from numpy.testing import assert_allclose

from skope_ope import (
    IPS,
    SNIPS,
    BanditLogs,
    CascadeDR,
    CascadeIPS,
    DirectMethod,
    DoublyRobust,
    ExplorationScavenging,
    IndependentSlotIPS,
    MultiLoggerIPS,
    PseudoInverse,
    SlateDirectMethod,
    SlateDoublyRobust,
    SlateIPS,
    SlateLogs,
    evaluate,
    summarize,
)
from skope_ope.evaluators import ValueSummary
from skope_ope.evaluators.parts._part_sums import sums_of_part
from skope_ope.exceptions import ExplorationWarning, LoggerWarning
from skope_ope.policies import EmpiricalSlatePolicy
from tests.evaluators._reference_worlds import WORLDS
from tests.evaluators.test_merging import parts_of, shares_of, world_of

pytestmark = pytest.mark.filterwarnings("ignore::skope_ope.exceptions.OPEWarning")

SLATES = [
    PseudoInverse(),
    PseudoInverse(self_normalized=True),
    PseudoInverse(control_variates="single"),
    SlateIPS(self_normalized=True),
    IndependentSlotIPS(),
    CascadeIPS(),
    CascadeDR(reward_model=0.3),
    SlateDoublyRobust(reward_model=0.5),
    SlateDirectMethod(reward_model=0.5),
]
ARMS = [
    ExplorationScavenging(),
    ExplorationScavenging(self_normalized=True),
    ExplorationScavenging(on_missing="nan"),
]
LOTTERY = [*ARMS[:2], ExplorationScavenging(match="logger")]
WORLDS_OF = {
    "context_free_weighted": ARMS,
    "context_free_unseen": ARMS,
    "lottery": LOTTERY,
    "slates_uniform": SLATES,
    "slates_left_out": SLATES,
    "slates_weighted": SLATES,
}
# of the rounds themselves, or of models that look at all of them
UNKNOWN = ("predictability", "sigma2", "rho", "largest_residual", "model_r2")


@pytest.mark.few_cases(3)
@pytest.mark.parametrize("grouped", [False, True])
@pytest.mark.parametrize("name", WORLDS_OF)
def test_diagnostics_and_warnings_are_those_of_memory(name, grouped):
    logs, atol = world_of(name, grouped)
    evaluators = {str(k): one for k, one in enumerate(WORLDS_OF[name])}
    parts = parts_of(logs, np.random.RandomState(3))
    policies = {"a": WORLDS[name][1]().policies[0]}
    found = sum(
        sums_of_part(policies, evaluators, p, shares=shares_of(logs), n_total=len(logs))
        for p in parts
    )
    for key, evaluator in evaluators.items():
        exact = evaluator.fit(logs).evaluate(policies["a"])
        value = found.evaluators[key]._value_of_sums(
            found.by_evaluator[key].summary("a"), found.log, n_rounds=found.n
        )
        assert_allclose(value.value, exact.value, rtol=1e-12, atol=max(atol, 1e-14))
        assert_allclose(
            value.effective_sample_size, exact.effective_sample_size, rtol=1e-11
        )
        for entry, number in exact.diagnostics.items():
            if entry.startswith(UNKNOWN) or entry == "altered_mass":
                continue
            assert_allclose(
                value.diagnostics[entry], number, rtol=1e-10, atol=1e-12, err_msg=entry
            )
        known = [w for w in exact.warnings if not isinstance(w, ExplorationWarning)]
        told = [w for w in value.warnings if w.name != "untested_context"]
        asks_context = isinstance(evaluator, ExplorationScavenging)
        untested = asks_context and not np.isnan(value.value)
        assert len(value.warnings) - len(told) == untested
        assert list(map(type, told)) == list(map(type, known))
        for one, other in zip(told, known, strict=True):
            assert (one.value is None) == (other.value is None)
            if other.value is not None:
                assert_allclose(one.value, other.value, rtol=1e-9)


def halves(logs, evaluator):
    """Return the value in memory, and that of both halves added up, of column pi."""
    rows = np.arange(len(logs)) % 2 == 0
    parts = [
        summarize({"a": "pi"}, logs[some], evaluators={"one": evaluator})
        for some in (rows, ~rows)
    ]
    exact = evaluate({"a": "pi"}, logs, evaluators={"one": evaluator})
    return exact["a", "one"], sum(parts).values()["a", "one"]


@pytest.mark.parametrize("grouped", [False, True])
@pytest.mark.parametrize("self_normalized", [False, True])
def test_intervals_of_arms_reach_as_far_as_in_memory(self_normalized, grouped):
    rng = np.random.default_rng(5)
    n = 300
    given = {"group": rng.integers(0, 50, n)} if grouped else {}
    logs = BanditLogs(
        np.zeros((n, 0)),
        rng.integers(0, 2, n),
        rng.random(n) < 0.05,
        reward_range=(0, 1),
        **given,
    ).with_columns(pi=rng.dirichlet(np.ones(2), n))
    exact, found = halves(logs, ExplorationScavenging(self_normalized=self_normalized))
    inner, outer = exact.confidence_interval(), found.confidence_interval()
    assert_allclose(found.standard_error, exact.standard_error, rtol=1e-9)
    assert outer.low <= inner.low + 1e-12 and outer.high >= inner.high - 1e-12
    assert outer.high - outer.low < 2 * (inner.high - inner.low)
    with pytest.raises(ValueError, match="max_weight cannot be used"):
        found.confidence_interval(max_weight=3.0)


@pytest.mark.few_cases
@pytest.mark.parametrize("grouped", [False, True])
@pytest.mark.parametrize("empty", [False, True])
@pytest.mark.parametrize(
    "evaluator",
    [
        PseudoInverse(),
        PseudoInverse(cmax=3.0),
        PseudoInverse(self_normalized=True),
        PseudoInverse(control_variates="single"),
        SlateDoublyRobust(reward_model=0.3),
        SlateIPS(),
        SlateIPS(self_normalized=True),
    ],
    ids=str,
)
def test_intervals_of_slates_reach_as_far_as_in_memory(
    evaluator, empty, grouped, tmp_path
):
    rng = np.random.RandomState(2)
    slates = np.array([[0, 1], [1, 0], [2, 3], [3, 1], [1, 2], [2, 0]])
    if empty:
        slates[4:] = [[2, -1], [-1, -1]]
    n, logger = 150, EmpiricalSlatePolicy(slates)
    logs = SlateLogs(
        np.zeros((n, 1)),
        slates[rng.randint(6, size=n)],
        rng.binomial(2, 0.2, n),
        n_candidates=4,
        logging_policy=logger,
        reward_range=(0, 2),
        group=np.arange(n) // 4 if grouped else None,
    )
    policy = EmpiricalSlatePolicy(slates, [0.4, 0.2, 0.2, 0.1, 0.05, 0.05])
    policies, named = {"a": policy, "b": logger}, {"one": evaluator}
    exact = evaluate(policies, logs, evaluators=named)
    parts = [summarize(policies, logs[k::2], evaluators=named) for k in (0, 1)]
    sum(parts).save(tmp_path / "total.npz")
    found = ValueSummary.load(tmp_path / "total.npz").values()
    pairs = [(found[key], exact[key]) for key in exact]
    pairs.append([table["a", "one"] - table["b", "one"] for table in (found, exact)])
    for one, other in pairs:
        outer, inner = one.confidence_interval(), other.confidence_interval()
        assert_allclose(one.standard_error, other.standard_error, rtol=1e-9)
        assert outer.low <= inner.low + 1e-9 and outer.high >= inner.high - 1e-9
        assert outer.high - outer.low < 3 * (inner.high - inner.low)
    if isinstance(evaluator, SlateIPS):
        return
    with pytest.raises(ValueError, match="max_weight cannot be used"):
        found["a", "one"].confidence_interval(max_weight=3.0)


def test_arms_of_rewards_that_are_alike_but_for_little():
    rng = np.random.default_rng(0)
    n = 200
    reward = 1e6 + rng.uniform(-1, 1, n)
    logs = BanditLogs(np.zeros((n, 0)), rng.integers(0, 2, n), reward).with_columns(
        pi=np.tile([0.9, 0.1], (n, 1))
    )
    exact, found = halves(logs, ExplorationScavenging())
    action = logs.action_index
    counts = np.bincount(action)
    spread = [reward[action == a].var(ddof=1) / counts[a] for a in (0, 1)]
    expected = np.sqrt(0.81 * spread[0] + 0.01 * spread[1])
    assert_allclose(exact.standard_error, expected, rtol=0.02)
    assert np.isnan(found.standard_error) or found.standard_error > 0.9 * expected


def test_a_direct_method_of_weighted_rounds_without_propensities():
    rng = np.random.default_rng(1)
    n = 100
    logs = BanditLogs(
        np.zeros((n, 0)),
        rng.integers(0, 2, n),
        rng.random(n),
        sample_weight=rng.exponential(size=n),
    ).with_columns(pi=rng.dirichlet(np.ones(2), n), q=rng.random((n, 2)))
    exact, found = halves(logs, DirectMethod(reward_model="q"))
    assert_allclose(found.value, exact.value, rtol=1e-12)
    assert_allclose(found.standard_error, exact.standard_error, rtol=1e-9)


@pytest.mark.parametrize("with_plain", [False, True])
def test_differences_with_few_events_allow_for_the_model(with_plain):
    rng = np.random.default_rng(3)
    n = 120
    p = rng.uniform(0.02, 0.98, n)
    action = (rng.random(n) < p).astype(int)
    logs = BanditLogs(
        np.zeros((n, 0)),
        action,
        rng.random(n) < 0.03,
        np.where(action, p, 1 - p),
        reward_range=(0, 1),
    ).with_columns(
        a=rng.dirichlet(np.ones(2), n),
        b=rng.dirichlet(np.ones(2), n),
        q=0.06 * rng.random((n, 2)),
    )
    evaluators = {"DR": DoublyRobust(reward_model="q")}
    if with_plain:
        evaluators["plain"] = SNIPS()
    policies = {"a": "a", "b": "b"}
    rows = np.arange(n) % 2 == 0
    both = [summarize(policies, logs[r], evaluators=evaluators) for r in (rows, ~rows)]
    tables = evaluate(policies, logs, evaluators=evaluators), sum(both).values()
    exact, found = (table["a", "DR"] - table["b", "DR"] for table in tables)
    inner, outer = exact.confidence_interval(), found.confidence_interval()
    assert outer.low <= inner.low + 1e-9 and outer.high >= inner.high - 1e-9


def test_a_group_whose_rounds_all_weigh_nothing_has_no_value():
    rng = np.random.default_rng(1)
    n = 60
    logs = BanditLogs(
        np.zeros((n, 0)),
        rng.integers(0, 2, n),
        rng.random(n),
        np.full(n, 0.5),
        sample_weight=np.repeat([0.0, 1.0, 2.0], 20),
    ).with_columns(pi=rng.dirichlet(np.ones(2), n), day=np.repeat([1, 2, 3], 20))
    evaluators = {"IPS": IPS()}
    exact = evaluate({"a": "pi"}, logs, evaluators=evaluators)["a", "IPS"].by("day")
    both = [
        summarize({"a": "pi"}, logs[k::2], evaluators=evaluators, by="day")
        for k in (0, 1)
    ]
    found = sum(both).values()["a", "IPS"].by("day")
    assert list(found) == list(exact) == [1, 2, 3]
    assert np.isnan(found[1].value) and np.isnan(exact[1].value)
    assert found[1].n_rounds == exact[1].n_rounds == 20
    for day in (2, 3):
        assert_allclose(found[day].value, exact[day].value, rtol=1e-12)


def test_a_value_that_rests_on_one_round_has_not_lost_its_error_in_rounding():
    logs = BanditLogs(
        np.zeros((4, 0)), [0, 0, 0, 1], [1.0, 0.0, 1.0, 0.7], np.full(4, 0.5)
    ).with_columns(pi=np.tile([0.0, 1.0], (4, 1)))
    exact, found = halves(logs, SNIPS())
    assert np.isnan(exact.standard_error) and np.isnan(found.standard_error)
    names = [[w.name for w in one.warnings] for one in (exact, found)]
    assert names[0] == names[1]


@pytest.mark.parametrize("day_of_loggers", [False, True])
@pytest.mark.parametrize(
    "evaluator",
    [MultiLoggerIPS(pooling="balanced"), ExplorationScavenging()],
    ids=["balanced", "arms"],
)
def test_days_of_other_loggers_than_the_mixture_have_no_values(
    evaluator, day_of_loggers
):
    rng = np.random.default_rng(0)
    n = 2000
    mu = np.array([[0.9, 0.1], [0.1, 0.9]])
    logger = np.repeat([0, 1], n // 2)
    action = (rng.random(n) > mu[logger, 0]).astype(int)
    logs = BanditLogs(
        np.zeros((n, 0)),
        action,
        rng.random(n) < np.array([0.2, 0.6])[action],
        mu[logger, action],
        logger=np.array(["A", "B"])[logger],
        logger_proba=mu[:, action].T,
    ).with_columns(
        pi=np.full((n, 2), 0.5), day=logger if day_of_loggers else np.arange(n) % 2
    )
    given = {"evaluators": {"one": evaluator}, "by": "day"}
    value = summarize({"a": "pi"}, logs, **given).values()["a", "one"]
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        found = value.by("day")
    told = [w for w in caught if issubclass(w.category, LoggerWarning)]
    assert bool(told) == day_of_loggers
    for one in found.values():
        names = [w.name for w in one.warnings]
        assert ("logger" in names) == day_of_loggers


@pytest.mark.parametrize("balanced_first", [False, True])
def test_the_largest_weight_does_not_depend_on_what_was_asked_before(balanced_first):
    rng = np.random.default_rng(0)
    n = 400
    mu = np.array([[0.95, 0.05], [0.6, 0.4]])
    logger = rng.integers(0, 2, n)
    table = mu[logger]
    table[0] = 0.99, 0.01  # a weight of 100 that was not drawn
    action = (rng.random(n) > table[:, 0]).astype(int)
    action[0] = 0
    rows = np.arange(n)
    under = np.stack([mu[0][action], mu[1][action]], axis=1)
    under[0, logger[0]] = table[0, 0]
    logs = BanditLogs(
        np.zeros((n, 0)),
        action,
        rng.random(n) < 0.05,
        table[rows, action],
        logging_proba=table,
        logger=logger,
        logger_proba=under,
        reward_range=(0, 1),
    ).with_columns(pi=np.tile([0.0, 1.0], (n, 1)))
    evaluators = {"IPS": IPS(), "balanced": MultiLoggerIPS(pooling="balanced")}

    def found(asked):
        values = evaluate({"a": "pi"}, logs, evaluators=evaluators)
        for name in asked:
            last = values["a", name].confidence_interval()
        return last.max_weight, last.max_weight_from, last.low, last.high

    asked = ["balanced", "IPS"] if balanced_first else ["IPS", "balanced"]
    assert found(asked) == found(asked[1:])
