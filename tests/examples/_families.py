# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""What breaks the examples of the families of evaluators."""

import warnings
from types import SimpleNamespace

import numpy as np

from skope_ope import evaluate
from skope_ope.datasets import make_adaptive_logs
from skope_ope.exceptions import ExplorationWarning
from skope_ope.logs import LazyLogs
from tests.examples._assertions import row
from tests.examples._stand_ins import Stuck, evaluates_to, says


def scavenges(evaluate):
    return {
        "ExplorationScavenging.fit": lambda self, logs: self,
        "ExplorationScavenging.evaluate": evaluate,
    }


def by_luck(self, policy):
    """A value, and an interval that holds the truth only by luck."""
    return SimpleNamespace(
        value=0.8,
        standard_error=0.1,
        confidence_interval=lambda: np.array([0.7, 0.75]),
        deviation_bound=lambda *args, **options: 0.0,
    )


def constant(self, policy):
    return SimpleNamespace(value=0.5, standard_error=0.0)


def worried(self, policy):
    warnings.warn("the logger looked", ExplorationWarning, stacklevel=2)
    return constant(self, policy)


def needs_no_propensities(value, interval, warnings):
    found = SimpleNamespace(
        value=value,
        standard_error=0.0,
        warnings=warnings,
        confidence_interval=lambda: interval,
    )
    return {"ExplorationScavenging.evaluate": lambda self, policy: found}


def limits(error, low, high):
    def limits(*_):
        return error, low, high, low, high

    return {"example:limits": limits, "example:mean_of": limits}


def take_no_action(policy, X):
    return np.zeros((len(X), 3))


def explore_always(*args, floor_decay, **kwargs):
    return make_adaptive_logs(*args, floor_decay=0.0, **kwargs)


def wrong_on_files(policies, logs, **options):
    table = evaluate(policies, logs, **options)
    if not isinstance(logs, LazyLogs):
        return table
    return dict.fromkeys(table, Stuck(0.9, 1e-3, other=(0.89, 0.91)))


noise = np.random.RandomState(0)


def estimates_are_noise(logs, image):
    """Estimated propensities give any value, also with all columns."""
    return {
        "recorded": 0.75,
        "estimated": noise.normal(0.75, 0.3),
        "columns missing": noise.normal(0.75, 0.3),
    }


def lies_at(low, high):
    """Thirty intervals of a sequence that are all the same."""
    kept = np.zeros(
        30,
        [("n_rounds", int), ("time", int)]
        + [(name, float) for name in ("low", "high", "estimate")],
    )
    kept["n_rounds"] = 1000 * np.arange(1, 31)
    kept["low"], kept["high"] = low, high
    return {"ConfidenceSequence.intervals_": property(lambda self: kept)}


class Misled(dict):
    recommended = "PseudoInverse"


def misled_by_control_variates(policies, logs, **_):
    """The form with control variates is far off and says that it is certain."""
    table = Misled.fromkeys(["PseudoInverse", "wPI"], Stuck(other=(0, 1)))
    table["ControlledPI"] = Stuck(99.0, other=(98, 99))
    return table


class FirstAction:
    def __init__(self, *args, **kwargs):
        pass

    def fit(self, logs):
        return self

    def predict(self, X):
        return np.zeros(X.shape[0], dtype=int)


LEARNERS = [
    f"{name}Policy" for name in ("Classifier", "RewardModel", "DR", "Softmax", "IPS")
]
ROWS = {
    "plot_can_a_rotation_stand_for_propensities": row(
        scavenges(by_luck), args="--n-rotations 12"
    ),
    "plot_can_logs_from_before_a_change_be_used": row(
        says(0.0),
        says(0.0, step=1.0) | {"audit": lambda logs: SimpleNamespace(findings=())},
        args="--n-logs 25",
    ),
    "plot_can_the_log_of_a_bandit_be_used": row(
        limits(1.0, 2.0, 2.0), limits(0.0, -9.0, 9.0), args="--n-logs 25"
    ),
    "plot_how_many_rounds_does_learning_need": row(
        {"RewardModelPolicy.predict_proba": take_no_action}
    ),
    "plot_how_many_rounds_does_replay_need": row(
        {"evaluators.replay_log_length": lambda n, *_, **__: float(n)},
        {"Replay.evaluate": lambda *_: Stuck(other=(98, 99))},
    ),
    "plot_how_much_must_a_bandit_keep_exploring": row(
        {"AdaptiveDR.evaluate": lambda *_: Stuck()},
        {"datasets.make_adaptive_logs": explore_always},
    ),
    "plot_is_the_click_on_each_slot_worth_logging": row(evaluates_to(4)),
    "plot_what_if_the_log_outgrows_the_machine": row(
        {"evaluate": wrong_on_files},
        {"evaluators.ValueSummary.load": lambda path: 0},
        args="--days 3 --rounds 4000",
        needs="pyarrow",
    ),
    "plot_what_if_the_logger_looked_after_all": row(
        scavenges(constant), scavenges(worried), args="--n-logs 10"
    ),
    "plot_what_if_the_loggers_left_no_probabilities": row(
        {"example:values_of": estimates_are_noise},
        {"MultiLoggerIPS.evaluate": lambda *_: Stuck()},
    ),
    "plot_when_is_the_model_alone_better": row(evaluates_to(4)),
    "plot_when_may_i_stop_watching": row(
        lies_at(0.1, 0.2), lies_at(-1.0, 1.0), args="--repetitions 40"
    ),
    "plot_which_form_of_the_pseudoinverse_errs_least": row(
        {"evaluate": misled_by_control_variates}, args="--repeats 3"
    ),
    "plot_which_learner_for_which_log": row(
        dict.fromkeys(LEARNERS, FirstAction),
        dict.fromkeys(LEARNERS[1:], FirstAction),
        args="--sets digits --loggers confounded --repetitions 3 --n-rounds 700",
    ),
    "plot_which_loggers_need_no_propensities": row(
        needs_no_propensities(0.0, (0, 0), [ExplorationWarning("", 9.0)]),
        needs_no_propensities(0.6, (0.1, 0.9), []),
        args="--repetitions 10 --n-rounds 1000",
    ),
    "plot_which_pooling_of_loggers_errs_least": row(says(0.0), args="--n-logs 12"),
}
