# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause

import numpy as np
import pytest
from numpy.testing import assert_allclose

from skope_ope import BanditLogs, EpsilonGreedy
from skope_ope.evaluators import logger_overlap, pooling_variance_ratio
from tests.evaluators.core._asked import bare_logs
from tests.evaluators.multi_logger._logs import several, without_support


def test_the_matrix_against_loops():
    logs, pi = several()
    found = logger_overlap(pi, logs)
    for i in range(3):
        own = logs.logger == i
        for k in range(3):
            w = (logs.logger_proba[:, k] / logs.propensity)[own]
            share = w.sum() ** 2 / (w * w).sum() / len(w)
            assert_allclose(found.effective_share[i, k], share)
        w = (pi[np.arange(300), logs.action_index] / logs.propensity)[own]
        record = found.to_records()[i]
        assert record["logger"] == i
        assert record["n_rounds"] == own.sum()
        assert_allclose(record["share"], own.mean())
        assert_allclose(record["mean_reward"], logs.reward[own].mean())
        assert_allclose(record["min_propensity"], logs.propensity[own].min())
        share = w.sum() ** 2 / (w * w).sum() / len(w)
        assert_allclose(record["policy_effective_share"], share)
        assert_allclose(record["policy_max_weight"], w.max())
        assert record["policy_unsupported"] == 0
    assert_allclose(np.diag(found.effective_share), 1)
    assert (found.effective_share <= 1 + 1e-12).all()


def test_what_is_unknown_is_left_out():
    logs, pi = several()
    blind = logs.replace(logger_proba=None)
    found = logger_overlap(pi, blind)
    assert found.effective_share is None
    assert "effective_share_0" not in found.to_records()[0]
    nothing = logger_overlap(logs.replace(logger_proba=None, propensity=None))
    assert nothing.to_records()[0]["min_propensity"] is None
    names = ["logger", "n_rounds", "share", "mean_reward", "min_propensity"]
    assert sorted(nothing.to_records()[0]) == sorted(names)
    assert " - " in repr(nothing) or repr(nothing).rstrip().endswith("-")


def test_unsupported_mass_by_logger():
    logs, pi = without_support()
    masses = [r["policy_unsupported"] for r in logger_overlap(pi, logs).to_records()]
    assert_allclose(masses, [0, 0.3])


@pytest.mark.frames
def test_texts_and_frame():
    logs, pi = several(logger=np.array(["<b>"] * 150 + ["new"] * 150), m=2)
    found = logger_overlap(pi, logs)
    assert "<b>" in repr(found)
    assert "<b>" not in found._repr_html_() and "&lt;b&gt;" in found._repr_html_()
    assert len(repr(found).splitlines()) == 3
    pytest.importorskip("pandas")
    frame = found.to_frame()
    assert frame.index.name == "logger"
    assert frame.loc["new", "n_rounds"] == 150
    assert_allclose(frame["share"].sum(), 1)


def test_bad_input():
    logs, pi = several()
    nameless = BanditLogs(logs.context, logs.action, logs.reward, logs.propensity)
    unknown = logs.replace(logger_proba=None, propensity=None)
    for given, error, message in (
        ([pi], TypeError, "logs must be BanditLogs"),
        ([nameless], ValueError, "do not name the loggers"),
        ([pi, unknown], ValueError, "no propensities"),
        ([EpsilonGreedy(), logs], TypeError, "logger_overlap evaluates stationary"),
    ):
        with pytest.raises(error, match=message):
            logger_overlap(*given)


def test_sample_weights_count():
    """Rounds without a click were kept at 10% and weigh ten times as much."""
    rng = np.random.RandomState(0)
    mu, n = np.array([[0.5, 0.5], [0.2, 0.8]]), 4000
    logger = np.arange(n) % 2
    action = (rng.random_sample(n) < mu[logger, 1]).astype(int)
    reward = (rng.random_sample(n) < 0.1).astype(float)
    kept = np.flatnonzero((reward == 1) | (rng.random_sample(n) < 0.1))
    weight = np.where(reward == 1, 1.0, 10.0)[kept]
    known = {"logger": logger[kept], "logger_proba": mu[:, action[kept]].T}
    logs = bare_logs(action[kept], reward[kept], sample_weight=weight, **known)
    pi = np.tile([0.7, 0.3], (len(kept), 1))
    w = pi[0, logs.action] / logs.propensity
    for i, record in enumerate(logger_overlap(pi, logs).to_records()):
        own = logs.logger == i
        assert record["n_rounds"] == own.sum()
        assert_allclose(record["share"], weight[own].sum() / weight.sum())
        mean = np.average(logs.reward[own], weights=weight[own])
        assert_allclose(record["mean_reward"], mean)
        assert abs(mean - 0.1) < 0.04  # without weights it is above 0.5
        for name, ratio in (
            ("policy_effective_share", w),
            (f"effective_share_{1 - i}", logs.logger_proba[:, 1 - i] / logs.propensity),
            (f"effective_share_{i}", np.ones(len(w))),
        ):
            v = (weight * ratio)[own]
            share = v.sum() ** 2 / (v * v).sum() / own.sum()
            assert_allclose(record[name], share, err_msg=name)


def test_rounds_of_weight_zero_are_none():
    logs, pi = without_support()
    rng = np.random.RandomState(0)
    for mask in (rng.random_sample(400) < 0.5, logs.logger == 0):
        rows = np.flatnonzero(mask)
        found = logger_overlap(pi, logs.replace(sample_weight=mask * 2.0)).to_records()
        expected = logger_overlap(pi[rows], logs[rows]).to_records()
        assert [list(a) for a in found] == [list(b) for b in expected]
        for a, b in zip(found, expected, strict=True):
            assert_allclose(list(a.values()), list(b.values()), rtol=1e-10)


# -- the ratio of variances ---------------------------------------------------------
def test_two_loggers_have_a_closed_form():
    ratio = pooling_variance_ratio
    for r, u in ((59.190707, 1.0), (0.3, 4.0), (1.0, 7.0), (1e6, 0.01)):
        expected = r * (1 + u) ** 2 / ((r + u) * (1 + u * r))
        assert_allclose(ratio([r, 1], [u, 1]), expected, rtol=1e-12)
    assert ratio([2, 2, 2], [5, 1, 9]) == pytest.approx(1)
    assert ratio([3.0], [10]) == 1
    assert ratio([1, np.inf], [5, 5]) == 0
    # a logger without rounds does not take part
    assert ratio([1, np.inf, 4], [5, 0, 5]) == pytest.approx(ratio([1, 4], [5, 5]))
    # dicts as the diagnostics have them
    expected = ratio([3.0, 5.0], [1, 4])
    assert ratio({"a": 3.0, "b": 5.0}, {"b": 4, "a": 1}) == expected


@pytest.mark.parametrize(
    ("divergences", "sizes", "match"),
    [
        ({"a": 1.0}, {"b": 1}, "dicts of the same loggers"),
        ({"a": 1.0}, [1], "dicts of the same loggers"),
        ([1, 2], [1, 2, 3], "one entry per logger"),
        ([], [], "one entry per logger"),
        ([1, 0], [1, 1], "divergences must be positive, got 0"),
        ([1, np.nan], [1, 1], "divergences must be positive"),
        ([1, 2], [1, -1], "sizes must be 0 or more"),
        ([1, 2], [0, 0], "sizes must be 0 or more"),
        ([np.inf], [3], "every logger with rounds has an infinite divergence"),
    ],
)
def test_bad_divergences(divergences, sizes, match):
    with pytest.raises(ValueError, match=match):
        pooling_variance_ratio(divergences, sizes)
