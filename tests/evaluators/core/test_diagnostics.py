# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Diagnostics by their formulas, on a fixed log and on worlds with known faults."""

import pickle
from collections.abc import Mapping

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from sklearn.linear_model import LinearRegression
from sklearn.model_selection import TimeSeriesSplit

from skope_ope import (
    IPS,
    SNIPS,
    BanditLogs,
    DirectMethod,
    DoublyRobust,
    DRos,
    MultiLoggerIPS,
    SwitchDR,
    UniformPolicy,
)
from tests._values import stated_value
from tests._worlds import W1, bandit_logs, d8, exact_moments
from tests.evaluators.core._asked import bare_logs

pytestmark = pytest.mark.filterwarnings("ignore::skope_ope.exceptions.OPEWarning")


def logs_of(log, **fields):
    return bandit_logs(log, **{"logging_proba": log.mu, **fields})


def diagnose(evaluator, log, **fields):
    logs = logs_of(log, **fields)
    return evaluator.fit(logs, log.q_hat).evaluate(log.pi).diagnostics


# -- the fixed log of eight rounds ----------------------------------------------------
W8 = np.array([0.2, 1 / 3, 4, 0.2, 1 / 6, 1 / 6, 3, 1.5])
FIXED = {
    "n_rounds": 8,
    "effective_sample_size": 3.328,
    "effective_share": 3.328 / 8,
    "max_weight": 4.0,
    "max_weight_share": 0.418,
    "mean_weight": 9.566667 / 8,
    "mean_weight_z": 0.366,
    "unsupported_mass": 0.0,
    "overlap_chi2": 27.496667 / 8 - 1,
    "large_weight_mass": 0.0,
    "inverse_propensity_z": 0.375,
    "action_frequency": [1.125, 1.0417, 1.0417],
    "action_count_z": [0.156, 0.0, -0.158],
    "calibration_z": 0.387,
    "overlap_tv": 0.55,
    "covariate_imbalance": [0.0098],
}


def test_fixed_log():
    found = diagnose(IPS(), d8())
    for name, number in FIXED.items():
        assert_allclose(found[name], number, rtol=0, atol=5e-4, err_msg=name)
    log, found = d8(), diagnose(DoublyRobust(), d8())
    residual = log.reward - log.q_hat[np.arange(8), log.action]
    correction, inverse = W8 * residual, 1 / log.propensity
    spread = ((log.reward - log.reward.mean()) ** 2).sum()
    for name, expected in {
        "effective_sample_size": W8.sum() ** 2 / (W8**2).sum(),
        "max_weight_share": 4 / W8.sum(),
        "mean_weight_z": z_of(W8 - 1),
        "correction": correction.mean(),
        "correction_z": z_of(correction),
        "model_r2": 1 - (residual**2).sum() / spread,
    }.items():
        assert_allclose(found[name], expected, rtol=1e-12, err_msg=name)
    assert_allclose(found["action_frequency"].sum(), inverse.mean(), rtol=1e-12)
    assert_allclose(inverse.mean(), 3.208, atol=5e-4)
    assert_allclose(found["correction"], 0.83625 - 0.57, rtol=1e-12)  # DR less DM
    assert found["model_error_included"] is True
    assert found["uncovered_rounds"] == 0


def z_of(terms):
    """Their mean in its standard errors."""
    return terms.mean() / (terms.std(ddof=1) / np.sqrt(len(terms)))


@pytest.mark.parametrize(
    ("evaluator", "rows", "mass"),
    [
        (IPS(), 0.0, 0.0),
        (IPS(cmax=2.0), 0.25, 3 / W8.sum()),  # 4 and 3 become 2
        (SNIPS(cmax=3.0), 0.125, 1 / W8.sum()),
        (DoublyRobust(cmax=0), 1.0, 1.0),
        (SwitchDR(tau=2.0), 0.25, 7 / W8.sum()),
        (SwitchDR(tau=4.0), 0.0, 0.0),
        (DRos(lam=4.0), 1.0, (W8 - 4 * W8 / (W8**2 + 4)).sum() / W8.sum()),
    ],
    ids=repr,
)
def test_what_a_transform_alters(evaluator, rows, mass):
    found = diagnose(evaluator, d8())
    assert found["altered_rows"] == rows
    assert_allclose(found["altered_mass"], mass, rtol=1e-12, atol=1e-15)


# -- exact expectations in a tiny world -----------------------------------------------
def test_expectations_in_the_tiny_world():
    expected = {"overlap_chi2": 1.76, "overlap_tv": 0.55, "mean_weight": 1.0}
    expected |= {"unsupported_mass": 0.0, "action_frequency": [1.0] * 3}

    def found(log):
        told = diagnose(IPS(), log)
        return np.hstack([told[name] for name in expected])

    mean, _ = exact_moments(W1, 1, found)
    assert_allclose(mean, np.hstack([*expected.values()]), rtol=1e-12, atol=1e-12)


# -- faults that are found ------------------------------------------------------------
N = 4000


def world(seed, wrong=False):
    """Logs whose recorded probabilities are right, or those of another logger."""
    rng = np.random.RandomState(seed)
    mu = 0.7 * rng.dirichlet(np.ones(3), N) + 0.1
    action = (mu.cumsum(axis=1) > rng.random_sample((N, 1))).argmax(axis=1)
    told = mu[:, [1, 2, 0]] if wrong else mu
    X = rng.normal(size=(N, 2))
    reward = X[:, 0] + action + rng.normal(size=N)
    return BanditLogs(X, action, reward, told[np.arange(N), action], logging_proba=told)


def test_right_propensities_pass_and_wrong_ones_are_found(global_random_seed):
    pair = (IPS().fit(world(global_random_seed, one)) for one in (False, True))
    right, wrong = (one.evaluate(UniformPolicy()).diagnostics for one in pair)
    for name in ("mean_weight_z", "inverse_propensity_z", "calibration_z"):
        assert abs(right[name]) < 4.5
        assert (abs(wrong[name]) if name == "calibration_z" else wrong[name]) > 10
    assert np.abs(right["action_count_z"]).max() < 4.5
    assert right["covariate_imbalance"].max() < 0.15


def test_a_good_model_explains_and_a_bad_one_is_corrected(global_random_seed):
    logs = world(global_random_seed)
    good = DoublyRobust(reward_model=LinearRegression()).fit(logs)
    found = good.evaluate(UniformPolicy()).diagnostics
    assert_allclose(found["model_r2"], 0.6, atol=0.1)
    assert abs(found["correction_z"]) < 4.5
    bad = DoublyRobust(reward_model=3.0).fit(logs)
    found = bad.evaluate(UniformPolicy()).diagnostics
    assert found["correction_z"] < -10
    assert found["model_r2"] < 0


def test_large_weights():
    propensity = d8().propensity.copy()
    propensity[2] = 0.8 / 25  # a weight of 25
    found = diagnose(IPS(), d8(), propensity=propensity, logging_proba=None)
    assert_allclose([found["large_weight_mass"], found["max_weight"]], [25 / 8, 25])


def test_offers_count_in_the_test_of_propensities():
    log, available = d8(), np.ones((8, 3), dtype=bool)
    available[[0, 4], [2, 0]] = False
    mu = np.where(available, log.mu, 0)
    p = (mu / mu.sum(axis=1, keepdims=True))[np.arange(8), log.action]
    given = {"propensity": p, "logging_proba": None, "available": available}
    found = IPS().fit(logs_of(log, **given)).evaluate(UniformPolicy()).diagnostics
    z = z_of(1 / p - available.sum(axis=1))
    assert_allclose(found["inverse_propensity_z"], z, rtol=1e-12)


# -- which there are ------------------------------------------------------------------
WEIGHTS = {"n_rounds", "effective_sample_size", "effective_share", "unsupported_mass"}
WEIGHTS |= {"max_weight", "max_weight_share", "mean_weight", "mean_weight_z"}
WEIGHTS |= {"overlap_chi2", "large_weight_mass", "altered_rows", "altered_mass"}
WEIGHTS |= {"inverse_propensity_z", "action_frequency", "covariate_imbalance"}
LOGGER = {"action_count_z", "calibration_z"}
MODEL = {"model_error_included", "uncovered_rounds", "model_r2"}
CORRECTION = {"correction", "correction_z"}


def test_names_follow_what_is_known():
    log = d8()
    with_model = WEIGHTS | MODEL | CORRECTION
    assert set(diagnose(IPS(), log)) == WEIGHTS | LOGGER | {"overlap_tv"}
    assert set(diagnose(IPS(), log, logging_proba=None)) == WEIGHTS
    assert set(diagnose(DoublyRobust(), log, logging_proba=None)) == with_model
    assert set(diagnose(DirectMethod(), log)) == {"n_rounds"} | MODEL
    logged = log.pi[np.arange(8), log.action]
    known = IPS().fit(logs_of(log)).evaluate(logged).diagnostics
    assert set(known) == WEIGHTS | LOGGER  # of the logged actions only: no distance
    found = diagnose(DirectMethod(), log, propensity=None, logging_proba=None)
    assert set(found) == {"n_rounds"} | MODEL
    assert found["model_error_included"] is False
    assert all(found[name] is not None for name in found)


def test_uncovered_rounds():
    logs = world(0)
    fitted = DoublyRobust(cv=TimeSeriesSplit(3)).fit(logs)
    found = fitted.evaluate(UniformPolicy()).diagnostics
    assert found["uncovered_rounds"] == N - 3 * (N // 4)


def test_contexts_of_other_kinds():
    log = d8()
    X = np.column_stack([log.x, 1 - log.x, np.ones(8)]).astype(float)
    balanced = [0.0098, 0.0098, 0]  # a constant is balanced
    dense = diagnose(IPS(), log, context=X)["covariate_imbalance"]
    for context in (sparse.csr_matrix(X), X.astype(int)):
        found = diagnose(IPS(), log, context=context)["covariate_imbalance"]
        assert_allclose(found, dense, rtol=1e-12)
        assert_allclose(found, balanced, atol=5e-5)
    assert not len(diagnose(IPS(), log, context=X[:, :0])["covariate_imbalance"])


def test_frames_have_no_balance_of_columns():
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"x": d8().x, "city": list("abcdabcd")})
    assert "covariate_imbalance" not in diagnose(IPS(), d8(), context=frame)


def test_a_perfect_model_has_corrections_of_no_error():
    log = d8()
    exact = log.q_hat.copy()
    exact[np.arange(8), log.action] = log.reward
    found = DoublyRobust().fit(logs_of(log), exact).evaluate(log.pi).diagnostics
    assert found["correction"] == 0
    assert np.isnan(found["correction_z"])
    assert found["model_r2"] == 1


def test_no_overlap_and_one_round_are_nan_not_zero():
    logs = bare_logs([0, 1, 0, 1], 1.0, 0.5, actions=[0, 1, 2])
    found = IPS().fit(logs).evaluate(np.tile([0.0, 0.0, 1.0], (4, 1))).diagnostics
    assert found["unsupported_mass"] == 1.0
    for name in ("effective_sample_size", "max_weight_share", "altered_mass"):
        assert np.isnan(found[name])
    assert np.isnan(found["covariate_imbalance"]).all()
    dict(found)
    log = d8()
    fitted = DoublyRobust().fit(logs_of(log)[:1], log.q_hat[:1])
    found = fitted.evaluate(log.pi[:1]).diagnostics
    for name in ("mean_weight_z", "inverse_propensity_z", "correction_z", "model_r2"):
        assert np.isnan(found[name])
    assert found["effective_sample_size"] == pytest.approx(1)
    dict(found)


# -- a mapping ------------------------------------------------------------------------
def test_it_is_a_mapping_that_computes_once():
    log = d8()
    before = {k: v.copy() for k, v in vars(log).items()}
    found = diagnose(DoublyRobust(), log)
    assert isinstance(found, Mapping)
    assert len(found) == len(list(found)) == len(dict(found))
    assert found["action_frequency"] is found["action_frequency"]
    assert "no such" not in found
    with pytest.raises(KeyError, match="no such"):
        found["no such"]
    again = pickle.loads(pickle.dumps(found))
    assert list(again) == list(found)
    for name, number in found.items():
        assert_array_equal(again[name], number)
    for name, values in before.items():  # the arrays of the logs are left alone
        assert_array_equal(getattr(log, name), values)


def lines_of(found):
    return dict(line.split(maxsplit=1) for line in repr(found).splitlines())


def test_names_and_numbers_are_shown():
    found = diagnose(DoublyRobust(), d8())
    shown = lines_of(found)
    assert list(shown) == list(found)
    for name, text in {
        "n_rounds": "8",
        "effective_share": "41.6%",
        "max_weight": "4",
        "correction": "0.2662",
        "effective_sample_size": "3.328",
        "model_error_included": "True",
    }.items():
        assert shown[name] == text
    assert shown["action_frequency"].startswith("1.125, 1.04")
    for name, text in shown.items():
        assert name in found._repr_html_() and text in found._repr_html_()
    nothing = bare_logs([0] * 12_345, 1.0, 0.5, actions=[0, 1])
    policy = np.tile([0.0, 1.0], (12_345, 1))
    shown = lines_of(SNIPS().fit(nothing).evaluate(policy).diagnostics)
    assert (shown["n_rounds"], shown["effective_share"]) == ("12,345", "-")
    by_logger = bare_logs([0, 1], [1.0, 0.0], 0.5, logger=["<b>", "c"])
    found = MultiLoggerIPS().fit(by_logger).evaluate(np.full((2, 2), 0.5)).diagnostics
    assert lines_of(found)["logger_rounds"] == "<b>: 1, c: 1"
    assert "&lt;b&gt;" in found._repr_html_() and "<b>" not in found._repr_html_()
    logs = bare_logs(np.arange(8), np.arange(8), 1 / 8)
    found = IPS().fit(logs).evaluate(np.full((8, 8), 1 / 8)).diagnostics
    assert "1, 1, 1, 1, ... (8 in all)" in repr(found)
    alone = stated_value(1.0, 0.1, 8, estimator="x").diagnostics
    assert repr(alone) == "no diagnostics"


def test_nothing_is_computed_before_it_is_read():
    class Once:
        calls = 0

        def logs_proba(self, logs):
            Once.calls += 1
            return np.full((len(logs), logs.n_actions), 1 / logs.n_actions)

    result = IPS().fit(logs_of(d8())).evaluate(Once())
    assert Once.calls == 1
    assert result.diagnostics["max_weight"] > 0  # sums of the evaluation itself
    assert Once.calls == 1
    assert result.diagnostics["large_weight_mass"] == 0  # of what the pass kept
    assert result.diagnostics["altered_rows"] == 0
    assert Once.calls == 1
