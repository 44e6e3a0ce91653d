# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause

import numpy as np
import pytest

from skope_ope.policies._policy_files import read_policy_table

ACTIONS = np.array(["a", "b"])


@pytest.fixture
def table(tmp_path):
    def write(text):
        path = tmp_path / "table.csv"
        path.write_text(text)
        return path

    return write


def test_a_table_without_context(table):
    path = table("action,probability,n\nb,0.25,7\na,0.75,8\n")
    np.testing.assert_array_equal(read_policy_table(path, ACTIONS), [0.75, 0.25])
    path = table("action,whatever\na,1\n")
    np.testing.assert_array_equal(read_policy_table(path, ACTIONS), [1, 0])


def test_a_table_by_the_value_of_a_column(table):
    path = table("item,alpha,prob_1,prob_2\n1,9,0.5,1\n0,8,0.5,0\n")
    proba = read_policy_table(path, np.array([0, 1]), np.array([2, 1, 2]))
    np.testing.assert_array_equal(proba, [[0, 1], [0.5, 0.5], [0, 1]])
    path = table("item,phone,web\na,0.5,1\nb,0.5,0\n")
    proba = read_policy_table(path, ACTIONS, np.array(["web", "phone"]))
    np.testing.assert_array_equal(proba, [[1, 0], [0.5, 0.5]])


def test_rounded_probabilities_are_made_to_sum_to_one(table):
    path = table("item,p\n0,0.3333\n1,0.3333\n2,0.3333\n")
    proba = read_policy_table(path, np.arange(3))
    assert proba.sum() == pytest.approx(1, abs=1e-15)
    path = table("item,p\n0,0.33\n1,0.33\n2,0.33\n")  # 0.99 by two digits
    assert read_policy_table(path, np.arange(3)) == pytest.approx(np.full(3, 1 / 3))


def test_labels_may_be_numbers_in_one_of_the_files(table):
    path = table("item,p\n1,0.5\nx,0.5\n")
    with pytest.raises(ValueError, match="to action 'x', which the log does not have"):
        read_policy_table(path, np.array([1, 2]))
    path = table("item,p\n1,1\nx,0\n")
    np.testing.assert_array_equal(read_policy_table(path, np.array([1, 2])), [1, 0])


@pytest.mark.parametrize(
    ("text", "by", "message"),
    [
        ("", None, "is empty"),
        ("item,p\n", None, "is empty"),
        ("item,p\na,1,2\n", None, "line 2: 3 cells under 2 column names"),
        ("item,p\na,0.5\na,0.5\n", None, "an action occurs twice"),
        ("item,p,q\na,1,1\n", None, "'item', 'p', 'q': call the one with the probab"),
        ("item,p\na,x\n", None, "line 2: column 'p' is 'x', expected a probability"),
        ("item,p\na,0_1.0\n", None, "'p' is '0_1.0', expected a probability"),
        ("item,p\na,-1\n", None, "line 2: column 'p' is '-1'"),
        ("item,p\na,0.5\nb,0.4\n", None, "column 'p' sums to 0.9 over the actions"),
        ("item,p\na,0.5\nc,0.5\n", None, "line 3: .* name all actions with --actions"),
        (
            "item,p_1\na,1\n",
            [1, 2],
            "no such column. .* must be called 2, or end in '_2'",
        ),
        ("item,p_1,q_1\na,1,1\n", [1], "2 such columns"),
    ],
)
def test_bad_tables(table, text, by, message):
    by = None if by is None else np.array(by)
    with pytest.raises(ValueError, match=message):
        read_policy_table(table(text), ACTIONS, by)
