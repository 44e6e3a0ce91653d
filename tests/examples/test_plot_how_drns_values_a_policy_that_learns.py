# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Table 2 of DR-ns: its assertions fail on broken evaluators."""

from types import SimpleNamespace

import numpy as np

from tests.examples._assertions import every_assertion_can_fail

RNG = np.random.RandomState(0)


def drns(self, policy):
    """Return a wrong value that varies more, and fewer histories, with a larger q."""
    return SimpleNamespace(
        value=1000 + self.q * RNG.standard_normal(),
        n_trajectories=round(100 * (1 - self.q)),
        accepted=(),
        bias_mass=0.5,
    )


def rejection_sampling(self, policy):
    """Return many histories where there are rounds for one or two."""
    return SimpleNamespace(value=0.0, n_trajectories=9, accepted=(), bias_mass=0.0)


def direct_method(self, policy, *_):
    """Return noise in place of a bias."""
    value = 100 * RNG.standard_normal()
    return SimpleNamespace(value=value, diagnostics={}, warnings=[])


test_every_assertion_can_fail = every_assertion_can_fail(
    "4_papers/plot_how_drns_values_a_policy_that_learns.py",
    {
        "all evaluators are wrong": {
            "skope_ope.DRns.evaluate": drns,
            "skope_ope.RejectionSampling.evaluate": rejection_sampling,
            "skope_ope.DirectMethod._result": direct_method,
        },
    },
    args=["--trials", "5", "--runs", "5"],
)
