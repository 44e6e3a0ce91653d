# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause

import json

import numpy as np
import pytest

from skope_ope.exceptions import LogsWarning
from skope_ope.readers._table_logs import Roles, read_table_logs

TEXT = """day,user,age,city,item,click,p,w
2026-01-01,u1,20,Rome,b,1,0.25,1
2026-01-02,u2,40,Oslo,a,0,0.75,2
2026-01-03,u1,,Rome,b,0,0.25,1
"""


@pytest.fixture
def path(tmp_path):
    path = tmp_path / "log.csv"
    path.write_text(TEXT)
    return path


def test_every_role_becomes_a_field(path):
    roles = Roles(
        action="item",
        reward="click",
        propensity="p",
        logger="city",
        timestamp="day",
        group="user",
        sample_weight="w",
        context=(),
    )
    logs = read_table_logs(path, roles).logs
    assert logs.action.tolist() == ["b", "a", "b"]
    np.testing.assert_array_equal(logs.reward, [1, 0, 0])
    np.testing.assert_array_equal(logs.propensity, [0.25, 0.75, 0.25])
    np.testing.assert_array_equal(logs.sample_weight, [1, 2, 1])
    assert logs.loggers.tolist() == ["Oslo", "Rome"]
    assert logs.group.tolist() == ["u1", "u2", "u1"]
    assert logs.timestamp[1] == np.datetime64("2026-01-02")
    assert logs.n_features == 0


def test_one_propensity_for_all(path):
    roles = Roles(action="item", reward="click", propensity=0.5, context=())
    np.testing.assert_array_equal(read_table_logs(path, roles).logs.propensity, 0.5)


def test_numbers_are_standardised_and_texts_one_hot(path):
    roles = Roles(action="item", reward="click", context=("age", "city"))
    source = read_table_logs(path, roles)
    expected = [[-1, 0, 1], [1, 1, 0], [np.nan, 0, 1]]
    np.testing.assert_allclose(source.logs.context, expected)
    np.testing.assert_array_equal(source.features["age"], [20, 40, np.nan])
    assert source.format == "csv"


def test_patterns_match_columns_that_mean_nothing_else(path):
    roles = Roles(action="item", reward="click", context=("c*", "age", "city"))
    assert list(read_table_logs(path, roles).features) == ["city", "age"]
    roles = Roles(action="item", reward="click", context=("c*y", "*a*"))
    assert list(read_table_logs(path, roles).features) == ["city", "day", "age"]
    with pytest.raises(ValueError, match=r"no column for the context matches 'z\*'"):
        read_table_logs(path, Roles(action="item", reward="click", context=("z*",)))


NAMED = {"action": "item", "reward": "click", "propensity": "p"}


@pytest.mark.parametrize("context", [None, ("*",), ("age", "*")])
def test_columns_that_are_no_context_may_be_named(path, context):
    roles = Roles(**NAMED, context=context, exclude=("w", "user", "click"))
    assert list(read_table_logs(path, roles).features) == ["day", "age", "city"]


@pytest.mark.parametrize("context", [None, ("*",), ("**",), ("age", "?*")])
def test_a_pattern_without_a_letter_names_no_more_than_silence(path, context):
    message = (
        "context with --context, .* with --exclude.*: 'day', 'user', 'age', 'city'"
    )
    with pytest.raises(ValueError, match=message):
        read_table_logs(path, Roles(**NAMED, context=context))


def test_exclusions_that_mean_nothing_are_refused(path):
    with pytest.raises(ValueError, match="no column 'spend'"):
        read_table_logs(path, Roles(**NAMED, exclude=("spend",)))
    for context in (("age",), ()):
        with pytest.raises(ValueError, match="--context and --exclude are both given"):
            read_table_logs(path, Roles(**NAMED, context=context, exclude=("w",)))


def test_nothing_needs_to_be_said_where_no_column_is_left(tmp_path):
    path = tmp_path / "log.csv"
    path.write_text("item,click,p\na,1,0.5\nb,0,0.5\n")
    assert read_table_logs(path, Roles(**NAMED)).logs.n_features == 0


def test_a_missing_column_is_told_before_the_context(path):
    with pytest.raises(ValueError, match=r"no column 'clicks'\. Did you mean 'click'"):
        read_table_logs(path, Roles(action="item", reward="clicks"))


def test_what_a_saved_policy_looks_at_may_be_context_as_well(path):
    roles = Roles(**NAMED, exclude=("day", "user", "w"), extra=(("age", "feature"),))
    assert list(read_table_logs(path, roles).features) == ["age", "city"]


def test_another_file_is_not_asked_for_more_columns(path, tmp_path):
    """Its own further columns are no context that the first file knows."""
    roles = Roles(**NAMED, exclude=("day", "user", "w"))
    first = read_table_logs(path, roles)
    other = tmp_path / "other.csv"
    other.write_text(
        "note,item,click,p,age,city\n5,a,1,0.5,30,Rome\n6,b,0,0.5,1,Oslo\n"
    )
    second = read_table_logs(other, roles, like=first)
    assert list(second.features) == ["age", "city"]


def test_extra_columns_come_beside_the_logs(path):
    extra = (("age", "feature"),)
    roles = Roles(action="item", reward="click", context=(), extra=extra)
    extra = read_table_logs(path, roles).extra
    np.testing.assert_array_equal(extra["age", "feature"], [20, 40, np.nan])


def test_another_file_is_encoded_alike(path, tmp_path):
    roles = Roles(action="item", reward="click", context=("age", "city"))
    first = read_table_logs(path, roles)
    other = tmp_path / "other.csv"
    other.write_text("item,click,age,city\na,1,30,Kyiv\na,0,50,Oslo\n")
    second = read_table_logs(other, roles, like=first)
    np.testing.assert_allclose(second.logs.context, [[0, 0, 0], [2, 1, 0]])
    assert second.logs.actions.tolist() == ["a", "b"]
    other.write_text("item,click,age,city\na,1,30,7\n")
    with pytest.raises(ValueError, match="column 'city' holds texts in one of the fil"):
        read_table_logs(other, roles, like=first)


@pytest.mark.parametrize(
    ("items", "listed", "actions"),
    [
        ("ab", ("b", "a", "c"), ["b", "a", "c"]),
        ("12", ("2", "1", "3"), [2, 1, 3]),
        ("12", ("2", "1", "x"), ["2", "1", "x"]),
        (("1", "x"), ("1", "x"), ["1", "x"]),
    ],
)
def test_listed_actions_are_of_the_kind_of_the_logged_ones(
    tmp_path, items, listed, actions
):
    path = tmp_path / "log.csv"
    path.write_text("item,click\n" + "".join(f"{item},1\n" for item in items))
    roles = Roles(action="item", reward="click", actions=listed)
    logs = read_table_logs(path, roles).logs
    assert logs.actions.tolist() == actions
    assert set(logs.action.tolist()) <= set(actions)


def test_an_action_that_is_not_listed_is_refused(path):
    roles = Roles(action="item", reward="click", context=(), actions=("a", "c"))
    with pytest.raises(ValueError, match="action 'b' at line 2 is not among actions"):
        read_table_logs(path, roles)


@pytest.mark.parametrize(
    ("context", "message"),
    [
        (("age", "click"), "column 'click' is the reward, so it cannot"),
        (("p",), "column 'p' is the propensity"),
        (("age", "city", "age"), "names column 'age' twice"),
    ],
)
def test_what_was_done_is_no_context(path, context, message):
    roles = Roles(action="item", reward="click", propensity="p", context=context)
    with pytest.raises(ValueError, match=message):
        read_table_logs(path, roles)


def test_json_lines_are_what_the_csv_file_is(path, tmp_path):
    other = tmp_path / "log.jsonl"
    header, *rows = TEXT.splitlines()
    names = header.split(",")
    with other.open("w") as file:
        for row in rows:
            event = dict(zip(names, row.split(","), strict=True))
            for name in ("age", "click", "p", "w"):
                event[name] = float(event[name]) if event[name] else None
            event["user"] = {"id": event["user"], "age": event.pop("age")}
            file.write(json.dumps(event) + "\n\n")
    common = {"action": "item", "reward": "click", "propensity": "p"}
    roles = Roles(**common, group="user", context=("age", "city"))
    nested = Roles(**common, group="user.id", context=("user.*", "city"))
    left = read_table_logs(path, roles)
    right = read_table_logs(other, nested, format="jsonl")
    assert right.format == "jsonl"
    assert list(right.features) == ["user.age", "city"]
    for name in ("context", "action", "reward", "propensity", "group"):
        np.testing.assert_array_equal(
            getattr(left.logs, name), getattr(right.logs, name)
        )
    text = other.read_text().replace('"p": 0.75', '"p": 1.5')
    other.write_text(text)
    with pytest.raises(ValueError, match=r"log\.jsonl: .* at line 3"):
        read_table_logs(other, nested, format="jsonl")


def test_context_by_object_and_by_pattern(tmp_path):
    path = tmp_path / "log.jsonl"
    line = {"a": "x", "r": 1, "p": 0.5, "request": {"n": 2, "lang": "en"}, "cost": 3}
    path.write_text(f"{json.dumps(line)}\n" * 2)
    for context in ("request", "request.*", "request.?*"):
        roles = Roles(action="a", reward="r", propensity="p", context=(context,))
        found = read_table_logs(path, roles, format="jsonl").features
        assert list(found) == ["request.n", "request.lang"]


@pytest.mark.parametrize(
    "given",
    [
        ("route.probs.b", "route.probs.a", "route.probs.c"),
        ("route.probs",),
        ("c=route.probs.c", "a=route.probs.a", "b=route.probs.b"),
    ],
)
def test_all_probabilities_of_a_trace(tmp_path, given):
    path = tmp_path / "log.jsonl"
    proba = {"c": 0.5, "a": 0.2, "b": 0.3}
    lines = [
        {"route": {"model": one, "probs": proba}, "solved": one == "b"} for one in "aba"
    ]
    path.write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    roles = Roles(
        action="route.model", reward="solved", logging_proba=given, context=()
    )
    logs = read_table_logs(path, roles, format="jsonl").logs
    assert logs.actions.tolist() == ["a", "b", "c"]  # c was never logged
    np.testing.assert_array_equal(logs.logging_proba, [[0.2, 0.3, 0.5]] * 3)
    np.testing.assert_array_equal(logs.propensity, [0.2, 0.3, 0.2])


@pytest.mark.parametrize("format", ["csv", "parquet"])
def test_all_probabilities_of_columns_in_order(tmp_path, format):
    path = tmp_path / f"log.{format}"
    table = {"item": [1, 2], "click": [0, 1], "p1": [0.33, 0.5], "p2": [0.66, 0.5]}
    if format == "csv":
        rows = zip(*table.values(), strict=True)
        lines = [",".join(table), *(",".join(map(str, row)) for row in rows)]
        path.write_text("\n".join(lines))
    else:
        pyarrow = pytest.importorskip("pyarrow")
        pytest.importorskip("pyarrow.parquet").write_table(pyarrow.table(table), path)
    roles = Roles(action="item", reward="click", logging_proba=("p1", "p2"), context=())
    with pytest.warns(LogsWarning, match="rounded to 2 digits, so 1 of 2 rows"):
        logs = read_table_logs(path, roles, format=format).logs
    np.testing.assert_allclose(logs.logging_proba, [[1 / 3, 2 / 3], [0.5, 0.5]])


def test_probabilities_and_actions_that_do_not_fit(path):
    def read(*given, **roles):
        roles = {"action": "item", "reward": "click", "context": (), **roles}
        return read_table_logs(path, Roles(logging_proba=given, **roles))

    with pytest.raises(ValueError, match=r"names 1 columns .p., but there are 2 act"):
        read("p")
    with pytest.raises(ValueError, match="no column 'q'"):
        read("p", "q")
    with pytest.raises(ValueError, match="names 'a' twice"):
        read("a=p", "a=w")


@pytest.mark.parametrize("format", ["csv", "jsonl", "parquet"])
def test_a_missing_reward_is_never_to_be_filled(tmp_path, format):
    path = tmp_path / f"log.{format}"
    if format == "csv":
        path.write_text("item,click\na,1\nb,\n")
    elif format == "jsonl":
        path.write_text('{"item": "a", "click": 1}\n{"item": "b", "click": null}\n')
    else:
        pyarrow = pytest.importorskip("pyarrow")
        table = pyarrow.table({"item": ["a", "b"], "click": [1, None]})
        pytest.importorskip("pyarrow.parquet").write_table(table, path)
    roles = Roles(action="item", reward="click", context=())
    with pytest.raises(ValueError, match="unrelated to action and outcome; never fil"):
        read_table_logs(path, roles, format=format)
