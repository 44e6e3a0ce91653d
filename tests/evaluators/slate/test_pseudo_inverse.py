# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""The pseudoinverse estimator in worlds that are summed over, and its bound."""

import pickle

import numpy as np
import pytest
from numpy.testing import assert_allclose

from skope_ope import (
    IPS,
    SNIPS,
    BanditLogs,
    PlackettLuceSlatePolicy,
    PseudoInverse,
    UniformSlatePolicy,
)
from skope_ope.exceptions import PropensityWarning, SupportWarning
from skope_ope.policies import (
    EmpiricalSlatePolicy,
    MixtureSlatePolicy,
    ProductSlatePolicy,
    SampledSlatePolicy,
)
from tests.evaluators.slate._worlds import (
    EMPTY_WORLDS,
    additive,
    empty_world,
    golden_logs,
    products,
    quietly,
    range_logs,
    rankings,
    showed,
    warned,
    world,
)

FEW = EmpiricalSlatePolicy([[2, 0], [2, 1]])
EXACT = [
    PseudoInverse(),
    PseudoInverse(self_normalized=True),
    PseudoInverse(control_variates="single"),
    PseudoInverse(control_variates="multiple"),
]


def test_golden_slates():
    target = np.tile([2, 0], (5, 1))
    result = quietly(PseudoInverse(), target, golden_logs())
    expected = np.multiply([5, 1, 1, 1, -1], [1, 0.5, 0, 1, 0.25])
    assert_allclose(result.round_values, expected, atol=1e-14)
    assert result.value == pytest.approx(1.25, abs=1e-12)
    assert result.diagnostics["negative_weight_share"] == 0.2
    normalised = quietly(PseudoInverse(self_normalized=True), target, golden_logs())
    assert normalised.value == pytest.approx(0.8928571429, abs=5e-11)
    # independent slots
    logger = ProductSlatePolicy(np.full((3, 2), 0.5))
    slates = [[0, 0, 0], [0, 0, 1], [0, 1, 1], [1, 1, 1]]
    logs = showed(slates, np.ones(4), logging_policy=logger)
    result = quietly(PseudoInverse(), np.zeros((4, 3), int), logs)
    assert_allclose(result.round_values, [4, 2, 0, -2], atol=1e-14)


@pytest.mark.parametrize("evaluator", EXACT, ids=repr)
@pytest.mark.parametrize("n_slots", [1, 3])
def test_unbiased_where_slots_add_up(evaluator, n_slots):
    rng = np.random.RandomState(0)
    phi = rng.random_sample((n_slots, 5))
    slates = rankings(n_slots, 5)
    logger = PlackettLuceSlatePolicy.from_ranks(np.arange(1, 6), n_slots)
    logs, proba = world(logger, slates, additive(slates, phi), 5)
    for target in (
        np.tile([2, 0, 4][:n_slots], (len(logs), 1)),
        PlackettLuceSlatePolicy([1.0, 5.0, 1.0, 2.0, 1.0], n_slots),
        UniformSlatePolicy(n_slots),
        EmpiricalSlatePolicy(slates[[3, 0]]),  # slots depend on each other
    ):
        if isinstance(target, np.ndarray):
            truth = additive(target[:1], phi)[0]
        else:
            truth = target.slate_proba(logs) @ logs.reward
        result = quietly(evaluator, target, logs, proba)
        assert result.value == pytest.approx(truth, abs=1e-12)
        assert result.diagnostics["mean_weight"] == pytest.approx(1, abs=1e-12)


@pytest.mark.parametrize("ratio", [False, True])
def test_one_slot_is_inverse_propensity_scoring(ratio):
    rng = np.random.RandomState(0)
    weights, action = np.array([1.0, 2.0, 3.0, 4.0]), rng.randint(4, size=50)
    reward, pi = rng.random_sample(50), np.array([0.4, 0.3, 0.2, 0.1])
    logger = PlackettLuceSlatePolicy(weights, 1)
    slates = showed(action[:, None], reward, logging_policy=logger)
    single = BanditLogs(np.zeros((50, 1)), action, reward, weights[action] / 10)
    plain = SNIPS() if ratio else IPS()
    expected = quietly(plain, np.tile(pi, (50, 1)), single)
    policy = PlackettLuceSlatePolicy(pi, 1)
    found = quietly(PseudoInverse(self_normalized=ratio), policy, slates)
    assert_allclose(found.round_values, expected.round_values, rtol=0, atol=1e-12)
    assert found.standard_error == pytest.approx(expected.standard_error)


def test_the_range_reaches_further_than_absolute_continuity():
    logs, target = range_logs(2), np.tile([1, 1], (3, 1))
    assert not logs.logging_policy.slate_proba(logs, target).any()
    result = quietly(PseudoInverse(), target, logs)
    assert_allclose(result.round_values / logs.reward, [-3, 3, 3])
    assert result.value == pytest.approx(0.2 + 0.4 - 1.0)  # phi adds up
    assert result.diagnostics["largest_residual"] < 1e-12


def test_a_target_outside_of_the_range():
    logs, target = range_logs(), np.array([[2, 0], [1, 1], [1, 1]])  # 2: never shown
    result, found = warned(PseudoInverse().fit(logs), target)
    share = found[SupportWarning, "33.33% of the rounds"]
    assert share == result.diagnostics["outside_range_share"] == pytest.approx(1 / 3)
    rest = quietly(PseudoInverse(), target[1:], logs[1:])
    assert result.value == pytest.approx(rest.value)
    error = result.round_values.std(ddof=1) / 3**0.5
    assert error == pytest.approx(result.standard_error)
    strict = PseudoInverse(outside_range="raise").fit(logs)
    with pytest.raises(ValueError, match=r"33.33% .*row 0, residual 1.*exclude"):
        strict.evaluate(target)
    result, found = warned(PseudoInverse().fit(logs), np.full((3, 2), 2))
    assert found[SupportWarning, "100.00% of the rounds"] == 1
    assert (SupportWarning, "has no estimate") in found
    assert np.isnan(result.value) and np.isnan(result.standard_error)


def drawn_logs(n_rounds, seed, logger):
    rng = np.random.RandomState(seed)
    empty = showed(np.full((n_rounds, 3), -1), np.zeros(n_rounds), n_candidates=4)
    slates = logger.sample(empty, rng)
    phi = np.linspace(0.02, 0.3, 12).reshape(3, 4)
    reward = rng.random_sample(n_rounds) < additive(slates, phi)
    return showed(slates, reward, n_candidates=4, logging_policy=logger), phi


LOGGERS = [
    UniformSlatePolicy(3),
    PlackettLuceSlatePolicy([4.0, 3.0, 2.0, 1.0], 3),
    ProductSlatePolicy(np.tile([0.4, 0.3, 0.2, 0.1], (3, 1))),
]


@pytest.fixture(scope="module", params=LOGGERS, ids=lambda p: type(p).__name__)
def repetitions(request):
    """300 logs of a logger, which all evaluators share."""
    return [drawn_logs(400, seed, request.param) for seed in range(300)]


@pytest.mark.theory
@pytest.mark.parametrize("evaluator", EXACT, ids=repr)
def test_standard_errors_are_those_of_repetitions(evaluator, repetitions):
    target = np.tile([1, 0, 2], (400, 1))
    results = [quietly(evaluator, target, logs) for logs, _ in repetitions]
    _, phi = repetitions[0]
    values = np.array([result.value for result in results])
    errors = np.array([result.standard_error for result in results])
    truth = additive(target[:1], phi)[0]
    # 300 repetitions: four standard errors of the mean; the spread within 17%
    assert abs(values.mean() - truth) < 4 * values.std() / np.sqrt(300) + 1e-3
    assert errors.mean() == pytest.approx(values.std(ddof=1), rel=4 / np.sqrt(600))
    low, high = np.array([result.confidence_interval() for result in results]).T
    covered = ((low < truth) & (truth < high)).mean()
    assert abs(covered - 0.95) < 4 * np.sqrt(0.95 * 0.05 / 300) + 0.01


@pytest.mark.parametrize("logger", LOGGERS, ids=lambda p: type(p).__name__)
def test_control_variates_take_variance_off(logger):
    # a reward with a large mean: most of the spread is that of the weights
    logs, _ = drawn_logs(4000, 0, logger)
    logs = logs.replace(reward=logs.reward + 1.0)
    target = np.tile([1, 0, 2], (4000, 1))
    plain, ratio, single, multiple = (
        quietly(evaluator, target, logs).standard_error for evaluator in EXACT
    )
    assert ratio < 0.7 * plain
    assert single < 1.02 * ratio
    assert multiple < 1.02 * single


def test_round_values_of_control_variates_are_the_gradient():
    # the derivative of the value in the weight of a round
    logs, _ = drawn_logs(40, 3, LOGGERS[1])
    target = np.tile([1, 0, 2], (40, 1))
    for evaluator in EXACT[1:]:
        result = quietly(evaluator, target, logs)
        weight, change = np.ones(40), 1e-6
        weight[7] += change
        moved = quietly(evaluator, target, logs, weight).value
        slope = (result.round_values[7] - result.value) / 40
        assert (moved - result.value) / change == pytest.approx(slope, rel=1e-3)


def test_a_logger_by_draws_is_told():
    logs, _ = drawn_logs(50, 0, LOGGERS[1])
    drawn = logs.replace(logging_policy=SampledSlatePolicy(LOGGERS[1], n_samples=500))
    evaluator = PseudoInverse().fit(drawn)
    result, found = warned(evaluator, np.tile([1, 0, 2], (50, 1)))
    bias = found[PropensityWarning, "means over draws"]
    assert bias == result.diagnostics["weight_bias"] != 0


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"logging_policy": UniformSlatePolicy(3)}, "logging policy fills 3 slots"),
        ({"slate": [[1, 1]] * 5}, "at row 0"),
        ({"logging_policy": None}, "needs the logging policy.*UniformSlatePolicy"),
        ({"logging_policy": FEW}, r"logged slate \[0, 2\] at row 2 \(3 such rows\)"),
    ],
)
def test_loggers_that_cannot_be(fields, message):
    with pytest.raises(ValueError, match=message):
        PseudoInverse().fit(golden_logs(**fields))
    with pytest.raises(ValueError, match="control_variates cannot be combined"):
        PseudoInverse(control_variates="single", cmax=1.0).fit(golden_logs())


@pytest.mark.parametrize(
    ("target", "message"),
    [
        (np.zeros((5, 1), int), "fills 1 slots, the logs have 2"),
        (np.full((5, 2), 1.5), "probabilities of the logged candidates"),
        (np.full((5, 2, 3), 0.5), "sum to at most 1"),
        (np.full((5, 2, 2), 0.5), "with 5 rounds and 3 candidates"),
        (np.full((5, 2, 3), 1 / 3), "candidate 0 at row 1, slot 0, which is not"),
    ],
)
def test_targets_that_cannot_be(target, message):
    mask = np.ones((5, 3), dtype=bool)
    mask[1, 0] = "candidate 0" not in message
    logs = golden_logs(candidates=mask, n_candidates=None)
    with pytest.raises(ValueError, match=message):
        PseudoInverse().fit(logs).evaluate(target)


def test_empty_slots():
    # candidates are fewer than slots in the first round; the target must agree
    known = {"n_candidates": [1, 3, 3], "logging_policy": UniformSlatePolicy(2)}
    logs = showed([[0, -1], [0, 1], [2, 1]], [1.0, 0.5, 0.25], **known)
    target = np.array([[0, -1], [1, 0], [2, 1]])
    result = quietly(PseudoInverse(), target, logs)
    assert_allclose(result.round_values, [1.0, 0.5 * 1, 0.25 * 5])
    # an empty slot where the logger always shows something cannot be known
    target[1] = [1, -1]
    result = quietly(PseudoInverse(), target, logs)
    assert result.diagnostics["outside_range_share"] == pytest.approx(1 / 3)


def test_control_variates_of_nothing():
    # the policy leaves all slots empty, as the logger may: all weights are zero
    logger = EmpiricalSlatePolicy([[0, -1], [-1, 1]])
    logs = showed([[0, -1], [-1, 1]] * 2, np.arange(4.0), logging_policy=logger)
    for kind in (None, "single", "multiple"):
        evaluator = PseudoInverse(control_variates=kind)
        result = quietly(evaluator, np.full((4, 2), -1), logs)
        assert np.isnan([result.value, result.standard_error]).all()
        assert "the policy takes no logged action" in str(result.warnings[-1])


def test_independent_slots_by_their_logged_probabilities():
    logger = ProductSlatePolicy([[0.2, 0.8], [0.5, 0.5]])
    logs, proba = world(logger, products(2, 2), [1.0, 0.0, 0.5, 0.2], 2)
    logs = logs.with_columns(mu=logger.marginal_proba(logs))
    recorded = logs.replace(logging_policy=ProductSlatePolicy("mu"))
    target = np.tile([1, 0], (4, 1))
    pair = (quietly(PseudoInverse(), target, x, proba).value for x in (logs, recorded))
    assert next(pair) == pytest.approx(next(pair))
    expected, found = (quietly(PseudoInverse(), target, x) for x in (logs, recorded))
    with pytest.raises(ValueError, match=r"needs sigma2"):
        found.deviation_bound(reward_bound=1.0)
    known = {name: expected.diagnostics[name] for name in ("sigma2", "rho")}
    bound = expected.deviation_bound(reward_bound=1.0)
    assert found.deviation_bound(reward_bound=1.0, **known) == pytest.approx(bound)


@pytest.mark.parametrize("name", EMPTY_WORLDS)
def test_weights_whose_mean_is_not_one(name):
    logs, proba, target, truth = empty_world(name)
    plain = quietly(PseudoInverse(), target, logs, proba)
    assert plain.diagnostics.get("outside_range_share", 0) == 0
    assert plain.value == pytest.approx(truth, abs=1e-12)
    expected = plain.diagnostics["expected_weight"]
    assert abs(expected - 1) > 0.1
    # the mean over the logger's distribution is what it should be: no alarm
    assert plain.diagnostics["mean_weight"] == pytest.approx(expected, abs=1e-12)
    assert plain.diagnostics["mean_weight_z"] == pytest.approx(0, abs=1e-9)
    # numerator and denominator have their means: truth, and one
    ratio = quietly(PseudoInverse(self_normalized=True), target, logs, proba)
    assert ratio.value == pytest.approx(truth, abs=1e-12)


def test_logs_that_leave_every_slot_empty_now_and_then():
    # W = 2 in all rounds: divided by its own sum, the value would be halved
    slates = np.array([[0, -1], [-1, 1]] * 20)
    known = {"logging_policy": EmpiricalSlatePolicy(slates[:2]), "n_candidates": 2}
    logs = showed(slates, np.where(slates[:, 0] == 0, 0.3, 0.4), **known)
    target = np.tile([0, 1], (40, 1))
    for self_normalized in (False, True):
        evaluator = PseudoInverse(self_normalized=self_normalized).fit(logs)
        result, found = warned(evaluator, target)
        assert result.value == pytest.approx(0.7)
        assert not found
    # too many of one kind: the mean weight is what tells
    wrong = EmpiricalSlatePolicy([[0, -1], [-1, 1]], [0.1, 0.9])
    many = logs[np.tile(np.arange(40), 10)].replace(logging_policy=wrong)
    _, found = warned(PseudoInverse().fit(many), np.tile([0, 1], (400, 1)))
    assert (PropensityWarning, "where at most 2 is expected") in found


def test_rounds_without_candidates():
    # their slates are empty: they bring nothing, and count as rounds
    fields = {"n_candidates": [0, 3, 3], "logging_policy": UniformSlatePolicy(2)}
    logs = showed([[-1, -1], [0, 1], [2, 1]], [0.0, 0.5, 0.25], **fields)
    equal = logs.replace(logging_policy=PlackettLuceSlatePolicy(np.ones(3), 2))
    slates = np.array([[-1, -1], [1, 0], [2, 1]])
    for target in (slates, (slates[:, :, None] == np.arange(3)).astype(float)):
        for params in ({}, {"self_normalized": True}, {"control_variates": "single"}):
            own = quietly(PseudoInverse(**params), target, equal)
            found = quietly(PseudoInverse(**params), target, logs)
            assert_allclose(found.round_values, own.round_values, atol=1e-12)
    assert quietly(PseudoInverse(), slates, logs).value == pytest.approx(1.75 / 3)
    slates[0] = [0, -1]  # nothing can be shown there
    with pytest.raises(ValueError, match=r"candidate|cannot|offer"):
        quietly(PseudoInverse(outside_range="raise"), slates, logs)


def test_theorem_one():
    target = np.tile([2, 0], (5, 1))
    result = quietly(PseudoInverse(), target, golden_logs())
    log = np.log(2 / 0.1)
    expected = np.sqrt(2 * 5 * log / 5) + 2 * 6 * log / 15
    assert result.deviation_bound(0.1, reward_bound=1.0) == pytest.approx(expected)
    assert result.deviation_bound(0.1, reward_bound=2.0) == pytest.approx(2 * expected)
    tighter = result.deviation_bound(0.1, reward_bound=1.0, sigma2=1.0, rho=1.0)
    assert tighter == pytest.approx(np.sqrt(2 * log / 5) + 4 * log / 15)
    with pytest.raises(ValueError, match="needs reward_bound"):
        result.deviation_bound(0.1)
    copy = pickle.loads(pickle.dumps(result))
    assert copy.deviation_bound(0.1, reward_bound=1.0) == pytest.approx(expected)
    for other in (*EXACT[1:], PseudoInverse(cmax=9.0)):
        with pytest.raises(ValueError, match="no theorem"):
            quietly(other, target, golden_logs()).deviation_bound(reward_bound=1.0)


def test_theorem_one_is_that_of_the_rounds_that_are_used():
    # in half of the rounds the logger never shows what the policy wants
    logger = ProductSlatePolicy("proba")
    proba = np.zeros((40, 2, 3))
    proba[:, :, :2] = [0.9, 0.1]
    proba[20:] = [0.98, 0.01, 0.01]
    known = {"n_candidates": 3, "logging_policy": logger}
    logs = showed(np.zeros((40, 2), int), np.ones(40), **known)
    logs = logs.with_columns(proba=proba)
    target = np.full((40, 2), 2)
    result = quietly(PseudoInverse(), target, logs)
    own = quietly(PseudoInverse(), target[20:], logs[20:])
    assert result.value == pytest.approx(own.value)
    for name in ("sigma2", "rho"):
        assert result.diagnostics[name] == pytest.approx(own.diagnostics[name])
    assert own.diagnostics["sigma2"] == pytest.approx(199)
    bound = own.deviation_bound(reward_bound=1.0)
    assert result.deviation_bound(reward_bound=1.0) == pytest.approx(bound)
    nothing = quietly(PseudoInverse(), target[:20], logs[:20])
    assert np.isnan(nothing.deviation_bound(reward_bound=1.0))


def test_theorem_one_is_that_of_equal_weights():
    target, logs, bound = np.tile([2, 0], (5, 1)), golden_logs(), {"reward_bound": 1.0}
    same = quietly(PseudoInverse(), target, logs, np.full(5, 3.0))
    plain = quietly(PseudoInverse(), target, logs).deviation_bound(**bound)
    assert same.deviation_bound(**bound) == pytest.approx(plain)
    unequal = quietly(PseudoInverse(), target, logs, [9.0, 1, 1, 1, 1])
    for copy in (unequal, pickle.loads(pickle.dumps(unequal))):
        with pytest.raises(ValueError, match="different sample weights"):
            copy.deviation_bound(**bound)


def test_a_bound_on_the_largest_weight_is_called_so():
    slates = rankings(2, 3)
    ranked = PlackettLuceSlatePolicy([1.0, 2.0, 3.0], 2)
    mixed = MixtureSlatePolicy([EmpiricalSlatePolicy(slates[:3]), ranked], [0.5, 0.5])
    listed = EmpiricalSlatePolicy(slates, np.arange(1, 7) / 21)
    for logger, name in ((ranked, "rho"), (listed, "rho"), (mixed, "rho_bound")):
        logs, _ = world(logger, slates, 0.5, 3)
        result = quietly(PseudoInverse(), np.tile([0, 1], (6, 1)), logs)
        assert {"rho", "rho_bound"} & set(result.diagnostics) == {name}
        assert name in repr(result.diagnostics)
        sigma2, rho = result.diagnostics["sigma2"], result.diagnostics[name]
        radius = result.deviation_bound(reward_bound=1.0)
        stated = result.deviation_bound(reward_bound=1.0, sigma2=sigma2, rho=rho)
        assert radius == stated
        assert rho >= result.round_values.max() / 0.5 - 1e-9
