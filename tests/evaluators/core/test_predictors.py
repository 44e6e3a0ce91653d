# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause

import os
import tracemalloc
import warnings

import numpy as np
import pytest
from joblib import parallel_config
from numpy.testing import assert_array_equal
from sklearn.linear_model import Ridge

from skope_ope import BanditLogs, FunctionPolicy, UniformPolicy, evaluate
from skope_ope.evaluators.core import _engine

pytestmark = pytest.mark.filterwarnings(
    "ignore::skope_ope.exceptions.OPEWarning",
)
N, K = 1_000, 4


def logs_of(n=N, n_actions=K, **fields):
    rng = np.random.default_rng(0)
    arrays = rng.normal(size=(n, 2)), rng.integers(n_actions, size=n), rng.random(n)
    p = np.full(n, 1 / n_actions)
    return BanditLogs(*arrays, p, actions=np.arange(n_actions), **fields)


def softmax(X):
    scores = np.exp(X @ np.arange(2 * K).reshape(2, K) / K)
    return scores / scores.sum(axis=1, keepdims=True)


def numbers(table):
    return [
        number
        for value in table.values()
        for number in (
            value.value,
            value.standard_error,
            *value.round_values,
            *value.confidence_interval(),
        )
    ]


@pytest.fixture
def small_blocks(monkeypatch):
    """Blocks of 20 rounds, chunks of 60: a thousand rounds are several stretches."""
    monkeypatch.setattr(_engine, "BLOCK", 20)
    monkeypatch.setattr(_engine, "BLOCK_ENTRIES", 60 * K)


@pytest.mark.few_cases
@pytest.mark.parametrize("model", [None, 0.5, Ridge(), "table"])
@pytest.mark.parametrize(
    "fields", [[], ["group"], ["sample_weight"], ["proba"], ["reward_range"]]
)
def test_values_do_not_depend_on_jobs(small_blocks, model, fields):
    rng = np.random.default_rng(1)
    given = {
        "group": rng.integers(N // 5, size=N),
        "sample_weight": rng.integers(3, size=N).astype(float),
        "reward_range": (0.0, 1.0),  # whose rounds bound the weights in the pass
    }
    logs = logs_of(**{name: given[name] for name in fields if name in given})
    if fields == ["proba"]:
        proba = np.full((N, K), 1 / K)
        logs = logs.replace(logging_proba=proba)
    model = rng.random((N, K)) if isinstance(model, str) else model
    policies = {"softmax": FunctionPolicy(softmax), "table": softmax(logs.context)}
    policies["uniform"] = UniformPolicy()
    with parallel_config("threading"):
        one, two, many = (
            numbers(evaluate(policies, logs, reward_model=model, n_jobs=n_jobs))
            for n_jobs in (None, 2, 3 * N)
        )
    assert_array_equal(one, two)
    assert_array_equal(one, many)


@pytest.mark.thorough
def test_processes_give_the_same_values(small_blocks):
    logs, policy = logs_of(), FunctionPolicy(softmax)
    one = numbers(evaluate(policy, logs, reward_model=Ridge()))
    with parallel_config("loky"):
        two = numbers(evaluate(policy, logs, reward_model=Ridge(), n_jobs=2))
    assert_array_equal(one, two)


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_a_policy_is_asked_once_about_every_round(small_blocks, n_jobs):
    asked = []

    def watched(X):
        asked.extend(X[:, 0].tolist())
        return softmax(X)

    logs = logs_of()
    evaluate(FunctionPolicy(watched), logs, n_jobs=n_jobs)
    assert sorted(asked) == sorted(logs.context[:, 0].tolist())


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_a_faulty_row_is_named_whoever_finds_it(small_blocks, n_jobs):
    logs = logs_of()
    last = logs.context[N - 3, 0]

    def faulty(X):
        return np.where(X[:, :1] == last, 0.5, softmax(X))

    with pytest.raises(ValueError, match=f"must sum to 1 .* at row {N - 3} "):
        evaluate(FunctionPolicy(faulty), logs, n_jobs=n_jobs)


def exits(X):
    os._exit(1)


@pytest.mark.thorough
def test_a_worker_that_dies_is_a_sentence(small_blocks):
    with (
        parallel_config("loky"),
        pytest.raises(RuntimeError, match=r"a worker process died.*n_jobs=1"),
    ):
        evaluate(FunctionPolicy(exits), logs_of(), n_jobs=2)


def warns(X):
    warnings.warn("this policy is old", UserWarning, stacklevel=1)
    return softmax(X)


@pytest.mark.parametrize("backend", ["threading", "loky"])
def test_what_workers_warn_of_is_told_once(small_blocks, backend):
    with (
        parallel_config(backend),
        warnings.catch_warnings(record=True) as told,
    ):
        warnings.simplefilter("default")
        # two whole stretches: a chunk that is left over is asked about here
        evaluate(FunctionPolicy(warns), logs_of(2 * 480), n_jobs=2)
    assert [str(one.message) for one in told].count("this policy is old") == 1


def peak_of(call):
    tracemalloc.start()
    call()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return peak


@pytest.mark.thorough
@pytest.mark.parametrize("policy", [UniformPolicy(), FunctionPolicy(None)])
def test_many_actions_take_a_bounded_memory(policy):
    n, n_actions = 3_000, 10_000  # a table of them has 240 MB
    logs = logs_of(n, n_actions)
    if isinstance(policy, FunctionPolicy):
        policy = FunctionPolicy(lambda X: np.full((len(X), n_actions), 1 / n_actions))
    assert peak_of(lambda: evaluate(policy, logs)) < 50e6


@pytest.mark.few_cases(1)
@pytest.mark.parametrize(
    "kind", [np.float32, pytest.param(np.asfortranarray, id="fortran")]
)
def test_tables_are_converted_block_by_block(kind):
    n = 400_000  # a table of floats has 13 MB
    logs = logs_of(n)
    pi, q_hat = (kind(softmax(logs.context)) for _ in range(2))
    evaluate(pi, logs, reward_model=q_hat)  # what logs tell once
    assert peak_of(lambda: evaluate(pi, logs, reward_model=q_hat)) < 6e6
