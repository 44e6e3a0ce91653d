# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Every static evaluator against its five-line loop, on worlds with rough edges."""

from types import SimpleNamespace

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.dummy import DummyRegressor
from sklearn.model_selection import KFold

from skope_ope import (
    IPS,
    MRDR,
    SNDR,
    SNIPS,
    BanditLogs,
    DirectMethod,
    DoublyRobust,
    DRos,
    LogSmoothing,
    SubGaussianDR,
    SubGaussianIPS,
    SwitchDR,
    UniformPolicy,
)
from tests import _loops as loops

# small logs and wild weights are the point here
pytestmark = pytest.mark.filterwarnings("ignore::skope_ope.exceptions.OPEWarning")

# name: evaluator, loop, parameters of the loop
PAIRS = {
    "IPS": (IPS(), loops.ips, {}),
    "IPS(cmax=2)": (IPS(cmax=2.0), loops.ips, {"cmax": 2.0}),
    "SNIPS": (SNIPS(), loops.snips, {}),
    "SNIPS(cmax=2)": (SNIPS(cmax=2.0), loops.snips, {"cmax": 2.0}),
    "DM": (DirectMethod(), loops.direct_method, {}),
    "DR": (DoublyRobust(), loops.doubly_robust, {}),
    "DR(cmax=2)": (DoublyRobust(cmax=2.0), loops.doubly_robust, {"cmax": 2.0}),
    "SNDR": (SNDR(), loops.sndr, {}),
    "SwitchDR": (SwitchDR(), loops.switch_dr, {"tau": 10.0}),
    "SwitchDR(tau=2)": (SwitchDR(tau=2.0), loops.switch_dr, {"tau": 2.0}),
    "SwitchDR(tau=0)": (SwitchDR(tau=0.0), loops.switch_dr, {"tau": 0.0}),
    "DRos": (DRos(), loops.dros, {"lam": 10.0}),
    "DRos(lam=.5)": (DRos(lam=0.5), loops.dros, {"lam": 0.5}),
    "DRos(lam=0)": (DRos(lam=0.0), loops.dros, {"lam": 0.0}),
    "SubGaussianIPS": (SubGaussianIPS(), loops.sub_gaussian_ips, {"lam": 0.1}),
    "SubGaussianIPS(lam=0)": (
        SubGaussianIPS(lam=0.0),
        loops.sub_gaussian_ips,
        {"lam": 0.0},
    ),
    "SubGaussianIPS(lam=1)": (
        SubGaussianIPS(lam=1.0),
        loops.sub_gaussian_ips,
        {"lam": 1.0},
    ),
    "SubGaussianDR": (SubGaussianDR(), loops.sub_gaussian_dr, {"lam": 0.1}),
    "SubGaussianDR(lam=.7)": (
        SubGaussianDR(lam=0.7),
        loops.sub_gaussian_dr,
        {"lam": 0.7},
    ),
    "SubGaussianDR(lam=1)": (
        SubGaussianDR(lam=1.0),
        loops.sub_gaussian_dr,
        {"lam": 1.0},
    ),
    "LogSmoothing": (LogSmoothing(), loops.log_smoothing, {}),
    "LogSmoothing(lam=.5)": (
        LogSmoothing(lam=0.5),
        loops.log_smoothing,
        {"lam": 0.5},
    ),
}
CASES = (
    "plain",
    "deterministic",
    "zeros",
    "ties",
    "available",
    "one action",
    "far from zero",
    "tiny propensities",
    "strings",
)


def world(case, seed, n=83):
    """Arrays of a random log: mu, pi, q, a, r, p, available, labels."""
    rng = np.random.RandomState(seed)
    n_actions = 1 if case == "one action" else 4
    mu = rng.dirichlet(np.ones(n_actions), size=n)
    pi = rng.dirichlet(np.ones(n_actions), size=n)
    available = None
    if case == "deterministic":
        pi = np.eye(n_actions)[rng.randint(n_actions, size=n)]
    elif case == "zeros":
        pi *= rng.random_sample(pi.shape) < 0.6
        pi[:, 0] += pi.sum(axis=1) == 0
        pi /= pi.sum(axis=1, keepdims=True)
    elif case == "ties":  # weights of exactly 0, 1, 2, 4, many of them equal
        mu = np.tile([0.25, 0.25, 0.25, 0.25], (n, 1))
        pi = np.array([[0.5, 0.5, 0, 0], [0, 0, 1, 0], [0.25] * 4])[np.arange(n) % 3]
    elif case == "available":
        available = rng.random_sample(mu.shape) < 0.6
        available[:, 1] |= ~available.any(axis=1)
        mu, pi = mu * available, pi * available
        mu, pi = (v / v.sum(axis=1, keepdims=True) for v in (mu, pi))
    elif case == "tiny propensities":
        mu = np.tile([1e-9, 0.2, 0.3, 0.5 - 1e-9], (n, 1))
    a = (mu.cumsum(axis=1) < rng.random_sample((n, 1))).sum(axis=1)
    a = np.minimum(a, n_actions - 1)
    if case == "tiny propensities":
        a[:5] = 0
    if available is not None:
        a = np.where(available[np.arange(n), a], a, mu.argmax(axis=1))
    labels = np.array(list("dcba")) if case == "strings" else np.arange(n_actions)
    r = rng.standard_normal(n)
    q = rng.standard_normal((n, n_actions))
    if case == "far from zero":
        r, q = r + 10, q + 10
    return SimpleNamespace(
        pi=pi,
        q=q,
        a=a,
        r=r,
        p=mu[np.arange(n), a],
        available=available,
        labels=labels,
        s=rng.uniform(0, 3, size=n) * (rng.random_sample(n) < 0.8),
    )


def logs_of(w, **fields):
    return BanditLogs(
        np.zeros((len(w.a), 1)),
        w.labels[w.a],
        w.r,
        w.p,
        actions=w.labels,
        available=w.available,
        **fields,
    )


def lists(w):
    return [v.tolist() for v in (w.pi, w.a, w.r, w.p, w.q)]


def check(result, expected, scale=1.0):
    value, error = expected
    assert_allclose(result.value, value, rtol=1e-10)
    # an error of zero comes out as rounding of the terms
    assert_allclose(result.standard_error, error, rtol=1e-10, atol=1e-14 * scale)
    rounds = result.round_values
    assert_allclose(rounds.mean(), value, rtol=1e-10)
    assert_allclose(
        rounds.std(ddof=1) / np.sqrt(len(rounds)), error, rtol=1e-9, atol=1e-13 * scale
    )


def fit(evaluator, logs, q):
    return clone(evaluator).fit(logs, q)


@pytest.mark.few_cases(66)
@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("name", PAIRS)
def test_parity(name, case, global_random_seed):
    evaluator, loop, params = PAIRS[name]
    w = world(case, global_random_seed)
    if name.startswith("LogSmoothing"):  # defined for rewards that are not negative
        w.r = np.abs(w.r)
    result = fit(evaluator, logs_of(w), w.q).evaluate(w.pi)
    scale = np.abs(result.round_values).max()
    check(result, loop(*lists(w), **params), scale)


@pytest.mark.few_cases(66)
@pytest.mark.parametrize("where", ["logs", "evaluate", "both"])
@pytest.mark.parametrize("case", ["plain", "zeros", "available"])
@pytest.mark.parametrize("name", PAIRS)
def test_parity_with_sample_weights(name, case, where, global_random_seed):
    evaluator, loop, params = PAIRS[name]
    w = world(case, global_random_seed)
    if name.startswith("LogSmoothing"):
        w.r = np.abs(w.r)
    some = np.where(np.arange(len(w.s)) % 2, 2.0, 0.5)
    in_logs, given = {
        "logs": (w.s, None),
        "evaluate": (None, w.s),
        "both": (some, w.s / some),  # they are multiplied
    }[where]
    logs = logs_of(w, sample_weight=in_logs)
    result = fit(evaluator, logs, w.q).evaluate(w.pi, sample_weight=given)
    check(result, loop(*lists(w), w.s.tolist(), **params))


@pytest.fixture(scope="module")
def large_world(global_random_seed):
    """More rows than a chunk, as arrays and as lists."""
    w = world("zeros", global_random_seed, n=50_000)
    w.r = np.abs(w.r)
    return w, logs_of(w), lists(w)


@pytest.mark.few_cases(5)
@pytest.mark.parametrize("name", PAIRS)
def test_parity_on_more_rows_than_a_chunk(name, large_world):
    evaluator, loop, params = PAIRS[name]
    w, logs, as_lists = large_world
    check(fit(evaluator, logs, w.q).evaluate(w.pi), loop(*as_lists, **params))


@pytest.mark.few_cases(8)
@pytest.mark.parametrize("name", PAIRS)
def test_a_column_an_object_and_an_array_are_one_policy(name):
    evaluator, loop, params = PAIRS[name]
    w = world("available", 0)
    w.r = np.abs(w.r)
    w.pi = w.available / w.available.sum(axis=1, keepdims=True)
    logs = logs_of(w).with_columns(uniform=w.pi, q_hat=w.q)
    expected = loop(*lists(w), **params)
    for policy in (w.pi, "uniform", UniformPolicy().fit(logs)):
        for q in (w.q, "q_hat"):
            check(fit(evaluator, logs, q).evaluate(policy), expected)


@pytest.mark.parametrize("name", ["IPS", "IPS(cmax=2)", "SNIPS", "SNIPS(cmax=2)"])
@pytest.mark.parametrize("case", ["plain", "zeros", "ties"])
def test_parity_from_probabilities_of_logged_actions(name, case):
    evaluator, loop, params = PAIRS[name]
    w = world(case, 0)
    pi = w.pi[np.arange(len(w.a)), w.a]
    check(fit(evaluator, logs_of(w), None).evaluate(pi), loop(*lists(w), **params))


@pytest.mark.few_cases(1)
@pytest.mark.parametrize("name", ["DM", "DR", "SNDR", "SwitchDR", "DRos"])
def test_out_of_fold_means_are_the_default_model(name, global_random_seed):
    evaluator, loop, params = PAIRS[name]
    w = world("plain", global_random_seed)
    for n_splits in (2, 5):
        folds = list(KFold(n_splits).split(w.a))
        w.q = np.array(loops.fold_means(w.a.tolist(), w.r.tolist(), folds, 4))
        expected = loop(*lists(w), **params)
        logs = logs_of(w)
        for cv in (n_splits, folds, KFold(n_splits)):
            for model in (None, DummyRegressor()):
                given = clone(evaluator).set_params(cv=cv)
                check(given.fit(logs, model).evaluate(w.pi), expected)


@pytest.mark.parametrize("case", ["plain", "strings", "far from zero"])
def test_mrdr(case, global_random_seed):
    w = world(case, global_random_seed, n=200)
    logs = logs_of(w)
    for n_splits in (2, 5):
        folds = list(KFold(n_splits).split(w.a))
        expected = loops.mrdr(*lists(w), folds=folds)
        for model in (None, DummyRegressor()):
            result = MRDR(reward_model=model, cv=folds).fit(logs).evaluate(w.pi)
            check(result, expected)
    default = MRDR().fit(logs).evaluate(w.pi)
    check(default, expected)


def test_mrdr_with_sample_weights(global_random_seed):
    w = world("plain", global_random_seed, n=200)
    folds = list(KFold(5).split(w.a))
    expected = loops.mrdr(*lists(w), w.s.tolist(), folds=folds)
    result = MRDR(cv=folds).fit(logs_of(w, sample_weight=w.s)).evaluate(w.pi)
    check(result, expected)


def test_mrdr_depends_on_the_policy():
    w = world("plain", 0, n=200)
    evaluator = MRDR().fit(logs_of(w))
    first = evaluator.evaluate(w.pi).value
    w.pi = w.pi[:, ::-1].copy()
    folds = list(KFold(5).split(w.a))
    check(evaluator.evaluate(w.pi), loops.mrdr(*lists(w), folds=folds))
    w.pi = w.pi[:, ::-1].copy()
    assert evaluator.evaluate(w.pi).value == first


@pytest.mark.parametrize("evaluator", [DRos(lam=np.inf), SwitchDR(tau=np.inf)])
def test_infinite_parameters_keep_every_weight(evaluator):
    w = world("zeros", 0)
    result = fit(evaluator, logs_of(w), w.q).evaluate(w.pi)
    check(result, loops.doubly_robust(*lists(w)))


@pytest.mark.parametrize(
    ("name", "weighted"),
    [
        ("IPS", False),
        ("IPS", True),
        ("SNIPS", False),
        ("SNIPS", True),
        ("DR", False),
        ("DR", True),
        ("SNDR", False),
        ("SNDR", True),
    ],
)
def test_standard_errors_far_from_zero(name, weighted):
    # Rewards that are large against their spread: a million plus or minus one. The
    # tolerance is what is left of 16 digits after six are lost to the offset.
    evaluator, loop, params = PAIRS[name]
    w = world("plain", 0, n=1000)
    w.r, w.q = w.r + 1e6, w.q + 1e6
    s = w.s if weighted else None
    result = fit(evaluator, logs_of(w, sample_weight=s), w.q).evaluate(w.pi)
    value, error = loop(*lists(w), None if s is None else s.tolist(), **params)
    assert_allclose(result.value, value, rtol=1e-13)
    assert_allclose(result.standard_error, error, rtol=1e-8)


@pytest.mark.parametrize("name", PAIRS)
def test_arrays_are_left_alone(name):
    evaluator, _, _ = PAIRS[name]
    w = world("available", 3)
    w.r = np.abs(w.r)
    before = {k: np.copy(v) for k, v in vars(w).items()}
    for field in (w.pi, w.q, w.r, w.p, w.s, w.a, w.available):
        field.flags.writeable = False
    result = fit(evaluator, logs_of(w, sample_weight=w.s), w.q).evaluate(w.pi)
    assert len(result.round_values) == len(w.a)
    for field, values in before.items():
        assert_array_equal(getattr(w, field), values)
