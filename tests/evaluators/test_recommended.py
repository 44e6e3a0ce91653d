# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""The rule looks at what the logs hold, never at a value."""

import numpy as np
import pytest
from sklearn.linear_model import Ridge

from skope_ope import (
    IPS,
    BanditLogs,
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
from skope_ope.evaluators._recommended import recommended_evaluator, recommended_row

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
    assert reason == "nothing but their reward models tells a, b apart"


def test_the_form_counts():
    for pooling, expected in (("naive", None), ("balanced", "x")):
        named = {"x": MultiLoggerDR(pooling=pooling)}
        assert recommended_row(LOGGERS, named)[0] == expected
    assert recommended_row(SLATES, {"x": PseudoInverse()})[0] is None
