# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Means of groups of rounds that are no values, of loggers that are pooled as one."""

import pickle
import warnings

import numpy as np
import pytest
from numpy.testing import assert_allclose

from skope_ope import MultiLoggerDR, MultiLoggerIPS
from skope_ope.exceptions import LoggerWarning
from tests._quiet import quiet
from tests.evaluators.multi_logger._toy import TOY, VALUE

NO_VALUES = "the means of 2 of 2 groups are not values of the policy"
BALANCED = (
    MultiLoggerIPS(pooling="balanced"),
    MultiLoggerIPS(pooling="balanced", self_normalized=True),
    MultiLoggerDR(pooling="balanced", reward_model=2.0),
    MultiLoggerDR(pooling="balanced", reward_model=2.0, self_normalized=True),
)


def population():
    """The toy's cells, weighted by how often each logger meets them."""
    rows = [(i, *cell) for i in range(2) for cell in TOY.cells]
    weight = [TOY.p[x] * TOY.loggers[i, x, a] for i, x, a in rows]
    return TOY.logs(rows, sample_weight=weight)


def doubts(result, key):
    """The warnings of loggers that values of groups come with."""
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        result.by(key)
    return [w.message for w in seen if w.category is LoggerWarning]


def drawn(n=2000, seed=0):
    """Rounds of the toy's loggers in turn, with coins as a third kind of labels."""
    rng = np.random.RandomState(seed)
    logger, x = np.arange(n) % 2, rng.randint(2, size=n)
    action = (rng.random_sample(n) > TOY.loggers[logger, x, 0]).astype(int)
    logs, pi = TOY.logs(np.column_stack([logger, x, action]))
    columns = {"x": x, "coin": rng.randint(7, size=n), "day": np.arange(n) // 400}
    return logs.with_columns(**columns), pi


def test_means_of_balanced_terms_by_logger_are_no_values():
    """Exact means: 3.16 and 13.15 where the policy is worth 8.2."""
    logs, pi = population()
    result = quiet(MultiLoggerIPS(pooling="balanced").fit(logs), pi)
    assert_allclose(result.value, VALUE)
    with pytest.warns(LoggerWarning, match=NO_VALUES) as seen:
        found = result.by("logger")
    assert_allclose([v.value for v in found.values()], [3.2646, 13.1354], atol=5e-5)
    [warned] = [w.message for w in seen if w.category is LoggerWarning]
    assert warned.value == 2 and seen[0].filename == __file__
    assert all(warned in v.warnings for v in found.values())
    again = pickle.loads(pickle.dumps(result))
    assert doubts(again, logs.logger)
    for pooling in ("naive", "weighted"):
        other = quiet(MultiLoggerIPS(pooling=pooling).fit(logs), pi)
        assert not doubts(other, "logger")
        assert_allclose([v.value for v in other.by("logger").values()], VALUE)


@pytest.mark.parametrize("evaluator", BALANCED, ids=str)
def test_every_balanced_form_warns(evaluator):
    logs, pi = drawn()
    result = quiet(evaluator.fit(logs), pi)
    assert doubts(result, "logger") and doubts(result, logs.logger * 10)
    assert doubts(result - quiet(evaluator.fit(logs), 1 - pi), "logger")
    assert not doubts(result - quiet(evaluator.fit(logs), 1 - pi), "coin")
    part = result.by("coin")[0]
    assert doubts(part, logs.logger[logs.columns["coin"] == 0])


@pytest.mark.parametrize("key", ["x", "coin", "action", "day"])
def test_groups_with_the_mixture_of_all_rounds_are_silent(key, global_random_seed):
    logs, pi = drawn(seed=global_random_seed)
    result = quiet(MultiLoggerIPS(pooling="balanced").fit(logs), pi)
    assert not doubts(result, key)


def test_days_on_which_other_loggers_acted(global_random_seed):
    """A logger that takes over in the middle of day 2."""
    logs, pi = drawn(seed=global_random_seed)
    order = np.argsort(logs.logger, kind="stable")
    logs, pi = logs[order], pi[order]
    day = np.arange(len(logs)) // 400
    result = quiet(MultiLoggerIPS(pooling="balanced").fit(logs), pi)
    [doubt] = doubts(result, day)
    assert doubt.value == 4  # not day 2, which has the mixture of the log


def test_loggers_that_are_alike_give_values():
    logs, pi = drawn()
    alike = logs.replace(logger_proba=np.tile(logs.propensity[:, None], 2))
    result = quiet(MultiLoggerIPS(pooling="balanced").fit(alike), pi)
    assert not doubts(result, "logger")


def test_groups_that_one_logger_serves(global_random_seed):
    """Users of one logger each, all in one of two lands."""
    rng = np.random.RandomState(global_random_seed)
    user, visit = np.divmod(np.arange(3000), 20)
    logger, x = user % 2, rng.randint(2, size=3000)
    action = (rng.random_sample(3000) > TOY.loggers[logger, x, 0]).astype(int)
    logs, pi = TOY.logs(np.column_stack([logger, x, action]), group=user)
    result = quiet(MultiLoggerIPS(pooling="balanced").fit(logs), pi)
    land = rng.randint(2, size=150)[user]
    assert not doubts(result, land)  # by chance one logger served more of them
    assert doubts(result, "group")
    assert not doubts(result, visit)
