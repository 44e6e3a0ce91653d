# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Annotations: all there, and of use to who writes a script."""

import functools
import importlib.util
import inspect
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from skope_ope import IPS, BanditLogs, UniformPolicy
from tests.packaging._tree import ROOT, is_of_protocol, public_objects

GOOD = """
import pandas as pd
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.model_selection import KFold, train_test_split

from skope_ope import IPS, BanditLogs, ClassifierPolicy, ConstantPolicy, DoublyRobust
from skope_ope import DRns, EpsilonGreedy, EvaluatorScorer, OPESearchCV, PolicyScorer
from skope_ope import Replay, SlateIPS, SlateLogs, UniformPolicy, UniformSlatePolicy
from skope_ope import audit, compare_policies, evaluate, report, scan_logs
from skope_ope.evaluators import PolicyValue


def analyse(frame: pd.DataFrame) -> float:
    logs = BanditLogs.from_frame(
        frame, action="offer", reward="bought", propensity=1 / 3, context=["age"]
    )
    print(logs.reward.mean(), logs.propensity.min(), len(logs), logs[:10].n_actions)
    train, test = train_test_split(logs, random_state=0)
    policy = ClassifierPolicy(LogisticRegression(), epsilon=0.1).fit(train)
    print(audit(policy, logs).ok)
    table = evaluate({"new": policy}, logs, reward_model=Ridge(), cv=KFold(3))
    reveal_type(table)
    value = table["new", table.recommended]
    reveal_type(value)
    reveal_type(value.confidence_interval)
    low, high = value.confidence_interval(0.9, method="gamma")
    reveal_type(low)
    gain = value - DoublyRobust(cmax=10).fit(logs).evaluate(UniformPolicy())
    reveal_type(gain)
    comparison = compare_policies(
        {"new": policy, "coupon": ConstantPolicy("coupon")}, logs
    )
    reveal_type(comparison.decision)
    search = OPESearchCV(
        DRns(), {"q": [0, 0.1]}, scoring=EvaluatorScorer(policy), cv=3
    ).fit(logs)
    reveal_type(search)
    learner = Replay(horizon=10).fit(logs).evaluate(EpsilonGreedy(0.1))
    report({"new": policy}, logs, "page.html")
    pages = SlateLogs([[0.0]], [[0, 1]], [1.0], n_candidates=3)
    SlateIPS().fit(pages).score(UniformSlatePolicy(2), pages)
    IPS().fit(scan_logs("folder")).evaluate(policy, scan_logs("folder"))
    return DoublyRobust().fit(logs, Ridge()).score(policy) + learner.value
"""
REVEALED = {"ValueTable": 1, "PolicyValue": 2, "float": 1, "Literal": 1}
REVEALED |= {"OPESearchCV": 1}
BAD = """
from skope_ope import BanditLogs, DoublyRobust, IPS, UniformPolicy

logs = BanditLogs([[1.0]], ["a"], [1.0], [0.5])
DoublyRobust(cmax="banana").evalate()
DoublyRobust(cmx=3)
IPS().fit(3)
value = IPS().fit(logs).evaluate(UniformPolicy())
value.confidence_interval(method="bootstap")
value.valeu
"""


def functions_of(owner):
    """Functions of ours behind the public names of a class, or a function itself."""
    if not inspect.isclass(owner):
        yield inspect.unwrap(owner)
        return
    for name in dir(owner):
        private = name.startswith("_") and name != "__init__"
        if private or is_of_protocol(owner, name):
            continue
        raw = inspect.getattr_static(owner, name)
        for attribute in ("__func__", "fget", "func", "fn"):
            raw = getattr(raw, attribute, raw)
        if callable(raw) and not inspect.isclass(raw):
            yield inspect.unwrap(raw)


def test_public_signatures_are_annotated():
    bare = set()
    for name, owner in public_objects().values():
        for function in functions_of(owner):
            module = getattr(function, "__module__", None) or ""
            if not module.startswith("skope_ope") or not inspect.isfunction(function):
                continue
            if isinstance(function, functools.partial) or "<" in function.__qualname__:
                continue
            if function.__code__.co_filename.startswith("<"):
                continue  # of a dataclass or a named tuple, typed by its fields
            signature = inspect.signature(function)
            if signature.return_annotation is signature.empty:
                bare.add(f"{module}.{function.__qualname__} -> ({name})")
            for parameter in signature.parameters.values():
                known = parameter.annotation is not parameter.empty
                if parameter.name not in ("self", "cls") and not known:
                    bare.add(f"{module}.{function.__qualname__}: {parameter.name}")
    assert not bare, "\n".join(sorted(bare))


@pytest.fixture(scope="module")
def told_by_mypy(tmp_path_factory):
    """mypy's lines on both scripts, as a user sees them who has it installed."""
    pytest.importorskip("mypy")
    folder = tmp_path_factory.mktemp("scripts")
    (folder / "good.py").write_text(GOOD)
    (folder / "bad.py").write_text(BAD)
    words = [sys.executable, "-m", "mypy", "--follow-imports=silent", "--cache-dir"]
    words += [str(folder / "cache"), "--ignore-missing-imports", "--check-untyped-defs"]
    words += ["good.py", "bad.py"]
    how = {"cwd": folder, "env": {"MYPYPATH": str(ROOT), "PATH": ""}}
    done = subprocess.run(words, **how, capture_output=True, text=True)
    assert not done.stderr, done.stderr
    return done.stdout.splitlines()


@pytest.mark.thorough
def test_mypy_knows_what_comes_back(told_by_mypy):
    lines = [line for line in told_by_mypy if line.startswith("good.py")]
    assert not [line for line in lines if " error: " in line], lines
    types = [line.split("Revealed type is ")[1] for line in lines if "Revealed" in line]
    [method] = [one for one in types if "jackknife" in one]
    types.remove(method)
    assert len(types) == sum(REVEALED.values())
    for name, times in REVEALED.items():
        assert sum(name in one for one in types) == times, types
    value = IPS().fit(BanditLogs([[0]] * 9, [0, 1, 0] * 3, [1.0] * 9, 0.5))
    with pytest.raises(ValueError) as told:
        value.evaluate(UniformPolicy()).confidence_interval(method="other")
    known = set(re.findall(r"'(\w+)'", str(told.value))) - {"other"}
    assert known == set(re.findall(r"'(\w+)'", method))


@pytest.mark.thorough
def test_mypy_rejects_slips(told_by_mypy):
    lines = [line for line in told_by_mypy if line.startswith("bad.py")]
    wrong = {int(line.split(":")[1]) for line in lines if " error: " in line}
    assert wrong == {5, 6, 7, 9, 10}, lines


@pytest.mark.engines
@pytest.mark.skipif(not importlib.util.find_spec("pyright"), reason="needs pyright")
def test_pyright_agrees(tmp_path):
    # mypy takes scikit-learn for untyped, so it cannot see that `evalate` is none
    (tmp_path / "good.py").write_text(GOOD)
    (tmp_path / "bad.py").write_text(BAD)
    python = Path(sys.prefix)  # where scikit-learn is
    settings = {"extraPaths": [str(ROOT)], "pythonVersion": "3.11"}
    settings |= {"venvPath": str(python.parent), "venv": python.name}
    (tmp_path / "pyrightconfig.json").write_text(json.dumps(settings))
    words = [sys.executable, "-m", "pyright", "--outputjson"]
    done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True)
    errors = {}
    for one in json.loads(done.stdout)["generalDiagnostics"]:
        if one["severity"] == "error":
            place = one["file"].split("/")[-1], one["range"]["start"]["line"] + 1
            errors[place] = one["message"]
    assert {name for name, _ in errors} == {"bad.py"}, errors
    assert {line for _, line in errors} >= {5, 6, 7, 9, 10}, errors
    assert any("evalate" in message for message in errors.values())
