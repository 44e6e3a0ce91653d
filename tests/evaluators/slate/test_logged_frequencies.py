# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Loggers that are known by what they showed: all alike, or as often as seen."""

import warnings

import numpy as np
import pytest
from numpy.testing import assert_allclose

from skope_ope import (
    IndependentSlotIPS,
    PlackettLuceSlatePolicy,
    PseudoInverse,
    SlateDoublyRobust,
    SlateIPS,
    SlateLogs,
)
from skope_ope.exceptions import PropensityWarning
from skope_ope.policies import EmpiricalSlatePolicy
from tests._quiet import quiet

PHI = np.array([[0.6, 0.2, 0.1], [0.3, 0.15, 0.05]])
TARGET = np.array([0, 1])
VALUE = PHI[0, 0] + PHI[1, 1]
REFUTED = "assumes equally likely slates, but the logged slates are not"


def logged(n_rounds, weights, seed, n_queries=1, **fields):
    """Rankings of two of three, and clicks whose means are sums over slots."""
    rng = np.random.RandomState(seed)
    query = np.arange(n_rounds) % n_queries
    empty = np.full((n_rounds, 2), -1)
    blank = SlateLogs(query[:, None], empty, np.zeros(n_rounds), n_candidates=3)
    slate = PlackettLuceSlatePolicy(np.array(weights), 2).sample(blank, rng)
    clicks = rng.random_sample((n_rounds, 2)) < PHI[np.arange(2), slate]
    clicks = clicks.astype(float)
    logs = SlateLogs(
        query[:, None].astype(float),
        slate,
        slot_reward=clicks,
        n_candidates=3,
        **fields,
    )
    return logs.with_columns(query=query), np.tile(TARGET, (n_rounds, 1))


def with_logger(logs, **settings):
    """Logs with the logger that is known by their slates."""
    seen = EmpiricalSlatePolicy.seen_in(logs, **settings)
    return logs.replace(logging_policy=seen)


def doubts(evaluator, target, logs):
    """The warnings that refute the logger."""
    found = quiet(evaluator.fit(logs), target).warnings
    return [w for w in found if REFUTED in str(w)]


def test_frequencies_are_the_default_and_unbiased_where_all_alike_is_not():
    errors = []
    for seed in range(30):
        logs, target = logged(600, [1.0, 2.0, 4.0], seed)
        both = with_logger(logs, by="query"), with_logger(logs, frequencies=False)
        values = [quiet(PseudoInverse().fit(one), target).value for one in both]
        errors.append(np.array(values) - VALUE)
    errors = np.array(errors)
    noise = errors.std(axis=0, ddof=1) / np.sqrt(len(errors))
    assert abs(errors[:, 0].mean()) < 4 * noise[0]
    assert abs(errors[:, 1].mean()) > 0.1 + 4 * noise[1]


@pytest.mark.few_cases(2)
@pytest.mark.parametrize(
    "evaluator",
    [
        PseudoInverse(),
        PseudoInverse(self_normalized=True),
        SlateIPS(),
        SlateDoublyRobust(),
        IndependentSlotIPS(),
    ],
    ids=str,
)
def test_counts_that_refute_all_alike_are_told(evaluator):
    logs, target = logged(600, [1.0, 2.0, 4.0], 0)
    alike = with_logger(logs, frequencies=False)
    evaluator.fit(alike)
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        result = evaluator.evaluate(target)
    (warned,) = [w.message for w in seen if REFUTED in str(w.message)]
    assert isinstance(warned, PropensityWarning) and warned in result.warnings
    assert warned.value > np.log(1000)
    assert "of the 600 rounds, not 1/6" in str(warned)
    assert not doubts(evaluator, target, with_logger(logs))
    # slates that a user lists without probabilities
    given = EmpiricalSlatePolicy(np.unique(logs.slate, axis=0))
    assert doubts(evaluator, target, logs.replace(logging_policy=given))


def test_silence_where_the_logger_draws_alike(global_random_seed):
    logs, target = logged(2000, [1.0, 1.0, 1.0], global_random_seed, n_queries=40)
    for settings in ({}, {"by": "query"}):
        one = with_logger(logs, frequencies=False, **settings)
        assert not doubts(PseudoInverse(), target, one)
    logs, target = logged(2000, [1.0, 2.0, 4.0], global_random_seed, n_queries=40)
    one = with_logger(logs, frequencies=False, by="query")
    (warned,) = doubts(PseudoInverse(), target, one)
    assert "rounds of " in str(warned)


def test_what_is_no_logger_is_not_judged():
    """A list as the target, and a logger whose probabilities are recorded."""
    logs, _ = logged(600, [1.0, 2.0, 4.0], 0)
    every = EmpiricalSlatePolicy(np.unique(logs.slate, axis=0))
    known = logs.replace(logging_policy=PlackettLuceSlatePolicy([1.0, 2.0, 4.0], 2))
    assert not doubts(PseudoInverse(), every, known)
    proba = known.logging_policy.slate_proba(known)
    recorded = logs.replace(logging_policy=every, propensity=proba)
    assert not doubts(SlateIPS(), every, recorded)
    assert doubts(PseudoInverse(), every, recorded)
    labelled = EmpiricalSlatePolicy(
        {0: every.slates, 1: every.slates}, {0: None, 1: np.full(6, 1 / 6)}, by="query"
    )
    assert doubts(PseudoInverse(), every, logs.replace(logging_policy=labelled))


def test_sessions_that_repeat_one_slate():
    """Thirty users see their slate twenty times each: counts differ by chance."""
    first, _ = logged(30, [1.0, 1.0, 1.0], 0)
    rows = np.repeat(np.arange(30), 20)
    logs = first[rows].replace(group=rows)
    target = np.tile(TARGET, (600, 1))
    assert not doubts(
        PseudoInverse(), target, with_logger(logs, frequencies=False, by=None)
    )
    alone = logs.replace(group=None)
    assert doubts(PseudoInverse(), target, with_logger(alone, frequencies=False))


def test_frequencies_of_the_same_rounds_are_least_squares():
    """Label by label, where the rounds of a label tell what the policy wants."""
    logs, target = logged(800, [1.0, 2.0, 4.0], 0, n_queries=4)
    value = quiet(PseudoInverse().fit(with_logger(logs, by="query")), target).value
    expected = 0.0
    for query in range(4):
        rows = logs.columns["query"] == query
        design = np.zeros((rows.sum(), 6))
        for slot in range(2):
            design[np.arange(len(design)), 3 * slot + logs.slate[rows, slot]] = 1
        coefficients = np.linalg.lstsq(design, logs.reward[rows], rcond=None)[0]
        expected += (coefficients[0] + coefficients[4]) / 4
    assert_allclose(value, expected, rtol=1e-9)


def test_labels_of_few_rounds_leave_rounds_out():
    """What two rounds of a label tell is hardly ever what the policy wants."""
    logs, target = logged(600, [1.0, 2.0, 4.0], 0, n_queries=300)
    result = quiet(PseudoInverse().fit(with_logger(logs, by="query")), target)
    assert result.diagnostics["outside_range_share"] > 0.8
    assert any("are left out" in str(w) for w in result.warnings)
    whole = quiet(SlateIPS().fit(with_logger(logs, by="query")), target)
    assert whole.value < 0.5 * VALUE
    assert any("the estimate leaves them out" in str(w) for w in whole.warnings)
