# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Run an example with its assertions noted, on right and on broken estimators.

An assertion that no broken estimator fails says nothing. Every example that asserts has
a row in the table of its folder here. The gallery runs an example as it is, and fails
with it, so right estimators run here at other sizes only.
"""

import ast
import contextlib
import io
import math
import shlex
import sys
import warnings
from typing import NamedTuple
from unittest.mock import patch

import joblib
import pytest

from tests.packaging._tree import ROOT

EXAMPLES = ROOT / "examples"


class _Enough(BaseException):
    """All that was asked of a script has been seen; no `except` of its own stops it."""


class _Noted(ast.NodeTransformer):
    """Turns `assert test` into a call that notes the line and the outcome."""

    def visit_Assert(self, node):
        call = ast.parse(f"__note__({node.lineno}, 0)").body[0]
        call.value.args[1] = node.test
        return ast.fix_missing_locations(ast.copy_location(call, node))


def assertions(path):
    """Return the lines of the assertions of a script."""
    tree = ast.parse((EXAMPLES / path).read_text())
    return {node.lineno for node in ast.walk(tree) if isinstance(node, ast.Assert)}


def failures(path, args=(), breaks=None):
    """Return the lines of assertions that hold, and that fail, and the error."""
    # `breaks` says what stands for what while the script runs: dotted names of the
    # package, as "IPS.evaluate", of `math` and `time`, or after "example:" the names
    # of the script, replaced as soon as they are defined there. Everything runs in this
    # process, one job after the other, so that workers are broken, too. A line in a
    # loop may hold and fail.
    held, failed, error = _run(path, args, breaks)
    return set(held), failed, error


def _run(path, args, breaks=None, last=None):
    """Return what `failures` does; lines that hold with the last statement that did."""
    # `last` says what is asked: lines of assertions, and after which statement of the
    # script they are not reached any more. The script ends when all of them have failed
    # or none is to come; without it, the script runs to its end.
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    held, failed = {}, set()
    position = 0

    def note(line, outcome):
        if outcome:
            held[line] = position
            return
        failed.add(line)
        if last is not None and failed.issuperset(last):
            raise _Enough

    path = EXAMPLES / path
    tree = _Noted().visit(ast.parse(path.read_text(), str(path)))
    inside = {}
    with contextlib.ExitStack() as stack:
        for name, other in (breaks or {}).items():
            if name.startswith("example:"):
                inside[name.removeprefix("example:")] = other
            else:
                ours = name.partition(".")[0] not in ("math", "time")
                stack.enter_context(patch("skope_ope." * ours + name, other))
        known = set(sys.modules)
        stack.callback(_forget, path.parent, known)
        stack.enter_context(patch.object(sys, "argv", [str(path), *args]))
        stack.enter_context(patch.object(sys, "path", [str(path.parent), *sys.path]))
        stack.enter_context(contextlib.redirect_stdout(io.StringIO()))
        stack.enter_context(contextlib.redirect_stderr(io.StringIO()))
        stack.enter_context(joblib.parallel_config(backend="sequential"))
        stack.enter_context(warnings.catch_warnings())
        warnings.simplefilter("ignore")
        names = {"__name__": "__main__", "__file__": str(path), "__note__": note}
        error = None
        try:
            for position, statement in enumerate(tree.body):
                if last is not None and position > max(last.values(), default=-1):
                    break
                block = ast.Module([statement], type_ignores=[])
                exec(compile(block, str(path), "exec"), names)
                names |= {name: inside[name] for name in inside if name in names}
        except _Enough:
            pass
        except Exception as stopped:
            error = stopped
        finally:
            plt.close("all")
    return held, failed, error


def _forget(folder, known):
    """Forget the helper modules of an example, which may have been broken."""
    for name in set(sys.modules) - known:
        file = getattr(sys.modules[name], "__file__", None)
        if file and file.startswith(str(folder)):
            del sys.modules[name]


class Row(NamedTuple):
    """What breaks a script."""

    # What is replaced in every world. Together they must make each assertion fail
    # at least once. Each runs no further than the last assertion that those before it
    # have left: the cheapest one that fails much stands first.
    worlds: tuple
    # At which the script is small and its assertions hold; without them the script is
    # as the gallery runs it.
    args: str = ""
    needs: str = ""  # a package without which the row is skipped
    modules: dict = {}  # what stands for packages that the script imports


def row(*worlds, **about):
    return Row(worlds, **about)


def check_every_assertion_can_fail(path, worlds, args="", needs="", modules=None):
    """Raise unless right estimators pass a script and broken ones fail every line."""
    pytest.importorskip("matplotlib")
    if needs:
        pytest.importorskip(needs)
    args = shlex.split(args)
    with pytest.MonkeyPatch.context() as patched:
        for name, module in (modules or {}).items():
            patched.setitem(sys.modules, name, module)
        last = dict.fromkeys(assertions(path), math.inf)
        if args:
            last, failed, error = _run(path, args)
            if error is not None:
                raise error
            assert failed == set(), "assertions that right estimators fail"
            assert set(last) == assertions(path), "assertions that are not reached"
        for replaced in worlds:  # each runs as far as it can add anything
            _, failed, _ = _run(path, args, replaced, last)
            for line in failed & set(last):
                del last[line]
        assert last == {}, "assertions that nothing here makes fail"
