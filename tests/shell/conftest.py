# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""A log of clicks in a file, with the columns of policies, and what runs on it."""

import json

import numpy as np
import pytest

from skope_ope.__main__ import main
from skope_ope.datasets import make_bandit_logs

COLUMNS = ("--action", "item", "--reward", "click", "--propensity", "p")
COLUMNS += ("--context", "")
CONTEXT = ("--context", "x*")  # the last one counts
ITEMS = np.array(["book", "film", "song"])


@pytest.fixture(scope="session")
def clicks(tmp_path_factory):
    """The file, its logs and the probabilities of a better policy."""
    logs, policy, _ = make_bandit_logs(600, random_state=0, return_truth=True)
    pi = policy.predict_proba(logs.context)
    columns = {f"x{j}": logs.context[:, j] for j in range(5)}
    columns |= {f"pi_{item}": pi[:, k] for k, item in enumerate(ITEMS)}
    columns |= {
        "item": ITEMS[logs.action_index],
        "click": logs.reward.astype(int),
        "p": logs.propensity,
        "pi_logged": pi[np.arange(600), logs.action_index],
    }
    rows = zip(*(values.tolist() for values in columns.values()), strict=True)
    lines = [",".join(columns), *(",".join(map(str, row)) for row in rows)]
    path = tmp_path_factory.mktemp("shell") / "clicks.csv"
    path.write_text("\n".join(lines) + "\n")
    vars(logs)["reward_name"] = "click"  # as from_frame(reward="click") has it
    return path, logs, pi


@pytest.fixture
def told(clicks, capsys):
    """Run `evaluate` on the file; return the exit code and what was printed."""

    def told(*words):
        code = main(["evaluate", str(clicks[0]), *COLUMNS, *map(str, words)])
        out, err = capsys.readouterr()
        assert (err == "") == (code != 2)
        return code, err if code == 2 else out

    return told


@pytest.fixture
def record(told):
    """Run `evaluate --json`, which must not fail, and return what it holds."""

    def record(*words, code=0):
        found, out = told(*words, "--json")
        assert found == code, out
        return json.loads(out)

    return record


@pytest.fixture
def refused(told):
    """Run `evaluate`, which must fail with code 2 and one line; return that."""

    def refused(*words):
        code, err = told(*words)
        assert code == 2
        assert err.count("\n") == 1
        assert err.startswith("skope-ope evaluate: error: ")
        return err

    return refused
