# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause

import re
import warnings

import numpy as np
import pytest
from sklearn.linear_model import Ridge

from skope_ope.exceptions import ModelErrorWarning, OPEWarning
from tests.packaging._tree import ROOT

README = (ROOT / "README.md").read_text()
TEST_COMMAND = (
    'python3 -m venv .venv && .venv/bin/pip install -q -e ".[test]" '
    "&& .venv/bin/python -m pytest -n 2"
)


def test_ci_runs_exactly_the_test_command_of_the_readme():
    """The script cuts the command out of the README, between marker and fence."""
    block = README.split("<!-- test command -->")[1].split("```")[1]
    assert block.removeprefix("bash").strip() == TEST_COMMAND
    assert README.count(TEST_COMMAND) == 1
    script = (ROOT / ".ci" / "run").read_text()
    assert "/<!-- test command -->/,/^```$/p' README.md | grep 'pytest')" in script
    assert 'bash -euo pipefail -c "$test_command"' in script


@pytest.mark.frames
def test_python_start_runs(capsys):
    """The block under "From Python", on a made frame with its column names."""
    pandas = pytest.importorskip("pandas")
    rng = np.random.RandomState(0)
    n_rounds = 600
    proba = np.array([0.5, 0.3, 0.2])
    codes = rng.choice(3, size=n_rounds, p=proba)
    age = rng.uniform(18, 80, n_rounds)
    frame = pandas.DataFrame(
        {
            "item": np.array(["book", "film", "song"])[codes],
            "click": (rng.uniform(size=n_rounds) < 0.2 + 0.2 * (age > 40)).astype(int),
            "p": proba[codes],
            "age": age / 80,
            "hour": rng.randint(24, size=n_rounds) / 24,
        }
    )
    start, search = re.findall(r"```python\n(.*?)```", README, flags=re.DOTALL)
    names = {"frame": frame}
    with pytest.warns(ModelErrorWarning):  # the table holds the direct method
        exec(compile(start, "README.md", "exec"), names)
    assert "DoublyRobust" in capsys.readouterr().out
    names["HistGradientBoostingRegressor"] = Ridge  # quicker, and searches fit often
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", OPEWarning)  # 60 held-out rounds say little
        exec(compile(search, "README.md", "exec"), names)
