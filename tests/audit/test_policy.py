# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""An audit of a policy: support, weights, clipping, balance, and what it cannot do."""

from itertools import product

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import sparse
from scipy.stats import norm

from skope_ope import (
    SNIPS,
    BanditLogs,
    ClassifierPolicy,
    ConstantPolicy,
    EpsilonGreedy,
    FunctionPolicy,
    UniformPolicy,
    audit,
)
from tests._quiet import quiet
from tests.audit._told import names, of_policy, softmax_logs, told

LOGS, MU = softmax_logs()
OTHER = np.roll(MU, 1, axis=1)
SHARP, SHARP_MU = softmax_logs(scale=2.0)
MILD, MILD_MU = softmax_logs(scale=0.5)
MILD_OTHER = np.roll(MILD_MU, 1, axis=1)
BALANCE, CLIPPING = "balance of the context", "values by clipping (SNIPS)"


def weights(pi, logs):
    return pi[np.arange(len(logs)), logs.action_index] / logs.propensity


# -- policies of all kinds ------------------------------------------------------------
@pytest.mark.parametrize(
    "policy",
    [MILD_OTHER, UniformPolicy(), "pi", "p_logged", np.full(2000, 0.25)],
    ids=["array", "policy", "column", "column of logged", "of the logged actions"],
)
def test_policies_of_all_kinds(policy):
    p_logged = MILD_OTHER[np.arange(2000), MILD.action_index]
    logs = MILD.with_columns(pi=MILD_OTHER, p_logged=p_logged)
    facts, found = of_policy(policy, logs)
    assert found == []
    assert facts["effective sample size"] > 100
    assert BALANCE in facts


def test_what_a_check_cannot_do_it_says():
    facts, found = of_policy(OTHER, LOGS.replace(propensity=None))
    assert facts["weights of the policy"] == "not possible: no propensities"
    assert found == []
    shares = sorted(facts["actions of the policy"]["policy's share"])
    assert_allclose(shares, sorted(OTHER.mean(axis=0)))
    with pytest.raises(TypeError, match="EpsilonGreedy learns while it acts"):
        audit(EpsilonGreedy(), LOGS)
    # the sentence says how, and so it goes
    frozen = EpsilonGreedy().fit(LOGS).frozen(explore=True)
    assert "effective sample size" in audit(frozen, LOGS).facts


def test_rounds_that_the_policy_has_learned_from():
    policy = ClassifierPolicy(epsilon=0.2).fit(MILD[:1000])
    assert of_policy(policy, MILD[1000:])[1] == []
    [one] = told("learned_rounds", policy, MILD)[1]
    assert (one.severity, one.number) == ("error", 0.5)
    assert "train_test_split" in one.text


def test_few_rounds_and_logs_without_anything_to_see():
    for n in (1, 2, 5):
        facts, _ = of_policy(OTHER[:n], LOGS[:n])
        assert facts["effective sample size"] <= n + 1e-9
    one = BanditLogs(np.zeros((50, 0)), np.zeros(50), np.zeros(50), np.ones(50))
    facts, found = of_policy(UniformPolicy(), one)
    assert found == []
    assert facts["mean weight"] == 1
    logs, pi = half_reached(50)
    empty = BanditLogs(np.zeros((50, 0)), logs.action, logs.reward, logs.propensity)
    assert balance(pi, empty) == (None, [])
    assert balance(pi[:1], logs[:1]) == (None, [])


def test_many_actions():
    rng = np.random.RandomState(0)
    n, k = 300, 100_000
    rounds = rng.normal(size=(n, 2)), rng.randint(k, size=n), np.ones(n)
    logs = BanditLogs(*rounds, np.full(n, 1 / k), actions=range(k))
    facts, found = of_policy(UniformPolicy(), logs)
    assert names(found) == [("unsupported_mass", "note")]  # all weights are one
    assert facts["unsupported mass"] > 0.99 and facts["mean weight"] == 1
    found = names(of_policy(ConstantPolicy(k - 1), logs)[1])
    assert ("low_overlap", "error") in found
    assert ("unsupported_mass", "warning") in found


@pytest.mark.thorough
def test_right_logs_are_quiet():
    for seed, scale, n in product(range(8), (0.2, 0.4), (300, 1000)):
        logs, mu = softmax_logs(n, scale=scale, seed=seed)
        flat = np.sqrt(mu)
        flat /= flat.sum(axis=1, keepdims=True)
        for policy in (UniformPolicy(), mu, flat):
            assert not any(one.is_alarm for one in of_policy(policy, logs)[1])


# -- support --------------------------------------------------------------------------
def test_a_policy_within_the_logs():
    facts, found = of_policy(OTHER, LOGS)
    assert found == []
    assert facts["unsupported mass"] == 0
    assert "mass beyond weight sqrt(n)" not in facts  # no whole law
    table = facts["actions of the policy"]
    assert sum(table["policy's share"]) == pytest.approx(1)
    assert sum(table["rounds"]) == len(LOGS)
    assert_allclose(table["policy's share"], sorted(table["policy's share"])[::-1])


def test_actions_that_were_never_logged_are_named():
    labels = np.array(["a", "b", "c", "d", "e", "f"])
    given = LOGS.context, labels[LOGS.action_index], LOGS.reward, LOGS.propensity
    logs = BanditLogs(*given, actions=labels)
    pi = np.tile([0.3, 0.1, 0.1, 0.1, 0.05, 0.35], (len(logs), 1))
    for one in (logs, logs.replace(propensity=None)):
        facts, [found] = told("unsupported_mass", pi, one)
        assert facts["unsupported mass"] == pytest.approx(0.4)
        assert found.severity == "warning"
        assert found.actions == ("f", "e")
        assert (found.number, found.effect) == pytest.approx((0.4, 0.4))
    # a share that moves nothing is a note
    pi = np.tile([0.9996, 1e-4, 1e-4, 1e-4, 1e-4, 0.0], (len(logs), 1))
    [found] = told("unsupported_mass", pi, logs)[1]
    assert found.severity == "note"


def test_mass_beyond_reach_needs_the_whole_law():
    logs, mu = softmax_logs(scale=3.0)
    uniform = np.full(mu.shape, 0.25)
    assert "mass beyond weight sqrt(n)" not in audit(uniform, logs).facts
    facts, [found] = told("out_of_reach", uniform, logs.replace(logging_proba=mu))
    beyond = (0.25 * (np.sqrt(2000) * mu < 0.25)).sum(axis=1).mean()
    assert facts["mass beyond weight sqrt(n)"] == pytest.approx(beyond)
    assert beyond > 0.05
    assert found.severity == "note"
    # the estimates miss about that, or have it from a few rounds
    assert told("out_of_reach", mu, logs.replace(logging_proba=mu))[1] == []


def test_an_array_of_the_logged_actions_does_not_tell():
    facts, found = of_policy(np.full(len(MILD), 0.25), MILD)
    assert found == []
    assert "not known" in facts["unsupported mass"]
    assert "actions of the policy" not in facts


def test_loggers_apart():
    who = np.where(np.arange(len(LOGS)) % 4 == 0, "new", "old")
    logs, _ = softmax_logs(logger=who)
    table = audit(OTHER, logs).facts["loggers and the policy"]
    assert table["logger"] == ["new", "old"]
    assert table["rounds"] == [500, 1500]
    w = weights(OTHER, LOGS)[who == "new"]
    assert table["effective rounds"][0] == pytest.approx(w.sum() ** 2 / (w @ w))
    assert table["mean weight"][0] == pytest.approx(w.mean())


def test_a_rule_that_takes_one_action_in_all_rounds():
    misspelt = FunctionPolicy(lambda X: np.where(X[:, 0] > 99, 1, 2))
    [found] = told("one_action", misspelt, LOGS)[1]
    assert (found.severity, found.actions) == ("note", (2,))
    assert found.text.startswith("The policy takes action 2 in all rounds. If its rule")
    sometimes = FunctionPolicy(lambda X: np.where(X[:, 0] > 0, 1, 2))
    always = ConstantPolicy(2)
    array = np.tile([0.0, 0.0, 1.0, 0.0], (len(LOGS), 1))
    for policy in (sometimes, always, array):
        assert told("one_action", policy, LOGS)[1] == []


# -- weights --------------------------------------------------------------------------
def test_facts_of_the_weights():
    facts = audit(OTHER, LOGS).facts
    w = weights(OTHER, LOGS)
    assert facts["effective sample size"] == pytest.approx(w.sum() ** 2 / (w @ w))
    assert facts["largest weight"] == w.max()
    assert facts["mean weight"] == pytest.approx(w.mean())
    assert facts["policy's mass on weights above 20"] == (w * (w > 20)).mean()
    top = np.sort(w * LOGS.reward)[-20:].sum() / (w @ LOGS.reward)
    share = facts["share of the largest 1% of weighted rewards"]
    assert share == pytest.approx(top)


def test_sample_weights_enter():
    omega = np.random.RandomState(0).choice([0.0, 1.0, 2.0], 2000)
    facts = audit(OTHER, LOGS.replace(sample_weight=omega, logging_proba=MU)).facts
    enter = omega > 0
    share = omega[enter] / omega[enter].mean()
    counted, n = share * weights(OTHER, LOGS)[enter], np.count_nonzero(enter)
    assert facts["mean weight"] == pytest.approx(counted.mean())
    size = counted.sum() ** 2 / (counted @ counted)
    assert facts["effective sample size"] == pytest.approx(size)
    wanted = (share[:, None] * OTHER[enter]).mean(axis=0)
    table = facts["actions of the policy"]
    assert_allclose(table["policy's share"], wanted[table["action"]])
    beyond = np.where(np.sqrt(n) * MU < OTHER, OTHER, 0.0).sum(axis=1)[enter]
    found = facts["mass beyond weight sqrt(n)"]
    assert found == pytest.approx((share * beyond).mean())
    none = audit(OTHER[~enter], LOGS.replace(sample_weight=omega)[~enter]).facts
    assert none["checks of the policy"] == "not possible: all sample weights are 0"


def test_an_effective_size_does_not_see_a_heavy_tail():
    rng = np.random.RandomState(3)
    logs = LOGS.replace(reward=rng.pareto(0.6, 2000))
    facts, [found] = told("heavy_tail", MU, logs)
    assert facts["effective share"] == pytest.approx(1)  # it knows no rewards
    shape = facts["tail shape of weighted rewards"]
    assert shape > 0.9 and found.severity == "warning"
    assert (found.number, found.effect) == (shape, shape)
    assert f"tail index {1 / shape:.4f}" in found.text


def test_a_policy_that_copied_the_log():
    copied = np.eye(4)[LOGS.action_index]
    for policy in (copied, np.ones(2000)):
        found = audit(policy, LOGS)
        assert ("mean_weight", "error") in names(found.findings)
        first = str(found).index("[error] mean_weight")
        assert first < str(found).index("values by clipping")


def test_nothing_to_weigh():
    never, _ = softmax_logs(actions=range(5))
    pi = np.tile([0, 0, 0, 0, 1.0], (2000, 1))
    facts, [found] = told("low_overlap", pi, never)
    assert found.severity == "error"
    assert "tail shape of weighted rewards" not in facts and CLIPPING not in facts
    facts, found = of_policy(OTHER, LOGS.replace(reward=np.zeros(2000)))
    assert found == []
    assert np.isnan(facts["share of the largest 1% of weighted rewards"])
    assert "not estimated" in facts["tail shape of weighted rewards"]


def test_a_weight_that_no_float_holds():
    p = LOGS.propensity.copy()
    p[7] = 1e-150
    found = audit(OTHER, LOGS.replace(propensity=p))
    [one] = [one for one in found.findings if one.name == "impossible_propensity"]
    assert (one.severity, one.rows) == ("error", (7,))
    assert BALANCE not in found.facts and CLIPPING not in found.facts


# -- tails: silent without one, an alarm beyond doubt ---------------------------------
def of_a_router(n, rng):
    """Right answers are worth 2, minus a cost that depends on the length."""
    mu = np.array([[0.5, 0.35, 0.15], [0.25, 0.5, 0.25], [0.1, 0.3, 0.6]])
    kind = rng.integers(3, size=n)
    action = drawn(mu[kind], rng)
    cost = np.array([0.01, 0.07, 0.5])[action] * rng.lognormal(0, 0.6, n)
    return kind, mu, action, 2 * (rng.random(n) < 0.5 + 0.1 * action) - cost


def of_a_shop(n, rng):
    mu = np.array([[0.1, 0.3, 0.3, 0.3], [0.4, 0.4, 0.1, 0.1], [0.55] + [0.15] * 3])
    kind = rng.choice(3, size=n, p=[0.15, 0.25, 0.6])
    action = drawn(mu[kind], rng)
    return kind, mu, action, (rng.random(n) < 0.14) * rng.gamma(9, 1.1, n)


def of_two_levels(n, rng):
    mu = np.array([[0.98, 0.02], [0.8, 0.2]])
    kind = rng.integers(2, size=n)
    action = drawn(mu[kind], rng)
    return kind, mu, action, rng.normal(1, 0.05, n) + action


def of_epsilon_greed(n, rng):
    mu = np.full((10, 10), 0.01) + 0.9 * np.eye(10)
    kind = rng.integers(10, size=n)
    action = drawn(mu[kind], rng)
    return kind, mu, action, rng.random(n) + 0.1 * action


def of_a_softmax(n, rng):
    mu = np.exp(rng.normal(size=(n, 4)))
    mu /= mu.sum(axis=1, keepdims=True)
    return np.arange(n), mu, drawn(mu, rng), (rng.random(n) < 0.3).astype(float)


def drawn(mu, rng):
    return (rng.random(len(mu))[:, None] > mu.cumsum(axis=1)).sum(axis=1)


@pytest.mark.few_cases(2)
@pytest.mark.parametrize(
    "world", [of_a_router, of_a_shop, of_two_levels, of_epsilon_greed, of_a_softmax]
)
def test_right_logs_have_no_heavy_tail(world):
    for seed in range(30):
        n = 2000 if seed % 2 else 8000
        rng = np.random.default_rng(seed)
        kind, mu, action, reward = world(n, rng)
        wanted = rng.integers(mu.shape[1], size=len(mu))[kind]
        p = mu[kind, action]
        logs = BanditLogs(np.empty((n, 0)), action, reward, p, actions=range(len(mu.T)))
        found = told("heavy_tail", np.eye(mu.shape[1])[wanted], logs)[1]
        assert not any(one.is_alarm for one in found)


LEVELS = np.random.default_rng(0).choice([0.6, 0.35, 0.15], 20_000)
PARETO = np.random.default_rng(1).pareto(0.6, 20_000)
FLAT = np.random.default_rng(2).normal(1, 0.1, 20_000)


@pytest.mark.parametrize(
    ("p", "reward"),
    [(LEVELS, PARETO), (1 / (1 + PARETO), FLAT), (1 / (1 + PARETO), -PARETO)],
    ids=["bounded weights do not hide rewards", "weights", "both, negative"],
)
def test_rewards_and_weights_with_heavy_tails(p, reward):
    action = np.arange(20_000) % 2
    logs = BanditLogs(np.empty((20_000, 0)), action, reward, p)
    [found] = told("heavy_tail", np.ones(20_000), logs)[1]
    assert found.is_alarm


# -- values by clipping ---------------------------------------------------------------
@pytest.mark.parametrize("weighted", [False, True])
def test_values_by_clipping_are_those_of_the_evaluator(weighted):
    pi, logs = np.roll(SHARP_MU, 1, axis=1), SHARP
    w = weights(pi, logs)
    if weighted:
        omega = np.random.RandomState(0).choice([0.0, 1.0, 2.0], 2000)
        logs = logs.replace(group=np.arange(2000) // 4, sample_weight=omega)
    table = audit(pi, logs).facts[CLIPPING]
    assert table["cmax"][-1] == "none"
    assert table["cmax"][:3] == [2.0, 5.0, 10.0]
    assert max(table["cmax"][:-1]) < w.max()
    for i, level in enumerate([*table["cmax"][:-1], None]):
        value = quiet(SNIPS(cmax=level).fit(logs), pi)
        assert table["value"][i] == pytest.approx(value.value)
        assert table["standard error"][i] == pytest.approx(value.standard_error)
        if not weighted:
            share = 0 if level is None else (w > level).mean()
            assert table["altered rounds"][i] == share


def test_an_answer_that_few_rounds_decide():
    n = 4000
    action = (np.random.RandomState(0).random_sample(n) < 0.02).astype(int)
    p = np.where(action == 1, 0.02, 0.98)
    rare = BanditLogs(softmax_logs(n)[0].context, action, action.astype(float), p)
    facts, [found] = told("clipping_matters", np.tile([0.4, 0.6], (n, 1)), rare)
    assert found.severity == "note"
    own, low = facts[CLIPPING]["value"][-1], min(facts[CLIPPING]["value"])
    assert own == pytest.approx(0.6, abs=0.05)  # clipped at two it is .1
    assert found.number == pytest.approx(own - low)
    assert found.effect == pytest.approx((own - low) / own)


def test_no_table_where_there_is_nothing_to_clip():
    facts, found = of_policy(SHARP_MU, SHARP)  # all weights are one
    assert CLIPPING not in facts and found == []


# -- balance: weights leave contexts as they are --------------------------------------
def balance(policy, logs):
    facts, found = told("covariate_imbalance", policy, logs)
    return facts.get(BALANCE), found


def half_reached(n=2000, seed=0):
    """Return logs whose logger takes other actions on each side of the first column."""
    rng = np.random.RandomState(seed)
    X = rng.normal(size=(n, 3))
    action = rng.randint(2, size=n) + 2 * (X[:, 0] > 0)
    pi = np.tile([0.45, 0.45, 0.05, 0.05], (n, 1))
    return BanditLogs(X, action, np.ones(n), np.full(n, 0.5)), pi


def test_the_numbers_of_the_balance():
    logs, mu = softmax_logs(500)
    pi = np.roll(mu, 1, axis=1)
    table, found = balance(pi, logs)
    assert found == []
    order = np.argsort(table["column"])
    X, w = logs.context, weights(pi, logs)
    assert sorted(table["column"]) == ["0", "1", "2"]
    assert_allclose(np.take(table["mean"], order), X.mean(axis=0))
    weighted = w @ X / w.sum()
    assert_allclose(np.take(table["weighted mean"], order), weighted)
    near = np.abs(weighted - X.mean(axis=0)) / X.std(axis=0)
    # values beyond three standard deviations count as three
    distance = np.abs(np.take(table["distance in sd"], order))
    assert_allclose(distance, near, atol=0.02)


def test_the_standard_error_is_that_of_the_distance():
    z = []
    for seed in range(40):
        logs, mu = softmax_logs(400, seed=seed, group=np.arange(400) // 2)
        table, found = balance(np.roll(mu, 1, axis=1), logs)
        assert found == []
        z += (np.array(table["distance in sd"]) / table["standard error"]).tolist()
    # 120 of mean 0 and variance 1: four standard errors
    assert abs(np.mean(z)) < 4 / np.sqrt(len(z))
    assert np.std(z) == pytest.approx(1, abs=4 / np.sqrt(2 * len(z)))
    assert norm.sf(max(np.abs(z))) > 1e-6


def test_contexts_that_the_weights_leave_behind():
    logs, pi = half_reached()
    table, [found] = balance(pi, logs)
    assert (found.severity, found.columns) == ("warning", (0,))
    assert table["column"][0] == "0"
    assert table["distance in sd"][0] == pytest.approx(-found.effect)
    assert found.effect > 0.5
    assert "never takes the policy's actions" in found.advice[1]  # all rewards are 1
    # users of two rounds each tell less, and still enough
    logs, pi = half_reached(6000)
    [alone] = balance(pi, logs)[1]
    [again] = balance(pi, logs.replace(group=np.arange(6000) // 2))[1]
    assert again.number < alone.number


def test_right_logs_are_in_balance():
    """Sharp loggers lack rare rounds of large weights: contexts are out of balance."""
    far = 0
    for seed in range(20):
        for n in (50, 300, 2000)[: 2 + (seed < 5)]:
            logs, mu = softmax_logs(n, 6, scale=3.0, seed=seed)
            table, found = balance(np.full(mu.shape, 1 / 6), logs)
            assert found == []
            z = np.divide(table["distance in sd"], table["standard error"])
            far += (np.abs(z) > 4).any()
    assert far > 2  # where standard errors alone would ring


def test_columns_of_all_kinds():
    pd = pytest.importorskip("pandas")
    logs, pi = half_reached(4000)
    x, rest = logs.context[:, 0], (logs.action, logs.reward, logs.propensity)
    columns = {"side": np.where(x > 0, "right", "left")}
    columns |= {"other": np.tile(["u", "v"], 2000), "number": logs.context[:, 1]}
    columns |= {"constant": 1.0, "gone": np.where(np.arange(4000) % 3, x, np.nan)}
    table, [found] = balance(pi, BanditLogs(pd.DataFrame(columns), *rest))
    assert set(found.columns) == {"side", "gone"}
    assert "column 'side' = 'left' by +" in found.text.replace("Col", "col")
    assert "other = 'u'" in table["column"]
    assert not any(name.startswith("constant") for name in table["column"])
    huge = logs.context * np.array([1e300, 1.0, 1.0])
    for context in (sparse.csr_matrix(logs.context), huge):
        assert balance(pi, BanditLogs(context, *rest))[1][0].columns == (0,)


def test_many_rounds_are_drawn_from():
    logs, pi = half_reached(55_000)
    one, [found] = balance(pi, logs)
    assert one == balance(pi, logs)[0]  # the draw has a seed
    assert one["mean"][0] != pytest.approx(logs.context[:, 0].mean(), rel=1e-9)
    assert found.columns == (0,)
