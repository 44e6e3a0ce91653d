# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause

import pytest

from skope_ope import IPS, MRDR, DRos
from skope_ope.evaluators._named_evaluators import named_evaluators
from skope_ope.evaluators._names import STATIC


def test_names_in_any_case_and_parameters():
    found = named_evaluators(
        ("ips", "IPS:cmax=10", "dros:lam=2.5", "LogSmoothing:lam=none")
    )
    assert list(found) == [
        "IPS",
        "IPS:cmax=10",
        "DRos:lam=2.5",
        "LogSmoothing:lam=none",
    ]
    assert isinstance(found["IPS"], IPS)
    assert found["IPS"].cmax is None
    assert found["IPS:cmax=10"].cmax == 10
    assert isinstance(found["DRos:lam=2.5"], DRos)
    assert found["LogSmoothing:lam=none"].lam is None


def test_sequential_ones_take_counts():
    found = named_evaluators(("DRns:q=0.1:horizon=100", "replay", "RejectionSampling"))
    drns = found["DRns:q=0.1:horizon=100"]
    assert (drns.q, drns.horizon) == (0.1, 100)
    assert isinstance(drns.horizon, int)
    assert list(found)[1:] == ["Replay", "RejectionSampling"]


def test_choices_and_truth_values():
    found = named_evaluators(("MultiLoggerIPS:pooling=balanced:self_normalized=True",))
    [evaluator] = found.values()
    assert (evaluator.pooling, evaluator.self_normalized) == ("balanced", True)


def test_rows_of_the_first_table_have_names():
    found = named_evaluators(("balanceddr", "BalancedIPS:self_normalized=true"))
    assert list(found) == ["BalancedDR", "BalancedIPS:self_normalized=true"]
    for evaluator in found.values():
        assert evaluator.pooling == "balanced"
    assert found["BalancedIPS:self_normalized=true"].self_normalized is True
    again = named_evaluators(("BalancedIPS",))["BalancedIPS"]
    assert again.self_normalized is False  # no name is changed by what was asked before


def test_all_of_them():
    assert list(named_evaluators(("all",))) == list(STATIC)


def test_folds_reach_those_that_fit_on_their_own():
    found = named_evaluators(("MRDR", "IPS"), cv=3)
    assert isinstance(found["MRDR"], MRDR)
    assert found["MRDR"].cv == 3


@pytest.mark.parametrize(
    ("texts", "message"),
    [
        (("IPSS",), "evaluator 'IPSS' is unknown; there are IPS, SNIPS"),
        (("",), "evaluator '' is unknown"),
        (("DR",), r"BalancedDR\. Did you mean DoublyRobust\?"),
        (("DM",), "Did you mean DirectMethod"),
        (("SwichtDR",), "Did you mean SwitchDR"),
        (("IPS:tau=1",), "'IPS:tau=1': IPS has the parameter cmax, got 'tau'"),
        (("DirectMethod:cv=1",), "DirectMethod has no parameter, got 'cv'"),
        (("IPS:cmax=x",), "'IPS:cmax=x': 'x' is not a number"),
        (("IPS:cmax=1_0",), "'1_0' is not a number"),
        (("IPS:cmax",), "'' is not a number"),
        (("IPS", "ips"), "evaluator 'IPS' is named twice"),
    ],
)
def test_what_cannot_be_understood_is_said(texts, message):
    with pytest.raises(ValueError, match=message):
        named_evaluators(texts)
