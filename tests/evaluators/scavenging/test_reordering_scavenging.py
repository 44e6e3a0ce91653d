# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause

from itertools import permutations

import numpy as np
import pytest
from numpy.testing import assert_allclose

from skope_ope import AttentionDecay, ReorderingScavenging, SlateLogs
from skope_ope.evaluators import ReorderingPolicy
from skope_ope.exceptions import ExplorationWarning, SupportWarning
from tests.evaluators.core.test_slate_target import Marginals
from tests.evaluators.scavenging._toys import (
    SL4_ATTENTION,
    SL4_SLATES,
    biased_pages,
    pages_of_two_visitors,
    sl4,
)

ATTENTION = np.array([1.0, 0.6, 0.4])
QUALITY = np.linspace(0.05, 0.5, 6)


def evaluate(logs, target, attention=SL4_ATTENTION, **settings):
    return (
        ReorderingScavenging(attention=attention, **settings).fit(logs).evaluate(target)
    )


@pytest.mark.filterwarnings("ignore::skope_ope.exceptions.LearnedRoundsWarning")
def test_four_pages():
    logs = sl4()
    rates = ReorderingPolicy().fit(logs)
    assert_allclose(evaluate(logs, rates).value, 1.4452129907, rtol=1e-10)
    assert evaluate(logs, rates.reorder(logs)).value == evaluate(logs, rates).value
    random = evaluate(logs, ReorderingPolicy("random").fit(logs))
    assert_allclose(random.value, 1.0883385577, rtol=1e-10)
    identity = evaluate(logs, SL4_SLATES)
    assert identity.value == 1
    assert_allclose(identity.standard_error, 0, atol=1e-15)


def test_random_is_the_mean_over_all_orders():
    logs = sl4()
    values = [
        evaluate(logs, SL4_SLATES[:, list(order)]).value
        for order in permutations(range(4))
    ]
    random = ReorderingPolicy("random").fit(logs)
    assert_allclose(evaluate(logs, random).value, np.mean(values))
    as_policy = Marginals(random.slot_marginals(logs))
    assert_allclose(evaluate(logs, as_policy).value, np.mean(values))


def test_the_sum_is_a_diagnostic():
    found = evaluate(sl4(), SL4_SLATES[:, ::-1])
    assert found.diagnostics["clicks"] == 6
    assert_allclose(found.diagnostics["unnormalized_sum"], 6 * found.value)
    assert_allclose(found.round_values.mean(), found.value)


@pytest.mark.parametrize("tilt", [1.0, -1.0])
def test_random_order_in_closed_form(tilt, global_random_seed):
    """mean(C) sum(q_i) / sum(C_i q_i): below 1 where good items sit in good slots."""
    logs = biased_pages(5000, ATTENTION, QUALITY, global_random_seed, tilt=tilt)
    expected = SlateLogs(
        logs.context, logs.slate, None, slot_reward=ATTENTION * QUALITY[logs.slate]
    )
    q = QUALITY[logs.slate].mean(axis=0)
    closed = ATTENTION.mean() * q.sum() / (ATTENTION @ q)
    random = ReorderingPolicy("random").fit(logs)
    assert_allclose(evaluate(expected, random, ATTENTION).value, closed)
    assert (closed < 1) == (tilt > 0)
    found = evaluate(logs, random, ATTENTION)
    assert abs(found.value - closed) < 4 * found.standard_error
    best = ReorderingPolicy(dict(enumerate(QUALITY))).fit(logs)
    assert evaluate(logs, best, ATTENTION).value > 1


def test_empty_slots_stay_empty():
    slate = np.array([[0, 1, -1], [2, -1, -1], [1, 2, 0]])
    clicks = np.array([[0, 1, 0], [1, 0, 0], [0, 0, 1]])
    logs = SlateLogs(np.zeros((3, 1)), slate, None, slot_reward=clicks)
    found = evaluate(logs, ReorderingPolicy("random").fit(logs), ATTENTION)
    assert_allclose(found.value, (0.8 / 0.6 + 1 + ATTENTION.mean() / 0.4) / 3)


def test_one_item_cannot_be_reordered():
    logs = SlateLogs(np.zeros((2, 1)), [[0], [1]], None, slot_reward=[[1], [3]])
    assert evaluate(logs, ReorderingPolicy({}), [0.7]).value == 1


@pytest.mark.parametrize("named", [False, True])
def test_an_item_that_is_on_a_page_twice(named):
    """The order as logged is worth 1, and another one what its slots are worth."""
    slate = np.array([[0, 1, 2], [2, 0, 1]] if named else [[0, 0, 2], [2, 0, 0]])
    names = {"item_id": np.array([list("aab")] * 2)} if named else {}
    clicks = np.array([[1, 1, 0], [0, 1, 0]])
    logs = SlateLogs(np.zeros((2, 1)), slate, None, slot_reward=clicks, **names)
    for same in (slate, slate[:, [0, 1, 2]], ReorderingPolicy({})):
        assert evaluate(logs, same, ATTENTION).value == 1
    up = ReorderingPolicy({"b" if named else 2: 1.0})
    # in page 0 the clicks of slots 0 and 1 move to slots 1 and 2
    truth = (0.6 / 1 + 0.4 / 0.6 + 1) / 3
    for new in (up, up.reorder(logs)):
        assert_allclose(evaluate(logs, new, ATTENTION).value, truth)
    if named:  # which of the two candidates of the item is shown does not matter
        other = np.array([[1, 0, 2], [2, 1, 0]])
        assert evaluate(logs, other, ATTENTION).value == 1
    random = evaluate(logs, ReorderingPolicy("random"), ATTENTION).value
    assert_allclose(random, ATTENTION.mean() * (1 + 2 / 0.6) / 3)
    with pytest.raises(ValueError, match="does not reorder the logged slate"):
        evaluate(logs, np.array([[0, 2, 2]] * 2), ATTENTION)


def test_no_clicks():
    logs = sl4(slot_reward=np.zeros((4, 4)))
    with pytest.warns(SupportWarning, match="no clicks, .* NaN"):
        value = evaluate(logs, SL4_SLATES)
    assert np.isnan(value.value) and np.isnan(value.standard_error)


def test_other_items_are_no_reordering():
    with pytest.raises(ValueError, match=r"\[0, 1, 2, 2\] at row 0, which does not"):
        evaluate(sl4(), np.tile([0, 1, 2, 2], (4, 1)))
    with pytest.raises(ValueError, match="does not reorder the logged slate"):
        evaluate(sl4(), SL4_SLATES[:, :3])
    with pytest.raises(
        ValueError, match=r"clicked item of row 0 with probability 0\.5"
    ):
        evaluate(sl4(), Marginals(np.full((4, 2, 4), 0.25)))


def test_groups_and_weights():
    logs = biased_pages(200, ATTENTION, QUALITY, 0)
    evaluator = ReorderingScavenging(attention=ATTENTION).fit(logs)
    target = logs.slate[:, ::-1]
    first = evaluator.evaluate(target).by(np.arange(200) % 2)[0]
    alone = evaluator.evaluate(target[::2], logs[::2])
    assert_allclose(first.value, alone.value)
    assert_allclose(first.standard_error, alone.standard_error)
    weight = np.arange(200) % 3
    weighted = evaluator.evaluate(target, sample_weight=weight)
    rows = np.repeat(np.arange(200), weight)
    assert_allclose(weighted.value, evaluator.evaluate(target[rows], logs[rows]).value)


@pytest.mark.theory
def test_error_with_estimated_attention(global_random_seed):
    """The bootstrap's standard error is the spread of the values of many logs."""
    values, errors = [], []
    for k in range(50):
        logs = biased_pages(3000, ATTENTION, QUALITY, 100 * global_random_seed + k)
        found = evaluate(
            logs,
            logs.slate[:, ::-1],
            AttentionDecay(),
            n_bootstrap=25,
            random_state=0,
        )
        values.append(found.value)
        errors.append(found.standard_error)
    ratio = np.mean(errors) / np.std(values, ddof=1)
    assert abs(ratio - 1) < 4 / np.sqrt(2 * 49)
    known = evaluate(logs, logs.slate[:, ::-1], ATTENTION)
    # estimated from the same clicks, the attention follows their noise: it cancels
    assert known.standard_error > 1.5 * np.mean(errors)


def test_slates_composed_for_the_visitor():
    """No harm where the attention is known; one that is estimated is warned of."""
    logs, _ = pages_of_two_visitors(4000, 0)
    settings = {"n_bootstrap": 10, "random_state": 0}
    known = evaluate(logs, logs.slate[:, ::-1], (1, 0.5, 0.25), **settings)
    assert not known.warnings and np.isnan(known.diagnostics["predictability_z"])
    with pytest.warns(ExplorationWarning) as found:
        value = evaluate(logs, logs.slate[:, ::-1], AttentionDecay(), **settings)
    assert found[0].message.value == value.diagnostics["predictability_z"] > 4
