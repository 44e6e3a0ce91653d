# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause

import numpy as np
import pytest
from numpy.testing import assert_allclose

from skope_ope import IPS, SNIPS, DoublyRobust
from skope_ope.evaluators.core._engine import TermStore
from skope_ope.evaluators.core._jobs import (
    JobTerms,
    evaluate_jobs,
    observers_of,
    rerun,
    run_together,
)
from skope_ope.evaluators.core._positive_rounds import PositiveRounds
from skope_ope.evaluators.core._target import Target
from tests._worlds import d8, d8_logs

pytestmark = pytest.mark.filterwarnings("ignore::skope_ope.exceptions.OPEWarning")

D8, LOGS = d8(), d8_logs()
W = D8.pi[np.arange(8), D8.action] / D8.propensity


def prepared(positive, *evaluators):
    target = Target(D8.pi, LOGS)
    return [e.fit(LOGS)._prepare(target, positive) for e in evaluators]


def test_one_pass_gives_what_each_evaluator_gives_alone():
    positive = PositiveRounds(LOGS)
    evaluators = [IPS(), SNIPS(), IPS(cmax=2.0), DoublyRobust(reward_model="q_hat")]
    jobs = prepared(positive, *evaluators)
    assert list(observers_of(jobs, positive)) == ["support"]
    for evaluator, found in zip(evaluators, evaluate_jobs(jobs, positive), strict=True):
        alone = evaluator.fit(LOGS).evaluate(D8.pi)
        assert found.value == alone.value
        assert found.standard_error == alone.standard_error
        assert found.estimator == type(evaluator).__name__


def test_terms_of_rewards_less_an_offset():
    positive = PositiveRounds(LOGS)
    jobs = prepared(positive, SNIPS(), IPS())
    evaluate_jobs(jobs, positive)
    moved, plain = (JobTerms(job, 0.25) for job in jobs)
    assert moved.positive is positive
    assert_allclose(moved(), [W * (D8.reward - 0.25), W], rtol=1e-14)
    assert_allclose(plain(), [W * D8.reward], rtol=1e-14)  # it does not move with them


def test_terms_of_several_jobs_come_block_by_block():
    positive = PositiveRounds(LOGS)
    jobs = prepared(positive, SNIPS(), DoublyRobust(reward_model="q_hat"))
    evaluate_jobs(jobs, positive)
    sources, seen = [JobTerms(job, 0.0) for job in jobs], []
    run_together(sources, lambda *block: seen.append(block), 0.0)
    [(low, high, terms)] = seen
    assert (low, high) == (0, 8)
    for source, found in zip(sources, terms, strict=True):
        assert_allclose(found, source(), rtol=1e-14)


def test_a_second_pass_has_sums_of_its_own():
    positive = PositiveRounds(LOGS)
    [job] = prepared(positive, SNIPS())
    evaluate_jobs([job], positive)
    first = list(job.sums.first)
    again = rerun(job, positive, 0.5)
    assert again is not job
    assert again.sums is not job.sums
    assert again.sums.offset == 0.5
    assert job.sums.first == first
    store = TermStore(8)
    assert rerun(job, positive, 0.0, store).sums is store
    assert store.terms.shape == (2, 8)
