# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Policies that learn in batches, by segments, or from a function."""

from datetime import timedelta

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB

from skope_ope import (
    IPS,
    UCB1,
    BanditLogs,
    DRns,
    EpsilonGreedy,
    LinUCB,
    Replay,
    UniformPolicy,
)
from skope_ope.base import AdaptivePolicy
from skope_ope.exceptions import SingleTrajectoryWarning
from skope_ope.policies import (
    AdaptiveFunctionPolicy,
    BatchPolicy,
    OnlineClassifierPolicy,
    SegmentedPolicy,
    action_probabilities,
)
from skope_ope.utils.estimator_checks import check_adaptive_policy
from tests._frames import every_library, frame_of
from tests.policies._histories import live, make_logs, replayed, row_by_row

MINUTE = np.timedelta64(60, "s")


def high(X):
    return X[:, 0] > 0


EMP = EpsilonGreedy(0)
SEMP = SegmentedPolicy(EpsilonGreedy(0), high)
CEMP = OnlineClassifierPolicy(LogisticRegression(), epsilon=0)


def by_hand(policy, source, logs, every):
    """Train one policy anew for every round, on the rows that its batch knows."""
    first = source.timestamp.min()
    order = np.argsort(source.timestamp, kind="stable")
    proba = np.empty((len(logs), logs.n_actions))
    for row in range(len(logs)):
        edge = first + np.floor((logs.timestamp[row] - first) / every) * every
        own = clone(policy).fit(logs)
        for start in np.arange(first, edge, every):
            inside = (source.timestamp >= start) & (source.timestamp < start + every)
            rows = order[inside[order]]
            if len(rows):
                learn(own, source, rows)
        offered = None if logs.available is None else logs.available[row : row + 1]
        proba[row] = own.predict_proba(logs.context[row : row + 1], offered)[0]
    return proba


def learn(policy, logs, rows):
    """Let a policy learn from some rows at once."""
    columns = logs.context, logs.action_index, logs.reward, logs.propensity
    policy.update_many(*(column[rows] for column in columns))


@pytest.mark.few_cases(3)
@pytest.mark.parametrize(
    "policy",
    [EMP, SEMP, CEMP, LinUCB(), OnlineClassifierPolicy(GaussianNB(), epsilon=0.3)],
    ids=["EMP", "SEMP", "CEMP", "LinUCB", "partial_fit"],
)
@pytest.mark.parametrize("available", [False, True])
def test_knows_the_batches_that_are_over(policy, available, global_random_seed):
    rng = np.random.RandomState(global_random_seed)
    logs = make_logs(15, seed=global_random_seed, available=available)
    logs = logs.replace(timestamp=rng.uniform(-3, 60, 15))
    source = make_logs(90, seed=global_random_seed + 1)
    source = source.replace(timestamp=rng.uniform(0, 50, 90))
    proba = BatchPolicy(policy, source, 7.0).logs_proba(logs)
    assert_allclose(proba, by_hand(policy, source, logs, 7.0), atol=1e-12)
    assert len(np.unique(proba.argmax(axis=1))) > 1


def test_batches_by_hand():
    given = np.empty((6, 0)), [0, 1, 1, 0, 1, 0], [1.0, 0.0, 1.0, 0.0, 1.0, 0.0]
    logs = BanditLogs(*given, timestamp=[10, 11, 13, 14, 16, 30])
    proba = BatchPolicy(EMP, logs, 3).logs_proba(logs)
    # nothing known at 10 and 11; then means (1, 0); (1/2, 1/2): a tie; (1/2, 2/3)
    assert proba.argmax(axis=1).tolist() == [0, 0, 0, 0, 0, 1]


def test_rows_dates_and_labels_of_batches():
    logs = make_logs(60)
    changed = logs.replace(reward=np.r_[logs.reward[:30], 1 - logs.reward[30:]])
    told = BatchPolicy(CEMP, logs, 10).logs_proba(logs)
    other = BatchPolicy(CEMP, changed, 10).logs_proba(logs)
    # rows 30 to 39 know the rows up to 29
    assert_array_equal(told[:40], other[:40])
    assert (told[40:] != other[40:]).any()
    # datetimes
    start = np.datetime64("2009-05-03T00:00:00", "s")
    numbers = BatchPolicy(EMP, logs, 5).logs_proba(logs)
    dated = logs.replace(timestamp=start + np.arange(60) * MINUTE)
    for every in (5 * MINUTE, timedelta(minutes=5)):
        found = BatchPolicy(EMP, dated, every).logs_proba(dated)
        assert_array_equal(found, numbers)
    # actions are matched by label
    source = make_logs(60)
    logs = make_logs(30, seed=1)
    given = logs.context, logs.action, logs.reward
    labels = ["new", *logs.actions[::-1]]
    turned = BanditLogs(*given, actions=labels, timestamp=logs.timestamp)
    plain = BatchPolicy(LinUCB(), source, 5).logs_proba(logs)
    other = BatchPolicy(LinUCB(), source, 5).logs_proba(turned)
    known = other[:, 0] == 0  # elsewhere it wants to try the new action
    assert known.any()
    agree = (plain[known] == other[known][:, :0:-1]).all(axis=1)
    assert agree[6:].all()  # ties of the beginning follow the order of the actions
    given = logs.context, np.full(30, "a0"), logs.reward
    fewer = BanditLogs(*given, timestamp=logs.timestamp)
    message = r"took action 'a\d' at row \d+, which the logs"
    with pytest.raises(ValueError, match=message):
        BatchPolicy(EMP, source, 5).logs_proba(fewer)


def test_what_is_evaluated_does_not_matter(global_random_seed):
    """Neither its rewards nor its other rows: the policy is stationary."""
    logs = make_logs(200, seed=global_random_seed)
    source = make_logs(100, seed=global_random_seed + 1)
    policy = BatchPolicy(OnlineClassifierPolicy(GaussianNB()), source, 20)
    proba = policy.logs_proba(logs)
    rows = np.random.RandomState(global_random_seed).permutation(200)[:70]
    assert_array_equal(policy.logs_proba(logs[rows]), proba[rows])
    flipped = logs.replace(reward=1 - logs.reward)
    assert_array_equal(policy.logs_proba(flipped), proba)
    assert_array_equal(action_probabilities(policy, logs), proba)


@pytest.mark.parametrize("policy", [EMP, SEMP, CEMP], ids=["EMP", "SEMP", "CEMP"])
def test_evaluators_take_it_as_stationary(policy):
    logs = make_logs(400)
    batch = BatchPolicy(policy, logs, 50)
    matches = batch.logs_proba(logs)[np.arange(400), logs.action_index] == 1
    result = Replay(random_state=0).fit(logs).evaluate(batch)
    assert_array_equal(result.accepted, np.flatnonzero(matches))
    assert result.value == pytest.approx(logs.reward[matches].mean())
    assert np.isfinite(result.standard_error)
    expected = (matches * logs.reward / logs.propensity).mean()
    assert IPS().fit(logs).score(batch) == pytest.approx(expected)


def test_the_policy_is_told_the_loggers_propensity():
    told = []

    class Listener(EpsilonGreedy):
        def update(self, X, action, reward, proba):
            told.append(proba)
            return super().update(X, action, reward, proba)

    logs = make_logs(20, available=True)
    for some, expected in (
        (logs, logs.propensity.tolist()),
        (logs.replace(propensity=None), logs.propensity.tolist()),  # 1 / offered
        (make_logs(20).replace(propensity=None), [0.25] * 20),
    ):
        told.clear()
        BatchPolicy(Listener(), some, 30).logs_proba(some)
        assert told == expected


def test_what_batches_refuse():
    logs = make_logs(20)
    with pytest.raises(TypeError, match="needs the time of every round"):
        BatchPolicy(EMP, logs, 5).predict_proba(logs.context)
    dated = logs.replace(timestamp=np.datetime64("2009-05-03", "s") + np.arange(20))
    timeless, other = logs.replace(timestamp=None), make_logs(20, n_features=2)
    for batch, asked, error, message in (
        (BatchPolicy(EMP, timeless, 5), logs, ValueError, "exploration_logs have none"),
        (BatchPolicy(EMP, logs, 5), timeless, ValueError, "stamps, the logs have none"),
        (BatchPolicy(EMP, logs, 0), logs, ValueError, "every must be positive, got 0"),
        (BatchPolicy(EMP, logs, MINUTE), logs, TypeError, "every must be a number, g"),
        (BatchPolicy(EMP, dated, 5), dated, TypeError, r"must be a numpy\.timedelta64"),
        (BatchPolicy(EMP, dated, MINUTE), logs, TypeError, "both be numbers or datet"),
        (BatchPolicy(UniformPolicy(), logs, 5), logs, ValueError, "'policy' parameter"),
        (BatchPolicy(EMP, None, 5), logs, ValueError, "'exploration_logs' parameter"),
        (BatchPolicy(EMP, logs, 5, min_trials=-1), logs, ValueError, "'min_trials' p"),
        (BatchPolicy(EMP, logs, 5, min_trials=1.5), logs, ValueError, "'min_trials' p"),
        (BatchPolicy(EMP, other, 5), logs, ValueError, "_logs have 2 features, .* 3"),
    ):
        with pytest.raises(error, match=message):
            batch.logs_proba(asked)


def popular_log(n=60):
    """Clicks on action 0 now and then; action 1 is new in the middle of the log."""
    action = np.where((np.arange(n) >= 30) & (np.arange(n) % 10 == 0), 1, 0)
    reward = (np.arange(n) % 3 == 0) * (action == 0) * 1.0
    given = np.empty((n, 0)), action, reward
    return BanditLogs(*given, actions=[0, 1], timestamp=np.arange(n))


def test_an_untried_action_is_shown_to_everybody_for_a_batch():
    """EMP's trap, and the option that keeps out of it."""
    logs = popular_log()
    shown = BatchPolicy(EMP, logs, 10).logs_proba(logs)[:, 1]
    # known from 40 on, when the batch with its first trial is over
    assert_array_equal(shown, (np.arange(60) >= 10) & (np.arange(60) < 40))
    careful = BatchPolicy(EMP, logs, 10, min_trials=2).logs_proba(logs)
    assert (careful[:, 0] == 1).all()
    # a lucky first trial is no longer taken for a certainty
    lucky = logs.replace(reward=np.where(np.arange(60) == 30, 1.0, logs.reward))
    assert (BatchPolicy(EMP, lucky, 10).logs_proba(lucky)[40:50, 1] == 1).all()
    careful = BatchPolicy(EMP, lucky, 10, min_trials=2).logs_proba(lucky)
    assert (careful[:50, 0] == 1).all()
    assert (careful[50:, 1] == 1).all()  # two trials, mean 1/2


@pytest.mark.few_cases(2)
@pytest.mark.parametrize("policy", [EMP, CEMP], ids=["EMP", "CEMP"])
@pytest.mark.parametrize("available", [False, True])
def test_actions_wait_for_their_trials(policy, available):
    logs, source = make_logs(60, available=available), make_logs(90, seed=1)
    proba = BatchPolicy(policy, source, 7, min_trials=6).logs_proba(logs)
    inert = BatchPolicy(policy, source, 7).logs_proba(logs)
    shut = 0
    for row in range(60):
        known = source.timestamp < logs.timestamp[row] // 7 * 7
        counts = np.bincount(source.action_index[known], minlength=logs.n_actions)
        open_to = counts >= 6
        if available:
            open_to &= logs.available[row]
        if not open_to.any():
            assert_array_equal(proba[row], inert[row])
            continue
        assert open_to[proba[row].argmax()]
        assert proba[row].max() == 1
        shut += not open_to[inert[row].argmax()]
    assert shut > 0


def test_trials_are_those_of_the_segment():
    source, logs = make_logs(90, seed=1), make_logs(60)
    proba = BatchPolicy(SEMP, source, 7, min_trials=4).logs_proba(logs)
    alone = np.empty_like(proba)
    for side in (False, True):
        inside, rows = (high(one.context) == side for one in (source, logs))
        part = source[np.flatnonzero(inside)]
        for row in np.flatnonzero(rows):
            known = part.timestamp < logs.timestamp[row] // 7 * 7
            own = clone(EMP).fit(logs)
            learn(own, part, known)
            counts = np.bincount(part.action_index[known], minlength=logs.n_actions)
            offered = (counts >= 4)[None, :] if (counts >= 4).any() else None
            alone[row] = own.predict_proba(logs.context[row : row + 1], offered)[0]
    assert_array_equal(proba, alone)


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
    assert_array_equal(policy.policies_["low"].counts_, [1, 2])


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
        assert_allclose(proba[rows], own_proba, atol=1e-12)
        assert_array_equal(rows[own_accepted], np.intersect1d(accepted, rows))


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
    ways = [(array, lambda X: X[:, 3]), (array, 3), (scipy, 3), (column, "group_of")]
    draws = np.random.RandomState(0).random_sample(len(logs))
    reference = replayed(SegmentedPolicy(EpsilonGreedy(), sign), array, draws)
    for data, segment in ways:
        found = replayed(SegmentedPolicy(EpsilonGreedy(), segment), data, draws)
        assert_array_equal(found, reference)


@pytest.mark.frames
@every_library
@pytest.mark.parametrize("segment", ["group", 1, "elsewhere"])
def test_columns_of_frames(library, segment):
    logs = make_logs(100)
    columns = {"x": logs.context[:, 0].tolist(), "group": sign(logs.context).tolist()}
    given = frame_of(library, columns), logs.action, logs.reward, logs.propensity
    data = BanditLogs(*given, actions=logs.actions)
    data = data.with_columns(elsewhere=sign(logs.context))
    told = row_by_row(SegmentedPolicy(EpsilonGreedy(0), sign), logs)[0]
    policy = SegmentedPolicy(EpsilonGreedy(0), segment)
    assert replayed(policy, data).tolist() == told


def test_a_feature_precedes_a_column_of_the_same_name():
    frame = frame_of("pandas", {"group": ["u", "v"]})
    logs = BanditLogs(frame, [0, 1], [0.0, 1.0])
    carried = logs.with_columns(other=["a", "b"])
    by_column, by_feature = (
        SegmentedPolicy(EpsilonGreedy(0), one).fit(logs) for one in ("other", "group")
    )
    for policy, some in ((by_column, logs), (by_feature, carried)):
        assert policy.context_of(some) is some.context
    assert by_column.context_of(carried).segment.tolist() == ["a", "b"]


def test_segments_in_segments():
    logs = with_segments(make_logs()).with_columns(parity=np.arange(300) % 2)
    inner = SegmentedPolicy(EpsilonGreedy(0), "parity")
    both = SegmentedPolicy(inner, "group_of")
    crossed = np.char.add(sign(logs.context), (np.arange(300) % 2).astype(str))
    flat = logs.with_columns(crossed=crossed)
    check_adaptive_policy(both, logs)
    expected = replayed(both, logs)
    for data, policy in (
        (logs, SegmentedPolicy(inner, sign)),
        (flat, SegmentedPolicy(EpsilonGreedy(0), "crossed")),
    ):
        assert_array_equal(replayed(policy, data), expected)


def test_frozen_exploits_in_every_segment():
    logs = with_segments(make_logs())
    policy = SegmentedPolicy(EpsilonGreedy(0.5), "group_of").fit(logs)
    low = np.flatnonzero(logs.columns["group_of"] == "low")[:1]
    policy.update(policy.context_of(logs[low]), 2, 1.0, 1.0)
    proba = policy.frozen().predict_proba(policy.context_of(logs))
    assert_array_equal(proba.argmax(axis=1), 2 * (logs.columns["group_of"] == "low"))
    assert proba.max(axis=1).min() == 1
    # segments of a column reach the progressive policy
    proba = []
    for segment in ("group_of", sign):
        policy = SegmentedPolicy(EpsilonGreedy(), segment)
        with pytest.warns(SingleTrajectoryWarning, match="progressive-validation"):
            result = DRns(random_state=0).fit(logs).evaluate(policy)
        proba.append(action_probabilities(result.progressive_policy_, logs))
    assert_array_equal(proba[0], proba[1])


def test_bad_segments():
    logs = make_logs(10)
    for policy, segment, message in (
        (EMP, "nowhere", "'nowhere' is not a column of the logs"),
        (EMP, 3, r"segment 3 is not a feature: .* have 3"),
        (EMP, lambda X: [0, 1], "segment gave 2 labels for 10 rounds"),
        (EMP, lambda X: np.full(len(X), np.nan), "segment has a missing label"),
        (LogisticRegression(), 0, "'policy' parameter of SegmentedPolicy"),
        (EMP, [0, 1], "'segment' parameter of SegmentedPolicy"),
    ):
        with pytest.raises(ValueError, match=message):
            policy = SegmentedPolicy(policy, segment).fit(logs)
            policy.predict_proba(policy.context_of(logs))


@pytest.mark.frames
def test_bad_column_of_a_frame():
    frame = frame_of("pandas", {"age": [1, 2]})
    logs = BanditLogs(frame, [0, 1], [0.0, 1.0])
    for segment in ("sex", 1):
        policy = SegmentedPolicy(EpsilonGreedy(), segment).fit(logs)
        message = r"neither a column of the context \(\['age'"
        with pytest.raises(ValueError, match=message):
            policy.predict_proba(logs.context)


def mostly_the_better(X, history):
    """4/5 on the larger (successes + 1) / (pulls + 2), 1/5 on the other."""
    if not len(history.actions):
        return np.full((X.shape[0], 2), 0.5)
    pulls = np.bincount(history.actions, minlength=2)
    successes = np.bincount(history.actions, history.rewards, minlength=2)
    best = np.argmax((successes + 1) / (pulls + 2))
    return np.tile(np.where(np.arange(2) == best, 0.8, 0.2), (X.shape[0], 1))


def test_history_is_what_was_lived():
    logs = make_logs(50)
    policy = AdaptiveFunctionPolicy(lambda X, history: None).fit(logs)
    assert [len(part) for part in policy.history_] == [0, 0, 0, 0]
    for row in range(50):  # more than the first buffer holds
        x = logs.context[row : row + 1]
        policy.update(x, logs.action_index[row], logs.reward[row], 0.3)
    lived = logs.context, logs.action_index, logs.reward, np.full(50, 0.3)
    for part, expected in zip(policy.history_, lived, strict=True):
        assert_array_equal(part, expected)
    assert policy.history_.actions.dtype.kind == "i"
    assert policy.history_.contexts.shape == (50, 3)
    # history of other contexts
    pandas = pytest.importorskip("pandas")
    logs = make_logs(30)
    kinds = []

    def uniform(X, history):
        kinds.append((type(history.contexts), history.contexts.shape[0]))
        return np.full((X.shape[0], 4), 0.25)

    for context in (sparse.csr_matrix(logs.context), pandas.DataFrame(logs.context)):
        data = BanditLogs(context, logs.action, logs.reward, actions=logs.actions)
        kinds.clear()
        draws = np.random.RandomState(0).random_sample(30)
        accepted = replayed(AdaptiveFunctionPolicy(uniform), data, draws)
        assert {kind for kind, _ in kinds} == {type(context)}
        assert kinds[-1][1] <= len(accepted) < 30


def test_offers_renormalise():
    logs = make_logs(4, 2)
    policy = AdaptiveFunctionPolicy(mostly_the_better).fit(logs)
    live(policy, [0], [1.0], logs.context[:1])
    offered = np.array([[False, True], [True, True]])
    proba = policy.predict_proba(logs.context[:2], offered)
    assert_allclose(proba, [[0, 1], [0.8, 0.2]])
    for func, message in (
        (lambda X, history: np.full((4, 3), 1 / 3), r"shape \(4, 3\), expected \(4, 2"),
        (lambda X, history: np.full((4, 2), 0.4), r"func must sum to 1 .* got 0\.8"),
        ("uniform", "'func' parameter of AdaptiveFunctionPolicy"),
    ):
        with pytest.raises(ValueError, match=message):
            AdaptiveFunctionPolicy(func).fit(logs).predict_proba(logs.context)


def test_labels_and_frames_stand_for_probabilities():
    logs = BanditLogs(np.zeros((2, 1)), ["a", "b"], [1.0, 0.0])
    rule = AdaptiveFunctionPolicy(lambda X, history: ["b"] * len(X)).fit(logs)
    assert rule.predict_proba(logs).tolist() == [[0, 1]] * 2
    wrong = AdaptiveFunctionPolicy(lambda X, history: ["B"] * len(X)).fit(logs)
    with pytest.raises(ValueError, match=r"names 'B' at row 0 .*Did you mean 'b'"):
        wrong.predict_proba(logs)
    pd = pytest.importorskip("pandas")
    table = pd.DataFrame({"b": [0.75, 0.75], "a": [0.25, 0.25]})
    named = AdaptiveFunctionPolicy(lambda X, history: table[: len(X)]).fit(logs)
    assert named.predict_proba(logs).tolist() == [[0.25, 0.75]] * 2
    table.columns = ["b", "q"]
    with pytest.raises(ValueError, match=r"are \['b', 'q'\], the actions are"):
        named.predict_proba(logs)
    # frames that own policies give are matched by name

    class Own(AdaptivePolicy):
        def predict_proba(self, X, available=None):
            return pd.DataFrame({"b": np.ones(len(X)), "a": np.zeros(len(X))})

        def update(self, X, action, reward, proba):
            return False

    actions = np.array(["a", "b"] * 20)
    given = np.zeros((40, 1)), actions, (actions == "b") * 1.0, 0.5
    logs = BanditLogs(*given, timestamp=range(40))
    value = Replay(horizon=10, random_state=0).fit(logs).evaluate(Own())
    assert value.value == 1.0
    expected = [[0.0, 1.0]] * 40
    assert BatchPolicy(Own(), logs, 10).logs_proba(logs).tolist() == expected
    assert Own().fit(logs).frozen().predict_proba(logs).tolist() == expected
