# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Intervals of slates and of arms: the same for rounds in memory and for added sums."""

import pickle

import numpy as np
import pytest
from numpy.testing import assert_allclose

from skope_ope import (
    BanditLogs,
    CascadeDR,
    CascadeIPS,
    ExplorationScavenging,
    IndependentSlotIPS,
    PseudoInverse,
    SlateDirectMethod,
    SlateDoublyRobust,
    SlateIPS,
    SlateLogs,
    UniformSlatePolicy,
    summarize,
)
from skope_ope.datasets import make_slate_logs
from skope_ope.evaluators import ValueSummary, evaluate

pytestmark = pytest.mark.filterwarnings("ignore::skope_ope.exceptions.OPEWarning")
EXACT = {
    "PI": PseudoInverse(),
    "clipped": PseudoInverse(cmax=2.0),
    "wPI": PseudoInverse(self_normalized=True),
    "SlateIPS": SlateIPS(),
    "SlateIPS ratio": SlateIPS(self_normalized=True),
    "direct": SlateDirectMethod(reward_model=0.3, random_state=0),
    "robust": SlateDoublyRobust(reward_model=0.3),
}
# Every term is bounded by itself where there are no rounds to ask.
BOUNDED = {"controlled": PseudoInverse(control_variates="single")}


def logs_of(n, rate, groups=None, seed=0):
    """Pages of three slots from six candidates, and the clicks on any of them."""
    rng = np.random.default_rng(seed)
    slate = rng.permuted(np.tile(np.arange(6), (n, 1)), axis=1)[:, :3]
    reward = (rng.random(n) < rate * (1 + (slate[:, 0] < 3))).astype(float)
    given = {"logging_policy": UniformSlatePolicy(3), "n_candidates": 6}
    if groups:
        given["group"] = rng.integers(groups, size=n)
    best = np.where(rng.random((n, 1)) < 0.5, [[0, 1, 2]], [[3, 1, 0]])
    logs = SlateLogs(rng.normal(size=(n, 2)), slate, reward, **given)
    return logs.with_columns(new=best, old=best[::-1].copy())


def from_days(logs, evaluators, tmp_path):
    """The values from sums of three days that were added and saved."""
    policies, path = {"new": "new", "old": "old"}, tmp_path / "summary.npz"
    days = (logs[k::3] for k in range(3))
    sum(summarize(policies, one, evaluators=evaluators) for one in days).save(path)
    return ValueSummary.load(path, evaluators).values()


@pytest.mark.parametrize("groups", [None, 60])
@pytest.mark.parametrize(("n", "rate"), [(900, 0.2), (200, 0.02)])
def test_slates(n, rate, groups, tmp_path):
    logs, evaluators = logs_of(n, rate, groups), EXACT | BOUNDED
    memory = evaluate({"new": "new", "old": "old"}, logs, evaluators=evaluators)
    tables = memory, from_days(logs, evaluators, tmp_path)
    assert memory["new", "PI"].diagnostics["negative_weight_share"] > 0.1
    for name in evaluators:
        pairs = [[table[policy, name] for policy in ("new", "old")] for table in tables]
        gains = [new - old for new, old in pairs]
        for one, other in ([new for new, _ in pairs], gains):
            found, of_sums = one.confidence_interval(), other.confidence_interval()
            if name in EXACT:
                assert found.method == of_sums.method, name
                assert_allclose(of_sums, found, rtol=1e-7, atol=1e-9, err_msg=name)
            else:
                low, high = np.subtract(of_sums, found)
                width = found.high - found.low
                assert -0.25 * width < low < 1e-7 and -1e-7 < high < 0.25 * width, name


def test_a_reward_of_negative_weight_takes_the_value_down():
    # few clicks, of which half have a negative weight: the events of both directions
    logs = logs_of(4000, 0.3)
    weights = PseudoInverse().fit(logs).evaluate("new").round_values
    clicked = logs.reward == 1
    rows = np.flatnonzero(clicked & (weights < 0))[:8]
    more = np.flatnonzero(clicked & (weights > 0))[:8]
    few = logs.replace(reward=np.isin(np.arange(4000), [*rows, *more]).astype(float))
    value = PseudoInverse().fit(few).evaluate("new")
    up, down = value._deviations.events
    assert 2 < up <= 9 and 2 < down <= 9


@pytest.mark.parametrize("ratio", [False, True])
@pytest.mark.parametrize("rate", [0.3, 0.02])
def test_arms(rate, ratio, tmp_path):
    rng, n = np.random.default_rng(1), 600
    action = rng.integers(3, size=n)
    reward = (rng.random(n) < rate * (1 + action)).astype(float)
    logs = BanditLogs(rng.normal(size=(n, 2)), action, reward)
    new, old = rng.dirichlet(np.ones(3), size=(2, n))
    logs = logs.with_columns(new=new, old=old)
    evaluators = {"scavenging": ExplorationScavenging(self_normalized=ratio)}
    days = from_days(logs, evaluators, tmp_path)
    memory = evaluators["scavenging"].fit(logs).evaluate("new")
    found = memory.confidence_interval()
    assert found.method == ("gamma" if rate < 0.1 else "student")
    of_sums = days["new", "scavenging"].confidence_interval()
    assert of_sums.method == found.method
    assert_allclose(of_sums, found, rtol=1e-7)


@pytest.mark.theory
@pytest.mark.parametrize("n", [100, 400])
def test_coverage(n):
    evaluators = {name: EXACT[name] for name in ("PI", "wPI")} | BOUNDED
    missed, n_worlds = dict.fromkeys(evaluators, 0), 300
    for seed in range(n_worlds):
        logs, policy, truth = make_slate_logs(
            n, logging="plackett_luce", random_state=seed, return_truth=True
        )
        for name, evaluator in evaluators.items():
            low, high = evaluator.fit(logs).evaluate(policy).confidence_interval()
            missed[name] += not low <= truth.value <= high
    # 4 standard errors of a share of .05 above it
    most = n_worlds * 0.05 + 4 * np.sqrt(n_worlds * 0.05 * 0.95)
    assert max(missed.values()) < most, missed


@pytest.mark.parametrize("groups", [None, 60])
def test_gains_of_pickled_values(groups):
    # a value in memory has its halves from the rounds, which a pickle leaves behind
    logs = logs_of(300, 0.02, groups)
    for name, evaluator in (EXACT | BOUNDED).items():
        fit = evaluator.fit(logs)
        pair = [fit.evaluate(policy) for policy in ("new", "old")]
        gain = pair[0] - pair[1]
        new, old = pickle.loads(pickle.dumps(pair))
        for again in (new - old, new - pair[1], pickle.loads(pickle.dumps(gain))):
            one, other = gain.confidence_interval(), again.confidence_interval()
            assert one.method == other.method, name
            assert_allclose(other, one, rtol=1e-12, atol=1e-14, err_msg=name)


def test_pickles_leave_the_logs_behind():
    n, numbers = 200, 300  # of every context: 480,000 bytes
    rng = np.random.default_rng(0)
    context, slots = rng.normal(size=(n, numbers)), rng.random((n, 3)) < 0.3
    slate = rng.permuted(np.tile(np.arange(6), (n, 1)), axis=1)[:, :3]
    about = {"n_candidates": 6, "logging_policy": UniformSlatePolicy(3)}
    slates = SlateLogs(context, slate, slot_reward=slots.astype(float), **about)
    best = np.tile([2, 0, 1], (n, 1))
    slot_wise = [CascadeIPS(), CascadeDR(reward_model=0.3), IndependentSlotIPS()]
    controlled = PseudoInverse(control_variates="multiple")
    asked = [
        (evaluator.fit(slates), best)
        for evaluator in (*EXACT.values(), *BOUNDED.values(), controlled, *slot_wise)
    ]
    logs = BanditLogs(context, slate[:, 0] % 3, slots[:, 0])
    arms = ExplorationScavenging().fit(logs)
    asked += [(arms, np.tile([0.2, 0.3, 0.5], (n, 1)))]
    for fit, policy in asked:
        value = fit.evaluate(policy)
        assert len(pickle.dumps(value)) < 90 * 8 * n, fit
        back = pickle.loads(pickle.dumps(value))
        assert back.diagnostics == value.diagnostics
        assert (back.round_values == value.round_values).all()


def test_groups_in_which_no_slate_matches():
    # all that the policy shows was logged, but in other slates: zero is what is found
    logs = logs_of(300, 0.3)
    matches = (logs.slate == logs.columns["new"]).all(axis=1)
    logs = logs.with_columns(some=matches | (np.arange(300) % 3 == 0))
    memory = SlateIPS().fit(logs).evaluate("new").by("some")
    sums = summarize({"new": "new"}, logs, evaluators=[SlateIPS()], by=["some"])
    [whole] = sums.values().values()
    for value in (memory[False], whole.by("some")[False]):
        assert value.value == 0 and value.confidence_interval() == (0, 1)
        assert "no information on it" in str(value.warnings[0])
        assert value.verdict.answer == "not supported"
    for label in (True, False):
        found, of_sums = (v[label] for v in (memory, whole.by("some")))
        assert_allclose(of_sums.value, found.value, rtol=1e-9, atol=1e-12)
