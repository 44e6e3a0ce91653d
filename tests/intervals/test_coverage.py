# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""What the intervals and standard errors promise, counted over many logs.

The logs come from `W1`, whose values, expectations and variances are exact sums, so
that only the simulation itself has an error. Normal and Student intervals are
asymptotic: MARGIN is what the skewness of weights up to 4 may take away at n = 1000.
"""

import warnings
from types import SimpleNamespace

import numpy as np
import pytest
from sklearn.linear_model import Ridge

from skope_ope import (
    IPS,
    SNDR,
    SNIPS,
    BanditLogs,
    ConstantPolicy,
    DirectMethod,
    DoublyRobust,
    DRos,
    LogSmoothing,
    SubGaussianDR,
    SubGaussianIPS,
    SwitchDR,
    evaluate,
)
from skope_ope.datasets import make_bandit_logs
from skope_ope.exceptions import OPEWarning
from skope_ope.intervals import (
    asymptotic_sequence,
    betting_sequence,
    empirical_bernstein_sequence,
)
from tests._quiet import quiet
from tests._worlds import W1, exact_moments, log_of

pytestmark = pytest.mark.theory

N_ROUNDS, N_LOGS = 1000, 1000
MARGIN = 0.005
EVALUATORS = {
    "IPS": IPS(),
    "SNIPS": SNIPS(),
    "DR": DoublyRobust(reward_model="q_hat"),
    "SNDR": SNDR(reward_model="q_hat"),
    "DM": DirectMethod(reward_model="q_hat"),
    "clipped IPS": IPS(cmax=2.0),
    "clipped DR": DoublyRobust(reward_model="q_hat", cmax=2.0),
    "SwitchDR": SwitchDR(reward_model="q_hat", tau=2.0),
    "DRos": DRos(reward_model="q_hat", lam=4.0),
    "SubGaussianIPS": SubGaussianIPS(lam=0.2),
    "SubGaussianDR": SubGaussianDR(reward_model="q_hat", lam=0.2),
    "LogSmoothing": LogSmoothing(lam=0.5),
}
RATIOS = ("SNIPS", "SNDR")
CONSISTENT = ("IPS", "SNIPS", "DR", "SNDR")
MEANS = [name for name in EVALUATORS if name not in RATIOS]
SOME = 500  # logs for methods that take longer than Student's
LIKELIHOOD = ("empirical_likelihood", "cressie_read")
MANY_ROUNDS = ("auto", "gamma", "bootstrap", "percentile", *LIKELIHOOD)
ANY_NUMBER = ("betting", "empirical_bernstein", "hoeffding", "log_smoothing")


def logs_of(log):
    """BanditLogs with the policy and the model as columns."""
    given = np.zeros((log.x.size, 1)), log.action, log.reward, log.propensity
    logs = BanditLogs(*given, actions=np.arange(3), logging_proba=log.mu)
    return logs.with_columns(pi=log.pi, q_hat=log.q_hat)


def quiet_evaluate(*args, **kwargs):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", OPEWarning)
        return evaluate(*args, **kwargs)


def draw(n_logs, n_rounds, rng):
    """Contexts, actions and rewards of logs of W1."""
    x = (rng.random_sample((n_logs, n_rounds)) < W1.p_context[1]).astype(int)
    u = rng.random_sample((n_logs, n_rounds, 1))
    action = (W1.mu[x].cumsum(axis=-1) <= u).sum(axis=-1)
    reward = rng.random_sample((n_logs, n_rounds)) < W1.q[x, action]
    return x, action, reward


@pytest.fixture(scope="module")
def simulated(global_random_seed):
    """Results of all evaluators on N_LOGS logs of W1: lists by name."""
    drawn = draw(N_LOGS, N_ROUNDS, np.random.RandomState(global_random_seed))
    results = {name: [] for name in EVALUATORS}
    for log in zip(*drawn, strict=True):
        table = quiet_evaluate("pi", logs_of(log_of(W1, *log)), evaluators=EVALUATORS)
        for name, result in table.items():
            results[name].append(result)
    return results


def expectation(name):
    """Exact mean and n * variance of an evaluator that is a plain mean."""

    def value(log):
        table = quiet_evaluate("pi", logs_of(log), evaluators={name: EVALUATORS[name]})
        return table[name].value

    return exact_moments(W1, 1, value)


def covered(results, target, level, method):
    few = {"n_resamples": 500} if method in ("bootstrap", "percentile") else {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", OPEWarning)
        ends = np.array([r.confidence_interval(level, method, **few) for r in results])
    return ((ends[:, 0] <= target) & (target <= ends[:, 1])).mean()


def tolerance(level, n_logs=N_LOGS):
    """Four standard errors of a simulated coverage."""
    return 4 * np.sqrt(level * (1 - level) / n_logs)


@pytest.mark.parametrize("level", [0.8, 0.95])
@pytest.mark.parametrize("method", ["student", "normal"])
@pytest.mark.parametrize("name", CONSISTENT)
def test_the_truth_is_covered(simulated, name, method, level):
    share = covered(simulated[name], W1.value, level, method)
    assert abs(share - level) < tolerance(level) + MARGIN


@pytest.mark.parametrize("method", MANY_ROUNDS)
def test_methods_for_many_rounds_cover_the_truth(simulated, method):
    share = covered(simulated["IPS"][:SOME], W1.value, 0.95, method)
    assert abs(share - 0.95) < tolerance(0.95, SOME) + MARGIN


@pytest.mark.parametrize("method", ANY_NUMBER)
def test_methods_for_any_number_of_rounds_cover_at_least(simulated, method):
    share = covered(simulated["IPS"][:SOME], W1.value, 0.95, method)
    assert share > 0.95 - tolerance(0.95, SOME)


@pytest.fixture(scope="module")
def with_hardly_a_click(global_random_seed):
    """Values of IPS where 40 of 200 rounds tell of the policy, and 2% have a click."""
    rng = np.random.RandomState(global_random_seed)
    results, known = [], {"actions": range(5), "reward_range": (0, 1)}
    for _ in range(SOME):
        action, reward = rng.randint(5, size=200), rng.random_sample(200) < 0.02
        logs = BanditLogs(np.zeros((200, 1)), action, reward, 0.2, **known)
        results.append(quiet(IPS().fit(logs), ConstantPolicy(3)))
    return results


@pytest.mark.parametrize("method", ["clopper_pearson", *ANY_NUMBER])
def test_what_holds_with_hardly_a_click(with_hardly_a_click, method):
    share = covered(with_hardly_a_click, 0.02, 0.95, method)
    assert share > 0.95 - tolerance(0.95, SOME)


@pytest.mark.parametrize("method", ["auto", "gamma"])
def test_the_default_holds_with_hardly_a_click(with_hardly_a_click, method):
    share = covered(with_hardly_a_click, 0.02, 0.95, method)
    assert share > 0.93 - tolerance(0.93, SOME)


@pytest.mark.parametrize("method", ["student", "normal", "bootstrap", "percentile"])
def test_what_does_not_hold_with_hardly_a_click(with_hardly_a_click, method):
    """Most logs hold no click of the policy's action, and neither do resamples."""
    assert covered(with_hardly_a_click[:150], 0.02, 0.95, method) < 0.75


def paths(world, n_rounds, rng):
    """Weights and rewards of SOME logs, the largest weight, and the true value."""
    if world == "W1":
        x, action, reward = draw(SOME, n_rounds, rng)
        return (W1.pi / W1.mu)[x, action], reward, 4.0, W1.value
    weight = 5.0 * (rng.random_sample((SOME, n_rounds)) < 0.2)
    return weight, rng.random_sample(weight.shape) < 0.02, 5.0, 0.02


@pytest.mark.parametrize("world", ["W1", "hardly a click"])
@pytest.mark.parametrize("sequence", [empirical_bernstein_sequence, betting_sequence])
def test_sequences_cover_at_all_times(sequence, world, global_random_seed):
    rng, level = np.random.RandomState(global_random_seed), 0.8
    about = {"reward_range": (0, 1), "level": level, "after": np.arange(5, 501, 5)}
    weight, reward, most, value = paths(world, 500, rng)
    if sequence is betting_sequence:
        about["max_weight"] = most
    missed = 0
    for w, r in zip(weight, reward, strict=True):
        low, high = sequence(w, r, **about)
        missed += not ((low <= value) & (value <= high)).all()  # NaN is a miss
    assert missed / SOME < 1 - level + tolerance(level, SOME)


def test_asymptotic_sequences_cover_from_their_start_on(global_random_seed):
    rng, level = np.random.RandomState(global_random_seed), 0.8
    weight, reward, _, value = paths("W1", 5000, rng)
    missed = at_the_end = 0
    for z in weight * reward:
        low, high = asymptotic_sequence(z, level, start=500)
        missed += not ((low <= value) & (value <= high))[499:].all()
        at_the_end += not low[-1] <= value <= high[-1]
    assert missed / SOME < 1 - level + tolerance(level, SOME) + MARGIN
    assert at_the_end < missed  # each time adds to what it spends


@pytest.mark.parametrize("name", [name for name in MEANS if name not in CONSISTENT])
def test_what_is_estimated_is_covered(simulated, name):
    """Biased evaluators: the interval is around their own expectation."""
    mean, _ = expectation(name)
    share = covered(simulated[name], mean, 0.95, "student")
    assert abs(share - 0.95) < tolerance(0.95) + MARGIN
    assert abs(mean - W1.value) > 0.01  # which is not the truth


@pytest.mark.parametrize("name", MEANS)
def test_squared_standard_errors_are_unbiased(simulated, name):
    """The sample variance is unbiased for the exact variance of one round."""
    _, variance = expectation(name)
    squares = N_ROUNDS * np.array([r.standard_error**2 for r in simulated[name]])
    error = squares.std(ddof=1) / np.sqrt(N_LOGS)
    assert abs(squares.mean() - variance) < 4 * error


@pytest.mark.parametrize("name", CONSISTENT)
def test_standard_errors_are_the_spread_of_values(simulated, name):
    values = np.array([float(r) for r in simulated[name]])
    squares = np.array([r.standard_error**2 for r in simulated[name]])
    # Values of a thousand rounds are nearly normal: their sample variance has a
    # relative standard error of sqrt(2 / N_LOGS).
    ratio = squares.mean() / values.var(ddof=1)
    assert abs(ratio - 1) < 4 * np.sqrt(2 / N_LOGS) + MARGIN


def test_asymptotic_variance_of_snips(simulated):
    """n Var = E[w^2 (r - V)^2] = .595064, by enumeration of one round."""
    w = W1.pi / W1.mu
    square = W1.q * (1 - W1.value) ** 2 + (1 - W1.q) * W1.value**2
    exact = W1.p_context @ (W1.mu * w**2 * square).sum(axis=1)
    assert abs(exact - 0.595064) < 5e-7
    squares = N_ROUNDS * np.array([r.standard_error**2 for r in simulated["SNIPS"]])
    error = squares.std(ddof=1) / np.sqrt(N_LOGS)
    # What the linearisation leaves out is of the order of 1 / N_ROUNDS.
    assert abs(squares.mean() - exact) < 4 * error + 3 / N_ROUNDS


def test_the_direct_method_says_what_it_leaves_out(simulated):
    results = simulated["DM"]
    assert covered(results, W1.value, 0.95, "student") < 0.01
    assert not results[0].diagnostics["model_error_included"]


def test_cross_fitting_is_covered(global_random_seed):
    """A model fitted on the same log costs the interval of DR nothing.

    World 0 of the synthetic logs with 1000 rounds, as in the guide's table.
    """
    n_logs, seed = 300, 1000 * global_random_seed
    draws = [
        make_bandit_logs(1, world_random_state=0, random_state=i, return_truth=True)
        for i in range(10)
    ]
    policy = draws[0][1]
    value = np.mean([truth.population_value for _, _, truth in draws])
    results = SimpleNamespace(DoublyRobust=[], SNDR=[])
    for i in range(n_logs):
        logs = make_bandit_logs(1000, world_random_state=0, random_state=seed + i)
        table = quiet_evaluate(
            policy, logs, evaluators=list(vars(results)), reward_model=Ridge()
        )
        for name, result in table.items():
            getattr(results, name).append(result)
    for name, found in vars(results).items():
        share = covered(found, value, 0.95, "student")
        assert abs(share - 0.95) < tolerance(0.95, n_logs) + MARGIN, name
