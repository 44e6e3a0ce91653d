# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause

import numpy as np

from skope_ope import UniformPolicy, audit
from skope_ope.audit._result import explained
from skope_ope.logs.checks._finding import Finding
from tests._faults import faulty, right

MISFIT = Finding("propensity_misfit", "error", "Wrong.", ("Check them.",))


def test_a_column_that_holds_the_reward_is_told_once():
    found = audit(faulty("reward in the context", 3000, seed=0)[0])
    names = [one.name for one in found.alarms]
    assert names[0] == "reward_leak"
    assert "action_leak" not in names
    for one in found.alarms[1:]:
        assert "Leave it out and audit again" in one.advice[0]


def test_a_column_that_holds_the_action_comes_before_the_propensities():
    found = audit(faulty("action in the context", 3000, seed=0)[0])
    leak, misfit = (one for one in found.alarms if one.severity == "error")
    assert (leak.name, misfit.name) == ("action_leak", "propensity_misfit")
    assert f"column {leak.columns[0]!r}" in misfit.advice[0]
    assert "see the finding action_leak" in misfit.advice[0]


def test_other_columns_that_tell_the_action_are_kept():
    reward = Finding("reward_leak", "error", "A column.", columns=("spend",))
    both = Finding("action_leak", "error", "Two.", columns=("spend", "arm"))
    assert both in explained([both, reward])
    assert explained([reward, MISFIT])[1].advice[1:] == MISFIT.advice


def test_without_leaks_nothing_changes():
    doubt = Finding("reward_leak", "warning", "A model.", columns=("a", "b"))
    assert explained([MISFIT, doubt]) == [MISFIT, doubt]


def test_a_placeholder_is_told_once():
    logs = right("softmax", 500, seed=0)[0]
    p = np.array(logs.propensity)
    p[7] = 1e-80
    found = audit(UniformPolicy(), logs.replace(propensity=p, logging_proba=None))
    assert [one.name for one in found.alarms].count("impossible_propensity") == 1
    assert "action_leak" not in {one.name for one in found.findings}
