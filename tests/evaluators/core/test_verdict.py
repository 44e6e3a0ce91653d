# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""What follows from reasons, and what the value itself says against it."""

import json

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from skope_ope import (
    IPS,
    BanditLogs,
    ClassifierPolicy,
    ConstantPolicy,
    DirectMethod,
    DoublyRobust,
    DRns,
    ExplorationScavenging,
    LinUCB,
    PropensityEstimator,
    PseudoInverse,
    RejectionSampling,
    Replay,
    SlateDirectMethod,
    UniformPolicy,
    UniformSlatePolicy,
    evaluate,
    summarize,
)
from skope_ope.audit import Verdict, VerdictThresholds
from skope_ope.datasets import make_slate_logs
from skope_ope.exceptions import SupportWarning
from tests._values import stated_value
from tests._verdicts import LOGS, POLICY, finding, names, value_of
from tests._worlds import uniform_logs
from tests.evaluators.core._asked import bare_logs, by_pickle, logged_value

pytestmark = pytest.mark.filterwarnings("ignore::skope_ope.exceptions.OPEWarning")
UNKNOWN = LOGS.replace(propensity=None, logging_proba=None)
UNIFORM_LOGS = uniform_logs(3000)


def told(value):
    """The answer, and the names of its reasons."""
    return [value.verdict.answer, *names(value.verdict)]


def learned():
    """A policy that has learned from these rounds."""
    return ClassifierPolicy(LogisticRegression(), epsilon=0.2).fit(LOGS)


# -- an answer and its reasons --------------------------------------------------------
def test_the_worst_reason_decides_and_comes_first():
    note, warning, error = (finding(s, s) for s in ("note", "warning", "error"))
    assert Verdict([]).answer == "trustworthy"
    assert Verdict([note]).answer == "trustworthy"
    assert Verdict([note, warning]).answer == "caution"
    found = Verdict([note, warning, error])
    assert found.answer == "not supported"
    assert names(found) == ["error", "warning", "note"]


def test_verdicts_are_ordered_by_their_answers():
    severities = ("error", "warning", "note")
    worst, middle, best = (Verdict([finding("x", one)]) for one in severities)
    same = Verdict([finding("y", "warning")])
    assert sorted([best, worst, middle]) == [worst, middle, best]
    assert best > middle >= "caution" > worst
    assert best == "trustworthy" != middle
    assert middle == same and len({middle, same}) == 1
    assert best != 3
    with pytest.raises(ValueError, match=r"is one of .* got 'trustworthi'"):
        assert best >= "trustworthi"
    with pytest.raises(TypeError, match="three answers, not yes or no"):
        assert best


def test_pickles_texts_and_records_hold_all_of_it():
    reasons = [finding("few_groups", "warning"), finding("drift", "note")]
    found = Verdict(reasons, ["Nothing hidden."], audited=True)
    assert repr(by_pickle(found)) == repr(found)
    assert repr(found).splitlines() == [
        "Verdict: caution; read the reasons before you act on the value.",
        "[caution] few_groups: Something about few_groups.",
        "[accepted] drift: Something about drift.",
        "Not checked:",
        "- Nothing hidden.",
    ]
    record = json.loads(json.dumps(found.to_dict(), allow_nan=False))
    assert (record["answer"], record["audited"]) == ("caution", True)
    assert [one["finding"] for one in record["reasons"]] == ["few_groups", "drift"]
    assert record["unchecked"] == ["Nothing hidden."]
    hostile = Verdict([finding("<b>\x1b[2J</b>", "error")])
    assert "<b>" not in hostile._repr_html_()
    assert "\x1b" not in hostile._repr_html_() + repr(hostile)


# -- what is not trustworthy ----------------------------------------------------------
def test_no_value_and_no_error_are_not_supported():
    other = bare_logs([0] * 9, 1.0, 1.0, actions=[0, 1])
    value = value_of(IPS(), ConstantPolicy(1), other)
    assert told(value)[:2] == ["not supported", "no_estimate"]
    alone = stated_value(0.5, np.nan, 100, estimator="IPS")
    assert told(alone) == ["not supported", "no_estimate"]


def test_few_rounds():
    assert told(value_of(IPS())) == ["trustworthy"]
    few = value_of(IPS(), logs=LOGS[:50])
    assert few.verdict == "caution" and "low_overlap" in names(few.verdict)


def test_few_rewards():
    reward = (np.arange(2000) % 400 == 0).astype(float)
    logs = bare_logs(np.random.RandomState(0).randint(2, size=2000), reward, 0.5)
    value = value_of(IPS(), UniformPolicy(), logs)
    assert told(value) == ["caution", "few_events"]
    [reason] = value.verdict.reasons
    assert reason.number == pytest.approx(5, rel=0.01)
    assert f"rests on {reason.number:.1f} effective events" in reason.text
    # none at all: an upper limit, no more
    nothing = value_of(IPS(), UniformPolicy(), logs.replace(reward=np.zeros(2000)))
    assert nothing.verdict < "trustworthy"


def test_actions_that_were_never_logged():
    rng = np.random.RandomState(0)
    reward, action = rng.randint(2, size=(2, 2000))
    rounds = bare_logs(action, reward, 0.5, actions=[0, 1, 2])

    def taking(share):
        proba = np.tile([1 - share, 0.0, share], (len(rounds), 1))
        return value_of(IPS(), proba, rounds).verdict

    assert taking(0.0) == "trustworthy"
    assert taking(0.05) == "caution"
    lost = taking(0.2)
    assert lost == "not supported"
    [reason] = [one for one in lost.reasons if one.name == "unsupported_mass"]
    assert reason.number == pytest.approx(0.2) and "20.00%" in reason.text


@pytest.mark.parametrize(
    ("shares", "answer"),
    [
        ((0.004,), "trustworthy"),
        ((0.004, 0.003), "caution"),
        ((0.06, 0.06), "not supported"),
        ((np.nan,), "not supported"),
        ((None, 0.004), "not supported"),
    ],
)
def test_shares_that_are_not_in_the_logs_add_up(shares, answer):
    told = [SupportWarning(f"share {i}", share) for i, share in enumerate(shares)]
    z = np.random.RandomState(0).uniform(size=500)
    given = {"round_values": z, "estimator": "IPS", "warnings": told}
    value = stated_value(z.mean(), z.std(ddof=1) / 500**0.5, 500, **given)
    assert value.verdict == answer


def leaves_unchecked(value, text):
    return any(text in one for one in value.verdict.unchecked)


def test_support_that_is_not_known_is_not_taken_for_none_lost():
    """Only the policy's probabilities of the logged actions are given."""
    alone = POLICY.predict_proba(LOGS.context)[np.arange(1500), LOGS.action_index]
    value, known = value_of(IPS(), alone), value_of(IPS())
    assert np.isnan(value.diagnostics["unsupported_mass"])
    text = "The policy takes only actions that the logger takes"
    for one in (value, value - logged_value(LOGS), by_pickle(value)):
        assert leaves_unchecked(one, text)
    assert known.diagnostics["unsupported_mass"] == 0
    assert not leaves_unchecked(known, text)
    assert value.value == known.value


def drawn_world(n_rounds, seed, scale, rotated):
    """Logs of clicks, a policy, and its true value; rotated: it wants other actions."""
    rng, rate = np.random.default_rng(seed), np.array([0.2, 0.3, 0.4])
    x = rng.normal(size=(n_rounds, 2))
    mu = np.exp(scale * x @ np.array([[1, -1, 0], [0, 1, -1]]))
    mu /= mu.sum(axis=1, keepdims=True)
    pi = np.roll(mu, 1, axis=1) if rotated else mu**1.5
    pi /= pi.sum(axis=1, keepdims=True)
    action = np.minimum((mu.cumsum(1) < rng.random((n_rounds, 1))).sum(1), 2)
    reward = (rng.random(n_rounds) < rate[action]).astype(float)
    p = mu[np.arange(n_rounds), action]
    logs = BanditLogs(x, action, reward, p, reward_range=(0, 1), actions=[0, 1, 2])
    return logs, pi, float((pi @ rate).mean())


def test_rare_rounds_of_large_weights_that_the_logs_do_not_hold():
    logs, pi, _ = drawn_world(1000, 3, 2.5, rotated=True)
    value = value_of(IPS(), pi, logs)
    [reason] = [r for r in value.verdict.reasons if r.name == "missing_weight"]
    lacking = 1 - value.diagnostics["mean_weight"]
    assert reason.number == pytest.approx(lacking) and lacking > 0.1
    assert f"{lacking:.0%} less than expected" in reason.text
    assert "missing_weight" in told(value - logged_value(logs))
    calm, near, _ = drawn_world(1000, 3, 1.0, rotated=False)
    assert told(value_of(IPS(), near, calm)) == ["trustworthy"]


@pytest.mark.theory
@pytest.mark.parametrize("n_rounds", [50, 1000])
@pytest.mark.parametrize("scale, rotated", [(1.0, False), (2.5, False), (2.5, True)])
def test_intervals_that_are_called_trustworthy_hold(n_rounds, scale, rotated):
    held = []
    for seed in range(100):
        logs, pi, truth = drawn_world(n_rounds, seed, scale, rotated)
        for evaluator in (IPS(), DoublyRobust()):
            value = value_of(evaluator, pi, logs)
            if value.verdict == "trustworthy":
                low, high = value.confidence_interval()
                held.append(low <= truth <= high)
    # the truth is that of these contexts, and the two share their rounds
    if rotated:
        assert len(held) <= 10
    else:
        assert len(held) > 150
        assert np.mean(held) > 0.95 - 4 * (0.95 * 0.05 / 100) ** 0.5


def test_no_round_that_bears_on_the_policy_leaves_a_model_alone():
    value = value_of(DoublyRobust(), ConstantPolicy(0), LOGS[LOGS.action_index > 0])
    assert value.verdict == "not supported"
    errors = [one.name for one in value.verdict.reasons if one.severity == "error"]
    assert "low_overlap" in errors


def test_a_value_outside_the_range_of_the_rewards():
    action = np.arange(500) % 100 < 52
    logs = bare_logs(action, 0.99, 0.5, reward_range=(0, 1))
    value = value_of(IPS(), ConstantPolicy(True), logs)
    assert value.value > 1 and "low_overlap" in told(value)
    assert "lies outside the range of the" in " ".join(repr(value.verdict).split())
    # the whole interval
    wrong = value_of(IPS(), ConstantPolicy(True), logs.replace(propensity=[0.2] * 500))
    assert wrong.verdict == "not supported"
    [reason] = [one for one in wrong.verdict.reasons if one.name == "propensity"]
    assert (reason.severity, "outside the range" in reason.text) == ("error", True)


def test_a_policy_that_has_learned_from_these_rounds():
    found = value_of(DoublyRobust(), learned()).verdict
    assert found == "not supported"
    assert names(found)[0] == "learned_rounds"
    assert "100.0% of these rounds" in found.reasons[0].text


def test_estimated_propensities_are_cautioned_of():
    logs = PropensityEstimator().fit_transform(UNKNOWN)
    value = value_of(IPS(), logs=logs)
    assert told(value) == ["caution", "estimated_propensities"]
    assert by_pickle(value).verdict == "caution"
    # what uses none is not concerned
    assert "estimated_propensities" not in told(value_of(DirectMethod(), logs=logs))
    # groups of rounds inherit what speaks against the whole
    first, second = value.by(np.arange(1500) % 2).values()
    assert first.verdict == second.verdict == "caution"
    assert "estimated_propensities" in told(first)
    few = value_of(IPS()).by(np.arange(1500) < 20)[True]
    assert few.verdict < "trustworthy"


def test_rewards_without_a_known_range_are_said_to_be_assumed():
    reward = np.random.RandomState(0).normal(size=1500)
    logs = BanditLogs(LOGS.context, LOGS.action, reward, LOGS.propensity)
    text = "No reward is far larger or smaller than those of the log"
    assert leaves_unchecked(value_of(IPS(), logs=logs), text)
    assert not leaves_unchecked(value_of(IPS()), text)


def test_a_tail_that_may_not_have_been_seen():
    def of(sigma, **given):
        rng = np.random.default_rng(0)
        reward = np.exp(sigma * rng.normal(size=2000))
        logs = bare_logs(rng.integers(2, size=2000), reward, 0.5, **given)
        return value_of(IPS(), UniformPolicy(), logs)

    assert told(of(0.2)) == ["trustworthy"]
    value, heavy = of(1.2), of(2.0)
    assert told(value) == ["caution", "tail"]
    change = value.round_values - value.value
    skewness = (change[change > 0] ** 3).sum() / (change**2).sum() ** 1.5
    assert 0.1 < skewness < 0.22  # where the interval does not warn of it yet
    assert value.verdict.reasons[0].number == pytest.approx(skewness)
    [reason] = heavy.verdict.reasons  # told once
    assert reason.name == "tail" and reason.number > 0.22
    assert reason.text.count("Give reward_range") == 1
    assert "tail" not in told(of(1.2, reward_range=(0, 100)))


def test_a_direct_method_is_never_trustworthy():
    for logs in (LOGS, UNKNOWN):
        assert told(value_of(DirectMethod(), logs=logs)) == ["caution", "bias_left_out"]


def test_a_single_trajectory():
    value = value_of(Replay(random_state=0), LinUCB(), UNIFORM_LOGS)
    assert told(value)[:2] == ["not supported", "no_estimate"]
    trace = value_of(DRns(random_state=0, horizon=100), LinUCB(), UNIFORM_LOGS)
    assert trace.verdict < "trustworthy"


# -- differences, groups, pickles -----------------------------------------------------
def test_differences_inherit_what_speaks_against_either():
    base, good = logged_value(LOGS), value_of(DoublyRobust())
    assert (good - base).verdict == "trustworthy"
    bad = value_of(DoublyRobust(), learned())
    for gain in (bad - good, good - bad, (bad - good) - (base - base)):
        for one in (gain, by_pickle(gain)):
            assert one.verdict == "not supported"
            assert "learned_rounds" in told(one)
    few = value_of(DoublyRobust(), logs=LOGS[:50]) - logged_value(LOGS[:50])
    assert "low_overlap" in told(few)


def test_a_gain_as_wide_as_the_range_tells_nothing():
    rounds = LOGS[:15]
    gain = value_of(IPS(), UniformPolicy(), rounds) - logged_value(rounds)
    low, high = gain.confidence_interval()
    assert 0.8 < high - low < 1.6  # of a range from -1 to 1
    assert told(gain)[:2] == ["not supported", "wide_interval"]


# -- every evaluator ------------------------------------------------------------------
def test_static_evaluators():
    asked = ["IPS", "SNIPS", "DirectMethod", "DoublyRobust", "SNDR", "SwitchDR", "DRos"]
    asked += ["SubGaussianIPS", "SubGaussianDR", "LogSmoothing", "MRDR"]
    for value in evaluate(POLICY, LOGS, evaluators=asked).values():
        expected = "caution" if value.leaves_bias_out else "trustworthy"
        assert value.verdict == by_pickle(value).verdict == expected
        assert f"<td>{expected}</td>" in value._repr_html_()


@pytest.mark.parametrize(
    ("evaluator", "text", "shown"),
    [
        (Replay(), "The logger chose uniformly", True),
        (ExplorationScavenging(), "did not depend on the context", True),
        (RejectionSampling(), "did not depend on the context", False),
    ],
)
def test_evaluators_of_a_uniform_logger(evaluator, text, shown):
    value = value_of(evaluator, UniformPolicy(), UNIFORM_LOGS)
    assert value.verdict == "trustworthy"
    assert leaves_unchecked(value, text) == shown


def test_slates():
    logs = make_slate_logs(2000, random_state=0)
    target = UniformSlatePolicy(logs.n_slots)
    table = evaluate(target, logs)
    assert table[table.recommended].verdict == "trustworthy"
    value = value_of(PseudoInverse(), target, logs)
    assert leaves_unchecked(value, "a sum over its slots")
    assert value_of(SlateDirectMethod(), target, logs).verdict == "caution"


def test_the_tail_of_a_value_from_sums_is_told_once():
    rng, n = np.random.default_rng(1), 400
    action, reward = rng.integers(0, 2, n), rng.exponential(size=n) ** 3
    p = rng.uniform(0.02, 0.98, n)
    logs = bare_logs(action, reward, p).with_columns(pi=np.full((n, 2), 0.5))
    parts = [summarize("pi", logs[k::2], evaluators=["IPS"]) for k in (0, 1)]
    value = sum(parts).values()["IPS"]
    assert "tail_of_sums" in told(value)
    texts = [one.text for one in value.verdict.reasons]
    assert len(set(texts)) == len(texts)


# -- thresholds ----------------------------------------------------------------------
def test_numbers_can_be_changed_one_by_one():
    found = VerdictThresholds(effective_rounds=(100, 30), accepted=["few_events"])
    assert found.effective_rounds == (100, 30)
    assert found.effective_events == (10, 0)
    assert found.accepted == ("few_events",)
    assert by_pickle(found) == found
    # the same number twice: nothing between "trustworthy" and "not supported"
    assert VerdictThresholds(unsupported=[0.1, 0.1]).unsupported == (0.1, 0.1)


WORSE = "second number is the worse one"
NAMES = r"a collection of names, \('few_events',\)"


@pytest.mark.parametrize(
    ("given", "error", "message"),
    [
        ({"effective_rounds": 30}, ValueError, "effective_rounds must be a pair of nu"),
        ({"effective_events": (1, 2, 3)}, ValueError, "effective_events must be a p"),
        ({"effective_groups": ("a", 1)}, ValueError, "effective_groups must be a pair"),
        ({"unsupported": (float("nan"), 1)}, ValueError, "unsupported must be a pair"),
        ({"effective_rounds": (5, 30)}, ValueError, f"{WORSE}, got .5, 30."),
        ({"unsupported": (0.1, 0.005)}, ValueError, WORSE),
        ({"range_share": (0.8, 0.5)}, ValueError, WORSE),
        ({"level": 95}, ValueError, r"level must lie in \(0, 1\), got 95"),
        ({"accepted": "few_events"}, TypeError, NAMES),
        ({"accepted": None}, TypeError, r"\(\) for none, got NoneType"),
        ({"accepted": ("drift", "no_estimate")}, ValueError, "without a value or an i"),
    ],
)
def test_numbers_and_names_that_cannot_be(given, error, message):
    with pytest.raises(error, match=message):
        VerdictThresholds(**given)
