# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause

import copy
import pickle
import re
from html import unescape

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.linear_model import Ridge
from sklearn.model_selection import GridSearchCV

from skope_ope import (
    UCB1,
    BanditLogs,
    ConstantPolicy,
    EpsilonGreedy,
    IndependentSlotIPS,
    PolicyScorer,
    PropensityEstimator,
    Replay,
    SlateLogs,
    UniformPolicy,
    evaluate,
    scan_logs,
    suggest,
)
from skope_ope.base import BaseEvaluator
from skope_ope.datasets import make_adaptive_logs, make_slate_logs
from skope_ope.selection import Suggestion
from tests.packaging._tree import ROOT
from tests.selection import _situations
from tests.selection._decision_table import TABLE
from tests.selection._situations import WORLDS

NAMED = TABLE.DOUBTS | TABLE.DOUBTS_OF_ROWS
# Doubts that small logs of the worlds may raise by chance do not fail a row.
QUIET = pytest.mark.filterwarnings("ignore")


def as_in_table(found):
    """Return the text of a suggestion on one line, horizons as in the table."""
    text = " ".join(repr(found).split())
    return re.sub(r"horizon=\d+, random_state=0", "horizon=T", text)


def test_every_row_of_the_table_has_a_world():
    assert set(TABLE.SITUATIONS) == set(WORLDS)
    assert set(TABLE.TEASER) <= set(WORLDS)


@pytest.mark.few_cases(6)
@QUIET
@pytest.mark.parametrize("name", WORLDS)
def test_row_of_the_table_is_what_is_suggested_and_runs(name):
    row, (logs, policy, truth) = TABLE.SITUATIONS[name], WORLDS[name]()
    found = suggest(policy, logs)
    assert found.situation == name
    assert found.link == row["page"]
    assert set(found.doubts) <= set(NAMED)
    assert (ROOT / "docs" / f"{found.link}.rst").exists()
    assert found.assumptions and found.questions
    if row["evaluator"] == TABLE.STOP:
        assert found.stop and found.evaluator is None and found.code == ""
        return
    assert found.stop is None and found.reasons
    text = as_in_table(found)
    assert text.startswith(f"evaluator {row['evaluator']} ")
    assert (f" check {row['check']} " in text) == bool(row["check"])
    assert ("check" in found.code) == bool(row["check"])
    assert found.code.count("PropensityEstimator()") <= 1  # a step is taken once
    value = run(found, logs, policy)["value"]
    low, high = value.confidence_interval(method=found.interval)
    assert low < high
    if truth is not None:
        assert low <= truth <= high
    clone(found.evaluator)


@pytest.mark.few_cases(5)
@QUIET
@pytest.mark.parametrize("name", WORLDS)
def test_the_log_alone_gives_the_same_answer_unless_the_policy_learns(name):
    logs, _, _ = WORLDS[name]()
    alone = suggest(None, logs)
    if "learner" in name or name == "slot_clicks_reordered":
        assert alone.situation != name
    else:
        assert alone.situation == name


@pytest.mark.thorough
def test_nothing_is_estimated(monkeypatch):
    def refuse(*args, **kwargs):
        raise AssertionError("a value was asked for")

    logs_of = {name: make() for name, make in WORLDS.items()}
    for kind in (BaseEvaluator, *_subclasses(BaseEvaluator)):
        for method in ("evaluate", "score", "_result", "_evaluate"):
            if method in vars(kind):
                monkeypatch.setattr(kind, method, refuse)
    for logs, policy, _ in logs_of.values():
        suggest(policy, logs)


def _subclasses(kind):
    for one in kind.__subclasses__():
        yield one
        yield from _subclasses(one)


@QUIET
@pytest.mark.parametrize("name", ["one_logger", "several_loggers", "slates"])
def test_it_is_the_row_that_evaluate_recommends(name):
    logs, policy, _ = WORLDS[name]()
    table = evaluate(policy, logs)
    row = table[table.recommended]
    assert type(suggest(policy, logs).evaluator).__name__ == row.estimator


@pytest.mark.parametrize("epsilon", [0.05, 0.2])
def test_a_logger_that_explores_is_not_called_deterministic(epsilon):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(4000, 2))
    explores = rng.random(4000) < epsilon
    action = np.where(explores, rng.integers(2, size=4000), x[:, 0] > 0).astype(int)
    found = suggest(None, BanditLogs(x, action, np.zeros(4000)))
    assert found.situation == "one_logger_unknown"


def test_deterministic_loggers_that_differ_explore_together():
    logs, policy, _ = _situations.several_deterministic_loggers()
    found = suggest(policy, logs)
    assert found.situation == "several_loggers"
    assert "low_overlap" not in found.doubts
    without = suggest(policy, logs.replace(logger_proba=None))
    assert without.situation == "several_loggers_unknown"


def test_rewards_of_slots_are_a_check():
    logs, policy, _ = make_slate_logs(500, random_state=0, return_truth=True)
    assert isinstance(suggest(policy, logs).check, IndependentSlotIPS)


def of_learner(n_rounds=900, **fields):
    rng = np.random.default_rng(0)
    action = rng.integers(3, size=n_rounds)
    reward = (rng.random(n_rounds) < 0.3).astype(float)
    return BanditLogs(rng.normal(size=(n_rounds, 2)), action, reward, **fields)


def misfit():
    logs, policy, _ = _situations.one_logger()
    wrong = logs.propensity / 3
    return logs.replace(propensity=wrong, logging_proba=None), policy, None


def learner_weighted():
    logs = of_learner(sample_weight=np.repeat([1.0, 2.0], 450))
    return logs, EpsilonGreedy(), None


def deterministic_loggers_and_a_learner():
    logs, _, _ = _situations.several_deterministic_loggers()
    return logs, EpsilonGreedy(), None


def pages_that_follow_the_context():
    x = np.random.default_rng(0).integers(2, size=2000)
    pages = np.column_stack([x, 1 - x])
    logs = SlateLogs(x[:, None].astype(float), pages, None, slot_reward=pages * 1.0)
    return logs, None, None


def nothing_that_the_policy_takes():
    logs, _, _ = _situations.blind_logger()
    given = (logs.context, logs.action_index, logs.reward, np.full(len(logs), 0.5))
    return BanditLogs(*given, actions=[0, 1, 2]), ConstantPolicy(2), None


def run(found, logs, policy):
    """Run the code of a suggestion and return what it defines."""
    names = {"logs": logs, "policy": policy}
    exec(found.code, names)
    return names


STOPPED = [
    ("deterministic", _situations.deterministic, "no choice"),
    ("deterministic", _situations.deterministic_unknown, "no choice"),
    ("deterministic, several loggers", deterministic_loggers_and_a_learner, "frozen()"),
    ("misfit", misfit, "do not fit the logged actions"),
    ("learner_weighted", learner_weighted, "sample weights"),
    ("slates_unknown", _situations.slates_unknown, ""),
    ("slates_unknown, clicks by place", pages_that_follow_the_context, "which items"),
    ("any, with a policy", nothing_that_the_policy_takes, "none of the logged actions"),
]


def test_every_stop_of_the_page_has_a_world():
    assert {row for row, *_ in STOPPED} == set(TABLE.STOPS)


@QUIET
@pytest.mark.parametrize(("row", "world", "text"), STOPPED)
def test_stops_are_those_of_the_page(row, world, text):
    logs, policy, _ = world()
    found, row_of_page = suggest(policy, logs), TABLE.STOPS[row]
    assert found.stop.startswith(row_of_page["says"]) and text in found.stop
    assert found.link == row_of_page["page"]
    assert found.evaluator is found.check is None and found.code == ""
    if row in ("deterministic", "misfit", "slates_unknown", "learner_weighted"):
        assert found.situation == row


def test_several_loggers_without_propensities_value_a_learner():
    logs = of_learner(logger=np.repeat(["a", "b"], 450))
    found = suggest(EpsilonGreedy(), logs)
    assert found.situation == "learner_unknown"
    assert np.isfinite(run(found, logs, EpsilonGreedy())["value"].standard_error)


@pytest.mark.parametrize("propensity", [None, 1 / 3])
def test_a_learner_on_weighted_rounds_stops(propensity):
    weight = np.repeat([1.0, 2.0], 450)
    logs = of_learner(propensity=propensity, sample_weight=weight)
    assert "sample weights" in suggest(EpsilonGreedy(), logs).stop
    even = logs.replace(sample_weight=np.ones(900))
    assert suggest(EpsilonGreedy(), even).stop is None


def test_loggers_that_act_alike_without_a_choice_stop():
    logs = of_learner(2000)
    logger = np.arange(2000) % 2
    action = (logs.context[:, 0] > 0).astype(int)
    alike = BanditLogs(logs.context, action, logs.reward, logger=logger)
    assert "no choice" in suggest(UniformPolicy(), alike).stop
    action = np.where(logger, action, 1 - action)
    apart = BanditLogs(logs.context, action, logs.reward, logger=logger)
    assert suggest(UniformPolicy(), apart).situation == "several_loggers_unknown"
    assert "frozen()" in suggest(EpsilonGreedy(), apart).stop


@QUIET
def test_logs_without_features_have_a_check():
    logs = of_learner()
    logs = BanditLogs(logs.context[:, :0], logs.action, logs.reward)
    names = run(suggest(UniformPolicy(), logs), logs, UniformPolicy())
    assert abs(names["check"].value - names["value"].value) < 0.02


def test_a_search_over_policies_that_learn_is_one():
    logs = of_learner(propensity=1 / 3)
    scorer = PolicyScorer(Replay(random_state=0))
    search = GridSearchCV(EpsilonGreedy(), {"epsilon": [0.1, 1]}, scoring=scorer)
    found = suggest(search.fit(logs), logs)
    assert found.situation == "learner_uniform"


def test_doubts_about_learners():
    for n_rounds, short in ((90, True), (900, False)):
        found = suggest(EpsilonGreedy(), of_learner(n_rounds, propensity=1 / 3))
        assert ("short_life" in found.doubts) == short
    logs = make_adaptive_logs(3000, means=(0.6, 0.4), random_state=0)
    assert "logger_learned" in suggest(UCB1(), logs).doubts


@QUIET
def test_offers_that_vary_are_strata_unless_they_vary_too_much():
    logs = of_learner()
    for n_sets, strata in ((1, None), (2, "available")):
        offered = np.ones((900, 3), dtype=bool)
        set_of = np.arange(900) % n_sets == 1
        offered[set_of, 2] = False
        action = np.where(set_of, logs.action_index % 2, logs.action_index)
        some = BanditLogs(logs.context, action, logs.reward, available=offered)
        found = suggest(UniformPolicy(), some)
        assert found.evaluator.strata == strata
        assert np.isfinite(run(found, some, UniformPolicy())["value"].value)
    offered = np.random.default_rng(1).random((900, 5)) < 0.5
    offered[np.arange(900), logs.action_index] = True
    fields = {"actions": range(5), "available": offered}
    logs = BanditLogs(logs.context, logs.action_index, logs.reward, **fields)
    assert suggest(UniformPolicy(), logs).situation == "one_logger_unknown"


def test_users_are_asked_about_where_none_are_given():
    logs, *_ = _situations.one_logger()
    grouped = logs.replace(group=np.arange(len(logs)) // 2)
    for one, asked in ((logs, True), (grouped, False)):
        assert ("Do users come back" in " ".join(suggest(None, one).questions)) == asked


@QUIET
def test_estimated_propensities_are_not_called_recorded():
    logs, policy, _ = _situations.one_logger()
    unknown = logs.replace(propensity=None, logging_proba=None)
    text = " ".join(suggest(policy, unknown).reasons)
    assert "No probabilities were recorded" in text
    assert "The propensities are estimated" in text
    assert "logs have propensities" not in text
    estimated = PropensityEstimator().fit(unknown).transform(unknown)
    assert "propensities are estimated" in evaluate(policy, estimated).reason


def test_what_is_refused(tmp_path):
    logs, policy, _ = _situations.one_logger(n_rounds=200)
    needs = "cv='prefit' needs a fitted reward_model"
    for given, error, message in (
        ({"reward_model": object()}, TypeError, "reward_model must be a scikit-learn"),
        ({"reward_model": "nocol"}, (KeyError, ValueError), "nocol"),
        ({"reward_model": Ridge}, TypeError, "the class Ridge"),
        ({"reward_model": np.ones((3, 3))}, ValueError, "shape"),
        ({"cv": "five"}, ValueError, "cv must be 'prefit', a number or folds"),
        ({"cv": "prefit"}, ValueError, needs),
        ({"cv": 1}, ValueError, "2 folds"),
    ):
        with pytest.raises(error, match=message):
            suggest(policy, logs, **given)
    with pytest.raises(TypeError, match=r"call is suggest\(policies, logs\)"):
        suggest(logs, policy)
    with pytest.raises(ValueError, match="empty"):
        suggest(None, logs[:0])


@pytest.mark.frames
def test_lazy_logs_are_refused(tmp_path):
    (tmp_path / "log.csv").write_text("x,a,r,p\n1,0,0,.5\n2,1,1,.5\n")
    pytest.importorskip("pandas")
    lazy = scan_logs(tmp_path / "log.csv", action="a", reward="r", propensity="p")
    with pytest.raises(TypeError, match="lazy"):
        suggest(None, lazy)


def test_the_page_shows_the_tables(tmp_path):
    TABLE.write_tables(tmp_path)
    page = (ROOT / "docs" / "which_evaluator.rst").read_text()
    shown = re.findall(r"include:: generated/(\w+\.inc)", page)
    text = "".join((tmp_path / name).read_text() for name in shown)
    for name in (*NAMED, *(key.split(",")[0] for key in TABLE.STOPS)):
        assert f"``{name}``" in text or name == "any"


# -- what is shown ---------------------------------------------------------------------
def test_text_and_html_tell_everything_once():
    logs, policy, _ = _situations.one_logger_unknown()
    found = suggest(policy, logs)
    text = " ".join(repr(found).split())
    for one in (*found.reasons, *found.doubts.values(), *found.questions):
        assert text.count(one) == 1
    assert text.startswith("evaluator make_pipeline(PropensityEstimator(), Doubly")
    assert repr(found).endswith(found.code)
    html = found._repr_html_()
    for name, texts in (("because", found.reasons), ("ask", found.questions)):
        assert len(texts) > 1 and html.count(f">{name}<") == 1
        assert f"<li>{texts[-1]}</li>" in html
    [code] = re.findall(r"<pre>(.*?)</pre>", html, flags=re.DOTALL)
    assert unescape(code).rstrip("\n") == found.code.rstrip("\n")
    for same in (copy.deepcopy(found), pickle.loads(pickle.dumps(found))):
        assert repr(same) == repr(found)


def test_stop_comes_first_without_code_and_html_is_escaped():
    logs, policy, _ = _situations.deterministic()
    text = repr(suggest(policy, logs))
    assert text.startswith("stop ")
    assert "import" not in text and "evaluator  " not in text
    found = Suggestion("x", stop="<b>a</b>", doubts={"y": "1 < 2"})
    html = found._repr_html_()
    assert "<b>" not in html and "1 &lt; 2" in html
