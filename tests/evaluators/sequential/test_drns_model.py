# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""What DR-ns takes for the reward model, and its two theorems."""

import warnings
from itertools import product

import numpy as np
import pytest
from sklearn.dummy import DummyRegressor
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import KFold, TimeSeriesSplit

from skope_ope import (
    ActionRewardModel,
    BanditLogs,
    ConstantPolicy,
    DRns,
    EpsilonGreedy,
    OPESearchCV,
    UniformPolicy,
)
from skope_ope.datasets import make_bandit_logs
from skope_ope.evaluators import drns_sum_bias_bound
from skope_ope.readers import read_open_bandit
from skope_ope.selection import EvaluatorScorer, in_order
from tests._learners import spec_rule
from tests._quiet import quiet
from tests.evaluators.sequential._worlds import ONE_MU, online


def predictions(evaluator, logs, of=None):
    of = logs if of is None else of
    return evaluator.fit(logs).reward_model_.bind(of)(of, 0)


def learned_log(n=1500, seed=0, **fields):
    """The log of a logger that learned: its propensities move with time."""
    rng = np.random.default_rng(seed)
    n_actions, counts, sums = 3, np.ones(3), np.full(3, 0.5)
    action, reward, p = np.empty(n, int), np.empty(n), np.empty(n)
    for t in range(n):
        share = 1 / (1 + t / 100)
        proba = np.full(n_actions, share / n_actions)
        proba[np.argmax(sums / counts)] += 1 - share
        action[t] = rng.choice(n_actions, p=proba)
        reward[t] = rng.random() < (0.2, 0.5, 0.8)[action[t]]
        p[t] = proba[action[t]]
        counts[action[t]] += 1
        sums[action[t]] += reward[t]
    return BanditLogs(np.zeros((n, 1)), action, reward, p, **fields)


def test_a_rare_click_is_not_valued_from_one_half():
    """A policy worth .0067 got -.0024 +- .029: the model said .5 everywhere."""
    rng = np.random.default_rng(0)
    n, n_actions, rate = 10_000, 34, 0.0067
    values, middle = [], []
    for _ in range(20):
        action = rng.integers(0, n_actions, n)
        click = (rng.random(n) < rate).astype(float)
        logs = BanditLogs(np.zeros((n, 1)), action, click, np.full(n, 1 / n_actions))
        pi = np.tile(np.eye(n_actions)[0], (n, 1))
        values.append(quiet(DRns(random_state=0).fit(logs), pi))
        middle.append(quiet(DRns(reward_model=0.5, random_state=0).fit(logs), pi))
    errors = np.array([value.standard_error for value in values])
    assert errors.max() < 0.01
    assert min(value.standard_error for value in middle) > 0.02  # as it was
    estimates = np.array([value.value for value in values])
    assert abs(estimates.mean() - rate) < 4 * estimates.std(ddof=1) / np.sqrt(20)
    assert 0.5 < estimates.std(ddof=1) / errors.mean() < 1.6


def test_the_mean_of_the_other_folds_over_all_actions():
    logs = make_bandit_logs(200, random_state=0)
    for cv in (5, KFold(4, shuffle=True, random_state=1)):
        q_hat = predictions(DRns(cv=cv), logs)
        splitter = KFold(cv) if cv == 5 else cv
        for train, test in splitter.split(logs.reward):
            np.testing.assert_allclose(q_hat[test], logs.reward[train].mean())
    # on other rounds the mean of all
    other = make_bandit_logs(50, random_state=1)
    np.testing.assert_allclose(predictions(DRns(), logs, other), logs.reward.mean())
    # rewards of any range, and actions that a fold lacks, need no word
    rounds = logs.context, logs.action, 1e6 + 5 * logs.reward, logs.propensity
    q_hat, far = (predictions(DRns(), one) for one in (logs, BanditLogs(*rounds)))
    np.testing.assert_allclose(far - 1e6, 5 * q_hat, atol=1e-8)
    order = np.argsort(logs.action_index, kind="stable")
    quiet(DRns(random_state=0).fit(logs[order]), EpsilonGreedy())
    # groups are held out as a whole
    q_hat = predictions(DRns(), logs.replace(group=np.arange(200) // 10))
    assert (np.ptp(q_hat.reshape(20, -1), axis=1) == 0).all()


def test_where_the_logger_learned_only_the_past_predicts():
    logs = learned_log()
    assert logs.propensities_drift
    q_hat = predictions(DRns(), logs)
    n = len(logs)
    past = (np.cumsum(logs.reward) - logs.reward)[1:] / np.arange(1, n)
    np.testing.assert_allclose(q_hat[1:], np.tile(past[:, None], 3), rtol=1e-12)
    # the first round has no past: the mean of all the others
    np.testing.assert_allclose(q_hat[0], logs.reward[1:].mean())
    # a later reward changes no earlier prediction, but that of the first round
    reward = logs.reward.copy()
    reward[1000:] = 1 - reward[1000:]
    changed = predictions(DRns(), logs.replace(reward=reward))
    np.testing.assert_allclose(changed[1:1001], q_hat[1:1001], rtol=1e-12)
    assert (changed[1001:] != q_hat[1001:]).any()
    result = quiet(DRns(random_state=0).fit(logs), EpsilonGreedy())
    assert result.diagnostics["uncovered_rounds"] == 1
    assert result.deviation_bound(max_weight=1e6) > 0  # Theorem 2 takes it


def test_the_past_leaves_own_groups_and_copies_out():
    rng = np.random.default_rng(0)
    group = rng.integers(0, 6, 40)
    logs = learned_log(40, group=group)
    values = predictions(DRns(cv=TimeSeriesSplit(4)), logs)[:, 0]
    for k in range(40):
        rows = [j for j in range(k) if group[j] != group[k]]
        rows = rows or [j for j in range(40) if group[j] != group[k]]
        assert values[k] == pytest.approx(logs.reward[rows].mean(), abs=1e-14)
    drawn = np.sort(rng.integers(0, 400, 300))  # with copies
    again = learned_log(400)[drawn]
    assert again.propensities_drift
    values = predictions(DRns(), again)[:, 0]
    for k in range(300):
        rows = np.flatnonzero(drawn[:k] != drawn[k])
        if not len(rows):
            rows = np.flatnonzero(drawn != drawn[k])
        assert values[k] == pytest.approx(again.reward[rows].mean(), abs=1e-14)


def test_folds_in_the_order_of_time_mean_the_past():
    logs = make_bandit_logs(300, random_state=0)
    q_hat = predictions(DRns(cv=TimeSeriesSplit(4)), logs)
    past = (np.cumsum(logs.reward) - logs.reward)[1:] / np.arange(1, 300)
    np.testing.assert_allclose(q_hat[1:, 0], past, rtol=1e-12)
    # rows travel by their ids, others get the mean
    some = logs[np.arange(250, 100, -3)]
    fitted = DRns(cv=TimeSeriesSplit(4)).fit(logs)
    there = fitted.reward_model_.bind(some)(some, 0)
    np.testing.assert_array_equal(there[:, 0], q_hat[np.arange(250, 100, -3), 0])
    other = make_bandit_logs(20, random_state=1)
    there = fitted.reward_model_.bind(other)(other, 0)
    np.testing.assert_allclose(there, logs.reward.mean())
    result = quiet(fitted, EpsilonGreedy(), other)
    assert result.deviation_bound(max_weight=1e6) > 0
    with pytest.raises(ValueError, match="model fitted to other rounds"):
        quiet(fitted, EpsilonGreedy(), some).deviation_bound(max_weight=1e6)


def test_rounds_that_no_fold_predicts_get_the_mean_of_earlier_ones():
    logs = make_bandit_logs(300, random_state=0)
    evaluator = DRns(
        reward_model=LogisticRegression(), cv=TimeSeriesSplit(4), random_state=0
    ).fit(logs)
    result = quiet(evaluator, EpsilonGreedy())
    assert result.diagnostics["uncovered_rounds"] == 60
    q_hat = predictions(evaluator, logs)
    past = (np.cumsum(logs.reward) - logs.reward)[1:60] / np.arange(1, 60)
    np.testing.assert_allclose(q_hat[1:60], np.tile(past[:, None], logs.n_actions))
    assert np.ptp(q_hat[60:], axis=1).min() > 0  # the model, which knows actions
    # the mean of the other folds in the same way
    first, middle, last = np.split(np.arange(300), [50, 100])
    folds = [(last, middle), (first, last)]
    q_hat = predictions(DRns(cv=folds), logs)
    np.testing.assert_allclose(q_hat[1:50, 0], past[:49])
    np.testing.assert_allclose(q_hat[50:100], logs.reward[100:].mean())
    # a single round or group gets the middle of the range
    logs = make_bandit_logs(1, n_actions=2, random_state=0)
    assert predictions(DRns(), logs)[0, 0] == 0.5
    rounds = logs.context, logs.action, logs.reward, logs.propensity
    ranged = BanditLogs(*rounds, actions=logs.actions, reward_range=(-1, 5))
    assert predictions(DRns(), ranged)[0, 0] == 2
    group = make_bandit_logs(10, random_state=0).replace(group=np.zeros(10))
    assert (predictions(DRns(), group) == 0.5).all()
    far = BanditLogs(*rounds[:2], [7.0], rounds[3], actions=logs.actions)
    with pytest.raises(ValueError, match=r"have only one round.* Pass a number"):
        DRns().fit(far)
    with pytest.raises(ValueError, match="cv='prefit' needs a fitted reward_model"):
        DRns(cv="prefit").fit(logs)


def test_a_search_shares_the_mean():
    """Candidates of one fit get the numbers that they would get alone."""
    logs = make_bandit_logs(600, random_state=0)
    for rounds in (logs, learned_log(600)):
        grid = {"q": [0.01, 0.1], "c_init": [None, 0.2], "normalize": [True, "pooled"]}
        proba = np.full((len(rounds), rounds.n_actions), 1 / rounds.n_actions)
        rounds = rounds.with_columns(pi=proba)
        scorer = EvaluatorScorer("pi", DRns(q=0, reward_model=0.5))
        about = {"scoring": scorer, "cv": in_order(KFold(2))}
        search = OPESearchCV(DRns(random_state=0), grid, **about)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            search.fit(rounds)
        best = DRns(random_state=0, **search.best_params_).fit(rounds)
        assert quiet(search.best_estimator_, "pi").value == quiet(best, "pi").value


@pytest.mark.theory
def test_constant_means_change_nothing_but_noise(global_random_seed):
    """The value is that of any other model in expectation."""
    gaps = []
    for k in range(20):
        seed = 1000 * global_random_seed + k
        logs, policy, _ = make_bandit_logs(400, random_state=seed, return_truth=True)
        own, other = (
            quiet(DRns(reward_model=model, random_state=k).fit(logs), policy).value
            for model in (None, DummyRegressor())
        )
        gaps.append(own - other)
    assert abs(np.mean(gaps)) < 4 * np.std(gaps, ddof=1) / np.sqrt(20)


def test_on_real_logs_of_clicks(data_dir):
    """Ten thousand uniform rounds, 34 items, clicks in .46%: the error was .03."""
    logs = read_open_bandit(data_dir / "obd_random_men.csv.gz")
    for item in logs.actions[[1, 2, 10]].tolist():
        some = (DRns(reward_model=one, random_state=0) for one in (None, 0.5))
        result, former = (quiet(one.fit(logs), ConstantPolicy(item)) for one in some)
        assert result.standard_error < 0.008
        assert abs(result.value - logs.reward[logs.action == item].mean()) < 0.002
        assert former.standard_error > 0.025
    # a logger that learned is found out
    logs = read_open_bandit(data_dir / "obd_bts_men.csv.gz")
    result = quiet(DRns(random_state=0).fit(logs), UniformPolicy())
    assert result.diagnostics["uncovered_rounds"] == 1  # the first one
    assert result.standard_error < 0.002


def test_the_formula_of_the_paper():
    for horizon, mass in product((1, 2, 17, 300), (0.0, 0.1, 0.5, 0.99)):
        paper = horizon * (horizon + 1) / 2 * mass / (1 - mass)
        bound = drns_sum_bias_bound(mass, horizon)
        assert isinstance(bound, float)
        assert bound == pytest.approx(paper, rel=1e-14)
    # other ranges
    scaled = drns_sum_bias_bound(0.1, 5, reward_range=(0, 4))
    assert scaled == pytest.approx(4 * drns_sum_bias_bound(0.1, 5))
    for bounds in ((1, 3), (-3, -1)):  # by hand: T = 3, (3 * 2 + 3 * 3) * 1 / 9
        found = drns_sum_bias_bound(0.1, 3, reward_range=bounds)
        assert found == pytest.approx(15 / 9)


def expected_sum(q, c, n_rounds, low, history=()):
    """E[sum c R_B(t)] at a constant c, and the largest bias mass.

    A block gives V(h) / P(accept) in expectation (Wald), and its accepted round has the
    law min(mu, c pi) / P(accept). Rewards are `low` and `low` + 1.
    """
    pi = spec_rule(history, 0)
    accept = [min(ONE_MU[0][a], c * pi[a]) for a in (0, 1)]
    chance = sum(accept)
    mass, total = 1 - chance / c, c * (low + np.dot(pi, q)) / chance
    if len(history) + 1 < n_rounds:
        for a, r in product((0, 1), repeat=2):
            of_reward = q[a] if r else 1 - q[a]
            rest, inner = expected_sum(q, c, n_rounds, low, (*history, (0, a, r)))
            total += accept[a] / chance * of_reward * rest
            mass = max(mass, inner)
    return total, mass


@pytest.mark.parametrize("low", [0.0, -1.0, 2.0])
@pytest.mark.parametrize("c", [0.2, 0.3125, 0.4, 0.6, 1.0])
def test_the_bound_holds(c, low):
    """Rewards `low` and `low` + 1 with the probabilities q, exactly."""
    for q in ((1.0, 1.0), (0.9, 0.1), (0.3, 0.8)):
        estimate, mass = expected_sum(q, c, 4, low)
        played = online(spec_rule, 4, p_x=(1.0,), q=(q,))
        truth = sum(p * sum(low + r for _, _, r in history) for history, p in played)
        bound = drns_sum_bias_bound(mass, 4, reward_range=(low, low + 1))
        assert abs(estimate - truth) <= bound + 1e-12
        if c <= 0.3125:  # mu >= c pi throughout
            assert mass == pytest.approx(0, abs=1e-12)
            assert estimate == pytest.approx(truth, abs=1e-12)
    if c == 1.0:
        assert abs(estimate - truth) > 0.2  # there is something to bound


def test_bad_input():
    for mass, horizon, match in (
        (1.0, 5, r"'bias_mass' parameter .* range \[0.0, 1.0\)"),
        (-0.1, 5, "'bias_mass' parameter"),
        (np.nan, 5, "'bias_mass' parameter"),
        (0.1, 0, "'horizon' parameter"),
        (0.1, 2.5, "'horizon' parameter"),
    ):
        with pytest.raises(ValueError, match=match):
            drns_sum_bias_bound(mass, horizon)
    for bounds in ((1, 0), (0, 0), (0, np.inf), (0, np.nan), (0,)):
        with pytest.raises(ValueError, match=r"reward_range must be \(low, high\)"):
            drns_sum_bias_bound(0.1, 5, reward_range=bounds)


@pytest.mark.parametrize(
    ("n", "c", "weight", "paper", "sharp"),
    [
        (10_000, 1.0, 1, 0.076826, 0.054571),
        (10_000, 0.43, 10, 0.322092, 0.230921),
        (20_000, 0.65, 13, 0.167151, 0.119525),
    ],
)
def test_theorem_2(n, c, weight, paper, sharp):
    """The bound depends on n and on the sum of c only; all ratios are one."""
    action = np.arange(n) % 2
    logs = BanditLogs(np.empty((n, 0)), action, action, np.full(n, 0.5))
    evaluator = DRns(c_init=c, reward_model=0.5).fit(logs)
    evaluator.uniforms_ = np.full(n, 0.9999 if c < 1 else 0.5)  # c stays as it is
    result = quiet(evaluator, EpsilonGreedy(1.0))
    assert result.diagnostics["sum_c"] == pytest.approx(c * n)
    radius = result.deviation_bound(0.05, max_weight=weight, form="paper")
    assert radius == pytest.approx(paper, abs=1e-6)
    radius = result.deviation_bound(0.05, max_weight=weight)
    assert radius == pytest.approx(sharp, abs=1e-6)


def traced(logs, policy=None, of=None, model=0.5, **parameters):
    fitted = DRns(reward_model=model, random_state=0, **parameters).fit(logs)
    return quiet(fitted, EpsilonGreedy() if policy is None else policy, of)


def test_theorem_2_asks_for_what_it_needs():
    logs = make_bandit_logs(300, random_state=0)
    result, known = traced(logs), {"max_weight": 1e4}
    assert result.deviation_bound(**known) > 0
    no_bound = r"is not a bound on pi\(a\|x, h\) / p"
    for asked, match in [
        ({}, "Theorem 2 needs max_weight"),
        ({"max_weight": 20, "form": "blunt"}, "form must be 'sharp' or 'paper'"),
        *(({"max_weight": wrong}, no_bound) for wrong in (-5.0, 1.0, np.nan, np.inf)),
    ]:
        with pytest.raises(ValueError, match=match):
            result.deviation_bound(**asked)
    action_model = ActionRewardModel(LogisticRegression()).fit(logs)
    result = traced(make_bandit_logs(300), model=FrozenEstimator(action_model))
    assert result.deviation_bound(**known) > 0
    result = traced(logs[:150], of=logs[150:], model=LogisticRegression())
    assert result.deviation_bound(**known) > 0
    far = BanditLogs(logs.context, logs.action, logs.reward + 3, logs.propensity)
    overlapping = traced(logs[:150], of=logs[149:], model=LogisticRegression())
    for result, match in [
        (traced(logs, model=None), "model fitted to other rounds"),
        (traced(logs, model=LogisticRegression()), "model fitted to other rounds"),
        (overlapping, "logs other than those of fit"),
        (traced(logs, horizon=5), "single normalised trace"),
        (traced(logs, normalize=False), "single normalised trace"),
        (traced(far), r"rewards in \[0, 1\]"),
        (traced(logs, model=1.5), "model values in"),
    ]:
        with pytest.raises(ValueError, match=match):
            result.deviation_bound(**known)


def test_theorem_2_charges_what_the_mean_of_earlier_rounds_cannot_know():
    """The first round is predicted by later ones: the most that it can do is added."""
    logs = make_bandit_logs(300, random_state=0)
    result, without = traced(logs, model=None, cv=TimeSeriesSplit()), traced(logs)
    for form in ("sharp", "paper"):
        radius, plain = (
            one.deviation_bound(max_weight=1e4, form=form) for one in (result, without)
        )
        charge = (1 + 1e4) / result.acceptance_ratios.sum()
        assert radius == pytest.approx(plain + charge, rel=1e-12)


def test_earlier_rewards_of_any_size():
    """Rewards outside [0, 1] have a mean like others; only one round has none."""
    logs = make_bandit_logs(300, random_state=0)
    rounds = logs.context, logs.action, 40 * logs.reward - 10, logs.propensity
    evaluator = DRns(cv=TimeSeriesSplit(), random_state=0)
    found = quiet(evaluator.fit(BanditLogs(*rounds)), UniformPolicy())
    plain = quiet(evaluator.fit(logs), UniformPolicy())
    np.testing.assert_allclose(found.value, 40 * plain.value - 10, rtol=1e-9)
