# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause

import numpy as np
import pytest
from numpy.testing import assert_allclose

from skope_ope import (
    AttentionDecay,
    ExplorationScavenging,
    PositionScavenging,
    SlateLogs,
)
from skope_ope.evaluators import ReorderingPolicy
from skope_ope.exceptions import ExplorationWarning, SupportWarning
from tests.evaluators.core.test_slate_target import Marginals
from tests.evaluators.scavenging._toys import (
    SL4_ATTENTION,
    biased_pages,
    pages_of_two_visitors,
    sl4,
)

TARGET = np.tile([0, 1, 2, 3], (4, 1))
ATTENTION = np.array([1.0, 0.6, 0.4])
QUALITY = np.linspace(0.05, 0.5, 6)


def evaluate(logs, target, attention=SL4_ATTENTION, **settings):
    return (
        PositionScavenging(attention=attention, **settings).fit(logs).evaluate(target)
    )


def test_four_pages():
    assert_allclose(evaluate(sl4(), TARGET).value, 2.1723560616, rtol=1e-10)
    pooled = evaluate(sl4(), TARGET, pooled=True)
    assert_allclose(pooled.value, 1.9609329641, rtol=1e-10)
    two = np.tile([1, 0], (4, 1))
    assert_allclose(evaluate(sl4(), two).value, 1.6267045977, rtol=1e-10)
    padded = np.tile([1, 0, -1, -1], (4, 1))
    assert_allclose(evaluate(sl4(), padded).value, 1.6267045977, rtol=1e-10)


@pytest.mark.parametrize("pooled", [False, True])
def test_scale_of_the_attention_does_not_matter(pooled):
    value = evaluate(sl4(), TARGET, pooled=pooled).value
    scaled = evaluate(sl4(), TARGET, np.multiply(3, SL4_ATTENTION), pooled=pooled)
    assert_allclose(scaled.value, value)


def test_a_random_policy_is_the_mean_of_deterministic_ones():
    slates = (TARGET, TARGET[:, ::-1])
    proba = sum((s[:, :, None] == np.arange(4)).astype(float) for s in slates) / 2
    found = evaluate(sl4(), Marginals(proba))
    parts = [evaluate(sl4(), s) for s in slates]
    assert_allclose(found.value, np.mean([p.value for p in parts]))
    assert_allclose(found.round_values, np.mean([p.round_values for p in parts], 0))


def test_exact_where_the_assumption_holds():
    """Expected clicks in place of clicks: the value is the truth."""
    logs = biased_pages(200, ATTENTION, QUALITY, 0, tilt=0.5)
    logs = SlateLogs(
        logs.context, logs.slate, None, slot_reward=ATTENTION * QUALITY[logs.slate]
    )
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


@pytest.mark.parametrize("pooled", [False, True])
def test_bootstrap_agrees_with_the_linearised_error(pooled):
    logs = biased_pages(2000, ATTENTION, QUALITY, 1)
    target = np.tile([5, 4, 3], (2000, 1))
    known = evaluate(logs, target, ATTENTION, pooled=pooled)
    drawn = evaluate(
        logs, target, ATTENTION, pooled=pooled, n_bootstrap=300, random_state=0
    )
    assert drawn.value == known.value
    assert abs(drawn.standard_error / known.standard_error - 1) < 4 / np.sqrt(600)


def test_weights_are_repetitions():
    logs = biased_pages(50, ATTENTION, QUALITY, 2)
    target = np.tile([5, 4, 3], (50, 1))
    weight = np.random.RandomState(0).randint(0, 3, 50)
    evaluator = PositionScavenging(attention=ATTENTION).fit(logs)
    weighted = evaluator.evaluate(target, sample_weight=weight)
    rows = np.repeat(np.arange(50), weight)
    repeated = evaluator.evaluate(target[rows], logs[rows])
    assert_allclose(weighted.value, repeated.value)
    assert_allclose(weighted.round_values.mean(), weighted.value)


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


def test_items_are_known_by_their_labels():
    """Two candidates of one item are the same page to show."""
    logs = SlateLogs(
        np.zeros((4, 1)),
        [[0, 2], [1, 2], [2, 0], [2, 1]],
        None,
        item_id=np.array([list("aab")] * 4),
        slot_reward=[[1, 0], [1, 1], [0, 0], [1, 0]],
    )
    first, second = np.tile([0, 2], (4, 1)), np.tile([1, 2], (4, 1))
    found = [evaluate(logs, target, (1.0, 0.5)) for target in (first, second)]
    proba = [
        Marginals((target[:, :, None] == np.arange(3)).astype(float))
        for target in (first, second)
    ]
    found += [evaluate(logs, target, (1.0, 0.5)) for target in proba]
    # a: clicks 1, 1 in slot 0; b: 1 in slot 1, 1 in slot 0; each shown four times
    for value in found:
        assert_allclose(value.value, 2 / 4 + 0.5 * (1 / 0.5 + 1) / 4)
        assert_allclose(value.standard_error, found[0].standard_error)


@pytest.mark.parametrize("named", [False, True])
def test_a_page_that_shows_an_item_twice(named):
    """It is worth the sum over its slots, from expected clicks, however it is said."""
    quality, attention = np.array([0.4, 0.1]), np.array([1.0, 0.5, 0.25])
    slate = np.array([[0, 0, 2], [2, 0, 0], [0, 2, 0], [2, 0, 0]])
    if named:
        slate = np.array([[0, 1, 2], [2, 1, 0], [1, 2, 0], [2, 1, 1]])
    clicks = attention * quality[(slate == 2).astype(int)]
    logs = SlateLogs(
        np.zeros((4, 1)),
        slate,
        None,
        n_candidates=3,
        slot_reward=clicks,
        item_id=np.array([list("aab")] * 4) if named else None,
    )
    assert_allclose(evaluate(logs, slate, attention).value, clicks.sum() / 4)
    policy = ReorderingPolicy({"a" if named else 0: 1.0})
    new = policy.reorder(logs)
    truth = (attention * quality[(new == 2).astype(int)]).sum() / 4
    for target in (policy, new, Marginals(policy.slot_marginals(logs))):
        assert_allclose(evaluate(logs, target, attention).value, truth)


def test_nothing_wanted_is_nothing_known():
    with pytest.warns(SupportWarning, match="NaN"):
        assert np.isnan(evaluate(sl4(), np.full((4, 2), -1)).value)


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


def test_groups():
    logs = biased_pages(300, ATTENTION, QUALITY, 4).with_columns(day=np.arange(300) % 2)
    target = np.tile([5, 4, 3], (300, 1))
    evaluator = PositionScavenging(attention=ATTENTION).fit(logs)
    first = evaluator.evaluate(target).by("day")[0]
    alone = evaluator.evaluate(target[::2], logs[::2])
    assert_allclose(first.value, alone.value)
    assert_allclose(first.standard_error, alone.standard_error)


def test_too_many_slots():
    with pytest.raises(ValueError, match="fills 5 slots, but the attention of 4"):
        evaluate(sl4(), np.tile([0, 1, 2, 3, -1], (4, 1)))
