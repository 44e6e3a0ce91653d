# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause

"""What an audit and thresholds change, and that nothing wrong is called trustworthy."""

import numpy as np
import pytest

from skope_ope import (
    IPS,
    AdaptiveIPS,
    BanditLogs,
    ConstantPolicy,
    DirectMethod,
    DoublyRobust,
    PseudoInverse,
    SlateIPS,
    audit,
    compare_policies,
    evaluate,
    verdict,
)
from skope_ope.audit import Audit, VerdictThresholds
from skope_ope.datasets import make_adaptive_logs, make_slate_logs
from tests._faults import FAULTS, RIGHT_LOGS, SEEN_BY, faulty, right
from tests._verdicts import LOGS, POLICY, finding, names, value_of

pytestmark = pytest.mark.filterwarnings("ignore::skope_ope.exceptions.OPEWarning")
ANSWERS = "not supported", "caution", "trustworthy"
TAILS = ("campaign, contexts repeat", "lognormal rewards")  # their range is not known


def gain_of(evaluator, policy, logs):
    """Return the value minus that of the logger."""
    compared = compare_policies({"new": policy}, logs, evaluator=evaluator)
    return compared.differences["new"]


def test_trustworthy_says_what_was_not_checked():
    found = value_of(DoublyRobust()).verdict
    assert found == "trustworthy"
    assert not found.audited
    joined = " ".join(repr(found).split())
    assert joined.startswith(
        "Verdict: trustworthy, as far as the value tells; the log was not audited."
    )
    for text in ("cannot show such a hidden cause", "The log was not audited"):
        assert text in joined
    found = verdict(value_of(DoublyRobust()), audit=audit(POLICY, LOGS))
    assert found == "trustworthy"
    assert found.audited
    assert "the log was not audited" not in repr(found)
    assert not any("audited" in one for one in found.unchecked)
    found = verdict(value_of(DoublyRobust()), audit=audit(LOGS))
    assert "audit did not include the policy" in found.unchecked[-1]


def test_alarms_of_other_weights_do_not_count():
    """Those of whole slates are none of the pseudoinverse: it takes those of slots."""
    logs = make_slate_logs(1000, random_state=0)
    target = np.tile(logs.slate[0], (len(logs), 1))
    found = audit(target, logs)
    about = {one.found.split(":")[0] for one in found.alarms}
    assert about == {"Weights of slates", "Weights of slots"}
    for evaluator, own in ((SlateIPS(), "slates"), (PseudoInverse(), "slots")):
        for ask in (value_of, gain_of):
            one = ask(evaluator, target, logs)
            reasons = verdict(one, audit=found).reasons
            told = {reason.found.split(":")[0] for reason in reasons}
            assert told & about <= {f"Weights of {own}"}
    assert told & about == {"Weights of slots"}


def test_a_logger_that_learned_is_no_fault_where_the_evaluator_is_made_for_it():
    logs = make_adaptive_logs(2000, random_state=0)
    policy = ConstantPolicy(0)
    found = audit(policy, logs)
    assert "adaptive_logger" in [one.name for one in found.alarms]
    usual, made = (value_of(one, policy, logs) for one in (IPS(), AdaptiveIPS()))
    for one in (usual.verdict, verdict(usual, audit=found)):
        assert (one.answer, names(one)) == ("caution", ["adaptive_logger"])
    for value in (made, gain_of(AdaptiveIPS(), policy, logs)):
        assert "adaptive_logger" not in names(verdict(value, audit=found))
    assert names(gain_of(IPS(), policy, logs).verdict) == ["adaptive_logger"]


def test_alarms_of_an_audit_are_reasons_and_notes_are_none():
    value = value_of(DoublyRobust())
    for severity, answer in zip(("error", "warning", "note"), ANSWERS, strict=True):
        found = verdict(value, audit=Audit({}, [finding("leak", severity)]))
        assert found == answer
        assert names(found) == (["leak"] if severity != "note" else [])


def test_what_a_value_and_an_audit_both_tell_is_told_once():
    logs, policy = faulty("propensities shuffled", 2000, seed=0)
    value = value_of(DoublyRobust(), policy, logs)
    found = verdict(value, audit=audit(policy, logs))
    told = names(found)
    assert sorted(set(told)) == sorted(told)
    assert {"mean_weight", "propensity_misfit"} <= set(told)


def test_no_warning_of_an_audit_stands_in_for_an_error_of_the_value():
    rng = np.random.RandomState(0)
    action = (np.arange(2000) < 3).astype(int)
    x, reward = rng.normal(size=(2000, 1)), rng.normal(size=2000)
    logs = BanditLogs(x, action, reward, np.where(action, 0.001, 0.999))
    found = audit(ConstantPolicy(1), logs)
    assert {one.severity for one in found.alarms} == {"warning"}
    value = value_of(IPS(), ConstantPolicy(1), logs)
    assert value.verdict == "not supported"
    told = verdict(value, audit=found)
    assert told == "not supported"
    assert names(told).count("low_overlap") == 1
    lax = VerdictThresholds(effective_rounds=(30, 1))  # then both are warnings
    assert verdict(value, audit=found, thresholds=lax) == "caution"


def test_thresholds_are_the_users():
    value = value_of(IPS(), logs=LOGS[:300])
    size = value.effective_sample_size
    assert value.verdict == "trustworthy"
    strict = VerdictThresholds(effective_rounds=(size + 1, 5))
    assert names(verdict(value, thresholds=strict)) == ["low_overlap"]
    stricter = VerdictThresholds(effective_rounds=(size + 2, size + 1))
    assert verdict(value, thresholds=stricter) == "not supported"
    few = value_of(IPS(), logs=LOGS[:60])  # which warns of it, too
    assert names(few.verdict) == ["low_overlap", "wide_interval"]
    assert few.verdict == "caution"
    lax = {"effective_rounds": (5, 0), "effective_events": (5, 0)}
    lax = VerdictThresholds(**lax, range_share=(1, 1))
    assert verdict(few, thresholds=lax) == "trustworthy"


def test_reasons_can_be_accepted():
    value = value_of(DirectMethod())
    found = verdict(value, thresholds=VerdictThresholds(accepted=("bias_left_out",)))
    assert found == "trustworthy"
    assert "[accepted] bias_left_out" in repr(found)
    other = verdict(value, thresholds=VerdictThresholds(accepted=("drift",)))
    assert other == "caution"


def test_bad_input():
    value, other = value_of(IPS()), Audit({"rounds": 10}, [])
    for given, error, message in (
        ({"value": 0.5}, TypeError, "value must be a PolicyValue, as evaluate gives"),
        ({"audit": {}}, TypeError, r"what audit\(policy, logs\) returns, got dict"),
        ({"thresholds": 30}, TypeError, "thresholds must be VerdictThresholds"),
        ({"audit": other}, ValueError, "has 10 rounds, and the value has 1,500"),
    ):
        with pytest.raises(error, match=message):
            verdict(**{"value": value} | given)


@pytest.mark.few_cases(8)
@pytest.mark.parametrize("fault", FAULTS)
def test_no_planted_fault_is_trustworthy(fault):
    if SEEN_BY[fault] == "BanditLogs":
        return
    logs, policy = faulty(fault, 2000, seed=0)
    found = audit(policy, logs)
    assert not found.ok
    assert verdict(value_of(DoublyRobust(), policy, logs), audit=found) < "trustworthy"


@pytest.mark.few_cases(7)
@pytest.mark.parametrize("world", RIGHT_LOGS)
def test_right_logs_are_trustworthy(world):
    logs, policy = right(world, 3000, seed=0)
    table = evaluate(policy, logs)
    found = verdict(table["DoublyRobust"], audit=audit(policy, logs))
    reasons = {"estimated": ["estimated_propensities"]}
    reasons |= {key: ["tail"] for key in TAILS}
    assert names(found) == reasons.get(world, [])


@pytest.mark.theory
@pytest.mark.parametrize("world", RIGHT_LOGS)
def test_right_logs_are_trustworthy_in_nearly_all(world):
    if world in ("estimated", *TAILS):
        return
    found = []
    for seed in range(20):
        logs, policy = right(world, 3000, seed)
        value = evaluate(policy, logs)["DoublyRobust"]
        found.append(verdict(value, audit=audit(policy, logs)))
    # where one in fifty is cautioned of, five of twenty are once in 10,000 times
    assert sum(one < "trustworthy" for one in found) <= 4
