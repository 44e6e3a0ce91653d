# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Labels of actions, loggers and groups: of any kind, from any container."""

import datetime
import pickle
import zlib
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from skope_ope import BanditLogs, SlateLogs, UniformPolicy, summarize
from skope_ope.evaluators import ValueSummary
from skope_ope.logs import HashKFold

pd = pytest.importorskip("pandas")
pl = pytest.importorskip("polars")
pa = pytest.importorskip("pyarrow")

RNG = np.random.default_rng(0)
DAY = datetime.date(2026, 1, 31)


def objects(values):
    array = np.empty(len(values), dtype=object)
    array[:] = values
    return array


def bandit_logs(group, **fields):
    n = len(group)
    given = {"action": np.arange(n) % 2, "group": group, **fields}
    return BanditLogs(np.zeros((n, 1)), reward=np.ones(n), **given)


def slate_logs(group):
    n = len(group)
    return SlateLogs(np.zeros((n, 1)), np.zeros((n, 2), int), np.ones(n), group=group)


LOGS = pytest.mark.parametrize("logs_of", [bandit_logs, slate_logs])
TEXTS = np.array(["ann", "bob", "", "ann ", "élan", "ann"])
SOME = RNG.integers(0, 6, 200)
VALUES = {
    "counted integers": RNG.integers(-5, 5, 200),
    "wide integers": RNG.integers(0, 20, 200) * 10**12 - 7,
    "small integers, wide range": np.array([-100, 127, -100, 100], dtype=np.int8),
    "unsigned": np.array([2**64 - 1, 0, 2**64 - 1, 2**63 + 1], np.uint64),
    "far apart": np.array([-(2**62), 2**62, 0, 0]),
    "fractions": RNG.integers(0, 9, 200) / 4,
    "signs of zero": np.array([0.0, -0.0, 1.5, 0.0]),
    "booleans": RNG.integers(0, 2, 200) == 1,
    "dates": RNG.integers(0, 9, 200).astype("M8[D]"),
    "texts": TEXTS[SOME],
    "of another byte order": TEXTS[SOME].astype(">U5"),
    "every other text": TEXTS[SOME][::2],
    "bytes": TEXTS[[0, 1, 2, 0]].astype("S5"),
    "long texts": np.array(["a" * 100 + str(i) for i in RNG.integers(0, 9, 50)]),
    "objects": TEXTS[SOME].astype(object),
    "objects of integers": np.array([3, 1, 3, 10], dtype=object),
}
# of 3,000 rows with nearly as many labels some look for a slot several times
for n_labels in (300, 100_000):
    many = RNG.integers(0, n_labels, 3000)
    texts = np.array([f"label {v}" for v in many])
    VALUES |= {f"{n_labels} {kind}": texts.astype(kind) for kind in "USO"}
    VALUES |= {f"{n_labels} {kind}": many.astype(kind) for kind in ("f8", "M8[s]")}
    VALUES |= {f"{n_labels} {k}": (many * 10**13).astype(k) for k in ("i8", "u8")}
letters = [chr(k) for k in (*range(32, 127), 0x3A9, 0x10FFFF)]
texts = np.array([at * "a" + letter for letter in letters for at in range(17)])
VALUES["one character or the length"] = texts[RNG.integers(0, len(texts), 5000)]
if np.lib.NumpyVersion(np.__version__) >= "2.0.0":
    VALUES["texts of any length"] = TEXTS.astype(np.dtypes.StringDType())


def assert_labels(logs, values, labels, codes):
    """Actions, loggers and groups are these values."""
    for name in ("action", "logger", "group"):
        field, index = getattr(logs, name), getattr(logs, f"{name}_index")
        assert_array_equal(field, values)
        assert_array_equal(getattr(logs, f"{name}s"), labels)
        assert_array_equal(index, codes)
        assert index.dtype == np.intp
        assert not index.flags.writeable and not field.flags.writeable


@pytest.mark.parametrize("name", VALUES)
def test_labels_and_codes_are_those_of_unique(name):
    values = VALUES[name]
    expected, codes = np.unique(values, return_inverse=True)
    logs = bandit_logs(values, action=values, logger=values)
    assert_labels(logs, values, expected, codes)
    for field in (logs.action, logs.logger, logs.group):
        assert not np.shares_memory(field, values)
    for rows in (slice(0, 0), [1], [0, 3, 3, 1], slice(3, None, -1)):
        part, (some, own) = logs[rows], np.unique(values[rows], return_inverse=True)
        assert_array_equal(part.actions[part.action_index], values[rows])
        assert_array_equal(part.groups, some)
        assert_array_equal(part.group_index, own)
    given = expected[::-1]
    logs = bandit_logs(values, action=values, actions=given)
    assert_array_equal(logs.actions, given)
    assert_array_equal(logs.action_index, len(given) - 1 - codes)


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int64, np.uint64, float])
@pytest.mark.parametrize("given", [[-1, 0, 1, 2], [300, 0, 2, 1], [2**40, 1, 0, 2]])
def test_codes_do_not_depend_on_the_width_of_the_integers(dtype, given):
    values = np.array([0, 1, 2, 0], dtype=dtype)
    logs = bandit_logs(values, action=values, actions=given)
    assert logs.action_index.tolist() == [given.index(int(v)) for v in values]


def test_numbers_and_texts_are_different_labels_and_equal_numbers_one():
    for texts in (["1", "2", "1"], np.array(["1", "2", "1"])):
        logs = bandit_logs(texts, action=texts)
        assert logs.actions.tolist() == logs.groups.tolist() == ["1", "2"]
    values = objects([1, 1.0, True, 2])
    logs = bandit_logs(values, action=values)
    assert_array_equal(logs.action_index, [0, 0, 0, 1])
    assert_array_equal(logs.group_index, [0, 0, 0, 1])
    assert type(logs.groups[0]) is int  # the first of them
    values[3] = "1"
    with pytest.raises(TypeError, match="Pass the ordered labels as `actions`"):
        bandit_logs(values, action=values)
    logs = bandit_logs(values, action=values, actions=objects(["1", 1]))
    assert_array_equal(logs.action_index, [1, 1, 1, 0])
    assert logs.groups.tolist() == [1, "1"]  # as they appear
    assert logs[::-1].groups.tolist() == ["1", 1]
    pairs = objects([(1, 2), (0, 1), (1, 2)])
    assert bandit_logs(pairs, action=pairs).actions.tolist() == [(0, 1), (1, 2)]


@pytest.mark.parametrize(
    ("values", "labels", "error", "message"),
    [
        ([1, 2], [1, 3], ValueError, r"action 2 at row 1 .* Add it there"),
        ([1], list(range(2, 20)), ValueError, r"\[2, 3, .*, \.\.\.\]"),
        ([1], [1, 1], ValueError, r"actions must be distinct, got \[1, 1\]"),
        ([1], ["1"], ValueError, "action 1 at row 0 is not among"),
        (np.array([5, 9], np.uint64), [2, 9], ValueError, "action 5 at row 0 is not"),
        ([4], np.array([2**63 + 5], np.uint64), ValueError, "action 4 at row 0 is not"),
        (objects([["a"], ["b"]]), None, TypeError, "action mixes .*unhashable"),
        # a missing label is told first
        (objects([["a"], None]), None, ValueError, r"label \(None\) at row 1"),
        (objects([1, np.nan, np.nan]), None, ValueError, r"row 1 \(2 such rows\)"),
    ],
    ids=str,
)
def test_bad_labels_are_refused(values, labels, error, message):
    with pytest.raises(error, match=message):
        bandit_logs(range(len(values)), action=values, actions=labels)


@pytest.mark.skipif(np.lib.NumpyVersion(np.__version__) < "2.0.0", reason="numpy 2")
def test_texts_of_any_length_may_be_missing():
    text = np.dtypes.StringDType(na_object=None)
    assert bandit_logs(np.array(["b", "a"], dtype=text)).groups.tolist() == ["a", "b"]
    with pytest.raises(ValueError, match=r"missing label \(None\) at row 1"):
        bandit_logs([0, 1], action=np.array(["b", None], dtype=text))


# -- containers -----------------------------------------------------------------------
FEW = ["b", "a", "", "10", "9", "élan", "a ", "nan", "B"]


def containers(values):
    """Every way in which a column of texts without missing ones may come."""
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
    parts = values[:7], values[7:]
    yield pa.chunked_array([pa.array(part).dictionary_encode() for part in parts])
    # what is no column of a frame, too
    yield pd.Index(values)
    yield pd.array(values, dtype="string")
    yield pd.Categorical(values, unused)
    yield pd.CategoricalIndex(values)
    yield pa.array(values, pa.large_string())
    yield pa.array(["before", *values]).dictionary_encode()[1:]


SERIES = (pd.Series, pl.Series, pa.ChunkedArray)


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
    some = rng.choice(FEW, 1 + seed * 3, replace=False)
    values = np.array(some[rng.integers(0, len(some), n)].tolist())
    labels, codes = np.unique(values, return_inverse=True)
    rows = rng.integers(0, n, 11)
    part, part_codes = np.unique(values[rows], return_inverse=True)
    X, reward = np.zeros((n, 1)), rng.random(n)
    for column in (values, values.astype(object), *containers(values.tolist())):
        fields = {"action": column, "logger": column, "group": column}
        found = [BanditLogs(X, reward=reward, **fields)]
        if isinstance(column, SERIES):
            frame = frame_of(column, reward=reward)
            names = dict.fromkeys(fields, "label") | {"reward": "reward"}
            found.append(BanditLogs.from_frame(frame, **names, context=[]))
        for logs in found:
            assert logs.actions.dtype == labels.dtype
            assert_labels(logs, values, labels, codes)
            taken = logs[rows]
            assert_array_equal(taken.actions, labels)
            assert_array_equal(taken.action_index, codes[rows])
            assert_array_equal(taken.groups, part)
            assert_array_equal(taken.group_index, part_codes)


OTHERS = {  # columns whose codes are not those of texts
    "integers as categories": (pd.Categorical([3, 1, 3], [3, 2, 1]), [3, 1, 3]),
    "floats as categories": (pd.Series([0.5, 1.5], dtype="category"), [0.5, 1.5]),
    "tuples": (pd.Series([("a", 1), ("b", 2)]), [("a", 1), ("b", 2)]),
    "twice in a dictionary": (pa.DictionaryArray.from_arrays([0, 1], "aa"), ["a"] * 2),
    "no rows of a kind": (pl.Series([2, 1, 2]), [2, 1, 2]),
    "arrow numbers": (pa.array([1, 2]), [1, 2]),
}


@pytest.mark.parametrize("name", OTHERS)
def test_other_columns_of_libraries(name):
    column, values = OTHERS[name]
    logs = bandit_logs(column, action=column)
    assert logs.group.tolist() == logs.action.tolist() == values
    assert logs.actions.tolist() == logs.groups.tolist() == sorted(set(values))


def test_texts_of_polars_that_numpy_does_not_tell_apart_are_one_label():
    logs = bandit_logs([0, 1, 0]).replace(group=pl.Series(["a\0", "a", "b"]))
    assert logs.groups.tolist() == ["a", "b"]
    assert logs.group_index.tolist() == [0, 0, 1]


@pytest.mark.parametrize("missing", [None, float("nan")])
def test_missing_labels_of_every_container_are_told_by_row(missing):
    values = ["a", "b", missing, "a", None, "b"]
    texts = [value if isinstance(value, str) else None for value in values]
    kinds = (object, "str", "string", "category")
    columns = [pd.Series(values, dtype=dtype) for dtype in kinds]
    columns += [pd.Series([1, 2, None, 1, None, 2], dtype="Int64")]
    columns += [pl.Series(texts), pl.Series(texts, dtype=pl.Categorical)]
    columns += [pa.array(texts), pa.array(texts).dictionary_encode()]
    for column in columns:
        with pytest.raises(ValueError, match=r"action has a missing .* at row 2 \(2"):
            BanditLogs(np.zeros((6, 1)), column, np.ones(6))
        frame = frame_of(column, reward=np.ones(6))
        with pytest.raises(ValueError, match=r"'label' has a missing .* row 2 \(2"):
            BanditLogs.from_frame(frame, action="label", reward="reward", context=[])


# -- groups ---------------------------------------------------------------------------
@LOGS
def test_groups_are_numbered_among_the_rows_at_hand(logs_of):
    logs = logs_of(["u", "w", "v", "u"])
    before = pickle.dumps(logs)
    assert_array_equal(logs.group_index, [0, 2, 1, 0])
    assert logs.n_groups == 3
    assert logs.group_index is logs.group_index  # computed once
    assert not logs.group_index.flags.writeable
    assert pickle.dumps(logs) == before  # the logs are as they were
    assert pickle.loads(before).n_groups == 3
    part = logs[[1, 2]]
    assert_array_equal(part.group_index, [1, 0])
    assert part.n_groups == 2
    assert logs[:0].n_groups == 0
    other = logs.replace(group=[7, 7, 7, 7])
    assert_array_equal(other.group_index, [0, 0, 0, 0])
    assert (other.n_groups, logs.n_groups) == (1, 3)
    none = logs.replace(group=None)
    assert none.group_index is none.n_groups is None


PAIRS = [("u", 1), ("v", 1), ("u", 2), ("u", 1)]
COLUMNS = {"user": ["u", "v", "u", "u"], "day": [1, 1, 2, 1]}


COMPOSITE = [PAIRS, tuple(PAIRS), [list(pair) for pair in PAIRS]]
COMPOSITE += [
    np.array(PAIRS, kind) for kind in (object, [("user", "U1"), ("day", int)])
]
COMPOSITE += [pd.MultiIndex.from_tuples(PAIRS), pd.Series(PAIRS), pd.DataFrame(COLUMNS)]
COMPOSITE += [pl.DataFrame(COLUMNS), pa.table(COLUMNS)]


@LOGS
def test_composite_labels_are_tuples(logs_of):
    for group in COMPOSITE:
        logs = logs_of(group)
        assert logs.group.tolist() == PAIRS
        assert_array_equal(logs.group_index, [0, 2, 1, 0])
        assert logs[[1, 3]].group.tolist() == [PAIRS[1], PAIRS[3]]


def test_rows_of_numbers_are_tuples_and_a_single_column_is_the_labels():
    for given, labels in (
        (np.array([[1, 2], [1, 3]]), [(1, 2), (1, 3)]),
        (np.array([[1], [3]]), [1, 3]),
        (pd.DataFrame({"user": ["u", "v"]}), ["u", "v"]),
    ):
        assert bandit_logs([0, 1]).replace(group=given).group.tolist() == labels


MISSING = [None, np.nan, pd.NA, pd.NaT]


@LOGS
@pytest.mark.parametrize("missing", MISSING, ids=str)
def test_missing_labels_are_refused(logs_of, missing):
    for values in (["a", "b", missing], np.array(["a", "b", missing], dtype=object)):
        with pytest.raises(ValueError, match=r"group has a missing label .* at row 2"):
            logs_of(values)
    with pytest.raises(ValueError, match=r"label .* at row 1, in \('b', .*\)\. Drop"):
        logs_of([("a", 1), ("b", missing)])
    with pytest.raises(ValueError, match=r"group \(column 1\) has a missing .* row 1"):
        logs_of([["a", 1], ["b", missing]])


@pytest.mark.parametrize(
    ("group", "error", "match"),
    [
        (pd.DataFrame({"user": ["u", None]}), ValueError, r"column 'user'.* row 1"),
        (pl.DataFrame({"user": ["u", None]}), ValueError, r"column 'user'.* row 1"),
        (pa.table({"user": [1, None]}), ValueError, r"column 'user'.* row 1"),
        (pd.Series([1, None], dtype="Int64"), ValueError, "missing label .* row 1"),
        (pd.Categorical(["a", None]), ValueError, "missing label .* row 1"),
        (np.array(["2020", "NaT"], "M8[D]"), ValueError, "missing label .* row 1"),
        ([("a", 1), ("b",)], ValueError, r"\('b',\) at row 1: .* tuples of 2 parts"),
        ([("a", 1), 3], ValueError, "3 at row 1: .* tuples of 2 parts"),
        ([{"a"}, {"b"}], TypeError, r"holds \{'a'\} at row 0, .*\(unhashable"),
        (pd.DataFrame(index=[0, 1]), ValueError, "group is a table without columns"),
        (np.zeros((2, 2, 2)), ValueError, r"group must be 1-d .* shape \(2, 2, 2\)"),
        ([1, 2, 3], ValueError, "group has 3 rows, action has 2"),
    ],
    ids=str,
)
def test_what_cannot_tell_groups_apart_is_refused(group, error, match):
    with pytest.raises(error, match=match):
        bandit_logs([0, 1]).replace(group=group)


# -- labels in other processes and files ----------------------------------------------
def folded(labels):
    """Numbers of labels that folds are the remainders of."""
    labels = np.asarray(labels)
    return HashKFold(2**31 - 1).fold_of(np.zeros((len(labels), 1)), labels).tolist()


def of_integer(g):
    prime = 2**31 - 1
    return (g % prime) * 48271**3 % prime


def test_folds_of_integers_follow_the_arithmetic_of_data_frames():
    integers = [0, 1, 7, 100, -3, 2**31, -(2**40), 2**62]
    assert folded(integers) == folded(objects(integers)) == [*map(of_integer, integers)]
    small = [*map(of_integer, integers[:4])]
    for dtype in ("i1", "u1", "i2", "i4", "u4", "u8", "f8"):
        assert folded(np.array(integers[:4], dtype)) == small
    large = [2**64 - 1, 2**63]
    assert folded(np.array(large, np.uint64)) == [*map(of_integer, large)]
    assert folded(objects([10**30])) == [of_integer(10**30)]


def test_folds_of_texts_follow_their_checksum():
    texts = ["ann", "bob", "", "élan", "ann"]
    expected = [of_integer(zlib.crc32(text.encode())) for text in texts]
    assert folded(texts) == folded(objects(texts)) == expected
    assert folded(np.array(["ann"], "S5")) == expected[:1]
    if np.lib.NumpyVersion(np.__version__) >= "2.0.0":
        assert folded(np.array(texts, np.dtypes.StringDType())) == expected


def test_known_folds():
    """They must never change: folds of logs that are stored depend on them."""
    assert folded(objects([("u", 1), ("u", 1.0)])) == [147860810] * 2
    labels = ["ann", 2.5, True, datetime.date(2020, 1, 1)]
    known = [563302910, 496135412, 1291394886, 1739663152]
    assert folded(objects(labels)) == known
    days = np.array(["2020-01-01", "2021-06-05"], "M8[D]")
    assert folded(days) == folded(days.astype("M8[ms]"))  # equal times
    with pytest.raises(TypeError, match=r"a label is <object .* memory address"):
        folded(objects([object()]))


LABELS = [
    *(True, -3, 2**62, 0.1, float("inf"), "a", "date 2026-01-01", "b\0", "1"),
    *('it\'s "ä"\n', b"\xff", Decimal("1.50"), 2**70, DAY),
    datetime.timedelta(days=-1, seconds=5, microseconds=7),
    datetime.datetime(2026, 1, 31, 23, 59, 59, 999_999),
    datetime.datetime(2026, 1, 31, tzinfo=datetime.UTC),
]
TUPLES = [(DAY, ("b", 0.5)), (1, "a"), ("1", "a"), (2**70, 0.5)]
STORED = [*map(objects, (LABELS, TUPLES, ["a", "b"], [(1, "a"), (2, "b")]))]
STORED += [np.arange(3), np.array(["a", "b"]), np.array([0.5, 1.0], np.float32)]
STORED += [np.array(["2026-01-01", "2026-01-02"], "M8[D]")]


@pytest.mark.filterwarnings("ignore::skope_ope.exceptions.OPEWarning")
@pytest.mark.parametrize("labels", STORED, ids=lambda one: f"{one.dtype} {one[0]}")
def test_labels_come_back_from_files(tmp_path, labels):
    """Groups and actions of a part that was stored are those of the next part."""
    pair, n = np.concatenate([labels, labels]), len(labels)
    action = objects([pair[k % 2] for k in range(2 * n)])
    if labels.dtype != object:
        action = np.array(action.tolist())
    fields = {"action": action, "actions": pair[:2], "propensity": np.full(2 * n, 0.5)}
    logs = bandit_logs(pair, **fields).replace(reward=np.arange(2 * n) % 3)
    first, second = (
        summarize({"new": UniformPolicy()}, some, evaluators=["IPS"])
        for some in (logs[:n], logs[n:])
    )
    first.save(tmp_path / "part.npz")
    read, whole = ValueSummary.load(tmp_path / "part.npz") + second, first + second
    assert repr(read) == repr(whole)
    assert f"{n} exact groups" in repr(read)
    found, own = (one.values()["new", "IPS"] for one in (read, whole))
    assert (found.value, found.standard_error) == (own.value, own.standard_error)


@pytest.mark.parametrize("label", [Fraction(1, 2), (1, Fraction(1, 2)), frozenset([1])])
def test_labels_that_no_file_holds(tmp_path, label):
    fields = {"action": objects([label] * 2), "actions": objects([label, 1])}
    logs = bandit_logs([0, 1], **fields, propensity=0.5)
    total = summarize({"new": UniformPolicy()}, logs, evaluators=["IPS"])
    with pytest.raises(TypeError, match=r"^label .* be written to a file: use n"):
        total.save(tmp_path / "part.npz")
