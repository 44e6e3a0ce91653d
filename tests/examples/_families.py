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
from tests.examples._assertions import Row
from tests.examples._stand_ins import Stuck, evaluates_to, says


def scavenges(evaluate):
    return {
        "skope_ope.ExplorationScavenging.fit": lambda self, logs: self,
        "skope_ope.ExplorationScavenging.evaluate": evaluate,
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
    return {"skope_ope.ExplorationScavenging.evaluate": lambda self, policy: found}


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
    return {"skope_ope.ConfidenceSequence.intervals_": property(lambda self: kept)}


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
    f"skope_ope.{name}Policy"
    for name in ("Classifier", "RewardModel", "DR", "Softmax", "IPS")
]
ROWS = {
    "plot_can_a_rotation_stand_for_propensities": Row(
        {"constant values": scavenges(by_luck)}, "--n-rotations 12"
    ),
    "plot_can_logs_from_before_a_change_be_used": Row(
        {
            "parts always agree": says(0.0),
            "parts never agree": says(0.0, step=1.0)
            | {"skope_ope.audit": lambda logs: SimpleNamespace(findings=())},
        },
        "--n-logs 25",
    ),
    "plot_can_the_log_of_a_bandit_be_used": Row(
        {"none covers": limits(1.0, 2.0, 2.0), "all cover": limits(0.0, -9.0, 9.0)},
        "--n-logs 25",
    ),
    "plot_how_many_rounds_does_learning_need": Row(
        {"earns nothing": {"skope_ope.RewardModelPolicy.predict_proba": take_no_action}}
    ),
    "plot_how_many_rounds_does_replay_need": Row(
        {
            "too short": {
                "skope_ope.evaluators.replay_log_length": lambda n, *_, **__: float(n)
            },
            "far off": {"skope_ope.Replay.evaluate": lambda *_: Stuck(other=(98, 99))},
        }
    ),
    "plot_how_much_must_a_bandit_keep_exploring": Row(
        {
            "far off": {"skope_ope.AdaptiveDR.evaluate": lambda *_: Stuck()},
            "uniform": {"skope_ope.datasets.make_adaptive_logs": explore_always},
        }
    ),
    "plot_is_the_click_on_each_slot_worth_logging": Row(
        {"all evaluators say the same": evaluates_to(4)}
    ),
    "plot_what_if_the_log_outgrows_the_machine": Row(
        {
            "wrong values and errors": {"skope_ope.evaluate": wrong_on_files},
            "a total that forgets": {
                "skope_ope.evaluators.ValueSummary.load": lambda path: 0
            },
        },
        "--days 3 --rounds 4000",
        needs="pyarrow",
    ),
    "plot_what_if_the_logger_looked_after_all": Row(
        {"constant values": scavenges(constant), "always told": scavenges(worried)},
        "--n-logs 10",
    ),
    "plot_what_if_the_loggers_left_no_probabilities": Row(
        {
            "estimated propensities are noise": {
                "example:values_of": estimates_are_noise
            },
            "all evaluators say the same": {
                "skope_ope.MultiLoggerIPS.evaluate": lambda *_: Stuck()
            },
        }
    ),
    "plot_when_is_the_model_alone_better": Row(
        {"all evaluators say the same": evaluates_to(4)}
    ),
    "plot_when_may_i_stop_watching": Row(
        {
            "always above zero": lies_at(0.1, 0.2),
            "never above zero": lies_at(-1.0, 1.0),
        },
        "--repetitions 40",
    ),
    "plot_which_form_of_the_pseudoinverse_errs_least": Row(
        {
            "misled by control variates": {
                "skope_ope.evaluate": misled_by_control_variates
            }
        },
        "--repeats 3",
    ),
    "plot_which_learner_for_which_log": Row(
        {
            "all learn nothing": dict.fromkeys(LEARNERS, FirstAction),
            "all but one learn nothing": dict.fromkeys(LEARNERS[1:], FirstAction),
        },
        "--sets digits --loggers confounded --repetitions 3 --n-rounds 700",
    ),
    "plot_which_loggers_need_no_propensities": Row(
        {
            "always wrong, and told": needs_no_propensities(
                0.0, (0, 0), [ExplorationWarning("", 9.0)]
            ),
            "always covers, never told": needs_no_propensities(0.6, (0.1, 0.9), []),
        },
        "--repetitions 10 --n-rounds 1000",
    ),
    "plot_which_pooling_of_loggers_errs_least": Row(
        {"values are constants": says(0.0)}, "--n-logs 12"
    ),
}
