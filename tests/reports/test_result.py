# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause

import pickle
from html import unescape

import numpy as np
import pytest

from skope_ope import BanditLogs, report
from skope_ope.datasets import make_bandit_logs

LOGS, NEW, _ = make_bandit_logs(
    1000, reward="binary", random_state=0, return_truth=True
)


@pytest.fixture(scope="module")
def found():
    return report({"new": NEW}, LOGS)


def test_the_text_is_what_one_says_in_a_meeting(found):
    assert " ".join(str(found).split()) == found.sentence


def test_the_text_tells_alarms():
    slipped = LOGS.replace(propensity=np.roll(LOGS.propensity, 1))
    with pytest.warns(UserWarning):
        found = report({"new": NEW}, slipped)
    assert "[error]" in str(found)
    assert [one.severity for one in found.alarms].count("error") >= 1


def test_a_notebook_shows_the_page_in_a_frame(found):
    shown = found._repr_html_()
    assert shown.startswith("<iframe sandbox srcdoc=")
    inner = shown.partition('srcdoc="')[2].rpartition('" style=')[0]
    assert '"' not in inner and "<" not in inner
    assert unescape(inner) == found.to_html()


def test_a_report_comes_back_from_a_pickle(found):
    again = pickle.loads(pickle.dumps(found))
    assert again.to_html() == found.to_html()


def test_an_alarm_says_what_to_do_first():
    slipped = LOGS.replace(propensity=np.roll(LOGS.propensity, 1))
    with pytest.warns(UserWarning):
        found = report({"new": NEW}, slipped)
    [first, *_] = found.alarms
    assert len(first.advice) > 1
    assert f"Check first: {first.advice[0]}" in " ".join(str(found).split())
    assert f"Check first: {first.advice[0]}" in unescape(found.to_html())


def test_logs_without_propensities_are_told_how_to_get_them():
    unknown = LOGS.replace(propensity=None, logging_proba=None)
    with pytest.warns(UserWarning):
        found = report({"new": NEW}, unknown)
    assert found.decision == "undecided"
    assert "What to do: The logs have no propensities." in " ".join(str(found).split())


def test_a_group_in_the_context_is_told():
    pd = pytest.importorskip("pandas")
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(LOGS.context).add_prefix("x")
    context = frame.assign(user_id=rng.integers(300, size=1000))
    logs = BanditLogs(context, LOGS.action, LOGS.reward, LOGS.propensity)
    pi = NEW.predict_proba(LOGS.context)
    text = " ".join(str(report({"new": pi}, logs)).split())
    assert "[note] Column 'user_id' has" in text
    assert "pass group='user_id'" in text
