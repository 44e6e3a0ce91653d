# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Table files of one column, and what a reader makes of it."""

import gzip
import json

import numpy as np
import pytest

from skope_ope.readers import read_growthbook

OTHERS = {"u": "user", "t": "timestamp", "v": "variation", "e": "experiment_column"}
ROLE = {"label": "variation", "moment": "timestamp"}


def write_csv(path, cells):
    rows = [f"{cell},{i},{i},{i % 2},e" for i, cell in enumerate(cells)]
    data = "\n".join(["a,u,t,v,e", *rows, ""]).encode()
    path.write_bytes(gzip.compress(data) if path.suffix == ".gz" else data)
    return path


def write_jsonl(path, values):
    rows = [
        {"a": value, "u": i, "t": i, "v": i % 2, "e": "e"}
        for i, value in enumerate(values)
    ]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def write_parquet(path, values):
    pyarrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    n = np.arange(len(values))
    e = pyarrow.array(["e"] * len(values), pyarrow.string())
    table = pyarrow.table({"a": values, "u": n, "t": n, "v": n % 2, "e": e})
    parquet.write_table(table, path)
    return path


def column_a(path, kind):
    """Column "a" as a label, a number, a moment or a feature, in the file's order."""
    words = {role: name for name, role in OTHERS.items()}
    if kind in ROLE:
        words[ROLE[kind]] = "a"
    words |= {"number": {"reward": "a"}, "feature": {"context": ["a"]}}.get(kind, {})
    logs = read_growthbook(path, path, weights="even", outcome_time=None, **words)
    if kind == "feature":
        return logs.context["a"].to_numpy()
    return {"label": logs.action, "number": logs.reward, "moment": logs.timestamp}[kind]
