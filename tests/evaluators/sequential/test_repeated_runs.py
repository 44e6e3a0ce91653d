# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause

import warnings

import numpy as np
import pytest
from joblib import parallel_config
from scipy.stats import t as student
from sklearn.pipeline import make_pipeline

from skope_ope import (
    BanditLogs,
    DirectMethod,
    DRns,
    EpsilonGreedy,
    PropensityClipper,
    Replay,
    UniformPolicy,
)
from skope_ope.evaluators import repeated_runs
from skope_ope.exceptions import LowOverlapWarning, OPEWarning
from tests._quiet import quiet
from tests._worlds import uniform_logs


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
    first, second = (
        repeated_runs(Replay(), policy, logs, random_state=0)
        for policy in (EpsilonGreedy(), UniformPolicy())
    )
    gap = first - second
    np.testing.assert_array_equal(gap.values, first.values - second.values)
    assert gap.mean == pytest.approx(first.mean - second.mean)
    low, high = gap.confidence_interval()
    assert low < gap.mean < high
    fewer = repeated_runs(Replay(), UniformPolicy(), logs, n_runs=5, random_state=0)
    elsewhere = repeated_runs(
        Replay(), UniformPolicy(), uniform_logs(3000), random_state=0
    )
    drawn = repeated_runs(
        Replay(), UniformPolicy(), logs, how="subsamples", random_state=0
    )
    for other in (fewer, elsewhere, drawn):
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
    runs = repeated_runs(
        Replay(),
        Ordered(),
        logs,
        how="subsamples",
        share=0.3,
        n_runs=20,
        random_state=0,
    )
    # the share of rounds, and their share that is accepted
    expected = 3000 * 0.3 / logs.n_actions
    assert abs(runs.n_accepted.mean() - expected) < 4 * np.sqrt(expected / 20)
    assert len(set(runs.values.tolist())) > 15
    with pytest.raises(ValueError, match=r"share rounds.*Use how='segments'"):
        runs.confidence_interval()


@pytest.mark.parametrize("how", ["segments", "subsamples"])
def test_runs_do_not_depend_on_the_number_of_jobs(how):
    logs = uniform_logs(1500)
    setting = {"n_runs": 4, "how": how, "random_state": 3}
    alone = repeated_runs(DRns(), EpsilonGreedy(), logs, **setting)
    with parallel_config(backend="threading"):
        two = repeated_runs(DRns(), EpsilonGreedy(), logs, **setting, n_jobs=2)
    np.testing.assert_array_equal(alone.values, two.values)
    np.testing.assert_array_equal(alone.n_accepted, two.n_accepted)
    other = repeated_runs(
        DRns(), EpsilonGreedy(), logs, n_runs=4, how=how, random_state=4
    )
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
    with pytest.warns(OPEWarning, match=r"\(in \d of 5 runs\)"):
        runs = repeated_runs(
            Replay(horizon=21), UniformPolicy(), logs, n_runs=5, random_state=1
        )
    lost = np.isnan(runs.values)
    assert 0 < lost.sum() < 5
    assert runs.mean == pytest.approx(np.nanmean(runs.values))
    assert runs.standard_deviation == pytest.approx(np.nanstd(runs.values, ddof=1))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", OPEWarning)
        none = repeated_runs(Replay(horizon=500), UniformPolicy(), logs, random_state=0)
    assert np.isnan([none.mean, *none.confidence_interval()]).all()


def test_warnings_come_once():
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
        piped = repeated_runs(steps, EpsilonGreedy(), logs, n_runs=3, random_state=0)
        plain = repeated_runs(DRns(), EpsilonGreedy(), logs, n_runs=3, random_state=0)
    np.testing.assert_array_equal(piped.n_accepted > 0, plain.n_accepted > 0)
    named = repeated_runs(
        DRns(),
        "pi",
        logs.with_columns(pi=np.full((900, logs.n_actions), 1 / logs.n_actions)),
        n_runs=3,
        random_state=0,
    )
    assert np.isfinite(named.values).all()


def test_bad_input():
    logs = uniform_logs(50)
    with pytest.raises(TypeError, match="an array fits the rows of the whole log"):
        repeated_runs(Replay(), np.full((50, 3), 1 / 3), logs)
    with pytest.raises(ValueError, match="n_runs=51 runs on 50 rounds"):
        repeated_runs(Replay(), UniformPolicy(), logs, n_runs=51)
    with pytest.raises(ValueError, match="is empty"):
        repeated_runs(
            Replay(), UniformPolicy(), logs, how="subsamples", share=1e-9, n_runs=2
        )
    for parameters, match in [
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
