# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause

import pickle

import numpy as np
import pytest
from joblib import parallel_config
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone

from skope_ope import (
    AttentionDecay,
    PositionScavenging,
    ReorderingScavenging,
    SlateLogs,
)
from skope_ope.exceptions import LowOverlapWarning
from tests.evaluators.scavenging._toys import (
    SL4_ATTENTION,
    SL4_SLATES,
    biased_pages,
    s6,
    sl4,
)

QUALITY = np.linspace(0.1, 0.6, 4)
LOGS = biased_pages(400, (1.0, 0.5), QUALITY, 0)
UP = np.sort(LOGS.slate, axis=1)[:, ::-1]


@pytest.mark.parametrize("cls", [PositionScavenging, ReorderingScavenging])
def test_the_number_of_workers_does_not_matter(cls):
    evaluator = cls(attention=AttentionDecay(), n_bootstrap=8, random_state=0)
    evaluator.fit(LOGS)
    expected = evaluator.evaluate(UP)
    with parallel_config(backend="threading", n_jobs=2):
        assert_array_equal(evaluator.evaluate(UP).replicates, expected.replicates)
    other = clone(evaluator).set_params(random_state=1).fit(LOGS).evaluate(UP)
    assert other.standard_error != expected.standard_error


@pytest.mark.parametrize("cls", [PositionScavenging, ReorderingScavenging])
def test_differences_share_their_pages(cls):
    evaluator = cls(attention=AttentionDecay(), n_bootstrap=20, random_state=0)
    evaluator.fit(LOGS)
    first, second = evaluator.evaluate(UP), evaluator.evaluate(LOGS.slate)
    difference = first - second
    spread = (first.replicates - second.replicates).std(ddof=1)
    assert_allclose(difference.standard_error, spread)
    assert_allclose(difference.value, first.value - second.value)
    known = cls(attention=(1.0, 0.5)).fit(LOGS)
    paired = known.evaluate(UP) - known.evaluate(LOGS.slate)
    assert_allclose(
        paired.standard_error, paired.round_values.std(ddof=1) / np.sqrt(400)
    )
    stored = pickle.loads(pickle.dumps(first))
    assert (stored - second).standard_error == difference.standard_error
    assert (
        stored.by(np.arange(400) % 2)[0].value == first.by(np.arange(400) % 2)[0].value
    )


def test_attention_of_other_pages_has_an_error_of_its_own():
    small, large = LOGS[:100], LOGS[100:]
    evaluator = ReorderingScavenging(
        attention=AttentionDecay(), n_bootstrap=100, random_state=0
    )
    evaluator.fit(small)
    known = ReorderingScavenging(attention=evaluator.attention_).fit(small)
    found, alone = (e.evaluate(UP[100:], large) for e in (evaluator, known))
    assert found.value == alone.value
    assert found.standard_error > alone.standard_error


@pytest.mark.parametrize("cls", [PositionScavenging, ReorderingScavenging])
def test_pages_of_fit_are_known_in_other_objects(cls):
    """Attention that was estimated from them follows their noise wherever they are."""
    evaluator = cls(attention=AttentionDecay(), n_bootstrap=20, random_state=0)
    evaluator.fit(LOGS)
    expected = evaluator.evaluate(UP).replicates
    rows = np.random.RandomState(0).permutation(400)
    for logs in (LOGS[np.arange(400)], LOGS[:], pickle.loads(pickle.dumps(LOGS))):
        assert_allclose(evaluator.evaluate(UP, logs).replicates, expected)
    again = evaluator.evaluate(UP[rows], LOGS[rows]).replicates
    assert_allclose(again, expected)
    # some of them: the same as weights of zero for the others
    weight = np.arange(400) % 3 == 0
    expected = evaluator.evaluate(UP, sample_weight=weight * 1.0)
    found = evaluator.evaluate(UP[weight], LOGS[weight])
    assert_allclose(found.replicates, expected.replicates)
    # some of them, and others
    evaluator = cls(attention=AttentionDecay(), n_bootstrap=20, random_state=0)
    evaluator.fit(LOGS[:300])
    part = evaluator.evaluate(UP[:300], LOGS[:300]).replicates
    found = evaluator.evaluate(UP, LOGS, np.arange(400) < 300).replicates
    assert_allclose(found, part)
    assert not np.allclose(evaluator.evaluate(UP, LOGS).replicates, part)


@pytest.mark.parametrize("cls", [PositionScavenging, ReorderingScavenging])
def test_attention_of_zero(cls):
    with pytest.raises(ValueError, match="attention of slot 2 is 0, but items are sho"):
        cls(attention=(1, 0.5, 0, 0.2)).fit(sl4()).evaluate(SL4_SLATES)


@pytest.mark.parametrize("cls", [PositionScavenging, ReorderingScavenging])
@pytest.mark.filterwarnings("ignore::skope_ope.exceptions.SupportWarning")
def test_attention_that_could_not_be_estimated(cls):
    logs = sl4(slot_reward=np.zeros((4, 4)))
    with pytest.raises(ValueError, match="attention of slot 0 is nan"):
        cls(attention=AttentionDecay()).fit(logs).evaluate(SL4_SLATES)


@pytest.mark.parametrize("cls", [PositionScavenging, ReorderingScavenging])
@pytest.mark.parametrize(
    "attention",
    [(1, 0.5), (1, 0.5, -0.1, 0.2), (1, np.nan, 0.5, 0.5), np.ones((4, 1))],
    ids=["short", "negative", "nan", "2-d"],
)
def test_attention_that_is_none(cls, attention):
    with pytest.raises(ValueError, match="attention"):
        cls(attention=attention).fit(sl4())


@pytest.mark.parametrize("cls", [PositionScavenging, ReorderingScavenging])
def test_unused_slots_need_no_attention(cls):
    slate = np.column_stack([LOGS.slate, np.full(400, -1)])
    clicks = np.column_stack([LOGS.slot_reward, np.zeros(400)])
    logs = SlateLogs(LOGS.context, slate, None, slot_reward=clicks)
    target = np.column_stack([UP, np.full(400, -1)])
    expected = cls(attention=AttentionDecay(), n_bootstrap=5, random_state=0).fit(LOGS)
    with pytest.warns(match="slot 2 is NaN"):
        found = cls(attention=AttentionDecay(), n_bootstrap=5, random_state=0).fit(logs)
    assert_allclose(found.score(target), expected.score(UP))
    assert_allclose(found.evaluate(target).replicates, expected.evaluate(UP).replicates)
    with pytest.raises(ValueError, match="attention of slot 2 is nan"):
        found.evaluate(np.column_stack([UP[:, 0], np.full(400, -1), UP[:, 1]]))


def test_few_clicks_have_no_bootstrap_error():
    clicks = np.zeros((4, 2))
    clicks[0] = 1
    logs = SlateLogs(np.zeros((4, 1)), [[0, 1], [1, 0]] * 2, None, slot_reward=clicks)
    logs = SlateLogs(
        np.zeros((4, 1)),
        [[0, 1], [1, 0]] * 2,
        None,
        slot_reward=[[1, 1], [1, 1], [0, 0], [0, 0]],
    )
    evaluator = PositionScavenging(attention=AttentionDecay(), random_state=0).fit(logs)
    with pytest.warns(LowOverlapWarning, match="of 200 bootstrap samples") as caught:
        value = evaluator.evaluate(np.tile([0, 1], (4, 1)))
    assert np.isfinite(value.value) and np.isnan(value.standard_error)
    assert caught[0].message.value > 0


@pytest.mark.parametrize("cls", [PositionScavenging, ReorderingScavenging])
def test_logs_of_another_kind(cls):
    evaluator = cls(attention=SL4_ATTENTION)
    with pytest.raises(TypeError, match="must be SlateLogs, got BanditLogs"):
        evaluator.fit(s6())
    with pytest.raises(ValueError, match="needs the rewards of the slots"):
        evaluator.fit(SlateLogs(np.zeros((2, 1)), [[0, 1], [1, 0]], [1.0, 0.0]))
    fitted = evaluator.fit(sl4())
    with pytest.raises(TypeError, match=r"got SlateLogs.*EvaluatorScorer"):
        fitted.score(sl4())
    with pytest.raises(ValueError, match="2 slots, those of fit had 4"):
        fitted.evaluate(UP, LOGS)
    with pytest.raises(ValueError, match="sample_weight"):
        fitted.evaluate(SL4_SLATES, sample_weight=-np.ones(4))


def test_logs_are_left_alone():
    before = LOGS.slate.tobytes(), LOGS.slot_reward.tobytes(), UP.tobytes()
    PositionScavenging(attention=(1, 0.5)).fit(LOGS).evaluate(UP)
    assert (LOGS.slate.tobytes(), LOGS.slot_reward.tobytes(), UP.tobytes()) == before
