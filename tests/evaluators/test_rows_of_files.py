# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""What sums do not tell is asked of the files again, and gives what memory gives."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.linear_model import Ridge

from skope_ope import (
    IPS,
    SNIPS,
    BanditLogs,
    DoublyRobust,
    DRos,
    FunctionPolicy,
    LogSmoothing,
    MultiLoggerDR,
    MultiLoggerIPS,
    RewardModelPolicy,
    SubGaussianIPS,
    SwitchDR,
    evaluate,
    summarize,
)
from skope_ope.datasets import make_bandit_logs
from skope_ope.displays import ConvergenceDisplay
from skope_ope.policies import action_probabilities
from tests.evaluators._parquet_worlds import lazy_world
from tests.evaluators.core._asked import by_pickle

pytestmark = [
    pytest.mark.frames,
    pytest.mark.filterwarnings("ignore::skope_ope.exceptions.OPEWarning"),
]
pytest.importorskip("pyarrow")
EVALUATORS = {
    "IPS": IPS(),
    "SNIPS": SNIPS(),
    "DoublyRobust": DoublyRobust(reward_model="q"),
    "SwitchDR": SwitchDR(reward_model="q", tau=2.0),
    "LogSmoothing": LogSmoothing(lam=0.1),
    "balanced": MultiLoggerIPS(pooling="balanced"),
    "naive": MultiLoggerIPS(self_normalized=True),
    "pooled": MultiLoggerIPS(pooling="weighted"),
    "own": MultiLoggerDR(
        pooling="weighted", divergences="per_logger", reward_model="q"
    ),
}


def logs_with(**given):
    """Clicks with a policy, predictions and two days as columns."""
    logs, policy, _ = make_bandit_logs(600, random_state=0, return_truth=True)
    pi = action_probabilities(policy, logs)
    rng = np.random.default_rng(0)
    q = rng.uniform(size=pi.shape)
    columns = {"pi": pi, "old": np.full(pi.shape, 1 / 3), "q": q}
    columns["day"] = rng.integers(0, 3, len(logs))
    about = {"propensity": logs.propensity, "actions": logs.actions} | given
    rounds = logs.context, logs.action, logs.reward
    return BanditLogs(*rounds, **about).with_columns(**columns)


@pytest.fixture(params=["plain", "groups and weights", "loggers"])
def pair(request, tmp_path):
    """Tables of the same values, of files and of rounds in memory."""
    rng, names, given = np.random.default_rng(1), list(EVALUATORS)[:5], {}
    if request.param == "groups and weights":
        given = {"group": rng.integers(0, 60, 600), "sample_weight": rng.random(600)}
    if request.param == "loggers":
        names = ["balanced", "naive", "pooled", "own"]
        proba, logger = rng.uniform(0.2, 0.8, (600, 2)), rng.integers(0, 2, 600)
        given = {"logger": logger, "logger_proba": proba}
        given["propensity"] = proba[np.arange(600), logger]
    logs = logs_with(**given)
    lazy = lazy_world(logs, tmp_path, np.random.RandomState(0), n_files=3)
    policies = {"pi": "pi", "old": "old"}
    evaluators = {name: EVALUATORS[name] for name in names}
    return [evaluate(policies, one, evaluators=evaluators) for one in (lazy, logs)]


def pairs(pair):
    """Values of files and of memory."""
    for name in {name for _, name in pair[0]}:
        yield pair[0]["pi", name], pair[1]["pi", name]


def test_round_values(pair):
    for files, memory in pairs(pair):
        assert_allclose(files.round_values, memory.round_values, rtol=1e-9, atol=1e-9)
    for name in {name for _, name in pair[0]}:
        files, memory = (table["pi", name] - table["old", name] for table in pair)
        assert_allclose(files.round_values, memory.round_values, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("key", ["day", "action", np.arange(600) % 4])
def test_groups_of_rounds_by_any_labels(pair, key):
    for files, memory in pairs(pair):
        found, whole = files.by(key), memory.by(key)
        assert list(found) == list(whole)
        for label, value in whole.items():
            one = found[label]
            assert_allclose(one.value, value.value, rtol=1e-10)
            assert_allclose(one.standard_error, value.standard_error, rtol=1e-9)
            limits = one.confidence_interval(), value.confidence_interval()
            assert_allclose(*limits, rtol=1e-9, atol=1e-12)


def test_differences_have_the_rounds(pair):
    key = np.arange(600) % 4
    for name in {name for _, name in pair[0]}:
        files, memory = (table["pi", name] - table["old", name] for table in pair)
        found, whole = files.by(key), memory.by(key)
        for label, value in whole.items():
            assert_allclose(found[label].value, value.value, rtol=1e-8, atol=1e-12)
            errors = found[label].standard_error, value.standard_error
            assert_allclose(*errors, rtol=1e-8)
        gone = by_pickle(files)
        assert gone.standard_error == files.standard_error
        with pytest.raises(ValueError, match="sums"):
            _ = gone.round_values


def test_diagnostics_by_logger(pair):
    for files, memory in pairs(pair):
        names = {name for name in memory.diagnostics if name.startswith("logger_")}
        found = names & files.diagnostics.keys()
        assert bool(found) == bool(names)
        for name in found:
            assert files.diagnostics[name] == pytest.approx(memory.diagnostics[name])


def test_a_difference_of_differences_has_their_interval(tmp_path):
    logs = logs_with(reward_range=(0, 1))
    lazy = lazy_world(logs, tmp_path, np.random.RandomState(0))
    for evaluator in (EVALUATORS["IPS"], EVALUATORS["DoublyRobust"]):
        limits = []
        for one in (lazy, logs):
            fitted = evaluator.fit(one)
            gain = fitted.evaluate("pi") - fitted.evaluate("old")
            limits.append((gain - fitted.evaluate("old")).confidence_interval())
        assert_allclose(*limits, rtol=1e-9)


def test_rounds_without_weight_bound_no_weight(tmp_path):
    rng, p = np.random.default_rng(1), np.array([0.5, 0.48, 0.02])
    action = np.sort(np.append(rng.choice(3, 299, p=p), 2))  # parts lack actions
    pi, weight = np.tile([0.5, 0.45, 0.05], (300, 1)), np.ones(300)
    pi[::30], weight[::30] = [0, 0, 1], 0
    rounds = np.zeros((300, 1)), action, rng.integers(0, 2, 300), p[action]
    about = {"actions": range(3), "reward_range": (0, 1), "sample_weight": weight}
    logs = BanditLogs(*rounds, **about).with_columns(pi=pi)
    lazy = lazy_world(logs, tmp_path, np.random.RandomState(0), n_files=2)
    files, memory = (IPS().fit(one).evaluate("pi") for one in (lazy, logs))
    assert_allclose(files.confidence_interval(), memory.confidence_interval())


def test_resamples(pair):
    for files, memory in pairs(pair):
        for method in ("bootstrap", "percentile"):
            found, whole = (
                one.confidence_interval(method=method, n_resamples=1000)
                for one in (files, memory)
            )
            assert_allclose(found, whole, rtol=0.1)  # groups stand in another order


def test_methods_that_need_weights_and_rewards(tmp_path):
    logs = logs_with(reward_range=(0, 1))
    lazy = lazy_world(logs, tmp_path, np.random.RandomState(0))
    for evaluator, some in (
        (IPS(), ("betting", "hoeffding", "empirical_bernstein", "log_smoothing")),
        (SNIPS(), ("betting", "empirical_likelihood", "cressie_read")),
    ):
        files, memory = (evaluator.fit(one).evaluate("pi") for one in (lazy, logs))
        for method in some:
            bound = {} if method == "log_smoothing" else {"max_weight": 60}
            found, whole = (
                one.confidence_interval(method=method, **bound)
                for one in (files, memory)
            )
            assert_allclose(found, whole, rtol=1e-9)
    found, whole = (one.sensitivity([1, 2]) for one in (files, memory))
    for name in ("low", "high", "interval_low", "interval_high"):
        assert_allclose(getattr(found, name), getattr(whole, name), rtol=1e-8)
    assert_allclose(files.breakdown_gamma(0.4), memory.breakdown_gamma(0.4))
    about = {"max_weight": 60, "reward_bound": 1}
    files, memory = (IPS().fit(one).evaluate("pi") for one in (lazy, logs))
    assert files.deviation_bound(**about) == memory.deviation_bound(**about)
    shown = [ConvergenceDisplay.from_values({"new": one}) for one in (files, memory)]
    assert_allclose(shown[0].value, shown[1].value, rtol=1e-10)


def test_divergences_of_files_whose_rewards_lie_elsewhere(tmp_path):
    """A file whose rewards are far from zero has them less an offset of its own."""
    rng, n = np.random.default_rng(0), 300
    proba, logger = rng.uniform(0.2, 0.8, (n, 2)), rng.integers(0, 2, n)
    reward = np.where(np.arange(n) < 100, 1000 + rng.random(n), 100 * rng.random(n))
    given = {"logger": logger, "logger_proba": proba}
    logs = BanditLogs(np.zeros((n, 1)), rng.integers(0, 2, n), reward, **given)
    q = reward[:, None] + rng.normal(size=(n, 2))
    logs = logs.with_columns(pi=np.tile([0.3, 0.7], (n, 1)), q=q)
    lazy = lazy_world(logs, tmp_path, np.random.RandomState(0), n_files=12)
    for how in ("pooled", "per_logger"):
        weighted = {"pooling": "weighted", "divergences": how}
        for evaluator in (
            MultiLoggerIPS(**weighted),
            MultiLoggerIPS(self_normalized=True, **weighted),
            MultiLoggerDR(reward_model="q", **weighted),
        ):
            found, whole = (evaluator.fit(one).evaluate("pi") for one in (lazy, logs))
            assert_allclose(found.value, whole.value, rtol=1e-10)
            assert_allclose(found.standard_error, whole.standard_error, rtol=1e-9)


@pytest.mark.filterwarnings("ignore:X does not have valid feature names")
def test_a_policy_that_predicts_is_asked_part_by_part(tmp_path):
    logs = logs_with()
    lazy = lazy_world(logs, tmp_path, np.random.RandomState(0))
    policy = RewardModelPolicy(Ridge()).fit(lazy.head(200))
    files, memory = (SNIPS().fit(one).evaluate(policy) for one in (lazy, logs))
    assert_allclose(files.round_values, memory.round_values, rtol=1e-10)


def test_evaluators_with_the_same_model_share_what_is_read(tmp_path):
    def half(context):
        asked.append(len(context))
        return np.full((len(context), 3), 1 / 3)

    asked, names = [], ["DoublyRobust", "SNDR", "IPS"]
    lazy = lazy_world(logs_with(), tmp_path, np.random.RandomState(0))
    values = evaluate(FunctionPolicy(half), lazy, evaluators=names, reward_model=0.5)
    asked.clear()
    for name in names:
        assert np.isfinite(values[name].round_values).all()
    assert sum(asked) == 600


AUTO = {
    "IPS": IPS(cmax="auto"),
    "SNIPS": SNIPS(cmax="auto"),
    "DoublyRobust": DoublyRobust(reward_model="q", cmax="auto"),
    "SwitchDR": SwitchDR(reward_model="q", tau="auto"),
    "DRos": DRos(reward_model="q", lam="auto"),
    "SubGaussianIPS": SubGaussianIPS(lam="auto"),
}


@pytest.mark.parametrize("given", ["plain", "weights", "whole logger"])
def test_a_parameter_that_is_auto_is_chosen_from_the_rounds(given, tmp_path):
    rng = np.random.default_rng(2)
    known = {"plain": {}, "weights": {"sample_weight": rng.random(600)}}
    if given == "whole logger":
        logs = logs_with()
        mu = np.full((600, logs.n_actions), 0.3 / logs.n_actions)
        mu[np.arange(600), logs.action_index] += 0.7
        known[given] = {"logging_proba": mu, "propensity": None}
    logs = logs_with(**known[given])
    lazy = lazy_world(logs, tmp_path, np.random.RandomState(0), n_files=3)
    policies = {"pi": "pi", "old": "old"}
    files, memory = (evaluate(policies, one, evaluators=AUTO) for one in (lazy, logs))
    for key, whole in memory.items():
        found, given = files[key], AUTO[key[1]].get_params()
        [name] = [one for one, value in given.items() if value == "auto"]
        assert found.diagnostics[name] == pytest.approx(whole.diagnostics[name])
        assert_allclose(found.value, whole.value, rtol=1e-10)
        assert_allclose(found.standard_error, whole.standard_error, rtol=1e-9)
        assert_allclose(found.round_values, whole.round_values, rtol=1e-8, atol=1e-9)
        limits = found.confidence_interval(), whole.confidence_interval()
        assert_allclose(*limits, rtol=1e-8)
    alone = SNIPS(cmax="auto").fit(lazy).evaluate("pi")
    assert alone.diagnostics["cmax"] == files["pi", "SNIPS"].diagnostics["cmax"]
    with pytest.raises(ValueError, match="chosen from all rounds"):
        summarize(policies, lazy, evaluators=AUTO)


@pytest.mark.parametrize("kind", ["rewards", "weight"])
def test_an_error_that_sums_have_lost_is_that_of_the_rounds(kind, tmp_path):
    rng, n = np.random.default_rng(0), 300
    p = rng.uniform(0.2, 0.9, n)
    reward = 1e9 + rng.normal(size=n)
    if kind == "weight":
        p[7], reward = 1e-40, rng.normal(size=n)
    pi = np.tile([0.4, 0.6], (n, 1))
    logs = BanditLogs(np.zeros((n, 1)), rng.integers(0, 2, n), reward, p)
    logs = logs.with_columns(pi=pi, q=np.full((n, 2), reward.mean()))
    lazy = lazy_world(logs, tmp_path, np.random.RandomState(0), n_files=3)
    for evaluator in (SNIPS(), DoublyRobust(reward_model="q"), IPS()):
        found, whole = (evaluator.fit(one).evaluate("pi") for one in (lazy, logs))
        assert_allclose(found.value, whole.value, rtol=1e-12)
        assert_allclose(found.standard_error, whole.standard_error, rtol=1e-6)
        words = [{str(w) for w in one.warnings} for one in (found, whole)]
        assert not any("in memory, where sums" in one for one in words[0])
        drowned = [{w for w in some if "decides the value" in w} for some in words]
        assert drowned[0] == drowned[1]


def test_an_alarm_of_the_tail_asks_the_rounds(tmp_path):
    rng, n = np.random.default_rng(0), 500
    reward = rng.lognormal(sigma=1.5, size=n) * (rng.random(n) < 0.2)
    logs = BanditLogs(np.zeros((n, 1)), rng.integers(0, 2, n), reward, 0.5)
    logs = logs.with_columns(pi=np.tile([0.2, 0.8], (n, 1)))
    lazy = lazy_world(logs, tmp_path, np.random.RandomState(0))
    found, whole = (
        IPS().fit(one).evaluate("pi").confidence_interval() for one in (lazy, logs)
    )
    assert_allclose(found, whole)
    [told], [told_of_all] = found.warnings, whole.warnings
    assert str(told) == str(told_of_all) and told.value > 0.22
    logs = logs.with_columns(old=np.full((n, 2), 0.5))
    lazy = lazy_world(logs, tmp_path, np.random.RandomState(0))
    pair = (IPS().fit(one) for one in (lazy, logs))
    gains = [one.evaluate("pi") - one.evaluate("old") for one in pair]
    found, whole = (gain.confidence_interval() for gain in gains)
    assert_allclose(found, whole, rtol=1e-9)
    assert [str(one) for one in found.warnings] == [str(one) for one in whole.warnings]


def test_what_has_no_files_any_more_says_so(tmp_path):
    logs = logs_with()
    lazy = lazy_world(logs, tmp_path, np.random.RandomState(0), n_files=2)
    value = evaluate("pi", lazy, evaluators=["SNIPS"])["SNIPS"]
    days = sum(summarize("pi", logs[k::2], evaluators=["SNIPS"]) for k in (0, 1))
    for gone in (by_pickle(value), days.values()["SNIPS"]):
        for ask in (
            lambda gone: gone.round_values,
            lambda gone: gone.by("action"),
            lambda gone: gone.sensitivity(),
            lambda gone: gone.confidence_interval(method="betting"),
        ):
            with pytest.raises(ValueError, match="sums"):
                ask(gone)


def test_files_that_changed_are_told(tmp_path):
    logs = logs_with()
    lazy = lazy_world(logs, tmp_path, np.random.RandomState(0), n_files=2)
    value = evaluate("pi", lazy, evaluators=["SNIPS"])["SNIPS"]
    for path in sorted(tmp_path.glob("*.parquet"))[:1]:
        lazy_world(logs[:50], tmp_path, np.random.RandomState(0), n_files=1)
        assert path.exists()
    with pytest.raises((RuntimeError, ValueError), match=r"changed|rows"):
        _ = value.round_values
