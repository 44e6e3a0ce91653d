# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""One rule of intervals: rounds in memory, days that are added and saved sums."""

import pickle
import warnings

import numpy as np
import pytest
from numpy.testing import assert_allclose

from skope_ope import (
    IPS,
    SNDR,
    SNIPS,
    BanditLogs,
    DirectMethod,
    DoublyRobust,
    LogSmoothing,
    MultiLoggerDR,
    MultiLoggerIPS,
    SubGaussianIPS,
    SwitchDR,
    UniformPolicy,
    compare_policies,
    summarize,
)
from skope_ope.datasets import make_bandit_logs
from skope_ope.evaluators import ValueSummary, evaluate
from skope_ope.evaluators.core._largest_deviation import Extremes
from skope_ope.exceptions import FewEventsWarning, OPEWarning

K = 3
quiet = pytest.mark.filterwarnings("ignore::skope_ope.exceptions.OPEWarning")
ONE_LOGGER = {
    "IPS": IPS(),
    "clipped": IPS(cmax=2.0),
    "SNIPS": SNIPS(),
    "DirectMethod": DirectMethod(reward_model="q"),
    "DoublyRobust": DoublyRobust(reward_model="q"),
    "SNDR": SNDR(reward_model="q"),
    "SwitchDR": SwitchDR(reward_model="q", tau=1.5),
    "SubGaussianIPS": SubGaussianIPS(lam=0.2),
}
SEVERAL = {
    f"{pooling} {kind.__name__} {ratio}": kind(
        pooling=pooling, self_normalized=ratio, divergences={0: 1.0, 1: 2.0}, **model
    )
    for kind, model in ((MultiLoggerIPS, {}), (MultiLoggerDR, {"reward_model": "q"}))
    for pooling in ("naive", "weighted")
    for ratio in (False, True)
}
SMOOTH = {"LogSmoothing": LogSmoothing(lam=0.1)}
WORLDS = {
    "yes and no": {},
    "few events": {"rate": 0.02, "n": 300},
    "whole logger": {"told": True},
    "stated": {
        "reward_range": (-1, 2),
        "evaluators": {"smooth": LogSmoothing(lam=0.1)},
    },
    "far": {"reward_range": (1000, 1001)},
    "sample weights": {"weighted": True, "rate": 0.1},
    "weights by reward": {"weighted": "by reward", "rate": 0.1},
    "others than in a day": {"weighted": "by reward", "reward_range": (0, 12)},
    "equal weights": {"weighted": "equal", "rate": 0.1},
    "groups": {"groups": 40, "rate": 0.1},
    "weighted groups": {"groups": 30, "weighted": True, "told": True},
    "no range": {"reward_range": None, "n": 4000},
    "loggers": {"loggers": True, "rate": 0.1, "evaluators": SEVERAL},
    "loggers, groups": {"loggers": True, "groups": 40, "evaluators": SEVERAL},
}


def world(
    rate=0.4,
    n=700,
    reward_range="yes and no",
    told=False,
    weighted=False,
    groups=None,
    loggers=False,
    evaluators=None,
):
    """Logs with two policies, predictions and two days as columns, and evaluators."""
    rng = np.random.default_rng(0)
    mu = rng.dirichlet([2.0] * K, size=(2, n))
    logger = rng.integers(2, size=n)
    p = mu[logger if loggers else 0, np.arange(n)]
    action = (rng.random((n, 1)) < p.cumsum(1)).argmax(1)
    reward = (rng.random(n) < rate * (1 + action) / 2).astype(float)
    q = rng.uniform(0, 1, (n, K))
    given = {}
    if reward_range != "yes and no":
        low, high = reward_range or (0, 3)
        reward = low + (high - low) * rng.beta(1, 2, n)
        if reward_range == (0, 12):  # four on every day, twelve in all
            reward = np.floor(reward / 3) * 3 + np.arange(n) % 3
        q = low + (high - low) * q
        given["reward_range"] = reward_range
    if told:
        given["logging_proba"] = p
    if weighted:
        omega = rng.integers(0, 4, n).astype(float)
        if weighted == "by reward":
            omega = rng.exponential(np.where(reward > reward.mean(), 1.0, 20.0))
        given["sample_weight"] = np.full(n, 3.0) if weighted == "equal" else omega
    if groups:
        given["group"] = rng.integers(groups, size=n)
    if loggers:
        proba = mu[:, np.arange(n), action].T
        given |= {"logger": logger, "logger_proba": proba}
    taken = p[np.arange(n), action]
    logs = BanditLogs(rng.normal(size=(n, 2)), action, reward, taken, **given)
    new, old = rng.dirichlet([1.0] * K, size=(2, n))
    logs = logs.with_columns(new=new, old=old, q=q, day=np.arange(n) % 2)
    return logs, ONE_LOGGER if evaluators is None else ONE_LOGGER | evaluators


def limits(value):
    found = value.confidence_interval()
    assert np.isfinite(found).all()
    return [*found, found.max_weight or 0.0, found.method == "gamma"]


@pytest.fixture(scope="module", params=WORLDS)
def sources(request, tmp_path_factory):
    """The same values: from rounds in memory, and from sums of three days, saved."""
    logs, evaluators = world(**WORLDS[request.param])
    if logs.loggers is not None:
        evaluators = SEVERAL
    policies = {name: name for name in ("new", "old")}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", OPEWarning)
        table = evaluate(policies, logs, evaluators=evaluators)
        how = {"evaluators": evaluators, "by": "day"}
        summary = sum(summarize(policies, logs[k::3], **how) for k in range(3))
        path = tmp_path_factory.mktemp("sums") / "summary.npz"
        summary.save(path)
        return (table, ValueSummary.load(path, evaluators).values()), evaluators


@quiet
def test_values(sources):
    for name in sources[1]:
        memory, sums = (limits(table["new", name]) for table in sources[0])
        assert_allclose(sums, memory, rtol=1e-9, err_msg=name)


@quiet
def test_differences(sources):
    for name in sources[1]:
        pair = (table["new", name] - table["old", name] for table in sources[0])
        memory, sums = map(limits, pair)
        assert_allclose(sums, memory, rtol=1e-7, atol=1e-9, err_msg=name)


@quiet
def test_groups_of_rounds(sources):
    for name in sources[1]:
        pair = (table["new", name].by("day") for table in sources[0])
        for one, other in zip(*(days.values() for days in pair), strict=True):
            assert_allclose(limits(other), limits(one), rtol=1e-9, err_msg=name)


@quiet
def test_a_weight_below_tau_that_was_not_seen_counts():
    n = 400
    action = np.arange(n) % 2
    proba = np.column_stack([np.full(n, 0.9), np.full(n, 0.1)])
    proba[::40] = 0.6, 0.4  # where the policy's action may weigh up to 1.67
    action[::40] = 0
    reward = (np.arange(n) % 7 == 0).astype(float)
    logs = BanditLogs(
        np.zeros((n, 1)), action, reward, proba[np.arange(n), action],
        logging_proba=proba, reward_range=(0, 1),
    )  # fmt: skip
    policy = np.tile([0.3, 0.7], (n, 1))  # weights .33 and 7, or .5 and 1.75
    low, high = (
        SwitchDR(reward_model=0.2, tau=tau).fit(logs).evaluate(policy)
        for tau in (0.5, 2.0)
    )
    assert low.value == high.value  # no logged weight lies between
    assert high.confidence_interval().width > low.confidence_interval().width


def test_many_rewards_above_the_middle_are_no_few_events():
    """A half without rounds is no alarm where none of its rounds could be large."""
    rng, n = np.random.default_rng(0), 2000
    logs = BanditLogs(
        np.zeros((n, 1)), rng.integers(0, 2, n), rng.uniform(0.6, 0.9, n), 0.5,
        reward_range=(0, 1),
    )  # fmt: skip
    value = IPS().fit(logs).evaluate(np.tile([0.4, 0.6], (n, 1)))
    assert value.confidence_interval().warnings == ()
    assert value.verdict == "trustworthy"


def test_rounds_without_a_click_are_no_few_events_of_a_model():
    """Within their half predictions alone differ, in as many rounds as it has."""
    logs = make_bandit_logs(600, random_state=0).replace(logging_proba=None)
    value = DoublyRobust().fit(logs).evaluate(UniformPolicy())
    assert value.confidence_interval().warnings == ()


@quiet
def test_groups_have_the_smoothing_of_the_whole_log():
    """Where lam follows the number of rounds, those of a group do not change it."""
    group = np.arange(400) % 10
    reward, rounds = 1.0 * (group == 1), (np.zeros((400, 1)), np.arange(400) % 4 > 1)
    logs = BanditLogs(*rounds, reward, 0.5, reward_range=(0, 1))
    found, stated = (
        LogSmoothing(lam=lam).fit(logs).evaluate(UniformPolicy()).by(group)[0]
        for lam in (None, 1 / np.sqrt(400))
    )
    assert_allclose(limits(found), limits(stated), rtol=1e-12)
    assert 0 < found.confidence_interval().high < 1


def test_corners_hold_all_pairs_of_predictions():
    rng = np.random.default_rng(0)
    q = rng.normal(size=200)
    v = 0.8 * q + 0.3 * rng.normal(size=200)
    ends = [(float(x.min()), float(x.max())) for x in (q, v, v - q)]
    corners = np.array(Extremes(None, *ends).model_corners())
    for slope in rng.normal(size=(50, 2)):
        assert (corners @ slope).max() >= (slope[0] * q + slope[1] * v).max() - 1e-12
    assert np.all(corners.min(axis=0) >= [q.min() - 1e-12, v.min() - 1e-12])


def ratings(seed=0, n=1500):
    """Rewards of 4 and 5, and a few of 3, of a range from 1 to 5."""
    rng = np.random.default_rng(seed)
    reward = rng.choice([4.0, 5.0], n)
    reward[rng.random(n) < 0.004] = 3.0
    action = rng.integers(0, 2, n)
    return BanditLogs(np.zeros((n, 1)), action, reward, 0.5, reward_range=(1, 5))


@pytest.mark.parametrize("evaluator", [SNIPS(), SNDR(reward_model=4.5)])
@pytest.mark.parametrize("seed", range(5))
def test_rewards_that_differ_within_a_half_spread(evaluator, seed):
    """They lie on both sides of the value, and are no events of one side."""
    logs = ratings(seed)
    value = evaluator.fit(logs).evaluate(np.tile([0.0, 1.0], (len(logs), 1)))
    for one in (value, compare_policies({"new": UniformPolicy()}, logs).reference):
        student = one.confidence_interval(method="student")
        found = one.confidence_interval()
        assert 0.99 < found.width / student.width < 1.2
        assert found.warnings == () and one.verdict == "trustworthy"


@quiet
def test_a_gain_has_the_events_of_both_values():
    rng, n = np.random.default_rng(0), 400
    action = (np.arange(n) % 20 == 0).astype(int)
    reward = (rng.random(n) < 0.1).astype(float)
    reward[action == 1] = np.arange(20) < 2
    logs = BanditLogs(np.zeros((n, 1)), action, reward, np.where(action, 0.05, 0.95))
    fitted = IPS().fit(logs)
    value, other = (
        fitted.evaluate(np.tile(row, (n, 1))) for row in ([0.2, 0.8], [0.9, 0.1])
    )
    for one in (value, value - other):
        [warned] = one.confidence_interval().warnings
        assert isinstance(warned, FewEventsWarning) and warned.value < 4


def test_differences_of_pickled_values():
    logs, _ = world()
    fitted = SNIPS().fit(logs)
    pair = [fitted.evaluate(logs.columns[name]) for name in ("new", "old")]
    stored = [pickle.loads(pickle.dumps(one)) for one in pair]
    found, whole = (a - b for a, b in (stored, pair))
    limits = found.confidence_interval(), whole.confidence_interval()
    assert_allclose(*limits, rtol=1e-12)
    assert (stored[0] - pair[1]).confidence_interval() == limits[1]


def test_days_of_one_logger_each():
    """The largest weights are those of the loggers, whoever acted on a day."""
    rng, n = np.random.default_rng(0), 200
    logger = np.repeat(["a", "b"], n)
    mu = np.where(logger[:, None] == "a", [[0.5, 0.5]], [[0.95, 0.05]])
    action = (rng.random(2 * n) > mu[:, 0]).astype(int)
    reward = (rng.random(2 * n) < 0.35).astype(float)
    p = mu[np.arange(2 * n), action]
    logs = BanditLogs(np.zeros((2 * n, 1)), action, reward, p, logger=logger)
    logs = logs.with_columns(new=np.tile([0.4, 0.6], (2 * n, 1)))
    evaluator = MultiLoggerIPS(pooling="weighted", divergences={"a": 1.0, "b": 20.0})
    how = {"evaluators": {"one": evaluator}}
    days = sum(summarize("new", logs[k], **how) for k in (slice(n), slice(n, None)))
    found, whole = days.values()["one"], evaluate("new", logs, **how)["one"]
    assert_allclose(limits(found), limits(whole), rtol=1e-9)


@quiet
def test_differences_of_parts_of_few_rounds():
    """A part of few rounds may measure its numerators from elsewhere."""
    rng, n = np.random.default_rng(0), 30
    p = rng.uniform(0.1, 0.9, n)
    logs = BanditLogs(np.zeros((n, 1)), rng.integers(0, K, n), np.ones(n), p)
    new, old = rng.dirichlet([1.0] * K, size=(2, n))
    logs = logs.with_columns(new=new, old=old, q=rng.uniform(0, 0.2, (n, K)))
    asked = {"new": "new", "old": "old"}, [SNDR(reward_model="q")]
    memory = evaluate(asked[0], logs, evaluators=asked[1])
    parts = [summarize(asked[0], logs[k::3], evaluators=asked[1]) for k in range(3)]
    found, whole = (
        table["new", "SNDR"] - table["old", "SNDR"]
        for table in (sum(parts).values(), memory)
    )
    assert_allclose(found.standard_error, whole.standard_error, rtol=1e-9)


@quiet
def test_equal_sample_weights_change_no_interval():
    logs, evaluators = world(**WORLDS["equal weights"])
    plain = evaluate("new", logs.replace(sample_weight=None), evaluators=evaluators)
    parts = [summarize("new", logs[k::2], evaluators=evaluators) for k in range(2)]
    for name, value in sum(parts).values().items():
        assert_allclose(limits(value), limits(plain[name]), rtol=1e-9, err_msg=name)
