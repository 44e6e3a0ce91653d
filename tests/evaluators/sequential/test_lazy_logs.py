# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""The usual calls, on files that are read part by part."""

import pickle
import re
import tracemalloc
import warnings
from copy import deepcopy
from functools import partial

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.model_selection import TimeSeriesSplit
from sklearn.pipeline import make_pipeline

from skope_ope import (
    IPS,
    UCB1,
    BanditLogs,
    ClassifierPolicy,
    DRns,
    EpsilonGreedy,
    FunctionPolicy,
    LinUCB,
    PropensityEstimator,
    RejectionSampling,
    Replay,
    evaluate,
    scan_logs,
)
from skope_ope.datasets import make_bandit_logs
from skope_ope.evaluators import repeated_runs
from skope_ope.exceptions import ModelErrorWarning, OPEWarning
from skope_ope.logs import HashKFold
from tests._quiet import quiet
from tests.evaluators.sequential._worlds import written

pytestmark = pytest.mark.frames
N = 900


@pytest.fixture
def logs(global_random_seed):
    rng = np.random.default_rng(global_random_seed)
    logs = make_bandit_logs(N, random_state=global_random_seed)
    pi = rng.dirichlet(np.full(logs.n_actions, 0.5), N)
    return logs.with_columns(pi=pi, q_hat=rng.random((N, logs.n_actions)))


@pytest.fixture
def lazy(logs, tmp_path):
    return written(logs, tmp_path, (0, 250, 251, 700, N))


FIELDS = (
    *("value", "standard_error", "degrees_of_freedom", "effective_sample_size"),
    *("trajectory_values", "trajectory_shares", "trajectory_stops", "part_values"),
    *("bias_mass", "reward_bounds", "accepted", "n_violations"),
)


def assert_same(found, expected):
    """All that a value says, but for what needs all rounds."""
    close = {"rtol": 1e-12, "atol": 1e-12}
    for name in FIELDS:
        one, other = getattr(found, name), getattr(expected, name)
        np.testing.assert_allclose(one, other, err_msg=name, **close)
    for name in "n_rounds", "n_trajectories", "successes", "horizon", "leaves_bias_out":
        assert getattr(found, name) == getattr(expected, name), name
    assert list(found.diagnostics) == list(expected.diagnostics)
    for name, one in found.diagnostics.items():
        if not isinstance(one, str):
            other = expected.diagnostics[name]
            np.testing.assert_allclose(one, other, err_msg=name, **close)
    assert [str(one) for one in found.warnings] == [str(o) for o in expected.warnings]


def quietly(call, *given, **named):
    """Call in silence."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", OPEWarning)
        return call(*given, **named)


def values_of(evaluator, policy, lazy, logs):
    """What files and memory give, in silence."""
    return [quiet(clone(evaluator).fit(one), policy) for one in (lazy, logs)]


def uniform_logs(n=600):
    """Rounds of a uniform logger, with a policy as a column."""
    logs = make_bandit_logs(n, logging_temperature=np.inf, random_state=0)
    pi = np.random.default_rng(0).dirichlet(np.full(logs.n_actions, 0.5), n)
    return logs.with_columns(pi=pi)


EVALUATORS = {
    "rs": RejectionSampling(cmax=0.1),
    "mean": DRns(cv=HashKFold(3)),
    "before": DRns(cv=TimeSeriesSplit(), horizon=10),
    "column": DRns(reward_model="q_hat", n_splits=2, horizon=4),
    "model": DRns(reward_model=LinearRegression(), cv=HashKFold(3)),
    "target": RejectionSampling(cmax="target"),
    "blocks": DRns(reward_model=0.5, normalize=False, excess="weight"),
}
IN_GROUPS = [
    DRns(reward_model="q_hat", horizon=3, n_splits=3),
    DRns(reward_model="q_hat", horizon=4, normalize=True),
    DRns(reward_model="q_hat", normalize=False, horizon=3, excess="weight"),
    RejectionSampling(cmax=0.1, horizon=5),
]


@pytest.mark.parametrize("evaluator", IN_GROUPS, ids=repr)
def test_groups_over_several_files(evaluator, tmp_path):
    rng = np.random.default_rng(0)
    logs = make_bandit_logs(250, n_actions=4, random_state=0)
    logs = logs.replace(group=rng.integers(0, 25, 250)).with_columns(
        pi=rng.dirichlet(np.full(4, 0.5), 250), q_hat=rng.random((250, 4))
    )
    lazy = written(logs, tmp_path, (0, 60, 61, 170, 250))
    evaluator = clone(evaluator).set_params(random_state=0)
    assert_same(*values_of(evaluator, "pi", lazy, logs))


def test_gains_that_are_not_known_say_what_to_do(lazy):
    policies = {"fixed": "pi", "learns": EpsilonGreedy()}
    walks = {"d": DRns(cv=HashKFold(3)), "rs": RejectionSampling(cmax=0.1)}
    table = quietly(evaluate, policies, lazy, evaluators=walks)
    sums = quietly(evaluate, "pi", lazy, evaluators=["IPS"])["IPS"]
    assert "do not learn while they act" in table.reason
    for name in walks:
        for one, other in [("fixed", "learns"), ("learns", "fixed")]:
            with pytest.raises(ValueError, match=r"over .* repeated_runs of both"):
                table[one, name] - table[other, name]
    with pytest.raises(ValueError, match="gain of IPS over DRns is not known"):
        sums - table["fixed", "d"]
    # weights beside lazy logs
    weight = np.ones(N)
    with pytest.raises(TypeError, match="sample_weight='weight'"):
        evaluate("pi", lazy, evaluators=["DRns"], sample_weight=weight)
    fitted = DRns(reward_model="q_hat").fit(lazy)
    for ask in (fitted.evaluate, fitted.score):
        with pytest.raises(TypeError, match="sample_weight='weight'"):
            ask("pi", sample_weight=weight)


@pytest.mark.few_cases(1)
@pytest.mark.parametrize("state", [0, None, "instance"])
def test_fit_evaluate_and_score(state, logs, lazy):
    """The uniform numbers are those of the fit, whatever their seed."""
    for evaluator in EVALUATORS.values():
        mine, other = (deepcopy(evaluator) for _ in range(2))
        for one in (mine, other):
            seed = np.random.RandomState(3) if state == "instance" else state
            one.set_params(random_state=seed)
        found = quietly(lambda mine=mine: mine.fit(lazy).evaluate("pi"))
        if evaluator is EVALUATORS["rs"]:
            assert quietly(mine.score, "pi") == found.value
        if state is not None:
            other.fit(logs)
            assert mine.seed_ == other.seed_
            assert_same(found, quiet(other, "pi"))
    memory = RejectionSampling(cmax=0.1, random_state=0).fit(logs)
    # other logs than those of fit
    assert_same(*(quiet(memory, "pi", one) for one in (lazy, logs[:])))


def test_a_model_of_later_rounds_of_a_learner(logs, tmp_path, global_random_seed):
    """In memory the fit warns of it, here the value."""
    rng = np.random.default_rng(global_random_seed)
    share = np.linspace(0.1, 0.9, N)
    action = (rng.random(N) < share).astype(int)
    p = np.where(action == 1, share, 1 - share)
    drifting = BanditLogs(logs.context, action, logs.reward, p)
    lazy = written(drifting, tmp_path, (0, 300, N))
    model = DRns(reward_model=LinearRegression(), cv=HashKFold(3), random_state=0)
    with pytest.warns(ModelErrorWarning, match="change over time"):
        model.fit(drifting)
    for evaluator, warned in ((model, True), (DRns(random_state=0), False)):
        found = quiet(deepcopy(evaluator).fit(lazy), EpsilonGreedy())
        texts = [one for one in found.warnings if isinstance(one, ModelErrorWarning)]
        assert len(texts) == warned


@pytest.mark.thorough
@pytest.mark.parametrize("how", ["segments", "subsamples"])
def test_repeated_runs(how, logs, lazy):
    walks = DRns(cv=HashKFold(3), q=0.2), DRns(reward_model="q_hat", horizon=3)
    for evaluator in (RejectionSampling(cmax=0.2), *walks):
        for policy in ("pi", LinUCB()):
            about = {"n_runs": 4, "how": how, "random_state": 0}
            runs = partial(repeated_runs, evaluator, policy, **about)
            found, expected = quietly(runs, lazy), quietly(runs, logs)
            np.testing.assert_allclose(found.values, expected.values, rtol=1e-12)
            np.testing.assert_array_equal(found.n_accepted, expected.n_accepted)
    if how == "segments":
        assert (found - found).mean == 0


def test_repeated_runs_refuse(logs, lazy):
    model = DRns(reward_model=LinearRegression())
    with pytest.raises(ValueError, match="runs on lazy logs fit no reward model"):
        repeated_runs(model, "pi", lazy)
    for other in (IPS(), make_pipeline(PropensityEstimator(), RejectionSampling())):
        with pytest.raises(TypeError, match="Pass Replay, RejectionSampling or DRns"):
            repeated_runs(other, "pi", lazy)
    with pytest.raises(ValueError, match="n_runs=901 runs on 900 rounds"):
        repeated_runs(RejectionSampling(), "pi", lazy, n_runs=N + 1)


def test_a_lazy_frame_has_no_order(logs):
    polars = pytest.importorskip("polars")
    frame = polars.DataFrame({"a": [0, 1], "r": [0.0, 1.0], "p": [0.5, 0.5]}).lazy()
    lazy = scan_logs(frame, action="a", reward="r", propensity="p")
    with pytest.raises(TypeError, match=r"no order.*parquet"):
        repeated_runs(Replay(), EpsilonGreedy(), lazy)
    with pytest.raises(TypeError, match=r"no order.*parquet"):
        evaluate(EpsilonGreedy(), lazy, evaluators=["Replay"])


def test_errors_name_file_and_row_group(logs, lazy, tmp_path):
    fitted = RejectionSampling(cmax=0.1).fit(lazy)
    (tmp_path / "part2.parquet").unlink()
    with pytest.raises(FileNotFoundError, match=r"part2.parquet, row group 0"):
        quiet(fitted, "pi")
    (tmp_path / "fewer").mkdir()
    written(logs, tmp_path / "fewer", (0, 50, N))
    (tmp_path / "fewer" / "part0.parquet").replace(tmp_path / "part0.parquet")
    with pytest.raises(ValueError, match=r"part0.*changed since it was scanned"):
        quiet(fitted, "pi")


def test_what_was_learned_from_files(tmp_path):
    logs = uniform_logs()
    lazy = written(logs, tmp_path, (0, 250, 600))
    for evaluator in (
        Replay(random_state=0),
        Replay(horizon=10_000, random_state=0),
        DRns(reward_model=0.5, horizon=9, n_splits=2, random_state=0),
    ):
        for policy in (LinUCB(), EpsilonGreedy()):
            found, expected = values_of(evaluator, policy, lazy, logs)
            mine, other, again = (
                one.learned_policy.predict_proba(logs.context)
                for one in (found, expected, pickle.loads(pickle.dumps(found)))
            )
            np.testing.assert_allclose([mine, again], [other, other], rtol=1e-9)


def test_bounds_running_values_and_far_rewards_of_files(tmp_path):
    logs = uniform_logs(3000)
    lazy = written(logs, tmp_path, (0, 2500, 3000))
    bound = {"n_actions": logs.n_actions, "value_bound": 1.0, "delta": 0.5}
    found, expected = values_of(Replay(random_state=0), "pi", lazy, logs)
    assert found.deviation_bound(**bound) == expected.deviation_bound(**bound)
    values = values_of(Replay(horizon=5, random_state=0), "pi", lazy, logs)
    for one, other in zip(*(v.running_values() for v in values), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-12)
    logs = make_bandit_logs(600, random_state=0)
    rounds = logs.context, logs.action, logs.reward + 1e6, logs.propensity
    logs = BanditLogs(*rounds).with_columns(pi=np.full((600, logs.n_actions), 1 / 3))
    lazy = written(logs, tmp_path, (0, 300, 600))
    for evaluator in (RejectionSampling(), DRns(reward_model=1e6)):
        evaluator.set_params(random_state=0)
        found, expected = values_of(evaluator, "pi", lazy, logs)
        np.testing.assert_allclose(found.value, expected.value, rtol=1e-14)
        error = expected.standard_error
        np.testing.assert_allclose(found.standard_error, error, rtol=1e-9)


def ranged_logs(n, seed):
    """Rounds with rewards of a known range, a policy and a model as columns."""
    rng, one = np.random.default_rng(seed), make_bandit_logs(n, random_state=seed)
    reward = np.clip(0.4 * one.reward + 0.6 * rng.random(n), 0, 1)
    rounds = one.context, one.action, reward, one.propensity
    pi = rng.dirichlet(np.full(one.n_actions, 0.5), n)
    q_hat = rng.random((n, one.n_actions))
    return BanditLogs(*rounds, reward_range=(0, 1)).with_columns(pi=pi, q_hat=q_hat)


def assert_as_sure(found, expected):
    """Intervals, what is said of them, and what follows."""
    for method in "auto", "student":
        told = []
        for one in found, expected:
            with warnings.catch_warnings(record=True) as warned:
                warnings.simplefilter("always")
                told.append(one.confidence_interval(0.95, method))
            told.append([str(w.message) for w in warned])
        np.testing.assert_allclose(told[0], told[2], rtol=1e-9, atol=1e-12)
        assert told[1] == told[3]
    assert found.verdict.answer == expected.verdict.answer


SURE = [
    DRns(reward_model="q_hat"),
    DRns(reward_model="q_hat", q=0),
    DRns(reward_model="q_hat", normalize=False),
    DRns(reward_model=0.5, horizon=5, normalize=True),
    DRns(reward_model=0.5, n_splits=3),
    DRns(reward_model="q_hat", horizon=300),
    RejectionSampling(),
    RejectionSampling(cmax=0.2, horizon=4),
    RejectionSampling(cmax=0.2, horizon=90),
]


@pytest.mark.parametrize("evaluator", SURE, ids=repr)
def test_files_are_as_sure_as_memory(evaluator, tmp_path, global_random_seed):
    logs = ranged_logs(400, global_random_seed)
    lazy = written(logs, tmp_path, (0, 90, 91, 250, 400))
    evaluator = clone(evaluator).set_params(random_state=0)
    policies = ("pi",) if evaluator.get_params().get("n_splits", 1) > 1 else ()
    for policy in policies or ("pi", EpsilonGreedy()):
        assert_as_sure(*values_of(evaluator, policy, lazy, logs))


@pytest.mark.thorough
@pytest.mark.parametrize("normalize", ["pooled", False])
def test_many_rounds_near_the_value(normalize, tmp_path):
    """More than are kept: those that are further from the value are summed."""
    logs = ranged_logs(150_000, 0)
    lazy = written(logs, tmp_path, (0, 100, 80_000, 150_000), size=50_000)
    evaluator = DRns(reward_model="q_hat", normalize=normalize, random_state=0)
    assert_as_sure(*values_of(evaluator, "pi", lazy, logs))


def test_warnings_of_single_rounds(logs, tmp_path):
    """Weights beyond floats, times that run backwards, rounds learned from."""
    time, p = np.arange(N), logs.propensity.copy()
    time[400:] -= 10
    p[400] = 1e-80
    policy = ClassifierPolicy(LogisticRegression()).fit(logs[:150])
    drns = DRns(reward_model=0.5, random_state=0)
    rejection = RejectionSampling(cmax=0.1, random_state=0)
    backwards = logs.replace(timestamp=time)
    tiny = logs.replace(propensity=p, logging_proba=None)
    for evaluator, one, rounds, match in (
        (drns, "pi", tiny, "Row 400 .*too large for a float"),
        (rejection, "pi", backwards, "timestamp decreases at row 400"),
        (rejection, policy, logs, "learned from 16.7% of these rounds"),
    ):
        lazy = written(rounds, tmp_path, (0, 400, N))
        told = [
            [text for text in map(str, value.warnings) if re.search(match, text)]
            for value in values_of(evaluator, one, lazy, rounds)
        ]
        assert len(told[0]) == 1 and told[0] == told[1]
        assert isinstance(lazy.partitions[0].read(), BanditLogs)


def test_what_is_dropped_says_so(tmp_path):
    lazy = written(uniform_logs(), tmp_path, (0, 300, 600))
    found = quiet(DRns(reward_model=0.5, random_state=0).fit(lazy), UCB1())
    with pytest.raises(ValueError, match="round_values needs the weight"):
        _ = found.round_values
    with pytest.raises(ValueError, match="acceptance_ratios needs the rounds"):
        _ = found.acceptance_ratios
    with pytest.raises(AttributeError, match="progressive_policy_ needs the rounds"):
        _ = found.progressive_policy_
    with pytest.raises(ValueError, match="set a horizon"):
        found.running_values()


def test_refusals(logs, lazy):
    lately, target = DRns(cv=TimeSeriesSplit()), RejectionSampling(cmax="target")
    many = DRns(reward_model=0.5, n_splits=901)
    for evaluator, given, error, message in (
        (Replay(), ["pi"], ValueError, r"Replay needs a uniform logger"),
        (RejectionSampling(), [np.full((N, 3), 1 / 3)], TypeError, "is an array"),
        (many, ["pi"], ValueError, "n_splits=901 parts"),
        (target, [UCB1()], ValueError, "cmax='target' needs the policy's"),
        (lately, ["pi", logs], ValueError, "fitted on lazy logs"),
    ):
        with pytest.raises(error, match=message):
            evaluator.fit(lazy).evaluate(*given)
    with pytest.raises(ValueError, match=r"they have \['pi', 'q_hat'\]"):
        evaluate("pi", lazy, evaluators={"d": DRns(reward_model="none")})


def test_refusals_of_some_logs(logs, tmp_path):
    grouped = logs.replace(group=np.arange(N) // 30)
    lazy = written(grouped, tmp_path, (0, 300, N))
    with pytest.raises(ValueError, match="With groups this mean is not known"):
        DRns(cv=TimeSeriesSplit()).fit(lazy).evaluate("pi")
    # weights that are alike within the files, but not between them
    weighted = logs.replace(sample_weight=np.repeat([1.0, 2.0], N // 2))
    lazy = written(weighted, tmp_path, (0, N // 2, N))
    with pytest.raises(ValueError, match="takes no sample_weight"):
        RejectionSampling().fit(lazy).evaluate("pi")


@pytest.mark.thorough
def test_a_long_walk_holds_few_rounds(tmp_path):
    pa, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    path, rng = tmp_path / "log.parquet", np.random.default_rng(0)
    names = [f"x{k}" for k in range(16)]
    table = pa.table(
        {"a": rng.integers(0, 2, 20_000), "r": rng.random(20_000)}
        | {name: rng.normal(size=20_000) for name in names}
    )
    with parquet.ParquetWriter(path, table.schema) as file:
        for _ in range(20):  # 54 MB
            file.write_table(table)
    roles = {"action": "a", "reward": "r", "context": names, "actions": [0, 1]}
    lazy = scan_logs(path, **roles, propensity=0.5)
    policy = FunctionPolicy(lambda X: np.full((len(X), 2), 0.5)).fit(lazy)
    tracemalloc.start()
    try:
        value = evaluate(policy, lazy, evaluators=["Replay"], random_state=0)["Replay"]
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert value.n_rounds == 400_000
    assert peak < 20e6
