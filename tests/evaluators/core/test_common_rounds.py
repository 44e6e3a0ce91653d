# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause

import pickle
import warnings

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
    summarize,
)
from skope_ope.exceptions import SupportWarning, TailWarning
from skope_ope.policies import EmpiricalSlatePolicy
from tests.evaluators.core._asked import logged_value, quietly

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


def logs_of(reward=REWARD, **fields):
    columns = {k: fields.pop(k) for k in ("sample_weight",) if k in fields}
    logs = SlateLogs(
        X[:, None], SLATE, reward, n_candidates=4, logging_policy=LOGGER, **fields
    )
    return logs.with_columns(**columns) if columns else logs


def value_of(evaluator, policy, logs, sample_weight=None):
    fitted = evaluator.fit(logs)
    return quietly(fitted.evaluate, policy, sample_weight=sample_weight)


def subtracted(first, second):
    """The difference, and the texts of its warnings."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        found = first - second
    return found, [str(one.message) for one in caught]


def compared(policies, logs, evaluator=None, **given):
    """The values of a comparison, those of the rounds that all know, and its words."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        evaluator = PseudoInverse() if evaluator is None else evaluator
        found = compare_policies(policies, logs, evaluator=evaluator, **given)
    told = [str(w.message) for w in caught if "rounds are common" in str(w.message)]
    return {**found, "logger": found.reference}, told


@pytest.mark.parametrize("name", EVALUATORS)
def test_policies_that_are_equal_where_they_are_known_do_not_differ(name):
    # one context is worth more than the others: without it a policy looked worse
    fitted = logs_of()
    a = value_of(EVALUATORS[name], UNSHOWN, fitted)
    b = value_of(EVALUATORS[name], FIRST, fitted)
    assert abs(a.value - b.value) > 0.2
    found, told = subtracted(a, b)
    assert found.value == 0
    with pytest.warns(TailWarning, match="no width"):
        assert found.confidence_interval(method="student") == (0, 0)
    n_common = int((X != 0).sum())
    assert found.diagnostics["n_common_rounds"] == n_common
    assert [type(w) for w in found.warnings] == [SupportWarning]
    assert_allclose(found.warnings[0].value, (X == 0).mean())
    assert told == [str(found.warnings[0])]
    assert f"{n_common} of 600 rounds are common" in told[0]
    assert f"the first ({600 - n_common} rounds)" in told[0]


WORLDS = {
    "plain": {},
    "groups": {"group": RNG.randint(150, size=N)},
    "weights": {"sample_weight": RNG.choice([0, 1, 2.5], N)},
    "both": {
        "sample_weight": RNG.choice([0, 1, 2.5], N),
        "group": RNG.randint(150, size=N),
    },
}


@pytest.mark.few_cases
@pytest.mark.parametrize("world", WORLDS)
@pytest.mark.parametrize("name", EVALUATORS)
def test_differences_are_those_of_the_common_rounds(name, world):
    """As if both had been evaluated with weight zero elsewhere."""
    logs, evaluator = logs_of(**WORLDS[world]), EVALUATORS[name]
    found, told = subtracted(*(value_of(evaluator, p, logs) for p in (UNSHOWN, OTHER)))
    common = X == 2
    a, b = (
        value_of(evaluator, p, logs, common.astype(float)) for p in (UNSHOWN, OTHER)
    )
    assert_allclose(found.value, a.value - b.value, rtol=1e-12)
    assert abs(found.value) > 0.1
    known = (a.round_values - b.round_values) - (a.value - b.value)
    cluster = logs.group_index
    error = spread(known, cluster)
    assert_allclose(found.standard_error, error, rtol=1e-9)
    assert_allclose(found.round_values.mean(), found.value, rtol=1e-12)
    assert len(found.round_values) == N
    omega = logs.columns.get("sample_weight", np.ones(N))
    assert found.diagnostics["n_common_rounds"] == int((common & (omega > 0)).sum())
    assert f"of {int((omega > 0).sum())} rounds" in told[0]
    units = len(np.unique(cluster[common & (omega > 0)])) if cluster is not None else 0
    units = units or int((common & (omega > 0)).sum())
    assert found.degrees_of_freedom <= units - 1


def spread(change, cluster):
    """SE^2 = sum_g (sum of the cluster)^2 / (n (n - 1))."""
    n = len(change)
    if cluster is not None:
        change = np.bincount(cluster, change)
    return float(np.sqrt((change**2).sum() / n / (n - 1)))


@pytest.mark.parametrize("name", EVALUATORS)
def test_values_on_common_rounds_are_those_of_weight_zero_elsewhere(name):
    logs, evaluator = logs_of(group=WORLDS["groups"]["group"]), EVALUATORS[name]
    policies = {"a": UNSHOWN, "b": OTHER, "c": FIRST}
    found, [warned] = compared(policies, logs, evaluator)
    assert warned.startswith(f"{(X == 2).sum()} of 600 rounds are common")
    assert f"a ({(X == 0).sum()} rounds), b ({(X == 1).sum()} rounds)." in warned
    common = (X == 2).astype(float)
    for key, policy in policies.items():
        again = value_of(evaluator, policy, logs, common)
        for attribute in ("value", "standard_error", "degrees_of_freedom"):
            assert_allclose(
                getattr(found[key], attribute), getattr(again, attribute), rtol=1e-12
            )
        assert_allclose(found[key].round_values, again.round_values, rtol=1e-10)
        assert_allclose(
            found[key].effective_sample_size, again.effective_sample_size, rtol=1e-12
        )
        for entry in ("mean_weight", "n_groups", "design_effect", "n_rounds"):
            assert_allclose(
                found[key].diagnostics[entry], again.diagnostics[entry], rtol=1e-9
            )
    assert_allclose(found["logger"].value, REWARD[X == 2].mean())
    assert_allclose(found["logger"].effective_sample_size, (X == 2).sum())
    # all of them are about the same rounds now
    for key in policies:
        difference, told = subtracted(found[key], found["logger"])
        assert not told
        assert difference.diagnostics["n_common_rounds"] == (X == 2).sum()
        assert_allclose(
            difference.value, found[key].value - found["logger"].value, rtol=1e-12
        )


def test_values_that_are_about_all_rounds_stay_as_they_are():
    logs = logs_of()
    found, warned = compared({"a": FIRST}, logs)
    assert not warned
    alone = value_of(PseudoInverse(), FIRST, logs)
    assert (found["a"].value, found["a"].n_rounds) == (alone.value, N)
    difference, told = subtracted(alone, logged_value(logs))
    assert not told
    assert difference.diagnostics["n_common_rounds"] == N
    # two policies that are unknown in the same rounds, too
    elsewhere = np.where(X[:, None] == 0, [3, 2], [1, 0])
    pair = {"a": UNSHOWN, "b": elsewhere}
    assert not compared(pair, logs, baseline="a")[1]
    one, other = (value_of(PseudoInverse(), p, logs) for p in pair.values())
    difference, told = subtracted(one, other)
    assert not told
    assert difference.value == one.value - other.value
    assert difference.diagnostics["n_common_rounds"] == (X != 0).sum()


def test_without_common_rounds_there_is_nothing_to_compare():
    logs = logs_of()
    contrary = np.where(X[:, None] == 0, [0, 1], [2, 3])
    a, b = (value_of(PseudoInverse(), p, logs) for p in (UNSHOWN, contrary))
    found, told = subtracted(a, b)
    assert np.isnan([found.value, found.standard_error]).all()
    assert np.isnan(found.confidence_interval(method="student")).all()
    assert found.diagnostics["n_common_rounds"] == 0
    assert "0 of 600 rounds are common" in told[0]
    assert "Nothing can be compared: the values are NaN." in told[0]


def test_one_common_round_has_no_spread():
    logs = logs_of()
    slates = np.tile([2, 3], (N, 1))
    row = np.flatnonzero(ORDER == 0)[0]
    slates[row] = [0, 1]
    a, b = (value_of(PseudoInverse(), p, logs) for p in (slates, FIRST))
    found, told = subtracted(a, b)
    assert np.isfinite(found.value)
    assert np.isnan(found.standard_error)
    assert "1 of 600 rounds are common" in told[0]


def test_a_policy_of_which_nothing_is_known_is_not_asked():
    logs = logs_of()
    policies = {"nowhere": NOWHERE, "a": UNSHOWN, "b": FIRST}
    found, [warned] = compared(policies, logs)
    assert np.isnan(found["nowhere"].value)
    assert found["a"].value == found["b"].value
    assert "nowhere" not in warned
    alone, other = (value_of(PseudoInverse(), p, logs) for p in (NOWHERE, FIRST))
    difference, told = subtracted(alone, other)
    assert np.isnan(difference.value)
    assert difference.diagnostics["n_common_rounds"] == 0
    assert not told  # the value itself has said why


def test_differences_of_differences():
    logs = logs_of()
    a, b, c, d = (
        value_of(PseudoInverse(self_normalized=True), p, logs)
        for p in (UNSHOWN, FIRST, OTHER, FIRST[:, ::-1])
    )
    whole, _ = subtracted(subtracted(a, b)[0], subtracted(c, d)[0])
    policies = {"a": UNSHOWN, "b": FIRST, "c": OTHER, "d": FIRST[:, ::-1]}
    found, _ = compared(policies, logs, PseudoInverse(self_normalized=True))
    by_hand = (found["a"] - found["b"]) - (found["c"] - found["d"])
    assert_allclose(whole.value, by_hand.value, atol=1e-12)
    assert_allclose(whole.standard_error, by_hand.standard_error, rtol=1e-9, atol=1e-12)
    assert whole.diagnostics["n_common_rounds"] == (X == 2).sum()


def test_common_rounds_survive_a_pickle_and_groups_of_rounds():
    logs = logs_of()
    a, b = (value_of(PseudoInverse(), p, logs) for p in (UNSHOWN, OTHER))
    kept, _ = subtracted(*(pickle.loads(pickle.dumps(one)) for one in (a, b)))
    found, _ = subtracted(a, b)
    assert kept.value == found.value
    assert_allclose(kept.round_values, found.round_values)
    again = pickle.loads(pickle.dumps(found))
    assert again.diagnostics == found.diagnostics
    with pytest.warns(SupportWarning, match="1 of 3 groups have no estimate, 2 first"):
        parts = found.by(np.where(X == 2, ORDER, 2))
    assert np.isnan(parts[2].value)
    total = sum(parts[k].value * ((X == 2) & (k == ORDER)).sum() for k in (0, 1))
    assert_allclose(total / (X == 2).sum(), found.value, rtol=1e-9)


def test_values_of_other_evaluators_are_cut_to_the_common_rounds():
    clicks = np.stack([REWARD > 0.5, RNG.random_sample(N) < 0.3], axis=1)
    logs = logs_of(None, slot_reward=clicks.astype(float))
    values = {
        "PI": value_of(PseudoInverse(), UNSHOWN, logs),
        "scavenged": value_of(ExplorationScavenging(), FIRST, logs),
        "pages": value_of(PositionScavenging(attention=[1.0, 0.5]), FIRST, logs),
        "model": value_of(SlateDirectMethod(reward_model=0.5), FIRST, logs),
    }
    common = (X != 0).astype(float)
    expected = {
        "scavenged": value_of(ExplorationScavenging(), FIRST, logs, common),
        "pages": value_of(
            PositionScavenging(attention=[1.0, 0.5]), FIRST, logs, common
        ),
        "model": value_of(SlateDirectMethod(reward_model=0.5), FIRST, logs, common),
    }
    for name, one in expected.items():
        pair, told = subtracted(values["PI"], values[name])
        assert_allclose(pair.value, values["PI"].value - one.value, rtol=1e-12)
        change = values["PI"].round_values - one.round_values - pair.value
        assert_allclose(pair.standard_error, spread(change, None), rtol=1e-9)
        assert len(told) == 1
    # the bootstrap was one of all pages
    decay = PositionScavenging(
        attention=AttentionDecay(method="uniform"), random_state=0
    )
    pages = value_of(decay, FIRST, logs)
    pair, _ = subtracted(values["PI"], pages)
    assert np.isfinite(pair.value)
    assert np.isnan(pair.standard_error)


def test_sums_of_other_rounds_are_not_subtracted():
    logs = logs_of(group=np.arange(N))
    policies = {"a": UNSHOWN, "b": OTHER, "c": FIRST}
    table = quietly(
        lambda: summarize(policies, logs, evaluators={"PI": PseudoInverse()}).values()
    )
    a, b, c = (table[name, "PI"] for name in policies)
    for one, other in ((a, b), (a, c)):
        with pytest.raises(ValueError, match="about different rounds"):
            one - other
    assert (c - c).value == 0
