# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause

"""Which files a scan takes: none that belongs to the log is passed over in silence."""

import os

import pytest

from skope_ope import scan_logs

pa = pytest.importorskip("pyarrow")
from pyarrow import fs  # noqa: E402
from pyarrow import parquet as pq  # noqa: E402

NAMED = {"action": "a", "reward": "r"}
DAY = {"a": [0, 1, 0], "r": [0, 1, 1]}


@pytest.fixture
def log(tmp_path):
    """Write days; csv by the ending."""

    def write(*names):
        for name in names:
            path = tmp_path / name
            path.parent.mkdir(parents=True, exist_ok=True)
            if ".csv" in name.lower():
                path.write_text("a,r\n0,0\n1,1\n0,1\n")
            else:
                pq.write_table(pa.table(DAY), path)
        return tmp_path

    return write


@pytest.mark.parametrize(
    "names",
    [
        ("D1.csv", "D2.CSV", "d3.Csv"),
        ("1.parquet", "2.PARQUET", "3.Pq", "4.PARQ"),
        ("day=1/x.csv", "day=2/X.CSV"),
    ],
)
def test_endings_are_taken_in_any_case(log, names):
    folder = log(*names)
    for source in (folder, f"file://{folder}"):
        assert len(scan_logs(source, **NAMED)) == 3 * len(names)


@pytest.mark.parametrize("name", ["d2.parquet.gz", "D2.PARQUET.GZ", "d2.pq.zst"])
@pytest.mark.parametrize("alone", [False, True])
def test_compressed_parquet_is_refused(log, name, alone):
    folder = log("d1.parquet", name)
    with pytest.raises(ValueError, match=rf"{name} is compressed.*Decompress it"):
        scan_logs(folder / name if alone else folder, **NAMED)


@pytest.mark.parametrize("glob", ["", "*", "*/*.csv", "**/*.csv", "*/x.csv"])
def test_a_folder_that_cannot_be_read_is_named(log, monkeypatch, glob):
    folder, scandir = log("day=1/x.csv", "day=2/x.csv"), os.scandir

    def refusing(path):
        if os.fspath(path).endswith("day=2"):
            raise PermissionError(13, "Permission denied", os.fspath(path))
        return scandir(path)

    monkeypatch.setattr(os, "scandir", refusing)
    with pytest.raises(PermissionError, match=r"day=2 cannot be read \(Permission de"):
        scan_logs(folder / glob, **NAMED)


def test_what_is_passed_over_is_named_with_the_reason(log, tmp_path):
    folder = log("1.csv", "_old.csv", ".tmp/2.csv", "notes.txt", "day.jsonl")
    logs = scan_logs(folder, **NAMED)
    assert "passed over" not in scan_logs(folder / "1.csv", **NAMED).summary()
    told = logs.summary()["passed over"]
    assert len(logs) == 3
    for name in ("_old.csv (begins with _", ".tmp (begins with _", "notes.txt (no end"):
        assert name in told
    assert "day.jsonl (no ending of a log file)" in logs._repr_html_()
    os.symlink(log("x/elsewhere/3.csv") / "x" / "elsewhere", folder / "link")
    assert "link (a link to a folder" in scan_logs(folder, **NAMED).summary()[
        "passed over"
    ].replace("notes", "")
    with pytest.raises(ValueError, match=r"no log file .*Passed over: 2\.csv \(no"):
        scan_logs(log("y/2.csv") / "y", **NAMED, format="parquet")
    # a link to nowhere is a missing file
    folder = log("1.csv")
    os.symlink(folder / "gone.csv", folder / "2.csv")
    with pytest.raises(FileNotFoundError, match=r"2\.csv"):
        scan_logs(folder, **NAMED)


@pytest.fixture
def store(monkeypatch, log):
    """A store that notes how it was asked, and looks into a folder."""
    asked, folder = [], log("b/day=1/x.parquet", "b/day=2/X.PARQUET")
    local = fs.LocalFileSystem()

    def from_uri(uri):
        asked.append(uri)
        path = uri.partition("://")[2].partition("?")[0]
        return fs.SubTreeFileSystem(str(folder), local), path

    class OfAnyStore(type):
        def __instancecheck__(cls, other):
            return isinstance(other, type(local).__mro__[1])

    answers = OfAnyStore("FileSystem", (), {"from_uri": staticmethod(from_uri)})
    monkeypatch.setattr(fs, "FileSystem", answers)
    return asked


@pytest.mark.parametrize(
    "options", ["", "?endpoint_override=http%3A%2F%2Fx:9&scheme=http"]
)
def test_options_of_a_store_are_kept_and_are_no_glob(store, options):
    for uri, base, n_files in (
        ("b/day=1/x.parquet", "b/day=1/x.parquet", 1),
        ("b", "b", 2),
        ("b/*/*.[pP]*", "b", 2),
        ("b/day=?/x.parquet", "b", 1),
        ("b/day?1/x.parquet", "b", 1),
        ("b/?ay=1/x.parquet", "b", 1),
    ):
        logs = scan_logs(f"s3://{uri}{options}", **NAMED)
        assert store.pop() == f"s3://{base}{options}" and not store
        assert len(logs) == 3 * n_files
        assert logs.partitions[0].key[0].endswith(options)
    scan_logs("gs://b?project_id=p", **NAMED)  # beside the limit
    assert store == ["gs://b?project_id=p&retry_limit_seconds=60"]


def test_csv_files_of_a_store_are_read_and_refused_with_their_line(store, log):
    folder = log("c/1.csv", "c/2.CSV")
    logs = scan_logs("s3://c?region=eu", **NAMED)
    assert logs.head(9).action.tolist() == [0, 1, 0] * 2
    (folder / "c" / "1.csv").write_text('a,r\n0,1\n"x"y,1\n')
    with pytest.raises(ValueError, match=r"c/1\.csv, line 3: text follows a closing"):
        scan_logs("s3://c?region=eu", **NAMED)
