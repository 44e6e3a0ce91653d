# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Public signatures share one order and one default each."""

import inspect

import numpy as np
import pytest
from sklearn.linear_model import Ridge

from skope_ope import (
    IPS,
    AttentionDecay,
    BanditLogs,
    PositionScavenging,
    RewardModelPolicy,
    UniformPolicy,
    compare_policies,
)
from skope_ope.datasets import make_slate_logs
from skope_ope.evaluators import logger_overlap
from skope_ope.policies import EpochGreedy
from skope_ope.utils import all_evaluators
from tests.packaging._tree import public_objects

LOGS = BanditLogs(
    np.zeros((4, 1)), [0, 1, 0, 1], [0.0, 1, 1, 0], [0.5] * 4, logger=[0, 1, 0, 1]
)
POLICIES = {0: UniformPolicy(), 1: UniformPolicy()}


def public_callables():
    """Public functions, and public methods of public classes, by name."""
    for name, value in public_objects().values():
        name = name.rpartition(".")[2]
        yield name, value
        if inspect.isclass(value):
            for method, member in inspect.getmembers(value, callable):
                if not method.startswith("_"):
                    yield f"{name}.{method}", member


def test_no_public_callable_takes_logs_before_policies():
    found = set()
    for name, value in public_callables():
        try:
            parameters = list(inspect.signature(value).parameters)
        except ValueError:  # of a class written in C
            continue
        both = [one for one in parameters if one in ("policy", "policies", "logs")]
        if len(both) > 1:
            found.add(name)
            # new rounds come first, as in partial_fit
            assert both[-1] == "logs" or name == "ConfidenceSequence.update", name
    assert {"evaluate", "compare_policies", "logger_overlap", "IPS.score"} <= found


def test_parameters_of_evaluators_are_keyword_only():
    for name, cls in all_evaluators():
        for parameter in inspect.signature(cls).parameters.values():
            assert parameter.kind is parameter.KEYWORD_ONLY, (name, parameter)


def test_one_default_each():
    """Policies, audits and intervals are seeded, all else is as scikit-learn's is."""
    asked_twice = {
        "audit",
        "bootstrap_interval",
        "confidence_interval",
        "confidence_intervals",
        "percentile_interval",
    }
    for name, value in public_callables():
        try:
            parameters = inspect.signature(value).parameters
        except ValueError:
            continue
        seeded = hasattr(value, "predict_proba") or hasattr(value, "slot_marginals")
        seeded = seeded or value.__name__ in asked_twice
        for one in ("random_state", "n_bootstrap", "n_jobs"):
            if one in parameters:
                expected = 0 if seeded and one == "random_state" else None
                assert parameters[one].default is expected, name


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (
            lambda: compare_policies(LOGS, POLICIES),
            TypeError,
            r"The call is compare_policies\(policies, logs\)",
        ),
        (lambda: compare_policies(IPS(), POLICIES, LOGS), TypeError, "2 positional"),
        (
            lambda: compare_policies(POLICIES, LOGS, evaluator=IPS(), baseline=None),
            ValueError,
            "baseline must be one of the policies",
        ),
        (
            lambda: logger_overlap(LOGS, UniformPolicy()),
            TypeError,
            r"The call is logger_overlap\(policy, logs\)",
        ),
        (lambda: PositionScavenging([1.0, 0.5]), TypeError, "positional"),
        (lambda: RewardModelPolicy(regressor=Ridge()), TypeError, "'regressor'"),
        (lambda: EpochGreedy().set_params(model=Ridge()), ValueError, "'model'"),
        (
            lambda: AttentionDecay(n_bootstrap=0).fit(make_slate_logs(9)),
            ValueError,
            "'n_bootstrap' parameter of AttentionDecay must be",
        ),
        (
            lambda: (
                IPS()
                .fit(LOGS)
                .evaluate(UniformPolicy())
                .confidence_interval(method="clopper-pearson")
            ),
            ValueError,
            "Did you mean 'clopper_pearson'",
        ),
    ],
)
def test_other_orders_and_names_are_refused(call, error, message):
    with pytest.raises(error, match=message):
        call()
