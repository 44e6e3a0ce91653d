# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Clicks by position: the value of other pages, and of other orders of the same."""

from itertools import permutations

import numpy as np
import pytest
from numpy.testing import assert_allclose

from skope_ope import (
    AttentionDecay,
    ExplorationScavenging,
    PositionScavenging,
    ReorderingScavenging,
    SlateLogs,
)
from skope_ope.evaluators import ReorderingPolicy
from skope_ope.exceptions import ExplorationWarning, SupportWarning
from tests.evaluators.scavenging._toys import (
    SL4_ATTENTION,
    SL4_SLATES,
    Marginals,
    biased_pages,
    pages_of_two_visitors,
    sl4,
)
from tests.evaluators.slate._worlds import showed

TARGET = np.tile([0, 1, 2, 3], (4, 1))
ATTENTION = np.array([1.0, 0.6, 0.4])
QUALITY = np.linspace(0.05, 0.5, 6)


def evaluate(logs, target, attention=SL4_ATTENTION, **settings):
    scavenger = PositionScavenging(attention=attention, **settings)
    return scavenger.fit(logs).evaluate(target)


def test_four_pages():
    for pooled, expected in ((False, 2.1723560616), (True, 1.9609329641)):
        for scale in (1, 3):  # that of the attention does not matter
            attention = np.multiply(scale, SL4_ATTENTION)
            found = evaluate(sl4(), TARGET, attention, pooled=pooled).value
            assert_allclose(found, expected, rtol=1e-10)
    for two in ([1, 0], [1, 0, -1, -1]):
        found = evaluate(sl4(), np.tile(two, (4, 1))).value
        assert_allclose(found, 1.6267045977, rtol=1e-10)


def test_a_random_policy_is_the_mean_of_deterministic_ones():
    slates = (TARGET, TARGET[:, ::-1])
    proba = sum((s[:, :, None] == np.arange(4)).astype(float) for s in slates) / 2
    found = evaluate(sl4(), Marginals(proba))
    parts = [evaluate(sl4(), s) for s in slates]
    assert_allclose(found.value, np.mean([p.value for p in parts]))
    assert_allclose(found.round_values, np.mean([p.round_values for p in parts], 0))


def expected_clicks(logs):
    """The same pages, with expected clicks in place of clicks."""
    clicks = ATTENTION * QUALITY[logs.slate]
    return SlateLogs(logs.context, logs.slate, None, slot_reward=clicks)


def test_exact_where_the_assumption_holds():
    logs = expected_clicks(biased_pages(200, ATTENTION, QUALITY, 0, tilt=0.5))
    target = np.tile([5, 0, 3], (200, 1))
    truth = ATTENTION @ QUALITY[[5, 0, 3]]
    for pooled in (False, True):
        value = evaluate(logs, target, ATTENTION, pooled=pooled)
        assert_allclose(value.value, truth)


@pytest.mark.parametrize("pooled", [False, True])
def test_truth_and_error(pooled, global_random_seed):
    logs = biased_pages(3000, ATTENTION, QUALITY, global_random_seed)
    truth = ATTENTION @ QUALITY[[5, 4, 3]]
    value = evaluate(logs, np.tile([5, 4, 3], (3000, 1)), ATTENTION, pooled=pooled)
    assert abs(value.value - truth) < 4 * value.standard_error
    assert_allclose(value.round_values.mean(), value.value)
    # the whole-slate form asks for more: the same slate, by chance
    direct = ExplorationScavenging().fit(logs).evaluate(np.tile([5, 4, 3], (3000, 1)))
    assert value.standard_error < direct.standard_error
    # the bootstrap agrees with the linearised error
    few, target = logs[:2000], np.tile([5, 4, 3], (2000, 1))
    drawn = {"n_bootstrap": 300, "random_state": 0}
    known, drawn = (
        evaluate(few, target, ATTENTION, pooled=pooled, **given)
        for given in ({}, drawn)
    )
    assert drawn.value == known.value
    assert abs(drawn.standard_error / known.standard_error - 1) < 4 / np.sqrt(600)


def test_items_that_were_never_shown():
    logs = sl4(n_candidates=6)
    target = np.tile([0, 5], (4, 1))
    with pytest.warns(SupportWarning, match="38.02% of its attention") as caught:
        value = evaluate(logs, target)
    assert_allclose(caught[0].message.value, 0.613387 / 1.613387)
    assert_allclose(value.value, 2 * evaluate(sl4(), target[:, :1]).value / 2)
    with pytest.warns(SupportWarning) as caught:
        assert np.isnan(evaluate(logs, np.full((4, 2), [4, 5])).value)
    assert "has no estimate" in str(caught[-1].message)
    with pytest.warns(SupportWarning, match="NaN"):  # nothing is wanted
        assert np.isnan(evaluate(sl4(), np.full((4, 2), -1)).value)
    with pytest.raises(ValueError, match="fills 5 slots, but the attention of 4"):
        evaluate(sl4(), np.tile([0, 1, 2, 3, -1], (4, 1)))


@pytest.mark.parametrize("named", [False, True])
def test_a_page_that_shows_an_item_twice(named):
    """It is worth the sum over its slots, from expected clicks, however it is said."""
    quality, attention = np.array([0.4, 0.1]), np.array([1.0, 0.5, 0.25])
    slate = np.array([[0, 0, 2], [2, 0, 0], [0, 2, 0], [2, 0, 0]])
    if named:
        slate = np.array([[0, 1, 2], [2, 1, 0], [1, 2, 0], [2, 1, 1]])
    clicks = attention * quality[(slate == 2).astype(int)]
    names = np.array([list("aab")] * 4) if named else None
    logs = showed(slate, n_candidates=3, slot_reward=clicks, item_id=names)
    assert_allclose(evaluate(logs, slate, attention).value, clicks.sum() / 4)
    policy = ReorderingPolicy({"a" if named else 0: 1.0})
    new = policy.reorder(logs)
    truth = (attention * quality[(new == 2).astype(int)]).sum() / 4
    for target in (policy, new, Marginals(policy.slot_marginals(logs))):
        assert_allclose(evaluate(logs, target, attention).value, truth)


def test_attention_that_is_estimated():
    logs = biased_pages(3000, ATTENTION, QUALITY, 3)
    target = np.tile([5, 4, 3], (3000, 1))
    settings = {"n_bootstrap": 40, "random_state": 0}
    found = evaluate(logs, target, AttentionDecay(), **settings)
    known = evaluate(logs, target, AttentionDecay().fit(logs).coefficients_)
    assert_allclose(found.value, known.value)
    assert len(found.replicates) == 40 and known.replicates is None
    truth = ATTENTION @ QUALITY[[5, 4, 3]]
    assert abs(found.value - truth) < 4 * found.standard_error


@pytest.mark.parametrize("attention", [(1, 0.5, 0.25), AttentionDecay()])
def test_slates_composed_for_the_visitor(attention):
    logs, truth = pages_of_two_visitors(4000, 0)
    target = np.tile([0, 1, 2], (4000, 1))
    evaluator = PositionScavenging(attention=attention, n_bootstrap=20, random_state=0)
    with pytest.warns(ExplorationWarning, match="logging_policy=.*SlateIPS") as found:
        value = evaluator.fit(logs).evaluate(target)
    assert len(found) == 1 and found[0].message in value.warnings
    assert found[0].message.value == value.diagnostics["predictability_z"] > 4
    assert abs(value.value - truth) > 4 * value.standard_error  # hence the warning
    # other logs are asked anew; on visitors of one kind there is nothing to ask
    same = logs[logs.context[:, 0] == 0]
    evaluator = PositionScavenging(attention=(1, 0.5, 0.25)).fit(same)
    value = evaluator.evaluate(target[: len(same)])
    assert not value.warnings and np.isnan(value.diagnostics["predictability_z"])
    with pytest.warns(ExplorationWarning):
        evaluator.evaluate(target, logs)


def reordered(logs, target, attention=SL4_ATTENTION, **settings):
    scavenger = ReorderingScavenging(attention=attention, **settings)
    return scavenger.fit(logs).evaluate(target)


@pytest.mark.filterwarnings("ignore::skope_ope.exceptions.LearnedRoundsWarning")
def test_four_pages_in_other_orders():
    logs = sl4()
    rates = ReorderingPolicy().fit(logs)
    assert_allclose(reordered(logs, rates).value, 1.4452129907, rtol=1e-10)
    assert reordered(logs, rates.reorder(logs)).value == reordered(logs, rates).value
    random = reordered(logs, ReorderingPolicy("random").fit(logs))
    assert_allclose(random.value, 1.0883385577, rtol=1e-10)
    identity = reordered(logs, SL4_SLATES)
    assert identity.value == 1
    assert_allclose(identity.standard_error, 0, atol=1e-15)
    # random is the mean over all orders
    orders = [SL4_SLATES[:, list(order)] for order in permutations(range(4))]
    mean = np.mean([reordered(logs, order).value for order in orders])
    random = ReorderingPolicy("random").fit(logs)
    for policy in (random, Marginals(random.slot_marginals(logs))):
        assert_allclose(reordered(logs, policy).value, mean)
    # the sum is a diagnostic
    found = reordered(sl4(), SL4_SLATES[:, ::-1])
    assert found.diagnostics["clicks"] == 6
    assert_allclose(found.diagnostics["unnormalized_sum"], 6 * found.value)
    assert_allclose(found.round_values.mean(), found.value)


@pytest.mark.parametrize("tilt", [1.0, -1.0])
def test_random_order_in_closed_form(tilt, global_random_seed):
    """mean(C) sum(q_i) / sum(C_i q_i): below 1 where good items sit in good slots."""
    logs = biased_pages(5000, ATTENTION, QUALITY, global_random_seed, tilt=tilt)
    q = QUALITY[logs.slate].mean(axis=0)
    closed = ATTENTION.mean() * q.sum() / (ATTENTION @ q)
    random = ReorderingPolicy("random").fit(logs)
    assert_allclose(reordered(expected_clicks(logs), random, ATTENTION).value, closed)
    assert (closed < 1) == (tilt > 0)
    found = reordered(logs, random, ATTENTION)
    assert abs(found.value - closed) < 4 * found.standard_error
    best = ReorderingPolicy(dict(enumerate(QUALITY))).fit(logs)
    assert reordered(logs, best, ATTENTION).value > 1


def test_empty_slots_and_single_items_stay():
    slate = np.array([[0, 1, -1], [2, -1, -1], [1, 2, 0]])
    clicks = np.array([[0, 1, 0], [1, 0, 0], [0, 0, 1]])
    logs = SlateLogs(np.zeros((3, 1)), slate, None, slot_reward=clicks)
    found = reordered(logs, ReorderingPolicy("random").fit(logs), ATTENTION)
    assert_allclose(found.value, (0.8 / 0.6 + 1 + ATTENTION.mean() / 0.4) / 3)
    # one item cannot be reordered
    logs = SlateLogs(np.zeros((2, 1)), [[0], [1]], None, slot_reward=[[1], [3]])
    assert reordered(logs, ReorderingPolicy({}), [0.7]).value == 1


@pytest.mark.parametrize("named", [False, True])
def test_an_item_that_is_on_a_page_twice(named):
    """The order as logged is worth 1, and another one what its slots are worth."""
    slate = np.array([[0, 1, 2], [2, 0, 1]] if named else [[0, 0, 2], [2, 0, 0]])
    names = {"item_id": np.array([list("aab")] * 2)} if named else {}
    clicks = np.array([[1, 1, 0], [0, 1, 0]])
    logs = SlateLogs(np.zeros((2, 1)), slate, None, slot_reward=clicks, **names)
    for same in (slate, slate[:, [0, 1, 2]], ReorderingPolicy({})):
        assert reordered(logs, same, ATTENTION).value == 1
    up = ReorderingPolicy({"b" if named else 2: 1.0})
    # in page 0 the clicks of slots 0 and 1 move to slots 1 and 2
    truth = (0.6 / 1 + 0.4 / 0.6 + 1) / 3
    for new in (up, up.reorder(logs)):
        assert_allclose(reordered(logs, new, ATTENTION).value, truth)
    if named:  # which of the two candidates of the item is shown does not matter
        other = np.array([[1, 0, 2], [2, 1, 0]])
        assert reordered(logs, other, ATTENTION).value == 1
    random = reordered(logs, ReorderingPolicy("random"), ATTENTION).value
    assert_allclose(random, ATTENTION.mean() * (1 + 2 / 0.6) / 3)
    with pytest.raises(ValueError, match="does not reorder the logged slate"):
        reordered(logs, np.array([[0, 2, 2]] * 2), ATTENTION)


def test_no_clicks_and_other_items():
    logs = sl4(slot_reward=np.zeros((4, 4)))
    with pytest.warns(SupportWarning, match="no clicks, .* NaN"):
        value = reordered(logs, SL4_SLATES)
    assert np.isnan(value.value) and np.isnan(value.standard_error)
    for target, match in (
        (np.tile([0, 1, 2, 2], (4, 1)), r"\[0, 1, 2, 2\] at row 0, which does not"),
        (SL4_SLATES[:, :3], "does not reorder the logged slate"),
        (Marginals(np.full((4, 2, 4), 0.25)), r"item of row 0 with probability 0\.5"),
    ):
        with pytest.raises(ValueError, match=match):
            reordered(sl4(), target)


@pytest.mark.theory
def test_error_with_estimated_attention(global_random_seed):
    """The bootstrap's standard error is the spread of the values of many logs."""
    values, errors = [], []
    for k in range(50):
        logs = biased_pages(3000, ATTENTION, QUALITY, 100 * global_random_seed + k)
        about = {"n_bootstrap": 25, "random_state": 0}
        found = reordered(logs, logs.slate[:, ::-1], AttentionDecay(), **about)
        values.append(found.value)
        errors.append(found.standard_error)
    ratio = np.mean(errors) / np.std(values, ddof=1)
    assert abs(ratio - 1) < 4 / np.sqrt(2 * 49)
    known = reordered(logs, logs.slate[:, ::-1], ATTENTION)
    # estimated from the same clicks, the attention follows their noise: it cancels
    assert known.standard_error > 1.5 * np.mean(errors)


def test_orders_of_slates_composed_for_the_visitor():
    """No harm where the attention is known; one that is estimated is warned of."""
    logs, _ = pages_of_two_visitors(4000, 0)
    settings = {"n_bootstrap": 10, "random_state": 0}
    known = reordered(logs, logs.slate[:, ::-1], (1, 0.5, 0.25), **settings)
    assert not known.warnings and np.isnan(known.diagnostics["predictability_z"])
    with pytest.warns(ExplorationWarning) as found:
        value = reordered(logs, logs.slate[:, ::-1], AttentionDecay(), **settings)
    assert found[0].message.value == value.diagnostics["predictability_z"] > 4
