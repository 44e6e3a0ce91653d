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
)
from tests import _loops as loops

# small logs and wild weights are the point here
pytestmark = pytest.mark.filterwarnings("ignore::skope_ope.exceptions.OPEWarning")

PAIRS = [
    (loops.ips, IPS(), IPS(cmax=2.0)),
    (loops.snips, SNIPS(), SNIPS(cmax=2.0)),
    (loops.direct_method, DirectMethod()),
    (loops.doubly_robust, DoublyRobust(), DoublyRobust(cmax=2.0)),
    (loops.sndr, SNDR()),
    (loops.switch_dr, SwitchDR(), *(SwitchDR(tau=tau) for tau in (2.0, 0.0, np.inf))),
    (loops.dros, DRos(), DRos(lam=0.5), DRos(lam=0.0)),
    (loops.sub_gaussian_ips, SubGaussianIPS()),
    (loops.sub_gaussian_dr, SubGaussianDR()),
    (loops.log_smoothing, LogSmoothing(), LogSmoothing(lam=0.5)),
]
for lam in (0.0, 0.7, 1.0):
    PAIRS.append((loops.sub_gaussian_ips, SubGaussianIPS(lam=lam)))
    PAIRS.append((loops.sub_gaussian_dr, SubGaussianDR(lam=lam)))
PAIRS = {str(one): (one, loop) for loop, *some in PAIRS for one in some}
every = pytest.mark.parametrize("name", PAIRS)
CASES = [
    *("plain", "deterministic", "zeros", "ties", "available", "one action"),
    *("far from zero", "tiny propensities", "strings"),
]


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
    p, s = mu[np.arange(n), a], rng.uniform(0, 3, n) * (rng.random_sample(n) < 0.8)
    offers = {"available": available, "labels": labels}
    return SimpleNamespace(pi=pi, q=q, a=a, r=r, p=p, s=s, **offers)


def logs_of(w, **fields):
    fields |= {"actions": w.labels, "available": w.available}
    return BanditLogs(np.zeros((len(w.a), 1)), w.labels[w.a], w.r, w.p, **fields)


def lists(w):
    return [v.tolist() for v in (w.pi, w.a, w.r, w.p, w.q)]


def answer(name, w, *weight):
    """Value and standard error of the loop of an evaluator."""
    evaluator, loop = PAIRS[name]
    given = evaluator.get_params()
    given = {k: given[k] for k in ("cmax", "tau", "lam") if given.get(k) is not None}
    return loop(*lists(w), *weight, **given)


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


def fit(name, logs, q):
    return clone(PAIRS[name][0]).fit(logs, q)


def world_for(name, case, seed):
    """The world, with rewards that are not negative where the formula needs that."""
    w = world(case, seed)
    if name.startswith("LogSmoothing"):
        w.r = np.abs(w.r)
    return w


@pytest.mark.few_cases(75)
@pytest.mark.parametrize("case", CASES)
@every
def test_parity(name, case, global_random_seed):
    """And what was given is left alone."""
    w = world_for(name, case, global_random_seed)
    before = {k: np.copy(v) for k, v in vars(w).items()}
    for field in vars(w).values():
        if field is not None:
            field.flags.writeable = False
    result = fit(name, logs_of(w), w.q).evaluate(w.pi)
    scale = np.abs(result.round_values).max()
    check(result, answer(name, w), scale)
    for field, values in before.items():
        assert_array_equal(getattr(w, field), values)


@pytest.mark.few_cases(75)
@pytest.mark.parametrize("where", ["logs", "evaluate", "both"])
@pytest.mark.parametrize("case", ["plain", "zeros", "available"])
@every
def test_parity_with_sample_weights(name, case, where, global_random_seed):
    w = world_for(name, case, global_random_seed)
    some = np.where(np.arange(len(w.s)) % 2, 2.0, 0.5)
    in_logs, given = {
        "logs": (w.s, None),
        "evaluate": (None, w.s),
        "both": (some, w.s / some),  # they are multiplied
    }[where]
    fitted = fit(name, logs_of(w, sample_weight=in_logs), w.q)
    result = fitted.evaluate(w.pi, sample_weight=given)
    check(result, answer(name, w, w.s.tolist()))


@pytest.mark.parametrize("name", list(PAIRS)[:4])
@pytest.mark.parametrize("case", ["plain", "zeros", "ties"])
def test_parity_from_probabilities_of_logged_actions(name, case):
    w = world(case, 0)
    pi = w.pi[np.arange(len(w.a)), w.a]
    check(fit(name, logs_of(w), None).evaluate(pi), answer(name, w))


@pytest.mark.few_cases(1)
@pytest.mark.parametrize(
    "name",
    [f"{n}()" for n in ("DirectMethod", "DoublyRobust", "SNDR", "SwitchDR", "DRos")],
)
def test_out_of_fold_means_are_the_default_model(name, global_random_seed):
    w = world("plain", global_random_seed)
    for n_splits in (2, 5):
        folds = list(KFold(n_splits).split(w.a))
        w.q = np.array(loops.fold_means(w.a.tolist(), w.r.tolist(), folds, 4))
        expected, logs = answer(name, w), logs_of(w)
        for cv in (n_splits, folds, KFold(n_splits)):
            for model in (None, DummyRegressor()):
                given = clone(PAIRS[name][0]).set_params(cv=cv)
                check(given.fit(logs, model).evaluate(w.pi), expected)


@pytest.mark.parametrize(
    ("case", "weighted"),
    [("plain", False), ("plain", True), ("strings", False), ("far from zero", False)],
)
def test_mrdr(case, weighted, global_random_seed):
    w = world(case, global_random_seed, n=200)
    weight = [w.s.tolist()] if weighted else []
    logs = logs_of(w, sample_weight=w.s if weighted else None)
    for n_splits in (2, 5):
        folds = list(KFold(n_splits).split(w.a))
        expected = loops.mrdr(*lists(w), *weight, folds=folds)
        for model in (None, DummyRegressor()):
            fitted = MRDR(reward_model=model, cv=folds).fit(logs)
            check(fitted.evaluate(w.pi), expected)
    default = MRDR().fit(logs)
    check(default.evaluate(w.pi), expected)
    w.pi = w.pi[:, ::-1].copy()  # the model follows the policy, and goes back with it
    other = loops.mrdr(*lists(w), *weight, folds=folds)
    check(default.evaluate(w.pi), other)
    check(default.evaluate(w.pi[:, ::-1].copy()), expected)
