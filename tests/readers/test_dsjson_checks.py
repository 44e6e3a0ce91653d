# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause

import numpy as np
import pytest

from skope_ope.readers._jsonl_columns import JsonPairs
from skope_ope.readers._vw_event import MalformedLineError
from skope_ope.readers._vw_json import (
    check_keys,
    checked_sum,
    label_base,
    logging_proba,
)


def proba_of(a, p, position=1, propensity=0.5, n_actions=3):
    return logging_proba(a, p, position, propensity, n_actions)


@pytest.mark.parametrize(
    ("a", "p", "expected"),
    [
        ([2, 1, 3], [0.5, 0.25, 0.25], [0.25, 0.5, 0.25]),
        ([1, 0, 2], [0.5, 0.25, 0.25], [0.25, 0.5, 0.25]),
        ([0, 1, 2], [0.25, 0.5, 0.25], [0.25, 0.5, 0.25]),
        (None, [0.25, 0.5, 0.25], None),
        ([1, 2, 3], None, None),
        (None, None, None),
        ([], [], None),
        ([2], [0.5], None),  # the logged action alone, from 1
        ([1], [0.5], None),  # or from 0
        ([1, 2], [0.5, 0.25], None),  # leaves one out, and may count from 0 or 1
    ],
)
def test_the_logging_distribution_follows_the_ranking(a, p, expected):
    assert proba_of(a, p) == expected


@pytest.mark.parametrize(
    ("a", "p", "propensity"),
    [
        ([2, 1, 3], [0.33, 0.33, 0.33], 0.33),
        ([2, 1, 3], [0.33, 0.33, 0.33], 1 / 3),
        ([2, 1, 3], [0.5049, 0.25, 0.2451], 0.5),
        ([2, 1, 3], [0.8166667, 0.0916, 0.0917], 0.81666),
    ],
)
def test_rounding_is_no_contradiction(a, p, propensity):
    assert proba_of(a, p, propensity=propensity) is None


def test_many_actions_of_32_bits_agree():
    rng = np.random.default_rng(0)
    for n_actions in (2, 30, 1000):
        p = rng.dirichlet(np.ones(n_actions)).astype(np.float32)
        a = list(range(n_actions))
        told = p.astype(float).tolist()
        for propensity in (told[1], float(f"{told[1]:.7g}"), float(f"{told[1]:.2f}")):
            ordered = proba_of(a, told, 1, propensity, n_actions)
            assert ordered is None or sum(ordered) == pytest.approx(1)


@pytest.mark.parametrize(
    ("a", "p", "message"),
    [
        ([2, 1, 3], [0.5, 0.3, 0.3], r"sum to 1.1, but the prob"),
        ([2, 1, 3], [0.5, 0.45, 0.45], r"\[0.5, 0.45, 0.45\] sum to 1.4"),
        ([2, 1, 3], [0.5, 0.2, 0.2], "sum to 0.9"),
        (None, [0.5, 0.45, 0.45], "sum to 1.4"),
        (None, [0.9, 0.5], "sum to 1.4"),
        ([2, 1, 3], [0.0, 0.0, 0.0], "sum to 0"),
        ([2, 1, 3], [0.6, 0.2, 0.2], "is 0.5, and 'p' gives 0.6 to the logged action"),
        ([1, 2, 3], [0.2, 0.2, 0.6], "is 0.5, and 'p' gives 0.2 to the logged action"),
        ([1, 2], [0.2, 0.3], "'p' gives 0.2 or 0.3 to the logged action"),
        ([1, 2, 4], [0.25, 0.5, 0.25], "'a' names action 4; the event has 3 actions"),
        ([0, 1, 3], [0.25, 0.5, 0.25], "names action 3 and counts from 0; the event"),
        ([-1, 1, 2], [0.25, 0.5, 0.25], "'a' names action -1; the event has 3"),
        ([10**30, 1, 2], [0.25, 0.5, 0.25], "'a' names action 10+; the event has 3"),
        ([1, 2, 2], [0.25, 0.5, 0.25], "'a' names action 2 twice"),
        ([3], [0.5], "'a' leaves out the logged action, which is 1, counted from 0"),
        ([1, 2, 3], [0.5, 0.5], "'a' has 3 entries and 'p' has 2"),
        ([1, 2, 3], ["a", 0.5, 0.5], "'a' is not a probability"),
        ([1, 2, 3], [1.5, -0.25, -0.25], "1.5 is not a probability"),
        ([1, 2, 3], [0.5, 0.5, True], "True is not a probability"),
        (
            [1, 2, "3"],
            [0.25, 0.5, 0.25],
            "'a' holds '3', which is not the number of an action",
        ),
        ([1.0, 2, 3], None, "'a' holds 1.0, which is not the number of an action"),
        ([1, 1, 3], None, "'a' names action 1 twice"),
        (2, [0.25, 0.5, 0.25], "'a' must be an array, got 2"),
        ([1, 2, 3], 0.5, "'p' must be an array, got 0.5"),
    ],
)
def test_contradictions(a, p, message):
    with pytest.raises(MalformedLineError, match=message):
        proba_of(a, p)


@pytest.mark.parametrize(("action", "base"), [(3, 0), (4, 1), ("4", 1)])
def test_the_action_of_the_label_counts_from_zero_or_one(action, base):
    assert label_base(action, 3) == base


@pytest.mark.parametrize("action", [2, 5, 3.0, "x", "1_0", True, [3], 10**400])
def test_the_action_of_the_label_is_the_index(action):
    with pytest.raises(MalformedLineError, match="must be 3, counted from 0, or 4, fr"):
        label_base(action, 3)


def test_a_sum_may_leave_out_actions():
    assert checked_sum([0.25, 0.25], 3) == 0.5


def test_keys_that_decide_have_one_value():
    check_keys(JsonPairs([("x", 1), ("x", 2), ("_label_cost", 1), ("_label_Cost", 1)]))
    check_keys(JsonPairs([("p", 1), ("p", 2)]))
    with pytest.raises(MalformedLineError, match="'p' occurs twice, as 1 and as"):
        check_keys(JsonPairs([("p", 1), ("p", 2)]), ("p",))
    check_keys({"p": 1, "P": 2, "_label_cost": 1, "_label_Cost": 1}, ("p",))
    with pytest.raises(MalformedLineError, match="'_label_Cost' occurs twice"):
        check_keys({"_label_cost": 1, "_label_Cost": 2})
