# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""The repository as the packaging tests see it: files, imports, public names."""

import ast
import importlib
import inspect
import pkgutil
import subprocess
import sys
import tomllib
from functools import cache
from operator import attrgetter
from pathlib import Path

import pytest

import skope_ope

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "skope_ope"
MODULES = sorted(PACKAGE.rglob("*.py"))


@cache
def pyproject():
    return tomllib.loads((ROOT / "pyproject.toml").read_text())


@cache
def tracked_files():
    """Paths of the tracked files relative to the root; skips outside of git."""
    if not (ROOT / ".git").exists():
        pytest.skip("not a git work tree")
    listing = subprocess.run(
        ["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True, text=True
    ).stdout
    # A file that is being removed is still listed.
    return [name for name in listing.split("\0") if name and (ROOT / name).exists()]


@cache
def imports_of(path):
    """Tuples (node, name, at module level) of every module named in an import.

    The level is None where only a type checker imports, which loads nothing.
    """

    def visit(node, top):
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.Import):
                for alias in child.names:
                    yield child, alias.name, top
            elif isinstance(child, ast.ImportFrom):
                yield child, child.module or "", top
                for alias in child.names:  # `from skope_ope import logs` names a module
                    yield child, f"{child.module or ''}.{alias.name}", top
            else:
                inner = isinstance(
                    child, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda
                )
                typing_only = (
                    isinstance(child, ast.If)
                    and isinstance(child.test, ast.Name)
                    and child.test.id == "TYPE_CHECKING"
                )
                below = None if typing_only or top is None else top and not inner
                yield from visit(child, below)

    return tuple(visit(ast.parse(path.read_text()), True))


def named(name):
    """Object of a name below skope_ope: `audit` is a function and a folder."""
    folder, _, rest = name.partition(".")
    if rest and f"skope_ope.{folder}" in sys.modules:
        return attrgetter(rest)(sys.modules[f"skope_ope.{folder}"])
    return attrgetter(name)(skope_ope)


@cache
def public_objects():
    """Public classes and functions as {id: (shortest dotted name, object)}."""
    modules = [skope_ope]
    for info in pkgutil.walk_packages(skope_ope.__path__, "skope_ope."):
        if not any(part.startswith("_") for part in info.name.split(".")):
            modules.append(importlib.import_module(info.name))
    modules.sort(key=lambda module: (module.__name__.count("."), module.__name__))
    found = {}
    for module in modules:
        own = [
            name
            for name, value in vars(module).items()
            if not name.startswith("_")
            and getattr(value, "__module__", None) == module.__name__
        ]
        for name in getattr(module, "__all__", own):
            value = getattr(module, name)
            if inspect.isclass(value) or inspect.isroutine(value):
                found.setdefault(id(value), (f"{module.__name__}.{name}", value))
    return found


# The base class documents and annotates what its subclasses state or override.
PROTOCOL = {
    *("requires", "sampling", "proposal", "terms", "combine", "shift_with", "smooth"),
    *("weights", "stratum_weights", "resolved", "leaves_bias_out", "check_logs"),
    *("fit_reward_model", "diagnostics_of", "slate_terms"),
}
STATED = {"requires", "sampling", "combine"}  # by comments of the base class


def is_of_protocol(owner, name):
    """Whether a member of a class is one that the base class of evaluators has."""
    base = "SlateEvaluator" if name == "slate_terms" else "BaseEvaluator"
    overrides = getattr(owner, "__name__", "") != base or name in STATED
    return name in PROTOCOL and overrides
