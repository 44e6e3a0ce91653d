# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause

import gzip
import json
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from skope_ope import scan_logs
from skope_ope.exceptions import LogsWarning
from skope_ope.readers import read_jsonl

pytestmark = pytest.mark.frames
pytest.importorskip("pandas")

MODELS = ["large", "medium", "small"]
PROBA = [0.2, 0.3, 0.5]


def traces(n=12):
    for i in range(n):
        yield {
            "ts": f"2026-01-31T12:00:{i:02}Z",
            "context": {"age": 20 + i, "plan": "ab"[i % 2], "flag": i % 3 == 0},
            "model": MODELS[i % 3],
            "probs": PROBA,
            "prob": PROBA[i % 3],
            "usage": {"cost": i / 10},
            "solved": i % 2,
            "session": f"00{i // 2}",
        }


def write(tmp_path, rows, name="log.jsonl"):
    path = tmp_path / name
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


ROLES = {"action": "model", "reward": "solved", "propensity": "prob"}


def columns_of(logs):
    return [str(name) for name in logs.context.columns]


def test_a_trace(tmp_path):
    more = {"timestamp": "ts", "group": "session", "columns": {"cost": "usage.cost"}}
    roles = {**ROLES, **more, "context": ["context"], "reward_range": (0, 1)}
    logs = read_jsonl(write(tmp_path, traces()), **roles)
    assert_array_equal(logs.actions, MODELS)
    assert_array_equal(logs.reward, [0.0, 1.0] * 6)
    assert_array_equal(logs.propensity, PROBA * 4)
    assert logs.timestamp[1] == np.datetime64("2026-01-31T12:00:01")
    assert_array_equal(logs.group[:3], ["000", "000", "001"])  # texts stay texts
    assert_array_equal(logs.columns["cost"], np.arange(12) / 10)
    assert columns_of(logs) == ["context.age", "context.plan", "context.flag"]
    assert list(logs.context["context.plan"][:2]) == ["a", "b"]
    assert_array_equal(logs.context["context.flag"][:4], [1.0, 0.0, 0.0, 1.0])
    assert logs.reward_range == (0, 1)


def test_all_probabilities_from_a_list_or_an_object(tmp_path):
    rows = [row | {"by": dict(zip(MODELS, PROBA, strict=True))} for row in traces()]
    path = write(tmp_path, rows)
    roles = {"action": "model", "reward": "solved", "context": ["context.age"]}
    names = {name: f"by.{name}" for name in MODELS}
    fields = {"actions": MODELS, "logging_proba": ["probs.0", "probs.1", "probs.2"]}
    for words in (fields, {"logging_proba": names}):
        logs = read_jsonl(path, **roles, **words)
        assert_array_equal(logs.logging_proba, [PROBA] * 12)
        assert_array_equal(logs.propensity, PROBA * 4)


@pytest.mark.parametrize("backend", ["pandas", "polars", "pyarrow"])
def test_frames_of_every_library(tmp_path, backend):
    pytest.importorskip(backend)
    rows = list(traces())
    del rows[1]["context"]["plan"]
    rows[2]["context"]["age"] = None
    words = {"exclude": ["probs", "usage", "session", "ts"], "backend": backend}
    logs = read_jsonl(write(tmp_path, rows), **ROLES, **words)
    assert type(logs.context).__module__.split(".")[0] == backend
    names = getattr(logs.context, "column_names", None) or columns_of(logs)
    assert names == ["context.age", "context.plan", "context.flag"]
    frame = logs.to_frame("pandas")
    assert np.isnan(frame["context.age"][2])
    assert frame["context.plan"].isna().tolist()[:3] == [False, True, False]


@pytest.mark.parametrize("packed", ["gz", "zst"])
def test_packed_files(tmp_path, packed):
    plain = write(tmp_path, traces())
    path = tmp_path / f"log.jsonl.{packed}"
    if packed == "gz":
        path.write_bytes(gzip.compress(plain.read_bytes()))
    else:
        pyarrow = pytest.importorskip("pyarrow")
        with pyarrow.CompressedOutputStream(str(path), "zstd") as file:
            file.write(plain.read_bytes())
    roles = {**ROLES, "context": ["context"]}
    left, right = (read_jsonl(one, **roles) for one in (plain, path))
    assert_array_equal(left.reward, right.reward)
    assert left.context.equals(right.context)


def test_a_mistake_is_told_with_its_line(tmp_path):
    rows = list(traces())

    def read(k, change, **roles):
        changed = [dict(row) for row in rows]
        changed[k] |= change
        path = write(tmp_path, changed)
        read_jsonl(path, **{**ROLES, "context": ["context"], **roles})

    with pytest.raises(ValueError, match=r"log\.jsonl, line 3: field 'solved' is miss"):
        read(2, {"solved": None})
    with pytest.raises(ValueError, match=r"log\.jsonl: .* at line 4"):
        read(3, {"prob": 1.5})
    for roles, message in (
        ({"action": "mdel"}, r"no column 'mdel'. Did you mean 'model'"),
        ({"context": ["contxt"]}, r"no column 'contxt'. Did you mean 'cont"),
        ({"context": ["model"]}, "'model' is the action, so it cannot also be"),
        ({"context": None}, "name the columns of the context"),
        ({"context": None, "reward": "solvd"}, r"'solvd'\. Did you mean 'solved'"),
        ({"backend": "dask"}, "backend must be one of"),
    ):
        with pytest.raises(ValueError, match=message):
            read(0, {}, **roles)
    roles = ROLES | {"propensity": 1 / 3, "context": []}
    logs = read_jsonl(tmp_path / "log.jsonl", **roles)
    assert logs.n_features == 0
    assert_array_equal(logs.propensity, [1 / 3] * 12)
    with pytest.raises(TypeError, match=r"Use \['context'\]"):
        read(0, {}, context="context")
    with pytest.warns(LogsWarning, match=r"line 5: field 'context.plan' is 3 among"):
        read(4, {"context": {"age": 3, "plan": 3, "flag": True}})
    with pytest.warns(LogsWarning) as told:
        read_jsonl(tmp_path / "log.jsonl", **ROLES, context=["context"])
    assert Path(told[0].filename) == Path(__file__)
    with pytest.raises(FileNotFoundError, match="no such file"):
        read_jsonl(tmp_path / "none.jsonl", **ROLES, context=[])


def test_contexts_and_roles(tmp_path):
    path = write(tmp_path, traces())
    for context in ("context", "context.*", "con*"):
        logs = read_jsonl(path, **ROLES, context=[context])
        assert columns_of(logs) == ["context.age", "context.plan", "context.flag"]
    with pytest.raises(ValueError, match=r"not used yet: 'ts', .*'usage\.cost'"):
        read_jsonl(path, **ROLES, context=["*"])
    with pytest.raises(TypeError, match=r"got the text '\*'\.$"):
        read_jsonl(path, **ROLES, context="*")
    # roles that are no single field
    with pytest.raises(ValueError, match="must be the name of one field, got 'solved"):
        read_jsonl(path, **ROLES | {"reward": "solved - 3*usage.cost"}, context=[])
    with pytest.raises(TypeError, match="must be the name of one field, got <func"):
        read_jsonl(path, **ROLES | {"reward": lambda row: 1}, context=[])
    with pytest.raises(ValueError, match=r"probs is an object of 0, 1, 2: use logging"):
        read_jsonl(path, **ROLES | {"propensity": "probs"}, context=[])
    roles = {"action": "model", "reward": "solved", "context": []}
    with pytest.raises(ValueError, match=r"use logging_proba=\{'0': 'probs.0', '1': "):
        read_jsonl(path, **roles, logging_proba="probs")
    # lazy logs name the reader
    roles = {**ROLES, "context": ["context.age"]}
    with pytest.raises(ValueError, match=r"cannot be scanned. JSON lines .* read_json"):
        scan_logs(path, **roles)
    with pytest.raises(ValueError, match=r"format='jsonl' cannot be scanned"):
        scan_logs(path, format="jsonl", **roles)


def test_rounded_probabilities_sum_to_one(tmp_path):
    rows = list(traces())
    rows[4]["probs"] = [0.2, 0.3, 0.51]
    roles = {"action": "model", "reward": "solved", "context": [], "actions": MODELS}
    roles["logging_proba"] = ["probs.0", "probs.1", "probs.2"]
    path = write(tmp_path, rows)
    with pytest.warns(LogsWarning, match="2 digits, so 1 of 12 rows") as told:
        logs = read_jsonl(path, **roles)
    assert Path(told[0].filename) == Path(__file__)
    assert_array_equal(logs.logging_proba[4], np.array([0.2, 0.3, 0.51]) / 1.01)
    assert_array_equal(logs.logging_proba[5], PROBA)
    rows[4]["probs"] = [0.2, 0.3, 0.7]
    with pytest.raises(ValueError, match=r"got 1\.2 at line 5"):
        read_jsonl(write(tmp_path, rows), **roles)


# -- lines and fields -----------------------------------------------------------------
INSIDE = {"a": 1, "u.x": 2, "u.l.1": 6, "u.l.0": 5, "k.l": 7, "u.m.n": 8}


@pytest.mark.parametrize(("name", "value"), INSIDE.items())
def test_fields_inside_objects_and_lists(tmp_path, name, value):
    event = {"a": 1, "b": 1, "u": {"x": 2, "l": [5, 6], "m.n": 8}, "k.l": 7}
    path = write(tmp_path, [event | {"r": 0}, {"a": 2, "b": 2, "r": 1}])
    action = "b" if name == "a" else "a"
    logs = read_jsonl(path, action=action, reward="r", context=[name])
    expected = [value, 2 if name == "a" else np.nan]
    assert_array_equal(logs.context[name], expected)
    rows = [{"b": 1, "u": {"x": None, "l": [5, 6]}}, {"u": {"y": {"z": 1}}}]
    in_order = r"has 'b', 'u\.x', 'u\.l\.0', 'u\.l\.1', 'u\.y"
    with pytest.raises(ValueError, match=in_order):
        read_jsonl(write(tmp_path, rows), action="none", reward="b")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"a": 1}\n{"a": \n', r"log\.jsonl, line 2: not valid JSON"),
        ('{"a": 1}\n\n[1]\n', "line 3: the line holds .* one JSON object on one line"),
        ('{"a": NaN}\n', "line 1: NaN is not a finite number"),
        ('{"a": 1, "a": 2}\n', "line 1: the key 'a' comes twice"),
        ('{"u": [{"a": 1, "a": 2}]}\n', "line 1: the key 'a' comes twice"),
        ('{"u.a": 1, "u": {"a": 2}}\n', "two fields are called 'u.a'"),
        ("\n\n", "is empty"),
    ],
)
def test_bad_lines(tmp_path, text, message):
    path = tmp_path / "log.jsonl"
    path.write_text(text)
    with pytest.raises(ValueError, match=message):
        read_jsonl(path, action="a", reward="a")


# -- probabilities that were rounded --------------------------------------------------
def with_proba(tmp_path, proba):
    k = np.shape(proba)[1]
    rows = [{"a": i % k, "r": 1, "p": list(row)} for i, row in enumerate(proba)]
    names = {a: f"p.{a}" for a in range(k)}
    path = write(tmp_path, rows)
    return read_jsonl(path, action="a", reward="r", context=[], logging_proba=names)


@pytest.mark.parametrize("digits", range(2, 7))
def test_rounded_rows_are_divided_by_their_sums(tmp_path, digits):
    rng = np.random.RandomState(0)
    proba = np.round(0.01 + 0.97 * rng.dirichlet(np.ones(3), size=300), digits)
    off = np.abs(proba.sum(axis=1) - 1) > 1e-6
    assert off.any()
    with pytest.warns(LogsWarning, match=f"rounded to {digits} digits") as told:
        found = with_proba(tmp_path, proba).logging_proba
    assert told[0].message.value == off.sum()
    assert Path(told[0].filename) == Path(__file__)
    assert_array_equal(found[~off], proba[~off])
    assert_allclose(found.sum(axis=1), 1, atol=1e-6)


@pytest.mark.parametrize(
    "proba",
    [
        [[0.33, 0.33], [0.5, 0.5]],  # 0.34 are too many for two digits
        [[1 / 3, 1 / 3, 0.3333], [0.5, 0.25, 0.25]],  # digits were not dropped
        [[0.3334, 0.3334, 0.3334], [0.123456789, 0.5, 0.376543211]],
        np.full((2, 25), 0.02),  # half of the sum is no rounding
    ],
)
def test_other_sums_are_refused(tmp_path, proba):
    with pytest.raises(ValueError, match="logging_proba must sum"):
        with_proba(tmp_path, proba)
