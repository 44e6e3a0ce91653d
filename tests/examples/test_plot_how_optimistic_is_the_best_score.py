# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""How optimistic is the best score? The script sees scores that no log told."""

from tests.examples._assertions import every_assertion_can_fail

JUDGED = "skope_ope.selection._policy_scorer.HeldOutValue.judged"

test_every_assertion_can_fail = every_assertion_can_fail(
    "2_tuning/plot_how_optimistic_is_the_best_score.py",
    {
        "all the same": {JUDGED: lambda *_: (0.5, [])},
        "all too great": {JUDGED: lambda *_: (0.9, [])},
    },
    args=["--n-worlds", "8"],
)
