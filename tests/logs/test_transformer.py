# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""What every logs -> logs step shares."""

import numpy as np
import pytest
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import make_pipeline

from skope_ope import IPS, BanditLogs, UniformPolicy
from skope_ope.base import BaseLogTransformer


class Halve(BaseLogTransformer):
    """Keeps every second round."""

    def __init__(self, start=0):
        self.start = start

    _parameter_constraints: dict = {"start": [int]}

    def _fit(self, logs):
        self.n_seen_ = len(logs)

    def _transform(self, logs):
        return logs[self.start :: 2]


def logs_of():
    context = np.arange(12.0).reshape(6, 2)
    return BanditLogs(context, [0, 0, 1, 1, 0, 1], np.ones(6), np.full(6, 0.5))


def test_a_step_of_ones_own():
    logs = logs_of()
    step = Halve(1)
    with pytest.raises(NotFittedError):
        step.transform(logs)
    assert step.fit(logs) is step
    assert (step.n_seen_, step.n_features_in_) == (6, 2)
    assert step.transform(logs).row_id.position.tolist() == [1, 3, 5]
    assert step.fit_transform(logs).row_id == step.transform(logs).row_id


def test_what_is_not_logs_passes_unchanged():
    step = Halve().fit(logs_of())
    policy = UniformPolicy()
    for other in (policy, "pi", np.ones(3)):
        assert step.transform(other) is other


def test_in_a_pipeline_the_policy_reaches_the_evaluator():
    steps = make_pipeline(Halve(), IPS()).fit(logs_of())
    assert steps[-1].logs_.row_id.position.tolist() == [0, 2, 4]
    assert steps.score(UniformPolicy()) == 1.0


def test_bad_input():
    with pytest.raises(TypeError, match="Halve takes BanditLogs, got ndarray"):
        Halve().fit(np.zeros((3, 2)))
    with pytest.raises(ValueError, match="'start' parameter of Halve"):
        Halve("first").fit(logs_of())
