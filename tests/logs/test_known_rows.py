# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Rows come back: which are recognised, and which must never be."""

import pickle

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from sklearn.tree import DecisionTreeRegressor

from skope_ope import (
    BanditLogs,
    DoublyRobust,
    DRns,
    PropensityEstimator,
    SlateLogs,
    UniformPolicy,
)
from skope_ope.datasets import make_bandit_logs, make_slate_logs
from skope_ope.logs._folds import HeldOut
from skope_ope.logs._known_rows import KnownRows, places_among, rows_among

N = 400
RNG = np.random.RandomState(0)
X, ACTION = RNG.normal(size=(N, 3)), RNG.randint(3, size=N)
REWARD = (RNG.random_sample(N) < 0.4).astype(float)
ROWS = np.arange(N)


def logs_of(rows=ROWS, context=X, action=ACTION, reward=REWARD, **fields):
    fields = {name: np.asarray(values)[rows] for name, values in fields.items()}
    return BanditLogs(
        context[rows], action[rows], reward[rows], actions=[0, 1, 2], **fields
    )


def found(logs, known):
    """Rows that are found, after a check that both ways of asking agree."""
    rows = rows_among(logs, known)
    assert_array_equal(rows >= 0, KnownRows(known).has(logs))
    return rows


@pytest.mark.parametrize("dense", ["parts", "order", "copies", "one"])
def test_any_rows_in_any_order(dense):
    rows = {
        "parts": ROWS[100:250],
        "order": RNG.permutation(N),
        "copies": RNG.randint(N, size=N),
        "one": ROWS[7:9],
    }[dense]
    assert_array_equal(found(logs_of(rows), logs_of()), rows)


def test_known_and_new_rows_together():
    new = RNG.normal(size=(N, 3))
    both = np.concatenate([X[:50], new]), np.append(ACTION[:50], ACTION)
    other = BanditLogs(*both, np.ones(N + 50), actions=[0, 1, 2])
    assert_array_equal(found(other, logs_of()), np.append(ROWS[:50], np.full(N, -1)))


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
    for fields in (
        {"timestamp": ROWS * 0.5},
        {"timestamp": np.datetime64("2020-01-01") + ROWS},
        {"group": [f"user {i}" for i in ROWS]},
        {"group": [(i // 20, i % 20) for i in ROWS]},
    ):
        fields = {name: np.array(v) for name, v in fields.items()}
        if "group" in fields and fields["group"].ndim == 2:
            fields["group"] = fields["group"].astype(object)
        known = logs_of(context=few, **fields)
        assert known._content.fields == tuple(fields)
        assert_array_equal(found(logs_of(context=few, **fields), known), ROWS)
        assert (found(logs_of(context=few), known) < 0).all()  # it is not told
    spent = RNG.gamma(1.0, size=N)
    known = logs_of(context=few, reward=spent)
    assert_array_equal(found(logs_of(context=few, reward=spent), known), ROWS)
    anew = RNG.gamma(1.0, size=N)
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

    def draw(n_rounds):
        cells = np.minimum(rng.geometric(1 / 700, size=n_rounds), 2000)
        return BanditLogs(
            cells[:, None], rng.randint(3, size=n_rounds), np.ones(n_rounds)
        )

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
    x = rng.normal(size=(600, 4))
    action = rng.randint(3, size=600)
    reward = x[np.arange(600), action] + rng.normal(size=600)
    first, second = (
        BanditLogs(x, action, reward, np.full(600, 1 / 3)) for _ in range(2)
    )
    policy = UniformPolicy()
    model = DecisionTreeRegressor(random_state=0)
    for evaluator in (
        DoublyRobust(reward_model=model),
        DoublyRobust(),
        DRns(reward_model=model, random_state=0),
        DRns(random_state=0),
    ):
        fitted = evaluator.fit(first)
        own, again = fitted.evaluate(policy), fitted.evaluate(policy, second)
        assert again.value == own.value
        assert again.standard_error == own.standard_error
    estimator = PropensityEstimator().fit(first)
    assert_array_equal(
        estimator.transform(second).propensity, estimator.transform(first).propensity
    )


def test_slates():
    logs = make_slate_logs(N, random_state=0)

    def again(rows=ROWS, **fields):
        return SlateLogs(
            logs.context[rows],
            logs.slate[rows],
            logs.reward[rows],
            n_candidates=logs.n_candidates,
            **fields,
        )

    assert_array_equal(found(again(ROWS[::-3]), logs), ROWS[::-3])
    assert (found(make_slate_logs(N, random_state=1), logs) < 0).all()
    # pages without context: the slates tell them apart, and what is shown in them
    slate = RNG.rand(N, 50).argsort(axis=1)[:, :4]
    item = np.array([f"item {i}" for i in range(50)])
    pages = [SlateLogs(np.zeros((N, 0)), slate, REWARD) for _ in range(2)]
    assert_array_equal(found(*pages), ROWS)
    labels = np.broadcast_to(item, (N, 50))
    other = [SlateLogs(np.zeros((N, 0)), slate, REWARD, item_id=labels)]
    moved = SlateLogs(np.zeros((N, 0)), 49 - slate, REWARD, item_id=labels[:, ::-1])
    assert_array_equal(found(moved, other[0]), ROWS)
    short = np.where(slate < 2, -1, slate)
    pages = [SlateLogs(np.zeros((N, 0)), short, REWARD) for _ in range(2)]
    assert_array_equal(found(*pages), ROWS)


def test_what_was_asked_of_logs_changes_no_pickle():
    import pickle

    logs = logs_of()
    before = pickle.dumps(logs)
    found(logs_of(), logs)
    assert pickle.dumps(logs) == before


def test_worlds_of_this_package():
    first, second = (make_bandit_logs(300, random_state=seed) for seed in (0, 1))
    assert (found(second, first) < 0).all()
    again = make_bandit_logs(300, random_state=0)
    assert_array_equal(found(again, first), np.arange(300))


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


def test_places_among_are_those_of_a_table():
    rng = np.random.RandomState(0)
    for spread in (10, 10**9):
        known = rng.randint(spread, size=40)
        asked = np.concatenate([rng.choice(known, 20), rng.randint(spread, size=20)])
        last = {number: place for place, number in enumerate(known.tolist())}
        expected = [last.get(number, -1) for number in asked.tolist()]
        assert places_among(asked, known).tolist() == expected
        assert places_among(asked, known[:0]).tolist() == [-1] * 40
        assert places_among(asked[:0], known).tolist() == []
