# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Can the reward model be tuned together with q? The script can be proved wrong."""

from types import SimpleNamespace

from tests.examples._assertions import every_assertion_can_fail


def upside_down(self, policy):
    """Be farthest off where the model is good."""
    *_, features, ridge = (step for _, step in self.reward_model.steps)
    return 1000.0 if features.degree == 2 and ridge.alpha == 1 else 100.0


def blind(self, logs):
    """Choose the first candidate with a good model."""
    grid = self.param_grid
    params = [
        dict(zip(grid, (q, degree, alpha), strict=True))
        for q in grid["q"]
        for degree in (1, 2)
        for alpha in (1.0, 1000.0)
    ]
    return SimpleNamespace(best_index_=2, cv_results_={"params": params})


test_every_assertion_can_fail = every_assertion_can_fail(
    "2_tuning/plot_tune_a_pipeline_inside_the_reward_model.py",
    {
        "no log is asked": {
            "skope_ope.DRns.score": upside_down,
            "skope_ope.OPESearchCV.fit": blind,
        }
    },
    args=["--repetitions", "8"],
)
