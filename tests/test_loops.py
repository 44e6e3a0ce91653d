# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""The loops that everything is compared with, against numbers known beforehand."""

import math

import numpy as np
import pytest
from numpy.testing import assert_allclose

from tests import _loops as loops
from tests._worlds import W1, as_lists, d8, enumerate_logs, exact_moments

# name: loop, parameters, value on D8, exact bias and exact n * variance in W1
TABLE = {
    "IPS": (loops.ips, {}, 0.9625, 0.0, 1.556766667),
    "IPS(cmax=2)": (loops.ips, {"cmax": 2.0}, 0.5875, -0.22, 0.541166667),
    "DM": (loops.direct_method, {}, 0.57, -0.05, 0.0004),
    "DR": (loops.doubly_robust, {}, 0.83625, 0.0, 0.564816667),
    "DR(cmax=2)": (loops.doubly_robust, {"cmax": 2.0}, 0.69875, -0.03, 0.218316667),
    "SwitchDR(tau=2)": (loops.switch_dr, {"tau": 2.0}, 0.52375, -0.07, 0.062316667),
    "DRos(lam=4)": (loops.dros, {"lam": 4.0}, 0.631254492142, -0.047420, 0.058059234),
    "SGIPS": (
        loops.sub_gaussian_ips,
        {"lam": 0.2},
        0.683195970696,
        -0.172275,
        0.693898622,
    ),
    "LS": (loops.log_smoothing, {"lam": 0.5}, 0.586101646962, -0.237362, 0.520024027),
}


def value_of(loop, **params):
    return lambda log: loop(*as_lists(log), **params)[0]


def test_world_is_the_one_of_the_tables():
    assert_allclose(W1.value, 0.62, rtol=1e-14)
    assert_allclose(W1.efficiency_bound, 0.5406166667, rtol=1e-9)
    log = d8()
    w = loops.weights(log.pi.tolist(), log.action.tolist(), log.propensity.tolist())
    assert_allclose(w, [0.2, 1 / 3, 4, 0.2, 1 / 6, 1 / 6, 3, 1.5], rtol=1e-14)
    assert_allclose(sum(w), 9.566667, atol=5e-7)
    assert_allclose(np.square(w).sum(), 27.496667, atol=5e-7)


@pytest.mark.parametrize("n_rounds", [1, 2, 3])
def test_enumeration_is_complete(n_rounds):
    probability, logs = enumerate_logs(W1, n_rounds)
    assert probability.shape == (12**n_rounds,)
    assert_allclose(probability.sum(), 1.0, rtol=1e-13)
    code = (logs.x * 3 + logs.action) * 2 + logs.reward.astype(int)
    assert len(np.unique(code, axis=0)) == 12**n_rounds
    # marginal law of the last round
    for x, a, r in [(0, 1, 1), (1, 2, 0)]:
        rows = (logs.x[:, -1] == x) & (logs.action[:, -1] == a)
        rows &= logs.reward[:, -1] == r
        expected = 0.5 * W1.mu[x, a] * (W1.q[x, a] if r else 1 - W1.q[x, a])
        assert_allclose(probability[rows].sum(), expected, rtol=1e-12)


@pytest.mark.parametrize("name", TABLE)
def test_values_on_d8_and_exact_bias_and_variance(name):
    loop, params, expected, bias, n_variance = TABLE[name]
    assert_allclose(value_of(loop, **params)(d8()), expected, atol=6e-13, rtol=0)
    for n_rounds in (1, 2):
        mean, variance = exact_moments(W1, n_rounds, value_of(loop, **params))
        assert_allclose(mean - W1.value, bias, atol=6e-7)
        assert_allclose(n_rounds * variance, n_variance, atol=6e-10)


def test_ratio_estimators_on_d8():
    value, error = loops.snips(*as_lists(d8()))
    assert_allclose(value, 0.804878048780, atol=6e-13)
    assert_allclose(error, 0.175273, atol=6e-7)
    # the delta method's usual form divides by n where sd(ddof=1) divides by n - 1
    assert_allclose(error * math.sqrt(7 / 8), 0.163953, atol=6e-7)
    value, error = loops.sndr(*as_lists(d8()))
    assert_allclose(value, 0.792648083624, atol=6e-13)
    assert_allclose(error, 0.146031, atol=6e-7)
    # the linearised variance of a ratio is its asymptotic n * variance
    probability, logs = enumerate_logs(W1, 1)
    w = logs.pi[:, 0][np.arange(12), logs.action[:, 0]] / logs.propensity[:, 0]
    influence = w * (logs.reward[:, 0] - W1.value)
    assert_allclose(probability @ influence**2, 0.595064, atol=6e-7)


def test_exact_bias_of_snips_and_errors_of_means():
    for n_rounds, bias in ((2, -0.186960), (3, -0.135489)):
        mean, _ = exact_moments(W1, n_rounds, value_of(loops.snips))
        assert_allclose(mean - W1.value, bias, atol=6e-7)
    # exact for every mean of independent terms: E[se^2] = variance of the mean
    for loop in (loops.ips, loops.doubly_robust, loops.direct_method, loops.switch_dr):

        def both(log, loop=loop):
            value, error = loop(*as_lists(log))
            return np.array([value, error**2])

        mean, variance = exact_moments(W1, 2, both)
        assert_allclose(mean[1], variance[0], rtol=1e-12)


@pytest.mark.parametrize("name", [*TABLE, "SNIPS", "SNDR"])
def test_integer_sample_weights_equal_duplication(name):
    loop = {"SNIPS": loops.snips, "SNDR": loops.sndr}.get(name)
    loop, params = (loop, {}) if loop else TABLE[name][:2]
    s = [1, 2, 1, 3, 1, 1, 2, 1]
    rows = np.repeat(np.arange(8), s)
    log = d8()
    repeated = [np.asarray(field)[rows].tolist() for field in as_lists(log)]
    weighted = loop(*as_lists(log), s, **params)
    assert_allclose(weighted[0], loop(*repeated, **params)[0], rtol=1e-13)
    halved = loop(*as_lists(log), [si / 2 for si in s], **params)
    assert_allclose(weighted, halved, rtol=1e-13)
    ones = loop(*as_lists(log), [1.0] * 8, **params)
    assert_allclose(ones, loop(*as_lists(log), **params), rtol=1e-13)


def test_limits_and_weights_of_mrdr():
    log = as_lists(d8())
    dm, dr = loops.direct_method(*log), loops.doubly_robust(*log)
    assert_allclose(loops.dros(*log, lam=math.inf), dr, rtol=1e-14)
    assert_allclose(loops.dros(*log, lam=0.0), dm, rtol=1e-14)
    assert_allclose(loops.switch_dr(*log, tau=math.inf), dr, rtol=1e-14)
    assert_allclose(loops.switch_dr(*log, tau=0.0), dm, rtol=1e-14)
    assert_allclose(loops.sub_gaussian_dr(*log, lam=0.0), dr, rtol=1e-14)
    assert_allclose(loops.sub_gaussian_ips(*log, lam=0.0), loops.ips(*log), rtol=1e-14)
    assert_allclose(loops.sub_gaussian_ips(*log, lam=1.0)[0], 5 / 8, rtol=1e-14)
    assert_allclose(
        loops.log_smoothing(*log, lam=1e-12)[0], loops.ips(*log)[0], rtol=1e-10
    )
    assert_allclose(
        loops.log_smoothing(*log), loops.log_smoothing(*log, lam=8**-0.5), rtol=1e-14
    )
    pi, a, _, p, _ = as_lists(d8())
    expected = [0.2, 0.7778, 16, 0.2, 0.1111, 0.1111, 12, 6]
    assert_allclose(loops.mrdr_weights(pi, a, p), expected, atol=6e-5)


def test_mrdr_of_a_saturated_table_is_the_plug_in():
    # Fitted and evaluated on the same rows, a saturated table leaves no residual in
    # any cell, whatever the weights: the value is the mean of its direct part.
    log = d8()
    rows = [i for i in range(8) if i != 2]  # drop a cell's only row: must raise
    pi, a, r, p, _ = as_lists(log)
    everything = [(range(8), range(8))]
    with pytest.raises(ZeroDivisionError):
        loops.mrdr(pi, a, r, p, folds=[(rows, range(8))], cells=log.x.tolist())
    value, _ = loops.mrdr(pi, a, r, p, folds=everything, cells=log.x.tolist())
    table = loops.mrdr_table(pi, a, r, p, everything, log.x.tolist())
    cells = {
        (x, b): np.mean(log.reward[(log.x == x) & (log.action == b)])
        for x in (0, 1)
        for b in (0, 1, 2)
    }
    expected = [[cells[x, b] for b in range(3)] for x in log.x.tolist()]
    assert_allclose(table, expected, rtol=1e-14)
    assert_allclose(value, np.mean((log.pi * expected).sum(axis=1)), rtol=1e-14)
