# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause

"""`skope-ope evaluate --require`: numbers, verdicts, exit codes."""

import numpy as np
import pytest

from skope_ope import (
    DoublyRobust,
    UniformPolicy,
    audit,
    compare_policies,
    evaluate,
    verdict,
)
from tests.shell.conftest import COLUMNS, CONTEXT, main

NEW = ("--policy", "new=columns:pi_book,pi_film,pi_song")
TWO = (*NEW, "--policy", "even=uniform")


def required(*texts):
    return [word for text in texts for word in ("--require", text)]


@pytest.fixture
def known(clicks):
    """Values by policy, and the logger's mean reward, as the file knows them."""
    _, logs, pi = clicks
    logs = logs.replace(logging_proba=None)
    policies = {"new": pi, "even": UniformPolicy()}
    return evaluate(policies, logs), compare_policies(policies, logs).reference


def test_limits_are_those_of_the_table(clicks, known, record):
    table, logger = known
    value = table["new", "DoublyRobust"]
    low, high = value.confidence_interval(0.975)
    gain_low, _ = (value - logger).confidence_interval(0.975)
    texts = {
        "new.lower > logger": (low, logger.value),
        "new.upper > even": (high, table["even", "DoublyRobust"].value),
        "new.gain.lower > 0": (gain_low, 0.0),
        "new/SNIPS.gain > 0.01": ((table["new", "SNIPS"] - logger).value, 0.01),
        "new.effective_rounds >= 30": (value.effective_sample_size, 30),
        "0.5 > new.standard_error": (0.5, value.standard_error),
        "logger.upper > logger.lower": tuple(reversed(logger.confidence_interval())),
    }
    report = record(*TWO, *required(*texts))
    for one, (text, numbers) in zip(report["requirements"], texts.items(), strict=True):
        assert (one["text"], one["holds"], one["because"]) == (text, True, "")
        assert (one["left"], one["right"]) == pytest.approx(numbers, rel=1e-6)
    evaluators = [one["evaluators"] for one in report["requirements"]]
    assert evaluators[0] == ["DoublyRobust"]
    assert evaluators[3] == ["SNIPS"]
    assert evaluators[-1] == []


def test_the_exit_code_is_one_where_one_does_not_hold(told, record):
    code, text = told(*TWO, *required("new.lower > logger", "even.lower > logger"))
    assert code == 1
    joined = " ".join(text.split())
    assert "holds: new.lower > logger (" in joined
    assert "DOES NOT HOLD: even.lower > logger (" in joined
    assert "by DoublyRobust)" in joined
    assert "NAME.gain.lower > 0 compares in pairs" in joined
    report = record(*TWO, *required("even.lower > logger"), code=1)
    assert report["requirements"][0]["holds"] is False
    assert report["arguments"]["require"] == "even.lower > logger"
    code, text = told(*NEW, *required("new.gain.lower > 0"))
    assert code == 0
    assert "as a number" not in text
    assert told(*NEW)[0] == 0
    assert "Requirements" not in told(*NEW)[1]


def test_an_unnamed_policy_is_called_policy_and_one_evaluator_is_taken(told, record):
    words = ("--policy", "uniform")
    assert told(*words, *required("policy.lower > logger"))[0] == 1
    assert told(*words, *required("policy.lower < logger"))[0] == 0
    words = (*NEW, "--evaluators", "SNIPS", *required("new > 0"))
    assert record(*words)["requirements"][0]["evaluators"] == ["SNIPS"]


def test_bad_requirements_end_with_two(refused):
    none = "no evaluator is recommended for 'new', because these logs allow DoublyR"
    for text, message in (
        ("newer.lower > logger", "no policy is called 'newer'. There are new, ev"),
        ("new/SNDR > 0", "names the evaluator 'SNDR', and the table has IPS"),
        ("new.lowr > 0", "argument --require: 'new.lowr > 0' is no require"),
        ("new", "at character 4, one of >= <= == > < stands here"),
    ):
        words = ("--evaluators", "IPS,DoublyRobust", *required(text))
        assert message in refused(*TWO, *words)
    assert none in refused(*TWO, *required("new > 0"), "--evaluators", "IPS,SNIPS")


def test_nan_satisfies_nothing(clicks, told, tmp_path):
    table = tmp_path / "table.csv"  # an action that is never logged
    table.write_text("action,share\nbook,0\nfilm,0\nsong,0\nopera,1\n")
    words = ("--policy", f"new=table:{table}", "--actions", "book,film,song,opera")
    words += ("--evaluators", "IPS")
    for text in ("new < 9", "new > -9", "new <= new"):
        code, out = told(*words, *required(text))
        assert code == 1
        joined = " ".join(out.split())
        assert f"DOES NOT HOLD: {text} (nan against" in joined
        assert "(NaN) meets no requirement" in joined


def test_verdicts(clicks, record, told):
    _, logs, pi = clicks
    logs = logs.replace(logging_proba=None)
    words = (*NEW, *CONTEXT, "--evaluators", "DoublyRobust,DirectMethod")
    report = record(*words, *required("new.verdict == trustworthy"))
    value = DoublyRobust().fit(logs).evaluate(pi)
    found, other = (one["verdict"] for one in report["values"])
    assert found == verdict(value, audit=audit(pi, logs)).to_dict()
    assert (other["answer"], other["audited"]) == ("caution", True)
    [one] = report["requirements"]
    assert (one["left"], one["right"]) == ("trustworthy", "trustworthy")
    code, _ = told(*words, *required("new/DirectMethod.verdict >= trustworthy"))
    assert code == 1
    code, _ = told(*words, *required("new/DirectMethod.verdict >= caution"))
    assert code == 0


def test_a_lower_level_makes_no_value_more_trustworthy(record):
    words = (*NEW, "--evaluators", "IPS", "--level")
    found = [record(*words, level)["values"][0] for level in ("0.9999999", "0.01")]
    wide, narrow = (one["high"] - one["low"] for one in found)
    assert wide > 10 * narrow
    assert found[0]["verdict"] == found[1]["verdict"]


def test_the_log_is_audited_where_something_is_required_or_on_request(record):
    words = (*NEW, "--evaluators", "IPS")
    gate = required("new > 0")
    for options, audited in (
        (words, False),
        ((*words, "--audit"), True),
        ((*words, *gate), True),
        ((*words, *gate, "--no-audit"), False),
    ):
        assert record(*options)["values"][0]["verdict"]["audited"] is audited


def test_a_value_that_the_logs_do_not_support_satisfies_nothing(clicks, tmp_path):
    names, *rows = (line.split(",") for line in clicks[0].read_text().splitlines())
    rows, column = np.array(rows), names.index("p")
    rows[:, column] = np.roll(rows[:, column], 1)  # propensities of the round before
    lines = [",".join(row) for row in (names, *rows)]
    (tmp_path / "shifted.csv").write_text("\n".join([*lines, ""]))
    words = ["evaluate", str(tmp_path / "shifted.csv"), *COLUMNS, *CONTEXT, *NEW]
    assert main([*words, *required("new > 0")]) == 1
    assert main([*words, *required("new.verdict == 'not supported'")]) == 0
    accepted = "mean_weight,propensity_misfit,propensity_too_small,wide_interval"
    accepted += ",low_overlap,propensity_too_large,heavy_tail,covariate_imbalance"
    assert main([*words, *required("new > 0"), "--accept", accepted]) == 0


def test_limits_that_leave_a_bias_out_satisfy_nothing_unless_accepted(told):
    words = (*NEW, "--evaluators", "DirectMethod")
    code, text = told(*words, *required("new.lower > 0"))
    assert code == 1
    joined = " ".join(text.split())
    assert "the interval of DirectMethod leaves out the error of the reward" in joined
    assert told(*words, *required("new.lower > 0"), "--accept", "bias_left_out")[0] == 0
    assert told(*words, *required("new > 0"))[0] == 0


def test_text_holds_the_verdict_and_what_was_not_checked(told):
    joined = " ".join(told(*TWO)[1].split())
    told_of = "Verdict on DoublyRobust of new: trustworthy"
    until = "as far as the value tells; the log was not audited"
    assert f"{told_of}, {until}." in joined
    assert "Verdict on the gain of new, which is decided on: trustworthy." in joined
    assert f"{told_of}." in " ".join(told(*TWO, "--audit")[1].split())
    assert "Not checked: The recorded propensities are those that drew" in joined
    assert "The log was not audited" in joined
    alone = " ".join(told(*NEW, "--evaluators", "DirectMethod")[1].split())
    assert "Verdict on DirectMethod: caution (bias_left_out)." in alone
    assert "- bias_left_out: The interval leaves out the error of the rew" in alone


def test_reasons_name_those_that_they_are_about(told):
    rows = ("--evaluators", "SNIPS,DirectMethod,DRos")
    joined = " ".join(told(*TWO, *rows)[1].split())
    assert joined.count("- bias_left_out: ") == 2
    assert "nothing out. (new/DRos, even/DRos)" in joined


def test_requirements_that_hold_do_not_hide_an_open_recommendation(told, tmp_path):
    words = (*TWO, "--report", tmp_path / "a.html")
    told_of = "the recommendation above is not to decide yet"
    code, out = told(*words, *required("new.gain.lower > 0"))
    assert code == 0 and told_of not in " ".join(out.split())
    words = ("--policy", "even=uniform", "--report", tmp_path / "a.html")
    code, out = told(*words, *required("even > 0"))
    assert code == 0 and told_of in " ".join(out.split())
    code, out = told(*words, *required("even > 1"))
    assert code == 1 and told_of not in " ".join(out.split())


def test_unreadable_logs_are_two_whatever_is_required(capsys):
    words = ("--policy", "a=uniform", *required("a > 0"))
    assert main(["evaluate", "missing.csv", *words]) == 2
    assert "missing.csv: no such file" in capsys.readouterr().err


# -- what a requirement may say -------------------------------------------------------
def test_policies_evaluators_fields_and_numbers(record):
    words = ("--policy", "Ünd_1=uniform", "--evaluators", "IPS,SNIPS")
    texts = {
        " Ünd_1 . gain < Ünd_1/SNIPS.value ": ["IPS", "SNIPS"],
        "Ünd_1/\"IPS\".lower<=Ünd_1/'SNIPS'.upper": ["IPS", "SNIPS"],
        "logger>=logger.lower": [],
    }
    numbers = {"0": 0, "-1": -1, "+.5": 0.5, "1e-3": 0.001, "2.": 2, "1.5E+2": 150}
    asked = [*texts, *(f"logger > {one}" for one in numbers)]
    asked += [f"{one}<logger" for one in numbers]
    asked = [f"--require={one.replace('_1 .', '_1/IPS .')}" for one in asked]
    found = record(*words, *asked, "--no-audit", code=1)["requirements"]
    assert [one["evaluators"] for one in found[:3]] == list(texts.values())
    values = [*numbers.values()]
    assert [one["right"] for one in found[3:9]] == values
    assert [one["left"] for one in found[9:]] == values


def test_numbers_are_compared(record):
    sides = "logger.lower", "logger", "logger.upper"  # below, same and above
    asked = [f"{one} {sign} logger" for sign in (">", ">=", "<", "<=") for one in sides]
    found = record(*NEW, "--no-audit", *required(*asked), code=1)["requirements"]
    holds = [one["holds"] for one in found]
    assert holds[:3] == [False, False, True] and holds[3:6] == [False, True, True]
    assert holds[6:9] == [True, False, False] and holds[9:] == [True, True, False]


def test_answers_of_verdicts(record):
    words = (*NEW, "--evaluators", "IPS", "--no-audit")
    quoted = ("'not supported'", '"caution"')
    for text in ("trustworthy", "caution", "not supported", *quoted):
        [one] = record(*words, *required(f"new.verdict >= {text}"))["requirements"]
        assert one["right"] == text.strip("'\"")


@pytest.mark.parametrize(
    ("text", "place", "message"),
    [
        ("", 1, "a number or a policy stands here, got 'the end'"),
        ("new", 4, "one of >= <= == > < stands here, got 'the end'"),
        ("new.lower >", 12, "a number or a policy stands here, got 'the end'"),
        ("new.lowr > 1", 5, "one of value, lower, upper, gain, standard_error, eff"),
        ("new. > 1", 6, "one of value, lower"),
        ("new.lower.upper > 1", 11, "nothing more stands here, got 'upper'"),
        ("new.gain.verdict > 1", 10, "one of value, lower, upper stands here"),
        ("logger.gain > 0", 8, "one of value, lower, upper stands here, got 'gain'"),
        ("logger/IPS > 0", 1, "the logger's value is its mean, by no evaluator"),
        ("new.lower => 3", 11, "'=' does not fit into a requirement"),
        ("new > 3 > 2", 9, "nothing more (further requirements are further options)"),
        ("1 > 0", 1, "neither side is about a policy or the logger"),
        ("caution < trustworthy", 1, "neither side is about a policy"),
        ("new == 3", 5, "numbers are compared with > >= < <="),
        ("new.verdict > 3", 1, "a verdict is compared with one of 'not supported', "),
        ("new.verdict == trustworthi", 1, "a verdict is compared with one of"),
        ("new > caution", 1, "a verdict is compared with one of"),
        ("new > 'good'", 7, "'good' is none of the answers 'not supported', "),
        ("new > not", 10, "supported stands here, got 'the end'"),
        ("new/ > 3", 6, "the name of an evaluator stands here, got '>'"),
        ("new/IPS:cmax=10 > 3", 8, "':' does not fit into a requirement"),
        ("new > 1.5.3", 7, "'1' does not fit into a requirement"),
        ("new > 3x", 7, "'3' does not fit into a requirement"),
        ("__import__('os') > 3", 11, "'(' does not fit into a requirement"),
        ("new > $HOME", 7, "'$' does not fit into a requirement"),
        ("\x1b[2J > 3", 1, r"'\x1b' does not fit into a requirement"),
        ("<b>new</b> > 3", 1, "a number or a policy stands here, got '<'"),
    ],
)
def test_what_is_no_requirement_is_refused_at_its_character(
    refused, text, place, message
):
    told = refused(*NEW, "--require", text)
    assert f"at character {place}, {message}" in told
    assert "is no requirement such as 'new.lower > logger'" in told
    assert "\x1b" not in told
