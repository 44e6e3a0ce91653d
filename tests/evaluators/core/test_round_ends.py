# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause

from ast import literal_eval

import numpy as np
import pytest
from numpy.testing import assert_allclose

from skope_ope.evaluators.core._round_ends import RoundEnds
from tests.evaluators._summing import cut


def merged(parts):
    whole = parts[0]
    for one in parts[1:]:
        whole = whole + one
    return whole


@pytest.mark.parametrize("seed", range(5))
def test_fronts_hold_the_extremes_of_all_lines(seed):
    rng = np.random.default_rng(seed)
    n = 500
    v = rng.normal(size=n)
    q = 0.5 * v + rng.normal(size=n)
    if seed == 3:
        q = np.round(q)  # many ties
    if seed == 4:
        v[:] = 0.5
    parts = []
    for rows in cut(n, seed, 6):
        one = RoundEnds()
        one.add_model(v[rows], q[rows])
        parts.append(one)
    best, worst = merged(parts).fronts
    for c in (0.0, 0.1, 1.0, 17.0, 1e4):
        line = v - c * q
        assert_allclose((best @ [1, -c]).max(), line.max(), rtol=1e-14)
        assert_allclose((worst @ [1, -c]).min(), line.min(), rtol=1e-14)
    assert len(best) + len(worst) < 60


@pytest.mark.parametrize("k", [1, 2, 3])
def test_fourth_roots_bound_those_of_the_rounds(k):
    rng = np.random.default_rng(k)
    terms = rng.lognormal(size=(k, 900)) + 3
    slopes = np.array([0.7, -1.3, 0.2])[:k]
    parts = []
    for rows in cut(900, k):
        one = RoundEnds()
        if len(rows):
            one.add_terms(list(terms[:, rows]), powers=True)
        parts.append(one)
    whole = merged(parts)
    line = slopes @ (terms - terms.mean(axis=1, keepdims=True))
    root = (line**4).sum() ** 0.25
    if k < 3:
        assert_allclose(whole.fourth_root(slopes), root, rtol=1e-9)
    assert root <= whole.fourth_root(slopes) * (1 + 1e-12) < 5 * root
    assert_allclose(whole.terms, np.stack([terms.min(axis=1), terms.max(axis=1)], 1))
    other = RoundEnds()
    other.add_terms(list(terms[:, :3]))
    assert np.isinf((whole + other).fourth_root(slopes))


def test_weights_by_logger_and_tables():
    one, other = RoundEnds(), RoundEnds()
    w, reward = np.array([1.0, 3.0, 2.0]), np.array([0.0, 1.0, 0.0])
    codes = np.array([0, 1, 1])
    one.add_weights(w, reward, p=w / 10, loggers=(["a", "b"], codes))
    other.add_weights(5 * w, reward, np.array([1, 2, 1.0]), w / 20, (["c", "b"], codes))
    one.add_terms([w, w * reward])
    one.add_model(w, reward)
    whole = one + other
    assert whole.weights == {"a": 1.0, "b": 15.0, "c": 5.0}
    assert whole.omega == (1.0, 2.0) and whole.propensity == 0.05
    assert_allclose(whole.largest_weights(["c", "a", "z"]), [5, 1, 0])
    assert_allclose(whole.largest_weights([None]), [15])
    again = RoundEnds.from_table(whole.to_table(), literal_eval)
    assert again.weights == whole.weights and again.omega == whole.omega
    assert_allclose(again.terms, whole.terms)
    assert_allclose(again.fronts[0], whole.fronts[0])
    assert again.powers is None and again.limits is None
