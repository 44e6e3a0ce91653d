# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause

import gzip
import json
import warnings

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.feature_extraction import FeatureHasher

from skope_ope.exceptions import LogsWarning
from skope_ope.readers import read_vw

CB = "1:0:0.5 |User age:31 city=Paris\n2:-1:0.25 |User age:52 city=Rome\n"
ADF = """shared |User user=Tom
|Action article=politics
0:1.5:0.8 |Action article=sports

shared |User user=Anna
0:-1:0.2 |Action article=politics
|Action article=sports
"""
ARTICLES = [{"Action": {"article": name}} for name in ("politics", "sports")]
LABELS = ("_label_Cost", "_label_Probability", "_labelIndex")
JSON = [
    {
        "User": {"user": name},
        "_multi": ARTICLES,
        **dict(zip(LABELS, label, strict=True)),
    }
    for name, label in (("Tom", (1.5, 0.8, 1)), ("Anna", (-1, 0.2, 0)))
]
DSJSON = [
    {
        "c": {key: event[key] for key in ("User", "_multi")},
        **{key: event[key] for key in LABELS},
        "Timestamp": f"2021-02-04T16:31:2{i}.2460000Z",
    }
    for i, event in enumerate(JSON)
]


def lines(events):
    return "".join(json.dumps(event) + "\n" for event in events)


FILES = {"cb": CB, "cb_adf": ADF, "json": lines(JSON), "dsjson": lines(DSJSON)}


def columns_of(logs, row):
    return set(logs.context[row].indices)


@pytest.fixture
def write(tmp_path):
    def write(text, name="log.vw"):
        path = tmp_path / name
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return path

    return write


def column_of(name, n_features=2**18):
    hasher = FeatureHasher(n_features, input_type="string", alternate_sign=False)
    return int(hasher.transform([[name]]).indices[0])


def assert_same_logs(a, b):
    for field in ("action", "actions", "reward", "propensity", "action_context"):
        assert_array_equal(getattr(a, field), getattr(b, field))
    assert (a.context != b.context).nnz == 0


def test_cb_and_its_columns(write):
    logs = read_vw(write(CB))
    assert_array_equal(logs.action, [1, 2])
    assert_array_equal(logs.reward, [0.0, 1.0])
    assert_array_equal(logs.propensity, [0.5, 0.25])
    assert logs.context.shape == (2, 2**18)
    assert logs.context[1, column_of("User^age")] == 52.0
    assert logs.context[1, column_of("User^city=Rome")] == 1.0
    assert logs.context.nnz == 4
    assert_same_logs(logs, read_vw(write(CB), format="cb"))
    assert_same_logs(logs, read_vw(write(gzip.compress(CB.encode()), "log.vw.gz")))
    # columns of features
    one = read_vw(write("1:0:1 | a b\n", "1.vw"), n_features=2**10)
    two = read_vw(write("1:0:1 | b c\n2:0:1 | a\n", "2.vw"), n_features=2**10)
    assert one.context.shape[1] == two.context.shape[1] == 1024
    assert columns_of(two, 0) & columns_of(one, 0) == {column_of("b", 1024)}
    assert columns_of(two, 1) == {column_of("a", 1024)}
    path = write(ADF)
    assert read_vw(path, n_action_features=8).action_context.shape == (2, 8)
    assert read_vw(path, n_action_features=0).action_context is None
    own = read_vw(path, n_action_features=None).action_context
    assert own.shape == (2, 2)
    assert_array_equal(own.sum(axis=0), 1)
    text = "| a\n0:1:0.5 | b\n\n| c\n0:1:0.5 | d\n"
    assert read_vw(write(text)).action_context.shape == (2, 2, 256)
    with pytest.raises(ValueError, match="Pass a smaller n_action_features"):
        read_vw(write(text), max_action_bytes=2 * 2 * 256 * 8 - 1)
    same = read_vw(write(ADF), max_action_bytes=2 * 256 * 8)
    assert same.action_context.shape == (2, 256)


@pytest.mark.parametrize("name", ["cb_adf", "json", "dsjson"])
def test_lists_of_actions(write, name):
    logs = read_vw(write(FILES[name]))
    assert_array_equal(logs.actions, [0, 1])
    assert_array_equal(logs.action, [1, 0])
    assert_array_equal(logs.reward, [-1.5, 1.0])
    assert_array_equal(logs.propensity, [0.8, 0.2])
    assert columns_of(logs, 0) == {column_of("User^user=Tom")}
    assert logs.available is None
    expected = np.zeros((2, 256))
    expected[0, column_of("Action^article=politics", 256)] = 1
    expected[1, column_of("Action^article=sports", 256)] = 1
    assert_array_equal(logs.action_context, expected)
    assert_same_logs(logs, read_vw(write(FILES["cb_adf"])))
    if name == "dsjson":
        assert str(logs.timestamp[1]) == "2021-02-04T16:31:21.246000"
    assert_same_logs(logs, read_vw(write(FILES[name]), format=name))


@pytest.mark.parametrize(
    ("text", "n_rounds"),
    [
        ("| a\n0:1:0.5 | b\n", 1),  # an event without a shared line
        ("\n\n| a\n1:1:0.5 | b\n\n| c\n", 1),
        ("1:1:0.5 | a\n\n2:1:0.5 | b\n", 2),  # single lines, empty ones between them
        ("| a\n1:1:0.5 | b\n2:0:0.5 | c\n", 2),
        ("1:1:0.5 | a\n", 1),
        ("1:1:0.5 | a\n" * 1500, 1500),  # told from the first lines
        ("| a\n1:1:0.5 | b\n\n" * 700, 700),
    ],
)
@pytest.mark.filterwarnings("ignore::skope_ope.exceptions.LogsWarning")
def test_single_lines_and_blocks_of_lines(write, text, n_rounds):
    logs = read_vw(write(text))
    assert len(logs) == n_rounds
    assert (logs.available is None) == (logs.n_actions < 3)


@pytest.mark.parametrize(
    ("text", "n_skipped"),
    [
        (CB + "| a\n3 | b\n", 2),
        (ADF + "\n| a\n| b\n", 1),
        (FILES["json"] + '{"_multi": [{}, {}]}\n', 1),
        (lines([*DSJSON, {"EventId": "x"}, DSJSON[0] | {"_skipLearn": True}]), 2),
    ],
)
def test_unlabelled_events_are_counted(write, text, n_skipped):
    with pytest.warns(LogsWarning, match="without a cost and a prob") as caught:
        logs = read_vw(write(text))
    assert len(logs) == 2
    assert [w.message.value for w in caught] == [n_skipped]
    assert caught[0].filename == __file__


MALFORMED = [
    ("cb", CB + "1:x:0.5 | a\n", 3, "the cost 'x'"),
    ("cb", "\n" + CB + "\n1:1:2 | a\n", 5, "probability of the logged action is 2"),
    ("cb_adf", ADF + "\n| a\n0:1:0.5 | b:\n", 10, "the feature 'b:'"),
    ("json", "\n" + FILES["json"] + '{"_multi": [\n', 4, "not valid JSON"),
    ("dsjson", FILES["dsjson"] + lines([{**DSJSON[0], "pdrop": 1}]), 3, "'pdrop' is"),
    ("cb", CB + "1:0:0_1.0 | a\n", 3, "the probability '0_1.0'"),
    ("cb", CB + "1:0:1e-320 | a\n", 3, "probability of the logged action is 9.99"),
    ("cb", CB + "1:0:0.5 | a\r| b\n", 3, "the line holds a carriage return"),
    ("cb", CB + "1" * 5000 + ":0:0.5 | a\n", 3, r"'1+\.\.\. \(5,002 characters\) is n"),
]


def test_events_that_contradict_each_other(write):
    events = [{**DSJSON[k], "_label_Action": 1} for k in (1, 0)]
    pattern = "line 2: '_label_Action' counts from 0 here and from 1 in the events ab"
    with pytest.raises(ValueError, match=pattern):
        read_vw(write(lines(events)))
    events[1]["_label_Action"] = 2
    assert len(read_vw(write(lines(events)))) == 2
    text = FILES["dsjson"]
    text = text.replace('"c":', '"x":', 1) + text
    pattern = "line 1: the event has a label, but no 'c'.*format='dsjson'"
    with pytest.raises(ValueError, match=pattern):
        read_vw(write(text))


@pytest.mark.parametrize("field", ["Timestamp", "p"])
def test_what_some_events_lack_is_counted(write, field):
    whole = [{**event, "a": [1, 2], "p": [0.2, 0.8]} for event in DSJSON]
    logs = read_vw(write(lines(whole)))
    assert logs.timestamp is not None
    assert_array_equal(logs.logging_proba, [[0.2, 0.8]] * 2)
    whole[1].pop(field)
    pattern = rf"1 of 2 event\(s\) have no '{field}'"
    with pytest.warns(LogsWarning, match=pattern) as told:
        logs = read_vw(write(lines(whole)))
    assert [w.message.value for w in told] == [1]
    assert told[0].filename == __file__
    assert (logs.timestamp is None) == (field == "Timestamp")
    assert (logs.logging_proba is None) == (field == "p")


@pytest.mark.parametrize(("name", "text", "number", "message"), MALFORMED)
def test_malformed_lines_raise_with_their_number_or_are_skipped(
    write, name, text, number, message
):
    pattern = rf"log\.vw, line {number}: .*{message}.*format='{name}'.*on_error='skip'"
    with pytest.raises(ValueError, match=pattern):
        read_vw(write(text))
    with pytest.warns(LogsWarning, match=rf"line {number}: .*{message}") as caught:
        logs = read_vw(write(text), on_error="skip")
    assert [w.message.value for w in caught] == [1]
    assert_same_logs(logs, read_vw(write(FILES[name])))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "log.vw is empty"),
        ("\n \n", "log.vw is empty"),
        ("| a\n\n| b\n", "2 without a cost and a probability, 0 malformed"),
        ('{"_multi": [{}]}\n', "`_label_probability` in JSON"),
        ("time,item,click\n1,2,3\n", "line 1: no '|' in 'time,item,click'"),
        ('[{"a": 1}]\n', "line 1: no '|'"),
        ('{\n  "a": 1\n}\n', "line 1: not valid JSON"),
        ("ccb shared | a\n", "line 1: this is a conditional contextual bandit"),
        ("slates shared 1 | a\n", "line 1: this is a slates log"),
        ("ca 1.5:2:0.1 | a\n", "line 1: this is a log of continuous actions"),
        ('{"c": {"_slots": [], "_multi": []}}\n', "not a single-action log"),
        ('{"_label_ca": {"action": 1}, "c": {}}\n', "continuous actions"),
        ('{"o": [{"_definitely_bad": true}], "c": {}}\n', "in place of rewards"),
    ],
)
def test_files_that_are_no_bandit_logs(write, text, message):
    with pytest.raises(ValueError, match=message):
        read_vw(write(text))


def test_what_is_skipped_and_what_never(write, tmp_path):
    with pytest.raises(ValueError, match="leave it out with action_labels='tag'"):
        read_vw(write(ADF), action_labels="tag", n_actions=3)
    with pytest.raises(ValueError, match="line 3: this is a slates log"):
        read_vw(write(CB + "slates shared 1 | a\n"), on_error="skip")
    pattern = r"0 without .*, 2 malformed, read as .*line 1"
    with pytest.raises(ValueError, match=pattern):
        read_vw(write("a,b\nc,d\n"), on_error="skip")
    with pytest.raises(FileNotFoundError, match="no such file"):
        read_vw(tmp_path / "absent.vw")
    whole = gzip.compress((CB * 1000).encode())
    for on_error in ("raise", "skip"):
        with pytest.raises(ValueError, match="damaged or cut off"):
            read_vw(write(whole[: len(whole) - 12]), on_error=on_error)
    # both kinds of skipped events are counted apart
    text = CB + "1:x:0.5 | a\n1:1:0 | a\n1:1:3 | a\n| a\n"
    with pytest.warns(LogsWarning) as caught:
        assert len(read_vw(write(text), on_error="skip")) == 2
    assert [w.message.value for w in caught] == [1, 3]


def test_arguments_are_checked(write):
    wrong = {"path": 3, "format": "csv", "n_features": 1.5, "n_action_features": -1}
    wrong |= {"n_actions": 0, "action_labels": "name", "on_error": "ignore"}
    for name, value in [*wrong.items(), ("n_features", 0), ("max_action_bytes", -1)]:
        with pytest.raises(ValueError, match=f"The '{name}' parameter"):
            read_vw(**{"path": write(CB), name: value})


NO_BINARY = [-0.5, 0.5, -0.1, 0, -0.2, 0, 0.3, 0, -0.1, -0.9]
OF_32_BITS = [0.05000000074505806, 0.8500000238418579] * 2
# The files of Vowpal Wabbit's own tests: rounds, actions, skipped events.
REAL = {
    "rcv1_raw_cb_small_p1.vw.gz": (499, [1, 2], 0),
    "cb_eval": (8, [1, 2], 0),
    "cb_multi_cost.dat": (5, [1, 2, 3, 4], 0),
    "cb_load.dat": (113, list(range(7)), 0),
    "cb_test_medium.ldf": (10, [0, 1, 2], 5),
    "cb_test_non_binary_costs.ldf": (10, [0, 1, 2], 5),
    "cb_features_w_zero_vals.dat": (2, [0, 1, 2], 1),
    "cb_features_w_zero_vals.dsjson": (2, [0, 1], 0),
    "cb_test.json": (2, [0, 1, 2], 1),
    "dsjson_cb.json": (23, [0, 1, 2, 3], 0),
    "dsjson_cb_default_ns.json": (4, [0, 1, 2, 3], 0),
    "no_shared_features.json": (1, [0, 1, 2], 0),
}


@pytest.fixture
def read_real(data_dir):
    def read_real(name, **arguments):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            logs = read_vw(data_dir / "vw" / name, **arguments)
        assert {w.category for w in caught} <= {LogsWarning}
        return logs, sum(w.message.value for w in caught)

    return read_real


@pytest.mark.parametrize("name", list(REAL))
def test_real_files(read_real, name):
    n_rounds, actions, n_skipped = REAL[name]
    logs, skipped = read_real(name)
    assert (len(logs), logs.actions.tolist(), skipped) == (n_rounds, actions, n_skipped)
    assert logs.context.shape == (n_rounds, 2**18)


@pytest.mark.parametrize(
    ("name", "reward", "propensity", "action"),
    [
        ("cb_eval", [0, -1] * 4, [0.5] * 8, [1, 2] * 4),
        ("cb_multi_cost.dat", [-1, -2, -3, -4, -2], [1, 1, 1, 1, 0.7], [1, 2, 3, 4, 2]),
        ("cb_test_medium.ldf", [-1, 0] * 5, [0.5] * 10, [0, 1] * 5),
        ("cb_test_non_binary_costs.ldf", NO_BINARY, [0.5] * 10, [0, 1] * 5),
        ("cb_features_w_zero_vals.dat", [-1, 0], [0.5, 0.5], [0, 1]),
        ("cb_features_w_zero_vals.dsjson", [1, 1], [0.5, 0.5], [0, 0]),
        ("cb_test.json", [-1, 0], [0.5, 0.5], [0, 1]),
        ("dsjson_cb_default_ns.json", [0, 1, 0, 1], OF_32_BITS, [3, 0, 1, 0]),
        ("no_shared_features.json", [0], [0.333333343], [1]),
    ],
)
def test_outcomes_of_real_files(read_real, name, reward, propensity, action):
    logs, _ = read_real(name)
    assert_array_equal(logs.reward, reward)
    assert_array_equal(logs.propensity, propensity)
    assert_array_equal(logs.action, action)


def test_real_documents_and_offers(read_real):
    logs, _ = read_real("rcv1_raw_cb_small_p1.vw.gz")
    counts = {
        (action, reward): int(((logs.action == action) & (logs.reward == reward)).sum())
        for action in (1, 2)
        for reward in (0, -1)
    }
    assert counts == {(1, 0): 142, (1, -1): 109, (2, 0): 120, (2, -1): 128}
    assert_array_equal(logs.propensity, 0.5)
    # 40011 words, 499 labels and 499 bars in the file: no word is lost
    assert logs.context.sum() == 40011 - 2 * 499
    assert logs.context[0, column_of("tuesday")] == 1.0
    assert read_real("cb_multi_cost.dat")[0].available is None
    for name in ("cb_test_medium.ldf", "cb_test_non_binary_costs.ldf"):
        logs, _ = read_real(name)
        assert_array_equal(logs.available.sum(axis=1), [3, 2] * 5)
        assert_array_equal(logs.available[:, 2], [True, False] * 5)


def test_real_features(read_real):
    logs, _ = read_real("cb_load.dat")
    articles = ["politics", "sports", "music", "food", "finance", "health", "camping"]
    expected = np.zeros((7, 256))
    for k, article in enumerate(articles):
        expected[k, column_of(f"Action^article={article}", 256)] = 1
    assert_array_equal(logs.action_context, expected)
    assert logs.context.nnz == 2 * 113
    assert columns_of(logs, 0) == {
        column_of("User^user=Tom"),
        column_of("User^time_of_day=morning"),
    }
    assert sorted(logs.reward) == [0.0] * 72 + [1.0] * 41
    assert logs.propensity.min() == 0.015610049376943758
    for name in ("cb_features_w_zero_vals.dat", "cb_features_w_zero_vals.dsjson"):
        logs, _ = read_real(name)
        assert logs.context.nnz == 0
    assert logs.action_context is None  # of the dsjson file
    logs, _ = read_real("cb_features_w_zero_vals.dat")
    assert not logs.action_context[0].any()
    assert_array_equal(logs.action_context[1].sum(axis=1), [3, 3, 0])


@pytest.mark.parametrize("name", ["dsjson_cb.json", "dsjson_cb_default_ns.json"])
def test_real_dsjson(read_real, name):
    logs, _ = read_real(name)
    namespace = "FromUrl^" if name == "dsjson_cb.json" else ""
    assert columns_of(logs, 0) == {
        column_of(f"{namespace}{feature}")
        for feature in ("timeofday=Afternoon", "weather=Sunny", "name=Cathy")
    }
    assert logs.action_context.shape == (4, 256)
    assert_array_equal(logs.action_context.sum(axis=1), 6)
    assert str(logs.timestamp[0]) == "2021-02-04T16:31:29.246000"
    assert (np.diff(logs.timestamp) >= np.timedelta64(0)).all()
    # epsilon-greedy 0.2 over four actions, ranked by `a` in every event
    assert_allclose(
        np.sort(logs.logging_proba, axis=1), [[0.05, 0.05, 0.05, 0.85]] * len(logs)
    )
    tagged, _ = read_real(name, action_labels="tag")
    names = np.array(["Cappucino", "Cold brew", "Iced mocha", "Latte"])
    assert_array_equal(tagged.action, names[logs.action])
    if name == "dsjson_cb.json":
        assert logs.reward.sum() == 12
        assert logs.reward[logs.action == 3].tolist() == [0, 0, 1, 0, 1]


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("cats_room_temp.json", "continuous actions"),
        ("igl.dsjson", "interaction-grounded"),
        ("ccb_data.json", "not a single-action log"),
        ("ccb_simple.json", "not a single-action log"),
        ("ccb_test.dat", "not a single-action log"),
        ("slates_simple.txt", "not a single-action log"),
    ],
)
def test_real_files_of_other_logs(read_real, name, reason):
    with pytest.raises(ValueError, match=rf"{name}, line 1: this is .*{reason}"):
        read_real(name)
