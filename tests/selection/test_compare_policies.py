# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause

import warnings

import numpy as np
import pytest
from sklearn.linear_model import Ridge

from skope_ope import (
    IPS,
    SNIPS,
    BanditLogs,
    ClassifierPolicy,
    ConstantPolicy,
    DirectMethod,
    DoublyRobust,
    DRns,
    DRos,
    EpsilonGreedy,
    MultiLoggerDR,
    MultiLoggerIPS,
    PseudoInverse,
    SlateLogs,
    UniformPolicy,
    UniformSlatePolicy,
    compare_policies,
)
from skope_ope.datasets import make_bandit_logs, make_slate_logs
from skope_ope.exceptions import LearnedRoundsWarning, LowOverlapWarning, SupportWarning
from skope_ope.policies import EmpiricalSlatePolicy
from skope_ope.readers import read_open_bandit
from skope_ope.selection import PolicyComparison
from tests.selection._logs import problem, three_policies

ignore = pytest.mark.filterwarnings("ignore::skope_ope.exceptions.OPEWarning")
ARMS = (1, 2, 3, 10, 20)
SYSTEM = "the system that made the log"


def clicks(n_rounds, rates, seed=0, group=None):
    """Logs of a uniform logger, whose actions have these rates of clicks."""
    rng = np.random.RandomState(seed)
    action = rng.randint(len(rates), size=n_rounds)
    reward = (rng.random_sample(n_rounds) < np.take(rates, action)).astype(float)
    p = np.full(n_rounds, 1 / len(rates))
    context = np.zeros((n_rounds, 1))
    actions = range(len(rates))
    return BanditLogs(context, action, reward, p, actions=actions, group=group)


def always(logs, *actions):
    return {f"always {k}": ConstantPolicy(k).fit(logs) for k in actions}


def rare_clicks():
    """10,000 rounds of 34 arms, 46 clicks: none on arms 1 and 10."""
    action = np.arange(10_000) % 34
    reward = np.zeros(10_000)
    for arm, count in {2: 1, 3: 2, 20: 3, 5: 20, 6: 20}.items():
        reward[np.flatnonzero(action == arm)[:count]] = 1
    return BanditLogs(np.zeros((10_000, 1)), action, reward, [1 / 34] * 10_000)


def assert_no_policy_without_clicks_is_told(logs):
    for evaluator in (IPS(), SNIPS(), DoublyRobust(), None):
        found = compare_policies(always(logs, *ARMS), logs, evaluator=evaluator)
        assert (found.decision, found.choice) == ("undecided", None)
        for name, gain in found.differences.items():
            low, high = gain.confidence_interval(found.level_of_each)
            assert low < 0 < high, name  # 302 rounds without a click tell little
        assert found.p_values["always 1"] > 0.05
        assert "greatest lower bound" not in repr(found)
        assert f"cannot tell 5 policies from {SYSTEM}" in found.sentence
        assert "would decide with probability" in found.sentence


@ignore
def test_a_policy_without_a_click_is_not_chosen():
    assert_no_policy_without_clicks_is_told(rare_clicks())


@pytest.mark.theory
@ignore
def test_a_policy_without_a_click_is_not_chosen_on_real_logs(data_dir):
    logs = read_open_bandit(data_dir / "obd_random_men.csv.gz")
    assert [logs.reward[logs.action == k].sum() for k in ARMS] == [0, 1, 2, 0, 3]
    assert_no_policy_without_clicks_is_told(logs)


def test_warnings_point_at_the_caller_and_name_the_policy():
    logs = rare_clicks()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        compare_policies(always(logs, 1, 2) | {"all": UniformPolicy()}, logs)
    assert {one.filename for one in caught} == {__file__}
    told = [str(one.message) for one in caught if one.category is LowOverlapWarning]
    assert told[0].startswith("always 1, always 2: The estimate rests on ")


@ignore
def test_values_and_differences():
    logs, policies = three_policies()
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


def test_deploy_and_keep():
    logs = clicks(4000, [0.1, 0.3, 0.35])
    found = compare_policies(always(logs, 0, 1, 2), logs, baseline="always 0")
    assert (found.decision, found.choice) == ("deploy", "always 2")
    one, two = (g.confidence_interval(0.975)[0] for g in found.differences.values())
    assert two > one > 0
    text = found.sentence
    assert text.startswith("Deploy always 2: by DoublyRobust it is better than always")
    assert "always 1 is better than always 0, too" in text
    logs = clicks(4000, [0.1, 0.34, 0.35])
    found = compare_policies(always(logs, 0, 1, 2), logs, baseline="always 2")
    assert found.decision == "undecided"  # these rounds do not tell .34 from .35
    assert "always 0 is worse than always 2" in found.sentence
    found = compare_policies(always(logs, 0, 2), logs, baseline="always 2")
    assert (found.decision, found.choice) == ("keep", None)
    assert found.sentence.startswith("Keep always 2: by DoublyRobust always 0 is worse")


@ignore
def test_the_logger_is_the_baseline_by_default():
    logs, policies = three_policies()
    found = compare_policies(policies, logs, evaluator=IPS())
    assert set(found.differences) == set(policies)
    assert found.reference.value == logs.reward.mean()
    for name, difference in found.differences.items():
        expected = found[name] - found.reference
        assert difference.value == expected.value
    assert "gain over the logger" in repr(found)


@ignore
def test_policies_that_learn():
    logs, _ = problem(400, n_actions=2, logging_temperature=np.inf)
    policies = {"few": EpsilonGreedy(0.1), "many": EpsilonGreedy(0.9)}
    evaluator = DRns(horizon=10, n_splits=4, random_state=0)
    found = compare_policies(policies, logs, evaluator=evaluator, baseline="many")
    assert np.isfinite(found.p_values["few"])
    evaluator = DRns(horizon=200, random_state=0)
    alone = compare_policies(policies, logs, evaluator=evaluator)
    assert np.isnan(alone.p_values["few"])
    assert alone.choice is None and "no standard error (NaN)" in alone.sentence


def test_a_gain_without_spread_is_not_a_gain():
    # every round says the same: a model that knows each action's reward beforehand
    logs = BanditLogs(np.zeros((40, 1)), [0, 1] * 20, [0.0, 1.0] * 20, [0.5] * 40)
    logs = logs.with_columns(q_hat=np.tile([0.0, 1.0], (40, 1)))
    how = {"evaluator": DoublyRobust(reward_model="q_hat"), "baseline": "always 0"}
    found = compare_policies(always(logs, 0, 1), logs, **how)
    gain = found.differences["always 1"]
    assert (gain.value, gain.standard_error) == (1, 0)
    assert found.decision == "undecided" and found.p_values == {"always 1": 1.0}
    assert "the same in every round" in found.sentence


@pytest.mark.parametrize("baseline", ["logger", "0"])
def test_twenty_alike(baseline):
    logs = clicks(300, [0.5, 0.2])
    policies = {str(k): UniformPolicy() for k in range(20)}
    found = compare_policies(policies, logs, evaluator=IPS(), baseline=baseline)
    assert found.decision == "undecided"
    n, who = (19, "0") if baseline == "0" else (20, SYSTEM)
    assert found.sentence == (
        f"Undecided: {n} policies act as {who} does in these rounds, so the "
        "choice makes no difference."
    )


def test_one_policy():
    logs = clicks(3000, [0.5, 0.2])
    found = compare_policies(always(logs, 0), logs)
    assert (found.decision, found.choice) == ("deploy", "always 0")
    assert found.level_of_each == 0.95
    with pytest.raises(ValueError, match="nothing to compare"):
        compare_policies(always(logs, 0), logs, baseline="always 0")


@ignore
def test_a_policy_without_a_value():
    logs = clicks(3000, [0.5, 0.2])
    some = logs[logs.action == 0]
    assert len(some.actions) == 2
    for baseline in ("logger", "always 1"):
        policies = always(some, 0, 1)
        found = compare_policies(policies, some, evaluator=SNIPS(), baseline=baseline)
        assert np.isnan(found["always 1"].value)
        assert found.decision == "undecided"
        assert "no value (NaN) (always 1)" in found.sentence and "-" in repr(found)
        assert np.isnan(next(reversed(found.p_values.values())))


def test_a_policy_that_learned_from_these_rounds_is_not_deployed():
    world = {"reward": "binary", "logging_temperature": np.inf, "random_state": 0}
    logs, best, _ = make_bandit_logs(2000, return_truth=True, **world)
    with pytest.warns(LearnedRoundsWarning):
        found = compare_policies({"new": ClassifierPolicy().fit(logs)}, logs)
    assert found.differences["new"].confidence_interval(0.95)[0] > 0
    assert found.decision == "undecided"
    assert "learned from 100.0% of these rounds (new)" in found.sentence
    assert found.to_records()[0]["answer"] == "cannot tell"
    # the baseline is valued too high: what is better than it all the same, is better
    policies = {"new": best, "old": ClassifierPolicy(epsilon=0.9).fit(logs)}
    with pytest.warns(LearnedRoundsWarning):
        found = compare_policies(policies, logs, baseline="old")
    assert (found.decision, found.choice) == ("deploy", "new")
    assert "learned from 100.0% of these rounds (old)" in found.sentence


def unsupported(share, noise=0.0, n=4000):
    """Logs in which action 2 is never taken, and a policy with some mass on it."""
    rng = np.random.RandomState(0)
    action = rng.randint(2, size=n)
    reward = (rng.random_sample(n) < np.array([0.1, 0.9])[action]).astype(float)
    reward += noise * rng.normal(size=n)
    logs = BanditLogs(np.zeros((n, 1)), action, reward, [0.5] * n, actions=range(3))
    return logs, {"new": np.tile([0.0, 1 - share, share], (n, 1))}


@pytest.mark.parametrize("share, decision", [(0.01, "deploy"), (0.4, "undecided")])
def test_what_was_never_logged(share, decision):
    logs, policies = unsupported(share)
    with pytest.warns(SupportWarning):
        found = compare_policies(policies, logs, evaluator=SNIPS())
    low = found.differences["new"].confidence_interval(0.95)[0]
    assert (low > 0) == (decision == "deploy")  # what is not known could turn it
    assert found.decision == decision
    assert f"{share:.0%} of the decisions not in the log (new)" in found.sentence


def test_no_range_no_allowance_for_what_was_never_logged():
    logs, policies = unsupported(0.01, noise=0.1)
    with pytest.warns(SupportWarning):
        found = compare_policies(policies, logs, evaluator=SNIPS())
    assert found.differences["new"].confidence_interval(0.95)[0] > 0
    assert found.decision == "undecided"


@ignore
@pytest.mark.parametrize("n_clicks, decision", [(8, "undecided"), (16, "deploy")])
def test_few_events_do_not_decide(n_clicks, decision):
    reward = np.zeros(2000)
    reward[1 : 2 * n_clicks : 2] = 1  # of action 1
    logs = BanditLogs(np.zeros((2000, 1)), [0, 1] * 1000, reward, [0.5] * 2000)
    how = {"evaluator": IPS(), "baseline": "always 0"}
    found = compare_policies(always(logs, 0, 1), logs, **how)
    assert found.differences["always 1"].confidence_interval(0.95)[0] > 0
    assert found.decision == decision
    if decision == "undecided":
        assert "always 1 seems better than always 0" in found.sentence
        assert "fewer than ten effective events (always 1)" in found.sentence
        assert found.to_records()[1]["rounds_needed"] >= 0.99 * 2000 * 10 / n_clicks


@ignore
@pytest.mark.parametrize(
    "evaluator, what",
    [
        (DRos(lam=0.1), "the bias of shrunk weights"),
        (IPS(cmax=1.5), "the bias of clipped weights"),
        (DirectMethod(), "the error of the reward model"),
    ],
    ids=lambda one: type(one).__name__,
)
@pytest.mark.parametrize("arm", [0, 1])
def test_an_evaluator_that_leaves_a_bias_out_does_not_decide(evaluator, what, arm):
    logs = clicks(4000, [0.1, 0.5])
    found = compare_policies(always(logs, arm), logs, evaluator=evaluator)
    low, high = found.differences[f"always {arm}"].confidence_interval(0.95)
    assert low > 0 or high < 0
    assert (found.decision, found.choice) == ("undecided", None)
    name = type(evaluator).__name__
    told = f"{what}, which the interval of {name} leaves out (always {arm})."
    assert found.sentence.endswith(f"Doubts that prevent a decision: {told}")


def test_the_recommended_evaluator():
    logs = clicks(400, [0.1, 0.5])
    given = (logs.context, logs.action, logs.reward, logs.propensity)
    loggers = {"logger": np.arange(400) % 2, "logger_proba": np.full((400, 2), 0.5)}
    for some, evaluator in (
        (logs, DoublyRobust()),
        (BanditLogs(*given, **loggers), MultiLoggerDR(pooling="balanced")),
    ):
        found = compare_policies(always(logs, 1), some)
        expected = compare_policies(always(logs, 1), some, evaluator=evaluator)
        assert repr(found) == repr(expected)
        assert type(evaluator).__name__ in found.sentence


def slates_out_of_range():
    """Pages of two items; B is known everywhere, A in context 0 only, where it is B."""
    rng = np.random.RandomState(0)
    context = rng.randint(2, size=2000)
    first = rng.randint(2, size=2000)
    logger = EmpiricalSlatePolicy([[0, 1], [1, 0]])
    logs = SlateLogs(
        context[:, None],
        np.column_stack([first, 1 - first]),
        (context == 0).astype(float),
        n_candidates=3,
        logging_policy=logger,
    )
    known = np.tile([0, 1], (2000, 1))
    beyond = np.where(context[:, None] == 0, known, [2, 1])
    return logs, {"B": known, "A": beyond}, int((context == 0).sum())


@pytest.mark.parametrize("self_normalized", [False, True])
def test_only_common_rounds_are_compared(self_normalized):
    logs, policies, n_common = slates_out_of_range()
    evaluator = PseudoInverse(self_normalized=self_normalized)
    with pytest.warns(SupportWarning) as caught:
        found = compare_policies(policies, logs, evaluator=evaluator, baseline="B")
    gain = found.differences["A"]
    assert gain.value == 0  # .506 with interval (.484, .529) when all rounds count
    assert found["A"].value == found["B"].value
    assert found.n_rounds == n_common
    assert found.decision == "undecided"
    assert f"Compared on the {n_common:,} of 2,000 rounds" in repr(found)
    told = f"{n_common:,} of 2,000 rounds are common"
    common = [w for w in caught if told in str(w.message)]
    assert len(common) == 1 and common[0].filename == __file__


@ignore
def test_logs_without_propensities():
    bare = clicks(4000, [0.1, 0.5]).replace(propensity=None)
    for evaluator in (IPS(), SNIPS(), DoublyRobust(), None):
        with pytest.raises(ValueError, match="propensit"):
            compare_policies(always(bare, 0), bare, evaluator=evaluator)
    found = compare_policies(always(bare, 1), bare, evaluator=DirectMethod())
    assert found.decision == "undecided" and "DirectMethod" in found.sentence
    assert found["always 1"].leaves_bias_out
    found = compare_policies({"new": UniformPolicy()}, bare, evaluator=DirectMethod())
    assert "acts as" not in found.sentence  # nobody knows what the logger did


@pytest.mark.filterwarnings("ignore:The last 100 of 3,000 rounds have no reward")
def test_groups_count():
    # 60 users who repeat themselves 50 times: 3,000 rounds, 60 independent ones
    rng = np.random.RandomState(3)
    action = np.repeat(rng.randint(2, size=60), 50)
    reward = np.repeat(rng.random_sample(60) < np.array([0.45, 0.55])[action[::50]], 50)
    given = (np.zeros((3000, 1)), action, reward.astype(float), [0.5] * 3000)
    group = np.repeat(np.arange(60), 50)
    policies = {"new": np.tile([0.0, 1.0], (3000, 1))}
    both = (BanditLogs(*given, group=one) for one in (None, group))
    alone, found = (compare_policies(policies, x, evaluator=SNIPS()) for x in both)
    assert alone.decision == "deploy" and found.decision == "undecided"
    assert found.p_values["new"] > 0.05 > alone.p_values["new"]


@pytest.mark.parametrize(
    "evaluator",
    [MultiLoggerIPS(self_normalized=True), SNIPS(), DoublyRobust(), IPS()],
    ids=lambda evaluator: type(evaluator).__name__,
)
def test_policies_that_differ_by_rounding(evaluator):
    logs = make_bandit_logs(500, logging_temperature=np.inf, random_state=0)
    pi = np.full((500, logs.n_actions), 1 / logs.n_actions)
    noise = 1e-15 * np.random.RandomState(0).normal(size=pi.shape)
    policies = {"a": pi, "b": pi + noise}
    found = compare_policies(policies, logs, evaluator=evaluator)
    assert found.sentence.startswith(f"Undecided: a and b act as {SYSTEM} does")
    if not isinstance(evaluator, DoublyRobust):  # its on-policy value is not the mean
        assert found.p_values == {"a": 1.0, "b": 1.0}
    found = compare_policies(policies, logs, evaluator=evaluator, baseline="a")
    assert found.p_values == {"b": 1.0}
    difference = found.differences["b"]
    assert difference.value == difference.standard_error == 0
    assert found.sentence.startswith("Undecided: b acts as a does")


def test_slate_policies_that_differ_by_rounding():
    logs = make_slate_logs(500, logging="uniform", random_state=0)
    policies = {"u": UniformSlatePolicy(logs.n_slots)}
    for normalized in (True, False):
        evaluator = PseudoInverse(self_normalized=normalized)
        found = compare_policies(policies, logs, evaluator=evaluator)
        assert found.p_values == {"u": 1.0} and found.decision == "undecided"


def test_a_small_difference_is_one():
    logs = BanditLogs(np.zeros((9, 1)), [0, 1, 0] * 3, [1.0, 0, 0] * 3, [0.5] * 9)
    a = np.full((9, 2), 0.5)
    policies = {"a": a, "b": a + np.array([1e-9, -1e-9])}
    found = compare_policies(policies, logs, evaluator=IPS(), baseline="a")
    assert found.differences["b"].value == pytest.approx(2e-9 / 3, rel=1e-6)
    assert found.differences["b"].standard_error > 0


@pytest.mark.theory
@ignore
def test_all_intervals_at_once_and_false_deploys(global_random_seed):
    # 200 worlds without any effect: all gains are zero
    rng = np.random.RandomState(global_random_seed)
    policies = {f"{k}": np.eye(4)[np.full(100, k)] for k in range(4)}
    wrong = rejected = deployed = 0
    for _ in range(200):
        action, reward = rng.randint(4, size=100), rng.normal(size=100)
        logs = BanditLogs(np.zeros((100, 1)), action, reward, [0.25] * 100)
        found = compare_policies(policies, logs, evaluator=IPS(), baseline="0")
        records = found.to_records()[1:]
        ends = ((r["difference_low"], r["difference_high"]) for r in records)
        wrong += any(not low < 0 < high for low, high in ends)
        rejected += any(r["p_value"] < 0.05 for r in records)
        deployed += found.decision == "deploy"
    assert wrong == rejected <= 10 + 4 * (200 * 0.05 * 0.95) ** 0.5
    assert deployed <= 5 + 4 * (200 * 0.025 * 0.975) ** 0.5


ONE = UniformPolicy()


@ignore
@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"policies": [ONE]}, TypeError, "got a list"),
        ({"policies": {}}, ValueError, "policies is empty; name at least one"),
        ({"evaluator": ONE}, TypeError, "policies expects an evaluator"),
        ({"logs": np.zeros((3, 2))}, TypeError, "logs must be Bandit.* got ndarray"),
        ({"logs": clicks(9, [0.5])[:0]}, ValueError, "the logs are empty"),
        ({"baseline": "none"}, ValueError, r"baseline must be one of.*'uniform'"),
        ({"level": 95}, ValueError, "level must be a number in"),
        ({"level": "95%"}, ValueError, "level must be a number in"),
        ({"level": float("nan")}, ValueError, "level must be a number in"),
        ({"policies": {"a": IPS()}}, TypeError, "got the evaluator IPS"),
        ({"policies": {"logger": ONE}}, ValueError, "Rename the policy"),
        ({"policies": {"": ONE}}, ValueError, "has the name ''.*Give every policy"),
        ({"policies": {None: ONE}}, ValueError, "has the name None.*Give every"),
        ({"policies": {" ": ONE}}, ValueError, "' '.*Give every policy"),
        ({"policies": {1: ONE, "1": ONE}}, ValueError, r"\[1, '1'\].*Give every"),
    ],
)
def test_bad_input(change, error, message):
    logs, policies = three_policies()
    given = {"policies": policies, "logs": logs, "evaluator": IPS()} | change
    with pytest.raises(error, match=message):
        compare_policies(**given)


@ignore
def test_a_policy_may_have_the_name_of_the_logger_beside_another_baseline():
    logs, policies = three_policies()
    policies = {**policies, "logger": UniformPolicy()}
    found = compare_policies(policies, logs, evaluator=IPS(), baseline="uniform")
    assert "logger" in found.differences


@ignore
def test_an_array_that_is_no_policy_is_not_deployed():
    # ones for the logged actions: every weight is 2, and their mean has no spread
    logs = clicks(400, (0.5, 0.5))
    found = compare_policies({"x": np.ones(400)}, logs, evaluator=IPS())
    assert (found.decision, found.choice) == ("undecided", None)
    assert "propensities" in found.sentence


def alike(policy, baseline, logs):
    """Tell whether the sentence says that a policy acts as the baseline does."""
    policies = {"new": policy} | ({} if baseline is None else {"old": baseline})
    against = "logger" if baseline is None else "old"
    found = compare_policies(policies, logs, evaluator=IPS(), baseline=against)
    return "new acts as" in found.sentence


@ignore
def test_policies_that_act_alike():
    logs = make_bandit_logs(5000, logging_temperature=np.inf, random_state=0)
    bare = BanditLogs(logs.context, logs.action, logs.reward, logs.propensity)
    uniform, one = UniformPolicy(), ConstantPolicy(logs.actions[0]).fit(logs)
    table = np.full((5000, logs.n_actions), 1 / logs.n_actions)
    for same in (uniform, table, table[:, 0]):  # the last is of the logged actions
        assert alike(same, uniform, logs)
    assert alike(uniform, None, logs) and alike(uniform, None, bare)
    assert not alike(one, None, logs) and not alike(one, None, bare)
    assert not alike(table, one, logs)
    table[4999] = np.eye(logs.n_actions)[0]  # one round is enough
    assert not alike(table, uniform, logs)
