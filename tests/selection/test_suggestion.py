# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause

import copy
import pickle
import re
from html import unescape

from sklearn.pipeline import make_pipeline

from skope_ope import SNIPS, PropensityEstimator, suggest
from skope_ope.selection import Suggestion
from skope_ope.selection._suggestion import code_of
from tests.selection import _situations


def test_text_tells_everything_once():
    logs, policy, _ = _situations.one_logger_unknown()
    found = suggest(policy, logs)
    text = " ".join(repr(found).split())
    for one in (*found.reasons, *found.doubts.values(), *found.questions):
        assert text.count(one) == 1
    assert text.startswith("evaluator make_pipeline(PropensityEstimator(), Doubly")
    assert repr(found).endswith(found.code)


def test_stop_comes_first_and_has_no_code():
    logs, policy, _ = _situations.deterministic()
    text = repr(suggest(policy, logs))
    assert text.startswith("stop ")
    assert "import" not in text and "evaluator  " not in text


def test_html_is_escaped():
    found = Suggestion("x", stop="<b>a</b>", doubts={"y": "1 < 2"})
    html = found._repr_html_()
    assert "<b>" not in html and "1 &lt; 2" in html


def test_html_has_a_heading_once_and_code_as_it_is_written():
    logs, policy, _ = _situations.one_logger_unknown()
    found = suggest(policy, logs)
    html = found._repr_html_()
    for name, texts in (("because", found.reasons), ("ask", found.questions)):
        assert len(texts) > 1 and html.count(f">{name}<") == 1
        assert f"<li>{texts[-1]}</li>" in html
    [code] = re.findall(r"<pre>(.*?)</pre>", html, flags=re.DOTALL)
    assert unescape(code).rstrip("\n") == found.code.rstrip("\n")


def test_copies():
    logs, policy, _ = _situations.one_logger()
    found = suggest(policy, logs)
    for same in (copy.deepcopy(found), pickle.loads(pickle.dumps(found))):
        assert repr(same) == repr(found)


def test_one_line():
    assert code_of(None) == "none"
    pipeline = make_pipeline(PropensityEstimator(), SNIPS())
    assert code_of(pipeline) == "make_pipeline(PropensityEstimator(), SNIPS())"
