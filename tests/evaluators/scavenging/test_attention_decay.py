# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause

import pickle
from itertools import product

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.base import clone

from skope_ope import AttentionDecay, SlateLogs
from skope_ope.evaluators import dcg_attention
from skope_ope.evaluators.scavenging._attention_decay import (
    attention_coefficients,
    item_weights,
)
from skope_ope.evaluators.scavenging._pages import Tables
from skope_ope.exceptions import ExplorationWarning, LowOverlapWarning, SupportWarning
from tests.evaluators.scavenging._toys import (
    biased_pages,
    pages_of_two_visitors,
    s6,
    sl4,
)

TRUE = np.array([1.0, 0.6, 0.4])
# A good and a bad item; the good one is shown first more often.
SHOWN = np.array([[900.0, 520, 140], [100, 480, 860]])
QUALITY = np.array([0.2, 0.1])
EXPECTED = Tables(SHOWN, SHOWN * QUALITY[:, None] * TRUE)
METHODS = ("uniform", "min_variance", "equal_variance")


def test_dcg():
    assert_allclose(dcg_attention(4), (1, 0.630930, 0.5, 0.430677), atol=5e-7)
    assert_allclose(dcg_attention(3, base=10), 1 / np.log10([10, 11, 12]))
    for arguments in ((0,), (3, 1.0), (2.5,)):
        with pytest.raises(ValueError, match="must be"):
            dcg_attention(*arguments)


def test_naive_is_biased_low_at_expected_counts():
    assert_allclose(attention_coefficients(EXPECTED, "naive"), (1, 0.48, 0.24))


@pytest.mark.parametrize("method", METHODS)
def test_others_are_right_at_expected_counts(method):
    assert_allclose(attention_coefficients(EXPECTED, method), TRUE)


@pytest.mark.parametrize("method", METHODS)
def test_items_that_one_of_the_slots_never_showed(method):
    shown = np.vstack([SHOWN, [500, 0, 0], [0, 500, 500]])
    quality = np.append(QUALITY, [0.4, 0.4])
    tables = Tables(shown, shown * quality[:, None] * TRUE)
    assert_allclose(attention_coefficients(tables, method), TRUE)


def test_min_variance_against_a_grid():
    """Theorem 7: the weights minimise Var(sum_a alpha_a (CTR_ai + CTR_a1))."""
    shown = np.array([[900.0, 50], [40, 800], [300, 300]])
    p = np.array([[0.2, 0.1], [0.1, 0.05], [0.4, 0.2]])
    noise = (p * (1 - p) / shown).sum(axis=1)

    def variance(alpha):
        return (alpha**2 * noise).sum() / alpha.sum() ** 2

    # the smoothed shares of these clicks are p
    tables = Tables(shown, p * (shown + 2) - 1, None)
    found = variance(item_weights(tables, "min_variance")[:, 1])
    grid = np.linspace(0, 1, 101)
    best = min(
        variance(np.array([a, b, 1 - a - b]))
        for a, b in product(grid, grid)
        if a + b <= 1
    )
    assert found <= best
    assert_allclose(found, best, rtol=1e-3)
    for method in ("uniform", "equal_variance"):
        assert variance(item_weights(tables, method)[:, 1]) > found


@pytest.mark.parametrize("method", METHODS)
def test_recovers_known_coefficients(method, global_random_seed):
    attention = np.array([1.0, 0.7, 0.5, 0.3])
    quality = np.random.RandomState(0).uniform(0.05, 0.4, 12)
    logs = biased_pages(4000, attention, quality, global_random_seed, tilt=1.0)
    decay = AttentionDecay(method=method, n_bootstrap=60, random_state=0).fit(logs)
    found, error = decay.coefficients_, decay.standard_errors_
    assert found[0] == 1 and error[0] == 0
    assert (np.abs(found - attention)[1:] < 4 * error[1:]).all()


def test_no_clicks_at_all():
    with pytest.warns(SupportWarning, match="attention of slot 0 is NaN") as caught:
        found = AttentionDecay().fit(sl4(slot_reward=np.zeros((4, 4)))).coefficients_
    assert np.isnan(found).all()
    assert caught[0].message.value == 4


def test_revenue_is_weighted_by_default():
    logs = sl4(slot_reward=2.0 * (sl4().slot_reward > 0))
    with pytest.raises(ValueError, match=r"slot_reward holds 2\. Use .*equal_variance"):
        AttentionDecay(method="min_variance").fit(logs)
    expected = AttentionDecay().fit(sl4()).coefficients_
    assert_allclose(AttentionDecay().fit(logs).coefficients_, expected)
    for method in ("naive", "uniform", "equal_variance"):
        assert AttentionDecay(method=method).fit(logs).coefficients_[0] == 1


@pytest.mark.theory
def test_the_default_errs_less_where_items_have_few_impressions():
    """2,000 pages of 400 items: the estimated variances follow the clicks."""
    attention = np.array([1.0, 0.6, 0.4])
    quality = np.random.RandomState(0).beta(1.2, 10, 400)
    errors = []
    for seed in range(40):
        logs = biased_pages(2000, attention, quality, seed)
        decays = AttentionDecay(), AttentionDecay(method="min_variance")
        errors.append([d.fit(logs).coefficients_[1:] - attention[1:] for d in decays])
    errors = np.array(errors)  # (logs, methods, slots)
    here, other = np.sqrt((errors**2).mean(axis=(0, 2)))
    assert here < 0.95 * other
    bias = errors.mean(axis=2)
    noise = bias.std(axis=0, ddof=1) / np.sqrt(len(bias))
    assert abs(bias[:, 0].mean()) < 4 * noise[0]
    lower = bias[:, 0] - bias[:, 1]
    assert lower.mean() > 0.01 + 4 * lower.std(ddof=1) / np.sqrt(len(lower))


def test_empty_slots_are_no_impressions():
    full = biased_pages(500, (1, 0.5), np.array([0.3, 0.6, 0.9]), 0)
    slate = np.column_stack([full.slate, np.full(500, -1)])
    clicks = np.column_stack([full.slot_reward, np.zeros(500)])
    logs = SlateLogs(full.context, slate, None, slot_reward=clicks)
    with pytest.warns(SupportWarning, match="slot 2 is NaN"):
        found = AttentionDecay().fit(logs).coefficients_
    assert_allclose(found[:2], AttentionDecay().fit(full).coefficients_)


def test_bootstrap_samples_without_clicks():
    """One sample in eight has neither of the two clicked pages of 60."""
    clicks = np.zeros((60, 2))
    clicks[0] = clicks[1] = 1
    slate = [[0, 1], [1, 0]] * 30
    logs = SlateLogs(np.zeros((60, 1)), slate, None, slot_reward=clicks)
    decay = AttentionDecay(method="uniform", n_bootstrap=50, random_state=0)
    with pytest.warns(LowOverlapWarning, match="of 50 bootstrap samples") as caught:
        decay.fit(logs)
    assert np.isnan(decay.standard_errors_).all()
    assert np.isfinite(decay.coefficients_).all()
    # a sample has neither of the pages with probability (1 - 2 / 60) ** 60 = .13
    assert 1 <= caught[0].message.value <= 50 * (0.13 + 4 * np.sqrt(0.13 / 50))
    assert caught[0].filename == __file__ and len(caught) == 1
    with pytest.raises(ValueError, match="'n_bootstrap' parameter"):
        AttentionDecay(n_bootstrap=1).fit(logs)


def test_slates_composed_for_the_visitor():
    logs, _ = pages_of_two_visitors(4000, 0)
    with pytest.warns(ExplorationWarning, match="logged item can be") as found:
        decay = AttentionDecay().fit(logs)
    assert found[0].message.value == decay.predictability_.z > 4
    assert found[0].filename == __file__
    assert np.isnan(
        AttentionDecay().fit(logs[logs.context[:, 0] == 1]).predictability_.z
    )


def test_is_an_estimator():
    decay = AttentionDecay(method="uniform", n_bootstrap=5, random_state=3)
    logs = biased_pages(100, (1, 0.5), np.array([0.3, 0.6, 0.9]), 0)
    copy = clone(decay).fit(logs)
    assert copy.get_params() == decay.get_params()
    again = pickle.loads(pickle.dumps(copy))
    assert_allclose(again.coefficients_, copy.coefficients_)
    assert_allclose(copy.standard_errors_, decay.fit(logs).standard_errors_)
    assert copy.n_slots_ == 2 and copy.n_features_in_ == 1
    with pytest.raises(ValueError, match="method"):
        AttentionDecay(method="best").fit(sl4())
    with pytest.raises(TypeError, match="SlateLogs, got BanditLogs"):
        AttentionDecay().fit(s6())
    with pytest.raises(ValueError, match="slot_reward="):
        AttentionDecay().fit(SlateLogs(np.zeros((1, 1)), [[0]], [1.0]))
