# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Logs know whether their propensities were estimated."""

import copy
import pickle

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.pipeline import make_pipeline

from skope_ope import BanditLogs, PropensityClipper, PropensityEstimator
from skope_ope.propensities import LoggerPropensityEstimator

RNG = np.random.RandomState(0)
GIVEN = BanditLogs(
    RNG.normal(size=(60, 2)),
    RNG.randint(2, size=60),
    np.zeros(60),
    np.full(60, 0.5),
    logger=np.arange(60) % 2,
)
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
    assert (
        not PropensityClipper(low=0.4)
        .fit(GIVEN)
        .transform(GIVEN)[:5]
        .propensity_estimated
    )
    logs = LoggerPropensityEstimator().fit(GIVEN).transform(GIVEN)
    assert not logs.replace(propensity=GIVEN.propensity).propensity_estimated
    assert not logs.replace(propensity=None, logger_proba=None).propensity_estimated
    assert logs.replace(logger_proba=None).propensity_estimated


def test_older_pickles_hold_given_ones():
    state = GIVEN.__getstate__()
    state.pop("propensity_estimated", None)
    logs = object.__new__(BanditLogs)
    logs.__setstate__(state)
    assert not logs[:3].propensity_estimated
