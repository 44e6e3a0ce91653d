# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Weights of the pseudoinverse against its definition."""

import numpy as np
import pytest
from sklearn.linear_model import LinearRegression

from skope_ope import (
    PlackettLuceSlatePolicy,
    RankingPolicy,
    SlateLogs,
    UniformSlatePolicy,
)
from skope_ope.evaluators.core._slate_target import SlateTarget
from skope_ope.evaluators.slate._pseudo_inverse_weights import (
    knows_largest,
    mean_of_weights,
    round_weights,
    second_moment,
)
from skope_ope.policies import (
    EmpiricalSlatePolicy,
    MixtureSlatePolicy,
    ProductSlatePolicy,
    SampledSlatePolicy,
)
from tests.evaluators.slate._worlds import (
    products,
    rankings,
    weights_by_enumeration,
    world,
)
from tests.policies._slate_worlds import enumerated_moments

SIZES = [(n, m) for m in range(1, 6) for n in range(1, min(m, 4) + 1) if m**n < 300]


def check(logger, policy, logs, proba, atol=1e-12):
    """Compare with enumeration; means, second moment and extremes are exact."""
    target = SlateTarget(policy, logs)
    logs = target.logs
    found = round_weights(logger, target, logs, with_parts=True)
    expected = weights_by_enumeration(logger, target.marginals(logs), logs)
    np.testing.assert_allclose(found.weight, expected, rtol=0, atol=atol)
    np.testing.assert_allclose(proba @ found.weight, 1.0, rtol=0, atol=atol)
    np.testing.assert_allclose(proba @ found.parts, 0.0, rtol=0, atol=atol)
    np.testing.assert_allclose(
        found.parts.sum(axis=1), found.weight - 1, rtol=0, atol=atol
    )
    assert found.residual.max() < 1e-7
    sigma2, rho = second_moment(logger, target, logs)
    np.testing.assert_allclose(sigma2, proba @ found.weight**2, rtol=0, atol=10 * atol)
    assert rho >= abs(found.weight).max() - 10 * atol
    return found.weight, rho


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
    np.testing.assert_allclose(weight, expected, rtol=0, atol=1e-12)
    assert rho == pytest.approx(abs(weight).max()) == top
    check(logger, PlackettLuceSlatePolicy(np.arange(1.0, m + 1), n_slots), logs, proba)
    uniform, _ = check(logger, UniformSlatePolicy(n_slots), logs, proba)
    np.testing.assert_allclose(uniform, 1.0, rtol=0, atol=1e-12)


@pytest.mark.parametrize(("n_slots", "m"), [(2, 4), (3, 6)])
def test_weights_of_a_uniform_logger(n_slots, m):
    logger, slates = UniformSlatePolicy(n_slots), rankings(n_slots, m)
    logs, _ = world(logger, slates, 0.0, m)
    target = SlateTarget(np.tile(slates[0], (len(logs), 1)), logs)
    weight = round_weights(logger, target, target.logs).weight.round(9)
    if m == 4:
        assert np.unique(weight).tolist() == [-2, -0.5, 1, 2.5, 7]
    assert (weight.min(), weight.max()) == {4: (-2, 7), 6: (-4, 16)}[m]


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
    np.testing.assert_allclose(same, 1.0, rtol=0, atol=1e-12)


def test_the_world_of_the_specification():
    logger = PlackettLuceSlatePolicy.from_ranks(np.arange(1, 6), 3)
    slates = rankings(3, 5)
    logs, proba = world(logger, slates, 0.0, 5)
    target = np.tile([2, 0, 4], (len(logs), 1))
    weight, rho = check(logger, target, logs, proba)
    assert proba @ weight**2 == pytest.approx(11.8968, abs=5e-5)
    assert rho == pytest.approx(11.8968, abs=5e-5)
    # inverse propensity scoring of 0/1 rewards with mean .26
    shown = (logs.slate == target).all(axis=1)
    assert 0.26 / proba[shown][0] - 0.26**2 == pytest.approx(10.3324)


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


def test_independent_slots_known_by_their_logged_probabilities():
    logger = ProductSlatePolicy([[0.2, 0.8], [0.5, 0.5]])
    logs, _ = world(logger, products(2, 2), 0.0, 2)
    policy = ProductSlatePolicy([[0.6, 0.4], [0.9, 0.1]])
    full = round_weights(logger, SlateTarget(policy, logs), logs).weight
    recorded = logs.with_columns(
        mu=logger.marginal_proba(logs), pi=policy.marginal_proba(logs)
    ).replace(logging_policy=ProductSlatePolicy("mu"))
    for target in ("pi", recorded.columns["pi"], policy):
        found = round_weights(
            recorded.logging_policy, SlateTarget(target, recorded), recorded
        )
        np.testing.assert_allclose(found.weight, full, rtol=0, atol=1e-14)
        assert found.residual is None


@pytest.mark.parametrize(
    "logger",
    [
        EmpiricalSlatePolicy([[0, 1], [1, 2], [2, 0], [0, 2], [2, 1]]),
        MixtureSlatePolicy(
            [EmpiricalSlatePolicy([[0, 1]]), UniformSlatePolicy(2)], [0.7, 0.3]
        ),
        MixtureSlatePolicy(
            [PlackettLuceSlatePolicy([4.0, 2.0, 1.0], 2), UniformSlatePolicy(2)],
            [0.9, 0.1],
        ),
    ],
    ids=["empirical", "mixture with one slate", "mixture of rankings"],
)
def test_other_loggers(logger):
    logs, proba = world(logger, rankings(2, 3), 0.0, 3)
    check(logger, np.tile([0, 1], (len(logs), 1)), logs, proba)
    same, _ = check(logger, logger, logs, proba)
    np.testing.assert_allclose(same, 1.0, rtol=0, atol=1e-12)


def test_an_epsilon_of_uniform_slates_bounds_the_second_moment():
    slates, target = rankings(2, 4), [3, 2]
    for epsilon in (0.5, 0.1, 0.01):
        logger = MixtureSlatePolicy(
            [EmpiricalSlatePolicy([[0, 1]]), UniformSlatePolicy(2)],
            [1 - epsilon, epsilon],
        )
        logs, _ = world(logger, slates, 0.0, 4)
        at = SlateTarget(np.tile(target, (len(logs), 1)), logs)
        sigma2, _ = second_moment(logger, at, at.logs)
        assert 6 / epsilon < round(sigma2, 9) <= 7 / epsilon


def varying_rounds(seed, n_rounds=60, n_slots=3, m=5):
    """Rounds with own candidates (one to five) and own weights, slates drawn."""
    rng = np.random.RandomState(seed)
    n_offered = rng.randint(1, m + 1, n_rounds)
    offered = np.argsort(rng.random_sample((n_rounds, m)), axis=1) < n_offered[:, None]
    logs = SlateLogs(
        rng.normal(size=(n_rounds, 1)),
        np.full((n_rounds, n_slots), -1),
        np.zeros(n_rounds),
        candidates=offered,
    )
    weights = rng.random_sample((n_rounds, m)) + 0.2
    return logs.with_columns(w=weights, u=np.ones((n_rounds, m))), rng


@pytest.mark.few_cases(2)
@pytest.mark.parametrize(
    "logger",
    [
        UniformSlatePolicy(3),
        PlackettLuceSlatePolicy("w", 3),
        PlackettLuceSlatePolicy("u", 3),
        MixtureSlatePolicy(
            [PlackettLuceSlatePolicy("w", 3), UniformSlatePolicy(3)], [0.5, 0.5]
        ),
    ],
    ids=["uniform", "own weights", "equal weights", "mixture"],
)
def test_candidates_that_vary(logger, global_random_seed):
    logs, rng = varying_rounds(global_random_seed)
    slates = logger.sample(logs, rng)
    logs = SlateLogs(
        logs.context, slates, logs.reward, candidates=logs.candidates
    ).with_columns(**logs.columns)
    policy = PlackettLuceSlatePolicy("w", 3)
    for target in (policy, policy.sample(logs, 0)):
        at = SlateTarget(target, logs)
        found = round_weights(logger, at, at.logs)
        expected = weights_by_enumeration(logger, at.marginals(at.logs), at.logs)
        np.testing.assert_allclose(found.weight, expected, rtol=0, atol=1e-9)
        assert found.residual.max() < 1e-7


def test_many_candidates_of_few_types():
    # uniform over 40 candidates by its closed form and by its two moments
    rng = np.random.RandomState(0)
    slates = np.argsort(rng.random_sample((30, 40)), axis=1)[:, :6]
    logs = SlateLogs(np.zeros((30, 1)), slates, np.zeros(30), n_candidates=40)
    target = SlateTarget(np.roll(slates, 1, axis=0), logs)
    closed, general = (
        round_weights(logger, target, target.logs, with_parts=True)
        for logger in (
            UniformSlatePolicy(6),
            PlackettLuceSlatePolicy(np.full(40, 3.0), 6),
        )
    )
    np.testing.assert_allclose(general.weight, closed.weight, rtol=0, atol=1e-9)
    np.testing.assert_allclose(general.parts, closed.parts, rtol=0, atol=1e-9)


EXACT = PlackettLuceSlatePolicy([4.0, 2.0, 1.0], 2)


def loggers_by_draws(kind, seed):
    """A logger whose moments are means over draws, and the share that is drawn."""
    drawn = SampledSlatePolicy(EXACT, n_samples=1000, random_state=seed)
    if kind == "a member of a mixture":
        return MixtureSlatePolicy([drawn, UniformSlatePolicy(2)], [0.7, 0.3]), 0.7
    if kind == "a member of a fitted mixture":
        return MixtureSlatePolicy([drawn], [1.0]).fit(None), 1.0
    if kind == "an instance of RandomState":
        drawn.set_params(random_state=np.random.RandomState(seed))
    return drawn, 1.0


@pytest.mark.theory
@pytest.mark.parametrize(
    "kind",
    [
        "a seed",
        "a member of a mixture",
        "a member of a fitted mixture",
        "an instance of RandomState",
    ],
)
def test_means_over_draws_tell_their_bias(kind):
    """What is told is the bias of these weights, plus the noise of fresh draws."""
    slates = rankings(2, 3)
    drawn_proba = world(EXACT, slates, 0.0, 3)[1]
    bias, told, error = np.empty((3, 100))
    for seed in range(100):
        logger, share = loggers_by_draws(kind, seed)
        logs, proba = world(logger, slates, 0.0, 3)
        target = SlateTarget(np.tile([2, 1], (6, 1)), logs)
        weight = round_weights(logger, target, target.logs).weight
        bias[seed] = proba @ weight - 1
        told[seed] = mean_of_weights(logger, target, target.logs) - 1
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
    target = SlateTarget(np.tile([2, 1], (6, 1)), logs)
    assert 0 < abs(mean_of_weights(drawn, target, target.logs) - 1) < 5


def test_a_distribution_is_inverted_once(monkeypatch):
    from skope_ope.evaluators.slate import _second_moments, _tables

    monkeypatch.setattr(_tables, "CHUNK_BYTES", 1)  # a round at a time
    calls = []
    inverse = _second_moments.pseudoinverse
    monkeypatch.setattr(
        _second_moments,
        "pseudoinverse",
        lambda matrices: calls.append(len(matrices)) or inverse(matrices),
    )
    logger = PlackettLuceSlatePolicy([4.0, 2.0, 1.0], 2)
    logs, proba = world(logger, rankings(2, 3), 0.0, 3)
    target = SlateTarget(UniformSlatePolicy(2), logs)
    found = round_weights(logger, target, logs).weight
    assert calls == [1, 1]  # means over types, and within types
    assert proba @ found == pytest.approx(1.0)


def test_a_logger_without_moments():
    class Known:
        def slot_marginals(self, logs): ...
        def slate_proba(self, logs, slates): ...
        def sample(self, logs, random_state): ...

    logs, _ = world(UniformSlatePolicy(2), rankings(2, 3), 0.0, 3)
    target = SlateTarget(np.tile([2, 1], (6, 1)), logs)
    with pytest.raises(TypeError, match="are not known for Known"):
        round_weights(Known(), target, target.logs)


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
        target = SlateTarget(policy, logs)
        found = round_weights(logs.logging_policy, target, target.logs)
        np.testing.assert_allclose(found.residual, expected, rtol=0, atol=1e-7)
        wanted = weights_by_enumeration(logs.logging_policy, table, logs)
        np.testing.assert_allclose(found.weight, wanted, rtol=0, atol=1e-10)


@pytest.mark.parametrize("n_slots", [1, 2, 3])
def test_slots_that_a_policy_leaves_empty(n_slots):
    """A product logger tells of them where all slots are empty equally often."""
    rng = np.random.RandomState(n_slots)
    mu, q = rng.dirichlet(np.ones(3), n_slots), rng.dirichlet(np.ones(3), n_slots)
    logger = ProductSlatePolicy(mu)
    logs, proba = world(logger, products(n_slots, 3), 1.0, 3)
    for share in (1.0, 0.6, 0.0):
        table = np.tile(share * q, (len(logs), 1, 1))
        target = SlateTarget(table, logs)
        found = round_weights(logger, target, target.logs, with_parts=True)
        np.testing.assert_allclose(found.residual, 0, rtol=0, atol=1e-12)
        wanted = weights_by_enumeration(logger, table, logs)
        np.testing.assert_allclose(found.weight, wanted, rtol=0, atol=1e-10)
        np.testing.assert_allclose(proba @ found.parts, 0, rtol=0, atol=1e-12)
    nothing = np.full(logs.slate.shape, -1)
    target = SlateTarget(nothing, logs)
    found = round_weights(logger, target, target.logs)
    np.testing.assert_allclose(found.weight, 0, rtol=0, atol=1e-12)
    np.testing.assert_allclose(found.residual, 0, rtol=0, atol=1e-12)
    if n_slots > 1:
        nothing[:, 0] = 1
        target = SlateTarget(nothing, logs)
        assert (round_weights(logger, target, target.logs).residual > 0.1).all()


def test_the_largest_weight_where_slots_may_be_empty():
    slates = np.array([[0, 1], [1, -1], [-1, 2]])
    logger = EmpiricalSlatePolicy(slates, [0.5, 0.3, 0.2])
    logs, _ = world(logger, slates, 1.0, 3)
    target = SlateTarget(np.tile([1, -1], (3, 1)), logs)
    weight = round_weights(logger, target, target.logs).weight
    largest = second_moment(logger, target, target.logs)[1]
    assert largest == pytest.approx(np.abs(weight).max()) and largest > 2
    # rankings in which the second slot has nothing left
    offered = np.array([[[True, True], [False, True]]] * 3)
    slates = np.array([[0, 1], [1, -1], [0, 1]])
    logs = SlateLogs(np.zeros((3, 1)), slates, np.zeros(3), candidates=offered)
    logger = PlackettLuceSlatePolicy([2.0, 1.0], 2)
    target = SlateTarget(np.tile([1, -1], (3, 1)), logs)
    weight = round_weights(logger, target, target.logs).weight
    largest = second_moment(logger, target, target.logs)[1]
    assert largest == pytest.approx(np.abs(weight).max())


@pytest.mark.parametrize("n_slots", [2, 3])
def test_the_largest_weight_of_listed_slates_is_exact(n_slots, global_random_seed):
    """What slots show one by one may not be a slate: the list says which are."""
    rng = np.random.RandomState(global_random_seed)
    slates = np.unique(rng.randint(4, size=(7, n_slots)), axis=0)
    slates = np.vstack([slates, np.full(n_slots, 3)[None] - 1])
    slates = np.unique(slates, axis=0)
    proba = rng.dirichlet(np.ones(len(slates)))
    logger = EmpiricalSlatePolicy(slates, proba)
    logs, _ = world(logger, slates, 0.0, 4)
    target = SlateTarget(np.tile(slates[0], (len(logs), 1)), logs)
    weight = round_weights(logger, target, target.logs).weight
    assert knows_largest(logger, logs)
    largest = second_moment(logger, target, target.logs)[1]
    assert largest == pytest.approx(np.abs(weight).max(), rel=1e-9)
    # a slate of probability 0 is none
    more = np.vstack([slates, np.roll(slates[:1], 1, axis=1)])
    padded = EmpiricalSlatePolicy(more, np.append(proba, 0.0))
    again = second_moment(padded, target, target.logs)[1]
    assert again == pytest.approx(largest, rel=1e-9)


def by_slot():
    """Rankings whose candidates differ by slot, all of them, and a target."""
    offered = np.array([[1, 1, 1, 0], [0, 1, 1, 1], [1, 0, 1, 1]], dtype=bool)
    every = rankings(3, 4)
    slates = every[offered[np.arange(3), every].all(axis=1)]
    logger = PlackettLuceSlatePolicy([8.0, 4.0, 2.0, 1.0], 3)
    logs, _ = world(
        logger, slates, 0.0, 4, candidates=np.tile(offered, (len(slates), 1, 1))
    )
    return logger, logs, SlateTarget(np.tile([2, 1, 0], (len(logs), 1)), logs)


def test_where_the_largest_weight_is_only_bounded():
    logger, logs, target = by_slot()
    weight = round_weights(logger, target, target.logs).weight
    assert not knows_largest(logger, logs)
    assert second_moment(logger, target, target.logs)[1] >= np.abs(weight).max() - 1e-9
    slates = rankings(2, 3)
    two = MixtureSlatePolicy(
        [EmpiricalSlatePolicy(slates[:3]), PlackettLuceSlatePolicy([1.0, 2, 3], 2)],
        [0.5, 0.5],
    )
    logs, _ = world(two, slates, 0.0, 3)
    assert not knows_largest(two, logs)
    one = PlackettLuceSlatePolicy([1.0, 2, 3], 2)
    assert knows_largest(one, logs) and knows_largest(UniformSlatePolicy(2), logs)
