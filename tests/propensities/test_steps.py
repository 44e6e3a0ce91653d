# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Steps from logs to logs, and what logs know of the ones they went through."""

import copy
import pickle

import numpy as np
import pytest
import sklearn
from numpy.testing import assert_array_equal
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import make_pipeline

from skope_ope import (
    IPS,
    BanditLogs,
    PropensityClipper,
    PropensityEstimator,
    UniformPolicy,
)
from skope_ope.base import BaseLogTransformer
from skope_ope.propensities import LoggerPropensityEstimator

LOGS = BanditLogs(np.eye(4), [0, 1, 0, 1], [1, 0, 1, 1], np.full(4, 0.5))


class Halver(BaseLogTransformer):
    """Half the rewards, counting the rounds it learned from."""

    _parameter_constraints: dict = {"by": [int]}

    def __init__(self, by=2):
        self.by = by

    def _fit(self, logs):
        self.n_rounds_ = len(logs)

    def _transform(self, logs):
        return logs.replace(reward=logs.reward / self.by)


def test_steps_of_ones_own():
    step = Halver().fit(LOGS)
    assert step.n_rounds_ == 4
    assert step.n_features_in_ == 4
    out = step.transform(LOGS)
    assert_array_equal(out.reward, [0.5, 0, 0.5, 0.5])
    assert out.context is LOGS.context
    assert out.row_id == LOGS.row_id
    assert_array_equal(Halver(by=4).fit_transform(LOGS).reward, LOGS.reward / 4)
    # only logs are learned from
    for other in (UniformPolicy(), np.zeros((4, 2)), None, "pi"):
        assert Halver().fit(LOGS).transform(other) is other  # unchanged
    for X in (np.zeros((4, 2)), UniformPolicy(), None):
        with pytest.raises(TypeError, match=r"Halver takes BanditLogs, got "):
            Halver().fit(X)
    with pytest.raises(NotFittedError):
        Halver().transform(LOGS)
    with pytest.raises(ValueError, match="The 'by' parameter of Halver"):
        Halver(by=0.5).fit(LOGS)
    # output settings are for features
    with sklearn.config_context(transform_output="pandas"):
        assert isinstance(Halver().fit_transform(LOGS), BanditLogs)
    assert not hasattr(Halver(), "set_output")


@pytest.mark.parametrize("routing", [False, True], ids=["", "routing"])
def test_steps_in_front_of_an_evaluator(routing):
    with sklearn.config_context(enable_metadata_routing=routing):
        pipeline = make_pipeline(Halver(), PropensityClipper(), Halver(), IPS())
        value = pipeline.fit(LOGS).score(UniformPolicy())
    assert value == IPS().fit(LOGS).score(UniformPolicy()) / 4
    assert clone(pipeline).set_params(**{"halver-1__by": 4})[0].by == 4


# -- logs know whether their propensities were estimated ------------------------------
RNG = np.random.RandomState(0)
ROUNDS = RNG.normal(size=(60, 2)), RNG.randint(2, size=60), np.zeros(60), 0.5
GIVEN = BanditLogs(*ROUNDS, logger=np.arange(60) % 2)
STEPS = [PropensityEstimator(), LoggerPropensityEstimator()]


@pytest.mark.filterwarnings("ignore:these logs have 2 loggers")
@pytest.mark.parametrize("step", STEPS)
def test_estimates_are_said_to_be_estimates(step):
    logs = step.fit(GIVEN).transform(GIVEN)
    assert logs.propensity_estimated and not GIVEN.propensity_estimated
    for same in (
        logs[::2],
        logs.with_columns(k=np.zeros(60)),
        logs.replace(reward=np.ones(60)),
        pickle.loads(pickle.dumps(logs)),
        copy.copy(logs),
        clone(logs),
        PropensityClipper(low=0.4).fit(logs).transform(logs),
        make_pipeline(step, PropensityClipper()).fit(GIVEN).transform(GIVEN),
        step.transform(GIVEN[:7]),  # of other rounds too
    ):
        assert same.propensity_estimated


def test_others_are_given():
    clipped = PropensityClipper(low=0.4).fit(GIVEN).transform(GIVEN)
    assert not clipped[:5].propensity_estimated
    logs = LoggerPropensityEstimator().fit(GIVEN).transform(GIVEN)
    assert not logs.replace(propensity=GIVEN.propensity).propensity_estimated
    assert not logs.replace(propensity=None, logger_proba=None).propensity_estimated
    assert logs.replace(logger_proba=None).propensity_estimated
    # older pickles hold given ones
    state = GIVEN.__getstate__()
    state.pop("propensity_estimated", None)
    logs = object.__new__(BanditLogs)
    logs.__setstate__(state)
    assert not logs[:3].propensity_estimated
