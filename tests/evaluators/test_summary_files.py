# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Files of summaries: what they keep, and one ValueError with the path of others."""

import io
import json
import os
import re
import zipfile

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.linear_model import Ridge

from skope_ope import (
    IPS,
    DoublyRobust,
    MultiLoggerIPS,
    UniformPolicy,
    summarize,
)
from skope_ope.base import StaticEvaluator
from skope_ope.datasets import make_bandit_logs
from skope_ope.evaluators import ValueSummary
from tests.evaluators._summing import world
from tests.evaluators.core._asked import bare_logs
from tests.evaluators.test_summaries import (
    FEW,
    assert_same,
    summary_of,
    summed,
)

pytestmark = pytest.mark.filterwarnings("ignore::skope_ope.exceptions.OPEWarning")


@pytest.fixture(params=[".npz", pytest.param(".arrow", marks=pytest.mark.frames)])
def path(request, tmp_path):
    if request.param == ".arrow":
        pytest.importorskip("pyarrow")
    return tmp_path / f"total{request.param}"


def refused(path):
    """Assert that a file is refused, and return what is said."""
    match = f"{re.escape(str(path))} is damaged, or no"
    with pytest.raises(ValueError, match=match) as error:
        ValueSummary.load(path)
    return str(error.value)


@pytest.mark.few_cases(1)
def test_a_daily_job_keeps_its_total_in_a_file(path):
    labels = np.array(["a", "b", "c"])[np.arange(300) % 3]
    logs = world(300, group=np.arange(300) // 4).with_columns(day=labels)
    days = np.array_split(np.arange(300), 3)
    summary_of(logs[days[0]], by="day").save(path)
    for day in days[1:]:
        total = ValueSummary.load(path)
        total += summary_of(logs[day], by="day")
        total.save(str(path))
    total = ValueSummary.load(path)
    assert os.listdir(path.parent) == [path.name]
    assert_same(total, summed(logs, days), rtol=1e-10)
    with pytest.raises(ValueError, match="Add summaries of parts"):
        total + summary_of(logs[days[1]], by="day")
    found = total.values()["new", "IPS"].by("day")
    memory = IPS().fit(logs).evaluate("pi").by("day")
    for label, value in memory.items():
        assert_allclose(found[label].value, value.value, rtol=1e-11)


def test_files_are_small_and_named_as_they_are_written(tmp_path):
    summary = summary_of(world(5000, group=np.arange(5000) // 2))
    summary.save(path := tmp_path / "total.npz")
    assert path.stat().st_size < 400_000
    assert "2,500 exact groups" in repr(summary)
    for name in ("total.pkl", "total", "total.parquet"):
        with pytest.raises(ValueError, match=f"ends with .npz or .arrow, got .*{name}"):
            summary.save(tmp_path / name)
    with pytest.raises(FileNotFoundError, match=r"there is no file .*gone\.npz"):
        ValueSummary.load(tmp_path / "gone.npz")
    path.write_bytes(sized(tmp_path / "made", 3 * 2**30))
    assert "3,221,225,472 bytes, and at most 1,073,741," in refused(path)


PAIRS = [(k % 20, "abc"[k % 3]) for k in range(400)]


@pytest.mark.parametrize(
    "labels",
    [
        np.array(["a", "b", "c", "ä"]),
        np.array([0.5, 1.5, 2.5, 4.0]),
        np.arange("2026-01-01", "2026-01-05", dtype="M8[D]"),
        np.array(["x", "y", "z", "w"], dtype=object),
        "several columns",
    ],
)
def test_labels_survive_a_file(labels, tmp_path):
    path = tmp_path / "total.npz"
    if isinstance(labels, str):
        logs = world(400, group=PAIRS)
    else:
        logs = world(400, labels=labels, group=labels[np.arange(400) % 4])
    found, rest = summary_of(logs[:250]), summary_of(logs[250:])
    found.save(path)
    total = ValueSummary.load(path)
    assert "exact groups" in repr(total)
    assert_same(total + rest, found + rest, rtol=1e-10)


def test_a_file_is_whole_or_as_it_was(path, monkeypatch):
    summary_of(world(50)).save(path)
    before = path.read_bytes()

    def dies(one, other):
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "replace", dies)
    with pytest.raises(KeyboardInterrupt):
        summary_of(world(60)).save(path)
    assert path.read_bytes() == before
    assert os.listdir(path.parent) == [path.name]


def test_no_byte_of_a_file_changes_unseen(path):
    summary_of(world(50), evaluators=FEW).save(path)
    whole, rng = path.read_bytes(), np.random.default_rng(0)
    before = ValueSummary.load(path)
    for cut in (whole[: len(whole) // 2], whole[50:]):
        path.write_bytes(cut)
        refused(path)
    for place in rng.integers(len(whole), size=60):
        damaged = bytearray(whole)
        damaged[place] ^= int(rng.integers(1, 256))
        path.write_bytes(damaged)
        try:
            found = ValueSummary.load(path)
        except ValueError as error:
            assert "is damaged, or no file of" in str(error)
            continue
        assert repr(found) == repr(before)
        assert_same(found, before, rtol=0)


# -- evaluators ---------------------------------------------------------------------
class Doubled(StaticEvaluator):
    """Twice the value."""

    def __init__(self, *, factor=2.0):
        self.factor = factor

    def terms(self, rounds):
        return (self.factor * rounds.gain,)


def test_evaluators_of_others_are_given_again(tmp_path):
    own = {"twice": Doubled(), "IPS": IPS(cmax=np.float64(3))}
    found = summary_of(world(80), evaluators=own)
    found.save(path := tmp_path / "total.npz")
    for given, told in (
        (None, r"Doubled is not an evaluator of skope_ope\. Pass"),
        ({"twice": IPS()}, r"evaluators\['twice'\] is a IPS, but the"),
    ):
        with pytest.raises(ValueError, match=told):
            ValueSummary.load(path, evaluators=given)
    again = ValueSummary.load(path, evaluators={"twice": Doubled()})
    assert_same(again, found)
    assert again.evaluators["IPS"].cmax == 3


def test_evaluators_are_stored_by_class_and_plain_parameters(tmp_path):
    proba, path = np.full((60, 2), 0.5), tmp_path / "total.npz"
    known = {"logger": np.array(list("ab"))[np.arange(60) % 2], "logger_proba": proba}
    logs = bare_logs(np.arange(60) % 3 % 2, np.arange(60) % 5, **known)
    logs = logs.with_columns(pi=proba)
    plain = MultiLoggerIPS(pooling="weighted", divergences={"a": 1.0, "b": 2.0})
    named = {"plain": plain, "DR": DoublyRobust(reward_model=Ridge())}
    summarize({"a": "pi"}, logs, evaluators=named).save(path)
    found = ValueSummary.load(path).evaluators
    for name, evaluator in named.items():
        assert type(found[name]) is type(evaluator)
        for parameter, value in evaluator.get_params(deep=False).items():
            if parameter != "reward_model":
                assert getattr(found[name], parameter) == value
    arrays = MultiLoggerIPS(pooling="weighted", divergences=np.array([1.0, 2.0]))
    summarize({"a": "pi"}, logs, evaluators={"it": arrays}).save(path)
    with pytest.raises(ValueError, match=r"its parameters \['divergences'\] are not"):
        ValueSummary.load(path)
    assert ValueSummary.load(path, evaluators={"it": arrays}).evaluators["it"] is arrays


# -- files that somebody else made --------------------------------------------------
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
    logs = make_bandit_logs(200, random_state=0)
    logs = logs.replace(group=np.arange(200) // 4)
    summarize({"even": UniformPolicy()}, logs, by=["action"]).save(path)
    with zipfile.ZipFile(path) as file:
        members = {name: file.read(name) for name in file.namelist()}
    with np.load(path) as file:
        headers = [json.loads(str(file[name])) for name in ("summary", "header")]
    return members, *headers


@pytest.fixture
def load(good, tmp_path):
    """Load the file after a change of its members and headers."""

    def changed(change=None):
        members, outer, inner = json.loads(json.dumps([None, *good[1:]]))
        members, path = dict(good[0]), tmp_path / "total.npz"
        if change is not None:
            change(members, outer, inner)
        return ValueSummary.load(write(path, members, outer, inner))

    return changed


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
    return lambda members, outer, inner: outer.update(values)


def counted(**values):
    """Return a change of the header of the sums."""
    return lambda members, outer, inner: inner.update(values)


def gone(name):
    """Return a change that takes an entry of the header."""
    return lambda members, outer, inner: outer.pop(name)


def nested(members, outer, inner):
    found = next(one for one in members if one.endswith("by action 0: header.npy"))
    below = json.loads(str(np.load(io.BytesIO(members[found]))))
    below["designs"][0][1].pop()
    members[found] = npy(json.dumps(below))


def without(members, outer, inner):
    del members["counts 0: numbers.npy"]


def of_ips(**params):
    """Return a change of the parameters of IPS."""
    of = {"params": params}
    return lambda members, outer, inner: outer["evaluators"]["IPS"].update(of)


def unnamed(members, outer, inner):
    members["other.npy"] = members.pop("counts 0: numbers.npy")


DEEP, OF_IPS = "[" * 100_000, ["IPS", "even", None]
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
    "a job": counted(designs=[["rounds", [[OF_IPS, [0]]], []]]),
    "moves": counted(designs=[["rounds", [[OF_IPS, [0]]], [[["IPS"], [0]]]]]),
    "deep columns": counted(by={"action": [f"tuple {DEEP}"]}),
    "facts": told(facts={"reward column": 1}),
    "a list of facts": told(facts=[1, 2]),
    "evaluators": told(evaluators=["IPS"]),
    "a class": told(evaluators={"IPS": {"class": ["IPS"], "params": {}, "lost": []}}),
    "a parameter": of_ips(cmax="many"),
    "an unknown parameter": of_ips(other=1),
    "places": told(counted="[]"),
    "deep places": told(counted=DEEP),
    "large places": told(counted='{"places": {}, "rows": {"a": [[0, 1e999]]}}'),
    "what is left out": told(left_out=1),
    "models": told(models=[1]),
    "nothing counted": told(counted="{}"),
}
HOSTILE |= {
    f"no {name}": gone(name)
    for name in ("facts", "counted", "single", "left_out", "models", "evaluators")
}


@pytest.mark.parametrize("case", HOSTILE)
def test_hostile_contents_are_one_error(case, load, tmp_path):
    assert load().n_rounds == 200
    path = re.escape(str(tmp_path / "total.npz"))
    with pytest.raises(ValueError, match=f"{path} is damaged, or no"):
        load(HOSTILE[case])


def test_other_formats_and_kinds_are_refused(load):
    for change, message in (
        (told(format=99), "has format 99, and this version of skope_ope"),
        (gone("format"), "has format None"),
        (told(kind="other"), r"total\.npz is no file of ValueSummary.save"),
        (gone("kind"), "is damaged|is no file"),
    ):
        with pytest.raises(ValueError, match=message):
            load(change)


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
    "a deep header": lambda path: single(path, DEEP),
    "Arrow columns": packed_columns,
    "no file of ours": lambda path: b"no file of ours at all",  # a pickle for numpy
    "an array": lambda path: single(path, np.arange(3)),
    "fewer arrays than it names": lambda path: lacking(path),
}


def lacking(path):
    """Write a summary without one of its arrays."""
    summary_of(world(50)).save(whole := path.with_suffix(".npz"))
    with zipfile.ZipFile(whole) as file, zipfile.ZipFile(path, "w") as other:
        for name in file.namelist()[:-1]:
            other.writestr(name, file.read(name))
    return path.read_bytes()


def single(path, content):
    """Write a file of one member."""
    with zipfile.ZipFile(path, "w") as file:
        file.writestr("summary.npy", npy(content))
    return path.read_bytes()


@pytest.mark.parametrize("case", FILES)
def test_hostile_files_are_one_error(case, path, tmp_path):
    made = FILES[case](tmp_path / "made")
    arrow = path.suffix == ".arrow"
    path.write_bytes(in_arrow(made) if arrow and "a " in case else made)
    assert "pickle" not in refused(path)
