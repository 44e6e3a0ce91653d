# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause

import numpy as np
import pytest
from scipy.stats import t
from sklearn.linear_model import Ridge

from skope_ope import (
    IPS,
    SNIPS,
    BanditLogs,
    ConstantPolicy,
    DoublyRobust,
    DRns,
    EpsilonGreedy,
    MultiLoggerIPS,
    PolicyComparison,
    PseudoInverse,
    UniformPolicy,
    UniformSlatePolicy,
    compare_policies,
)
from skope_ope.datasets import make_bandit_logs, make_slate_logs
from skope_ope.evaluators._logged_value import logged_value
from skope_ope.selection._compare_policies import corrected_p_values
from tests.selection._logs import problem

ignore = pytest.mark.filterwarnings("ignore::skope_ope.exceptions.OPEWarning")


@pytest.fixture(scope="module")
def problem_of_three():
    logs, policy = problem(400)
    return logs, {
        "uniform": UniformPolicy(),
        "fitted": policy,
        "mixed": ConstantPolicy(logs.actions[0]).fit(logs),
    }


@ignore
def test_values_and_differences(problem_of_three):
    logs, policies = problem_of_three
    evaluator = DoublyRobust(reward_model=Ridge(), cv=3)
    found = compare_policies(policies, logs, evaluator=evaluator, baseline="uniform")
    fitted = DoublyRobust(reward_model=Ridge(), cv=3).fit(logs)
    values = {name: fitted.evaluate(policy) for name, policy in policies.items()}
    assert list(found) == list(policies)
    assert isinstance(found, PolicyComparison)
    for name, value in values.items():
        assert found[name].value == pytest.approx(value.value, rel=1e-12)
    assert set(found.differences) == {"fitted", "mixed"}
    for name, difference in found.differences.items():
        expected = values[name] - values["uniform"]
        assert difference.value == pytest.approx(expected.value)
        assert difference.standard_error == pytest.approx(expected.standard_error)
    assert not hasattr(evaluator, "logs_")


@ignore
def test_intervals_hold_together(problem_of_three):
    logs, policies = problem_of_three
    found = compare_policies(
        policies, logs, evaluator=IPS(), baseline="uniform", level=0.9
    )
    for record in found.to_records():
        name = record["policy"]
        low, high = found[name].confidence_interval(1 - 0.1 / 3)
        assert (record["low"], record["high"]) == (low, high)
        if name != "uniform":
            low, high = found.differences[name].confidence_interval(1 - 0.1 / 2)
            assert (record["difference_low"], record["difference_high"]) == (low, high)
    assert np.isnan(found.to_records()[0]["difference"])
    one_by_one = compare_policies(
        policies, logs, evaluator=IPS(), baseline="uniform", level=0.9, correction=None
    )
    record = one_by_one.to_records()[1]
    assert record["low"] == found["fitted"].confidence_interval(0.9)[0]
    assert one_by_one.to_records(0.5)[1]["low"] > record["low"]


@ignore
def test_p_values_by_hand(problem_of_three):
    logs, policies = problem_of_three
    raw = compare_policies(
        policies, logs, evaluator=IPS(), baseline="uniform", correction=None
    )
    for name, difference in raw.differences.items():
        ratio = abs(difference.value) / difference.standard_error
        assert raw.p_values[name] == pytest.approx(2 * t.sf(ratio, len(logs) - 1))
    p = np.array([0.04, 0.01, np.nan, 0.03])
    np.testing.assert_array_equal(corrected_p_values(p, None), p)
    np.testing.assert_allclose(
        corrected_p_values(p, "bonferroni"), [0.16, 0.04, np.nan, 0.12]
    )
    np.testing.assert_allclose(
        corrected_p_values(p, "holm"), [0.09, 0.04, np.nan, 0.09]
    )
    np.testing.assert_allclose(corrected_p_values(np.array([0.9, 0.8]), "holm"), [1, 1])


@ignore
def test_cautious_choice():
    # action 1 is a little better on average, but hardly ever logged
    rng = np.random.RandomState(0)
    action = (rng.random_sample(2000) < 0.01).astype(int)
    reward = np.where(action == 1, rng.random_sample(2000) < 0.6, 0.5)
    logs = BanditLogs(
        np.zeros((2000, 1)), action, reward, np.where(action == 1, 0.01, 0.99)
    )
    policies = {"safe": ConstantPolicy(0), "bold": ConstantPolicy(1)}
    found = compare_policies(policies, logs, evaluator=IPS())
    lows = {record["policy"]: record["low"] for record in found.to_records()}
    assert found.choice == "safe" == max(lows, key=lows.get)
    assert [record["chosen"] for record in found.to_records()] == [True, False]


@ignore
def test_the_logger_is_the_baseline_by_default(problem_of_three):
    logs, policies = problem_of_three
    found = compare_policies(policies, logs, evaluator=IPS())
    assert set(found.differences) == set(policies)
    for name, difference in found.differences.items():
        expected = found[name] - logged_value(logs)
        assert difference.value == expected.value
    assert "less the logger" in repr(found)


@ignore
def test_table(problem_of_three):
    logs, policies = problem_of_three
    found = compare_policies(policies, logs, evaluator=IPS(), baseline="uniform")
    text = repr(found)
    assert "less uniform" in text and "greatest lower bound" in text
    assert text.splitlines()[1].split()[:1] == ["uniform"] and " - " in text
    assert "<table>" in found._repr_html_() and "fitted" in found._repr_html_()
    pytest.importorskip("pandas")
    frame = found.to_frame()
    assert frame.index.tolist() == list(policies) and frame.index.name == "policy"
    assert frame.loc["fitted", "value"] == found["fitted"].value


@ignore
def test_plot(problem_of_three, pyplot):
    logs, policies = problem_of_three
    assert compare_policies(policies, logs, evaluator=IPS()).plot().ax_.has_data()


@ignore
def test_policies_that_learn():
    logs, _ = problem(400, n_actions=2, logging_temperature=np.inf)
    policies = {"few": EpsilonGreedy(0.1), "many": EpsilonGreedy(0.9)}
    evaluator = DRns(horizon=10, n_splits=4, random_state=0)
    found = compare_policies(policies, logs, evaluator=evaluator, baseline="many")
    assert np.isfinite(found.p_values["few"])
    alone = compare_policies(
        policies, logs, evaluator=DRns(horizon=200, random_state=0)
    )
    assert np.isnan(alone.p_values["few"])
    assert alone.choice is None and "-" in repr(alone)


def test_no_noise():
    logs = BanditLogs(np.zeros((4, 1)), [0, 1, 1, 0], np.ones(4), [0.5] * 4)
    evaluator = DoublyRobust(reward_model=1.0)
    policies = {"zero": ConstantPolicy(0), "one": ConstantPolicy(1)}
    found = compare_policies(policies, logs, evaluator=evaluator, baseline="zero")
    assert found.p_values == {"one": 1.0}


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize(
    "evaluator",
    [MultiLoggerIPS(self_normalized=True), SNIPS(), DoublyRobust(), IPS()],
    ids=lambda evaluator: type(evaluator).__name__,
)
def test_policies_that_differ_by_rounding(evaluator, seed):
    logs = make_bandit_logs(500, logging_temperature=np.inf, random_state=seed)
    pi = np.full((500, logs.n_actions), 1 / logs.n_actions)
    noise = 1e-15 * np.random.RandomState(seed).normal(size=pi.shape)
    found = compare_policies({"a": pi, "b": pi + noise}, logs, evaluator=evaluator)
    if not isinstance(evaluator, DoublyRobust):  # its on-policy value is not the mean
        assert found.p_values == {"a": 1.0, "b": 1.0}
    found = compare_policies(
        {"a": pi, "b": pi + noise}, logs, evaluator=evaluator, baseline="a"
    )
    assert found.p_values == {"b": 1.0}
    assert found.differences["b"].value == 0
    assert found.differences["b"].standard_error == 0


def test_slate_policies_that_differ_by_rounding():
    logs = make_slate_logs(500, logging="uniform", random_state=0)
    policies = {"u": UniformSlatePolicy(logs.n_slots)}
    for normalized in (True, False):
        evaluator = PseudoInverse(self_normalized=normalized)
        assert compare_policies(policies, logs, evaluator=evaluator).p_values == {
            "u": 1.0
        }


def test_a_small_difference_is_one():
    logs = BanditLogs(np.zeros((9, 1)), [0, 1, 0] * 3, [1.0, 0, 0] * 3, [0.5] * 9)
    policies = {
        "a": np.full((9, 2), 0.5),
        "b": np.tile([0.5 + 1e-9, 0.5 - 1e-9], (9, 1)),
    }
    found = compare_policies(policies, logs, evaluator=IPS(), baseline="a")
    assert found.differences["b"].value == pytest.approx(2e-9 / 3, rel=1e-6)
    assert found.differences["b"].standard_error > 0


@ignore
def test_coverage_of_all_intervals_at_once(global_random_seed):
    # 200 worlds without any effect: all differences are zero
    rng = np.random.RandomState(global_random_seed)
    policies = {f"{k}": np.eye(4)[np.full(100, k)] for k in range(4)}
    wrong = rejected = 0
    for _ in range(200):
        logs = BanditLogs(
            np.zeros((100, 1)),
            rng.randint(4, size=100),
            rng.normal(size=100),
            np.full(100, 0.25),
            actions=range(4),
        )
        found = compare_policies(policies, logs, evaluator=IPS(), baseline="0")
        records = found.to_records()[1:]
        wrong += any(
            not r["difference_low"] < 0 < r["difference_high"] for r in records
        )
        rejected += any(r["p_value"] < 0.05 for r in records)
    allowed = 10 + 4 * (200 * 0.05 * 0.95) ** 0.5
    assert wrong <= allowed and rejected <= allowed


@ignore
def test_bad_input(problem_of_three):
    logs, policies = problem_of_three
    for bad, match in (([UniformPolicy()], "got list"), ({}, r"got \{\}")):
        with pytest.raises(TypeError, match=match):
            compare_policies(bad, logs, evaluator=IPS())
    with pytest.raises(TypeError, match="compare_policies expects an evaluator"):
        compare_policies(policies, logs, evaluator=UniformPolicy())
    with pytest.raises(TypeError, match="logs must be BanditLogs, got ndarray"):
        compare_policies(policies, logs.context, evaluator=IPS())
    with pytest.raises(ValueError, match=r"baseline must be one of.*'uniform'"):
        compare_policies(policies, logs, evaluator=IPS(), baseline="none")
    with pytest.raises(ValueError, match="correction must be one of"):
        compare_policies(policies, logs, evaluator=IPS(), correction="fdr")
    for level in (95, "95%"):
        with pytest.raises(ValueError, match="level must be a number in"):
            compare_policies(policies, logs, evaluator=IPS(), level=level)
    with pytest.raises(TypeError, match="got the evaluator IPS"):
        compare_policies({"a": IPS().fit(logs)}, logs, evaluator=IPS())
