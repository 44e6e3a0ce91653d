# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause

import numpy as np
from sklearn.linear_model import Ridge

from skope_ope import BanditLogs, FunctionPolicy, UniformPolicy
from skope_ope.datasets import make_bandit_logs, make_slate_logs
from skope_ope.reports._report import call_text, fingerprint, versions

LOGS = make_bandit_logs(200, random_state=0)
HASH = "hash of actions and rewards"


def test_a_log_is_known_again_and_told_from_others():
    told = fingerprint(LOGS)
    assert told["rounds"] == "200"
    assert fingerprint(LOGS[np.arange(200)]) == told
    others = [LOGS[:199], LOGS.replace(reward=1 - LOGS.reward), LOGS[::-1]]
    others.append(LOGS.replace(propensity=LOGS.propensity * 0.5))
    hashes = {fingerprint(one)[HASH] for one in others}
    assert len(hashes | {told[HASH]}) == 5


def test_the_hash_is_the_same_on_every_machine():
    logs = BanditLogs([[0.0], [1.0]], ["a", "b"], [0.5, 1.0], [0.25, 0.5])
    assert fingerprint(logs)[HASH] == "bc81cb2982fe16f9"


def test_slates_have_a_hash():
    logs = make_slate_logs(50, random_state=0)
    assert fingerprint(logs)[HASH] != fingerprint(logs[::-1])[HASH]


def test_versions_are_those_that_ran():
    found = versions()
    assert found["numpy"] == np.__version__
    assert list(found) == ["skope_ope", "numpy", "scipy", "scikit-learn", "Python"]


def test_the_call_names_what_was_given():
    given = {"baseline": "logger", "reward_model": Ridge(alpha=2), "evaluators": None}
    assert call_text({"new": UniformPolicy()}, "a.html", given) == (
        "report({'new': UniformPolicy}, logs, 'a.html', baseline='logger', "
        "reward_model=Ridge(alpha=2))"
    )


def test_the_call_holds_no_addresses_and_no_data():
    given = {"reward_model": np.zeros((9, 2)), "cv": object(), "title": "x" * 999}
    text = call_text({"new": FunctionPolicy(len)}, None, given)
    assert "0x" not in text
    assert "array of shape (9, 2)" in text
    assert len(text) < 500
