# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause


import pickle

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from skope_ope import SlateLogs, UniformSlatePolicy

SLATE = np.array([[0, 1], [1, 2], [2, -1]])
SLOT_REWARD = np.array([[1.0, 0], [0, 2], [1, 0]])
FIELDS = {
    "n_candidates": [2, 3, 4],
    "candidates": np.array([[1, 1, 0, 0], [0, 1, 1, 0], [1, 1, 1, 1]], dtype=bool),
    "item_id": np.array(list("abcdbacdefgh")).reshape(3, 4),
    "item_features": np.arange(24.0).reshape(3, 4, 2),
    "slot_reward": SLOT_REWARD,
    "propensity": [0.1, 0.2, 0.3],
    "timestamp": [3, 1, 2],
    "group": ["u", "v", "u"],
    "reward_range": (0, 2),
}


UNIFORM = UniformSlatePolicy(2)


def slates_of(**fields):
    given = {"context": np.eye(3), "slate": SLATE, "reward": [1, 2, 1]}
    return SlateLogs(**given | fields)


def test_one_propensity_for_all_slates():
    logs = SlateLogs(np.zeros((2, 1)), [[0, 1], [1, 0]], [1.0, 0], propensity=1 / 2)
    assert_array_equal(logs.propensity, [0.5, 0.5])
    with pytest.raises(ValueError, match="propensity 2 is not in"):
        logs.replace(propensity=2)
    with pytest.raises(TypeError, match="propensity holds booleans"):
        logs.replace(propensity=True)


def test_every_field_is_kept():
    logs = slates_of(**FIELDS, logging_policy=UNIFORM)
    assert_array_equal(logs.slate, SLATE)
    assert_array_equal(logs.reward, [1.0, 2.0, 1.0])
    for name, value in FIELDS.items():
        assert_array_equal(getattr(logs, name), value)
    assert logs.logging_policy is UNIFORM
    assert logs.n_slots == 2
    assert logs.max_candidates == 4
    assert logs.shape == (3, 3)
    assert logs.n_rounds == 3
    told = "n_rounds=3, n_features=3, n_slots=2, n_candidates=4, 2 to 4 per page"
    assert repr(logs) == f"SlateLogs({told})"


def test_only_slates_and_rewards_are_needed():
    logs = slates_of()
    assert logs.n_candidates == logs.max_candidates == 3
    assert all(getattr(logs, name) is None for name in [*FIELDS][1:])
    assert slates_of(slate=np.full((3, 2), -1)).max_candidates == 0
    assert slates_of(slate=[[1, 1]] * 3).max_candidates == 2
    logs = slates_of(item_features=np.ones((3, 5)))
    assert logs[[2]].item_features is logs.item_features


def test_the_reward_defaults_to_the_sum_over_slots():
    logs = slates_of(reward=None, slot_reward=SLOT_REWARD)
    assert_array_equal(logs.reward, [1, 2, 1])
    # a reward of its own need not be that sum
    assert_array_equal(slates_of(slot_reward=SLOT_REWARD * 2).reward, [1, 2, 1])
    with pytest.raises(ValueError, match="reward is None: pass it, or slot_reward"):
        slates_of(reward=None)


def test_candidates_may_differ_by_slot():
    where = np.zeros((3, 2, 4), dtype=bool)
    where[[0, 0, 1, 1, 2], [0, 1, 0, 1, 0], [0, 1, 1, 2, 2]] = True
    logs = slates_of(candidates=where)
    assert logs.max_candidates == logs.n_candidates == 4
    where[1, 1] = [True, True, False, True]
    with pytest.raises(ValueError, match="candidate 2 at row 1, slot 1, which is not"):
        slates_of(candidates=where)
    with pytest.raises(ValueError, match="at most 4 as in `candidates`, got 9"):
        slates_of(candidates=FIELDS["candidates"], n_candidates=9)


@pytest.mark.parametrize(
    ("field", "value", "error", "message"),
    [
        ("slate", [0, 1, 2], ValueError, r"slate must have 2 dimension\(s\)"),
        ("slate", [["a"]] * 3, TypeError, "slate must hold numbers"),
        ("slate", [[0, 0.5]] * 3, ValueError, "got 0.5 at row 0, slot 1"),
        ("slate", [[0, -2]] * 3, ValueError, "got -2 at row 0, slot 1"),
        ("slate", np.empty((3, 0)), ValueError, "logs are empty"),
        ("context", np.eye(2), ValueError, "context has 2 rows, slate has 3"),
        ("context", None, TypeError, "context must not be None"),
        ("reward", [1, 2], ValueError, "reward has 2 rows, slate has 3"),
        ("reward", [1, 2, np.nan], ValueError, "must be finite, got nan at row 2"),
        ("reward_range", (0, 1), ValueError, "reward 2 at row 1 lies outside"),
        ("n_candidates", 2, ValueError, r"candidate 2 at row 1, slot 1.*\(0 to 1\)"),
        ("n_candidates", [2, 3, 2], ValueError, "candidate 2 at row 2, slot 0"),
        ("n_candidates", 3.5, ValueError, r"numbers of candidates, got 3\.5\."),
        ("n_candidates", [2, 3, 3.5], ValueError, r"got 3\.5 at row 2"),
        ("n_candidates", [3, 3, -1], ValueError, "got -1 at row 2"),
        ("n_candidates", [3, 3], ValueError, "n_candidates has 2 rows"),
        ("n_candidates", "many", TypeError, "n_candidates must hold numbers"),
        ("candidates", np.ones((3, 3)), TypeError, "boolean, got dtype float64"),
        ("candidates", np.ones(3, bool), ValueError, "got 1 dimension"),
        ("candidates", np.ones((3, 2), bool), ValueError, "more than 2 candidates"),
        ("candidates", np.ones((3, 1, 3), bool), ValueError, r"shape \(3, 2\) \+"),
        ("candidates", np.zeros((3, 3), bool), ValueError, r"\(5 such entries\)"),
        ("item_id", [["a", "b"]] * 3, ValueError, r"shape \(3, 3\), got \(3, 2\)"),
        ("item_features", np.ones(3), ValueError, r"item_features .* got \(3,\)"),
        ("item_features", np.ones((2, 2)), ValueError, r"3 rounds .* got \(2, 2\)"),
        ("item_features", np.ones((2, 3, 2)), ValueError, r"got \(2, 3, 2\)"),
        ("slot_reward", [[1]] * 3, ValueError, r"shape \(3, 2\), got \(3, 1\)"),
        ("slot_reward", -SLOT_REWARD, ValueError, "non-negative.*-1 at row 0, slot 0"),
        ("slot_reward", SLOT_REWARD + 1, ValueError, "empty slot, got 1 at row 2, slo"),
        ("propensity", [0.5, 0, 0.5], ValueError, "got 0 at row 1.*logging_policy"),
        ("timestamp", [1, 2], ValueError, "timestamp has 2 rows"),
        ("group", [1, None, 2], ValueError, "group has a missing label"),
    ],
)
def test_bad_fields_are_refused(field, value, error, message):
    with pytest.raises(error, match=message):
        slates_of(**{field: value})


@pytest.mark.parametrize("key", [[2, 0], slice(1, None), 1, [True, False, True], []])
def test_rows_of_every_field(key):
    logs = slates_of(**FIELDS, logging_policy=UNIFORM).with_columns(x=[5, 6, 7])
    rows = np.arange(3)[[1] if key == 1 else key] if key != [] else []
    for taken in (logs[key], logs[key, ...], pickle.loads(pickle.dumps(logs[key]))):
        assert type(taken) is SlateLogs
        assert len(taken) == len(rows)
        for name in logs._row_fields:
            assert_array_equal(getattr(taken, name), getattr(logs, name)[rows])
        assert taken.max_candidates == 4
        assert isinstance(taken.logging_policy, UniformSlatePolicy)
        assert taken.reward_range == (0, 2)
        assert_array_equal(taken.columns["x"], np.array([5, 6, 7])[rows])
        assert taken.row_id == logs[key].row_id
        assert_array_equal(taken.row_id.position, rows)
    with pytest.raises(TypeError, match="SlateLogs cannot be converted to an array"):
        np.asarray(logs)


def test_summary_names_what_there_is():
    assert slates_of(**FIELDS).with_columns(x=[1, 2, 3]).summary() == {
        "rounds": "3",
        "slots": "2 (1 empty)",
        "candidates": "4, 2 to 4 per page",
        "features": "3 (ndarray)",
        "reward": "1 to 2, mean 1.333",
        "propensity": "0.1 to 0.3",
        "groups": "2",
        "columns": "x",
    }
    assert slates_of().summary()["candidates"] == "3"
    logs = slates_of(logging_policy=UNIFORM)
    assert logs.summary()["logging policy"] == "UniformSlatePolicy"
    assert slates_of()[:0].summary() == {"rounds": "0"}
    assert "SlateLogs" in slates_of()._repr_html_()


def test_candidates_of_pages_are_counted():
    assert slates_of()._offered_counts is None
    assert_array_equal(slates_of(n_candidates=[2, 3, 4])._offered_counts, [2, 3, 4])
    by_slot = np.zeros((3, 2, 4), dtype=bool)
    slate = slates_of().slate
    rows, slots = np.nonzero(slate >= 0)
    by_slot[rows, slots, slate[rows, slots]] = True
    want = [len(set(one[one >= 0])) for one in slate]
    logs = slates_of(candidates=by_slot)
    assert_array_equal(logs._offered_counts, want)
    everywhere = slates_of(candidates=np.ones((3, 4), dtype=bool))
    assert repr(everywhere).endswith("n_candidates=4)")
    assert repr(slates_of(n_candidates=[3, 3, 4])[:2]).endswith("4, 3 per page)")


def test_who_is_offered():
    assert slates_of(n_candidates=4).offered is None
    limits = slates_of(n_candidates=[4, 4, 3])
    assert_array_equal(limits.offered, np.arange(4) < [[4], [4], [3]])
    mask = np.ones((3, 2, 4), dtype=bool)
    both = slates_of(n_candidates=[4, 4, 3], candidates=mask)
    assert both.offered.shape == (3, 2, 4)
    assert_array_equal(both.offered[:, 1], limits.offered)
    assert_array_equal(both[[2]].offered, both.offered[[2]])
    wide = slates_of(n_candidates=[4, 4, 3], candidates=np.ones((3, 6), dtype=bool))
    assert wide.max_candidates == wide.offered.shape[1] == 6
    assert not wide.offered[:, 4:].any()


def test_features_of_a_catalogue():
    numbers = np.array([[0, 5, 2, 1], [3, 4, 0, 1], [2, 2, 1, 0]])
    table = np.arange(12.0).reshape(6, 2)
    logs = slates_of(n_candidates=4, item_id=numbers, item_features=table)
    assert_array_equal(logs._per_candidate(table), table[numbers])
    assert_array_equal(logs[[1]]._per_candidate(table[:, 0]), table[numbers[[1]], 0])
    own = slates_of(n_candidates=4, item_features=table[:4])
    assert_array_equal(own._per_candidate(table[:4, 1]), [table[:4, 1]])
    by_round = slates_of(n_candidates=4, item_features=table[numbers])
    assert by_round._per_candidate(numbers) is numbers
    for ids in (None, numbers + 1, numbers.astype(str)):
        with pytest.raises(ValueError, match="item_id to hold the numbers of these"):
            slates_of(n_candidates=4, item_id=ids, item_features=table)


def test_fields_that_can_be_replaced():
    logs = slates_of(n_candidates=4, reward_range=(0, 2))
    fields = {"propensity": [0.1, 0.2, 0.3], "reward": [0] * 3}
    new = logs.replace(logging_policy=UNIFORM, **fields)
    assert new.row_id == logs.row_id
    assert new.logging_policy is UNIFORM
    assert_array_equal(new.propensity, [0.1, 0.2, 0.3])
    assert_array_equal(new.reward, 0)
    assert new.replace(propensity=None).propensity is None
    assert logs.logging_policy is None
    for fields, message in (
        ({"slate": SLATE}, "'slate' cannot be replaced, only"),
        ({"reward": [3, 0, 0]}, "lies outside reward_range"),
        ({"reward": [1, 0]}, "reward has 2 rows"),
        ({"propensity": [0, 1, 1]}, r"in \(0, 1\], got 0"),
    ):
        with pytest.raises(ValueError, match=message):
            logs.replace(**fields)


def test_slates_of_other_kinds():
    for slate, error, message in (
        ([[0, 1, 2], [1, 0]], ValueError, r"2 slots at row 1 and 3 at row 0\. Fill"),
        (np.eye(2, dtype=bool), TypeError, "of a candidate in every slot, got bool"),
    ):
        with pytest.raises(error, match=message):
            SlateLogs(np.zeros((2, 1)), slate, [0, 1])
    for policy in ("uniform", UniformSlatePolicy, np.ones((3, 2, 4))):
        with pytest.raises(TypeError, match=r"ProductSlatePolicy\(slot_proba\)"):
            slates_of(logging_policy=policy)
