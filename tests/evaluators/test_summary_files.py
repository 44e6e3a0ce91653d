# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause

import json
import os

import numpy as np
import pytest

from skope_ope.evaluators import _summary_files
from skope_ope.evaluators._summary_files import read_file, write_file

HEADER = {"format": 1, "facts": {"policy 'ä'": "named"}}
TABLES = {
    "sums": np.arange(6.0).reshape(2, 3),
    "empty": np.zeros((0, 2)),
    "number": np.array(3),
    "days": np.array(["2026-01-01", "2026-01-02"], "M8[us]"),
    "texts": np.array(["a", "bcd"]),
}
ARROW = pytest.param(".arrow", marks=pytest.mark.frames)


@pytest.fixture(params=[".npz", ARROW])
def path(request, tmp_path):
    if request.param == ".arrow":
        pytest.importorskip("pyarrow")
    return tmp_path / f"total{request.param}"


def test_files_hold_what_was_written(path):
    write_file(path, HEADER, TABLES)
    header, tables = read_file(str(path), 1)
    assert header["facts"] == HEADER["facts"]
    assert tables.keys() == TABLES.keys()
    for name, table in TABLES.items():
        assert tables[name].dtype == table.dtype
        np.testing.assert_array_equal(tables[name], table)
    write_file(path, HEADER, {})  # in its place
    assert read_file(path, 1)[1] == {}
    assert os.listdir(path.parent) == [path.name]


def test_a_file_is_whole_or_as_it_was(path, monkeypatch):
    write_file(path, HEADER, TABLES)
    before = path.read_bytes()

    def dies(one, other):
        raise KeyboardInterrupt

    monkeypatch.setattr(_summary_files.os, "replace", dies)
    with pytest.raises(KeyboardInterrupt):
        write_file(path, HEADER, {})
    assert path.read_bytes() == before
    assert os.listdir(path.parent) == [path.name]


def test_damaged_and_foreign_files_are_refused(path):
    write_file(path, HEADER, TABLES)
    whole = path.read_bytes()
    for damaged in (
        whole[: len(whole) // 2],
        b"",
        b"no file of ours at all",  # numpy would take it for a pickle
        whole[50:],
    ):
        path.write_bytes(damaged)
        with pytest.raises(
            ValueError, match=f"{path.name} is damaged, or no file of"
        ) as told:
            read_file(path, 1)
        assert "pickle" not in str(told.value)
    write_file(path, {"format": 2}, {})
    with pytest.raises(ValueError, match="has format 2, and this version of skope_ope"):
        read_file(path, 1)


def test_no_byte_of_a_file_changes_unseen(path):
    write_file(path, HEADER, TABLES)
    whole, rng = path.read_bytes(), np.random.default_rng(0)
    before = read_file(path, 1)
    for place in rng.integers(len(whole), size=200):
        damaged = bytearray(whole)
        damaged[place] ^= int(rng.integers(1, 256))
        path.write_bytes(damaged)
        try:
            header, tables = read_file(path, 1)
        except ValueError as error:
            assert "is damaged, or no file of" in str(error)
            continue
        assert header == before[0] and tables.keys() == before[1].keys()
        for name, table in tables.items():
            np.testing.assert_array_equal(table, before[1][name])


def test_files_of_others_and_pickles_are_refused(tmp_path):
    path = tmp_path / "theirs.npz"
    np.savez(path, x=np.arange(3))
    with pytest.raises(ValueError, match="is damaged, or no file of ValueSummary"):
        read_file(path, 1)
    np.savez(path, summary=np.array(json.dumps({"kind": "other"})))
    with pytest.raises(
        ValueError, match=r"theirs\.npz is no file of ValueSummary.save"
    ):
        read_file(path, 1)
    np.savez(path, summary=np.array([{"kind": "objects are pickled"}], dtype=object))
    with pytest.raises(ValueError, match="allow_pickle=False"):
        read_file(path, 1)
    with pytest.raises(TypeError, match="labels holds objects"):
        write_file(path, HEADER, {"labels": np.array([None, "a"], dtype=object)})


def test_endings_and_missing_files(tmp_path):
    for name in ("total.pkl", "total", "total.parquet"):
        with pytest.raises(ValueError, match=f"ends with .npz or .arrow, got .*{name}"):
            write_file(tmp_path / name, HEADER, TABLES)
    with pytest.raises(FileNotFoundError, match=r"there is no file .*gone\.npz"):
        read_file(tmp_path / "gone.npz", 1)
