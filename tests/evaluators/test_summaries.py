# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Summaries of parts of a log: what adds up, what is refused, what values say."""

import json
import pickle
import re
import warnings

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.linear_model import LogisticRegression, Ridge

from skope_ope import (
    IPS,
    SNIPS,
    ClassifierPolicy,
    ConstantPolicy,
    DoublyRobust,
    FunctionPolicy,
    MixturePolicy,
    MultiLoggerDR,
    MultiLoggerIPS,
    PseudoInverse,
    SlateIPS,
    UniformPolicy,
    evaluate,
    scan_logs,
    summarize,
)
from skope_ope.evaluators import ValueSummary, ValueTable
from skope_ope.exceptions import LowOverlapWarning, OPEWarning, PropensityWarning
from tests.evaluators._reference_worlds import WORLDS
from tests.evaluators._summing import cut, world
from tests.evaluators._summing import summed as added
from tests.evaluators.core._asked import bare_logs

pytestmark = pytest.mark.filterwarnings("ignore::skope_ope.exceptions.OPEWarning")
POLICIES = {"new": "pi", "other": "other"}
EVALUATORS = {"IPS": IPS(), "SNIPS": SNIPS()}
EVALUATORS["DoublyRobust"] = DoublyRobust(reward_model=0.5)
FEW = {"IPS": IPS()}
PAIRED = {
    "clicks": [IPS(), SNIPS(), DoublyRobust(reward_model="q_hat")],
    "loggers": [MultiLoggerIPS(), MultiLoggerDR(reward_model="q_hat")],
    "slates_uniform": [SlateIPS(), PseudoInverse(self_normalized=True)],
}


def summary_of(logs, policies=POLICIES, evaluators=EVALUATORS, **given):
    return summarize(policies, logs, evaluators=evaluators, **given)


def summed(logs, parts, policies=POLICIES, evaluators=EVALUATORS):
    return added(policies, evaluators, logs, parts)


def assert_same(*summaries, rtol=1e-12):
    def told(value):
        return value.value, value.standard_error, *value.confidence_interval()

    tables = [summary.values() for summary in summaries]
    one, other = ({key: told(v) for key, v in table.items()} for table in tables)
    assert one.keys() == other.keys()
    assert_allclose(list(one.values()), list(other.values()), rtol=rtol)


def test_parts_add_up_in_any_order():
    """The judge compares their values, differences and labels with those of memory."""
    logs, rows = world(300), cut(300, n_parts=6)
    found = summed(logs, rows)
    assert isinstance(found.values(), ValueTable)
    assert found.n_rounds == 300 and found.policies == ("new", "other")
    assert_same(found, summed(logs, rows[::-1]), rtol=1e-10)
    one = summed(logs, rows, policies="pi")  # without a name
    assert list(one.values()) == list(EVALUATORS)
    assert one.policies == () and "policies" not in repr(one)
    with pytest.raises(ValueError, match="the logs are empty"):
        summary_of(logs[:0])
    for add in (lambda: found + 1, lambda: 1.0 + found):
        with pytest.raises(TypeError):
            add()


# -- rounds count once --------------------------------------------------------------
def test_rows_in_memory_count_once():
    logs = world(20)
    first, rest = summary_of(logs[:8]), summary_of(logs[8:])
    whole = first + rest
    assert whole.counted == (rest + first).counted == summary_of(logs).counted
    assert repr(whole.counted) == "20 rows in memory"
    for twice in (first, rest, whole):
        with pytest.raises(ValueError, match="Add summaries of parts"):
            whole + twice
    even, odd = summary_of(logs[::2]), summary_of(logs[1::2])
    assert (even + odd).counted == whole.counted
    for one, other, rows in (
        (first, summary_of(logs[5:12]), "5 to 7"),
        (summary_of(logs[[3, 8]]), even, "8 to 8"),
    ):
        with pytest.raises(ValueError, match=f"rows {rows} of the same logs in memory"):
            one + other
    other = summary_of(world(20))  # built anew: other rounds
    assert repr((whole + other).counted) == "40 rows in memory"
    # a resample has rows twice by itself, and that is no parts added twice
    assert summary_of(logs[[1, 1, 2]]).counted == summary_of(logs[1:3]).counted


def written(path, n=100, size=None, **columns):
    """Write rounds of two actions, and scan them."""
    pa = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    columns = {"a": np.arange(n) % 2, "r": np.arange(n) % 3 % 2 * 1.0} | columns
    path.parent.mkdir(parents=True, exist_ok=True)
    parquet.write_table(pa.table(columns), path, row_group_size=size or n)
    return path


def scanned(path, policy=None, reward="r", **given):
    roles = {"action": "a", "reward": reward, "propensity": 0.5, "actions": [0, 1]}
    policies = {"new": policy or UniformPolicy()}
    return summarize(policies, scan_logs(path, **roles, **given), evaluators=["IPS"])


@pytest.mark.frames
def test_row_groups_and_files_count_once(tmp_path):
    a, b = (written(tmp_path / f"{name}.parquet", size=10) for name in "ab")
    one, other, whole = scanned(a), scanned(b), scanned(tmp_path)
    assert repr(whole.counted) == "20 row groups of 2 files"
    assert (one + other).counted == (other + one).counted == whole.counted
    many = r"a\.parquet, row group 0; a\.parquet, row group 1; .* and 7 more\. Add"
    for twice in (lambda: one + whole, lambda: whole + one):
        with pytest.raises(ValueError, match=many):
            twice()
    # folders that are columns name a file
    day = scanned(written(tmp_path / "hive" / "y=1" / "day=2" / "part-0.parquet"))
    with pytest.raises(ValueError, match=r"count y=1/day=2/part-0.*per day"):
        day + day


@pytest.mark.frames
def test_csv_files_and_frames_count_once(tmp_path):
    pandas = pytest.importorskip("pandas")
    polars = pytest.importorskip("polars")
    frame = pandas.DataFrame({"a": [0, 1] * 5, "r": [0.0, 1.0, 1, 0, 1] * 2})
    frame.to_csv(path := tmp_path / "a.csv", index=False)
    file = scanned(path)
    with pytest.raises(ValueError, match=r"count a\.csv"):
        file + scanned(path)
    query = polars.from_pandas(frame.assign(pi=0.5)).lazy()
    lazy, again = (scanned(query, "pi", columns={"pi": "pi"}) for _ in range(2))
    assert repr((lazy + again).counted) == "2 lazy frames"
    with pytest.raises(ValueError, match="count the same lazy frame"):
        lazy + lazy


# -- what must be the same ----------------------------------------------------------
LOGS, MORE = world(80), world(80, 1)
CLIPPED = {**EVALUATORS, "IPS": IPS(cmax=5)}
RANGED = world(80, 1, reward_range=(0, 2))
LETTERS = world(80, 1, labels=np.array(list("abcd")))
REVERSED = dict(reversed(POLICIES.items()))
OTHER_MODEL = {**EVALUATORS, "DoublyRobust": DoublyRobust(reward_model=0.4)}


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"policies": {"new": "pi"}}, "policy 'other' ('other', and none)"),
        ({"policies": {"new": "other", "other": "pi"}}, "policy 'new' ('pi', and"),
        ({"evaluators": CLIPPED}, "IPS(cmax=None), and IPS(cmax=5)"),
        ({"evaluators": OTHER_MODEL}, "reward_model=0.5), and DoublyRobust("),
        ({"evaluators": FEW}, "evaluator 'SNIPS'"),
        ({"logs": RANGED}, "reward_range (None, and (0.0, 2.0))"),
        ({"logs": LETTERS}, "type of the actions (numbers, and texts)"),
        ({"policies": REVERSED}, "Name them in the same order in all parts"),
        ({"by": "action"}, "by nothing and the other by 'action'"),
    ],
)
def test_summaries_of_other_estimates_do_not_mix(given, told):
    with pytest.raises(ValueError, match=re.escape(told)):
        summary_of(LOGS) + summary_of(**{"logs": MORE, **given})


@pytest.mark.frames
def test_what_is_not_known_contradicts_nothing(tmp_path):
    click = np.arange(100) % 2 * 1.0
    paths = (tmp_path / f"{k}.parquet" for k in "abc")
    paths = [written(path, click=click, sale=click) for path in paths]
    clicks, sales, more = map(scanned, paths, [None] * 3, ("click", "sale", "click"))
    logs = bare_logs(np.arange(100) % 2, click, np.full(100, 0.5))
    memory = summarize({"new": UniformPolicy()}, logs, evaluators=["IPS"])
    total = memory + clicks + more
    assert total.n_rounds == 300
    with pytest.raises(ValueError, match=r"reward column \(click, and sale\)"):
        total + sales


def test_shared_models_are_told_by_what_they_are():
    def of(model, logs=LOGS):
        names = {"DR": DoublyRobust()}
        return summary_of(logs, {"new": "pi"}, names, reward_model=model)

    assert (of(Ridge()) + of(Ridge(), MORE)).n_rounds == 160
    for one, other in ((Ridge(), Ridge(alpha=2)), (None, 0.5)):
        with pytest.raises(ValueError, match="shared reward model"):
            of(one) + of(other, MORE)


def test_labels_of_groups_are_of_one_kind():
    users = np.arange(80) % 50
    some = summary_of(world(80, group=users))
    floats = world(80, 1, group=users.astype(float))
    assert "50 exact groups" in repr(some + summary_of(floats))
    for group, kind in ((users.astype(str), "texts"), (users.astype("M8[D]"), "times")):
        other = summary_of(world(80, 1, group=group))
        with pytest.raises(ValueError, match=rf"the groups \(numbers, and {kind}\)"):
            some + other


def test_policies_are_told_by_names_or_by_what_they_hold():
    one, other = ConstantPolicy(1).fit(LOGS), ConstantPolicy(2).fit(LOGS)
    again, same, third = (
        ClassifierPolicy(LogisticRegression(C=C)).fit(LOGS) for C in (1.0, 1.0, 1e-2)
    )
    # a name is a name
    named = {"today": one}, {"today": other}
    for first, second in ((one, one), named, (again, same)):
        total = summary_of(LOGS, first, FEW) + summary_of(MORE, second, FEW)
        assert total.n_rounds == 160
    for first, second, told in (
        (one, other, r"differ in policy \(ConstantPolicy\("),
        ({"x": "pi"}, {"x": one}, "differ in policy 'x'"),
        (same, third, "differ in policy"),
    ):
        with pytest.raises(ValueError, match=told):
            summary_of(LOGS, first, FEW) + summary_of(MORE, second, FEW)
    # functions need a name wherever they are
    inside = FunctionPolicy(lambda X: np.full((len(X), 4), 0.25)).fit(LOGS)
    mixed = MixturePolicy([UniformPolicy(), inside], [0.5, 0.5]).fit(LOGS)
    for policy in (inside, mixed):
        with pytest.raises(ValueError, match="Name the policy: pass a dict"):
            summary_of(LOGS, policy, FEW)
        assert summary_of(LOGS, {"mine": policy}, FEW).n_rounds == 80


def test_another_policy_of_a_name_warns():
    logs, rest = world(40)[:20], world(40)[20:]

    def of(C, on=logs):
        policy = ClassifierPolicy(LogisticRegression(C=C)).fit(logs)
        return summary_of(on, {"new": policy}, FEW)

    with warnings.catch_warnings():
        warnings.simplefilter("error", OPEWarning)
        assert (of(1.0) + of(1.0, rest)).n_rounds == 40
    with pytest.warns(OPEWarning, match="same name: policy 'new'. Each"):
        mixed = of(1.0) + of(0.01, rest)
    with pytest.warns(OPEWarning, match="the same name"):  # and does not forget it
        mixed + summary_of(world(5), {"new": UniformPolicy()}, FEW)


# -- what values say ----------------------------------------------------------------
@pytest.mark.parametrize("weighted", [False, True])
def test_the_logger_itself_has_the_mean_reward(weighted, global_random_seed):
    """SNIPS with weights of one: its error, and no gain over it."""
    weight = np.random.RandomState(0).uniform(0.5, 2, 200) if weighted else None
    logs = world(200, global_random_seed, "revenue", sample_weight=weight)
    logs = logs.with_columns(own=logs.propensity)
    found = summary_of(logs, {"it": "own"}, {"SNIPS": SNIPS()})
    value, expected = found.logged_value(), found.values()["it", "SNIPS"]
    assert value.value == pytest.approx(np.average(logs.reward, weights=weight))
    assert value.value == pytest.approx(expected.value, rel=1e-12)
    assert value.standard_error == pytest.approx(expected.standard_error, rel=1e-10)
    size = value.effective_sample_size
    assert size < 200 if weighted else size == 200
    gain = expected - value
    assert abs(gain.value) < 1e-12 and gain.standard_error < 1e-12
    one = summary_of(logs[:1], {"it": "own"}, {"SNIPS": SNIPS()})
    assert np.isnan(one.logged_value().standard_error)


@pytest.mark.parametrize("name", PAIRED)
def test_days_summed_elsewhere_compare_in_pairs(name, tmp_path):
    """Differences have the errors of memory, however the sums were kept."""
    world, evaluators = (
        WORLDS[name][1](),
        {type(one).__name__: one for one in PAIRED[name]},
    )
    policies = dict(zip("ab", world.policies, strict=True))
    logs, rows = world.logs, cut(len(world.logs), n_parts=3)
    for k, part in enumerate(rows):
        summary_of(logs[part], policies, evaluators).save(tmp_path / f"{k}.npz")
    added = sum(ValueSummary.load(tmp_path / f"{k}.npz") for k in range(3))
    added.save(tmp_path / "all.npz")
    again = ValueSummary.load(tmp_path / "all.npz")
    whole = evaluate(policies, logs, evaluators=evaluators)
    for summary in (added, again, pickle.loads(pickle.dumps(added))):
        table, other = summary.values(), summary.values()
        for one in evaluators:
            for two in evaluators:
                gain = whole["a", one] - whole["b", two]
                for found in (
                    table["a", one] - table["b", two],
                    table["a", one] - other["b", two],
                ):
                    for what in ("value", "standard_error", "degrees_of_freedom"):
                        expected = getattr(gain, what)
                        assert_allclose(getattr(found, what), expected, rtol=1e-9)


def test_tables_say_what_was_summed():
    found = summary_of(world(120, group=np.arange(120) // 3))
    for part in ("120 rows in memory", "new, other", "IPS, SNIPS", "40 exact groups"):
        assert part in repr(found)
    table = found.values()
    assert "recommended" in repr(table)
    assert all("<table" in one._repr_html_() for one in (found, table))
    answers = {"trustworthy", "caution", "not supported"}
    assert {record["verdict"] for record in table.to_records()} <= answers
    intervals = table.confidence_intervals(method="student", simultaneous=True)
    assert intervals.keys() == table.keys()


def test_values_warn_once_of_what_they_warn_of():
    rare = world(40, reward="rare")
    found = summed(rare, cut(40), policies={"u": UniformPolicy(), "v": "pi"})
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        table = found.values()
    texts = [str(one.message) for one in caught]
    told = [one for value in table.values() for one in value.warnings]
    assert len(texts) == len(set(texts)) > 0
    kinds = [(type(one.message), one.message.name) for one in caught]
    assert set(kinds) == {(type(one), one.name) for one in told}
    of_weights = (LowOverlapWarning, PropensityWarning)  # by their kind
    others = [str(one) for one in told if not isinstance(one, of_weights)]
    assert all(any(one in text for text in texts) for one in others)
    assert all(one.filename == __file__ for one in caught)
    assert json.dumps(table["u", "IPS"].verdict.to_dict())
