# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause

import warnings

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression, Ridge

from skope_ope import (
    IPS,
    ClassifierPolicy,
    DoublyRobust,
    FunctionPolicy,
    MixturePolicy,
    MultiLoggerIPS,
    UniformPolicy,
    summarize,
)
from skope_ope.evaluators._summary_facts import (
    common_facts,
    facts,
    read_evaluator,
    stored_evaluator,
)
from skope_ope.exceptions import OPEWarning
from tests.evaluators._summing import world


def test_what_is_not_known_contradicts_nothing():
    logs = world(20)
    one, two = (facts({"new": "pi"}, {"IPS": IPS()}, logs) for _ in range(2))
    assert one["reward column"] == ""
    two["reward column"] = "click"
    assert common_facts(one, two)["reward column"] == "click"
    one["reward column"] = "sale"
    with pytest.raises(
        ValueError, match=r"differ in reward column \(sale, and click\)"
    ):
        common_facts(one, two)


def test_models_are_told_by_what_they_are():
    logs = world(20)

    def of(model):
        return facts({"new": "pi"}, {"DR": DoublyRobust()}, logs, model)

    common_facts(of(Ridge()), of(Ridge()))
    with pytest.raises(ValueError, match="shared reward model"):
        common_facts(of(Ridge()), of(Ridge(alpha=2)))
    with pytest.raises(ValueError, match="shared reward model"):
        common_facts(of(None), of(0.5))


def test_another_policy_of_a_name_warns():
    logs, rest = world(40)[:20], world(40)[20:]

    def of(C, on=logs):
        policy = ClassifierPolicy(LogisticRegression(C=C)).fit(logs)
        return summarize({"new": policy}, on, evaluators=["IPS"])

    with warnings.catch_warnings():
        warnings.simplefilter("error", OPEWarning)
        assert (same := of(1.0) + of(1.0, rest)).n_rounds == 40
    with pytest.warns(OPEWarning, match="same name: policy 'new'. Each"):
        mixed = of(1.0) + of(0.01, rest)
    assert "several" not in same._facts["policy 'new'"]
    assert mixed._facts["policy 'new'"] == "named, several"
    with pytest.warns(OPEWarning, match="the same name"):  # and does not forget it
        mixed + summarize({"new": UniformPolicy()}, world(5), evaluators=["IPS"])
    with pytest.raises(ValueError, match="differ in policy 'new'"):
        common_facts({"policy 'new'": "named, X(1)"}, {"policy 'new'": "'named'"})


def test_functions_need_a_name_wherever_they_are():
    logs = world(20)
    inside = FunctionPolicy(lambda X: np.full((len(X), 4), 0.25))
    mixed = MixturePolicy([UniformPolicy(), inside], [0.5, 0.5])
    for policy in (inside, mixed, lambda X: X):
        with pytest.raises(ValueError, match="Name the policy: pass a dict"):
            facts({None: policy}, {}, logs)
        assert facts({"mine": policy}, {}, logs)["policy 'mine'"] == "named"
    fitted = ClassifierPolicy(LogisticRegression()).fit(logs)
    again = ClassifierPolicy(LogisticRegression()).fit(logs)
    one, two = (facts({None: policy}, {}, logs) for policy in (fitted, again))
    assert one == two
    other = facts({None: UniformPolicy().fit(logs)}, {}, logs)
    assert other["policy"] != one["policy"]


@pytest.mark.parametrize(
    "evaluator",
    [
        IPS(cmax=np.float64(3)),
        DoublyRobust(reward_model=Ridge()),
        MultiLoggerIPS(pooling="weighted", divergences={"a": 1.0, "b": 2.0}),
    ],
)
def test_evaluators_are_stored_by_class_and_plain_parameters(evaluator):
    found = read_evaluator("it", stored_evaluator(evaluator), {})
    assert type(found) is type(evaluator)
    for name, value in evaluator.get_params(deep=False).items():
        if name != "reward_model":
            assert getattr(found, name) == value


def test_parameters_that_are_no_plain_values_are_given_again():
    given = MultiLoggerIPS(pooling="weighted", divergences=np.array([1.0, 2.0]))
    stored = stored_evaluator(given)
    with pytest.raises(ValueError, match=r"its parameters \['divergences'\] are not"):
        read_evaluator("it", stored, {})
    assert read_evaluator("it", stored, {"it": given}) is given
