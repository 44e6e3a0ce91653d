# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause

import pytest

from skope_ope.readers._vw_event import MalformedLineError, OtherLogError
from skope_ope.readers._vw_text import parse_adf, parse_cb, parse_features, split_label


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
def test_features(text, expected):
    assert parse_features(text) == expected


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (" a:", "the feature 'a:' is not of the form name:value"),
        (" a:1:2", "the feature 'a:1:2' is not of the form"),
        (" a:nan", "the feature value 'nan' is not finite"),
        (" a:inf", "the feature value 'inf' is not finite"),
        ("u:x a", "the namespace 'u:x' is not of the form name:weight"),
        (":2 a", "the namespace ':2' is not of the form name:weight"),
    ],
)
def test_malformed_features(text, message):
    with pytest.raises(MalformedLineError, match=message):
        parse_features(text)


@pytest.mark.parametrize(
    ("line", "words", "tag"),
    [
        ("1:0:0.5 | a", ["1:0:0.5"], None),
        (" | a", [], None),
        ("| a", [], None),
        ("|ns a", [], None),
        ("1:0:0.5 first|ns a", ["1:0:0.5"], "first"),
        ("1:0:0.5 'first |ns a", ["1:0:0.5"], "first"),
        ("banana| a", [], "banana"),
        ("1 2:0:0.5 3 | a", ["1", "2:0:0.5", "3"], None),
    ],
)
def test_labels_and_tags(line, words, tag):
    assert split_label(line)[:2] == (words, tag)


@pytest.mark.parametrize("line", ["1:0:0.5| a", "shared|User a"])
def test_a_label_that_touches_the_bar_is_no_label(line):
    with pytest.raises(MalformedLineError, match="put a space between them"):
        split_label(line)


@pytest.mark.parametrize("word", ["ccb", "slates", "ca"])
def test_other_logs_in_text(word):
    with pytest.raises(OtherLogError):
        split_label(f"{word} 1:0:0.5 | a")


def test_cb_line():
    event = parse_cb("3:-1.5:0.25 |u a")
    assert (event.action, event.reward, event.propensity) == (3, 1.5, 0.25)
    assert event.shared == [("u^a", 1.0)]
    assert event.offered is None
    assert event.actions is None


def test_only_the_logged_cost_of_several_counts():
    event = parse_cb("1:9 2:2:0.7 3 4:7 | a")
    assert (event.action, event.reward, event.propensity) == (2, -2.0, 0.7)
    assert event.offered == [1, 2, 3, 4]


@pytest.mark.parametrize("line", ["| a", "1 | a", "1:2 | a", "1:2 2:3 | a", "t| a"])
def test_unlabelled_cb_lines(line):
    assert parse_cb(line) is None


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("1:0:0.5", "no '|' in '1:0:0.5'"),
        ("1:0:0.5:4 | a", "'1:0:0.5:4' is not of the form action:cost:probability"),
        (":0:0.5 | a", "is not of the form action:cost:probability"),
        ("1:x:0.5 | a", "the cost 'x' of the label '1:x:0.5' is not a number"),
        ("1:0:x | a", "the probability 'x' of the label '1:0:x' is not a number"),
        ("1:0: | a", "the probability '' of the label"),
        ("1:0:0 | a", "the probability of the logged action is 0"),
        ("1:0:1.5 | a", "the probability of the logged action is 1.5"),
        ("1:nan:0.5 | a", "the cost is nan"),
        ("0:0:0.5 | a", "'0' is not an action of `--cb`, which are numbered from 1"),
        ("-1:0:0.5 | a", "'-1' is not an action"),
        ("4294967296:0:0.5 | a", "'4294967296' is not an action"),
        ("1:0:0.5 2:1:0.5 | a", "actions 1 and 2 both carry a probability"),
        ("1 1:0:0.5 | a", "names an action twice.*format='cb_eval'"),
    ],
)
def test_malformed_cb_lines(line, message):
    with pytest.raises(MalformedLineError, match=message.replace("|", r"\|")):
        parse_cb(line)


def test_the_evaluated_action_comes_first():
    event = parse_cb("2 1:0.5:0.3 | a", evaluated=True)
    assert (event.evaluated, event.action, event.reward) == (2, 1, -0.5)
    assert event.offered is None
    assert parse_cb("2 2:1:0.3 3 | a", evaluated=True).offered == [2, 3]


def test_evaluated_lines_without_a_logged_action():
    assert parse_cb("| a", evaluated=True) is None
    assert parse_cb("2 1:1 | a", evaluated=True) is None
    with pytest.raises(MalformedLineError, match="'2' has an evaluated action and no"):
        parse_cb("2 | a", evaluated=True)
    with pytest.raises(MalformedLineError, match=r"'1:0:0\.5' is not an action"):
        parse_cb("1:0:0.5 | a", evaluated=True)


def block(*lines, start=1):
    return list(enumerate(lines, start))


def test_adf_event():
    event = parse_adf(block("shared |u a", "first|A x", "7:-2:0.25 second|A y:3"))
    assert (event.action, event.reward, event.propensity) == (1, 2.0, 0.25)
    assert event.shared == [("u^a", 1.0)]
    assert event.actions == [[("A^x", 1.0)], [("A^y", 3.0)]]
    assert event.tags == ["first", "second"]


def test_adf_event_without_shared_features():
    event = parse_adf(block("0:1:0.5 | a", "| b"))
    assert event.action == 0
    assert event.shared == []


@pytest.mark.parametrize("label", ["", "0", "0:1"])
def test_unlabelled_adf_events(label):
    assert parse_adf(block("shared | s", f"{label} | a", "| b")) is None


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
    ],
)
def test_malformed_adf_events(lines, number, message):
    with pytest.raises(MalformedLineError, match=message) as raised:
        parse_adf(block(*lines, start=4))
    assert raised.value.line == number
