# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Facts and findings of a log from its parts, in any order, are those of memory."""

from functools import reduce
from operator import add
from types import SimpleNamespace

import numpy as np
import pytest
from scipy import stats

from skope_ope import (
    IPS,
    BanditLogs,
    ConstantPolicy,
    DirectMethod,
    SlateIPS,
    UniformPolicy,
    UniformSlatePolicy,
    concat,
    evaluate,
    summarize,
)
from skope_ope.datasets import make_adaptive_logs, make_bandit_logs
from skope_ope.evaluators import ValueSummary
from skope_ope.logs.checks._order import OrderSums
from skope_ope.logs.sums._group_sums import KEPT_GROUPS, WordsOfGroups, sums_of_groups
from skope_ope.logs.sums._row_sample import RowSample
from tests.logs._worlds import parts_of, slates, world

pytestmark = pytest.mark.filterwarnings("ignore::skope_ope.exceptions.OPEWarning")
SEEDS = range(40)


def objects(labels):
    array = np.empty(len(labels), dtype=object)
    array[:] = labels
    return array


def summed(parts):
    """The value of the uniform policy from parts of logs."""
    return total(parts).values()["u", "e"]


def total(parts):
    parts = [(one, *of_kind(one)) for one in parts]
    return sum(summarize({"u": p}, one, evaluators={"e": e}) for one, p, e in parts)


def of_kind(logs):
    if isinstance(logs, BanditLogs):
        return UniformPolicy(), IPS()
    return UniformSlatePolicy(3), SlateIPS()


def in_memory(logs):
    policy, evaluator = of_kind(logs)
    return evaluator.fit(logs).evaluate(policy)


# -- values ---------------------------------------------------------------------------
@pytest.mark.few_cases(10)
@pytest.mark.parametrize("seed", SEEDS)
def test_findings_and_numbers_of_any_parts_are_those_of_memory(seed):
    logs = world(seed)
    value, own = summed(parts_of(logs, 1 + seed % 9, seed)), in_memory(logs)
    check_findings(value, own)
    assert value.n_rounds == own.n_rounds == len(logs)
    found, expected = value.diagnostics, own.diagnostics
    for name in {*found} & {*expected}:
        near = {"rtol": 1e-7, "atol": 1e-9, "err_msg": name}
        np.testing.assert_allclose(found[name], expected[name], **near)


def check_findings(value, own, rel=1e-8):
    """Raise unless both tell the same of the log; of weights sums know less."""
    of_weights = ("mean_weight", "tail")
    found, expected = (
        {w.name: float(w.value) for w in one.warnings if w.name not in of_weights}
        for one in (value, own)
    )
    assert found == pytest.approx(expected, rel=rel)


def test_worlds_ring_all_bells():
    names = {w.name for seed in SEEDS[:16] for w in in_memory(world(seed)).warnings}
    all_bells = {
        "propensity_too_small",
        "propensity_too_large",
        "impossible_propensity",
    }
    assert names >= all_bells | {"trailing_zeros"}


@pytest.mark.few_cases(1)
@pytest.mark.parametrize("seed", range(3))
def test_the_first_rounds_of_a_logger_that_learns(seed):
    logs = make_adaptive_logs(n_rounds=8000, random_state=seed)
    value, own = summed(parts_of(logs, 6, seed)), in_memory(logs)
    assert "adaptive_logger" in [one.name for one in own.warnings]
    check_findings(value, own)


@pytest.mark.parametrize("seed", range(2))
def test_of_many_rounds_a_sample_is_looked_at(seed):
    rng = np.random.default_rng(seed)
    n = 50_000
    action = (rng.random(n) < 0.7).astype(int)
    p = np.where(action, 0.6, 0.4)  # of another logger
    logs = BanditLogs(rng.integers(0, 2, (n, 1)), action, rng.random(n), p)
    merged = summed(parts_of(logs, 4, seed))
    check_findings(merged, summed([logs]))
    check_findings(merged, in_memory(logs), rel=0.1)


def test_a_gap_without_spread():
    # 1/p is the number of actions that were logged, in all rounds: exactly
    action = np.arange(300) % 3
    logs = BanditLogs(
        np.zeros((300, 0)), action, np.ones(300), np.full(300, 1 / 3), actions=range(9)
    )
    for value in (summed(parts_of(logs, 5, 0)), in_memory(logs)):
        assert value.diagnostics["inverse_propensity_z"] == 0


@pytest.mark.few_cases(2)
@pytest.mark.parametrize("seed", range(8))
def test_a_file_holds_all_of_it(seed, tmp_path):
    parts = parts_of(world(seed), 4, seed)
    read = []
    for part in parts:
        total([part]).save(tmp_path / "part.npz")
        read.append(ValueSummary.load(tmp_path / "part.npz"))
    found, own = sum(read).values()["u", "e"], summed(parts)
    assert (found.value, found.standard_error) == (own.value, own.standard_error)
    # of the rows that are looked at, a file keeps fewer
    assert {one.name for one in found.warnings} == {one.name for one in own.warnings}
    assert repr(found.diagnostics) == repr(own.diagnostics)


@pytest.mark.parametrize("seed", [5, 10, 14, 17, 22, 26])
def test_actions_that_parts_do_not_know_of(seed):
    logs = world(seed).replace(logging_proba=None, available=None)
    common, index = np.bincount(logs.action_index).argmax(), logs.action_index
    mine = np.where(index == common, np.arange(len(logs)) % 2, index % 2)
    names = ("context", "action", "reward", "propensity", "group", "sample_weight")
    parts = [
        BanditLogs(**{name: getattr(logs[rows], name) for name in (*names, *TIMES)})
        for rows in (mine == 0, mine == 1)
    ]
    assert {*parts[0].actions} != {*parts[1].actions}
    policies, evaluators = {"a": ConstantPolicy(logs.actions[common])}, {"e": IPS()}
    value = sum(summarize(policies, one, evaluators=evaluators) for one in parts)
    value = value.values()["a", "e"]
    own = evaluate(policies, concat(parts), evaluators=evaluators)["a", "e"]
    assert value.value == pytest.approx(own.value, rel=1e-12)
    found, expected = (
        {w.name: float(w.value) for w in one.warnings if "propensity" in w.name}
        for one in (value, own)
    )
    assert found == pytest.approx(expected, rel=1e-8)
    for name in ("inverse_propensity_z", "action_count_z"):  # in another order
        if name in value.diagnostics:
            told = (np.atleast_1d(one.diagnostics[name]) for one in (value, own))
            np.testing.assert_allclose(*map(np.sort, told), rtol=1e-7, atol=1e-9)


TIMES = ("logger", "timestamp")


def test_parts_must_have_the_same_fields():
    logs, other = (make_bandit_logs(50, random_state=seed) for seed in (0, 1))
    bare = other.replace(propensity=None, logging_proba=None)
    evaluators = {"e": DirectMethod(reward_model=0.5)}
    one, two = (
        summarize({"u": UniformPolicy()}, part, evaluators=evaluators)
        for part in (logs, bare)
    )
    with pytest.raises(ValueError, match="has logging_proba and another has none"):
        one + two
    with pytest.raises(TypeError):
        one + 1


def test_slates_and_the_order_of_their_rounds():
    logs = slates(0)
    value, own = summed(parts_of(logs, 5, 1)), in_memory(logs)
    assert [one.name for one in own.warnings] == ["trailing_zeros"]
    check_findings(value, own)
    check_findings(summed([logs[np.random.default_rng(0).permutation(300)]]), own)
    # rows between each other tell nothing of the order
    assert not summed([logs[::2], logs[1::2]]).warnings


def test_origins_are_looked_at_one_by_one():
    late, right = slates(0), slates(1).replace(reward=np.tile([1.0, 0.0], 150))
    for parts in ([late[:100], right, late[100:]], [right, late[100:], late[:100]]):
        check_findings(summed(parts), in_memory(late))
        groups = len({*late.group, *right.group})
        assert f"{groups} exact groups" in repr(total(parts))


# -- the order of the rounds ----------------------------------------------------------
def order_logs(seed, rate=0.05, **fields):
    rng = np.random.default_rng(seed)
    n = int(rng.integers(20, 300))
    reward = (rng.random(n) < rate).astype(float)
    return BanditLogs(np.zeros((n, 0)), np.zeros(n, int), reward, **fields)


def merged(parts):
    return reduce(add, map(OrderSums.of, parts))


@pytest.mark.few_cases(10)
@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("join", [False, True])
def test_any_parts_tell_the_order_of_the_whole(seed, join):
    logs = order_logs(seed, rate=(0.02, 0.3, 1.0)[seed % 3])
    found, n = merged(parts_of(logs, 1 + seed % 8, seed)), len(logs)
    found = found.joined() if join else found
    rewarded = np.flatnonzero(logs.reward)
    last = rewarded[-1] if len(rewarded) else -1
    assert found.is_known
    assert (found.n, found.stop, found.last_rewarded) == (n, n, last)
    *told, (lengths, counts) = found.units()
    assert told == [n, len(rewarded), n - 1 - last]
    expected = np.unique(np.diff(rewarded), return_counts=True)
    np.testing.assert_array_equal(lengths, expected[0])
    np.testing.assert_array_equal(counts, expected[1])
    if join:
        assert len(found.stretches) == 1


@pytest.mark.parametrize("seed", range(6))
def test_last_rounds_of_groups(seed):
    logs = order_logs(seed)
    logs = logs.replace(group=np.random.default_rng(seed).integers(0, 12, len(logs)))
    found = merged(parts_of(logs, 4, seed))
    n, n_rewarded, n_last, gaps = found.units()
    ends = [np.flatnonzero(logs.group == one)[-1] for one in np.unique(logs.group)]
    ends = np.sort(ends)
    last = max(np.flatnonzero(logs.reward), default=-1)
    assert n == len(ends)
    assert n_rewarded == np.count_nonzero(logs.reward[ends])
    assert n_last == np.count_nonzero(ends > last)
    assert int(gaps[1].sum()) == len(np.diff(np.flatnonzero(logs.reward[ends])))
    assert found.with_fewer_ends(5).units()[0] == min(5, n)


def test_timestamps_that_decrease():
    logs = order_logs(3)
    rng = np.random.default_rng(0)
    for time in (np.arange(len(logs)), rng.integers(0, 9, len(logs))):
        found = merged(parts_of(logs.replace(timestamp=time), 5, 1))
        for one in (found, found.joined()):
            assert one.n_backwards == np.count_nonzero(np.diff(time) < 0)
    assert merged([logs]).n_backwards == 0


# -- rows that are kept of a log, however it is cut -----------------------------------
def row_logs(n=2_000, origin=None):
    logs = BanditLogs(np.zeros((n, 0)), np.zeros(n, int), np.arange(n) % 7.0)
    if origin is not None:
        logs.__dict__["_origin"] = origin
    return logs


def columns(logs, rows):
    return {"reward": logs.reward[rows]}


@pytest.mark.parametrize("how", [RowSample.by_lot, RowSample.first])
@pytest.mark.parametrize("seed", range(3))
def test_the_same_rows_of_any_parts(how, seed):
    logs = row_logs()
    whole = how(100, logs, columns)
    merged = reduce(add, (how(100, one, columns) for one in parts_of(logs, 9, seed)))
    assert len(merged) == len(whole) == 100
    places = [one.position[one.order()] for one in (merged, whole)]
    np.testing.assert_array_equal(*places)
    assert (merged.columns["reward"][merged.order()] == logs.reward[places[0]]).all()
    if how == RowSample.first:
        np.testing.assert_array_equal(places[0], np.arange(100))


def test_fewer_rows_are_those_that_had_been_kept():
    whole = RowSample.by_lot(500, row_logs(), columns)
    few = RowSample.by_lot(60, row_logs(), columns)
    assert sorted(whole.reduced(60).position) == sorted(few.position)
    # whoever kept fewer says how many are kept
    assert len(whole + few) == 60
    assert len(RowSample.by_lot(3_000, row_logs(), columns)) == 2_000
    logs = row_logs()[np.random.default_rng(0).permutation(2_000)]
    first = RowSample.first(50, logs, columns)
    assert sorted(first.position) == list(range(50))
    by_lot, whole = (RowSample.by_lot(50, one, columns) for one in (logs, row_logs()))
    assert sorted(by_lot.position) == sorted(whole.position)


@pytest.mark.parametrize("origin", ["monday", "tuesday"])
def test_hashes_are_uniform_and_rows_apart(origin):
    logs = row_logs(60_000, origin)
    position = RowSample.by_lot(3_000, logs, columns).position
    position.sort()
    assert stats.kstest(position / 60_000, "uniform").pvalue > 1e-4
    gaps = np.diff(position)
    assert gaps.var() == pytest.approx(gaps.mean() ** 2, rel=0.2)  # geometric
    for period in (2, 7, 64):
        counts = np.bincount(position % period, minlength=period)
        assert stats.chisquare(counts).pvalue > 1e-4


def test_origins():
    one = RowSample.by_lot(100, row_logs(), columns)
    again = RowSample.by_lot(100, row_logs(), columns)  # another origin, by lot
    np.testing.assert_array_equal(one.position, again.position)
    days = [RowSample.by_lot(100, row_logs(origin=o), columns) for o in ("mon", "tue")]
    assert set(days[0].position) != set(days[1].position)
    both = days[0] + days[1]
    assert both.origins == ["mon", "tue"]
    assert 30 < np.count_nonzero(both.origin) < 70
    other = days[1] + days[0]
    assert sorted(zip(both.origin, both.position, strict=True)) == sorted(
        zip(other.origin, other.position, strict=True)
    )
    origins = ["0" * 32, "1" * 32]
    days = [RowSample.by_lot(5, row_logs(20, o), columns) for o in origins]
    both = days[0] + days[1]
    assert len(both) == 5
    assert both.origins[0] == origins[0]
    assert np.bincount(both.origin).tolist() == [3, 2]


# -- sums by group --------------------------------------------------------------------
LONG = "a" * 100


def words(labels):
    """Return the words of some labels."""
    return WordsOfGroups(SimpleNamespace(groups=labels)).words.tolist()


def part(groups, values, limits=KEPT_GROUPS):
    """Return the sums of values by group, and the largest."""
    labels, codes = np.unique(groups, return_inverse=True)
    sizes = np.bincount(codes)
    logs = SimpleNamespace(groups=labels, group_index=codes, _group_sizes=sizes)
    words = WordsOfGroups(logs, limits)
    last = np.full(len(labels), -1)
    np.maximum.at(last, codes, values)
    found = sums_of_groups(logs, words, {"v": values})
    return found.with_sums(last=last[words.order])


@pytest.mark.parametrize("few", [False, True])
def test_any_parts_give_the_sums_of_the_whole(few):
    limits = (200, 50) if few else KEPT_GROUPS
    rng = np.random.default_rng(0)
    groups, values = rng.integers(0, 400, 5_000), rng.integers(0, 100, 5_000)
    whole, n = part(groups, values, limits), len(np.unique(groups))
    cuts = np.split(rng.permutation(5_000), [10, 11, 300, 4_000])
    parts = [part(groups[rows], values[rows], limits) for rows in cuts]
    merged = parts[2] + (parts[0] + parts[1]) + parts[4] + parts[3]
    assert merged.complete == whole.complete == (not few)
    np.testing.assert_array_equal(merged.words, whole.words)
    for name in ("n", "v", "last"):
        np.testing.assert_array_equal(merged[name], whole[name])
    if few:
        assert len(merged.words) == 50
        assert merged.n_groups == pytest.approx(n, rel=0.5)
        assert merged.per_kept == merged.n_groups / 50
    else:
        assert merged.n_groups == n and merged.per_kept == 1


def test_parts_that_kept_unlike_many():
    rng = np.random.default_rng(1)
    groups = rng.permutation(1_000)
    one, other = (part(some, some) for some in (groups[:500], groups[500:]))
    merged = one.reduced((100, 100)) + other
    assert not merged.complete
    expected = (one + other).reduced((100, 100))
    np.testing.assert_array_equal(merged.words, expected.words)
    np.testing.assert_array_equal(merged["v"], expected["v"])
    empty = part(groups[:0], groups[:0])
    assert (empty + one).n_groups == (one + empty).n_groups == 500


def test_a_label_has_one_word_whatever_holds_it():
    texts = ["ann", "bo", "", "ann's", LONG, "üñí"]
    expected = words(np.array(texts))
    assert len(set(expected)) == 6
    assert words(objects(texts)) == expected
    assert words(np.array(texts[:2])) == expected[:2]  # of another width
    assert words(objects([3, *texts]))[1:] == expected
    numbers = [0, 1, -5, 2**40]
    expected = words(np.array(numbers))
    assert words(np.array(numbers, dtype=float)) == expected
    assert words(objects(numbers)) == expected
    assert words(objects([*numbers, "x"]))[:4] == expected
    assert words(np.array(numbers[:2], dtype=np.int8)) == expected[:2]
    assert words(np.array([False, True])) == expected[:2]
    halves = words(np.array([0.5, 1.0]))
    assert halves[1] == expected[1] and halves[0] not in expected
    pairs = words(objects([("a", 1), ("a", 2), ("b", 1), (1, "a")]))
    assert len(set(pairs)) == 4
    assert words(objects([("a", 1.0)])) == pairs[:1]
    given = [(1, "a"), (1.0, "a"), ("a", 1), (), (1, ("b", None)), (2**70,), "a", 1]
    found = words(objects(given))
    assert found[0] == found[1] and len(set(found)) == len(given) - 1
    for label, word in zip(given, found, strict=True):
        assert words(objects([label])) == [word]


def test_words_are_uniform():
    for labels in (np.arange(5_000), np.array([f"user-{k}" for k in range(5_000)])):
        found = np.array(words(labels), dtype=np.uint64)
        assert len(np.unique(found)) == 5_000
        counts = np.bincount((found >> np.uint64(60)).astype(int), minlength=16)
        assert np.abs(counts - 312.5).max() < 100
