# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""When does dropping logs help? The script sees evaluators that ignore sizes."""

import numpy as np
import pytest

from skope_ope.evaluators.multi_logger._poolings import Weighing
from tests.examples._assertions import every_assertion_can_fail, failures

PATH = "4_papers/plot_when_does_dropping_logs_help.py"
SMALL = ["--sets", "digits", "--n-rows", "50", "--n-logs", "20"]
POOLINGS = "skope_ope.evaluators.multi_logger._poolings"


def weights_of_means(divergences, sizes):
    """The weights of the loggers' own estimates by 1 / s_i^2, whatever their sizes."""
    return 1 / divergences / sizes


def mean_of_means(self, job):
    """The naive weighing of the loggers' own estimates, not of their rounds."""
    return Weighing(1 / job.strata.sizes, None)


SIZES_IGNORED = {
    "the mixture": {
        "skope_ope.evaluators.core._loggers.Loggers.shares": property(
            lambda self: np.full(len(self), 1 / len(self))
        )
    },
    "the weights": {f"{POOLINGS}.optimal_weights": weights_of_means},
    "the mean": {f"{POOLINGS}.Naive.weigh": mean_of_means},
}

test_every_assertion_can_fail = every_assertion_can_fail(
    PATH,
    {
        "no ratio": {"skope_ope.evaluators.pooling_variance_ratio": lambda *_: 0.0},
        "sizes ignored": SIZES_IGNORED["the mixture"],
    },
    args=SMALL,
)


@pytest.mark.theory
@pytest.mark.parametrize("what", SIZES_IGNORED)
def test_sizes_count(what):
    _, failed, _ = failures(PATH, SMALL, SIZES_IGNORED[what])
    assert failed
