# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause

import datetime
from decimal import Decimal

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from scipy import sparse
from sklearn.linear_model import LogisticRegression

from skope_ope import BanditLogs
from skope_ope.logs._coded_labels import encode_labels
from skope_ope.logs._validation import (
    as_numbers,
    check_distributions,
    check_labels,
    check_probabilities,
    check_propensity,
    check_reward_range,
    check_timestamp,
    class_targets,
    is_frame,
    label_codes,
    plain,
    value_range,
)


def test_numbers_of_any_width_become_read_only_floats():
    for values in ([1, 0], (True, False), np.array([1, 0], np.int8), range(1, -1, -1)):
        array = as_numbers("reward", values)
        assert array.dtype == np.float64
        assert not array.flags.writeable
        assert_array_equal(array, [1.0, 0.0])


def test_one_dimension_is_copied_and_more_are_viewed():
    values = np.array([[1.0, 2.0]])
    assert np.shares_memory(as_numbers("slate", values, 2), values)
    assert not np.shares_memory(as_numbers("reward", values[0]), values)
    assert values.flags.writeable


def test_a_sum_that_overflows_is_still_finite():
    huge = np.full(4, 1e308)
    assert_array_equal(as_numbers("reward", huge), huge)


@pytest.mark.parametrize(
    ("values", "error", "message"),
    [
        ([1, np.nan, np.nan], ValueError, r"got nan at row 1 \(2 such entries\)"),
        ([1, np.inf, -np.inf], ValueError, "must be finite, got inf at row 1"),
        ([1 + 0j, 2], TypeError, "real numbers, got complex"),
        (["1", "2"], TypeError, "must hold numbers, got dtype <U1"),
        (np.array([1, 2], object), TypeError, "got dtype object .* dtype=float"),
        (None, TypeError, "must hold numbers"),
        (np.array(["2020"], "M8[D]"), TypeError, "must hold numbers"),
        ([[1.0]], ValueError, r"1 dimension\(s\), got shape \(1, 1\)"),
        (1.0, ValueError, r"1 dimension\(s\), got shape \(\)"),
        ([[1], [1, 2]], ValueError, "reward is no rectangular array"),
        (sparse.eye(2), TypeError, "must be a dense array"),
    ],
    ids=str,
)
def test_what_is_no_vector_of_numbers_is_refused(values, error, message):
    with pytest.raises(error, match=message):
        as_numbers("reward", values)


@pytest.mark.parametrize("library", ["pandas", "polars", "pyarrow"])
def test_frames_are_recognised(library):
    module = pytest.importorskip(library)
    make = module.table if library == "pyarrow" else module.DataFrame
    assert is_frame(make({"a": [1, 2]}))
    assert not is_frame(np.zeros((2, 2)))


def test_subclasses_of_a_frame_are_frames_and_lazy_ones_are_not():
    pandas = pytest.importorskip("pandas")

    class Geography(pandas.DataFrame):
        pass

    assert is_frame(Geography({"a": [1]}))
    assert not is_frame(pandas.Series([1]))
    polars = pytest.importorskip("polars")
    assert not is_frame(polars.DataFrame({"a": [1]}).lazy())


LABELS = {
    "ints with gaps": np.array([7, -3, 100, 7]),
    "small ints, wide range": np.array([-100, 127, -100, 100], dtype=np.int8),
    "unsigned": np.array([0, 255, 3, 3], dtype=np.uint8),
    "unsigned 64": np.array([5, 7, 5, 6], dtype=np.uint64),
    "beyond int64": np.array(
        [2**63 + 2, 2**63 + 1, 2**63 + 2, 2**63 + 9], dtype=np.uint64
    ),
    "far apart": np.array([-(2**62), 2**62, 0, 0]),
    "bools": np.array([True, False, True, True]),
    "floats": np.array([0.5, 1.5, 0.5, -2.0]),
    "text": np.array(["b", "a", "b", "longer"]),
    "objects of text": np.array(["b", "a", "b", "longer"], dtype=object),
    "objects of ints": np.array([3, 1, 3, 10], dtype=object),
    "bytes": np.array([b"x", b"y", b"x", b"x"]),
    "days": np.array(["2020-01-02", "2020-01-01"], dtype="M8[D]"),
}


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int64, np.uint64, float])
@pytest.mark.parametrize("given", [[-1, 0, 1, 2], [300, 0, 2, 1], [2**40, 1, 0, 2]])
def test_codes_do_not_depend_on_the_width_of_the_integers(dtype, given):
    values = np.array([0, 1, 2, 0], dtype=dtype)
    codes = label_codes(np.array(given), values)
    assert codes.tolist() == [given.index(int(v)) for v in values]


def test_values_that_are_no_label_get_minus_one():
    cases = [
        (np.array([1, 2]), np.array([0, 1, 3, 2]), [-1, 0, -1, 1]),
        (np.array([2, 9]), np.array([5, 9], dtype=np.uint64), [-1, 1]),
        (np.array([2**63 + 5], dtype=np.uint64), np.array([-1, 4]), [-1, -1]),
        (np.array(["a", "b"]), np.array(["c", "b"]), [-1, 1]),
        (np.array(["1"]), np.array([1]), [-1]),
        (np.array([], dtype=int), np.array([1]), [-1]),
    ]
    for labels, values, codes in cases:
        assert label_codes(labels, values).tolist() == codes
    assert label_codes(np.array([1, 2]), []).size == 0


@pytest.mark.parametrize(
    ("values", "row"),
    [
        ([None, "a"], 0),
        (["a", None], 1),
        ([1.0, np.nan], 1),
        ([1.0, 2.0, np.inf], 2),
        (np.array(["a", np.nan], dtype=object), 1),
        (np.array(["2020", "NaT"], dtype="M8[Y]"), 1),
    ],
    ids=str,
)
def test_missing_labels_are_refused_by_row(values, row):
    with pytest.raises(ValueError, match=rf"missing label \(.*\) at row {row} "):
        check_labels("action", values)


@pytest.mark.skipif(np.lib.NumpyVersion(np.__version__) < "2.0.0", reason="numpy 2")
def test_text_of_any_length():
    text = np.dtypes.StringDType(na_object=None)
    labels, codes = encode_labels("action", np.array(["b", "a"], dtype=text))
    assert labels.tolist() == ["a", "b"]
    assert codes.tolist() == [1, 0]
    with pytest.raises(ValueError, match=r"missing label \(None\) at row 1"):
        check_labels("action", np.array(["b", None], dtype=text))
    with pytest.raises(TypeError, match="must hold numbers"):
        as_numbers("reward", np.array(["1", "2"], dtype=text))


def test_missing_labels_of_pandas_are_refused_by_row():
    pandas = pytest.importorskip("pandas")
    for dtype in ("string", "category", "object", "Int64"):
        values = [1, None, 2] if dtype == "Int64" else ["a", None, "b"]
        with pytest.raises(ValueError, match=r"missing label \(.*\) at row 1"):
            check_labels("action", pandas.Series(values, dtype=dtype))


@pytest.mark.parametrize("values", LABELS.values(), ids=LABELS.keys())
def test_class_targets_are_what_a_classifier_takes(values):
    logs = BanditLogs(np.arange(len(values))[:, None], values, np.ones(len(values)))
    y, are_codes = class_targets(logs)
    classes = LogisticRegression().fit(logs.context, y).classes_
    found = logs.actions[classes] if are_codes else classes
    assert found.tolist() == logs.actions.tolist()
    assert are_codes == (values.dtype.kind == "S" or 0.5 in values.tolist())


def test_mixed_objects_are_class_targets_as_codes():
    values = np.array([3, "a"], dtype=object)
    logs = BanditLogs(np.zeros((2, 1)), values, [1, 1], actions=values[::-1])
    y, are_codes = class_targets(logs)
    assert are_codes
    assert y.tolist() == [1, 0]


@pytest.mark.parametrize(
    ("propensity", "message"),
    [
        ([0.5, 0.0], r"got 0 at row 1 \(1 such.*rounded to 0.*PropensityEstimator"),
        (
            [-0.1, -0.2],
            r"got -0\.1 at row 0 \(2 such rows\)\. Probabilities are not negative",
        ),
        ([1.0, 1.2], r"must lie in \(0, 1\], got 1\.2 at row 1"),
        ([0.5], "propensity has 1 rows, action has 2"),
        ([0.5, np.nan], "must be finite, got nan at row 1"),
    ],
)
def test_bad_propensities_are_refused(propensity, message):
    with pytest.raises(ValueError, match=message):
        check_propensity(propensity, 2)


def test_propensities_may_exceed_one_by_rounding():
    assert check_propensity([1.0, 1 + 1e-12], 2).max() == 1 + 1e-12


@pytest.mark.parametrize(
    ("proba", "message"),
    [
        ([[0.5, 0.5]], r"must have shape \(2, 2\) \(n_rounds, n_actions\)"),
        ([[0.5, 0.5], [1.5, -0.5]], r"not be negative, got -0\.5 at row 1, column 1"),
        ([[0.5, 0.5], [0.5, 0.4]], r"sum to 1 over the actions, got 0\.9 at row 1"),
        ([[0.5, 0.5], [0.5, np.nan]], "must be finite, got nan at row 1"),
        (["ab", "cd"], "must hold numbers"),
    ],
)
def test_what_is_no_distribution_is_refused(proba, message):
    with pytest.raises((ValueError, TypeError), match=message):
        check_probabilities("logging_proba", proba, (2, 2))


def test_rows_are_counted_from_the_first_of_the_block():
    with pytest.raises(ValueError, match="at row 12"):
        check_distributions("policy", np.array([[1.0], [1.0], [0.9]]), first_row=10)


def test_unavailable_actions_have_no_probability():
    available = np.array([[True, True], [True, False]])
    with pytest.raises(ValueError, match=r"0\.5 to action 1 at row 1, where it is not"):
        check_distributions("policy", np.full((2, 2), 0.5), available)


def test_written_probabilities_may_be_rounded():
    check_distributions("policy", np.array([[0.333333, 0.333333, 0.333334]]))
    check_distributions("policy", np.array([[0.3333337, 0.3333333, 0.3333333]]))
    with pytest.raises(ValueError, match="must sum to 1"):
        check_distributions("policy", np.array([[0.33334, 0.33333, 0.33334]]))


@pytest.mark.parametrize(
    ("bounds", "message"),
    [
        ((1, 0), r"low < high, got \(1\.0, 0\.0\)"),
        ((0, 0), "low < high"),
        ((np.nan, 1), "low < high"),
        (3, "pair"),
        ((0, 1, 2), "pair"),
        ("ab", "pair"),
        ((0, 0.5), r"reward 1 at row 1 lies outside reward_range \(0, 0\.5\)"),
    ],
)
def test_bad_reward_ranges_are_refused(bounds, message):
    with pytest.raises(ValueError, match=message):
        check_reward_range(bounds, np.array([0.0, 1.0]))


def test_a_reward_range_may_be_open_to_one_side():
    assert check_reward_range((0, np.inf), np.array([5.0])) == (0.0, np.inf)


DAYS = [datetime.datetime(2020, 1, day, 12) for day in (1, 2)]
UTC = np.array(["2020-01-01T11", "2020-01-02T11"], dtype="M8[us]")  # noon in Paris


def test_times_are_numbers_or_datetimes():
    for values in ([3, 1], [0.5, 0.25], np.array(DAYS, dtype="M8[s]")):
        assert_array_equal(check_timestamp(values, 2), np.asarray(values))


@pytest.mark.parametrize(
    ("values", "error", "message"),
    [
        (DAYS, TypeError, r"np\.asarray\(timestamp, dtype='datetime64\[us\]'\)"),
        (["2020-01-01", "2020-01-02"], TypeError, "numbers or datetimes"),
        ([True, False], TypeError, "numbers or datetimes"),
        ([[1, 2]], TypeError, r"shape \(1, 2\)"),
        ([1], ValueError, "timestamp has 1 rows, action has 2"),
        ([1.0, np.nan], ValueError, r"missing at row 1 \(1 such rows\)"),
        (np.array(["2020", "NaT"], "M8[D]"), ValueError, "missing at row 1"),
    ],
    ids=str,
)
def test_bad_times_are_refused(values, error, message):
    with pytest.raises(error, match=message):
        check_timestamp(values, 2)


def test_times_with_a_zone_are_told_in_utc():
    pandas = pytest.importorskip("pandas")
    index = pandas.DatetimeIndex(DAYS).tz_localize("Europe/Paris")
    for values in (pandas.Series(index), index):
        assert_array_equal(check_timestamp(values, 2), UTC)
    missing = pandas.Series([pandas.NaT, index[0]])
    with pytest.raises(ValueError, match="missing at row 0"):
        check_timestamp(missing, 2)


def test_times_of_polars_and_pyarrow():
    polars = pytest.importorskip("polars")
    pyarrow = pytest.importorskip("pyarrow")
    series = polars.Series(DAYS).dt.replace_time_zone("Europe/Paris")
    assert_array_equal(check_timestamp(series, 2), UTC)
    assert_array_equal(check_timestamp(polars.Series([3, 4]), 2), [3, 4])
    stamps = pyarrow.array(UTC.tolist(), pyarrow.timestamp("us", "Europe/Paris"))
    assert_array_equal(check_timestamp(stamps, 2), UTC)


def test_plain_values_for_messages():
    assert plain(np.int64(3)) == 3
    assert type(plain(np.str_("a"))) is str
    assert plain(None) is None


def test_value_range_is_short():
    assert value_range(np.array([0.123456, 2.0])) == "0.1235 to 2"


@pytest.mark.parametrize("kind", ["U", "S"])
def test_codes_of_many_texts_are_those_of_few(kind):
    labels = np.array(["b", "a", "long text", "ab"], dtype=kind)
    values = np.array(["a", "b", "unknown", "ab", "long text"], dtype=kind)
    few, many = label_codes(labels, values), np.tile(values, 300)
    assert few.tolist() == [1, 0, -1, 3, 2]
    assert_array_equal(label_codes(labels, many), np.tile(few, 300))
    wide = many.astype(f"{kind}200")  # these are looked up one by one
    assert_array_equal(label_codes(labels, wide), np.tile(few, 300))


def test_decimals_are_numbers():
    values = np.array([Decimal("0.5"), Decimal(1)], dtype=object)
    assert_array_equal(as_numbers("reward", values), [0.5, 1.0])
    with pytest.raises(TypeError, match="must hold numbers"):
        as_numbers("reward", np.array([Decimal(1), None], dtype=object))
