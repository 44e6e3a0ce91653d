# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""DR-ns: a trace by hand, parts, warnings, and what it refuses."""

import re
import warnings
from itertools import pairwise

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import KFold, TimeSeriesSplit

from skope_ope import (
    BanditLogs,
    DoublyRobust,
    DRns,
    EpsilonGreedy,
    UniformPolicy,
    evaluate,
)
from skope_ope.datasets import make_bandit_logs
from skope_ope.exceptions import (
    FewEventsWarning,
    HorizonWarning,
    LogsWarning,
    LowOverlapWarning,
    ModelErrorWarning,
    SingleTrajectoryWarning,
    SupportWarning,
)
from skope_ope.policies import AdaptiveFunctionPolicy
from tests._learners import RulePolicy, greedy_rule, spec_rule
from tests._quiet import quiet

# The fixed trace of the specification.
X = [int(c) for c in "0110100110"]
A = [int(c) for c in "1011101101"]
R = [int(c) for c in "1010111001"]
P = [0.5, 0.8, 0.2, 0.5, 0.2, 0.5, 0.5, 0.2, 0.8, 0.5]
U = [0.3, 0.9, 0.5, 0.6, 0.1, 0.35, 0.5, 0.95, 0.05, 0.4]
Q_HAT = np.array([[0.5, 0.6], [0.2, 0.7]])[X]
ROW_VALUES = np.array([19, 11, 36, -7.6, 36, 15.6, 24.4, -44, 11, 24.4]) / 20
QUARTER = np.array([1, 1, 1, *[0.25] * 7])


def trace(ask="blocks", **parameters):
    evaluator = DRns(reward_model=Q_HAT, **parameters)
    evaluator.fit(BanditLogs(np.array(X, float)[:, None], A, R, P))
    evaluator.uniforms_ = np.array(U)
    return quiet(evaluator, RulePolicy(spec_rule, ask=ask))


HALF = np.array([1] * 4 + [0.625] * 6)


@pytest.mark.parametrize("ask", ["blocks", "refresh", "rows"])
@pytest.mark.parametrize(
    ("parameters", "value", "rows", "c", "n_violations"),
    [
        ({"q": 0}, 1619 / 1900, [1, 3, 5, 8, 9, 10], QUARTER, 1),
        ({"q": 0.25}, 1619 / 1900, [1, 3, 5, 8, 9, 10], QUARTER, 1),
        ({"q": 0.5}, 4021 / 6200, [1, 3, 4, 5, 7, 8, 9, 10], HALF, 4),
        ({"acceptance": "worst_case"}, 0.5465, [3, 5, 9], np.full(10, 0.2), 0),
    ],
)
def test_fixed_trace(parameters, value, rows, c, n_violations, ask):
    result = trace(ask, **parameters)
    assert abs(result.value - value) < 1e-15
    assert (result.accepted + 1).tolist() == rows
    np.testing.assert_array_equal(result.acceptance_ratios, c)
    assert result.n_violations == result.diagnostics["n_violations"] == n_violations
    assert result.diagnostics["sum_c"] == pytest.approx(c.sum(), abs=1e-15)
    ratios = result.diagnostics["effective_ratios"]
    assert ratios == pytest.approx(c.sum() ** 2 / (c @ c))


def test_round_values_and_sums_of_the_fixed_trace():
    result = trace(q=0.25)
    expected = 10 * QUARTER * (ROW_VALUES - result.value) / 4.75 + result.value
    np.testing.assert_allclose(result.round_values, expected, rtol=0, atol=1e-14)
    error = expected.std(ddof=1) / np.sqrt(10)
    assert result.standard_error == pytest.approx(error, rel=1e-13)
    about = result.diagnostics["standard_error_of"]
    assert about == "the progressive-validation policy"
    # R~ = sum_t c_t R_B(t): row 10 ends the last block, so all rows count
    result = trace(q=0.25, normalize=False)
    assert result.value * 6 == pytest.approx((QUARTER * ROW_VALUES).sum(), abs=1e-14)
    assert np.isnan(result.standard_error)
    # with the worst case the last block, row 10, stays incomplete
    result = trace(acceptance="worst_case", normalize=False)
    assert len(result.accepted) == 3
    rows = trace(acceptance="worst_case").round_values  # c is the same everywhere
    total = 0.2 * rows[:9].sum()
    assert result.value * 3 == pytest.approx(total, abs=1e-14)
    assert abs(result.round_values.mean() - result.value) < 1e-15


@pytest.mark.few_cases(3)
@pytest.mark.parametrize("q", [0, 0.01, 0.05, 0.1, 0.5, 1])
def test_a_logger_evaluated_on_its_own_log_is_reproduced(q, global_random_seed):
    """Every ratio is 1: all rounds are accepted, and the value is the mean reward."""
    rng = np.random.RandomState(global_random_seed)
    policy = RulePolicy(greedy_rule(3)).fit(make_bandit_logs(3, n_actions=3))
    n, rounds = 200, []
    context = rng.normal(size=(n, 2))
    for x in context:
        proba = policy.predict_proba(x[None, :])[0]
        a = int((proba.cumsum() > rng.random_sample()).argmax())
        r = float(rng.random_sample() < 0.2 + 0.2 * a)
        policy.update(x[None, :], a, r, proba[a])
        rounds.append((a, r, proba[a]))
    a, r, p = (np.array(column) for column in zip(*rounds, strict=True))
    logs = BanditLogs(context, a, r, p, actions=np.arange(3))
    fitted = DRns(q=q, reward_model=0.3, random_state=global_random_seed).fit(logs)
    result = quiet(fitted, policy)
    assert result.accepted.tolist() == list(range(200))
    assert result.n_violations == 0
    assert result.value == pytest.approx(r.mean(), abs=1e-14)


def test_tiny_ratios_and_single_precision(global_random_seed):
    """The former have an effective size, the latter is no violation."""
    logs = make_bandit_logs(100, random_state=0)
    result = quiet(DRns(cmax=1e-300, random_state=0).fit(logs), EpsilonGreedy())
    assert result.diagnostics["effective_ratios"] == pytest.approx(100)
    rng = np.random.RandomState(global_random_seed)
    pi = rng.dirichlet(np.ones(3), 400)
    action = np.argmax(rng.random_sample(400)[:, None] < pi.cumsum(axis=1), axis=1)
    p = pi[np.arange(400), action]
    logs = BanditLogs(np.zeros((400, 1)), action, np.ones(400), p, actions=range(3))
    result = DRns(q=0, random_state=0).fit(logs).evaluate(pi.astype(np.float32))
    assert len(result.accepted) == 400
    assert result.bias_mass < 1e-6


def drifting_logs(n=1000):
    rng = np.random.RandomState(0)
    p = np.linspace(0.2, 0.8, n)
    action = (rng.random_sample(n) >= p).astype(int)
    reward = rng.randint(0, 2, n).astype(float)
    propensity = np.where(action == 0, p, 1 - p)
    return BanditLogs(rng.normal(size=(n, 2)), action, reward, propensity)


HALVES = [(np.arange(500, 1000), np.arange(500)), (np.arange(500), range(500, 1000))]


@pytest.mark.few_cases(2)
@pytest.mark.parametrize(
    "cv", [5, None, KFold(3), KFold(3, shuffle=True, random_state=0), HALVES]
)
def test_plain_folds_warn_where_the_logger_learned(cv):
    logs = drifting_logs()
    model = LogisticRegression()
    with pytest.warns(ModelErrorWarning, match="cv=TimeSeriesSplit") as caught:
        DRns(reward_model=model, cv=cv).fit(logs)
    assert caught[0].filename == __file__
    for ordered in (TimeSeriesSplit(), HALVES[1:]):
        DRns(reward_model=model, cv=ordered).fit(logs)
    DRns(reward_model=0.5, cv=cv).fit(logs)  # nothing is fitted
    DRns(cv=cv).fit(logs)  # the mean of earlier rounds
    DRns(reward_model=model, cv=cv).fit(make_bandit_logs(1000, random_state=0))


def test_a_fit_that_fails_leaves_the_one_before():
    logs = make_bandit_logs(200, random_state=0)
    fitted = DRns(reward_model=0.5, random_state=0).fit(logs)
    before = dict(vars(fitted))
    fitted.set_params(reward_model=LogisticRegression())
    with pytest.raises(ModelErrorWarning, match="cv=TimeSeriesSplit"):
        fitted.fit(drifting_logs())
    changed = {k for k, v in vars(fitted).items() if before.get(k) is not v}
    assert changed == {"reward_model"}
    fitted.fit(logs)
    assert fitted.reward_model_ is not before["reward_model_"]
    after = dict(vars(fitted))
    quiet(fitted, EpsilonGreedy())
    assert vars(fitted) == after


def test_parts_are_evaluated_on_their_own_and_averaged():
    logs, policy, _ = make_bandit_logs(1001, random_state=0, return_truth=True)
    pi = policy.predict_proba(logs.context)
    fitted = DRns(n_splits=4, reward_model=0.4, random_state=3).fit(logs)
    result = quiet(fitted, pi)
    bounds = np.linspace(0, 1001, 5).astype(int)
    values = []
    for start, stop in pairwise(bounds.tolist()):
        part = DRns(reward_model=0.4).fit(logs[start:stop])
        part.uniforms_ = fitted.uniforms_[start:stop]
        values.append(quiet(part, pi[start:stop]).value)
    np.testing.assert_allclose(result.part_values, values, rtol=1e-13)
    sums = np.add.reduceat(result.acceptance_ratios, bounds[:-1])
    assert result.value == pytest.approx(sums @ values / sums.sum(), rel=1e-13)
    terms = sums / sums.mean() * (np.array(values) - result.value)
    assert result.standard_error == pytest.approx(np.std(terms, ddof=1) / 2)
    assert result.degrees_of_freedom == 3
    assert abs(result.round_values.mean() - result.value) < 1e-14
    alike = DRns(n_splits=4, reward_model=0.4, normalize=True, random_state=3)
    result = quiet(alike.fit(logs), pi)
    assert result.value == pytest.approx(np.mean(values))
    assert result.standard_error == pytest.approx(np.std(values, ddof=1) / 2)


def test_parts_and_trajectories_of_a_learner():
    logs = make_bandit_logs(3000, random_state=0)
    with pytest.raises(ValueError, match=r"n_splits > 1 .* needs a horizon"):
        DRns(n_splits=3).fit(logs).evaluate(EpsilonGreedy())
    with pytest.raises(ValueError, match="n_splits=3001 parts need at least as many"):
        DRns(n_splits=3001, horizon=1).fit(logs).evaluate(EpsilonGreedy())
    fitted = DRns(n_splits=3, horizon=50, normalize=True, random_state=0).fit(logs)
    first = quiet(fitted, EpsilonGreedy(0.1))
    assert first.degrees_of_freedom == 2
    # values by day exist; for a learner they have no standard error
    with pytest.warns(SingleTrajectoryWarning, match="of rounds have no") as told:
        days = first.by(np.arange(3000) // 1000)
    assert told[0].filename == __file__
    assert [type(w) for w in days[0].warnings] == [SingleTrajectoryWarning]
    assert list(days) == [0, 1, 2]
    assert np.isnan(days[0].standard_error)


def test_a_difference_of_single_traces_is_about_mixtures():
    fitted = DRns(random_state=0).fit(make_bandit_logs(1000, random_state=0))
    first, second = (quiet(fitted, EpsilonGreedy(epsilon)) for epsilon in (0.1, 0.5))
    with pytest.warns(SingleTrajectoryWarning, match="mixtures of those along") as told:
        gap = first - second
    assert told[0].filename == __file__
    assert gap.warnings == (told[0].message,)
    assert gap.standard_error > 0
    uniform = quiet(fitted, UniformPolicy())
    with pytest.warns(SingleTrajectoryWarning, match="mixtures of those along"):
        uniform - first
    assert (uniform - uniform).warnings == ()


def test_a_short_log_gives_nan_with_the_length_that_was_reached():
    logs = make_bandit_logs(300, random_state=0)
    fitted = DRns(q=0.01, horizon=500, random_state=0).fit(logs)
    match = r"no trajectory of horizon=500.*T = \d+"
    with pytest.warns(HorizonWarning, match=match) as caught:
        result = fitted.evaluate(EpsilonGreedy())
    assert np.isnan(result.value)
    assert np.isnan(result.standard_error)
    with pytest.warns(FewEventsWarning, match="no information on the policy"):
        assert result.confidence_interval() == (0, 1)  # all that is possible
    assert result.n_trajectories == 0
    reached = [w.message.value for w in caught if w.category is HorizonWarning]
    assert reached == [len(result.accepted)] == [result.diagnostics["rounds_reached"]]
    # one trajectory has no standard error
    logs = make_bandit_logs(600, random_state=0)
    fitted = DRns(q=0.01, horizon=40, random_state=0).fit(logs)
    with pytest.warns(SingleTrajectoryWarning, match="Set a smaller horizon so"):
        result = fitted.evaluate(EpsilonGreedy())
    assert result.n_trajectories == 1
    assert np.isfinite(result.value)
    assert np.isnan(result.standard_error)
    other = quiet(fitted, EpsilonGreedy(0.5))
    with pytest.warns(SingleTrajectoryWarning, match="Subtract repeated_runs") as told:
        gap = result - other
    assert told[0].filename == __file__
    assert gap.warnings == (told[0].message,)
    assert np.isnan(gap.standard_error)


def test_the_error_of_a_single_trace_says_what_it_is_about():
    logs = make_bandit_logs(400, random_state=0)
    fitted = DRns(q=0.01, random_state=0).fit(logs)
    match = r"about the progressive-validation policy.*Set horizon so that"
    with pytest.warns(SingleTrajectoryWarning, match=match):
        result = fitted.evaluate(EpsilonGreedy())
    assert result.standard_error > 0
    assert [type(w) for w in result.warnings] == [SingleTrajectoryWarning]
    assert "standard_error_of='the progressive-validation policy'" in repr(result)
    with pytest.warns(SingleTrajectoryWarning):
        table = evaluate(EpsilonGreedy(), logs, evaluators=fitted)
    assert "SingleTrajectoryWarning" in repr(table)
    own = fitted.evaluate(UniformPolicy())  # does not learn: no warning
    assert "standard_error_of" not in repr(own)


@pytest.mark.filterwarnings("ignore:the value, .* lies outside the range")
def test_parts_without_a_value_are_left_out():
    logs = make_bandit_logs(600, random_state=0)
    order = np.argsort(logs.action != logs.actions[0], kind="stable")
    pi = np.tile(np.eye(logs.n_actions)[0], (600, 1))
    fitted = DRns(n_splits=3, horizon=20, cmax=0.5, random_state=0).fit(logs[order])
    with pytest.warns(HorizonWarning, match=r"of 3 parts gave no value"):
        result = fitted.evaluate(pi)
    assert np.isnan(result.part_values).any()
    assert result.value == pytest.approx(np.nanmean(result.part_values))


@pytest.mark.filterwarnings("ignore:the policy gives 100.00%")
def test_nothing_accepted_warns():
    rounds, pi = (np.zeros((40, 1)), [0] * 40), np.tile([0.0, 1.0], (40, 1))
    fitted = DRns(reward_model=0.3)
    fitted.fit(BanditLogs(*rounds, np.ones(40), np.ones(40), actions=[0, 1]))
    with (
        pytest.warns(LowOverlapWarning, match="all logged actions probability 0"),
        pytest.warns(SupportWarning),
    ):
        result = fitted.evaluate(pi)
    assert result.value == pytest.approx(0.3)  # the direct method is left
    assert result.diagnostics["n_accepted"] == 0
    always = AdaptiveFunctionPolicy(lambda X, history: np.tile([0.0, 1.0], (len(X), 1)))
    with (
        pytest.warns(LowOverlapWarning, match=r"\(T = 0\), so the value is that of"),
        pytest.warns(SingleTrajectoryWarning),
    ):
        fitted.evaluate(always)
    # a few acceptances
    logs = make_bandit_logs(200, random_state=1, logging_temperature=0.3)
    fitted = DRns(acceptance="worst_case", random_state=0).fit(logs)
    result = quiet(fitted, EpsilonGreedy())
    [warning] = [w for w in result.warnings if type(w) is LowOverlapWarning]
    assert re.match(r"only \d+ of 200 rounds", str(warning))
    assert warning.value < 30
    # acceptances are nothing to a policy that does not learn
    assert "accepted" not in "".join(map(str, quiet(fitted, UniformPolicy()).warnings))


def test_bias_mass_of_a_fixed_ratio():
    """mean(w 1[c w > 1]) - mean(1[c w > 1]) / c, for c = .5."""
    w = np.array([0.2, 1 / 3, 4, 0.2, 1 / 6, 1 / 6, 3, 1.5])
    p = np.array([0.5, 0.3, 0.2, 0.5, 0.6, 0.6, 0.2, 0.2])
    logs = BanditLogs(np.zeros((8, 1)), [0] * 8, np.ones(8), p, actions=[0, 1])
    pi, held_back = np.column_stack([w * p, 1 - w * p]), np.array([2, 1, *[0.0] * 6])
    in_groups = np.sqrt(3**2 / 8 - 0.375**2)
    groups = [0, 1, 0, 1, 2, 2, 0, 3]
    for group, error in ((None, held_back.std()), (groups, in_groups)):
        evaluator = DRns(q=1, cmax=0.5, reward_model=0.0)
        result = quiet(evaluator.fit(logs.replace(group=group)), pi)
        assert (result.acceptance_ratios == 0.5).all()
        assert result.bias_mass == pytest.approx(0.375)
        assert result.n_violations == 2
        found = result.diagnostics["bias_mass_error"]
        assert found == pytest.approx(error / np.sqrt(8))


def test_bad_parameters():
    logs = make_bandit_logs(50, random_state=0)
    for parameters, match in [
        ({"q": 1.5}, r"'q' parameter .* range \[0.0, 1.0\]"),
        ({"q": -0.1}, r"'q' parameter"),
        ({"cmax": 0}, r"'cmax' parameter .* \(0.0, inf\)"),
        ({"acceptance": "always"}, r"'acceptance' parameter .*worst_case"),
        *(({x: 0}, f"'{x}' parameter") for x in ("horizon", "n_splits", "c_init")),
        ({"excess": "drop"}, r"'excess' parameter .*weight"),
        ({"normalize": "mean"}, r"'normalize' parameter .*pooled"),
        ({"c_init": 0.5, "cmax": 0.4}, r"c_init=0.5 is above cmax=0.4"),
        ({"c_init": 0.5, "acceptance": "worst_case"}, r"does not use c_init=0.5"),
    ]:
        with pytest.raises(ValueError, match=match):
            DRns(**parameters).fit(logs)


def test_logs_it_cannot_use():
    logs, policy = make_bandit_logs(50, random_state=0), UniformPolicy()
    weight = np.linspace(1, 2, 50)
    fitted = DRns(random_state=0).fit(logs)
    for ask, match in [
        (lambda: DRns().fit(logs.replace(sample_weight=weight)), "no sample_weight"),
        (lambda: fitted.evaluate(policy, sample_weight=weight), "takes no sample_w"),
        (lambda: fitted.evaluate(np.full(50, 0.5)), "probabilities of all actions"),
    ]:
        with pytest.raises(ValueError, match=match):
            ask()
    equal = np.full(50, 2.0)  # they say nothing
    DRns().fit(logs.replace(sample_weight=equal))
    backwards = DRns(random_state=0).fit(logs.replace(timestamp=np.arange(50)[::-1]))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", LowOverlapWarning)
        same = fitted.evaluate(policy, sample_weight=equal)
        with pytest.warns(LogsWarning, match="timestamp decreases at row 1"):
            backwards.evaluate(policy)
    assert same.value == quiet(fitted, policy).value


def test_stationary_policy_is_close_to_doubly_robust(global_random_seed):
    """Where every ratio exceeds cmax, c never moves and DR-ns is DR, to rounding."""
    drawn = {"random_state": global_random_seed, "return_truth": True}
    logs, policy, _ = make_bandit_logs(500, **drawn)
    q_hat = np.random.RandomState(0).random_sample((500, logs.n_actions))
    ours = quiet(DRns(cmax=1e-9, reward_model=q_hat).fit(logs), policy)
    dr = quiet(DoublyRobust(reward_model=q_hat).fit(logs), policy)
    assert ours.value == pytest.approx(dr.value, abs=1e-13)
    assert ours.standard_error == pytest.approx(dr.standard_error, rel=1e-10)


def test_the_length_of_the_history_is_that_of_the_weights():
    """The fixed trace with q = .5: c is 1, then .625 from the fourth acceptance on."""
    by_length = {"q": 0.5, "normalize": False}
    once = trace(**by_length)
    weighed = trace(**by_length, excess="weight")
    c = HALF
    np.testing.assert_array_equal(once.accepted, weighed.accepted)
    np.testing.assert_array_equal(once.acceptance_ratios, c)
    history, pi = [], []
    policy = once.learned_policy
    for k in range(10):
        pi.append(spec_rule(history, None)[A[k]])
        if k in once.accepted:
            history.append(policy.history[len(history)])
    weight = np.maximum(1.0, c * pi / np.array(P))[once.accepted]
    assert (weight > 1).sum() == once.n_violations - np.sum(
        np.isin(np.flatnonzero(c * pi / np.array(P) > 1), once.accepted, invert=True)
    )
    stop = once.accepted[-1] + 1
    total = (c * ROW_VALUES)[:stop].sum()
    assert once.value == pytest.approx(total / len(once.accepted), rel=1e-13)
    assert weighed.value == pytest.approx(total / weight.sum(), rel=1e-13)
    assert weighed.round_values.mean() == pytest.approx(weighed.value, rel=1e-13)
