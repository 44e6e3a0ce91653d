# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause

import pickle
import sys
from collections.abc import Mapping
from xml.dom.minidom import parseString

import numpy as np
import pytest

from skope_ope import IPS, UniformPolicy, evaluate
from skope_ope.evaluators import ValueTable
from skope_ope.exceptions import FewEventsWarning, LowOverlapWarning, SupportWarning
from tests._values import stated_value
from tests.evaluators.core._asked import bare_logs

LOGS = bare_logs(np.arange(200) % 2, np.arange(200) % 5 / 4, np.full(200, 0.5))
POLICIES = {"half": UniformPolicy(), "mostly": np.tile([0.2, 0.8], (200, 1))}
TABLE = evaluate(UniformPolicy(), LOGS, evaluators=["IPS", "SNIPS"])
BY_POLICY = evaluate(POLICIES, LOGS, evaluators=["IPS", "SNIPS"])


def test_a_table_is_a_mapping():
    assert isinstance(TABLE, Mapping)
    assert len(BY_POLICY) == 4
    assert [*TABLE] == ["IPS", "SNIPS"]
    assert "IPS" in TABLE
    assert ("half", "IPS") in BY_POLICY
    assert TABLE.get("DRos") is None
    for key in ("DRos", ("half", "DRos"), "half"):
        with pytest.raises(KeyError, match=r"the keys are \('half', 'IPS'\)"):
            BY_POLICY[key]
    with pytest.raises(KeyError, match=r"'SNIPS'\. Did you mean 'SNIPS'"):
        TABLE["SNISP"]
    with pytest.raises(TypeError):
        TABLE["IPS"] = 3


def test_records_are_what_the_values_say(pyplot):
    for level in (0.9, 0.95):
        records = BY_POLICY.to_records(level)
        for record, (key, value) in zip(records, BY_POLICY.items(), strict=True):
            interval = value.confidence_interval(level)
            assert (record["policy"], record["evaluator"]) == key
            assert (record["low"], record["high"]) == interval
            assert record["interval"] == interval.method
            for name in ("value", "standard_error", "effective_sample_size"):
                assert record[name] == getattr(value, name)
            assert record["leaves_bias_out"] is record["recommended"] is False
            assert record["verdict"] == value.verdict.answer
            assert record["n_rounds"] == 200
    assert "policy" not in TABLE.to_records()[0]
    with pytest.raises(ValueError, match=r"level must lie in \(0, 1\), got 95"):
        TABLE.to_records(95)
    other = pickle.loads(pickle.dumps(BY_POLICY))
    assert other.to_records() == BY_POLICY.to_records()
    assert repr(other) == repr(BY_POLICY)
    diagnostics = TABLE["IPS"].diagnostics
    again = pickle.loads(pickle.dumps(diagnostics))
    assert again == diagnostics
    for other in ({**diagnostics, "action_frequency": np.zeros(2)}, {}, 0):
        assert again != other
    assert BY_POLICY.plot().ax_.has_data()
    _, ax = pyplot.subplots()
    assert TABLE.plot(ax=ax, level=0.5).ax_ is ax


@pytest.mark.parametrize("method", ["auto", "student", "bootstrap", "percentile"])
def test_intervals_are_those_of_the_values(method):
    found = BY_POLICY.confidence_intervals(0.9, method)
    assert list(found) == list(BY_POLICY)
    for key, interval in found.items():
        expected = BY_POLICY[key].confidence_interval(0.9, method)
        assert interval == pytest.approx(expected, rel=1e-9)
        assert (interval.method, interval.level) == (expected.method, 0.9)


def test_intervals_that_hold_together():
    """Bonferroni over all rows: whichever is looked at afterwards."""
    together = BY_POLICY.confidence_intervals(0.9, simultaneous=True)
    for key, value in BY_POLICY.items():
        assert together[key].level == pytest.approx(0.975)
        assert together[key] == pytest.approx(value.confidence_interval(0.975))
    alone = evaluate(UniformPolicy(), LOGS, evaluators=["IPS"])
    [one] = alone.confidence_intervals(simultaneous=True).values()
    assert one == TABLE["IPS"].confidence_interval()
    for level in (0, 1, 95):
        with pytest.raises(ValueError, match=r"level must lie in \(0, 1\), got"):
            BY_POLICY.confidence_intervals(level, simultaneous=True)


def test_intervals_take_options_and_warn_once():
    given = {"method": "bootstrap", "n_resamples": 400}
    one, two = (TABLE.confidence_intervals(**given, random_state=s) for s in (0, 1))
    assert one["IPS"] != two["IPS"]
    with pytest.raises(ValueError, match="'student' does not use block_length"):
        TABLE.confidence_intervals(method="student", block_length=3)
    with pytest.raises(ValueError, match="needs the range of the rewards"):
        TABLE.confidence_intervals(method="hoeffding", max_weight=2)
    rare = LOGS.replace(reward=(np.arange(200) == 7) * 1.0)
    table = evaluate(POLICIES, rare, evaluators=["IPS", "SNIPS"])
    with pytest.warns(FewEventsWarning) as caught:
        intervals = table.confidence_intervals()
    assert len(caught) < len(intervals)
    assert all(w.filename == __file__ for w in caught)
    assert any(str(w.message).startswith("half, IPS") for w in caught)


def test_frame():
    pandas = pytest.importorskip("pandas")
    frame = BY_POLICY.to_frame()
    assert frame.index.names == ["policy", "evaluator"]
    assert frame.loc[("half", "IPS"), "value"] == BY_POLICY["half", "IPS"].value
    names = "value standard_error low high interval effective_sample_size n_rounds"
    assert " ".join(frame) == f"{names} leaves_bias_out recommended verdict warnings"
    single = TABLE.to_frame(0.5)
    assert single.index.tolist() == ["IPS", "SNIPS"]
    lows = [value.confidence_interval(0.5)[0] for value in TABLE.values()]
    assert single["low"].tolist() == lows
    assert isinstance(single, pandas.DataFrame)


def test_without_pandas_the_remedy_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "pandas", None)
    remedy = r"pip install 'skope-ope\[frames\]'; to_record"
    with pytest.raises(ImportError, match=remedy):
        TABLE.to_frame()


def test_repr_is_a_table_of_text():
    lines = repr(BY_POLICY).splitlines()
    assert lines[0].split()[:3] == ["policy", "evaluator", "value"]
    assert [line.split()[:2] for line in lines[1:5]] == [list(key) for key in BY_POLICY]
    assert f"{TABLE['IPS'].value:.3f}" in repr(TABLE)
    many = stated_value(1.0, 0.5, 10, estimator="a", effective_sample_size=1234.56)
    assert " 1,235" in repr(ValueTable({"a": many}))  # needs no decimal
    assert all(line == line.rstrip() for line in lines)
    none = "Recommended: none of these; these logs allow DoublyRobust, which was not"
    assert " ".join(repr(TABLE).splitlines()[3:]) == f"{none} asked for."


def shown(**numbers):
    """Lines of a table of values whose numbers are stated."""
    values = {
        name: stated_value(value, error, 10, estimator=name, leaves_bias_out=bias)
        for name, (value, error, bias) in numbers.items()
    }
    return repr(ValueTable(values)).splitlines()


def test_numbers_of_a_column_have_the_same_decimals_and_end_together():
    rare, often = (0.0123456, 0.0012, False), (12.0, 0.0034, False)
    header, *rows = shown(rare=rare, often=often, nothing=(np.nan, np.nan, False))[:4]
    for title in ("value", "std. error", "95% low", "95% high"):
        end = header.index(title) + len(title)
        cells = [row[:end].split()[-1] for row in rows]
        assert all(row[end : end + 1] in (" ", "") for row in rows)
        assert [len(cell.partition(".")[2]) for cell in cells] == [4, 4, 0]
    assert rows[0].split()[1] == "0.0123"
    assert "12.0000" in rows[1]
    assert rows[2].split()[1:3] == ["-", "-"]
    # a biased model alone has a tiny error, to which the others are not written
    rows = shown(a=(0.5, 1e-6, "the model's"), b=(0.5, 0.012, False))
    assert [row.split()[1] for row in rows[1:3]] == ["0.500", "0.500"]


# -- marks --------------------------------------------------------------------------
MARKED = evaluate(UniformPolicy(), LOGS, evaluators=["DRos", "DoublyRobust", "IPS"])


def test_the_recommended_row_is_marked():
    assert MARKED.recommended == "DoublyRobust"
    marked = [record["recommended"] for record in MARKED.to_records()]
    assert marked == [False, True, False]
    [row] = [line for line in repr(MARKED).splitlines() if "  recommended" in line]
    assert row.startswith("DoublyRobust ")
    text = " ".join(repr(MARKED).split())
    assert f"Recommended: DoublyRobust; {MARKED.reason}." in text
    body = parseString(MARKED._repr_html_()).getElementsByTagName("tbody")[0]
    marks = [row.getAttribute("class") for row in body.getElementsByTagName("tr")]
    assert marks == ["", "marked", ""]
    by_policy = evaluate(POLICIES, LOGS, evaluators=["DoublyRobust", "IPS"])
    assert repr(by_policy).count("  recommended") == 2


def test_intervals_that_leave_a_bias_out_are_marked():
    reason = "leaves out the bias of shrunk weights"
    assert MARKED["DRos"].leaves_bias_out in reason
    [row] = [line for line in repr(MARKED).splitlines() if line.endswith("biased *")]
    assert row.startswith("DRos ")
    assert ">biased *</span></td>" in MARKED._repr_html_()
    for text in (repr(MARKED), MARKED._repr_html_()):
        assert f"* {reason}" in text
    sentence = "These intervals leave out a bias of their evaluators."
    assert sentence in repr(MARKED) and sentence in MARKED._repr_html_()
    assert sentence not in repr(TABLE)
    assert MARKED.to_records()[0]["leaves_bias_out"] == "the bias of shrunk weights"


def test_what_is_left_out_and_why_is_told():
    needs = {"A": "loggers", "B": "propensities", "C": "loggers"}
    table = ValueTable(dict(TABLE), needs)
    assert table.left_out == ("A", "B", "C")
    left_out = "Left out, because the logs lack"
    told = [f"{left_out} loggers: A, C.", f"{left_out} propensities: B."]
    assert repr(table).splitlines()[-2:] == told


def test_html_has_a_row_per_value_and_names_may_be_anything():
    for table, n_rows in ((TABLE, 2), (BY_POLICY, 4)):
        document = parseString(table._repr_html_())
        body = document.getElementsByTagName("tbody")[0]
        assert len(body.getElementsByTagName("tr")) == n_rows
        assert len(document.getElementsByTagName("tfoot")) == 1  # an axis
    policies = {"<b>": UniformPolicy(), 3: UniformPolicy()}
    table = evaluate(policies, LOGS, evaluators={7: IPS()})
    assert [*table] == [("<b>", 7), (3, 7)]
    assert "<b>" in repr(table)
    html = table._repr_html_()
    assert "<b>" not in html and "&lt;b&gt;" in html


def test_warnings_are_named():
    logs = LOGS.replace(propensity=np.where(np.arange(200) == 3, 1e-6, 0.5))
    with pytest.warns(LowOverlapWarning):
        table = evaluate(UniformPolicy(), logs, evaluators="IPS")
    told = table.to_records()[0]["warnings"]
    assert told == "LowOverlapWarning; TailWarning"  # the latter of its interval
    for text in (repr(table), table._repr_html_()):  # numbers, and what they say
        assert "[1, 2]" in text and "[1] LowOverlapWarning (IPS): The " in text
        assert "[2] TailWarning (IPS)" in text


@pytest.mark.filterwarnings("ignore::skope_ope.exceptions.LowOverlapWarning")
def test_values_that_could_not_be_formed():
    logs = bare_logs(np.zeros(50), np.ones(50), np.ones(50), actions=[0, 1])
    with pytest.warns(SupportWarning):
        policy = np.tile([0.0, 1.0], (50, 1))
        table = evaluate(policy, logs, evaluators=["IPS", "SNIPS"])
    assert all(np.isnan(value.value) for value in table.values())
    assert repr(table).splitlines()[1].split()[1:3] == ["-", "-"]
    assert table.to_records()[0]["low"] == 0  # all that the range allows
    assert table.to_records()[0]["warnings"].endswith("FewEventsWarning")
