# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""What may stand for a slate policy under evaluation, in every family."""

import numpy as np
import pytest
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LinearRegression
from sklearn.pipeline import Pipeline

from skope_ope import (
    CascadeIPS,
    ExplorationScavenging,
    IndependentSlotIPS,
    PlackettLuceSlatePolicy,
    PositionScavenging,
    PseudoInverse,
    RankingPolicy,
    ReorderingScavenging,
    SlateDirectMethod,
    SlateIPS,
    SlateLogs,
    UniformPolicy,
    UniformSlatePolicy,
)
from skope_ope.evaluators import ReorderingPolicy


class Foreign:
    """A policy with three methods and no base class."""

    def slot_marginals(self, logs):
        return np.full((len(logs), 2, 3), 1 / 3)

    def slate_proba(self, logs, slates):
        return np.full(len(logs), 1 / 6)

    def sample(self, logs, random_state):
        return np.tile([0, 1], (len(logs), 1))


class Saying:
    """A slate policy as far as the answers of some methods."""

    def __init__(self, **answers):
        for name, answer in answers.items():
            setattr(self, name, lambda *_, answer=answer: np.asarray(answer))


def marginals(table):
    return Saying(slot_marginals=table)


class Moves:
    """A slate policy that says where it moves what was shown, and no more."""

    def __init__(self, policy):
        self.shown_marginals = policy.shown_marginals


N = 240
THIRDS = np.full((N, 2, 3), 1 / 3)


def clicked(seed):
    """Rankings of two of three candidates, with their clicks and features."""
    rng, context = np.random.RandomState(seed), np.zeros((N, 1))
    fields = {"n_candidates": 3, "logging_policy": UniformSlatePolicy(2)}
    empty = SlateLogs(context, np.full((N, 2), -1), np.zeros(N), n_candidates=3)
    slates = UniformSlatePolicy(2).sample(empty, rng)
    fields["item_features"] = np.array([[3.0], [1.0], [2.0]])
    clicks = (rng.random_sample((N, 2)) < 0.3 + 0.2 * (slates == 0)) * 1.0
    return SlateLogs(context, slates, slot_reward=clicks, **fields)


SLOTS = PseudoInverse()
FAMILIES = [
    SlateIPS(),
    PseudoInverse(),
    PseudoInverse(self_normalized=True),
    IndependentSlotIPS(),
    CascadeIPS(),
    SlateDirectMethod(reward_model=LinearRegression(), n_samples=3),
    ExplorationScavenging(match="action"),
    PositionScavenging(attention=[1.0, 0.6]),
    ReorderingScavenging(attention=[1.0, 0.6]),
]


pytestmark = pytest.mark.filterwarnings("ignore::skope_ope.exceptions.OPEWarning")


def outcome(evaluator, policy, logs):
    """The value and its error, or the sentence that refuses it."""
    try:
        result = evaluator.fit(logs).evaluate(policy)
    except (TypeError, ValueError) as error:
        return str(error)
    return float(result.value), float(result.standard_error)


def assert_same(one, other):
    if isinstance(one, str) or isinstance(other, str):
        assert one == other
    else:
        np.testing.assert_allclose(one, other, rtol=1e-12, atol=1e-12)


def refused(evaluator, policy, error, match):
    with pytest.raises(error, match=match):
        evaluator.fit(clicked(0)).evaluate(policy)


def test_an_object_with_the_three_methods():
    logs = clicked(0)
    for evaluator in (IndependentSlotIPS(), SlateIPS()):
        score = evaluator.fit(logs).score
        assert score(Foreign()) == pytest.approx(score(UniformSlatePolicy(2)))
    drawn = SlateDirectMethod(reward_model=LinearRegression(), n_samples=3).fit(logs)
    assert drawn.score(Foreign()) == pytest.approx(drawn.score(np.tile([0, 1], (N, 1))))
    refused(CascadeIPS(), Foreign(), TypeError, "Foreign has no prefix_proba")


def test_only_the_logged_candidates_are_known():
    logs = clicked(0)
    ranking = PlackettLuceSlatePolicy([1, 2, 3], 2)
    marginals = ranking.slot_marginals(logs)
    logged = np.take_along_axis(marginals, logs.slate[:, :, None], axis=2)[:, :, 0]
    fitted = IndependentSlotIPS().fit(logs)
    assert fitted.score(logged) == pytest.approx(fitted.score(ranking), rel=1e-12)
    refused(IndependentSlotIPS(), logged[:, :1], ValueError, "must have shape")
    refused(IndependentSlotIPS(), logged - 1, ValueError, "Slates are integers")


def test_floats_of_zeros_and_ones_are_ambiguous():
    both = (np.arange(2 * N).reshape(N, 2) % 2).astype(float)
    refused(IndependentSlotIPS(), both, TypeError, "may be slates or probabilities")
    logs = clicked(0).with_columns(p=both)
    fitted = IndependentSlotIPS().fit(logs)
    fitted.score(both.astype(int))
    # a column holds what it holds elsewhere, in whatever part of the rounds
    assert fitted.score("p") == fitted.score(both == 1)
    first = IndependentSlotIPS().fit(logs[:1]).score((both == 1)[:1])
    assert fitted.score("p", logs=logs[:1]) == first


@pytest.mark.parametrize(
    ("evaluator", "policy", "error", "match"),
    [
        (SLOTS, np.zeros((N, 1), int), ValueError, "the policy fills 1 slots"),
        (SLOTS, marginals(THIRDS[:, :1]), ValueError, "the policy fills 1 slots"),
        (SLOTS, marginals(THIRDS[:1]), ValueError, r"shape \(240, n_slots, 3"),
        (SLOTS, marginals(THIRDS[:, :, :2]), ValueError, "n_slots, 3"),
        (SLOTS, marginals(1.5 * THIRDS), ValueError, "a sum of 1.5 at row 0"),
        (SLOTS, marginals(-THIRDS), ValueError, "non-negative"),
        (SLOTS, marginals(np.nan * THIRDS), ValueError, "non-negative"),
        (SLOTS, Saying(slate_proba=[0.5] * N), TypeError, "no slot_marginals"),
        (SlateIPS(), Saying(slate_proba=[0.5] * 3), ValueError, "shape"),
        (SlateIPS(), Saying(slate_proba=[2.0] * N), ValueError, r"in \[0, 1\]"),
        (SlateIPS(), marginals(THIRDS), TypeError, "no slate_proba"),
    ],
)
def test_what_policies_say_is_checked(evaluator, policy, error, match):
    refused(evaluator, policy, error, match)


@pytest.mark.parametrize("evaluator", FAMILIES, ids=repr)
def test_every_family_takes_the_same_policies(evaluator, global_random_seed):
    logs = clicked(global_random_seed)
    regressor = LinearRegression().fit([[0.0], [1.0]], [0.0, 1.0])
    ranking = RankingPolicy(FrozenEstimator(regressor), 2)
    slates, shares = ranking.deterministic_slates(logs), ranking.slot_marginals(logs)
    named = logs.with_columns(s=slates, q=shares)
    expected = outcome(evaluator, slates, logs)
    pipeline = Pipeline([("policy", FrozenEstimator(ranking))])
    for policy in (ranking, FrozenEstimator(ranking), slates.tolist(), "s", pipeline):
        assert_same(outcome(evaluator, policy, named), expected)
    # marginals are enough where no slate is matched, and no slate can be drawn
    by_array = outcome(evaluator, shares, logs)
    assert_same(outcome(evaluator, "q", named), by_array)
    whole = (SlateIPS, CascadeIPS, ExplorationScavenging, SlateDirectMethod)
    if isinstance(evaluator, whole):
        assert by_array.startswith("the policy is given by its slot marginals")
    elif isinstance(evaluator, ReorderingScavenging):  # the ranking does not reorder
        assert "does not reorder" in expected
        assert by_array.startswith("the policy shows a clicked item")
    else:
        assert_same(by_array, expected)


@pytest.mark.parametrize("evaluator", FAMILIES, ids=repr)
def test_policies_that_move_what_was_shown(evaluator, global_random_seed):
    logs = clicked(global_random_seed)
    random = ReorderingPolicy("random")
    for policy in (random, Moves(random)):
        found = outcome(evaluator, policy, logs)
        if isinstance(evaluator, (PositionScavenging, ReorderingScavenging)):
            assert_same(found, outcome(evaluator, random.slot_marginals(logs), logs))
        else:  # its weights would depend on the slates that they weight
            assert "depends on the logged slate: neither weights" in found


ROWS = "has 2 rows, the logs have 240: .*with_columns"
KIND = "a slate policy is expected.*got "


@pytest.mark.few_cases
@pytest.mark.parametrize("evaluator", FAMILIES, ids=repr)
@pytest.mark.parametrize(
    ("policy", "error", "match"),
    [
        (np.array([[0, 1], [2, -1]]), ValueError, ROWS),
        (np.zeros(240, int), TypeError, r"got ndarray of shape \(240,\)"),
        (np.full((240, 2), 3), ValueError, "candidate 3 at row 0, slot 0.* 0 to 2"),
        (np.full((240, 2), -2), ValueError, "candidate -2 at row 0, slot 0"),
        (np.full((240, 2), 3.0), ValueError, "Slates are integers"),
        (np.full((240, 2), 0.3), TypeError, "serves IndependentSlotIPS, and Pseudo"),
        ([[0, 1], [0]], ValueError, "no rectangular array"),
        ("target", ValueError, "'target' is not a column"),
        (UniformPolicy(), TypeError, f"{KIND}UniformPolicy"),
        (Foreign, TypeError, "got the class Foreign; make an instance"),
        (clicked(0)[:2], TypeError, f"{KIND}SlateLogs"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_is_no_slate_policy_is_refused_alike(evaluator, policy, error, match):
    if isinstance(evaluator, IndependentSlotIPS) and "serves" in match:
        evaluator.fit(clicked(0)).evaluate(policy)  # it needs no more than these
    else:
        refused(evaluator, policy, error, match)


def test_candidates_that_are_not_offered_are_refused_by_every_family():
    logs, offered = clicked(0), np.ones((240, 3), dtype=bool)
    left_out = 3 - logs.slate[5].sum()  # the one that was not shown
    offered[5, left_out] = False
    fields = {"candidates": offered, "logging_policy": logs.logging_policy}
    about = {"slot_reward": logs.slot_reward} | fields
    logs = SlateLogs(logs.context, logs.slate, **about)
    slates = logs.slate.copy()
    slates[5, 0] = left_out
    for evaluator in FAMILIES:
        with pytest.raises(ValueError, match="row 5, slot 0, which is not offered"):
            evaluator.fit(logs).evaluate(slates)
