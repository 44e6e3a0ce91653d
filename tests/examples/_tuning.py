# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""What breaks the examples of tuning."""

from types import SimpleNamespace

import numpy as np
from sklearn.pipeline import Pipeline

from skope_ope import RewardModelPolicy
from tests.examples._assertions import row

RNG = np.random.RandomState(0)
VALUES = []  # of the candidates on a log, in order; every log overrates another one


class Overrated:
    """A search that takes the candidate which the log overrates most."""

    def __init__(self, *args, **kwargs):
        pass

    def fit(self, logs):
        self.best_index_ = RNG.randint(10)
        VALUES[:] = 10.0 * (np.arange(10) == self.best_index_)
        return self


def overrated(self, policy):
    """Return such a value, from histories that q does not lengthen."""
    return SimpleNamespace(value=VALUES.pop(0), n_trajectories=1)


def decides(decision, answer):
    """Stand for `compare_policies`: the same answer, whatever the logs say."""
    record = {"answer": answer, "rounds_needed": 0}
    record |= {"difference_low": 1.0, "difference_high": 2.0}
    found = SimpleNamespace(
        decision=decision, differences={}, to_records=lambda: [record]
    )
    return {"compare_policies": lambda *_, **__: found}


def scores(score):
    """Stand for `PolicyScorer`: a score of the policy, whatever the logs say."""
    return {"PolicyScorer": lambda _: lambda policy, logs: score(policy)}


def upside_down(self, policy):
    """Be farthest off where the model is good."""
    *_, features, ridge = (step for _, step in self.reward_model.steps)
    return 1000.0 if features.degree == 2 and ridge.alpha == 1 else 100.0


def takes_a_good_model(self, logs):
    """Choose the first candidate with a good model."""
    grid = self.param_grid
    params = [
        dict(zip(grid, (q, degree, alpha), strict=True))
        for q in grid["q"]
        for degree in (1, 2)
        for alpha in (1.0, 1000.0)
    ]
    self.best_index_, self.cv_results_ = 2, {"params": params}
    return self


def takes_the_first(self, logs):
    return SimpleNamespace(best_index_=0, cv_results_={"mean_test_score": [1.0]})


def explorers_first(estimator):
    """The more exploration, the better, and reward models most."""
    policy = estimator[-1] if isinstance(estimator, Pipeline) else estimator
    return policy.epsilon + isinstance(policy, RewardModelPolicy)


class Comparison(dict):
    decision, sentence = "keep", ""

    def to_records(self):
        return [dict.fromkeys(("difference", "difference_low", "difference_high"), 0.0)]


def compare(*_, **__):
    return Comparison(chosen=SimpleNamespace(value=5.0, standard_error=0.01))


def at_random(self, X, available=None):
    return np.full((len(X), len(self.classes_)), 1 / len(self.classes_))


BLIND = scores(explorers_first) | {"compare_policies": compare}


def refuse_all(rule, value, mean_weight):
    """The rule of a quarter refuses everything, the others nothing."""
    return np.full_like(value, np.nan) if rule == "quarter" else value


ROWS = {
    "plot_choose_q_and_cmax_of_drns": row(
        {"OPESearchCV": Overrated, "DRns.evaluate": overrated}, args="--repetitions 4"
    ),
    "plot_how_often_is_deploy_wrong": row(
        decides("deploy", "better"),
        decides("undecided", "cannot tell"),
        args="--repetitions 6",
    ),
    "plot_how_optimistic_is_the_best_score": row(
        scores(lambda policy: 0.5), scores(lambda policy: 0.9), args="--n-worlds 8"
    ),
    "plot_tune_a_pipeline_inside_the_reward_model": row(
        {"DRns.score": upside_down, "OPESearchCV.fit": takes_a_good_model},
        args="--repetitions 8",
    ),
    "plot_which_evaluator_does_a_search_choose": row(
        {"OPESearchCV.fit": takes_the_first}, args="--repetitions 1 --splits 4"
    ),
    "plot_which_policy_and_how_much_exploration": row(
        BLIND,
        BLIND | {"RewardModelPolicy.predict_proba": at_random},
        args="--repetitions 2",
    ),
    "plot_which_scores_should_a_search_refuse": row(
        {"PolicyScorer.__call__": lambda *_: 0.5},
        {"example:scores_of": refuse_all},
        args="--n-worlds 60",
    ),
}
