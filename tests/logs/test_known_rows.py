# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Rows come back: which are recognised, and which must never be."""

import pickle
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from sklearn.linear_model import Ridge
from sklearn.model_selection import KFold, LeaveOneOut, TimeSeriesSplit
from sklearn.tree import DecisionTreeRegressor

from skope_ope import (
    BanditLogs,
    DoublyRobust,
    DRns,
    PropensityEstimator,
    RewardModelPolicy,
    SlateLogs,
    UniformPolicy,
    audit,
    evaluate,
    scan_logs,
    summarize,
)
from skope_ope.datasets import make_bandit_logs, make_slate_logs
from skope_ope.exceptions import LearnedRoundsWarning
from skope_ope.logs._folds import HeldOut
from skope_ope.logs._known_rows import (
    KnownRows,
    column_words,
    context_words,
    mixed,
    rows_among,
)

N = 400
RNG = np.random.RandomState(0)
X, ACTION = RNG.normal(size=(N, 3)), RNG.randint(3, size=N)
REWARD = (RNG.random_sample(N) < 0.4).astype(float)
ROWS = np.arange(N)


def logs_of(rows=ROWS, context=X, action=ACTION, reward=REWARD, **fields):
    fields = {name: np.asarray(values)[rows] for name, values in fields.items()}
    given = context[rows], action[rows], reward[rows]
    return BanditLogs(*given, actions=[0, 1, 2], **fields)


def found(logs, known):
    """Rows that are found, after a check that both ways of asking agree."""
    rows = rows_among(logs, known)
    assert_array_equal(rows >= 0, KnownRows(known).has(logs))
    return rows


def test_any_rows_in_any_order():
    known = logs_of()
    before = pickle.dumps(known)
    copies = RNG.randint(N, size=N)
    for rows in (ROWS[100:250], RNG.permutation(N), copies, ROWS[7:9]):
        assert_array_equal(found(logs_of(rows), known), rows)
    assert pickle.dumps(known) == before
    context, action = (
        np.vstack([X[:50], RNG.normal(size=(N, 3))]),
        [*ACTION[:50], *ACTION],
    )
    other = BanditLogs(context, action, np.ones(N + 50), actions=[0, 1, 2])
    assert_array_equal(found(other, known), np.append(ROWS[:50], np.full(N, -1)))


def test_propensities_rewards_and_the_order_of_actions_do_not_matter():
    known = logs_of()
    for other in (
        logs_of(propensity=np.full(N, 0.3)),
        logs_of(reward=-REWARD),
        logs_of(timestamp=ROWS, group=ROWS // 4),
        PropensityEstimator().fit_transform(logs_of()),
        BanditLogs(X, ACTION, REWARD, actions=[2, 9, 1, 0]),
        BanditLogs(X, ACTION.astype(float), REWARD),
        BanditLogs(X.astype(np.longdouble), ACTION, REWARD),
    ):
        assert_array_equal(found(other, known), ROWS)
        assert_array_equal(found(known, other), ROWS)


def test_columns_of_frames_may_move_and_more_may_come():
    pandas = pytest.importorskip("pandas")
    polars = pytest.importorskip("polars")
    frame = pandas.DataFrame(X, columns=list("abc")).assign(text="x")
    known = BanditLogs(frame, ACTION, REWARD)
    moved = frame[["text", "c", "a", "b"]]
    more = moved.assign(z=1.0)
    for context in (moved, more, polars.from_pandas(more)):
        assert_array_equal(found(BanditLogs(context, ACTION, REWARD), known), ROWS)
    fewer = BanditLogs(frame[["a", "b", "text"]], ACTION, REWARD)
    assert (found(fewer, known) < 0).all()
    named = BanditLogs(frame[["a", "b", "c"]], ACTION, REWARD)
    assert_array_equal(found(logs_of(), named), ROWS)  # an array: by position
    assert_array_equal(found(named, logs_of()), ROWS)
    assert (found(logs_of(context=X[:, ::-1]), named) < 0).all()


def test_ids_tell_where_the_origin_is_the_same():
    logs = BanditLogs(np.zeros((6, 1)), [0] * 6, np.ones(6))
    assert found(logs[[5, 2, 2]], logs[2:]).tolist() == [3, 0, 0]
    assert found(logs[:3], logs[2:]).tolist() == [-1, -1, 0]
    assert found(logs[:0], logs).tolist() == []
    assert "_content" not in logs[2:].__dict__


def test_time_group_and_reward_tell_apart_what_context_and_action_do_not():
    few = np.zeros((N, 1))
    pairs = np.array([(i // 20, i % 20) for i in ROWS]).astype(object)
    for fields in (
        {"timestamp": ROWS * 0.5},
        {"timestamp": np.datetime64("2020-01-01") + ROWS},
        {"group": np.array([f"user {i}" for i in ROWS])},
        {"group": pairs},
    ):
        known = logs_of(context=few, **fields)
        assert known._content.fields == tuple(fields)
        assert_array_equal(found(logs_of(context=few, **fields), known), ROWS)
        assert (found(logs_of(context=few), known) < 0).all()  # it is not told
    spent, anew = RNG.gamma(1.0, size=(2, N))
    known = logs_of(context=few, reward=spent)
    assert_array_equal(found(logs_of(context=few, reward=spent), known), ROWS)
    assert (found(logs_of(context=few, reward=anew), known) < 0).all()
    assert logs_of(timestamp=ROWS)._content.fields == ()  # no more than needed


def test_contents_that_repeat_tell_nothing():
    known = logs_of(context=np.round(X[:, :1], 1))
    assert known._content.words is None
    assert (found(logs_of(context=np.round(X[:, :1], 1)), known) < 0).all()
    # one copy in a thousand is allowed
    context = RNG.normal(size=(2000, 2))
    for copies, told in ((2, True), (3, False)):
        context[:copies] = context[1000 : 1000 + copies]
        same = np.zeros(2000, dtype=int)
        known, other = (BanditLogs(context, same, same) for _ in range(2))
        rows = found(other, known)
        assert (rows >= 0).all() == told
        assert (rows >= 0).any() == told


def test_users_who_act_anew_are_other_rounds():
    # features that stay, one round a user and campaign, another draw of the logger
    for n_actions in (2, 10):
        first, second = RNG.randint(n_actions, size=(2, N))
        known, other = BanditLogs(X, first, REWARD), BanditLogs(X, second, REWARD)
        assert (found(other, known) < 0).all()
        both = BanditLogs(np.tile(X, (2, 1)), np.append(first, second), np.ones(2 * N))
        assert_array_equal(found(both, known)[:N], ROWS)  # here they do come back


def test_new_rounds_of_the_same_discrete_world_are_other_rounds():
    # fitted rows that chance has made distinct: 6,000 contents, most are rare
    rng = np.random.RandomState(1)

    def draw(n):
        cells = np.minimum(rng.geometric(1 / 700, size=n), 2000)
        return BanditLogs(cells[:, None], rng.randint(3, size=n), np.ones(n))

    trusted = accused = 0
    for _ in range(300):
        known = draw(25)
        trusted += known._content.words is not None
        accused += bool((rows_among(draw(500), known) >= 0).any())
    assert trusted > 100
    assert accused <= 1


def test_parts_of_hillstrom_are_other_rounds(data_dir):
    pandas = pytest.importorskip("pandas")
    frame = pandas.read_csv(data_dir / "hillstrom_email_part1.csv.gz", nrows=9000)
    outcomes = ["segment", "visit", "conversion", "spend"]

    def part(start, stop):
        rows = frame[start:stop]
        return BanditLogs(rows.drop(columns=outcomes), rows["segment"], rows["visit"])

    known = part(0, 2999)
    assert known._content.words is None  # a row in thirty has a double
    assert (found(part(0, 2999), known) < 0).all()
    test = part(3000, 9000)
    for size in (30, 100, 300, 2999):
        assert (found(test, part(0, size)) < 0).all()


def test_a_log_that_was_built_anew_gives_the_same_numbers():
    rng = np.random.RandomState(0)
    x, action = rng.normal(size=(600, 4)), rng.randint(3, size=600)
    reward = x[np.arange(600), action] + rng.normal(size=600)
    first, second = (BanditLogs(x, action, reward, 1 / 3) for _ in range(2))
    model = DecisionTreeRegressor(random_state=0)
    evaluators = DoublyRobust(reward_model=model), DoublyRobust()
    for evaluator in (*evaluators, DRns(reward_model=model, random_state=0)):
        fitted = evaluator.fit(first)
        own, again = (fitted.evaluate(UniformPolicy(), one) for one in (None, second))
        assert again.value == own.value
        assert again.standard_error == own.standard_error
    estimator = PropensityEstimator().fit(first)
    p, again = (estimator.transform(one).propensity for one in (first, second))
    assert_array_equal(again, p)


def test_slates():
    logs = make_slate_logs(N, random_state=0)
    rows = ROWS[::-3]
    given = (values[rows] for values in (logs.context, logs.slate, logs.reward))
    again = SlateLogs(*given, n_candidates=logs.n_candidates)
    assert_array_equal(found(again, logs), rows)
    assert (found(make_slate_logs(N, random_state=1), logs) < 0).all()

    def pages(slate, **fields):  # without context
        return SlateLogs(np.zeros((N, 0)), slate, REWARD, **fields)

    # the slates tell them apart, and what is shown in them
    slate = RNG.rand(N, 50).argsort(axis=1)[:, :4]
    for some in (slate, np.where(slate < 2, -1, slate)):
        assert_array_equal(found(pages(some), pages(some)), ROWS)
    labels = np.broadcast_to(np.array([f"item {i}" for i in range(50)]), (N, 50))
    moved = pages(49 - slate, item_id=labels[:, ::-1])
    assert_array_equal(found(moved, pages(slate, item_id=labels)), ROWS)


@pytest.mark.parametrize("far", [0, 10**12])
def test_few_rows_of_a_huge_log_need_no_table_of_it(far):
    logs = make_bandit_logs(50, random_state=0)
    position = np.array([3, 7, 8, far + 20, far + 21])
    some = logs[:5]._copy()
    some.__dict__["_position"] = position
    known = KnownRows(some)
    asked = logs[:6]._copy()
    asked.__dict__["_position"] = np.array([far + 21, 4, 8, 3, far + 22, 0])
    assert known.has(asked).tolist() == [True, False, True, True, False, False]
    assert rows_among(asked, some).tolist() == [4, -1, 2, 0, -1, -1]
    assert rows_among(some, asked).tolist() == [3, -1, 2, -1, 0]
    assert len(pickle.dumps(known)) < 3000
    twice = some[[0, 1, 1, 4]]
    assert rows_among(asked, twice).tolist() == [3, -1, -1, 0, -1, -1]
    assert HeldOut(twice, [([0], [1]), ([1], [0, 3])]).fold.tolist() == [1, 0, 0, 1]


def test_sums_of_training_parts():
    logs = logs_of(ROWS[:20])
    weight = np.random.default_rng(0).normal(size=20)
    weight[0] = 1e18  # of which a difference of sums would leave nothing
    for cv in (3, KFold(3, shuffle=True, random_state=0), TimeSeriesSplit(3)):
        held_out = HeldOut(logs, cv)
        counts, sums = held_out.train_sums(logs.action_index, 3, [None, weight])
        for k, train in enumerate(held_out.train):
            codes = logs.action_index[train]
            assert_array_equal(counts[k], np.bincount(codes, minlength=3))
            expected = np.bincount(codes, weight[train], minlength=3)
            assert_allclose(sums[k], expected, rtol=1e-12)


def test_folds_inside_of_a_fold_have_seen_none_of_its_test_rounds():
    logs = logs_of(ROWS[:20])
    for cv in (KFold(4), TimeSeriesSplit(3), KFold(2), LeaveOneOut()):
        folds = list(cv.split(np.arange(20)))
        held_out = HeldOut(logs, cv)
        for k, (train, _) in enumerate(folds):
            inside, others = held_out.inside(k), folds[:k] + folds[k + 1 :]
            found = [[train[rows].tolist() for rows in pair] for pair in inside]
            expected = [[np.intersect1d(train, r).tolist() for r in p] for p in others]
            assert found == [pair for pair in expected if all(pair)]


# -- contents -------------------------------------------------------------------------
TABLE = np.array([[0, 1, -3], [2, 0, 4], [0, 0, 0], [1, 1, 2], [0, 1, -3]])


def test_the_hash_is_the_same_in_every_process():
    # the first numbers of the generator from state 0 (Steele, Lea, Flood 2014)
    state = np.array([0, 0x9E3779B97F4A7C15], dtype=np.uint64)
    assert mixed(state).tolist() == [0xE220A8397B1DCDAF, 0x6E789E6AA1B965F4]
    labels = np.empty(4, dtype=object)
    labels[:] = ["a", 1, None, (2, "b")]
    assert column_words(labels).tolist() == [
        *(3405396810240292928, 4607182418800017408),
        *(9221120237041090560, 130803003359244181),
    ]
    assert context_words(np.array([[1.0, 2.0]])) == 16855015047286240264


def test_equal_rows_alone_have_equal_hashes():
    words = context_words(TABLE)
    assert words[0] == words[4]
    assert len(set(words.tolist())) == 4
    assert words[2] == context_words(np.zeros((1, 3)))[0]
    for dtype in (np.int8, np.int64, np.float32, np.float16):
        assert_array_equal(context_words(TABLE.astype(dtype)), words)
    flags = np.array([[True, False], [False, False]])
    assert_array_equal(context_words(flags), context_words(flags.astype(float)))
    zeros = np.zeros((1, 2))
    assert_array_equal(context_words(-zeros), context_words(zeros))


@pytest.mark.parametrize("kind", ["csr", "csc", "lil"])
def test_sparse_rows_are_those_of_dense_ones(kind):
    rng = np.random.RandomState(0)
    table = rng.normal(size=(40, 30)) * (rng.random_sample((40, 30)) < 0.1)
    table[7] = 0
    rows = sparse.csr_array(table)
    table[tuple(where[3] for where in rows.nonzero())] = 0.0
    rows.data[3] = 0.0  # a zero that is stored
    assert_array_equal(context_words(rows.asformat(kind)), context_words(table))
    none = context_words(sparse.csr_matrix(rows[:, :0]))
    assert_array_equal(none, context_words(table[:, :0]))


@pytest.mark.parametrize("library", ["pandas", "polars", "pyarrow"])
def test_frames_of_texts_dates_and_missing_values(library):
    module = pytest.importorskip(library)
    texts = ["x", "yy", "x", None]
    times = [datetime(2020, 1, 2, 3), datetime(2021, 1, 1), datetime(2020, 1, 2, 3)]
    data = {"text": texts, "time": [*times, None], "number": [1, 2, 1, None]}
    make = module.table if library == "pyarrow" else module.DataFrame
    expected = [
        column_words(np.array(texts, dtype=object)),
        column_words(np.array([*times, "NaT"], dtype="datetime64[s]")),
        column_words(np.array([1, 2, 1, np.nan])),
    ]
    frame = make(data)
    for name, words in zip(data, expected, strict=True):
        assert_array_equal(column_words(frame[name]), words)
        assert words[0] == words[2]
        assert words[3] == column_words([None])[0]
    assert len(set(context_words(frame).tolist())) == 3


TIMES = [np.datetime64("2020-01-01T01", unit) for unit in ("h", "ns")]
TIMES += [datetime(2020, 1, 1, 1, tzinfo=UTC), datetime(2020, 1, 1, 1)]
ALIKE = [
    [1, 1.0, True, np.float32(1), np.int8(1), Decimal(1), Fraction(1)],
    [None, float("nan"), np.nan, np.datetime64("NaT"), np.timedelta64("NaT")],
    *(["1", np.str_("1")], [(1, "a"), (1.0, "a")], TIMES),
    [date(2020, 1, 1), np.datetime64("2020-01-01", "D")],
    *([timedelta(hours=1), np.timedelta64(60, "m")], [10**400, 10**400]),
    *([object(), object()], [[1, 2], [1, 2]]),
]


@pytest.mark.parametrize("alike", ALIKE, ids=lambda labels: type(labels[0]).__name__)
def test_labels_that_are_alike(alike):
    words = set()
    for label in alike:
        column = np.empty(1, dtype=object)
        column[0] = label
        words.add(int(column_words(column)[0]))
        if isinstance(label, np.generic) or not hasattr(label, "__len__"):
            words.add(int(column_words(np.array([label]))[0]))
    assert len(words) == 1


def test_labels_that_are_not():
    labels = [0, 1, -1, 0.5, "0", "", "a", b"b", (1,), (1, 1), None, 10**400, 10**401]
    labels += [date(2020, 1, 1), timedelta(days=1), np.inf, 2**53]
    column = np.empty(len(labels), dtype=object)
    column[:] = labels
    assert len(set(column_words(column).tolist())) == len(labels)
    flags = (np.arange(1 << 16)[:, None] >> np.arange(16)) & 1
    words = context_words(flags)
    for part in (words >> np.uint64(24), words & np.uint64(2**40 - 1)):
        assert len(np.unique(part)) == 1 << 16
    counts = np.bincount((words >> np.uint64(56)).astype(int), minlength=256)
    # Pearson's test of the first byte: 256 cells of 256, four standard errors
    assert abs(((counts - 256) ** 2 / 256).sum() - 255) < 4 * np.sqrt(2 * 255)


# -- rows of files are known by their place in them ------------------------------------

ROLES = {"action": "item", "reward": "click", "propensity": "p", "context": ["x", "z"]}
ROLES["actions"] = [0, 1]
LATE = "ignore::skope_ope.exceptions.OPEWarning"


def write(path, columns):
    table = pytest.importorskip("pyarrow").table(columns)
    pytest.importorskip("pyarrow.parquet").write_table(table, path, row_group_size=200)


@pytest.fixture
def days(tmp_path):
    """Three files, whose contents hardly tell rows apart."""
    for day in range(3):
        rng = np.random.default_rng(day)
        x, z = rng.integers(0, 40, (2, 500)).astype(float)
        columns = {"x": x, "z": z, "item": rng.integers(0, 2, 500)}
        columns |= {"click": rng.random(500) < 0.3, "p": np.full(500, 0.5)}
        write(tmp_path / f"{day}.parquet", columns)
    return tmp_path


def test_rows_are_known_in_every_scan(days):
    whole = scan_logs(days, **ROLES)
    known = KnownRows(whole.sample(300, random_state=0))
    truth = np.zeros(1500, dtype=bool)
    truth[whole.sample(300, random_state=0).row_id.position] = True
    for day in range(3):
        one = scan_logs(days / f"{day}.parquet", **ROLES)
        found = [known.has(logs) for _, logs in one.read()]
        wanted = truth[500 * day :][:500]
        assert np.array_equal(np.concatenate(found), wanted)
        assert np.array_equal(known.has(one.sample(500)), wanted)
        assert np.array_equal(known.has(one.head(30)[10:]), wanted[10:30])
        assert known.share_in_doubt(one.head(30)) == 0


@pytest.mark.filterwarnings(LATE)
def test_a_policy_is_told_of_its_rows_day_by_day(days):
    def share_learned(total):
        told = total.values()["new", "SNIPS"].warnings
        [one] = [one for one in told if isinstance(one, LearnedRoundsWarning)]
        return one.value

    whole = scan_logs(days, **ROLES)
    policy = RewardModelPolicy(Ridge()).fit(whole.sample(300, random_state=0))
    scans = [scan_logs(days / f"{day}.parquet", **ROLES) for day in range(3)]
    sums = [summarize({"new": policy}, one, evaluators=["SNIPS"]) for one in scans]
    assert share_learned(sum(sums)) == 0.2
    for one, total in zip(scans, sums, strict=True):
        assert 0 < share_learned(total) < 0.3
        names = [finding.name for finding in audit(policy, one).findings]
        assert "learned_rounds" in names
    with pytest.warns(match="scan those that it has not learned from"):
        evaluate(policy, scans[0], evaluators=["SNIPS"])


def test_files_of_other_names_are_told_by_content_or_in_doubt(days):
    """A day was copied: its contexts come back, and some of them with new actions."""
    rng = np.random.default_rng(0)
    known = scan_logs(days / "0.parquet", **ROLES).head(500)
    columns = {"x": rng.random(500), "z": rng.random(500)}
    columns |= {"click": known.reward, "p": known.propensity}
    logs = {}
    for name, flipped in (("a", 0), ("b", 0), ("c", 100)):
        action = np.where(np.arange(500) < flipped, 1 - known.action, known.action)
        write(days / f"{name}.parquet", columns | {"item": action})
        logs[name] = scan_logs(days / f"{name}.parquet", **ROLES)
    policy = RewardModelPolicy(Ridge()).fit(logs["a"].head(500))
    assert KnownRows(logs["a"].head(500)).has(logs["b"].head(500)).all()
    assert not KnownRows(logs["a"].head(500)).has(logs["c"].head(500)).any()
    [found] = audit(policy, logs["c"].head(500)).findings
    assert (found.name, found.effect) == ("rows_not_recognised", 0.8)
