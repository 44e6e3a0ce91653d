# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause

import warnings

import numpy as np
import pytest
from sklearn.pipeline import make_pipeline

from skope_ope import (
    IPS,
    SNIPS,
    BanditLogs,
    ConstantPolicy,
    PolicyScorer,
    PropensityClipper,
)
from skope_ope._user_line import warn_user
from skope_ope.exceptions import LowOverlapWarning, OPEWarning

LOGS = BanditLogs(
    np.zeros((60, 1)),
    np.arange(60) % 2,
    np.arange(60) % 3 / 2,
    np.where(np.arange(60) == 1, 1e-4, 0.5),
)
POLICY = ConstantPolicy(1).fit(LOGS)


def evaluate():
    IPS().fit(LOGS).evaluate(POLICY)


def score():
    IPS().fit(LOGS).score(POLICY)


def score_of_a_pipeline():
    make_pipeline(PropensityClipper(1e-6), IPS()).fit(LOGS).score(POLICY)


@pytest.mark.parametrize("call", [evaluate, score, score_of_a_pipeline])
def test_warnings_point_at_the_line_of_the_user(call):
    with pytest.warns(LowOverlapWarning) as caught:
        call()
    assert {one.filename for one in caught} == {__file__}
    assert {one.lineno for one in caught} == {call.__code__.co_firstlineno + 1}


def test_scorers_point_at_the_line_of_the_user():
    logs = BanditLogs(
        np.zeros((60, 1)),
        np.arange(60) % 2,
        np.arange(60) % 3 / 2,
        np.full(60, 0.5),
        actions=[0, 1, 2],
    )
    with pytest.warns(OPEWarning) as caught:
        score = PolicyScorer(SNIPS())(ConstantPolicy(2).fit(logs), logs)
    assert np.isnan(score)
    assert {one.filename for one in caught} == {__file__}


def test_no_warning_looks_for_no_line():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warn_user([])


def test_warnings_can_be_made_errors_and_are_told_once():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(UserWarning, match="a"):
            warn_user([UserWarning("a")])
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("default")
        for _ in range(2):
            warn_user([UserWarning("told once")])
    assert len(caught) == 1
