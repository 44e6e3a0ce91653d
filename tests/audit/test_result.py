# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause

import json
import pickle
from dataclasses import replace

import numpy as np
import pytest

from skope_ope import BanditLogs, audit
from skope_ope.audit import Audit
from skope_ope.exceptions import PropensityWarning

LOGS = BanditLogs(np.ones((60, 1)), [0, 1] * 30, [0.0, 1.0] * 30)
CONSTANT = next(one for one in audit(LOGS).findings if one.name == "constant_column")


def finding(name, severity, found, advice=(), **fields):
    """Return a finding of an audit with other words."""
    nan = float("nan")
    blank = {"number": nan, "effect": nan, "rows": (), "columns": ()}
    given = {"name": name, "severity": severity, "found": found, "advice": advice}
    return replace(CONSTANT, **(blank | given | fields))


NOTE = finding("some_note", "note", "A column <b> is constant.", columns=("<b>",))
PLACE = {"number": 3, "rows": (7,)}
DOUBT = finding("some_doubt", "warning", "Few rewards.", ("Wait.",), **PLACE)
EFFECT = {"number": np.float64(12.5), "effect": 0.25}
ADVICE = ("They belong to another action.", "They were clipped.")
FAULT = finding("some_fault", "error", "The propensities are wrong.", ADVICE, **EFFECT)
FAULT = replace(FAULT, category=PropensityWarning)
FACTS = {
    "rounds": 3000,
    "reward": "0 to 1",
    "largest weights": np.array([3.0, np.nan]),
    "actions": {"action": np.array([1000, 2000]), "mean reward": [0.25, float("nan")]},
}
FOUND = Audit(FACTS, [NOTE, DOUBT, FAULT])


def test_the_worst_comes_first_and_notes_are_no_alarms():
    assert FOUND.findings == (FAULT, DOUBT, NOTE)
    other = finding("other_note", "note", "More.")
    assert Audit({}, [other, NOTE]).findings == (other, NOTE)
    assert FOUND.alarms == (FAULT, DOUBT)
    assert not FOUND.ok
    assert Audit({}, [NOTE]).ok


def test_the_text_tells_findings_advice_places_and_facts():
    text = repr(FOUND)
    assert text.startswith("Audit: 1 error, 1 warning, 1 note.")
    assert "most likely first: (1) They belong" in " ".join(text.split())
    assert "  rows: 7" in text
    assert "  rounds           3,000" in text
    assert "  action  mean reward" in text
    assert "  1000           0.25" in text
    assert repr(Audit({}, [])) == "Audit: no check found anything."
    assert repr(Audit({}, [NOTE])).startswith("Audit: no alarm, 1 note.")


def test_long_tables_are_shortened_in_text_and_whole_in_the_record():
    facts = {"actions": {"action": list(range(50)), "rounds": [1] * 50}}
    found = Audit(facts, [])
    assert "... and 38 more" in repr(found)
    assert "... and 38 more" in found._repr_html_()
    assert len(found.to_dict()["facts"]["actions"]["action"]) == 50


def test_an_effect_that_the_sentence_tells_is_not_told_again():
    few = finding("low_overlap", "warning", "On 8.8 rounds of 9,000.", effect=0.00098)
    assert "effect" not in repr(Audit({}, [few]))
    assert "effect: 0.25" in repr(FOUND)
    assert Audit({}, [few]).to_records()[0]["effect"] == 0.00098


def test_a_finding_is_told_in_html_with_its_steps_and_its_places():
    html = FOUND._repr_html_()
    page = html[: html.index("<details")]
    assert page.count('<div class="finding">') == 3 and "<table" not in page
    part = page.split('<div class="finding">')[1]
    steps = "What to check, most likely first:"
    assert f"{FAULT.found} {steps}</p><ol><li>{FAULT.advice[0]}</li>" in part
    assert "effect: 0.25" in part and "rows: 7" in page
    assert "&lt;b&gt; is constant" in html and "<b>" not in html


def test_records_frames_and_pickles():
    record = json.loads(json.dumps(FOUND.to_dict(), allow_nan=False))
    assert record["facts"]["largest weights"] == [3.0, None]
    assert record["facts"]["actions"]["action"] == [1000, 2000]
    names = ["some_fault", "some_doubt", "some_note"]
    assert [one["finding"] for one in record["findings"]] == names
    assert record["findings"][0]["number"] == 12.5
    assert record["findings"][2]["effect"] is None
    assert pickle.loads(pickle.dumps(FOUND)).to_dict() == FOUND.to_dict()
    pytest.importorskip("pandas")
    frame = FOUND.to_frame()
    assert frame["severity"].tolist() == ["error", "warning", "note"]
    assert Audit({}, []).to_frame().columns.tolist() == frame.columns.tolist()


def test_a_finding_becomes_the_warning_of_an_evaluator():
    warning = FAULT.warning()
    assert isinstance(warning, PropensityWarning)
    assert (warning.value, str(warning)) == (12.5, FAULT.text)
    with pytest.raises(ValueError, match="severity must be one of"):
        finding("x", "fatal", "No.")
