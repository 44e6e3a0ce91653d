# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Logs that hold every cell of a world once: estimates must be the true value.

Invariances do not tell an estimator of the value from one of something else: both the
squared weight and none at all keep most of them. A log of all cells (context, action,
reward), weighted by their probabilities, is the world itself. What estimates the value
of a policy gives it there exactly.
"""

from itertools import product

import numpy as np
from sklearn.utils import get_tags

from skope_ope.logs import SlateLogs
from skope_ope.policies import PlackettLuceSlatePolicy
from skope_ope.utils._check_rounds import (
    CheckRounds,
    assert_close,
    evaluate,
    fresh,
    model_kinds,
    quiet,
    value_of,
)

CONTEXT = np.array([0.3, 0.7])  # probabilities of the two contexts
REWARD = np.array([0.5, 3.0])  # neither 0 nor 1: their squares are others
HIGH = np.array([[0.2, 0.5, 0.7], [0.8, 0.4, 0.1]])  # P(second reward | x, a)
POLICY = np.array([[0.1, 0.2, 0.7], [0.5, 0.4, 0.1]])
LOGGERS = np.array(
    [[[0.5, 0.3, 0.2], [0.2, 0.2, 0.6]], [[0.2, 0.2, 0.6], [0.7, 0.2, 0.1]]]
)
SHARES = np.array([0.25, 0.75])  # of the loggers
MODEL = np.array([[0.9, 1.4, 2.0], [1.7, 0.6, 0.2]])  # wrong on purpose
SLOT_HIGH = np.array([[[0.6, 0.3, 0.1], [0.2, 0.5, 0.4]], [[0.1, 0.7, 0.2]] * 2])
TARGET = np.array([[2, 0], [1, 2]])  # the policy's slate in each context


def check_log_of_all_cells_gives_the_value(evaluator):
    """Weight every (context, action, reward) by its probability: the true value."""
    reward = REWARD[0] + HIGH * (REWARD[1] - REWARD[0])
    truth = CONTEXT @ (POLICY * reward).sum(axis=1)
    uniform = get_tags(evaluator).uniform_logger
    worlds = [np.full((1, 2, 3), 1 / 3)] if uniform else [LOGGERS[:1], LOGGERS]
    for mu in worlds:
        rounds, loggers = _all_cells(mu)
        for kind in (*model_kinds(evaluator), *_numbers(evaluator)):
            found = value_of(evaluator, rounds, kind, **loggers)
            assert_close(
                found.value,
                truth,
                "a log of all cells, weighted by their probabilities, does not give "
                f"the true value ({len(mu)} loggers, model {kind!r})",
            )


def _numbers(evaluator):
    return (0.4,) if "array" in model_kinds(evaluator) else ()


def _all_cells(mu):
    """Return rounds of all cells, and the fields that say which logger acted."""
    shares = SHARES if len(mu) > 1 else np.ones(1)
    cells = product(range(len(mu)), range(2), range(3), range(2))
    g, x, a, k = np.array(list(cells)).T
    proba = shares[g] * CONTEXT[x] * mu[g, x, a]
    rounds = CheckRounds(
        context=x[:, None],
        code=a,
        reward=REWARD[k],
        logging_proba=mu[g, x],
        pi=POLICY[x],
        q_hat=MODEL[x],
        fold=x,  # the model of a context is the same for all of its cells
        sample_weight=proba * np.where(k == 1, HIGH[x, a], 1 - HIGH[x, a]),
    )
    if len(mu) == 1:
        return rounds, {}
    return rounds, {"logger": g, "logger_proba": mu[:, x, a].T}


def check_slates_log_of_all_cells_gives_the_value(evaluator):
    """Weight every (context, slate, rewards) by its probability: the true value."""
    logs, x, weight = _all_slates()
    target = TARGET[x]
    mean = REWARD[0] + SLOT_HIGH * (REWARD[1] - REWARD[0])
    truth = CONTEXT @ mean[[[0], [1]], [[0, 1]], TARGET].sum(axis=1)
    evaluator = fresh(evaluator)
    if "cv" in evaluator.get_params():  # each context by a model of the other
        rows = [np.flatnonzero(x == k) for k in (0, 1)]
        evaluator.set_params(reward_model=None, cv=[rows, rows[::-1]])
    with quiet():
        evaluator.fit(logs)
    assert_close(
        evaluate(evaluator, target, sample_weight=weight).value,
        truth,
        "a log of all slates and rewards, weighted by their probabilities, does not "
        "give the true value",
    )


def _all_slates():
    """Return logs of all slates of two slots, contexts and weights of the rows."""
    logger = PlackettLuceSlatePolicy([1.5, 1.0, 0.5], 2)
    slates = [s for s in product(range(3), repeat=2) if s[0] != s[1]]
    cells = product(range(2), range(len(slates)), range(2), range(2))
    x, s, *high = np.array(list(cells)).T
    shown, high = np.array(slates)[s], np.column_stack(high)
    logs = SlateLogs(
        x[:, None],
        shown,
        None,
        n_candidates=3,
        slot_reward=REWARD[high],
        logging_policy=logger,
    )
    chance = SLOT_HIGH[x[:, None], np.arange(2), shown]
    weight = CONTEXT[x] * logger.slate_proba(logs, shown)
    return logs, x, weight * np.where(high, chance, 1 - chance).prod(axis=1)
