# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause

import numpy as np
import pytest
from scipy import sparse

from skope_ope import BanditLogs, SlateLogs
from skope_ope.logs.checks._context_columns import column_findings


def logs_of(context):
    n_rounds = context.shape[0]
    return BanditLogs(context, np.arange(n_rounds) % 3, np.arange(n_rounds) % 2.0)


def found(logs):
    facts, findings = column_findings(logs)
    assert all(one.severity == "note" for one in findings)
    return facts, {one.name: one for one in findings}


def noise(n_rounds=3000, n_columns=4):
    return np.random.default_rng(0).normal(size=(n_rounds, n_columns))


def test_nothing_odd():
    assert found(logs_of(noise())) == ({}, {})
    assert found(logs_of(np.empty((5, 0)))) == ({}, {})


def test_arrays():
    X = noise(n_columns=7)
    X[5, 0], X[7:9, 1] = np.inf, np.nan
    X[:, 3], X[:, 4] = 2.0, np.nan
    X[:, 5] = X[:, 1]  # missing values included
    facts, by_name = found(logs_of(X))
    missing = facts["missing values"]
    assert missing == {"column": [0, 1, 4, 5], "rounds": [1, 2, 3000, 2]}
    assert by_name["missing_values"].columns == (0, 1, 4, 5)
    assert by_name["missing_values"].effect == 1
    assert by_name["constant_column"].columns == (3, 4)
    one = by_name["duplicate_column"]
    assert one.columns == (5,)
    assert one.found == "Context column 5 is context column 1 again."


def test_one_round_says_it_all():
    # what the sample of rounds shows is looked at in all of them
    X = noise(20_000, 3)
    X[:, 1], X[:, 2] = 1.0, X[:, 0]
    assert set(found(logs_of(X))[1]) == {"constant_column", "duplicate_column"}
    X[12_345, 1:] = 7.0
    assert found(logs_of(X)) == ({}, {})


def test_large_numbers_are_not_infinite():
    X = np.full((10, 2), 1e308)
    X[::2] /= 2
    assert "missing_values" not in found(logs_of(X))[1]


@pytest.mark.parametrize("library", ["pandas", "polars", "pyarrow"])
def test_frames(library):
    pd = pytest.importorskip("pandas")
    rng = np.random.default_rng(0)
    text = rng.choice(["a", "b", None], 500)
    frame = pd.DataFrame(
        {
            "age": rng.normal(size=500),
            "city": text,
            "town": text,
            "country": "x",
            "visits": pd.array(rng.integers(0, 9, 500), dtype="Int64"),
            "since": pd.date_range("2026-01-01", periods=500),
            "empty": np.full(500, np.nan),
        }
    )
    frame.loc[3, "visits"] = pd.NA
    frame.loc[[4, 5], "since"] = pd.NaT
    if library == "polars":
        frame = pytest.importorskip("polars").from_pandas(frame)
    elif library == "pyarrow":
        frame = pytest.importorskip("pyarrow").Table.from_pandas(frame)
    facts, by_name = found(logs_of(frame))
    counts = dict(zip(*facts["missing values"].values(), strict=True))
    gone = sum(one is None for one in text)
    expected = {"city": gone, "town": gone, "visits": 1, "since": 2, "empty": 500}
    assert counts == expected
    assert by_name["constant_column"].columns == ("country", "empty")
    assert by_name["duplicate_column"].found == "Column 'town' is column 'city' again."


def test_sparse_and_wide():
    rows = np.arange(1000)
    X = sparse.csr_matrix((rows + 1.0, (rows, 97 * rows)), shape=(1000, 100_000))
    X.data[0] = np.nan
    facts, by_name = found(logs_of(X))
    assert facts["missing values"]["rounds"] == [1]
    assert facts["columns tested"] == "200 of 100,000 (those with the most entries)"
    assert by_name["constant_column"].number == 99_000
    assert "and 98,995 more" in by_name["constant_column"].found
    both = sparse.csr_matrix(np.column_stack([noise(50, 2), noise(50, 2)[:, :1]]))
    assert found(logs_of(both))[1]["duplicate_column"].columns == (2,)
    facts, _ = found(logs_of(noise(50, 300)))
    assert facts["columns tested"] == "200 of 300 (the first)"


def test_one_round_and_slates():
    assert found(logs_of(np.ones((1, 3)))) == ({}, {})
    X = noise(50, 2)
    X[:, 1] = 0
    slates = SlateLogs(X, np.zeros((50, 1), int), np.arange(50.0))
    assert list(found(slates)[1]) == ["constant_column"]
