# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""What is misspelt is answered with what may have been meant."""

import numpy as np
import pytest
from sklearn.linear_model import Ridge

import skope_ope
from skope_ope import (
    ActionRewardModel,
    BanditLogs,
    ConstantPolicy,
    DoublyRobust,
    DRns,
    MultiLoggerDR,
    PropensityEstimator,
    SoftmaxPolicy,
    UniformPolicy,
    compare_policies,
)
from skope_ope._meant import meant, nearest
from skope_ope.policies import OnlineClassifierPolicy, action_probabilities
from skope_ope.reward_models._action_reward_model import match_actions

LOGS = BanditLogs(np.zeros((4, 1)), ["mail", "none"] * 2, [1.0, 0, 0, 1], 0.5)


@pytest.mark.parametrize(
    ("name", "known", "near"),
    [
        ("clickk", ["click", "price"], "click"),
        ("A", ["a", "b"], "a"),
        ("zzz", ["a", "b"], None),
        ("x", [], None),
        (1, ["1", "2"], "1"),
        ("1", [1, 2], 1),
        (11, [1, 10, 12], None),  # numbers are not misspelt
        ("SNIPPS", np.array(["IPS", "SNIPS"]), "SNIPS"),
    ],
)
def test_nearest(name, known, near):
    assert nearest(name, known) == near
    assert meant(name, known) == (f" Did you mean {near!r}?" if near else "")


def value():
    return DoublyRobust().fit(LOGS).evaluate(UniformPolicy())


def scored(policy):
    return lambda: DoublyRobust().fit(LOGS).score(policy)


def with_offers():
    pandas = pytest.importorskip("pandas")
    offers = pandas.DataFrame({"Mail": [True] * 4, "none": [True] * 4})
    return LOGS.replace(available=offers)


@pytest.mark.parametrize(
    ("ask", "answer"),
    [
        (scored(ConstantPolicy("Mail")), "'mail'"),
        (lambda: ConstantPolicy("Mail").fit(LOGS), "'mail'"),
        (lambda: action_probabilities(ConstantPolicy("male"), LOGS), "'mail'"),
        (
            lambda: BanditLogs([[0]], ["nonee"], [1.0], actions=["mail", "none"]),
            "'none'",
        ),
        (lambda: match_actions(LOGS.actions, np.array(["nonne"])), "'none'"),
        (lambda: value().confidence_interval(method="bootstrapp"), "'bootstrap'"),
        (lambda: value().confidence_interval(method="cressie-read"), "'cressie_read'"),
        (lambda: DRns(acceptance="quantil").fit(LOGS), "'quantile'"),
        (lambda: MultiLoggerDR(pooling="balnced").fit(LOGS), "'balanced'"),
        (lambda: ActionRewardModel(Ridge(), encoding="onehot").fit(LOGS), "'one_hot'"),
        (lambda: SoftmaxPolicy(anchor="Logger").fit(LOGS), "'logger'"),
        (lambda: PropensityEstimator(calibration="sigmod").fit(LOGS), "'sigmoid'"),
        (lambda: DoublyRobust().set_params(cmx=3), "'cmax'"),
        (lambda: UniformPolicy().set_params(bogus_name=3), None),
        (
            lambda: compare_policies({"new": UniformPolicy()}, LOGS, baseline="logr"),
            "'l",
        ),
        (with_offers, "'mail'"),
        (
            lambda: OnlineClassifierPolicy(initial=([[0.0]], ["Mail"])).reset(LOGS[:0]),
            "'mail'",
        ),
    ],
)
def test_hints(ask, answer):
    with pytest.raises((ValueError, TypeError)) as info:
        ask()
    text = str(info.value)
    if answer is None:
        assert "Did you mean" not in text
    else:
        assert f"Did you mean {answer}" in text or f"Did you mean '{answer}" in text


def test_names_of_the_package():
    with pytest.raises(AttributeError, match="Did you mean 'DoublyRobust'"):
        skope_ope.DoubleRobust  # noqa: B018
    with pytest.raises(AttributeError, match=r"no attribute '_path_of_nothing'\.$"):
        skope_ope._path_of_nothing  # noqa: B018
    assert not hasattr(skope_ope, "anything")
    with pytest.raises(AttributeError, match="Did you mean 'datasets'"):
        skope_ope.dataset  # noqa: B018
