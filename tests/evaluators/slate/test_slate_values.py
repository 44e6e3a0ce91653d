# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""What evaluators of slates share: weights, groups, warnings; and whole slates."""

import warnings

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.base import clone
from sklearn.linear_model import Ridge

from skope_ope import (
    BanditLogs,
    CascadeDR,
    IndependentSlotIPS,
    PlackettLuceSlatePolicy,
    PseudoInverse,
    SlateDirectMethod,
    SlateDoublyRobust,
    SlateIPS,
    SlateLogs,
    UniformSlatePolicy,
)
from skope_ope.base import SlateEvaluator
from skope_ope.exceptions import LowOverlapWarning, PropensityWarning, SupportWarning
from skope_ope.policies import (
    EmpiricalSlatePolicy,
    ProductSlatePolicy,
    SampledSlatePolicy,
)
from tests._quiet import quiet
from tests.evaluators.slate._worlds import (
    golden_logs,
    quietly,
    range_logs,
    rankings,
    showed,
    warned,
)


def test_weights_of_rounds_and_rounds_that_are_not_used():
    rows, weight = np.tile([0, 1, 2], 20), np.linspace(1, 2, 60)
    logs = range_logs(rows=rows)

    def value_of(used, logs=logs, weight=None):  # inside, or outside of the range
        target = np.where(used[:, None], [1, 1], [2, 0])
        return quietly(PseudoInverse(), target, logs, weight)

    late = np.arange(60) >= 30
    half = value_of(late, weight=weight)
    gain = np.array([-3, 3, 3])[rows] * logs.reward
    assert half.value == pytest.approx(np.average(gain[30:], weights=weight[30:]))
    assert half.round_values.mean() == pytest.approx(half.value)
    alone = value_of(late[30:], logs[30:], weight[30:])
    assert half.standard_error == pytest.approx(alone.standard_error, rel=1e-12)
    assert half.degrees_of_freedom == alone.degrees_of_freedom == 29
    assert half.diagnostics["n_rounds"] == 30
    one = value_of(np.arange(60) == 7)
    assert one.value == pytest.approx(gain[7]) and np.isnan(one.standard_error)
    assert np.isnan(value_of(np.zeros(60, dtype=bool)).value)


def test_logs_of_another_kind():
    single = BanditLogs(np.zeros((2, 1)), [0, 1], [0, 1])
    for cls in (SlateIPS, PseudoInverse, SlateDirectMethod, CascadeDR):
        with pytest.raises(TypeError, match="must be SlateLogs, got BanditLogs"):
            cls().fit(single)
    with pytest.raises(TypeError, match="does not define"):
        SlateEvaluator().fit(golden_logs()).evaluate(golden_logs().slate)


@pytest.mark.parametrize(
    ("fields", "proba"),
    [
        ({}, 1 / 6),
        ({"propensity": np.full(5, 0.5)}, 0.5),  # what was recorded goes first
        ({"logging_policy": ProductSlatePolicy(np.full((2, 3), 1 / 3))}, 1 / 9),
    ],
)
def test_probabilities_of_the_logged_slates(fields, proba):
    logs = golden_logs(**fields)
    result = quietly(SlateIPS(), logs.slate, logs)
    assert_allclose(result.round_values, logs.reward / proba, atol=1e-13)


def test_a_column_of_weights_weights_the_rounds():
    slates, reward = rankings(2, 3), [1.0, 0.5, 0.0, 0.3, 0.7, 0.2]
    logs = showed(slates, reward, logging_policy=UniformSlatePolicy(2))
    weight = np.array([1.0, 2.0, 1.0, 3.0, 1.0, 2.0])
    own, target = logs.with_columns(sample_weight=weight), np.tile([0, 1], (6, 1))
    for evaluator in (PseudoInverse(), SlateIPS()):
        found = quietly(evaluator, target, own)
        given = quietly(evaluator, target, logs, weight)
        assert_allclose(found.round_values, given.round_values)
        both = quietly(evaluator, target, own, weight)
        squared = quietly(evaluator, target, logs, weight**2)
        assert both.value == pytest.approx(squared.value)
    for wrong, match in (
        (np.zeros(6), "positive somewhere, got 0 to 0"),
        (np.ones((6, 2)), "the column 'sample_weight' must have 1 dimension"),
    ):
        with pytest.raises(ValueError, match=match):
            quietly(SlateIPS(), target, logs.with_columns(sample_weight=wrong))


@pytest.mark.parametrize(
    "cls, model",
    [(SlateDoublyRobust, None), (SlateDirectMethod, Ridge()), (CascadeDR, Ridge())],
)
def test_models_of_other_candidates_say_so(cls, model):
    evaluator = cls(reward_model=model)
    slates = np.resize(rankings(2, 3), (30, 2))
    fields = {"slot_reward": slates % 2, "logging_policy": UniformSlatePolicy(2)}
    logs, more = (showed(slates, None, n_candidates=m, **fields) for m in (3, 4))
    evaluator = clone(evaluator).fit(logs)
    message = "the logs have 4 candidates, those of the reward model's fit had 3"
    with pytest.raises(ValueError, match=message):
        quiet(evaluator, UniformSlatePolicy(2), more)


def test_fitted_attributes_are_set_together():
    slates = np.resize(rankings(2, 3), (40, 2))
    given = {"slot_reward": slates % 2, "logging_policy": UniformSlatePolicy(2)}
    logs = showed(slates, **given)
    evaluator = CascadeDR(reward_model=0.1).fit(logs)
    before = dict(vars(evaluator))
    evaluator.set_params(reward_model=0.2, cv=[])
    with pytest.raises(ValueError):
        evaluator.fit(logs[:30])
    assert evaluator.model_ == 0.1
    assert evaluator.logs_ is before["logs_"]
    seeded = SlateDirectMethod(random_state=np.random.RandomState(0)).fit(logs)
    assert seeded.seed_ == np.random.RandomState(0).randint(2**31 - 1)


@pytest.mark.parametrize("self_normalized", [False, True])
def test_golden_slates_as_wholes(self_normalized):
    evaluator = SlateIPS(self_normalized=self_normalized)
    target = np.tile([2, 0], (5, 1))
    recorded = {"propensity": np.full(5, 1 / 6), "logging_policy": None}
    for fields in ({}, recorded):
        result = quietly(evaluator, target, golden_logs(**fields))
        assert result.value == pytest.approx(1.0 if self_normalized else 1.2)
    # no match
    result, found = warned(evaluator.fit(golden_logs()[1:]), target[1:])
    assert (LowOverlapWarning, "gives all logged actions probability 0") in found
    if self_normalized:
        assert np.isnan(result.value) and np.isnan(result.standard_error)
        assert (SupportWarning, "the policy takes no logged action") in found
        assert (
            LowOverlapWarning,
            "weights sum to",
        ) not in found  # one reason is enough
    else:  # both candidates were logged in their slots, in other slates
        assert result.value == 0 and result.verdict.answer == "not supported"
    # what the policy shows first was never logged there
    rest = golden_logs()[2:]
    result, found = warned(evaluator.fit(rest), target[2:])
    assert np.isnan(result.value)
    assert (SupportWarning, "the policy takes no logged action") in found


def test_slates_that_the_logger_never_composes():
    logs = golden_logs(logging_policy=EmpiricalSlatePolicy(golden_logs().slate))
    target = np.array([[2, 0], [1, 2], [1, 2], [1, 0], [0, 1]])
    result, found = warned(SlateIPS().fit(logs), target)
    assert found[SupportWarning, "never shows"] == pytest.approx(0.4)
    assert result.diagnostics["unsupported_share"] == pytest.approx(0.4)


def test_probabilities_of_logged_candidates_are_enough_for_the_logger():
    logger = ProductSlatePolicy(np.full((2, 3), 1 / 3))
    logs = golden_logs(logging_policy=logger)
    logs = logs.with_columns(mu=logger.marginal_proba(logs))
    recorded = logs.replace(logging_policy=ProductSlatePolicy("mu"))
    target = np.tile([2, 0], (5, 1))
    result = quietly(SlateIPS(), target, recorded)
    assert result.value == quietly(SlateIPS(), target, logs).value
    assert np.isnan(result.diagnostics["unsupported_share"])


def test_what_serves_no_whole_slates():
    unknown = golden_logs(logging_policy=None)
    read = unknown.with_columns(slot_propensity=np.ones(5))
    few = golden_logs(logging_policy=EmpiricalSlatePolicy([[2, 0], [2, 1]]))
    for logs, message in (
        (unknown, r"needs the logging policy.*propensity"),
        (read, r"ProductSlatePolicy\('slot_propensity'\)"),
        (few, "at row 2"),
    ):
        with pytest.raises(ValueError, match=message):
            SlateIPS().fit(logs)
    fitted = SlateIPS().fit(golden_logs())
    drawn = SampledSlatePolicy(lambda logs, rng: logs.slate)
    for target, message in (
        (np.full((5, 2, 3), 1 / 3), "by its slot marginals"),
        (drawn, "probability of a slate cannot be computed"),
        (np.full((5, 2), 0.5), "IndependentSlotIPS"),
    ):
        with pytest.raises(TypeError, match=message):
            fitted.evaluate(target)


def test_groups_are_formed_as_evaluations_are():
    logs, target = golden_logs(), np.tile([2, 0], (5, 1))
    ratio, plain = PseudoInverse(self_normalized=True), PseudoInverse()
    result = quietly(ratio, target, logs)
    told = r"1 of 2 groups .* 1 first: .*sum to -1"
    with pytest.warns(LowOverlapWarning, match=told):
        groups = result.by([0, 0, 0, 0, 1])
    assert np.isnan([groups[1].value, groups[1].standard_error]).all()
    assert type(groups[1].warnings[0]) is LowOverlapWarning
    own = quietly(ratio, target[:4], logs[:4])
    assert groups[0].value == pytest.approx(own.value)
    assert not groups[0].warnings
    # where all rounds have none: the last round has a negative weight
    heavy = quietly(ratio, target, logs, [1, 1, 1, 1, 99])
    assert np.isnan(heavy.value)
    [reason] = [w for w in heavy.warnings if "has no estimate" in str(w)]
    assert type(reason) is LowOverlapWarning
    assert heavy.by([0, 0, 0, 0, 1])[0].value == pytest.approx(own.value)
    # rounds that are left out, in a group of their own and beside a single other one
    logs, target = range_logs(), np.array([[2, 0], [1, 1], [1, 1]])
    result = quietly(plain, target, logs)
    with pytest.warns(SupportWarning, match="the policy takes no logged action"):
        groups = result.by([0, 1, 1])
    assert np.isnan(groups[0].value)
    rest = quietly(plain, target[1:], logs[1:])
    assert groups[1].value == pytest.approx(rest.value)
    assert groups[1].standard_error == pytest.approx(rest.standard_error)
    beside = result.by([0, 0, 1])[0]
    assert beside.value == pytest.approx(3 * 0.2)
    assert np.isnan(beside.standard_error)  # a single round is used


def test_rounds_of_weight_zero_say_nothing():
    # the last round alone shows what the policy would
    logs, target = golden_logs(slate=[[0, 1]] * 4 + [[2, 0]]), np.tile([2, 0], (5, 1))
    result = quietly(SlateIPS(), target, logs)
    with pytest.warns(SupportWarning, match="the policy takes no logged action"):
        groups = result.by([0, 0, 0, 0, 1])
    assert np.isnan(groups[0].value)
    assert groups[1].value == pytest.approx(6 * 0.25)
    nothing = quietly(SlateIPS(), target, logs, [1.0, 1.0, 1.0, 1.0, 0.0])
    for value in (nothing, *nothing.by([0, 0, 0, 0, 1]).values()):
        assert np.isnan(value.value)
        assert "the policy takes no logged action" in str(value.warnings[-1])


PHI = np.array([[0.6, 0.2, 0.1], [0.3, 0.15, 0.05]])
TARGET, UNLIKE = np.array([0, 1]), [1.0, 2.0, 4.0]
VALUE = PHI[0, 0] + PHI[1, 1]
REFUTED = "assumes equally likely slates, but the logged slates are not"


def logged(n_rounds, weights, seed, n_queries=1, **fields):
    """Rankings of two of three, and clicks whose means are sums over slots."""
    rng = np.random.RandomState(seed)
    query = np.arange(n_rounds) % n_queries
    blank = showed(np.full((n_rounds, 2), -1), np.zeros(n_rounds), n_candidates=3)
    slate = PlackettLuceSlatePolicy(np.array(weights), 2).sample(blank, rng)
    clicks = rng.random_sample((n_rounds, 2)) < PHI[np.arange(2), slate]
    fields |= {"slot_reward": clicks.astype(float), "n_candidates": 3}
    logs = SlateLogs(query[:, None].astype(float), slate, **fields)
    return logs.with_columns(query=query), np.tile(TARGET, (n_rounds, 1))


def with_logger(logs, **settings):
    """Logs with the logger that is known by their slates."""
    seen = EmpiricalSlatePolicy.seen_in(logs, **settings)
    return logs.replace(logging_policy=seen)


def doubts(evaluator, target, logs):
    """The warnings that refute the logger."""
    found = quiet(evaluator.fit(logs), target).warnings
    return [w for w in found if REFUTED in str(w)]


def test_frequencies_are_the_default_and_unbiased_where_all_alike_is_not():
    errors = []
    for seed in range(30):
        logs, target = logged(600, UNLIKE, seed)
        both = with_logger(logs, by="query"), with_logger(logs, frequencies=False)
        values = [quiet(PseudoInverse().fit(one), target).value for one in both]
        errors.append(np.array(values) - VALUE)
    errors = np.array(errors)
    noise = errors.std(axis=0, ddof=1) / np.sqrt(len(errors))
    assert abs(errors[:, 0].mean()) < 4 * noise[0]
    assert abs(errors[:, 1].mean()) > 0.1 + 4 * noise[1]


@pytest.mark.few_cases(2)
@pytest.mark.parametrize(
    "evaluator",
    [
        PseudoInverse(),
        PseudoInverse(self_normalized=True),
        *(SlateIPS(), SlateDoublyRobust(), IndependentSlotIPS()),
    ],
    ids=str,
)
def test_counts_that_refute_all_alike_are_told(evaluator):
    logs, target = logged(600, UNLIKE, 0)
    evaluator.fit(with_logger(logs, frequencies=False))
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        result = evaluator.evaluate(target)
    (warned,) = [w.message for w in seen if REFUTED in str(w.message)]
    assert isinstance(warned, PropensityWarning) and warned in result.warnings
    assert warned.value > np.log(1000)
    assert "of the 600 rounds, not 1/6" in str(warned)
    assert not doubts(evaluator, target, with_logger(logs))
    # slates that a user lists without probabilities
    given = EmpiricalSlatePolicy(np.unique(logs.slate, axis=0))
    assert doubts(evaluator, target, logs.replace(logging_policy=given))


def test_what_is_no_logger_is_not_judged(global_random_seed):
    """A list as the target, recorded probabilities; and a logger that draws alike."""
    logs, _ = logged(600, UNLIKE, 0)
    every = EmpiricalSlatePolicy(np.unique(logs.slate, axis=0))
    known = logs.replace(logging_policy=PlackettLuceSlatePolicy(UNLIKE, 2))
    assert not doubts(PseudoInverse(), every, known)
    proba = known.logging_policy.slate_proba(known)
    recorded = logs.replace(logging_policy=every, propensity=proba)
    assert not doubts(SlateIPS(), every, recorded)
    assert doubts(PseudoInverse(), every, recorded)
    shares = {0: None, 1: np.full(6, 1 / 6)}
    same = dict.fromkeys((0, 1), every.slates)
    labelled = EmpiricalSlatePolicy(same, shares, by="query")
    assert doubts(PseudoInverse(), every, logs.replace(logging_policy=labelled))
    logs, target = logged(2000, [1.0, 1.0, 1.0], global_random_seed, n_queries=40)
    for settings in ({}, {"by": "query"}):
        one = with_logger(logs, frequencies=False, **settings)
        assert not doubts(PseudoInverse(), target, one)
    logs, target = logged(2000, UNLIKE, global_random_seed, n_queries=40)
    one = with_logger(logs, frequencies=False, by="query")
    (warned,) = doubts(PseudoInverse(), target, one)
    assert "rounds of " in str(warned)


def test_sessions_that_repeat_one_slate():
    """Thirty users see their slate twenty times each: counts differ by chance."""
    rows = np.repeat(np.arange(30), 20)
    logs = logged(30, [1.0, 1.0, 1.0], 0)[0][rows]
    target, alike = np.tile(TARGET, (600, 1)), {"frequencies": False}
    users = with_logger(logs.replace(group=rows), by=None, **alike)
    assert not doubts(PseudoInverse(), target, users)
    assert doubts(PseudoInverse(), target, with_logger(logs, **alike))


def test_frequencies_of_the_same_rounds_are_least_squares():
    """Label by label, where the rounds of a label tell what the policy wants."""
    logs, target = logged(800, UNLIKE, 0, n_queries=4)
    value = quiet(PseudoInverse().fit(with_logger(logs, by="query")), target).value
    expected = 0.0
    for query in range(4):
        rows = logs.columns["query"] == query
        design = np.zeros((rows.sum(), 6))
        for slot in range(2):
            design[np.arange(len(design)), 3 * slot + logs.slate[rows, slot]] = 1
        coefficients = np.linalg.lstsq(design, logs.reward[rows], rcond=None)[0]
        expected += (coefficients[0] + coefficients[4]) / 4
    assert_allclose(value, expected, rtol=1e-9)


def test_labels_of_few_rounds_leave_rounds_out():
    """What two rounds of a label tell is hardly ever what the policy wants."""
    logs, target = logged(600, UNLIKE, 0, n_queries=300)
    result = quiet(PseudoInverse().fit(with_logger(logs, by="query")), target)
    assert result.diagnostics["outside_range_share"] > 0.8
    assert any("are left out" in str(w) for w in result.warnings)
    whole = quiet(SlateIPS().fit(with_logger(logs, by="query")), target)
    assert whole.value < 0.5 * VALUE
    assert any("the estimate leaves them out" in str(w) for w in whole.warnings)


def test_rounds_that_were_dropped_by_reward_are_made_up_for(global_random_seed):
    """Slate 0 is never rewarded, and four in five such rounds were dropped."""
    rng = np.random.RandomState(global_random_seed)
    slate = rng.randint(2, size=(4000, 1))
    kept = (slate[:, 0] == 1) | (rng.random_sample(4000) < 0.2)
    logs = SlateLogs(np.zeros((kept.sum(), 1)), slate[kept], np.ones(kept.sum()))
    logs = logs.replace(logging_policy=EmpiricalSlatePolicy([[0], [1]]))
    target = np.ones((len(logs), 1), int)
    (warned,) = doubts(PseudoInverse(), target, logs)
    assert warned.value > 100
    weight = np.where(slate[kept, 0] == 1, 1.0, 5.0)
    weighted = logs.with_columns(sample_weight=weight)
    assert not doubts(PseudoInverse(), target, weighted)
