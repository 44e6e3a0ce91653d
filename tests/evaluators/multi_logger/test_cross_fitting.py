# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Divergences of a fold from the other folds, with and without groups."""

import warnings
from itertools import product

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.model_selection import GroupKFold

from skope_ope import BanditLogs, MultiLoggerIPS
from skope_ope.exceptions import LoggerWarning
from tests.evaluators.multi_logger._logs import several

pytestmark = [  # of few rounds
    pytest.mark.filterwarnings("ignore::skope_ope.exceptions.SupportWarning"),
    pytest.mark.filterwarnings("ignore::skope_ope.exceptions.LowOverlapWarning"),
    pytest.mark.filterwarnings("ignore::skope_ope.exceptions.FewGroupsWarning"),
]
WANTED = np.array([0.4, 0.6])
MU = np.array([[0.5, 0.5], [0.3, 0.7], [0.6, 0.4]])


def per_logger(cross_fit):
    return MultiLoggerIPS(
        pooling="weighted", divergences="per_logger", cross_fit=cross_fit
    )


def rounds_of(n, group, seed=0):
    """`n` rounds of each of three loggers, one after the other."""
    rng = np.random.RandomState(seed)
    logger = np.repeat([0, 1, 2], n)
    action = (rng.random_sample(3 * n) < MU[logger, 1]).astype(int)
    logs = BanditLogs(
        np.zeros((3 * n, 1)),
        action,
        rng.normal(1, 1, 3 * n),
        actions=range(2),
        logger=logger,
        logger_proba=MU[:, action].T,
        group=group,
    )
    return logs, np.tile(WANTED, (3 * n, 1))


def by_hand(logs, pi, fold, estimate):
    """Value from `estimate(rows)`, the divergences of all loggers on some rows."""
    w = pi[np.arange(len(logs)), logs.action_index] / logs.propensity
    total = np.zeros(len(logs))
    for k in range(fold.max() + 1):
        inside = fold == k
        sizes = np.bincount(logs.logger_index[inside], minlength=3)
        s2 = estimate(w * logs.reward, ~inside)
        lam = inside.sum() / len(logs) / s2 / (sizes / s2).sum()
        total[inside] = lam[logs.logger_index[inside]]
    return (total * w * logs.reward).sum(), total


def own_variances(logs):
    def estimate(terms, rows):
        own = [terms[rows & (logs.logger == k)] for k in range(3)]
        s2 = np.array([t.var(ddof=1) if len(t) > 1 else np.nan for t in own])
        known = s2[np.isfinite(s2)]
        return np.where(np.isnan(s2), known.mean() if known.size else 1.0, s2)

    return estimate


def test_groups_are_held_out_together():
    group = np.random.RandomState(3).randint(0, 12, 300)
    logs, pi = several(group=group)
    result = per_logger(4).fit(logs).evaluate(pi)
    fold = np.empty(300, dtype=int)
    for k, (_, test) in enumerate(GroupKFold(4).split(logs, groups=group)):
        fold[test] = k
    value, rounds = by_hand(logs, pi, fold, own_variances(logs))
    assert_allclose(result.value, value, rtol=1e-10)
    shares = [rounds[logs.logger == k].sum() for k in range(3)]
    found = result.diagnostics["logger_shares"]
    assert_allclose([found[k] for k in range(3)], shares, rtol=1e-10)
    assert_allclose(result.round_values.mean(), result.value, rtol=1e-12)
    # other folds, other weights
    ungrouped = per_logger(4).fit(logs.replace(group=None)).score(pi)
    assert abs(ungrouped - result.value) > 1e-6


def test_a_logger_in_no_other_fold_takes_the_mean_of_the_others():
    # each group holds whole loggers: every fold is weighted evenly, none is dropped
    for group in (np.repeat([0, 1, 2], 30), np.repeat([0, 1, 0], 30)):
        logs, pi = rounds_of(30, group)
        with pytest.warns(
            LoggerWarning, match="of the other loggers' divergences"
        ) as seen:
            result = per_logger(5).fit(logs).evaluate(pi)
        assert len([w for w in seen if w.category is LoggerWarning]) == 3
        assert_allclose(result.value, MultiLoggerIPS().fit(logs).score(pi), rtol=1e-12)
        shares = result.diagnostics["logger_shares"]
        assert_allclose(list(shares.values()), 1 / 3)
    # logger 2 is in one fold only, together with others
    logs, pi = rounds_of(30, np.r_[np.arange(60) % 3, np.full(30, 1)])
    with pytest.warns(LoggerWarning, match="divergence of logger 2 cannot be") as seen:
        result = per_logger(3).fit(logs).evaluate(pi)
    assert len([w for w in seen if w.category is LoggerWarning]) == 1
    value, rounds = by_hand(logs, pi, logs.group, own_variances(logs))
    assert_allclose(result.value, value, rtol=1e-10)
    assert rounds[60:].sum() > 0.2
    found = result.diagnostics["logger_shares"]
    assert_allclose(found[2], rounds[60:].sum(), rtol=1e-10)


def test_pooled_divergences_know_of_every_logger():
    logs, pi = rounds_of(30, np.repeat([0, 1, 0], 30))
    evaluator = MultiLoggerIPS(pooling="weighted", cross_fit=2)
    result = evaluator.fit(logs).evaluate(pi)
    assert not any(isinstance(w, LoggerWarning) for w in result.warnings)
    assert_allclose(result.value, MultiLoggerIPS().fit(logs).score(pi), rtol=0.05)
    # unless nothing that the others did was possible for it
    alone = BanditLogs(
        np.zeros((40, 1)),
        np.repeat([0, 1], 20),
        np.arange(40.0),
        logger=np.repeat(["a", "b"], 20),
        logger_proba=np.repeat(np.eye(2), 20, axis=0),
        group=np.repeat([0, 1], 20),
    )
    half = np.full((40, 2), 0.5)
    with pytest.warns(LoggerWarning, match="of the other loggers' divergences"):
        found = evaluator.fit(alone).score(half)
    assert_allclose(found, MultiLoggerIPS().fit(alone).score(half), rtol=1e-12)


def test_grouped_cross_fitting_is_exactly_unbiased():
    """All logs of two loggers with three rounds each, one of them in another group.

    The other folds never hold two rounds of logger 0, and those of logger 1 depend on
    what is drawn: the mean over all logs is the value all the same.
    """
    mu, wanted = np.array([[0.5, 0.5], [0.2, 0.8]]), np.array([0.7, 0.3])
    reward = np.array([3.0, 1.0])
    logger = np.repeat([0, 1], 3)
    group = np.array([0, 0, 0, 0, 1, 1])
    mean = total = 0.0
    for actions in product([0, 1], repeat=6):
        action = np.array(actions)
        logs = BanditLogs(
            np.zeros((6, 1)),
            action,
            reward[action],
            actions=range(2),
            logger=logger,
            logger_proba=mu[:, action].T,
            group=group,
        )
        p = mu[logger, action].prod()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", LoggerWarning)
            result = per_logger(2).fit(logs).evaluate(np.tile(wanted, (6, 1)))
        mean, total = mean + p * result.value, total + p
    assert_allclose((mean, total), (wanted @ reward, 1), rtol=1e-12)


def test_single_rounds_tell_no_divergence():
    logs, pi = rounds_of(1, None)
    with pytest.warns(LoggerWarning, match="All rounds weigh the same") as seen:
        result = per_logger(None).fit(logs).evaluate(pi)
    assert len([w for w in seen if w.category is LoggerWarning]) == 3
    assert_allclose(result.value, MultiLoggerIPS().fit(logs).score(pi), rtol=1e-12)
