# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause

import pickle
import warnings
from itertools import pairwise

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from sklearn.model_selection import KFold
from sklearn.tree import DecisionTreeClassifier

from skope_ope import (
    IPS,
    BanditLogs,
    ClassifierPolicy,
    ConstantPolicy,
    DoublyRobust,
    SlateLogs,
    UniformPolicy,
    UniformSlatePolicy,
    concat,
    evaluate,
    scan_logs,
    summarize,
)
from skope_ope.exceptions import LearnedRoundsWarning
from skope_ope.logs import HashKFold
from tests.logs._worlds import assert_same_fields, bandit_fields, dense, slate_fields

N, CUTS = 240, (0, 70, 71, 160, 240)


def bandit_logs(seed=0, n=N, labels="abc", columns=None, **more):
    """Logs with every field."""
    columns = {"note": np.arange(n)} if columns is None else columns
    fields = bandit_fields(seed, n, labels) | {"propensity": None} | more
    return BanditLogs(**fields).with_columns(**columns)


def slate_logs(seed=0, n=N, **more):
    return SlateLogs(**(slate_fields(seed, n) | {"slot_reward": None} | more))


def parts_of(logs):
    return [logs[start:stop] for start, stop in pairwise(CUTS)]


def assert_same_logs(one, other):
    assert repr(one) == repr(other)
    assert one.row_id == other.row_id
    assert one.summary() == other.summary()
    assert_same_fields(one, other)
    for name in (*one._row_fields, *one._carried_fields, "groups"):
        assert type(getattr(one, name)) is type(getattr(other, name)), name
    if other.group is not None:
        assert_array_equal(one.groups, other.groups)


@pytest.mark.parametrize(
    "logs",
    [
        bandit_logs(),
        bandit_logs(labels="cab", action_context=np.ones((N, 3, 2))),
        bandit_logs(group=[("u", k % 7) for k in range(N)], logging_proba=None),
        slate_logs(),
        slate_logs(item_features=np.ones((N, 4, 1)), item_feature_names=None),
        slate_logs(n_candidates=3 + np.arange(N) % 2, candidates=None, slate=[[2]] * N),
        bandit_logs()[np.random.default_rng(1).permutation(N)],
    ],
)
def test_parts_of_logs_are_the_logs_again(logs):
    parts = parts_of(logs)
    before = pickle.dumps(parts)
    whole = concat(iter(parts))
    assert_same_logs(whole, logs)
    assert_same_logs(concat([logs]), logs)
    for name in ("context", "reward", "group", *whole._row_fields):
        if isinstance(getattr(whole, name), np.ndarray):
            with pytest.raises(ValueError, match="read-only"):
                getattr(whole, name)[0] = 0
    assert pickle.dumps(parts) == before


def make(kind, data):
    if kind in ("pandas", "polars", "pyarrow"):
        module = pytest.importorskip(kind)
        return (module.table if kind == "pyarrow" else module.DataFrame)(data)
    return ARRAYS[kind](np.column_stack([data["x"], data["y"]]))


ARRAYS = {"array": np.asarray, "csr": sparse.csr_matrix, "csr array": sparse.csr_array}


@pytest.mark.parametrize("kind", [*ARRAYS, "pandas", "polars", "pyarrow"])
def test_contexts_stay_what_they_are(kind):
    data = {"x": np.arange(N) % 3, "y": np.linspace(0, 1, N)}
    if kind in ("pandas", "polars", "pyarrow"):
        data["city"] = ["Oslo", "Rome"] * (N // 2)
    logs = bandit_logs(context=make(kind, data))
    joined = concat(parts_of(logs))
    assert_same_logs(joined, logs)
    if kind == "pandas":
        assert joined.context.dtypes.equals(logs.context.dtypes)
        assert joined.context.index.equals(logs.context.index)
    anew = bandit_logs(1, context=make(kind, data))
    assert_array_equal(dense(concat([logs, anew])[N:].context), dense(anew.context))


def test_labels_are_united():
    one = bandit_logs(0, 5, "ca", logger=["old"] * 5, logger_proba=None)
    two = bandit_logs(1, 7, "bc", logger=["new"] * 7, logger_proba=None)
    both = concat([one, two])
    assert both.actions.tolist() == ["c", "a", "b"]
    assert both.loggers.tolist() == ["old", "new"]
    assert_array_equal(both.logger_index, [0] * 5 + [1] * 7)
    assert_array_equal(both.actions[both.action_index], both.action)
    assert_array_equal(both.action, [*one.action, *two.action])
    assert_array_equal(both.logging_proba[:5, :2], one.logging_proba)
    assert_array_equal(both.logging_proba[5:, [2, 0]], two.logging_proba)
    for table in (both.logging_proba, both.available):
        assert not table[:5, 2].any()
        assert not table[5:, 1].any()
    assert_array_equal(both.action_context, [[99], [97], [98]])
    assert_array_equal(both.groups, np.unique([*one.group, *two.group]))
    assert_array_equal(both.groups[both.group_index], [*one.group, *two.group])
    assert_array_equal(both.sample_weight, [*one.sample_weight, *two.sample_weight])
    rows = {"action_context": np.arange(18).reshape(9, 2, 1)}
    swapped, first = bandit_logs(2, 9, "ac", **rows), bandit_logs(3, 9, "ca", **rows)
    rows = concat([first, swapped]).action_context[:, :, 0]
    assert_array_equal(rows[9:], swapped.action_context[:, ::-1, 0])
    bare = {"actions": None, "logging_proba": None, "available": None}
    bare |= {"action_context": None, "propensity": 0.5, "logger_proba": None}
    bare = [bandit_logs(k, 9, some, **bare) for k, some in enumerate(("ab", "bc"))]
    assert concat(bare).available is None


def test_slates_of_more_candidates():
    few = {"item_id": None, "item_features": None, "item_feature_names": None}
    wide = few | {"n_candidates": 5, "candidates": np.ones((3, 5), dtype=bool)}
    both = concat([slate_logs(0, 2, **few), slate_logs(1, 3, **wide)])
    assert both.max_candidates == 5
    assert_array_equal(both.n_candidates, [4, 4, 5, 5, 5])
    assert_array_equal(both.offered.sum(axis=1), [4, 4, 5, 5, 5])


ONE, TWO, PAGES = bandit_logs(0), bandit_logs(1), slate_logs(0)
FRAME = {"x": np.arange(N), "y": np.ones(N)}
TRIPLE, PI, ROWS = np.ones((N, 3, 1)), {"pi": np.full((N, 3), 1 / 3)}, np.ones(N)


OTHERS = [  # what differs in the second logs, and what is told of it
    ({"available": None}, "logs 0 have available, and logs 1 have none. Give it to"),
    ({"reward_range": (0, 2)}, r"reward_range is \(0.0, 2.0\) in logs 1 and \(0.0, 1"),
    ({"labels": range(3)}, "action holds numbers in logs 1 and texts in logs 0.*la"),
    ({"group": ["ann"] * N}, "group holds texts in logs 1 and numbers in logs 0"),
    ({"timestamp": np.arange(N)}, "timestamp holds numbers in logs 1 and times in"),
    ({"action_context": [[97], [0], [99]]}, "of 'b' differs in .* Give an action the"),
    ({"action_context": TRIPLE}, "action_context has 3 dim.* and 2 dimensions in logs"),
    ({"logger": ["new", "mid"] * (N // 2)}, "of logs 0 has no column for 'mid', which"),
    ({"columns": {"note": np.ones((N, 2))}}, r"'note' has .* \(2,\) in logs 1"),
    ({"columns": dict.fromkeys(("note", "more"), ROWS)}, "logs 1 have column 'more'"),
    ({"context": np.ones((N, 3))}, r"context has .* \(3,\) in logs 1 and \(2"),
    ({"context": sparse.csr_matrix((N, 2))}, "context is a sparse matrix in logs 1"),
]
OTHER_PAGES = [
    ({"logging_policy": UniformSlatePolicy(3)}, r"logging_policy is U.*3\) in logs 1"),
    ({"slate": np.tile([0, 1, 2], (N, 1))}, r"slate has .* \(3,\) in logs 1"),
    ({"item_id": np.tile(list("zyxw"), (N, 1))}, r"item_id is \['z', 'y', 'x', 'w'\]"),
    ({"item_features": np.ones((4, 2))}, "item_features are .* in logs 0. Build all"),
]


@pytest.mark.parametrize(
    ("first", "make_second", "fields", "words"),
    [(ONE, bandit_logs, *one) for one in OTHERS]
    + [(PAGES, slate_logs, *one) for one in OTHER_PAGES],
)
def test_logs_that_differ_in_a_field(first, make_second, fields, words):
    with pytest.raises(ValueError, match=f"(?s){words}"):
        concat([first, make_second(1, **fields)])


def both(*fields, **more):
    """Two logs that have these fields."""
    return [bandit_logs(seed, **one, **more) for seed, one in enumerate(fields)]


def of_contexts(kind, second):
    """Two logs, whose contexts are frames of one kind."""
    frames = make(kind, FRAME), make(kind, second)
    return both(*({"context": one} for one in frames))


def of_categories():
    frame, kind = make("pandas", FRAME), {"x": "category"}
    few = {"context": frame[-5:].astype(kind), "n": 5}
    return both({"context": frame.astype(kind)}, few)


ABC, ABD, BAC = ({"labels": labels} for labels in ("abc", "abd", "bac"))
APART = {
    "at least one log": lambda: [],
    "SlateLogs in logs 1 and BanditLogs in": lambda: [ONE, PAGES],
    "1 have group, and logs 0 have": lambda: [ONE.replace(group=None), TWO],
    r"2 is row 5 of .* \(4 .*leave the rows out": lambda: [ONE[:9], TWO, ONE[5:20]],
    r"1 is row 243 of .* \(2 such": lambda: [concat([TWO, ONE]), ONE[[3, 1]]],
    "0 has no column for 'd', which": lambda: both(ABC, ABD, action_context=TRIPLE),
    "'pi' may .* 0.*Add it after concat": lambda: both(ABC, BAC, columns=PI),
    "frame of polars in logs 1 and an array in logs 0": lambda: [
        *(ONE, bandit_logs(1, context=make("polars", FRAME)))
    ],
    r"\['y', 'x'\] in logs 1 and \['x', 'y'\] in": lambda: of_contexts(
        "pandas", dict(reversed(FRAME.items()))
    ),
    r"'x' of the context holds \[235, .*, 239\] in logs 1 and \[0, 1": of_categories,
}


@pytest.mark.parametrize("words", APART)
def test_logs_that_do_not_go_together(words):
    with pytest.raises(ValueError, match=f"(?s){words}"):
        concat(APART[words]())


@pytest.mark.parametrize("library", ["pandas", "polars", "pyarrow"])
def test_columns_that_hold_something_else_and_what_are_no_logs(library):
    parts = of_contexts(library, FRAME | {"y": ["a"] * N})
    told = "(?s)column 'y' of the context holds .* in logs 1 and .* in logs 0. Build"
    with pytest.raises(ValueError, match=told):
        concat(parts)
    with pytest.raises(TypeError, match=r"concat\(\[logs, more\]\), got BanditLogs"):
        concat(ONE)
    with pytest.raises(TypeError, match=r"got ndarray as logs 1\. Build logs"):
        concat([ONE, ONE.context])


def test_estimated_propensities_beside_known_ones():
    from skope_ope import PropensityEstimator

    known = BanditLogs(ONE.context, ONE.action, ONE.reward, 1 / 3)
    guessed = BanditLogs(TWO.context, TWO.action, TWO.reward)
    guessed = PropensityEstimator().fit_transform(guessed).replace(logging_proba=None)
    assert guessed.propensity_estimated
    with pytest.raises(ValueError, match="propensity_estimated is True in logs 1 and"):
        concat([known, guessed])
    both = concat([known, guessed.replace(propensity=guessed.propensity)])
    assert not both.propensity_estimated
    assert concat([guessed[:9], guessed[9:]]).propensity_estimated


def test_lazy_logs_are_told_the_list_of_files(tmp_path):
    pandas = pytest.importorskip("pandas")
    pytest.importorskip("pyarrow")
    columns = {"a": ["u", "v"] * 20, "r": np.arange(40.0), "x": np.arange(40)}
    for day in ("mon", "tue"):
        pandas.DataFrame(columns).to_parquet(tmp_path / f"{day}.parquet")
    roles = {"action": "a", "reward": "r", "propensity": 0.5, "context": ["x"]}
    lazy = scan_logs(tmp_path, **roles)
    with pytest.raises(TypeError, match=r"logs 1 are lazy.*scan_logs takes a list"):
        concat([ONE, lazy])
    with pytest.raises(TypeError, match=r"concat\(\[logs, more\]\), got LazyLogs"):
        concat(lazy)
    mon, tue = (one.read() for one in lazy.partitions)
    assert_array_equal(concat([mon, tue]).row_id.position, np.arange(80))
    again = scan_logs(tmp_path / "tue.parquet", **roles).partitions[0].read()
    with pytest.raises(ValueError, match="row 0 of logs 1 is row 0 of logs 0"):
        concat([tue, again])
    policy = ClassifierPolicy(DecisionTreeClassifier(), epsilon=0.1).fit(again)
    assert_learned(policy, concat([mon, tue]), 0.5)
    assert_learned(policy, concat([tue, mon]), 0.5)


def assert_learned(policy, logs, share):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        evaluate(policy, logs, evaluators=["IPS"])
    found = [w.message for w in caught if w.category is LearnedRoundsWarning]
    assert [one.value for one in found] == ([share] if share else [])


def few_contexts(seed, n):
    """Logs whose rows have nothing that tells them apart but their ids."""
    rng = np.random.default_rng(seed)
    context = rng.integers(0, 2, (n, 1))
    return BanditLogs(context, rng.choice(["a", "b"], n), rng.integers(0, 2, n), 0.5)


@pytest.mark.parametrize(
    ("learn", "judge", "share"),
    [
        (lambda a, b: a, lambda a, b: concat([a, b]), 0.25),
        (lambda a, b: a, lambda a, b: concat([b, a]), 0.25),
        (lambda a, b: a[-40:], lambda a, b: concat([b[:60], a])[30:], 40 / 130),
        (lambda a, b: concat([a, b]), lambda a, b: a[10:], 1),
        (lambda a, b: concat([b, a[:50]]), lambda a, b: a, 0.5),
        (lambda a, b: concat([a, b[::2]]), lambda a, b: concat([b, a[:60]]), 210 / 360),
        (lambda a, b: concat([a[:50], b]), lambda a, b: a[50:], 0),
        (lambda a, b: a, lambda a, b: concat([b, few_contexts(2, 50)]), 0),
    ],
)
def test_rows_that_were_learned_from_are_recognised(learn, judge, share):
    a, b = few_contexts(0, 100), few_contexts(1, 300)
    policy = ClassifierPolicy(DecisionTreeClassifier(), epsilon=0.1).fit(learn(a, b))
    assert_learned(policy, judge(a, b), share)
    again = pickle.loads(pickle.dumps(policy))
    assert_learned(again, judge(*pickle.loads(pickle.dumps([a, b]))), share)


def test_differences_and_sums_of_joined_logs():
    a, b = few_contexts(0, 100), few_contexts(1, 300)
    one = IPS().fit(concat([a, b])).evaluate(ConstantPolicy("a"))
    two = IPS().fit(concat([a, b])).evaluate(ConstantPolicy("b"))
    assert_allclose((one - two).value, one.value - two.value, rtol=1e-12)
    swapped = IPS().fit(concat([b, a])).evaluate(ConstantPolicy("b"))
    with pytest.raises(ValueError, match="row_id"):
        one - swapped
    parts, how = (concat([a, b]), a, few_contexts(2, 50)), {"evaluators": ["IPS"]}
    sums = [summarize(ConstantPolicy("a"), logs, **how) for logs in parts]
    with pytest.raises(ValueError, match="rows 0 to 99 of the same logs in memory"):
        sums[0] + sums[1]
    assert sums[0] + sums[2] is not None
    evaluator = DoublyRobust(cv=KFold(4)).fit(a, DecisionTreeClassifier())
    alone = evaluator.evaluate(UniformPolicy(), a)
    joined = evaluator.evaluate(UniformPolicy(), concat([b, a])[300:])
    assert_allclose(joined.value, alone.value, rtol=1e-12)


def test_the_order_of_the_list_is_the_order_of_the_rounds():
    a, b = few_contexts(0, 100), few_contexts(1, 300)
    joined = concat([b, a])
    assert_array_equal(joined.row_id.position, np.arange(400))
    assert_array_equal(joined.reward, [*b.reward, *a.reward])
    assert_same_logs(concat([joined[:200], joined[200:]]), joined)
    assert_same_logs(pickle.loads(pickle.dumps(joined)), joined)
    twice = concat([a[[0, 0, 1]], b])
    assert_array_equal(twice.row_id.position[:3], [0, 0, 1])
    users = concat([ONE[100:], TWO, ONE[:100]])
    fold = HashKFold(3).fold_of(users)
    assert_array_equal(fold[:140], HashKFold(3).fold_of(ONE)[100:])


def test_labels_of_rows_are_kept():
    pandas = pytest.importorskip("pandas")
    index = pandas.Index([f"round {k}" for k in range(N)])
    frame = pandas.DataFrame({"x": np.arange(N)}, index=index)
    joined = concat(parts_of(bandit_logs(context=frame)))
    with pytest.raises(ValueError, match="the index of reward has the label"):
        joined.replace(reward=pandas.Series(np.ones(N), index=index[::-1]))
    joined.replace(reward=pandas.Series(np.ones(N), index=index))
