# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""The example on lengths of logs sees short logs and values that are far off."""

from tests.examples._assertions import every_assertion_can_fail
from tests.examples._values import Stuck

test_every_assertion_can_fail = every_assertion_can_fail(
    "3_families/plot_how_many_rounds_does_replay_need.py",
    {
        "too short": {
            "skope_ope.evaluators.replay_log_length": lambda n, *_, **__: float(n)
        },
        "far off": {"skope_ope.Replay.evaluate": lambda *_: Stuck(other=(98, 99))},
    },
)
