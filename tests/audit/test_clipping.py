# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause

import warnings

import numpy as np
import pytest

from skope_ope import SNIPS
from skope_ope.audit._policy_checks import PolicyRounds, clipping_of
from tests._quiet import quiet
from tests.audit._rounds import names, softmax_logs

KEY = "values by clipping (SNIPS)"
LOGS, MU = softmax_logs(scale=2.0)
OTHER = np.roll(MU, 1, axis=1)


def clipping(policy, logs):
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # an audit tells by its findings alone
        return clipping_of(PolicyRounds(policy, logs))


def test_the_values_are_those_of_the_evaluator():
    table = clipping(OTHER, LOGS)[0][KEY]
    w = PolicyRounds(OTHER, LOGS).w
    assert table["cmax"][-1] == "none"
    assert table["cmax"][:3] == [2.0, 5.0, 10.0]
    assert max(table["cmax"][:-1]) < w.max()
    for i, level in enumerate([*table["cmax"][:-1], None]):
        value = quiet(SNIPS(cmax=level).fit(LOGS), OTHER)
        assert table["value"][i] == pytest.approx(value.value)
        assert table["standard error"][i] == pytest.approx(value.standard_error)
        share = 0 if level is None else (w > level).mean()
        assert table["altered rounds"][i] == share


def test_an_answer_that_few_rounds_decide():
    rng = np.random.RandomState(0)
    n = 4000
    logs, _ = softmax_logs(n)
    action = (rng.random_sample(n) < 0.02).astype(int)
    rare = logs.replace(
        propensity=np.where(action == 1, 0.02, 0.98), reward=action.astype(float)
    )
    rare = type(rare)(logs.context, action, action.astype(float), rare.propensity)
    pi = np.tile([0.4, 0.6], (n, 1))
    facts, [found] = clipping(pi, rare)
    assert names([found]) == [("clipping_matters", "note")]
    own, low = facts[KEY]["value"][-1], min(facts[KEY]["value"])
    assert own == pytest.approx(0.6, abs=0.05)  # clipped at two it is .1
    assert found.number == pytest.approx(own - low)
    assert found.effect == pytest.approx((own - low) / own)


def test_no_table_where_there_is_nothing_to_clip():
    assert clipping(MU, LOGS) == ({}, [])  # all weights are one
    never, _ = softmax_logs(actions=range(5))
    assert clipping(np.tile([0, 0, 0, 0, 1.0], (2000, 1)), never) == ({}, [])


def test_groups_and_sample_weights_enter():
    group = np.arange(2000) // 4
    omega = np.random.RandomState(0).choice([0.0, 1.0, 2.0], 2000)
    logs = LOGS.replace(group=group, sample_weight=omega)
    table = clipping(OTHER, logs)[0][KEY]
    value = quiet(SNIPS(cmax=5.0).fit(logs), OTHER)
    i = table["cmax"].index(5.0)
    assert table["value"][i] == pytest.approx(value.value)
    assert table["standard error"][i] == pytest.approx(value.standard_error)
