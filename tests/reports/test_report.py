# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause

import re
import warnings
from unicodedata import category

import numpy as np
import pytest

from skope_ope import (
    IPS,
    BanditLogs,
    ConstantPolicy,
    DRns,
    EpsilonGreedy,
    UniformPolicy,
    compare_policies,
    evaluate,
    report,
)
from skope_ope._harmless import HIDDEN_CATEGORIES
from skope_ope.audit import VerdictThresholds
from skope_ope.datasets import make_bandit_logs, make_slate_logs
from tests.logs.test_markup import EVIL, Reader

LOGS, NEW, _ = make_bandit_logs(
    2000, reward="binary", random_state=0, return_truth=True
)


@pytest.fixture(scope="module")
def found():
    return quiet_report({"new": NEW, "even": UniformPolicy()}, LOGS)


def quiet_report(*args, **kwargs):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return report(*args, **kwargs)


def test_it_tells_what_comparison_table_and_audit_tell(found):
    policies = {"new": NEW, "even": UniformPolicy()}
    comparison = compare_policies(policies, LOGS)
    assert (found.decision, found.choice) == (comparison.decision, comparison.choice)
    assert str(found.comparison) == str(comparison)
    assert str(found.values) == str(evaluate(policies, LOGS))
    assert all(one.audited for one in found.verdicts.values())
    assert found.audit.ok and list(found.audits) == ["new", "even"]
    assert found.headline == "Deploy new" and found.sentence.startswith(
        "Deploy new. On"
    )


def test_the_page_is_whole_and_needs_nothing_else(found):
    page = found.to_html()
    read = Reader(page)
    assert not {"script", "link", "img", "iframe", "object"} & set(read.tags)
    names = {name for name, _ in read.attributes}
    assert not {name for name in names if name.startswith("on")} | {"src"} & names
    links = [value for name, value in read.attributes if name == "href"]
    assert all(link.startswith("#") for link in links)
    assert not re.search(r"https?:|url\(|@import", page)
    assert ("charset", "utf-8") in read.attributes
    assert len(page) < 60_000


def test_parts_come_in_the_order_of_a_reader(found):
    page = found.to_html()
    heads = re.findall(r"<h2>(.*?)</h2>", page)
    assert heads == [
        "Deploy new",
        "Gains",
        "Values",
        "What the log knows of each policy",
        "Audit",
        "What was assumed",
        "How it was computed",
        "To repeat it",
    ]
    assert page.count('<svg class="bar') == 2
    assert page.count("recommended") >= 2


def test_equal_input_gives_an_equal_page(found):
    again = quiet_report({"new": NEW, "even": UniformPolicy()}, LOGS)
    assert again.to_html() == found.to_html()


def test_the_page_is_written(tmp_path):
    path = tmp_path / "report.html"
    found = quiet_report({"new": NEW}, LOGS, path, title="Teasers")
    assert found.path == path
    assert path.read_text(encoding="utf-8") == found.to_html()
    assert "<title>Teasers</title>" in found.to_html()
    assert f"Page: {path}" in str(found)


def test_a_path_is_tried_before_anything_is_computed(tmp_path, monkeypatch):
    def computed(*args, **kwargs):
        raise AssertionError("computed before the path was tried")

    monkeypatch.setattr("skope_ope.reports._report.quiet_table", computed)
    with pytest.raises(FileNotFoundError, match="does not exist"):
        report({"new": NEW}, LOGS, tmp_path / "none" / "report.html")
    with pytest.raises(AssertionError, match="computed"):
        report({"new": NEW}, LOGS, tmp_path / "report.html")


def test_nothing_is_left_where_it_fails(tmp_path, monkeypatch):
    monkeypatch.setattr("skope_ope.reports._result.page", lambda _: "half \ud800")
    with pytest.raises(UnicodeEncodeError):
        quiet_report({"new": NEW}, LOGS, tmp_path / "report.html")
    assert list(tmp_path.iterdir()) == []


@pytest.fixture(scope="module")
def leaking():
    """Logs with a column that was written after the reward."""
    context = np.column_stack([LOGS.context, LOGS.reward])
    return BanditLogs(context, LOGS.action, LOGS.reward, LOGS.propensity)


def test_deploy_does_not_read_as_deploy_beside_an_error(leaking):
    policies = {"new": NEW.predict_proba(LOGS.context)}
    found = quiet_report(policies, leaking)
    assert found.comparison.decision == "deploy"  # by the numbers alone
    assert (found.decision, found.choice) == ("undecided", None)
    page = found.to_html()
    assert "Deploy" not in re.sub(r"<(style|pre)>.*?</\1>", "", page, flags=re.S)
    head = page[: page.index("Gains")]
    assert "predicts the reward" in head and "No decision yet" in head
    assert page.count("Do not trust this until the errors are corrected.") == 2


def test_findings_that_are_accepted_are_no_alarms(leaking):
    names = {
        one.name
        for one in quiet_report(NEW.predict_proba(LOGS.context), leaking).alarms
    }
    thresholds = VerdictThresholds(accepted=names)
    policies = {"new": NEW.predict_proba(LOGS.context)}
    found = quiet_report(policies, leaking, thresholds=thresholds)
    assert (found.headline, found.alarms) == ("Deploy new", ())
    assert "predicts the reward" in found.to_html()  # among the findings


def test_a_policy_without_a_name_is_one():
    found = quiet_report(UniformPolicy(), LOGS)
    assert found.policies == ["the policy"]
    assert found.title == "Is the policy better than the logger?"


def test_another_baseline_is_named_throughout():
    policies = {"old": UniformPolicy(), "new": NEW}
    found = quiet_report(policies, LOGS, baseline="old")
    assert found.choice == "new"
    page = found.to_html()
    assert "the logger" not in page[page.index("<h1>") : page.index("What was assumed")]
    assert "Would new have earned more than old?" in page


def test_without_propensities_nothing_is_decided():
    found = quiet_report({"new": NEW}, LOGS.replace(propensity=None))
    assert found.decision == "undecided"
    page = found.to_html()
    assert "No evaluator of this table is recommended" in page
    assert "The reward model is right for the actions of the policy" in page


def test_gains_are_those_of_the_first_where_none_is_recommended():
    found = quiet_report({"new": NEW}, LOGS, evaluators={"a": IPS(), "b": IPS(cmax=2)})
    assert found.evaluator == "a"
    assert found.comparison["new"].estimator == "IPS"


def test_a_policy_that_learns_has_no_audit():
    evaluators = {"DRns": DRns(horizon=50, random_state=0)}
    policies = {"learner": EpsilonGreedy(), "new": NEW}
    found = quiet_report(policies, LOGS, evaluators=evaluators)
    assert list(found.audits) == ["new"]
    assert "learner learns while it acts" in found.to_html()


def test_slates_have_a_page():
    logs, policy, _ = make_slate_logs(random_state=0, return_truth=True)
    found = quiet_report({"new": policy}, logs)
    page = found.to_html()
    assert found.decision == "undecided"
    assert "per round" in found.sentence and "points" not in found.sentence
    assert "sum over its slots" in page and "3 (candidates" not in page


def test_groups_are_counted():
    logs = LOGS.replace(group=np.arange(len(LOGS)) // 4)
    page = quiet_report({"new": NEW}, logs).to_html()
    assert "count the 500 groups" in page
    assert "Rounds are independent" not in page


def test_rewards_that_are_all_zero_decide_nothing():
    logs = BanditLogs(np.zeros((50, 1)), [0, 1] * 25, np.zeros(50), np.full(50, 0.5))
    found = quiet_report({"a": UniformPolicy(), "b": ConstantPolicy(0)}, logs)
    assert found.decision == "undecided"
    text = re.sub(r"<style>.*?</style>", "", found.to_html(), flags=re.S)
    assert not re.search(r"\b(nan|inf)\b", text)


@pytest.fixture(scope="module")
def hostile():
    rng = np.random.RandomState(0)
    codes = rng.randint(2, size=200)
    logs = BanditLogs(
        rng.standard_normal((200, 1)),
        np.array([f"a{EVIL}", "b"])[codes],
        rng.randint(2, size=200),
        np.full(200, 0.05),  # wrong, so that findings name actions
        group=[f"user {i // 4}{EVIL}" for i in range(200)],
    )
    policies = {f"new{EVIL}": UniformPolicy(), f"b{EVIL}": ConstantPolicy("b")}
    given = {"title": EVIL, "command": f"skope-ope {EVIL}", "baseline": f"b{EVIL}"}
    return quiet_report(
        policies, logs, evaluators={f"IPS{EVIL}": IPS(), "DR": "DoublyRobust"}, **given
    )


def test_labels_bring_nothing_into_the_page(hostile):
    for page in (hostile.to_html(), hostile._repr_html_()):
        assert "script" not in Reader(page).tags
        assert not {c for c in page if category(c) in HIDDEN_CATEGORIES} - {"\n"}
    assert hostile.to_html().count("&lt;script&gt;") >= 6


def test_labels_bring_nothing_to_the_terminal(hostile):
    assert not {c for c in str(hostile) if category(c) in HIDDEN_CATEGORIES} - {"\n"}


@pytest.mark.parametrize(
    ("args", "error", "text"),
    [
        (({}, LOGS), ValueError, "policies is empty"),
        (({"new": NEW}, LOGS.context), TypeError, "logs must be BanditLogs"),
        (({"new": NEW}, LOGS[:0]), ValueError, "the logs are empty"),
        (({"logger": NEW}, LOGS), ValueError, "Rename the policy"),
        (({"new": NEW}, LOGS, None, "none"), ValueError, "baseline must be one of"),
    ],
)
def test_bad_input_is_refused(args, error, text):
    args, given = args[:3], {"baseline": args[3]} if len(args) > 3 else {}
    with pytest.raises(error, match=text):
        report(*args, **given)


@pytest.mark.parametrize("level", [0, 1, 1.5, "high"])
def test_bad_levels_are_refused(level):
    with pytest.raises(ValueError, match="level must be a number in"):
        report({"new": NEW}, LOGS, level=level)


def test_thresholds_that_are_none_are_refused():
    with pytest.raises(TypeError, match="thresholds must be VerdictThresholds"):
        report({"new": NEW}, LOGS, thresholds=("low_overlap",))


def test_warnings_are_warned_of():
    with pytest.warns(UserWarning, match="effective rounds"):
        report({"two": ConstantPolicy(2)}, LOGS[:30])
