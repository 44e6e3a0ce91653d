# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""The frame tells which assertions of a script can fail, and runs no more than that."""

import pytest

from tests.examples._assertions import check_every_assertion_can_fail as run
from tests.examples._assertions import failures

pytest.importorskip("matplotlib")

SCRIPT = """
import math

done = []


def check(x):
    assert math.sqrt(x) == 2


for x in (4, 4.0):
    done.append(math.sqrt(x))
    check(x)
try:
    assert math.floor(1.5) == 1
except Exception:
    done.append("hidden")
print(done)
math.log(0.0 if math.sqrt(4) == 2 and math.floor(1.5) == 0 else 1.0)
"""
ROOT, FLOOR = 8, 15  # lines of the assertions


@pytest.fixture
def script(tmp_path):
    path = tmp_path / "script.py"
    path.write_text(SCRIPT)
    return path


def two(x):
    return 2


def test_assertions_are_noted_by_line_and_names_replaced(script):
    assert failures(script) == ({ROOT, FLOOR}, set(), None)
    held, failed, error = failures(script, breaks={"math.sqrt": lambda x: x - 1})
    assert (held, failed, error) == ({FLOOR}, {ROOT}, None)
    held, failed, error = failures(script, breaks={"math.floor": lambda x: 0})
    assert (held, failed, type(error)) == ({ROOT}, {FLOOR}, ValueError)
    breaks = {"example:check": lambda x: None}
    assert failures(script, breaks=breaks)[0] == {FLOOR}


@pytest.mark.parametrize("args", ["", "--small"])
def test_every_assertion_must_be_made_to_fail(script, args):
    zero = {"math.floor": lambda x: 0}
    run(script, [{"math.sqrt": lambda x: 0}, zero], args)
    run(script, [zero | {"math.sqrt": lambda x: 0}], args)
    with pytest.raises(AssertionError, match="that nothing here makes fail"):
        run(script, [{"math.sqrt": two}, zero], args)


def test_a_script_that_is_wrong_is_told(script):
    script.write_text("assert False")
    with pytest.raises(AssertionError, match="that right estimators fail"):
        run(script, [], "--small")
    script.write_text("if False:\n    assert True")
    with pytest.raises(AssertionError, match="not reached"):
        run(script, [], "--small")
    script.write_text("1 / 0\nassert True")
    with pytest.raises(ZeroDivisionError):
        run(script, [], "--small")


def test_right_estimators_run_at_other_sizes_than_the_gallery_s(script):
    script.write_text("import math\nassert math.sqrt(4) == 2\n1 / 0")
    run(script, [{"math.sqrt": lambda x: 0}])
    with pytest.raises(ZeroDivisionError):
        run(script, [{"math.sqrt": lambda x: 0}], "--small")


def test_a_broken_world_ends_when_it_can_add_nothing(script):
    calls = []

    def root(x):
        calls.append(x)
        return 0

    # what follows the last assertion is left out
    floor = {"math.floor": lambda x: 0, "math.log": calls.append}
    # the first failure in the loop is all that is left to see
    run(script, [floor, {"math.sqrt": root}], "--small")
    assert calls == [4, 4]
    # nothing is left for the second
    calls.clear()
    both = {"math.sqrt": lambda x: 0, "math.floor": lambda x: 0}
    run(script, [both, {"math.sqrt": root}], "--small")
    assert calls == []
