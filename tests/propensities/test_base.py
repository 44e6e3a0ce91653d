# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause

import numpy as np
import pytest
import sklearn
from numpy.testing import assert_array_equal
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import make_pipeline

from skope_ope import IPS, BanditLogs, PropensityClipper, UniformPolicy
from skope_ope.base import BaseLogTransformer

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


def test_a_step_of_ones_own():
    step = Halver().fit(LOGS)
    assert step.n_rounds_ == 4
    assert step.n_features_in_ == 4
    out = step.transform(LOGS)
    assert_array_equal(out.reward, [0.5, 0, 0.5, 0.5])
    assert out.context is LOGS.context
    assert out.row_id == LOGS.row_id
    assert_array_equal(Halver(by=4).fit_transform(LOGS).reward, LOGS.reward / 4)


@pytest.mark.parametrize("routing", [False, True], ids=["", "routing"])
def test_steps_in_front_of_an_evaluator(routing):
    with sklearn.config_context(enable_metadata_routing=routing):
        pipeline = make_pipeline(Halver(), PropensityClipper(), Halver(), IPS())
        value = pipeline.fit(LOGS).score(UniformPolicy())
    assert value == IPS().fit(LOGS).score(UniformPolicy()) / 4
    assert clone(pipeline).set_params(**{"halver-1__by": 4})[0].by == 4


@pytest.mark.parametrize("other", [UniformPolicy(), np.zeros((4, 2)), None, "pi"])
def test_what_is_no_logs_passes_unchanged(other):
    assert Halver().fit(LOGS).transform(other) is other


def test_only_logs_are_learned_from():
    for X in (np.zeros((4, 2)), UniformPolicy(), None):
        with pytest.raises(TypeError, match=r"Halver takes BanditLogs, got "):
            Halver().fit(X)
    with pytest.raises(NotFittedError):
        Halver().transform(LOGS)
    with pytest.raises(ValueError, match="The 'by' parameter of Halver"):
        Halver(by=0.5).fit(LOGS)


def test_output_settings_are_for_features():
    with sklearn.config_context(transform_output="pandas"):
        assert isinstance(Halver().fit_transform(LOGS), BanditLogs)
    assert not hasattr(Halver(), "set_output")
