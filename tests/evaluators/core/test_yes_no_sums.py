# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause

import numpy as np
import pytest
from numpy.testing import assert_allclose

from skope_ope.evaluators.core._design import Frame
from skope_ope.evaluators.core._estimate import Estimate
from skope_ope.evaluators.core._functions import ratio
from skope_ope.evaluators.core._yes_no_sums import YesNoSums
from skope_ope.intervals._gamma import deviations_of


def rounds(n=400, seed=0):
    rng = np.random.default_rng(seed)
    w = rng.exponential(size=n) * (rng.random(n) < 0.7)
    return w, (rng.random(n) < 0.2).astype(float)


def sums_of(*parts):
    found = []
    for w, reward in parts:
        one = YesNoSums()
        one.add(w, reward)
        found.append(one)
    whole = found[0]
    for one in found[1:]:
        whole = whole + one
    return whole


@pytest.mark.parametrize("seed", range(3))
def test_deviations_of_a_ratio_are_exact(seed):
    w, reward = rounds(seed=seed)
    whole = sums_of(
        (w[:30], reward[:30]), (w[30:31], reward[30:31]), (w[31:], reward[31:])
    )
    value, scale = (w * reward).sum() / w.sum(), len(w) / w.sum()
    found = whole.deviations((0.0, -scale * value, scale))
    z = value + scale * w * (reward - value)
    assert_allclose(found, deviations_of(z, value), rtol=1e-12)
    again = YesNoSums.from_table(whole.to_table())
    assert again.deviations((0.0, -scale * value, scale)) == found


def test_deviations_of_a_mean_are_known_where_rewarded_weights_are_large():
    w, reward = rounds()
    mean = (w * reward).mean()
    assert sums_of((w, reward)).deviations((-mean, 0.0, 1.0)) is None
    w[(reward > 0) & (w > 0)] += mean  # now all of them lie above it
    mean = (w * reward).mean()
    assert w[(reward > 0) & (w > 0)].min() > mean
    found = sums_of((w, reward)).deviations((-mean, 0.0, 1.0))
    assert_allclose(found, deviations_of(w * reward, mean), rtol=1e-12)


def test_other_rewards_have_no_such_sums():
    w, reward = rounds()
    some = sums_of((w, reward), (w[:2], np.array([0.5, 1.0])))
    assert some.deviations((0.0, -1.0, 2.0)) is None
    assert (sums_of((w, reward)) + some).deviations((0.0, -1.0, 2.0)) is None
    frame = Frame(np.array([len(w)]))
    assert some.ratio_sums(frame) is None
    assert YesNoSums().deviations((0.0, -1.0, 2.0)) is None


def test_the_ratio_itself_follows():
    w, reward = rounds()
    n = len(w)
    sums = sums_of((w[:9], reward[:9]), (w[9:], reward[9:])).ratio_sums(
        Frame(np.array([n]))
    )
    found = Estimate(sums, ratio)
    value = (w * reward).sum() / w.sum()
    psi = w * (reward - value) / w.sum()
    assert_allclose(found.value, value, rtol=1e-13)
    assert_allclose(found.standard_error, np.sqrt(psi @ psi * n / (n - 1)), rtol=1e-12)
    clustered = Frame(np.array([2]), None, np.arange(1), *np.zeros((3, 1), int))
    assert sums_of((w, reward)).ratio_sums(clustered) is None


def test_rounds_that_weigh_the_same():
    reward = np.array([1.0, 0, 0, 1, 0])
    assert_allclose(YesNoSums.alike(2, 3).sums, sums_of((np.ones(5), reward)).sums)
