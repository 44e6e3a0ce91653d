# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause

import pickle
import re
import warnings
from html import unescape

import numpy as np
import pytest

from skope_ope import BanditLogs, ConstantPolicy, UniformPolicy, report
from skope_ope.datasets import make_bandit_logs

LOGS, NEW, _ = make_bandit_logs(1500, random_state=1, return_truth=True)
SLIPPED = LOGS.replace(propensity=np.roll(LOGS.propensity, 1))


def made(logs, **policies):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return report(policies, logs)


@pytest.fixture(scope="module")
def found():
    return made(LOGS, new=NEW, even=UniformPolicy())


@pytest.fixture(scope="module")
def wrong():
    return made(SLIPPED, new=NEW)


def parts(found):
    """Pieces of the page by their titles."""
    titles = re.split(r"<h2>(.*?)</h2>", found.to_html())
    return dict(zip(titles[1::2], titles[2::2], strict=True))


def test_errors_stand_before_the_reasons_and_warnings_behind(found, wrong):
    told = parts(wrong)[wrong.headline]
    assert told.index("Before you act") < told.index("do not trust")
    assert "Before you act" not in parts(found)[found.headline]
    few = made(LOGS[:40], new=NEW)
    told = parts(few)[few.headline]
    assert told.index("rounds cannot tell") < told.index("Before you act")


def test_the_link_leads_to_the_findings(wrong):
    page = wrong.to_html()
    (target,) = set(re.findall(r'href="#(.*?)"', page))
    assert page.count(f'id="{target}"') == 1
    assert "What to check, most likely first" in page[page.index(f'id="{target}"') :]


def test_bars_lie_where_the_axis_says_and_numbers_beside_them(found):
    told = parts(found)["Gains"]
    gains = found.comparison.differences
    ticks = re.findall(r'<text x="([\d.]+)%".*?>(.*?)</text>', told)
    places, numbers = np.array(ticks, dtype=float).T
    names = re.findall(r'aria-label="(\w+): gain', told)
    marks = re.findall(r'<circle cx="([\d.]+)%"|<svg x="([\d.]+)%"', told)
    assert names == list(gains)
    for (name, gain), mark in zip(gains.items(), marks, strict=True):
        drawn = np.interp(float("".join(mark)), places, numbers)
        assert drawn == pytest.approx(100 * gain.value, abs=0.01)
        assert re.search(rf"\{100 * gain.value:+.1f}\d* points", told)
        lift = found.comparison.lifts[name].value
        assert f"{lift:+.0%}" in told or f"{100 * lift:+.2g}%" in told
    records = found.comparison.to_records()
    assert max(numbers) >= max(r["difference"] for r in records) * 100


def test_rows_of_values(found, wrong):
    told = parts(found)["Values"]
    marked = re.findall(r'<tr class="marked">(.*?)</tr>', told)
    assert len(marked) == 2
    assert all("DoublyRobust" in row and "recommended" in row for row in marked)
    open_rows, folded = told.split("<details>")
    assert open_rows.count("<tr") == 1 + 1 + 2  # header, baseline, two policies
    assert "<summary>Other evaluators: IPS, SNIPS, SNDR</summary>" in folded
    assert folded.count("<tr") == 1 + 6 and "DoublyRobust" not in folded
    sentence = "Each interval holds by itself at 95%."
    assert sentence in told and sentence not in parts(wrong)["Values"]


def test_a_relative_gain_without_limits_has_no_empty_ones():
    logs = LOGS.replace(reward=np.where(LOGS.action_index == 0, 0.0, LOGS.reward))
    rare = made(logs[:60], new=NEW, none=ConstantPolicy(0))
    assert "(nan" not in rare.to_html() and "(- to -)" not in rare.to_html()


def test_overlap_is_that_of_the_value(found):
    told = parts(found)["What the log knows of each policy"]
    value = found.values["new", "DoublyRobust"]
    assert f"{value.effective_sample_size:,.0f}" in told
    share = value.effective_sample_size / len(LOGS)
    assert f'width="{100 * share:.2f}%"' in told


def test_findings_say_what_to_do_and_notes_are_closed(wrong, found):
    told = parts(wrong)["Audit"]
    assert 'open="open"' in told and "not supported" in told
    told = parts(found)["Audit"]
    assert "open=" not in told
    assert told.count("<details>") == 3  # the log and two policies


def test_the_text_is_what_one_says_in_a_meeting(found):
    assert " ".join(str(found).split()) == found.sentence
    again = pickle.loads(pickle.dumps(found))
    assert again.to_html() == found.to_html()


def test_an_alarm_says_what_to_do_first():
    with pytest.warns(UserWarning):
        found = report({"new": NEW}, SLIPPED)
    text = " ".join(str(found).split())
    [first, *_] = found.alarms
    assert first.severity == "error" and "[error]" in text
    assert len(first.advice) > 1
    assert f"Check first: {first.advice[0]}" in text
    assert f"Check first: {first.advice[0]}" in unescape(found.to_html())


def test_a_notebook_shows_the_page_in_a_frame(found):
    shown = found._repr_html_()
    assert shown.startswith("<iframe sandbox srcdoc=")
    inner = shown.partition('srcdoc="')[2].rpartition('" style=')[0]
    assert '"' not in inner and "<" not in inner
    assert unescape(inner) == found.to_html()


def test_a_group_in_the_context_is_told():
    pd = pytest.importorskip("pandas")
    logs = LOGS[:1000]
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(logs.context).add_prefix("x")
    context = frame.assign(user_id=rng.integers(300, size=1000))
    some = BanditLogs(context, logs.action, logs.reward, logs.propensity)
    pi = NEW.predict_proba(logs.context)
    text = " ".join(str(report({"new": pi}, some)).split())
    assert "[note] Column 'user_id' has" in text
    assert "pass group='user_id'" in text
