# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from scipy import sparse

from skope_ope import IPS, BanditLogs, SlateLogs
from skope_ope.datasets import make_bandit_logs
from skope_ope.readers import from_obp, to_obp


def feedback(n_rounds=20, n_actions=3, len_list=1, seed=0):
    """What obp's data sets return."""
    rng = np.random.RandomState(seed)
    pi_b = rng.dirichlet(np.ones(n_actions), size=(n_rounds, len_list))
    pi_b = pi_b.transpose(0, 2, 1)
    position = rng.randint(len_list, size=n_rounds)
    rows = np.arange(n_rounds)
    action = rng.randint(n_actions, size=n_rounds)
    return {
        "n_rounds": n_rounds,
        "n_actions": n_actions,
        "context": rng.normal(size=(n_rounds, 4)),
        "action_context": np.eye(n_actions, dtype=int),
        "action": action,
        "position": position if len_list > 1 else None,
        "reward": rng.randint(2, size=n_rounds),
        "expected_reward": rng.uniform(size=(n_rounds, n_actions)),
        "pi_b": pi_b,
        "pscore": pi_b[rows, action, position],
    }


TWO = feedback(len_list=2)


def slates(n_rounds=6, n_slots=3, n_items=5, seed=0):
    rng = np.random.RandomState(seed)
    rows = n_rounds * n_slots
    items = [rng.permutation(n_items)[:n_slots] for _ in range(n_rounds)]
    return {
        "n_rounds": n_rounds,
        "n_unique_action": n_items,
        "slate_id": np.repeat(np.arange(n_rounds), n_slots),
        "context": rng.normal(size=(n_rounds, 2)),
        "action_context": np.eye(n_items, dtype=int),
        "action": np.concatenate(items),
        "position": np.tile(np.arange(n_slots), n_rounds),
        "reward": rng.randint(2, size=rows),
        "expected_reward_factual": rng.uniform(size=rows),
        "pscore_cascade": rng.uniform(size=rows),
        "pscore": np.repeat(rng.uniform(size=n_rounds), n_slots),
        "pscore_item_position": rng.uniform(size=rows),
    }


def check_same(found, given):
    assert found.keys() == given.keys()
    for key, value in given.items():
        if value is None:
            assert found[key] is None
        else:
            assert_array_equal(found[key], value, err_msg=key)


def test_fields_and_probabilities_at_the_position():
    given = feedback()
    logs = from_obp(given)
    assert isinstance(logs, BanditLogs)
    assert_array_equal(logs.actions, [0, 1, 2])
    assert_array_equal(logs.action, given["action"])
    assert_array_equal(logs.reward, given["reward"])
    assert_array_equal(logs.propensity, given["pscore"])
    assert_array_equal(logs.logging_proba, given["pi_b"][:, :, 0])
    assert_array_equal(logs.action_context, np.eye(3))
    assert_array_equal(logs.columns["expected_reward"], given["expected_reward"])
    assert sorted(logs.columns) == ["expected_reward"]
    given = feedback(len_list=3)
    logs = from_obp(given)
    rows = np.arange(20)
    expected = given["pi_b"][rows, :, given["position"]]
    assert_array_equal(logs.logging_proba, expected)
    assert_array_equal(logs.columns["position"], given["position"])
    # known at the position of the round alone, it is left out
    without = BanditLogs(
        logs.context,
        logs.action,
        logs.reward,
        actions=logs.actions,
        logging_proba=expected,
    ).with_columns(position=given["position"])
    assert "pi_b" not in to_obp(without)


@pytest.mark.parametrize("len_list", [1, 3])
def test_there_and_back(len_list):
    given = feedback(len_list=len_list)
    found = to_obp(from_obp(given))
    check_same(found, given)
    assert found["pi_b"].shape == (20, 3, len_list)
    found["context"][:] = 0  # a new array
    assert given["context"].any()


def test_there_and_back_again():
    logs = make_bandit_logs(50, n_actions=4, random_state=0)
    again = from_obp(to_obp(logs))
    for name in ("context", "action_index", "reward", "propensity", "logging_proba"):
        assert_array_equal(getattr(again, name), getattr(logs, name))
    needed = ("n_actions", "context", "action", "reward")
    logs = from_obp({name: feedback()[name] for name in needed})
    assert logs.propensity is None
    assert to_obp(logs)["pscore"] is None
    logs = make_bandit_logs(4, random_state=0).with_columns(position=[1, 2, 3, 2])
    assert_array_equal(to_obp(logs)["position"], [0, 1, 2, 1])
    given = feedback(len_list=3)
    given["position"] = np.full(20, 2)
    given["pscore"] = given["pi_b"][np.arange(20), given["action"], 2]
    check_same(to_obp(from_obp(given)), given)
    logs = BanditLogs(np.zeros((3, 1)), ["b", "a", "b"], [1, 0, 1], [0.5] * 3)
    found = to_obp(logs)
    assert_array_equal(found["action"], [1, 0, 1])
    assert found["n_actions"] == 2
    logs = BanditLogs(sparse.eye(3, format="csr"), [0, 1, 0], [1, 0, 1])
    assert_array_equal(to_obp(logs)["context"], np.eye(3))
    # slates there and back in any order
    given = slates()
    logs = from_obp(given)
    assert isinstance(logs, SlateLogs)
    assert_array_equal(logs.slate, given["action"].reshape(6, 3))
    assert_array_equal(logs.slot_reward, given["reward"].reshape(6, 3))
    assert_array_equal(logs.propensity, given["pscore"][::3])
    assert logs.n_candidates == 5
    check_same(to_obp(logs), given)
    order = np.random.RandomState(0).permutation(18)
    mixed = {
        name: values[order] if np.shape(values)[:1] == (18,) else values
        for name, values in given.items()
    }
    check_same(to_obp(from_obp(mixed)), given)


def test_the_value_of_obp():
    """IPS of obp is mean(reward * action_dist[action, position] / pscore)."""
    given = feedback(200)
    pi = np.random.RandomState(1).dirichlet(np.ones(3), size=200)
    rows = np.arange(200)
    w = pi[rows, given["action"]] / given["pscore"]
    with pytest.warns(UserWarning):
        value = IPS().fit(from_obp(given)).score(pi)
    assert value == pytest.approx((w * given["reward"]).mean(), rel=1e-12)


@pytest.mark.frames
@pytest.mark.parametrize("backend", ["pandas", "polars", "pyarrow"])
def test_frames(backend):
    pytest.importorskip(backend)
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"x": [1, 2], "b": [True, False]})
    logs = BanditLogs(frame, [0, 1], [1, 0], [0.5, 0.5])
    if backend != "pandas":
        frame = logs.to_frame(backend)
        frame = frame.select(["x", "b"])
        logs = BanditLogs(frame, [0, 1], [1, 0], [0.5, 0.5])
    assert_array_equal(to_obp(logs)["context"], [[1, 1], [2, 0]])
    texts = BanditLogs(pandas.DataFrame({"city": ["Rome", "Oslo"]}), [0, 1], [1, 0])
    with pytest.raises(TypeError, match=r"column 'city' holds String\. Encode"):
        to_obp(texts)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"action": None}, r"\['action'\] is None. Fill it in"),
        ({"n_rounds": 7}, "says n_rounds = 7, but its arrays hold 20"),
        ({"action": np.full(20, -1)}, "'action'] is counted from 0, got -1 at row 0"),
        ({"action": np.full(20, 0.5)}, "must hold whole numbers, one a row, got dtype"),
        ({"pi_b": np.ones((20, 4, 1))}, r"pi_b'] must have shape .*\(20, 3\)"),
        ({"pi_b": np.full((20, 3, 2), 1 / 3)}, "is of 2 positions, and 'position' is"),
        ({"pscore": np.full(20, 0.9)}, "logging_proba"),
        (TWO | {"position": TWO["position"] + 1}, "must hold 20 numbers below 2"),
    ],
)
def test_dictionaries_that_contradict_themselves(change, message):
    with pytest.raises(ValueError, match=message):
        from_obp(feedback() | change)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"position": np.zeros(18, dtype=int)}, "for each of the 1 positions"),
        ({"pscore": np.linspace(0.1, 0.2, 18)}, "same at all positions of a slate"),
        ({"reward": np.zeros(17)}, r"'reward'\] has 17 rows, slate_id has 18"),
        ({"n_unique_action": None}, r"n_unique_action'\] is None"),
    ],
)
def test_slates_that_contradict_themselves(change, message):
    with pytest.raises(ValueError, match=message):
        from_obp(slates() | change)


def test_what_obp_or_logs_do_not_know():
    context = np.zeros((2, 1))
    logs = SlateLogs(context, [[0, 1], [1, 0]], [1, 0])
    with pytest.raises(ValueError, match="a reward for every slot"):
        to_obp(logs)
    clicks = np.zeros((2, 2))
    logs = SlateLogs(context, [[0, 1], [1, -1]], slot_reward=clicks)
    with pytest.raises(ValueError, match="slate of row 1 has an empty slot"):
        to_obp(logs)
    logs = SlateLogs(context, [[0, 1], [1, 0]], slot_reward=clicks, n_candidates=[2, 3])
    with pytest.raises(ValueError, match="separate candidates by round"):
        to_obp(logs)
    with pytest.raises(TypeError, match=r"must be a dictionary .* got list"):
        from_obp([])
    with pytest.raises(TypeError, match="logs must be BanditLogs or SlateLogs"):
        to_obp({})
