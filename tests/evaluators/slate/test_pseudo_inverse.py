# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""The pseudoinverse estimator in worlds that are summed over."""

import pickle

import numpy as np
import pytest

from skope_ope import (
    IPS,
    BanditLogs,
    PlackettLuceSlatePolicy,
    PseudoInverse,
    SlateLogs,
    UniformSlatePolicy,
)
from skope_ope.exceptions import (
    LowOverlapWarning,
    PropensityWarning,
    SupportWarning,
)
from skope_ope.policies import (
    EmpiricalSlatePolicy,
    ProductSlatePolicy,
    SampledSlatePolicy,
)
from tests.evaluators.slate._worlds import (
    additive,
    products,
    quietly,
    rankings,
    warned,
    world,
)

EXACT = [
    PseudoInverse(),
    PseudoInverse(self_normalized=True),
    PseudoInverse(control_variates="single"),
    PseudoInverse(control_variates="multiple"),
]


def golden_logs(**fields):
    golden = {
        "slate": [[2, 0], [2, 1], [0, 2], [1, 0], [0, 1]],
        "reward": [1, 0.5, 0, 1, 0.25],
        "logging_policy": UniformSlatePolicy(2),
        "n_candidates": 3,
    }
    return SlateLogs(np.zeros((5, 1)), **{**golden, **fields})


def test_golden_slates():
    target = np.tile([2, 0], (5, 1))
    result = quietly(PseudoInverse(), target, golden_logs())
    np.testing.assert_allclose(
        result.round_values,
        np.multiply([5, 1, 1, 1, -1], [1, 0.5, 0, 1, 0.25]),
        atol=1e-14,
    )
    assert result.value == pytest.approx(1.25, abs=1e-12)
    assert result.diagnostics["negative_weight_share"] == 0.2
    normalised = quietly(PseudoInverse(self_normalized=True), target, golden_logs())
    assert normalised.value == pytest.approx(0.8928571429, abs=5e-11)


def test_golden_products():
    logger = ProductSlatePolicy(np.full((3, 2), 0.5))
    slates = np.array([[0, 0, 0], [0, 0, 1], [0, 1, 1], [1, 1, 1]])
    logs = SlateLogs(np.zeros((4, 1)), slates, np.ones(4), logging_policy=logger)
    result = quietly(PseudoInverse(), np.zeros((4, 3), int), logs)
    np.testing.assert_allclose(result.round_values, [4, 2, 0, -2], atol=1e-14)


@pytest.mark.parametrize("evaluator", EXACT, ids=repr)
def test_the_discriminating_world(evaluator):
    phi = [[0.1, 0.5, 0.2], [0.3, 0.1, 0.4]]
    slates = rankings(2, 3)
    logs, _ = world(UniformSlatePolicy(2), slates, additive(slates, phi), 3)
    target = np.tile([1, 2], (6, 1))
    result = quietly(evaluator, target, logs)
    assert result.value == pytest.approx(0.9, abs=1e-12)


def test_other_formulas_fail_in_the_discriminating_world():
    phi = [[0.1, 0.5, 0.2], [0.3, 0.1, 0.4]]
    slates = rankings(2, 3)
    reward = additive(slates, phi)
    shown = (slates[:, :, None] == np.arange(3)).reshape(6, 6).astype(float)
    q, mu = shown[(slates == [1, 2]).all(axis=1)][0], shown.mean(axis=0)
    independent = shown @ (q / mu) - 1  # the formula of independent slots
    assert (independent * reward).mean() == pytest.approx(1.0167, abs=5e-5)
    rank_one = shown @ np.linalg.pinv(np.outer(mu, mu)) @ q
    assert (rank_one * reward).mean() == pytest.approx(0.5333, abs=5e-5)


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


def test_biased_where_slots_do_not_add_up():
    slates = rankings(3, 5)
    values = additive(slates, np.random.RandomState(0).random_sample((3, 5))) ** 2
    logger = PlackettLuceSlatePolicy.from_ranks(np.arange(1, 6), 3)
    logs, proba = world(logger, slates, values, 5)
    result = quietly(PseudoInverse(), np.tile([2, 0, 4], (60, 1)), logs, proba)
    truth = values[(slates == [2, 0, 4]).all(axis=1)][0]
    assert abs(result.value - truth) > 1e-3


@pytest.mark.parametrize(
    "logger",
    [
        UniformSlatePolicy(2),
        PlackettLuceSlatePolicy([3.0, 1.0, 2.0], 2),
        EmpiricalSlatePolicy([[0, 1], [1, 2]]),
    ],
)
def test_on_policy_weights_are_one(logger):
    slates = rankings(2, 3)
    logs = SlateLogs(np.zeros((6, 1)), slates, np.arange(6.0), logging_policy=logger)
    logs = logs[logger.slate_proba(logs) > 0]
    result = quietly(PseudoInverse(), logger, logs)
    np.testing.assert_allclose(result.round_values, logs.reward, rtol=0, atol=1e-13)


@pytest.mark.parametrize("self_normalized", [False, True])
def test_one_slot_is_inverse_propensity_scoring(self_normalized):
    from skope_ope import SNIPS

    rng = np.random.RandomState(0)
    weights, action = np.array([1.0, 2.0, 3.0, 4.0]), rng.randint(4, size=50)
    reward, pi = rng.random_sample(50), np.array([0.1, 0.2, 0.3, 0.4])[::-1]
    slates = SlateLogs(
        np.zeros((50, 1)),
        action[:, None],
        reward,
        logging_policy=PlackettLuceSlatePolicy(weights, 1),
    )
    single = BanditLogs(np.zeros((50, 1)), action, reward, weights[action] / 10)
    expected = quietly(
        SNIPS() if self_normalized else IPS(), np.tile(pi, (50, 1)), single
    )
    found = quietly(
        PseudoInverse(self_normalized=self_normalized),
        PlackettLuceSlatePolicy(pi, 1),
        slates,
    )
    np.testing.assert_allclose(
        found.round_values, expected.round_values, rtol=0, atol=1e-12
    )
    assert found.standard_error == pytest.approx(expected.standard_error)


def range_world(target):
    slates = np.array([[0, 0], [1, 0], [0, 1]])
    logger = EmpiricalSlatePolicy(slates)
    logs, _ = world(logger, slates, [1.0, 0.2, 0.4], 2)
    return logs, np.tile(target, (3, 1))


def test_the_range_reaches_further_than_absolute_continuity():
    logs, target = range_world([1, 1])
    assert not logs.logging_policy.slate_proba(logs, target).any()
    result = quietly(PseudoInverse(), target, logs)
    np.testing.assert_allclose(result.round_values / logs.reward, [-3, 3, 3])
    assert result.value == pytest.approx(0.2 + 0.4 - 1.0)  # phi adds up
    assert result.diagnostics["largest_residual"] < 1e-12


def test_a_target_outside_of_the_range():
    logs, target = range_world([1, 1])
    logs = SlateLogs(
        logs.context,
        logs.slate,
        logs.reward,
        n_candidates=3,
        logging_policy=logs.logging_policy,
    )
    target[0] = [2, 0]  # never shown
    evaluator = PseudoInverse().fit(logs)
    result, found = warned(evaluator, target)
    share = found[SupportWarning, "33.33% of the rounds"]
    assert share == result.diagnostics["outside_range_share"] == pytest.approx(1 / 3)
    rest = quietly(PseudoInverse(), target[1:], logs[1:])
    assert result.value == pytest.approx(rest.value)
    assert len(result.round_values) == 3
    assert result.round_values.std(ddof=1) / 3**0.5 == pytest.approx(
        result.standard_error
    )
    strict = PseudoInverse(outside_range="raise").fit(logs)
    with pytest.raises(ValueError, match=r"33.33% .*row 0, residual 1.*exclude"):
        strict.evaluate(target)


def test_nothing_within_the_range():
    logs, _ = range_world([1, 1])
    logs = SlateLogs(
        logs.context,
        logs.slate,
        logs.reward,
        n_candidates=3,
        logging_policy=logs.logging_policy,
    )
    result, found = warned(PseudoInverse().fit(logs), np.full((3, 2), 2))
    assert found[SupportWarning, "100.00% of the rounds"] == 1
    assert (SupportWarning, "has no estimate") in found
    assert np.isnan(result.value)
    assert np.isnan(result.standard_error)


def test_weights_that_sum_to_nothing():
    logs = golden_logs()[4:]
    evaluator = PseudoInverse(self_normalized=True).fit(logs)
    result, found = warned(evaluator, [[2, 0]])
    assert np.isnan(result.value)
    assert found[LowOverlapWarning, "weights sum to -1"] == pytest.approx(-1)


def test_clipping():
    target = np.tile([2, 0], (5, 1))
    result = quietly(PseudoInverse(cmax=2.0), target, golden_logs())
    np.testing.assert_allclose(
        result.round_values, np.multiply([2, 1, 1, 1, -1], golden_logs().reward)
    )
    assert result.diagnostics["altered_rows"] == 0.2
    normalised = quietly(
        PseudoInverse(cmax=2.0, self_normalized=True), target, golden_logs()
    )
    assert normalised.value == pytest.approx(result.value * 5 / 4)


def stored(result):
    """Return a result as it comes out of a pickle, and of a file of skops."""
    io = pytest.importorskip("skops.io")
    data = io.dumps(result)
    known = io.get_untrusted_types(data=data)
    return [pickle.loads(pickle.dumps(result)), io.loads(data, trusted=known)]


@pytest.mark.parametrize("weight", [None, [1.0, 2.0, 1.0, 0.0, 3.0]])
@pytest.mark.parametrize("evaluator", EXACT, ids=repr)
def test_results_are_stored_whole(evaluator, weight):
    target = np.tile([2, 0], (5, 1))
    result = quietly(evaluator, target, golden_logs(), weight)
    for copy in stored(result):
        assert copy.value == result.value
        assert copy.standard_error == result.standard_error
        assert dict(copy.diagnostics) == pytest.approx(dict(result.diagnostics))
        np.testing.assert_array_equal(copy.round_values, result.round_values)


def test_bounds_are_stored():
    target = np.tile([2, 0], (5, 1))
    result = quietly(PseudoInverse(), target, golden_logs())
    for copy in stored(result):
        expected = result.deviation_bound(reward_bound=1.0)
        assert copy.deviation_bound(reward_bound=1.0) == expected
    weighted = quietly(PseudoInverse(), target, golden_logs(), [9.0, 1, 1, 1, 1])
    for copy in stored(weighted):
        with pytest.raises(ValueError, match="different sample weights"):
            copy.deviation_bound(reward_bound=1.0)


def drawn_logs(n_rounds, seed, logger):
    rng = np.random.RandomState(seed)
    empty = SlateLogs(
        np.zeros((n_rounds, 1)),
        np.full((n_rounds, 3), -1),
        np.zeros(n_rounds),
        n_candidates=4,
    )
    slates = logger.sample(empty, rng)
    phi = np.linspace(0.02, 0.3, 12).reshape(3, 4)
    reward = rng.random_sample(n_rounds) < additive(slates, phi)
    return SlateLogs(
        empty.context, slates, reward, n_candidates=4, logging_policy=logger
    ), phi


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


def test_values_by_group_and_differences():
    logs, _ = drawn_logs(200, 0, LOGGERS[0])
    evaluator = PseudoInverse(self_normalized=True)
    one = quietly(evaluator, np.tile([1, 0, 2], (200, 1)), logs)
    half = np.repeat([0, 1], 100)
    groups = one.by(half)
    other = quietly(evaluator, np.tile([1, 0, 2], (100, 1)), logs[:100])
    assert groups[0].value == pytest.approx(other.value)
    assert groups[0].standard_error == pytest.approx(other.standard_error)
    two = quietly(evaluator, np.tile([3, 0, 2], (200, 1)), logs)
    gap = one.round_values - two.round_values
    difference = one - two
    assert difference.value == pytest.approx(one.value - two.value)
    assert difference.standard_error == pytest.approx(gap.std(ddof=1) / 200**0.5)


def test_targets_of_all_kinds():
    logs, _ = drawn_logs(50, 0, LOGGERS[1])
    slates = np.tile([1, 0, 2], (50, 1))
    marginals = (slates[:, :, None] == np.arange(4)).astype(float)
    logs = logs.with_columns(best=slates, q=marginals)
    evaluator = PseudoInverse().fit(logs)
    expected = quietly(evaluator, slates, logs)

    def draw(logs, rng):
        return np.tile([1, 0, 2], (len(logs), 1))

    for target in (
        slates.tolist(),
        "best",
        marginals,
        "q",
        EmpiricalSlatePolicy([[1, 0, 2]]),
        SampledSlatePolicy(draw, n_samples=2),
    ):
        found = quietly(evaluator, target, logs)
        np.testing.assert_allclose(found.round_values, expected.round_values)


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
        (
            {"logging_policy": EmpiricalSlatePolicy([[2, 0], [2, 1]])},
            r"logged slate \[0, 2\] at row 2 \(3 such rows\)",
        ),
    ],
)
def test_loggers_that_cannot_be(fields, message):
    with pytest.raises(ValueError, match=message):
        PseudoInverse().fit(golden_logs(**fields))


def test_bad_input():
    logs = golden_logs()
    with pytest.raises(ValueError, match="control_variates cannot be combined"):
        PseudoInverse(control_variates="single", cmax=1.0).fit(logs)
    evaluator = PseudoInverse().fit(logs)
    with pytest.raises(ValueError, match="fills 1 slots, the logs have 2"):
        evaluator.evaluate(np.zeros((5, 1), int))
    with pytest.raises(ValueError, match="no rectangular array"):
        evaluator.evaluate([[1, 0], [1], [0, 1], [0, 1], [0, 1]])
    with pytest.raises(ValueError, match="has 4 rows, the logs have 5"):
        evaluator.evaluate(np.zeros((4, 2), int))
    with pytest.raises(ValueError, match="probabilities of the logged candidates"):
        evaluator.evaluate(np.full((5, 2), 1.5))
    with pytest.raises(TypeError, match="serves IndependentSlotIPS"):
        evaluator.evaluate(np.full((5, 2), 0.5))
    with pytest.raises(TypeError, match="slate policy is expected"):
        evaluator.evaluate(object())


def test_empty_slots():
    # candidates are fewer than slots in the first round; the target must agree
    logs = SlateLogs(
        np.zeros((3, 1)),
        [[0, -1], [0, 1], [2, 1]],
        [1.0, 0.5, 0.25],
        n_candidates=[1, 3, 3],
        logging_policy=UniformSlatePolicy(2),
    )
    target = np.array([[0, -1], [1, 0], [2, 1]])
    result = quietly(PseudoInverse(), target, logs)
    np.testing.assert_allclose(result.round_values, [1.0, 0.5 * 1, 0.25 * 5])
    # an empty slot where the logger always shows something cannot be known
    target[1] = [1, -1]
    result = quietly(PseudoInverse(), target, logs)
    assert result.diagnostics["outside_range_share"] == pytest.approx(1 / 3)


def test_independent_slots_by_their_logged_probabilities():
    logger = ProductSlatePolicy([[0.2, 0.8], [0.5, 0.5]])
    logs, proba = world(logger, products(2, 2), [1.0, 0.0, 0.5, 0.2], 2)
    logs = logs.with_columns(mu=logger.marginal_proba(logs))
    recorded = logs.replace(logging_policy=ProductSlatePolicy("mu"))
    target = np.tile([1, 0], (4, 1))
    expected = quietly(PseudoInverse(), target, logs, proba)
    found = quietly(PseudoInverse(), target, recorded, proba)
    assert found.value == pytest.approx(expected.value)
    expected, found = (quietly(PseudoInverse(), target, x) for x in (logs, recorded))
    with pytest.raises(ValueError, match=r"needs sigma2"):
        found.deviation_bound(reward_bound=1.0)
    known = expected.diagnostics
    assert found.deviation_bound(
        reward_bound=1.0, sigma2=known["sigma2"], rho=known["rho"]
    ) == pytest.approx(expected.deviation_bound(reward_bound=1.0))
