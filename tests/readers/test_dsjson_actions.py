# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause

import json
import random
import sys

import pytest

from skope_ope.logs._text_files import DoubtError
from skope_ope.readers._jsonl_columns import plain_loader
from skope_ope.readers._vw_event import MalformedLineError, OtherLogError
from skope_ope.readers._vw_features import KnownActions
from skope_ope.readers._vw_json import DSJsonParser, features_of_object, parse_dsjson

ODD = [
    *("null", "true", "NaN", "-Infinity", "1e999", "01", "1.", "-0", "-0.0", "1e-400"),
    *("9" * 25, "9" * 400, "9" * 5000, "0.1234567890123456789", "18446744073709551617"),
    *("[]", "{}", "[[1]]", '[{"a":1}]', '{"a":1,"a":2}', '{"a":{"b":1},"a":{"b":1}}'),
    *('""', '"\\u0022:"', '"a\\":1"', '"},{"', '"}]},"', '"\\ud800"', '"\\x"'),
    *('"x\ty"', '"\\u00e9"', '"\u00e9"', '"_multi"', '{"_multi":[{"a":1}]}'),
    *('{"x" :1,"x":2}', "{1:2}"),
]


def dsjson_line(seed):
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
    separators = draw.choice([(",", ":"), (",", ":"), (",", ":"), (", ", ": ")])
    line = json.dumps(event, separators=separators)
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
            key = draw.choice(
                [*event, "x", "_multi", "_text", "id", "_label", "_slots"]
            )
            line = line[:place] + f'"{key}":{odd},' + line[place:]
        else:
            line = line[:place] + draw.choice(list('"{}[],:\\ ')) + line[place:]
    return line


def outcome(parse, line):
    try:
        event = parse(line)
    except (MalformedLineError, OtherLogError) as error:
        return type(error), str(error)
    return event and event._replace(
        actions=event.actions and [*map(list, event.actions)]
    )


@pytest.mark.parametrize("without_orjson", [False, True])
def test_known_actions_change_nothing(monkeypatch, without_orjson):
    if without_orjson:
        monkeypatch.setitem(sys.modules, "orjson", None)
    else:
        pytest.importorskip("orjson")
    parse = DSJsonParser()
    n_events = 0
    for seed in range(600):
        line = dsjson_line(seed)
        expected = outcome(parse_dsjson, line)
        assert repr(outcome(parse, line)) == repr(expected), line
        n_events += expected is not None and not isinstance(expected[0], type)
    assert 150 < n_events < 550


@pytest.fixture
def known():
    return KnownActions(plain_loader(), features_of_object)


def test_actions_that_come_again_are_the_same_objects(known):
    line = '{"c":{"_multi":[{"_tag":"x","a":1},{"b":{"c":[2]}}]},"p":[1]}'
    rest, actions, tags = known.lift(line)
    assert rest == '{"c":{"_multi":"lifted"},"p":[1]}'
    assert [list(action) for action in actions] == [[("a", 1.0)], [("b.c^0", 2.0)]]
    assert tags == ["x", None]
    _, again, _ = known.lift(line)
    assert all(one is other for one, other in zip(actions, again, strict=True))


@pytest.mark.parametrize(
    "line",
    [
        '{"c":{"_multi":[]},"p":[1]}',
        '{"c":{"_multi": [{"a":1}]},"p":[1]}',
        '{"c":{"_multi": [{"a":{"_multi":[{"a":1}]},"b":1}]},"p":[1]}',
        '{"c":{"_multi":[{"_tag":[]}]},"p":[1]}',
        '{"c":{"x\\"_multi":[{"a":1}]},"p":[1]}',
        '{"c":{"_multi":[{"a":1}],"_multi":[]},"p":[1]}',
        '{"c":{"_multi":[{"a":1,"a":1}]},"p":[1]}',
        '{"c":{"_multi":[{"_label_cost":1}]},"p":[1]}',
        '{"c":{"_multi":[{"a":"},{"}]},"p":[1]}',
        '{"c":{"_multi":[{"a":[{"b":1},{"b":2}]}]},"p":[1]}',
        '{"c":{"_multi":[{"a":[{"b":[{"c":1}]},"x"]}]},"p":[1]}',
    ],
)
def test_what_cannot_be_cut_is_parsed_as_a_whole(known, line):
    with pytest.raises(DoubtError):
        known.lift(line)
