# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Standard errors of logs with groups, nested in loggers or met by several."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from skope_ope import MultiLoggerDR, MultiLoggerIPS
from skope_ope.exceptions import FewGroupsWarning
from tests.evaluators.multi_logger._logs import POOLINGS, several

pytestmark = [
    pytest.mark.filterwarnings("ignore::skope_ope.exceptions.LowOverlapWarning"),
    pytest.mark.filterwarnings("ignore::skope_ope.exceptions.PropensityWarning"),
]
GIVEN = {0: 1.0, 1: 2.0, 2: 5.0}
LAWS = {"nested": lambda u, g: u % 50 + 50 * g, "crossing": lambda u, g: u % 80}


def grouped(law, n=600):
    """Logs in which users have a few rounds each."""
    logs, pi = several(n=n)
    users = np.random.RandomState(1).randint(0, 10_000, n)
    return logs.replace(group=LAWS[law](users, logs.logger)), pi


def by_hand(logs, pi, pooling, law):
    """Value and clustered standard error, with loops over loggers and groups."""
    target, code = pi[np.arange(len(logs)), logs.action_index], logs.logger_index
    sizes = np.bincount(code)
    p = logs.propensity
    if pooling == "balanced":
        p = logs.logger_proba @ (sizes / len(logs))
    t, lam = target / p * logs.reward, np.full(3, 1 / len(logs))
    if pooling == "weighted":
        lam = 1 / np.array(list(GIVEN.values()))
        lam /= sizes @ lam
    influence = np.zeros(len(logs))
    for k in range(3):
        own = code == k
        influence[own] = lam[k] * (t[own] - t[own].mean())
        if law == "nested":  # loggers are samples of their own
            G = len(np.unique(logs.group[own]))
            influence[own] *= np.sqrt(G / (G - 1))
    if law == "crossing":
        G = len(np.unique(logs.group))
        influence *= np.sqrt(G / (G - 1))
    sums = np.bincount(logs.group, influence)
    return (lam[code] * t).sum(), np.sqrt(sums @ sums)


@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize("pooling", POOLINGS)
def test_against_loops(pooling, law):
    logs, pi = grouped(law)
    evaluator = MultiLoggerIPS(pooling=pooling, divergences=GIVEN)
    result = evaluator.fit(logs).evaluate(pi)
    value, error = by_hand(logs, pi, pooling, law)
    assert_allclose(result.value, value, rtol=1e-12)
    assert_allclose(result.standard_error, error, rtol=1e-10)
    groups = len(np.unique(logs.group))
    assert result.diagnostics["n_groups"] == groups
    assert result.degrees_of_freedom == groups - (3 if law == "nested" else 1)
    independent = evaluator.fit(logs.replace(group=None)).evaluate(pi)
    effect = (error / independent.standard_error) ** 2
    assert_allclose(result.diagnostics["design_effect"], effect, rtol=1e-9)


@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize(
    "params",
    [{}, {"divergences": "per_logger"}, {"cross_fit": 3}, {"self_normalized": True}],
    ids=str,
)
def test_every_round_in_a_group_of_its_own_is_no_group(params, law):
    logs, pi = several(n=300)
    alone = logs.replace(group=np.arange(300))
    for cls in (MultiLoggerIPS, MultiLoggerDR):
        evaluator = cls(pooling="weighted", **params)
        if "cross_fit" in params:  # groups are held out otherwise than rounds
            evaluator.set_params(divergences="per_logger")
            found = evaluator.fit(alone).evaluate(pi)
            assert_allclose(found.diagnostics["design_effect"], 1, rtol=0.05)
            continue
        found, expected = (evaluator.fit(x).evaluate(pi) for x in (alone, logs))
        if cls is MultiLoggerIPS:  # the folds of a model are others
            assert_allclose(found.value, expected.value, rtol=1e-12)
            assert_allclose(found.standard_error, expected.standard_error, rtol=1e-9)
        assert_allclose(found.diagnostics["design_effect"], 1, rtol=1e-9)


@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize("pooling", POOLINGS)
def test_repeated_rounds_tell_no_more(pooling, law):
    """Copies of a round in one group leave the clustered error alone."""
    logs, pi = several(n=200)
    logs = logs.replace(group=np.arange(200) % 60 if law == "crossing" else None)
    if law == "nested":
        logs = logs.replace(group=np.arange(200) % 20 + 20 * logs.logger_index)
    rows = np.repeat(np.arange(200), 3)
    evaluator = MultiLoggerIPS(pooling=pooling, divergences=GIVEN)
    once, thrice = (
        evaluator.fit(x).evaluate(y) for x, y in ((logs, pi), (logs[rows], pi[rows]))
    )
    assert_allclose(thrice.value, once.value, rtol=1e-12)
    assert_allclose(thrice.standard_error, once.standard_error, rtol=1e-9)
    assert thrice.degrees_of_freedom == once.degrees_of_freedom


@pytest.mark.parametrize("law", LAWS)
def test_a_difference_is_paired_within_groups(law):
    logs, pi = grouped(law)
    other = np.roll(pi, 1, axis=1)
    fitted = MultiLoggerIPS(pooling="balanced").fit(logs)
    difference = fitted.evaluate(pi) - fitted.evaluate(other)
    first, second = (by_hand(logs, x, "balanced", law)[0] for x in (pi, other))
    assert_allclose(difference.value, first - second, rtol=1e-9)
    # IPS is linear in the policy
    _, error = by_hand(logs, pi - other, "balanced", law)
    assert_allclose(difference.standard_error, error, rtol=1e-9)


def test_a_logger_with_one_group_joins_another():
    logs, pi = several(n=300)
    group = np.where(logs.logger_index == 1, 1000, np.arange(300) // 2)
    logs = logs.replace(group=group)
    with pytest.warns(FewGroupsWarning) as caught:
        result = MultiLoggerIPS().fit(logs).evaluate(pi)
    assert len(caught) == 1
    assert np.isfinite(result.standard_error)
    alone = logs.replace(group=np.where(logs.logger_index == 1, 1000, 0))
    with pytest.warns(FewGroupsWarning):
        result = MultiLoggerIPS().fit(alone).evaluate(pi)
    assert result.degrees_of_freedom <= 2


@pytest.mark.filterwarnings("ignore::skope_ope.exceptions.FewGroupsWarning")
def test_values_of_rows_keep_the_groups():
    logs, pi = grouped("crossing")
    fitted = MultiLoggerIPS().fit(logs)
    key = np.arange(600) % 2
    rows = np.flatnonzero(key == 0)
    found = fitted.evaluate(pi).by(key)[0]
    expected = MultiLoggerIPS().fit(logs[rows]).evaluate(pi[rows])
    assert_allclose(found.value, expected.value, rtol=1e-12)
    assert_allclose(found.standard_error, expected.standard_error, rtol=1e-9)
    assert found.degrees_of_freedom == expected.degrees_of_freedom
