# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause

import json
import warnings

import numpy as np
import pytest
from numpy.testing import assert_allclose

from skope_ope import (
    IPS,
    SNIPS,
    ConstantPolicy,
    DoublyRobust,
    FunctionPolicy,
    UniformPolicy,
    evaluate,
)
from skope_ope.evaluators import ValueSummary, ValueTable, _value_summary
from skope_ope.evaluators._summary_files import read_file, write_file
from skope_ope.evaluators._warn_once import OF_WEIGHTS
from skope_ope.evaluators.static._base import StaticEvaluator
from tests.evaluators._summing import cut, summary_of, summed, world

pytestmark = pytest.mark.filterwarnings("ignore::skope_ope.exceptions.OPEWarning")
POLICIES = {"new": "pi", "other": "other"}
EVALUATORS = {
    "IPS": IPS(),
    "SNIPS": SNIPS(),
    "DoublyRobust": DoublyRobust(reward_model=0.5),
}


def values_of(summary):
    return {
        key: (value.value, value.standard_error, *value._interval())
        for key, value in summary.values().items()
    }


def assert_same(one, other, rtol=1e-12):
    one, other = values_of(one), values_of(other)
    assert one.keys() == other.keys()
    assert_allclose(list(one.values()), list(other.values()), rtol=rtol)


@pytest.mark.few_cases(3)
@pytest.mark.parametrize("seed", range(10))
def test_parts_of_any_sizes_add_up_to_the_table_of_the_whole(seed):
    logs = world(300, seed)
    rows = cut(300, seed, 1 + seed)
    found = summed(POLICIES, EVALUATORS, logs, rows)
    table, memory = found.values(), evaluate(POLICIES, logs, evaluators=EVALUATORS)
    assert isinstance(table, ValueTable)
    assert (table.recommended, table.reason) == (memory.recommended, memory.reason)
    for key, value in table.items():
        assert_allclose(value.value, memory[key].value, rtol=1e-12)
        assert_allclose(value.standard_error, memory[key].standard_error, rtol=1e-11)
    assert found.n_rounds == 300 and found.policies == ("new", "other")
    assert_same(found, summed(POLICIES, EVALUATORS, logs, rows[::-1]), 1e-10)


def test_one_policy_without_a_name():
    logs = world(200)
    found = summed({None: "pi"}, EVALUATORS, logs, cut(200))
    assert list(found.values()) == list(EVALUATORS)
    assert found.policies == ()
    assert "policies" not in repr(found)


def test_empty_parts_add_nothing_and_have_no_values():
    logs = world(100)
    some = summary_of(POLICIES, EVALUATORS, logs)
    nothing = summary_of(POLICIES, EVALUATORS, logs[:0])
    for whole in (some + nothing, nothing + some, sum([nothing, some, nothing])):
        assert_same(whole, some)
        assert whole.counted == some.counted
    assert nothing.n_rounds == 0
    with pytest.raises(ValueError, match="the summary has no rounds yet"):
        (nothing + nothing).values()
    with pytest.raises(TypeError):
        some + 1
    with pytest.raises(TypeError):
        1.0 + some


def test_rounds_count_once():
    logs = world(100)
    first, rest = (
        summary_of(POLICIES, EVALUATORS, logs[rows])
        for rows in (slice(60), slice(60, 100))
    )
    whole = first + rest
    for twice in (first, rest, whole):
        with pytest.raises(ValueError, match="Add summaries of parts"):
            whole + twice
    overlap = summary_of(POLICIES, EVALUATORS, logs[50:70])
    with pytest.raises(ValueError, match="rows 50 to 59 of the same logs in memory"):
        first + overlap


def test_summaries_of_other_estimates_do_not_mix():
    logs, more = world(80), world(80, 1)
    some = summary_of(POLICIES, EVALUATORS, logs)

    def refused(policies, evaluators, others, what):
        with pytest.raises(
            ValueError, match="these summaries cannot be added"
        ) as error:
            some + summary_of(policies, evaluators, others)
        assert what in str(error.value)

    refused({"new": "pi"}, EVALUATORS, more, "policy 'other' ('other', and none)")
    refused(
        {"new": "other", "other": "pi"}, EVALUATORS, more, "policy 'new' ('pi', and"
    )
    clipped = {**EVALUATORS, "IPS": IPS(cmax=5)}
    refused(POLICIES, clipped, more, "IPS(cmax=None), and IPS(cmax=5)")
    model = {**EVALUATORS, "DoublyRobust": DoublyRobust(reward_model=0.4)}
    refused(POLICIES, model, more, "reward_model=0.5), and DoublyRobust(")
    refused(POLICIES, {"IPS": IPS()}, more, "evaluator 'SNIPS'")
    ranged = world(80, 1, reward_range=(0, 2))
    refused(POLICIES, EVALUATORS, ranged, "reward_range (None, and (0.0, 2.0))")
    texts = world(80, 1, labels=np.array(list("abcd")))
    refused(POLICIES, EVALUATORS, texts, "type of the actions (numbers, and texts)")
    with pytest.raises(ValueError, match="Name them in the same order in all parts"):
        some + summary_of(dict(reversed(POLICIES.items())), EVALUATORS, more)


def test_labels_of_groups_are_of_one_kind():
    users = np.arange(80) % 50
    some = summary_of(POLICIES, EVALUATORS, world(80, group=users))
    floats = world(80, 1, group=users.astype(float))
    assert "50 exact groups" in repr(some + summary_of(POLICIES, EVALUATORS, floats))
    for group, kind in ((users.astype(str), "texts"), (users.astype("M8[D]"), "times")):
        other = summary_of(POLICIES, EVALUATORS, world(80, 1, group=group))
        with pytest.raises(ValueError, match=rf"the groups \(numbers, and {kind}\)"):
            some + other


def test_values_by_a_column_are_those_of_all_rounds():
    logs = world(80)
    by, none = (
        summary_of(POLICIES, EVALUATORS, logs[rows], by=by)
        for rows, by in ((slice(40), "action"), (slice(40, 80), None))
    )
    with pytest.raises(ValueError, match="by 'action' and the other by nothing"):
        by + none
    with pytest.raises(ValueError, match="with the same by="):
        none + by
    nothing = summary_of(POLICIES, EVALUATORS, logs[:0])
    assert list((by + nothing).values()["new", "IPS"].by("action")) == [0, 1, 2, 3]


@pytest.mark.parametrize("suffix", [".npz", ".arrow"])
def test_groups_of_several_columns_survive_a_file(suffix, tmp_path):
    if suffix == ".arrow":
        pytest.importorskip("pyarrow")
    rng = np.random.default_rng(0)
    group = np.stack([rng.integers(0, 20, 200), rng.integers(0, 3, 200)], axis=1)
    group = [(int(user), "abc"[k]) for user, k in group]
    days = [world(200, k, group=group) for k in range(2)]
    parts = [summary_of(POLICIES, EVALUATORS, day) for day in days]
    parts[0].save(tmp_path / f"total{suffix}")
    total = ValueSummary.load(tmp_path / f"total{suffix}")
    assert "exact groups" in repr(total)
    assert_same(total + parts[1], parts[0] + parts[1])


def test_policies_are_told_by_names_or_by_what_they_hold():
    logs, more = world(60), world(60, 1)
    one, other = ConstantPolicy(1).fit(logs), ConstantPolicy(2).fit(logs)
    few = {"IPS": IPS()}
    first = summary_of({None: one}, few, logs)
    with pytest.raises(ValueError, match=r"differ in policy \(ConstantPolicy\("):
        first + summary_of({None: other}, few, more)
    assert (first + summary_of({None: one}, few, more)).n_rounds == 120
    # a name is a name
    summary_of({"today": one}, few, logs) + summary_of({"today": other}, few, more)

    def uniform(X):
        return np.full((len(X), 4), 0.25)

    policy = FunctionPolicy(uniform).fit(logs)
    with pytest.raises(ValueError, match=r"Name the policy: pass a dict"):
        summary_of({None: policy}, few, logs)
    assert summary_of({"uniform": policy}, few, logs).n_rounds == 60


@pytest.mark.few_cases(1)
@pytest.mark.parametrize(
    "suffix", [".npz", pytest.param(".arrow", marks=pytest.mark.frames)]
)
def test_a_daily_job_keeps_its_total_in_a_file(suffix, tmp_path):
    if suffix == ".arrow":
        pytest.importorskip("pyarrow")
    path = tmp_path / f"total{suffix}"
    labels = np.array(["a", "b", "c"])[np.arange(300) % 3]
    logs = world(300, group=np.arange(300) // 4).with_columns(day=labels)
    days = np.array_split(np.arange(300), 3)
    summary_of(POLICIES, EVALUATORS, logs[days[0]], by="day").save(path)
    for day in days[1:]:
        total = ValueSummary.load(path)
        total += summary_of(POLICIES, EVALUATORS, logs[day], by="day")
        total.save(str(path))
    total = ValueSummary.load(path)
    assert_same(total, summed(POLICIES, EVALUATORS, logs, days), 1e-10)
    with pytest.raises(ValueError, match="Add summaries of parts"):
        total + summary_of(POLICIES, EVALUATORS, logs[days[1]], by="day")
    gain = total.values()["new", "SNIPS"] - total.values()["other", "SNIPS"]
    memory = evaluate(POLICIES, logs, evaluators=EVALUATORS)
    expected = memory["new", "SNIPS"] - memory["other", "SNIPS"]
    assert_allclose(gain.standard_error, expected.standard_error, rtol=1e-10)
    found = total.values()["new", "IPS"].by("day")
    for label, value in memory["new", "IPS"].by("day").items():
        assert_allclose(found[label].value, value.value, rtol=1e-11)
    table = total.values()
    assert table.recommended == "DoublyRobust"


def test_files_are_small(tmp_path):
    path = tmp_path / "total.npz"
    logs = world(5000, group=np.arange(5000) // 2)
    summary = summary_of(POLICIES, EVALUATORS, logs)
    summary.save(path)
    assert path.stat().st_size < 400_000
    assert "2,500 exact groups" in repr(summary)


@pytest.mark.few_cases(2)
@pytest.mark.parametrize(
    "labels",
    [
        np.array(["a", "b", "c", "ä"]),
        np.array([0.5, 1.5, 2.5, 4.0]),
        np.arange("2026-01-01", "2026-01-05", dtype="M8[D]"),
        np.array(["x", "y", "z", "w"], dtype=object),
    ],
)
def test_labels_survive_a_file(labels, tmp_path):
    logs = world(400, labels=labels, group=labels[np.arange(400) % 4])
    path = tmp_path / "total.npz"
    found = summary_of(POLICIES, EVALUATORS, logs[:250])
    found.save(path)
    rest = summary_of(POLICIES, EVALUATORS, logs[250:])
    assert_same(ValueSummary.load(path) + rest, found + rest, 1e-10)


def test_files_of_other_versions_and_kinds_are_refused(tmp_path, monkeypatch):
    path = tmp_path / "total.npz"
    summary_of(POLICIES, EVALUATORS, world(50)).save(path)
    known = _value_summary.FORMAT
    monkeypatch.setattr(_value_summary, "FORMAT", known + 1)
    with pytest.raises(ValueError, match=f"has format {known}, and this version"):
        ValueSummary.load(path)
    monkeypatch.undo()
    with pytest.raises(ValueError, match=r"ends with \.npz or \.arrow"):
        ValueSummary.load(path).save(tmp_path / "total.pickle")
    header, tables = read_file(path, _value_summary.FORMAT)
    del header["kind"]
    some = dict(list(tables.items())[:5])
    write_file(path, header, some)
    with pytest.raises(ValueError, match="is damaged"):
        ValueSummary.load(path)


class Doubled(StaticEvaluator):
    """Twice the value."""

    def __init__(self, *, factor=2.0):
        self.factor = factor

    def _terms(self, rounds):
        return (self.factor * rounds.gain,)


def test_a_file_without_some_of_its_header_is_damaged(tmp_path):
    path = tmp_path / "total.npz"
    summary_of(POLICIES, EVALUATORS, world(40)).save(path)
    header, tables = read_file(path, _value_summary.FORMAT)
    for name in ("facts", "counted", "single", "left_out", "models", "evaluators"):
        write_file(path, {k: v for k, v in header.items() if k != name}, tables)
        with pytest.raises(ValueError, match=f"is damaged, or no file .*'{name}'"):
            ValueSummary.load(path)
    write_file(path, {**header, "counted": "{}"}, tables)
    with pytest.raises(ValueError, match="is damaged, or no file"):
        ValueSummary.load(path)
    write_file(path, {k: v for k, v in header.items() if k != "format"}, tables)
    with pytest.raises(ValueError, match="has format None"):
        ValueSummary.load(path)


def test_evaluators_of_others_are_given_again(tmp_path):
    path, logs = tmp_path / "total.npz", world(80)
    own = {"twice": Doubled(), "IPS": IPS(cmax=3)}
    found = summary_of(POLICIES, own, logs)
    found.save(path)
    with pytest.raises(
        ValueError, match=r"Doubled is not an evaluator of skope_ope\. Pass"
    ):
        ValueSummary.load(path)
    with pytest.raises(ValueError, match=r"evaluators\['twice'\] is a IPS, but the"):
        ValueSummary.load(path, evaluators={"twice": IPS()})
    again = ValueSummary.load(path, evaluators={"twice": Doubled()})
    assert_same(again, found)
    assert again.evaluators["IPS"].cmax == 3


def test_tables_say_what_was_summed():
    logs = world(120, group=np.arange(120) // 3)
    found = summary_of(POLICIES, EVALUATORS, logs)
    text = repr(found)
    for part in ("120 rows in memory", "new, other", "IPS, SNIPS", "40 exact groups"):
        assert part in text
    assert "<table" in found._repr_html_()
    table = found.values()
    assert "recommended" in repr(table) and "<table" in table._repr_html_()
    assert {r["verdict"] for r in table.to_records()} <= {
        "trustworthy",
        "caution",
        "not supported",
    }
    intervals = table.confidence_intervals(method="student", simultaneous=True)
    assert intervals.keys() == table.keys()


def test_values_warn_once_of_what_they_warn_of():
    rare = world(40, reward="rare")
    found = summed({"u": UniformPolicy(), "v": "pi"}, EVALUATORS, rare, cut(40))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        table = found.values()
    texts = [str(one.message) for one in caught]
    told = [one for value in table.values() for one in value.warnings]
    assert len(texts) == len(set(texts)) > 0
    kinds = [(type(one.message), one.message.name) for one in caught]
    assert set(kinds) == {(type(one), one.name) for one in told}
    alike = [one for one in told if isinstance(one, OF_WEIGHTS)]  # told by their kind
    others = [str(one) for one in told if one not in alike]
    assert all(any(one in text for text in texts) for one in others)
    assert all(one.filename == __file__ for one in caught)
    assert json.dumps(table["u", "IPS"].verdict.to_dict())


def test_policies_act_alike_where_all_their_weights_are_the_same():
    logs = world(200, reward="rare")
    logs = logs.replace(reward=np.zeros(200))  # no reward tells policies apart
    pi = logs.columns["pi"].copy()
    logger = np.tile(logs.propensity[:, None], (1, 4))
    off = pi.copy()
    off[7] = off[7, ::-1]
    logs = logs.with_columns(same=pi, off=off)
    names = {name: name for name in ("pi", "same", "off")}
    found = summed(names, {"IPS": IPS()}, logs, cut(200))
    assert found._act_alike("pi", "same") and not found._act_alike("pi", "off")
    assert not found._act_alike("pi")
    chance = {"logger": logger[:, 0]}
    own = summary_of(chance, {"IPS": IPS()}, logs)
    assert own._act_alike("logger")


def test_parts_of_one_label_are_values_of_that_label():
    day = np.repeat(["a", "b"], 150)
    logs = world(300).with_columns(day=day)
    parts = [logs[:150], logs[150:220], logs[220:]]
    found = sum(summary_of(POLICIES, EVALUATORS, part, by="day") for part in parts)
    memory = evaluate(POLICIES, logs, evaluators=EVALUATORS)
    for name in ("IPS", "SNIPS", "DoublyRobust"):
        values = found.values()["new", name].by("day")
        expected = memory["new", name].by("day")
        assert list(values) == list(expected) == ["a", "b"]
        for label, value in values.items():
            assert_allclose(value.value, expected[label].value, rtol=1e-12)
            assert_allclose(
                value.standard_error, expected[label].standard_error, rtol=1e-11
            )
            low, high = value.confidence_interval()
            assert 0 <= low < value.value < high <= 1
            assert value.estimator == expected[label].estimator
