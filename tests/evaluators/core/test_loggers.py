# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from skope_ope import BanditLogs
from skope_ope.evaluators.core._loggers import NO_NAME, Loggers, label_list
from skope_ope.evaluators.core._positive_rounds import PositiveRounds

LOGGER = np.array(["a", "b", "c", "b", "a", "b"])
PROBA = np.tile([0.5, 0.25, 0.75], (6, 1))


def logs_of(**fields):
    return BanditLogs(
        np.zeros((6, 1)),
        np.arange(6) % 2,
        np.ones(6),
        np.select([LOGGER == "a", LOGGER == "b"], [0.5, 0.25], 0.75),
        **fields,
    )


def test_loggers_are_strata():
    logs = logs_of(logger=LOGGER, logger_proba=PROBA, group=[0, 0, 1, 1, 2, 2])
    found = Loggers(PositiveRounds(logs))
    assert found.labels == label_list(logs) == ["a", "b", "c"]
    assert len(found) == 3
    assert_array_equal(found.count, [2, 3, 1])
    assert_array_equal(found.index, [0, 1, 2, 1, 0, 1])
    assert found.design.strata == ["a", "b", "c"]
    assert_array_equal(found.design.count, [2, 3, 1])
    assert_array_equal(found.design.cluster_sizes, [2, 2, 2])
    assert_array_equal(found.proba, PROBA)


def test_sample_weights_weigh_loggers():
    logs = logs_of(logger=LOGGER, logger_proba=PROBA)
    found = Loggers(PositiveRounds(logs, np.array([1.0, 2, 1, 2, 1, 2]) / 1.5))
    assert_allclose(found.sizes, np.array([2.0, 6, 1]) / 1.5)
    assert_allclose(found.sizes.sum(), 6)


def test_loggers_without_a_round_that_enters_take_no_part():
    logs = logs_of(logger=LOGGER, logger_proba=PROBA)
    found = Loggers(PositiveRounds(logs, np.where(LOGGER == "b", 0.0, 2.0)))
    assert found.labels == ["a", "c"]
    assert_array_equal(found.count, [2, 1])
    assert_array_equal(found.index[LOGGER != "b"], [0, 1, 0])
    assert_array_equal(found.present, [0, 2])
    assert_array_equal(found.proba, PROBA[:, [0, 2]])
    assert_allclose(found.sizes, [2, 1])


@pytest.mark.parametrize("named", [True, False])
def test_one_logger(named):
    logs = logs_of(logger=["x"] * 6) if named else logs_of()
    found = Loggers(PositiveRounds(logs))
    assert found.labels == label_list(logs) == (["x"] if named else [NO_NAME])
    assert_array_equal(found.proba[:, 0], logs.propensity)
    assert found.design.n_strata == 1
    assert_array_equal(found.design.count, [6])
