# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.stats import norm

from skope_ope import BanditLogs
from skope_ope.evaluators.core._design import Design
from skope_ope.evaluators.core._engine import WEIGHTS, Job, run
from skope_ope.evaluators.core._overlap import Overlap, Support, weight_entries
from skope_ope.evaluators.core._positive_rounds import PositiveRounds
from skope_ope.evaluators.core._target import Target
from tests.evaluators.core._samples import Sample, by_loops

RNG = np.random.RandomState(0)
W = RNG.gamma(2.0, 0.5, size=90)
OMEGA = RNG.choice([0.0, 1.0, 2.0], 90)
OMEGA = OMEGA * np.count_nonzero(OMEGA) / OMEGA.sum()


def overlap_of(w, design, step=20):
    found = Overlap(design, int(design.count.sum()))
    for low in range(0, len(w), step):
        high = min(low + step, len(w))
        found.add(design.block(low, high), w[low:high])
    return found


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("centre", [0.0, 1e3])
def test_sums_of_weights(weighted, centre):
    omega = OMEGA if weighted else None
    w = W + centre  # far from zero, sums are taken about another origin
    found = overlap_of(w, Design(90, omega))
    v = w if omega is None else omega * w
    n = 90 if omega is None else np.count_nonzero(omega)
    assert_allclose(found.sum_w, v.sum(), rtol=1e-12)
    assert_allclose(found.sum_w2, v @ v, rtol=1e-12)
    assert_allclose(found.max_w, v.max(), rtol=1e-15)
    assert_allclose(found.mean_weight, v.sum() / n, rtol=1e-12)
    assert_allclose(found.effective_sample_size, v.sum() ** 2 / (v @ v), rtol=1e-12)
    entries = weight_entries(found)
    assert_allclose(entries["effective_share"], v.sum() ** 2 / (v @ v) / n)
    assert_allclose(entries["max_weight_share"], v.max() / v.sum())
    assert entries["mean_weight_z"]() == found.mean_weight_z


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("clustered", [False, True])
def test_the_mean_weight_in_its_errors(clustered, weighted):
    """The error knows groups and weights as that of a value does."""
    cluster = np.arange(90) // 3 if clustered else None
    sample = Sample(W[None], OMEGA if weighted else None, None, cluster)
    value, error, _ = by_loops(sample, lambda m: (m[0], (1.0,)))
    found = overlap_of(W, sample.design())
    assert_allclose(found.mean_weight_z, (value - 1) / error, rtol=1e-10)


@pytest.mark.parametrize("n", [2, 500])
def test_weights_that_are_alike(n):
    assert overlap_of(np.ones(n), Design(n)).mean_weight_z == 0
    z = overlap_of(np.full(n, 1.5), Design(n)).mean_weight_z
    # the normal deviate of 1.5^-n, the chance by Markov's bound, from above
    assert_allclose(z, np.sqrt(2 * n * np.log(1.5)))
    assert z > -norm.ppf(1.5**-n)
    below = overlap_of(np.full(n, 1 / 1.5), Design(n)).mean_weight_z
    assert_allclose(below, -z)
    one_group = Sample(np.ones((1, n)), None, None, np.zeros(n, int)).design()
    assert np.isnan(overlap_of(np.full(n, 1.5), one_group).mean_weight_z)
    near = 1 + 1e-15 * np.random.RandomState(0).normal(size=n)  # by rounding
    assert overlap_of(near, Design(n)).mean_weight_z == 0


def test_nothing_is_known_of_no_weights():
    empty = Overlap(Design(5), 5)
    assert (empty.sum_w, empty.sum_w2) == (0, 0)
    assert np.isnan([empty.mean_weight_z, empty.effective_sample_size]).all()
    one = overlap_of(np.ones(1), Design(1))
    assert np.isnan(one.mean_weight_z)
    none = overlap_of(np.zeros(5), Design(5))
    assert np.isnan(weight_entries(none)["max_weight_share"])


@pytest.mark.parametrize("known", [True, False])
def test_every_policy_is_observed(known):
    p = np.full(9, 0.5) if known else None
    logs = BanditLogs(
        np.zeros((9, 1)), np.arange(9) % 2, np.ones(9), p, actions=[0, 1, 2]
    )
    positive = PositiveRounds(logs)
    targets = [
        Target(np.tile(row, (9, 1)), logs) for row in ([0.5, 0.5, 0], [0.25, 0.25, 0.5])
    ]
    support = Support(positive)
    weights = WEIGHTS if known else None
    if weights is None:

        class Nothing:
            _moves = _summed = None

            def _terms(self, rounds):
                return (rounds.pi,)

        weights = Nothing()
    run(logs, [Job(weights, t, None) for t in targets], positive, [support])
    first, second = (support.overlaps[id(target)] for target in targets)
    assert (first.missing_mass, second.missing_mass) == (0, 0.5)
    assert (first.sum_w, second.sum_w) == ((9, 4.5) if known else (0, 0))
