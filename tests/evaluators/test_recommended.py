# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""The rule looks at what the logs hold, never at a value."""

import numpy as np
import pytest
from sklearn.linear_model import Ridge

from skope_ope import (
    IPS,
    BanditLogs,
    ConstantPolicy,
    DirectMethod,
    DoublyRobust,
    MultiLoggerDR,
    PseudoInverse,
    SlateIPS,
    SlateLogs,
    UniformPolicy,
    UniformSlatePolicy,
    evaluate,
)
from skope_ope.datasets import make_adaptive_logs
from skope_ope.evaluators._recommended import (
    MISFIT,
    WRONG_WEIGHTS,
    recommended_evaluator,
    recommended_row,
)

N = 60
CODE = np.arange(N) % 2
REWARD = (np.arange(N) % 3 == 0).astype(float)
PLAIN = BanditLogs(np.zeros((N, 1)), CODE, REWARD, np.full(N, 0.5))
UNKNOWN = BanditLogs(np.zeros((N, 1)), CODE, REWARD)
LOGGERS = BanditLogs(
    np.zeros((N, 1)),
    CODE,
    REWARD,
    logger=np.arange(N) % 4 < 2,
    logger_proba=np.full((N, 2), 0.5),
)
SLATE = np.column_stack([CODE, 1 - CODE])
SLATES = SlateLogs(
    np.zeros((N, 1)), SLATE, REWARD, logging_policy=UniformSlatePolicy(2)
)
WHOLE_SLATES = SlateLogs(np.zeros((N, 1)), SLATE, REWARD, propensity=np.full(N, 0.5))
UNKNOWN_SLATES = SlateLogs(np.zeros((N, 1)), SLATE, REWARD)


@pytest.mark.parametrize(
    ("logs", "name", "evaluator"),
    [
        (PLAIN, "DoublyRobust", DoublyRobust()),
        (LOGGERS, "BalancedDR", MultiLoggerDR(pooling="balanced")),
        (LOGGERS[LOGGERS.logger], "DoublyRobust", DoublyRobust()),
        (UNKNOWN, None, None),
        (SLATES, "ControlledPI", PseudoInverse(control_variates="multiple")),
        (WHOLE_SLATES, "wIPS", SlateIPS(self_normalized=True)),
        (UNKNOWN_SLATES, None, None),
    ],
)
def test_the_rule(logs, name, evaluator):
    found = recommended_evaluator(logs)
    assert found.name == name
    assert repr(found.evaluator) == repr(evaluator)
    assert found.reason and not found.reason.endswith(".")
    if evaluator is not None:
        assert not hasattr(found.evaluator, "logs_")
        assert not found.evaluator._leaves_bias_out
        assert name in evaluate_names(logs)


def evaluate_names(logs):
    policy = UniformSlatePolicy(2) if isinstance(logs, SlateLogs) else UniformPolicy()
    table = evaluate(policy, logs)
    assert table.recommended == recommended_evaluator(logs).name
    return list(table)


def test_values_do_not_change_it():
    for reward in (np.zeros(N), np.ones(N), np.arange(N) - 30.0):
        assert recommended_evaluator(PLAIN.replace(reward=reward)).name == (
            "DoublyRobust"
        )


@pytest.mark.parametrize(
    ("evaluators", "name"),
    [
        ({"IPS": IPS(), "mine": DoublyRobust(reward_model=Ridge(), cv=3)}, "mine"),
        ({"IPS": IPS(), "SNIPS": IPS()}, None),
        ({"clipped": DoublyRobust(cmax=2.0)}, None),
        ({"DirectMethod": DirectMethod()}, None),
        ({"a": DoublyRobust(reward_model=0.5), "b": DoublyRobust()}, None),
        (
            {"DoublyRobust": DoublyRobust(), "b": DoublyRobust(reward_model=1.0)},
            "first",
        ),
        ({"DoublyRobust": IPS()}, None),
    ],
)
def test_among_named_evaluators(evaluators, name):
    found, reason = recommended_row(PLAIN, evaluators)
    assert found == ("DoublyRobust" if name == "first" else name)
    assert reason


def test_of_two_that_differ_in_their_models_none_is_chosen():
    several = {"a": DoublyRobust(reward_model=0.5), "b": DoublyRobust(reward_model=1.0)}
    _, reason = recommended_row(PLAIN, several)
    assert reason == "a, b differ only in their reward models"


def test_what_is_left_out_is_recommended_with_what_it_needs():
    given = {"IPS": IPS()}
    _, reason = recommended_row(PLAIN, given, left_out={"DoublyRobust": "columns"})
    assert reason == "DoublyRobust would be recommended, but the logs lack columns"
    assert recommended_row(PLAIN, given)[1].endswith("which was not asked for")


def test_the_form_counts():
    for pooling, expected in (("naive", None), ("balanced", "x")):
        named = {"x": MultiLoggerDR(pooling=pooling)}
        assert recommended_row(LOGGERS, named)[0] == expected
    assert recommended_row(SLATES, {"x": PseudoInverse()})[0] is None


# -- wrong propensities ---------------------------------------------------------------
WORD = "propensities do not fit the logged actions"


def drawn_logs(claimed):
    """3,000 rounds of a logger of three actions that claims these probabilities."""
    random = np.random.RandomState(0)
    action = random.choice(3, 3000, p=[0.6, 0.3, 0.1])
    reward = (random.random_sample(3000) < 0.2).astype(float)
    return BanditLogs(np.zeros((3000, 1)), action, reward, np.array(claimed)[action])


@pytest.mark.filterwarnings("ignore::skope_ope.exceptions.OPEWarning")
def test_wrong_propensities_are_the_first_to_be_told():
    logs = drawn_logs([0.1, 0.6, 0.3])
    table = evaluate(UniformPolicy(), logs)
    assert table.recommended == "DoublyRobust"
    assert table.reason == MISFIT and WORD in MISFIT
    assert "unbiased" not in repr(table)
    other = evaluate(UniformPolicy(), logs, evaluators=["IPS"])
    assert other.recommended is None
    assert other.reason.startswith(f"{MISFIT}; these logs allow DoublyRobust")


def test_right_propensities_leave_the_reason_alone():
    table = evaluate(UniformPolicy(), drawn_logs([0.6, 0.3, 0.1]))
    assert table.reason == recommended_evaluator(PLAIN).reason
    # a bias by design is no fault of the propensities
    table = evaluate(UniformPolicy(), PLAIN, evaluators=["DoublyRobust", "DRos"])
    assert table.reason == recommended_evaluator(PLAIN).reason


@pytest.mark.filterwarnings("ignore::skope_ope.exceptions.OPEWarning")
def test_weights_of_a_policy_that_copies_what_was_logged():
    logs = drawn_logs([0.6, 0.3, 0.1])
    copies = np.eye(3)[logs.action_index]
    table = evaluate({"copy": copies, "uniform": UniformPolicy()}, logs)
    assert table.recommended == "DoublyRobust"
    assert table.reason == WRONG_WEIGHTS
    alone = evaluate(copies, logs, evaluators=["DirectMethod"])
    assert alone.reason.startswith("these logs allow DoublyRobust")


@pytest.mark.thorough
@pytest.mark.filterwarnings("ignore::skope_ope.exceptions.OPEWarning")
def test_a_logger_that_learned_is_told():
    logs = make_adaptive_logs(5000, means=(0.6, 0.4), random_state=0)
    table = evaluate(ConstantPolicy(0), logs)
    assert "AdaptiveDR is made for such logs" in " ".join(repr(table).split())
    still = evaluate(ConstantPolicy(0), make_adaptive_logs(5000, floor_decay=0))
    assert "AdaptiveDR" not in repr(still)
