# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Values from merged sums say what values in memory say: diagnostics and warnings."""

import warnings

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.dummy import DummyRegressor
from sklearn.frozen import FrozenEstimator

from skope_ope import (
    IPS,
    MRDR,
    SNIPS,
    CascadeDR,
    DirectMethod,
    DoublyRobust,
    DRns,
    ExplorationScavenging,
    IndependentSlotIPS,
    LogSmoothing,
    MultiLoggerIPS,
    PositionScavenging,
    PseudoInverse,
    SlateDirectMethod,
    SlateDoublyRobust,
    SlateIPS,
    SlateLogs,
    SoftmaxPolicy,
    evaluate,
    summarize,
)
from skope_ope.datasets import make_adaptive_logs, make_bandit_logs
from skope_ope.evaluators import ValueSummary
from skope_ope.exceptions import ExplorationWarning, LearnedRoundsWarning, LoggerWarning
from skope_ope.policies import EmpiricalSlatePolicy
from tests.evaluators._parquet_worlds import lazy_world
from tests.evaluators._reference_worlds import WORLDS
from tests.evaluators.core._asked import bare_logs, interval_of
from tests.evaluators.test_merging import LOTTERY, SCAVENGING, SLATES, world_of
from tests.logs._worlds import parts_of
from tests.logs._worlds import world as log_world

pytestmark = pytest.mark.filterwarnings("ignore::skope_ope.exceptions.OPEWarning")

OF_SLATES = [*SLATES, IndependentSlotIPS(), SlateDirectMethod(reward_model=0.5)]
WORLDS_OF = dict.fromkeys(("context_free_weighted", "context_free_unseen"), SCAVENGING)
WORLDS_OF |= {"lottery": LOTTERY}
WORLDS_OF |= dict.fromkeys(("slates_uniform", "slates_left_out"), OF_SLATES)
# of the rounds themselves, or of models that look at all of them
UNKNOWN = "predictability", "sigma2", "rho", "largest_residual", "model_r2"


@pytest.mark.frames
@pytest.mark.few_cases(3)
@pytest.mark.parametrize("grouped", [False, True])
@pytest.mark.parametrize("name", WORLDS_OF)
def test_diagnostics_and_warnings_are_those_of_memory(name, grouped, tmp_path):
    pytest.importorskip("pyarrow")
    logs, _ = world_of(name, grouped)
    evaluators = {str(k): one for k, one in enumerate(WORLDS_OF[name])}
    policy = WORLDS[name][1]().policies[0]
    lazy = lazy_world(logs, tmp_path, np.random.RandomState(3))
    table = evaluate({"a": policy}, lazy, evaluators=evaluators)
    for key, evaluator in evaluators.items():
        exact, value = evaluator.fit(logs).evaluate(policy), table["a", key]
        for entry, number in exact.diagnostics.items():
            if not entry.startswith((*UNKNOWN, "altered_mass")):
                found = value.diagnostics[entry]
                assert_allclose(found, number, rtol=1e-10, atol=1e-12, err_msg=entry)
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


DUMMY = FrozenEstimator(DummyRegressor().fit(np.zeros((2, 9)), [0, 1]))
DRAWN = SlateDirectMethod(reward_model=DUMMY)
CONTROLLED = PseudoInverse(control_variates="multiple")


@pytest.mark.parametrize(
    ("name", "evaluator", "message"),
    [
        ("clicks", IPS(cmax="auto"), "cmax='auto' is chosen from all rounds"),
        ("clicks", LogSmoothing(), "lam=None is 1 / sqrt"),
        ("clicks", MRDR(), "fits its reward model to all rounds for every policy"),
        ("clicks", DoublyRobust(reward_model=np.ones((500, 4))), "Store the values as"),
        ("clicks", DRns(), "reads the rounds in order, so it has no sums over parts"),
        ("loggers", MultiLoggerIPS(pooling="weighted", cross_fit=2), "cross_fit"),
        ("lottery", ExplorationScavenging(on_missing="nan"), "on_missing='warn'"),
        ("context_free", ExplorationScavenging(strata="half"), "strata='half'"),
        ("slates_uniform", ExplorationScavenging(), "arms are the slates"),
        ("slates_uniform", CascadeDR(), "for every policy"),
        ("slates_uniform", PositionScavenging(attention=[1, 0.5, 0.2]), "its pages"),
        ("slates_uniform", CONTROLLED, "products of 14 terms"),
        ("slates_uniform", DRAWN, "n_samples=20 slates are drawn"),
    ],
)
def test_what_depends_on_the_whole_log_is_refused(name, evaluator, message):
    logs, _ = world_of(name, grouped=False)
    policies = {"a": WORLDS[name][1]().policies[0]}
    with pytest.raises(ValueError, match=message):
        summarize(policies, logs, evaluators={"one": evaluator})


def two_actions(n, seed, rate=None, propensity=None, **given):
    """Rounds of two actions by a coin, and a random policy as a column."""
    rng = np.random.default_rng(seed)
    action, reward = rng.integers(0, 2, n), rng.random(n)
    reward = reward if rate is None else reward < rate
    logs = bare_logs(action, reward, propensity, **given)
    return logs.with_columns(pi=rng.dirichlet(np.ones(2), n))


def both(policies, logs, evaluators, parts=None, **given):
    """Return the table in memory, and that of parts, of both halves by default."""
    parts = [logs[k::2] for k in (0, 1)] if parts is None else parts
    how = {"evaluators": evaluators}
    merged = sum(summarize(policies, part, **how, **given) for part in parts)
    return evaluate(policies, logs, **how), merged.values()


def of_halves(logs, evaluator, **given):
    """Return both values of column pi by one evaluator."""
    tables = both({"a": "pi"}, logs, {"one": evaluator}, **given)
    return [table["a", "one"] for table in tables]


def check_wider(found, exact, times=np.inf):
    """The error is that of memory, and the interval holds its interval."""
    outer, inner = interval_of(found), interval_of(exact)
    assert_allclose(found.standard_error, exact.standard_error, rtol=1e-9)
    assert outer.low <= inner.low + 1e-9 and outer.high >= inner.high - 1e-9
    assert outer.high - outer.low < times * (inner.high - inner.low)


@pytest.mark.parametrize("grouped", [False, True])
@pytest.mark.parametrize("self_normalized", [False, True])
def test_intervals_of_arms_reach_as_far_as_in_memory(self_normalized, grouped):
    users = np.random.default_rng(5).integers(0, 50, 300) if grouped else None
    logs = two_actions(300, 5, rate=0.05, reward_range=(0, 1), group=users)
    evaluator = ExplorationScavenging(self_normalized=self_normalized)
    exact, found = of_halves(logs, evaluator)
    check_wider(found, exact, 2)
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
def test_intervals_of_slates_reach_as_far(evaluator, empty, grouped, tmp_path):
    rng = np.random.RandomState(2)
    slates = np.array([[0, 1], [1, 0], [2, 3], [3, 1], [1, 2], [2, 0]])
    if empty:
        slates[4:] = [[2, -1], [-1, -1]]
    n, logger = 150, EmpiricalSlatePolicy(slates)
    given = {"logging_policy": logger, "n_candidates": 4, "reward_range": (0, 2)}
    given["group"] = np.arange(n) // 4 if grouped else None
    shown = slates[rng.randint(6, size=n)]
    logs = SlateLogs(np.zeros((n, 1)), shown, rng.binomial(2, 0.2, n), **given)
    policies = {"b": logger}
    policies["a"] = EmpiricalSlatePolicy(slates, [0.4, 0.2, 0.2, 0.1, 0.05, 0.05])
    named = {"one": evaluator}
    exact = evaluate(policies, logs, evaluators=named)
    parts = [summarize(policies, logs[k::2], evaluators=named) for k in (0, 1)]
    sum(parts).save(tmp_path / "total.npz")
    found = ValueSummary.load(tmp_path / "total.npz").values()
    for key in exact:
        check_wider(found[key], exact[key], 3)
    gains = [table["a", "one"] - table["b", "one"] for table in (found, exact)]
    check_wider(*gains, 3)
    if isinstance(evaluator, SlateIPS):
        return
    with pytest.raises(ValueError, match="max_weight cannot be used"):
        found["a", "one"].confidence_interval(max_weight=3.0)


def test_arms_of_rewards_that_are_alike_but_for_little():
    rng, n = np.random.default_rng(0), 200
    reward = 1e6 + rng.uniform(-1, 1, n)
    action = rng.integers(0, 2, n)
    logs = bare_logs(action, reward).with_columns(pi=np.tile([0.9, 0.1], (n, 1)))
    exact, found = of_halves(logs, ExplorationScavenging())
    spread = [reward[action == a].var(ddof=1) / (action == a).sum() for a in (0, 1)]
    expected = np.sqrt(0.81 * spread[0] + 0.01 * spread[1])
    assert_allclose(exact.standard_error, expected, rtol=0.02)
    assert np.isnan(found.standard_error) or found.standard_error > 0.9 * expected


@pytest.mark.parametrize("with_plain", [False, True])
def test_differences_with_few_events_allow_for_the_model(with_plain):
    n, rng = 120, np.random.default_rng(3)
    p = rng.uniform(0.02, 0.98, n)
    action = (rng.random(n) < p).astype(int)
    rows = action, rng.random(n) < 0.03, np.where(action, p, 1 - p)
    logs = bare_logs(*rows, reward_range=(0, 1)).with_columns(
        a=rng.dirichlet(np.ones(2), n),
        b=rng.dirichlet(np.ones(2), n),
        q=0.06 * rng.random((n, 2)),
    )
    evaluators = {"DR": DoublyRobust(reward_model="q")}
    evaluators |= {"plain": SNIPS()} if with_plain else {}
    tables = both({"a": "a", "b": "b"}, logs, evaluators)
    exact, found = (table["a", "DR"] - table["b", "DR"] for table in tables)
    check_wider(found, exact)


def test_a_group_whose_rounds_all_weigh_nothing_has_no_value():
    weight = np.repeat([0.0, 1.0, 2.0], 20)
    logs = two_actions(60, 1, propensity=np.full(60, 0.5), sample_weight=weight)
    logs = logs.with_columns(day=np.repeat([1, 2, 3], 20))
    exact, found = (one.by("day") for one in of_halves(logs, IPS(), by="day"))
    assert list(found) == list(exact) == [1, 2, 3]
    assert np.isnan(found[1].value) and np.isnan(exact[1].value)
    assert found[1].n_rounds == exact[1].n_rounds == 20
    for day in (2, 3):
        assert_allclose(found[day].value, exact[day].value, rtol=1e-12)


def test_a_value_that_rests_on_one_round_has_not_lost_its_error_in_rounding():
    logs = bare_logs([0, 0, 0, 1], [1.0, 0.0, 1.0, 0.7], 0.5)
    pi = np.tile([0.0, 1.0], (4, 1))
    exact, found = of_halves(logs.with_columns(pi=pi), SNIPS())
    assert np.isnan(exact.standard_error) and np.isnan(found.standard_error)
    names = [[w.name for w in one.warnings] for one in (exact, found)]
    assert names[0] == names[1]


@pytest.mark.parametrize("of_loggers", [False, True])
@pytest.mark.parametrize(
    "evaluator", [MultiLoggerIPS(pooling="balanced"), ExplorationScavenging()]
)
def test_days_of_other_loggers_than_the_mixture_have_no_values(evaluator, of_loggers):
    rng, n = np.random.default_rng(0), 2000
    mu = np.array([[0.9, 0.1], [0.1, 0.9]])
    logger = np.repeat([0, 1], n // 2)
    action = (rng.random(n) > mu[logger, 0]).astype(int)
    reward = rng.random(n) < np.array([0.2, 0.6])[action]
    known = {"logger": np.array(["A", "B"])[logger], "logger_proba": mu[:, action].T}
    day = logger if of_loggers else np.arange(n) % 2
    logs = bare_logs(action, reward, mu[logger, action], **known)
    logs = logs.with_columns(pi=np.full((n, 2), 0.5), day=day)
    given = {"evaluators": {"one": evaluator}, "by": "day"}
    value = summarize({"a": "pi"}, logs, **given).values()["a", "one"]
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        found = value.by("day")
    told = [w for w in caught if issubclass(w.category, LoggerWarning)]
    assert bool(told) == of_loggers
    for one in found.values():
        assert ("logger" in [w.name for w in one.warnings]) == of_loggers


def test_the_largest_weight_does_not_depend_on_what_was_asked_before():
    rng, n = np.random.default_rng(0), 400
    mu = np.array([[0.95, 0.05], [0.6, 0.4]])
    logger = rng.integers(0, 2, n)
    table = mu[logger]
    table[0] = 0.99, 0.01  # a weight of 100 that was not drawn
    action = (rng.random(n) > table[:, 0]).astype(int)
    action[0] = 0
    under = mu[:, action].T
    under[0, logger[0]] = table[0, 0]
    known = {"logging_proba": table, "logger": logger, "logger_proba": under}
    rows = action, rng.random(n) < 0.05, table[np.arange(n), action]
    logs = bare_logs(*rows, reward_range=(0, 1), **known)
    logs = logs.with_columns(pi=np.tile([0.0, 1.0], (n, 1)))
    evaluators = {"IPS": IPS(), "balanced": MultiLoggerIPS(pooling="balanced")}

    def found(*asked):
        values = evaluate({"a": "pi"}, logs, evaluators=evaluators)
        for name in asked:
            last = values["a", name].confidence_interval()
        return last.max_weight, last.max_weight_from, last.low, last.high

    assert found("balanced", "IPS") == found("IPS")
    assert found("IPS", "balanced") == found("balanced")


# -- warnings -----------------------------------------------------------------------
EVALUATORS = {"IPS": IPS(), "SNIPS": SNIPS(), "DR": DoublyRobust(reward_model=0.1)}


def told(value):
    """Return kinds, names and numbers of the warnings of a value, in order."""
    found = [(type(w).__name__, w.name, float(w.value)) for w in value.warnings]
    return sorted(found, key=lambda one: one[:2])


def in_parts(policy, logs, n_parts, seed, evaluators=EVALUATORS):
    """Return the values in memory, and those of random parts."""
    return both({"new": policy}, logs, evaluators, parts_of(logs, n_parts, seed))


def alike(logs):
    """Logs with a column of equal probabilities."""
    k = logs.n_actions
    return logs.with_columns(pi=np.full((len(logs), k), 1 / k))


@pytest.mark.few_cases(4)
@pytest.mark.parametrize("seed", range(16))
def test_warnings_are_those_of_memory(seed):
    logs = log_world(seed)
    rng = np.random.default_rng(seed)
    pi = np.tile(rng.dirichlet(np.ones(logs.n_actions)), (len(logs), 1))
    table, merged = in_parts("pi", logs.with_columns(pi=pi), 1 + seed % 5, seed)
    for key, value in table.items():
        expected, found = told(value), told(merged[key])
        assert [one[:2] for one in found] == [one[:2] for one in expected]
        numbers = [
            # a part bounds its weights by a root of its own size
            [one[2] for one in some if one[1] != "mean_weight"]
            for some in (found, expected)
        ]
        assert_allclose(*numbers, rtol=1e-7)
    assert merged.recommended == table.recommended
    assert merged.reason == table.reason


def test_some_worlds_warn_and_some_do_not():
    names = set()
    for seed in range(8):
        table = evaluate({"a": "pi"}, alike(log_world(seed)), evaluators=EVALUATORS)
        names |= {name for value in table.values() for _, name, _ in told(value)}
    assert {"impossible_propensity", "propensity_too_small", "trailing_zeros"} <= names


@pytest.mark.thorough
def test_a_logger_that_learned():
    logs = alike(make_adaptive_logs(n_rounds=6_000, random_state=0))
    table, merged = in_parts("pi", logs, 4, 0)
    assert "adaptive_logger" in [name for _, name, _ in told(merged["new", "IPS"])]
    assert told(table["new", "IPS"]) == told(merged["new", "IPS"])


def test_a_policy_that_has_learned_from_some_rounds():
    logs = make_bandit_logs(n_rounds=600, random_state=0)
    policy = SoftmaxPolicy(alpha=1.0).fit(logs[100:250])
    table, merged = in_parts(policy, logs, 5, 0, {"IPS": IPS()})
    [expected], [found] = (
        [w for w in each["new", "IPS"].warnings if isinstance(w, LearnedRoundsWarning)]
        for each in (table, merged)
    )
    assert str(found) == str(expected)
    assert found.value == 0.25


def test_columns_by_which_is_asked_leave_the_warnings_as_they_are():
    logs = alike(log_world(5))  # rewards are missing at the end
    logs = logs.with_columns(day=np.arange(len(logs)) % 3)
    both = (summarize("pi", logs, evaluators=["SNIPS"], by=by) for by in (None, "day"))
    first, second = (told(one.values()["SNIPS"]) for one in both)
    assert [one[:2] for one in first] == [one[:2] for one in second]
    assert "trailing_zeros" in [name for _, name, _ in first]


def test_a_weight_whose_square_no_float_holds():
    p = np.full(400, 0.5)
    p[17] = 1e-90
    logs = alike(two_actions(400, 0, propensity=p))
    table, merged = in_parts("pi", logs, 3, 0, {"IPS": IPS()})
    expected, found = (each["new", "IPS"] for each in (table, merged))
    assert [one[:2] for one in told(found)] == [one[:2] for one in told(expected)]
    assert np.isnan(found.standard_error) and np.isnan(expected.standard_error)
    assert any("Row 17 has the smallest propensity" in str(w) for w in found.warnings)


def test_an_error_that_sums_have_lost_is_said_to_be_so():
    logs = log_world(1)
    pi = np.random.default_rng(1).dirichlet(np.ones(logs.n_actions), len(logs))
    evaluators = {"DM": DirectMethod(reward_model=0.1)}
    _, merged = in_parts("pi", logs.with_columns(pi=pi), 4, 0, evaluators)
    value = merged["new", "DM"]
    assert value.value == pytest.approx(0.1)
    names = [warning.name for warning in value.warnings]
    assert ("lost_error" in names) == bool(np.isnan(value.standard_error))


def test_merged_values_that_are_all_alike_say_so():
    rng = np.random.default_rng(0)
    slate = rng.permuted(np.tile(np.arange(4), (40, 1)), axis=1)[:, :2]
    revenue = rng.exponential(size=40)
    logs = SlateLogs(np.zeros((40, 1)), slate, revenue, n_candidates=4)
    model = SlateDirectMethod(reward_model=0.5)
    best = np.tile([0, 1], (40, 1))
    memory = model.fit(logs).evaluate(best)
    logs = logs.with_columns(best=best)
    days = (logs[:15], logs[15:])
    sums = sum(summarize({"b": "best"}, day, evaluators=[model]) for day in days)
    [merged] = sums.values().values()
    told = [
        [str(one) for one in value.confidence_interval().warnings]
        for value in (memory, merged)
    ]
    assert told[0] == told[1] and "all round values are alike" in told[0][0]
