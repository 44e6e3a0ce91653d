# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""The page "which evaluator?" names every stop and every doubt of `suggest`."""

import ast
import inspect
import re
import textwrap

import pytest

from skope_ope import EpsilonGreedy, suggest
from skope_ope.audit._policy_checks import (
    _learned_groups,
    tail_findings,
    training_findings,
)
from skope_ope.audit._support import _reach_findings
from skope_ope.evaluators._recommended import MISFIT
from skope_ope.evaluators.core import _mean_weight_findings
from skope_ope.evaluators.core._drowned import _finding as weight_finding
from skope_ope.evaluators.core._support_findings import _unsupported
from skope_ope.evaluators.core._warnings import findings_of_learned
from skope_ope.evaluators.core._weight_findings import overlap_findings
from skope_ope.selection import _suggest, _suggested_doubts, _suggested_texts
from tests.packaging._tree import ROOT
from tests.selection import _situations
from tests.selection._decision_table import TABLE
from tests.selection._situations import WORLDS

NAMED = TABLE.DOUBTS | TABLE.DOUBTS_OF_ROWS
CHECKS = (  # whose findings become doubts
    training_findings,
    _learned_groups,
    findings_of_learned,
    _reach_findings,
    tail_findings,
    _mean_weight_findings,
    _unsupported,
    weight_finding,
    overlap_findings,
)


def tree_of(thing):
    return ast.parse(textwrap.dedent(inspect.getsource(thing)))


def names_of_findings(thing):
    calls = [node for node in ast.walk(tree_of(thing)) if isinstance(node, ast.Call)]
    calls = [call for call in calls if getattr(call.func, "id", "") == "Finding"]
    return {ast.literal_eval(call.args[0]) for call in calls}


def names_of_doubts():
    """Return keys of dicts whose values are sentences, and of single assignments."""
    names = set(_suggested_doubts.TOLD_OF_LOG)
    for node in ast.walk(tree_of(_suggested_doubts)):
        if isinstance(node, ast.Dict):
            for key, value in zip(node.keys, node.values, strict=True):
                if not isinstance(value, ast.Dict):
                    names.add(ast.literal_eval(key))
        elif isinstance(node, ast.Assign) and isinstance(
            node.targets[0], ast.Subscript
        ):
            names.add(ast.literal_eval(node.targets[0].slice))
    return names


def texts_of_stops():
    source = inspect.getsource(_suggested_texts).split("# -- stop -")[1]
    names = re.findall(r"^([A-Z_]+) = ", source, flags=re.M)
    assert "NO_CHOICE" in names
    misfit = f"{MISFIT[0].upper()}{MISFIT[1:]}"
    return [misfit, *(getattr(_suggested_texts, name) for name in names)]


def test_every_doubt_is_named_on_the_page():
    told = names_of_doubts()
    assert {"short_life", "tiny_log", "trends", "few_groups"} <= told
    assert told | set().union(*map(names_of_findings, CHECKS)) == set(NAMED)


def test_every_stop_is_named_on_the_page():
    stops = texts_of_stops()
    said = [row["says"] for row in TABLE.STOPS.values()]
    found = [[text for text in stops if text.startswith(one)] for one in said]
    assert sorted(text for one in found for text in one) == sorted(stops)
    assert all(len(one) == 1 for one in found)


def test_no_stop_is_written_outside_of_the_texts():
    for node in ast.walk(tree_of(_suggest)):
        if isinstance(node, ast.keyword) and node.arg == "stop":
            assert isinstance(node.value, ast.Name) or node.value.value is None


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", WORLDS)
def test_answers_are_named_on_the_page(name):
    logs, policy, _ = WORLDS[name]()
    found = suggest(policy, logs)
    assert set(found.doubts) <= set(NAMED)
    if found.stop:
        row = TABLE.STOPS[found.situation]
        assert found.stop.startswith(row["says"])
        assert found.link == row["page"]


def test_a_learner_on_several_fixed_rules_is_a_stop_of_the_page():
    logs, _, _ = _situations.several_deterministic_loggers()
    found, row = suggest(EpsilonGreedy(), logs), "deterministic, several loggers"
    assert found.stop.startswith(TABLE.STOPS[row]["says"])
    assert found.link == TABLE.STOPS[row]["page"]


def test_the_page_shows_the_tables(tmp_path):
    TABLE.write_tables(tmp_path)
    page = (ROOT / "docs" / "which_evaluator.rst").read_text()
    shown = re.findall(r"include:: generated/(\w+\.inc)", page)
    text = "".join((tmp_path / name).read_text() for name in shown)
    for name in (*NAMED, *(key.split(",")[0] for key in TABLE.STOPS)):
        assert f"``{name}``" in text or name == "any"
