# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from skope_ope import BanditLogs
from skope_ope.logs._coded_labels import coded_labels, encode_labels
from skope_ope.logs._validation import check_labels
from tests.logs.test_validation import LABELS


@pytest.mark.parametrize("values", LABELS.values(), ids=LABELS.keys())
def test_default_labels_are_the_sorted_distinct_values(values):
    values = check_labels("action", values)
    labels, codes = encode_labels("action", values)
    assert labels.tolist() == sorted(set(values.tolist()))
    assert labels[codes].tolist() == values.tolist()
    assert codes.dtype == np.intp
    assert not codes.flags.writeable


@pytest.mark.parametrize("values", LABELS.values(), ids=LABELS.keys())
def test_given_labels_keep_their_order(values):
    given = np.array(sorted(set(values.tolist()), reverse=True), dtype=values.dtype)
    labels, codes = encode_labels("action", values, given, "actions")
    assert labels.tolist() == given.tolist()
    assert labels[codes].tolist() == values.tolist()


def test_tuples_may_be_labels():
    values = np.empty(3, dtype=object)
    values[:] = [(1, 2), (0, 1), (1, 2)]
    labels, codes = encode_labels("action", check_labels("action", values))
    assert labels.tolist() == [(0, 1), (1, 2)]
    assert codes.tolist() == [1, 0, 1]


@pytest.mark.parametrize(
    ("values", "labels", "error", "message"),
    [
        ([[1]], None, ValueError, r"action must be 1-d .* got shape \(1, 1\)"),
        ([1j], None, TypeError, "complex"),
        (["b"], ["a"], ValueError, r"action 'b' at row 0 is not among actions \['a'\]"),
        ([1, 2], [1, 3], ValueError, r"action 2 at row 1 .* Add it there or drop"),
        ([1], list(range(2, 20)), ValueError, r"\[2, 3, .*, \.\.\.\]"),
        ([1], [1, 1], ValueError, r"actions must be distinct, got \[1, 1\]"),
        ([1], [[1]], ValueError, "actions must be 1-d"),
        ([1], [1, None], ValueError, "actions has a missing label"),
    ],
    ids=str,
)
def test_bad_labels_are_refused(values, labels, error, message):
    with pytest.raises(error, match=message):
        encode_labels("action", check_labels("action", values), labels, "actions")


def test_labels_that_have_no_order_need_one():
    values = np.array([3, "a"], dtype=object)
    with pytest.raises(TypeError, match="Pass the ordered labels as `actions`"):
        encode_labels("action", values)
    given = np.array(["a", 3], dtype=object)
    assert encode_labels("action", values, given, "actions")[1].tolist() == [1, 0]


@pytest.mark.parametrize("values", LABELS.values(), ids=LABELS.keys())
def test_labels_are_kept_and_coded(values):
    labels, distinct, codes = coded_labels("action", values)
    assert_array_equal(labels, values)
    assert labels.dtype == values.dtype
    assert not labels.flags.writeable
    assert not np.shares_memory(labels, values)
    assert_array_equal(distinct[codes], values)
    assert_array_equal(np.sort(distinct), np.unique(values))
    assert_array_equal(coded_labels("key", values, copy=False)[0], values)


def test_what_is_missing_or_cannot_be_hashed_is_refused():
    lists = np.empty(2, dtype=object)
    lists[:] = [["a"], ["b"]]
    with pytest.raises(TypeError, match=r"action mixes .*unhashable"):
        coded_labels("action", lists)
    lists[1] = None  # a missing label is told first
    with pytest.raises(ValueError, match=r"missing label \(None\) at row 1"):
        coded_labels("action", lists)
    mixed = np.array(["a", np.nan, 1, np.nan], dtype=object)
    with pytest.raises(ValueError, match=r"label \(nan\) at row 1 \(2 such rows\)"):
        coded_labels("action", mixed)


TEXTS = ["b", "a", "", "10", "9", "élan", "a ", "nan", "B"]


def containers(values):
    """Every way in which a column of texts without missing ones may come."""
    pd, pl, pa = (pytest.importorskip(name) for name in ("pandas", "polars", "pyarrow"))
    unused = ["never", *sorted(set(values))[::-1], "Never"]
    for dtype in (object, "str", "string[python]", "string[pyarrow]", "category"):
        yield pd.Series(values, dtype=dtype, index=range(len(values), 0, -1))
    yield pd.Series(values, dtype=pd.ArrowDtype(pa.string()))
    for ordered in (False, True):
        yield pd.Series(pd.Categorical(values, unused, ordered=ordered))
    for dtype in (pl.String, pl.Categorical, pl.Enum(unused)):
        yield pl.Series(values, dtype=dtype)
    yield pa.chunked_array([values[:5], [], values[5:]])
    yield pa.chunked_array([pa.array(values).dictionary_encode()])
    yield pa.chunked_array(
        [pa.array(part).dictionary_encode() for part in (values[:7], values[7:])]
    )


def frame_of(column, **others):
    """A frame of the library of the column."""
    library = __import__(type(column).__module__.split(".")[0])
    make = getattr(library, "table", None) or library.DataFrame
    if library.__name__ == "pandas":
        return library.DataFrame({"label": column.reset_index(drop=True), **others})
    return make({"label": column, **others})


@pytest.mark.parametrize("seed", range(3))
def test_logs_of_every_container_are_those_of_plain_texts(seed):
    n = 60
    rng = np.random.default_rng(seed)
    some = rng.choice(TEXTS, 1 + seed * 3, replace=False)
    values = np.array(some[rng.integers(0, len(some), n)].tolist())
    labels, codes = np.unique(values, return_inverse=True)
    rows = rng.integers(0, n, 11)
    part, part_codes = np.unique(values[rows], return_inverse=True)
    X, reward = np.zeros((n, 1)), rng.random(n)
    for column in (values, values.astype(object), *containers(values.tolist())):
        fields = {"action": column, "logger": column, "group": column}
        found = [BanditLogs(X, reward=reward, **fields)]
        if not isinstance(column, np.ndarray):
            frame = frame_of(column, reward=reward)
            names = dict.fromkeys(fields, "label")
            found.append(
                BanditLogs.from_frame(frame, reward="reward", context=[], **names)
            )
        for logs in found:
            assert_array_equal(logs.actions, labels)
            assert logs.actions.dtype == labels.dtype
            assert_array_equal(logs.loggers, labels)
            assert_array_equal(logs.groups, labels)
            for index in (logs.action_index, logs.logger_index, logs.group_index):
                assert_array_equal(index, codes)
                assert index.dtype == np.intp
                assert not index.flags.writeable
            for field in (logs.action, logs.logger, logs.group):
                assert_array_equal(field, values)
                assert not field.flags.writeable
            taken = logs[rows]
            assert_array_equal(taken.actions, labels)
            assert_array_equal(taken.action_index, codes[rows])
            assert_array_equal(taken.groups, part)
            assert_array_equal(taken.group_index, part_codes)


@pytest.mark.parametrize("missing", [None, float("nan")])
def test_missing_labels_of_every_container_are_told_by_row(missing):
    values = ["a", "b", missing, "a", None, "b"]
    pd, pl, pa = (pytest.importorskip(name) for name in ("pandas", "polars", "pyarrow"))
    texts = [value if isinstance(value, str) else None for value in values]
    columns = [pd.Series(values, dtype=dtype) for dtype in (object, "str", "category")]
    columns += [pl.Series(texts), pl.Series(texts, dtype=pl.Categorical)]
    columns += [pa.array(texts), pa.array(texts).dictionary_encode()]
    for column in columns:
        with pytest.raises(ValueError, match=r"action has a missing .* at row 2 \(2"):
            BanditLogs(np.zeros((6, 1)), column, np.ones(6))
        frame = frame_of(column, reward=np.ones(6))
        with pytest.raises(ValueError, match=r"'label' has a missing .* row 2 \(2"):
            BanditLogs.from_frame(frame, action="label", reward="reward", context=[])


def test_numbers_and_texts_are_different_labels_and_equal_numbers_one():
    for texts in (["1", "2", "1"], np.array(["1", "2", "1"])):
        logs = BanditLogs(np.zeros((3, 1)), texts, np.ones(3), group=texts)
        assert logs.actions.tolist() == logs.groups.tolist() == ["1", "2"]
    values = np.array([1, 1.0, True, 2], dtype=object)
    logs = BanditLogs(np.zeros((4, 1)), values, np.ones(4), group=values)
    assert_array_equal(logs.action_index, [0, 0, 0, 1])
    assert_array_equal(logs.group_index, [0, 0, 0, 1])
    values[3] = "1"
    with pytest.raises(TypeError, match="Pass the ordered labels as `actions`"):
        BanditLogs(np.zeros((4, 1)), values, np.ones(4))
    with_given = BanditLogs(
        np.zeros((4, 1)),
        values,
        np.ones(4),
        actions=np.array(["1", 1], dtype=object),
        group=values,
    )
    assert_array_equal(with_given.action_index, [1, 1, 1, 0])
    assert with_given.groups.tolist() == [1, "1"]  # as they appear


def test_rows_that_are_taken_are_not_coded_again(monkeypatch):
    values = np.array(TEXTS * 3)
    logs = BanditLogs(
        np.zeros((27, 1)), values, np.ones(27), logger=values, group=values
    )

    def refuse(*args):
        raise AssertionError("labels were coded again")

    for module in ("_factorise", "_coded_labels", "_groups"):
        monkeypatch.setattr(f"skope_ope.logs.{module}.distinct_labels", refuse)
    for taken in (logs[3:20], logs[[5, 2, 2]], logs.with_columns(x=values)[:9]):
        assert_array_equal(taken.actions[taken.action_index], taken.action)
        assert_array_equal(taken.groups[taken.group_index], taken.group)
