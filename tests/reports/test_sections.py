# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause

import re
import warnings

import numpy as np
import pytest

from skope_ope import UniformPolicy, report
from skope_ope.datasets import make_bandit_logs
from skope_ope.logs._html import Scale
from skope_ope.reports._sections import _lift_texts

LOGS, NEW, _ = make_bandit_logs(
    1500, reward="binary", random_state=1, return_truth=True
)


def made(logs, **policies):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return report(policies, logs)


@pytest.fixture(scope="module")
def found():
    return made(LOGS, new=NEW, even=UniformPolicy())


@pytest.fixture(scope="module")
def wrong():
    return made(LOGS.replace(propensity=np.roll(LOGS.propensity, 1)), new=NEW)


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


def test_bars_lie_where_the_axis_says(found):
    told = parts(found)["Gains"]
    gains = found.comparison.differences
    ticks = re.findall(r'<text x="([\d.]+)%".*?>(.*?)</text>', told)
    places, numbers = np.array(ticks, dtype=float).T
    names = re.findall(r'aria-label="(\w+): gain', told)
    marks = re.findall(r'<circle cx="([\d.]+)%"|<svg x="([\d.]+)%"', told)
    assert names == list(gains)
    for name, mark in zip(names, marks, strict=True):
        drawn = np.interp(float("".join(mark)), places, numbers)
        assert drawn == pytest.approx(100 * gains[name].value, abs=0.01)


def test_gains_are_told_in_numbers_too(found):
    told, units = parts(found)["Gains"], found._units
    for name, gain in found.comparison.differences.items():
        assert f"{units.gain(gain.value)} points" in told
        assert units.share(found.comparison.lifts[name].value) in told


def test_recommended_rows_are_marked(found):
    told = parts(found)["Values"]
    marked = re.findall(r'<tr class="marked">(.*?)</tr>', told)
    assert len(marked) == 2
    assert all("DoublyRobust" in row and "recommended" in row for row in marked)
    assert told.count("<tr>") == 1 + 1 + 6  # header, the logger, other evaluators


def test_the_table_of_several_says_what_its_intervals_hold_for(found, wrong):
    sentence = "Each interval holds by itself at 95%."
    assert sentence in parts(found)["Values"]
    assert sentence not in parts(wrong)["Values"]


def test_a_relative_gain_without_limits_has_no_empty_ones():
    one = {"lift": 0.5, "lift_low": float("nan"), "lift_high": float("nan")}
    assert _lift_texts(one) == ["+50%"]
    assert _lift_texts(one | {"lift_low": 0.25, "lift_high": 1}) == [
        "+50% (+25% to +100%)"
    ]


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


def test_the_axis_holds_the_farthest_limit(found):
    records = found.comparison.to_records()
    ends = [100 * one["difference_high"] for one in records]
    assert Scale(ends).high >= max(ends)
