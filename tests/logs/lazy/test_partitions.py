# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause

import os
import pickle

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from skope_ope import BanditLogs, SlateLogs, UniformPolicy, evaluate, scan_logs
from skope_ope.logs.lazy import _file_parts, _partitions
from skope_ope.logs.lazy._partitions import read_partitions
from tests.logs import _worlds

pytestmark = pytest.mark.frames
pd = pytest.importorskip("pandas")
pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")
nw = pytest.importorskip("narwhals")

N = 60
READ = {"action": "item", "reward": "click"}
ALL = list("abc")
NAMES = READ | {
    "propensity": "p",
    "context": ["age", "city"],
    "group": "user",
    "logger": "server",
    "timestamp": "t",
    "sample_weight": "w",
    "logging_proba": ["mu_a", "mu_b", "mu_c"],
    "logger_proba": ["l_x", "l_y"],
    "columns": ["pi", "city"],
    "reward_range": (0, 1),
}


def table(n=N, seed=0):
    rng = np.random.default_rng(seed)
    item, server = rng.choice(ALL, n), rng.choice(["x", "y"], n)
    mu = rng.dirichlet([2, 2, 2], n)
    p = mu[np.arange(n), np.searchsorted(ALL, item)]
    columns = {"item": item, "click": rng.integers(0, 2, n), "p": p, "server": server}
    columns |= {f"mu_{a}": mu[:, k] for k, a in enumerate(ALL)}
    columns |= {f"l_{one}": np.where(server == one, p, 0.1) for one in "xy"}
    columns["age"] = rng.integers(18, 80, n)
    columns["city"] = pa.array(rng.choice(["Paris", "Rome"], n)).dictionary_encode()
    columns["user"] = rng.choice([f"u{k}" for k in range(9)], n)
    columns["t"] = np.datetime64("2026-01-01", "ms") + np.arange(n)
    columns |= {"w": rng.random(n) + 0.5, "pi": rng.random(n)}
    return pa.table(columns)


def written(path, data, size=None):
    """Write a file in row groups; return its path."""
    pq.write_table(data, path, row_group_size=size)
    return path


def assert_same_rows(part, logs, whole):
    """The logs of a partition are those rows of logs built in memory."""
    rows = whole[part.start : part.start + len(logs)]
    assert_same_fields(logs, rows)
    assert_array_equal(logs.row_id.position, rows.row_id.position)


def as_pandas(context):
    frame = context if hasattr(context, "iloc") else context.to_pandas()
    return frame.reset_index(drop=True)


def assert_same_fields(logs, rows):
    _worlds.assert_same_fields(logs, rows, "context")
    for name in {*rows._row_fields} - {"context", "_group_code"}:
        mine, own = (np.asarray(getattr(one, name)).dtype for one in (logs, rows))
        assert mine == own, name
    for name, values in rows.columns.items():
        assert logs.columns[name].dtype == values.dtype
    if rows.n_features:
        expected = as_pandas(rows.context)
        pd.testing.assert_frame_equal(logs.context, expected, check_categorical=False)
    for name in ("actions", "loggers"):
        if hasattr(rows, name):
            assert_array_equal(getattr(logs, name), getattr(rows, name))


def test_partitions_have_the_fields_of_logs_in_memory(tmp_path):
    data = table()
    written(tmp_path / "1.parquet", data.slice(0, 40), 15)
    written(tmp_path / "2.parquet", data.slice(40))
    whole = BanditLogs.from_frame(data, **NAMES)
    lazy = scan_logs(tmp_path, **NAMES)
    assert [part.n_rounds for part in lazy.partitions] == [15, 15, 10, 20]
    assert [part.start for part in lazy.partitions] == [0, 15, 30, 40]
    assert lazy.actions is None
    lazy = lazy.labelled()
    for part, logs in lazy.read():
        assert_same_rows(part, logs, whole)
        assert logs.row_id.origin == lazy._origin
        assert logs.reward_range == (0, 1)
    for part, logs in read_partitions(lazy.partitions[::-1]):  # alone, and in turn
        assert_same_fields(logs, part.read())
        assert_same_fields(logs, pickle.loads(pickle.dumps(part)).read())
        for values in (logs.reward, logs.action, logs.group, logs.columns["pi"]):
            with pytest.raises(ValueError, match="read-only"):
                values[0] = values[1]


def test_large_row_groups_are_read_in_stretches(tmp_path, monkeypatch):
    data = table()
    written(tmp_path / "log.parquet", data, 50)
    monkeypatch.setattr(_file_parts, "ROUNDS_OF_STRETCH", 10)
    monkeypatch.setattr(_partitions, "ROUNDS_OF_STRETCH", 7)
    whole = BanditLogs.from_frame(data, **NAMES)
    lazy = scan_logs(tmp_path, **NAMES).labelled()
    parts = lazy.partitions
    assert [part.n_rounds for part in parts] == [10] * 6
    assert parts[1].name == "log.parquet, row group 0, rows 10 to 19"
    assert parts[5].name == "log.parquet, row group 1"
    assert len({part.key for part in parts}) == 6
    in_any_order = [(parts[k], parts[k].read()) for k in (3, 1, 5, 0, 2)]
    some = read_partitions([parts[k] for k in (0, 2, 4)])
    for part, logs in (*lazy.read(), *in_any_order, *some):
        assert_same_rows(part, logs, whole)


def test_files_of_datasets_are_read_in_stretches(tmp_path, monkeypatch):
    ds = pytest.importorskip("pyarrow.dataset")
    monkeypatch.setattr(_file_parts, "ROUNDS_OF_STRETCH", 20)
    ds.write_dataset(table(90), tmp_path, format="ipc")
    lazy = scan_logs(ds.dataset(tmp_path, format="ipc"), **READ)
    reward = table(90)["click"].to_numpy()
    assert [part.n_rounds for part in lazy.partitions] == [22, 23, 22, 23]
    assert "rows 22 to 44" in lazy.partitions[1].name
    read = [logs.reward for _, logs in lazy.read()]
    assert_array_equal(np.concatenate(read), reward)
    assert_array_equal(lazy.partitions[2].read().reward, reward[45:67])
    assert_array_equal(lazy.head(30).reward, reward[:30])


def test_actions_groups_and_lists_of_one_column(tmp_path):
    data = pa.table({"a": [7, 3, 3, 9], "r": [0.0, 1, 2, 3]})
    path = written(tmp_path / "log.parquet", data, 2)
    lazy = scan_logs(path, action="a", reward="r").labelled()
    assert_array_equal(lazy.actions, [3, 7, 9])
    codes = [logs.action_index.tolist() for _, logs in lazy.read()]
    assert codes == [[1, 0], [0, 2]]
    stated = scan_logs(path, action="a", reward="r", actions=[9, 7, 3, 1])
    assert [logs.action_index.tolist() for _, logs in stated.read()] == [[1, 2], [2, 0]]
    assert stated.labelled() is stated
    # a group of several columns and one propensity
    data = {"a": [0, 1, 0], "r": [0.0, 1, 1], "u": [1, 1, 2], "v": list("xyx")}
    path = written(tmp_path / "log.parquet", pa.table(data))
    roles = {"action": "a", "reward": "r", "propensity": 1 / 3}
    logs = scan_logs(path, **roles, group=["u", "v"]).partitions[0].read()
    assert logs.group.tolist() == [(1, "x"), (1, "y"), (2, "x")]
    assert logs.propensity.tolist() == [1 / 3] * 3
    # a day with one logger, or slates of one slot: it was refused as no table
    data = {"a": [0, 1, 0], "r": [0, 1, 1], "l": list("xxx"), "under_x": [0.5] * 3}
    path = written(tmp_path / "day.parquet", pa.table(data), 2)
    roles = {"logger": "l", "logger_proba": ["under_x"]}
    lazy = scan_logs(path, action="a", reward="r", **roles)
    assert lazy.head(3).logger_proba.shape == (3, 1)
    slates = scan_logs(path, slate=["a"], slot_reward=["r"], n_candidates=2)
    assert_array_equal(slates.head(3).slate, [[0], [1], [0]])
    assert_array_equal(slates.head(3).reward, data["r"])


def test_whole_numbers_of_several_widths_are_one_type(tmp_path):
    for kind in ("int32", "int64", "uint8"):
        data = pa.table({name: pa.array([1, 2], type=kind) for name in "ar"})
        pq.write_table(data, tmp_path / f"{kind}.parquet")
    lazy = scan_logs(tmp_path, action="a", reward="r")
    assert {logs.action.dtype for _, logs in lazy.read()} == {np.dtype("int64")}


def test_columns_of_lists_and_dicts_of_columns(tmp_path):
    pi = np.random.default_rng(0).random((12, 3))
    data = {"a": np.arange(12) % 3, "r": np.ones(12), "x": pi[:, 0], "y": pi[:, 1]}
    data["fixed"] = pa.FixedSizeListArray.from_arrays(pa.array(pi.ravel()), 3)
    data["lists"] = pa.array(pi.tolist())
    path = written(tmp_path / "log.parquet", pa.table(data), 5)
    columns = {"f": "fixed", "l": "lists", "xy": ["x", "y"], "one": ["y"], "z": "x"}
    wanted = {"f": pi, "l": pi, "xy": pi[:, :2], "one": pi[:, 1:2], "z": pi[:, 0]}
    for part, logs in scan_logs(path, action="a", reward="r", columns=columns).read():
        rows = slice(part.start, part.start + part.n_rounds)
        for name, values in wanted.items():
            assert_array_equal(logs.columns[name], values[rows])


def test_slates_from_columns_and_from_lists(tmp_path):
    n, rng = 20, np.random.default_rng(1)
    slate = np.argsort(rng.random((n, 4)), axis=1)[:, :2]
    clicks = rng.integers(0, 2, (n, 2)).astype(float)
    data = {"s0": slate[:, 0], "s1": slate[:, 1], "slate": pa.array(slate.tolist())}
    data |= {"c0": clicks[:, 0], "c1": clicks[:, 1], "p": np.full(n, 0.25)}
    data |= {"u": np.arange(n) % 3, "w": rng.random(n), "x": rng.random(n)}
    path = written(tmp_path / "log.parquet", pa.table(data), 8)
    fields = {"slot_reward": clicks, "propensity": data["p"], "group": data["u"]}
    whole = SlateLogs(pa.table({"x": data["x"]}), slate, n_candidates=4, **fields)
    whole = whole.with_columns(sample_weight=data["w"])
    roles = {"slot_reward": ["c0", "c1"], "propensity": "p", "group": "u"}
    roles |= {"sample_weight": "w", "context": ["x"]}
    for lazy in (
        scan_logs(path, slate=["s0", "s1"], n_candidates=4, **roles),
        scan_logs(path, slate="slate", **roles).labelled(),
    ):
        assert lazy._log_type is SlateLogs
        for part, logs in lazy.read():
            assert logs.n_candidates == 4
            assert_same_rows(part, logs, whole)


def test_empty_row_groups_and_files(tmp_path):
    data = table()
    written(tmp_path / "0.parquet", data.slice(0, 0))
    written(tmp_path / "1.parquet", data)
    with pq.ParquetWriter(tmp_path / "2.parquet", data.schema) as writer:
        writer.write_table(data.slice(0, 0))
        writer.write_table(data.slice(0, 10))
    lazy = scan_logs(tmp_path, **NAMES).labelled()
    read = [None if logs is None else len(logs) for _, logs in lazy.read()]
    assert [size for size in read if size] == [N, 10]
    assert None in read
    assert len(lazy) == N + 10


# -- errors name file, row group and row ---------------------------------------------
def one_bad(tmp_path, change, **names):
    """Scan a file of two row groups, the second of which is bad at row 3."""
    data = table()
    bad = change(data.slice(30))
    with pq.ParquetWriter(tmp_path / "log.parquet", bad.schema) as writer:
        writer.write_table(data.slice(0, 30).cast(bad.schema))
        writer.write_table(bad)
    return scan_logs(tmp_path, **READ, **names)


def with_value(name, value):
    def change(data):
        values = data[name].to_pylist()
        values[3] = value
        at = data.schema.get_field_index(name)
        return data.set_column(at, name, pa.array(values))

    return change


@pytest.mark.parametrize(
    ("name", "value", "names", "message"),
    [
        ("click", float("nan"), {}, "reward must be finite, got nan at row 3"),
        ("click", None, {}, "column 'click' has a missing value at row 3"),
        ("item", None, {}, "column 'item' has a missing value at row 3"),
        ("item", "d", {"actions": list("abc")}, "action 'd' at row 3 is not among"),
        ("p", 0.0, {"propensity": "p"}, "propensity must lie in .* at row 3"),
        ("p", 1.5, {"propensity": "p"}, "propensity must lie in .* at row 3"),
        ("w", -1.0, {"sample_weight": "w"}, "sample_weight .* at row 3"),
        ("user", None, {"group": "user"}, "column 'user' has a missing value at row 3"),
        ("pi", None, {"columns": ["pi"]}, "column 'pi' has a missing value at row 3"),
        ("click", 7, {"reward_range": (0, 1)}, "reward 7 at row 3 lies outside"),
    ],
)
def test_bad_rows_are_named(tmp_path, name, value, names, message):
    lazy = one_bad(tmp_path, with_value(name, value), **names)
    first, second = lazy.partitions
    assert len(first.read()) == 30
    with pytest.raises(ValueError, match=f"^log.parquet, row group 1: {message}"):
        second.read()


def test_bad_rows_of_a_stretch_and_of_a_filter_have_their_own_number(
    tmp_path, monkeypatch
):
    monkeypatch.setattr(_file_parts, "ROUNDS_OF_STRETCH", 10)
    data = with_value("p", 0.0)(table().slice(20))  # row 3 of the stretch, 23 of all
    data = pa.concat_tables([table().slice(0, 20), data])
    lazy = scan_logs(written(tmp_path / "log.parquet", data), **READ, propensity="p")
    later = lazy.filter(lambda frame: frame["t"] >= data["t"][22].as_py())
    for some in (lazy, later):
        with pytest.raises(ValueError, match=r"group 0, rows 20 to 29: .* at row 23"):
            some.partitions[2].read()


def test_files_that_changed_since_the_scan(tmp_path):
    path = written(tmp_path / "log.parquet", table())
    part = scan_logs(path, **READ).partitions[0]
    written(path, table(30))
    with pytest.raises(ValueError, match=r"row group 0 cannot be read: .*Scan it"):
        part.read()
    written(path, table().drop_columns(["click"]))
    with pytest.raises(ValueError, match="column 'click' is gone since the scan"):
        part.read()
    os.remove(path)
    with pytest.raises(FileNotFoundError, match=r"log.parquet, row group 0: the file"):
        part.read()
    # a corrupt row group is named and the others are read
    path = tmp_path / "log.parquet"
    pq.write_table(table(), path, row_group_size=20, compression="snappy")
    column = pq.ParquetFile(path).metadata.row_group(1).column(0)
    start = column.dictionary_page_offset or column.data_page_offset
    size, data = column.total_compressed_size, bytearray(path.read_bytes())
    data[start : start + size] = b"\xff" * size
    path.write_bytes(data)
    parts = scan_logs(path, **READ, actions=ALL).partitions
    assert len(parts[0].read()) == len(parts[2].read()) == 20
    for call in (parts[1].read, scan_logs(path, **READ).labelled):
        with pytest.raises(ValueError, match=r"^log.parquet, row group 1 cannot be re"):
            call()
    # row groups that change places are refused
    path, data = tmp_path / "day.parquet", table()
    for groups in (((0, 20), (20, 30)), ((20, 30), (0, 20))):
        with pq.ParquetWriter(path, data.schema) as writer:
            for low, high in groups:
                writer.write_table(data.slice(low, high - low))
        if groups[0][0] == 0:
            lazy = scan_logs(path, **READ, propensity="p")
            assert sum(len(logs) for _, logs in lazy.read()) == 30
    with pytest.raises(ValueError, match=r"row group 0.*changed since it was"):
        evaluate(UniformPolicy(), lazy, evaluators=["IPS"])


def test_errors_of_policies_name_their_own_partition(tmp_path):
    class FailsInOneRound:
        def logs_proba(self, logs):
            if 27 in logs.row_id.position:
                raise RuntimeError("no such row")
            return np.full((len(logs), logs.n_actions), 1 / logs.n_actions)

    path = written(tmp_path / "log.parquet", table(), 20)
    lazy = scan_logs(path, **READ, propensity=0.5, actions=ALL)
    with pytest.raises(RuntimeError, match=r"^log.parquet, row group 1: no such row"):
        evaluate(FailsInOneRound(), lazy, evaluators=["IPS"])


@pytest.mark.filterwarnings("ignore::skope_ope.exceptions.OPEWarning")
def test_small_partitions_are_read_together(tmp_path):
    data = table()
    for k, (low, size) in enumerate([(0, 30), (30, 5), (35, 25)]):
        path = tmp_path / f"{k}.parquet"
        pq.write_table(data.slice(low, size), path, row_group_size=1)
    names = {**NAMES, "columns": ["pi"]}
    lazy = scan_logs(tmp_path, **names).labelled()
    whole, seen, sizes = BanditLogs.from_frame(data, **names), [], []

    class Notes:
        def logs_proba(self, logs):
            rows = whole[logs.row_id.position]
            for name in ("action", "action_index", "reward", "logger", "group"):
                assert_array_equal(getattr(logs, name), getattr(rows, name))
            assert logs.context["city"].tolist() == rows.context["city"].to_pylist()
            sizes.append(len(logs))
            seen.extend(logs.row_id.position.tolist())
            return np.full((len(logs), 3), 1 / 3)

    evaluate(Notes(), lazy, evaluators=["IPS"])
    assert sorted({*seen}) == list(range(N))
    assert max(sizes) > 1
    kept = lazy.filter(nw.col("pi") > 0.5)
    seen.clear()
    evaluate(Notes(), kept, evaluators=["IPS"])
    assert sorted({*seen}) == np.flatnonzero(whole.columns["pi"] > 0.5).tolist()


# -- csv -------------------------------------------------------------------------------


def test_csv_types_and_errors(tmp_path, monkeypatch):
    monkeypatch.setattr(_file_parts, "PART_BYTES", 16)
    monkeypatch.setattr(_file_parts, "GUESS", 20)
    (tmp_path / "log.csv").write_text("a,r,x\n1,0,1\n2,1,2\n1,0.5,2.5\n2,1,3\n")
    lazy = scan_logs(tmp_path / "log.csv", action="a", reward="r", context=["x"])
    read = [logs for _, logs in lazy.read() if logs is not None]
    assert len(read) > 1
    assert {str(logs.context["x"].dtype) for logs in read} == {"float64"}
    assert {logs.action.dtype for logs in read} == {np.dtype("int64")}
    # csv errors name file and block
    monkeypatch.setattr(_file_parts, "PART_BYTES", 16)
    monkeypatch.setattr(_file_parts, "GUESS", 20)
    path = tmp_path / "log.csv"
    path.write_text("a,r,p\n1,0,.5\n2,1,.5\n1,1,.5\n1,x,.5\n2,1,0\n")
    lazy = scan_logs(path, action="a", reward="r", propensity="p", actions=[1, 2])
    block = r"^log.csv, block \d: "
    with pytest.raises(ValueError, match=f"{block}.* 'r' is 'x' at line 5, exp"):
        list(lazy.read())
    last = lazy.partitions[-1]
    with pytest.raises(ValueError, match=f"{block}propensity .* at line 6"):
        last.read()
    path.write_text("a,r,p\n1,0,.5\n")
    with pytest.raises(ValueError, match=r"cannot be read: .*Scan it again"):
        last.read()
    path.write_text("a\tr\n1\t0\n")
    with pytest.raises(ValueError, match=r"log.csv: its columns .* separated .* comma"):
        scan_logs(path, action="a", reward="r")
    # csv rewards may be true or false
    (tmp_path / "log.csv").write_text("a,r\n1,True\n2,False\n2,true\n")
    logs = scan_logs(tmp_path, action="a", reward="r").head()
    assert_array_equal(logs.reward, [1, 0, 1])


def test_csv_labels_that_would_collide_as_numbers_are_texts_in_all_files(tmp_path):
    labels, others = [f"{10**19}", f"{10**19 + 1}"], ["12", "1"]
    for k, (one, other) in enumerate((labels, others)):
        text = f"a,u,r\n{one},{one},1\n{other},{other},0\n"
        (tmp_path / f"{k}.csv").write_text(text)
    logs = scan_logs(tmp_path, action="a", reward="r", group="u").head(4)
    assert_array_equal(logs.action, labels + others)
    assert_array_equal(logs.group, labels + others)
    assert logs.n_groups == 4
