# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause

import datetime

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from skope_ope import BanditLogs
from skope_ope.logs._coded_labels import ColumnCodes, column_codes

pd = pytest.importorskip("pandas")
pl = pytest.importorskip("polars")
pa = pytest.importorskip("pyarrow")

TEXTS = ["b", "a", "", "b", "élan", "a ", "b"]
UNUSED = ["never", *dict.fromkeys(TEXTS[::-1]), "nor this"]
ENCODED = pa.array(TEXTS).dictionary_encode()
CODED = {
    "pandas, objects": pd.Series(TEXTS, dtype=object),
    "pandas, python": pd.Series(TEXTS, dtype="string[python]"),
    "pandas, pyarrow": pd.Series(TEXTS, dtype="string[pyarrow]"),
    "pandas, arrow": pd.Series(TEXTS, dtype=pd.ArrowDtype(pa.string())),
    "pandas, as read": pd.Series(TEXTS),
    "pandas, index": pd.Index(TEXTS),
    "pandas, array": pd.array(TEXTS, dtype="string"),
    "pandas, categories": pd.Series(TEXTS, dtype="category"),
    "pandas, unused": pd.Series(pd.Categorical(TEXTS, UNUSED)),
    "pandas, ordered": pd.Series(pd.Categorical(TEXTS, UNUSED, ordered=True)),
    "pandas, categorical": pd.Categorical(TEXTS, UNUSED),
    "pandas, categorical index": pd.CategoricalIndex(TEXTS),
    "polars": pl.Series(TEXTS),
    "polars, categories": pl.Series(TEXTS, dtype=pl.Categorical),
    "polars, enum": pl.Series(TEXTS, dtype=pl.Enum(UNUSED)),
    "pyarrow": pa.array(TEXTS),
    "pyarrow, large": pa.array(TEXTS, pa.large_string()),
    "pyarrow, chunks": pa.chunked_array([TEXTS[:2], [], TEXTS[2:]]),
    "pyarrow, dictionary": ENCODED,
    "pyarrow, several dictionaries": pa.chunked_array(
        [pa.array(part).dictionary_encode() for part in (TEXTS[:2], TEXTS[2:])]
    ),
    "pyarrow, slice": pa.array(["before", *TEXTS]).dictionary_encode()[1:],
}


@pytest.mark.parametrize("column", CODED.values(), ids=CODED)
def test_codes_stand_for_the_texts(column):
    found = column_codes(column)
    assert found.labels.dtype.kind in "OU"
    assert len(set(found.labels)) == len(found.labels)
    assert found.labels[found.codes].tolist() == TEXTS
    assert found.codes.dtype == np.intp


def test_codes_of_categories_are_used_as_they_are():
    column = pd.Series(pd.Categorical([3, 1, 3], [3, 2, 1]))
    found = column_codes(column)
    assert_array_equal(found.labels, [3, 2, 1])
    assert found.labels.dtype == np.asarray(column).dtype
    assert_array_equal(found.codes, [0, 2, 0])
    assert column_codes(found) is found
    assert isinstance(found, ColumnCodes)


DAY = datetime.date(2026, 1, 1)
UNCODED = {
    "list": TEXTS,
    "numpy": np.array(TEXTS),
    "pandas, numbers": pd.Series([1, 2]),
    "pandas, mixed": pd.Series(["1", 1], dtype=object),
    "pandas, lists": pd.Series(["a", ["a"]], dtype=object),
    "pandas, tuples": pd.Series([("a", 1), ("b", 2)]),
    "pandas, dates": pd.Series([DAY, DAY])
    .astype("category")
    .cat.rename_categories(pd.to_datetime([DAY])),
    "pandas, floats": pd.Series([0.5, 1.5], dtype="category"),
    "pandas, missing": pd.Series(["a", None], dtype=object),
    "pandas, missing text": pd.Series(["a", None], dtype="string"),
    "pandas, missing category": pd.Series(["a", None], dtype="category"),
    "pandas, frame": pd.DataFrame({"dtype": TEXTS}),
    "polars, numbers": pl.Series([1, 2]),
    "polars, missing": pl.Series(["a", None]),
    "polars, missing category": pl.Series(["a", None], dtype=pl.Categorical),
    "polars, objects": pl.Series([object(), "a"], dtype=pl.Object),
    "polars, frame": pl.DataFrame({"a": TEXTS}),
    "pyarrow, numbers": pa.array([1, 2]),
    "pyarrow, missing": pa.array(["a", None]),
    "pyarrow, missing in the dictionary": pa.DictionaryArray.from_arrays(
        pa.array([0, 1]), pa.array(["a", None])
    ),
    "pyarrow, twice in the dictionary": pa.DictionaryArray.from_arrays(
        pa.array([0, 1]), pa.array(["a", "a"])
    ),
    "pyarrow, table": pa.table({"a": TEXTS}),
}


@pytest.mark.parametrize("column", UNCODED.values(), ids=UNCODED)
def test_other_columns_have_no_codes(column):
    assert column_codes(column) is None


@pytest.mark.parametrize(
    "column",
    [
        pd.Series([], dtype="str"),
        pl.Series([], dtype=pl.String),
        pa.array([], "string"),
    ],
    ids=["pandas", "polars", "pyarrow"],
)
def test_empty_columns(column):
    found = column_codes(column)
    assert len(found.labels) == len(found.codes) == 0


def test_texts_of_polars_that_numpy_does_not_tell_apart_are_one_label():
    logs = BanditLogs(np.empty((3, 0)), [0, 1, 0], [0, 1, 0], [0.5, 0.5, 0.5])
    logs = logs.replace(group=pl.Series(["a\0", "a", "b"]))
    assert logs.groups.tolist() == ["a", "b"]
    assert logs.group_index.tolist() == [0, 0, 1]
