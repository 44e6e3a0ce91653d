# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Sums inside Dask and Spark frames: the numbers of memory, and no row lost."""

import numpy as np
import pytest

from skope_ope import IPS, DoublyRobust, evaluate, scan_logs, summarize
from tests.evaluators._frame_worlds import (
    LOGGERS,
    ONE_LOGGER,
    POLICIES,
    columns,
    in_memory,
    roles,
)
from tests.evaluators.frames.test_pushdown import check_same

pytestmark = [
    pytest.mark.engines,
    pytest.mark.frames,
    # narwhals will ask for a package of its own for Dask
    pytest.mark.filterwarnings("ignore:Dask support is moving:FutureWarning"),
    # pandas, of the hundred columns that all evaluators at once need
    pytest.mark.filterwarnings("ignore:DataFrame is highly fragmented"),
    pytest.mark.filterwarnings("ignore::skope_ope.exceptions.OPEWarning"),
]


@pytest.fixture(scope="module")
def spark():
    sql = pytest.importorskip("pyspark.sql")
    try:
        session = (
            sql.SparkSession.builder.master("local[2]")
            .config("spark.ui.enabled", "false")
            .config("spark.sql.shuffle.partitions", "2")
            .config("spark.driver.bindAddress", "127.0.0.1")
            .getOrCreate()
        )
    except Exception as error:  # no Java
        pytest.skip(f"Spark does not start: {error}")
    yield session
    session.stop()


def dask_frame(data, request):
    dask = pytest.importorskip("dask.dataframe")
    pandas = pytest.importorskip("pandas")
    return dask.from_pandas(pandas.DataFrame(data), npartitions=3)


def spark_frame(data, request):
    session = request.getfixturevalue("spark")
    pa = pytest.importorskip("pyarrow")
    return session.createDataFrame(pa.table(data))


engines = pytest.mark.parametrize(
    "frame_of", [dask_frame, spark_frame], ids=["dask", "spark"]
)


@engines
@pytest.mark.parametrize("which", ["plain", "weighted groups", "loggers"])
def test_numbers_of_memory(frame_of, which, request):
    grouped, loggers = which == "weighted groups", which == "loggers"
    given = roles(groups=grouped, weights=grouped, loggers=loggers)
    evaluators = LOGGERS if loggers else ONE_LOGGER
    evaluators = {k: one for k, one in evaluators.items() if k != "loggers"}
    data = columns(seed=int(loggers))
    lazy = scan_logs(frame_of(data, request), **given)
    tables = [
        evaluate(POLICIES, logs, evaluators=evaluators)
        for logs in (lazy, in_memory(data, given))
    ]
    check_same(*tables)


@engines
@pytest.mark.parametrize("texts", [False, True])
def test_more_groups_than_are_told_apart(frame_of, texts, request):
    n = 101_000
    data = columns(n)
    data["group"] = np.arange(n) - n // 2
    if texts:
        data["group"] = np.array([f"user {g}" for g in data["group"]])
    given, logged = roles(groups=True), {"one": "one_logged"}
    logs = in_memory(data, given)
    parts = (
        [scan_logs(frame_of(data, request), **given)],
        [logs[:60_000], logs[60_000:]],
    )
    found, expected = (
        sum(summarize(logged, one, evaluators=["SNIPS"]) for one in some).values()
        for some in parts
    )
    found, expected = found["one", "SNIPS"], expected["one", "SNIPS"]
    assert "buckets" in found.diagnostics["clusters"]
    assert found.value == pytest.approx(expected.value, rel=1e-12)
    assert found.standard_error == pytest.approx(expected.standard_error, rel=1e-9)


BAD = [("reward", one, "reward") for one in (None, np.nan)]
BAD += [("p", one, "propensity must lie in") for one in (None, np.nan, 0.0)]
BAD += [("one_0", one, "policy 'one'") for one in (None, np.nan)]
BAD += [("q_1", np.nan, "model values must be finite")]
BAD += [(one, None, f"{one} is missing") for one in ("action", "group")]


@engines
@pytest.mark.parametrize(("name", "value", "said"), BAD)
def test_bad_rows_are_counted_and_refused(frame_of, name, value, said, request):
    data = {one: values.tolist() for one, values in columns(60).items()}
    data[name][52] = data[name][57] = value  # not among the first rows
    lazy = scan_logs(frame_of(data, request), **roles(groups=True))
    evaluators = {"IPS": IPS(), "DR": DoublyRobust(reward_model="q")}
    counted = "" if name == "action" else r".*\(2 of 60 rows"
    with pytest.raises(ValueError, match=said + counted):
        evaluate({"one": "one"}, lazy, evaluators=evaluators)


@engines
def test_a_reward_that_is_no_number_is_not_said_to_lie_outside(frame_of, request):
    data = columns(60)
    data["reward"][52] = np.nan
    lazy = scan_logs(frame_of(data, request), reward_range=(0, 1), **roles())
    said = r"^column 'reward': reward must be a finite number \(1 of 60 rows"
    with pytest.raises(ValueError, match=said):
        evaluate({"one": "one_logged"}, lazy, evaluators={"IPS": IPS()})
