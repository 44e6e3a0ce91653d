# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause

import gc
import weakref

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.linear_model import Ridge

from skope_ope import (
    IPS,
    SNDR,
    BanditLogs,
    DirectMethod,
    DoublyRobust,
    MultiLoggerDR,
    MultiLoggerIPS,
    UniformPolicy,
    compare_policies,
    evaluate,
)
from skope_ope.base import BasePolicy
from skope_ope.evaluators.core import _blocks, _engine
from skope_ope.evaluators.core._blocks import blocks
from skope_ope.evaluators.core._jobs import evaluate_jobs
from skope_ope.evaluators.core._kept_rounds import KeptRounds
from skope_ope.evaluators.core._positive_rounds import PositiveRounds
from skope_ope.evaluators.core._target import Target

pytestmark = pytest.mark.filterwarnings("ignore::skope_ope.exceptions.OPEWarning")

N, K = 300, 4
RNG = np.random.default_rng(0)
X = RNG.normal(size=(N, 2))
MU = RNG.dirichlet(np.ones(K) * 4, N)
ACTION = np.array([RNG.choice(K, p=p) for p in MU])
REWARD = (RNG.random(N) < 0.4).astype(float)
OWN = np.arange(N), ACTION
LOGS = BanditLogs(X, ACTION, REWARD, MU[OWN], actions=range(K))
FULL = BanditLogs(X, ACTION, REWARD, MU[OWN], logging_proba=MU, actions=range(K))
PI = RNG.dirichlet(np.ones(K), N)
Q = RNG.random((N, K))


class Asked(BasePolicy):
    """Counts how often it is asked for the round of a context."""

    def __init__(self, shift=0.0):
        self.shift = shift

    def fit(self, X, y=None):
        self.classes_ = np.arange(K)
        self.times = {}
        return self

    def _proba(self, X, available):
        for row in np.asarray(X)[:, 0].tolist():
            self.times[row] = self.times.get(row, 0) + 1
        score = np.exp(
            np.outer(X[:, 0], np.arange(K)) * 0.3 + self.shift * np.arange(K)
        )
        return score / score.sum(axis=1, keepdims=True)

    @property
    def once(self):
        return len(self.times) == N and set(self.times.values()) == {1}


class AskedRidge(Ridge):
    """Counts its predictions."""

    n_predicted = 0

    def predict(self, X):
        AskedRidge.n_predicted += len(X)
        return super().predict(X)


def prepared(logs, policy, *evaluators, **given):
    positive = PositiveRounds(logs, **given)
    target = Target(policy, logs)
    jobs = [one.fit(logs)._prepare(target, positive) for one in evaluators]
    return jobs, positive


# -- nobody is asked twice -------------------------------------------------------------
@pytest.mark.parametrize("logs", [LOGS, FULL])
def test_a_table_that_is_shown_asks_policies_and_models_once(logs):
    policy = Asked().fit(X)
    AskedRidge.n_predicted = 0
    table = evaluate(policy, logs, reward_model=AskedRidge())
    predicted = AskedRidge.n_predicted
    assert policy.once and predicted == N * K
    assert "DoublyRobust" in repr(table) and table._repr_html_()
    for value in table.values():
        value.confidence_interval()
        value.confidence_interval(method="student")
        assert len(value.round_values) == N
    table.confidence_intervals(method="bootstrap", n_resamples=100)
    assert policy.once
    assert AskedRidge.n_predicted == predicted


@pytest.mark.parametrize("logs", [LOGS, FULL])
@pytest.mark.parametrize("baseline", ["logger", "a"])
def test_a_comparison_asks_every_policy_once(logs, baseline):
    policies = {name: Asked(0.3 * i).fit(X) for i, name in enumerate("abc")}
    comparison = compare_policies(policies, logs, baseline=baseline)
    assert repr(comparison) and comparison.p_values and comparison.sentence
    assert all(policy.once for policy in policies.values())


def test_workers_change_nothing():
    policies = {name: Asked(0.3 * i).fit(X) for i, name in enumerate("abc")}
    one, two, many = (compare_policies(policies, FULL, n_jobs=n) for n in (1, 2, 999))
    assert repr(one) == repr(two) == repr(many)
    assert one.p_values == two.p_values == many.p_values
    table = evaluate(policies, FULL, evaluators=["SNIPS"])
    found = [
        table.confidence_intervals(method="bootstrap", n_resamples=50, n_jobs=n)
        for n in (1, 2, 999)
    ]
    assert found[0] == found[1] == found[2]
    with pytest.raises(ValueError, match="does not use n_jobs"):
        table["a", "SNIPS"].confidence_interval(n_jobs=2)


def test_policies_that_act_alike_are_still_found():
    policies = {"a": Asked().fit(X), "b": Asked().fit(X)}
    comparison = compare_policies(policies, LOGS, baseline="a")
    assert "acts as" in comparison.sentence or "alike" in comparison.sentence


# -- the numbers -----------------------------------------------------------------------
def test_what_is_kept():
    jobs, positive = prepared(LOGS, PI, IPS(), DoublyRobust(reward_model=Q))
    kept = KeptRounds(jobs, positive)
    assert kept.in_pass == []  # tables are looked up when they are wanted
    assert not any(map(kept.holds, jobs))
    w, pi, q, v = kept.parts(jobs[1])
    assert_array_equal(pi, PI[OWN])
    assert_array_equal(w, PI[OWN] / MU[OWN])
    assert_array_equal(q, Q[OWN])
    assert_allclose(v, (PI * Q).sum(axis=1), rtol=1e-14)
    # once for both: the weights of the other are those
    assert kept.holds(jobs[0]) and kept.parts(jobs[0])[1].base is pi.base
    assert kept.parts(jobs[0])[2:] == [None, None]
    rows = slice(10, 20)
    assert_allclose(kept.logged_proba(jobs[0], rows), PI[OWN][rows], rtol=1e-15)


def test_a_policy_that_predicts_is_kept_in_the_pass():
    jobs, positive = prepared(LOGS, Asked().fit(X), IPS())
    evaluate_jobs(jobs, positive)
    assert jobs[0].kept.holds(jobs[0])


def test_bounds_that_are_found_later_leave_alone_what_is_kept():
    logs = BanditLogs(X, ACTION, 3.5 * X[:, 1], MU[OWN], logging_proba=MU)
    table, model = PI.copy(), Q.copy()
    jobs, positive = prepared(logs, table, DoublyRobust(reward_model=model))
    [job], kept = jobs, KeptRounds(jobs, positive)
    job.kept, (job.design, *_) = kept, [positive.design]
    seen = [part.copy() for part in kept.parts(job)]
    table[:], model[:] = table[::-1], np.nan  # the model is not read again
    assert kept.bound(job).found == (table / MU).max()
    for part, before in zip(kept.parts(job), seen, strict=True):
        assert_array_equal(part, before)


def test_without_propensities_there_are_no_weights():
    logs = BanditLogs(X, ACTION, REWARD, actions=range(K))
    jobs, positive = prepared(logs, PI, DirectMethod(reward_model=Q))
    kept = KeptRounds(jobs, positive)
    w, _, q, v = kept.parts(jobs[0])
    assert w is None
    assert_array_equal(kept.logged_proba(jobs[0], slice(5)), PI[OWN][:5])
    assert_array_equal(q, Q[OWN])
    assert_allclose(kept.terms(jobs[0], 0.0), [v])


def test_weights_of_one_kind_are_not_taken_for_another():
    who = np.arange(N) % 2
    both = np.column_stack([MU[OWN], PI[OWN] + 0.05])
    logs = BanditLogs(
        X, ACTION, REWARD, both[np.arange(N), who], logger=who, logger_proba=both
    )
    table = RNG.dirichlet(np.ones(logs.n_actions), N)
    evaluators = [
        MultiLoggerIPS(pooling="naive"),
        MultiLoggerIPS(pooling="balanced"),
        MultiLoggerDR(pooling="balanced", reward_model=0.5),
    ]
    jobs, positive = prepared(logs, table, *evaluators)
    evaluate_jobs(jobs, positive)
    naive, balanced, robust = (job.kept.parts(job)[0] for job in jobs)
    pi = table[np.arange(N), logs.action_index]
    assert_allclose(naive, pi / logs.propensity, rtol=1e-14)
    assert_allclose(balanced, pi / both.mean(axis=1), rtol=1e-14)
    assert_array_equal(robust, balanced)


@pytest.mark.parametrize("sample_weight", [None, np.arange(N) % 3.0])
def test_blocks_change_nothing(monkeypatch, sample_weight):
    evaluators = [IPS(), DoublyRobust(reward_model=Q), SNDR(reward_model=Q)]
    given = {"sample_weight": sample_weight}

    def found():
        values = [one.fit(FULL).evaluate(PI, **given) for one in evaluators]
        return [(v.round_values, *v.confidence_interval()) for v in values]

    whole = found()
    monkeypatch.setattr(_blocks, "BLOCK", 7)
    monkeypatch.setattr(_engine, "BLOCK", 11)
    for (values, *ends), (expected, *limits) in zip(found(), whole, strict=True):
        assert_allclose(values, expected, rtol=1e-13, atol=1e-14)
        assert_allclose(ends, limits, rtol=1e-12)


def test_blocks():
    found = list(blocks(2 * _blocks.BLOCK + 1))
    assert [block.high - block.low for block in found] == [20_000, 20_000, 1]
    assert found[1].rows == slice(20_000, 40_000)


def test_nothing_is_kept_for_longer_than_the_values():
    jobs, positive = prepared(LOGS, UniformPolicy(), IPS())
    [value] = evaluate_jobs(jobs, positive)
    kept = weakref.ref(jobs[0].kept)
    assert kept() is not None
    gc.disable()
    try:
        del jobs, value
        assert kept() is None
    finally:
        gc.enable()
