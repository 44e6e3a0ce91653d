# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Weights of the pseudoinverse, and its control variates, against their definitions.

Where all rewards are one, the values of the rounds are the weights.
"""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.linear_model import LinearRegression

from skope_ope import (
    PlackettLuceSlatePolicy,
    PseudoInverse,
    RankingPolicy,
    SlateLogs,
    UniformSlatePolicy,
)
from skope_ope.policies import (
    EmpiricalSlatePolicy,
    MixtureSlatePolicy,
    ProductSlatePolicy,
    SampledSlatePolicy,
)
from tests.evaluators.slate._worlds import (
    marginals_of,
    products,
    quietly,
    rankings,
    showed,
    showing,
    solutions,
    weights_by_enumeration,
    world,
)
from tests.policies._slate_worlds import enumerated_moments, rounds

SIZES = [(n, m) for m in range(1, 6) for n in range(1, min(m, 4) + 1) if m**n < 300]


def weights_of(logger, target, logs):
    """Weights of all rounds, and what the value tells of them."""
    ones = logs.replace(reward=np.ones(len(logs)), logging_policy=logger)
    result = quietly(PseudoInverse(), target, ones)
    return result.round_values, result.diagnostics


def mixed(logger, share=0.4, n_slots=2):
    """A logger that shows any slate with this probability."""
    members = [logger, UniformSlatePolicy(n_slots)]
    return MixtureSlatePolicy(members, [1 - share, share])


def largest(told):
    return told["rho"] if "rho" in told else told["rho_bound"]


def check(logger, target, logs, proba, atol=1e-12):
    """Compare with enumeration; means, second moment and extremes are exact."""
    weight, told = weights_of(logger, target, logs)
    expected = weights_by_enumeration(logger, marginals_of(target, logs), logs)
    assert_allclose(weight, expected, rtol=0, atol=atol)
    assert_allclose(proba @ weight, 1.0, rtol=0, atol=atol)
    assert told["largest_residual"] < 1e-7
    assert_allclose(told["sigma2"], proba @ weight**2, rtol=0, atol=10 * atol)
    assert largest(told) >= abs(weight).max() - 10 * atol
    return weight, largest(told)


@pytest.mark.few_cases(4)
@pytest.mark.parametrize(("n_slots", "m"), SIZES)
def test_uniform_rankings(n_slots, m):
    logger = UniformSlatePolicy(n_slots)
    slates = rankings(n_slots, m)
    logs, proba = world(logger, slates, 0.0, m)
    first = np.tile(slates[0], (len(logs), 1))
    weight, rho = check(logger, first, logs, proba)
    # the closed forms of the specification
    kept = (logs.slate == first).sum(axis=1)
    shown = np.isin(logs.slate, slates[0]).sum(axis=1)
    if n_slots < m:
        expected = 1 + (m - 1) * (kept - (n_slots - shown) / (m - n_slots))
        top = 1 + n_slots * (m - 1)
    else:
        expected = (m - 1) * kept - m + 2
        top = 1 + (m - 1) ** 2
    assert_allclose(weight, expected, rtol=0, atol=1e-12)
    assert rho == pytest.approx(abs(weight).max()) == top
    check(logger, PlackettLuceSlatePolicy(np.arange(1.0, m + 1), n_slots), logs, proba)
    uniform, _ = check(logger, UniformSlatePolicy(n_slots), logs, proba)
    assert_allclose(uniform, 1.0, rtol=0, atol=1e-12)


def test_weights_of_a_uniform_logger():
    for n_slots, m, limits in ((2, 4, (-2, 7)), (3, 6, (-4, 16))):
        logger, slates = UniformSlatePolicy(n_slots), rankings(n_slots, m)
        logs, _ = world(logger, slates, 0.0, m)
        weight, _ = weights_of(logger, np.tile(slates[0], (len(logs), 1)), logs)
        weight = weight.round(9)
        assert m != 4 or np.unique(weight).tolist() == [-2, -0.5, 1, 2.5, 7]
        assert (weight.min(), weight.max()) == limits


@pytest.mark.few_cases
@pytest.mark.parametrize(("n_slots", "m"), SIZES)
@pytest.mark.parametrize("tied", [False, True])
def test_plackett_luce(n_slots, m, tied):
    weights = np.where(np.arange(m) < 2, 2.0, 1.0) if tied else np.arange(1.0, m + 1)
    logger = PlackettLuceSlatePolicy(weights, n_slots)
    slates = rankings(n_slots, m)
    logs, proba = world(logger, slates, 0.0, m)
    weight, rho = check(logger, np.tile(slates[-1], (len(logs), 1)), logs, proba)
    assert rho == pytest.approx(abs(weight).max())
    check(logger, UniformSlatePolicy(n_slots), logs, proba)
    same, _ = check(logger, logger, logs, proba)
    assert_allclose(same, 1.0, rtol=0, atol=1e-12)


def test_the_world_of_the_specification():
    logger = PlackettLuceSlatePolicy.from_ranks(np.arange(1, 6), 3)
    logs, proba = world(logger, rankings(3, 5), 0.0, 5)
    target = np.tile([2, 0, 4], (len(logs), 1))
    weight, rho = check(logger, target, logs, proba)
    assert proba @ weight**2 == pytest.approx(11.8968, abs=5e-5)
    assert rho == pytest.approx(11.8968, abs=5e-5)


@pytest.mark.parametrize(("n_slots", "m"), [(1, 3), (2, 2), (2, 3), (3, 2), (3, 3)])
def test_independent_slots(n_slots, m):
    rng = np.random.RandomState(0)
    logger = ProductSlatePolicy(rng.dirichlet(np.ones(m), n_slots))
    logs, proba = world(logger, products(n_slots, m), 0.0, m)
    check(logger, np.tile(np.arange(n_slots) % m, (len(logs), 1)), logs, proba)
    other = ProductSlatePolicy(rng.dirichlet(np.ones(m), n_slots))
    check(logger, other, logs, proba)
    # slots of a target may depend on each other
    paired = EmpiricalSlatePolicy(np.tile(np.arange(m)[:, None], (1, n_slots)))
    check(logger, paired, logs, proba)


@pytest.mark.parametrize(
    "logger",
    [
        EmpiricalSlatePolicy([[0, 1], [1, 2], [2, 0], [0, 2], [2, 1]]),
        mixed(EmpiricalSlatePolicy([[0, 1]]), 0.3),
        mixed(PlackettLuceSlatePolicy([4.0, 2.0, 1.0], 2), 0.1),
    ],
    ids=["empirical", "mixture with one slate", "mixture of rankings"],
)
def test_other_loggers(logger):
    logs, proba = world(logger, rankings(2, 3), 0.0, 3)
    check(logger, np.tile([0, 1], (len(logs), 1)), logs, proba)
    same, _ = check(logger, logger, logs, proba)
    assert_allclose(same, 1.0, rtol=0, atol=1e-12)


def test_an_epsilon_of_uniform_slates_bounds_the_second_moment():
    slates, target = rankings(2, 4), [3, 2]
    for epsilon in (0.5, 0.1, 0.01):
        logger = mixed(EmpiricalSlatePolicy([[0, 1]]), epsilon)
        logs, _ = world(logger, slates, 0.0, 4)
        _, told = weights_of(logger, np.tile(target, (len(logs), 1)), logs)
        assert 6 / epsilon < round(told["sigma2"], 9) <= 7 / epsilon


def test_many_candidates_of_few_types():
    # uniform over 40 candidates by its closed form and by its two moments
    rng = np.random.RandomState(0)
    slates = np.argsort(rng.random_sample((30, 40)), axis=1)[:, :6]
    logs = showed(slates, rng.random_sample(30), n_candidates=40)
    loggers = UniformSlatePolicy(6), PlackettLuceSlatePolicy(np.full(40, 3.0), 6)
    for kind in (None, "multiple"):
        given = PseudoInverse(control_variates=kind), np.roll(slates, 1, axis=0)
        by_logger = (logs.replace(logging_policy=logger) for logger in loggers)
        closed, general = (quietly(*given, one).round_values for one in by_logger)
        assert_allclose(general, closed, rtol=0, atol=1e-9)


EXACT = PlackettLuceSlatePolicy([4.0, 2.0, 1.0], 2)


KINDS = "a seed", "a member of a mixture", "a member of a fitted mixture"
KINDS += ("an instance of RandomState",)


def loggers_by_draws(kind, seed):
    """A logger whose moments are means over draws, and the share that is drawn."""
    drawn = SampledSlatePolicy(EXACT, n_samples=1000, random_state=seed)
    if kind == "a member of a mixture":
        return mixed(drawn, 0.3), 0.7
    if kind == "a member of a fitted mixture":
        return MixtureSlatePolicy([drawn], [1.0]).fit(None), 1.0
    if kind == "an instance of RandomState":
        drawn.set_params(random_state=np.random.RandomState(seed))
    return drawn, 1.0


@pytest.mark.theory
@pytest.mark.parametrize("kind", KINDS)
def test_means_over_draws_tell_their_bias(kind):
    """What is told is the bias of these weights, plus the noise of fresh draws."""
    slates = rankings(2, 3)
    drawn_proba = world(EXACT, slates, 0.0, 3)[1]
    bias, told, error = np.empty((3, 100))
    for seed in range(100):
        logger, share = loggers_by_draws(kind, seed)
        logs, proba = world(logger, slates, 0.0, 3)
        weight, said = weights_of(logger, np.tile([2, 1], (6, 1)), logs)
        bias[seed] = proba @ weight - 1
        told[seed] = said["weight_bias"]
        variance = drawn_proba @ (weight - drawn_proba @ weight) ** 2
        error[seed] = share * np.sqrt(variance / 1000)
    assert abs(bias).min() > 0
    off = (told - bias) / error
    assert abs(off.mean()) < 4 / np.sqrt(100)
    assert abs(off.std() - 1) < 4 / np.sqrt(200)
    # the slope of what is told on what is true
    slope = (bias @ told) / (bias @ bias)
    slope_error = np.sqrt(bias**2 @ error**2) / (bias @ bias)
    assert abs(slope - 1) < 4 * slope_error < 0.7


def test_fresh_draws_are_those_of_a_learned_policy():
    """The policy behind the draws is not fitted again."""
    context = np.arange(6.0)[:, None]
    ranker = RankingPolicy(LinearRegression(), 2, temperature=1.0)
    ranker.fit(context, context[:, 0] / 3)
    drawn = SampledSlatePolicy(ranker, n_samples=50)
    features = np.arange(3.0)[:, None]
    logs, _ = world(drawn, rankings(2, 3), 0.0, 3, item_features=features)
    _, told = weights_of(drawn, np.tile([2, 1], (6, 1)), logs)
    assert 0 < abs(told["weight_bias"]) < 5


def test_a_logger_without_moments():
    class Known:
        def slot_marginals(self, logs): ...
        def sample(self, logs, random_state): ...

        def slate_proba(self, logs, slates=None):
            return np.full(len(logs), 1 / 6)

    logs, _ = world(UniformSlatePolicy(2), rankings(2, 3), 0.0, 3)
    with pytest.raises(TypeError, match="are not known for Known"):
        weights_of(Known(), np.tile([2, 1], (6, 1)), logs)


@pytest.mark.parametrize("n_candidates", [2, 3])
def test_repeated_items_against_a_logger_of_rankings(n_candidates):
    """Where all candidates are shown, none can be shown more often than others."""
    slates = rankings(2, n_candidates)
    logs = world(UniformSlatePolicy(2), slates, 1.0, n_candidates)[0]
    twice = np.tile([1, 1], (len(logs), 1))
    table = np.zeros((len(logs), 2, n_candidates))
    table[:, :, 1] = 1.0
    _, gamma = enumerated_moments(UniformSlatePolicy(2), logs[:1])
    gamma = gamma.reshape(2 * n_candidates, -1)
    q = table[0].ravel()
    expected = np.linalg.norm(q - gamma @ np.linalg.pinv(gamma, rcond=1e-10) @ q)
    assert (expected > 0.5) == (n_candidates == 2)
    for policy in (twice, table):
        found, told = weights_of(logs.logging_policy, policy, logs)
        assert told["largest_residual"] == pytest.approx(expected, abs=1e-7)
        if n_candidates == 3:
            wanted = weights_by_enumeration(logs.logging_policy, table, logs)
            assert_allclose(found, wanted, rtol=0, atol=1e-10)


@pytest.mark.parametrize("n_slots", [1, 2, 3])
def test_slots_that_a_policy_leaves_empty(n_slots):
    """A product logger tells of them where all slots are empty equally often."""
    rng = np.random.RandomState(n_slots)
    mu, q = rng.dirichlet(np.ones(3), n_slots), rng.dirichlet(np.ones(3), n_slots)
    logger = ProductSlatePolicy(mu)
    logs, proba = world(logger, products(n_slots, 3), 1.0, 3)
    for share in (1.0, 0.6):
        table = np.tile(share * q, (len(logs), 1, 1))
        found, told = weights_of(logger, table, logs)
        assert told["largest_residual"] < 1e-12
        wanted = weights_by_enumeration(logger, table, logs)
        assert_allclose(found, wanted, rtol=0, atol=1e-10)
        assert proba @ found == pytest.approx(share, abs=1e-12)
        drawn = logs.replace(reward=rng.random_sample(len(logs)))
        plain, taken_off = (
            quietly(PseudoInverse(control_variates=kind), table, drawn, proba).value
            for kind in (None, "multiple")
        )
        assert taken_off == pytest.approx(plain, abs=1e-12)  # what has mean zero
    nothing = np.full(logs.slate.shape, -1)
    assert weights_of(logger, nothing, logs)[1]["largest_residual"] < 1e-12
    if n_slots > 1:
        nothing[:, 0] = 1
        assert weights_of(logger, nothing, logs)[1]["outside_range_share"] == 1


def test_the_largest_weight_where_slots_may_be_empty():
    slates = np.array([[0, 1], [1, -1], [-1, 2]])
    logger = EmpiricalSlatePolicy(slates, [0.5, 0.3, 0.2])
    logs, _ = world(logger, slates, 1.0, 3)
    target = np.tile([1, -1], (3, 1))
    weight, told = weights_of(logger, target, logs)
    assert told["rho"] == pytest.approx(np.abs(weight).max()) and told["rho"] > 2
    # rankings in which the second slot has nothing left
    offered = np.array([[[True, True], [False, True]]] * 3)
    slates = np.array([[0, 1], [1, -1], [0, 1]])
    logs = SlateLogs(np.zeros((3, 1)), slates, np.zeros(3), candidates=offered)
    weight, told = weights_of(PlackettLuceSlatePolicy([2.0, 1.0], 2), target, logs)
    assert largest(told) == pytest.approx(np.abs(weight).max())


@pytest.mark.parametrize("n_slots", [2, 3])
def test_the_largest_weight_of_listed_slates_is_exact(n_slots, global_random_seed):
    """What slots show one by one may not be a slate: the list says which are."""
    rng = np.random.RandomState(global_random_seed)
    slates = np.unique(rng.randint(4, size=(7, n_slots)), axis=0)
    slates = np.unique(np.vstack([slates, np.full((1, n_slots), 2)]), axis=0)
    proba = rng.dirichlet(np.ones(len(slates)))
    logger = EmpiricalSlatePolicy(slates, proba)
    logs, _ = world(logger, slates, 0.0, 4)
    target = np.tile(slates[0], (len(logs), 1))
    weight, told = weights_of(logger, target, logs)
    assert told["rho"] == pytest.approx(np.abs(weight).max(), rel=1e-9)
    # a slate of probability 0 is none
    more = np.vstack([slates, np.roll(slates[:1], 1, axis=1)])
    padded = EmpiricalSlatePolicy(more, np.append(proba, 0.0))
    again = weights_of(padded, target, logs)[1]["rho"]
    assert again == pytest.approx(told["rho"], rel=1e-9)


def test_where_the_largest_weight_is_only_bounded():
    """Rankings whose candidates differ by slot."""
    offered = np.array([[1, 1, 1, 0], [0, 1, 1, 1], [1, 0, 1, 1]], dtype=bool)
    every = rankings(3, 4)
    slates = every[offered[np.arange(3), every].all(axis=1)]
    logger = PlackettLuceSlatePolicy([8.0, 4.0, 2.0, 1.0], 3)
    candidates = np.tile(offered, (len(slates), 1, 1))
    logs, _ = world(logger, slates, 0.0, 4, candidates=candidates)
    weight, told = weights_of(logger, np.tile([2, 1, 0], (len(logs), 1)), logs)
    assert told["rho_bound"] >= np.abs(weight).max() - 1e-9 and "rho" not in told


DISTRIBUTIONS = [
    *("few shown", "all shown", "both shown", "by slot", "few candidates"),
    *("mixture", "one slate more", "given slates", "shared", "some shared"),
]


def laws_of_their_own(name, n_rounds, rng):
    """A logger with a distribution of its own in every round, or in some."""
    n_slots, m = {"all shown": (3, 3), "both shown": (2, 2)}.get(name, (2, 4))
    fields, weights = {}, rng.random_sample((n_rounds, m)) + 0.2
    if name == "by slot":
        fields["candidates"] = rng.random_sample((n_rounds, n_slots, m)) < 0.6
        fields["candidates"][:, :, 0] = True
    elif name == "few candidates":
        fields["n_candidates"] = rng.randint(1, m + 1, n_rounds)
        fields["n_candidates"][0] = m
    elif name == "shared":
        weights[:] = weights[0]
    elif name == "some shared":
        weights = weights[rng.randint(n_rounds // 2, size=n_rounds)]
    logs = rounds(n_rounds, n_slots, **{"n_candidates": m, **fields})
    logs = logs.with_columns(w=weights)
    logger = PlackettLuceSlatePolicy("w", n_slots)
    if name == "mixture":
        logger = mixed(logger, 0.4, n_slots)
    elif name == "one slate more":
        one = EmpiricalSlatePolicy([[0, 1]])
        logger = MixtureSlatePolicy([logger, one], [0.6, 0.4])
    elif name == "given slates":
        logs = logs.replace(group=np.arange(n_rounds))
        drawn = rng.randint(-1, m, size=(n_rounds, 5, n_slots))
        logger = EmpiricalSlatePolicy(dict(enumerate(drawn)), by="group")
    return logger, showing(logs, logger.sample(logs, rng))


@pytest.mark.few_cases
@pytest.mark.parametrize("name", DISTRIBUTIONS)
@pytest.mark.parametrize("n_rounds", [2, 3, 12])
def test_weights_and_residuals_whatever_the_batch(name, n_rounds, global_random_seed):
    rng = np.random.RandomState(global_random_seed)
    logger, logs = laws_of_their_own(name, n_rounds, rng)
    shape = (n_rounds, logs.n_slots, logs.max_candidates)
    gamma = enumerated_moments(logger, logs)[1]
    size = shape[1] * shape[2]
    gamma = gamma.reshape(n_rounds, size, size)
    inverse = np.linalg.pinv(gamma, rcond=1e-10, hermitian=True)
    # as exact as inverses of these matrices can be
    atol = 1e-11 * (1 + np.abs(inverse).max())
    other = logs.with_columns(w=rng.random_sample((n_rounds, shape[2])) + 0.2)
    inside = logger.slot_marginals(other)
    found, told = weights_of(logger, inside, logs)
    assert told["largest_residual"] < 1e-9
    wanted = weights_by_enumeration(logger, inside, logs)
    assert_allclose(found, wanted, rtol=0, atol=atol)
    q = rng.dirichlet(np.ones(shape[2]), shape[:2])  # hardly ever in the range
    offered = np.ones(shape, dtype=bool) if logs.offered is None else logs.offered
    if offered.ndim == 2:
        offered = np.repeat(offered[:, None], shape[1], axis=1)
    q = np.where(offered, q, 0.0)
    _, told = weights_of(logger, q, logs)
    q = q.reshape(n_rounds, size, 1)
    expected = np.linalg.norm((q - gamma @ (inverse @ q))[..., 0], axis=1).max()
    assert told["largest_residual"] == pytest.approx(expected, abs=1e-9)


def test_a_larger_null_space_is_noticed():
    slates = {k: np.array([[0, 1], [1, 2], [2, 3 * (k == 0)]]) for k in range(4)}
    shown = np.concatenate([slates[k][:1] for k in range(4)])
    logs = showed(shown, np.zeros(4), n_candidates=4, group=np.arange(4))
    logger = EmpiricalSlatePolicy(slates, by="group")
    _, told = weights_of(logger, np.tile([3, 3], (4, 1)), logs)
    assert told["outside_range_share"] == 1 and told["largest_residual"] > 0.5


@pytest.mark.parametrize("kind", ["single", "multiple"])
@pytest.mark.parametrize(
    "logger",
    [
        UniformSlatePolicy(3),
        PlackettLuceSlatePolicy([4.0, 3.0, 2.0, 1.0], 3),
        ProductSlatePolicy(np.tile([0.4, 0.3, 0.2, 0.1], (3, 1))),
    ],
    ids=lambda one: type(one).__name__,
)
def test_control_variates_are_those_of_the_paper(kind, logger):
    """Least squares; for independent slots the products of slots have mean zero."""
    rng = np.random.RandomState(0)
    blank = rounds(200, 3, 4)
    slates = logger.sample(blank, rng)
    reward = rng.random_sample(200) + slates[:, 0]
    logs = showing(blank, slates, reward, logging_policy=logger)
    target = np.tile([1, 0, 2], (200, 1))
    z = solutions(logger, marginals_of(target, logs)[:1], logs[:1])[0]
    entries = z[np.arange(3), slates]
    parts = entries - (logger.slot_marginals(logs[:1])[0] * z).sum(axis=1)
    gain = entries.sum(axis=1) * logs.reward
    columns = parts.sum(axis=1, keepdims=True) if kind == "single" else parts
    if not isinstance(logger, ProductSlatePolicy):
        model = LinearRegression(fit_intercept=False).fit(columns, gain)
        expected = gain.mean() - columns.mean(axis=0) @ model.coef_
    else:
        squares = (parts**2).sum() if kind == "single" else (parts**2).sum(axis=0)
        beta = (gain[:, None] * columns).sum(axis=0) / squares
        expected = gain.mean() - beta @ columns.mean(axis=0)
    result = quietly(PseudoInverse(control_variates=kind), target, logs)
    assert result.value == pytest.approx(expected)
    error = result.round_values.std(ddof=1) / 200**0.5
    assert result.standard_error == pytest.approx(error)
    # all weights one: nothing to take off
    same = quietly(PseudoInverse(control_variates=kind), logger, logs)
    assert same.value == pytest.approx(logs.reward.mean(), rel=1e-13)
    alike = logs.replace(reward=np.full(200, 0.1))
    same = quietly(PseudoInverse(control_variates=kind), logger, alike)
    assert same.value == pytest.approx(0.1) and same.standard_error < 1e-15


def test_rounds_of_many_parts_are_those_of_one():
    """Distributions of two kinds, in turn, of more rounds than one table holds."""
    rng = np.random.RandomState(0)
    weights = np.where(np.arange(60) < 3, [[4.0], [0.5]], 1.0)
    logs = rounds(3000, 8, 60).with_columns(w=weights[np.arange(3000) % 2])
    logger = PlackettLuceSlatePolicy("w", 8)
    logs = showing(logs, logger.sample(logs, rng))
    first, _ = weights_of(logger, UniformSlatePolicy(8), logs[:50])
    last, _ = weights_of(logger, UniformSlatePolicy(8), logs[-51:])
    whole, _ = weights_of(logger, UniformSlatePolicy(8), logs)
    assert_allclose(whole[:50], first, rtol=0, atol=1e-10)
    assert_allclose(whole[-51:], last, rtol=0, atol=1e-10)
