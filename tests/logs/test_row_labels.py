# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Rows count by position, and an index that tells of another order is refused."""

import pickle

import numpy as np
import pytest
from sklearn.model_selection import train_test_split

from skope_ope import (
    IPS,
    BanditLogs,
    DoublyRobust,
    FunctionPolicy,
    SlateLogs,
    UniformPolicy,
    evaluate,
)
from skope_ope.exceptions import LogsWarning, RowError
from skope_ope.policies import (
    EmpiricalSlatePolicy,
    SampledSlatePolicy,
    action_probabilities,
)

pandas = pytest.importorskip("pandas")
pytestmark = pytest.mark.frames
N = 40


@pytest.fixture
def frame():
    rng = np.random.default_rng(0)
    action = rng.normal(size=N), rng.permutation(["a", "b"] * (N // 2))
    columns = dict(zip(("x", "action"), action, strict=True))
    columns |= {"reward": rng.normal(size=N), "p": 0.5, "time": np.arange(N)}
    return pandas.DataFrame(columns | {"user": rng.integers(5, size=N)})


COLUMNS = {"action": "action", "reward": "reward", "propensity": "p"}
COLUMNS |= {"timestamp": "time", "group": "user"}


def built(frame, **changed):
    """Logs of the columns of a frame, some of which are replaced."""
    fields = {field: frame[name] for field, name in COLUMNS.items()}
    return BanditLogs(**({"context": frame[["x"]]} | fields | changed))


def of_frame(frame, context=("x",)):
    names = {"action": "action", "reward": "reward", "propensity": "p"}
    return BanditLogs.from_frame(frame, **names, context=list(context))


def table(frame, first=0.3):
    proba = {"b": 1 - first, "a": first}
    return pandas.DataFrame(proba, index=frame.index)


def test_a_series_in_another_order_is_refused_and_its_remedies_work(frame):
    other = frame.sort_values("x")
    message = (
        rf"index of reward has the label {other.index[0]} at row 0, where that of "
        r"logs\.context has 0\. The labels are the same, in another order\. Bring the "
        r"rows into this order, values\.loc\[logs\.context\.index\]\. .*"
        r"if the order is right, .* values\.to_numpy\(\)"
    )
    with pytest.raises(RowError, match=message):
        of_frame(frame).replace(reward=other["reward"])
    logs, other = of_frame(frame), frame.sort_values("x")["reward"]
    sorted_again = logs.replace(reward=other.loc[logs.context.index])
    np.testing.assert_array_equal(sorted_again.reward, frame["reward"])
    as_it_is = logs.replace(reward=other.to_numpy())
    np.testing.assert_array_equal(as_it_is.reward, other)
    policy = table(frame.sort_values("x"))
    named = action_probabilities(policy.set_axis(logs.context.index), logs)
    np.testing.assert_allclose(named[0], [0.3, 0.7])
    logs = of_frame(frame.sort_values("x"))
    message = (
        r"may also be those of a new frame\. .* if these go together, drop the index "
        r"with values\.to_numpy\(\)\. If not, .* values\.loc\[logs\.context\.index\]"
    )
    with pytest.raises(RowError, match=message):
        logs.replace(reward=frame["reward"])


def test_the_first_label_that_differs_is_named(frame):
    labels = np.arange(N)
    labels[[7, 9]] = [9, 7]
    reward = frame["reward"].loc[labels]
    with pytest.raises(RowError, match=r"label 9 at row 7, where .* has 7\."):
        built(frame, reward=reward)
    train, test = train_test_split(frame, test_size=0.5, random_state=0)
    with pytest.raises(RowError, match="These are labels of other rows"):
        built(train, reward=test["reward"])
    with pytest.raises(ValueError, match="reward has 3 rows"):
        built(frame, reward=frame["reward"].iloc[[2, 1, 0]])


@pytest.mark.parametrize("name", [*COLUMNS, "sample_weight"])
def test_every_field_of_the_constructor_is_compared(frame, name):
    values = frame.sort_values("x")[COLUMNS.get(name, "p")]
    with pytest.raises(RowError, match=f"index of {name} .* that of context has"):
        built(frame, **{name: values})
    # without the index of the context, that of the first field counts
    with pytest.raises(RowError, match=r"index of .* where that of \w+ has"):
        built(frame, context=frame[["x"]].to_numpy(), **{name: values})


@pytest.mark.parametrize("name", ["logging_proba", "available"])
def test_tables_are_compared_and_keep_their_names(frame, name):
    values = table(frame, 0.5) if name == "logging_proba" else table(frame) > 0
    assert getattr(built(frame, **{name: values}), name).shape == (N, 2)
    values = values.loc[frame.sort_values("x").index]
    message = rf"index of {name} .* values\.set_axis\(context\.index\)"
    with pytest.raises(RowError, match=message):
        built(frame, **{name: values})
    with pytest.raises(RowError, match=f"index of {name} "):
        built(frame).replace(**{name: values})


def test_groups_and_further_columns_are_compared(frame):
    group = frame[["user", "time"]]
    assert built(frame, group=group).n_groups == N
    with pytest.raises(RowError, match="index of group"):
        built(frame, group=group[::-1])
    logs = of_frame(frame)
    assert logs.with_columns(z=frame["x"] * 2).columns["z"].shape == (N,)
    with pytest.raises(RowError, match="index of column 'z' has"):
        logs.with_columns(z=frame["x"][::-1])


def test_slates_are_compared(frame):
    slate = pandas.DataFrame({"first": [0, 1] * (N // 2), "second": 2})
    logs = SlateLogs(frame[["x"]], slate, frame["reward"])
    with pytest.raises(RowError, match=r"index of slate .* that of context has 0"):
        SlateLogs(frame[["x"]], slate[::-1], frame["reward"])
    with pytest.raises(RowError, match="index of reward"):
        SlateLogs(frame[["x"]], slate, frame["reward"][::-1])
    with pytest.raises(RowError, match="index of reward"):
        logs.replace(reward=frame["reward"][::-1])
    with pytest.raises(RowError, match="index of column"):
        logs.with_columns(z=frame["reward"][::-1])
    logs = SlateLogs(frame[["x"]], slate, frame["reward"], n_candidates=3)

    def drawn(logs, random_state):
        return slate[::-1]

    with pytest.raises(RowError, match=r"index of the output of sample .* that of X"):
        SampledSlatePolicy(drawn, n_samples=2).sample(logs)
    by_user = EmpiricalSlatePolicy.seen_in(logs, by=frame["user"])
    assert by_user.slot_marginals(logs).shape[0] == N
    with pytest.raises(RowError, match="index of by has"):
        EmpiricalSlatePolicy.seen_in(logs, by=frame["user"][::-1])


def test_policies_and_reward_models_are_compared(frame):
    logs = of_frame(frame)
    right, wrong = table(frame), table(frame.sort_values("x"))
    evaluate(right, logs, evaluators=IPS())
    with pytest.raises(RowError, match="index of policy has"):
        evaluate(wrong, logs, evaluators=IPS())
    labels = frame["action"].sort_values()
    with pytest.raises(RowError, match="index of policy has"):
        action_probabilities(labels, logs)
    evaluate(UniformPolicy(), logs, evaluators=DoublyRobust(reward_model=right))
    with pytest.raises(RowError, match="index of reward_model has"):
        evaluate(UniformPolicy(), logs, evaluators=DoublyRobust(reward_model=wrong))


def test_weights_and_masks_are_compared(frame):
    some = frame.sort_values("x")
    logs, weight = of_frame(some), frame["time"] + 1.0
    right = evaluate(UniformPolicy(), logs, sample_weight=weight.loc[some.index])
    by_position = weight.loc[some.index].to_numpy()
    same = evaluate(UniformPolicy(), logs, sample_weight=by_position)
    assert right["IPS"].value == same["IPS"].value
    with pytest.raises(RowError, match="index of sample_weight has"):
        evaluate(UniformPolicy(), logs, sample_weight=weight)
    with pytest.raises(RowError, match="index of sample_weight has"):
        IPS().fit(logs).evaluate(UniformPolicy(), sample_weight=weight)
    ones = some["user"] == 1
    np.testing.assert_array_equal(logs[ones].reward, some["reward"][ones])
    with pytest.raises(RowError, match="index of the mask has"):
        logs[frame["user"] == 1]
    arrays = BanditLogs(frame[["x"]].to_numpy(), list(frame["action"]), [0.0] * N)
    assert len(arrays[frame["user"] < 9]) == N
    with pytest.raises(RowError, match="index of the mask has"):
        arrays[some["user"] == 1]


def test_keys_of_groups_of_values_are_compared(frame):
    value = IPS().fit(of_frame(frame)).evaluate(UniformPolicy())
    sizes = {label: one.n_rounds for label, one in value.by(frame["user"]).items()}
    assert sizes == frame["user"].value_counts().to_dict()
    with pytest.raises(RowError, match="index of key has"):
        value.by(frame["user"][::-1])
    value = pickle.loads(pickle.dumps(value))  # without rows to compare with
    assert len(value.by(frame["user"][::-1])) == frame["user"].nunique()


def test_functions_that_sort_are_refused(frame):
    def sorts(X):
        return X.sort_values("x")["x"].map(lambda x: "a" if x > 0 else "b")

    class Rule:
        classes_ = np.array(["a", "b"])

        def predict(self, X):
            return sorts(X)

    class Table(Rule):
        def predict_proba(self, X):
            return table(X[::-1])

    logs = of_frame(frame)
    for policy in (FunctionPolicy(sorts), Rule(), Table()):
        with pytest.raises(RowError, match=r"index of the output of .* that of X has"):
            action_probabilities(policy, logs)


# What is right, and what nothing can be said about, is accepted


def reordered(frame):
    """The frame as users filter, sort, sample and join it."""
    by_time = frame.sort_values("x")
    named = frame.set_index(np.array([f"id{i}" for i in range(N)]))
    dates = pandas.date_range("2026-01-01", periods=N, freq="h", tz="UTC")
    time = frame["time"]
    return [
        frame,
        frame[frame["x"] > 0],
        by_time,
        by_time[by_time["x"] > 0],
        frame.sample(frac=2.0, replace=True, random_state=0),
        pandas.concat([frame, by_time]),
        frame.iloc[N // 2 :],
        frame.iloc[::-2],
        train_test_split(frame, random_state=0)[1],
        named,
        named.sample(frac=1.0, random_state=1),
        frame.set_index(dates),
        frame.set_index(["user", "time"])[::-1].assign(user=0, time=1),
        frame.set_index("user").assign(user=0),
        frame.convert_dtypes().sort_values("x"),
        frame.set_index(time.astype("Int64")).sort_values("x"),
        frame.set_index(time.astype("category")).sort_values("x"),
    ]


@pytest.mark.parametrize("number", range(17))
def test_columns_of_one_frame_go_together(frame, number):
    some = reordered(frame)[number].astype({"x": float})
    numpy_context = built(some, context=some[["x"]].to_numpy())
    for logs in (built(some), of_frame(some), of_frame(some, []), numpy_context):
        reward = 2 * some["reward"].astype(float)
        changed = logs.replace(reward=reward).with_columns(z=reward)
        np.testing.assert_array_equal(changed.columns["z"], reward)
        action_probabilities(table(some), changed)
        rows = np.random.default_rng(1).permutation(len(some))[:9]
        for part in (rows, slice(3, 8), np.arange(len(some)) % 3 == 0):
            mine = logs[part]
            taken = mine.replace(reward=reward.iloc[np.arange(len(some))[part]])
            np.testing.assert_array_equal(taken.reward, 2 * mine.reward)
    # train_test_split of logs and of a series
    logs = of_frame(frame)
    parts = train_test_split(logs, frame["reward"], frame["p"], random_state=3)
    train, test, train_reward, test_reward, *_ = parts
    train.replace(reward=train_reward)
    test.with_columns(z=test_reward)
    with pytest.raises(RowError):
        test.replace(reward=test_reward.sort_values())


def test_rows_of_logs_without_an_index_have_their_positions(frame):
    logs = BanditLogs(frame[["x"]].to_numpy(), list(frame["action"]), [0.0] * N)
    reward = frame["reward"]
    logs.replace(reward=reward)
    with pytest.raises(RowError, match=r"the row of the logs has 0\. .*row_id"):
        logs.replace(reward=reward[::-1])
    rows = np.array([5, 3, 1])
    logs[rows].replace(reward=reward.iloc[rows])
    logs[rows].replace(reward=reward.iloc[rows].reset_index(drop=True))
    with pytest.raises(RowError, match=r"label 1 at row 0, where .* has 5\."):
        logs[rows].replace(reward=reward.iloc[rows[::-1]])
    logs[rows].replace(reward=reward.iloc[:3] * 2)
    logs[rows].replace(reward=reward.iloc[[7, 8, 9]])  # of rows nobody knows


@pytest.mark.parametrize("context", [True, False])
def test_the_index_of_a_frame_without_context_is_kept(frame, context):
    frame = frame.sort_values("x")
    if context:
        logs = of_frame(frame, [])
    else:
        logs = built(frame, context=frame[["x"]].to_numpy())
    logs = pickle.loads(pickle.dumps(logs))
    for some in (logs, logs[::-1][::-1], logs.replace(sample_weight=np.ones(N))):
        some.replace(reward=frame["reward"])
        with pytest.raises(RowError, match="the frame that the logs were built from"):
            some.replace(reward=frame["reward"].sort_index())


def test_new_frames_and_labels_of_another_kind_go_together(frame):
    some = frame[frame["x"] > 0]
    encoded = pandas.DataFrame({"x": some["x"].to_numpy()})
    logs = built(some, context=encoded)
    logs.replace(reward=some["reward"])
    logs.replace(reward=pandas.Series(np.zeros(len(some))))
    built(some, reward=some["reward"].reset_index(drop=True))
    with pytest.raises(RowError, match=r"index of timestamp .* that of action has"):
        built(some, context=encoded, timestamp=some["time"][::-1])
    with pytest.raises(RowError, match="index of reward "):
        logs.replace(reward=some["reward"][::-1])
    named = frame.set_index(np.array([f"id{i}" for i in range(N)]))
    shuffled = frame.sample(frac=1.0, random_state=0)
    built(named, reward=shuffled["reward"])
    built(shuffled, reward=named["reward"])
    by_user = frame.set_index("user")
    built(shuffled, reward=by_user["reward"], group=None)
    with pytest.raises(RowError, match="where the group has"):
        built(shuffled, reward=by_user["reward"])


def test_what_is_new_beside_sorted_rows_warns(frame):
    some = frame.sort_values("x")
    new = table(some).reset_index(drop=True)
    for logs in (of_frame(some), built(some, context=some[["x"]].to_numpy())):
        with pytest.warns(LogsWarning, match=r"of policy .* Labels 0, .*set_axis"):
            proba = action_probabilities(new, logs)
        np.testing.assert_array_equal(proba, new[["a", "b"]])
        action_probabilities(new.set_axis(some.index), logs)
    with pytest.warns(LogsWarning, match=r"of logging_proba .*set_axis\(context"):
        built(some, logging_proba=table(some, 0.5).reset_index(drop=True))
    encoded = pandas.DataFrame({"x": some["x"].to_numpy()})
    with pytest.warns(LogsWarning, match=r"index of action .*set_axis\(action\.index"):
        logs = built(some, context=encoded)
    logs.replace(reward=some["reward"])
    built(some, context=encoded.set_axis(some.index))
    # the order of the other fields says more than that of the context
    with pytest.raises(RowError, match="the frame that the logs were built from has"):
        logs.replace(reward=frame.sort_values("time", ascending=False)["reward"])
    with pytest.raises(RowError, match="index of "):  # two of them differ
        built(some, context=encoded, reward=frame["reward"])


def test_functions_may_make_a_new_series(frame):
    some = frame.sort_values("x")
    policy = FunctionPolicy(lambda X: pandas.Series(np.where(X["x"] > 0, "a", "b")))
    proba = action_probabilities(policy, of_frame(some))
    np.testing.assert_array_equal(proba[:, 0], some["x"] > 0)
    worth = pandas.Series(np.arange(5.0), index=np.arange(5))
    choice = pandas.Series(list("ababa"), index=np.arange(5))
    for some in (frame, frame[frame["x"] > 0], frame.sort_values("x")):
        context = some[["x", "user"]]
        logs = built(some, context=context, reward=worth.loc[some["user"]])
        policy = FunctionPolicy(lambda X: choice.loc[X["user"]])
        np.testing.assert_array_equal(
            action_probabilities(policy, logs)[:, 1], some["user"] % 2
        )


def test_what_has_no_index_is_accepted(frame):
    polars = pytest.importorskip("polars")
    other = frame.sort_values("x")
    lists = {"action": list(other["action"]), "reward": polars.Series(other["reward"])}
    logs = built(other, context=polars.DataFrame({"x": other["x"].to_numpy()}), **lists)
    logs.replace(reward=tuple(other["reward"]))
    logs.replace(reward=other["reward"].array)
    some = frame[:2].set_axis([4, 5])
    features = pandas.DataFrame({"size": [1.0, 2.0]}, index=[5, 4])
    some = some.assign(action=["a", "b"])
    assert built(some, action_context=features).action_context.shape == (2, 1)


def sums_by_user(frame):
    """One round per user, and what every user spent, which pandas sorts by user."""
    users = np.random.default_rng(5).permutation(np.arange(100, 100 + N))
    frame = frame.assign(user=users)
    return frame, frame.groupby("user")["reward"].sum()


def test_sums_by_group_are_in_another_order(frame):
    frame, spent = sums_by_user(frame)
    logs = of_frame(frame, ["x"]).replace(group=frame["user"])
    with pytest.raises(RowError, match=r"index of reward .* where the group has"):
        logs.replace(reward=spent)
    right = logs.replace(reward=spent.loc[logs.group])
    np.testing.assert_array_equal(right.reward, frame["reward"])
    with pytest.raises(RowError, match=r"group has .* values\.loc\[group\]"):
        built(frame, reward=spent)
    built(frame, reward=spent.loc[frame["user"]])
    arrays = {"context": frame[["x"]].to_numpy(), "group": list(frame["user"])}
    with pytest.raises(RowError, match=r"group has"):
        built(frame, reward=spent, **arrays)
    texts = pandas.Series(dict(zip(frame["user"].astype(str), frame["x"], strict=True)))
    named = logs.replace(group=frame["user"].astype(str))
    named.with_columns(z=texts)
    with pytest.raises(RowError, match="group has"):
        named.with_columns(z=texts.sort_index(ascending=False))
    message = r"column 'user' of the context has .*logs\.context\['user'\]"
    with pytest.raises(RowError, match=message):
        of_frame(frame, ["x", "user"]).replace(reward=spent)
    logs = of_frame(frame).with_columns(user=frame["user"])
    message = r"column 'user' of the logs has .*values\.loc\[logs\.columns\['user'\]\]"
    with pytest.raises(RowError, match=message):
        logs.replace(reward=spent)
    logs.replace(reward=spent.loc[frame["user"]])
    parts = ["user", "time"]
    spent = frame.groupby(parts)["reward"].sum()
    logs = of_frame(frame).replace(group=frame[parts])
    with pytest.raises(RowError, match="group has"):
        logs.replace(reward=spent)
    right = logs.replace(reward=frame.set_index(parts)["reward"])
    np.testing.assert_array_equal(right.reward, frame["reward"])


@pytest.mark.parametrize("context", [["x"], []])
@pytest.mark.parametrize("shuffled", [True, False])
def test_sums_by_page_are_in_another_order(frame, context, shuffled):
    long = pandas.concat([frame.assign(slot=k, item=k) for k in range(2)])
    long = long.rename(columns={"time": "page"}).assign(page=lambda f: 500 - f["page"])
    long = long.reset_index(drop=True)
    if shuffled:
        long = long.sample(frac=1.0, random_state=0)
    roles = {"item": "item", "slot": "slot", "round": "page", "reward": "reward"}
    logs = SlateLogs.from_frame(long, **roles, context=context)
    means = long.groupby("page")["reward"].mean()
    with pytest.raises(RowError, match="index of reward has"):
        logs.replace(reward=means)
    right = long.groupby("page", sort=False)["reward"].mean()
    np.testing.assert_array_equal(logs.replace(reward=right).reward, logs.reward)
    firsts = long.drop_duplicates("page")["reward"]
    np.testing.assert_array_equal(logs.replace(reward=firsts).reward, logs.reward)
    half = logs[::2].replace(reward=right[::2])
    np.testing.assert_array_equal(half.reward, logs.reward[::2])
