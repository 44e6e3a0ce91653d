# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause

from datetime import timedelta

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB

from skope_ope import IPS, BanditLogs, EpsilonGreedy, LinUCB, UniformPolicy
from skope_ope.evaluators.sequential import Replay
from skope_ope.policies import (
    BatchPolicy,
    OnlineClassifierPolicy,
    SegmentedPolicy,
    action_probabilities,
)
from skope_ope.policies._adaptive import fresh
from tests.policies._histories import make_logs

MINUTE = np.timedelta64(60, "s")


def high(X):
    return X[:, 0] > 0


EMP = EpsilonGreedy(0)
SEMP = SegmentedPolicy(EpsilonGreedy(0), high)
CEMP = OnlineClassifierPolicy(LogisticRegression(), epsilon=0)


def by_hand(policy, source, logs, every):
    """Train one policy anew for every round, on the rows that its batch knows."""
    first = source.timestamp.min()
    proba = np.empty((len(logs), logs.n_actions))
    for row in range(len(logs)):
        edge = first + np.floor((logs.timestamp[row] - first) / every) * every
        own = fresh(policy, logs)
        order = np.argsort(source.timestamp, kind="stable")
        for start in np.arange(first, edge, every):
            inside = (source.timestamp >= start) & (source.timestamp < start + every)
            rows = order[inside[order]]
            if len(rows):
                own.update_many(
                    source.context[rows],
                    source.action_index[rows],
                    source.reward[rows],
                    source.propensity[rows],
                )
        offered = None if logs.available is None else logs.available[row : row + 1]
        proba[row] = own.predict_proba(logs.context[row : row + 1], offered)[0]
    return proba


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
    np.testing.assert_allclose(proba, by_hand(policy, source, logs, 7.0), atol=1e-12)
    assert len(np.unique(proba.argmax(axis=1))) > 1


def test_trace_by_hand():
    logs = BanditLogs(
        np.empty((6, 0)),
        [0, 1, 1, 0, 1, 0],
        [1.0, 0.0, 1.0, 0.0, 1.0, 0.0],
        timestamp=[10, 11, 13, 14, 16, 30],
    )
    proba = BatchPolicy(EMP, logs, 3).logs_proba(logs)
    # nothing known at 10 and 11; then means (1, 0); (1/2, 1/2): a tie; (1/2, 2/3)
    assert proba.argmax(axis=1).tolist() == [0, 0, 0, 0, 0, 1]


def test_a_row_never_learns_from_itself_or_later_ones():
    logs = make_logs(60)
    changed = logs.reward.copy()
    changed[30:] = 1 - changed[30:]
    told = BatchPolicy(CEMP, logs, 10).logs_proba(logs)
    other = BatchPolicy(CEMP, logs.replace(reward=changed), 10).logs_proba(logs)
    # rows 30 to 39 know the rows up to 29
    np.testing.assert_array_equal(told[:40], other[:40])
    assert (told[40:] != other[40:]).any()


def test_what_is_evaluated_does_not_matter(global_random_seed):
    """Neither its rewards nor its other rows: the policy is stationary."""
    logs = make_logs(200, seed=global_random_seed)
    source = make_logs(100, seed=global_random_seed + 1)
    policy = BatchPolicy(OnlineClassifierPolicy(GaussianNB()), source, 20)
    proba = policy.logs_proba(logs)
    rows = np.random.RandomState(global_random_seed).permutation(200)[:70]
    np.testing.assert_array_equal(policy.logs_proba(logs[rows]), proba[rows])
    flipped = logs.replace(reward=1 - logs.reward)
    np.testing.assert_array_equal(policy.logs_proba(flipped), proba)
    np.testing.assert_array_equal(action_probabilities(policy, logs), proba)


@pytest.mark.parametrize("policy", [EMP, SEMP, CEMP], ids=["EMP", "SEMP", "CEMP"])
def test_evaluators_take_it_as_stationary(policy):
    logs = make_logs(400)
    batch = BatchPolicy(policy, logs, 50)
    proba = batch.logs_proba(logs)
    matches = proba[np.arange(400), logs.action_index] == 1
    result = Replay(random_state=0).fit(logs).evaluate(batch)
    np.testing.assert_array_equal(result.accepted, np.flatnonzero(matches))
    assert result.value == pytest.approx(logs.reward[matches].mean())
    assert np.isfinite(result.standard_error)
    assert IPS().fit(logs).score(batch) == pytest.approx(
        (matches * logs.reward / logs.propensity).mean()
    )


@pytest.mark.parametrize("every", [5 * MINUTE, timedelta(minutes=5)])
def test_datetimes(every):
    logs = make_logs(60)
    start = np.datetime64("2009-05-03T00:00:00", "s")
    numbers = BatchPolicy(EMP, logs, 5).logs_proba(logs)
    dated = logs.replace(timestamp=start + np.arange(60) * MINUTE)
    np.testing.assert_array_equal(
        BatchPolicy(EMP, dated, every).logs_proba(dated), numbers
    )


def test_segments_of_a_column():
    logs = make_logs(60)
    logs = logs.with_columns(group_of=high(logs.context))
    policy = BatchPolicy(SegmentedPolicy(EMP, "group_of"), logs, 10)
    np.testing.assert_array_equal(
        policy.logs_proba(logs), BatchPolicy(SEMP, logs, 10).logs_proba(logs)
    )


def test_actions_are_matched_by_label():
    source = make_logs(60)
    logs = make_logs(30, seed=1)
    reversed_logs = BanditLogs(
        logs.context,
        logs.action,
        logs.reward,
        actions=["new", *logs.actions[::-1]],
        timestamp=logs.timestamp,
    )
    plain = BatchPolicy(LinUCB(), source, 5).logs_proba(logs)
    other = BatchPolicy(LinUCB(), source, 5).logs_proba(reversed_logs)
    known = other[:, 0] == 0  # elsewhere it wants to try the new action
    assert known.any()
    agree = (plain[known] == other[known][:, :0:-1]).all(axis=1)
    assert agree[6:].all()  # ties of the beginning follow the order of the actions
    fewer = BanditLogs(
        logs.context, np.full(30, "a0"), logs.reward, timestamp=logs.timestamp
    )
    with pytest.raises(
        ValueError, match=r"took action 'a\d' at row \d+, which the logs"
    ):
        BatchPolicy(EMP, source, 5).logs_proba(fewer)


def test_the_policy_is_told_the_loggers_propensity():
    told = []

    class Listener(EpsilonGreedy):
        def update(self, X, action, reward, proba):
            told.append(proba)
            return super().update(X, action, reward, proba)

    logs = make_logs(20, available=True)
    BatchPolicy(Listener(), logs, 30).logs_proba(logs)
    assert told == logs.propensity.tolist()
    told.clear()
    BatchPolicy(Listener(), logs.replace(propensity=None), 30).logs_proba(logs)
    assert told == logs.propensity.tolist()  # 1 / offered actions
    told.clear()
    unknown = make_logs(20).replace(propensity=None)
    BatchPolicy(Listener(), unknown, 30).logs_proba(unknown)
    assert told == [0.25] * 20


def test_clone_and_parameters():
    logs = make_logs(20)
    policy = BatchPolicy(EpsilonGreedy(0.5), logs, 5)
    other = clone(policy).set_params(policy__epsilon=0.0)
    assert policy.policy.epsilon == 0.5
    assert other.exploration_logs is logs  # read-only rows are not copied
    assert set(np.unique(other.logs_proba(logs))) == {0, 1}
    assert policy.fit(logs) is policy


def test_bad_input():
    logs = make_logs(20)
    with pytest.raises(TypeError, match="needs the time of every round"):
        BatchPolicy(EMP, logs, 5).predict_proba(logs.context)
    for source, evaluated, name in [
        (logs.replace(timestamp=None), logs, "exploration_logs"),
        (logs, logs.replace(timestamp=None), "the logs"),
    ]:
        with pytest.raises(ValueError, match=f"needs timestamps, {name} have none"):
            BatchPolicy(EMP, source, 5).logs_proba(evaluated)
    with pytest.raises(ValueError, match="every must be positive, got 0"):
        BatchPolicy(EMP, logs, 0).logs_proba(logs)
    with pytest.raises(TypeError, match="every must be a number, got"):
        BatchPolicy(EMP, logs, MINUTE).logs_proba(logs)
    dated = logs.replace(timestamp=np.datetime64("2009-05-03", "s") + np.arange(20))
    with pytest.raises(TypeError, match=r"every must be a numpy\.timedelta64"):
        BatchPolicy(EMP, dated, 5).logs_proba(dated)
    with pytest.raises(TypeError, match="must both be numbers or datetimes"):
        BatchPolicy(EMP, dated, MINUTE).logs_proba(logs)
    with pytest.raises(ValueError, match="'policy' parameter of BatchPolicy"):
        BatchPolicy(UniformPolicy(), logs, 5).logs_proba(logs)
    with pytest.raises(ValueError, match="'exploration_logs' parameter of BatchPolicy"):
        BatchPolicy(EMP, None, 5).logs_proba(logs)
    other = make_logs(20, n_features=2)
    with pytest.raises(ValueError, match=r"exploration_logs have 2 features, .* 3"):
        BatchPolicy(EMP, other, 5).logs_proba(logs)


def popular_log(n=60):
    """Clicks on action 0 now and then; action 1 is new in the middle of the log."""
    action = np.where((np.arange(n) >= 30) & (np.arange(n) % 10 == 0), 1, 0)
    reward = (np.arange(n) % 3 == 0).astype(float)
    reward[action == 1] = 0.0
    return BanditLogs(
        np.empty((n, 0)), action, reward, actions=[0, 1], timestamp=np.arange(n)
    )


def test_an_untried_action_is_shown_to_everybody_for_a_batch():
    """EMP's trap, and the option that keeps out of it."""
    logs = popular_log()
    shown = BatchPolicy(EMP, logs, 10).logs_proba(logs)[:, 1]
    # known from 40 on, when the batch with its first trial is over
    np.testing.assert_array_equal(shown, (np.arange(60) >= 10) & (np.arange(60) < 40))
    careful = BatchPolicy(EMP, logs, 10, min_trials=2).logs_proba(logs)
    assert (careful[:, 0] == 1).all()
    # a lucky first trial is no longer taken for a certainty
    reward = logs.reward.copy()
    reward[30] = 1.0
    lucky = logs.replace(reward=reward)
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
            np.testing.assert_array_equal(proba[row], inert[row])
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
            own = fresh(EMP, logs)
            own.update_many(
                part.context[known],
                part.action_index[known],
                part.reward[known],
                part.propensity[known],
            )
            counts = np.bincount(part.action_index[known], minlength=logs.n_actions)
            offered = (counts >= 4)[None, :] if (counts >= 4).any() else None
            alone[row] = own.predict_proba(logs.context[row : row + 1], offered)[0]
    np.testing.assert_array_equal(proba, alone)


def test_min_trials_is_a_count():
    logs = make_logs(20)
    for bad in (-1, 1.5):
        policy = BatchPolicy(EMP, logs, 5, min_trials=bad)
        with pytest.raises(ValueError, match="'min_trials' parameter"):
            policy.logs_proba(logs)
    assert clone(BatchPolicy(EMP, logs, 5, min_trials=3)).min_trials == 3
