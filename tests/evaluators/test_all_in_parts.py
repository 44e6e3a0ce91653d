# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Every public evaluator has the numbers of memory over files, or names another way."""

import inspect

import numpy as np
import pytest
from numpy.testing import assert_allclose

from skope_ope import evaluate
from skope_ope.datasets import make_bandit_logs
from skope_ope.logs import HashKFold
from skope_ope.utils import all_evaluators
from tests.evaluators._parquet_worlds import lazy_world
from tests.evaluators._reference_worlds import WORLDS
from tests.evaluators.test_merging import world_of

pytestmark = [
    pytest.mark.frames,
    pytest.mark.filterwarnings("ignore::skope_ope.exceptions.OPEWarning"),
]
pytest.importorskip("pyarrow")

PAGES = {"PositionScavenging", "ReorderingScavenging"}
REFUSED = PAGES | {"AdaptiveDR", "AdaptiveIPS", "CascadeDR", "LogSmoothing", "MRDR"}
WAY = r"lazy\.sample\(|Pass that number"
NEEDS = {"attention": [1.0, 0.5, 0.25], "random_state": 0}


def world_for(cls):
    """Return logs in memory and a policy."""
    if ".slate." in cls.__module__ or cls.__name__ in PAGES:
        logs, _ = world_of("slates_uniform", grouped=False)
        return logs, WORLDS["slates_uniform"][1]().policies[0]
    logs = make_bandit_logs(300, random_state=0)  # of a uniform logger
    n_actions = logs.n_actions
    pi = np.random.RandomState(0).dirichlet(np.ones(n_actions), len(logs))
    p = np.full(len(logs), 1 / n_actions)
    logs = logs.replace(logging_proba=None, propensity=p)
    return logs.with_columns(pi=pi), "pi"


@pytest.mark.few_cases(9)
@pytest.mark.parametrize("name", [name for name, _ in all_evaluators()])
def test_every_evaluator_sums_files_or_names_the_way(name, tmp_path):
    cls = dict(all_evaluators())[name]
    takes = inspect.signature(cls).parameters
    one = cls(**{key: value for key, value in NEEDS.items() if key in takes})
    logs, policy = world_for(cls)
    lazy = lazy_world(logs, tmp_path, np.random.RandomState(0), n_files=3)
    how = {"evaluators": {"one": one}, "cv": HashKFold(3)}
    if name in REFUSED:
        with pytest.raises(ValueError, match=WAY):
            evaluate(policy, lazy, **how)
        return
    found, whole = (evaluate(policy, some, **how)["one"] for some in (lazy, logs))
    assert_allclose(found.value, whole.value, rtol=1e-12)
    assert_allclose(found.standard_error, whole.standard_error, rtol=1e-11)
    found, whole = (one.confidence_interval(0.95, "student") for one in (found, whole))
    assert_allclose(found, whole, rtol=1e-10)
