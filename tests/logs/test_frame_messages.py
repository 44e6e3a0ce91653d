# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Mistakes with frames are told with a remedy, and the code of remedies works."""

import builtins
import re

import numpy as np
import pytest
from sklearn.compose import make_column_transformer
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder

from skope_ope import (
    BanditLogs,
    ClassifierPolicy,
    ContextEncoder,
    DirectMethod,
    PropensityEstimator,
    RewardModelPolicy,
    UniformPolicy,
)
from tests.logs.test_frames import DATA, NAMES

pytestmark = pytest.mark.frames
pd = pytest.importorskip("pandas")
pytest.importorskip("narwhals")


def function(frame):
    return 0.5


def test_a_context_is_never_guessed(make_frame):
    """Outcomes beside the reward would be in it."""
    names = {**NAMES, "context": None, "logging_proba": None, "columns": ["age"]}
    message = (
        r"Name the columns of the context with context, or the columns to leave out "
        r"with exclude\. context=\[\] is for logs without features\. Columns that are "
        r"not used yet: 'city', 'mu_a', 'mu_b', 'mu_c'\.$"
    )
    with pytest.raises(ValueError, match=message):
        BanditLogs.from_frame(make_frame(DATA), **names)
    with pytest.raises(ValueError, match="context and exclude are both given"):
        BanditLogs.from_frame(make_frame(DATA), **NAMES, exclude=["mu_a"])
    frame = make_frame({f"x{j}": [0, 1] for j in range(300)})
    with pytest.raises(ValueError, match=r"'x101' and 198 more\.$"):
        BanditLogs.from_frame(frame, action="x0", reward="x1")


@pytest.mark.few_cases(30)
@pytest.mark.parametrize(
    ("names", "error", "message"),
    [
        ({"action": "itm"}, ValueError, "column 'itm' is not in the frame; it has 'ag"),
        ({"context": ["age", "x"]}, ValueError, "column 'x' is not in the frame"),
        ({"logging_proba": ["mu_x"]}, ValueError, "column 'mu_x' is not in the frame"),
        ({"columns": ["z"]}, ValueError, "column 'z' is not in the frame"),
        ({"context": None, "exclude": ["z"]}, ValueError, "column 'z' is not in the"),
        ({"context": None, "exclude": "age"}, TypeError, "exclude must be a list of"),
        ({"context": "age"}, TypeError, r"context must be a list .* Use \['age'\]"),
        ({"context": ["click"]}, ValueError, "column 'click' is the reward, so it ca"),
        ({"context": ["item"]}, ValueError, "column 'item' is the action"),
        ({"context": ["age", "age"]}, ValueError, "names column 'age' twice"),
        ({"logging_proba": "mu_a"}, TypeError, "logging_proba must be a list"),
        ({"columns": "age"}, TypeError, "columns must be a list of names or a dict"),
        ({"action": None}, ValueError, "needs the name of the action column"),
        ({"reward": None}, ValueError, "needs the name of the reward column"),
        ({"reward": "city", "context": ["age"]}, TypeError, "reward must hold numbers"),
        ({"propensity": "age", "context": []}, ValueError, r"must lie in \(0, 1\]"),
        ({"timestamp": "city"}, TypeError, "timestamp must be"),
    ],
    ids=str,
)
def test_bad_names_are_refused(make_frame, names, error, message):
    with pytest.raises(error, match=message):
        BanditLogs.from_frame(make_frame(DATA), **{**NAMES, **names})


@pytest.mark.parametrize("name", ["item", "click", "p", "t", "user", "mu_b", "server"])
def test_missing_values_are_refused_by_column_and_row(make_frame, name):
    values = [*DATA[name]]
    values[2] = None
    message = rf"column '{name}' has a missing value at row 2 \(1 such rows\)"
    with pytest.raises(ValueError, match=message):
        BanditLogs.from_frame(make_frame({**DATA, name: values}), **NAMES)
    data = {**DATA, "p": [0.5, float("nan"), 0.5, 0.25]}
    with pytest.raises(ValueError, match=r"\bp\w*\b.* (missing|nan).* at row 1"):
        BanditLogs.from_frame(make_frame(data), **NAMES)
    with pytest.raises(ValueError, match="the logs are empty"):
        BanditLogs.from_frame(make_frame(DATA)[:0], **NAMES)


def test_what_is_no_frame_is_refused():
    for frame in (DATA, np.zeros((4, 3)), None, "logs.csv"):
        with pytest.raises(TypeError, match="a pandas, polars or pyarrow table"):
            BanditLogs.from_frame(frame, action="item", reward="click")
    names = pd.MultiIndex.from_tuples([("log", "action"), ("log", "reward")])
    frame = pd.DataFrame([[0, 1.0]], columns=names)
    with pytest.raises(ValueError, match=r"have 2 levels \(a pandas MultiIndex\)"):
        BanditLogs.from_frame(frame, action=names[0], reward=names[1])
    polars = pytest.importorskip("polars")
    with pytest.raises(TypeError, match="got LazyFrame"):
        BanditLogs.from_frame(polars.DataFrame(DATA).lazy(), **NAMES)


def test_without_narwhals_the_remedy_is_named(monkeypatch):
    frame = pytest.importorskip("pandas").DataFrame(DATA)
    real = builtins.__import__

    def refuse(name, *args, **kwargs):
        if name.startswith("narwhals"):
            raise ImportError(name)
        return real(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", refuse)
    with pytest.raises(ImportError, match=r"pip install 'skope-ope\[frames\]'"):
        BanditLogs.from_frame(frame, **NAMES)


@pytest.mark.few_cases(30)
@pytest.mark.parametrize(
    ("field", "found", "called"),
    [
        ("propensity", {"a": 0.5}, r"a column or one number, got a dict\. .*'p'"),
        ("propensity", function, r"a column or one number, got a function\. .*'p'"),
        ("propensity", np.full(4, 0.5), r"a column or one number, got an array\."),
        ("propensity", [0.5] * 4, r"a column or one number, got a list\."),
        ("action", list("abab"), r"the name of a column, got a list\."),
        ("reward", np.ones(4), r"the name of a column, got an array\."),
        ("group", range(4), r"the name of a column, got a range\."),
        ("timestamp", np.arange(4), r"the name of a column, got an array\."),
        ("sample_weight", (1.0,) * 4, r"the name of a column, got a tuple\."),
        ("logger", function, r"the name of a column, got a function\."),
        ("context", np.ones((4, 1)), r"list of column names, got an array\."),
        ("context", [np.ones(4)], r"list of column names, and the list holds an arr"),
        ("context", {"age": 1}, r"list of column names, got a dict\."),
        ("context", function, r"list of column names, got a function\."),
        ("context", 3, r"list of column names, got an int\."),
        ("exclude", 3, r"list of column names, got an int\."),
        ("columns", np.ones(4), r"list of column names, got an array\."),
        ("logger_proba", np.ones((4, 2)), r"list of column names, got an array\."),
    ],
)
def test_values_in_place_of_names(make_frame, field, found, called):
    with pytest.raises(TypeError, match=f"{field} must be .*{called}"):
        BanditLogs.from_frame(make_frame(DATA), **{**NAMES, field: found})


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_a_series_and_a_frame_in_place_of_names(library):
    frame = pytest.importorskip(library).DataFrame(DATA)
    pandas, p = library == "pandas", frame["p"]
    how = r"assign\(p=\.\.\.\), and pass 'p'" if pandas else r"with_columns\(p=\.\.\."
    for field, value, told in (
        ("propensity", p, rf"got a Series\. Add it to the frame: frame\.{how}"),
        ("reward", frame["click"], r"reward must be .*column, got a Series"),
        ("context", frame[["age"]], r"context must .*a DataFrame\. Use \['age'\]"),
        ("context", p, r"context must be a list .*, got a Series"),
        ("columns", {"extra": p}, r"extra must be the name .*, got a Series"),
    ):
        with pytest.raises(TypeError, match=told):
            BanditLogs.from_frame(frame, **{**NAMES, field: value})


# -- probabilities in one column, or in an array, where columns are wanted -----------
LISTED = {"item": ["b", "a", "b"], "click": [1, 0, 1], "age": [3, 4, 5]}
OF_LISTS = {"action": "item", "reward": "click", "context": ["age"]}


def frame_of(library, width=2):
    module = pytest.importorskip(library)
    even = [1 / width] * width
    lists = [even, [0.25, 0.75, *[0.0] * (width - 2)], even]
    data = LISTED | {"router.p": lists}
    return module.table(data) if library == "pyarrow" else module.DataFrame(data)


def told(frame, **names):
    with pytest.raises(TypeError) as error:
        BanditLogs.from_frame(frame, **OF_LISTS, **names)
    return str(error.value)


@pytest.mark.parametrize("library", ["pandas", "polars", "pyarrow"])
@pytest.mark.parametrize("form", [str, list, tuple])
def test_a_column_of_lists_is_no_column_of_each_action(library, form):
    names = "router.p" if form is str else form(["router.p"])
    text = told(frame_of(library), logging_proba=names)
    assert "the column 'router.p', which holds lists. Make a column of each" in text
    assert "logging_proba={action: name, ...}" in text
    assert "Use [" not in text


@pytest.mark.parametrize("library", ["pandas", "polars"])
@pytest.mark.parametrize("width", [2, 12])
def test_the_code_in_the_message_works(library, width):
    frame = frame_of(library, width)
    if library == "pandas":
        frame = frame.set_axis([7, 3, 5])
    text = told(frame, logging_proba="router.p")
    code = re.search(r"entries: (.*?)\. Pass ", text)[1]
    scope = {"frame": frame}
    exec(code, scope)
    actions = ["b", "a", *map(str, range(width - 2))]
    proba = {one: f"router.p_{j}" for j, one in enumerate(actions)}
    names = OF_LISTS | {"actions": actions, "logging_proba": proba}
    logs = BanditLogs.from_frame(scope["frame"], **names)
    np.testing.assert_allclose(logs.propensity, [1 / width, 0.75, 1 / width])


def test_an_array_becomes_columns():
    frame = frame_of("pandas").assign(p=1.0)
    text = told(frame, logging_proba=np.full((3, 2), 0.5))
    assert "got an array. Make a column of each of its entries: frame[[" in text
    scope = {"frame": frame, "values": np.full((3, 2), 0.5)}
    exec(re.search(r"entries: (.*?)\. Pass ", text)[1], scope)
    proba = ["proba_0", "proba_1"]
    logs = BanditLogs.from_frame(frame, **OF_LISTS, logging_proba=proba)
    assert logs.propensity.tolist() == [0.5] * 3
    text = told(frame, logger="item", logger_proba=np.full((3, 2), 0.5))
    assert "Pass these names, in the order of the sorted loggers." in text
    for name in ("p", "q"):  # of one column of numbers, or of none
        assert f"Use ['{name}']" in told(frame, logging_proba=name)


# -- other remedies --------------------------------------------------------------------
PROBA = np.array([[0.3333, 0.6668], [0.5, 0.5]])


def test_arrays_and_frames_are_told_in_their_words():
    with pytest.raises(ValueError, match=r"logging_proba / logging_proba\.sum\(axis=1"):
        BanditLogs(np.empty((2, 0)), [0, 1], [0, 1], logging_proba=PROBA)
    names = ["p", "q"]
    frame = pd.DataFrame({"a": [0, 1], "r": [0, 1], "p": PROBA[:, 0], "q": PROBA[:, 1]})
    roles = {"action": "a", "reward": "r", "context": [], "logging_proba": names}
    with pytest.raises(ValueError, match=r"row 0 .*axis=0\)\.$") as told:
        BanditLogs.from_frame(frame, **roles)
    start = str(told.value).index("frame[names]")
    exec(str(told.value)[start:-1], {"frame": frame, "names": names})
    logs = BanditLogs.from_frame(frame, **roles)
    np.testing.assert_allclose(logs.logging_proba.sum(axis=1), 1)
    with pytest.raises(ValueError, match=r"reward_range .* Widen"):  # as it was
        BanditLogs.from_frame(frame, **roles, reward_range=(0, 0.5))


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_times_that_are_texts_are_read_by_the_code_in_the_message(library):
    module = pytest.importorskip(library)
    times = ["2026-05-01T12:00:00Z", "2026-05-01T12:00:01Z"]
    frame = module.DataFrame({"a": [0, 1], "r": [0, 1], "ts": times})
    roles = {"action": "a", "reward": "r", "context": [], "timestamp": "ts"}
    with pytest.raises(TypeError, match=r"timestamp must be 1-d") as told:
        BanditLogs.from_frame(frame, **roles)
    start = {"pandas": r"In pandas, (.*?) reads", "polars": r"in polars, (.*?)\.$"}
    code = re.search(start[library], str(told.value))[1]
    scope = {"frame": frame, "column": "ts", "pd": module}
    exec(f"frame = {code}" if library == "polars" else code, scope)
    logs = BanditLogs.from_frame(scope["frame"], **roles)
    assert logs.timestamp[1] - logs.timestamp[0] == np.timedelta64(1, "s")


# -- models that cannot take texts or gaps ---------------------------------------------
RNG = np.random.RandomState(0)
FRAME = {"device": np.tile(["desktop", "phone"], 30), "hour": RNG.randint(24, size=60)}
FRAME |= {"item": RNG.choice(["a", "b"], size=60), "click": RNG.randint(2, size=60)}
FRAME = pd.DataFrame(FRAME | {"p": 0.5})
OF_FRAME = {"action": "item", "reward": "click", "propensity": "p"}
LOGS = BanditLogs.from_frame(FRAME, **OF_FRAME, context=["device", "hour"])


def choosing(model):
    """A model behind a ColumnTransformer that leaves out the texts."""
    chosen = make_column_transformer(("passthrough", ["hour"]), remainder="passthrough")
    return make_pipeline(chosen, model)


CALLS = {
    "ClassifierPolicy": lambda: ClassifierPolicy(choosing(LogisticRegression())),
    "RewardModelPolicy": lambda: RewardModelPolicy(choosing(Ridge())),
    "PropensityEstimator": lambda: PropensityEstimator(choosing(LogisticRegression())),
    "DirectMethod": lambda: DirectMethod(reward_model=choosing(Ridge())),
}


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_texts_are_told_with_the_way_to_encode_them(call):
    with pytest.raises(ValueError, match="could not convert string") as info:
        call().fit(LOGS)
    told = [note for note in info.value.__notes__ if "'device'" in note]
    assert len(told) == 1
    assert "ContextEncoder" in told[0] and "'hour'" not in told[0]
    assert not any("Few rounds" in note for note in info.value.__notes__)


def test_what_the_note_says_works():
    model = LogisticRegression()
    encode = OneHotEncoder(handle_unknown="ignore")
    columns = make_column_transformer((encode, ["device"]), remainder="passthrough")
    for first in (columns, ContextEncoder()):
        policy = ClassifierPolicy(make_pipeline(first, model)).fit(LOGS)
        assert policy.predict(LOGS.context).shape == (60,)
        assert policy.classifier_.steps[1][1].__class__ is LogisticRegression


def test_a_category_that_a_fold_does_not_hold():
    frame = FRAME.assign(device=["rare", *FRAME["device"][1:]])
    logs = BanditLogs.from_frame(frame, **OF_FRAME, context=["device"])
    columns = make_column_transformer((OneHotEncoder(), ["device"]))
    with pytest.raises(ValueError, match="unknown categories") as info:
        DirectMethod().fit(logs, make_pipeline(columns, Ridge())).score(UniformPolicy())
    assert any("handle_unknown='ignore'" in note for note in info.value.__notes__)


@pytest.mark.parametrize("library", ["pandas", "polars"])
@pytest.mark.parametrize("missing", [None, float("nan")])
def test_columns_with_missing_values_are_named(library, missing):
    make = pytest.importorskip(library).DataFrame
    context = make({"age": [1.0, missing] + [2.0] * 58, "hour": [1.0] * 60})
    logs = BanditLogs(context, LOGS.action, LOGS.reward)
    columns = make_column_transformer(("passthrough", ["age", "hour"]))
    policy = ClassifierPolicy(make_pipeline(columns, LogisticRegression()))
    with pytest.raises(ValueError, match="contains NaN") as info:
        policy.fit(logs)
    assert any("missing values ('age'), which" in x for x in info.value.__notes__)
