# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""The checks find evaluators that are wrong, and leave others alone."""

import re
import sys
from unittest import SkipTest

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

import skope_ope as ope
from skope_ope.utils.estimator_checks import (
    check_evaluator,
    parametrize_with_evaluator_checks,
)
from tests.test_common import DEFAULTS
from tests.utils import _slate_mutants  # noqa: F401  it adds to MUTANTS
from tests.utils._mutants import MUTANTS, CutsRewards


def checks_of(evaluator):
    mark = parametrize_with_evaluator_checks([evaluator]).mark
    checks = [parameter.values[1] for parameter in mark.args[1]]
    return {check.__name__: check for check in checks}


@pytest.mark.few_cases(24)
@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda cls: cls.__name__)
def test_a_fault_is_found(mutant):
    assert MUTANTS[mutant]
    applied = checks_of(mutant())
    for name in MUTANTS[mutant]:  # the others need not run
        with pytest.raises(Exception):  # noqa: B017 whatever the fault leads to
            applied[name](mutant())


def test_every_check_and_every_limit_has_found_a_fault():
    found = set().union(*MUTANTS.values(), {"check_limits"})
    with pytest.raises(ValueError, match="There are ") as told:
        check_evaluator(ope.IPS(), expected_failed_checks={"check_colne": ""})
    assert found == set(re.findall(r"check_\w+", str(told.value))) - {"check_colne"}
    limited = {type(one) for one in DEFAULTS if "check_limits" in checks_of(one)}
    assert limited == set(WRONG)


def one_percent_more(self, w):
    return 1.01 * w


def clip_at_one(self, w):
    return w if self.cmax is None else np.minimum(w, 1.0)


# class: the method and what is wrong with it
WRONG = {
    ope.IPS: ("weights", clip_at_one),
    ope.SNIPS: ("weights", clip_at_one),
    ope.DoublyRobust: ("weights", one_percent_more),
    ope.SwitchDR: ("weights", one_percent_more),
    ope.DRos: ("weights", one_percent_more),
    ope.SubGaussianIPS: ("weights", one_percent_more),
    ope.SubGaussianDR: ("weights", one_percent_more),
    ope.SNDR: ("terms", lambda self, r: (r.v, 1.01 * r.w * r.residual, r.w)),
    ope.LogSmoothing: ("terms", lambda self, r: (np.log1p(r.w * r.r),)),
    ope.MultiLoggerIPS: ("terms", lambda self, r: (1.01 * r.gain, r.w)),
    ope.MultiLoggerDR: ("terms", lambda self, r: (r.v, 1.01 * r.w * r.residual, r.w)),
}


@pytest.mark.parametrize("cls", WRONG, ids=lambda cls: cls.__name__)
def test_a_wrong_limit_is_found(cls, monkeypatch):
    check = checks_of(cls())["check_limits"]
    check(cls())
    monkeypatch.setattr(cls, *WRONG[cls])
    with pytest.raises(AssertionError, match="it is not"):
        check(cls())


def test_check_evaluator_raises_or_reports():
    names = ["on_policy_value_is_the_mean_reward", "one_action", "scale_of_rewards"]
    names.append("log_of_all_cells_gives_the_value")
    reasons = {f"check_{name}": "cuts rewards" for name in names}
    two = dict(list(reasons.items())[:2])
    with pytest.raises(AssertionError, match="scaled rewards do not give the scaled"):
        check_evaluator(CutsRewards(), expected_failed_checks=two)
    results = check_evaluator(CutsRewards(), expected_failed_checks=reasons)
    xfail = {r["check_name"]: r for r in results if r["status"] == "xfail"}
    assert set(xfail) == set(reasons)
    assert {r["expected_to_fail_reason"] for r in xfail.values()} == {"cuts rewards"}
    assert all(isinstance(r["exception"], AssertionError) for r in xfail.values())
    assert {r["status"] for r in results} <= {"passed", "skipped", "xfail"}


def test_expected_failures_must_be_checks_that_fail():
    with pytest.raises(AssertionError, match="expected to fail: no reason"):
        check_evaluator(ope.IPS(), expected_failed_checks={"check_clone": "no reason"})
    table = {"check_colne": "typing error"}
    with pytest.raises(ValueError, match="'check_colne', which is not a check"):
        check_evaluator(ope.IPS(), expected_failed_checks=table)
    with pytest.raises(ValueError, match="'check_colne', which is not a check"):
        parametrize_with_evaluator_checks(
            [ope.IPS()], expected_failed_checks=lambda evaluator: table
        )
    with pytest.raises(ValueError, match="on_fail must be 'raise' or None"):
        check_evaluator(ope.IPS(), on_fail="warn")


@pytest.mark.parametrize(
    ("wrong", "match"),
    [
        (ope.IPS, "got the class IPS"),
        (ope.UniformPolicy(), "got UniformPolicy.*scikit-learn's"),
        (LogisticRegression(), "got LogisticRegression"),
    ],
    ids=["class", "policy", "classifier"],
)
def test_what_is_no_evaluator_is_refused(wrong, match):
    with pytest.raises(TypeError, match=match):
        check_evaluator(wrong)
    with pytest.raises(TypeError, match=match):
        parametrize_with_evaluator_checks([wrong])


def test_the_decorator_speaks_pytest():
    def reasons(evaluator):
        if evaluator.cmax is None:
            return {}
        return {"check_clone": "because", "check_limits": "no limits here"}

    mark = parametrize_with_evaluator_checks(
        [ope.IPS(), CutsRewards(cmax=5.0)], expected_failed_checks=reasons
    ).mark
    assert mark.name == "parametrize"
    names, parameters = mark.args
    assert names == ("evaluator", "check")
    ids = [parameter.id for parameter in parameters]
    assert len(set(ids)) == len(ids)
    assert "IPS()-check_clone" in ids
    assert "CutsRewards(cmax=5.0)-check_clone" in ids
    marked = {p.id: p.marks[0].kwargs["reason"] for p in parameters if p.marks}
    assert marked == {"CutsRewards(cmax=5.0)-check_clone": "because"}
    evaluator, check = parameters[0].values
    assert isinstance(evaluator, ope.IPS)
    check(evaluator)


def test_skops_is_optional(monkeypatch):
    monkeypatch.setitem(sys.modules, "skops.io", None)
    with pytest.raises(SkipTest, match="skops is not installed"):
        checks_of(ope.IPS())["check_skops"](ope.IPS())
    skipped = [r for r in check_evaluator(ope.IPS()) if r["status"] == "skipped"]
    assert [r["check_name"] for r in skipped] == ["check_skops"]


def test_evaluators_of_other_logs_are_checked_without_logs():
    class SessionEvaluator(ope.IPS):
        def __sklearn_tags__(self):
            tags = super().__sklearn_tags__()
            tags.handles = ("session",)
            return tags

    names = [r["check_name"] for r in check_evaluator(SessionEvaluator())]
    assert names == ["check_tags", "check_parameters_are_keywords"]
