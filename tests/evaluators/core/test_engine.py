# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause

import tracemalloc
import warnings

import numpy as np
import pytest
from numpy.testing import assert_allclose

from skope_ope import IPS, BanditLogs, FunctionPolicy, evaluate
from skope_ope.evaluators.core import _engine
from skope_ope.exceptions import ModelErrorWarning, SupportWarning

pytestmark = pytest.mark.filterwarnings(
    "ignore::skope_ope.exceptions.ModelErrorWarning"
)


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


@pytest.mark.parametrize("change", ["float32", "fortran", "strided", "lists"])
def test_any_kind_of_table(change):
    arrays, pi, q_hat = make_arrays(300)
    pi, q_hat = (table.astype(np.float32).astype(float) for table in (pi, q_hat))
    logs = BanditLogs(**arrays)
    expected = values(evaluate(pi, logs, reward_model=q_hat))
    as_other = {
        "float32": lambda table: table.astype(np.float32),
        "fortran": np.asfortranarray,
        "strided": lambda table: np.repeat(table, 2, axis=1)[:, ::2],
        "lists": lambda table: table.tolist(),
    }[change]
    found = evaluate(as_other(pi), logs, reward_model=as_other(q_hat))
    assert_allclose(values(found), expected, rtol=1e-12)


def test_a_constant_model_is_not_expanded():
    arrays, pi, _ = make_arrays(300)
    logs = BanditLogs(**arrays)
    expected = evaluate(pi, logs, reward_model=np.full(pi.shape, 0.3))
    found = evaluate(pi, logs, reward_model=0.3)
    assert_allclose(values(found), values(expected), rtol=1e-12, atol=1e-15)


def test_integer_probabilities():
    arrays, _, q_hat = make_arrays(300)
    logs = BanditLogs(**arrays)
    greedy = np.eye(4, dtype=int)[q_hat.argmax(axis=1)]
    found = evaluate(greedy, logs, reward_model=q_hat)
    expected = evaluate(greedy.astype(float), logs, reward_model=q_hat)
    assert values(found) == values(expected)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_model_values_that_are_not_finite_are_named(bad):
    n_rounds = _engine.BLOCK + 100
    arrays, pi, q_hat = make_arrays(n_rounds)
    row = n_rounds - 3  # in the second block
    q_hat[row, 2] = bad
    with pytest.raises(
        ValueError, match=f"reward_model must be finite, got {bad} at row {row} "
    ):
        evaluate(pi, BanditLogs(**arrays), reward_model=q_hat)


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        (np.nan, "must sum to 1 over the actions, got nan"),
        (np.inf, "must sum to 1 over the actions, got inf"),
        (-0.5, "must not be negative, got -0.5"),
        (1.5, "must sum to 1 over the actions, got"),
    ],
)
@pytest.mark.parametrize("n_actions", [4, 40])
def test_faulty_probabilities_are_named(entry, message, n_actions):
    n_rounds = _engine.BLOCK + 100
    arrays, pi, _ = make_arrays(n_rounds, n_actions)
    row = n_rounds - 3
    pi[row, 2] = entry
    with pytest.raises(ValueError, match=f"policy {message}.* at row {row}"):
        evaluate(pi, BanditLogs(**arrays), reward_model=0.5)


@pytest.mark.parametrize("entry", [np.nan, -0.1, 1.1])
def test_faulty_probabilities_of_logged_actions_are_named(entry):
    arrays, pi, _ = make_arrays(50)
    logs = BanditLogs(**arrays)
    logged = pi[np.arange(50), arrays["action"]]
    logged[31] = entry
    with pytest.raises(ValueError, match=f"got {entry} at row 31"):
        evaluate(logged, logs, evaluators=["IPS"])


def test_mass_on_actions_that_were_never_logged():
    arrays, pi, q_hat = make_arrays(200)
    arrays["action"] = arrays["action"] % 3
    arrays["propensity"] = np.full(200, 1 / 3)
    logs = BanditLogs(**arrays, actions=[0, 1, 2, 3])
    with pytest.warns(SupportWarning) as caught:
        result = evaluate(pi, logs, reward_model=q_hat)["IPS"]
    assert_allclose(result.diagnostics["unsupported_mass"], pi[:, 3].mean())
    assert_allclose(caught[0].message.value, pi[:, 3].mean())
    assert logs.unseen.tolist() == [3]
    assert logs[:5].unseen.tolist() == np.setdiff1d(range(4), logs.action[:5]).tolist()


@pytest.mark.filterwarnings("ignore::skope_ope.exceptions.LowOverlapWarning")
@pytest.mark.filterwarnings("ignore::skope_ope.exceptions.PropensityWarning")
def test_missing_mass_is_weighted():
    """In all three ways in which it is known."""
    arrays, pi, _ = make_arrays(90)
    arrays["action"] = arrays["action"] % 3
    omega = np.random.RandomState(1).random_sample(90)
    rare = np.arange(90) % 3 == 0
    omega[rare] = 0
    arrays["action"][rare] = 3  # logged by rounds of weight zero alone
    mu = np.tile([0.3, 0.3, 0.4, 0.0], (90, 1))
    mu[rare] = 0.25
    own = mu[np.arange(90), arrays["action"]]
    certain = np.where(np.arange(90) % 3 == 1, 1.0, 0.5)
    logged = pi[np.arange(90), arrays["action"]]
    for fields, lost in (
        ({"propensity": np.full(90, 0.25)}, pi[:, 3]),
        ({"propensity": own, "logging_proba": mu}, pi[:, 3]),
        ({"propensity": certain}, np.where(certain == 1, 1 - logged, pi[:, 3])),
    ):
        logs = BanditLogs(**{**arrays, **fields}, actions=range(4))
        with pytest.warns(SupportWarning) as caught:
            result = IPS().fit(logs).evaluate(pi, sample_weight=omega)
        mass = omega @ lost / omega.sum()
        assert_allclose(result.diagnostics["unsupported_mass"], mass)
        assert_allclose(caught[0].message.value, mass)
        rows = np.flatnonzero(omega)
        with pytest.warns(SupportWarning):
            kept = IPS().fit(logs[rows]).evaluate(pi[rows], sample_weight=omega[rows])
        assert_allclose(kept.diagnostics["unsupported_mass"], mass)
        assert_allclose(result.effective_sample_size, kept.effective_sample_size)
    # rows of weight zero alone want what was never logged
    pi = np.where(rare[:, None], [0, 0, 0, 1.0], [0.5, 0.5, 0, 0])
    result = IPS().fit(logs).evaluate(pi, sample_weight=omega * (certain < 1))
    assert result.diagnostics["unsupported_mass"] == 0
    assert not any(isinstance(w, SupportWarning) for w in result.warnings)


def peak_mib(call):
    tracemalloc.start()
    try:
        call()
        return tracemalloc.get_traced_memory()[1] / 2**20
    finally:
        tracemalloc.stop()


def test_memory_does_not_grow_with_the_rounds():
    def evaluate_arrays(n_rounds):
        arrays, pi, q_hat = make_arrays(n_rounds, n_actions=10)
        first, second = BanditLogs(**arrays), BanditLogs(**arrays)
        evaluate(pi, first, reward_model=q_hat)
        return peak_mib(lambda: evaluate(pi, second, reward_model=q_hat))

    small, large = evaluate_arrays(200_000), evaluate_arrays(600_000)
    assert large < 8
    assert large < small + 0.5


@pytest.mark.parametrize("n_actions", [3, 500])
def test_a_policy_is_asked_for_chunks(n_actions):
    asked = []

    def uniform(X):
        asked.append(len(X))
        return np.full((len(X), n_actions), 1 / n_actions)

    n_rounds = 2 * _engine.BLOCK + 100
    arrays, _, _ = make_arrays(n_rounds, 3)
    logs = BanditLogs(**arrays, actions=np.arange(n_actions))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        evaluate(FunctionPolicy(uniform), logs, reward_model=0.5)
    assert sum(asked) == n_rounds
    assert max(asked) <= max(_engine.BLOCK_ENTRIES // n_actions, _engine.BLOCK)


def test_the_direct_method_says_what_its_error_leaves_out():
    arrays, pi, q_hat = make_arrays(50)
    with pytest.warns(ModelErrorWarning):
        evaluate(pi, BanditLogs(**arrays), reward_model=q_hat)
