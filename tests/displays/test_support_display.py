# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause

from itertools import pairwise

import numpy as np
import pytest
from numpy.testing import assert_allclose

from skope_ope import (
    IPS,
    BanditLogs,
    ConstantPolicy,
    DirectMethod,
    EpsilonGreedy,
    Replay,
    SlateIPS,
    SlateLogs,
    UniformPolicy,
    audit,
)
from skope_ope.displays import SupportDisplay
from skope_ope.policies import ProductSlatePolicy

pytestmark = pytest.mark.filterwarnings("ignore::skope_ope.exceptions.OPEWarning")
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


@pytest.mark.parametrize(
    "given",
    [
        {},
        {"propensity": [0.5, 1.0, 0.25, 0.75, 1.0, 0.5]},  # where others never act
        {"sample_weight": [1, 2, 0, 1, 1, 3.0]},
    ],
    ids=["", "certain", "weighted"],
)
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


def test_without_propensities():
    evaluator = DirectMethod().fit(six_rounds(propensity=None))
    display = SupportDisplay.from_evaluator(evaluator, POLICY)
    assert_allclose(display.unsupported_mass, 0.3)
    assert np.isnan(display.effective_rounds).all()


@pytest.mark.parametrize("known", [True, False], ids=["known", "counted"])
def test_slots_by_hand(known):
    """The logger never shows item 2 on top; the policy's slates are given."""
    slates = np.array([[0, 1], [1, 2], [0, 2], [1, -1]])
    top = np.tile([0.5, 0.5, 0.0], (4, 1))
    below = np.tile([0.0, 0.5, 0.5], (4, 1))
    table = np.stack([top, below], axis=1)
    logs = SlateLogs(
        np.zeros((4, 1)),
        slates,
        np.ones(4),
        n_candidates=3,
        propensity=np.full(4, 0.25),
    ).with_columns(mu=table)
    if known:
        logs = logs.replace(logging_policy=ProductSlatePolicy("mu"))
    wanted = np.array([[2, 1], [0, 1], [0, 1], [0, 1]])
    display = SupportDisplay.from_evaluator(SlateIPS().fit(logs), wanted)
    found = dict(zip(display.labels, display.policy_share, strict=True))
    share = {"slot 1: 0": 0.75, "slot 1: 2": 0.25, "slot 2: 1": 1.0}
    assert {k: v for k, v in found.items() if v} == pytest.approx(share)
    shown = dict(zip(display.labels, display.logger_share, strict=True))
    mu = {"slot 1: 0": 0.5, "slot 1: 1": 0.5, "slot 2: 1": 0.5, "slot 2: 2": 0.5}
    counted = {"slot 1: 0": 0.5, "slot 1: 1": 0.5, "slot 2: 1": 0.25, "slot 2: 2": 0.5}
    want = mu if known else counted
    assert {k: v for k, v in shown.items() if v} == pytest.approx(want)
    assert_allclose(display.unsupported_mass, 0.25 / 2)
    assert display.label_name == "slot and candidate"


def test_from_values():
    display = SupportDisplay.from_values([0.2, 0.5, 0.3], [0.4, 0.6, 0.0])
    assert display.labels == [0, 1, 2]
    assert_allclose(display.unsupported_mass, 0.3)
    given = {"labels": "abc", "unsupported": [0.1, 0, 0.3]}
    display = SupportDisplay.from_values([0.2, 0.5, 0.3], [0.4, 0.6, 0.0], **given)
    assert display.labels == ["a", "b", "c"]
    assert_allclose(display.unsupported_mass, 0.4)


@pytest.mark.parametrize(
    "arguments, message",
    [
        (
            ([0.5, 0.4], [0.5, 0.5]),
            "policy_share must hold .* 2 that sum to 0.9",
        ),
        (([0.5, 0.5], [1.5, -0.5]), "logger_share must .*, the least of them -0.5"),
        (([0.5, 0.5], [1.0]), "logger_share has 1 entries, policy_share has 2"),
        (([], []), "policy_share must hold"),
        (([0.5, 0.5], [1, 0], ["a"]), "labels must have 2 entries, got 1"),
        (([0.5, 0.5], [1, 0], None, [0, 0.6]), "got 0.6 of 0.5 at entry 1"),
        (([0.5, 0.5], [1, 0], None, [0.1]), "unsupported has 1 entries"),
    ],
)
def test_bad_values(arguments, message):
    names = "policy_share", "logger_share", "labels", "unsupported"
    with pytest.raises(ValueError, match=message):
        SupportDisplay.from_values(**dict(zip(names, arguments, strict=False)))


def test_what_no_support_is_known_of():
    logs = six_rounds()
    with pytest.raises(TypeError, match="a static evaluator is needed, got Replay"):
        uniform = six_rounds(propensity=np.full(6, 1 / 3))
        SupportDisplay.from_evaluator(Replay().fit(uniform), POLICY)
    with pytest.raises(ValueError, match="the logged actions are not enough here"):
        SupportDisplay.from_evaluator(IPS().fit(logs), np.full(6, 0.5))
    with pytest.raises(TypeError, match="EpsilonGreedy learns while it acts"):
        SupportDisplay.from_evaluator(IPS().fit(logs), EpsilonGreedy())


def line(ax, label):
    [found] = [one for one in ax.lines if one.get_label() == label]
    return found.get_xdata(), found.get_ydata()


def test_plot(pyplot):
    display = shown().plot()
    shares, rounds = display.axes_
    texts = [text.get_text() for text in shares.get_yticklabels()]
    assert texts == ["b", "c", "a"]  # what the policy wants most is on top
    assert_allclose(line(shares, "policy"), [[0.5, 0.3, 0.2], [0, 1, 2]])
    assert_allclose(line(shares, "logger"), [[4 / 6, 0, 2 / 6], [0, 1, 2]])
    assert_allclose(line(shares, "never by the logger"), [[0.3], [1]])
    assert shares.get_title("left") == (
        "30.0% of what the policy does is never done by the logger"
    )
    [points] = rounds.lines
    assert_allclose(points.get_xdata(), display.effective_rounds[[1, 0]])
    assert [text.get_text() for text in rounds.texts] == ["none"]
    low, high = shares.get_ylim()
    assert low > high


def test_plot_of_what_is_supported(pyplot):
    display = shown(np.tile([0.4, 0.6, 0.0], (6, 1))).plot()
    title = display.ax_.get_title("left")
    assert title == "the policy does nothing that is never done by the logger"
    labels = [text.get_text() for text in display.axes_[1].get_legend().get_texts()]
    assert labels == ["logger", "policy"]


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


def test_untold_actions_are_in_the_title(pyplot):
    third = np.full((6, 3), 1 / 3)
    logs = six_rounds(propensity=third[:, 0], logging_proba=third)
    policy = ConstantPolicy("c").fit(logs)
    display = SupportDisplay.from_evaluator(IPS().fit(logs), policy).plot()
    title = display.ax_.get_title("left")
    assert title.endswith("\n100.0% of it has no effective round in the log")
