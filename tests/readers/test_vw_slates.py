# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause

import json
from functools import partial

import pytest

from skope_ope.readers._vw_event import MalformedLineError
from skope_ope.readers._vw_slates import parse_slates_json, parse_slates_text

CCB = """\
ccb shared |User b
ccb action |Action d
ccb action first|Action e
ccb action |Action f
ccb slot 2:-1:0.5,0:0.25,1:0.25 |Slot h
ccb slot 0:0.25:0.75 0,1 |Slot i"""
SLATES = """\
slates shared 0.8 | s
slates action 0 | a
slates action 0 | b
slates action 1 | c
slates action 1 | d
slates action 1 | e
slates slot 1:0.8,0:0.2 | x
slates slot 2:0.6 | y"""


def parse(text, kind):
    return parse_slates_text(list(enumerate(text.split("\n"), 1)), kind)


def test_ccb_text():
    event = parse(CCB, "ccb")
    assert event.reward is None
    assert event.shared == [("User^b", 1.0)]
    assert event.actions[1] == [("Action^e", 1.0)]
    assert event.tags == [None, "first", None]
    one, two = event.slots
    assert (one.action, one.propensity, one.reward) == (2, 0.5, 1.0)
    assert (one.offered, one.proba) == (None, None)
    assert (two.action, two.propensity, two.reward) == (0, 0.75, -0.25)
    assert two.offered == [0, 1]
    assert two.features == [("Slot^i", 1.0)]


def test_slates_text():
    event = parse(SLATES, "slates")
    assert event.reward == -0.8
    one, two = event.slots
    assert (one.action, one.propensity, one.offered) == (1, 0.8, [0, 1])
    assert one.proba == pytest.approx([0.2, 0.8])
    assert (two.action, two.propensity, two.offered) == (4, 0.6, [2, 3, 4])
    assert two.proba is None


def test_events_without_outcome():
    bare = CCB.replace(" 2:-1:0.5,0:0.25,1:0.25", "").replace(" 0:0.25:0.75 0,1", "")
    assert parse(bare, "ccb") is None
    assert parse(SLATES.replace(" 0.8 |", " |"), "slates") is None


@pytest.mark.parametrize(
    ("kind", "old", "new", "message"),
    [
        ("ccb", " 2:-1:0.5,0:0.25,1:0.25", "", "slot 0 has no outcome and others"),
        ("ccb", "0:0.25:0.75 0,1", "2:0:0.75", "slot 1 shows action 2, which an earl"),
        ("ccb", "0.75 0,1", "0.75 1,2", "shows action 0, which is not among those"),
        ("ccb", "0.75 0,1", "0.75 0,7", "slot 1 offers action 7; it has 3, counted"),
        (
            "ccb",
            "0.75 0,1",
            "0.75 0,0,1",
            r"slot 1 offers an action twice: \[0, 0, 1\]",
        ),
        ("ccb", "0:0.25,1:0.25", "2:0.25,1:0.25", "slot 0 shows an action twice"),
        ("ccb", "0:0.25,1:0.25", "0:0.25,3:0.25", "slot 0 shows action 3; it has 3"),
        ("ccb", "0:0.25,1:0.25", "0:0.5,1:0.4", r"\[0.5, 0.5, 0.4\] sum to 1.4"),
        ("ccb", "0:0.25:0.75", "0:0.25:0.7_5", "the probability is '0.7_5', not a num"),
        (
            "ccb",
            "0:0.25:0.75",
            "1" * 5000 + ":0.25:0.75",
            r"1\.\.\. \(5,002 characters",
        ),
        ("slates", "action 1 | c", "action 7 | c", "an action belongs to slot 7; the"),
        ("ccb", "0:0.25:0.75", "5:0.25:0.75", "slot 1 shows action 5; it has 3"),
        ("ccb", "0:0.25:0.75", "0:0.25:0", r"must lie in \(0, 1\]"),
        ("ccb", "0:0.25:0.75", "0:0.25", "not of the form action:cost:probability"),
        ("ccb", "0:0.25:0.75", "0:x:0.75", "the cost is 'x', not a number"),
        ("ccb", "0:0.25:0.75", "-1:1:0.75", "an action is a number from 0, got '-1'"),
        ("ccb", "ccb slot 2", "ccb shared 2", "'ccb shared' must be the first line of"),
        (
            "ccb",
            "0.75 0,1",
            "0.75 junk 0,1",
            "'junk' is no part of the label of a slot",
        ),
        (
            "ccb",
            "ccb action |",
            "ccb action 1 |",
            "'1' is no part of the label of a act",
        ),
        ("ccb", "ccb shared", "ccb sharde", "starts with 'ccb shared'"),
        ("ccb", "ccb shared", "slates shared", "a line of a ccb log starts with"),
        ("ccb", " |User b", " User b", "no '|' in"),
        ("slates", "2:0.6", "3:0.6", "slot 1 shows action 3; it has 3, counted"),
        ("slates", "2:0.6", "2:1:0.6", "not of the form action:probability"),
        ("slates", "action 1 | c", "action | c", "the slot's number is a number from"),
        ("slates", "0.8 |", "cheap |", "the cost of the event is 'cheap'"),
    ],
)
def test_malformed_events(kind, old, new, message):
    text = {"ccb": CCB, "slates": SLATES}[kind]
    assert old in text
    with pytest.raises(MalformedLineError, match=message):
        parse(text.replace(old, new, 1), kind)


def test_an_event_needs_actions_and_slots():
    with pytest.raises(MalformedLineError, match="no action, or no slot"):
        parse("ccb shared |a", "ccb")


def ccb_event(**changes):
    event = {
        "Timestamp": "2021-04-26T17:23:28.1726275",
        "c": {
            "User": {"age": 3},
            "_multi": [{"_tag": "x", "A": {"b": 1}}, {"_tag": "y"}, {"_tag": "z"}],
            "_slots": [
                {"_id": "top", "S": {"f": "1"}},
                {"_id": "side", "_inc": [0, 1]},
            ],
        },
        "_outcomes": [
            {"_label_cost": -1.0, "_a": [2, 1, 0], "_p": [0.5, 0.25, 0.25]},
            {"_label_cost": 0.0, "_a": 1, "_p": 0.5},
        ],
    }
    return json.dumps({**event, **changes})


def test_ccb_json():
    event = parse_slates_json(ccb_event(), "ccb")
    assert event.tags == ["x", "y", "z"]
    assert event.shared == [("User^age", 3.0)]
    assert event.timestamp == 1619457808172627
    one, two = event.slots
    assert (one.action, one.propensity, one.reward) == (2, 0.5, 1.0)
    assert one.features == [("S^f=1", 1.0)]
    assert (two.action, two.propensity, two.offered) == (1, 0.5, [0, 1])
    assert parse_slates_json(ccb_event(pdrop=0.5), "ccb").weight == 2.0


def test_slates_json():
    line = json.dumps(
        {
            "_label_cost": 1,
            "c": {
                "_multi": [{"_slot_id": 0}, {"_slot_id": 1}, {"_slot_id": 1}],
                "_slots": [{}, {}],
            },
            "_outcomes": [{"_a": 0, "_p": 1.0}, {"_a": [1, 0], "_p": [0.7, 0.3]}],
        }
    )
    event = parse_slates_json(line, "slates")
    assert event.reward == -1
    assert [slot.action for slot in event.slots] == [0, 2]
    assert event.slots[1].proba == pytest.approx([0.3, 0.7])


def test_json_without_outcome():
    parse = partial(parse_slates_json, kind="ccb")
    assert parse(ccb_event(_skipLearn=True)) is None
    assert parse(ccb_event(_outcomes=None)) is None
    assert parse(ccb_event(_outcomes=[{}, {}])) is None


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"c": None}, "'c' with the actions and the slots is missing"),
        ({"c": {"_slots": [{}]}}, "'_multi' must be an array of objects"),
        ({"c": {"_multi": [{}], "_slots": [1]}}, "'_slots' must be an array of obj"),
        ({"_outcomes": [{}]}, r"one entry per slot \(2\)"),
        ({"_outcomes": [{"_a": [], "_p": [], "_label_cost": 0}, {}]}, "'_a' must hold"),
        (
            {"_outcomes": [{"_a": [0, 1], "_p": [1], "_label_cost": 0}, {}]},
            "'_a' has 2 entries and '_p' has 1",
        ),
        (
            {"_outcomes": 2 * [{"_a": [-1], "_p": [1], "_label_cost": 0}]},
            "slot 0 shows action -1; it has 3, counted from 0",
        ),
        (
            {"_outcomes": 2 * [{"_a": [1.0], "_p": [1], "_label_cost": 0}]},
            "slot 0 shows action 1.0; it has 3, counted from 0",
        ),
        ({"_skipLearn": 1}, "'_skipLearn' is 1, not true or false"),
        (
            {"c": {"_multi": 3 * [{}], "_slots": [{"_inc": [2.0]}, {}]}},
            "slot 0 offers action 2.0; it has 3, counted from 0",
        ),
        (
            {"c": {"_multi": [{}], "_slots": [{"_inc": 3}]}},
            "'_inc' must be an array, got 3",
        ),
    ],
)
def test_malformed_json(changes, message):
    with pytest.raises(MalformedLineError, match=message):
        parse_slates_json(ccb_event(**changes), "ccb")


def test_slates_json_needs_slots_of_actions():
    with pytest.raises(MalformedLineError, match="'_slot_id' of an action is None"):
        parse_slates_json(ccb_event(), "slates")
