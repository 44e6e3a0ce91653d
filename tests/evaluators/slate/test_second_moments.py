# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Pseudoinverses of second moments."""

import numpy as np
import pytest

from skope_ope import PlackettLuceSlatePolicy, SlateLogs, UniformSlatePolicy
from skope_ope.evaluators.core._slate_target import SlateTarget
from skope_ope.evaluators.slate import _second_moments, _tables
from skope_ope.evaluators.slate._second_moments import pseudoinverse, solved
from skope_ope.policies import EmpiricalSlatePolicy, MixtureSlatePolicy
from skope_ope.policies.slate import _slate_distributions
from skope_ope.policies.slate._slate_tables import offered_slots
from tests.evaluators.slate._worlds import rankings
from tests.policies._slate_worlds import enumerated_moments, rounds


def test_pseudoinverse_drops_tiny_eigenvalues():
    rng = np.random.RandomState(0)
    root = rng.normal(size=(3, 6, 4))
    matrices = root @ root.swapaxes(1, 2)
    np.testing.assert_allclose(
        pseudoinverse(matrices),
        np.linalg.pinv(matrices, rcond=1e-10),
        rtol=0,
        atol=1e-8,
    )
    assert not pseudoinverse(np.zeros((2, 2))).any()
    assert pseudoinverse(np.zeros((0, 2, 2))).shape == (0, 2, 2)


def own_weights(n_rounds, seed):
    rng = np.random.RandomState(seed)
    slates = np.resize(rankings(2, 4), (n_rounds, 2))
    logs = SlateLogs(np.zeros((n_rounds, 1)), slates, np.zeros(n_rounds))
    return logs.with_columns(w=rng.random_sample((n_rounds, 4)) + 0.1)


@pytest.mark.parametrize("shared", [False, True])
def test_solutions_by_round(shared):
    logs = own_weights(30, 0)
    logger = PlackettLuceSlatePolicy([4.0, 2.0, 2.0, 1.0] if shared else "w", 2)
    target = SlateTarget(PlackettLuceSlatePolicy("w", 2), logs)
    _, gamma = enumerated_moments(logger, logs)
    for rows, _, q, solution in solved(logger, target, logs):
        own = q.reshape(len(q), -1)
        distributions = logger.distributions(logs[rows])
        order = np.broadcast_to(distributions.order, (len(q), 4))
        for i in range(len(q)):
            matrix = gamma[rows][i][:, order[i]][:, :, :, order[i]].reshape(8, 8)
            expected = np.linalg.pinv(matrix, rcond=1e-10) @ own[i]
            np.testing.assert_allclose(
                solution.table[i].ravel(), expected, rtol=0, atol=1e-10
            )
        assert solution.residual.max() < 1e-9


def test_a_larger_null_space_is_noticed(monkeypatch):
    # few slates: the solution of the regularised system is replaced
    calls = []
    inverse = pseudoinverse
    monkeypatch.setattr(
        _second_moments, "pseudoinverse", lambda m: calls.append(len(m)) or inverse(m)
    )
    slates = {k: np.array([[0, 1], [1, 2], [2, 3 * (k == 0)]]) for k in range(4)}
    shown = np.concatenate([slates[k][:1] for k in range(4)])
    logs = SlateLogs(
        np.zeros((4, 1)), shown, np.zeros(4), n_candidates=4, group=np.arange(4)
    )
    logger = EmpiricalSlatePolicy(slates, by="group")
    target = SlateTarget(np.tile([3, 3], (4, 1)), logs)
    residual = np.concatenate(
        [part[-1].residual for part in solved(logger, target, target.logs)]
    )
    assert (residual > 0.5).all()
    assert len(calls) > 1


def by_slot(rng, n_rounds, n_slots, m):
    """Candidates of their own in every slot, one of them at least."""
    offered = rng.random_sample((n_rounds, n_slots, m)) < 0.6
    offered[:, :, 0] = True
    return offered


def laws_of_their_own(name, n_rounds, rng):
    """A logger with another distribution in every round, and rounds."""
    n_slots, m = {"all shown": (3, 3), "both shown": (2, 2)}.get(name, (2, 4))
    fields = {}
    if name == "by slot":
        fields["candidates"] = by_slot(rng, n_rounds, n_slots, m)
    elif name == "few candidates":
        fields["n_candidates"] = rng.randint(1, m + 1, n_rounds)
        fields["n_candidates"][0] = m
    logs = rounds(n_rounds, n_slots, **{"n_candidates": m, **fields})
    logs = logs.with_columns(w=rng.random_sample((n_rounds, m)) + 0.2)
    logger = PlackettLuceSlatePolicy("w", n_slots)
    if name == "mixture":
        logger = MixtureSlatePolicy([logger, UniformSlatePolicy(n_slots)], [0.6, 0.4])
    elif name == "one slate more":
        one = EmpiricalSlatePolicy([[0, 1]])
        logger = MixtureSlatePolicy([logger, one], [0.6, 0.4])
    elif name == "given slates":
        logs = logs.replace(group=np.arange(n_rounds))
        drawn = rng.randint(-1, m, size=(n_rounds, 5, n_slots))
        logger = EmpiricalSlatePolicy(dict(enumerate(drawn)), by="group")
    return logger, logs


DISTRIBUTIONS = [
    "few shown",
    "all shown",
    "both shown",
    "by slot",
    "few candidates",
    "mixture",
    "one slate more",
    "given slates",
]


@pytest.mark.few_cases
@pytest.mark.parametrize("name", DISTRIBUTIONS)
@pytest.mark.parametrize("n_rounds", [2, 3, 12])
def test_the_smallest_solution_whatever_the_batch(name, n_rounds, global_random_seed):
    """Gamma^+ q itself: no vector that Gamma takes to zero is added."""
    rng = np.random.RandomState(global_random_seed)
    logger, logs = laws_of_their_own(name, n_rounds, rng)
    shape = (n_rounds, logs.n_slots, logs.max_candidates)
    other = logs.with_columns(w=rng.random_sample((n_rounds, shape[2])) + 0.2)
    _, gamma = enumerated_moments(logger, logs)
    size = shape[1] * shape[2]
    q = rng.dirichlet(np.ones(shape[2]), shape[:2])  # hardly ever in the range
    q = np.where(offered_slots(logs, shape[1]), q, 0.0)
    for table in (logger.slot_marginals(other), q):
        target = SlateTarget(table, logs)
        ((_, _, _, solution),) = solved(logger, target, target.logs)
        distributions = logger.distributions(logs)
        place = np.broadcast_to(distributions.place, (n_rounds, shape[2]))
        found = np.take_along_axis(solution.table, place[:, None], axis=2)
        for i in range(n_rounds):
            matrix = gamma[i].reshape(size, size)
            inverse = np.linalg.pinv(matrix, rcond=1e-10, hermitian=True)
            expected = inverse @ table[i].ravel()
            # as exact as inverses of these matrices can be
            scale = 1 + np.abs(inverse).max()
            np.testing.assert_allclose(
                found[i].ravel(), expected, rtol=0, atol=1e-11 * scale
            )
            residual = np.linalg.norm(table[i].ravel() - matrix @ expected)
            assert solution.residual[i] == pytest.approx(residual, abs=1e-9)


@pytest.mark.parametrize(("n_slots", "m"), [(2, 4), (3, 3), (2, 2)])
def test_distributions_of_single_rounds_need_no_eigenvalues(n_slots, m, monkeypatch):
    """They cost ten times the solution of a system."""
    inverse, calls = pseudoinverse, []
    monkeypatch.setattr(
        _second_moments,
        "pseudoinverse",
        lambda matrices: calls.append(matrices.size) or inverse(matrices),
    )
    rng = np.random.RandomState(0)
    weights = rng.random_sample((50, m)) + 0.2
    logs = rounds(50, n_slots, m).with_columns(w=weights)
    logger = PlackettLuceSlatePolicy("w", n_slots)
    target = SlateTarget(UniformSlatePolicy(n_slots), logs)
    ((_, _, _, solution),) = solved(logger, target, logs)
    assert solution.residual.max() < 1e-12
    assert not any(calls)


def counted_moments(monkeypatch):
    """Count the distributions whose moments are computed."""
    counts, batches = [], _slate_distributions.SlateDistributions.batches

    def counting(distributions, *args):
        for batch in batches(distributions, *args):
            counts.append(len(batch.numbers))
            yield batch

    monkeypatch.setattr(_slate_distributions.SlateDistributions, "batches", counting)
    return counts


# One distribution and one for every round with each size of a part, and some between.
@pytest.mark.few_cases(3)
@pytest.mark.parametrize(
    ("n_distributions", "in_a_part"),
    [(1, 1), (1, 30), (2, 5), (7, 30), (40, 5), (200, 1), (200, 30)],
)
def test_a_distribution_is_inverted_once_wherever_its_rounds_are(
    n_distributions, in_a_part, monkeypatch
):
    rng = np.random.RandomState(n_distributions)
    index = np.concatenate(
        [
            np.arange(n_distributions),
            rng.randint(n_distributions, size=200 - n_distributions),
        ]
    )
    rng.shuffle(index)
    weights = rng.random_sample((n_distributions, 4)) + 0.2
    logs = rounds(200, 2, 4).with_columns(w=weights[index])
    logger = PlackettLuceSlatePolicy("w", 2)
    slates = logger.sample(logs, 0)
    logs = SlateLogs(logs.context, slates, logs.reward, n_candidates=4)
    logs = logs.with_columns(w=weights[index])
    target = SlateTarget(PlackettLuceSlatePolicy([1.0, 2.0, 3.0, 4.0], 2), logs)
    ((_, _, _, whole),) = solved(logger, target, logs)
    monkeypatch.setattr(_tables, "CHUNK_BYTES", in_a_part * 8 * 2 * 4)
    counts = counted_moments(monkeypatch)
    seen = []
    for rows, shown, _, solution in solved(logger, target, logs):
        rows = np.arange(200)[rows]
        assert len(rows) <= in_a_part
        assert len(shown) == len(rows)
        np.testing.assert_allclose(
            solution.table, whole.table[rows], rtol=0, atol=1e-12
        )
        seen.append(rows)
    np.testing.assert_array_equal(np.sort(np.concatenate(seen)), np.arange(200))
    assert sum(counts) == n_distributions
