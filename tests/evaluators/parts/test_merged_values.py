# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Values of parts of a log that were added up are those of memory, or say why not."""

import pickle

import numpy as np
import pytest
from numpy.testing import assert_allclose

from skope_ope import (
    IPS,
    SNDR,
    SNIPS,
    BanditLogs,
    CascadeDR,
    ConstantPolicy,
    DirectMethod,
    DoublyRobust,
    ExplorationScavenging,
    FunctionPolicy,
    MultiLoggerDR,
    MultiLoggerIPS,
    PseudoInverse,
    SlateDirectMethod,
    SlateIPS,
    SubGaussianIPS,
    evaluate,
    summarize,
)
from skope_ope.evaluators import ValueSummary
from skope_ope.exceptions import TailWarning
from tests.evaluators._reference_worlds import several_loggers, slates
from tests.evaluators.core._asked import interval_of, logged_value, quietly

pytestmark = pytest.mark.filterwarnings("ignore::skope_ope.exceptions.OPEWarning")
POLICIES = {"new": "pi", "other": "other"}
EVALUATORS = {
    "IPS": IPS(),
    "SNIPS": SNIPS(),
    "clipped": IPS(cmax=3),
    "DR": DoublyRobust(reward_model="q"),
    "SNDR": SNDR(reward_model="q"),
    "DM": DirectMethod(reward_model="q"),
    "SG": SubGaussianIPS(lam=0.1),
}
NUMBERS = (
    "value",
    "standard_error",
    "degrees_of_freedom",
    "effective_sample_size",
    "n_rounds",
)


N_ACTIONS = 4


def world(n, seed=0, reward="clicks", *, full=False, free=False, **given):
    """Logs with two policies and a model as columns; the logger may ignore the context.

    Rewards are 0/1, few of them ones ("rare"), of no known range ("revenue"), or of
    one ("ratings").
    """
    rng = np.random.default_rng(seed)
    mu = rng.dirichlet(np.full(N_ACTIONS, 2.0), n)
    if free:
        mu[:] = mu[0]
    action = (rng.random((n, 1)) > mu.cumsum(axis=1)).sum(axis=1).clip(0, N_ACTIONS - 1)
    rate = (0.02 if reward == "rare" else 0.3) * (1 + action) / 2
    r = (rng.random(n) < rate).astype(float)
    if reward == "revenue":
        r = rng.normal(size=n) + action + 10
    if reward == "ratings":
        r, given["reward_range"] = np.clip(rng.random(n) + 0.1 * action, 0, 2), (0, 2)
    pi, p = rng.dirichlet(np.ones(N_ACTIONS), n), mu[np.arange(n), action]
    given |= {"actions": np.arange(N_ACTIONS), "logging_proba": mu if full else None}
    logs = BanditLogs(rng.normal(size=(n, 2)), action, r, p, **given)
    q = rng.random((n, N_ACTIONS))
    return logs.with_columns(q=q, pi=pi, other=np.tile(pi[:1], (n, 1)))


def cut(n, seed=0, n_parts=4):
    """The rows of some parts that make up a log of n rounds, of any sizes."""
    rng = np.random.default_rng(seed)
    places = np.sort(rng.integers(0, n + 1, n_parts - 1))
    return np.split(rng.permutation(n), places)


def summed(policies, evaluators, logs, parts, **given):
    """The summary that parts of some logs add up to."""
    given["evaluators"] = evaluators
    return sum(summarize(policies, logs[rows], **given) for rows in parts if len(rows))


def both(logs, evaluators=EVALUATORS, seed=0):
    """Return the tables of merged sums and of one evaluation in memory."""
    parts = summed(POLICIES, evaluators, logs, cut(len(logs), seed))
    return parts.values(), evaluate(POLICIES, logs, evaluators=evaluators)


def assert_alike(found, expected):
    """Same numbers, warnings, diagnostics; an interval that is not narrower."""
    for name in NUMBERS:
        one, other = getattr(found, name), getattr(expected, name)
        assert_allclose(one, other, rtol=1e-11, atol=1e-13, err_msg=name)
    assert list(map(str, found.warnings)) == list(map(str, expected.warnings))
    for name in found.diagnostics.keys() & expected.diagnostics.keys():
        one, other = found.diagnostics[name], expected.diagnostics[name]
        if isinstance(other, dict):
            assert one.keys() == other.keys()
            one, other = list(one.values()), list(other.values())
        assert_allclose(one, other, rtol=1e-9, atol=1e-11, err_msg=name)
    mine, memory = interval_of(found), interval_of(expected)
    if memory.method == "student":
        assert mine.method == "student"
        assert_allclose(mine, memory, rtol=1e-11, atol=1e-13)
    else:
        width = memory.high - memory.low
        assert mine.low <= memory.low + 1e-9 * width
        assert mine.high >= memory.high - 1e-9 * width
        if not np.allclose(mine, memory, rtol=1e-9):
            told = any(isinstance(one, TailWarning) for one in mine.warnings)
            # or a part lacks an action: the bound of the weights is that of all of it
            assert told or mine.max_weight > memory.max_weight


@pytest.mark.few_cases
@pytest.mark.parametrize("reward", ["clicks", "rare", "revenue", "ratings"])
@pytest.mark.parametrize("kind", [{}, {"full": True}, {"free": True}])
def test_values_are_those_of_memory(reward, kind):
    for n in (60, 3000):
        table, memory = both(world(n, 1, reward, **kind))
        assert list(table) == list(memory)
        for key, value in table.items():
            assert_alike(value, memory[key])


@pytest.mark.parametrize("reward", ["clicks", "revenue"])
def test_differences_and_lifts_are_those_of_memory(reward):
    logs = world(2000, 2, reward)
    table, memory = both(logs)
    for name in EVALUATORS:
        pairs = (table["new", name], table["other", name])
        expected = (memory["new", name], memory["other", name])
        assert_alike(pairs[0] - pairs[1], expected[0] - expected[1])
        found, lift = pairs[0].lift(pairs[1]), expected[0].lift(expected[1])
        assert_allclose(
            (found.value, found.standard_error), (lift.value, lift.standard_error)
        )
    # of two evaluators, too
    found = table["new", "IPS"] - table["other", "SNDR"]
    assert_alike(found, memory["new", "IPS"] - memory["other", "SNDR"])
    summary = summed(POLICIES, EVALUATORS, logs, cut(2000))
    reference, expected = summary.logged_value("SNIPS"), logged_value(logs)
    assert_alike(reference, expected)
    gain = summary.values()["new", "SNIPS"] - reference
    assert_alike(gain, memory["new", "SNIPS"] - expected)


def test_with_groups_intervals_and_resamples_are_those_of_memory():
    logs = world(1500, 3, group=np.arange(1500) // 7)
    few = {name: EVALUATORS[name] for name in ("SNIPS", "DR")}
    table, memory = both(logs, few)
    for name in few:
        one, other = table["new", name], memory["new", name]
        pairs = [
            (one, other),
            (one - table["other", name], other - memory["other", name]),
        ]
        for found, expected in pairs:
            assert found.diagnostics["n_groups"] == 215
            for method in ("student", "jackknife", "bootstrap", "percentile"):
                assert_allclose(
                    found.confidence_interval(method=method),
                    expected.confidence_interval(method=method),
                    rtol=1e-8,
                )
    assert table["new", "SNIPS"].diagnostics["clusters"] == "exact groups"


def test_rewards_of_0_and_1_tell_gamma_limits_exactly():
    logs = world(400, 4, "rare")
    table, memory = both(logs, {"SNIPS": SNIPS()})
    for key in table:
        found, expected = interval_of(table[key]), interval_of(memory[key])
        assert found.method == expected.method == "gamma"
        assert_allclose(found, expected, rtol=1e-10)
        names = [type(one) for one in expected.warnings]
        assert [type(one) for one in found.warnings] == names


def test_what_needs_rounds_refuses_and_says_what_does_not():
    table, memory = both(world(300), {"SNIPS": SNIPS()})
    value, other = table["new", "SNIPS"], memory["other", "SNIPS"]
    with pytest.raises(
        ValueError, match=r"round_values of a value from merged sums are"
    ):
        value.round_values  # noqa: B018
    with pytest.raises(ValueError, match=r"summarize\(policies, logs, by='day'\)"):
        value.by("day")
    with pytest.raises(ValueError, match=r"values by labels of rounds are not known"):
        value.by(np.zeros(300))
    for method in ("betting", "hoeffding", "clopper_pearson", "log_smoothing"):
        with pytest.raises(
            ValueError, match=r"Use 'auto', 'student', or 'bootstrap' if"
        ):
            value.confidence_interval(method=method)
    for method in ("bootstrap", "percentile"):
        with pytest.raises(ValueError, match="Give the logs their group="):
            value.confidence_interval(method=method)
    with pytest.raises(ValueError, match="leaves out one group at a time"):
        value.confidence_interval(method="jackknife")
    for call in (
        value.sensitivity,
        lambda: value.breakdown_gamma(0.1),
        value.deviation_bound,
    ):
        with pytest.raises(
            ValueError, match="needs the weight and the reward of every"
        ):
            call()
    with pytest.raises(ValueError, match="Summarize both policies in one call"):
        value - other
    with pytest.raises(ValueError, match="Summarize both policies in one call"):
        other - value


def test_values_of_different_rounds_are_not_subtracted():
    one, other = (both(world(100, seed), {"IPS": IPS()})[0] for seed in (0, 1))
    with pytest.raises(
        ValueError, match="needs both policies summarized over the same"
    ):
        one["new", "IPS"] - other["new", "IPS"]


def test_values_of_different_jobs_are_subtracted_by_their_groups():
    logs = world(900, 5, group=np.arange(900) // 9)
    rows, few = cut(900), {"SNIPS": SNIPS()}
    one = summed({"new": "pi"}, few, logs, rows).values()["new", "SNIPS"]
    two = summed({"other": "other"}, few, logs, rows[::-1]).values()["other", "SNIPS"]
    found = one - two
    memory = evaluate(POLICIES, logs, evaluators=few)
    expected = memory["new", "SNIPS"] - memory["other", "SNIPS"]
    assert_allclose(found.value, expected.value, rtol=1e-12)
    assert_allclose(found.standard_error, expected.standard_error, rtol=1e-11)
    alone = logs.replace(group=None)
    one, two = (
        summed({name: name}, few, alone, rows).values()[name, "SNIPS"]
        for name in ("pi", "other")
    )
    with pytest.raises(ValueError, match="needs sums by groups, and these are not"):
        one - two


def test_pickles_keep_all_that_is_known():
    logs = world(500, 6, group=np.arange(500) // 5)
    table, _ = both(logs, {"DR": EVALUATORS["DR"]})
    again = pickle.loads(pickle.dumps(table))
    for key, value in table.items():
        assert again[key].confidence_interval() == value.confidence_interval()
        assert again[key].warnings == value.warnings or len(value.warnings) == len(
            again[key].warnings
        )
        assert dict(again[key].diagnostics) == dict(value.diagnostics)
    gain = again["new", "DR"] - again["other", "DR"]
    assert (
        gain.standard_error
        == (table["new", "DR"] - table["other", "DR"]).standard_error
    )
    assert pickle.loads(pickle.dumps(gain)).confidence_interval(method="bootstrap")


def test_it_shows_and_judges_itself():
    value = both(world(800, 7), {"SNIPS": SNIPS()})[0]["new", "SNIPS"]
    assert "PolicyValue(" in repr(value) and "<table" in value._repr_html_()
    assert value.verdict.answer in ("trustworthy", "caution")
    assert float(value) == value.value
    assert value.lower_bound() < value.value < value.upper_bound()


@pytest.mark.parametrize("group", [None, np.arange(600) // 5])
def test_values_from_several_loggers_are_those_of_memory(group):
    logs = several_loggers(600, 1).logs.replace(group=group)
    evaluators = {
        "naive": MultiLoggerIPS(pooling="naive"),
        "balanced": MultiLoggerIPS(pooling="balanced"),
        "ratio": MultiLoggerIPS(pooling="balanced", self_normalized=True),
        "DR": MultiLoggerDR(pooling="balanced", reward_model=0.3),
        "weighted": MultiLoggerIPS(pooling="weighted", divergences=[1.0, 2.0, 3.0]),
    }
    parts = cut(600, 3)
    table = dict(summed({"pi": "pi"}, evaluators, logs, [np.arange(600)]).values())
    # parts of their own have other mixtures of loggers
    some = {name: evaluators[name] for name in ("naive", "weighted")}
    table |= summed({"pi": "pi"}, some, logs, parts).values()
    memory = evaluate({"pi": "pi"}, logs, evaluators=evaluators)
    for key, value in table.items():
        assert_alike(value, memory[key])
        assert value.diagnostics["logger_rounds"] == dict(
            zip(logs.loggers.tolist(), logs._logger_counts.tolist(), strict=True)
        )


# -- one pass over every part ---------------------------------------------------------
def test_every_policy_is_asked_once_per_round():
    asked = []

    def proba(X):
        asked.append(len(X))
        return np.full((len(X), N_ACTIONS), 1 / N_ACTIONS)

    logs = world(60).with_columns(day=np.arange(60) % 3, half=np.arange(60) % 2)
    policies = {"a": FunctionPolicy(proba)}
    plain = summarize(policies, logs, evaluators=EVALUATORS).values()
    assert sum(asked) == 60
    asked.clear()
    by = summarize(policies, logs, evaluators=EVALUATORS, by=["day", "half"]).values()
    assert sum(asked) == 60
    for key, value in plain.items():
        assert by[key].value == pytest.approx(value.value, rel=1e-12)


@pytest.mark.parametrize("table", [False, True])
def test_sums_by_label_are_those_of_its_rounds(table):
    day = np.array(["mon", "tue", "wed"])[np.arange(90) % 3]
    logs = world(90).with_columns(day=day)
    policy = logs.columns["pi"] if table else "pi"  # whose rows belong to the part
    parts = [logs] if table else [logs[k::2] for k in range(2)]
    given = {"evaluators": EVALUATORS, "by": "day"}
    found = sum(summarize({"a": policy}, part, **given) for part in parts).values()
    memory = evaluate({"a": "pi"}, logs, evaluators=EVALUATORS)
    for key, value in found.items():
        mine, theirs = value.by("day"), memory[key].by("day")
        assert list(mine) == sorted(theirs)
        for label, one in mine.items():
            numbers = [(v.value, v.standard_error) for v in (one, theirs[label])]
            assert_allclose(*numbers, rtol=1e-10)
    with pytest.raises(ValueError, match="no field or column 'week'"):
        summarize({"a": "pi"}, logs, evaluators=EVALUATORS, by="week")


def test_what_parts_lack_is_known_of_the_whole():
    n = 60
    logs = BanditLogs(
        np.zeros((n, 1)), np.arange(n) % 3, np.arange(n) % 2, np.full(n, 1 / 3)
    )
    policy, lacking = {"a": ConstantPolicy(1)}, np.arange(n) % 3 != 1
    whole = summed(policy, {"IPS": IPS()}, logs, [~lacking, lacking]).values()[
        "a", "IPS"
    ]
    exact = IPS().fit(logs).evaluate(policy["a"])
    assert_allclose(whole.standard_error, exact.standard_error, rtol=1e-12)
    assert whole.diagnostics["unsupported_mass"] == 0
    lost = summed(policy, {"IPS": IPS()}, logs, [lacking]).values()["a", "IPS"]
    assert lost.diagnostics["unsupported_mass"] == 1
    # each part lacks another action, and all of them lack one
    logs = world(400)
    logs = logs[logs.action != 1]
    parts = [logs.action == 0, logs.action > 0]
    whole = summed({"a": "pi"}, {"IPS": IPS()}, logs, parts).values()["a", "IPS"]
    exact = IPS().fit(logs).evaluate("pi").diagnostics["unsupported_mass"]
    assert exact > 0.1
    assert_allclose(whole.diagnostics["unsupported_mass"], exact)


@pytest.mark.parametrize("kind", [{"full": True}, {"free": True}])
def test_bounds_of_weights_are_those_of_the_whole_log(kind):
    logs = world(400, reward="ratings", **kind)
    parts = [rows for rows in cut(400) if len(rows) > 30]
    found = summed(POLICIES, {"IPS": IPS()}, logs, parts).values()["new", "IPS"]
    memory = evaluate("pi", logs[np.concatenate(parts)], evaluators=["IPS"])["IPS"]
    one, other = (interval_of(value, method="gamma") for value in (found, memory))
    assert one.max_weight_from == other.max_weight_from
    assert_allclose(one.max_weight, other.max_weight, rtol=1e-12)
    if kind == {"free": True}:  # parts of other propensities tell no bound
        mixed = summarize(POLICIES, logs, evaluators=["IPS"])
        mixed = mixed + summarize(
            POLICIES, world(200, 1, "ratings", **kind), evaluators=["IPS"]
        )
        with pytest.raises(ValueError, match="max_weight"):
            mixed.values()["new", "IPS"].confidence_interval(method="gamma")


@pytest.mark.parametrize("grouped", [False, True])
def test_slates_that_leave_rounds_out_are_about_other_rounds(grouped):
    of_slates = slates(100, "empirical", 45)
    logs = of_slates.logs.replace(group=np.arange(100) // 3 if grouped else None)
    policies = dict(zip("ab", of_slates.policies, strict=True))
    summary = quietly(summed, policies, {"PI": PseudoInverse()}, logs, cut(100))
    value, gain = summary.values()["a", "PI"], summary.logged_value("PI")
    exact = PseudoInverse().fit(logs).evaluate(policies["a"])
    assert_allclose(value.value, exact.value, rtol=1e-12)
    assert_allclose(value.standard_error, exact.standard_error, rtol=1e-11)
    assert_allclose(gain.value, logs.reward.mean(), rtol=1e-12)
    message = "about different rounds" if grouped else "needs sums by groups"
    with pytest.raises(ValueError, match=message):
        value - gain


def test_differences_need_the_same_rounds():
    logs = world(120, group=np.arange(120) * 7 % 50)
    one, fewer = (
        summarize({"a": "pi"}, some, evaluators=["IPS"]).values()["a", "IPS"]
        for some in (logs, logs[:30])
    )
    with pytest.raises(
        ValueError, match="come from different rounds, 120 rows in memory"
    ):
        one - fewer


# -- files ----------------------------------------------------------------------------
KINDS = ["clicks", "free", "pairs", "loggers", "uniform", "product", "empirical"]


def world_of_file(kind):
    if kind == "loggers":
        arms = {"arms": ExplorationScavenging(), "IPS": MultiLoggerIPS()}
        return several_loggers(90, 12).logs, {"new": "pi"}, arms
    if kind in KINDS[4:]:
        some, models = slates(60, kind, 1), {"reward_model": 0.3}
        evaluators = {"IPS": SlateIPS(), "PI": PseudoInverse(self_normalized=True)}
        evaluators |= {"DM": SlateDirectMethod(**models), "DR": CascadeDR(**models)}
        return some.logs, {"new": some.policies[1]}, evaluators
    given = {
        "clicks": {},
        "free": {"reward": "ratings", "free": True},
        "pairs": {"group": [(k % 40, "a") for k in range(120)]},
    }[kind]
    few = {name: EVALUATORS[name] for name in ("SNIPS", "DR")}
    return world(120, **given), {"new": "pi"}, few


@pytest.mark.parametrize("kind", KINDS)
def test_files_hold_all_that_sums_hold(kind, tmp_path):
    logs, policies, evaluators = world_of_file(kind)
    logs = logs.with_columns(half=np.arange(len(logs)) % 2)
    parts = [np.arange(len(logs)) % 3 == k for k in range(3)]
    first = summed(policies, evaluators, logs, parts[:1], by="half")
    rest = summed(policies, evaluators, logs, parts[1:], by="half")
    first.save(tmp_path / "sums.npz")
    again = (ValueSummary.load(tmp_path / "sums.npz") + rest).values()
    memory = evaluate(policies, logs, evaluators=evaluators)
    for key, value in (first + rest).values().items():
        assert_allclose(interval_of(again[key]), interval_of(value), rtol=1e-9)
        # every part has a mixture of loggers of its own
        exact = value if key[1] == "arms" else memory[key]
        assert_allclose(again[key].value, exact.value, rtol=1e-11)
        assert_allclose(again[key].standard_error, exact.standard_error, rtol=1e-9)
        halves = again[key].by("half"), value.by("half")
        for label, one in halves[1].items():
            assert_allclose(halves[0][label].value, one.value, rtol=1e-12)
