# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Facts and findings of a log from its parts."""

import io

import numpy as np
import pytest

from skope_ope import BanditLogs
from skope_ope.datasets import make_adaptive_logs
from skope_ope.evaluators.core._support_findings import support_findings
from skope_ope.evaluators.core._warnings import LATE_REWARDS_CHANCE
from skope_ope.logs._known_range import known_range
from skope_ope.logs.checks._order_findings import trailing_zero_findings
from skope_ope.logs.sums._log_sums import LogSums, known_fields
from tests.logs._worlds import entering, parts_of, slates, world

SEEDS = range(40)


def check_alike(found, expected, rows=True):
    """Raise unless findings say the same, about the same rows if these are asked."""
    for one, other in zip(found, expected, strict=True):
        for name in ("name", "severity", "actions", "rows")[: 4 if rows else 3]:
            assert getattr(one, name) == getattr(other, name), one.name
        numbers = [(each.number, each.effect) for each in (one, other)]
        np.testing.assert_allclose(*numbers, rtol=1e-8, atol=1e-12)


def findings_of(logs):
    """Return all findings that values make warnings of."""
    late = trailing_zero_findings(logs, chance_below=LATE_REWARDS_CHANCE)
    return [*logs._learning_findings, *late]


@pytest.mark.few_cases(10)
@pytest.mark.parametrize("seed", SEEDS)
def test_findings_of_any_parts_are_those_of_memory(seed):
    logs = world(seed)
    merged = sum(map(LogSums.of, parts_of(logs, 1 + seed % 9, seed)))
    count = entering(logs)
    facts, found = count._quick_propensity_findings
    assert merged._quick_propensity_findings[0] == facts
    # rows are called by their positions, whether or not all enter
    check_alike(merged._quick_propensity_findings[1], found, rows=count is logs)
    check_alike(findings_of(merged), findings_of(logs))
    assert merged._left_out_by_chance == count._left_out_by_chance
    assert merged._weighs_unevenly == count._weighs_unevenly
    assert known_range(merged) == known_range(logs)
    assert known_fields(merged) == known_fields(logs)


@pytest.mark.few_cases(1)
@pytest.mark.parametrize("seed", range(3))
def test_the_first_rounds_of_a_logger_that_learns(seed):
    logs = make_adaptive_logs(n_rounds=8000, random_state=seed)
    merged = sum(map(LogSums.of, parts_of(logs, 6, seed)))
    assert logs._learning_findings
    check_alike(merged._learning_findings, logs._learning_findings)


@pytest.mark.parametrize("seed", range(3))
def test_of_many_rounds_a_sample_is_looked_at(seed):
    rng = np.random.default_rng(seed)
    n = 50_000
    action = (rng.random(n) < 0.7).astype(int)
    p = np.where(action, 0.6, 0.4)  # of another logger
    logs = BanditLogs(rng.integers(0, 2, (n, 1)), action, rng.random(n), p)
    parts = parts_of(logs, 4, seed)
    merged, again = sum(map(LogSums.of, parts)), LogSums.of(logs)
    assert len(merged.sample) == 20_000
    assert set(merged.sample.position) == set(again.sample.position)
    [one], [other] = (each._quick_propensity_findings[1] for each in (merged, again))
    check_alike([one], [other])
    [in_memory] = logs._quick_propensity_findings[1]
    assert one.name == in_memory.name
    assert one.effect == pytest.approx(in_memory.effect, rel=0.1)


def test_worlds_ring_all_bells():
    names = {
        one.name
        for logs in map(world, SEEDS)
        for one in [*entering(logs)._quick_propensity_findings[1], *findings_of(logs)]
    }
    assert names >= {
        "propensity_too_small",
        "propensity_too_large",
        "impossible_propensity",
        "certain_propensities",
        "rounded_propensities",
        "trailing_zeros",
    }
    by_chance = [entering(world(seed))._left_out_by_chance for seed in SEEDS]
    assert any(by_chance) and not all(by_chance)


@pytest.mark.few_cases(10)
@pytest.mark.parametrize("seed", SEEDS)
def test_numbers_of_any_parts_are_those_of_memory(seed):
    logs = world(seed)
    merged = sum(map(LogSums.of, parts_of(logs, 1 + seed % 9, seed)))
    count = entering(logs)
    assert (merged.n_logged, len(merged)) == (len(logs), len(count))
    assert merged._action_counts.tolist() == count._action_counts.tolist()
    assert merged._unseen.tolist() == count._unseen.tolist()
    assert merged._lowest_propensity == count._lowest_propensity
    assert merged._mean_log_propensity == pytest.approx(count._mean_log_propensity)
    assert merged.n_groups == count.n_groups
    np.testing.assert_allclose(
        merged._inverse_propensity_z, count._inverse_propensity_z, rtol=1e-7
    )
    assert (merged._action_count_law is None) == (count._action_count_law is None)
    if count._action_count_law is not None:
        np.testing.assert_allclose(
            merged._action_count_law, count._action_count_law, atol=1e-9
        )
    if logs.loggers is not None:
        assert merged._logger_counts.tolist() == count._logger_counts.tolist()
    if logs.group is not None:
        assert sorted(merged._group_sizes) == sorted(count._group_sizes)
    if logs.timestamp is not None:
        assert (merged.first_time, merged.last_time) == (0, len(logs) - 1)
        back = np.count_nonzero(np.diff(logs.timestamp) < 0)
        assert sum(one.n_backwards for one in merged.orders.values()) == back


def test_a_gap_without_spread():
    # 1/p is the number of actions that were logged, in all rounds: exactly
    action = np.arange(300) % 3
    logs = BanditLogs(
        np.zeros((300, 0)), action, np.ones(300), np.full(300, 1 / 3), actions=range(9)
    )
    merged = sum(map(LogSums.of, parts_of(logs, 5, 0)))
    assert merged._inverse_propensity_z == logs._inverse_propensity_z == 0


@pytest.mark.few_cases(2)
@pytest.mark.parametrize("seed", range(8))
def test_a_table_holds_all_of_it(seed):
    logs = world(seed)
    parts = [LogSums.of(part) for part in parts_of(logs, 4, seed)]
    written = []
    for part in parts:
        file = io.BytesIO()
        np.savez(file, **part.to_table())
        file.seek(0)
        with np.load(file) as table:
            written.append(LogSums.from_table(table))
    whole, read = sum(parts).to_table(), sum(written).to_table()
    assert whole.keys() == read.keys()
    for name, values in whole.items():
        assert values.dtype.kind == read[name].dtype.kind
        np.testing.assert_array_equal(values, read[name])
    assert all(values.dtype != object for values in whole.values())


def test_a_small_table_is_that_of_fewer_rows():
    logs = world(5)
    parts = [LogSums.of(part) for part in parts_of(logs, 4, 0)]
    small = sum(LogSums.from_table(part.to_table(n_rows=50)) for part in parts)
    assert len(small.sample) == len(small.first) == 50
    of_whole = sum(parts).to_table(n_rows=50)
    for name in ("log_sample_position", "log_first_position"):
        found = small.to_table(n_rows=50)[name]
        assert sorted(found) == sorted(of_whole[name])
    assert small._action_counts.tolist() == sum(parts)._action_counts.tolist()


def test_labels_that_no_file_holds():
    label = frozenset([1])
    logs = BanditLogs(
        np.zeros((2, 0)), np.array([label, label]), [1.0, 0.0], [0.5, 0.5]
    )
    with pytest.raises(TypeError, match=r"label frozenset.* of actions cannot be writ"):
        LogSums.of(logs).to_table()


@pytest.mark.parametrize("seed", range(8))
def test_actions_that_parts_do_not_know_of(seed):
    logs = world(8 * seed + 1)  # of few actions
    if logs.logging_proba is not None or logs.available is not None:
        logs = logs.replace(logging_proba=None, available=None)
    labels = logs.actions.tolist()
    found = []
    for part in parts_of(logs, 3, seed):
        fields = ("group", "sample_weight", "logger", "timestamp")
        own = BanditLogs(
            part.context,
            part.action,
            part.reward,
            part.propensity,
            **{name: getattr(part, name) for name in fields},
        )
        own.__dict__.update(_origin=part._origin, _position=part._position)
        found.append(LogSums.of(own))
    merged = sum(found)
    assert set(merged.actions) <= set(labels)
    seen = np.isin(labels, merged.actions)
    assert merged._action_counts.sum() == len(entering(logs))
    np.testing.assert_array_equal(
        merged._action_counts, entering(logs)._action_counts[seen]
    )
    assert merged._inverse_propensity_z == pytest.approx(
        entering(logs)._inverse_propensity_z, nan_ok=True
    )


def test_parts_must_have_the_same_fields():
    logs = world(1)
    with pytest.raises(ValueError, match="has propensities and another has none"):
        LogSums.of(logs) + LogSums.of(logs.replace(propensity=None, logging_proba=None))
    with pytest.raises(TypeError):
        LogSums.of(logs) + 1


def test_slates():
    logs = slates(0)
    merged = sum(map(LogSums.of, parts_of(logs, 5, 1)))
    assert len(merged) == 300
    assert merged.actions is None and merged._action_counts is None
    assert merged._quick_propensity_findings == ({}, [])
    assert merged.n_groups == logs.n_groups
    check_alike(findings_of(merged), trailing_zero_findings(logs, 1e-7))
    table = LogSums.from_table(merged.to_table())
    assert (table.n, table.first_time, table.last_time) == (300, 0, 299)


def test_rounds_that_do_not_enter_are_counted_apart():
    logs = world(9)
    none = LogSums.of(logs, logs[[]])
    assert (none.n, none.n_logged) == (0, len(logs))
    assert none._quick_propensity_findings == ({}, [])
    both = none + LogSums.of(logs[:0], logs[:0]) + none
    assert both.n_logged == 2 * len(logs)
    more = none + LogSums.of(logs)
    found = LogSums.of(logs)._quick_propensity_findings[1]
    check_alike(more._quick_propensity_findings[1], found)


def test_rows_between_each_other_tell_nothing_of_the_order():
    logs = slates(3)
    even, odd = LogSums.of(logs[::2]), LogSums.of(logs[1::2])
    assert trailing_zero_findings(logs)
    assert not trailing_zero_findings(even + odd)
    assert even.orders != odd.orders


def test_origins_are_looked_at_one_by_one():
    late, right = slates(0), slates(1).replace(reward=np.tile([1.0, 0.0], 150))
    for parts in ([late[:100], right, late[100:]], [right, late[100:], late[:100]]):
        merged = sum(map(LogSums.of, parts))
        assert merged.n_groups == len({*late.group, *right.group})
        [found] = trailing_zero_findings(merged)
        assert found.rows[0] == np.flatnonzero(late.reward)[-1] + 1


def test_support_asks_the_sums():
    logs = world(0)  # hardly an action comes twice
    merged = sum(map(LogSums.of, parts_of(logs, 3, 0)))

    class Overlap:
        missing_by_logger = None
        missing_mass = 0.5
        lacking = "the logger never took"

    [found] = support_findings(Overlap, merged)
    check_alike([found], support_findings(Overlap, entering(logs)))
