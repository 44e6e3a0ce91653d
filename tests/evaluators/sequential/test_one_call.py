# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Sequential evaluators in the one-call `evaluate`."""

import warnings

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from skope_ope import (
    DirectMethod,
    DRns,
    EpsilonGreedy,
    LinUCB,
    RejectionSampling,
    evaluate,
)
from skope_ope.datasets import make_bandit_logs
from skope_ope.exceptions import OPEWarning


def quiet(*args, **kwargs):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", OPEWarning)
        return evaluate(*args, **kwargs)


def uniform_logs(n=800):
    return make_bandit_logs(
        n, logging_temperature=np.inf, random_state=0, return_truth=True
    )


def test_names_and_instances_beside_static_ones():
    logs, policy, _ = uniform_logs()
    drns = DRns(horizon=50, random_state=1)
    table = quiet(
        {"fixed": policy, "learner": EpsilonGreedy(), "linear": LinUCB()},
        logs,
        evaluators=["DirectMethod", "Replay", "RejectionSampling", drns],
        random_state=0,
    )
    assert len(table) == 12
    for name in ("fixed", "learner", "linear"):
        assert np.isfinite(table[name, "DRns"].value)
        assert table[name, "DRns"].n_trajectories > 3
    alone = DRns(horizon=50, random_state=1).fit(logs)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", OPEWarning)
        own = alone.evaluate(EpsilonGreedy()).value
        direct = DirectMethod().fit(logs).evaluate(LinUCB()).value
    assert table["learner", "DRns"].value == own
    assert table["linear", "DirectMethod"].value == direct
    assert "RejectionSampling" in repr(table)


def test_policies_share_random_numbers():
    logs, policy, _ = uniform_logs()
    table = quiet({"a": policy, "b": policy}, logs, evaluators=[RejectionSampling()])
    assert (
        table["a", "RejectionSampling"].value == table["b", "RejectionSampling"].value
    )


def test_the_shared_model_and_its_folds_reach_drns():
    logs, policy, _ = uniform_logs()
    model = LogisticRegression()
    table = quiet(
        policy,
        logs,
        evaluators=[DRns(random_state=0)],
        reward_model=model,
        cv=3,
    )
    expected = DRns(reward_model=model, cv=3, random_state=0).fit(logs)
    assert table["DRns"].value == expected.score(policy)
    table = quiet(policy, logs, evaluators=[DRns(random_state=0, reward_model=0.2)])
    expected = DRns(reward_model=0.2, random_state=0).fit(logs)
    assert table["DRns"].value == expected.score(policy)


def test_static_evaluators_refuse_a_learner():
    logs, policy, _ = uniform_logs(100)
    match = "EpsilonGreedy learns while it acts, and IPS evaluates .* Use DRns"
    with pytest.raises(TypeError, match=match):
        evaluate(EpsilonGreedy(), logs)
    with pytest.raises(TypeError, match=match):
        evaluate({"a": policy, "b": EpsilonGreedy()}, logs, evaluators=["IPS", "DRns"])
    with pytest.raises(ValueError, match=r"'DRNS' is unknown; .*Replay.*DRns"):
        evaluate(policy, logs, evaluators=["DRNS"])
