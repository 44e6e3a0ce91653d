# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""What a pass over the rounds takes, refuses and asks for, alone and with workers."""

import gc
import tracemalloc
import warnings
import weakref
from functools import partial
from itertools import chain

import numpy as np
import pytest
from joblib import parallel_config
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.linear_model import Ridge

from skope_ope import (
    IPS,
    BanditLogs,
    ConstantPolicy,
    FunctionPolicy,
    UniformPolicy,
    compare_policies,
    evaluate,
)
from skope_ope.base import BasePolicy
from skope_ope.exceptions import SupportWarning
from tests.evaluators.core._asked import interval_of

pytestmark = pytest.mark.filterwarnings("ignore::skope_ope.exceptions.OPEWarning")
BLOCK, ENTRIES = 20_000, 1 << 20  # no more rounds, or probabilities, at once


def make_arrays(n_rounds, n_actions=4, seed=0):
    rng = np.random.RandomState(seed)
    arrays = {
        "context": rng.rand(n_rounds, 2),
        "action": rng.randint(n_actions, size=n_rounds),
        "reward": rng.rand(n_rounds),
        "propensity": np.full(n_rounds, 1 / n_actions),
    }
    pi = rng.dirichlet(np.ones(n_actions), size=n_rounds)
    return arrays, pi, rng.rand(n_rounds, n_actions)


def values(table):
    return [number for v in table.values() for number in (v.value, v.standard_error)]


def test_any_kind_of_table():
    arrays, *tables = make_arrays(300)
    pi, q_hat = (table.astype(np.float32).astype(float) for table in tables)
    logs = BanditLogs(**arrays)
    expected = values(evaluate(pi, logs, reward_model=q_hat))
    for as_other in (
        lambda table: table.astype(np.float32),
        np.asfortranarray,
        lambda table: np.repeat(table, 2, axis=1)[:, ::2],  # strided
        lambda table: table.tolist(),
    ):
        found = evaluate(as_other(pi), logs, reward_model=as_other(q_hat))
        assert_allclose(values(found), expected, rtol=1e-12)
    # integers are probabilities as well, and a number is a table
    greedy = np.eye(4, dtype=int)[q_hat.argmax(axis=1)]
    found = evaluate(greedy, logs, reward_model=q_hat)
    expected = evaluate(greedy.astype(float), logs, reward_model=q_hat)
    assert values(found) == values(expected)
    found, expected = (
        evaluate(pi, logs, reward_model=one) for one in (0.3, np.full(pi.shape, 0.3))
    )
    assert_allclose(values(found), values(expected), rtol=1e-12, atol=1e-15)


@pytest.mark.parametrize("n_actions", [4, 40])
def test_faults_of_the_second_block_are_named(n_actions):
    n_rounds = BLOCK + 100
    arrays, pi, q_hat = make_arrays(n_rounds, n_actions)
    logs, row = BanditLogs(**arrays), n_rounds - 3
    kept, sums = pi[row, 2], "must sum to 1 over the actions, got"
    for entry, message in (
        (np.nan, f"{sums} nan"),
        (np.inf, f"{sums} inf"),
        (-0.5, "must not be negative, got -0.5"),
        (1.5, sums),
    ):
        pi[row, 2] = entry
        with pytest.raises(ValueError, match=f"policy {message}.* at row {row}"):
            evaluate(pi, logs, reward_model=0.5)
    pi[row, 2] = kept
    for bad in (np.nan, np.inf, -np.inf):
        q_hat[row, 2] = bad
        told = f"reward_model must be finite, got {bad} at row {row} "
        with pytest.raises(ValueError, match=told):
            evaluate(pi, logs, reward_model=q_hat)


def test_missing_mass_is_weighted():
    """In all three ways in which it is known."""
    arrays, pi, _ = make_arrays(90)
    rounds = np.arange(90)
    rare, certain = rounds % 3 == 0, np.where(rounds % 3 == 1, 1.0, 0.5)
    omega = np.where(rare, 0, np.random.RandomState(1).random_sample(90))
    # the last action is logged by rounds of weight zero alone
    action = arrays["action"] = np.where(rare, 3, arrays["action"] % 3)
    mu = np.where(rare[:, None], 0.25, [0.3, 0.3, 0.4, 0.0])
    logged = pi[rounds, action]
    for fields, lost in (
        ({"propensity": np.full(90, 0.25)}, pi[:, 3]),
        ({"propensity": mu[rounds, action], "logging_proba": mu}, pi[:, 3]),
        ({"propensity": certain}, np.where(certain == 1, 1 - logged, pi[:, 3])),
    ):
        logs = BanditLogs(**{**arrays, **fields}, actions=range(4))
        with pytest.warns(SupportWarning) as caught:
            result = IPS().fit(logs).evaluate(pi, sample_weight=omega)
        mass, rows = omega @ lost / omega.sum(), np.flatnonzero(omega)
        assert_allclose(caught[0].message.value, mass)
        with pytest.warns(SupportWarning):
            kept = IPS().fit(logs[rows]).evaluate(pi[rows], sample_weight=omega[rows])
        for one in (result, kept):
            assert_allclose(one.diagnostics["unsupported_mass"], mass)
        assert_allclose(result.effective_sample_size, kept.effective_sample_size)
    # rows of weight zero alone want what was never logged
    pi = np.where(rare[:, None], [0, 0, 0, 1.0], [0.5, 0.5, 0, 0])
    result = IPS().fit(logs).evaluate(pi, sample_weight=omega * (certain < 1))
    assert result.diagnostics["unsupported_mass"] == 0
    assert not any(isinstance(w, SupportWarning) for w in result.warnings)


# -- memory ---------------------------------------------------------------------------
def peak_of(call, *args, **given):
    tracemalloc.start()
    try:
        call(*args, **given)
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def logs_of_many_actions(n_rounds, n_actions):
    arrays, _, _ = make_arrays(n_rounds, 3)
    arrays["action"] = np.random.RandomState(0).randint(n_actions, size=n_rounds)
    arrays["propensity"] = 1 / n_actions
    return BanditLogs(**arrays, actions=np.arange(n_actions))


def uniform_of(n_actions, asked):
    """A policy that has a table, and notes how many rounds it is asked about."""

    def uniform(X):
        asked.append(len(X))
        return np.full((len(X), n_actions), 1 / n_actions)

    return FunctionPolicy(uniform)


@pytest.mark.thorough
@pytest.mark.parametrize("policy", [UniformPolicy(), uniform_of(10_000, [])])
def test_many_actions_take_a_bounded_memory(policy):
    logs = logs_of_many_actions(3_000, 10_000)  # a table of them has 240 MB
    assert peak_of(evaluate, policy, logs) < 50e6


@pytest.mark.thorough
def test_memory_does_not_grow_with_the_rounds():
    def evaluate_arrays(n_rounds):
        arrays, pi, q_hat = make_arrays(n_rounds, n_actions=10)
        first, second = BanditLogs(**arrays), BanditLogs(**arrays)
        evaluate(pi, first, reward_model=q_hat)
        return peak_of(evaluate, pi, second, reward_model=q_hat) / 2**20

    small, large = evaluate_arrays(200_000), evaluate_arrays(600_000)
    assert large < 8
    assert large < small + 0.5


@pytest.mark.parametrize("n_actions", [3, 500])
def test_a_policy_is_asked_for_chunks(n_actions):
    asked, n_rounds = [], 2 * BLOCK + 100
    logs = logs_of_many_actions(n_rounds, n_actions)
    evaluate(uniform_of(n_actions, asked), logs, reward_model=0.5)
    assert sum(asked) == n_rounds
    assert max(asked) <= max(ENTRIES // n_actions, BLOCK)


class Counting(ConstantPolicy):
    """Notes how many rounds it is asked about."""

    asked = ()

    def logged_proba(self, logs):
        Counting.asked += (len(logs),)
        return super().logged_proba(logs)

    def mass_on(self, logs, codes):
        return super().mass_on(logs, codes)


def test_memory_does_not_follow_the_number_of_actions():
    asked, n_actions = [], 10_000
    logs = logs_of_many_actions(3_000, n_actions)
    score, action = IPS().fit(logs).score, int(logs.action[0])
    peak = peak_of(score, uniform_of(n_actions, asked))
    assert sum(asked) == 3_000 and max(asked) * n_actions <= ENTRIES
    assert peak < 6 * 8 * ENTRIES
    for policy in (ConstantPolicy(action), UniformPolicy()):
        assert peak_of(score, policy) < 8e6  # a table has 240e6 bytes
    score(Counting(action))  # without a table all rows are one block
    assert Counting.asked == (3_000,)


@pytest.mark.few_cases(1)
@pytest.mark.parametrize("kind", [np.float32, np.asfortranarray])
def test_tables_are_converted_block_by_block(kind):
    n = 400_000  # a table of floats has 13 MB
    arrays, pi, q_hat = make_arrays(n)
    logs, pi, q_hat = BanditLogs(**arrays), kind(pi), kind(q_hat)
    evaluate(pi, logs, reward_model=q_hat)  # what logs tell once
    assert peak_of(evaluate, pi, logs, reward_model=q_hat) < 6e6


# -- workers --------------------------------------------------------------------------
N, K = 3_500, 5_000  # so many entries that each of two workers has whole stretches
KINDS = np.random.RandomState(0).dirichlet(np.ones(K), 8)


def by_kind(X):
    """A policy with eight distributions."""
    return KINDS[X[:, 1].astype(int)]


def many_logs(n=N, **fields):
    arrays, _, _ = make_arrays(n, K)
    arrays["context"][:, 1] = np.arange(n) % 8
    return BanditLogs(**arrays, actions=np.arange(K), **fields)


def numbers(table):
    some = ((*v.round_values, v.value, v.standard_error) for v in table.values())
    return [*chain(*some), *chain(*map(interval_of, table.values()))]


@pytest.mark.few_cases(1)
@pytest.mark.parametrize("model", [None, 0.5])
@pytest.mark.parametrize("fields", [["group", "sample_weight"], ["reward_range"], []])
def test_values_do_not_depend_on_jobs(model, fields):
    rng = np.random.default_rng(1)
    known = {
        "group": rng.integers(N // 5, size=N),
        "sample_weight": rng.integers(3, size=N).astype(float),
        "reward_range": (0.0, 1.0),  # whose rounds bound the weights in the pass
    }
    logs = many_logs(**{name: known[name] for name in fields})
    given = {"reward_model": model, "evaluators": ["SNIPS", "DoublyRobust"]}
    with parallel_config("threading"):
        one, two = (
            numbers(evaluate(FunctionPolicy(by_kind), logs, n_jobs=n_jobs, **given))
            for n_jobs in (None, 2)
        )
    assert_array_equal(one, two)


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_a_policy_is_asked_once_about_every_round(n_jobs):
    logs, asked = many_logs(N if n_jobs > 1 else 500), []  # several chunks, at least

    def watched(X):
        asked.extend(X[:, 0].tolist())
        return by_kind(X)

    evaluate(FunctionPolicy(watched), logs, n_jobs=n_jobs, evaluators=["IPS", "SNIPS"])
    assert sorted(asked) == sorted(logs.context[:, 0].tolist())
    row = len(logs) - 3
    last = logs.context[row, 0]

    def faulty(X):
        return np.where(X[:, :1] == last, 0.5, by_kind(X))

    with pytest.raises(ValueError, match=f"must sum to 1 .* at row {row} "):
        evaluate(FunctionPolicy(faulty), logs, n_jobs=n_jobs, evaluators=["IPS"])


def warns(X):
    warnings.warn("this policy is old", UserWarning, stacklevel=1)
    return by_kind(X)


@pytest.mark.parametrize(
    "backend", ["threading", pytest.param("loky", marks=pytest.mark.thorough)]
)
def test_what_workers_warn_of_is_told_once(backend):
    # whole stretches: a chunk that is left over is asked about here
    logs, policy = many_logs(2 * 8 * (ENTRIES // K)), FunctionPolicy(warns)
    call = partial(evaluate, policy, logs, evaluators=["SNIPS"])
    found = []
    for n_jobs in (1, 2):
        with parallel_config(backend), warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("default")
            found.append(numbers(call(n_jobs=n_jobs)))
    assert [str(one.message) for one in told].count("this policy is old") == 1
    assert_array_equal(*found)


# -- what is kept for as long as a value ----------------------------------------------
N_ASKED, FEW = 300, 4
RNG = np.random.default_rng(0)
X = RNG.normal(size=(N_ASKED, 2))
MU = RNG.dirichlet(np.ones(FEW) * 4, N_ASKED)
ACTION = np.array([RNG.choice(FEW, p=p) for p in MU])
REWARD = (RNG.random(N_ASKED) < 0.4).astype(float)
OWN = np.arange(N_ASKED), ACTION
LOGS = BanditLogs(X, ACTION, REWARD, MU[OWN], actions=range(FEW))
FULL = BanditLogs(X, ACTION, REWARD, MU[OWN], logging_proba=MU, actions=range(FEW))
PI = RNG.dirichlet(np.ones(FEW), N_ASKED)


class Asked(BasePolicy):
    """Counts how often it is asked for the round of a context."""

    def __init__(self, shift=0.0):
        self.shift = shift

    def fit(self, X, y=None):
        self.classes_ = np.arange(FEW)
        self.times = {}
        return self

    def _proba(self, X, available):
        for row in np.asarray(X)[:, 0].tolist():
            self.times[row] = self.times.get(row, 0) + 1
        score = np.exp((0.3 * X[:, :1] + self.shift) * np.arange(FEW))
        return score / score.sum(axis=1, keepdims=True)

    @property
    def once(self):
        return len(self.times) == N_ASKED and set(self.times.values()) == {1}


class AskedRidge(Ridge):
    """Counts its predictions."""

    n_predicted = 0

    def predict(self, X):
        AskedRidge.n_predicted += len(X)
        return super().predict(X)


@pytest.mark.parametrize("logs", [LOGS, FULL])
def test_a_table_that_is_shown_asks_policies_and_models_once(logs):
    policy = Asked().fit(X)
    AskedRidge.n_predicted = 0
    table = evaluate(policy, logs, reward_model=AskedRidge())
    predicted = AskedRidge.n_predicted
    assert policy.once and predicted == N_ASKED * FEW
    assert "DoublyRobust" in repr(table) and table._repr_html_()
    for value in table.values():
        value.confidence_interval()
        value.confidence_interval(method="student")
        assert len(value.round_values) == N_ASKED
    table.confidence_intervals(method="bootstrap", n_resamples=100)
    assert policy.once
    assert AskedRidge.n_predicted == predicted


def three_policies():
    return {name: Asked(0.3 * i).fit(X) for i, name in enumerate("abc")}


@pytest.mark.parametrize("logs", [LOGS, FULL])
@pytest.mark.parametrize("baseline", ["logger", "a"])
def test_a_comparison_asks_every_policy_once(logs, baseline):
    policies = three_policies()
    comparison = compare_policies(policies, logs, baseline=baseline)
    assert repr(comparison) and comparison.p_values and comparison.sentence
    assert all(policy.once for policy in policies.values())


def test_workers_change_nothing():
    policies, jobs = three_policies(), (1, 2, 999)
    one, *others = (compare_policies(policies, FULL, n_jobs=n) for n in jobs)
    for other in others:
        assert (repr(other), other.p_values) == (repr(one), one.p_values)
    table = evaluate(policies, FULL, evaluators=["SNIPS"])
    given = {"method": "bootstrap", "n_resamples": 50}
    one, *others = (table.confidence_intervals(n_jobs=n, **given) for n in jobs)
    assert others == [one, one]
    with pytest.raises(ValueError, match="does not use n_jobs"):
        table["a", "SNIPS"].confidence_interval(n_jobs=2)


def test_nothing_is_kept_for_longer_than_the_values():
    table = PI.copy()
    value = IPS().fit(LOGS).evaluate(table)
    known = weakref.ref(table)
    del table
    assert known() is not None and len(value.round_values) == N_ASKED
    gc.disable()
    try:
        del value
        assert known() is None
    finally:
        gc.enable()
