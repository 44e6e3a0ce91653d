# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause

import json

import numpy as np
import pytest

from skope_ope.readers._vw_event import MalformedLineError, OtherLogError
from skope_ope.readers._vw_json import DSJsonParser, load, parse_dsjson, parse_json

LABEL = {"_label_Cost": -1.0, "_label_Probability": 0.5, "_labelIndex": 1}
MULTI = [{"a": 1}, {"b": 1}]


def json_line(container, **label):
    return json.dumps({**LABEL, **container, **label})


def dsjson_line(container=None, **fields):
    container = {"_multi": MULTI} if container is None else container
    return json.dumps({**LABEL, "c": container, **fields})


def features(**container):
    return parse_json(json_line({**container, "_multi": MULTI})).shared


@pytest.mark.parametrize(
    ("container", "expected"),
    [
        ({"age": 31, "city": "Paris"}, [("age", 31.0), ("city=Paris", 1.0)]),
        ({"yes": True, "no": False, "nothing": None, "zero": 0}, [("yes", 1.0)]),
        ({"u": {"age": 31, "c": "P"}}, [("u^age", 31.0), ("u^c=P", 1.0)]),
        ({"u": {"v": {"w": 2}}}, [("u.v^w", 2.0)]),
        ({"u": [{"a": 1}, {"b": "x"}]}, [("u^a", 1.0), ("u^b=x", 1.0)]),
        ({"u": [0.5, 0, None, 2]}, [("u^0", 0.5), ("u^2", 2.0)]),
        ({"u": ["x", "y"]}, [("u^x", 1.0), ("u^y", 1.0)]),
        ({"_text": "a b", "_hidden": 3}, [("a", 1.0), ("b", 1.0)]),
        ({"u": {"_text": "a b", "_id": "x"}}, [("u^a", 1.0), ("u^b", 1.0)]),
        ({"city": ""}, [("city=", 1.0)]),
    ],
)
def test_features(container, expected):
    assert features(**container) == expected


def test_a_key_that_comes_twice_counts_twice():
    line = '{"s": "1", "s": "2", "_multi": [{}], "_label": "0:1:0.5", "_labelIndex": 0}'
    assert parse_json(line).shared == [("s=1", 1.0), ("s=2", 1.0)]
    assert load(line).get("s") == "2"


def test_json_event():
    event = parse_json(json_line({"s": 2, "_multi": [{"a": 1}, {"b": 1, "_tag": "t"}]}))
    assert (event.action, event.reward, event.propensity) == (1, 1.0, 0.5)
    assert event.shared == [("s", 2.0)]
    assert event.actions == [[("a", 1.0)], [("b", 1.0)]]
    assert event.tags == [None, "t"]
    assert event.timestamp is None
    assert event.weight == 1.0


@pytest.mark.parametrize(
    "label",
    [
        {"_label": "1:2:0.25"},
        {"_label": {"Action": 1, "Cost": 2, "Probability": 0.25}},
        {"_label_cost": 2, "_label_probability": 0.25, "_label_Action": 7},
        {"_label_Cost": "2", "_label_Probability": "0.25"},
    ],
)
def test_forms_of_a_label(label):
    event = parse_json(json.dumps({"_multi": MULTI, "_labelIndex": 0, **label}))
    assert (event.action, event.reward, event.propensity) == (0, -2.0, 0.25)
    inside = [{"a": 1}, {"b": 1, **label}]
    assert parse_json(json.dumps({"_multi": inside}))[:3] == (1, -2.0, 0.25)


def test_events_without_a_list_of_actions():
    line = {"_label_Action": 3, "_label_Cost": 1, "_label_Probability": 0.5, "a": 2}
    event = parse_json(json.dumps(line))
    assert (event.action, event.reward, event.shared) == (3, -1.0, [("a", 2.0)])
    assert event.actions is None
    event = parse_json(json.dumps({"_label": "3:1:0.5 4", "a": 2}))
    assert (event.action, event.offered, event.shared) == (3, [3, 4], [("a", 2.0)])
    assert parse_json(json.dumps({"_label": "3", "a": 2})) is None
    assert parse_json(json.dumps({"a": 2})) is None


@pytest.mark.parametrize(
    "label", [{}, {"_label": 1}, {"_label_Cost": 1}, {"_label_Probability": 1}]
)
def test_unlabelled_events(label):
    assert parse_json(json.dumps({"_multi": MULTI, **label})) is None
    assert parse_dsjson(json.dumps({"c": {"_multi": MULTI}, **label})) is None


def test_dsjson_event():
    line = dsjson_line(
        {"s": 2, "_multi": MULTI},
        Timestamp="2021-02-04T16:31:29.2460000Z",
        pdrop=0.75,
        a=[2, 1],
        p=[0.5, 0.5],
    )
    event = parse_dsjson(line)
    assert (event.action, event.reward, event.propensity) == (1, 1.0, 0.5)
    assert event.shared == [("s", 2.0)]
    assert np.datetime64(event.timestamp, "us") == np.datetime64(
        "2021-02-04T16:31:29.246"
    )
    assert event.weight == 4.0
    assert event.proba == [0.5, 0.5]


@pytest.mark.parametrize(
    "line",
    [
        '{"RewardValue": 1.0, "EventId": "x"}',
        dsjson_line(_skipLearn=True),
        '{"c": {}}',
    ],
)
def test_lines_that_are_no_decision(line):
    assert parse_dsjson(line) is None


def test_a_decision_that_was_taken_counts():
    assert parse_dsjson(dsjson_line(_skipLearn=False)).action == 1


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ('{"_label_ca": {"action": 1.0, "cost": 2.0}, "c": {"a": 1}}', "CATS"),
        ('{"c": {"_multi": [{}], "_slots": [{}]}, "_outcomes": []}', "ccb"),
        ('{"c": {"_multi": [{"_slot_id": 0}], "_slots": [{}]}}', "slates"),
        ('{"o": [{"v": {"v=click": 1}, "_definitely_bad": false}], "c": {}}', "inter"),
    ],
)
def test_other_logs(line, reason):
    with pytest.raises(OtherLogError, match=reason):
        parse_dsjson(line)


def test_other_logs_in_plain_json():
    with pytest.raises(OtherLogError, match="ccb"):
        parse_json('{"_multi": [{}], "_slots": [{}]}')


def test_rewards_in_o_are_not_feedback_of_igl():
    event = parse_dsjson(dsjson_line(o=[{"v": {"reward": 0.0}, "EventId": "x"}]))
    assert event.reward == 1.0


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ('{"a": 1', "not valid JSON"),
        ("[1, 2]", "an event is one JSON object on one line"),
        (json_line({"x": float("nan"), "_multi": MULTI}), "NaN is not a finite number"),
        (json_line({"_multi": {}}), "'_multi' must be an array"),
        (json_line({"_multi": []}), "'_multi' must be an array"),
        (json_line({"_multi": [1]}), "'_multi' holds 1, not an object"),
        (json_line({"_multi": MULTI}, _labelIndex=2), "_labelIndex' is 2 and '_multi'"),
        (json_line({"_multi": MULTI}, _labelIndex=None), "no '_labelIndex'"),
        (json_line({"_multi": MULTI}, _labelIndex=True), "'_labelIndex' is True and"),
        (json_line({"_multi": MULTI}, _label_Cost="x"), "the cost is 'x', not a"),
        (json_line({"_multi": MULTI}, _label_Cost="NaN"), "the cost is nan"),
        (json_line({"_multi": MULTI}, _label_Cost=[1]), r"the cost is \[1\], not a"),
        (json_line({"_multi": MULTI}, _label_Probability=0), "must lie in"),
        (json_line({"_multi": MULTI}, _label="1:2:0.5:3"), "not of the form"),
        (json_line({"_multi": [{"_label": "0:1:0.5"}, {}]}), "more than one action"),
        (json_line({"_multi": MULTI}, _labelIndex="1"), "'_labelIndex' is '1' and"),
        (json_line({"_multi": MULTI}, _label_Cost="0_1.0"), "cost is '0_1.0', not a"),
        (json_line({"_multi": MULTI}, _label_Cost="\u0661"), "the cost is '.', not a"),
        (json_line({"_multi": MULTI}, _label="1:2:0.5"), "both '_label' and '_label_"),
        (
            '{"_labelIndex": 0, "_multi": [{}, {"_label": "0:1:0.5"}]}',
            "'_labelIndex' is 0 and action 1 carries the cost",
        ),
        ('{"_label_cost": 1, "_label_Cost": 2}', "'_label_Cost' occurs twice"),
        ('{"a": ' + "1" * 5000 + "}", "not valid JSON .Exceeds the limit"),
        (json_line({"_label_Action": 2**63}), "'_label_Action' is 9223372036854775808"),
        (json_line({"_label_Action": 0}), "'_label_Action' is 0; without '_multi'"),
        (json_line({"u": [[1]], "_multi": MULTI}), "'u' holds an array inside"),
        (json_line({"u": 10**400, "_multi": MULTI}), "too large for a number"),
        (json_line({"_multi": [{"__aid": 3}, {}]}), "'__aid' refers to features"),
        ('{"a":' * 5000 + "1" + "}" * 5000, "JSON|nested too deeply"),
    ],
)
def test_malformed_json(line, message):
    with pytest.raises(MalformedLineError, match=message):
        parse_json(line)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ('{"c": 3}', "'c' must be an object, got 3"),
        (dsjson_line(pdrop=1), r"'pdrop' is 1; .* must lie in \[0, 1\)"),
        (dsjson_line(pdrop=-0.1), "'pdrop' is -0.1"),
        (dsjson_line(pdrop="x"), "the 'pdrop' is 'x', not a number"),
        (dsjson_line(Timestamp="yesterday"), "'Timestamp' is 'yesterday', not of"),
        (dsjson_line(Timestamp=3), "'Timestamp' is 3, not of"),
        (json.dumps(LABEL), "the event has a label, but no 'c' with the decision"),
        (dsjson_line({}), "the event has a label, but no 'c' with the decision"),
        (dsjson_line(_skipLearn="no"), "'_skipLearn' is 'no', not true or false"),
        (dsjson_line(_label_Action=3), "'_label_Action' is 3 and '_labelIndex' is 1"),
        (dsjson_line(p=[0.7, 0.7]), "sum to 1.4"),
        (dsjson_line(a=[2, 1], p=[0.6, 0.4]), "is 0.5, and 'p' gives 0.6"),
        (dsjson_line()[:-1] + ', "_labelIndex": 0}', "'_labelIndex' occurs twi"),
        (dsjson_line()[:-1] + ', "pdrop": 0, "pdrop": 0.5}', "'pdrop' occurs tw"),
    ],
)
def test_malformed_dsjson(line, message):
    with pytest.raises(MalformedLineError, match=message):
        parse_dsjson(line)


def test_events_nested_deeper_than_orjson_writes():
    deep = "[" * 300 + "]" * 300
    line = dsjson_line(EventId="deep").replace(": ", ":").replace(", ", ",")
    line = line.replace('"deep"', deep)
    assert DSJsonParser()(line) == parse_dsjson(line)
