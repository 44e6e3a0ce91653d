# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause

import json
import warnings

import numpy as np
import pytest

from skope_ope import BanditLogs, UniformPolicy, evaluate
from skope_ope._shell._value_report import (
    report_record,
    to_json,
    to_text,
    warning_records,
)
from skope_ope.evaluators._logged_value import logged_value
from skope_ope.exceptions import SupportWarning


@pytest.fixture(scope="module")
def logs():
    rng = np.random.RandomState(0)
    reward = rng.uniform(size=50)
    return BanditLogs(np.zeros((50, 1)), rng.randint(2, size=50), reward, [0.5] * 50)


@pytest.fixture(scope="module")
def table(logs):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return evaluate(UniformPolicy(), logs, evaluators=["IPS", "DirectMethod"])


def report_of(records, **fields):
    return {
        "level": 0.9,
        "about": {"log": "x.csv", "policy": "uniform"},
        "values": records,
        "reference_values": [],
        "notes": [],
        "warnings": [],
        **fields,
    }


def test_a_record_says_what_the_value_says(table):
    record = report_record("IPS", table["IPS"], 0.9)
    assert (record["low"], record["high"]) == table["IPS"].confidence_interval(0.9)
    assert record["value"] == table["IPS"].value
    assert "gain" not in record


def test_gains_are_paired(table, logs):
    baseline = logged_value(logs)
    gain = report_record("IPS", table["IPS"], 0.95, baseline=baseline)["gain"]
    difference = table["IPS"] - baseline
    assert gain["value"] == pytest.approx(difference.value, abs=1e-15)
    assert gain["standard_error"] == difference.standard_error


def test_warnings_stand_there_once(table):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for _ in range(2):
            warnings.warn("did not\n  converge", RuntimeWarning, stacklevel=1)
        warnings.warn("old", DeprecationWarning, stacklevel=1)
        warnings.warn(SupportWarning("no support", 0.5), stacklevel=1)
        warnings.warn(table["DirectMethod"].warnings[0], stacklevel=1)
    records = warning_records(table, caught, 0.95)
    assert [record["type"] for record in records] == [
        "ModelErrorWarning",
        "RuntimeWarning",
        "SupportWarning",
    ]
    assert records[0]["evaluators"] == ["DirectMethod"]
    assert records[1]["message"] == "did not converge"
    assert records[2]["value"] == 0.5


def test_json_has_no_nan(table):
    report = report_of([report_record("DirectMethod", table["DirectMethod"], 0.95)])
    report["extra"] = {"n": np.int64(3), "x": np.float64("inf"), "t": ("a", True)}
    read = json.loads(to_json(report))
    assert read["values"][0]["effective_sample_size"] is None
    assert read["extra"] == {"n": 3, "x": None, "t": ["a", True]}


def test_text(table, logs):
    report = report_of([report_record(n, v, 0.9) for n, v in table.items()])
    report["warnings"] = warning_records(table, [], 0.9)
    report["reference_values"] = [report_record("logger", logged_value(logs), 0.9)]
    report["notes"] = ["Mind the gap."]
    lines = to_text(report).splitlines()
    assert lines[:3] == ["log     x.csv", "policy  uniform", ""]
    header = "value std. error 90% low 90% high interval eff. rounds note warnings"
    assert " ".join(lines[3].split()) == header
    assert lines[4].startswith("IPS ")
    assert lines[5].startswith("DirectMethod ")
    assert lines[5].endswith("-  biased *  [1]")
    assert "* leaves out the error of the reward model" in lines
    assert lines[6].startswith("logger ")
    assert "Mind the gap." in lines
    assert any(
        line.startswith("[1] ModelErrorWarning (DirectMethod): ") for line in lines
    )


def test_columns_come_with_what_they_show(table, logs):
    record = report_record("IPS", table["IPS"], 0.9, baseline=logged_value(logs))
    record["z_on_policy"] = -1.25
    text = to_text(report_of([record]))
    assert "eff. rounds  z on-policy" in text
    assert "-1.2" in text
    values, gains = text.split("in pairs")
    assert "gain  std. error" in gains and "gain  std. error" not in values
    record = report_record("IPS", table["IPS"], 0.9) | {"error": -0.5, "covers": False}
    truth = {"evaluator": "true value", "value": 0.5}
    text = to_text(report_of([record], truth=0.5, reference_values=[truth]))
    assert "error  covers" in text
    assert "  no\n" in text
    assert "eff. rounds" not in text
