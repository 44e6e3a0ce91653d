# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause

import numpy as np
import pytest
from scipy import sparse
from sklearn.linear_model import LogisticRegression

from skope_ope import UCB1, BanditLogs, DRns, EpsilonGreedy, LinUCB
from skope_ope.exceptions import SingleTrajectoryWarning
from skope_ope.policies import (
    OnlineClassifierPolicy,
    SegmentedPolicy,
    action_probabilities,
)
from skope_ope.policies._adaptive import fresh
from skope_ope.utils.estimator_checks import check_adaptive_policy
from tests.policies._histories import live, make_logs, replayed, row_by_row


def sign(X):
    return np.where(X[:, 0] > 0, "high", "low")


def with_segments(logs):
    return logs.with_columns(group_of=sign(logs.context))


def test_trace_by_hand():
    X = np.array([[1.0], [-1.0]])
    logs = BanditLogs(X, [0, 1], [0.0, 1.0])
    policy = SegmentedPolicy(EpsilonGreedy(0), sign).fit(logs)
    assert policy.predict_proba(X).tolist() == [[1, 0], [1, 0]]
    live(policy, [0, 1], [0.0, 1.0], X[[0, 0]])  # "high" only
    assert policy.predict_proba(X).tolist() == [[0, 1], [1, 0]]
    live(policy, [0, 1], [1.0, 0.5], X[[1, 1]])
    assert policy.predict_proba(X).tolist() == [[0, 1], [1, 0]]
    live(policy, [1], [5.0], X[[1]])
    assert policy.predict_proba(X).tolist() == [[0, 1], [0, 1]]
    assert sorted(policy.policies_) == ["high", "low"]
    np.testing.assert_array_equal(policy.policies_["low"].counts_, [1, 2])


INNER = [
    EpsilonGreedy(epsilon=0.2),
    UCB1(),
    LinUCB(),
    OnlineClassifierPolicy(LogisticRegression(), update_every=5),
]


@pytest.mark.few_cases(2)
@pytest.mark.parametrize("inner", INNER, ids=lambda policy: type(policy).__name__)
@pytest.mark.parametrize("available", [False, True])
def test_is_a_policy_per_segment(inner, available, global_random_seed):
    logs = make_logs(140, seed=global_random_seed, available=available)
    accepted, proba, _ = row_by_row(SegmentedPolicy(inner, sign), logs)
    assert len(accepted) > 20
    for segment in ("high", "low"):
        rows = np.flatnonzero(sign(logs.context) == segment)
        own = logs[rows]
        own_accepted, own_proba, _ = row_by_row(inner, own)
        np.testing.assert_allclose(proba[rows], own_proba, atol=1e-12)
        np.testing.assert_array_equal(
            rows[own_accepted], np.intersect1d(accepted, rows)
        )


@pytest.mark.few_cases(1)
@pytest.mark.parametrize("inner", INNER, ids=lambda policy: type(policy).__name__)
def test_keeps_the_contract(inner):
    logs = make_logs(80)
    check_adaptive_policy(SegmentedPolicy(inner, sign), make_logs(80, available=True))
    check_adaptive_policy(SegmentedPolicy(inner, "group_of"), with_segments(logs))


def test_segments_of_every_kind_are_one():
    """A callable, a feature, and a column of the logs."""
    logs = make_logs()
    flag = (logs.context[:, 0] > 0).astype(float)
    X = np.column_stack([logs.context, flag])
    fields = logs.action, logs.reward, logs.propensity
    array = BanditLogs(X, *fields, actions=logs.actions)
    scipy = BanditLogs(sparse.csr_matrix(X), *fields, actions=logs.actions)
    column = with_segments(array)
    ways = [
        (array, lambda X: X[:, 3]),
        (array, 3),
        (scipy, 3),
        (column, "group_of"),
    ]
    draws = np.random.RandomState(0).random_sample(len(logs))
    reference = replayed(SegmentedPolicy(EpsilonGreedy(), sign), array, draws)
    for data, segment in ways:
        found = replayed(SegmentedPolicy(EpsilonGreedy(), segment), data, draws)
        np.testing.assert_array_equal(found, reference)


@pytest.mark.frames
@pytest.mark.parametrize("kind", ["pandas", "polars", "pyarrow"])
@pytest.mark.parametrize("segment", ["group", 1, "elsewhere"])
def test_columns_of_frames(kind, segment):
    logs = make_logs(100)
    library = pytest.importorskip(kind)
    columns = {"x": logs.context[:, 0].tolist(), "group": sign(logs.context).tolist()}
    frame = (library.table if kind == "pyarrow" else library.DataFrame)(columns)
    data = BanditLogs(
        frame, logs.action, logs.reward, logs.propensity, actions=logs.actions
    ).with_columns(elsewhere=sign(logs.context))
    told = row_by_row(SegmentedPolicy(EpsilonGreedy(0), sign), logs)[0]
    policy = SegmentedPolicy(EpsilonGreedy(0), segment)
    assert replayed(policy, data).tolist() == told


def test_a_feature_precedes_a_column_of_the_same_name():
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"group": ["u", "v"]})
    logs = BanditLogs(frame, [0, 1], [0.0, 1.0])
    policy = SegmentedPolicy(EpsilonGreedy(0), "other").fit(logs)
    assert policy.context_of(logs) is logs.context
    logs = logs.with_columns(other=["a", "b"])
    assert policy.context_of(logs).segment.tolist() == ["a", "b"]
    policy = SegmentedPolicy(EpsilonGreedy(0), "group").fit(logs)
    assert policy.context_of(logs) is logs.context


def test_segments_in_segments():
    logs = with_segments(make_logs()).with_columns(parity=np.arange(300) % 2)
    inner = SegmentedPolicy(EpsilonGreedy(0), "parity")
    both = SegmentedPolicy(inner, "group_of")
    crossed = np.char.add(sign(logs.context), (np.arange(300) % 2).astype(str))
    flat = logs.with_columns(crossed=crossed)
    check_adaptive_policy(both, logs)
    results = [
        replayed(policy, data)
        for data, policy in [
            (logs, both),
            (logs, SegmentedPolicy(inner, sign)),
            (flat, SegmentedPolicy(EpsilonGreedy(0), "crossed")),
        ]
    ]
    np.testing.assert_array_equal(results[0], results[1])
    np.testing.assert_array_equal(results[0], results[2])


def test_segments_of_a_column_reach_the_progressive_policy():
    logs = with_segments(make_logs())
    proba = []
    for segment in ("group_of", sign):
        policy = SegmentedPolicy(EpsilonGreedy(), segment)
        with pytest.warns(SingleTrajectoryWarning, match="progressive-validation"):
            result = DRns(random_state=0).fit(logs).evaluate(policy)
        proba.append(action_probabilities(result.progressive_policy_, logs))
    np.testing.assert_array_equal(proba[0], proba[1])


def test_update_many_is_the_loop():
    logs = with_segments(make_logs())
    many = fresh(SegmentedPolicy(LinUCB(), "group_of"), logs)
    one = fresh(SegmentedPolicy(LinUCB(), sign), logs)
    X = many.context_of(logs)
    rounds = logs.action_index, logs.reward, logs.propensity
    assert many.update_many(X, *rounds) is True
    live(one, logs.action_index.tolist(), logs.reward.tolist(), logs.context)
    np.testing.assert_array_equal(
        many.predict_proba(X), one.predict_proba(logs.context)
    )


def test_frozen_exploits_in_every_segment():
    logs = with_segments(make_logs())
    policy = fresh(SegmentedPolicy(EpsilonGreedy(0.5), "group_of"), logs)
    live(
        policy.policies_.setdefault("low", fresh(EpsilonGreedy(0.5), logs)), [2], [1.0]
    )
    proba = policy.frozen().predict_proba(policy.context_of(logs))
    np.testing.assert_array_equal(
        proba.argmax(axis=1), 2 * (logs.columns["group_of"] == "low")
    )
    assert proba.max(axis=1).min() == 1


def test_bad_segments():
    logs = make_logs(10)

    def ask(segment, logs=logs):
        policy = SegmentedPolicy(EpsilonGreedy(), segment).fit(logs)
        policy.predict_proba(policy.context_of(logs))

    with pytest.raises(ValueError, match="'nowhere' is not a column of the logs"):
        ask("nowhere")
    with pytest.raises(ValueError, match=r"segment 3 is not a feature: .* have 3"):
        ask(3)
    with pytest.raises(ValueError, match="segment gave 2 labels for 10 rounds"):
        ask(lambda X: [0, 1])
    with pytest.raises(ValueError, match="segment has a missing label"):
        ask(lambda X: np.full(len(X), np.nan))
    with pytest.raises(ValueError, match="'policy' parameter of SegmentedPolicy"):
        SegmentedPolicy(LogisticRegression(), 0).fit(logs)
    with pytest.raises(ValueError, match="'segment' parameter of SegmentedPolicy"):
        SegmentedPolicy(EpsilonGreedy(), [0, 1]).fit(logs)


@pytest.mark.frames
def test_bad_column_of_a_frame():
    pandas = pytest.importorskip("pandas")
    logs = BanditLogs(pandas.DataFrame({"age": [1, 2]}), [0, 1], [0.0, 1.0])
    for segment in ("sex", 1):
        policy = SegmentedPolicy(EpsilonGreedy(), segment).fit(logs)
        with pytest.raises(
            ValueError, match=r"neither a column of the context \(\['age'"
        ):
            policy.predict_proba(logs.context)
