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
)
from skope_ope.evaluators._logged_value import logged_value
from skope_ope.evaluators.core._common_rounds import on_common_rounds
from skope_ope.evaluators.core._estimate import difference
from skope_ope.evaluators.parts._part_sums import sums_of_part
from skope_ope.exceptions import OPEWarning, SupportWarning, TailWarning
from skope_ope.policies import EmpiricalSlatePolicy

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


def quietly(evaluator, policy, logs, sample_weight=None):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", OPEWarning)
        return evaluator.fit(logs).evaluate(policy, sample_weight=sample_weight)


def subtracted(first, second):
    """The difference, and the texts of its warnings."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        found = first - second
    return found, [str(one.message) for one in caught]


@pytest.mark.parametrize("name", EVALUATORS)
def test_policies_that_are_equal_where_they_are_known_do_not_differ(name):
    # one context is worth more than the others: without it a policy looked worse
    fitted = logs_of()
    a = quietly(EVALUATORS[name], UNSHOWN, fitted)
    b = quietly(EVALUATORS[name], FIRST, fitted)
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
    found, told = subtracted(*(quietly(evaluator, p, logs) for p in (UNSHOWN, OTHER)))
    common = X == 2
    a, b = (quietly(evaluator, p, logs, common.astype(float)) for p in (UNSHOWN, OTHER))
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
    values = {name: quietly(evaluator, p, logs) for name, p in policies.items()}
    values["the logger"] = logged_value(logs)
    found, [warned] = on_common_rounds(values)
    assert list(found) == list(values)
    text = f"{(X == 2).sum()} of 600 rounds are common"
    assert str(warned).startswith(text)
    assert f"a ({(X == 0).sum()} rounds), b ({(X == 1).sum()} rounds)." in str(warned)
    common = (X == 2).astype(float)
    for key, policy in policies.items():
        again = quietly(evaluator, policy, logs, common)
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
    assert_allclose(found["the logger"].value, REWARD[X == 2].mean())
    assert_allclose(found["the logger"].effective_sample_size, (X == 2).sum())
    # all of them are about the same rounds now
    for key in policies:
        difference, told = subtracted(found[key], found["the logger"])
        assert not told
        assert difference.diagnostics["n_common_rounds"] == (X == 2).sum()
        assert_allclose(
            difference.value, found[key].value - found["the logger"].value, rtol=1e-12
        )


def test_values_that_are_about_all_rounds_stay_as_they_are():
    logs = logs_of()
    values = {"a": quietly(PseudoInverse(), FIRST, logs), "b": logged_value(logs)}
    found, warned = on_common_rounds(values)
    assert warned == ()
    assert all(found[name] is one for name, one in values.items())
    difference, told = subtracted(*values.values())
    assert not told
    assert difference.diagnostics["n_common_rounds"] == N
    # two policies that are unknown in the same rounds, too
    elsewhere = np.where(X[:, None] == 0, [3, 2], [1, 0])
    pair = {
        k: quietly(PseudoInverse(), p, logs) for k, p in enumerate((UNSHOWN, elsewhere))
    }
    found, warned = on_common_rounds(pair)
    assert warned == ()
    difference, told = subtracted(*pair.values())
    assert not told
    assert difference.value == pair[0].value - pair[1].value
    assert difference.diagnostics["n_common_rounds"] == (X != 0).sum()


def test_without_common_rounds_there_is_nothing_to_compare():
    logs = logs_of()
    contrary = np.where(X[:, None] == 0, [0, 1], [2, 3])
    a, b = (quietly(PseudoInverse(), p, logs) for p in (UNSHOWN, contrary))
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
    a, b = (quietly(PseudoInverse(), p, logs) for p in (slates, FIRST))
    found, told = subtracted(a, b)
    assert np.isfinite(found.value)
    assert np.isnan(found.standard_error)
    assert "1 of 600 rounds are common" in told[0]


def test_a_policy_of_which_nothing_is_known_is_not_asked():
    logs = logs_of()
    policies = {"nowhere": NOWHERE, "a": UNSHOWN, "b": FIRST}
    values = {k: quietly(PseudoInverse(), p, logs) for k, p in policies.items()}
    found, [warned] = on_common_rounds(values)
    assert np.isnan(found["nowhere"].value)
    assert found["nowhere"] is values["nowhere"]
    assert found["a"].value == found["b"].value
    assert "nowhere" not in str(warned)
    difference, told = subtracted(values["nowhere"], values["b"])
    assert np.isnan(difference.value)
    assert difference.diagnostics["n_common_rounds"] == 0
    assert not told  # the value itself has said why


def test_differences_of_differences():
    logs = logs_of()
    a, b, c, d = (
        quietly(PseudoInverse(self_normalized=True), p, logs)
        for p in (UNSHOWN, FIRST, OTHER, FIRST[:, ::-1])
    )
    whole, _ = subtracted(subtracted(a, b)[0], subtracted(c, d)[0])
    found, _ = on_common_rounds({"a": a, "b": b, "c": c, "d": d})
    by_hand = (found["a"] - found["b"]) - (found["c"] - found["d"])
    assert_allclose(whole.value, by_hand.value, atol=1e-12)
    assert_allclose(whole.standard_error, by_hand.standard_error, rtol=1e-9, atol=1e-12)
    assert whole.diagnostics["n_common_rounds"] == (X == 2).sum()


def test_common_rounds_survive_a_pickle_and_groups_of_rounds():
    logs = logs_of()
    a, b = (quietly(PseudoInverse(), p, logs) for p in (UNSHOWN, OTHER))
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
        "PI": quietly(PseudoInverse(), UNSHOWN, logs),
        "scavenged": quietly(ExplorationScavenging(), FIRST, logs),
        "pages": quietly(PositionScavenging(attention=[1.0, 0.5]), FIRST, logs),
        "model": quietly(SlateDirectMethod(reward_model=0.5), FIRST, logs),
    }
    found, _ = on_common_rounds(values)
    common = (X != 0).astype(float)
    expected = {
        "scavenged": quietly(ExplorationScavenging(), FIRST, logs, common),
        "pages": quietly(PositionScavenging(attention=[1.0, 0.5]), FIRST, logs, common),
        "model": quietly(SlateDirectMethod(reward_model=0.5), FIRST, logs, common),
    }
    for name, one in expected.items():
        assert_allclose(found[name].value, one.value, rtol=1e-12)
        assert_allclose(found[name].standard_error, one.standard_error, rtol=1e-9)
        assert_allclose(
            found[name].effective_sample_size, one.effective_sample_size, rtol=1e-12
        )
        pair, told = subtracted(values["PI"], values[name])
        assert_allclose(pair.value, found["PI"].value - one.value, rtol=1e-12)
        assert len(told) == 1
    # the bootstrap was one of all pages
    decay = PositionScavenging(
        attention=AttentionDecay(method="uniform"), random_state=0
    )
    pages = quietly(decay, FIRST, logs)
    pair, _ = subtracted(values["PI"], pages)
    assert np.isfinite(pair.value)
    assert np.isnan(pair.standard_error)


def test_sums_of_other_rounds_are_not_subtracted():
    logs = logs_of(group=np.arange(N))
    policies = {"a": UNSHOWN, "b": OTHER, "c": FIRST}
    joint = sums_of_part(policies, {"PI": PseudoInverse()}, logs).by_evaluator["PI"]
    sums = {name: joint.summary(name).estimate() for name in policies}
    with pytest.raises(ValueError, match="about different rounds"):
        difference(sums["a"], sums["b"])
    with pytest.raises(ValueError, match="about different rounds"):
        difference(sums["a"], sums["c"])
    assert difference(sums["c"], sums["c"]).value == 0
