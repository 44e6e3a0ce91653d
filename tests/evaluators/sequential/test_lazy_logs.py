# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""The usual calls, on files that are read part by part."""

import tracemalloc
import warnings
from copy import deepcopy
from itertools import pairwise

import numpy as np
import pytest
from sklearn.linear_model import LinearRegression
from sklearn.model_selection import TimeSeriesSplit
from sklearn.pipeline import make_pipeline

from skope_ope import (
    IPS,
    BanditLogs,
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


def written(logs, folder, bounds, **about):
    """Write the rounds of several files, and scan these."""
    pa = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    context = [f"x{j}" for j in range(logs.n_features)]
    columns = dict(zip(context, np.asarray(logs.context).T, strict=True))
    columns |= {"a": logs.action, "r": logs.reward, "p": logs.propensity}
    for name, values in logs.columns.items():
        columns[name] = list(values)
    if logs.timestamp is not None:
        columns["t"], about["timestamp"] = logs.timestamp, "t"
    for number, (low, high) in enumerate(pairwise(bounds)):
        table = pa.table({name: values[low:high] for name, values in columns.items()})
        parquet.write_table(table, folder / f"part{number}.parquet", row_group_size=200)
    return scan_logs(
        folder,
        action="a",
        reward="r",
        propensity="p",
        context=context,
        columns=list(logs.columns) or None,
        actions=logs.actions,
        **about,
    )


def assert_same(found, expected):
    np.testing.assert_array_equal(found.accepted, expected.accepted)
    for name in "value", "standard_error", "effective_sample_size":
        one, other = getattr(found, name), getattr(expected, name)
        np.testing.assert_allclose(one, other, rtol=1e-12, err_msg=name)
    np.testing.assert_array_equal(found.trajectory_stops, expected.trajectory_stops)


EVALUATORS = {
    "rs": RejectionSampling(cmax=0.1),
    "mean": DRns(cv=HashKFold(3)),
    "before": DRns(cv=TimeSeriesSplit(), horizon=10),
    "column": DRns(reward_model="q_hat", n_splits=2, horizon=4),
    "model": DRns(reward_model=LinearRegression(), cv=HashKFold(3)),
}


@pytest.mark.thorough
def test_one_table_with_evaluators_of_sums(logs, lazy):
    policies = {"fixed": "pi", "learns": EpsilonGreedy()}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", OPEWarning)
        found = evaluate(policies, lazy, evaluators=EVALUATORS, random_state=0)
        expected = evaluate(policies, logs, evaluators=EVALUATORS, random_state=0)
        both = evaluate("pi", lazy, evaluators={"ips": IPS(), **EVALUATORS})
        ips = evaluate("pi", logs, evaluators=["IPS"])
    for key, value in expected.items():
        assert_same(found[key], value)
    gain = found["fixed", "column"] - found["learns", "column"]
    paired = expected["fixed", "column"] - expected["learns", "column"]
    np.testing.assert_allclose(gain.value, paired.value, rtol=1e-9)
    np.testing.assert_allclose(gain.standard_error, paired.standard_error, rtol=1e-9)
    assert list(both) == ["ips", *EVALUATORS]
    np.testing.assert_allclose(both["ips"].value, ips["IPS"].value, rtol=1e-12)


def test_gains_that_are_not_known_say_what_to_do(lazy):
    policies = {"fixed": "pi", "learns": EpsilonGreedy()}
    walks = {"d": DRns(cv=HashKFold(3)), "rs": RejectionSampling(cmax=0.1)}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", OPEWarning)
        table = evaluate(policies, lazy, evaluators=walks)
        sums = evaluate("pi", lazy, evaluators=["IPS"])["IPS"]
    assert "do not learn while they act" in table.reason
    for name in walks:
        for one, other in [("fixed", "learns"), ("learns", "fixed")]:
            with pytest.raises(ValueError, match=r"over .* repeated_runs of both"):
                table[one, name] - table[other, name]
    with pytest.raises(ValueError, match="gain of IPS over DRns is not known"):
        sums - table["fixed", "d"]


def test_weights_beside_lazy_logs_are_refused(lazy):
    weight = np.ones(N)
    with pytest.raises(TypeError, match="sample_weight='weight'"):
        evaluate("pi", lazy, evaluators=["DRns"], sample_weight=weight)
    fitted = DRns(reward_model="q_hat").fit(lazy)
    for ask in (fitted.evaluate, fitted.score):
        with pytest.raises(TypeError, match="sample_weight='weight'"):
            ask("pi", sample_weight=weight)


def test_a_missing_model_is_told_all_columns(lazy):
    with pytest.raises(ValueError, match=r"they have \['pi', 'q_hat'\]"):
        evaluate("pi", lazy, evaluators={"d": DRns(reward_model="none")})


@pytest.mark.few_cases(1)
@pytest.mark.parametrize("state", [0, None, "instance"])
def test_fit_evaluate_and_score(state, logs, lazy):
    """The uniform numbers are those of the fit, whatever their seed."""
    for evaluator in EVALUATORS.values():
        mine, other = (deepcopy(evaluator) for _ in range(2))
        if state == "instance":
            for one in (mine, other):
                one.set_params(random_state=np.random.RandomState(3))
        else:
            mine.set_params(random_state=state)
            other.set_params(random_state=state)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", OPEWarning)
            mine.fit(lazy)
            found = mine.evaluate("pi")
            assert mine.score("pi") == found.value
        if state is not None:
            other.fit(logs)
            assert mine.seed_ == other.seed_
            assert_same(found, quiet(other, "pi"))
    memory = RejectionSampling(cmax=0.1, random_state=0).fit(logs)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", OPEWarning)
        again = memory.evaluate("pi", lazy)  # other logs than those of fit
        assert_same(again, memory.evaluate("pi", logs[:]))


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
        found = deepcopy(evaluator).fit(lazy)._result(EpsilonGreedy(), None, None)
        texts = [one for one in found.warnings if isinstance(one, ModelErrorWarning)]
        assert len(texts) == warned


def test_rounds_before_are_not_at_hand(logs, lazy):
    evaluator = DRns(cv=TimeSeriesSplit()).fit(lazy)
    with pytest.raises(ValueError, match="fitted on lazy logs"):
        evaluator.evaluate("pi", logs)


@pytest.mark.thorough
@pytest.mark.parametrize("how", ["segments", "subsamples"])
def test_repeated_runs(how, logs, lazy):
    for evaluator in (
        RejectionSampling(cmax=0.2),
        DRns(cv=HashKFold(3), q=0.2),
        DRns(reward_model="q_hat", horizon=3),
    ):
        for policy in ("pi", LinUCB()):
            about = {"n_runs": 4, "how": how, "random_state": 0}
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", OPEWarning)
                found = repeated_runs(evaluator, policy, lazy, **about)
                expected = repeated_runs(evaluator, policy, logs, **about)
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
    (tmp_path / "part2.parquet").unlink()
    with pytest.raises(FileNotFoundError, match=r"part2.parquet, row group 0"):
        evaluate("pi", lazy, evaluators={"rs": RejectionSampling(cmax=0.1)})


def test_partitions_in_their_order(logs, tmp_path):
    timed = logs.replace(timestamp=np.arange(N)[::-1])
    lazy = written(timed, tmp_path, (0, 400, N))
    found = (
        RejectionSampling(cmax=0.1, random_state=0).fit(lazy)._result("pi", None, None)
    )
    assert "timestamp decreases at row 1" in str(found.warnings[0])
    assert isinstance(lazy.partitions[0].read(), BanditLogs)


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
    policy = FunctionPolicy(half_of).fit(lazy)
    tracemalloc.start()
    try:
        value = evaluate(policy, lazy, evaluators=["Replay"], random_state=0)["Replay"]
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert value.n_rounds == 400_000
    assert peak < 20e6


def half_of(X):
    return np.full((len(X), 2), 0.5)
