# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Values of parts of a log that were added up are those of memory, or say why not."""

import pickle
from functools import partial

import numpy as np
import pytest
from numpy.testing import assert_allclose

from skope_ope import (
    IPS,
    SNDR,
    SNIPS,
    ConstantPolicy,
    DirectMethod,
    DoublyRobust,
    FunctionPolicy,
    PseudoInverse,
    SubGaussianIPS,
    evaluate,
    summarize,
)
from skope_ope.evaluators import ValueSummary
from skope_ope.exceptions import TailWarning
from tests.evaluators._reference_worlds import WORLDS, slates
from tests.evaluators._summing import N_ACTIONS, cut, summed, world
from tests.evaluators.core._asked import bare_logs, interval_of, logged_value, quietly
from tests.evaluators.test_merging import FAMILIES, world_of

pytestmark = pytest.mark.filterwarnings("ignore::skope_ope.exceptions.OPEWarning")
POLICIES = {"new": "pi", "other": "other"}
Q = {"reward_model": "q"}
EVALUATORS = {"IPS": IPS(), "SNIPS": SNIPS(), "clipped": IPS(cmax=3)}
EVALUATORS |= {"DR": DoublyRobust(**Q), "SNDR": SNDR(**Q), "DM": DirectMethod(**Q)}
EVALUATORS["SG"] = SubGaussianIPS(lam=0.1)
NUMBERS = ["value", "standard_error", "degrees_of_freedom"]
NUMBERS += ["effective_sample_size", "n_rounds"]


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
        found, lift = pairs[0].lift(pairs[1]), expected[0].lift(expected[1])
        numbers = [(one.value, one.standard_error) for one in (found, lift)]
        assert_allclose(*numbers)
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
    tables = both(logs, few)
    again = pickle.loads(pickle.dumps(tables[0]))
    for name in few:
        pairs = [
            [table["new", name] for table in (*tables, again)],
            [table["new", name] - table["other", name] for table in (*tables, again)],
        ]
        for found, expected, stored in pairs:
            assert found.diagnostics["n_groups"] == 215
            assert dict(stored.diagnostics) == dict(found.diagnostics)
            assert [*map(str, stored.warnings)] == [*map(str, found.warnings)]
            for method in ("student", "jackknife", "bootstrap", "percentile"):
                limits = found.confidence_interval(method=method)
                exact = expected.confidence_interval(method=method)
                assert_allclose(limits, exact, rtol=1e-8)
                assert stored.confidence_interval(method=method) == limits
    value = tables[0]["new", "SNIPS"]
    assert value.diagnostics["clusters"] == "exact groups"
    assert "PolicyValue(" in repr(value) and "<table" in value._repr_html_()
    assert value.verdict.answer in ("trustworthy", "caution")
    assert value.lower_bound() < float(value) == value.value < value.upper_bound()


def test_rewards_of_0_and_1_tell_gamma_limits_exactly():
    table, memory = both(world(400, 4, "rare"), {"SNIPS": SNIPS()})
    for key in table:
        found, expected = interval_of(table[key]), interval_of(memory[key])
        assert found.method == expected.method == "gamma"
        assert_allclose(found, expected, rtol=1e-10)
        names = [type(one) for one in expected.warnings]
        assert [type(one) for one in found.warnings] == names


def test_what_needs_rounds_refuses_and_says_what_does_not():
    table, memory = both(world(300), {"SNIPS": SNIPS()})
    value, other = table["new", "SNIPS"], memory["other", "SNIPS"]
    rest = both(world(300, 1), {"SNIPS": SNIPS()})[0]["new", "SNIPS"]
    of_rounds = "betting", "hoeffding", "clopper_pearson", "log_smoothing"
    interval = value.confidence_interval
    of_rounds = [partial(interval, method=one) for one in of_rounds]
    resamples = [partial(interval, method=one) for one in ("bootstrap", "percentile")]
    needs = "needs the weight and the reward of every"
    for message, *calls in (
        ("round_values needs the weight", lambda: value.round_values),
        (r"summarize\(policies, logs, by='day'\)", lambda: value.by("day")),
        ("values by labels of rounds are not", lambda: value.by(np.zeros(300))),
        ("Use 'auto', 'student', or 'bootstrap' if", *of_rounds),
        ("Give the logs their group=", *resamples),
        ("leaves out one group", lambda: interval(method="jackknife")),
        (needs, value.sensitivity, value.deviation_bound),
        (needs, lambda: value.breakdown_gamma(0.1)),
        (
            "Summarize both policies in one",
            lambda: value - other,
            lambda: other - value,
        ),
        ("needs both policies summarized over the same", lambda: value - rest),
    ):
        for call in calls:
            with pytest.raises(ValueError, match=message):
                call()


def test_values_of_different_jobs_are_subtracted_by_their_groups():
    logs = world(900, 5, group=np.arange(900) // 9)
    rows, few = cut(900), {"SNIPS": SNIPS()}

    def of(name, logs=logs, rows=rows):
        return summed({name: name}, few, logs, rows).values()[name, "SNIPS"]

    found = of("pi") - of("other", rows=rows[::-1])
    memory = evaluate({"pi": "pi", "other": "other"}, logs, evaluators=few)
    expected = memory["pi", "SNIPS"] - memory["other", "SNIPS"]
    assert_allclose(found.value, expected.value, rtol=1e-12)
    assert_allclose(found.standard_error, expected.standard_error, rtol=1e-11)
    alone = logs.replace(group=None)
    with pytest.raises(ValueError, match="needs sums by groups, and these are not"):
        of("pi", alone) - of("other", alone)
    with pytest.raises(ValueError, match="different rounds, 900 rows in memory"):
        of("pi") - of("pi", rows=[np.arange(30)])


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


def test_sums_by_label_of_a_table_are_those_of_its_rounds():
    day = np.array(["mon", "tue", "wed"])[np.arange(90) % 3]
    logs = world(90).with_columns(day=day)
    policies, given = {"a": logs.columns["pi"]}, {"evaluators": EVALUATORS}
    found = summarize(policies, logs, by="day", **given).values()
    for key, memory in evaluate({"a": "pi"}, logs, **given).items():
        mine, theirs = found[key].by("day"), memory.by("day")
        assert list(mine) == sorted(theirs)
        for label, one in mine.items():
            numbers = [(v.value, v.standard_error) for v in (one, theirs[label])]
            assert_allclose(*numbers, rtol=1e-10)
    with pytest.raises(ValueError, match="no field or column 'week'"):
        summarize({"a": "pi"}, logs, by="week", **given)


def test_what_parts_lack_is_known_of_the_whole():
    action, reward = np.arange(60) % 3, np.arange(60) % 2
    logs = bare_logs(action, reward, np.full(60, 1 / 3))

    def found(policy, logs, *parts):
        table = summed({"a": policy}, {"IPS": IPS()}, logs, parts).values()
        return table["a", "IPS"]

    whole = found(ConstantPolicy(1), logs, action == 1, action != 1)
    exact = IPS().fit(logs).evaluate(ConstantPolicy(1))
    assert_allclose(whole.standard_error, exact.standard_error, rtol=1e-12)
    assert whole.diagnostics["unsupported_mass"] == 0
    lost = found(ConstantPolicy(1), logs, action != 1)
    assert np.isnan(lost.value) and lost.diagnostics["unsupported_mass"] == 1
    # each part lacks another action, and all of them lack one
    logs = world(400)
    logs = logs[logs.action != 1]
    whole = found("pi", logs, logs.action == 0, logs.action > 0)
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
        both = logs, world(200, 1, "ratings", **kind)
        mixed = sum(summarize(POLICIES, one, evaluators=["IPS"]) for one in both)
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


# -- files ----------------------------------------------------------------------------
@pytest.mark.few_cases(7)
@pytest.mark.parametrize("grouped", [False, True])
@pytest.mark.parametrize("name", FAMILIES)
def test_files_hold_all_that_sums_hold(name, grouped, tmp_path):
    logs, _ = world_of(name, grouped)
    logs = logs.with_columns(half=np.arange(len(logs)) % 2)
    policies = {"new": WORLDS[name][1]().policies[0]}
    evaluators = {str(one): one for one in FAMILIES[name] if "nan" not in str(one)}
    parts = [np.arange(len(logs)) % 3 == k for k in range(3)]
    first = summed(policies, evaluators, logs, parts[:1], by="half")
    rest = summed(policies, evaluators, logs, parts[1:], by="half")
    first.save(tmp_path / "sums.npz")
    stored = ValueSummary.load(tmp_path / "sums.npz", evaluators=evaluators)
    again = (stored + rest).values()
    for key, value in (first + rest).values().items():
        assert_allclose(interval_of(again[key]), interval_of(value), rtol=1e-9)
        halves = again[key].by("half"), value.by("half")
        for label, one in halves[1].items():
            assert_allclose(halves[0][label].value, one.value, rtol=1e-12)
