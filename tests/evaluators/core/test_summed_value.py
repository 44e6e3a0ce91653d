# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause

import pickle

import numpy as np
import pytest
from numpy.testing import assert_allclose

from skope_ope import (
    IPS,
    SNDR,
    SNIPS,
    DirectMethod,
    DoublyRobust,
    LogSmoothing,
    MultiLoggerDR,
    MultiLoggerIPS,
    PseudoInverse,
    SlateDirectMethod,
    SlateIPS,
    SubGaussianIPS,
    evaluate,
)
from skope_ope.evaluators._logged_value import logged_value
from skope_ope.exceptions import TailWarning
from tests.evaluators._reference_worlds import several_loggers, slates
from tests.evaluators._summing import cut, summed, world

pytestmark = pytest.mark.filterwarnings("ignore::skope_ope.exceptions.OPEWarning")
POLICIES = {"new": "pi", "other": "other"}
EVALUATORS = {
    "IPS": IPS(),
    "SNIPS": SNIPS(),
    "clipped": IPS(cmax=3),
    "DR": DoublyRobust(reward_model="q"),
    "SNDR": SNDR(reward_model="q"),
    "DM": DirectMethod(reward_model="q"),
    "SG": SubGaussianIPS(lam=0.1),
}
NUMBERS = (
    "value",
    "standard_error",
    "degrees_of_freedom",
    "effective_sample_size",
    "n_rounds",
)


def both(logs, evaluators=EVALUATORS, seed=0):
    """Return the tables of merged sums and of one evaluation in memory."""
    parts = summed(POLICIES, evaluators, logs, cut(len(logs), seed))
    return parts.values(), evaluate(POLICIES, logs, evaluators=evaluators)


def assert_alike(found, expected):
    """Same numbers, warnings, diagnostics; an interval that is not narrower."""
    for name in NUMBERS:
        one, other = getattr(found, name), getattr(expected, name)
        assert_allclose(one, other, rtol=1e-11, atol=1e-13, err_msg=name)
    assert list(map(str, found.warnings)) == list(map(str, expected.warnings))
    for name in found.diagnostics.keys() & expected.diagnostics.keys():
        one, other = found.diagnostics[name], expected.diagnostics[name]
        if isinstance(other, dict):
            assert one.keys() == other.keys()
            one, other = list(one.values()), list(other.values())
        assert_allclose(one, other, rtol=1e-9, atol=1e-11, err_msg=name)
    mine, memory = found._interval(), expected._interval()
    if memory.method == "student":
        assert mine.method == "student"
        assert_allclose(mine, memory, rtol=1e-11, atol=1e-13)
    else:
        width = memory.high - memory.low
        assert mine.low <= memory.low + 1e-9 * width
        assert mine.high >= memory.high - 1e-9 * width
        if not np.allclose(mine, memory, rtol=1e-9):
            told = any(isinstance(one, TailWarning) for one in mine.warnings)
            # or a part lacks an action: the bound of the weights is that of all of it
            assert told or mine.max_weight > memory.max_weight


@pytest.mark.few_cases
@pytest.mark.parametrize("reward", ["clicks", "rare", "revenue", "ratings"])
@pytest.mark.parametrize("kind", [{}, {"full": True}, {"free": True}])
def test_values_are_those_of_memory(reward, kind):
    for n in (60, 3000):
        table, memory = both(world(n, 1, reward, **kind))
        assert list(table) == list(memory)
        for key, value in table.items():
            assert_alike(value, memory[key])


@pytest.mark.parametrize("reward", ["clicks", "revenue"])
def test_differences_and_lifts_are_those_of_memory(reward):
    logs = world(2000, 2, reward)
    table, memory = both(logs)
    for name in EVALUATORS:
        pairs = (table["new", name], table["other", name])
        expected = (memory["new", name], memory["other", name])
        assert_alike(pairs[0] - pairs[1], expected[0] - expected[1])
        found, lift = pairs[0].lift(pairs[1]), expected[0].lift(expected[1])
        assert_allclose(
            (found.value, found.standard_error), (lift.value, lift.standard_error)
        )
    # of two evaluators, too
    found = table["new", "IPS"] - table["other", "SNDR"]
    assert_alike(found, memory["new", "IPS"] - memory["other", "SNDR"])
    summary = summed(POLICIES, EVALUATORS, logs, cut(2000))
    reference, expected = summary.logged_value("SNIPS"), logged_value(logs)
    assert_alike(reference, expected)
    gain = summary.values()["new", "SNIPS"] - reference
    assert_alike(gain, memory["new", "SNIPS"] - expected)


def test_with_groups_intervals_and_resamples_are_those_of_memory():
    logs = world(1500, 3, group=np.arange(1500) // 7)
    few = {name: EVALUATORS[name] for name in ("SNIPS", "DR")}
    table, memory = both(logs, few)
    for name in few:
        one, other = table["new", name], memory["new", name]
        pairs = [
            (one, other),
            (one - table["other", name], other - memory["other", name]),
        ]
        for found, expected in pairs:
            assert found.diagnostics["n_groups"] == 215
            for method in ("student", "jackknife", "bootstrap", "percentile"):
                assert_allclose(
                    found.confidence_interval(method=method),
                    expected.confidence_interval(method=method),
                    rtol=1e-8,
                )
    assert table["new", "SNIPS"].diagnostics["clusters"] == "exact groups"


def test_rewards_of_0_and_1_tell_gamma_limits_exactly():
    logs = world(400, 4, "rare")
    table, memory = both(logs, {"SNIPS": SNIPS()})
    for key in table:
        found, expected = table[key]._interval(), memory[key]._interval()
        assert found.method == expected.method == "gamma"
        assert_allclose(found, expected, rtol=1e-10)
        names = [type(one) for one in expected.warnings]
        assert [type(one) for one in found.warnings] == names


def test_what_needs_rounds_refuses_and_says_what_does_not():
    table, memory = both(world(300), {"SNIPS": SNIPS()})
    value, other = table["new", "SNIPS"], memory["other", "SNIPS"]
    with pytest.raises(
        ValueError, match=r"round_values of a value from merged sums are"
    ):
        value.round_values  # noqa: B018
    with pytest.raises(ValueError, match=r"summarize\(policies, logs, by='day'\)"):
        value.by("day")
    with pytest.raises(ValueError, match=r"values by labels of rounds are not known"):
        value.by(np.zeros(300))
    for method in ("betting", "hoeffding", "clopper_pearson", "log_smoothing"):
        with pytest.raises(
            ValueError, match=r"Use 'auto', 'student', or 'bootstrap' if"
        ):
            value.confidence_interval(method=method)
    for method in ("bootstrap", "percentile"):
        with pytest.raises(ValueError, match="Give the logs their group="):
            value.confidence_interval(method=method)
    with pytest.raises(ValueError, match="leaves out one group at a time"):
        value.confidence_interval(method="jackknife")
    for call in (
        value.sensitivity,
        lambda: value.breakdown_gamma(0.1),
        value.deviation_bound,
    ):
        with pytest.raises(
            ValueError, match="needs the weight and the reward of every"
        ):
            call()
    with pytest.raises(ValueError, match="Summarize both policies in one call"):
        value - other
    with pytest.raises(ValueError, match="Summarize both policies in one call"):
        other - value
    with pytest.raises(ValueError, match="of the first rounds is not known"):
        value._of_first([100, 300])


def test_values_of_different_rounds_are_not_subtracted():
    one, other = (both(world(100, seed), {"IPS": IPS()})[0] for seed in (0, 1))
    with pytest.raises(
        ValueError, match="needs both policies summarized over the same"
    ):
        one["new", "IPS"] - other["new", "IPS"]


def test_values_of_different_jobs_are_subtracted_by_their_groups():
    logs = world(900, 5, group=np.arange(900) // 9)
    rows, few = cut(900), {"SNIPS": SNIPS()}
    one = summed({"new": "pi"}, few, logs, rows).values()["new", "SNIPS"]
    two = summed({"other": "other"}, few, logs, rows[::-1]).values()["other", "SNIPS"]
    found = one - two
    memory = evaluate(POLICIES, logs, evaluators=few)
    expected = memory["new", "SNIPS"] - memory["other", "SNIPS"]
    assert_allclose(found.value, expected.value, rtol=1e-12)
    assert_allclose(found.standard_error, expected.standard_error, rtol=1e-11)
    alone = logs.replace(group=None)
    one, two = (
        summed({name: name}, few, alone, rows).values()[name, "SNIPS"]
        for name in ("pi", "other")
    )
    with pytest.raises(ValueError, match="needs sums by groups, and these are not"):
        one - two


def test_pickles_keep_all_that_is_known():
    logs = world(500, 6, group=np.arange(500) // 5)
    table, _ = both(logs, {"DR": EVALUATORS["DR"]})
    again = pickle.loads(pickle.dumps(table))
    for key, value in table.items():
        assert again[key].confidence_interval() == value.confidence_interval()
        assert again[key].warnings == value.warnings or len(value.warnings) == len(
            again[key].warnings
        )
        assert dict(again[key].diagnostics) == dict(value.diagnostics)
    gain = again["new", "DR"] - again["other", "DR"]
    assert (
        gain.standard_error
        == (table["new", "DR"] - table["other", "DR"]).standard_error
    )
    assert pickle.loads(pickle.dumps(gain)).confidence_interval(method="bootstrap")


def test_it_shows_and_judges_itself():
    value = both(world(800, 7), {"SNIPS": SNIPS()})[0]["new", "SNIPS"]
    assert "PolicyValue(" in repr(value) and "<table" in value._repr_html_()
    assert value.verdict.answer in ("trustworthy", "caution")
    assert float(value) == value.value
    assert value.lower_bound() < value.value < value.upper_bound()


@pytest.mark.parametrize("group", [None, np.arange(600) // 5])
def test_values_from_several_loggers_are_those_of_memory(group):
    logs = several_loggers(600, 1).logs.replace(group=group)
    evaluators = {
        "naive": MultiLoggerIPS(pooling="naive"),
        "balanced": MultiLoggerIPS(pooling="balanced"),
        "ratio": MultiLoggerIPS(pooling="balanced", self_normalized=True),
        "DR": MultiLoggerDR(pooling="balanced", reward_model=0.3),
        "weighted": MultiLoggerIPS(pooling="weighted", divergences=[1.0, 2.0, 3.0]),
    }
    counts = logs._logger_counts / len(logs)
    shares = dict(zip(logs.loggers.tolist(), counts.tolist(), strict=True))
    table = summed({"pi": "pi"}, evaluators, logs, cut(600, 3), shares=shares).values()
    memory = evaluate({"pi": "pi"}, logs, evaluators=evaluators)
    for key, value in table.items():
        assert_alike(value, memory[key])
        assert value.diagnostics["logger_rounds"] == dict(
            zip(logs.loggers.tolist(), logs._logger_counts.tolist(), strict=True)
        )


@pytest.mark.parametrize("kind", ["uniform", "product", "empirical"])
def test_values_of_slates_are_those_of_memory(kind):
    world_of_slates = slates(300, kind, 1)
    logs = world_of_slates.logs
    policies = {"mild": world_of_slates.policies[1]}
    evaluators = {
        "IPS": SlateIPS(),
        "wIPS": SlateIPS(self_normalized=True),
        "PI": PseudoInverse(),
        "wPI": PseudoInverse(self_normalized=True),
        "DM": SlateDirectMethod(reward_model=0.3),
    }
    table = summed(policies, evaluators, logs, cut(300, 3)).values()
    memory = evaluate(policies, logs, evaluators=evaluators)
    assert table.recommended == memory.recommended
    for key, value in table.items():
        assert_alike(value, memory[key])


def test_smoothed_logarithms_know_the_lowest_reward():
    logs = world(300, 8, "ratings")
    lam = {"smooth": LogSmoothing(lam=0.1)}
    table, memory = both(logs, lam)
    assert_alike(table["new", "smooth"], memory["new", "smooth"])


@pytest.mark.parametrize("reward", ["clicks", "revenue"])
def test_long_logs_keep_fewer_sums_and_are_not_surer_for_it(reward):
    logs = world(800, 9, reward)
    few = {"SNIPS": SNIPS(), "IPS": IPS()}
    rows = cut(800)
    table = summed(POLICIES, few, logs, rows, n_total=10**9).values()
    memory = evaluate(POLICIES, logs, evaluators=few)
    for key, value in table.items():
        assert_alike(value, memory[key])
    mixed = summed(POLICIES, few, logs, rows[:2]) + summed(
        POLICIES, few, logs, rows[2:], n_total=10**9
    )
    assert_alike(mixed.values()["new", "IPS"], memory["new", "IPS"])
