# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""The decision of a report in words, and how its numbers are written."""

import re
import warnings

import numpy as np
import pytest
from sklearn.linear_model import Ridge

from skope_ope import (
    IPS,
    SNIPS,
    BanditLogs,
    ConstantPolicy,
    DirectMethod,
    FunctionPolicy,
    RewardModelPolicy,
    UniformPolicy,
    report,
)
from skope_ope.audit import VerdictThresholds

ONE = {"IPS": IPS()}
SYSTEM = "the system that made the log"
NUMBER = r"([+-]?[\d.,]+)"


def clicks(n=2000, rates=(0.1, 0.4, 0.25, 0.25), seed=0, scale=1.0, **fields):
    """Logs of a uniform logger, whose actions have exactly these rates of rewards."""
    rng = np.random.default_rng(seed)
    action = np.arange(n) % len(rates)
    reward = np.zeros(n)
    for k, rate in enumerate(rates):
        rows = np.flatnonzero(action == k)
        reward[rng.permutation(rows)[: round(rate * len(rows))]] = scale
    p = np.full(n, 1 / len(rates))
    x = rng.normal(size=(n, 1))
    return BanditLogs(x, action, reward, p, actions=range(len(rates)), **fields)


def told(logs, evaluators=ONE, baseline="logger", thresholds=None, **policies):
    for name, one in policies.items():
        policies[name] = ConstantPolicy(one) if isinstance(one, int) else one
    given = {} if thresholds is None else {"thresholds": thresholds}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return report(policies, logs, evaluators=evaluators, baseline=baseline, **given)


def words(found):
    return " ".join(found.sentence.split())


def mixed(*shares):
    return FunctionPolicy(lambda X: np.tile(shares, (len(X), 1)))


@pytest.fixture(scope="module")
def wrong_log():
    """Propensities of other rounds: an error of the log."""
    logs = clicks(4000, seed=1)
    wrong = np.where(logs.action == 1, 0.1, 0.6)
    return logs.replace(propensity=wrong)


def test_deploy_tells_both_values_the_gain_and_its_interval():
    deploy = told(clicks(), new=1, coupon=2)
    assert (deploy.decision, deploy.choice) == ("deploy", "new")
    assert deploy.headline == "Deploy new"
    text = words(deploy)
    numbers = re.search(
        rf"On these 2,000 logged rounds new would have had a reward in {NUMBER}% "
        rf"instead of {NUMBER}%, a gain of {NUMBER} points \(95% interval: {NUMBER} to "
        rf"{NUMBER}\)\. That is {NUMBER}% more reward than {SYSTEM} \({NUMBER}% to "
        rf"{NUMBER}%\)\.",
        text,
    )
    compared = deploy.comparison
    gain, lift = compared.differences["new"], compared.lifts["new"]
    level = compared.level_of_each
    expected = [compared["new"].value, 0.25, gain.value]
    expected += [*gain.confidence_interval(level), lift.value]
    expected += lift.confidence_interval(level)
    found = [float(one) / 100 for one in numbers.groups()]
    assert found == pytest.approx(expected, abs=0.006)
    assert f"cannot tell coupon from {SYSTEM}" in text
    assert "random" in text and not deploy.alarms


def test_rewards_that_are_no_shares_are_told_per_round():
    pattern = rf"would have had a reward of {NUMBER} instead of {NUMBER} per round, a "
    pattern += rf"gain of {NUMBER} per round \(95% interval"
    assert re.search(pattern, words(told(clicks(scale=3.5), new=1)))


def test_no_share_is_told_of_a_baseline_that_may_be_zero():
    logs = clicks(rates=(0.0, 0.4, 0.0, 0.0))
    assert "That is" not in words(told(logs, new=1, base=0, baseline="base"))


def test_others_that_are_better_and_not_told_from_the_choice_are_named():
    logs = clicks(rates=(0.05, 0.5, 0.45, 0.05))
    text = words(told(logs, new=1, next=2))
    assert f"next is better than {SYSTEM}, too" in text
    assert "cannot tell new from next." in text
    text = words(told(clicks(4000, rates=(0.05, 0.8, 0.45, 0.05)), new=1, next=2))
    assert "next is better" in text and "from next" not in text


def test_keep_tells_the_loss_and_the_nearest():
    logs = clicks()
    found = told(logs, old=0)
    assert (found.decision, found.headline) == ("keep", f"Keep {SYSTEM}")
    pattern = rf"a loss of {NUMBER} points \(95% interval: {NUMBER} to {NUMBER}\)"
    loss, low, high = map(float, re.search(pattern, words(found)).groups())
    assert 0 < low < loss < high and loss == pytest.approx(15, abs=1)
    text = words(told(logs, old=0, other=mixed(0.9, 0.0, 0.1, 0.0)))
    assert "All 2 policies are worse. The nearest, other, would" in text


def test_undecided_says_what_it_means_and_how_many_rounds_would_tell():
    found = told(clicks(rates=(0.1, 0.4, 0.252, 0.25)), coupon=2)
    assert found.headline == f"Undecided: keep {SYSTEM} for now"
    text = words(found)
    assert re.search(rf"its gain may be anything from -{NUMBER} to \+{NUMBER} po", text)
    assert "does not mean that there is no difference" in text
    assert "more than 100 times as many rounds" in text
    text = words(told(clicks(rates=(0.1, 0.4, 0.29, 0.25)), coupon=2))
    assert re.search(r"About [\d,]+ more rounds would decide, in 8 of 10 cases", text)


def test_no_number_of_rounds_is_made_up():
    halves = {"same": mixed(0.0, 0.5, 0.0, 0.5), "a": mixed(0.5, 0.5, 0, 0)}
    text = words(told(clicks(), **halves))
    assert "nan" not in text and "inf" not in text
    found = told(clicks(rates=(0.2,) * 4), a=1, b=2)
    assert np.isnan(found.comparison.to_records()[0]["rounds_needed"])
    assert "How many more rounds would decide is not known." in words(found)


def test_the_first_policy_that_cannot_be_told_names_a_next_step():
    logs = clicks(rates=(0.1, 0.6, 0.38, 0.36))
    found = told(logs, new=1, a=2, b=3)
    assert found.choice == "new"
    assert words(found).count("more rounds would decide") == 1


def test_what_stands_against_an_answer_is_told():
    logs = clicks()
    few = told(logs, evaluators={"DM": DirectMethod()}, new=1)
    assert few.decision == "undecided"
    text = words(few)
    assert f"new seems better than {SYSTEM}" in text
    assert "there are doubts: the error of the reward model, which" in text
    text = words(told(logs, same=UniformPolicy()))
    assert f"same acts as {SYSTEM} does in these rounds, so the choice makes" in text


def test_many_policies_are_counted():
    logs = clicks(400, rates=(0.2, 0.2, 0.2, 0.2))
    some = {f"p{k}": mixed(*np.roll([0.4, 0.3, 0.2, 0.1], k % 4)) for k in range(8)}
    assert "The table shows 5 more." in words(told(logs, **some))


@pytest.mark.parametrize("arm", [0, 1, 2])
def test_an_error_of_the_log_takes_the_ground_from_every_decision(wrong_log, arm):
    found = told(wrong_log, new=arm)
    assert (found.decision, found.choice) == ("undecided", None)
    assert found.headline == "No decision yet: correct the log first"
    assert "do not trust any number on this page" in found.sentence
    assert "Deploy" not in f"{found.headline} {found.sentence}"
    severities = [one.severity for one in found.alarms]
    assert severities[0] == "error" and severities == sorted(severities)
    if found.comparison.decision != "undecided":
        assert "do not act on it" in words(found)


def test_an_error_about_another_policy_stops_no_decision():
    """The other policy has learned from these rounds."""
    logs = clicks()
    policy = RewardModelPolicy(Ridge()).fit(logs)
    found = told(logs, new=1, coupon=policy)
    assert (found.decision, found.headline) == ("deploy", "Deploy new")
    found = told(logs, coupon=policy, b=2)
    assert found.decision == "undecided"
    assert "coupon: do not trust its numbers, see the errors." in words(found)
    assert "cannot tell b from" in words(found)


def test_an_error_about_the_baseline_stops_every_decision():
    logs = clicks()
    worst = RewardModelPolicy(Ridge()).fit(logs.replace(reward=1 - logs.reward))
    found = told(logs, new=1, base=worst, baseline="base")
    assert found.comparison.decision == "deploy"  # by the numbers alone
    assert (found.decision, found.choice) == ("undecided", None)
    assert found.headline == "No decision yet: correct what is wrong first"
    assert "do not trust any number on this page" in words(found)


def test_a_warning_asks_for_caution():
    logs = clicks()
    late = logs.replace(reward=np.where(np.arange(2000) < 1900, logs.reward, 0.0))
    found = told(late, new=1)
    assert (found.decision, found.choice) == ("deploy", "new")
    assert found.headline == "Deploy new, with caution"
    assert {one.severity for one in found.alarms} == {"warning"}


def test_too_little_evidence_stops_a_decision_and_calls_no_number_wrong():
    strict = VerdictThresholds(effective_rounds=(9e4, 9e3))
    better, worse = (told(clicks(), thresholds=strict, new=arm) for arm in (1, 0))
    assert (better.decision, better.choice) == ("undecided", None)
    assert better.headline == "No decision: too little evidence"
    assert f"new looks better than {SYSTEM}, but" in words(better)
    assert "not to be trusted" not in words(better)
    assert f"new look worse than {SYSTEM}" in words(worse)


def test_a_rule_that_takes_one_action_is_told(wrong_log):
    rule = FunctionPolicy(lambda X: np.where(X[:, 0] > 99, 0, 1))
    found = told(clicks(), new=rule)
    assert "new takes 1 in all rounds: check" in words(found)
    assert found.alarms == ()
    assert "takes 1 in all rounds" in words(told(wrong_log, new=rule))


# -- how numbers are written ----------------------------------------------------------
def test_digits_follow_the_standard_error():
    for scale, text in (
        (1.0, r"a reward in \d\d\.\d% instead of \d\d\.\d%, a gain of \d\d\.\d "),
        (1000.0, r"a reward of \d\d\d instead of \d\d\d per round"),
    ):
        assert re.search(text, words(told(clicks(scale=scale), new=1)))
    page = told(clicks(rates=(0.5, 0.53, 0.5, 0.5)), b=1).to_html()
    assert re.search(r">\+\d\.\d% \(", page)  # small relative gains have two digits


def test_what_is_no_number_is_a_dash():
    three = clicks(1500, rates=(0.1, 0.4, 0.25))
    fields = three.context, three.action, three.reward, three.propensity
    logs = BanditLogs(*fields, actions=range(4))  # the last was never logged
    found = told(logs, evaluators={"SNIPS": SNIPS()}, none=3, b=2)
    assert np.isnan(found.comparison["none"].value)
    text = re.sub(r"<style>.*?</style>", "", found.to_html(), flags=re.S)
    assert ">-<" in text and not re.search(r"\b(nan|inf)\b", text)
