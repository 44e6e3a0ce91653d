# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""The main job without any optional package, whatever is installed here."""

import json
import math
import subprocess
import sys

import pytest

from tests.packaging._tree import ROOT

PROLOGUE = """
import sys

MISSING = {"matplotlib", "pandas", "polars", "pyarrow", "skops", "IPython"}

class Hide:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in MISSING:
            raise ModuleNotFoundError(f"{name} is hidden", name=name)

sys.meta_path.insert(0, Hide())

import warnings
import numpy as np
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.model_selection import train_test_split
from skope_ope import ClassifierPolicy, DoublyRobust, evaluate
from skope_ope.datasets import make_bandit_logs

warnings.simplefilter("ignore")
logs = make_bandit_logs(400, random_state=0)
train, test = train_test_split(logs, random_state=0)
policy = ClassifierPolicy(LogisticRegression(), epsilon=0.2).fit(train)
table = evaluate(policy, test, reward_model=Ridge())
"""


EPILOGUE = """
import json

texts = {"table": str(table), "errors": []}
texts["pages"] = [table._repr_html_(), logs._repr_html_()]
texts["score"] = DoublyRobust().fit(test).score(policy)
for call in (table.plot, table.to_frame, logs.to_frame):
    try:
        call()
    except ImportError as error:
        texts["errors"].append(str(error))
texts["loaded"] = sorted(MISSING & {name.split(".")[0] for name in sys.modules})
print(json.dumps(texts))
"""


@pytest.fixture(scope="module")
def hidden():
    done = subprocess.run(
        [sys.executable, "-c", PROLOGUE + EPILOGUE],
        cwd=ROOT,
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.thorough
def test_the_main_job_needs_core_packages_only(hidden):
    assert "DoublyRobust" in hidden["table"]
    assert ["<table" in page for page in hidden["pages"]] == [True, True]
    assert math.isfinite(hidden["score"])
    assert hidden["loaded"] == []


def test_what_needs_more_names_the_extra(hidden):
    plot, table_frame, logs_frame = hidden["errors"]
    assert "pip install 'skope-ope[plot]'" in plot
    assert "pip install 'skope-ope[frames]'" in table_frame
    assert "pip install 'skope-ope[frames]'" in logs_frame
