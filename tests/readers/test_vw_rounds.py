# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause

import numpy as np
import pytest

from skope_ope.readers._vw_event import MalformedLineError, VWEvent
from skope_ope.readers._vw_rounds import VWRounds


def build(*events, n_actions=None, action_labels="number", n_action_features=16):
    rounds = VWRounds(32, n_action_features, action_labels)
    for event in events:
        rounds.add(event)
    return rounds.logs(n_actions, True, 10**6)


def cb(action, reward=1.0, **fields):
    return VWEvent(action, reward, 0.5, [("a", 1.0)], **fields)


def adf(action, n_actions, tags=None, **fields):
    actions = [[(f"f{k}", 1.0)] for k in range(n_actions)]
    tags = tags or [None] * n_actions
    return VWEvent(action, 1.0, 0.5, [], actions=actions, tags=tags, **fields)


def test_numbered_actions_are_those_that_occur():
    logs = build(cb(5), cb(2, -1.0), cb(5))
    np.testing.assert_array_equal(logs.actions, [2, 5])
    np.testing.assert_array_equal(logs.action, [5, 2, 5])
    np.testing.assert_array_equal(logs.reward, [1.0, -1.0, 1.0])
    np.testing.assert_array_equal(logs.propensity, 0.5)
    assert logs.context.shape == (3, 32)
    assert logs.context.nnz == 3
    for field in ("available", "action_context", "logging_proba", "timestamp"):
        assert getattr(logs, field) is None
    assert logs.sample_weight is None


def test_the_number_of_actions_may_be_given():
    np.testing.assert_array_equal(build(cb(2), n_actions=3).actions, [1, 2, 3])
    logs = build(adf(1, 2), n_actions=3)
    np.testing.assert_array_equal(logs.actions, [0, 1, 2])
    np.testing.assert_array_equal(logs.available, [[True, True, False]])


def test_too_few_actions():
    with pytest.raises(ValueError, match=r"action 3, counted from 1, but n_act"):
        build(cb(3), n_actions=2)
    with pytest.raises(ValueError, match=r"action 2, counted from 0.*Pass at least 3"):
        build(adf(0, 3), n_actions=2)


def test_listed_actions_are_those_that_were_offered():
    logs = build(cb(1, offered=[1, 3]), cb(2))
    np.testing.assert_array_equal(logs.actions, [1, 2, 3])
    np.testing.assert_array_equal(
        logs.available, [[True, False, True], [True, True, True]]
    )
    assert build(cb(1, offered=[1, 2]), cb(2)).available is None


def test_varying_numbers_of_actions():
    logs = build(adf(1, 3), adf(0, 1))
    np.testing.assert_array_equal(logs.actions, [0, 1, 2])
    np.testing.assert_array_equal(
        logs.available, [[True, True, True], [True, False, False]]
    )
    assert logs.action_context.shape == (3, 16)
    np.testing.assert_array_equal(logs.action_context.sum(axis=1), 1.0)


def test_action_features_may_be_left_out():
    assert build(adf(1, 3), n_action_features=0).action_context is None


def test_tags_recognise_an_action_at_any_position():
    logs = build(
        adf(0, 3, ["tea", "cocoa", "milk"]),
        adf(0, 2, ["milk", "tea"], proba=None),
        action_labels="tag",
    )
    assert logs.actions.tolist() == ["cocoa", "milk", "tea"]
    assert logs.action.tolist() == ["tea", "milk"]
    np.testing.assert_array_equal(
        logs.available, [[True, True, True], [False, True, True]]
    )
    # what is first in its event has the feature f0
    feature = logs.action_context[0, 2]
    np.testing.assert_array_equal(logs.action_context[1, 1], feature)
    assert feature.sum() == 1.0


def test_tags_carry_the_logging_distribution_along():
    logs = build(
        adf(0, 2, ["b", "a"], proba=[0.5, 0.5]),
        adf(1, 3, ["c", "a", "b"], proba=[0.4, 0.5, 0.1]),
        action_labels="tag",
    )
    np.testing.assert_array_equal(logs.logging_proba, [[0.5, 0.5, 0], [0.5, 0.1, 0.4]])


@pytest.mark.parametrize(
    ("event", "message"),
    [
        (adf(0, 2, ["a", None]), "action 1 of the event has no tag"),
        (adf(0, 2, ["", "a"]), "action 0 of the event has no tag"),
        (adf(0, 2, ["a", "a"]), "two actions of the event have the same tag"),
        (cb(1), "no list of actions whose tags"),
    ],
)
def test_bad_tags(event, message):
    with pytest.raises(MalformedLineError, match=message):
        build(event, action_labels="tag")


@pytest.mark.parametrize("order", [1, -1])
def test_events_with_and_without_lists_do_not_mix(order):
    with pytest.raises(
        MalformedLineError, match="have a list of actions, and others do not"
    ):
        build(*[cb(1), adf(0, 2)][::order])


def test_the_logging_distribution_must_be_known_everywhere():
    known, unknown = adf(0, 2, proba=[0.5, 0.5]), adf(0, 2)
    np.testing.assert_array_equal(build(known, known).logging_proba, 0.5)
    for events in [(known, unknown), (unknown, known)]:
        assert build(*events).logging_proba is None


def test_timestamps_must_be_known_everywhere():
    text = "2021-02-04T16:31:29.246000"
    moment = int(np.datetime64(text, "us").astype(int))
    logs = build(cb(1, timestamp=moment), cb(1, timestamp=moment))
    assert logs.timestamp.dtype == "datetime64[us]"
    assert str(logs.timestamp[0]) == text
    known, unknown = cb(1, timestamp=moment), cb(1)
    for events in [(known, unknown), (unknown, known)]:
        assert build(*events).timestamp is None


def test_weights_of_one_are_no_weights():
    assert build(cb(1), cb(1)).sample_weight is None
    np.testing.assert_array_equal(build(cb(1), cb(1, weight=4.0)).sample_weight, [1, 4])


def test_evaluated_actions_are_a_column():
    logs = build(cb(1, evaluated=3), cb(1, evaluated=1))
    np.testing.assert_array_equal(logs.actions, [1, 3])
    np.testing.assert_array_equal(logs.columns["evaluated"], [[0, 1], [1, 0]])
