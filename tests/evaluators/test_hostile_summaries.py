# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause

"""Files of summaries that somebody else made: one ValueError with their path."""

import io
import json
import re
import zipfile

import numpy as np
import pytest

from skope_ope import UniformPolicy, summarize
from skope_ope.datasets import make_bandit_logs
from skope_ope.evaluators import ValueSummary

LOGS = make_bandit_logs(200, random_state=0)
GROUPS = LOGS.replace(group=np.arange(200) // 4)


def npy(array, **header):
    """Return the bytes of an array, whose header may say something else."""
    out = io.BytesIO()
    np.lib.format.write_array(out, np.asarray(array), allow_pickle=True)
    if not header:
        return out.getvalue()
    about = {"descr": "<f8", "fortran_order": False, **header}
    out = io.BytesIO()
    np.lib.format.write_array_header_1_0(out, about)
    return out.getvalue() + b"\0" * 64


@pytest.fixture(scope="module")
def good(tmp_path_factory):
    """Return the members of a file by name, and its two headers."""
    path = tmp_path_factory.mktemp("good") / "total.npz"
    summarize({"even": UniformPolicy()}, GROUPS, by=["action"]).save(path)
    with zipfile.ZipFile(path) as file:
        members = {name: file.read(name) for name in file.namelist()}
    with np.load(path) as file:
        return (
            members,
            json.loads(str(file["summary"])),
            json.loads(str(file["header"])),
        )


def write(path, members, header, inner):
    """Write a file of members and headers; names that are new are told."""
    members = {**members, "header.npy": npy(json.dumps(inner))}
    del members["summary.npy"]
    header = {**header, "arrays": [name.removesuffix(".npy") for name in members]}
    with zipfile.ZipFile(path, "w") as file:
        file.writestr("summary.npy", npy(json.dumps(header)))
        for name, content in members.items():
            file.writestr(name, content)
    return path


def changed(name, *arrays, **header):
    """Return a change of the first array whose name ends so."""

    def change(members, outer, inner):
        found = next(one for one in members if one.endswith(f": {name}.npy"))
        members[found] = npy(*arrays, **header)

    return change


def told(**values):
    """Return a change of the header."""

    def change(members, outer, inner):
        outer.update(values)

    return change


def counted(**values):
    """Return a change of the header of the sums."""

    def change(members, outer, inner):
        inner.update(values)

    return change


def nested(members, outer, inner):
    found = next(one for one in members if one.endswith("by action 0: header.npy"))
    below = json.loads(str(np.load(io.BytesIO(members[found]))))
    members[found] = npy(json.dumps({**below, "places": below["places"][1:]}))


def without(members, outer, inner):
    del members["counts 0: numbers.npy"]


def unnamed(members, outer, inner):
    members["other.npy"] = members.pop("counts 0: numbers.npy")


def junk(members, outer, inner):
    outer["evaluators"]["IPS"]["params"] = {"cmax": "many"}


def unknown(members, outer, inner):
    outer["evaluators"]["IPS"]["params"] = {"other": 1}


DEEP = "[" * 100_000
HOSTILE = {
    "places of a label": nested,
    "no counts": without,
    "another name": unnamed,
    "objects": changed("counts", np.array([{}, None], dtype=object)),
    "complex numbers": changed("counts", np.ones((1, 3), dtype=complex)),
    "texts": changed("first", np.array(["a", "b"])),
    "a shape": changed("counts", np.ones(7)),
    "no shape": changed("count", np.array(5)),
    "a second moment": changed("second", np.ones((1, 2))),
    "negative counts": changed("counts", np.full((1, 3), -1.0)),
    "counts that are NaN": changed("count", np.array([np.nan])),
    "infinite counts": changed("cell_count", np.full(50, np.inf)),
    "a cluster without a label": changed("cell_cluster", np.full(50, 2**40)),
    "a stratum without a label": changed("cell_stratum", np.full(50, 1)),
    "numbers that are NaN": changed("numbers", np.full(4, np.nan)),
    "a huge shape": changed("counts", [], shape=(2**40,)),
    "a shape that overflows": changed("counts", [], shape=(2**40, 2**40)),
    "a negative shape": changed("counts", [], shape=(-1, 3)),
    "many empty texts": changed("actions", [], shape=(2**40,), descr="<U0"),
    "many empty rows": changed("first", [], shape=(0, 2**40)),
    "a deep label": changed("actions", np.array(["-" * 200_000 + "1"])),
    "a number of rounds": counted(n="many"),
    "rounds that are NaN": counted(n=float("nan")),
    "no policies": counted(policies=["other"]),
    "designs": counted(designs=7),
    "an owner": counted(places=[[["IPS", "even"], "none", [0]]]),
    "deep columns": counted(by={"action": [f"tuple {DEEP}"]}),
    "facts": told(facts={"reward column": 1}),
    "a list of facts": told(facts=[1, 2]),
    "evaluators": told(evaluators=["IPS"]),
    "a class": told(evaluators={"IPS": {"class": ["IPS"], "params": {}, "lost": []}}),
    "a parameter": junk,
    "an unknown parameter": unknown,
    "places": told(counted="[]"),
    "deep places": told(counted=DEEP),
    "large places": told(counted='{"places": {}, "rows": {"a": [[0, 1e999]]}}'),
    "what is left out": told(left_out=1),
    "models": told(models=[1]),
}


@pytest.mark.parametrize("case", HOSTILE)
def test_hostile_contents_are_one_error(case, good, tmp_path):
    members, outer, inner = json.loads(json.dumps([None, *good[1:]]))
    members, path = dict(good[0]), tmp_path / "total.npz"
    assert ValueSummary.load(write(path, members, outer, inner)).n_rounds == 200
    HOSTILE[case](members, outer, inner)
    write(path, members, outer, inner)
    with pytest.raises(ValueError, match=f"{re.escape(str(path))} is damaged, or no"):
        ValueSummary.load(path)


def sized(path, said):
    """Write a file of an array of 8 MB, packed, whose size is said to be another."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as file:
        file.writestr("summary.npy", npy(np.zeros(10**6)))
        file.filelist[0].file_size = said
    return path.read_bytes()


def packed_columns(path):
    """Write an Arrow file of a column that unpacks to 80 MB, as its header says."""
    pa = pytest.importorskip("pyarrow")
    table = pa.table({"array": pa.array(np.zeros(10**7))})
    options = pa.ipc.IpcWriteOptions(compression="zstd")
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema, options=options) as file:
        file.write_table(table)
    return sink.getvalue().to_pybytes()


def in_arrow(packed):
    """Return the bytes of an Arrow file that holds an npz file as ours do."""
    pa = pytest.importorskip("pyarrow")
    return pa.schema([]).with_metadata({"summary": packed}).serialize().to_pybytes()


FILES = {
    "nothing": lambda path: b"",
    "pickles": lambda path: b"cposix\nsystem\n(S'true'\ntR.",
    "half a file": lambda path: sized(path, 8_000_128)[:200],
    "a size that is too large": lambda path: sized(path, 3 * 2**30),
    "a size that is too small": lambda path: sized(path, 200),
    "a deep header": lambda path: deep(path),
    "Arrow columns": packed_columns,
}


def deep(path):
    with zipfile.ZipFile(path, "w") as file:
        file.writestr("summary.npy", npy(DEEP))
    return path.read_bytes()


@pytest.mark.parametrize(
    "suffix", [".npz", pytest.param(".arrow", marks=pytest.mark.frames)]
)
@pytest.mark.parametrize("case", FILES)
def test_hostile_files_are_one_error(case, suffix, tmp_path):
    path = tmp_path / f"total{suffix}"
    made = FILES[case](tmp_path / "made")
    path.write_bytes(in_arrow(made) if suffix == ".arrow" and "a " in case else made)
    with pytest.raises(ValueError, match=f"{re.escape(str(path))} is damaged, or no"):
        ValueSummary.load(path)


def test_the_largest_size_is_said_and_what_is_saved_can_be_read(tmp_path, monkeypatch):
    path, summary = tmp_path / "total.npz", summarize(UniformPolicy(), LOGS)
    path.write_bytes(sized(tmp_path / "made", 3 * 2**30))
    with pytest.raises(
        ValueError, match=r"3,221,225,472 bytes, and at most 1,073,741,"
    ):
        ValueSummary.load(path)
    monkeypatch.setattr("skope_ope.readers._zip_files.MOST_UNPACKED", 1000)
    with pytest.raises(ValueError, match=r"bytes, and at most 1,000 are unpacked"):
        summary.save(path)
    monkeypatch.undo()
    summary.save(path)
    assert ValueSummary.load(path).n_rounds == 200
