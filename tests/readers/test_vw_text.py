# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Lines of `--cb`, `--cb_adf` and evaluated actions: what they mean, and errors."""

import math

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from skope_ope.exceptions import LogsWarning
from tests.readers._vw import has_features, hashed

ONE = "1:0:0.5 | a\n"
BLOCK = "| a\n0:1:1 | b\n\n"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", []),
        (" ", []),
        (" a b", [("a", 1.0), ("b", 1.0)]),
        (" a:2.5 b:-1e-1 a", [("a", 2.5), ("b", -0.1), ("a", 1.0)]),
        ("user age:31 city=Paris", [("user^age", 31.0), ("user^city=Paris", 1.0)]),
        ("u:2 a b:3", [("u^a", 2.0), ("u^b", 6.0)]),
        ("f :1 :2", [("f^0", 1.0), ("f^1", 2.0)]),
        (" :1 a :0 :3", [("0", 1.0), ("a", 1.0), ("2", 3.0)]),
        ("x a|y a |z", [("x^a", 1.0), ("y^a", 1.0)]),
        (" city:Paris", [("city=Paris", 1.0)]),
        ("u:3 city:Paris", [("u^city=Paris", 3.0)]),
        (" day:1_0", [("day=1_0", 1.0)]),
        ("\ta\tb  c ", [("a", 1.0), ("b", 1.0), ("c", 1.0)]),
        (" zero:0 minus:-0.0", []),
        (" one\u00a0name", [("one\u00a0name", 1.0)]),
    ],
)
def test_features(read, text, expected):
    assert has_features(read(f"1:0:0.5 |{text}\n"), expected)
    # values of one column add up without signs
    logs = read("1:0:0.5 | a:2 b:3 c:-1\n", n_features=1)
    assert logs.context.toarray() == [[4.0]]


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("3:-1.5:0.25 |u a", (3, 1.5, 0.25)),
        ("1:1:0.5 | a", (1, -1.0, 0.5)),
        ("1:2:1.0000001 | a", (1, -2.0, 1.0)),
        ("1:-0:0.5 | a", (1, 0.0, 0.5)),
        ("1:0:0.5 'first |ns a", (1, 0.0, 0.5)),
        # of several costs that of the logged action counts
        ("1:9 2:2:0.7 3 4:7 | a", (2, -2.0, 0.7)),
    ],
)
def test_outcomes(read, line, expected):
    logs = read(line + "\n", format="cb")
    found = logs.action[0], logs.reward[0], logs.propensity[0]
    assert found == expected
    assert math.copysign(1.0, found[1]) == math.copysign(1.0, expected[1])


def test_actions_of_lines_and_blocks(read):
    logs = read("1:9 3:2:0.7 | a\n2:0:0.5 | a\n")
    assert_array_equal(logs.actions, [1, 2, 3])
    assert_array_equal(logs.available, [[True, False, True], [True] * 3])
    assert read("1:0:0.5 2 | a\n2:0:0.5 | a\n").available is None
    logs = read("5:-1:0.5 | a\n2:1:0.5 | a\n5:-1:0.5 | a\n")
    assert_array_equal(logs.actions, [2, 5])
    for field in ("available", "action_context", "logging_proba", "timestamp"):
        assert getattr(logs, field) is None
    assert logs.sample_weight is None
    assert_array_equal(read("2:0:0.5 | a\n", n_actions=3).actions, [1, 2, 3])
    with pytest.raises(ValueError, match=r"action 3, counted from 1, but n_act"):
        read("3:0:0.5 | a\n", n_actions=2)
    # unlabelled lines and blocks
    for line in ("| a", "1 | a", "1:2 | a", "1:2 2:3 | a", "t| a"):
        with pytest.warns(LogsWarning, match="skipped 1 event"):
            assert len(read(f"{ONE}{line}\n", format="cb")) == 1
    for label in ("", "0", "0:1"):
        text = f"{BLOCK}shared | s\n{label} | a\n| b\n"
        with pytest.warns(LogsWarning, match="skipped 1 event"):
            assert len(read(text, format="cb_adf")) == 1
    # a block
    logs = read("shared |u a\n first|A x\n7:-2:0.25 second|A y:3\n")
    assert (logs.action[0], logs.reward[0], logs.propensity[0]) == (1, 2.0, 0.25)
    assert has_features(logs, [("u^a", 1.0)])
    expected = hashed([[("A^x", 1.0)], [("A^y", 3.0)]], 256).toarray()
    assert_array_equal(logs.action_context, expected)
    logs = read("0:1:0.5 | a\n| b\n")
    assert logs.action[0] == 0
    assert has_features(logs, [])


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("1:0:0.5", r"no '\|' in '1:0:0.5'"),
        ("1:0:0.5:4 | a", "'1:0:0.5:4' is not of the form action:cost:probability"),
        (":0:0.5 | a", "is not of the form action:cost:probability"),
        ("1:x:0.5 | a", "the cost 'x' of the label '1:x:0.5' is not a number"),
        ("1:0:x | a", "the probability 'x' of the label '1:0:x' is not a number"),
        ("1:0: | a", "the probability '' of the label"),
        ("1:0:0 | a", "the probability of the logged action is 0"),
        ("1:0:-0.1 | a", r"must lie in \(0, 1\]"),
        ("1:0:1.5 | a", "the probability of the logged action is 1.5"),
        ("1:0:nan | a", r"must lie in \(0, 1\]"),
        ("1:nan:0.5 | a", "the cost is nan; a finite number is needed"),
        ("1:inf:0.5 | a", "a finite number is needed"),
        ("0:0:0.5 | a", "'0' is not an action of `--cb`, which are numbered from 1"),
        ("-1:0:0.5 | a", "'-1' is not an action"),
        ("4294967296:0:0.5 | a", "'4294967296' is not an action"),
        ("1:0:0.5 2:1:0.5 | a", "actions 1 and 2 both carry a probability"),
        ("1 1:0:0.5 | a", "names an action twice.*format='cb_eval'"),
        ("1:0:0.5| a", "put a space between them"),
        ("1:0:0.5 | a:", "the feature 'a:' is not of the form name:value"),
        ("1:0:0.5 | a:1:2", "the feature 'a:1:2' is not of the form"),
        ("1:0:0.5 | a:nan", "the feature value 'nan' is not finite"),
        ("1:0:0.5 | a:inf", "the feature value 'inf' is not finite"),
        ("1:0:0.5 |u:x a", "the namespace 'u:x' is not of the form name:weight"),
        ("1:0:0.5 |:2 a", "the namespace ':2' is not of the form name:weight"),
    ],
)
def test_malformed_lines(read, line, message):
    with pytest.raises(ValueError, match=f"line 2: .*{message}"):
        read(f"{ONE}{line}\n", format="cb")


@pytest.mark.parametrize(
    ("text", "action", "evaluated"),
    [
        ("1 3:-1:0.5 | a\n1 1:0:0.5 | a\n", [3, 1], [[1, 0], [1, 0]]),
        ("2 2:1:0.3 3 | a\n", [2], [[1, 0]]),
        ("2 1:0.5:0.3 | a\n| a\n2 1:1 | a\n", [1], [[0, 1]]),
    ],
)
@pytest.mark.filterwarnings("ignore::skope_ope.exceptions.LogsWarning")
def test_the_evaluated_action_comes_first(read, text, action, evaluated):
    logs = read(text, format="cb_eval")
    assert_array_equal(logs.action, action)
    assert_array_equal(logs.columns["evaluated"], evaluated)
    with pytest.raises(ValueError, match="'2' has an evaluated action and no"):
        read("2 | a", format="cb_eval")
    with pytest.raises(ValueError, match=r"'1:0:0\.5' is not an action"):
        read("1:0:0.5 | a", format="cb_eval")


# -- blocks of lines ------------------------------------------------------------------


@pytest.mark.parametrize(
    ("lines", "number", "message"),
    [
        (["shared | s"], 4, "no action line after 'shared'"),
        (["| a", "shared | s"], 5, "'shared' must be the first line"),
        (["shared |", "shared |", "| a"], 5, "'shared' must be the first line"),
        (["0:1:0.5 | a", "| b", "0:1:0.5 | c"], 6, "a second action"),
        (["| a", "0:1:0.5 1:1 | b"], 5, "an action line has one label"),
        (["| a", "0:1:2 | b"], 5, r"must lie in \(0, 1\]"),
        (["| a", "| b:"], 5, "the feature 'b:'"),
        (["shraed | s", "0:1:1 | a"], 4, "'shraed' is neither 'shared' nor a label"),
        (["| a", "nan:1:1 | b"], 5, "'nan:1:1' is neither 'shared' nor a label"),
        (["shared|User a", "| b"], 4, "put a space between them"),
    ],
)
def test_malformed_blocks(read, lines, number, message):
    with pytest.raises(ValueError, match=f"line {number}: .*{message}"):
        read(BLOCK + "\n".join(lines) + "\n", format="cb_adf")


def test_long_events_are_refused_and_long_logs_are_not(read):
    text = BLOCK + ("|a " + "x" * 10**6 + "\n") * 5
    with pytest.raises(ValueError, match=r"line 4: the event .* than 4,194,304 chara"):
        read(text, format="cb_adf")
    names = [f"x:{i + 1} y{i % 7}" for i in range(2500)]
    logs = read("".join(f"1:0:0.5 | {name}\n" for name in names), n_features=64)
    rows = [[("x", float(i + 1)), (f"y{i % 7}", 1.0)] for i in range(2500)]
    assert has_features(logs, *rows)
    assert logs.context.shape == (2500, 64)
    assert np.isfinite(logs.context.data).all()


def adf(chosen, *names):
    """An event whose actions have tags, if any, and the features f0, f1, ..."""
    lines = [
        f"{'0:-1:0.5 ' * (k == chosen)}{name}| f{k}" for k, name in enumerate(names)
    ]
    return "\n".join(lines) + "\n\n"


def test_lists_and_tags_of_actions(read):
    logs = read(adf(1, "", "", "") + adf(0, ""), format="cb_adf", n_action_features=16)
    assert_array_equal(logs.actions, [0, 1, 2])
    assert_array_equal(logs.available, [[True, True, True], [True, False, False]])
    # the same features in all rounds take one row per action
    expected = hashed([[(f"f{k}", 1.0)] for k in range(3)], 16).toarray()
    assert_array_equal(logs.action_context, expected)
    logs = read(adf(1, "", ""), n_actions=3)
    assert_array_equal(logs.actions, [0, 1, 2])
    assert_array_equal(logs.available, [[True, True, False]])
    with pytest.raises(ValueError, match=r"action 2, counted from 0.*Pass at least 3"):
        read(adf(0, "", "", ""), n_actions=2)
    text = "0:1:1 | a\n| b\n\n0:1:1 | b\n\n0:1:1 | a\n| d e\n"
    logs = read(text, format="cb_adf", n_action_features=64)
    rows = [["a"], ["b"], ["b"], [], ["a"], ["d", "e"]]
    expected = hashed([[(name, 1.0) for name in row] for row in rows], 64).toarray()
    assert_array_equal(logs.action_context, expected.reshape(3, 2, 64))
    # tags recognise an action at any position
    text = adf(0, "tea", "cocoa", "milk") + adf(0, "milk", "'tea")
    logs = read(text, action_labels="tag", n_action_features=16)
    assert logs.actions.tolist() == ["cocoa", "milk", "tea"]
    assert logs.action.tolist() == ["tea", "milk"]
    assert_array_equal(logs.available, [[True, True, True], [False, True, True]])
    # what is first in its event has the feature f0
    feature = hashed([[("f0", 1.0)]], 16).toarray()[0]
    assert_array_equal(logs.action_context[0, 2], feature)
    assert_array_equal(logs.action_context[1, 1], feature)
    for wrong, message in (
        (adf(0, "a", ""), "action 1 of the event has no tag"),
        (adf(0, "", "a"), "action 0 of the event has no tag"),
        (adf(0, "a", "a"), "two actions of the event have the same tag"),
        (ONE, "no list of actions whose tags"),
    ):
        with pytest.raises(ValueError, match=message):
            read(wrong, action_labels="tag")
