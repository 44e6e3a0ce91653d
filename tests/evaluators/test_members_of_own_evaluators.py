# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Every member of the protocol does its work for an evaluator of a user's own.

Wherever the rounds lie: in memory, in files, in a lazy frame, or in days added up.
"""

import numpy as np
import pytest

from skope_ope import BanditLogs, evaluate, summarize
from skope_ope.base import Requires, Sampling, StaticEvaluator, mean
from skope_ope.exceptions import OPEWarning
from tests.evaluators._parquet_worlds import lazy_world
from tests.judge._sources import frame_world

quiet = pytest.mark.filterwarnings("ignore::skope_ope.exceptions.OPEWarning")
N, K = 240, 3


def a_log(**given):
    """Clicks of two loggers, and the probabilities of a policy."""
    rng = np.random.RandomState(1)
    mu = rng.dirichlet(np.full(K, 3.0), 2)
    logger = (np.arange(N) % 3 == 0).astype(int)
    action = (rng.random_sample((N, 1)) > mu[logger].cumsum(axis=1)).sum(axis=1)
    click = (rng.random_sample(N) < 0.2 + 0.2 * action).astype(float)
    logs = BanditLogs(
        np.zeros((N, 1)), action, click, mu[logger, action], logger=logger,
        logger_proba=mu[:, action].T, **given,
    )  # fmt: skip
    return logs.with_columns(
        pi=rng.dirichlet(np.ones(K), N),
        q=rng.random_sample((N, K)),
        day=np.arange(N) % 2,
    )


def of_days(logs, evaluators, _):
    parts = [summarize("pi", logs[k::2], evaluators=evaluators) for k in range(2)]
    return sum(parts).values()


def of_files(logs, evaluators, folder):
    files = lazy_world(logs, folder, np.random.RandomState(0), n_files=3)
    return evaluate("pi", files, evaluators=evaluators)


SOURCES = {
    "memory": lambda logs, some, _: evaluate("pi", logs, evaluators=some),
    "sums": lambda logs, some, _: summarize("pi", logs, evaluators=some).values(),
    "days": of_days,
    "files": of_files,
    "frame": lambda logs, some, _: evaluate(
        "pi", frame_world(logs, "polars"), evaluators=some
    ),
}
each_source = pytest.mark.parametrize("source", SOURCES)


def value_of(source, evaluator, folder, logs=None):
    if source in ("files", "frame"):
        for package in ("pyarrow", "polars"):
            pytest.importorskip(package)
    logs = a_log() if logs is None else logs
    return SOURCES[source](logs, {"own": evaluator}, folder)["own"]


def weights_of(logs):
    rows = np.arange(len(logs))
    return logs.columns["pi"][rows, logs.action_index] / logs.propensity


# -- requires, check_logs --------------------------------------------------------------
class NeedsGroups(StaticEvaluator):
    """IPS that is honest about users."""

    def check_logs(self, logs):
        super().check_logs(logs)
        if logs.group is None:
            raise ValueError("NeedsGroups needs the group of every round.")

    def terms(self, rounds):
        return (rounds.gain,)


@each_source
@quiet
def test_logs_that_lack_something(source, tmp_path):
    with pytest.raises(ValueError, match="NeedsGroups needs the group of every round"):
        value_of(source, NeedsGroups(), tmp_path)
    logs = a_log(group=np.arange(N) // 2)
    found = value_of(source, NeedsGroups(), tmp_path / "", logs)
    assert abs(found.value - np.mean(weights_of(logs) * logs.reward)) < 1e-12


class OfMixture(StaticEvaluator):
    """IPS against the mixture of the loggers."""

    requires = Requires(mixture=True)
    proposal = "mixture"

    def terms(self, rounds):
        return (rounds.b * rounds.r,)


@pytest.mark.parametrize("source", ["memory", "sums", "files", "frame"])
@quiet
def test_the_mixture_of_loggers(source, tmp_path):
    logs = a_log()
    share = np.bincount(logs.logger_index) / N
    p = logs.logger_proba @ share
    if p.shape != (N,):
        p = share @ logs.logger_proba
    expected = np.mean(weights_of(logs) * logs.propensity / p * logs.reward)
    found = value_of(source, OfMixture(), tmp_path)
    assert abs(found.value - expected) < 1e-12
    low, high = found.confidence_interval()
    assert low < found.value < high


# -- sampling, stratum_weights ---------------------------------------------------------
class EqualLoggers(StaticEvaluator):
    """The mean over loggers of their values, each with an IPS of its own."""

    sampling, proposal = Sampling("loggers"), "own_logger"

    def stratum_weights(self, summary):
        return 1 / summary.sums.mass

    def terms(self, rounds):
        return (rounds.gain,)


@each_source
@quiet
def test_strata(source, tmp_path):
    logs = a_log()
    x, logger = weights_of(logs) * logs.reward, np.asarray(logs.logger_index)
    parts = [x[logger == k] for k in range(2)]
    expected = np.mean([part.mean() for part in parts])
    error = np.sqrt(sum(part.var(ddof=1) / len(part) for part in parts)) / 2
    found = value_of(source, EqualLoggers(), tmp_path)
    assert abs(found.value - expected) < 1e-12
    assert abs(found.standard_error - error) < 1e-12
    low, high = found.confidence_interval()
    assert low < found.value < high


# -- resolved --------------------------------------------------------------------------
class Smoothed(StaticEvaluator):
    """Logarithms of weighted rewards, the more rounds the less smoothed."""

    leaves_bias_out = "the bias of smoothed rewards"

    def __init__(self, *, lam=None):
        self.lam = lam

    def resolved(self, facts, rows=None):
        if self.lam is not None:
            return self
        if facts.n_rounds is None:
            raise ValueError("lam=None is 1 / sqrt(n). Pass a number.")
        return self.with_parameters(lam=facts.n_rounds**-0.5)

    def terms(self, rounds):
        return (np.log1p(self.lam * rounds.gain) / self.lam,)


@pytest.mark.parametrize("source", ["memory", "files"])
@quiet
def test_a_parameter_of_the_whole_log(source, tmp_path):
    logs, lam = a_log(), N**-0.5
    x = np.log1p(lam * weights_of(logs) * logs.reward) / lam
    found = value_of(source, Smoothed(), tmp_path)
    assert abs(found.value - x.mean()) < 1e-12
    for day, one in found.by("day").items():  # it stays that of the whole log
        assert abs(one.value - x[day::2].mean()) < 1e-12
    low, high = found.confidence_interval()
    expected = Smoothed(lam=lam).fit(logs).evaluate("pi").confidence_interval()
    assert abs(low - expected.low) < 1e-9 and abs(high - expected.high) < 1e-9


@pytest.mark.parametrize("source", ["sums", "days", "frame"])
@quiet
def test_what_is_no_whole_log_resolves_nothing(source, tmp_path):
    with pytest.raises(ValueError, match=r"Smoothed .*Pass a number"):
        value_of(source, Smoothed(), tmp_path)
    logs = a_log()
    x = np.log1p(0.1 * weights_of(logs) * logs.reward) / 0.1
    found = value_of(source, Smoothed(lam=0.1), tmp_path)
    assert abs(found.value - x.mean()) < 1e-12


# -- fit_reward_model ------------------------------------------------------------------
class OwnModel(StaticEvaluator):
    """Doubly robust, whose model is a number of its own."""

    requires = Requires(model=True)
    smooth = (0,)

    def __init__(self, *, reward_model=None, cv=5):
        self.reward_model = reward_model
        self.cv = cv

    def fit_reward_model(self, logs, model, cv=None, **given):
        return super().fit_reward_model(logs, 0.3, cv, **given)

    def terms(self, rounds):
        return (rounds.v, rounds.correction)

    @staticmethod
    def combine(m):
        return m[0] + m[1], (1.0, 1.0)


def of_own_model(logs):
    return np.mean(0.3 + weights_of(logs) * (logs.reward - 0.3))


@quiet
def test_a_model_of_ones_own_in_a_fit():
    logs = a_log()
    found = OwnModel(reward_model=0.6).fit(logs).score("pi")
    assert abs(found - of_own_model(logs)) < 1e-12


@each_source
@quiet
def test_a_model_of_ones_own(source, tmp_path):
    def found():
        return value_of(source, OwnModel(reward_model=0.6), tmp_path).value

    if source == "memory":
        assert abs(found() - of_own_model(a_log())) < 1e-12
        return
    with pytest.raises(ValueError, match="fit_reward_model of its own"):
        found()


# -- diagnostics_of, leaves_bias_out ---------------------------------------------------
class Talks(StaticEvaluator):
    """IPS that tells how many rounds have no weight."""

    leaves_bias_out = "what it says"

    def diagnostics_of(self, summary, estimate):
        lost = OPEWarning("a warning of its own", estimate.value)
        return {"twice": 2 * estimate.value}, [lost]

    def terms(self, rounds):
        return (rounds.gain,)

    combine = staticmethod(mean)


@each_source
@quiet
def test_entries_and_warnings_of_ones_own(source, tmp_path):
    found = value_of(source, Talks(), tmp_path)
    assert found.diagnostics["twice"] == 2 * found.value
    assert "a warning of its own" in [str(one) for one in found.warnings]
    assert found.leaves_bias_out == "what it says"
