# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Sums inside the library behind a lazy frame: the numbers of memory, and no row lost.

polars and duckdb answer here; Spark and Dask in tests/engines.
"""

from dataclasses import replace
from decimal import Decimal

import numpy as np
import pytest
from numpy.testing import assert_allclose

from skope_ope import (
    IPS,
    MRDR,
    SNDR,
    SNIPS,
    BanditLogs,
    DirectMethod,
    DoublyRobust,
    LogSmoothing,
    MultiLoggerIPS,
    Replay,
    SwitchDR,
    UniformPolicy,
    evaluate,
    scan_logs,
)
from skope_ope.evaluators.core._summary import LOGGER
from skope_ope.evaluators.core._weight_bound import LOGGED as LARGEST_LOGGED
from skope_ope.evaluators.frames import _frame_log, _frame_query, _pushdown
from skope_ope.evaluators.frames._pushdown import frame_sums
from skope_ope.evaluators.parts._part_sums import sums_of_part
from tests.evaluators._frame_worlds import (
    LOGGERS,
    ONE_LOGGER,
    POLICIES,
    columns,
    in_memory,
    roles,
)

pytestmark = pytest.mark.frames


def polars_frame(data):
    return pytest.importorskip("polars").DataFrame(data).lazy()


def duckdb_frame(data):
    duckdb = pytest.importorskip("duckdb")
    pa = pytest.importorskip("pyarrow")
    return duckdb.from_arrow(pa.table(data))


def ibis_frame(data):
    ibis = pytest.importorskip("ibis")
    pytest.importorskip("duckdb")
    return ibis.memtable(pytest.importorskip("pyarrow").table(data))


LOGGED = {"one": "one_logged"}
BACKENDS = {"polars": polars_frame, "duckdb": duckdb_frame}
backends = pytest.mark.parametrize("frame_of", BACKENDS.values(), ids=BACKENDS)


def lazy_of(frame_of, data, **which):
    return scan_logs(frame_of(data), **roles(**which))


def check_same(found, expected, rtol=1e-12):
    """Two `PartSums` tell the same of every evaluator and policy."""
    for name in expected.evaluators:
        mine, theirs = (one.by_evaluator[name] for one in (found, expected))
        for policy in expected.policies:
            check_summary(mine.summary(policy), theirs.summary(policy), rtol)
        for pair in (("one", "two"), ("two", LOGGER)):
            a, b = (one.difference(*pair) for one in (mine, theirs))
            assert_allclose(a.value, b.value, rtol=rtol, atol=rtol)
            assert_allclose(a.standard_error, b.standard_error, rtol=1e-9)


def check_summary(mine, theirs, rtol):
    a, b = mine.estimate(), theirs.estimate()
    assert_allclose(a.value, b.value, rtol=rtol)
    assert_allclose(a.standard_error, b.standard_error, rtol=rtol)
    assert a.degrees_of_freedom == b.degrees_of_freedom
    assert_allclose(mine.missing_mass, theirs.missing_mass, rtol=rtol, atol=1e-15)
    if theirs.overlap is not None:
        for fact in ("effective_sample_size", "mean_weight", "mean_weight_z", "max_w"):
            values = (getattr(one.overlap, fact) for one in (mine, theirs))
            assert_allclose(*values, rtol=1e-9)
    if theirs.tally is not None:
        assert mine.tally.reward_range == theirs.tally.reward_range
        assert_allclose(mine.tally.largest, theirs.tally.largest, rtol=rtol)
    if theirs.ends is not None:
        assert_allclose(mine.ends.propensity, theirs.ends.propensity, rtol=rtol)
        assert mine.ends.omega == theirs.ends.omega
        if theirs.ends.terms is not None:
            assert_allclose(mine.ends.terms, theirs.ends.terms, rtol=rtol, atol=1e-13)
        if theirs.ends.omega == (1.0, 1.0):
            powers = (one.ends.yes_no.to_table() for one in (mine, theirs))
            assert_allclose(*powers, rtol=rtol)


@pytest.mark.few_cases(2)
@backends
@pytest.mark.parametrize("which", ["plain", "weighted groups"])
def test_one_logger(frame_of, which):
    which = {"groups": which != "plain", "weights": which != "plain"}
    data = columns()
    found = frame_sums(POLICIES, ONE_LOGGER, lazy_of(frame_of, data, **which))
    logs = in_memory(data, roles(**which))
    check_same(found, sums_of_part(POLICIES, ONE_LOGGER, logs, n_total=len(logs)))
    assert found.n == len(logs)


@pytest.mark.few_cases(1)
@backends
@pytest.mark.parametrize("which", ["plain", "weighted groups"])
def test_several_loggers(frame_of, which):
    which = {"groups": which != "plain", "weights": which != "plain", "loggers": True}
    data = columns(seed=1)
    evaluators = {k: one for k, one in LOGGERS.items() if k != "loggers"}
    lazy = lazy_of(frame_of, data, **which)
    found = frame_sums(POLICIES, evaluators, lazy)
    logs = in_memory(data, roles(**which))
    weight = np.ones(len(logs)) if logs.sample_weight is None else logs.sample_weight
    shares = np.bincount(logs.logger_index, weight) / weight.sum()
    shares = dict(zip("AB", shares.tolist(), strict=True))
    given = {"shares": shares, "n_total": len(logs)}
    check_same(found, sums_of_part(POLICIES, evaluators, logs, **given))


@pytest.mark.few_cases(1)
@pytest.mark.parametrize("order", ["frame first", "memory first"])
@pytest.mark.parametrize("loggers", [False, True])
def test_sums_of_frames_and_of_memory_add_up(loggers, order):
    data, which = columns(seed=2), {"groups": True, "loggers": loggers}
    evaluators = ONE_LOGGER if not loggers else {"naive": LOGGERS["naive"]}
    stated = {"actions": np.array(["x", "y", "z"]), "reward_range": (0, 1)}
    days = [
        {k: v[rows] for k, v in data.items()} for rows in np.split(range(400), [150])
    ]
    some = scan_logs(polars_frame(days[0]), **stated, **roles(**which))
    parts = [frame_sums(POLICIES, evaluators, some)]
    logs = in_memory(days[1], roles(**which), **stated)
    parts.append(sums_of_part(POLICIES, evaluators, logs))
    whole = in_memory(data, roles(**which), **stated)
    parts = parts if order == "frame first" else parts[::-1]
    whole = sums_of_part(POLICIES, evaluators, whole)
    for name in evaluators:
        mine, theirs = (one.by_evaluator[name] for one in (sum(parts), whole))
        for policy in POLICIES:
            a, b = (one.summary(policy).estimate() for one in (mine, theirs))
            assert_allclose(a.value, b.value, rtol=1e-11)
            assert_allclose(a.standard_error, b.standard_error, rtol=1e-9)


@backends
def test_a_choice_among_loggers(frame_of):
    data = columns()
    which = {"loggers": True}
    evaluators, policies = {"it": LOGGERS["loggers"]}, {"it": "which logger"}
    found = frame_sums(policies, evaluators, lazy_of(frame_of, data, **which))
    logs = in_memory(data, roles(**which))
    expected = sums_of_part(policies, evaluators, logs)
    check_summary(
        *(one.by_evaluator["it"].summary("it") for one in (found, expected)), 1e-12
    )


@pytest.mark.thorough
def test_ibis():
    data, names = columns(), ("SNIPS", "DR", "LogSmoothing", "scavenging")
    some = {name: ONE_LOGGER[name] for name in names}
    found = frame_sums(POLICIES, some, lazy_of(ibis_frame, data, groups=True))
    logs = in_memory(data, roles(groups=True))
    check_same(found, sums_of_part(POLICIES, some, logs, n_total=len(logs)))


@backends
def test_only_logged_probabilities(frame_of):
    data = columns()
    policies = {"one": "one_logged", "two": "two_logged"}
    evaluators = {"IPS": IPS(), "SNIPS": SNIPS()}
    found = frame_sums(policies, evaluators, lazy_of(frame_of, data))
    logs = in_memory(data, roles())
    check_same(found, sums_of_part(policies, evaluators, logs, n_total=len(logs)))
    with pytest.raises(ValueError, match="DirectMethod needs the policy's probab"):
        frame_sums(policies, {"DM": DirectMethod(reward_model=0.5)}, found_lazy(data))


def found_lazy(data, **which):
    return lazy_of(polars_frame, data, **which)


@pytest.mark.few_cases(1)
@backends
def test_actions_that_were_never_logged(frame_of):
    data = columns()
    labels = np.array(["w", *"xyz"])
    keep = data["action"] != "y"
    data = {name: values[keep] for name, values in data.items()}
    data |= {f"{name}_3": np.zeros(keep.sum()) for name in ("one", "two", "q")}
    given = roles()
    for name in ("one", "two", "q"):
        # the column of w comes first, and takes half of what the policy gives to x
        if name != "q":
            data[f"{name}_3"] = data[f"{name}_0"] / 2
            data[f"{name}_0"] = data[f"{name}_0"] / 2
        given["columns"][name] = [f"{name}_{a}" for a in (3, 0, 1, 2)]
    lazy = scan_logs(frame_of(data), actions=labels, **given)
    found = frame_sums(POLICIES, ONE_LOGGER, lazy)
    logs = in_memory(data, given, actions=labels)
    expected = sums_of_part(POLICIES, ONE_LOGGER, logs, n_total=len(logs))
    check_same(found, expected)
    assert found.by_evaluator["IPS"].summary("one").missing_mass > 0.3


@backends
def test_rewards_far_from_zero_lose_no_digits(frame_of):
    data = columns(shift=1e6)
    evaluators = {"SNIPS": SNIPS(), "DR": DoublyRobust(reward_model=1e6)}
    found = frame_sums(POLICIES, evaluators, lazy_of(frame_of, data))
    logs = in_memory(data, roles())
    expected = sums_of_part(POLICIES, evaluators, logs, n_total=len(logs))
    for name in evaluators:
        a, b = (
            one.by_evaluator[name].summary("one").estimate()
            for one in (found, expected)
        )
        assert_allclose(a.value, b.value, rtol=1e-14)
        assert_allclose(a.standard_error, b.standard_error, rtol=1e-9)


@backends
def test_terms_that_are_all_equal_have_no_error(frame_of):
    data = columns()
    data["reward"] = np.full(len(data["p"]), 0.1)
    evaluators = {"SNIPS": SNIPS(), "DM": DirectMethod(reward_model=0.7)}
    found = frame_sums({"one": "one"}, evaluators, lazy_of(frame_of, data))
    snips, model = (found.by_evaluator[name].summary("one") for name in evaluators)
    assert_allclose(snips.estimate().value, 0.1, rtol=1e-14)
    assert_allclose(model.estimate().value, 0.7, rtol=1e-12)
    assert model.estimate().standard_error < 1e-15
    assert snips.estimate().standard_error < 1e-15
    logged = found.by_evaluator["SNIPS"].summary(LOGGER).estimate()
    assert (logged.value, logged.standard_error) == (0.1, 0.0)


@pytest.mark.few_cases(1)
@backends
def test_sums_by_the_labels_of_a_column(frame_of):
    data = columns()
    evaluators = {"SNIPS": SNIPS(), "DR": DoublyRobust(reward_model="q")}
    lazy = lazy_of(frame_of, data, groups=True)
    found = frame_sums(POLICIES, evaluators, lazy, by="day")
    logs = in_memory(data, roles(groups=True))
    assert list(found.by["day"]) == [0, 1, 2]
    for day, part in found.by["day"].items():
        some = logs[data["day"] == day]
        check_same(part, sums_of_part(POLICIES, evaluators, some, n_total=len(logs)))


def test_sums_by_a_name_of_several_columns_are_refused():
    lazy = found_lazy(columns(30))
    with pytest.raises(ValueError, match="by='q' names 3 columns"):
        frame_sums(LOGGED, {"IPS": IPS()}, lazy, by="q")
    found = frame_sums(LOGGED, {"IPS": IPS()}, lazy, by="action")
    assert list(found.by["action"]) == ["x", "y", "z"]


@pytest.mark.few_cases(1)
@backends
@pytest.mark.parametrize("texts", [False, True])
def test_more_groups_than_are_told_apart_are_hash_buckets(frame_of, texts):
    data = columns(shift=0.5)
    if texts:
        data["group"] = np.array([f"user {g}" for g in data["group"]])
    lazy = lazy_of(frame_of, data, groups=True)
    evaluators = {"SNIPS": SNIPS()}
    found = frame_sums(POLICIES, evaluators, lazy, n_groups=20, n_buckets=7)
    logs = in_memory(data, roles(groups=True))
    expected = sums_of_part(POLICIES, evaluators, logs, n_total=len(logs))
    sums = found.by_evaluator["SNIPS"].summary("one").sums
    exact = expected.by_evaluator["SNIPS"].summary("one").sums.bucketed(7)
    assert sums.frame.n_buckets == exact.frame.n_buckets == 7
    order = np.argsort(sums.frame.clusters[sums.frame.cell_cluster])
    totals = sums.about(exact.origin, exact.offset)[2][:, order]
    assert_allclose(totals, exact.about(exact.origin, exact.offset)[2], rtol=1e-10)
    assert_allclose(sums.frame.cell_count[order], exact.frame.cell_count)


@pytest.mark.few_cases(1)
@backends
def test_one_query_and_no_more_rows_than_groups(frame_of, monkeypatch):
    data, rows = columns(), []
    data["p"] = np.maximum(data["p"], 0.2)  # no weight is so large that it is bounded
    run = _frame_query.Asking.run

    def counted(asking, *args):
        answers = run(asking, *args)
        rows.append(len(answers))
        return answers

    monkeypatch.setattr(_frame_query.Asking, "run", counted)
    evaluators = {"IPS": IPS(), "SNIPS": SNIPS(), "DR": DoublyRobust(reward_model="q")}
    frame_sums(POLICIES, evaluators, lazy_of(frame_of, data))
    assert rows == [3, 1]  # actions are counted, then the sums
    rows.clear()
    frame_sums(POLICIES, evaluators, lazy_of(frame_of, data, groups=True))
    assert rows == [3, 1, len(np.unique(data["group"]))]


@pytest.fixture
def queries(monkeypatch):
    """A list that grows with every query that a lazy frame answers."""
    narwhals, found = pytest.importorskip("narwhals"), []
    collect = narwhals.LazyFrame.collect

    def counted(frame, *args, **kwargs):
        found.append(frame)
        return collect(frame, *args, **kwargs)

    monkeypatch.setattr(narwhals.LazyFrame, "collect", counted)
    return found


@pytest.mark.few_cases(4)
@backends
@pytest.mark.parametrize("groups", [False, True])
@pytest.mark.parametrize("log", ["plain", "far from zero", "one p per action"])
@pytest.mark.filterwarnings("ignore::skope_ope.exceptions.OPEWarning")
def test_evaluate_asks_for_first_rows_counts_and_sums(frame_of, log, groups, queries):
    data = columns(shift=1e6 if log == "far from zero" else 0.0)
    data["p"] = np.maximum(data["p"], 0.2)  # no weight is so large that it is bounded
    if log == "one p per action":
        data["p"] = np.where(data["action"] == "x", 0.2, 0.5)
    given = {"columns": {"pi": "one_logged"}, "context": ["one_0", "two_0"]}
    lazy = scan_logs(frame_of(data), **roles(groups=groups) | given)
    evaluate("pi", lazy, evaluators=["IPS", "SNIPS"])
    assert len(queries) == 3 + groups  # and the sums by group


@pytest.mark.few_cases(1)
@backends
@pytest.mark.parametrize("first", [0.0, 1e6])
@pytest.mark.filterwarnings("ignore::skope_ope.exceptions.OPEWarning")
def test_rewards_that_do_not_lie_where_the_first_ones_do(frame_of, first, monkeypatch):
    for module in (_pushdown, _frame_log):
        monkeypatch.setattr(module, "FIRST", 40)
    data = columns(shift=1e6 - first)
    data["reward"][:40] += first - (1e6 - first)
    evaluators = {"SNIPS": SNIPS(), "DR": DoublyRobust(reward_model=1e6)}
    logs = in_memory(data, roles())
    mine, theirs = (
        evaluate(POLICIES, one, evaluators=evaluators)
        for one in (lazy_of(frame_of, data), logs)
    )
    for name in theirs:
        pairs = [
            (
                one[name].value,
                one[name].standard_error,
                *one[name].confidence_interval(),
            )
            for one in (mine, theirs)
        ]
        assert_allclose(*pairs, rtol=1e-9)


@pytest.mark.few_cases(2)
@backends
@pytest.mark.parametrize("which", ["plain", "weighted groups"])
def test_the_log_behind_a_frame_is_known_as_that_in_memory(frame_of, which):
    which = {"groups": which != "plain", "weights": which != "plain"}
    data = columns()
    by_action = {"x": 0.2, "y": 0.5, "z": 0.3}
    data["p"] = np.array([by_action[action] for action in data["action"]])
    lazy = lazy_of(frame_of, data, **which)
    found = frame_sums(POLICIES, {"IPS": IPS()}, lazy).log
    logs = in_memory(data, roles(**which))
    expected = sums_of_part(POLICIES, {"IPS": IPS()}, logs).log
    for name in ("n", "n_logged", "n_rewarded", "reward_low", "reward_high"):
        assert getattr(found, name) == getattr(expected, name)
    for name in ("mass", "weight_low", "weight_high", "reward_sum", "propensity_low"):
        assert_allclose(getattr(found, name), getattr(expected, name), rtol=1e-12)
    assert found.n_groups == expected.n_groups
    assert_allclose(found._inverse_propensity_z, expected._inverse_propensity_z)
    assert_allclose(found._propensity_by_action, expected._propensity_by_action)
    assert_allclose(found._action_count_law, expected._action_count_law)
    assert found._action_counts.tolist() == expected._action_counts.tolist()
    assert found._says_yes_and_no


BAD = {
    "reward": [(None, "reward"), (np.nan, "reward"), (np.inf, "reward")],
    "p": [(v, "propensity must lie in") for v in (None, np.nan, 0.0, 1e-310, 1.5)],
    "one_logged": [(v, "policy 'one'") for v in (None, np.nan, -0.1, 1.1)],
    "weight": [(v, "sample_weight") for v in (None, np.nan, -1.0, np.inf)],
    "group": [(None, "group is missing"), (np.nan, "group is missing")],
    "action": [(None, "the action is missing")],
}
BAD_CASES = [(name, *case) for name, cases in BAD.items() for case in cases]


@pytest.mark.few_cases(10)
@backends
@pytest.mark.parametrize(("name", "value", "said"), BAD_CASES)
def test_bad_rows_are_counted_and_refused(frame_of, name, value, said):
    data = columns(60)
    data = {one: values.tolist() for one, values in data.items()}
    if name == "group":
        data[name] = [float(g) for g in data[name]]
    data[name][3] = data[name][50] = value
    lazy = lazy_of(frame_of, data, groups=True, weights=True)
    which = ""
    if name in ("reward", "p", "one_logged", "weight"):
        found = value is not None and np.isfinite(value)
        which = f", the least is {value:.9g}" if found else ", missing or not finite"
    with pytest.raises(ValueError, match=rf"{said}.*\(2 of 60 rows{which}\)"):
        frame_sums(LOGGED, {"SNIPS": SNIPS()}, lazy)


@pytest.mark.few_cases(2)
@pytest.mark.parametrize("name", ["reward", "p", "one_logged", "weight", "group"])
def test_statistics_of_files_do_not_hide_what_is_no_number(name, tmp_path):
    duckdb, pa = pytest.importorskip("duckdb"), pytest.importorskip("pyarrow")
    data = {one: values.tolist() for one, values in columns(60).items()}
    data[name] = [float(one) for one in data[name]]
    data[name][3] = data[name][50] = np.nan
    path = str(tmp_path / "log.parquet")
    pytest.importorskip("pyarrow.parquet").write_table(pa.table(data), path)
    said = r"\(2 of 60 rows.*\)\. Drop (or correct these rows|them only if)"
    lazy = scan_logs(duckdb.read_parquet(path), **roles(groups=True, weights=True))
    with pytest.raises(ValueError, match=said):
        frame_sums(LOGGED, {"IPS": IPS()}, lazy)
    if name != "one_logged":  # a policy, which describe() does not read
        with pytest.raises(ValueError, match=said):
            lazy.describe()


@pytest.mark.few_cases(1)
@backends
def test_bad_tables_are_counted_and_refused(frame_of):
    for column, value, said in (
        ("one_1", 0.9, "must be 0 or more and sum to 1"),
        ("one_1", None, "must be 0 or more and sum to 1"),
        ("q_2", np.nan, "model values must be finite"),
        ("q_2", None, "model values must be finite"),
    ):
        data = {one: values.tolist() for one, values in columns(60).items()}
        data[column][7] = value
        lazy = lazy_of(frame_of, data)
        with pytest.raises(ValueError, match=rf"{said} \(1 of 60 rows"):
            frame_sums({"one": "one"}, {"DR": DoublyRobust(reward_model="q")}, lazy)


@pytest.mark.few_cases(4)
@pytest.mark.parametrize("name", ["reward", "p", "one_1", "q_2"])
@pytest.mark.parametrize("evaluator", [DirectMethod, DoublyRobust, SwitchDR])
def test_nan_that_statistics_hide_in_tables(evaluator, name, tmp_path):
    duckdb, pa = pytest.importorskip("duckdb"), pytest.importorskip("pyarrow")
    data = {one: values.tolist() for one, values in columns(60).items()}
    data[name][7] = np.nan
    path = str(tmp_path / "log.parquet")
    pytest.importorskip("pyarrow.parquet").write_table(pa.table(data), path)
    lazy = scan_logs(duckdb.read_parquet(path), **roles())
    with pytest.raises(ValueError, match=r"\(1 of 60 rows"):
        frame_sums({"one": "one"}, {"it": evaluator(reward_model="q")}, lazy)


def test_numbers_so_large_that_sums_are_nan_are_no_bad_rows():
    duckdb, narwhals = pytest.importorskip("duckdb"), pytest.importorskip("narwhals")
    frame = duckdb.sql(
        "select (case when i % 2 then 1 else -1 end) * 1e200 as x from range(4) t(i)"
    )
    query = _frame_query.FrameQuery(narwhals.from_native(frame))
    found = query.number("x", "x")
    query.check_number(found, "x must be finite")
    asking = query.asking()
    square = asking.sum(found * (found * found))
    assert np.isnan(asking.run().of(square)).all()


@backends
def test_several_kinds_of_bad_rows_are_all_told(frame_of):
    data = {one: values.tolist() for one, values in columns(60).items()}
    data["reward"][1], data["p"][2], data["p"][3] = None, 0.0, np.nan
    with pytest.raises(ValueError, match=r"reward.*\(1 of 60.*; .*propens.*\(2 of"):
        frame_sums({"one": "one"}, {"IPS": IPS()}, lazy_of(frame_of, data))


@backends
def test_labels_that_are_not_among_the_actions(frame_of):
    lazy = scan_logs(frame_of(columns(60)), actions=np.array(["x", "y"]), **roles())
    with pytest.raises(ValueError, match="action 'z' is not among the 2 actions"):
        lazy.describe()
    with pytest.raises(ValueError, match="action 'z' is not among the 2 actions"):
        frame_sums(LOGGED, {"IPS": IPS()}, lazy)


@backends
def test_rewards_outside_their_range(frame_of):
    lazy = scan_logs(frame_of(columns(60)), reward_range=(0, 0.5), **roles())
    with pytest.raises(ValueError, match=r"reward_range=\(0, 0.5\)"):
        frame_sums(LOGGED, {"IPS": IPS()}, lazy)


@pytest.mark.few_cases(2)
@backends
@pytest.mark.parametrize("value", [None, np.nan, np.inf])
def test_what_is_no_number_is_not_said_to_lie_outside_the_range(frame_of, value):
    data = {one: values.tolist() for one, values in columns(60).items()}
    data["reward"][3] = value
    lazy = scan_logs(frame_of(data), reward_range=(0, 1), **roles())
    said = r"^column 'reward': reward must be a finite number \(1 of 60 rows, missing"
    with pytest.raises(ValueError, match=said):
        frame_sums(LOGGED, {"IPS": IPS()}, lazy)
    data["reward"][4] = 7.0
    lazy = scan_logs(frame_of(data), reward_range=(0, 1), **roles())
    with pytest.raises(ValueError, match=r"finite .*\(1 of 60.*; .*\(0, 1\) \(1 of 60"):
        frame_sums(LOGGED, {"IPS": IPS()}, lazy)


@backends
def test_log_smoothing_needs_rewards_that_are_not_negative(frame_of):
    data, evaluators = columns(60, shift=-1.0), {"it": LogSmoothing(lam=0.1)}
    with pytest.raises(ValueError, match="rewards that are not negative"):
        frame_sums(LOGGED, evaluators, lazy_of(frame_of, data))
    lazy = scan_logs(frame_of(data), reward_range=(-1, 0), **roles())
    found = frame_sums(LOGGED, evaluators, lazy)
    logs = in_memory(data, roles(), reward_range=(-1, 0))
    expected = sums_of_part(LOGGED, evaluators, logs)
    pair = (
        one.by_evaluator["it"].summary("one").estimate().value
        for one in (found, expected)
    )
    assert_allclose(*pair, rtol=1e-12)


@backends
def test_columns_of_other_types(frame_of):
    data = columns(60)
    expected = frame_sums(LOGGED, {"IPS": IPS()}, lazy_of(frame_of, data))
    other = dict(data, reward=data["reward"] > 0)
    other["p"] = [Decimal(float(p)).quantize(Decimal("1e-15")) for p in data["p"]]
    found = frame_sums(LOGGED, {"IPS": IPS()}, lazy_of(frame_of, other))
    values = (
        one.by_evaluator["IPS"].summary("one").estimate().value
        for one in (found, expected)
    )
    assert_allclose(*values, rtol=1e-12)
    other["reward"] = ["none"] * 60
    with pytest.raises(TypeError, match="column 'reward' must hold numbers"):
        frame_sums(LOGGED, {"IPS": IPS()}, lazy_of(frame_of, other))


def test_empty_frames_and_weights_of_zero():
    data = {name: values[:0] for name, values in columns(10).items()}
    with pytest.raises(ValueError, match="no rows"):
        frame_sums(LOGGED, {"IPS": IPS()}, found_lazy(data))
    data = columns(10)
    data["weight"] = np.zeros(10)
    with pytest.raises(ValueError, match=r"no round .* has a positive sample weight"):
        frame_sums(LOGGED, {"IPS": IPS()}, found_lazy(data, weights=True))


@pytest.mark.parametrize(
    ("policy", "evaluator", "error", "said"),
    [
        (UniformPolicy(), IPS(), TypeError, "Add it to the frame, or write"),
        ("one", DoublyRobust(), TypeError, "is None: the out-of-fold mean reward"),
        ("one", IPS(cmax="auto"), ValueError, "cmax='auto' is chosen from all rounds"),
        ("one", LogSmoothing(), ValueError, "Pass that number"),
        ("one", Replay(), (TypeError, ValueError), "Replay"),
        ("one", MRDR(), (TypeError, ValueError), "MRDR"),
    ],
)
def test_what_cannot_be_pushed_down_is_refused(policy, evaluator, error, said):
    with pytest.raises(error, match=said):
        frame_sums({"one": policy}, {"it": evaluator}, found_lazy(columns(30)))


@backends
def test_a_number_stands_for_all_propensities(frame_of):
    data = columns(60)
    given = dict(roles(), propensity=0.5)
    found = frame_sums(LOGGED, {"IPS": IPS()}, scan_logs(frame_of(data), **given))
    value = found.by_evaluator["IPS"].summary("one").estimate().value
    assert_allclose(value, np.mean(data["one_logged"] / 0.5 * data["reward"]))


@pytest.mark.few_cases(1)
@backends
@pytest.mark.filterwarnings("ignore::skope_ope.exceptions.OPEWarning")
@pytest.mark.parametrize("known", ["logging_proba", "propensity"])
def test_intervals_reach_as_far_as_what_the_logger_might_have_done(frame_of, known):
    """A frame took the largest logged weight where memory knows a larger one."""
    rng, n = np.random.default_rng(0), 400
    table = np.tile([0.98, 0.02], (n, 1))
    if known == "logging_proba":
        table[:, 1] = rng.uniform(0.01, 0.04, n)
        table[:, 0] = 1 - table[:, 1]
    action = (np.arange(n) % 40 == 0).astype(int)
    new = np.full((n, 2), 0.5)
    new[1:5] = [[0.01, 0.99]]
    data = {"action": action, "reward": (rng.random(n) < 0.3).astype(float)}
    data |= {"p": table[np.arange(n), action]}
    data |= {f"mu{a}": table[:, a] for a in (0, 1)}
    data |= {f"new{a}": new[:, a] for a in (0, 1)}
    several = ["mu0", "mu1"] if known == "logging_proba" else None
    lazy = scan_logs(
        frame_of(data),
        action="action",
        reward="reward",
        propensity="p",
        logging_proba=several,
        columns={"new": ["new0", "new1"]},
    )
    memory = BanditLogs(
        np.empty((n, 0)),
        action,
        data["reward"],
        data["p"],
        logging_proba=None if several is None else table,
    ).with_columns(new=new)
    pair = (evaluate("new", logs, evaluators=["IPS"])["IPS"] for logs in (lazy, memory))
    found, expected = (value.confidence_interval() for value in pair)
    assert found.max_weight >= expected.max_weight * (1 - 1e-12)
    assert found.max_weight_from == expected.max_weight_from != LARGEST_LOGGED
    assert found.low <= expected.low + 1e-12 and found.high >= expected.high - 1e-12


def test_a_frame_that_changes_while_it_is_read(monkeypatch):
    counts_of = _pushdown.counts_of

    def counted(*args):
        return replace(counts_of(*args), n_logged=29)

    monkeypatch.setattr(_pushdown, "counts_of", counted)
    with pytest.raises(RuntimeError, match="had 29 rows, and then 30: it changed"):
        frame_sums(LOGGED, {"IPS": IPS()}, found_lazy(columns(30)))


def test_slates_and_groups_of_several_columns_are_refused():
    frame, names = polars_frame(columns(30)), ["one_logged", "two_logged"]
    given = dict(roles(), group=["group", "day"])
    with pytest.raises(TypeError, match="group is labelled by several columns"):
        frame_sums(LOGGED, {"IPS": IPS()}, scan_logs(frame, **given))
    slates = scan_logs(frame, slate=names, reward="reward", n_candidates=3)
    with pytest.raises(TypeError, match="slates cannot be summed inside a lazy frame"):
        frame_sums(LOGGED, {"IPS": IPS()}, slates)


def test_balanced_loggers_need_their_probabilities():
    given = dict(roles(), logger="logger")
    lazy = scan_logs(polars_frame(columns(60)), **given)
    with pytest.raises(ValueError, match="logger_proba="):
        evaluators = {"it": MultiLoggerIPS(pooling="balanced")}
        frame_sums({"one": "one"}, evaluators, lazy)


def test_a_library_that_lacks_a_function_is_named(monkeypatch):
    def lacking(asking, keys):
        raise NotImplementedError("'log' is not implemented for: polars.")

    lazy = found_lazy(columns(30))
    monkeypatch.setattr(_frame_query.Asking, "_built", lacking)
    with pytest.raises(TypeError, match=r"polars cannot .*'log' is not .* parquet"):
        frame_sums({"one": "one"}, {"IPS": IPS()}, lazy)


@pytest.mark.few_cases(2)
@backends
@pytest.mark.parametrize("groups", [False, True])
@pytest.mark.filterwarnings("ignore::skope_ope.exceptions.OPEWarning")
def test_evaluate_says_of_lazy_frames_what_it_says_in_memory(frame_of, groups):
    data = columns()
    data["p"] = data["p"] ** 0.5  # too large: a reason to warn
    evaluators = ["IPS", "SNIPS"]
    found = evaluate(
        POLICIES, lazy_of(frame_of, data, groups=groups), evaluators=evaluators
    )
    logs = in_memory(data, roles(groups=groups))
    expected = evaluate(POLICIES, logs, evaluators=evaluators)
    assert (found.recommended, found.reason) == (expected.recommended, expected.reason)
    for name, value in expected.items():
        mine = found[name]
        assert_allclose(mine.value, value.value, rtol=1e-12)
        assert_allclose(mine.standard_error, value.standard_error, rtol=1e-12)
        assert_allclose(mine.effective_sample_size, value.effective_sample_size)
        assert value.warnings
        texts = [
            {str(w) for w in one.warnings if "skewness" not in str(w)}
            for one in (mine, value)
        ]
        assert texts[0] == texts[1]


@pytest.mark.few_cases(1)
@pytest.mark.parametrize("make", [polars_frame, duckdb_frame])
@pytest.mark.parametrize("spread", [1.0, 1e-3])
def test_rewards_far_from_the_model_keep_their_spread(make, spread):
    rng = np.random.default_rng(0)
    n = 1000
    action, pi = rng.integers(0, 2, n), rng.uniform(0.1, 0.9, n)
    data = {"a": action, "r": 1e6 + spread * rng.normal(size=n), "p": np.full(n, 0.5)}
    data["pi"] = np.where(action == 1, pi, 1 - pi)
    named = {"action": "a", "reward": "r", "propensity": "p"}
    frame = {**data, "new_0": 1 - pi, "new_1": pi}
    lazy = scan_logs(make(frame), **named, columns={"new": ["new_0", "new_1"]})
    logs = BanditLogs(np.zeros((n, 0)), data["a"], data["r"], data["p"])
    policy = np.stack([1 - pi, pi], axis=1)
    evaluators = {"SNDR": SNDR(reward_model=0.3), "SNIPS": SNIPS()}
    found = evaluate("new", lazy, evaluators=evaluators)
    exact = evaluate(policy, logs, evaluators=evaluators)
    for name in evaluators:  # of a number the model changes nothing
        assert_allclose(found[name].value, exact["SNIPS"].value, rtol=1e-14)
        error = exact["SNIPS"].standard_error
        for one in (found[name], exact[name]):
            assert_allclose(one.standard_error, error, rtol=1e-10 / spread)


@pytest.mark.parametrize("make", [polars_frame, duckdb_frame])
def test_a_list_of_one_column_is_a_table_of_one_action(make):
    frame = {"a": ["x"] * 8, "r": [0.0, 1.0] * 4, "p": [1.0] * 8, "new_0": [1.0] * 8}
    named = {"action": "a", "reward": "r", "propensity": "p"}
    lazy = scan_logs(make(frame), **named, columns={"new": ["new_0"], "pi": "new_0"})
    evaluators = {"DR": DoublyRobust(reward_model=0.3)}
    found = evaluate("new", lazy, evaluators=evaluators)["DR"]
    assert_allclose(found.value, 0.5, rtol=1e-12)
    with pytest.raises(ValueError, match="all actions"):
        evaluate("pi", lazy, evaluators=evaluators)


@pytest.mark.parametrize("make", [polars_frame, duckdb_frame])
def test_actions_that_are_moments_in_a_time_zone(make):
    pa = pytest.importorskip("pyarrow")
    moments = np.array(["2026-01-01T23", "2026-01-02T00"], "datetime64[us]")[[0, 1] * 4]
    frame = {"r": [0.0, 1.0] * 4, "p": [0.5] * 8, "one": [0.8] * 8, "two": [0.2] * 8}
    table = pa.table(frame).append_column(
        "a", pa.array(moments).cast(pa.timestamp("us", "Europe/Berlin"))
    )
    data = pytest.importorskip("polars").from_arrow(table)
    data = data.lazy() if make is polars_frame else None
    data = pytest.importorskip("duckdb").from_arrow(table) if data is None else data
    named = {"action": "a", "reward": "r", "propensity": "p"}
    lazy = scan_logs(data, **named, columns={"new": ["one", "two"]})
    found = evaluate("new", lazy, evaluators=["IPS"])["IPS"]
    assert_allclose(found.value, 0.2, rtol=1e-12)
