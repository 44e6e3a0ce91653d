# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""The ranker shows slates whose value the logs can tell, or says that it does not."""

from itertools import product

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.linear_model import Ridge
from sklearn.tree import DecisionTreeRegressor

from skope_ope import PseudoInverse, PseudoInverseRanker, SlateLogs, UniformSlatePolicy
from skope_ope.exceptions import LearnedRoundsWarning, SupportWarning
from skope_ope.policies import EmpiricalSlatePolicy, ProductSlatePolicy


def log_of(slates, phi, logger, **fields):
    """Every slate once, with the sum of phi as its reward."""
    slates = np.asarray(slates)
    n_slots, m = phi.shape
    return SlateLogs(
        np.zeros((len(slates), 1)),
        slates,
        phi[np.arange(n_slots), slates].sum(axis=1),
        item_features=np.arange(m)[:, None],
        n_candidates=m,
        logging_policy=logger,
        **fields,
    )


def by_heart(**parameters):
    return PseudoInverseRanker(DecisionTreeRegressor(), **parameters)


class Believes(RegressorMixin, BaseEstimator):
    """Predicts a table of (slot, candidate), whatever was logged."""

    def __init__(self, table=None):
        self.table = table

    def fit(self, X, y):
        self.fitted_ = True
        return self

    def predict(self, X):
        candidate, slot = X.astype(int).T
        return np.asarray(self.table)[slot, candidate]


def second_moments(slates, m):
    """Gamma of slates that are equally likely, by the definition."""
    slates = np.asarray(slates)
    indicators = np.array([np.eye(m)[slate].ravel() for slate in slates])
    return indicators, indicators.T @ indicators / len(slates)


def test_a_logger_that_repeats_lets_the_ranker_repeat(global_random_seed):
    """The best slate of a product logger is found: nothing is lost."""
    rng = np.random.RandomState(global_random_seed)
    phi = rng.normal(size=(3, 4))
    phi[:, 2] += 5  # the best candidate of every slot
    logger = ProductSlatePolicy(np.full((3, 4), 0.25))
    logs = log_of([*product(range(4), repeat=3)], phi, logger)
    ranker = by_heart().fit(logs)
    assert ranker.repeats_
    assert ranker.outside_range_share_ == 0
    assert_array_equal(ranker.deterministic_slates(logs[:1]), [[2, 2, 2]])
    # in deployment, too
    bare = logs[:1].replace(logging_policy=None)
    assert_array_equal(ranker.deterministic_slates(bare), [[2, 2, 2]])
    rankings = log_of([[0, 1, 2], [3, 2, 1], [1, 0, 3]], phi, UniformSlatePolicy(3))
    assert not by_heart().fit(rankings).repeats_


def test_candidates_that_a_slot_never_showed_do_not_compete():
    """A line through the candidates' numbers believes in the one never shown."""
    phi = np.array([[-2.0, -1.0, -9.0]])
    slates = [[0], [1]]
    logs = log_of(slates, phi, EmpiricalSlatePolicy(slates))
    ranker = PseudoInverseRanker(Ridge(alpha=1e-6)).fit(logs)
    assert ranker.outside_range_share_ == 1
    assert_array_equal(ranker.deterministic_slates(logs), [[1], [1]])
    with pytest.warns(LearnedRoundsWarning):
        value = PseudoInverse().fit(logs).evaluate(ranker)
    assert value.diagnostics["outside_range_share"] == 0
    with pytest.warns(SupportWarning, match=r"100\.0% of the queries of fit") as caught:
        ranker.deterministic_slates(logs.replace(logging_policy=None))
    assert caught[0].message.value == 1
    assert caught[0].filename == __file__
    with pytest.warns(SupportWarning, match="outside_range='avoid'") as caught:
        trusting = PseudoInverseRanker(Ridge(alpha=1e-6), outside_range="allow")
        trusting.fit(logs)
    assert caught[0].filename == __file__
    assert_array_equal(trusting.deterministic_slates(logs), [[2], [2]])


def test_candidates_that_were_never_together_are_not_put_together():
    phi = np.array([[3.0, 0, 1, 0], [0, 1.0, 0, 2]])
    slates = [[0, 1], [2, 3]]
    logs = log_of(slates, phi, EmpiricalSlatePolicy(slates))
    ranker = PseudoInverseRanker(Believes(phi)).fit(logs)
    # 0 before 3 is the best of what is believed, but no reward tells its value
    assert ranker.outside_range_share_ == 1
    assert_array_equal(ranker.deterministic_slates(logs), [[0, 1]] * 2)


@pytest.mark.thorough
def test_the_slate_shown_is_inside_and_not_worse_than_any_logged(global_random_seed):
    rng = np.random.RandomState(global_random_seed)
    n_outside = 0
    for _ in range(30):
        m, n_slots = 5, 3
        phi = rng.normal(size=(n_slots, m))
        slates = rng.randint(m, size=(rng.randint(2, 9), n_slots))
        if rng.random_sample() < 0.7:  # without repetition
            slates = np.array([rng.permutation(m)[:n_slots] for _ in slates])
        slates = np.unique(slates, axis=0)
        logs = log_of(slates, phi, EmpiricalSlatePolicy(slates))
        ranker = by_heart().fit(logs)
        shown = ranker.deterministic_slates(logs)[0]
        indicators, gamma = second_moments(slates, m)
        wanted = np.eye(m)[shown].ravel()
        rest = wanted - gamma @ np.linalg.pinv(gamma) @ wanted
        assert np.abs(rest).max() < 1e-8
        value = phi[np.arange(n_slots), shown].sum()
        assert value >= (indicators @ phi.ravel()).max() - 1e-9
        n_outside += ranker.outside_range_share_ > 0
    assert n_outside > 5  # else nothing was tried


def test_the_share_is_that_of_queries(global_random_seed):
    """Two queries, one of them with a logger that never shows candidate 2."""
    phi = np.array([[0.0, 1.0, 2.0], [0.0, 1.0, 2.0]])
    slates = np.array([[0, 1], [1, 0], [0, 2], [2, 0], [1, 2], [2, 1]])
    logger = EmpiricalSlatePolicy(
        {0: slates[:2], 1: slates}, by=lambda logs: logs.context[:, 0].astype(int)
    )
    context = np.repeat([[0.0], [1.0]], 6, axis=0)
    shown = np.concatenate([slates[[0, 1, 0, 1, 0, 1]], slates])
    features = np.broadcast_to(np.arange(3.0)[:, None], (12, 3, 1)).copy()
    features[6:] += 10
    logs = SlateLogs(
        context,
        shown,
        phi[[0, 1], shown].sum(axis=1),
        item_features=features,
        logging_policy=logger,
    )
    ranker = PseudoInverseRanker(Ridge(alpha=1e-6)).fit(logs)
    assert ranker.outside_range_share_ == 0.5
    found = ranker.deterministic_slates(logs)
    assert (found[:6] < 2).all()
    assert (found[6:] == 2).any(axis=1).all()
