# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause

import pickle
import warnings
from functools import partial

import numpy as np
import pytest
from numpy.testing import assert_allclose

from skope_ope import (
    AttentionDecay,
    ExplorationScavenging,
    PositionScavenging,
    PseudoInverse,
    SlateDirectMethod,
    SlateDoublyRobust,
    SlateIPS,
    SlateLogs,
    compare_policies,
)
from skope_ope.exceptions import SupportWarning, TailWarning
from skope_ope.policies import EmpiricalSlatePolicy
from tests.evaluators.core._asked import logged_value, value_of

N = 600
RNG = np.random.RandomState(0)
X = RNG.randint(3, size=N)
ORDER = RNG.randint(2, size=N)
SLATE = np.where(ORDER[:, None] == 0, [0, 1], [1, 0])
LOGGER = EmpiricalSlatePolicy([[0, 1], [1, 0]])
FIRST = np.tile([0, 1], (N, 1))  # known everywhere
UNSHOWN = np.where(X[:, None] == 0, [2, 3], [0, 1])  # the same, but in context 0
OTHER = np.where(X[:, None] == 1, [2, 3], [1, 0])  # unknown in context 1
NOWHERE = np.tile([2, 3], (N, 1))
REWARD = (X == 0) + 0.5 * (ORDER == 0) + RNG.normal(0, 0.3, N)
EVALUATORS = {
    "PI": PseudoInverse(),
    "wPI": PseudoInverse(self_normalized=True),
    "single": PseudoInverse(control_variates="single"),
    "multiple": PseudoInverse(control_variates="multiple"),
    "wIPS": SlateIPS(self_normalized=True),
    "DR": SlateDoublyRobust(reward_model=0.4),
}


def logs_of(reward=REWARD, sample_weight=None, **fields):
    about = X[:, None], SLATE, reward
    logs = SlateLogs(*about, n_candidates=4, logging_policy=LOGGER, **fields)
    if sample_weight is None:
        return logs
    return logs.with_columns(sample_weight=sample_weight)


LOGS = logs_of()


def told_by(call, word=""):
    """What a call returns, and the texts of its warnings that hold a word."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        found = call()
    return found, [str(w.message) for w in caught if word in str(w.message)]


def subtracted(first, second):
    """The difference, and the texts of its warnings."""
    return told_by(lambda: first - second)


def compared(policies, logs, evaluator=EVALUATORS["PI"], **given):
    """The values of a comparison, those of the rounds that all know, and its words."""
    given = {"evaluator": evaluator} | given
    call = partial(compare_policies, policies, logs, **given)
    found, told = told_by(call, "rounds are common")
    return {**found, "logger": found.reference}, told


@pytest.mark.parametrize("name", EVALUATORS)
def test_policies_that_are_equal_where_they_are_known_do_not_differ(name):
    # one context is worth more than the others: without it a policy looked worse
    a, b = (value_of(EVALUATORS[name], LOGS, policy) for policy in (UNSHOWN, FIRST))
    assert abs(a.value - b.value) > 0.2
    found, told = subtracted(a, b)
    assert found.value == 0
    with pytest.warns(TailWarning, match="no width"):
        assert found.confidence_interval(method="student") == (0, 0)
    n_common = int((X != 0).sum())
    assert found.diagnostics["n_common_rounds"] == n_common
    [warned] = found.warnings
    assert isinstance(warned, SupportWarning) and told == [str(warned)]
    assert_allclose(warned.value, (X == 0).mean())
    assert f"{n_common} of 600 rounds are common" in told[0]
    assert f"the first ({600 - n_common} rounds)" in told[0]


WORLDS = {"plain": {}, "groups": {"group": RNG.randint(150, size=N)}}
WORLDS["weights"] = {"sample_weight": RNG.choice([0, 1, 2.5], N)}
WORLDS["both"] = WORLDS["groups"] | WORLDS["weights"]


@pytest.mark.few_cases
@pytest.mark.parametrize("world", WORLDS)
@pytest.mark.parametrize("name", EVALUATORS)
def test_differences_are_those_of_the_common_rounds(name, world):
    """As if both had been evaluated with weight zero elsewhere."""
    logs, evaluator, common = logs_of(**WORLDS[world]), EVALUATORS[name], X == 2
    found, told = subtracted(*(value_of(evaluator, logs, p) for p in (UNSHOWN, OTHER)))
    given = {"sample_weight": common.astype(float)}
    a, b = (value_of(evaluator, logs, p, **given) for p in (UNSHOWN, OTHER))
    assert_allclose(found.value, a.value - b.value, rtol=1e-12)
    assert abs(found.value) > 0.1
    known = (a.round_values - b.round_values) - (a.value - b.value)
    cluster = logs.group_index
    assert_allclose(found.standard_error, spread(known, cluster), rtol=1e-9)
    assert_allclose(found.round_values.mean(), found.value, rtol=1e-12)
    assert len(found.round_values) == N
    counts = logs.columns.get("sample_weight", np.ones(N)) > 0
    n_units = n_common = int((common & counts).sum())
    assert found.diagnostics["n_common_rounds"] == n_common
    assert f"of {int(counts.sum())} rounds" in told[0]
    if cluster is not None:
        n_units = len(np.unique(cluster[common & counts]))
    assert found.degrees_of_freedom <= n_units - 1


def spread(change, cluster):
    """SE^2 = sum_g (sum of the cluster)^2 / (n (n - 1))."""
    n = len(change)
    if cluster is not None:
        change = np.bincount(cluster, change)
    return float(np.sqrt((change**2).sum() / n / (n - 1)))


@pytest.mark.parametrize("name", EVALUATORS)
def test_values_on_common_rounds_are_those_of_weight_zero_elsewhere(name):
    logs, evaluator = logs_of(**WORLDS["groups"]), EVALUATORS[name]
    policies = {"a": UNSHOWN, "b": OTHER, "c": FIRST}
    found, [warned] = compared(policies, logs, evaluator)
    assert warned.startswith(f"{(X == 2).sum()} of 600 rounds are common")
    assert f"a ({(X == 0).sum()} rounds), b ({(X == 1).sum()} rounds)." in warned
    common = (X == 2).astype(float)
    for key, policy in policies.items():
        own = found[key]
        again = value_of(evaluator, logs, policy, sample_weight=common)
        for name in ("value", "standard_error", "degrees_of_freedom"):
            assert_allclose(getattr(own, name), getattr(again, name), rtol=1e-12)
        assert_allclose(own.round_values, again.round_values, rtol=1e-10)
        sizes = own.effective_sample_size, again.effective_sample_size
        assert_allclose(*sizes, rtol=1e-12)
        for name in ("mean_weight", "n_groups", "design_effect", "n_rounds"):
            assert_allclose(own.diagnostics[name], again.diagnostics[name], rtol=1e-9)
    logger = found["logger"]
    assert_allclose(logger.value, REWARD[X == 2].mean())
    assert_allclose(logger.effective_sample_size, (X == 2).sum())
    # all of them are about the same rounds now
    for key in policies:
        difference, told = subtracted(found[key], logger)
        assert not told
        assert difference.diagnostics["n_common_rounds"] == (X == 2).sum()
        assert_allclose(difference.value, found[key].value - logger.value, rtol=1e-12)


def test_values_that_are_about_all_rounds_stay_as_they_are():
    found, warned = compared({"a": FIRST}, LOGS)
    assert not warned
    alone = value_of(PseudoInverse(), LOGS, FIRST)
    assert (found["a"].value, found["a"].n_rounds) == (alone.value, N)
    difference, told = subtracted(alone, logged_value(LOGS))
    assert not told
    assert difference.diagnostics["n_common_rounds"] == N
    # two policies that are unknown in the same rounds, too
    elsewhere = np.where(X[:, None] == 0, [3, 2], [1, 0])
    pair = {"a": UNSHOWN, "b": elsewhere}
    assert not compared(pair, LOGS, baseline="a")[1]
    one, other = (value_of(PseudoInverse(), LOGS, p) for p in pair.values())
    difference, told = subtracted(one, other)
    assert not told
    assert difference.value == one.value - other.value
    assert difference.diagnostics["n_common_rounds"] == (X != 0).sum()


def test_one_common_round_has_no_spread_and_none_no_value():
    contrary = np.where(X[:, None] == 0, [0, 1], [2, 3])
    a, b, c = (value_of(PseudoInverse(), LOGS, p) for p in (UNSHOWN, contrary, FIRST))
    found, told = subtracted(a, b)
    assert np.isnan([found.value, found.standard_error]).all()
    assert np.isnan(found.confidence_interval(method="student")).all()
    assert found.diagnostics["n_common_rounds"] == 0
    assert "0 of 600 rounds are common" in told[0]
    assert "Nothing can be compared: the values are NaN." in told[0]
    slates = NOWHERE.copy()
    slates[np.flatnonzero(ORDER == 0)[0]] = [0, 1]
    found, told = subtracted(value_of(PseudoInverse(), LOGS, slates), c)
    assert np.isfinite(found.value) and np.isnan(found.standard_error)
    assert "1 of 600 rounds are common" in told[0]


def test_a_policy_of_which_nothing_is_known_is_not_asked():
    policies = {"nowhere": NOWHERE, "a": UNSHOWN, "b": FIRST}
    found, [warned] = compared(policies, LOGS)
    assert np.isnan(found["nowhere"].value)
    assert found["a"].value == found["b"].value
    assert "nowhere" not in warned
    alone, other = (value_of(PseudoInverse(), LOGS, p) for p in (NOWHERE, FIRST))
    difference, told = subtracted(alone, other)
    assert np.isnan(difference.value)
    assert difference.diagnostics["n_common_rounds"] == 0
    assert not told  # the value itself has said why


def test_differences_of_differences():
    evaluator = EVALUATORS["wPI"]
    policies = {"a": UNSHOWN, "b": FIRST, "c": OTHER, "d": FIRST[:, ::-1]}
    a, b, c, d = (value_of(evaluator, LOGS, p) for p in policies.values())
    whole, _ = subtracted(subtracted(a, b)[0], subtracted(c, d)[0])
    found, _ = compared(policies, LOGS, evaluator)
    by_hand = (found["a"] - found["b"]) - (found["c"] - found["d"])
    assert_allclose(whole.value, by_hand.value, atol=1e-12)
    assert_allclose(whole.standard_error, by_hand.standard_error, rtol=1e-9, atol=1e-12)
    assert whole.diagnostics["n_common_rounds"] == (X == 2).sum()


def test_common_rounds_survive_a_pickle_and_groups_of_rounds():
    a, b = (value_of(PseudoInverse(), LOGS, p) for p in (UNSHOWN, OTHER))
    kept, _ = subtracted(*(pickle.loads(pickle.dumps(one)) for one in (a, b)))
    found, _ = subtracted(a, b)
    assert kept.value == found.value
    assert_allclose(kept.round_values, found.round_values)
    assert pickle.loads(pickle.dumps(found)).diagnostics == found.diagnostics
    with pytest.warns(SupportWarning, match="1 of 3 groups have no estimate, 2 first"):
        parts = found.by(np.where(X == 2, ORDER, 2))
    assert np.isnan(parts[2].value)
    total = sum(parts[k].value * ((X == 2) & (k == ORDER)).sum() for k in (0, 1))
    assert_allclose(total / (X == 2).sum(), found.value, rtol=1e-9)


def test_values_of_other_evaluators_are_cut_to_the_common_rounds():
    clicks = np.stack([REWARD > 0.5, RNG.random_sample(N) < 0.3], axis=1)
    logs, common = logs_of(None, slot_reward=clicks.astype(float)), X != 0
    one = value_of(PseudoInverse(), logs, UNSHOWN)
    weights = {"sample_weight": common.astype(float)}
    by_position = PositionScavenging(attention=[1.0, 0.5])
    model = SlateDirectMethod(reward_model=0.5)
    for evaluator in (ExplorationScavenging(), by_position, model):
        other = value_of(evaluator, logs, FIRST)
        cut = value_of(evaluator, logs, FIRST, **weights)
        pair, told = subtracted(one, other)
        assert_allclose(pair.value, one.value - cut.value, rtol=1e-12)
        change = one.round_values - cut.round_values - pair.value
        assert_allclose(pair.standard_error, spread(change, None), rtol=1e-9)
        assert len(told) == 1
    # the bootstrap was one of all pages
    attention = AttentionDecay(method="uniform")
    decay = PositionScavenging(attention=attention, random_state=0)
    pair, _ = subtracted(one, value_of(decay, logs, FIRST))
    assert np.isfinite(pair.value) and np.isnan(pair.standard_error)
