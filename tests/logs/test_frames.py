# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause

import datetime
from fractions import Fraction

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from scipy import sparse

from skope_ope import BanditLogs
from tests.logs.conftest import KINDS as FRAMES

pytestmark = pytest.mark.frames
nw = pytest.importorskip("narwhals.stable.v2")

DAYS = [datetime.datetime(2020, 1, day) for day in (1, 2, 3, 4)]
MU = {"mu_a": [0.25] * 4, "mu_b": [0.5] * 4, "mu_c": [0.25] * 4}
DATA = {
    "age": [31, 54, 22, 40],
    "city": ["Paris", "Rome", "Paris", "Lyon"],
    "item": ["b", "a", "b", "c"],
    "click": [0, 1, 0, 1],
    "p": [0.5, 0.25, 0.5, 0.25],
    "t": DAYS,
    "user": [1, 1, 2, 2],
    "weight": [1.0, 2.0, 1.0, 1.0],
    **MU,
    "server": ["x", "y", "x", "y"],
}
OF_FIELD = {"action": "item", "reward": "click", "propensity": "p", "timestamp": "t"}
OF_FIELD |= {"group": "user", "sample_weight": "weight", "logger": "server"}
NAMES = OF_FIELD | {"context": ["age", "city"], "logging_proba": [*MU]}
# kind of frame: library and what makes it from a dict
ODD = {"index": [7, 7, 0, 1]}
KINDS = FRAMES | {"odd index": ("pandas", lambda lib, data: lib.DataFrame(data, **ODD))}


@pytest.fixture(params=KINDS)
def make_frame(request):
    """Function that makes a frame of one library from a dict of lists."""
    library, make = KINDS[request.param]
    module = pytest.importorskip(library)
    return lambda data=DATA: make(module, data)


def column_of(frame, name):
    return np.asarray(nw.from_native(frame)[name].to_list())


def same(left, right):
    if hasattr(left, "index") and not left.index.equals(right.index):
        return False
    return left.equals(right)


def test_every_field_comes_from_its_column(make_frame):
    frame = make_frame()
    logs = BanditLogs.from_frame(frame, **NAMES, columns=["mu_a"], reward_range=(0, 1))
    assert logs.actions.tolist() == ["a", "b", "c"]
    for field, name in OF_FIELD.items():
        if field != "timestamp":
            assert_array_equal(getattr(logs, field), DATA[name])
    assert_array_equal(logs.timestamp, np.array(DAYS, dtype="M8[us]"))
    assert_array_equal(logs.logging_proba, [[0.25, 0.5, 0.25]] * 4)
    assert_array_equal(logs.columns["mu_a"], DATA["mu_a"])
    assert logs.reward_range == (0, 1)
    assert type(logs.context) is type(frame)
    assert logs.shape == (4, 2)
    for name in ("age", "city"):
        assert_array_equal(column_of(logs.context, name), DATA[name])
    logs.to_frame()
    assert same(frame, make_frame())  # it is left as it was
    assert logs[:0].context.shape == (0, 2)
    assert logs[:0].to_frame().shape == (0, 13)


def test_a_trial_has_one_propensity(make_frame):
    names = {**NAMES, "logging_proba": None}
    for value in (1 / 3, 1, np.float32(0.5), Fraction(1, 3)):
        logs = BanditLogs.from_frame(make_frame(), **names | {"propensity": value})
        assert logs.propensity.dtype == float
        assert_array_equal(logs.propensity, [float(value)] * 4)
    message = r"neither a column of the frame nor a number in \(0, 1\]"
    for value in (0, 0.0, -0.5, 1.5, 7, float("nan"), float("inf")):
        with pytest.raises(ValueError, match=f"propensity {value!r} is {message}"):
            BanditLogs.from_frame(make_frame(), **{**NAMES, "propensity": value})
    frame = make_frame({**DATA, "p": [True] * 4})
    with pytest.raises(TypeError, match="propensity holds booleans"):
        BanditLogs.from_frame(frame, **NAMES)


def columns_of(logs):
    return nw.from_native(logs.context).columns


def test_the_context_may_be_named_by_what_does_not_belong_there(make_frame):
    names = {**NAMES, "context": None, "logging_proba": None, "columns": ["age"]}
    logs = BanditLogs.from_frame(make_frame(), **names, exclude=["mu_b", "click"])
    assert columns_of(logs) == ["city", "mu_a", "mu_c"]
    logs = BanditLogs.from_frame(make_frame(), **names, exclude=[])
    assert columns_of(logs) == ["city", "mu_a", "mu_b", "mu_c"]
    # where all columns have a meaning nothing is to be said
    frame = make_frame({name: DATA[name] for name in ("item", "click")})
    assert BanditLogs.from_frame(frame, action="item", reward="click").shape == (4, 0)


def test_outcomes_of_a_real_trial_stay_out(data_dir):
    """`spend` and `conversion` came after the letter, as the visit did."""
    pandas = pytest.importorskip("pandas")
    frame = pandas.read_csv(data_dir / "hillstrom_email_part1.csv.gz", nrows=500)
    names = {"action": "segment", "reward": "visit"}
    with pytest.raises(ValueError, match=r"not used yet: 'recency'.*'conversion', 'sp"):
        BanditLogs.from_frame(frame, **names)
    logs = BanditLogs.from_frame(frame, **names, exclude=["spend", "conversion"])
    known = "recency history_segment history mens womens zip_code newbie channel"
    assert columns_of(logs) == known.split()


def test_probabilities_of_all_loggers_have_a_column_each(make_frame):
    proba = {"under_x": [0.25, 0.4, 0.3, 0.2], "under_y": [0.5, 0.7, 0.6, 0.1]}
    names = {name: OF_FIELD[name] for name in ("action", "reward", "logger")}
    names["context"] = ["age"]
    frame = make_frame({**DATA, **proba})
    logs = BanditLogs.from_frame(frame, **names, logger_proba=[*proba])
    assert logs.shape == (4, 1)
    assert_array_equal(logs.logger_proba, np.column_stack([*proba.values()]))
    assert_array_equal(logs.propensity, [0.25, 0.7, 0.3, 0.1])  # of who acted
    again = logs.to_frame()
    assert_array_equal(column_of(again, "logger_proba_y"), proba["under_y"])
    with pytest.raises(TypeError, match="logger_proba must be a list of column names"):
        BanditLogs.from_frame(make_frame(), **names, logger_proba="p")


def test_logs_do_not_follow_what_the_user_writes_later():
    pandas = pytest.importorskip("pandas")
    if int(pandas.__version__.split(".")[0]) < 3:
        pytest.skip("copy-on-write came with pandas 3")
    frame = pandas.DataFrame(DATA)
    logs = BanditLogs.from_frame(frame, **NAMES)
    for written, reward in ((frame, "click"), (logs.to_frame(), "reward")):
        written.loc[:, "age"] = 0
        written.loc[:, reward] = 9
        assert logs.context["age"].tolist() == DATA["age"]
        assert logs.reward.tolist() == DATA["click"]


def test_round_trip(make_frame):
    logs = BanditLogs.from_frame(make_frame(), **NAMES)
    logs = logs.with_columns(pi=np.full((4, 3), 1 / 3), score=[4, 3, 2, 1])
    frame = logs.to_frame()
    assert type(frame) is type(logs.context)
    names = {name: name for name in OF_FIELD} | {"context": ["age", "city"]}
    names["logging_proba"] = [f"logging_proba_{label}" for label in "abc"]
    columns = ["pi_0", "pi_1", "pi_2", "score"]
    again = BanditLogs.from_frame(frame, **names, columns=columns)
    for name in logs._row_fields:
        if name != "context" and getattr(logs, name) is not None:
            assert_array_equal(getattr(again, name), getattr(logs, name))
    assert same(again.context, logs.context)
    assert_array_equal(again.columns["score"], [4, 3, 2, 1])
    assert_array_equal(again.columns["pi_1"], logs.columns["pi"][:, 1])


@pytest.mark.parametrize("backend", ["pandas", "polars", "pyarrow"])
def test_a_frame_of_another_library(make_frame, backend):
    module = pytest.importorskip(backend)
    frame = BanditLogs.from_frame(make_frame(), **NAMES).to_frame(backend)
    assert isinstance(frame, module.Table if backend == "pyarrow" else module.DataFrame)
    for name, source in (("age", "age"), ("city", "city"), ("action", "item")):
        assert_array_equal(column_of(frame, name), DATA[source])


@pytest.mark.parametrize("backend", [None, "pandas", "polars", "pyarrow"])
@pytest.mark.parametrize("container", [np.asarray, sparse.csr_matrix])
def test_frames_from_arrays(backend, container):
    pytest.importorskip(backend or "pandas")
    X = container(np.arange(8.0).reshape(4, 2))
    fields = {"logger": DATA["server"], "logger_proba": np.full((4, 2), 0.5)}
    fields |= {"available": np.full((4, 3), True), "action_context": np.zeros((3, 5))}
    logs = BanditLogs(X, DATA["item"], DATA["click"], **fields)
    frame = logs.with_columns(deep=np.arange(16).reshape(4, 2, 2)).to_frame(backend)
    assert nw.from_native(frame).columns == [
        *("context_0", "context_1", "action", "reward", "propensity", "logger"),
        *("logger_proba_x", "logger_proba_y"),
        *("available_a", "available_b", "available_c"),
        *("deep_0", "deep_1", "deep_2", "deep_3"),
    ]
    assert_array_equal(column_of(frame, "context_1"), [1, 3, 5, 7])
    assert_array_equal(column_of(frame, "deep_2"), [2, 6, 10, 14])


def test_names_are_never_given_twice(make_frame):
    frame = make_frame({**DATA, "reward": DATA["age"]})
    logs = BanditLogs.from_frame(frame, **{**NAMES, "context": ["age", "reward"]})
    for backend in (None, "pandas", "polars"):
        with pytest.raises(ValueError, match="already has a column 'reward'"):
            logs.to_frame(backend)
    logs = BanditLogs(np.zeros((2, 1)), [0, 1], [0, 1])
    wide = {"pi_0": [1, 2], "pi": np.ones((2, 2))}
    for name, columns in (("context_0", {"context_0": [1, 2]}), ("pi_0", wide)):
        with pytest.raises(ValueError, match=f"already has a column '{name}'"):
            logs.with_columns(**columns).to_frame()
    with pytest.raises(ValueError, match=r"backend must be one of .* got 'modin'"):
        logs.to_frame("modin")


def test_names_and_types_of_pandas():
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({3: [0, 1, 0], 1: [0.0, 1, 2], 0: [1, 1, 0]})
    logs = BanditLogs.from_frame(frame, action=3, reward=0, context=[1])
    assert logs.context.columns.tolist() == [1]
    assert logs.to_frame().columns.tolist() == [1, "action", "reward"]
    frame = pandas.DataFrame([[0, 0.25, 1], [1, 0.75, 0]])
    logs = BanditLogs.from_frame(frame, action=0, reward=2, propensity=1)
    assert_array_equal(logs.propensity, [0.25, 0.75])  # a name, not a number
    frame = pandas.DataFrame(DATA).astype({"city": "category", "age": "Int16"})
    out = BanditLogs.from_frame(frame, **NAMES).to_frame()
    assert out[["age", "city"]].dtypes.equals(frame[["age", "city"]].dtypes)
    logs = BanditLogs.from_frame(frame, **{**NAMES, "context": frame.columns[:1]})
    assert list(logs.context.columns) == ["age"]
    # added columns follow the rows, not the index
    frame = pandas.DataFrame({"a": [1, 2, 3]}, index=[2, 0, 0])
    out = BanditLogs(frame, [0, 1, 0], [10, 20, 30]).to_frame()
    assert out["reward"].tolist() == [10, 20, 30]
    assert out.index.tolist() == [2, 0, 0]
    assert frame.columns.tolist() == ["a"]


def test_times_with_a_zone_are_told_in_utc(make_frame):
    zone = datetime.timezone(datetime.timedelta(hours=1))
    days = [day.replace(tzinfo=zone) for day in DAYS]
    logs = BanditLogs.from_frame(make_frame({**DATA, "t": days}), **NAMES)
    utc = np.array(DAYS, dtype="M8[us]") - np.timedelta64(1, "h")
    assert_array_equal(logs.timestamp, utc)


@pytest.mark.parametrize("library", ["pandas", "polars", "pyarrow"])
def test_parts_of_groups_are_columns(library):
    pytest.importorskip(library)
    group = [("u", 1), ("v", 1), ("u", 2)]
    logs = BanditLogs(np.zeros((3, 1)), [0, 1, 0], np.ones(3), group=group)
    frame = logs.to_frame(library)
    names = ["group_0", "group_1"]
    parts = frame[names] if library == "pandas" else frame.select(names)
    assert logs.replace(group=parts).group.tolist() == group


@pytest.mark.parametrize("dtype", [None, "object", "category", "string", "boolean"])
@pytest.mark.parametrize("backend", ["polars", "pyarrow"])
def test_missing_entries_stay_missing_in_another_library(dtype, backend):
    pandas = pytest.importorskip("pandas")
    pytest.importorskip(backend)
    right = [True, None, False] if dtype == "boolean" else ["a", None, "b"]
    frame = pandas.DataFrame({"x": pandas.Series(right, dtype=dtype)})
    logs = BanditLogs(frame, [0, 1, 0], [1.0, 0.0, 1.0])
    column = logs.to_frame(backend)["x"]
    assert (column.to_list() if backend == "polars" else column.to_pylist()) == right
