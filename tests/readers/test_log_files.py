# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Files of any format as the command line reads them, with columns named by options."""

import gzip
import json
import re

import pytest
from numpy.testing import assert_allclose

from skope_ope.__main__ import main

TEXT = """day,user,age,city,item,click,p,w
2026-01-01,u1,20,Rome,b,1,0.25,1
2026-01-02,u2,40,Oslo,a,0,0.75,2
2026-01-03,u1,,Rome,b,0,0.25,1
"""
OPEN_BANDIT = """timestamp,item_id,position,click,propensity_score,user_feature_0
2019-11-24 00:00:01+00:00,1,3,0,0.5,young
2019-11-24 00:00:02+00:00,0,1,1,0.5,old
"""
ITEM = ("--action", "item", "--reward", "click")
NAMED = (*ITEM, "--propensity", "p")
BARE = ("--context", "")
VW_EVENT = (
    '{{"_label_cost": {}, "_label_probability": 0.5, "_label_Action": {}, '
    '"_labelIndex": {}, "a": [{}, {}], "p": [0.5, 0.5], "c": {{"_multi": '
    '[{{"x": 1}}, {{"x": 2}}]}}}}\n'
)


@pytest.fixture
def write(tmp_path):
    def write(name, text):
        path = tmp_path / name
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return path

    return write


@pytest.fixture
def path(write):
    return write("log.csv", TEXT)


@pytest.fixture
def audited(capsys):
    def audited(path, *words):
        assert main(["audit", str(path), *words, "--json"]) in (0, 1)
        return json.loads(capsys.readouterr().out)

    return audited


@pytest.fixture
def refused(capsys):
    def refused(path, *words):
        assert main(["audit", str(path), *words]) == 2
        return capsys.readouterr().err

    return refused


# -- formats --------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        ("log.csv", "item,click\na,1\n", "csv"),
        ("log.csv", "item,a|b\n", "csv"),
        ("log.txt", "\n\nitem,click\n", "csv"),
        ("log.csv", OPEN_BANDIT, "open-bandit"),
        ("log.txt", "1:0:0.5 | a b\n", "vw"),
        ("log.txt", "shared | a\n0:1:0.5 | b\n", "vw"),
        ("log.txt", "| a b\n", "vw"),
        ("log.txt", "'tag| a b\n", "vw"),
        ("log.txt", "ccb shared | a\n", "vw"),
        ("log.csv", "0,a|b\n", "csv"),
        ("log.txt", '{"_label_cost": 0}\n', "vw"),
        ("log.dat", "1 2 3\n", "vw"),
        ("log.jsonl", '{"action": "a", "reward": 1}\n', "jsonl"),
        ("log.ndjson", '{"c": "text", "a": 1}\n', "jsonl"),
        ("log.txt", '{"action": "a"}\n', "jsonl"),
        ("log.jsonl", '{"action": \n', "jsonl"),
        ("log.jsonl", "action,reward\n", "jsonl"),
        ("log.jsonl", '{"_label_cost": \n', "vw"),
        ("log.jsonl", '{"_labelIndex": 0, "_multi": []}\n', "vw"),
        ("log.jsonl", '{"EventId": "e", "a": [1], "c": {"x": 1}}\n', "vw"),
        ("log.json", '{"action": "a"}\n', "vw"),
        ("log", b"PAR1\x15\x04\x00\xff", "parquet"),
    ],
)
@pytest.mark.parametrize("packed", [False, True])
def test_formats(write, audited, refused, name, text, expected, packed):
    if isinstance(text, str) and packed:
        name, text = f"{name}.gz", gzip.compress(text.encode())
    path = write(name, text)
    if expected == "open-bandit":
        assert "(open-bandit): 2 rounds" in audited(path)["about"]["log"]
        return
    words = ITEM if expected == "vw" else ()
    found = re.search(r" is read as ([\w-]+)", refused(path, *words))
    assert found.group(1) == expected


def test_formats_that_are_named_or_refused(write, refused, path, audited, tmp_path):
    # columns are named for tables and refused elsewhere
    assert "is read as csv: name the columns of the action" in refused(path)
    assert "with --action and --reward" in refused(path, "--action", "item")
    vw = write("log.txt", "1:0:0.5 | a\n")
    assert "is read as vw, whose columns are known" in refused(vw, *ITEM)
    # what cannot be read
    packed = gzip.compress(b"item,click\n" * 5, mtime=0)
    assert "damaged or cut off" in refused(write("log.csv", packed[:-9]))
    for data in (b"", b"\n \n"):
        assert "log.csv is empty" in refused(write("log.csv", data))
    path.unlink()
    assert "log.csv: no such file" in refused(path)
    # logs of vw
    path = write("log.vw", "1:0:0.5 | a\n2:1:nonsense | b\n")
    assert "line 2" in refused(path)
    words = "--skip-bad-lines", "--format", "vw-cb"
    assert audited(path, *words)["n_rounds"] == 1
    path = write("log.txt", "1 1:0:0.5 | a\n1 2:1:0.5 | b\n")
    assert audited(path, "--format", "vw-cb-eval")["n_actions"] == 2
    events = VW_EVENT.format(-1, 1, 0, 1, 2) + VW_EVENT.format(0, 2, 1, 2, 1)
    assert "(vw): 2 rounds" in audited(write("log.jsonl", events))["about"]["log"]
    # open bandit is a campaign or a table
    write(f"{tmp_path.name}.csv", OPEN_BANDIT)
    assert "(open-bandit)" in audited(tmp_path)["about"]["log"]
    path = write("men.csv", OPEN_BANDIT)
    words = ("--action", "item_id", "--reward", "click", "--context", "")
    found = audited(path, *words, "--propensity", "propensity_score")
    assert "(csv): 2 rounds, 2 actions, 0 features" in found["about"]["log"]


@pytest.mark.frames
def test_real_files(data_dir, refused):
    assert "is read as csv" in refused(data_dir / "hillstrom_email_part1.csv.gz")
    for path in (data_dir / "vw").iterdir():
        assert "is read as vw" in refused(path, *ITEM)


# -- what columns mean ----------------------------------------------------------------
def test_every_role_becomes_a_field(path, audited):
    words = ("--logger", "city", "--timestamp", "day", "--group", "user")
    found = audited(path, *NAMED, *words, "--weight", "w", "--context", "")
    facts = found["facts"]
    assert facts["actions"] == {
        "action": ["a", "b"],
        "rounds": [1, 2],
        "mean reward": [0.0, 0.5],
        "mean propensity": [0.75, 0.25],
    }
    assert facts["loggers"]["logger"] == ["Rome", "Oslo"]
    assert facts["sample weight, mean"] == pytest.approx(4 / 3)
    assert (facts["groups"], facts["features"]) == (2, 0)
    times = [facts["first time"], facts["last time"]]
    assert times == ["2026-01-01T00:00:00.000000", "2026-01-03T00:00:00.000000"]


@pytest.mark.parametrize(
    ("words", "n_features"),
    [
        (("--context", "age,city"), 2),
        (("--context", "c*,age,city"), 2),
        (("--context", "c*y,*a*"), 3),  # day, age and city
        (("--exclude", "w,user,click"), 3),
        (("--exclude", "w,user,click", "--context", "*"), 3),
        (("--exclude", "w,user,click", "--context", "age,*"), 3),
        (("--context", ""), 0),
    ],
)
def test_the_context(path, audited, words, n_features):
    log = audited(path, *NAMED, *words)["about"]["log"]
    assert f" {n_features} features" in log
    if n_features == 0:  # nothing needs to be said where no column is left
        path.write_text("item,click,p\na,1,0.5\nb,0,0.5\n")
        assert audited(path, *NAMED)["facts"]["features"] == 0


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ((*NAMED, "--context", "z*"), "no column for the context matches 'z*'"),
        (NAMED, "'day', 'user', 'age', 'city'"),
        # a pattern without a letter names no more than silence
        ((*NAMED, "--context", "*"), "'day', 'user', 'age', 'city'"),
        ((*NAMED, "--context", "**"), "'day', 'user', 'age', 'city'"),
        ((*NAMED, "--context", "age,?*"), "'day', 'user', 'age', 'city'"),
        ((*NAMED, "--exclude", "spend"), "no column 'spend'"),
        ((*NAMED, "--exclude", "w", "--context", "age"), "--exclude are both given"),
        ((*NAMED, "--context", "age,click"), "column 'click' is the reward, so it can"),
        ((*NAMED, "--context", "p"), "column 'p' is the propensity"),
        ((*NAMED, "--context", "age,city,age"), "names column 'age' twice"),
        ((*NAMED, *BARE, "--actions", "a,c"), "action 'b' at line 2 is not among act"),
        ((*ITEM, *BARE, "--logging-proba", "p"), "names 1 columns (p), but there are"),
        ((*ITEM, *BARE, "--logging-proba", "p,q"), "no column 'q'"),
        ((*ITEM, *BARE, "--logging-proba", "a=p,a=w"), "names 'a' twice"),
        ((*ITEM, *BARE, "--reward", "click-3*w"), "must be the name of one field"),
    ],
)
def test_columns_that_mean_nothing(path, refused, words, message):
    assert message in refused(path, *words)


def test_labels_and_their_order(write, audited, refused):
    for items, actions in (
        ("ab", ["b", "a", "c"]),
        ("12", [2, 1, 3]),
        ("12", ["2", "1", "x"]),
        ("1x", ["1", "x"]),
    ):
        path = write("log.csv", "item,click\n" + "".join(f"{one},1\n" for one in items))
        found = audited(path, *ITEM, "--actions", ",".join(map(str, actions)))
        assert found["facts"]["actions"]["action"] == actions
    # numbers stay in their order and other orders are refused
    path = write("log.csv", "item,click,p.10,p.9\n9,1,0.25,0.75\n9,0,0.25,0.75\n")
    table = audited(path, *ITEM, "--logging-proba", "p.10,p.9")["facts"]["actions"]
    assert table["action"] == [9, 10]
    assert table["mean propensity"][0] == 0.75
    path = write("log.csv", "item,click,p_b,p_a\na,1,0.5,0.5\nb,0,0.5,0.5\n")
    told = refused(path, *ITEM, *BARE, "--logging-proba", "p_b,p_a")
    assert "in this order, or as LABEL=COLUMN" in told


@pytest.mark.frames
@pytest.mark.parametrize("format", ["csv", "parquet"])
def test_rounded_probabilities_of_all_actions(tmp_path, audited, format):
    path = tmp_path / f"log.{format}"
    table = {"item": [1, 2], "click": [0, 1], "p1": [0.33, 0.5], "p2": [0.66, 0.5]}
    frame = pytest.importorskip("pandas").DataFrame(table)
    if format == "csv":
        frame.to_csv(path, index=False)
    else:
        pytest.importorskip("pyarrow")
        frame.to_parquet(path)
    found = audited(path, *ITEM, "--logging-proba", "p1,p2", *BARE)
    actions = found["facts"]["actions"]
    assert_allclose(actions["mean propensity"], [1 / 3, 0.5])
    assert "rounded to 2 digits, so 1 of 2 rows" in json.dumps(found)


NAMES = ["route.probs.b,route.probs.a,route.probs.c", "route.probs"]
NAMES.append("c=route.probs.c,a=route.probs.a,b=route.probs.b")


@pytest.mark.parametrize("given", NAMES)
def test_all_probabilities_of_a_trace(write, audited, given):
    proba, text = {"c": 0.5, "a": 0.2, "b": 0.3}, ""
    for one in "aba":
        event = {"route": {"model": one, "probs": proba}, "solved": one == "b"}
        text += f"{json.dumps(event)}\n"
    path = write("log.jsonl", text)
    words = ("--action", "route.model", "--reward", "solved", "--context", "")
    found = audited(path, *words, "--logging-proba", given)
    table = found["facts"]["actions"]
    assert table["action"] == ["a", "b", "c"]  # c was never logged
    assert table["mean propensity"][:2] == [0.2, 0.3]


def test_json_lines_are_what_the_csv_file_is(path, write, audited, refused):
    pytest.importorskip("pandas")
    header, *rows = TEXT.splitlines()
    text = ""
    for row in rows:
        event = dict(zip(header.split(","), row.split(","), strict=True))
        for name in ("age", "click", "p", "w"):
            event[name] = float(event[name]) if event[name] else None
        event["user"] = {"id": event["user"], "age": event.pop("age")}
        text += json.dumps(event) + "\n\n"
    other = write("log.jsonl", text)
    left = audited(path, *NAMED, "--group", "user", "--context", "age,city")
    nested = (*NAMED, "--group", "user.id", "--context", "user.*,city")
    right = audited(other, *nested)
    for found in (left, right):
        found["facts"].pop("missing values", None)
        del found["arguments"], found["about"]
        for one in found["findings"]:
            one["text"] = one["text"].replace("user.age", "age")
            one["columns"] = [
                name.replace("user.age", "age") for name in one["columns"]
            ]
    assert left == right
    wrong = write("log.jsonl", text.replace('"p": 0.75', '"p": 1.5'))
    assert "at line 3" in refused(wrong, *nested)
    named = write("log.json", text)
    assert audited(named, *nested, "--format", "jsonl")["n_rounds"] == 3


@pytest.mark.frames
@pytest.mark.parametrize("format", ["csv", "jsonl", "parquet"])
def test_a_missing_reward_is_never_to_be_filled(tmp_path, refused, format):
    pandas, path = pytest.importorskip("pandas"), tmp_path / f"log.{format}"
    frame = pandas.DataFrame({"item": ["a", "b"], "click": [1, None]})
    if format == "csv":
        frame.to_csv(path, index=False)
    elif format == "jsonl":
        frame.to_json(path, orient="records", lines=True)
    else:
        pytest.importorskip("pyarrow")
        frame.to_parquet(path)
    told = refused(path, *ITEM, *BARE)
    assert "unrelated to action and outcome; never fil" in told


def test_texts_of_features(write, audited, path, capsys):
    # another file has columns of the same kind
    other = write("other.csv", TEXT.replace("Rome", "1").replace("Oslo", "2"))
    words = (*NAMED, "--context", "age,city", "--policy", "uniform")
    assert main(["evaluate", str(path), *words, "--compare-logs", str(other)]) == 2
    assert "'city' holds texts in one of the files" in capsys.readouterr().err
    # rare texts share a column
    cities = [f"c{i}" for i in range(150)]
    lines = [f"{i % 2},1,0.5,{city}\n" for i, city in enumerate(cities + cities[:90])]
    path = write("log.csv", "item,click,p,city\n" + "".join(lines))
    found = audited(path, *NAMED, "--context", "city")
    assert "'city' holds 150 different texts" in json.dumps(found)
    assert "(as 100 columns" in found["about"]["log"]


# -- rows that cannot be --------------------------------------------------------------
LINES = 'a,r,p,x,w\n0,0,0.5,"text\nover lines",1\n\n1,1,0.5,text,1\n1,0,0.5,text,1\n'


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("1,0,0.5", "1,0,0", "got 0 at line 6 (1 such rows)"),
        ("1,0,0.5", "1,0,50", "got 50 at line 6"),
        ("1,0,0.5", "1,0,1e-320", "propensity must lie"),
        ("text,1\n1,0,0.5,text,1", "text,1\n1,0,0.5,text,-1", "got -1 at line 6"),
        (",1\n", ",0\n", "sample_weight is zero everywhere"),
    ],
)
def test_rows_that_cannot_be_are_told_with_their_line(
    write, refused, old, new, message, packed
):
    text = LINES.replace(old, new).encode()
    path = write("log.csv", gzip.compress(text) if packed else text)
    words = ("--action", "a", "--reward", "r", "--propensity", "p", "--weight", "w")
    told = refused(path, *words, "--context", "x")
    assert "log.csv: " in told and message in told
