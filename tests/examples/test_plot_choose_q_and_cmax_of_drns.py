# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""The choice of q: its assertions fail on broken evaluators and searches."""

from types import SimpleNamespace

import numpy as np

from tests.examples._assertions import every_assertion_can_fail

RNG = np.random.RandomState(0)
VALUES = []  # of the candidates on a log, in order; every log overrates another one


class Search:
    """A search that takes the candidate which the log overrates most."""

    def __init__(self, *args, **kwargs):
        pass

    def fit(self, logs):
        self.best_index_ = RNG.randint(10)
        VALUES[:] = 10.0 * (np.arange(10) == self.best_index_)
        return self


def evaluate(self, policy):
    """Return such a value, from histories that q does not lengthen."""
    return SimpleNamespace(value=VALUES.pop(0), n_trajectories=1)


test_every_assertion_can_fail = every_assertion_can_fail(
    "2_tuning/plot_choose_q_and_cmax_of_drns.py",
    {
        "a search that takes what is overrated most": {
            "skope_ope.OPESearchCV": Search,
            "skope_ope.DRns.evaluate": evaluate,
        },
    },
    args=["--repetitions", "4"],
)
