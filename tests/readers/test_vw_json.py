# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Lines of json and dsjson: what their keys mean, and which contradict each other."""

import json
import random
import re

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from skope_ope.exceptions import LogsWarning
from tests.readers._vw import LABEL, MULTI, dsjson_line, has_features, hashed, json_line


@pytest.mark.parametrize(
    ("container", "expected"),
    [
        ({"age": 31, "city": "Paris"}, [("age", 31.0), ("city=Paris", 1.0)]),
        ({"yes": True, "no": False, "nothing": None, "zero": 0}, [("yes", 1.0)]),
        ({"u": {"age": 31, "c": "P"}}, [("u^age", 31.0), ("u^c=P", 1.0)]),
        ({"u": {"v": {"w": 2}}}, [("u.v^w", 2.0)]),
        ({"u": [{"a": 1}, {"b": "x"}]}, [("u^a", 1.0), ("u^b=x", 1.0)]),
        ({"u": [0.5, 0, None, 2]}, [("u^0", 0.5), ("u^2", 2.0)]),
        ({"u": ["x", "y"]}, [("u^x", 1.0), ("u^y", 1.0)]),
        ({"_text": "a b", "_hidden": 3}, [("a", 1.0), ("b", 1.0)]),
        ({"u": {"_text": "a b", "_id": "x"}}, [("u^a", 1.0), ("u^b", 1.0)]),
        ({"city": ""}, [("city=", 1.0)]),
    ],
)
def test_features(read, container, expected):
    assert has_features(read(json_line({**container, "_multi": MULTI})), expected)


def test_events_of_json_and_of_dsjson(read):
    # a key that comes twice counts twice
    line = '{"s": "1", "s": "2", "_multi": [{}], "_label": "0:1:0.5", "_labelIndex": 0}'
    assert has_features(read(line), [("s=1", 1.0), ("s=2", 1.0)])
    logs = read(json_line({"s": 2, "_multi": [{"a": 1}, {"b": 1, "_tag": "t"}]}))
    assert (logs.action[0], logs.reward[0], logs.propensity[0]) == (1, 1.0, 0.5)
    assert has_features(logs, [("s", 2.0)])
    expected = hashed([[("a", 1.0)], [("b", 1.0)]], 256).toarray()
    assert_array_equal(logs.action_context, expected)
    assert logs.timestamp is None
    assert logs.sample_weight is None
    line = dsjson_line(
        {"s": 2, "_multi": MULTI},
        Timestamp="2021-02-04T16:31:29.2460000Z",
        pdrop=0.75,
        a=[2, 1],
        p=[0.5, 0.5],
        _skipLearn=False,
        o=[{"v": {"reward": 0.0}, "EventId": "x"}],  # no feedback in place of rewards
    )
    logs = read(line)
    assert (logs.action[0], logs.reward[0], logs.propensity[0]) == (1, 1.0, 0.5)
    assert has_features(logs, [("s", 2.0)])
    assert str(logs.timestamp[0]) == "2021-02-04T16:31:29.246000"
    assert_array_equal(logs.sample_weight, [4.0])
    assert_array_equal(logs.logging_proba, [[0.5, 0.5]])


@pytest.mark.parametrize(
    "label",
    [
        {"_label": "1:2:0.25"},
        {"_label": {"Action": 1, "Cost": 2, "Probability": 0.25}},
        {"_label_cost": 2, "_label_probability": 0.25, "_label_Action": 7},
        {"_label_Cost": "2", "_label_Probability": "0.25"},
    ],
)
def test_forms_of_a_label(read, label):
    outside = {"_multi": MULTI, "_labelIndex": 0, **label}
    inside = {"_multi": [{"a": 1}, {"b": 1, **label}]}
    logs = read(json.dumps(outside) + "\n" + json.dumps(inside))
    assert_array_equal(logs.action, [0, 1])
    assert_array_equal(logs.reward, [-2.0, -2.0])
    assert_array_equal(logs.propensity, [0.25, 0.25])


def test_events_of_lists_of_none_and_of_no_decision(read):
    lines = [
        {"_label_Action": 3, "_label_Cost": 1, "_label_Probability": 0.5, "a": 2},
        {"_label": "3:1:0.5 4", "a": 2},
        {"_label": "3", "a": 2},
        {"a": 2},
    ]
    with pytest.warns(LogsWarning, match="skipped 2 event"):
        logs = read("\n".join(map(json.dumps, lines)), format="json")
    assert_array_equal(logs.action, [3, 3])
    assert_array_equal(logs.reward, [-1, -1])
    assert_array_equal(logs.actions, [3, 4])
    assert has_features(logs, [("a", 2.0)], [("a", 2.0)])
    # events with and without lists do not mix
    lines = [json_line({"_multi": MULTI}), json_line({"_label_Action": 1})]
    for some in (lines, lines[::-1]):
        with pytest.raises(ValueError, match="a list of actions, and others do not"):
            read("".join(some), format="json")
    # lines that are no decision
    whole = json_line({"_multi": MULTI})
    for label in ({}, {"_label": 1}, {"_label_Cost": 1}, {"_label_Probability": 1}):
        with pytest.warns(LogsWarning, match="skipped 1 event"):
            logs = read(whole + json.dumps({"_multi": MULTI, **label}), format="json")
        assert len(logs) == 1
    for line in (
        json.dumps({"c": {"_multi": MULTI}, "_label_Cost": 1}),
        '{"RewardValue": 1.0, "EventId": "x"}',
        dsjson_line(_skipLearn=True),
        '{"c": {}}',
    ):
        with pytest.warns(LogsWarning, match="skipped 1 event"):
            assert len(read(dsjson_line() + line, format="dsjson")) == 1


@pytest.mark.parametrize(
    ("format", "line", "reason"),
    [
        ("dsjson", '{"_label_ca": {"action": 1.0, "cost": 2.0}, "c": {}}', "CATS"),
        ("dsjson", '{"c": {"_multi": [{}], "_slots": [{}]}, "_outcomes": []}', "ccb"),
        ("dsjson", '{"c": {"_multi": [{"_slot_id": 0}], "_slots": [{}]}}', "slates"),
        ("dsjson", '{"o": [{"v": {}, "_definitely_bad": false}], "c": {}}', "inter"),
        ("json", '{"_multi": [{}], "_slots": [{}]}', "ccb"),
    ],
)
def test_other_logs(read, format, line, reason):
    with pytest.raises(ValueError, match=f"line 1: this is .*{reason}"):
        read(line, format=format)


def of_multi(**label):
    return json_line({"_multi": MULTI}, **label)


MALFORMED = [
    ('{"a": 1', "not valid JSON"),
    ("[1, 2]", "an event is one JSON object on one line"),
    (json_line({"x": float("nan"), "_multi": MULTI}), "NaN is not a finite number"),
    (json_line({"_multi": {}}), "'_multi' must be an array"),
    (json_line({"_multi": []}), "'_multi' must be an array"),
    (json_line({"_multi": [1]}), "'_multi' holds 1, not an object"),
    (of_multi(_labelIndex=2), "_labelIndex' is 2 and '_multi'"),
    (of_multi(_labelIndex=None), "no '_labelIndex'"),
    (of_multi(_labelIndex=True), "'_labelIndex' is True and"),
    (of_multi(_label_Cost="x"), "the cost is 'x', not a"),
    (of_multi(_label_Cost="NaN"), "the cost is nan"),
    (of_multi(_label_Cost=[1]), r"the cost is \[1\], not a"),
    (of_multi(_label_Probability=0), "must lie in"),
    (of_multi(_label="1:2:0.5:3"), "not of the form"),
    (json_line({"_multi": [{"_label": "0:1:0.5"}, {}]}), "more than one action"),
    (of_multi(_labelIndex="1"), "'_labelIndex' is '1' and"),
    (of_multi(_label_Cost="0_1.0"), "cost is '0_1.0', not a"),
    (of_multi(_label_Cost="\u0661"), "the cost is '.', not a"),
    (of_multi(_label="1:2:0.5"), "both '_label' and '_label_"),
    (
        '{"_labelIndex": 0, "_multi": [{}, {"_label": "0:1:0.5"}]}',
        "'_labelIndex' is 0 and action 1 carries the cost",
    ),
    ('{"_label_cost": 1, "_label_Cost": 2}', "'_label_Cost' occurs twice"),
    ('{"a": ' + "1" * 5000 + "}", "not valid JSON .Exceeds the limit"),
    (json_line({"_label_Action": 2**63}), "'_label_Action' is 9223372036854775808"),
    (json_line({"_label_Action": 0}), "'_label_Action' is 0; without '_multi'"),
    (json_line({"u": [[1]], "_multi": MULTI}), "'u' holds an array inside"),
    (json_line({"u": 10**400, "_multi": MULTI}), "too large for a number"),
    (json_line({"_multi": [{"__aid": 3}, {}]}), "'__aid' refers to features"),
    ('{"a":' * 5000 + "1" + "}" * 5000, "JSON|nested too deeply"),
]


@pytest.mark.parametrize(("line", "message"), MALFORMED)
def test_malformed_json(read, line, message):
    with pytest.raises(ValueError, match=f"line 1: .*({message})"):
        read(line, format="json")


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ('{"c": 3}', "'c' must be an object, got 3"),
        (dsjson_line(pdrop=1), r"'pdrop' is 1; .* must lie in \[0, 1\)"),
        (dsjson_line(pdrop=-0.1), "'pdrop' is -0.1"),
        (dsjson_line(pdrop="x"), "the 'pdrop' is 'x', not a number"),
        (dsjson_line(Timestamp="yesterday"), "'Timestamp' is 'yesterday', not of"),
        (dsjson_line(Timestamp=3), "'Timestamp' is 3, not of"),
        (json.dumps(LABEL), "the event has a label, but no 'c' with the decision"),
        (dsjson_line({}), "the event has a label, but no 'c' with the decision"),
        (dsjson_line(_skipLearn="no"), "'_skipLearn' is 'no', not true or false"),
        (dsjson_line()[:-2] + ', "_labelIndex": 0}', "'_labelIndex' occurs twi"),
        (dsjson_line()[:-2] + ', "pdrop": 0, "pdrop": 0.5}', "'pdrop' occurs tw"),
        (dsjson_line()[:-2] + ', "p": 1, "p": 2}', "'p' occurs twice, as 1 and as"),
    ],
)
def test_malformed_dsjson(read, line, message):
    with pytest.raises(ValueError, match=f"line 1: .*{message}"):
        read(line, format="dsjson")
    # keys that agree may come twice
    line = dsjson_line()[:-2] + ', "_label_cost": -1.0, "x": 1, "x": 2}'
    assert len(read(line, format="dsjson")) == 1


# -- the logging distribution ---------------------------------------------------------
def ranked(read, a, p, propensity=0.5, n_actions=3):
    multi = [{f"x{k}": 1} for k in range(n_actions)]
    given = {"a": a, "p": p, "_label_Probability": propensity}
    given = {key: value for key, value in given.items() if value is not None}
    return read(dsjson_line({"_multi": multi}, **given), format="dsjson")


@pytest.mark.parametrize(
    ("a", "p", "expected"),
    [
        ([2, 1, 3], [0.5, 0.25, 0.25], [[0.25, 0.5, 0.25]]),
        ([1, 0, 2], [0.5, 0.25, 0.25], [[0.25, 0.5, 0.25]]),
        ([0, 1, 2], [0.25, 0.5, 0.25], [[0.25, 0.5, 0.25]]),
        (None, [0.25, 0.5, 0.25], None),
        ([1, 2, 3], None, None),
        (None, None, None),
        ([], [], None),
        ([2], [0.5], None),  # the logged action alone, from 1
        ([1], [0.5], None),  # or from 0
        ([1, 2], [0.5, 0.25], None),  # leaves one out, and may count from 0 or 1
    ],
)
def test_the_logging_distribution_follows_the_ranking(read, a, p, expected):
    found = ranked(read, a, p).logging_proba
    assert (None if found is None else found.tolist()) == expected


@pytest.mark.parametrize("n_actions", [2, 30, 500])
def test_many_actions_of_32_bits_agree(read, n_actions):
    p = np.random.default_rng(0).dirichlet(np.ones(n_actions)).astype(np.float32)
    a, told = list(range(n_actions)), p.astype(float).tolist()
    for one in (told[1], float(f"{told[1]:.7g}"), float(f"{told[1]:.2f}") or told[1]):
        proba = ranked(read, a, told, one, n_actions).logging_proba
        assert proba is None or proba.sum() == pytest.approx(1)


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
        ([1, 2, "3"], [0.25, 0.5, 0.25], "'3', which is not the number of an action"),
        ([1.0, 2, 3], None, "'a' holds 1.0, which is not the number of an action"),
        ([1, 1, 3], None, "'a' names action 1 twice"),
        (2, [0.25, 0.5, 0.25], "'a' must be an array, got 2"),
        ([1, 2, 3], 0.5, "'p' must be an array, got 0.5"),
    ],
)
def test_contradictions(read, a, p, message):
    with pytest.raises(ValueError, match=f"line 1: .*{message}"):
        ranked(read, a, p)


def test_tags_rounding_and_labels(read):
    lines = ""
    for tags, chosen, p in (("ba", 0, [0.5, 0.5]), ("cab", 1, [0.4, 0.5, 0.1])):
        multi = [{"_tag": tag, "x": 1} for tag in tags]
        a = list(range(1, len(p) + 1))
        lines += dsjson_line({"_multi": multi}, a=a, p=p, _labelIndex=chosen)
    logs = read(lines, action_labels="tag")
    assert_array_equal(logs.logging_proba, [[0.5, 0.5, 0], [0.5, 0.1, 0.4]])
    # rounding is no contradiction
    third = [0.33, 0.33, 0.33]
    rounded = [([0.5049, 0.25, 0.2451], 0.5), ([0.8166667, 0.0916, 0.0917], 0.81666)]
    for p, propensity in ((third, 0.33), (third, 1 / 3), *rounded):
        assert ranked(read, [2, 1, 3], p, propensity).logging_proba is None
    # the action of the label is the index counted from zero or one
    for action in (1, 2, "2"):
        assert read(dsjson_line(_label_Action=action), format="dsjson").action == [1]
    for action in (0, 3, 1.0, "x", "1_0", True, [1], 10**400):
        with pytest.raises(ValueError, match="must be 1, counted from 0, or 2, fr"):
            read(dsjson_line(_label_Action=action), format="dsjson")


# -- actions that come again are parsed once ------------------------------------------
ODD = [
    *("null", "true", "NaN", "-Infinity", "1e999", "01", "1.", "-0", "-0.0", "1e-400"),
    *("9" * 25, "9" * 400, "9" * 5000, "0.1234567890123456789", "18446744073709551617"),
    *("[]", "{}", "[[1]]", '[{"a":1}]', '{"a":1,"a":2}', '{"a":{"b":1},"a":{"b":1}}'),
    *('""', '"\\u0022:"', '"a\\":1"', '"},{"', '"}]},"', '"\\x"'),
    *('"x\ty"', '"\\u00e9"', '"\u00e9"', '"_multi"', '{"_multi":[{"a":1}]}'),
    *('{"x" :1,"x":2}', "{1:2}"),
]


def odd_line(seed):
    """Return an event of dsjson, of which something may be odd."""
    draw = random.Random(seed)
    n_actions = draw.randint(1, 4)
    position = draw.randrange(n_actions)
    actions = [
        {"_tag": f"t{k}", "i": {"id": f"a{k}", "x": draw.choice([0, 1, 0.5])}}
        for k in range(n_actions)
    ]
    actions[0]["j"] = [{"kind": draw.choice("ab"), "n": [1, 2.5]}]
    ranking = list(range(1, n_actions + 1))
    draw.shuffle(ranking)
    event = {
        "_label_cost": draw.choice([-1.0, 0, -0.0]),
        "_label_probability": 1 / n_actions,
        "_label_Action": position + 1,
        "_labelIndex": position,
        "Timestamp": "2021-02-04T16:31:29.2460000Z",
        "a": ranking,
        "c": {
            "User": {"age": draw.randint(0, 3), "city": 'Rome: "x"'},
            "_multi": actions,
        },
        "p": [1 / n_actions] * n_actions,
        "pdrop": draw.choice([0, 0.5]),
    }
    line = json.dumps(event, separators=(",", ":"))
    for _ in range(draw.choice([0, 1, 1, 2])):
        odd = draw.choice(ODD)
        where = draw.choice([",", ":", "[", "{", '"_multi":[', "},{", '"c":{'])
        places = [i for i in range(len(line)) if line.startswith(where, i)]
        place = draw.choice(places) + len(where) if places else 0
        how = draw.random()
        if how < 0.4:  # in the place of a value
            stop = min(i for i in (line.find(c, place) for c in ",]}") if i >= 0)
            line = line[:place] + odd + line[stop:]
        elif how < 0.8:  # a key more, maybe one that is there already
            keys = [*event, "x", "_multi", "_text", "id", "_label", "_slots"]
            line = line[:place] + f'"{draw.choice(keys)}":{odd},' + line[place:]
        else:
            line = line[:place] + draw.choice(list('"{}[],:\\ ')) + line[place:]
    return line


def outcome(read, line):
    """What the reader makes of a line, behind one that is right and has its actions."""
    try:
        logs = read(line, format="dsjson", n_features=16, n_action_features=8)
    except ValueError as error:
        places = r"\(char \d+\)|column \d+|\(\d[\d,]* characters\)"
        return re.sub(places, "", str(error))
    names = "context action reward propensity logging_proba sample_weight timestamp"
    found = [getattr(logs, name) for name in (*names.split(), "action_context")]
    found[0] = found[0].toarray()
    return [None if one is None else one.tolist() for one in found]


@pytest.mark.filterwarnings("ignore::skope_ope.exceptions.LogsWarning")
def test_lines_mean_the_same_however_they_are_parsed(read):
    # with a blank before its list of actions a line is parsed as a whole
    n_events = 0
    for seed in range(120):
        line = odd_line(seed)
        found = outcome(read, f"{line}\n{line}\n")
        whole = re.sub(r'("_multi":)(?=\[)', r"\1 ", line)
        assert repr(found) == repr(outcome(read, f"{whole}\n{whole}\n")), line
        n_events += isinstance(found, list)
    assert 30 < n_events < 110


def test_deep_lists_and_tags_that_are_no_text(read):
    deep = "[" * 300 + "]" * 300
    line = dsjson_line(EventId="deep").replace(": ", ":").replace(", ", ",")
    line = line.replace('"deep"', deep)
    assert outcome(read, line) == outcome(read, dsjson_line())
    # a tag that is no text
    line = dsjson_line({"_multi": [{"_tag": []}, {"b": 1}]})
    compact = line.replace(": ", ":").replace(", ", ",")
    assert outcome(read, compact) == outcome(read, line)
