# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Results of sequential evaluators: of groups, of repeated runs, and their alarms."""

import warnings

import numpy as np
import pytest
from joblib import parallel_config
from scipy.stats import t as student
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline

from skope_ope import (
    IPS,
    BanditLogs,
    ConstantPolicy,
    DirectMethod,
    DRns,
    EpsilonGreedy,
    PropensityClipper,
    RejectionSampling,
    Replay,
    UniformPolicy,
    evaluate,
)
from skope_ope.datasets import make_bandit_logs
from skope_ope.evaluators import repeated_runs
from skope_ope.exceptions import (
    BiasWarning,
    FewGroupsWarning,
    LowOverlapWarning,
    OPEWarning,
    PropensityWarning,
)
from tests._quiet import quiet
from tests._worlds import uniform_logs
from tests.evaluators.sequential._worlds import two_armed_log

REJECTION = RejectionSampling()


def evaluated(evaluator, policy, logs):
    """Fit and evaluate, in silence."""
    return quiet(evaluator.fit(logs), policy)


def test_tables():
    """Policies share random numbers; the model and its folds reach DR-ns."""
    logs, policy, _ = uniform_logs(800, return_truth=True)
    table = evaluate({"a": policy, "b": policy}, logs, evaluators={"r": REJECTION})
    assert table["a", "r"].value == table["b", "r"].value
    shared, own = {"reward_model": LogisticRegression(), "cv": 3}, {"reward_model": 0.2}
    for given, alone in ((shared, {}), ({}, own)):
        evaluator = DRns(random_state=0, **alone)
        table = evaluate(policy, logs, evaluators=[evaluator], **given)
        expected = DRns(random_state=0, **given, **alone).fit(logs)
        assert table["DRns"].value == expected.score(policy)
    match = "EpsilonGreedy learns while it acts, and IPS evaluates .* Use DRns"
    with pytest.raises(TypeError, match=match):
        evaluate(EpsilonGreedy(), logs)
    with pytest.raises(TypeError, match=match):
        evaluate({"a": policy, "b": EpsilonGreedy()}, logs, evaluators=["IPS", "DRns"])
    with pytest.raises(ValueError, match=r"'DRNS' is unknown; .*Replay.*DRns"):
        evaluate(policy, logs, evaluators=["DRNS"])


N_USERS, PER_USER = 100, 10
SINGLE = [
    Replay(random_state=0),
    RejectionSampling(random_state=0),
    DRns(reward_model=0.5, random_state=0),
    DRns(reward_model=0.5, normalize=False, random_state=0),
]


def logs_of_users(seed=0, group=True):
    """Users whose rewards have a part of their own, rounds in random order."""
    rng = np.random.default_rng(seed)
    user = rng.permutation(np.repeat(np.arange(N_USERS), PER_USER))
    n = len(user)
    action = rng.integers(0, 2, n)
    reward = rng.random(n) < 0.1 + 0.8 * (rng.random(N_USERS) < 0.5)[user]
    rounds = np.zeros((n, 1)), action, reward, np.full(n, 0.5)
    return BanditLogs(*rounds, actions=[0, 1], group=user if group else None)


@pytest.mark.parametrize("evaluator", SINGLE, ids=str)
def test_errors_of_a_single_trace_are_those_of_users(evaluator):
    logs = logs_of_users()
    pi = np.tile([0.7, 0.3], (len(logs), 1))
    result = evaluated(evaluator, pi, logs)
    plain = evaluated(evaluator, pi, logs_of_users(group=False))
    assert result.value == plain.value
    n = len(logs)
    gap = result - evaluated(evaluator, np.tile([0.3, 0.7], (n, 1)), logs)
    for one in (result, gap):
        sums = np.bincount(logs.group, one.round_values - one.value)
        error = np.sqrt((sums**2).sum() / (n * (n - 1)))
        assert one.standard_error == pytest.approx(error, rel=1e-12)
    assert result.standard_error > 1.2 * plain.standard_error
    assert result.degrees_of_freedom == N_USERS - 1
    assert result.diagnostics["n_groups"] == N_USERS
    assert result.diagnostics["effective_groups"] == pytest.approx(N_USERS)
    effect = (result.standard_error / plain.standard_error) ** 2
    assert result.diagnostics["design_effect"] == pytest.approx(effect)
    # accepted rewards are no independent draws
    assert result.successes is None
    for half in result.by(logs.group < 50).values():
        assert half.diagnostics["n_groups"] == 50


@pytest.mark.theory
def test_intervals_cover_where_users_differ():
    """The value is 1/2; users were drawn, too."""
    covered = np.zeros(2)
    for seed in range(300):
        for k, group in enumerate((True, False)):
            evaluator = DRns(reward_model=0.5, random_state=seed)
            value = evaluated(evaluator, UniformPolicy(), logs_of_users(seed, group))
            low, high = value.confidence_interval()
            covered[k] += low <= 0.5 <= high
    assert 0.91 < covered[0] / 300 < 0.98
    assert covered[1] / 300 < 0.85


def test_several_trajectories_tell_by_their_own_spread():
    for evaluator, policy in (
        (DRns(horizon=50, reward_model=0.5, random_state=0), EpsilonGreedy()),
        (DRns(n_splits=4, reward_model=0.5, random_state=0), UniformPolicy()),
        (Replay(horizon=50, random_state=0), EpsilonGreedy()),
    ):
        result = evaluated(evaluator, policy, logs_of_users())
        plain = evaluated(evaluator, policy, logs_of_users(group=False))
        assert result.standard_error == plain.standard_error
        assert result.degrees_of_freedom == plain.degrees_of_freedom
        # nothing says that groups were reckoned with
        assert "n_groups" not in result.diagnostics
        assert not [w for w in result.warnings if isinstance(w, FewGroupsWarning)]


def test_users_count_in_the_test_of_the_mean_weight():
    """Groups of rounds that go along with the weights tell less of their mean."""
    logs = logs_of_users()
    wrong = logs.replace(propensity=np.full(len(logs), 0.35))
    side = wrong.replace(group=2 * (logs.group % 40) + logs.action_index)
    for evaluator in (RejectionSampling(random_state=0), DRns(random_state=0)):
        pi = np.tile([0.9, 0.1], (len(logs), 1))
        texts = [str(evaluated(evaluator, pi, one).warnings) for one in (wrong, side)]
        assert "mean importance weight" in texts[0]
        assert texts[0] != texts[1]


N_WORLDS, N_ROUNDS = 300, 300
FIRST = np.tile([0.5, 0.3, 0.2], (N_ROUNDS, 1))
SECOND = np.tile([0.1, 0.3, 0.6], (N_ROUNDS, 1))
EVALUATORS = [
    Replay(horizon=1),
    DRns(reward_model=0.5, acceptance="worst_case", normalize=False),
    Replay(horizon=3),
    Replay(),
    RejectionSampling(horizon=2),
    DRns(reward_model=0.5, horizon=3, normalize="pooled"),
    DRns(reward_model=0.5, horizon=10),
    DRns(reward_model=0.5, n_splits=5),
    DRns(reward_model=0.5, normalize=False),
]


@pytest.mark.theory
@pytest.mark.parametrize("evaluator", EVALUATORS, ids=str)
def test_errors_are_those_of_many_worlds(evaluator, global_random_seed):
    """Of a uniform logger, where every action wins half of the time."""
    found = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", OPEWarning)
        for k in range(N_WORLDS):
            rng = np.random.default_rng([global_random_seed, k])
            action, reward = rng.integers(0, 3, N_ROUNDS), rng.integers(0, 2, N_ROUNDS)
            rounds = np.zeros((N_ROUNDS, 1)), action, reward, np.full(N_ROUNDS, 1 / 3)
            one = clone(evaluator).set_params(random_state=k)
            one.fit(BanditLogs(*rounds, actions=[0, 1, 2]))
            first, second = one.evaluate(FIRST), one.evaluate(SECOND)
            spread = first.round_values.std(ddof=1) / np.sqrt(N_ROUNDS)
            gap = first - second
            values = first.value, first.standard_error, spread
            found.append([*values, gap.value, gap.standard_error])
            assert first.round_values.mean() == pytest.approx(first.value, abs=1e-12)
    found = np.array(found)
    spreads, told = found.std(axis=0, ddof=1), np.sqrt((found**2).mean(axis=0))
    # the deviation of so many worlds is known to 1 / sqrt(2 N_WORLDS) = 4%
    for error, value in ((1, 0), (2, 0), (4, 3)):
        assert 0.8 < told[error] / spreads[value] < 1.2


SEQUENTIAL = [RejectionSampling(random_state=0), DRns(random_state=0)]


def loud(result):
    return [w for w in result.warnings if type(w) is PropensityWarning]


@pytest.fixture
def logs(global_random_seed):
    return make_bandit_logs(3000, random_state=global_random_seed)


@pytest.mark.parametrize("evaluator", SEQUENTIAL, ids=str)
def test_wrong_propensities_warn_as_those_of_ips_do(evaluator, logs):
    wrong = logs.replace(propensity=np.sqrt(logs.propensity))
    static = {str(w) for w in loud(evaluated(IPS(), UniformPolicy(), wrong))}
    assert static
    ours = loud(evaluated(evaluator, UniformPolicy(), wrong))
    assert static <= {str(w) for w in ours}
    assert loud(evaluated(evaluator, EpsilonGreedy(), wrong))
    for policy in (UniformPolicy(), EpsilonGreedy()):  # right ones do not
        right = loud(evaluated(evaluator, policy, logs))
        assert not [w for w in right if "acceptance" not in str(w)]


def test_the_history_of_a_policy_that_always_does_the_same(logs):
    """Its weights are those of the stationary policy."""
    ours = evaluated(DRns(random_state=0), EpsilonGreedy(epsilon=1.0), logs)
    fixed = evaluated(DRns(random_state=0), UniformPolicy(), logs)
    static = evaluated(IPS(), UniformPolicy(), logs).effective_sample_size
    assert ours.effective_sample_size == pytest.approx(static)
    assert fixed.effective_sample_size == pytest.approx(static)
    assert "unsupported_mass" in fixed.diagnostics
    assert "unsupported_mass" not in ours.diagnostics


def test_a_constant_propensity_that_is_wrong(logs):
    wrong = logs.replace(propensity=np.full(3000, 1 / 3))
    skewed = wrong[(logs.action_index > 0) | (np.arange(3000) % 2 == 0)]
    for evaluator in (*SEQUENTIAL, Replay(random_state=0)):
        for policy in (EpsilonGreedy(), ConstantPolicy(logs.actions[0])):
            assert loud(evaluated(evaluator, policy, skewed))
    # actions that are never logged lower the mean weight of a history
    ones = np.ones(2000)
    logs = BanditLogs(np.zeros((2000, 1)), 0 * ones, ones, ones, actions=[0, 1])
    assert not loud(evaluated(DRns(random_state=0), EpsilonGreedy(epsilon=0.9), logs))


def alarms(result):
    return [w for w in result.warnings if isinstance(w, BiasWarning)]


def test_a_large_quantile_no_longer_gives_1_78_in_silence():
    """Rewards of 0 and 1, truth .61; a share of violations below q rang nothing."""
    logs, policy = two_armed_log(), EpsilonGreedy(0.5)
    setting = {"q": 0.2, "horizon": 20, "random_state": 0}
    evaluator = DRns(normalize=False, **setting).fit(logs)
    match = r"So 0\.6\d* ± .* missing .*Lower q or cmax, or pass normalize='pooled'"
    with (
        pytest.warns(LowOverlapWarning, match="outside the range of the rewards"),
        pytest.warns(BiasWarning, match=match) as told,
    ):
        result = evaluator.evaluate(policy)
    assert result.value > 1.4
    assert told[0].filename == __file__
    assert told[0].message.value == result.bias_mass > 0.5
    assert result.diagnostics["violation_share"] < 0.2
    # the ratio of sums is not inflated, but its history is as biased
    pooled = quiet(DRns(**setting).fit(logs), policy)
    assert pooled.value == pytest.approx(0.62, abs=0.08)
    (alarm,) = alarms(pooled)
    assert isinstance(alarm, PropensityWarning)  # what it was before
    assert isinstance(alarm, OPEWarning)
    assert "normalize" not in str(alarm)
    # a smaller quantile keeps nothing out
    setting["q"] = 0.01
    for normalize in (False, True, "pooled"):
        fitted = DRns(normalize=normalize, **setting).fit(logs)
        assert not alarms(quiet(fitted, policy))


def test_values_that_no_acceptance_biases_ring_nothing():
    """E[R] = V E[C] for a policy that does not learn, whatever c is."""
    logs, pi = two_armed_log(), np.tile([0.25, 0.75], (5000, 1))
    for setting in ({}, {"normalize": True}, {"excess": "weight", "normalize": False}):
        result = quiet(DRns(q=0.5, random_state=0, **setting).fit(logs), pi)
        assert result.bias_mass > 0.5
        assert not alarms(result)
        assert abs(result.value - 0.65) < 4 * result.standard_error
    by_length = quiet(DRns(q=0.5, normalize=False, random_state=0).fit(logs), pi)
    assert alarms(by_length)
    assert by_length.value > 1


def test_noise_rings_nothing(global_random_seed):
    """q = 0 keeps out a few rounds at the start: no bias mass, a large estimate."""
    large = rung = 0
    for k in range(60):
        rng = np.random.default_rng([global_random_seed, k])
        p = rng.dirichlet(np.full(4, 2.0)) * 0.9 + 0.025
        action, reward = rng.choice(4, 100, p=p), rng.random(100) < 0.5
        rounds = np.zeros((100, 1)), action, reward, p[action]
        evaluator = DRns(q=0, horizon=10, reward_model=0.5, random_state=k)
        logs = BanditLogs(*rounds, actions=range(4))
        result = evaluated(evaluator, EpsilonGreedy(0.3), logs)
        large += result.bias_mass > 0.1
        rung += bool(alarms(result))
    assert large > 5
    assert rung <= 1


def test_no_bias_rings_nothing():
    """A logger on its own log, the worst case, and a true bound."""
    logs = make_bandit_logs(500, logging_temperature=np.inf, random_state=0)
    for q in (0, 0.05, 0.5):
        result = quiet(DRns(q=q, random_state=0).fit(logs), UniformPolicy())
        assert result.bias_mass == result.diagnostics["bias_mass_error"] == 0
        assert not result.warnings
    for evaluator in (DRns(acceptance="worst_case"), RejectionSampling(cmax=0.1)):
        evaluator.set_params(random_state=0)
        result = evaluated(evaluator, EpsilonGreedy(0.5), two_armed_log())
        assert result.bias_mass == 0
        assert not alarms(result)


def test_segments_are_consecutive_and_disjoint():
    logs = uniform_logs(3001)
    runs = repeated_runs(Replay(), EpsilonGreedy(), logs, n_runs=7, random_state=0)
    seeds = np.random.RandomState(0).randint(2**31 - 1, size=7)
    bounds = np.linspace(0, 3001, 7 + 1).astype(int)
    values, lengths = [], []
    for i, seed in enumerate(seeds.tolist()):
        own = Replay(random_state=np.random.RandomState(seed).randint(2**31 - 1))
        result = quiet(own.fit(logs[bounds[i] : bounds[i + 1]]), EpsilonGreedy())
        values.append(result.value)
        lengths.append(len(result.accepted))
    np.testing.assert_array_equal(runs.values, values)
    np.testing.assert_array_equal(runs.n_accepted, lengths)
    assert runs.mean == pytest.approx(np.mean(values))
    assert runs.standard_deviation == pytest.approx(np.std(values, ddof=1))
    half = student.ppf(0.95, 6) * runs.standard_deviation / np.sqrt(7)
    low, high = runs.confidence_interval(0.9)
    assert (low, high) == pytest.approx((runs.mean - half, runs.mean + half))
    assert "how='segments'" in repr(runs)


def test_runs_on_the_same_segments_are_subtracted_in_pairs():
    logs = uniform_logs(3000)
    first = repeated_runs(Replay(), EpsilonGreedy(), logs, random_state=0)
    second = repeated_runs(Replay(), UniformPolicy(), logs, random_state=0)
    gap = first - second
    np.testing.assert_array_equal(gap.values, first.values - second.values)
    assert gap.mean == pytest.approx(first.mean - second.mean)
    low, high = gap.confidence_interval()
    assert low < gap.mean < high
    policy, elsewhere, how = UniformPolicy(), uniform_logs(3000), {"how": "subsamples"}
    for rounds, given in ((logs, {"n_runs": 5}), (logs, how), (elsewhere, {})):
        other = repeated_runs(Replay(), policy, rounds, **given, random_state=0)
        with pytest.raises(ValueError, match="a difference needs pairs of runs"):
            first - other
    with pytest.raises(TypeError):
        first - 1


def test_subsamples_keep_the_order_and_have_no_interval():
    logs = uniform_logs(3000)

    class Ordered(UniformPolicy):
        """Notices a round that comes before an earlier one."""

        def _proba(self, X, available):
            assert (np.diff(np.asarray(X)[:, 0]) > 0).all()
            return super()._proba(X, available)

    context = np.arange(3000.0)[:, None]
    logs = BanditLogs(context, logs.action, logs.reward, logs.propensity)
    about = {"how": "subsamples", "share": 0.3, "n_runs": 20, "random_state": 0}
    runs = repeated_runs(Replay(), Ordered(), logs, **about)
    # the share of rounds, and their share that is accepted
    expected = 3000 * 0.3 / logs.n_actions
    assert abs(runs.n_accepted.mean() - expected) < 4 * np.sqrt(expected / 20)
    assert len(set(runs.values.tolist())) > 15
    with pytest.raises(ValueError, match=r"share rounds.*Use how='segments'"):
        runs.confidence_interval()


@pytest.mark.parametrize("how", ["segments", "subsamples"])
def test_runs_do_not_depend_on_the_number_of_jobs(how):
    logs = uniform_logs(1500)
    asked, setting = (DRns(), EpsilonGreedy(), logs), {"n_runs": 4, "how": how}
    alone = repeated_runs(*asked, **setting, random_state=3)
    with parallel_config(backend="threading"):
        two = repeated_runs(*asked, **setting, random_state=3, n_jobs=2)
    np.testing.assert_array_equal(alone.values, two.values)
    np.testing.assert_array_equal(alone.n_accepted, two.n_accepted)
    other = repeated_runs(*asked, **setting, random_state=4)
    assert alone.values.tolist() != other.values.tolist()


@pytest.mark.theory
@pytest.mark.filterwarnings("ignore:only 2. of 120")
def test_the_interval_covers_the_value_of_a_learner(global_random_seed):
    """Segments of 120 rounds of a learner, against 500 fresh ones."""
    rng = np.random.RandomState(global_random_seed)
    q = np.array([0.3, 0.5, 0.7])

    def draw(n):
        a = rng.randint(0, 3, n)
        r = (rng.random_sample(n) < q[a]).astype(float)
        return BanditLogs(np.empty((n, 0)), a, r, np.full(n, 1 / 3))

    policy = EpsilonGreedy(epsilon=0.3)
    truth = repeated_runs(Replay(), policy, draw(60_000), n_runs=500, random_state=0)
    covered = 0
    for _ in range(60):
        runs = repeated_runs(Replay(), policy, draw(960), n_runs=8, random_state=rng)
        low, high = runs.confidence_interval(0.9)
        covered += low < truth.mean < high
    assert covered / 60 > 0.9 - 4 * np.sqrt(0.09 / 60)


def test_runs_without_a_value_are_left_out_and_said():
    logs = uniform_logs(300)
    about = {"n_runs": 5, "random_state": 1}
    with pytest.warns(OPEWarning, match=r"\(in \d of 5 runs\)"):
        runs = repeated_runs(Replay(horizon=21), UniformPolicy(), logs, **about)
    lost = np.isnan(runs.values)
    assert 0 < lost.sum() < 5
    assert runs.mean == pytest.approx(np.nanmean(runs.values))
    assert runs.standard_deviation == pytest.approx(np.nanstd(runs.values, ddof=1))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", OPEWarning)
        none = repeated_runs(Replay(horizon=500), UniformPolicy(), logs, random_state=0)
    assert np.isnan([none.mean, *none.confidence_interval()]).all()
    # warnings come once
    logs = uniform_logs(600)
    with pytest.warns(LowOverlapWarning) as caught:
        repeated_runs(Replay(), EpsilonGreedy(), logs, n_runs=20, random_state=0)
    assert len(caught) == 1  # nothing about the missing standard error of one run
    assert "(in 20 of 20 runs)" in str(caught[0].message)
    assert caught[0].message.value < 30


def test_other_evaluators_and_pipelines():
    logs = uniform_logs(900)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", OPEWarning)
        runs = repeated_runs(DirectMethod(), EpsilonGreedy(), logs, n_runs=3)
        assert np.isnan(runs.n_accepted).all()
        assert runs.standard_deviation > 0
        steps = make_pipeline(PropensityClipper(low=0.01), DRns())
        about = {"n_runs": 3, "random_state": 0}
        piped = repeated_runs(steps, EpsilonGreedy(), logs, **about)
        plain = repeated_runs(DRns(), EpsilonGreedy(), logs, **about)
    np.testing.assert_array_equal(piped.n_accepted > 0, plain.n_accepted > 0)
    pi = np.full((900, logs.n_actions), 1 / logs.n_actions)
    named = repeated_runs(DRns(), "pi", logs.with_columns(pi=pi), **about)
    assert np.isfinite(named.values).all()


def test_runs_that_cannot_be():
    logs = uniform_logs(50)
    with pytest.raises(TypeError, match="an array fits the rows of the whole log"):
        repeated_runs(Replay(), np.full((50, 3), 1 / 3), logs)
    tiny = {"how": "subsamples", "share": 1e-9, "n_runs": 2}
    for parameters, match in [
        ({"n_runs": 51}, "n_runs=51 runs on 50 rounds"),
        (tiny, "is empty"),
        ({"n_runs": 1}, "'n_runs' parameter"),
        ({"how": "bootstrap"}, "'how' parameter .*segments"),
        ({"share": 0.0}, "'share' parameter"),
        ({"logs": np.zeros(3)}, "'logs' parameter"),
    ]:
        with pytest.raises(ValueError, match=match):
            repeated_runs(Replay(), UniformPolicy(), **{"logs": logs, **parameters})
    runs = repeated_runs(DRns(), UniformPolicy(), uniform_logs(600), n_runs=2)
    with pytest.raises(ValueError, match="level must lie in"):
        runs.confidence_interval(1.5)
