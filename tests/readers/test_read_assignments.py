# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause

import json
from datetime import timedelta
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from skope_ope import IPS, audit
from skope_ope.exceptions import LogsWarning
from skope_ope.readers import read_eppo, read_growthbook

pytestmark = pytest.mark.frames
pandas = pytest.importorskip("pandas")

EXPOSURES = [
    # user, day, experiment, variation, browser
    ("u2", "2026-01-02 10:00:00", "button", 1, "chrome"),
    ("u1", "2026-01-01 10:00:00", "button", 0, "firefox"),
    ("u1", "2026-01-05 10:00:00", "button", 0, "safari"),
    ("u3", "2026-01-03 10:00:00", "button", 1, "chrome"),
    ("u3", "2026-01-01 10:00:00", "other", 0, "chrome"),
    ("u4", "2026-01-04 10:00:00", "button", 0, "opera"),
]
ORDERS = [
    # user, day, value
    ("u1", "2026-01-01 09:00:00", 100.0),  # before the exposure
    ("u1", "2026-01-01 10:00:00", 1.0),
    ("u1", "2026-01-09 10:00:00", 2.0),
    ("u3", "2026-01-04 10:00:00", 5.0),
    ("u3", "2026-01-02 10:00:00", 50.0),  # before
    ("u9", "2026-01-04 10:00:00", 7.0),  # never exposed
    ("u4", "2026-01-04 10:00:00", 0.0),
]
GROWTHBOOK = ["user_id", "timestamp", "experiment_id", "variation_id", "browser"]
COMMON = {"experiment": "button", "weights": {0: 0.6, 1: 0.4}, "reward": "value"}


@pytest.fixture
def exposures():
    return pandas.DataFrame(EXPOSURES, columns=GROWTHBOOK)


@pytest.fixture
def orders():
    return pandas.DataFrame(ORDERS, columns=["user_id", "timestamp", "value"])


def check_button(logs):
    """Rounds in the order of the first exposures: u1, u2, u3, u4."""
    assert_array_equal(logs.group, ["u1", "u2", "u3", "u4"])
    assert_array_equal(logs.action_index, [0, 1, 1, 0])
    assert_array_equal(logs.reward, [3, 0, 5, 0])
    assert_allclose(logs.propensity, [0.6, 0.4, 0.4, 0.6])
    assert_allclose(logs.logging_proba, [[0.6, 0.4]] * 4)
    assert logs.timestamp[0] == np.datetime64("2026-01-01T10:00:00")


@pytest.mark.parametrize("backend", ["pandas", "polars", "pyarrow"])
def test_frames_of_every_library(exposures, orders, backend):
    module = pytest.importorskip(backend)
    make = {
        "pandas": lambda frame: frame,
        "polars": lambda frame: module.DataFrame(frame.to_dict("list")),
        "pyarrow": lambda frame: module.table(frame.to_dict("list")),
    }[backend]
    for frame in (exposures, orders):
        frame["timestamp"] = pandas.to_datetime(frame["timestamp"], utc=True)
    logs = read_growthbook(make(exposures), make(orders), **COMMON, context=["browser"])
    check_button(logs)
    assert type(logs.context).__module__.split(".")[0] == backend
    assert_array_equal(logs.actions, [0, 1])


@pytest.mark.parametrize("kind", ["csv", "jsonl", "parquet"])
def test_files(exposures, orders, tmp_path, kind):
    paths = []
    for name, frame in (("exposures", exposures), ("orders", orders)):
        paths.append(tmp_path / f"{name}.{kind}")
        if kind == "csv":
            frame.to_csv(paths[-1], index=False)
        elif kind == "jsonl":
            frame.to_json(paths[-1], orient="records", lines=True)
        else:
            pytest.importorskip("pyarrow")
            frame.to_parquet(paths[-1])
    logs = read_growthbook(*paths, **COMMON, context=["browser"])
    check_button(logs)
    assert list(logs.context["browser"]) == ["firefox", "chrome", "chrome", "opera"]
    bad = {**COMMON, "reward": "valuee"}
    with pytest.raises(ValueError, match=rf"orders\.{kind} has no column 'valuee'"):
        read_growthbook(*paths, **bad)


def test_rewards_experiments_and_variations(exposures, orders):
    def reward(**words):
        return read_growthbook(exposures, orders, **COMMON, **words).reward.tolist()

    assert reward(aggregate="any") == [1, 0, 1, 0]  # an outcome of zero is none
    assert reward(window=timedelta(days=7)) == [1, 0, 5, 0]
    assert reward(window=np.timedelta64(1, "h")) == [1, 0, 0, 0]
    assert reward(outcome_time=None) == [103, 0, 55, 0]
    logs = read_growthbook(exposures, orders, **{**COMMON, "reward": None})
    assert logs.reward.tolist() == [2, 0, 1, 1]  # counts
    # one experiment at a time
    words = {"weights": "even", "reward": "value"}
    with pytest.raises(ValueError, match=r"2 experiments \('button', 'other'\)"):
        read_growthbook(exposures, orders, **words)
    with pytest.raises(ValueError, match=r"experiment 'buttn'\. Did you mean 'button"):
        read_growthbook(exposures, orders, **words, experiment="buttn")
    one = exposures[exposures["experiment_id"] == "button"]
    assert len(read_growthbook(one, orders, **words)) == 4
    # a variation that nobody saw
    weights = {"0": 0.3, "1": 0.3, "2": 0.4}
    logs = read_growthbook(exposures, orders, **{**COMMON, "weights": weights})
    assert_array_equal(logs.actions, [0, 1, 2])
    weights = {"0": 0.3, "1": 0.3, "new": 0.4}
    logs = read_growthbook(exposures, orders, **{**COMMON, "weights": weights})
    assert_array_equal(logs.actions, ["0", "1", "new"])
    assert_array_equal(logs.action, ["0", "1", "1", "0"])
    one = exposures[exposures["variation_id"] == 0]
    with pytest.raises(ValueError, match="weights='even' needs several"):
        read_growthbook(one, orders, **{**COMMON, "weights": "even"})


def test_numbers_as_times(exposures, orders):
    for frame in (exposures, orders):
        frame["timestamp"] = pandas.to_datetime(frame["timestamp"]).dt.day_of_year
    logs = read_growthbook(exposures, orders, **COMMON, window=2)
    assert logs.reward.tolist() == [101, 0, 5, 0]
    with pytest.raises(ValueError, match="window must be a number"):
        read_growthbook(exposures, orders, **COMMON, window=timedelta(days=1))
    orders["timestamp"] = "2026-01-01"
    with pytest.raises(ValueError, match="holds datetimes, the times of the assignm"):
        read_growthbook(exposures, orders, **COMMON)


def test_users_as_numbers_and_texts(exposures, orders):
    exposures["user_id"] = exposures["user_id"].str[1:].astype(int)
    orders["user_id"] = orders["user_id"].str[1:]
    logs = read_growthbook(exposures, orders, **COMMON)
    assert logs.reward.tolist() == [3, 0, 5, 0]
    orders["user_id"] = "x"
    with pytest.raises(ValueError, match="no user of the outcomes is among"):
        read_growthbook(exposures, orders, **COMMON)
    logs = read_growthbook(exposures, orders[:0], **COMMON)  # nobody did anything
    assert logs.reward.tolist() == [0] * 4


def test_users_in_several_variations(exposures, orders):
    moved = pandas.concat([exposures, exposures[:1].assign(variation_id=0)])
    with pytest.raises(ValueError, match=r"1 of 4 users are in several .*'u2'.*'drop'"):
        read_growthbook(moved, orders, **COMMON)
    with pytest.warns(LogsWarning, match="1 of 4 users .* left out") as told:
        logs = read_growthbook(moved, orders, **COMMON, several_variations="drop")
    assert told[0].message.value == 1
    assert Path(told[0].filename) == Path(__file__)
    assert_array_equal(logs.group, ["u1", "u3", "u4"])
    only = moved[moved["user_id"] == "u2"]
    with pytest.raises(ValueError, match="no user is left"):
        read_growthbook(only, orders, **COMMON, several_variations="drop")


@pytest.mark.parametrize(
    ("weights", "error", "message"),
    [
        ({0: 1.0}, ValueError, "no share of variation '1', which was logged"),
        ({0: 0.5, 1: 0.4}, ValueError, "weights must sum to 1, got 0.9"),
        ({0: 1.0, 1: 0.0}, ValueError, r"variation '1' in weights must be in \(0, 1\]"),
        ({}, TypeError, "weights must be 'even' or a dictionary"),
        ("equal", TypeError, "weights must be 'even' or a dictionary"),
        (0.5, TypeError, "weights must be 'even' or a dictionary"),
    ],
)
def test_splits_that_are_none(exposures, orders, weights, error, message):
    with pytest.raises(error, match=message):
        read_growthbook(exposures, orders, **{**COMMON, "weights": weights})


def test_a_split_that_the_counts_contradict_is_found():
    n = 400
    columns = {"user_id": range(n), "timestamp": range(n), "experiment_id": "e"}
    columns["variation_id"] = [0, 0, 0, 1] * (n // 4)
    exposures = pandas.DataFrame(columns)
    orders = pandas.DataFrame({"user_id": [0, 1], "timestamp": [500, 500]})
    wrong = read_growthbook(exposures, orders, weights="even")
    right = read_growthbook(exposures, orders, weights={0: 0.75, 1: 0.25})

    def alarms(logs):
        return {one.name for one in audit(logs).alarms}

    assert "propensity" in " ".join(alarms(wrong) - alarms(right))


def eppo_events():
    for user, when, experiment, variation, browser in EXPOSURES:
        yield {
            "subject": user,
            "timestamp": when.replace(" ", "T") + ".000Z",
            "experiment": experiment,
            "variation": ["control", "treatment"][variation],
            "featureFlag": experiment,
            "allocation": "allocation-17",
            "subjectAttributes": {"browser": browser, "device": {"kind": "phone"}},
        }


@pytest.mark.parametrize("kind", ["jsonl", "csv", "texts", "objects"])
def test_eppo(tmp_path, orders, kind):
    events = list(eppo_events())
    frame = pandas.DataFrame(events)
    source = frame
    if kind == "jsonl":
        source = tmp_path / "events.jsonl"
        source.write_text("\n".join(map(json.dumps, events)))
    elif kind in ("texts", "csv"):
        source["subjectAttributes"] = frame["subjectAttributes"].map(json.dumps)
    if kind == "csv":
        source = tmp_path / "events.csv"
        frame.to_csv(source, index=False)
    names = ["subjectAttributes.browser", "subjectAttributes.device.kind"]
    words = COMMON | {"weights": {"control": 0.6, "treatment": 0.4}}
    logs = read_eppo(source, orders, **words, outcome_user="user_id", context=names)
    check_button(logs)
    assert_array_equal(logs.actions, ["control", "treatment"])
    browsers = ["firefox", "chrome", "chrome", "opera"]
    assert list(logs.context[names[0]]) == browsers
    assert list(logs.context[names[1]]) == ["phone"] * 4
    with pytest.warns(UserWarning):
        value = IPS().fit(logs).score(np.tile([0.0, 1.0], (4, 1)))
    assert value == pytest.approx(5 / 0.4 / 4)


def test_tables_that_are_refused(orders, exposures):
    events = pandas.DataFrame(eppo_events())
    events["subjectAttributes"] = ["{}"] * 5 + ["no JSON"]
    words = {"outcome_user": "user_id", "context": ["subjectAttributes.browser"]}
    with pytest.raises(ValueError, match=r"must hold JSON for 'subj.* row 5"):
        read_eppo(events, orders, weights="even", experiment="button", **words)
    # tables and parameters that are none
    with pytest.raises(TypeError, match="outcomes must be the path of a file, or a"):
        read_growthbook(exposures, ORDERS, **COMMON)
    with pytest.raises(ValueError, match="assignments: the frame has no column 'exper"):
        read_growthbook(exposures.drop(columns="experiment_id"), orders, **COMMON)
    exposures.loc[1, "timestamp"] = "soon"
    with pytest.raises(ValueError, match=r"'timestamp' must hold .* 'soon' at row 1"):
        read_growthbook(exposures, orders, **COMMON)
    orders["value"] = "x"
    with pytest.raises(ValueError, match="'value' must hold numbers, got 'x' at row 0"):
        read_growthbook(exposures.drop(index=1), orders, **COMMON)
    orders["value"] = [np.inf] * 7
    with pytest.raises(ValueError, match="'value' must hold finite numbers, got inf"):
        read_growthbook(exposures.drop(index=1), orders, **COMMON)
    orders.loc[2, "user_id"] = None
    with pytest.raises(ValueError, match=r"outcomes: .* missing value at row 2"):
        read_growthbook(exposures.drop(index=1), orders, **COMMON)
    for name, value in (("several_variations", "keep"), ("context", "browser")):
        with pytest.raises(ValueError, match=f"'{name}' parameter"):
            read_growthbook(exposures, orders, **COMMON, **{name: value})
