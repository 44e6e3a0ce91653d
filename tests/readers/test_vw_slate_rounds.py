# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause

import json
import warnings

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from skope_ope import SlateIPS, SlateLogs, UniformSlatePolicy
from skope_ope.exceptions import LogsWarning
from skope_ope.policies import ProductSlatePolicy
from skope_ope.readers import read_vw
from tests.readers.test_vw_slates import CCB, SLATES, ccb_event

FULL = SLATES.replace("2:0.6", "2:0.6,0:0.3,1:0.1")


@pytest.fixture
def read(tmp_path):
    def read(text, **options):
        path = tmp_path / "events.dat"
        path.write_text(text)
        return read_vw(path, n_features=64, **options)

    return read


def test_ccb_events_of_several_lengths(read):
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
    offered = [
        [[1, 1, 1, 0], [1, 1, 0, 0]],
        [[1, 1, 1, 1], [0, 0, 0, 0]],
    ]
    assert_array_equal(logs.candidates, np.array(offered, dtype=bool))
    assert logs.item_features.shape == (4, 256)


def test_ccb_rewards_of_slots(read):
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


def test_slates_give_a_product_logger(read):
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


def test_json_events(read):
    line = ccb_event()
    logs = read(f"{line}\n{ccb_event(pdrop=0.5)}\n", format="ccb", action_labels="tag")
    assert_array_equal(logs.item_id, [["x", "y", "z"]] * 2)
    assert_array_equal(logs.columns["sample_weight"], [1, 2])
    assert str(logs.timestamp[0]).startswith("2021-04-26T17:23:28.17262")
    with pytest.raises(ValueError, match="line 1: an action of the event has no tag"):
        read(CCB, format="ccb", action_labels="tag")


def test_skipped_events(read):
    bare = "ccb shared |a\nccb action |b\nccb slot |c"
    with pytest.warns(LogsWarning, match="skipped 1 event"):
        logs = read(f"{bare}\n\n{CCB}", format="ccb")
    assert len(logs) == 1
    broken = CCB.replace("0:0.25:0.75", "0:0.25:7")
    with pytest.raises(ValueError, match=r"events.dat, line 8: the probability"):
        read(f"{CCB}\n\n{broken}", format="ccb")
    with pytest.warns(LogsWarning, match="skipped 1 malformed"):
        read(f"{CCB}\n\n{broken}", format="ccb", on_error="skip")
    with pytest.raises(ValueError, match="read it as slates with format='ccb'"):
        read(CCB)
    with pytest.raises(ValueError, match="no usable event"):
        read(bare, format="ccb")


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
