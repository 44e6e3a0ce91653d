# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Displays of importance weights and of support."""

from itertools import pairwise

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from skope_ope import (
    IPS,
    MRDR,
    SNIPS,
    BanditLogs,
    ConstantPolicy,
    DirectMethod,
    DRos,
    EpsilonGreedy,
    Replay,
    SlateIPS,
    SlateLogs,
    SwitchDR,
    UniformPolicy,
    audit,
)
from skope_ope.datasets import make_bandit_logs
from skope_ope.displays import SupportDisplay, WeightsDisplay
from skope_ope.policies import ProductSlatePolicy, action_probabilities

pytestmark = pytest.mark.filterwarnings("ignore::skope_ope.exceptions.OPEWarning")


# Weights
LOGS, TARGET, TRUTH = make_bandit_logs(400, random_state=1, return_truth=True)
WEIGHTS = action_probabilities(TARGET, LOGS)[np.arange(400), LOGS.action_index]
WEIGHTS = WEIGHTS / LOGS.propensity
USED = [
    (IPS(), WEIGHTS),
    (SNIPS(cmax=1.5), np.minimum(WEIGHTS, 1.5)),
    (SwitchDR(tau=1.2), np.where(WEIGHTS <= 1.2, WEIGHTS, 0)),
    (DRos(lam=2.0), 2 * WEIGHTS / (WEIGHTS**2 + 2)),
    (MRDR(), WEIGHTS),
]


@pytest.mark.parametrize("evaluator, used", USED, ids=lambda e: type(e).__name__)
def test_weights_are_those_of_the_evaluator(evaluator, used):
    display = WeightsDisplay.from_evaluator(evaluator.fit(LOGS), TARGET)
    assert_allclose(display.weights, WEIGHTS, rtol=1e-12)
    assert_allclose(display.used_weights, used, rtol=1e-12)
    assert display.name == type(evaluator).__name__


def test_other_logs_arrays_and_numbers_of_the_diagnostics():
    evaluator = IPS(cmax=1.5).fit(LOGS)
    told = evaluator.evaluate(TARGET).diagnostics
    display = WeightsDisplay.from_evaluator(evaluator, TARGET)
    for name in ("effective_sample_size", "max_weight", "max_weight_share"):
        assert_allclose(getattr(display, name), told[name])
    assert_allclose(display.altered_share, told["altered_rows"])
    part = WeightsDisplay.from_evaluator(evaluator, TARGET, LOGS[:50])
    assert_allclose(part.weights, WEIGHTS[:50])
    assert_array_equal(part.rewards, LOGS.reward[:50])
    display = WeightsDisplay.from_evaluator(evaluator, WEIGHTS * LOGS.propensity)
    assert_allclose(display.weights, WEIGHTS)


def test_weights_of_d8_and_no_weights_at_all():
    """Effective size 3.328 and largest share .418 of the specification."""
    w = [0.2, 1 / 3, 4, 0.2, 1 / 6, 1 / 6, 3, 1.5]
    display = WeightsDisplay.from_values(w)
    assert_allclose(display.effective_sample_size, 3.328, atol=5e-4)
    assert_allclose(display.max_weight_share, 0.418, atol=5e-4)
    for share, expected in ((2 / 8, 7 / np.sum(w)), (0, 4 / np.sum(w)), (1, 1)):
        assert_allclose(display.share_of_largest(share), expected)
    display = WeightsDisplay.from_values(np.zeros(3))
    assert np.isnan(display.effective_sample_size)
    assert np.isnan(display.max_weight_share)
    assert np.isnan(display.share_of_largest(0.5))
    assert display.zero_share == 1


def test_bad_weights_fractions_and_evaluators():
    make = WeightsDisplay.from_values
    below = "weights must not be negative, got -2 at row 1"
    for arguments, message in (
        ({"weights": []}, "weights is empty"),
        ({"weights": [1.0, -2.0]}, below),
        ({"weights": [1.0], "used_weights": [1, 1]}, "used_weights has 2 rows"),
        ({"weights": [1.0, 2], "rewards": [1]}, "rewards has 1 rows, weights has 2"),
    ):
        with pytest.raises(ValueError, match=message):
            make(**arguments)
    for fraction in (-0.1, 1.1, np.nan):
        with pytest.raises(ValueError, match="fraction must lie"):
            make([1.0]).share_of_largest(fraction)
    with pytest.raises(ValueError, match="DirectMethod uses no importance weights"):
        WeightsDisplay.from_evaluator(DirectMethod().fit(LOGS), TARGET)
    with pytest.raises(TypeError, match="static evaluator is needed, got UniformP"):
        WeightsDisplay.from_evaluator(UniformPolicy().fit(LOGS), TARGET)


def test_plot_draws_shares(pyplot):
    # Four rounds of ten carry nothing worth drawing, one carries 80 of 85.
    w = np.array([0, 0, 0, 0.001, 0.999, 1, 1, 1, 1, 80])
    display = WeightsDisplay.from_values(w).plot(bins=8)
    rounds = [bar.get_height() for bar in display.bars_]
    carried, edges, _ = display.line_.get_data()
    assert_allclose(sum(rounds), 0.6)
    assert_allclose(sum(carried), 1 - 0.001 / 85, rtol=1e-12)
    assert_allclose(rounds[-1], 0.1)
    assert_allclose(carried[-1], 80 / 85)
    assert edges[0] == 0.999
    assert edges[-1] == 80
    title = display.ax_.get_title()
    assert "1 effective rounds of 10" in title
    assert "largest weight 80, 94.1% of all" in title
    assert "40.0% of the rounds have weights below 0.085" in title
    assert display.ax_.get_xscale() == "log"


def test_plot_shows_what_clipping_takes(pyplot):
    display = WeightsDisplay.from_evaluator(IPS(cmax=1.0).fit(LOGS), TARGET).plot()
    labels = [t.get_text() for t in display.ax_.get_legend().get_texts()]
    assert "left by IPS" in labels
    assert "% of the weights are altered" in display.ax_.get_title()
    display.plot(color="green", line_kw={"linewidth": 5})
    assert display.bars_[0].get_facecolor()[:3] == pytest.approx((0, 0.5, 0), abs=0.01)
    assert display.line_.get_linewidth() == 5


@pytest.mark.few_cases(1)
@pytest.mark.parametrize("weights", [[0.0, 0.0], [1.0], [0.0, 4.0, 4.0]])
def test_plot_of_degenerate_weights(pyplot, weights):
    display = WeightsDisplay.from_values(weights).plot()
    display.figure_.canvas.draw()
    heights = [bar.get_height() for bar in display.bars_]
    assert_allclose(sum(heights), np.mean(np.array(weights) > 0))
    assert "nan" not in display.ax_.get_title()
    if max(weights):
        assert_array_equal(max(display.line_.get_data().values), 1)


def test_shares_of_the_value_by_hand():
    given = {"used_weights": [1.0, 2, 2, 0], "rewards": [1.0, 0, 2, 5]}
    display = WeightsDisplay.from_values([1.0, 2, 7, 0], **given)
    assert_allclose(display.share_of_largest(0.25), 0.7)
    assert_allclose(display.share_of_largest(0.25, of="value"), 4 / 5)
    assert_allclose(display.share_of_largest(0.5, of="value"), 4 / 5)
    with pytest.raises(ValueError, match="of must be 'weight' or 'value', got 'reward"):
        display.share_of_largest(0.5, of="reward")
    for rewards, why in ((None, "not known"), ([1, -1], "partly below zero")):
        display = WeightsDisplay.from_values([1.0, 2], rewards=rewards)
        with pytest.raises(ValueError, match=why):
            display.share_of_largest(0.5, of="value")


# The shape of a tail is the k of Pareto smoothed importance sampling.


def tail_shape(weights):
    display = WeightsDisplay.from_values(weights)
    return display.tail_shape, display.tail_shape_error


@pytest.mark.parametrize("index", [0.8, 1.25, 2.0, 5.0])
def test_the_shape_of_pareto_tails(index):
    rng = np.random.RandomState(0)
    found = [tail_shape(rng.pareto(index, 20_000) + 1) for _ in range(20)]
    shapes, errors = np.transpose(found)
    # the prior pulls by its ten terms of 424
    expected = (414 / 424) / index + (10 / 424) / 2
    noise = errors.mean() / np.sqrt(20)
    assert shapes.mean() == pytest.approx(expected, abs=4 * noise + 0.02)
    assert shapes.std(ddof=1) == pytest.approx(errors.mean(), rel=0.6)


def test_bounded_weights_zeros_and_units():
    rng = np.random.RandomState(0)
    assert tail_shape(rng.random_sample(5000))[0] < 0
    shape, error = tail_shape(rng.exponential(size=20_000))
    assert abs(shape) < 4 * error  # an exponential tail has shape 0
    draws = np.random.RandomState(0).pareto(1.5, 3000)
    padded = np.concatenate([np.zeros(9000), draws])
    assert tail_shape(padded) == tail_shape(draws)
    assert tail_shape(1e6 * draws)[0] == pytest.approx(tail_shape(draws)[0])


def test_no_shape_without_a_tail():
    for weights in (np.zeros(100), np.arange(50.0), np.full(5000, 4.0)):
        assert np.isnan(tail_shape(weights)).all()  # nothing, too few, all alike
    # lumps: a few weights times what hardly varies, where a fit finds k above 2
    rng = np.random.RandomState(0)
    for n in (2000, 12_000):
        sizes = rng.choice([1.67, 2.86, 6.67], n) * rng.normal(1, 0.05, n)
        sizes[:20] *= 15
        assert np.isnan(tail_shape(sizes)).all()
    # a heavy tail of which the largest are alike reaches a bound
    heavy = np.sort(np.random.RandomState(0).pareto(1 / 1.5, 3000))
    heavy[-5:] = heavy[-1] * np.array([0.9, 1, 1, 1, 1])
    assert np.isnan(tail_shape(heavy)).all()
    heavy[-5] = heavy[-1] * 0.85
    assert tail_shape(heavy)[0] > 1


@pytest.mark.parametrize("k", [0.9, 1.5, 2.5])
def test_heavy_tails_have_a_shape(k):
    rng = np.random.RandomState(0)
    found = [tail_shape(rng.pareto(1 / k, 3000)) for _ in range(200)]
    assert np.isfinite(found).all(axis=1).mean() > 0.99


@pytest.mark.parametrize("index, heavy", [(1.2, True), (4.0, False)])
def test_the_tail_is_told(pyplot, index, heavy):
    weights = np.random.RandomState(0).pareto(index, 20_000) + 0.1
    display = WeightsDisplay.from_values(weights)
    assert abs(display.tail_shape - 1 / index) < 4 * display.tail_shape_error
    title = display.plot().ax_.get_title()
    assert f"tail shape k = {display.tail_shape:.2f}" in title
    assert ("heavy above 0.7" in title) == heavy


def test_the_tail_is_drawn_round_by_round(pyplot):
    w = np.array([0, 0, 0.5, 0.5, 1, 1, 1, 2, 4, 10])
    r = np.array([1, 1, 0, 1, 1, 0, 1, 1, 0, 1.0])
    display = WeightsDisplay.from_values(w, rewards=r).plot()
    tail = display.axes_[1]
    rounds, weight, value = tail.lines
    assert_array_equal(rounds.get_xdata(), np.sort(w)[::-1][:8])
    assert_allclose(rounds.get_ydata(), np.arange(1, 9) / 10)
    assert_allclose(weight.get_ydata()[:3], [10 / 20, 14 / 20, 16 / 20])
    assert_allclose(value.get_ydata()[:3], [10 / 14.5, 10 / 14.5, 12 / 14.5])
    assert tail.get_yscale() == "log" == tail.get_xscale()
    _, ax = pyplot.subplots()
    assert len(display.plot(ax).axes_) == 1  # one axes: the shares
    assert display.plot(panels="tail").ax_.lines[0].get_label() == "of the rounds"


# Support
ACTION = np.array([0, 1, 1, 0, 1, 1])
PROPENSITY = np.array([0.5, 0.25, 0.25, 0.75, 0.5, 0.5])
POLICY = np.tile([0.2, 0.5, 0.3], (6, 1))


def six_rounds(**given):
    fields = {"propensity": PROPENSITY, "actions": ["a", "b", "c"], **given}
    labels = np.array(["a", "b", "c"])[ACTION]
    return BanditLogs(np.zeros((6, 1)), labels, np.ones(6), **fields)


def shown(policy=POLICY, **given):
    return SupportDisplay.from_evaluator(IPS().fit(six_rounds(**given)), policy)


def test_shares_and_rounds_by_hand():
    display = shown()
    assert display.labels == ["a", "b", "c"]
    assert_allclose(display.policy_share, [0.2, 0.5, 0.3])
    assert_allclose(display.logger_share, [2 / 6, 4 / 6, 0])
    assert_allclose(display.unsupported, [0, 0, 0.3])
    assert_allclose(display.unsupported_mass, 0.3)
    w = POLICY[np.arange(6), ACTION] / PROPENSITY
    sizes = [w[k == ACTION].sum() ** 2 / (w[k == ACTION] ** 2).sum() for k in (0, 1)]
    assert_allclose(display.effective_rounds, [*sizes, 0])


@pytest.mark.parametrize("weights", [None, [1, 2, 0, 1, 1, 3.0]])
def test_contexts_in_which_the_logger_never_acts(weights):
    """Known distributions tell of contexts; a round that does not count tells none."""
    proba = np.zeros((6, 3))
    proba[np.arange(6), ACTION] = PROPENSITY
    proba[np.arange(6), [1, 0, 2, 1, 0, 0]] = 1 - PROPENSITY
    display = shown(logging_proba=proba, sample_weight=weights)
    omega = np.ones(6) if weights is None else np.array(weights)
    omega = omega / omega.sum()
    assert_allclose(display.logger_share, omega @ proba)
    assert_allclose(display.unsupported, omega @ np.where(proba == 0, POLICY, 0))
    assert 0.2 < display.unsupported_mass < 1


CERTAIN = [0.5, 1.0, 0.25, 0.75, 1.0, 0.5]  # where others never act
GIVEN = [{}, {"propensity": CERTAIN}, {"sample_weight": [1, 2, 0, 1, 1, 3.0]}]


@pytest.mark.parametrize("given", GIVEN, ids=["", "certain", "weighted"])
@pytest.mark.parametrize("policy", [POLICY, UniformPolicy()], ids=["array", "policy"])
def test_the_mass_is_that_of_the_audit(given, policy):
    display = shown(policy, **given)
    facts = audit(policy, six_rounds(**given)).facts
    assert display.unsupported_mass > 0.2
    assert_allclose(display.unsupported_mass, facts["unsupported mass"])
    assert_allclose(display.unsupported.sum(), display.unsupported_mass)


def test_an_action_that_chance_left_out_is_told():
    proba = np.full((6, 3), 1 / 3)
    display = shown(propensity=np.full(6, 1 / 3), logging_proba=proba)
    assert display.unsupported_mass == 0
    assert_allclose(display.untold_mass, 0.3)
    evaluator = DirectMethod().fit(six_rounds(propensity=None))
    display = SupportDisplay.from_evaluator(evaluator, POLICY)
    assert_allclose(display.unsupported_mass, 0.3)
    assert np.isnan(display.effective_rounds).all()


@pytest.mark.parametrize("known", [True, False], ids=["known", "counted"])
def test_slots_by_hand(known):
    """The logger never shows item 2 on top; the policy's slates are given."""
    slates = np.array([[0, 1], [1, 2], [0, 2], [1, -1]])
    table = np.tile([[0.5, 0.5, 0.0], [0.0, 0.5, 0.5]], (4, 1, 1))
    fields = {"n_candidates": 3, "propensity": np.full(4, 0.25)}
    logs = SlateLogs(np.zeros((4, 1)), slates, np.ones(4), **fields)
    logs = logs.with_columns(mu=table)
    if known:
        logs = logs.replace(logging_policy=ProductSlatePolicy("mu"))
    wanted = np.array([[2, 1], [0, 1], [0, 1], [0, 1]])
    display = SupportDisplay.from_evaluator(SlateIPS().fit(logs), wanted)
    found = dict(zip(display.labels, display.policy_share, strict=True))
    share = {"slot 1: 0": 0.75, "slot 1: 2": 0.25, "slot 2: 1": 1.0}
    assert {k: v for k, v in found.items() if v} == pytest.approx(share)
    shown = dict(zip(display.labels, display.logger_share, strict=True))
    mu = {"slot 1: 0": 0.5, "slot 1: 1": 0.5, "slot 2: 1": 0.5, "slot 2: 2": 0.5}
    want = mu if known else mu | {"slot 2: 1": 0.25}
    assert {k: v for k, v in shown.items() if v} == pytest.approx(want)
    assert_allclose(display.unsupported_mass, 0.25 / 2)
    assert display.label_name == "slot and candidate"


def test_shares_from_values():
    make, shares = SupportDisplay.from_values, ([0.2, 0.5, 0.3], [0.4, 0.6, 0.0])
    display = make(*shares)
    assert display.labels == [0, 1, 2]
    assert_allclose(display.unsupported_mass, 0.3)
    display = make(*shares, labels="abc", unsupported=[0.1, 0, 0.3])
    assert display.labels == ["a", "b", "c"]
    assert_allclose(display.unsupported_mass, 0.4)
    names, even = ("policy_share", "logger_share", "labels", "unsupported"), [0.5, 0.5]
    for arguments, message in (
        (([0.5, 0.4], even), "policy_share must hold .* 2 that sum to 0.9"),
        ((even, [1.5, -0.5]), "logger_share must .*, the least of them -0.5"),
        ((even, [1.0]), "logger_share has 1 entries, policy_share has 2"),
        (([], []), "policy_share must hold"),
        ((even, [1, 0], ["a"]), "labels must have 2 entries, got 1"),
        ((even, [1, 0], None, [0, 0.6]), "got 0.6 of 0.5 at entry 1"),
        ((even, [1, 0], None, [0.1]), "unsupported has 1 entries"),
    ):
        with pytest.raises(ValueError, match=message):
            make(**dict(zip(names, arguments, strict=False)))


def test_what_no_support_is_known_of():
    even = six_rounds(propensity=np.full(6, 1 / 3))
    ips, few = IPS().fit(six_rounds()), "the logged actions are not enough here"
    for evaluator, policy, error, message in (
        (Replay().fit(even), POLICY, TypeError, "static evaluator is needed, got Repl"),
        (ips, np.full(6, 0.5), ValueError, few),
        (ips, EpsilonGreedy(), TypeError, "EpsilonGreedy learns while it acts"),
    ):
        with pytest.raises(error, match=message):
            SupportDisplay.from_evaluator(evaluator, policy)


def line(ax, label):
    [found] = [one for one in ax.lines if one.get_label() == label]
    return found.get_xdata(), found.get_ydata()


def test_plot_of_support(pyplot):
    display = shown().plot()
    shares, rounds = display.axes_
    texts = [text.get_text() for text in shares.get_yticklabels()]
    assert texts == ["b", "c", "a"]  # what the policy wants most is on top
    assert_allclose(line(shares, "policy"), [[0.5, 0.3, 0.2], [0, 1, 2]])
    assert_allclose(line(shares, "logger"), [[4 / 6, 0, 2 / 6], [0, 1, 2]])
    assert_allclose(line(shares, "never by the logger"), [[0.3], [1]])
    title = "30.0% of what the policy does is never done by the logger"
    assert shares.get_title("left") == title
    [points] = rounds.lines
    assert_allclose(points.get_xdata(), display.effective_rounds[[1, 0]])
    assert [text.get_text() for text in rounds.texts] == ["none"]
    low, high = shares.get_ylim()
    assert low > high


def test_plot_of_what_is_supported_and_of_what_has_no_round(pyplot):
    display = shown(np.tile([0.4, 0.6, 0.0], (6, 1))).plot()
    title = display.ax_.get_title("left")
    assert title == "the policy does nothing that is never done by the logger"
    labels = [text.get_text() for text in display.axes_[1].get_legend().get_texts()]
    assert labels == ["logger", "policy"]
    third = np.full((6, 3), 1 / 3)
    logs = six_rounds(propensity=third[:, 0], logging_proba=third)
    policy = ConstantPolicy("c").fit(logs)
    display = SupportDisplay.from_evaluator(IPS().fit(logs), policy).plot()
    title = display.ax_.get_title("left")
    assert title.endswith("\n100.0% of it has no effective round in the log")


def test_plot_of_many_actions(pyplot):
    share = np.arange(100.0)
    share /= share.sum()
    logger = np.r_[0.0, 0.0, np.full(98, 1 / 98)]
    display = SupportDisplay.from_values(share, logger).plot(n_labels=5)
    texts = [text.get_text() for text in display.ax_.get_yticklabels()]
    assert texts == ["99", "98", "97", "96", "96 others"]
    rest = f"policy {share[:96].sum():.1%}, logger {94 / 98:.1%}, never 0.02%"
    assert [text.get_text() for text in display.ax_.texts] == [rest]
    assert display.ax_.get_xlim()[1] < 0.1
    with pytest.raises(ValueError, match="effective rounds need importance weights"):
        display.plot(panels="rounds")
    with pytest.raises(ValueError, match="n_labels must be at least 2, got 1"):
        display.plot(n_labels=1)


def test_long_labels_leave_room_for_the_data(pyplot):
    labels = ["a", "b" * 300, *(f"an action of some length {k}" for k in range(6))]
    share = np.full(8, 1 / 8)
    display = SupportDisplay.from_values(share, share, labels=labels).plot()
    display.figure_.canvas.draw()
    width = display.ax_.get_window_extent().width
    assert width > display.figure_.bbox.width / 3
    boxes = [one.get_window_extent() for one in display.ax_.get_yticklabels()]
    assert not any(a.overlaps(b) for a, b in pairwise(boxes))
