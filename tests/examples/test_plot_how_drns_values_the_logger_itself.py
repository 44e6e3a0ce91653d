# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Table 3 of DR-ns: its assertions fail on broken evaluators."""

from types import SimpleNamespace

import numpy as np

from tests.examples._assertions import every_assertion_can_fail

RNG = np.random.RandomState(0)


def result(value, n_accepted):
    """Return an evaluation that draws its value and accepts so many rows."""

    def _result(self, policy, *_):
        return SimpleNamespace(
            value=value(),
            accepted=range(n_accepted),
            diagnostics={"n_accepted": n_accepted},
            warnings=[],
        )

    return _result


test_every_assertion_can_fail = every_assertion_can_fail(
    "4_papers/plot_how_drns_values_the_logger_itself.py",
    {
        "rejection sampling is a constant that accepts everything": {
            "skope_ope.RejectionSampling._result": result(lambda: 0.0, 10**6),
        },
        "DR-ns is noise that accepts nothing": {
            "skope_ope.DRns._result": result(RNG.standard_normal, 0),
        },
    },
    args=["--rows", "2000"],
)
