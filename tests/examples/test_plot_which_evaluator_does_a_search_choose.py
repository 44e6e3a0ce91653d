# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Which evaluator does a search choose? The script sees a search that is blind."""

from types import SimpleNamespace

from tests.examples._assertions import every_assertion_can_fail


def blind(self, logs):
    """Choose the first candidate."""
    return SimpleNamespace(best_index_=0, cv_results_={"mean_test_score": [1.0]})


test_every_assertion_can_fail = every_assertion_can_fail(
    "2_tuning/plot_which_evaluator_does_a_search_choose.py",
    {"a blind search": {"skope_ope.OPESearchCV.fit": blind}},
    args=["--repetitions", "1", "--splits", "4"],
)
