# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""What MRDR refits and refuses; its values are in test_parity.py, test_vectors.py."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.model_selection import KFold
from sklearn.neighbors import KNeighborsRegressor

from skope_ope import MRDR, BanditLogs, DoublyRobust, UniformPolicy
from skope_ope.exceptions import ModelErrorWarning
from tests._worlds import d8

pytestmark = pytest.mark.filterwarnings("ignore::skope_ope.exceptions.OPEWarning")


class Spy(RegressorMixin, BaseEstimator):
    """Records the row weights of its fits by the first feature."""

    seen: dict = {}

    def fit(self, X, y, sample_weight=None):
        Spy.seen.update(zip(X[:, 0].tolist(), sample_weight.tolist(), strict=True))
        return self

    def predict(self, X):
        return np.zeros(len(X))


def numbered(n=60, **fields):
    rng = np.random.RandomState(0)
    return BanditLogs(
        np.arange(float(n)).reshape(-1, 1),
        np.arange(n) % 2,
        rng.random_sample(n),
        0.2 + 0.6 * rng.random_sample(n),
        **fields,
    ).with_columns(pi=rng.dirichlet(np.ones(2), n))


def test_the_model_is_fitted_with_the_weights_of_the_policy():
    logs = numbered(sample_weight=np.linspace(1, 2, 60))
    fitted = MRDR(reward_model=Spy(), cv=3).fit(logs)
    for pi in (logs.columns["pi"], np.tile([0.3, 0.7], (60, 1))):
        Spy.seen = {}
        fitted.evaluate(pi)
        p = logs.propensity
        expected = pi[np.arange(60), logs.action_index] * (1 - p) / p**2
        expected = expected * logs.sample_weight
        assert_allclose([Spy.seen[i] for i in range(60)], expected, rtol=1e-12)
    log, Spy.seen = d8(), {}
    x, folds = np.arange(8.0)[:, None], KFold(2)
    logs = BanditLogs(x, log.action, log.reward, log.propensity, actions=[0, 1, 2])
    MRDR(reward_model=Spy(), cv=folds).fit(logs).evaluate(log.pi)
    expected = [0.2, 7 / 9, 16, 0.2, 1 / 9, 1 / 9, 12, 6]
    assert_allclose([Spy.seen[i] for i in range(8)], expected, rtol=1e-12)


def test_a_certain_logger_leaves_no_variance():
    logs = numbered().replace(propensity=np.ones(60))
    plain = DoublyRobust(cv=3).fit(logs).score("pi")  # any model will do
    assert_allclose(MRDR(cv=3).fit(logs).score("pi"), plain, rtol=1e-12)


def test_other_logs_are_scored_by_a_model_of_the_rounds_of_fit():
    logs = numbered()
    here, there = logs[:40], logs[40:]
    fitted = MRDR(cv=3).fit(here)
    by_object = fitted.score(UniformPolicy(), there)
    uniform = logs.with_columns(pi=np.full((60, 2), 0.5))
    here, there = uniform[:40], uniform[40:]
    by_column = MRDR(cv=3).fit(here).score("pi", there)
    assert by_column == by_object
    with pytest.raises(ValueError, match="the policy, or the name of a column"):
        fitted.evaluate(np.full((20, 2), 0.5), there)
    other = there.with_columns(mu=np.full((20, 2), 0.5))
    with pytest.raises(ValueError, match="'mu' is not a column of the logs"):
        fitted.evaluate("mu", other)


def test_models_without_weights_get_drawn_rounds():
    fitted = MRDR(reward_model=KNeighborsRegressor(2), cv=3).fit(numbered())
    told = "KNeighborsRegressor takes no sample_weight: .* rounds drawn in proportion"
    with pytest.warns(ModelErrorWarning, match=told):
        value = fitted.evaluate(UniformPolicy())
    assert np.isfinite(value.value)


def test_prefit_is_refused():
    with pytest.raises(ValueError, match="cannot use cv='prefit'"):
        MRDR(reward_model=Spy(), cv="prefit").fit(numbered())


def test_equal_weights_are_doubly_robust():
    """Uniform logging and target: all row weights are equal."""
    logs = numbered().replace(propensity=np.full(60, 0.5))
    folds = list(KFold(3).split(logs))
    assert_allclose(
        MRDR(cv=folds).fit(logs).score(UniformPolicy()),
        DoublyRobust(cv=folds).fit(logs).score(UniformPolicy()),
        rtol=1e-12,
    )
