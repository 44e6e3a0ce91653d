# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause

import pickle

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone

from skope_ope import SlateLogs
from skope_ope.policies import EmpiricalSlatePolicy
from tests.policies._slate_worlds import check_moments, check_sample, rounds

SLATES = [[0, 1], [1, 2], [0, 1], [2, 2], [1, -1]]


def test_distinct_slates_are_alike(global_random_seed):
    logs = rounds(3, 2, 3)
    policy = EmpiricalSlatePolicy(SLATES)
    given = np.array([[0, 1], [2, 2], [2, 1]])
    assert_allclose(policy.slate_proba(logs, given), [0.25, 0.25, 0])
    assert len(policy.distributions(logs)) == 1
    check_moments(policy, logs)
    check_sample(policy, logs, global_random_seed)


def test_given_probabilities(global_random_seed):
    logs = rounds(1, 2, 3)
    policy = EmpiricalSlatePolicy(SLATES, [0.1, 0.2, 0.3, 0.0, 0.4])
    assert_allclose(policy.slate_proba(logs, np.array([[0, 1]])), 0.4)
    check_moments(policy, logs)
    check_sample(policy, logs, global_random_seed)


def test_slates_seen_in_logs_by_label():
    slate = [[0, 1], [1, 0], [0, 1], [2, 1], [2, 1]]
    logs = SlateLogs(np.zeros((5, 1)), slate, np.zeros(5), group=[*"aabba"])
    seen = EmpiricalSlatePolicy.seen_in(logs, frequencies=False, by="group")
    assert_allclose(seen.slate_proba(logs), [1 / 3, 1 / 3, 1 / 2, 1 / 2, 1 / 3])
    often = EmpiricalSlatePolicy.seen_in(logs[:4], by="group")
    assert_allclose(often.slate_proba(logs[:4]), 0.5)
    check_moments(seen, logs)
    assert len(seen.distributions(logs)) == 2
    alone = SlateLogs(np.zeros((5, 1)), slate, np.zeros(5))
    often = EmpiricalSlatePolicy.seen_in(alone)
    assert_allclose(often.slate_proba(alone), [0.4, 0.2, 0.4, 0.4, 0.4])
    weighted = alone.with_columns(sample_weight=[1.0, 3, 1, 1, 4])
    often = EmpiricalSlatePolicy.seen_in(weighted)
    assert_allclose(often.slate_proba(alone), [0.2, 0.3, 0.2, 0.5, 0.5])
    often = EmpiricalSlatePolicy.seen_in(weighted, by=[*"aabba"])
    assert_allclose(often.slate_proba(weighted), [1 / 8, 3 / 8, 1 / 2, 1 / 2, 1 / 2])


QUERIES = [*"aabba"]


@pytest.mark.parametrize(
    "labels",
    [QUERIES, [1, 1, 2, 2, 1], np.array([1.5, 1.5, 2, 2, 1.5])],
    ids=["text", "integers", "floats"],
)
def test_by_is_a_column_a_field_a_function_or_an_array(labels):
    slate = [[0, 1], [1, 0], [0, 1], [2, 1], [2, 1]]
    users = [0, 1, 2, 3, 4]  # whose rounds these are says nothing of the slates
    logs = SlateLogs(np.zeros((5, 1)), slate, np.zeros(5), group=users)
    logs = logs.with_columns(query=labels).replace(timestamp=[0, 0, 1, 1, 0])
    want = [1 / 3, 1 / 3, 1 / 2, 1 / 2, 1 / 3]  # every slate once
    rows = [3, 0, 4]
    for by in ("query", "timestamp", lambda logs: logs.columns["query"], labels):
        seen = clone(EmpiricalSlatePolicy.seen_in(logs, by=by))
        assert_allclose(seen.slate_proba(logs), want)
        assert_allclose(seen.slate_proba(logs[rows]), np.take(want, rows))
        assert_array_equal(seen.slate_proba(logs, seen.sample(logs, 0)), want)
    together = EmpiricalSlatePolicy.seen_in(logs, by=None)
    assert_allclose(together.slate_proba(logs), [0.4, 0.2, 0.4, 0.4, 0.4])
    again = pickle.loads(pickle.dumps(EmpiricalSlatePolicy.seen_in(logs, by=labels)))
    assert_allclose(again.slate_proba(logs[rows]), np.take(want, rows))


def test_groups_choose_the_slates_where_they_are_named():
    logs = rounds(4, 2, 3, group=[0, 0, 1, 1])
    assert not isinstance(EmpiricalSlatePolicy.seen_in(logs).slates, dict)
    by_group = EmpiricalSlatePolicy({0: [[0, 1]], 1: [[1, 0]]})
    shown = np.array([[0, 1]] * 4)
    with pytest.raises(ValueError, match=r'`by` is missing.*or by="group"'):
        by_group.slate_proba(logs, shown)
    proba = by_group.set_params(by="group").slate_proba(logs, shown)
    assert_array_equal(proba, [1, 1, 0, 0])


@pytest.mark.parametrize(
    ("by", "error", "message"),
    [
        ("absent", ValueError, "the logs have no `absent`, by which slates"),
        ("timestamp", ValueError, "the logs have no `timestamp`"),
        ("context", ValueError, r"by='context' must be 1-d \(n_rounds,\)"),
        ([1, 2], ValueError, r"one label per round \(3\), got 2"),
        ([1.0, np.nan, 2.0], ValueError, "by has a missing label .* at row 1"),
    ],
)
def test_bad_labels(by, error, message):
    with pytest.raises(error, match=message):
        EmpiricalSlatePolicy.seen_in(rounds(3, 2, 3), by=by)


def test_an_array_of_labels_belongs_to_its_rows():
    seen = EmpiricalSlatePolicy.seen_in(rounds(3, 2, 3), by=[0, 0, 1])
    with pytest.raises(ValueError, match=r"these are other rows\. Carry the labels"):
        seen.slate_proba(rounds(3, 2, 3))
    logs = rounds(3, 2, 3)
    some = EmpiricalSlatePolicy.seen_in(logs[:2], by=[0, 1])
    with pytest.raises(ValueError, match="these are other rows"):
        some.slate_proba(logs)


@pytest.mark.parametrize(
    ("slates", "proba", "error", "message"),
    [
        ([[0, 3]], None, ValueError, "slates show candidate 3, the logs have 3"),
        ([[0, 1], [2]], None, ValueError, "slates is no rectangular array"),
        ([[0.5, 1]], None, TypeError, "slates must hold integers"),
        ([], None, ValueError, r"shape \(n_slates, n_slots\)"),
        ([[0, -2]], None, ValueError, "slates holds -2"),
        ([[0, 1]], [0.5, 0.5], ValueError, "proba has 2 entries, slates has 1"),
        ([[0, 1]], [0.5], ValueError, "sum to 1, got minimum 0.5, sum 0.5"),
        ({1: [[0, 1]]}, None, ValueError, "no label 0, which row 0 has"),
        ({0: [[0, 1]], 1: [[0]]}, None, ValueError, r"number of slots, got \[1, 2\]"),
        ({0: [[0, 1]]}, [1.0], TypeError, "proba must be a dict"),
        ({0: [[0, 1]], 1: [[1, 0]]}, {0: [1.0]}, ValueError, "the slates of label 1"),
    ],
)
def test_bad_slates(slates, proba, error, message):
    logs = rounds(2, 2, 3, group=[0, 0])
    with pytest.raises(error, match=message):
        by = "group" if isinstance(slates, dict) else None
        EmpiricalSlatePolicy(slates, proba, by=by).slot_marginals(logs)


def test_groups_and_offers_of_the_logs():
    policy = EmpiricalSlatePolicy({0: [[0, 1]]}, by="group")
    with pytest.raises(ValueError, match="the logs have no `group`"):
        policy.slot_marginals(rounds(2, 2, 3))
    mask = np.array([[True, True, True], [True, False, True]])
    logs = rounds(2, 2, 3, candidates=mask, group=[0, 0])
    with pytest.raises(ValueError, match="candidate 1, which row 1 does not offer"):
        policy.slot_marginals(logs)
    mask = np.array([[[True, False, True], [True, True, True]]] * 2)
    logs = rounds(2, 2, 3, candidates=mask, group=[0, 0])
    assert_array_equal(policy.slot_marginals(logs)[:, 1, 1], 1)
    mask[1, 1, 1] = False
    logs = rounds(2, 2, 3, candidates=mask, group=[0, 0])
    with pytest.raises(ValueError, match="candidate 1 in slot 1, which row 1 does not"):
        policy.slot_marginals(logs)


@pytest.mark.thorough
def test_many_rounds_in_parts():
    slates = np.array([[a, b] for a in range(30) for b in range(30)])
    policy = EmpiricalSlatePolicy(slates)
    logs = rounds(20_000, 2, 30)
    drawn = policy.sample(logs, 0)
    assert_array_equal(policy.slate_proba(logs, drawn), 1 / 900)


def test_slates_are_seen_in_logs_alone():
    with pytest.raises(TypeError, match="logs must be SlateLogs, got ndarray"):
        EmpiricalSlatePolicy.seen_in(np.zeros((3, 2), dtype=int))


@pytest.mark.frames
@pytest.mark.parametrize("library", ["pandas", "polars", "pyarrow"])
def test_labels_may_be_a_column_of_the_context(library):
    frames = pytest.importorskip(library)
    pytest.importorskip("narwhals")
    columns = {"query": ["a", "b", "a", "b"], "device": [0, 1, 1, 0]}
    make = frames.table if library == "pyarrow" else frames.DataFrame
    slate = [[0, 1], [2, 0], [0, 1], [2, 0]]
    logs = SlateLogs(make(columns), slate, np.zeros(4))
    policy = EmpiricalSlatePolicy.seen_in(logs, by="query")
    assert list(policy.slates) == ["a", "b"]
    assert policy.slate_proba(logs).tolist() == [1.0] * 4
    carried = logs.with_columns(query=["b"] * 4)  # a column of the logs comes first
    assert list(EmpiricalSlatePolicy.seen_in(carried, by="query").slates) == ["b"]
    with pytest.raises(ValueError, match="nor one of the context"):
        EmpiricalSlatePolicy.seen_in(logs, by="user")
