# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause

import os
import re
import stat
import warnings
from html import unescape
from unicodedata import category

import numpy as np
import pytest
from sklearn.linear_model import Ridge
from sklearn.model_selection import KFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from skope_ope import (
    IPS,
    BanditLogs,
    ConstantPolicy,
    DRns,
    EpsilonGreedy,
    FunctionPolicy,
    MixturePolicy,
    RewardModelPolicy,
    UniformPolicy,
    compare_policies,
    evaluate,
    report,
)
from skope_ope.audit import VerdictThresholds
from skope_ope.datasets import make_bandit_logs, make_slate_logs
from tests._contrast import contrast
from tests.logs.test_markup import EVIL, Reader

HIDDEN = {"Cc", "Cf", "Cs", "Zl", "Zp"}  # categories of characters without a face
LOGS, NEW, _ = make_bandit_logs(2000, random_state=0, return_truth=True)


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
    assert found.headline == "Deploy new"
    assert found.sentence.startswith("Deploy new. On")


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
    titles = "Deploy new|Gains|Values|What the log knows of each policy|Audit|What was "
    titles += "assumed|How it was computed|To repeat it"
    assert "|".join(re.findall(r"<h2>(.*?)</h2>", page)) == titles
    assert page.count('<svg class="bar') == 2
    assert page.count("recommended") >= 2
    again = quiet_report({"new": NEW, "even": UniformPolicy()}, LOGS)
    assert again.to_html() == page  # of equal input


def test_the_page_is_written(tmp_path):
    path = tmp_path / "report.html"
    found = quiet_report({"new": NEW}, LOGS, path, title="Teasers")
    assert found.path == path
    assert path.read_text(encoding="utf-8") == found.to_html()
    assert "<title>Teasers</title>" in found.to_html()
    assert f"Page: {path}" in str(found)


class NeverAskedPolicy(ConstantPolicy):
    """Nothing is computed before the path was tried."""

    def predict_proba(self, X, available=None):
        raise AssertionError("computed")


@pytest.mark.parametrize(
    ("name", "error", "text"),
    [
        ("", IsADirectoryError, "is a folder"),
        ("none/a.html", FileNotFoundError, "make '.*none' first"),
        ("file/a.html", FileNotFoundError, "does not exist"),
        ("a.html", AssertionError, "computed"),
    ],
)
def test_a_path_is_tried_before_anything_is_computed(tmp_path, name, error, text):
    (tmp_path / "file").write_text("")
    with pytest.raises(error, match=text):
        report({"new": NeverAskedPolicy(0)}, LOGS, os.path.join(tmp_path, name))
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_files_and_folders_that_take_no_page_are_refused(tmp_path, monkeypatch):
    def refuse(*args, **kwargs):
        raise PermissionError(13, "Permission denied")

    path = tmp_path / "a.html"
    with monkeypatch.context() as patch:
        patch.setattr("os.open", refuse)
        with pytest.raises(PermissionError, match="be written: Permission denied"):
            report({"new": NEW}, LOGS, path)
    path.write_text("old")
    monkeypatch.setattr("os.access", lambda *_: False)
    with pytest.raises(PermissionError, match="write-protected"):
        report({"new": NEW}, LOGS, path)


def test_a_failure_leaves_the_old_page(tmp_path, monkeypatch):
    path = tmp_path / "a.html"
    path.write_text("old")

    def full(*args):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.replace", full)
    with pytest.raises(OSError, match="No space"):
        quiet_report({"new": NEW}, LOGS[:200], path)
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.skipif(os.name == "nt", reason="permissions and links of Unix")
def test_permissions_and_links_stay(tmp_path):
    path, link = tmp_path / "a.html", tmp_path / "link.html"
    path.write_text("old")
    path.chmod(0o640)
    link.symlink_to(path)
    found = quiet_report({"new": NEW}, LOGS[:200], link, title="ä")
    assert path.read_text(encoding="utf-8") == found.to_html() and link.is_symlink()
    assert stat.S_IMODE(path.stat().st_mode) == 0o640


@pytest.mark.skipif(not os.path.exists("/dev/null"), reason="a device of Unix")
def test_a_device_is_no_page():
    with pytest.raises(PermissionError, match="no ordinary file"):
        report({"new": NEW}, LOGS, "/dev/null")


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
    policies = {"new": NEW.predict_proba(LOGS.context)}
    names = {one.name for one in quiet_report(policies, leaking).alarms}
    thresholds = VerdictThresholds(accepted=names)
    found = quiet_report(policies, leaking, thresholds=thresholds)
    assert (found.headline, found.alarms) == ("Deploy new", ())
    assert "predicts the reward" in found.to_html()  # among the findings


def test_another_baseline_is_named_throughout():
    policies = {"old": UniformPolicy(), "new": NEW}
    found = quiet_report(policies, LOGS, baseline="old")
    assert found.choice == "new"
    page = found.to_html()
    shown = page[page.index("<h1>") : page.index("What was assumed")]
    assert "the logger" not in shown and "system" not in shown[: shown.index("Audit")]
    assert "Would new have had more reward than old?" in page
    found = quiet_report(UniformPolicy(), LOGS)  # a policy without a name
    assert found.policies == ["the policy"]
    assert found.title == "Is the policy better than the system that made the log?"


def test_without_propensities_nothing_is_decided():
    found = quiet_report({"new": NEW}, LOGS.replace(propensity=None))
    assert found.decision == "undecided"
    assert "What to do: The logs have no propensities." in " ".join(str(found).split())
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
    action = np.array([f"a{EVIL}", "b"])[rng.randint(2, size=200)]
    x, reward = rng.standard_normal((200, 1)), rng.randint(2, size=200)
    group = [f"user {i // 4}{EVIL}" for i in range(200)]
    p = np.full(200, 0.05)  # wrong, so that findings name actions
    logs = BanditLogs(x, action, reward, p, group=group)
    policies = {f"new{EVIL}": UniformPolicy(), f"b{EVIL}": ConstantPolicy("b")}
    given = {"title": EVIL, "command": f"skope-ope {EVIL}", "baseline": f"b{EVIL}"}
    evaluators = {f"IPS{EVIL}": IPS(), "DR": "DoublyRobust"}
    return quiet_report(policies, logs, evaluators=evaluators, **given)


NO_PATH = "path must be the name of a file"


def test_labels_bring_nothing_into_the_page_or_the_terminal(hostile):
    for page in (hostile.to_html(), hostile._repr_html_()):
        assert "script" not in Reader(page).tags
        assert not {c for c in page if category(c) in HIDDEN} - {"\n"}
    assert hostile.to_html().count("&lt;script&gt;") >= 6
    assert not {c for c in str(hostile) if category(c) in HIDDEN} - {"\n"}


@pytest.mark.parametrize(
    ("change", "error", "text"),
    [
        ({"policies": {}}, ValueError, "policies is empty"),
        ({"logs": LOGS.context}, TypeError, "logs must be BanditLogs"),
        ({"logs": LOGS[:0]}, ValueError, "the logs are empty"),
        ({"policies": {"logger": NEW}}, ValueError, "Rename the policy"),
        ({"baseline": "none"}, ValueError, "baseline must be one of"),
        *(({"level": one}, ValueError, "level must be") for one in (0, 1, 1.5, "high")),
        ({"thresholds": ("low_overlap",)}, TypeError, "must be VerdictThresholds"),
        *(({"path": one}, TypeError, NO_PATH) for one in ("", b"a.html", 3, ["a"])),
    ],
)
def test_bad_input_is_refused(change, error, text):
    with pytest.raises(error, match=text):
        report(**{"policies": {"new": NEW}, "logs": LOGS} | change)


def test_warnings_are_warned_of():
    with pytest.warns(UserWarning, match="effective rounds"):
        report({"two": ConstantPolicy(2)}, LOGS[:30])


# -- what the page says of how it was made --------------------------------------------
HASH = r"hash of actions and rewards.*?([0-9a-f]{16})"


def hash_of(logs, policy=NEW):
    evaluators = {"one": "IPS" if isinstance(logs, BanditLogs) else "SlateIPS"}
    found = quiet_report({"new": policy}, logs, evaluators=evaluators)
    return re.search(HASH, found.to_html(), re.S)[1]


def test_a_log_is_known_again_and_told_from_others():
    logs = LOGS[:200]
    others = [logs[:199], logs.replace(reward=1 - logs.reward), logs[::-1]]
    others.append(logs.replace(propensity=logs.propensity * 0.5, logging_proba=None))
    assert hash_of(logs[np.arange(200)]) == hash_of(logs)
    assert len({hash_of(one) for one in [logs, *others]}) == 5
    slates, policy, _ = make_slate_logs(50, random_state=0, return_truth=True)
    assert hash_of(slates, policy) != hash_of(slates[::-1], policy)


def test_the_hash_is_the_same_on_every_machine():
    logs = BanditLogs([[0.0], [1.0]], ["a", "b"], [0.5, 1.0], [0.25, 0.5])
    assert hash_of(logs, UniformPolicy()) == "bc81cb2982fe16f9"


def test_versions_are_those_that_ran(found):
    told = found.to_html()
    told = told[told.index("How it was computed") :]
    for name in ("skope_ope", "numpy", "scipy", "scikit-learn", "Python"):
        assert name in told
    assert np.__version__ in told


def code_of(page):
    return unescape(re.search(r"<pre><code>(.*?)</code>", page, re.S)[1])


def with_logs(code, logs):
    """Run the code of a page, with the logs that it says are missing."""
    names = {"given": logs}
    first, last = code.replace("logs = ...", "logs = given").rsplit("report(", 1)
    exec(f"{first}found = report({last}", names)
    return names["found"]


def test_the_code_of_the_page_arrives_at_its_numbers(tmp_path):
    """From the file of the log: only the logs are missing."""
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame({"x": LOGS.context[:, 0], "item": LOGS.action, "p": 0.3})
    frame.assign(p=LOGS.propensity, r=LOGS.reward).to_csv(tmp_path / "log.csv")

    def read():
        columns = {"action": "item", "reward": "r", "propensity": "p"}
        frame = pd.read_csv(tmp_path / "log.csv")
        return BanditLogs.from_frame(frame, **columns, context=["x"])

    policies = {"one": ConstantPolicy(1), "even": UniformPolicy()}
    some = [UniformPolicy(), ConstantPolicy(2)]
    policies["mixed"] = MixturePolicy(some, weights=[0.25, 0.75])
    given = {"reward_model": make_pipeline(StandardScaler(), Ridge(alpha=2.0))}
    given |= {"cv": KFold(3), "baseline": "even", "level": 0.9, "random_state": 1}
    given |= {"evaluators": {"plain": IPS(cmax=9.0), "DR": "DoublyRobust"}}
    given["thresholds"] = VerdictThresholds(accepted=["low_overlap"])
    found = quiet_report(policies, read(), tmp_path / "page.html", **given)
    code = code_of(found.to_html())
    assert code.count("# missing") == 1 and "n_jobs" not in code
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        again = with_logs(code, read())
    assert again.to_html() == found.to_html()
    assert found.to_html() == (tmp_path / "page.html").read_text(encoding="utf-8")


def test_the_code_says_what_is_missing_without_addresses_or_data():
    table = np.zeros((200, LOGS.n_actions))
    learned = RewardModelPolicy(Ridge()).fit(LOGS[500:])
    policies = {"rule": FunctionPolicy(rule), "new": learned, "table": table + 1 / 3}
    policies["even"] = UniformPolicy()
    given = {"reward_model": table, "title": "x" * 999, "baseline": "logger"}
    code = code_of(quiet_report(policies, LOGS[:200], **given).to_html())
    for line in (
        "logs = ...  # missing: the rounds described below",
        "'rule': ...,  # missing: FunctionPolicy",
        "'new': ...,  # missing: fitted RewardModelPolicy",
        "'table': ...,  # missing: ndarray of shape (200, 3)",
        "'even': UniformPolicy(),",
        "reward_model=...,  # missing: ndarray of shape (200, 3)",
        "title=...,  # missing: str",
    ):
        assert line in code
    start = "from skope_ope import UniformPolicy\nfrom skope_ope import report\n\nlogs"
    assert code.startswith(start)
    assert "baseline" not in code and "0x" not in code and len(code) < 700


def rule(X):
    return np.zeros(len(X), dtype=int)


# -- the style ------------------------------------------------------------------------
@pytest.fixture(scope="module")
def style(found):
    return re.search(r"<style>(.*?)</style>", found.to_html(), re.S)[1]


@pytest.mark.parametrize("part", [0, 1], ids=["light", "dark"])
@pytest.mark.parametrize("ground", ["ground", "panel"])
def test_texts_can_be_read_and_marks_be_seen(style, part, ground):
    rules = style.split("@media(prefers-color-scheme:dark)")[part]
    colours = dict(re.findall(r"--(\w+):(#[0-9a-f]{6})", rules))
    for name in ("text", "quiet", "policy"):
        assert contrast(colours[name], colours[ground]) >= 4.5
    for name in ("doubt", "base"):  # no texts
        assert contrast(colours[name], colours[ground]) >= 3


def test_tables_fit_at_800_px_and_are_lists_at_400(style, found):
    """Headers wrap, so that notes are whole; below 640 px a cell is a line."""
    wide, _, narrow = style.replace("\n", "").partition("@media(max-width:40rem)")
    rules = dict(re.findall(r"([^{}]*)\{([^{}]*)\}", wide))
    assert "nowrap" not in rules[".number"] and "nowrap" in rules["td.number"]
    assert "thead{display:none}" in narrow
    assert "table,tbody,tr,th,td{display:block}" in narrow
    assert 'td[data-label]::before{content:attr(data-label) ": "' in narrow
    values = re.search(r"<h2>Values</h2>(.*?)<details>", found.to_html(), re.S)[1]
    for column in ("evaluator", "value", "95% low", "eff. rounds", "note"):
        assert values.count(f'data-label="{column}"') == 3  # the baseline, two policies


def test_no_text_has_the_colour_of_marks(style):
    for selector, rule in re.findall(r"([^{}]*)\{([^{}]*)\}", style):
        for _, value in re.findall(r"(?:^|;)\s*(color|fill):([^;]*)", rule):
            if "doubt" in value or "base" in value:
                assert ".bar" in selector, (selector, rule)
