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
from skope_ope.evaluators.core._slate_target import SlateTarget, method
from skope_ope.evaluators.slate._support import knows_all, never_shown

LOGS = SlateLogs(np.zeros((2, 1)), [[0, 1], [2, -1]], [0.0, 1.0], n_candidates=3)


class Foreign:
    """A policy with three methods and no base class."""

    def slot_marginals(self, logs):
        return np.full((len(logs), 2, 3), 0.25)

    def slate_proba(self, logs, slates):
        return np.full(len(logs), 0.0625)

    def sample(self, logs, random_state):
        return np.zeros((len(logs), 2), int)


class Marginals:
    """A slate policy as far as its marginals."""

    def __init__(self, proba):
        self.proba = np.asarray(proba, dtype=float)

    def slot_marginals(self, logs):
        return self.proba


class Probabilities:
    """A slate policy as far as the probabilities of the logged slates."""

    def __init__(self, proba):
        self.proba = proba

    def slate_proba(self, logs, slates):
        return self.proba


class Moves:
    """A slate policy that says where it moves what was shown, and no more."""

    def __init__(self, policy):
        self.policy = policy

    def shown_marginals(self, logs):
        return self.policy.shown_marginals(logs)


QUARTERS = np.full((2, 2, 3), 0.25)


def test_an_object_with_the_three_methods():
    target = SlateTarget(Foreign(), LOGS)
    np.testing.assert_array_equal(target.marginal_proba(LOGS), np.full((2, 2), 0.25))
    np.testing.assert_array_equal(target.slate_proba(LOGS), 0.0625)
    np.testing.assert_array_equal(target.sample(LOGS, 0), 0)
    assert target.slates is None
    with pytest.raises(TypeError, match="Foreign has no prefix_proba"):
        target.prefix_proba(LOGS)
    assert np.isnan(never_shown(target, LOGS, "slate_proba"))
    assert method(Foreign(), "sample")
    assert knows_all(Foreign(), target, LOGS)


def test_given_slates():
    slates = np.array([[0, 2], [2, -1]])
    for given in (slates, slates.tolist()):
        target = SlateTarget(given, LOGS)
        assert target.is_array
        np.testing.assert_array_equal(target.slates, slates)
        np.testing.assert_array_equal(
            target.marginal_proba(target.logs), [[1, 0], [1, 1]]
        )
        np.testing.assert_array_equal(target.slate_proba(target.logs), [0, 1])
        # parts of the rounds carry their slates along
        np.testing.assert_array_equal(
            target.prefix_proba(target.logs[1:], slates[1:]), [[1, 1]]
        )
    assert not SlateTarget(PlackettLuceSlatePolicy([1, 2, 3], 2), LOGS).is_array


def test_only_the_logged_candidates_are_known():
    logged = np.array([[0.5, 0.25], [1.0, 0.0]])
    target = SlateTarget(logged, LOGS)
    np.testing.assert_array_equal(target.marginal_proba(LOGS), logged)
    for ask in (target.marginals, target.slate_proba, target.prefix_proba):
        with pytest.raises(TypeError, match="serves IndependentSlotIPS"):
            ask(LOGS)
    with pytest.raises(TypeError, match="serves IndependentSlotIPS"):
        target.sample(LOGS, 0)
    with pytest.raises(ValueError, match="must have shape"):
        SlateTarget(logged[:, :1], LOGS)
    with pytest.raises(ValueError, match="Slates are integers"):
        SlateTarget(logged - 1, LOGS)


def test_floats_of_zeros_and_ones_are_ambiguous():
    both = np.array([[0.0, 1.0], [1.0, 0.0]])
    with pytest.raises(TypeError, match="may be slates or probabilities"):
        SlateTarget(both, LOGS)
    assert SlateTarget(both.astype(int), LOGS).slates.tolist() == [[0, 1], [1, 0]]
    sure = SlateTarget(both == 1, LOGS)
    np.testing.assert_array_equal(sure.marginal_proba(LOGS), both)
    # a column holds what it holds elsewhere, in whatever part of the rounds
    column = SlateTarget("p", LOGS.with_columns(p=both))
    np.testing.assert_array_equal(column.marginal_proba(column.logs), both)


def test_the_number_of_slots():
    for policy in ([[0], [1]], Marginals(QUARTERS[:, :1])):
        with pytest.raises(ValueError, match="the policy fills 1 slots, the logs have"):
            target = SlateTarget(policy, LOGS)
            target.marginals(target.logs)
        target = SlateTarget(policy, LOGS, same_width=False)
        assert target.marginals(target.logs).shape == (2, 1, 3)


@pytest.mark.parametrize(
    ("proba", "match"),
    [
        (QUARTERS[:1], r"shape \(2, n_slots, 3\), got \(1, 2, 3\)"),
        (QUARTERS[:, :, :2], "n_slots, 3"),
        (2 * QUARTERS, "sum to at most one .* a sum of 1.5 at row 10"),
        (-QUARTERS, "non-negative"),
        (np.nan * QUARTERS, "non-negative"),
    ],
)
def test_marginals_are_checked(proba, match):
    with pytest.raises(ValueError, match=match):
        SlateTarget(Marginals(proba), LOGS).marginals(LOGS, 10)


@pytest.mark.parametrize(
    ("proba", "match"), [([0.5] * 3, "shape"), ([2.0] * 2, r"in \[0, 1\]")]
)
def test_probabilities_are_checked(proba, match):
    with pytest.raises(ValueError, match=match):
        SlateTarget(Probabilities(proba), LOGS).slate_proba(LOGS)


def test_what_a_policy_cannot_say():
    with pytest.raises(TypeError, match="no slate_proba"):
        SlateTarget(Marginals(QUARTERS), LOGS).slate_proba(LOGS)
    with pytest.raises(TypeError, match="no slot_marginals"):
        SlateTarget(Probabilities([0.5] * 2), LOGS).marginals(LOGS)


def clicked(seed):
    """Rankings of two of three candidates, with their clicks and features."""
    rng = np.random.RandomState(seed)
    n, logger = 240, UniformSlatePolicy(2)
    empty = SlateLogs(np.zeros((n, 1)), np.full((n, 2), -1), np.zeros(n))
    empty = SlateLogs(empty.context, empty.slate, empty.reward, n_candidates=3)
    slates = logger.sample(empty, rng)
    return SlateLogs(
        np.zeros((n, 1)),
        slates,
        slot_reward=(rng.random_sample((n, 2)) < 0.3 + 0.2 * (slates == 0)) * 1.0,
        n_candidates=3,
        item_features=np.array([[3.0], [1.0], [2.0]]),
        logging_policy=logger,
    )


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


pytestmark = pytest.mark.filterwarnings("ignore:the standard error of SlateDirectM")


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


@pytest.mark.parametrize("evaluator", FAMILIES, ids=repr)
def test_every_family_takes_the_same_policies(evaluator, global_random_seed):
    logs = clicked(global_random_seed)
    regressor = LinearRegression().fit([[0.0], [1.0]], [0.0, 1.0])
    ranking = RankingPolicy(FrozenEstimator(regressor), 2)
    slates = ranking.deterministic_slates(logs)
    named = logs.with_columns(s=slates, q=ranking.slot_marginals(logs))
    expected = outcome(evaluator, slates, logs)
    for policy in (ranking, FrozenEstimator(ranking), slates.tolist(), "s"):
        assert_same(outcome(evaluator, policy, named), expected)
    pipeline = Pipeline([("policy", FrozenEstimator(ranking))])
    assert_same(outcome(evaluator, pipeline, logs), expected)
    # marginals are enough where no slate is matched, and no slate can be drawn
    marginals = ranking.slot_marginals(logs)
    by_array = outcome(evaluator, marginals, logs)
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


@pytest.mark.few_cases
@pytest.mark.parametrize("evaluator", FAMILIES, ids=repr)
@pytest.mark.parametrize(
    ("policy", "error", "match"),
    [
        (LOGS.slate, ValueError, "has 2 rows, the logs have 240: .*with_columns"),
        (np.zeros(240, int), TypeError, r"got ndarray of shape \(240,\)"),
        (np.full((240, 2), 3), ValueError, "candidate 3 at row 0, slot 0.* 0 to 2"),
        (np.full((240, 2), -2), ValueError, "candidate -2 at row 0, slot 0"),
        (np.full((240, 2), 3.0), ValueError, "Slates are integers"),
        (np.full((240, 2), 0.3), TypeError, "serves IndependentSlotIPS, and Pseudo"),
        ([[0, 1], [0]], ValueError, "no rectangular array"),
        ("target", ValueError, "'target' is not a column"),
        (UniformPolicy(), TypeError, "a slate policy is expected.*got UniformPolicy"),
        (Marginals, TypeError, "got the class Marginals; make an instance"),
        (LOGS, TypeError, "a slate policy is expected.*got SlateLogs"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_is_no_slate_policy_is_refused_alike(evaluator, policy, error, match):
    takes_logged = isinstance(evaluator, IndependentSlotIPS)
    if takes_logged and "serves" in match:
        pytest.skip("it needs no more than the logged candidates")
    with pytest.raises(error, match=match):
        evaluator.fit(clicked(0)).evaluate(policy)


def test_candidates_that_are_not_offered_are_refused_by_every_family():
    logs = clicked(0)
    offered = np.ones((240, 3), dtype=bool)
    offered[5, 3 - logs.slate[5].sum()] = False  # the one that was not shown
    logs = SlateLogs(
        logs.context,
        logs.slate,
        slot_reward=logs.slot_reward,
        candidates=offered,
        logging_policy=logs.logging_policy,
    )
    slates = logs.slate.copy()
    slates[5, 0] = 3 - slates[5].sum()
    for evaluator in FAMILIES:
        with pytest.raises(ValueError, match="row 5, slot 0, which is not offered"):
            evaluator.fit(logs).evaluate(slates)
