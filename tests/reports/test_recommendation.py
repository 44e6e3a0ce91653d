# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause

"""Decisions in words, from gains and audits that are made up."""

from math import inf, nan
from types import SimpleNamespace

import pytest

from skope_ope.audit import Audit, Verdict
from skope_ope.exceptions import PropensityWarning, SupportWarning
from skope_ope.logs.checks._finding import Finding
from skope_ope.reports._recommendation import RewardUnits, recommendation_of
from skope_ope.selection._doubts import NEITHER, Doubt
from skope_ope.selection._gain_answers import CANNOT_TELL, GainAnswer, decide

POINTS = RewardUnits(True, 2, 2, 2)
CLEAN = Audit({}, [])


def verdict(name, gain, low, high, **given):
    told = "better" if low > 0 else "worse" if high < 0 else CANNOT_TELL
    rounds = given.pop("rounds", 50_000.0 if told == CANNOT_TELL else nan)
    given = {"answer": told, "doubts": (), "alike": False} | given
    return GainAnswer(name=name, gain=gain, low=low, high=high, rounds=rounds, **given)


class Lift:
    """A relative gain, as far as words need it."""

    def __init__(self, verdict, reference):
        size = abs(reference) or nan
        self.value = verdict.gain / size
        self.limits = verdict.low / size, verdict.high / size

    def _interval(self, level):
        return self.limits


class Value:
    """A value; of a difference of two it is known to .01."""

    def __init__(self, value):
        self.value = value

    def __sub__(self, other):
        return Value(self.value - other.value)

    def _interval(self, level):
        return self.value - 0.01, self.value + 0.01


class Comparison(dict):
    """What `compare_policies` returns, as far as words need it."""

    baseline, _against, n_rounds, level = "logger", "the logger", 20_000, 0.95
    _assumed = ()
    _condition = ""

    def __init__(self, *answers, reference=0.0617):
        super().__init__({v.name: Value(reference + v.gain) for v in answers})
        self.differences = dict.fromkeys(v.name for v in answers)
        self.lifts = {v.name: Lift(v, reference) for v in answers}
        self.level_of_each = 1 - (1 - self.level) / len(answers)
        self._answers = list(answers)
        grounds = SimpleNamespace(evaluators=("IPS",))
        self.reference = SimpleNamespace(value=reference, _grounds=grounds)
        self.decision, self.choice = decide(answers)


def told(*answers, log=CLEAN, audits=None, units=POINTS, **given):
    return of(Comparison(*answers, **given), log, audits or {}, units)


def of(comparison, log, audits, units=POINTS):
    """The recommendation, from verdicts that hold what the audits have found."""
    judged = {
        name: Verdict([*log.findings, *audits.get(name, CLEAN).findings])
        for name in comparison.differences
    }
    return recommendation_of(comparison, judged, log, audits, units)


def audit(*severities, name="fault"):
    return Audit(
        {}, [Finding(name, kind, f"A {kind} was found.") for kind in severities]
    )


NEW = verdict("new", 0.0135, 0.0066, 0.0204)
COUPON = verdict("coupon", 0.0013, -0.0048, 0.0073)
WORSE = verdict("old", -0.02, -0.03, -0.01)


def test_deploy_tells_both_values_the_gain_and_its_interval():
    found = told(NEW, COUPON)
    assert (found.decision, found.choice, found.headline) == (
        "deploy",
        "new",
        "Deploy new",
    )
    assert found.sentences[0] == (
        "On these 20,000 logged rounds new would have been rewarded in 7.52% instead "
        "of 6.17%, a gain of 1.35 points (95% interval: 0.66 to 2.04)."
    )
    assert found.sentences[1] == "That is 22% more than the logger (+11% to +33%)."
    assert "cannot tell coupon from the logger" in " ".join(found.sentences)
    assert "-0.48 to +0.73 points" in " ".join(found.sentences)
    assert "random" in found.sentences[-1]
    assert not found.alarms


def test_no_share_is_told_of_a_baseline_that_may_be_zero():
    found = told(NEW, reference=0.0)
    assert "That is" not in " ".join(found.sentences)


def test_rewards_that_are_no_shares_are_told_per_round():
    found = told(NEW, units=RewardUnits(False, 4, 4, 4))
    assert "would have earned 0.0752 instead of 0.0617 per round" in found.sentences[0]
    assert "a gain of 0.0135 per round (95% interval" in found.sentences[0]


def test_others_that_are_better_are_named():
    found = told(NEW, verdict("next", 0.02, 0.005, 0.035))
    assert found.choice == "new"  # the greatest lower limit, not the greatest gain
    assert any("next is better than the logger, too" in one for one in found.sentences)


def test_policies_that_the_rounds_cannot_tell_from_the_choice_are_named():
    found = told(NEW, verdict("next", 0.02, 0.005, 0.035))
    assert any("cannot tell new from next." in one for one in found.sentences)
    found = told(NEW, verdict("next", 0.03, 0.005, 0.055))  # the gap is known to .01
    assert not any("from next" in one for one in found.sentences)


def test_a_number_of_rounds_that_is_no_plan_is_not_told():
    found = told(verdict("a", -0.0001, -0.1, 0.1, rounds=9e8))
    text = " ".join(found.sentences)
    assert "more than 100 times as many rounds" in text
    assert "900,000,000" not in text


def test_keep_tells_the_loss():
    found = told(WORSE)
    assert (found.decision, found.headline) == ("keep", "Keep the logger")
    assert "a loss of 2.00 points (95% interval: 1.00 to 3.00)" in found.sentences[0]


def test_keep_tells_the_nearest_of_several():
    found = told(WORSE, verdict("other", -0.03, -0.055, -0.005))
    assert (
        "All 2 policies would have earned less. The nearest, other"
        in (found.sentences[0])
    )


def test_undecided_says_what_it_means_and_how_many_rounds_would_tell():
    found = told(COUPON)
    assert found.headline == "Undecided: keep the logger for now"
    text = " ".join(found.sentences)
    assert "its gain may be anything from -0.48 to +0.73 points" in text
    assert "does not mean that there is no difference" in text
    assert "About 30,000 more rounds would decide, in 8 of 10 cases" in text


@pytest.mark.parametrize("rounds", [nan, inf, 100.0])
def test_no_number_of_rounds_is_made_up(rounds):
    text = " ".join(told(verdict("a", 0.0, -0.1, 0.1, rounds=rounds)).sentences)
    assert "nan" not in text and "inf" not in text
    assert "How many more rounds would decide is not known." in text


def test_what_stands_against_an_answer_is_told():
    doubt = Doubt("new", "4% of the decisions not in the log", SupportWarning)
    blocked = verdict(
        "new", 0.0135, 0.0066, 0.0204, answer=CANNOT_TELL, doubts=(doubt,), rounds=nan
    )
    found = told(blocked)
    assert found.decision == "undecided"
    assert "new seems better than the logger" in found.sentences[0]
    assert "there are doubts: 4% of the decisions not in the log." in found.sentences[0]


def test_doubts_that_forbid_nothing_are_told():
    doubt = Doubt("new", "few rounds", PropensityWarning, NEITHER)
    chosen = verdict("new", 0.0135, 0.0066, 0.0204, doubts=(doubt,))
    assert "Mind: few rounds." in told(chosen).sentences


def test_policies_that_act_alike_or_have_no_value_are_told():
    alike = verdict("same", 0.0, 0.0, 0.0, answer=CANNOT_TELL, alike=True)
    none = verdict("none", nan, nan, nan)
    found = told(alike, none)
    assert found.sentences == (
        "same acts as the logger does in these rounds, so the choice makes no "
        "difference.",
        "none: no value, so nothing is known about this policy.",
    )


def test_many_policies_are_counted():
    found = told(*(verdict(f"p{i}", 0.0, -0.1, 0.1) for i in range(8)))
    assert "The table shows 5 more." in found.sentences


def test_an_error_of_the_log_takes_the_ground_from_every_decision():
    for one in (NEW, WORSE, COUPON):
        found = told(one, log=audit("error"))
        assert (found.decision, found.choice) == ("undecided", None)
        assert found.headline == "No decision yet: correct the log first"
        assert "do not trust any number on this page" in found.sentences[0]
        assert "Deploy" not in " ".join([found.headline, *found.sentences])
    found = told(NEW, log=audit("error"))
    assert "do not act on it" in found.sentences[1]


def test_an_error_about_the_choice_stops_it():
    found = told(NEW, COUPON, audits={"new": audit("error"), "coupon": CLEAN})
    assert (found.decision, found.choice) == ("undecided", None)
    assert found.headline == "No decision yet: correct what is wrong first"
    assert "do not trust the numbers of new" in found.sentences[0]


def test_an_error_about_another_policy_stops_no_decision():
    audits = {"new": CLEAN, "coupon": audit("error")}
    found = told(NEW, COUPON, audits=audits)
    assert (found.decision, found.headline) == ("deploy", "Deploy new")
    found = told(COUPON, verdict("b", 0.0, -0.1, 0.1), audits=audits)
    assert found.decision == "undecided"
    assert "coupon: do not trust its numbers, see the errors." in (found.sentences)
    assert any("cannot tell b from" in one for one in found.sentences)


def test_an_error_about_the_baseline_stops_every_decision():
    comparison = Comparison(NEW)
    comparison.baseline = comparison._against = "base"
    audits = {"new": CLEAN, "base": audit("error")}
    found = of(comparison, CLEAN, audits)
    assert (found.decision, found.choice) == ("undecided", None)


def test_a_warning_asks_for_caution():
    found = told(NEW, log=audit("warning", "note"))
    assert (found.decision, found.choice) == ("deploy", "new")
    assert found.headline == "Deploy new, with caution"
    assert [one.severity for one in found.alarms] == ["warning"]


def test_alarms_are_told_once_errors_first_with_their_policies():
    log = audit("warning")
    both = Audit({}, [*log.findings, *audit("error", name="own").findings])
    audits = {"coupon": both, "b": both}
    found = told(COUPON, verdict("b", 0.0, -0.1, 0.1), log=log, audits=audits)
    assert [(one.severity, one.who) for one in found.alarms] == [
        ("error", ("coupon", "b")),
        ("warning", ()),
    ]


def test_too_little_evidence_stops_a_decision_and_calls_no_number_wrong():
    thin = {"new": audit("error", name="low_overlap")}
    found = told(NEW, audits=thin)
    assert (found.decision, found.choice) == ("undecided", None)
    assert found.headline == "No decision: too little evidence"
    assert "new looks better than the logger, but" in found.sentences[0]
    assert "not to be trusted" not in " ".join(found.sentences)
    assert not found.has_faults
    found = told(WORSE, audits={"old": audit("error", name="wide_interval")})
    assert "old look worse than the logger" in found.sentences[0]


def test_too_little_evidence_leaves_cannot_tell_as_it_is():
    found = told(COUPON, audits={"coupon": audit("error", name="wide_interval")})
    assert found.headline == "Undecided: keep the logger for now"
    assert "cannot tell coupon from the logger" in found.sentences[0]


def test_the_first_policy_that_cannot_be_told_names_a_next_step():
    clear = verdict("new", 0.02, 0.01, 0.03)
    first, second = (verdict(x, 0.005, -0.01, 0.02) for x in ("a", "b"))
    found = told(clear, first, second)
    text = " ".join(found.sentences)
    assert found.choice == "new"
    assert text.count("30,000 more rounds would decide") == 1
    unknown = verdict("a", 0.005, -0.01, 0.02, rounds=inf)
    assert "more rounds" not in " ".join(told(clear, unknown).sentences)


def test_a_rule_that_takes_one_action_is_told():
    note = Finding("one_action", "note", "The policy ...", actions=("none",))
    audits = {"new": Audit({}, [note])}
    found = told(verdict("new", 0.02, 0.01, 0.03), audits=audits)
    assert found.sentences[-1].startswith("new takes 'none' in all rounds: check")
    assert found.alarms == ()
    wrong = Audit({}, [Finding("propensity_misfit", "error", "Wrong.")])
    found = told(verdict("new", 0.02, 0.01, 0.03), log=wrong, audits=audits)
    assert "takes 'none' in all rounds" in found.sentences[-1]


def test_estimated_propensities_are_those_of_the_log():
    doubt = Finding("estimated_propensities", "warning", "Estimated.")
    other = Finding("tail", "warning", "Few rounds.")
    audits = {"new": Audit({}, [doubt, other])}
    found = told(verdict("new", 0.02, 0.01, 0.03), audits=audits)
    who = {one.name: one.who for one in found.alarms}
    assert who == {"estimated_propensities": (), "tail": ("new",)}
