# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause

import os
import pickle
from importlib.util import find_spec
from types import SimpleNamespace

import numpy as np
import pytest
from joblib import parallel_config
from numpy.testing import assert_array_equal
from sklearn.model_selection import train_test_split

from skope_ope import BanditLogs, scan_logs

pytestmark = pytest.mark.frames
pd = pytest.importorskip("pandas")
pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")
nw = pytest.importorskip("narwhals")
ds = pytest.importorskip("pyarrow.dataset")

ROLES = {"action": "item", "reward": "click"}
NAMES = {**ROLES, "propensity": "p", "group": "user"}
DAYS = ["2026-01-01", "2026-01-02", "2026-01-10"]
N = 90


def frame(n=N, seed=0):
    rng = np.random.default_rng(seed)
    columns = {"item": rng.choice(list("abc"), n), "click": rng.integers(0, 2, n)}
    columns |= {"p": np.full(n, 1 / 3), "user": rng.integers(0, 7, n)}
    columns |= {"age": rng.integers(18, 80, n), "pi": rng.random(n)}
    return pa.table(columns | {"server": rng.choice(["x", "y"], n)})


AGE = frame()["age"].to_numpy()


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Three days of 20, 30 and 40 rounds, in row groups of 15."""
    folder, data = tmp_path_factory.mktemp("log"), frame()
    for day, low, size in ((1, 0, 20), (2, 20, 30), (10, 50, 40)):
        below = folder / f"day=2026-01-{day:02}"
        below.mkdir()
        pq.write_table(data.slice(low, size), below / "log.parquet", row_group_size=15)
    return folder


def scanned(source, **more):
    return scan_logs(source, **NAMES, **more)


def in_memory(**more):
    return BanditLogs.from_frame(frame(), **{"context": [], **NAMES, **more})


def test_the_kind_of_labels_is_known_before_they_are_read(tmp_path):
    data = frame(6).append_column("hour", pa.array(range(6), pa.timestamp("s")))
    data = data.append_column("beta", pa.array([True, False] * 3))
    pq.write_table(data, tmp_path / "log.parquet")
    sources = [str(tmp_path), nw.from_native(data).lazy("polars")]
    sources.append(nw.from_native(data).lazy("duckdb").to_native())
    known = {"user": "numbers", "item": "texts", "hour": "times", "beta": "bools"}
    for source in sources:
        several = (["user", "item"], "numbers, texts"), (None, "")
        for group, kind in (*known.items(), *several):
            lazy = scan_logs(source, **ROLES, group=group)
            assert lazy._label_kind("group") == kind


def rewards(lazy):
    return np.concatenate([logs.reward for _, logs in lazy.read()])


# -- sources -----------------------------------------------------------------------
def test_a_source_has_many_spellings(folder, monkeypatch):
    files = sorted(folder.glob("*/*.parquet"))
    monkeypatch.chdir(folder)
    sources = [folder, str(folder), f"{folder}/*/*.parquet", f"{folder}/day=*"]
    sources += [f"{folder}/**/*.parquet", files, tuple(map(str, files)), iter(files)]
    scans = [
        scanned(one) for one in (*sources, ".", "*/log.parquet", f"file://{folder}")
    ]
    for lazy in scans:
        assert len(lazy) == N
        assert_array_equal(rewards(lazy), in_memory().reward)
    # so positions are those of the same rounds
    assert len({lazy._origin for lazy in scans}) == 1


def test_nothing_is_read_that_was_not_named(folder):
    logs = scanned(folder).partitions[0].read()
    assert (logs.n_features, logs.columns) == (0, {})
    lazy = scanned(folder, context=["age"], columns=["pi", "server"])
    assert lazy.partitions[0].read().n_features == 1
    less = lazy._needing(context=False, columns=["pi"])
    logs = less.partitions[0].read()
    assert (logs.n_features, [*logs.columns]) == (0, ["pi"])
    assert less._origin == lazy._origin
    with pytest.raises(ValueError, match="'age' is not among the columns"):
        lazy._needing(columns=["age"])
    lazy = scanned(folder, exclude=["pi", "server", "day"])
    assert lazy.roles["context"] == ("age",)
    with pytest.raises(ValueError, match="'nope' of exclude is not there"):
        scanned(folder, exclude=["nope"])
    with pytest.raises(ValueError, match="both given"):
        scanned(folder, exclude=["pi"], context=["age"])


def test_folders_are_columns(folder):
    roles = {"action": "day", "reward": "click", "group": "day", "timestamp": "day"}
    for source in (folder, ds.dataset(folder, partitioning="hive")):
        lazy = scan_logs(source, **roles, columns=["day"]).labelled()
        assert_array_equal(lazy.actions, DAYS)
        read = [logs for _, logs in lazy.read()]
        codes = np.concatenate([logs.action_index for logs in read])
        assert_array_equal(codes[:21], [*[0] * 20, 1])
        assert read[-1].timestamp[0] == np.datetime64("2026-01-10")
        assert read[0].columns["day"][0] == "2026-01-01"
        logs = lazy.sample(N)
        assert_array_equal(logs.action, np.repeat(DAYS, [20, 30, 40]))
        assert_array_equal(logs.group, logs.action)
        assert lazy.describe().action_counts.tolist() == [20, 30, 40]


def test_whole_numbers_of_folders(tmp_path):
    def write(hour):
        (tmp_path / f"hour={hour}").mkdir()
        pq.write_table(frame(5), tmp_path / f"hour={hour}/x.parquet")

    for hour in (9, 10, -1):
        write(hour)
    roles = {"action": "hour", "reward": "click"}
    assert_array_equal(scan_logs(tmp_path, **roles).labelled().actions, [-1, 9, 10])
    write("__HIVE_DEFAULT_PARTITION__")
    lazy = scan_logs(tmp_path, **roles, actions=[-1, 9, 10])
    with pytest.raises(ValueError, match="column 'hour' has a missing value at row 0"):
        list(lazy.read())
    assert len(scan_logs(tmp_path, **ROLES)) == 20


def test_folders_that_tell_different_columns(tmp_path):
    for name in ("day=1", "hour=2"):
        (tmp_path / name).mkdir()
        pq.write_table(frame(5), tmp_path / name / "x.parquet")
    assert len(scanned(tmp_path)) == 10
    with pytest.raises(ValueError, match=r"column 'day' is not in day=1/x.parquet"):
        scanned(tmp_path, columns=["day"])


@pytest.mark.parametrize("format", ["parquet", "ipc", "csv"])
def test_datasets(tmp_path, format):
    data = frame().append_column("day", pa.array(np.repeat([1, 2, 3], 30)))
    hive = ds.partitioning(pa.schema([("day", pa.int64())]), flavor="hive")
    ds.write_dataset(data, tmp_path, format=format, partitioning=hive)
    dataset = ds.dataset(tmp_path, format=format, partitioning=hive)
    lazy = scanned(dataset, columns=["day"])
    assert len(lazy) == N
    assert_array_equal(rewards(lazy), in_memory().reward)
    last = lazy.partitions[-1]
    assert set(last.read().columns["day"]) == {3}
    assert last.start + last.n_rounds == N
    assert len(scanned(dataset).filter(nw.col("day") < 3)) == 60
    assert pickle.loads(pickle.dumps(last)).read().reward.tolist()


def test_datasets_of_row_groups_and_those_refused(folder):
    dataset = ds.dataset(folder, partitioning="hive")
    parts = [
        part for file in dataset.get_fragments() for part in file.split_by_row_group()
    ]

    def of(parts):
        given = dataset.schema, dataset.format, dataset.filesystem
        return scanned(ds.FileSystemDataset(parts, *given))

    keys = [part.key for part in scanned(folder).partitions]
    with pytest.raises(ValueError, match="listed twice"):
        of(parts)
    assert [part.key for part in of(parts[1:3]).partitions] == keys[1:3]
    with pytest.raises(TypeError, match="in memory already"):
        scanned(ds.dataset(frame()))
    with pytest.raises(ValueError, match=r"cannot be listed.*filter"):
        scanned(dataset.filter(ds.field("click") > 0))


def test_remote_files(folder):
    fsspec = pytest.importorskip("fsspec")
    memory = fsspec.filesystem("memory")
    for path in folder.glob("*/*.parquet"):
        with memory.open(f"/bucket/{path.parent.name}/log.parquet", "wb") as file:
            file.write(path.read_bytes())
    try:
        for uri in ("memory://bucket", "memory://bucket/day=*/*.parquet"):
            lazy = scanned(uri, columns=["day"])
            assert_array_equal(rewards(lazy), in_memory().reward)
            assert lazy.partitions[0].key[0].startswith("memory://")
        for uri in ("memory://nowhere", "memory://bucket/*.csv"):
            with pytest.raises(FileNotFoundError, match=r"no (file|log file)"):
                scanned(uri)
    finally:
        memory.rm("/bucket", recursive=True)


@pytest.mark.parametrize("scheme", ["nosuch", "nosuch2", "hf"])
def test_remote_files_without_their_package(scheme):
    if scheme == "hf" and find_spec("huggingface_hub"):
        pytest.skip("it is there")
    with pytest.raises(ImportError, match=f"{scheme}://b/x cannot be opened: .*needs"):
        scanned(f"{scheme}://b/x")


def test_a_store_that_does_not_answer_is_not_waited_for_long(monkeypatch):
    fs, asked = pytest.importorskip("pyarrow.fs"), []

    def from_uri(uri):
        asked.append(uri)
        raise OSError("nobody is there")

    monkeypatch.setattr(fs, "FileSystem", SimpleNamespace(from_uri=from_uri))
    for uri in ("gs://b/x", "s3://b/x"):
        if find_spec({"gs": "gcsfs", "s3": "s3fs"}[uri[:2]]):
            pytest.skip("fsspec knows the store, too")
        with pytest.raises(OSError, match=r"cannot be reached: nobody is there$"):
            scan_logs(uri, **NAMES)
    assert asked == ["gs://b/x?retry_limit_seconds=60", "s3://b/x"]


# -- what a scan knows ---------------------------------------------------------------
def test_sizes_names_and_keys(folder, tmp_path):
    lazy = scanned(folder, columns=["pi"])
    assert [part.n_rounds for part in lazy.partitions] == [15, 5, 15, 15, 15, 15, 10]
    assert [part.start for part in lazy.partitions] == [0, 15, 20, 35, 50, 65, 80]
    name = "day=2026-01-01/log.parquet, row group"
    assert lazy.partitions[1].name == f"{name} 1"
    assert repr(lazy.partitions[0]) == f"Partition('{name} 0', n_rounds=15)"
    link = tmp_path / "link.parquet"
    link.symlink_to(folder / "day=2026-01-01" / "log.parquet")
    odd = f"{folder}/day=2026-01-02/../day=2026-01-01/log.parquet"
    for other in (link, odd):
        keys = [part.key for part in scanned(other).partitions]
        assert keys == [part.key for part in lazy.partitions[:2]]
    assert repr(lazy) == (
        f"LazyLogs({str(folder)!r}, BanditLogs, n_rounds=90, n_partitions=7)"
    )
    html = lazy._repr_html_()
    assert "day=" not in html
    assert "<td" in html and "pi" in html
    many = sorted(folder.glob("*/*.parquet"))
    assert "and 2 more" in repr(scanned(many))


def test_tasks_indices_and_labels(folder):
    lazy = scanned(folder)
    for n_tasks in (1, 2, 3, 7, 50):
        tasks = lazy._tasks(n_tasks)
        assert len(tasks) <= n_tasks
        assert [part for task in tasks for part in task] == list(lazy.partitions)
        assert all(tasks)
    sizes = [sum(part.n_rounds for part in task) for task in lazy._tasks(2)]
    assert max(sizes) <= 55
    # lazy logs are not indexed
    for take in (lambda: lazy[0], lambda: train_test_split(lazy)):
        with pytest.raises(TypeError, match="LazyLogs cannot be indexed"):
            take()
    with pytest.raises(TypeError, match="LazyLogs cannot become an array"):
        np.asarray(lazy)
    # labels are found by a pass over their columns
    lazy = scanned(folder, logger="server")
    assert (lazy.actions, lazy.loggers) == (None, None)
    with parallel_config("threading"):
        known = lazy.labelled(n_jobs=2)
    assert_array_equal(known.actions, list("abc"))
    assert_array_equal(known.loggers, ["x", "y"])
    assert known.actions.dtype == in_memory().actions.dtype
    kept = lazy.filter(nw.col("item") != "b").labelled()
    assert_array_equal(kept.actions, ["a", "c"])


# -- rows ----------------------------------------------------------------------------
def test_head(folder):
    lazy, whole = scanned(folder, columns=["pi"]), in_memory(columns=["pi"])
    for n in (1, 15, 17, 60, 1000):
        logs, rows = lazy.head(n), whole[:n]
        assert_array_equal(logs.columns["pi"], rows.columns["pi"])
        assert_array_equal(logs.row_id.position, rows.row_id.position)
    assert len(lazy.head()) == 5
    for n in (0, -1, 2.5, True):
        with pytest.raises(ValueError, match="head needs a positive number"):
            lazy.head(n)


def test_sample_has_the_rows_of_the_source(folder):
    lazy, whole = scanned(folder, context=["age"]), in_memory(context=["age"])
    logs = lazy.sample(25, random_state=3)
    rows = logs.row_id.position
    assert len(rows) == 25 == len(set(rows))
    assert (np.diff(rows) > 0).all()
    assert_array_equal(logs.reward, whole.reward[rows])
    assert_array_equal(logs.action, whole.action[rows])
    assert_array_equal(logs.context["age"], whole.context["age"].take(rows))
    with parallel_config("threading"):
        again = lazy.sample(25, random_state=3, n_jobs=2)
    assert_array_equal(again.row_id.position, rows)
    assert_array_equal(lazy.sample(1000).row_id.position, np.arange(N))


@pytest.mark.thorough
def test_every_round_is_as_likely_in_a_sample(folder, global_random_seed):
    lazy = scan_logs(folder, **ROLES)
    rng = np.random.RandomState(global_random_seed)
    rows = [lazy.sample(9, rng).row_id.position for _ in range(200)]
    counts = np.bincount(np.concatenate(rows), minlength=N)
    z = (counts - 20) / np.sqrt(200 * 0.1 * 0.9)
    assert np.abs(z).max() < 5.5
    assert abs((z**2).mean() - 1) < 4 * np.sqrt(2 / N)


CONDITIONS = {
    "narwhals": nw.col("age") > 40,
    "stable": pytest.importorskip("narwhals.stable.v2").col("age") > 40,
    "pyarrow": ds.field("age") > 40,
    "function": lambda frame: frame["age"] > 40,
    "array": lambda frame: frame["age"].to_numpy() > 40,
}


@pytest.mark.few_cases(2)
@pytest.mark.parametrize("kind", CONDITIONS)
def test_filter_keeps_positions(folder, kind):
    whole, kept = in_memory(), np.flatnonzero(AGE > 40)
    lazy = scanned(folder).filter(CONDITIONS[kind])
    assert lazy.n_rounds is None
    with pytest.raises(TypeError, match="number of rounds is unknown"):
        len(lazy)
    assert "n_rounds" not in repr(lazy)
    position = np.concatenate([logs.row_id.position for _, logs in lazy.read()])
    assert_array_equal(position, kept)
    assert_array_equal(lazy.head(7).reward, whole.reward[kept[:7]])
    logs = lazy.sample(10, random_state=0)
    assert set(logs.row_id.position) < set(kept)
    assert_array_equal(logs.reward, whole.reward[logs.row_id.position])
    assert lazy.describe().n_rounds == len(kept)
    few = lazy.filter(nw.col("age") < 50).sample(99)
    assert len(few) == np.sum((AGE > 40) & (AGE < 50))


def test_filters_on_folders_leave_their_files_alone(folder):
    lazy = scanned(folder).filter(nw.col("day") == "2026-01-02")
    assert len(lazy) == 30
    assert [part.start for part in lazy.partitions] == [20, 35]
    assert_array_equal(rewards(lazy), in_memory().reward[20:50])
    none = scanned(folder).filter(nw.col("day") > "2027")
    assert len(none) == 0
    assert none._tasks(4) == []
    with pytest.raises(ValueError, match="there is no round"):
        none.head()


def test_filters_that_do_not_answer(tmp_path, folder):
    data = frame(4).append_column("x", pa.array([1, None, 3, None]))
    pq.write_table(data, tmp_path / "log.parquet")
    lazy = scanned(tmp_path)
    for condition in (nw.col("x") > 0, ds.field("x") > 0, lambda frame: frame["x"] > 0):
        assert_array_equal(lazy.filter(condition).head().row_id.position, [0, 2])
    # filters that cannot be asked
    lazy = scanned(folder)
    for what in (True, "age > 3", None, 3, [True]):
        with pytest.raises(TypeError, match="filter takes an expression"):
            lazy.filter(what)
    with pytest.raises(ValueError, match=r"does not fit these columns.*nope"):
        lazy.filter(nw.col("nope") > 1)
    for answer in (lambda frame: frame["age"], lambda frame: [True]):
        with pytest.raises((TypeError, ValueError), match="one boolean for every row"):
            lazy.filter(answer).head()
    for condition in (
        nw.col("age") > nw.col("age").mean(),
        nw.col("age") == nw.col("age").max(),
        lambda frame: frame["age"] > frame["age"].median(),
    ):
        with pytest.raises(ValueError, match=r"row group 0: .* with other rows"):
            lazy.filter(condition).describe()


def test_describe(folder):
    lazy, whole = scanned(folder, logger="server"), in_memory(logger="server")
    for n_jobs in (None, 2):
        with parallel_config("threading"):
            found = lazy.describe(n_jobs)
        assert (found.n_rounds, found.n_groups) == (N, whole.n_groups)
        assert_array_equal(found.actions, whole.actions)
        assert_array_equal(found.action_counts, whole._action_counts)
        assert_array_equal(found.loggers, whole.loggers)
        assert_array_equal(found.logger_counts, whole._logger_counts)
        assert found.reward == pytest.approx((0, 1, whole.reward.mean()))
        assert found.propensity == (1 / 3, 1 / 3)
    for row in ("rounds", "actions", "reward", "propensity", "loggers", "groups"):
        assert row in repr(found)
        assert row in found._repr_html_()
    found = scan_logs(folder, **ROLES, timestamp="age").describe()
    assert found.time == (AGE.min(), AGE.max())
    assert "unknown" in repr(found)


def test_describe_of_files_that_hold_other_labels(tmp_path):
    for k, labels in enumerate(("ab", "c", "bd")):
        data = frame(30, k).drop_columns(["item", "server"])
        data = data.append_column("item", [[labels[k % len(labels)]] * 29 + ["b"]])
        server = [[f"of {labels}"] * 30]
        pq.write_table(data.append_column("server", server), tmp_path / f"{k}.parquet")
    lazy = scanned(tmp_path, logger="server")
    parts = lazy.filter(nw.col("age") > 0)  # whose sizes are not known
    found, joined = parts.describe(), lazy.describe()
    assert_array_equal(found.actions, joined.actions)
    assert_array_equal(found.action_counts, joined.action_counts)
    assert_array_equal(found.loggers, ["of ab", "of bd", "of c"])
    assert_array_equal(found.logger_counts, [30, 30, 30])
    z = joined.inverse_propensity_z
    assert found.inverse_propensity_z == pytest.approx(z, rel=1e-12)


# -- lazy frames ---------------------------------------------------------------------
def lazy_frames():
    polars = pytest.importorskip("polars").from_arrow(frame()).lazy()
    duckdb = pytest.importorskip("duckdb").from_arrow(frame())
    return [polars, duckdb, nw.from_native(polars)]


def test_no_row_of_a_frame_is_left_out_in_silence():
    polars = pytest.importorskip("polars")
    good = polars.from_arrow(frame(9)).with_columns(age=polars.lit(0.5))
    nan, finite = np.nan, "must be a finite number"
    cases = {
        "click": ([None, nan, np.inf], f"reward {finite}"),
        "p": ([None, nan, 0.0, 2.0], r"propensity must lie in \(0, 1\]"),
        "pi": ([None, -1.0], f"sample_weight {finite} >= 0"),
        "user": ([None, nan], "group is missing"),
        "age": ([None, nan], "timestamp is missing"),
        "item": ([None], "the action is missing"),
        "server": ([None], "the logger is missing"),
    }
    more = {"logger": "server", "timestamp": "age", "sample_weight": "pi"}

    def with_values(name, *values):
        column = [*values, *good[name].to_list()[len(values) :]]
        kind = None if isinstance(column[-1], str) else polars.Float64
        column = polars.Series(name, column, kind)
        return scanned(good.with_columns(column).lazy(), **more)

    assert with_values("click").describe().n_rounds == 9
    for name, (values, said) in cases.items():
        for value in values:
            with pytest.raises(ValueError, match=rf"'{name}': {said} \(2 of 9 rows\)"):
                with_values(name, value, value).describe()
    with pytest.raises(ValueError, match=r"logger is missing \(some rows\)"):
        with_values("server", "x", None).labelled()


def test_lazy_frames(tmp_path):
    whole = in_memory()
    more = {"logger": "server", "group": ["user", "server"], "actions": list("dcba")}
    more = {**NAMES, **more}
    pq.write_table(frame(), tmp_path / "log.parquet")
    expected = scan_logs(tmp_path, **more).describe()
    for source in lazy_frames():
        found = scan_logs(source, **more).describe()  # as files are
        assert found.actions.tolist() == list("dcba")
        assert found.action_counts.tolist() == expected.action_counts.tolist()
        assert found.logger_counts.tolist() == expected.logger_counts.tolist()
        assert found.n_groups == expected.n_groups
        lazy = scanned(source)
        assert lazy.partitions is None
        assert lazy.n_rounds is None
        assert lazy._origin == scanned(source)._origin
        assert "n_partitions" not in repr(lazy)
        assert_array_equal(lazy.labelled().actions, list("abc"))
        found = lazy.describe()
        assert (found.n_rounds, found.n_groups) == (N, whole.n_groups)
        assert_array_equal(found.action_counts, whole._action_counts)
        assert found.reward == pytest.approx((0, 1, whole.reward.mean()))
        assert len(lazy.head(4)) == 4
        assert len(lazy.sample(20, random_state=0)) == 20
        assert len(lazy.sample(10**6)) == N
        older = lazy.filter(nw.col("age") > 40)
        assert len(older.sample(10**6)) == (AGE > 40).sum()
        nothing = lazy.filter(nw.col("age") > 200).describe()
        assert (nothing.n_rounds, nothing.reward, nothing.propensity) == (0, None, None)
        with pytest.raises(TypeError, match="filter takes an expression"):
            lazy.filter(3)
        with pytest.raises(TypeError, match="has no partitions"):
            lazy._tasks(2)
        with pytest.raises(TypeError, match="has no partitions"):
            list(lazy.read())
        with pytest.raises(ValueError, match="column 'nope' is not in the frame"):
            scanned(source, columns=["nope"])
    polars = pytest.importorskip("polars")  # whose rows have an order
    lazy = scanned(polars.from_arrow(frame()).lazy())
    logs = lazy.sample(20, random_state=0)
    assert_array_equal(logs.reward, whole.reward[logs.row_id.position])
    native = lazy.filter(polars.col("age") > 40).describe().n_rounds
    assert native == (AGE > 40).sum()


def test_what_is_no_source(tmp_path):
    polars = pytest.importorskip("polars")
    data = frame()
    for eager in (data, data.to_pandas(), polars.from_arrow(data)):
        with pytest.raises(TypeError, match=r"in memory already .90 rows.*from_frame"):
            scanned(eager)
    for source in (3, None, {"a": 1}, np.zeros(3), [3], [None]):
        with pytest.raises(TypeError, match=r"scan_logs takes a path|must hold paths"):
            scanned(source)
    of_ray = type("Dataset", (), {"__module__": "ray.data.dataset"})
    with pytest.raises(TypeError, match=r"write_parquet.folder."):
        scanned(of_ray())
    # no files
    (tmp_path / "a").mkdir()
    for source, more, error, match in (
        (tmp_path / "a", {}, ValueError, "holds no log file"),
        (f"{tmp_path}/*", {}, ValueError, "are folders without a log file"),
        (f"{tmp_path}/*.parquet", {}, FileNotFoundError, "no file matches"),
        (tmp_path / "log.parquet", {}, FileNotFoundError, "there is no file or folder"),
        ([], {}, ValueError, "list of files is empty"),
        (tmp_path, {"format": "json"}, ValueError, "format must be one of"),
    ):
        with pytest.raises(error, match=match):
            scanned(source, **more)


# -- bad input -----------------------------------------------------------------------


def test_files_that_are_listed_twice(folder, tmp_path):
    path = folder / "day=2026-01-01" / "log.parquet"
    link = tmp_path / "link.parquet"
    link.symlink_to(path)
    odd = f"{folder}/day=2026-01-02/../day=2026-01-01/log.parquet"
    for again in (path, link, odd, os.path.relpath(path), folder):
        with pytest.raises(ValueError, match=r"is listed twice.*would count twice"):
            scanned([path, again])
    # files of several formats
    (tmp_path / "one.csv").write_text("a,b\n1,2\n")
    with pytest.raises(ValueError, match="several formats"):
        scanned([folder / "day=2026-01-01" / "log.parquet", tmp_path / "one.csv"])


def two_files(tmp_path, change):
    for k, data in enumerate((frame(10), change(frame(10)))):
        pq.write_table(data, tmp_path / f"{k}.parquet")
    return tmp_path


def with_column(name, values):
    def change(data):
        at = data.schema.get_field_index(name)
        return data.set_column(at, name, pa.array(values))

    return change


def test_files_with_other_columns_or_numbers(tmp_path):
    source = two_files(tmp_path, lambda data: data.drop_columns(["p"]))
    with pytest.raises(ValueError, match=r"1.parquet has no column 'p', which 0.parq"):
        scanned(source)
    assert len(scan_logs(source, **ROLES)) == 20

    # files with other types of numbers
    def change(data):
        data = with_column("click", [float(k) for k in range(10)])(data)
        return with_column("age", [k + 0.5 for k in range(10)])(data)

    for _, logs in scanned(two_files(tmp_path, change), context=["age"]).read():
        assert logs.reward.dtype == logs.context["age"].dtype == float


NAN = r"\(pandas writes integers with a miss"


@pytest.mark.parametrize(
    ("name", "values", "told"),
    [
        ("item", range(10), " and .* in 0.parquet"),
        ("user", [str(k) for k in range(10)], " and .* in 0.parquet"),
        ("user", [float(k) for k in range(10)], " and .* in 0.parquet"),
        ("user", [1.0, None] * 5, f".*{NAN}"),
        ("click", ["yes"] * 10, " and .* in 0.parquet"),
        ("age", ["old"] * 10, " and .* in 0.parquet"),
    ],
)
def test_files_with_other_types(tmp_path, name, values, told):
    source = two_files(tmp_path, with_column(name, values))
    context = ["age"] if name == "age" else []
    with pytest.raises(TypeError, match=f"'{name}' is .* in 1.parquet{told}"):
        scanned(source, context=context)


def test_texts_and_categories_are_one_kind(tmp_path):
    change = with_column("server", pa.array(["x", "y"] * 5).dictionary_encode())
    for k, first in enumerate((True, False)):
        source = tmp_path / str(k)
        source.mkdir()
        data = [frame(10), change(frame(10))]
        for name, one in zip("ab", data if first else data[::-1], strict=True):
            pq.write_table(one, source / f"{name}.parquet")
        lazy = scanned(source, logger="server", context=["server"], columns=["server"])
        for part, logs in lazy.labelled().read():
            rows = data[part.index if first else 1 - part.index]["server"].to_pylist()
            assert_array_equal(logs.logger, rows)
            assert_array_equal(logs.columns["server"], rows)
            assert logs.context["server"].tolist() == rows


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"action": None}, ValueError, "needs the name of the action column"),
        ({"reward": None}, ValueError, "needs the name of the reward column"),
        ({"slate": ["item"]}, ValueError, "no meaning"),
        ({"n_candidates": 3}, ValueError, "no meaning"),
        ({"propensity": 2.0}, ValueError, "one propensity"),
        ({"context": ["click"]}, ValueError, "the reward"),
        ({"actions": ""}, ValueError, "must be 1-d"),
        ({"actions": [1, 1]}, ValueError, "be distinct"),
        ({"reward_range": (1, 0)}, ValueError, "low < high"),
        ({"action": None, "slate": ["item"], "n_candidates": 0}, ValueError, "n_cand"),
        ({"columns": "pi"}, TypeError, "columns must be a list"),
        ({"context": "age"}, TypeError, "context must be a list"),
        ({"logger": 3}, TypeError, "logger must be the name of a column"),
        ({"action": ["item"]}, TypeError, "action must be the name of a column"),
        ({"group": 3}, TypeError, "group must be the name of a column"),
        ({"group": ["user", 3]}, TypeError, "group must be the name of a column"),
    ],
)
def test_names_that_do_not_fit(folder, arguments, error, message):
    with pytest.raises(error, match=message):
        scan_logs(folder, **{**ROLES, **arguments})


@pytest.mark.thorough
def test_many_files_scan_fast_and_print_shortly(tmp_path):
    for k in range(300):
        pq.write_table(frame(3), tmp_path / f"{k:03}.parquet")
    lazy = scanned(tmp_path)
    assert len(lazy) == 900
    assert len(repr(lazy)) < 300
    assert len(lazy._repr_html_().split("</style>")[1]) < 2000
    assert len(lazy._tasks(16)) == 16
