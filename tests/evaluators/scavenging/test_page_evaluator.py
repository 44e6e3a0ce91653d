# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""What evaluators of pages share: attention, policies that reorder, workers."""

import pickle
import tracemalloc
from collections import Counter
from itertools import product

import numpy as np
import pytest
from joblib import parallel_config
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

from skope_ope import (
    AttentionDecay,
    PositionScavenging,
    ReorderingScavenging,
    SlateLogs,
)
from skope_ope.evaluators import ReorderingPolicy, dcg_attention
from skope_ope.exceptions import (
    ExplorationWarning,
    LearnedRoundsWarning,
    LowOverlapWarning,
    SupportWarning,
)
from tests._learned_share import learned_share
from tests.evaluators.scavenging._toys import (
    SL4_ATTENTION,
    SL4_SLATES,
    Marginals,
    biased_pages,
    pages_of_two_visitors,
    s6,
    sl4,
)
from tests.evaluators.slate._worlds import showed

BOTH = pytest.mark.parametrize("cls", [PositionScavenging, ReorderingScavenging])
QUALITY = np.linspace(0.1, 0.6, 4)
LOGS = biased_pages(400, (1.0, 0.5), QUALITY, 0)
UP = np.sort(LOGS.slate, axis=1)[:, ::-1]
NO_CLICKS = sl4(slot_reward=np.zeros((4, 4)))


def drawing(cls, logs, n_bootstrap=20):
    """Fit an evaluator that estimates the attention."""
    given = {"n_bootstrap": n_bootstrap, "random_state": 0}
    return cls(attention=AttentionDecay(), **given).fit(logs)


@BOTH
def test_the_number_of_workers_does_not_matter(cls):
    evaluator = drawing(cls, LOGS, 8)
    expected = evaluator.evaluate(UP)
    with parallel_config(backend="threading", n_jobs=2):
        assert_array_equal(evaluator.evaluate(UP).replicates, expected.replicates)
    other = clone(evaluator).set_params(random_state=1).fit(LOGS).evaluate(UP)
    assert other.standard_error != expected.standard_error


@BOTH
def test_differences_share_their_pages(cls):
    evaluator = drawing(cls, LOGS)
    first, second = evaluator.evaluate(UP), evaluator.evaluate(LOGS.slate)
    difference = first - second
    spread = (first.replicates - second.replicates).std(ddof=1)
    assert_allclose(difference.standard_error, spread)
    assert_allclose(difference.value, first.value - second.value)
    known = cls(attention=(1.0, 0.5)).fit(LOGS)
    paired = known.evaluate(UP) - known.evaluate(LOGS.slate)
    assert_allclose(paired.standard_error, paired.round_values.std(ddof=1) / 20)
    stored, side = pickle.loads(pickle.dumps(first)), np.arange(400) % 2
    assert (stored - second).standard_error == difference.standard_error
    assert stored.by(side)[0].value == first.by(side)[0].value


def test_attention_of_other_pages_has_an_error_of_its_own():
    small, large = LOGS[:100], LOGS[100:]
    evaluator = drawing(ReorderingScavenging, small, 100)
    known = ReorderingScavenging(attention=evaluator.attention_).fit(small)
    found, alone = (e.evaluate(UP[100:], large) for e in (evaluator, known))
    assert found.value == alone.value
    assert found.standard_error > alone.standard_error


@BOTH
def test_pages_of_fit_are_known_in_other_objects(cls):
    """Attention that was estimated from them follows their noise wherever they are."""
    evaluator = drawing(cls, LOGS)
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
    evaluator = drawing(cls, LOGS[:300])
    part = evaluator.evaluate(UP[:300], LOGS[:300]).replicates
    found = evaluator.evaluate(UP, LOGS, np.arange(400) < 300).replicates
    assert_allclose(found, part)
    assert not np.allclose(evaluator.evaluate(UP, LOGS).replicates, part)


@BOTH
@pytest.mark.filterwarnings("ignore::skope_ope.exceptions.SupportWarning")
def test_attention_that_divides_nothing(cls):
    with pytest.raises(ValueError, match="attention of slot 2 is 0, but items are sho"):
        cls(attention=(1, 0.5, 0, 0.2)).fit(sl4()).evaluate(SL4_SLATES)
    with pytest.raises(ValueError, match="attention of slot 0 is nan"):
        cls(attention=AttentionDecay()).fit(NO_CLICKS).evaluate(SL4_SLATES)
    short, negative, unknown = (1, 0.5), (1, 0.5, -0.1, 0.2), (1, np.nan, 0.5, 0.5)
    for attention in (short, negative, unknown, np.ones((4, 1))):
        with pytest.raises(ValueError, match="attention"):
            cls(attention=attention).fit(sl4())


def with_an_empty_slot(logs):
    slate = np.column_stack([logs.slate, np.full(len(logs), -1)])
    clicks = np.column_stack([logs.slot_reward, np.zeros(len(logs))])
    return SlateLogs(logs.context, slate, None, slot_reward=clicks)


@BOTH
def test_unused_slots_need_no_attention(cls):
    logs = with_an_empty_slot(LOGS)
    target = np.column_stack([UP, np.full(400, -1)])
    expected = drawing(cls, LOGS, 5)
    with pytest.warns(SupportWarning, match="slot 2 is NaN"):
        found = drawing(cls, logs, 5)
    assert_allclose(found.attention_[:2], expected.attention_)
    assert_allclose(found.score(target), expected.score(UP))
    assert_allclose(found.evaluate(target).replicates, expected.evaluate(UP).replicates)
    with pytest.raises(ValueError, match="attention of slot 2 is nan"):
        found.evaluate(np.column_stack([UP[:, 0], np.full(400, -1), UP[:, 1]]))


@BOTH
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


RAGGED = np.array([[0, 1, -1], [2, -1, -1], [1, 0, 2], [0, 2, -1]])
CLICKS = np.array([[1, 0.5, 0], [0, 0, 0], [0, 2, 1], [0, 1, 0]])


def literal(logs, target, attention, omega, pooled):
    """Position scavenging, one impression after the other."""
    exposure, gained = Counter(), Counter()
    for t, slate in enumerate(logs.slate):
        names = np.arange(3) if logs.item_id is None else logs.item_id[t]
        for slot, item in enumerate(slate):
            if item < 0:
                continue
            name = names[item]
            new = [j for j, k in enumerate(target[t]) if k >= 0 and names[k] == name]
            here = attention[slot]
            exposure[name] += omega[t] * (here if pooled else 1.0)
            clicks = omega[t] * logs.slot_reward[t, slot]
            gained[name] += clicks * attention[new].sum() / (1.0 if pooled else here)
    return sum(gained[name] / exposure[name] for name in gained if exposure[name])


@pytest.mark.parametrize("pooled", [False, True])
@pytest.mark.parametrize("named", [False, True])
@pytest.mark.parametrize("omega", [np.ones(4), np.array([1.0, 2, 0, 3])])
@pytest.mark.filterwarnings("ignore::skope_ope.exceptions.OPEWarning")
def test_values_are_those_of_a_loop(omega, named, pooled):
    # in the last two rows two candidates are of one item; the last shows it twice
    names = np.array([list("abc"), list("cba"), list("aba"), list("ece")])
    names = names if named else None
    logs = SlateLogs(np.zeros((4, 1)), RAGGED, None, slot_reward=CLICKS, item_id=names)
    attention = np.array([1.0, 0.6, 0.3])
    target = np.array([[1, 0], [2, -1], [0, 2], [1, 2]])
    scavenger = PositionScavenging(attention=attention, pooled=pooled).fit(logs)
    proba = (target[:, :, None] == np.arange(3)).astype(float)
    expected = literal(logs, target, attention, omega, pooled)
    for one in (target, Marginals(proba)):
        found = scavenger.evaluate(one, sample_weight=omega)
        assert_allclose(found.value, expected)
        clicks = np.average(CLICKS.sum(axis=1), weights=omega) * 4
        assert_allclose(found.diagnostics["clicks"], clicks)


def test_no_table_has_more_than_items_times_slots():
    rng = np.random.RandomState(0)
    n_pages, n_slots = 1000, 20
    slate = np.argsort(rng.random_sample((n_pages, 40)), axis=1)[:, :n_slots]
    names = rng.randint(12_000, size=(n_pages, 40))
    clicks = (rng.random_sample(slate.shape) < 0.1).astype(float)
    logs = showed(slate, item_id=names, slot_reward=clicks)
    for cls in (PositionScavenging, ReorderingScavenging):
        evaluator = cls(attention=np.ones(20)).fit(logs)
        tracemalloc.start()
        evaluator.evaluate(logs.slate[:, ::-1])
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert peak < 10 * 8 * len(np.unique(names)) * n_slots  # it was 40


TRUE = np.array([1.0, 0.6, 0.4])
# A good and a bad item; the good one is shown first more often.
SHOWN = np.array([[4500, 2600, 700], [500, 2400, 4300]])
RATES = np.array([0.2, 0.1])
METHODS = ("uniform", "min_variance", "equal_variance")


def test_dcg():
    assert_allclose(dcg_attention(4), (1, 0.630930, 0.5, 0.430677), atol=5e-7)
    assert_allclose(dcg_attention(3, base=10), 1 / np.log10([10, 11, 12]))
    for arguments in ((0,), (3, 1.0), (2.5,)):
        with pytest.raises(ValueError, match="must be"):
            dcg_attention(*arguments)


def pages_of(shown, clicks):
    """Pages that show every item so often in every slot, with so many clicks."""
    shown, clicks = np.array(shown), np.array(clicks)
    n_pages, n_slots = shown.sum(axis=0).max(), shown.shape[1]
    slate = np.full((n_pages, n_slots), -1)
    reward = np.zeros((n_pages, n_slots))
    for slot in range(n_slots):
        item = np.repeat(np.arange(len(shown)), shown[:, slot])
        first = np.repeat(shown[:, slot].cumsum() - shown[:, slot], shown[:, slot])
        slate[: len(item), slot] = item
        clicked = np.arange(len(item)) - first < clicks[item, slot]
        reward[: len(item), slot] = clicked
    return SlateLogs(np.empty((n_pages, 0)), slate, None, slot_reward=reward)


def coefficients(shown, clicks, method):
    return AttentionDecay(method=method).fit(pages_of(shown, clicks)).coefficients_


def test_naive_is_biased_low_at_expected_counts_and_others_are_right():
    # the last two items were never shown by one of the slots
    shown = np.vstack([SHOWN, [500, 0, 0], [0, 500, 500]])
    clicks = np.rint(shown * np.append(RATES, [0.4, 0.4])[:, None] * TRUE).astype(int)
    assert_allclose(coefficients(SHOWN, clicks[:2], "naive"), (1, 0.48, 0.24))
    for method in METHODS:
        for k in (2, 4):
            assert_allclose(coefficients(shown[:k], clicks[:k], method), TRUE)


def test_min_variance_against_a_grid():
    """Theorem 7: the weights minimise Var(sum_a alpha_a (CTR_ai + CTR_a1))."""
    shown = np.array([[900, 50], [40, 800], [300, 300]])
    clicks = np.array([[180, 5], [4, 40], [120, 30]])
    p = (clicks + 1) / (shown + 2)
    noise = (p * (1 - p) / shown).sum(axis=1)
    rates = clicks / shown

    def variance(alpha):
        return (alpha**2 * noise).sum() / alpha.sum() ** 2

    grid = np.linspace(0, 1, 101)
    every = [np.array([a, b, 1 - a - b]) for a, b in product(grid, grid) if a + b <= 1]
    best = min(every, key=variance)
    weights = {"min_variance": 1 / noise, "uniform": np.ones(3)}
    weights["equal_variance"] = shown.prod(axis=1) / shown.sum(axis=1)
    for method, alpha in weights.items():
        ratio = (alpha @ rates)[1] / (alpha @ rates)[0]
        assert_allclose(coefficients(shown, clicks, method), (1, ratio))
        assert variance(alpha) <= variance(best) or method != "min_variance"
        assert variance(alpha) > variance(best) or method == "min_variance"
    assert_allclose(variance(1 / noise), variance(best), rtol=1e-3)


@pytest.mark.parametrize("method", METHODS)
def test_recovers_known_coefficients(method, global_random_seed):
    attention = np.array([1.0, 0.7, 0.5, 0.3])
    quality = np.random.RandomState(0).uniform(0.05, 0.4, 12)
    logs = biased_pages(4000, attention, quality, global_random_seed, tilt=1.0)
    decay = AttentionDecay(method=method, n_bootstrap=60, random_state=0).fit(logs)
    found, error = decay.coefficients_, decay.standard_errors_
    assert found[0] == 1 and error[0] == 0
    assert (np.abs(found - attention)[1:] < 4 * error[1:]).all()


def test_what_the_decay_cannot_use():
    with pytest.raises(ValueError, match="method"):
        AttentionDecay(method="best").fit(sl4())
    with pytest.raises(TypeError, match="SlateLogs, got BanditLogs"):
        AttentionDecay().fit(s6())
    whole = SlateLogs(np.zeros((1, 1)), [[0]], [1.0])
    with pytest.raises(ValueError, match=r"in which slot a click fell.*slot_reward="):
        AttentionDecay().fit(whole)
    with pytest.warns(SupportWarning, match="attention of slot 0 is NaN") as caught:
        found = AttentionDecay().fit(NO_CLICKS).coefficients_
    assert np.isnan(found).all()
    assert caught[0].message.value == 4
    # revenue is weighted by default
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


def test_few_clicks_have_no_bootstrap_error():
    logs = showed([[0, 1], [1, 0]] * 2, slot_reward=[[1, 1], [1, 1], [0, 0], [0, 0]])
    evaluator = PositionScavenging(attention=AttentionDecay(), random_state=0).fit(logs)
    with pytest.warns(LowOverlapWarning, match="of 200 bootstrap samples") as caught:
        value = evaluator.evaluate(np.tile([0, 1], (4, 1)))
    assert np.isfinite(value.value) and np.isnan(value.standard_error)
    assert caught[0].message.value > 0
    # one sample in eight has neither of the two clicked pages of 60
    clicks = np.zeros((60, 2))
    clicks[0] = clicks[1] = 1
    logs = showed([[0, 1], [1, 0]] * 30, slot_reward=clicks)
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


def test_attention_on_slates_composed_for_the_visitor():
    logs, _ = pages_of_two_visitors(4000, 0)
    with pytest.warns(ExplorationWarning, match="logged item can be") as found:
        decay = AttentionDecay().fit(logs)
    assert found[0].message.value == decay.predictability_.z > 4
    assert found[0].filename == __file__
    alike = AttentionDecay().fit(logs[logs.context[:, 0] == 1])
    assert np.isnan(alike.predictability_.z)


def test_orders_and_labels_of_items():
    policy = ReorderingPolicy().fit(sl4())
    assert_allclose(policy.scores_, (1.0, 0.25, 0.0, 0.25))
    found = policy.reorder(NO_CLICKS)  # rates are learned on other pages
    assert_array_equal(found, [[0, 1, 3, 2]] * 2 + [[0, 3, 1, 2]] * 2)
    found = ReorderingPolicy({3: 1.0}).fit(sl4()).reorder(sl4())  # ties stay
    assert_array_equal(found, [[3, 0, 1, 2], [3, 1, 0, 2], [3, 2, 0, 1], [3, 2, 1, 0]])
    names = np.array([list("abcd"), list("dcba"), list("abcd"), list("wxyz")])
    policy = ReorderingPolicy({"d": 2, "b": 1, "z": 5}).fit(sl4())
    logs = sl4(item_id=names)
    shown = np.take_along_axis(names, policy.reorder(logs), axis=1)
    # logged: abcd, cdab, cdab, zyxw
    assert ["".join(row) for row in shown] == ["dbac", "dbca", "dbca", "zyxw"]
    trained = ReorderingPolicy().fit(logs)
    assert trained.items_.tolist() == sorted(set(names.ravel()))
    # another log with other items: those that are unknown have the score 0
    found = trained.reorder(sl4(item_id=np.full((4, 4), "new")))
    assert_array_equal(found, SL4_SLATES)


def test_empty_slots_stay():
    slate = np.array([[-1, 0, 1], [1, -1, 0], [-1, -1, -1]])
    logs = SlateLogs(np.zeros((3, 1)), slate, None, slot_reward=np.zeros((3, 3)))
    policy = ReorderingPolicy({1: 1.0}).fit(logs)
    assert_array_equal(policy.reorder(logs), [[-1, 1, 0], [1, -1, 0], [-1, -1, -1]])
    for order in ("random", {1: 1.0}):
        proba = ReorderingPolicy(order).fit(logs).slot_marginals(logs)
        assert_allclose(proba.sum(axis=2), slate >= 0)
        assert_allclose(proba.sum(axis=1)[:2], 1)


@pytest.mark.parametrize("order", ["random", {3: 1.0}, {}])
def test_what_has_nothing_to_learn_needs_no_fit(order):
    policy = ReorderingPolicy(order)
    fitted = clone(policy).fit(sl4())
    assert_array_equal(policy.slot_marginals(sl4()), fitted.slot_marginals(sl4()))
    scavenger = ReorderingScavenging(attention=(1.0, 0.6, 0.5, 0.4)).fit(sl4())
    assert scavenger.score(policy) == scavenger.score(fitted)


def test_the_order_is_an_estimator():
    with pytest.raises(NotFittedError):
        ReorderingPolicy().shown_marginals(sl4())
    policy = ReorderingPolicy("random")
    copy = pickle.loads(pickle.dumps(clone(policy).fit(sl4())))
    assert_allclose(copy.shown_marginals(sl4()), 0.25)
    with pytest.raises(ValueError, match="no single slate"):
        copy.reorder(sl4())
    for ask in ("fit", "reorder"):
        with pytest.raises(ValueError, match="order"):
            getattr(ReorderingPolicy("best"), ask)(sl4())
    with pytest.raises(TypeError, match="SlateLogs, got BanditLogs"):
        ReorderingPolicy().fit(s6())


def test_what_it_has_learned_from_is_no_test_of_it():
    """Items alike: the order of their own clicks seems to be worth more than one."""
    logs = biased_pages(2000, np.array([1.0, 0.5, 0.2]), np.full(200, 0.3), 0)
    train, test = logs[:1000], logs[1000:]
    policy = ReorderingPolicy().fit(train)
    evaluator = ReorderingScavenging(attention=[1.0, 0.5, 0.2])
    with pytest.warns(LearnedRoundsWarning, match="100.0% of these rounds"):
        own = evaluator.fit(train).evaluate(policy)
    assert own.value > 1 + 4 * own.standard_error
    held_out = evaluator.fit(test).evaluate(policy)
    assert abs(held_out.value - 1) < 4 * held_out.standard_error
    again = SlateLogs(train.context, train.slate, None, slot_reward=train.slot_reward)
    assert learned_share(policy, again) == 1  # built anew
    with pytest.warns(LearnedRoundsWarning, match="50.0% of these rounds"):
        evaluator.fit(logs).evaluate(policy)
    for order in ("random", {3: 1.0}):
        policy.set_params(order=order).fit(train)
        assert learned_share(policy, train) == 0
