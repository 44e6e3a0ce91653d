# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Rounds of sample weight 0 act as if they were not there."""

import warnings

import numpy as np
import pytest
from numpy.testing import assert_allclose

from skope_ope import BanditLogs, MultiLoggerDR, MultiLoggerIPS
from tests.evaluators.multi_logger._logs import POOLINGS, several, without_support

BLIND = [  # evaluators that ask for no `logger_proba`
    MultiLoggerIPS(),
    MultiLoggerIPS(self_normalized=True),
    MultiLoggerIPS(pooling="weighted", divergences="per_logger"),
    MultiLoggerIPS(pooling="weighted", divergences="per_logger", cross_fit=3),
    MultiLoggerDR(reward_model=0.3),
]
ALL = [
    *BLIND,
    MultiLoggerIPS(pooling="balanced"),
    MultiLoggerIPS(pooling="weighted"),
    MultiLoggerIPS(pooling="weighted", cross_fit=3),
    MultiLoggerDR(reward_model=0.3, pooling="balanced", self_normalized=True),
    MultiLoggerDR(reward_model=0.3, pooling="weighted"),
]
WORLDS = {
    "several": (several(n=120), ALL),
    "groups": (several(n=120, group=np.arange(120) // 10), ALL),
    "support": (without_support(), ALL),
    "support by logger_proba": (without_support(logging_proba=None), ALL),
    "support by actions": (
        without_support(logging_proba=None, logger_proba=None),
        BLIND,
    ),
}
KEPT = {
    "some": lambda logs: np.random.RandomState(1).random_sample(len(logs)) < 0.6,
    "not logger 0": lambda logs: logs.logger != 0,
    "not logger 1": lambda logs: logs.logger != 1,
    "one of logger 1": lambda logs: (
        (logs.logger != 1)
        | (np.arange(len(logs)) == np.flatnonzero(logs.logger == 1)[0])
    ),
    "not action 1": lambda logs: logs.action != 1,
}


def evaluated(evaluator, logs, pi, weight=None):
    """Return the result, its diagnostics and what was warned of."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        result = evaluator.fit(logs).evaluate(pi, sample_weight=weight)
        found = dict(result.diagnostics)
    return result, found, [(w.category, str(w.message)) for w in caught]


def assert_same(found, expected):
    for name in ("value", "standard_error", "effective_sample_size"):
        a, b = getattr(found[0], name), getattr(expected[0], name)
        assert_allclose(a, b, rtol=1e-9, err_msg=name)
    freedom = expected[0].degrees_of_freedom
    assert_allclose(found[0].degrees_of_freedom, freedom, rtol=1e-12)
    assert found[1].keys() == expected[1].keys()
    for name, b in expected[1].items():
        a = found[1][name]
        if isinstance(b, dict):
            assert a.keys() == b.keys(), name
            a, b = list(a.values()), list(b.values())
        assert_allclose(a, b, rtol=1e-8, atol=1e-12, err_msg=name)
    assert found[2] == expected[2]


def met(world, kept):
    """Every fifth evaluator, so that it meets each world and each choice of rounds.

    Each of them once or more often: of three factors that have nothing to do with each
    other in the code, all pairs tell what all triples would.
    """
    evaluators = WORLDS[world][1]
    start = -(list(WORLDS).index(world) + list(KEPT).index(kept)) % 5
    return evaluators[start::5]


@pytest.mark.few_cases
@pytest.mark.parametrize("kept", KEPT)
@pytest.mark.parametrize("world", WORLDS)
def test_weights_zero_and_one_are_a_choice_of_rounds(world, kept):
    logs, pi = WORLDS[world][0]
    evaluators = met(world, kept)
    mask = KEPT[kept](logs)
    rows = np.flatnonzero(mask)
    graded = mask * (0.5 + np.random.RandomState(0).random_sample(len(logs)))
    for evaluator in evaluators:
        alone = evaluated(evaluator, logs[rows], pi[rows])
        found = evaluated(evaluator, logs, pi, mask.astype(float))
        assert_same(found, alone)
        found = evaluated(evaluator, logs.replace(sample_weight=mask * 1.0), pi)
        assert_same(found, alone)
        alone = evaluated(evaluator, logs[rows], pi[rows], graded[rows])
        found = evaluated(evaluator, logs, pi, graded)
        assert_same(found, alone)
        z = found[0].round_values
        assert_allclose(z.mean(), found[0].value, rtol=1e-12)
        group = np.arange(len(z)) if logs.group is None else logs.group
        sums = np.bincount(group, z - z.mean())
        error = np.sqrt(sums @ sums / len(z) / (len(z) - 1))
        if np.isfinite(found[0].standard_error):
            assert_allclose(error, found[0].standard_error, rtol=1e-9)


def test_a_logger_with_one_round_of_positive_weight():
    reward = np.r_[np.random.default_rng(0).normal(1, 1, 38), 50, 0]
    half = np.full((40, 2), 0.5)
    logs = BanditLogs(
        np.zeros((40, 1)),
        np.arange(40) % 2,
        reward,
        logger=np.r_[[0] * 38, 1, 1],
        logger_proba=half,
    )
    weight = np.r_[np.ones(39), 0]
    result = MultiLoggerIPS().fit(logs).evaluate(half, sample_weight=weight)
    terms = reward[:39]  # the single round joins the stratum of the others
    assert_allclose(result.value, terms.mean(), rtol=1e-12)
    assert_allclose(result.standard_error, terms.std(ddof=1) / np.sqrt(39), rtol=1e-9)
    weighted = MultiLoggerIPS(pooling="weighted", divergences="per_logger").fit(logs)
    result, _, warned = evaluated(weighted, logs, half, weight)
    assert_allclose(result.value, terms[:38].mean(), rtol=1e-12)
    assert [text for _, text in warned] == [
        "logger 1 has a single round, too few to estimate its divergence. "
        "The logger is left out. Compare with divergences='pooled'."
    ]


@pytest.mark.parametrize("pooling", POOLINGS)
def test_a_logger_without_weight_need_not_be_known(pooling):
    """Nobody else could have done what it did: its rows are asked of nobody."""
    mu = np.array([[0.5, 0.5, 0.0], [0.2, 0.8, 0.0], [0.3, 0.3, 0.4]])
    logger = np.arange(60) % 3
    action = np.where(logger == 2, 2, np.arange(60) // 3 % 2)
    logs = BanditLogs(
        np.zeros((60, 1)),
        action,
        np.arange(60.0),
        actions=range(3),
        logger=logger,
        logger_proba=mu[:, action].T,
    )
    pi = np.tile([0.4, 0.6, 0.0], (60, 1))
    rows = np.flatnonzero(logger < 2)
    evaluator = MultiLoggerIPS(pooling=pooling)
    found = evaluated(evaluator, logs, pi, (logger < 2).astype(float))
    assert_same(found, evaluated(evaluator, logs[rows], pi[rows]))
    assert set(found[1]["logger_shares"]) == {0, 1}


def test_values_of_groups_count_rounds_of_positive_weight():
    logs, pi = several(n=120)
    weight = (np.random.RandomState(0).random_sample(120) < 0.5).astype(float)
    weight[logs.logger == 1] = 0
    weight[np.flatnonzero(logs.logger == 1)[:3]] = 1
    key, rows = np.arange(120) % 2, np.flatnonzero(weight)
    fitted = MultiLoggerIPS().fit(logs)
    found = fitted.evaluate(pi, sample_weight=weight).by(key)
    alone = MultiLoggerIPS().fit(logs[rows]).evaluate(pi[rows]).by(key[rows])
    for k in (0, 1):
        assert_allclose(found[k].value, alone[k].value, rtol=1e-12)
        assert_allclose(found[k].standard_error, alone[k].standard_error, rtol=1e-9)
