# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""What the fields of logs may hold, and how everything else is refused."""

import datetime
import pickle
from decimal import Decimal

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from scipy import sparse
from sklearn.linear_model import LogisticRegression

from skope_ope import (
    IPS,
    BanditLogs,
    ClassifierPolicy,
    FunctionPolicy,
    UniformPolicy,
    evaluate,
    scan_logs,
    summarize,
)
from skope_ope.exceptions import RowError
from skope_ope.readers import read_jsonl

UNRELATED = "Drop them only if feedback goes missing for reasons unrelated to action"
ESTIMATE_ALL = "Neither drop nor fill these rows: .* estimate them with Prop"
FIND_ACTIONS = "Neither drop nor fill these rows: .* decisions may be dropped"
ROLES = {"action": "a", "reward": "r", "propensity": "p", "context": []}


def logs_of(n=2, **fields):
    given = {"context": np.zeros((n, 1)), "action": np.arange(n) % 2}
    return BanditLogs(**{**given, "reward": np.arange(n) % 2, **fields})


# -- numbers --------------------------------------------------------------------------
def test_numbers_of_any_width_become_read_only_floats():
    decimals = np.array([Decimal(1), Decimal("0")], dtype=object)
    narrow = np.array([1, 0], np.int8)
    for values in ([1, 0], (True, False), narrow, range(1, -1, -1), decimals):
        reward = logs_of(reward=values).reward
        assert reward.dtype == np.float64
        assert not reward.flags.writeable
        assert_array_equal(reward, [1.0, 0.0])
    huge = np.full(4, 1e308)  # whose sum overflows
    assert_array_equal(logs_of(4, reward=huge).reward, huge)


TEXT = (
    np.dtypes.StringDType()
    if hasattr(np, "dtypes") and hasattr(np.dtypes, "StringDType")
    else "U1"
)


@pytest.mark.parametrize(
    ("fields", "error", "message"),
    [
        ({"reward": [np.nan] * 2}, ValueError, r"got nan at row 0 \(2 such entries\)"),
        ({"reward": np.array(["1", "2"], TEXT)}, TypeError, "must hold numbers"),
        ({"reward": np.array([Decimal(1), None])}, TypeError, "must hold numbers"),
        ({"reward": sparse.eye(2)}, TypeError, "must be a dense array"),
        ({"context": None}, TypeError, r"np\.empty\(\(n_rounds, 0\)\)"),
        ({"propensity": [0.5, 0.0]}, ValueError, "rounded to 0.*PropensityEstimator"),
        ({"propensity": [-0.1, -0.2]}, ValueError, r"\(2 such rows\)\. Probabilities"),
        ({"logging_proba": [[1 / 3, 2 / 3 + 1e-5]] * 2}, ValueError, "must sum to 1"),
        ({"reward_range": (1, 0)}, ValueError, r"low < high, got \(1\.0, 0\.0\)"),
        ({"reward_range": (0, 0)}, ValueError, "low < high"),
        ({"reward_range": (np.nan, 1)}, ValueError, "low < high"),
        ({"reward_range": 3}, ValueError, "pair"),
        ({"reward_range": (0, 1, 2)}, ValueError, "pair"),
        ({"reward_range": "ab"}, ValueError, "pair"),
        ({"reward_range": (0, 0.5)}, ValueError, r"1 at row 1 lies .*\(0, 0\.5\)"),
        ({"timestamp": [True, False]}, TypeError, "numbers or datetimes"),
        ({"reward": [0, np.nan]}, ValueError, UNRELATED),
        ({"propensity": [0.5, np.nan]}, ValueError, ESTIMATE_ALL),
        ({"propensity": [0.5, None]}, TypeError, ESTIMATE_ALL),
        ({"action": [1.0, np.nan]}, ValueError, FIND_ACTIONS),
        ({"action": ["a", None]}, ValueError, FIND_ACTIONS),
        ({"sample_weight": [0.5, np.nan]}, ValueError, "Drop these rows or fill the v"),
    ],
    ids=str,
)
def test_bad_fields_are_refused(fields, error, message):
    with pytest.raises(error, match=message):
        logs_of(**fields)


# -- contexts -------------------------------------------------------------------------
def test_sparse_contexts_become_csr():
    X = np.array([[0.0, 1.0], [2.0, 0.0]])
    for container in (sparse.csc_matrix, sparse.coo_array, sparse.dok_matrix):
        context = logs_of(context=container(X)).context
        assert context.format == "csr"
        assert_array_equal(context.toarray(), X)
    missing = np.array([[np.nan, 1.0], [0.0, 2.0]])  # which is the models' business
    assert_array_equal(logs_of(context=missing).context, missing)
    assert logs_of(context=np.empty((2, 0))).shape == (2, 0)


@pytest.mark.skipif(sparse.coo_array(np.ones(2)).ndim == 2, reason="scipy 1.13 has it")
def test_sparse_vectors_are_refused():
    with pytest.raises(ValueError, match=r"2-d, got shape \(2,\)"):
        logs_of(context=sparse.coo_array(np.ones(2)))


@pytest.mark.parametrize("library", ["pandas", "polars", "pyarrow"])
def test_frames_stay_frames_of_their_library(library):
    module = pytest.importorskip(library)
    make = module.table if library == "pyarrow" else module.DataFrame
    frame = make({"a": [1, 2]})
    context = logs_of(context=frame).context
    assert type(context) is type(frame)
    assert context.equals(frame)


def test_subclasses_of_a_frame_are_frames_and_lazy_ones_are_not():
    pandas = pytest.importorskip("pandas")
    polars = pytest.importorskip("polars")
    kind = type("Geography", (pandas.DataFrame,), {})
    context = logs_of(context=kind({"a": [1, 2]})).context
    assert isinstance(context, pandas.DataFrame)
    for other in (pandas.Series([1, 2]), polars.DataFrame({"a": [1, 2]}).lazy()):
        with pytest.raises((TypeError, ValueError), match="context must"):
            logs_of(context=other)


# -- probabilities --------------------------------------------------------------------


def test_probabilities_may_be_rounded():
    assert logs_of(propensity=[1.0, 1 + 1e-12]).propensity.max() == 1 + 1e-12
    for proba in ([0.333333, 0.333333, 0.333334], [0.3333337, 0.3333333, 0.3333333]):
        logs_of(logging_proba=[proba] * 2, actions=[0, 1, 2])


def test_distributions_of_policies_are_checked_in_every_block_of_rows():
    def late(X):
        return np.where(X == 25_000, 0.9, 1.0) * [0.5, 0.5]

    logs = logs_of(30_000, context=np.arange(30_000)[:, None], propensity=0.5)
    with pytest.raises(ValueError, match=r"at row 25,?000"):
        evaluate(FunctionPolicy(late), logs, evaluators=["IPS"])


def test_the_distribution_of_an_impossible_action_is_named():
    proba = np.array([[0.5, 0.5, 0], [0, 0.5, 0.5], [0, 1, 0], [0, 1, 0]])
    with pytest.raises(ValueError) as found:
        with_loggers(logging_proba=proba)
    told = "logging_proba is 0 at row 3 for the logged action 'c' (1 such rows). A "
    told += "logged action has a positive probability. Correct logging_proba, or leave "
    assert str(found.value) == f"{told}it out."


# -- loggers --------------------------------------------------------------------------
def with_loggers(**fields):
    action, logger = ["a", "b", "b", "c"], ["x", "y", "x", "y"]
    return BanditLogs(np.zeros((4, 1)), action, np.ones(4), logger=logger, **fields)


@pytest.mark.parametrize("others", [0.0, 0.5])
def test_the_logger_of_an_impossible_action_is_named(others):
    proba = np.full((4, 2), 0.5)
    proba[[1, 3]] = others, 0.0
    with pytest.raises(ValueError) as found:
        with_loggers(logger_proba=proba)
    text = str(found.value)
    told = (
        "logger_proba is 0 at row 1 for the logged action 'b' under logger 'y', which"
    )
    assert text.startswith(f"{told} acted there")
    assert "(2 such rows)" in text and "Correct logger_proba" in text
    assert ("and under every other logger" in text) == (others == 0)
    assert "propensity" not in text.replace("propensities", "")


def test_probabilities_of_loggers():
    proba = np.full((4, 2), 0.5)
    proba[2, 0] = 0.0
    message = r"propensity 0\.5 at row 2 contradicts logger_proba, which gives 0"
    with pytest.raises(ValueError, match=message):
        with_loggers(logger_proba=proba, propensity=np.full(4, 0.5))
    # a probability without an inverse is zero
    with pytest.raises(ValueError, match=r"logger_proba is 4\.94065646e-324 at row 0"):
        with_loggers(logger_proba=np.full((4, 2), 5e-324))
    # rounds of other loggers may be impossible
    proba = np.array([[0.5, 0.0], [0.0, 0.4], [0.3, 0.0], [0.0, 1.0]])
    assert with_loggers(logger_proba=proba).propensity.tolist() == [0.5, 0.4, 0.3, 1.0]


# -- the range of rewards -------------------------------------------------------------


@pytest.mark.filterwarnings("ignore::skope_ope.exceptions.OPEWarning")
@pytest.mark.parametrize(
    ("reward", "fields", "known"),
    [
        ([0, 1, 0, 1], {}, True),
        ([1, 1, 1, 1], {}, True),
        ([0, 0, 0, 0], {}, False),
        ([0, 1, 0.5, 0], {}, False),
        ([0, 1, -1, 0], {}, False),
        ([3, 0, 1, 0], {}, False),
        ([0, 1, 0.5, 0], {"reward_range": (0, 5)}, True),
        # rounds that weigh nothing tell nothing
        ([0, 0, 0, 1], {"sample_weight": [1, 1, 1, 0]}, False),
        ([1, 0, 1, 5], {"sample_weight": [1, 1, 1, 0]}, True),
    ],
)
def test_yes_and_no_have_a_range(reward, fields, known):
    """A known range gives the gamma interval, whole or in parts."""
    logs = logs_of(4, reward=reward, propensity=0.5, **fields)
    policies = {"new": UniformPolicy()}
    halves, how = (logs[:2], logs[2:]), {"evaluators": ["IPS"]}
    parts = [summarize(policies, some, **how) for some in halves]
    values = [IPS().fit(logs).evaluate(UniformPolicy())]
    if max(reward) < 5:
        values.append((parts[0] + parts[1]).values()["new", "IPS"])
    for value in values:
        assert (value.confidence_interval().method == "gamma") == known
    other = logs.replace(reward=[0.0, 0.25, 1.0, 0.0])
    method = IPS().fit(other).evaluate(UniformPolicy()).confidence_interval().method
    assert (method == "gamma") == ("reward_range" in fields)
    # it may be open to one side
    assert logs_of(reward_range=(0, np.inf)).reward_range == (0.0, np.inf)


# -- times ----------------------------------------------------------------------------
DAYS = [datetime.datetime(2020, 1, day, 12) for day in (1, 2)]
UTC = np.array(["2020-01-01T11", "2020-01-02T11"], dtype="M8[us]")  # noon in Paris


def test_times_are_numbers_or_datetimes():
    for values in ([3, 1], [0.5, 0.25], np.array(DAYS, dtype="M8[s]")):
        assert_array_equal(logs_of(timestamp=values).timestamp, np.asarray(values))
    with pytest.raises(TypeError, match=r"np\.asarray\(.*, dtype='datetime64\[us"):
        logs_of(timestamp=DAYS)


def test_times_with_a_zone_are_told_in_utc():
    pandas = pytest.importorskip("pandas")
    polars = pytest.importorskip("polars")
    pyarrow = pytest.importorskip("pyarrow")
    index = pandas.DatetimeIndex(DAYS).tz_localize("Europe/Paris")
    stamps = pyarrow.array(UTC.tolist(), pyarrow.timestamp("us", "Europe/Paris"))
    series = polars.Series(DAYS).dt.replace_time_zone("Europe/Paris")
    for values in (pandas.Series(index), index, series, stamps):
        assert_array_equal(logs_of(timestamp=values).timestamp, UTC)
    assert_array_equal(logs_of(timestamp=polars.Series([3, 4])).timestamp, [3, 4])
    with pytest.raises(ValueError, match="missing at row 0"):
        logs_of(timestamp=pandas.Series([pandas.NaT, index[0]]))


# -- classifiers ----------------------------------------------------------------------
@pytest.mark.parametrize(
    ("values", "actions"),
    [
        ([7, -3, 100, 7], None),
        ([True, False, True, True], None),
        ([0.5, 1.5, 0.5, -2.0], None),
        (["b", "a", "b", "longer"], None),
        (np.array(["b", "a", "b", "c"], dtype=object), None),
        (np.array([b"x", b"y", b"x", b"x"]), None),
        (np.array(["2020-01-02", "2020-01-01"], dtype="M8[D]"), None),
        (np.array([3, "a"], dtype=object), np.array(["a", 3], dtype=object)),
    ],
    ids=str,
)
def test_classifiers_learn_actions_of_any_kind(values, actions):
    n = len(values)
    fields = {"context": 10.0 * np.eye(n), "action": values, "actions": actions}
    logs = logs_of(n, reward=np.ones(n), propensity=0.5, **fields)
    policy = ClassifierPolicy(LogisticRegression(C=1e6)).fit(logs)
    assert_array_equal(policy.predict(logs.context), logs.action)


# -- rows -----------------------------------------------------------------------------
def test_a_row_can_be_told_by_another_name():
    error = RowError("reward {x} is odd", np.int64(3), " (1 such row).")
    assert str(error) == "reward {x} is odd at row 3 (1 such row)."
    assert error.told_of("line 7") == "reward {x} is odd at line 7 (1 such row)."
    assert type(error.row) is int
    assert str(pickle.loads(pickle.dumps(error))) == str(error)
    features = [[0.0], [np.inf]]  # of actions have no rows
    with pytest.raises(ValueError, match="got inf at action 1") as caught:
        logs_of(action_context=features)
    assert not isinstance(caught.value, RowError)


@pytest.mark.parametrize(
    ("field", "values", "row"),
    [
        ("propensity", [0.5, 0.0, 0.5], 1),
        ("propensity", [0.5, 0.5, 1.5], 2),
        ("reward", [0, np.nan, 0], 1),
        ("reward", [0, 0, 7], 2),
        ("sample_weight", [1, -1, 1], 1),
        ("timestamp", [0, 1, np.inf], 2),
        ("logger", ["a", "b", None], 2),
        ("group", [(1, 2), (1, None), (1, 3)], 1),
        ("available", [[True, True], [True, True], [False, True]], 2),
        ("logging_proba", [[0.5, 0.5], [0.5, 0.6], [0.5, 0.5]], 1),
        ("actions", [1, 2], 0),
    ],
)
def test_rounds_that_cannot_be_are_told_with_their_row(field, values, row):
    fields = {"action": [0, 1, 0], "reward": [0, 1, 0], "reward_range": (0, 1)}
    fields[field] = np.array(values) if field == "available" else values
    with pytest.raises(RowError, match=rf"at row {row}\b") as caught:
        BanditLogs(np.zeros((3, 1)), **fields)
    assert caught.value.row == row


@pytest.mark.frames
def test_missing_values_of_frames_and_files_have_a_remedy(tmp_path):
    pandas = pytest.importorskip("pandas")
    pytest.importorskip("pyarrow")
    pytest.importorskip("polars")
    narwhals = pytest.importorskip("narwhals.stable.v2")
    good = pandas.DataFrame({"a": [0, 1], "r": [0.0, 1.0], "p": [0.5, 0.5]})
    remedies = (("r", UNRELATED), ("p", ESTIMATE_ALL), ("a", FIND_ACTIONS))
    for name, message in remedies:
        frame = good.assign(**{name: [0.5, None]})
        with pytest.raises(ValueError, match=message):
            BanditLogs.from_frame(frame, **ROLES)
        frame.to_parquet(tmp_path / "log.parquet")
        lazy = scan_logs(tmp_path / "log.parquet", **ROLES)
        with pytest.raises(ValueError, match=message):
            list(lazy.read())
        lazy = narwhals.from_native(frame).lazy("polars").to_native()
        lazy = scan_logs(lazy, **ROLES)
        with pytest.raises(ValueError, match=message):
            lazy.describe()


def test_missing_propensities_of_text_files_are_not_to_be_dropped(tmp_path):
    path = tmp_path / "log.jsonl"
    path.write_text('{"a": 0, "r": 1, "p": 0.5}\n{"a": 1, "r": 1, "p": null}')
    with pytest.raises(ValueError, match=ESTIMATE_ALL):
        read_jsonl(path, **ROLES)
