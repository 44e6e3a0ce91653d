# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Events with several slots: conditional contextual bandits, and slates."""

import json
import warnings

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from skope_ope import SlateIPS, SlateLogs, UniformSlatePolicy
from skope_ope.exceptions import LogsWarning
from skope_ope.policies import ProductSlatePolicy
from skope_ope.readers import read_vw
from tests.readers._vw import has_features, hashed

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
FULL = SLATES.replace("2:0.6", "2:0.6,0:0.3,1:0.1")


def test_events_of_slots(read):
    logs = read(CCB, format="ccb")
    assert_array_equal(logs.slate, [[2, 0]])
    assert_array_equal(logs.reward, [0.75])
    assert_array_equal(logs.columns["signed_slot_reward"], [[1, -0.25]])
    assert_array_equal(logs.columns["slot_propensity"], [[0.5, 0.75]])
    assert_array_equal(logs.candidates[0], [[1, 1, 1], [1, 1, 0]])
    names = "User^b", "slot0.Slot^h", "slot1.Slot^i"
    assert has_features(logs, [(name, 1.0) for name in names])
    items = hashed([[(f"Action^{name}", 1.0)] for name in "def"], 256).toarray()
    assert_array_equal(logs.item_features, items)
    logs = read(SLATES, format="slates")
    assert_array_equal(logs.reward, [-0.8])
    assert_array_equal(logs.slate, [[1, 4]])
    assert_array_equal(logs.columns["slot_propensity"], [[0.8, 0.6]])
    assert_array_equal(logs.candidates[0], [[1, 1, 0, 0, 0], [0, 0, 1, 1, 1]])
    # ccb events of several lengths
    short = CCB.replace("ccb slot 0:0.25:0.75 0,1 |Slot i", "ccb action |Action g")
    short = short.replace("2:-1:0.5,0:0.25,1:0.25", "3:-2:0.1")
    logs = read(f"{CCB}\n\n{short}\n", format="ccb")
    assert isinstance(logs, SlateLogs)
    assert_array_equal(logs.slate, [[2, 0], [3, -1]])
    assert_array_equal(logs.reward, [0.75, 2.0])
    assert logs.slot_reward is None  # a cost was positive
    assert_array_equal(logs.columns["signed_slot_reward"], [[1, -0.25], [2, 0]])
    assert_allclose(logs.propensity, [0.375, 0.1])
    assert_array_equal(logs.columns["slot_propensity"], [[0.5, 0.75], [0.1, 1]])
    offered = [[[1, 1, 1, 0], [1, 1, 0, 0]], [[1, 1, 1, 1], [0, 0, 0, 0]]]
    assert_array_equal(logs.candidates, np.array(offered, dtype=bool))
    assert logs.item_features.shape == (4, 256)
    # ccb rewards of slots
    text = CCB.replace("0:0.25:0.75 0,1", "0:-0.25:0.75")
    logs = read(text, format="ccb", n_action_features=0)
    assert_array_equal(logs.slot_reward, [[1, 0.25]])
    assert_array_equal(logs.reward, [1.25])
    assert logs.candidates is None
    assert logs.n_candidates == 3
    assert logs.item_features is None
    longer = text.replace("|Action f", "|Action f\nccb action |q")
    both = read(f"{text}\n\n{longer}", format="ccb")
    assert_array_equal(both.n_candidates, [3, 4])
    assert read(text, format="ccb", n_actions=6).max_candidates == 6
    with pytest.raises(ValueError, match="an event has 3 actions, but n_actions=2"):
        read(text, format="ccb", n_actions=2)
    # slates give a product logger
    logs = read(f"{FULL}\n\n{FULL}\n", format="slates")
    assert_array_equal(logs.slate, [[1, 4]] * 2)
    assert_array_equal(logs.reward, [-0.8] * 2)
    assert_allclose(logs.propensity, 0.48)
    table = [[0.2, 0.8, 0, 0, 0], [0, 0, 0.3, 0.1, 0.6]]
    assert_allclose(logs.columns["slot_proba"], [table] * 2)
    logs = logs.replace(logging_policy=ProductSlatePolicy("slot_proba"))
    assert_allclose(logs.logging_policy.slate_proba(logs), logs.propensity)
    assert UniformSlatePolicy(2).closed_form(logs) == "product"
    assert_allclose(UniformSlatePolicy(2).slate_proba(logs), 1 / 6)
    part = read(f"{FULL}\n\n{SLATES}\n", format="slates")
    assert "slot_proba" not in part.columns
    logged = ProductSlatePolicy("slot_propensity")
    assert_allclose(logged.slate_proba(part), part.propensity)


MALFORMED = [
    (" 2:-1:0.5,0:0.25,1:0.25", "", "slot 0 has no outcome and others"),
    ("0:0.25:0.75 0,1", "2:0:0.75", "slot 1 shows action 2, which an earl"),
    ("0.75 0,1", "0.75 1,2", "shows action 0, which is not among those"),
    ("0.75 0,1", "0.75 0,7", "slot 1 offers action 7; it has 3, counted"),
    ("0.75 0,1", "0.75 0,0,1", r"slot 1 offers an action twice: \[0, 0, 1\]"),
    ("0:0.25,1:0.25", "2:0.25,1:0.25", "slot 0 shows an action twice"),
    ("0:0.25,1:0.25", "0:0.25,3:0.25", "slot 0 shows action 3; it has 3"),
    ("0:0.25,1:0.25", "0:0.5,1:0.4", r"\[0.5, 0.5, 0.4\] sum to 1.4"),
    ("0:0.25:0.75", "0:0.25:0.7_5", "the probability is '0.7_5', not a num"),
    ("0:0.25:0.75", "1" * 5000 + ":0.25:0.75", r"1\.\.\. \(5,002 characters"),
    ("0:0.25:0.75", "5:0.25:0.75", "slot 1 shows action 5; it has 3"),
    ("0:0.25:0.75", "0:0.25:0", r"must lie in \(0, 1\]"),
    ("0:0.25:0.75", "0:0.25", "not of the form action:cost:probability"),
    ("0:0.25:0.75", "0:x:0.75", "the cost is 'x', not a number"),
    ("0:0.25:0.75", "-1:1:0.75", "an action is a number from 0, got '-1'"),
    ("ccb slot 2", "ccb shared 2", "'ccb shared' must be the first line of"),
    ("0.75 0,1", "0.75 junk 0,1", "'junk' is no part of the label of a slot"),
    ("ccb action |", "ccb action 1 |", "'1' is no part of the label of a act"),
    ("ccb shared", "ccb sharde", "starts with 'ccb shared'"),
    ("ccb shared", "slates shared", "a line of a ccb log starts with"),
    (" |User b", " User b", "no '|' in"),
]
MALFORMED_SLATES = [
    ("action 1 | c", "action 7 | c", "an action belongs to slot 7; the"),
    ("2:0.6", "3:0.6", "slot 1 shows action 3; it has 3, counted"),
    ("2:0.6", "2:1:0.6", "not of the form action:probability"),
    ("action 1 | c", "action | c", "the slot's number is a number from"),
    ("0.8 |", "cheap |", "the cost of the event is 'cheap'"),
]


@pytest.mark.parametrize(("old", "new", "message"), [*MALFORMED, *MALFORMED_SLATES])
def test_malformed_events(read, old, new, message):
    slates = (old, new, message) in MALFORMED_SLATES
    text, kind = (SLATES, "slates") if slates else (CCB, "ccb")
    assert old in text
    with pytest.raises(ValueError, match=message):
        read(text.replace(old, new, 1), format=kind)


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


def test_json_events(read):
    lines = f"{ccb_event()}\n{ccb_event(pdrop=0.5)}\n"
    logs = read(lines, format="ccb", action_labels="tag")
    assert_array_equal(logs.item_id, [["x", "y", "z"]] * 2)
    assert_array_equal(logs.columns["sample_weight"], [1, 2])
    assert str(logs.timestamp[0]) == "2021-04-26T17:23:28.172627"
    assert_array_equal(logs.slate, [[2, 1]] * 2)
    assert_array_equal(logs.slot_reward, [[1, 0]] * 2)
    assert_array_equal(logs.columns["slot_propensity"], [[0.5, 0.5]] * 2)
    assert_array_equal(logs.candidates[0], [[1, 1, 1], [1, 1, 0]])
    assert has_features(logs, *[[("User^age", 3.0), ("slot0.S^f=1", 1.0)]] * 2)
    with pytest.raises(ValueError, match="line 1: action 0 of the event has no tag"):
        read(CCB, format="ccb", action_labels="tag")
    # slates in json
    multi = [{"_slot_id": 0}, {"_slot_id": 1}, {"_slot_id": 1}]
    outcomes = [{"_a": 0, "_p": 1.0}, {"_a": [1, 0], "_p": [0.7, 0.3]}]
    event = {"c": {"_multi": multi, "_slots": [{}, {}]}, "_outcomes": outcomes}
    logs = read(json.dumps(event | {"_label_cost": 1}), format="slates")
    assert_array_equal(logs.reward, [-1])
    assert_array_equal(logs.slate, [[0, 2]])
    assert_allclose(logs.columns["slot_proba"], [[[1, 0, 0], [0, 0.3, 0.7]]])
    with pytest.raises(ValueError, match="'_slot_id' of an action is None"):
        read(ccb_event(), format="slates")


BARE = CCB.replace(" 2:-1:0.5,0:0.25,1:0.25", "").replace(" 0:0.25:0.75 0,1", "")


@pytest.mark.parametrize(
    ("format", "whole", "bare"),
    [
        ("ccb", CCB + "\n\n", BARE),
        ("slates", SLATES + "\n\n", SLATES.replace(" 0.8 |", " |")),
        ("ccb", ccb_event() + "\n", ccb_event(_skipLearn=True)),
        ("ccb", ccb_event() + "\n", ccb_event(_outcomes=None)),
        ("ccb", ccb_event() + "\n", ccb_event(_outcomes=[{}, {}])),
    ],
)
def test_events_without_outcome(read, format, whole, bare):
    with pytest.warns(LogsWarning, match="skipped 1 event"):
        assert len(read(whole + bare, format=format)) == 1
    with pytest.raises(ValueError, match="no usable event"):
        read(bare, format=format)


def showing(a, p=(1,)):
    return {"_outcomes": 2 * [{"_a": a, "_p": list(p), "_label_cost": 0}]}


def offering(inc, *slots):
    return {"c": {"_multi": 3 * [{}], "_slots": [{"_inc": inc}, *slots]}}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"c": None}, "'c' with the actions and the slots is missing"),
        ({"c": {"_slots": [{}]}}, "'_multi' must be an array of objects"),
        ({"c": {"_multi": [{}], "_slots": [1]}}, "'_slots' must be an array of obj"),
        ({"_outcomes": [{}]}, r"one entry per slot \(2\)"),
        (showing([], []), "'_a' must hold"),
        (showing([0, 1]), "'_a' has 2 entries and '_p' has 1"),
        (showing([-1]), "slot 0 shows action -1; it has 3, counted from 0"),
        (showing([1.0]), "slot 0 shows action 1.0; it has 3, counted from 0"),
        ({"_skipLearn": 1}, "'_skipLearn' is 1, not true or false"),
        (offering([2.0], {}), "slot 0 offers action 2.0; it has 3, counted from 0"),
        (offering(3), "'_inc' must be an array, got 3"),
    ],
)
def test_malformed_json_events(read, changes, message):
    with pytest.raises(ValueError, match=message):
        read(ccb_event(**changes), format="ccb")


def test_malformed_events_are_told_with_their_line(read):
    broken = f"{CCB}\n\n{CCB.replace('0:0.25:0.75', '0:0.25:7')}"
    with pytest.raises(ValueError, match=r"log.vw, line 8: the probability"):
        read(broken, format="ccb")
    with pytest.warns(LogsWarning, match="skipped 1 malformed"):
        read(broken, format="ccb", on_error="skip")
    with pytest.raises(ValueError, match="read it as slates with format='ccb'"):
        read(CCB)
    with pytest.raises(ValueError, match="no action, or no slot"):
        read("ccb shared |a", format="ccb")
    label = CCB.replace("2:-1:0.5,0:0.25,1:0.25", "2:-1:1e-200")
    never = f"{CCB}\n\n{label.replace(':0.75', ':1e-200')}"
    with pytest.raises(ValueError, match=r"log\.vw: propensity must .* at line 8"):
        read(never, format="ccb")


def test_real_files(data_dir):
    def read(name, kind):
        return read_vw(data_dir / "vw" / name, format=kind, n_features=2**10)

    with pytest.warns(LogsWarning, match="skipped 9 event"):
        logs = read("ccb_test.dat", "ccb")
    assert (len(logs), logs.n_slots, logs.n_candidates) == (15, 3, 5)
    assert_allclose(logs.propensity[0], 0.2 * 0.25 * 0.333333)
    assert logs.reward.sum() == 6
    logs = read("ccb_data.json", "ccb")
    assert (len(logs), logs.n_slots, logs.n_candidates) == (59, 2, 4)
    assert set((logs.slate >= 0).sum(axis=1)) == {1, 2}
    assert_array_equal(logs.slate[:2], [[3, 0], [1, 3]])
    # the logger of these events was uniform, slot by slot
    uniform = UniformSlatePolicy(2).slate_proba(logs)
    assert_allclose(uniform[:8], logs.propensity[:8], rtol=1e-6)
    assert_allclose(logs.reward[1], 1.0)
    logs = read("ccb_simple.json", "ccb")
    assert_array_equal(logs.slate, [[2, 1]])
    assert_array_equal(logs.slot_reward, [[1, 1]])
    with pytest.warns(LogsWarning, match="skipped 1 event"):
        logs = read("slates_simple.txt", "slates")
    assert_array_equal(logs.slate, [[1, 3]] * 2)
    assert_array_equal(logs.reward, [-0.8] * 2)


def test_dropped_events_weigh_in_evaluations(read):
    # nine of ten events without a click were dropped: 5 clicks of 55 shows of "x"
    def events(number, action, cost, pdrop):
        event = json.loads(ccb_event(pdrop=pdrop))
        event["c"]["_slots"] = event["c"]["_slots"][:1]
        outcome = {"_label_cost": cost, "_a": [action, 1 - action], "_p": [0.5, 0.5]}
        event["_outcomes"] = [{"_id": "s", "_o": [], **outcome}]
        event["c"]["_multi"] = event["c"]["_multi"][:2]
        return [json.dumps(event)] * number

    lines = events(5, 0, -1.0, 0.0) + events(5, 0, 0.0, 0.9)
    lines += events(5, 1, 0.0, 0.9) + events(5, 1, -1.0, 0.0)
    logs = read("\n".join(lines) + "\n", format="ccb")
    assert_array_equal(logs.slate[:, 0], np.repeat([0, 0, 1, 1], 5))
    assert_allclose(logs.columns["sample_weight"], np.repeat([1, 10, 10, 1], 5))
    target = np.zeros((20, 1), int)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        value = SlateIPS().fit(logs).score(target)
    assert value == pytest.approx(5 / 55)
