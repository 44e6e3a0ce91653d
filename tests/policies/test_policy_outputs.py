# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from skope_ope import BanditLogs, FunctionPolicy, compare_policies, evaluate
from skope_ope.policies._policy_outputs import (
    as_floats,
    can_be_labels,
    function_table,
    label_table,
    two_ways,
)

RNG = np.random.RandomState(0)
N = 400
X = RNG.normal(size=(N, 2))
ACTION = np.where(RNG.random_sample(N) < 0.5, "none", "ship")
LOGS = BanditLogs(X, ACTION, RNG.random_sample(N), np.full(N, 0.5))
ACTIONS = np.array(["none", "ship"])


def rule(X):
    return np.where(X[:, 0] > 0, "ship", "none")


class Rule:
    def predict(self, X):
        return rule(X)


@pytest.mark.parametrize("policy", [FunctionPolicy(rule), Rule(), rule(X)])
def test_a_rule_has_the_value_of_its_table(policy):
    table = (rule(X)[:, None] == LOGS.actions).astype(float)
    expected = evaluate(table, LOGS, random_state=0)
    found = evaluate(policy, LOGS, random_state=0)
    assert [float(one) for one in found.values()] == [
        float(one) for one in expected.values()
    ]
    decided = compare_policies({"rule": policy}, LOGS)
    assert str(decided) == str(compare_policies({"rule": table}, LOGS))


@pytest.mark.parametrize(
    ("vector", "classes", "labels"),
    [
        (["a"], ["a", "b"], True),
        ([1], ["a", "b"], False),
        ([1], [1, 2], True),
        ([1.0], [1, 2], False),
        ([1.0], [1.0, 2.5], True),
        ([True], [1, 2], False),
        ([1], [True, False], False),
        ([True], [True, False], True),
        (["1"], [1, 2], True),  # the message about it says which labels there are
    ],
)
def test_which_vectors_hold_labels(vector, classes, labels):
    assert can_be_labels(np.array(vector), np.array(classes)) is labels


def test_a_table_of_labels_takes_a_byte_an_entry():
    table = label_table("policy", np.array(["ship", "none"]), ACTIONS)
    assert table.dtype == bool
    assert_array_equal(table, [[False, True], [True, False]])


def test_no_rounds():
    assert function_table("func", np.array([], dtype=str), ACTIONS, 0).shape == (0, 2)


def test_other_tables_are_left_as_they_are():
    table = np.array([[0.5, 0.5]])
    assert function_table("func", table, ACTIONS, 1) is table
    assert function_table("func", table, None, 1) is table
    assert as_floats("func", [[1, 0]]).dtype == np.float64


def test_the_two_ways_name_the_actions():
    text = two_ways(ACTIONS)
    assert "np.where(condition, 'ship', 'none')" in text
    assert "an array with 3 columns" in two_ways(np.arange(3))
    assert "np.where(condition, 7, 7)" in two_ways(np.array([7]))


@pytest.mark.frames
def test_a_comparison_of_a_pyarrow_column_gives_one_value():
    pyarrow = pytest.importorskip("pyarrow")
    logs = BanditLogs(pyarrow.table({"phone": X[:, 0] > 0}), ACTION, np.zeros(N), 0.5)
    once = FunctionPolicy(lambda X: np.where(X["phone"] == 1, "ship", "none"))
    with pytest.raises(ValueError, match=r"single value 'none', .* np\.asarray\(X"):
        evaluate(once, logs)
    by_row = FunctionPolicy(
        lambda X: np.where(np.asarray(X["phone"]) == 1, "ship", "none")
    )
    assert evaluate(by_row, logs)["IPS"].value == 0
