# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.base import clone
from sklearn.linear_model import LinearRegression

from skope_ope import (
    PlackettLuceSlatePolicy,
    RankingPolicy,
    UniformPolicy,
    UniformSlatePolicy,
)
from skope_ope.policies import MixtureSlatePolicy, ProductSlatePolicy
from tests.policies._slate_worlds import rounds


def test_epsilon_uniform_shares_distributions(global_random_seed):
    rng = np.random.default_rng(global_random_seed)
    rank = rng.permuted(np.tile(np.arange(1, 6), (30, 1)), axis=1)
    logs = rounds(30, 2, 5).with_columns(w=2.0**-rank)
    steep, uniform = PlackettLuceSlatePolicy("w", 2), UniformSlatePolicy(2)
    policy = MixtureSlatePolicy([steep, uniform], [0.9, 0.1])
    assert len(policy.distributions(logs)) == 1
    want = 0.9 * steep.slot_marginals(logs) + 0.1 * uniform.slot_marginals(logs)
    assert_allclose(policy.slot_marginals(logs), want)
    distributions = policy.distributions(logs)
    table = distributions.slot_marginals()[distributions.index]
    assert_allclose(distributions.marginals(want), table, rtol=0, atol=1e-15)


def test_fit_fits_clones():
    features = np.array([[1.0], [3.0], [2.0]])
    ranker = RankingPolicy(LinearRegression(), 2)
    policy = MixtureSlatePolicy([ranker, UniformSlatePolicy(2)], [0.5, 0.5])
    logs = rounds(1, 2, 3, item_features=features)
    assert policy.fit(features, [1, 3, 2]) is policy
    assert not hasattr(ranker, "reward_model_")
    assert_allclose(policy.slot_marginals(logs)[0, 0], [1 / 6, 4 / 6, 1 / 6])
    assert not hasattr(clone(policy), "policies_")


@pytest.mark.parametrize(
    ("policies", "weights", "error", "message"),
    [
        (UniformSlatePolicy(2), [1], TypeError, "must be a list of slate policies"),
        ([], [], TypeError, "must be a list of slate policies"),
        ([UniformPolicy()], [1], TypeError, "made of slate policies, got UniformPol"),
        ([UniformSlatePolicy(2)], [0.5, 0.5], ValueError, "one entry per policy"),
        ([UniformSlatePolicy(2)], [0.5], ValueError, "sum to 1"),
        (
            [UniformSlatePolicy(2), UniformSlatePolicy(1)],
            [0.5, 0.5],
            ValueError,
            r"same number of slots, got \[1, 2\]",
        ),
        (
            [UniformSlatePolicy(2), ProductSlatePolicy([[1, 0, 0]])],
            [0.5, 0.5],
            ValueError,
            "same number of slots",
        ),
    ],
)
def test_bad_mixtures(policies, weights, error, message):
    with pytest.raises(error, match=message):
        MixtureSlatePolicy(policies, weights).sample(rounds(2, 2, 3), 0)
