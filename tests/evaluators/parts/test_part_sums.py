# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""One pass over every part tells what memory does: differences, overlaps, labels."""

import gc
import weakref

import numpy as np
import pytest
from numpy.testing import assert_allclose

from skope_ope import (
    IPS,
    SNDR,
    SNIPS,
    BanditLogs,
    ConstantPolicy,
    DirectMethod,
    DoublyRobust,
    ExplorationScavenging,
    FunctionPolicy,
    MultiLoggerDR,
    MultiLoggerIPS,
    PseudoInverse,
    SlateIPS,
)
from skope_ope.evaluators._logged_value import logged_value
from skope_ope.evaluators.core import _engine
from skope_ope.evaluators.core._engine import run
from skope_ope.evaluators.core._jobs import observers_of
from skope_ope.evaluators.core._positive_rounds import PositiveRounds
from skope_ope.evaluators.core._sample_weights import combined_weights
from skope_ope.evaluators.core._summary import LOGGER
from skope_ope.evaluators.core._target import Target
from skope_ope.evaluators.parts._part_sums import PartSums, sums_of_part
from tests.evaluators._reference_worlds import WORLDS
from tests.evaluators.test_merging import assert_same, parts_of, shares_of, world_of

pytestmark = pytest.mark.filterwarnings("ignore::skope_ope.exceptions.OPEWarning")

STATIC = {
    "IPS": IPS(cmax=4),
    "SNIPS": SNIPS(),
    "DR": DoublyRobust(reward_model="q_hat", cmax=2),
    "SNDR": SNDR(reward_model="q_hat"),
    "DM": DirectMethod(reward_model="q_hat"),
}
LOGGERS = {
    "IPS": IPS(),
    "naive": MultiLoggerIPS(),
    "balanced": MultiLoggerIPS(pooling="balanced", self_normalized=True),
    "weighted": MultiLoggerDR(
        pooling="weighted", divergences={0: 1.0, 1: 2.0, 2: 0.5}, reward_model="q_hat"
    ),
}
ARMS = {
    "plain": ExplorationScavenging(),
    "ratio": ExplorationScavenging(self_normalized=True),
}
SLATES = {
    "PI": PseudoInverse(),
    "wPI": PseudoInverse(self_normalized=True),
    "SlateIPS": SlateIPS(),
}
WORLDS_OF = {
    "real_weighted": STATIC,
    "zero_weights": STATIC,
    "unseen": STATIC,
    "far": {name: STATIC[name] for name in ("SNIPS", "DR", "SNDR")},
    "loggers_weighted": LOGGERS,
    "logger_left_out": LOGGERS,
    "context_free_weighted": ARMS,
    "slates_uniform": SLATES,
    "slates_weighted": SLATES,
}


def two_policies(name):
    """Two policies of a world, by the name of a column or as they are."""
    policies = WORLDS[name][1]().policies
    return {"a": policies[0], "b": policies[1 % len(policies)]}


def sums_over(parts, policies, evaluators, shares, **given):
    return sum(
        sums_of_part(policies, evaluators, part, shares=shares, **given)
        for part in parts
    )


@pytest.mark.few_cases(4)
@pytest.mark.parametrize("grouped", [False, True])
@pytest.mark.parametrize("name", WORLDS_OF)
def test_differences_are_those_of_memory(name, grouped):
    logs, atol = world_of(name, grouped)
    policies, evaluators = two_policies(name), WORLDS_OF[name]
    rng = np.random.RandomState(len(name) + grouped)
    rtol = 1e-12 if atol <= 1e-12 else 1e-9
    for _ in range(2):
        parts = list(parts_of(logs, rng))
        found = sums_over(parts, policies, evaluators, shares_of(logs))
        for kind, evaluator in evaluators.items():
            joint = found.by_evaluator[kind]
            assert joint.policies == ("a", "b")
            evaluator.fit(logs)
            values = {key: evaluator.evaluate(one) for key, one in policies.items()}
            values[LOGGER] = logged_value(logs)
            for key, value in values.items():
                assert_same(
                    joint.summary(key).estimate(), value._estimate, rtol, max(atol, 0)
                )
            for one, other in (("a", "b"), ("a", LOGGER), (LOGGER, "b"), ("a", "a")):
                exact = values[one] - values[other]
                pair = joint.difference(one, other)
                assert_allclose(pair.value, exact.value, rtol=1e-11, atol=1e-13 + atol)
                assert_allclose(
                    pair.standard_error, exact.standard_error, rtol=rtol, atol=atol
                )
                assert_allclose(pair.degrees_of_freedom, exact.degrees_of_freedom)


OVERLAP = {
    "effective_sample_size": "effective_sample_size",
    "max_weight": "max_w",
    "mean_weight": "mean_weight",
    "mean_weight_z": "mean_weight_z",
    "unsupported_mass": "missing_mass",
}


@pytest.mark.few_cases(4)
@pytest.mark.parametrize("grouped", [False, True])
@pytest.mark.parametrize("name", WORLDS_OF)
def test_overlaps_are_those_of_memory(name, grouped):
    logs, _ = world_of(name, grouped)
    policies, evaluators = two_policies(name), WORLDS_OF[name]
    rng = np.random.RandomState(len(name) + grouped)
    shares = shares_of(logs)
    for _ in range(2):
        parts = list(parts_of(logs, rng))
        found = sums_over(parts, policies, evaluators, shares, n_total=len(logs))
        for kind, evaluator in evaluators.items():
            evaluator.fit(logs)
            for key, policy in policies.items():
                known = evaluator.evaluate(policy).diagnostics
                overlap = found.by_evaluator[kind].summary(key).overlap
                if isinstance(evaluator, (ExplorationScavenging, DirectMethod)):
                    continue  # they use no weights
                for entry, name_there in OVERLAP.items():
                    if entry in known:
                        one, other = getattr(overlap, name_there), known[entry]
                        assert_allclose(one, other, rtol=1e-11, atol=1e-14)


def weights_of_memory(evaluator, policy, logs):
    """The overlap that an evaluation in memory makes its warnings from."""

    positive = PositiveRounds(logs, combined_weights(logs, None))
    job = evaluator.fit(logs)._prepare(Target(policy, logs), positive)
    observed = observers_of([job], positive)
    run(logs, [job], positive, observed.values())
    return evaluator._overlap_of(job, observed)


@pytest.mark.few_cases
@pytest.mark.parametrize("grouped", [False, True])
@pytest.mark.parametrize("name", ["real_weighted", "loggers_weighted", "unseen"])
def test_evidence_is_that_of_memory(name, grouped):
    logs, _ = world_of(name, grouped)
    policies, evaluators = two_policies(name), dict(WORLDS_OF[name])
    parts = parts_of(logs, np.random.RandomState(1))
    # rounds of weight zero do not count
    weight = logs.sample_weight
    n = len(logs) if weight is None else np.count_nonzero(weight)
    found = sums_over(parts, policies, evaluators, shares_of(logs), n_total=int(n))
    for kind, evaluator in evaluators.items():
        if isinstance(evaluator, DirectMethod):
            continue
        one = found.by_evaluator[kind].summary("a").overlap
        other = weights_of_memory(evaluator, policies["a"], logs)
        assert_allclose(one.evidence_above(), other.evidence_above(), rtol=1e-9)
        largest = 40.0
        assert_allclose(
            one.evidence_below(largest), other.evidence_below(largest), rtol=1e-9
        )
        assert one.missing_by_logger == pytest.approx(other.missing_by_logger)
        assert_allclose(one.constant_weight, other.constant_weight)


def test_every_policy_is_asked_once_per_round():
    logs, _ = world_of("zero_weights", grouped=True)
    n_actions = logs.n_actions
    asked = []

    def proba(X):
        asked.append(len(X))
        return np.full((len(X), n_actions), 1 / n_actions)

    policy = FunctionPolicy(proba).fit(logs)
    found = sums_of_part({"a": policy}, STATIC, logs)
    assert sum(asked) == len(logs)
    asked.clear()
    labels = np.arange(len(logs)) % 3
    some = logs.with_columns(day=labels, hour=labels == 1)
    by = sums_of_part({"a": policy}, STATIC, some, by=["day", "hour"])
    assert sum(asked) == len(logs)
    whole = found.by_evaluator["SNIPS"].summary("a").estimate()
    assert_same(by.by_evaluator["SNIPS"].summary("a").estimate(), whole)


def test_sums_by_label_are_those_of_its_rounds():
    logs, _ = world_of("loggers_weighted", grouped=False)
    day = np.array(["mon", "tue", "wed"])[np.arange(len(logs)) % 3]
    logs = logs.with_columns(day=day)
    shares = shares_of(logs)
    parts = [
        sums_of_part({"a": "pi"}, LOGGERS, logs[k::2], shares=shares, by="day")
        for k in range(2)
    ]
    found = sum(parts)
    assert list(found.by) == ["day"] and sorted(found.by["day"]) == [
        "mon",
        "tue",
        "wed",
    ]
    read = PartSums.from_table(found.to_table(), LOGGERS)
    for label in ("mon", "tue", "wed"):
        some = sums_of_part({"a": "pi"}, LOGGERS, logs[day == label], shares=shares)
        for kind in LOGGERS:
            one = some.by_evaluator[kind].summary("a").estimate()
            for sums in (found, read):
                other = sums.by["day"][label].by_evaluator[kind].summary("a").estimate()
                assert_same(other, one)
    with pytest.raises(ValueError, match="no field or column 'week'"):
        sums_of_part({"a": "pi"}, LOGGERS, logs, shares=shares, by="week")


def test_arrays_of_a_part_belong_to_its_rows():
    logs, _ = world_of("zero_weights", grouped=False)
    pi = logs.columns["pi"]
    logs = logs.with_columns(day=np.arange(len(logs)) % 2)
    found = sums_of_part({"a": pi}, {"one": IPS()}, logs, by="day")
    value = IPS().fit(logs).evaluate("pi")
    estimate = found.by_evaluator["one"].summary("a").estimate()
    assert_same(estimate, value._estimate)


def test_sources_come_from_outside():
    logs, _ = world_of("zero_weights", grouped=False)

    class Halves:
        """A model that predicts a half."""

        n_uncovered_, asks_models = 0, False

        def bind(self, logs):
            return lambda rounds, start: np.full((len(rounds), logs.n_actions), 0.5)

    found = sums_of_part(
        {"a": "pi"}, {"DR": DoublyRobust()}, logs, sources={"DR": Halves()}
    )
    exact = DoublyRobust(reward_model=0.5).fit(logs).evaluate("pi")._estimate
    assert_same(found.by_evaluator["DR"].summary("a").estimate(), exact)


def test_ends_are_those_of_all_rounds():
    logs, _ = world_of("real_weighted", grouped=False)
    parts = parts_of(logs, np.random.RandomState(0))
    found = sums_over(parts, two_policies("real_weighted"), STATIC, None)
    whole = sums_over([logs], two_policies("real_weighted"), STATIC, None)
    for kind in STATIC:
        one, other = (
            sums.by_evaluator[kind].summary("a").ends for sums in (found, whole)
        )
        # of parts that subtract different constants from the rewards they are bounds
        assert (one.terms[:, 0] <= other.terms[:, 0] + 1e-12).all()
        assert (one.terms[:, 1] >= other.terms[:, 1] - 1e-12).all()
        assert one.weights == other.weights and one.omega == other.omega
        assert one.propensity == other.propensity
        for front, same in zip(one.fronts, other.fronts, strict=True):
            assert_allclose(front, same)


@pytest.mark.parametrize("grouped", [False, True])
@pytest.mark.parametrize("name", ["zero_weights", "loggers_weighted"])
def test_many_policies_at_once(name, grouped):
    logs, _ = world_of(name, grouped)
    rng = np.random.RandomState(0)
    tables = {
        f"p{k}": rng.dirichlet(np.ones(logs.n_actions), len(logs)) for k in range(12)
    }
    logs = logs.with_columns(**tables)
    policies = {name: name for name in tables}
    evaluators = {"IPS": IPS(), "SNIPS": SNIPS()}
    if logs.loggers is not None:
        evaluators = {"naive": MultiLoggerIPS(), "ratio": LOGGERS["balanced"]}
    parts = [logs[::2], logs[1::2]]
    found = sums_over(parts, policies, evaluators, shares_of(logs))
    for kind, evaluator in evaluators.items():
        evaluator.fit(logs)
        exact = evaluator.evaluate("p3") - evaluator.evaluate("p11")
        pair = found.by_evaluator[kind].difference("p3", "p11")
        assert_allclose(pair.standard_error, exact.standard_error, rtol=1e-12)


def test_policies_that_answer_alone_need_no_tables_of_seen_actions():
    n = 60
    logs = BanditLogs(
        np.zeros((n, 1)), np.arange(n) % 3, np.arange(n) % 2, np.full(n, 1 / 3)
    )
    policy = ConstantPolicy(1).fit(logs)
    parts = [logs[np.arange(n) % 3 == 1], logs[np.arange(n) % 3 != 1]]
    found = sums_over(parts, {"a": policy}, {"IPS": IPS()}, None)
    exact = IPS().fit(logs).evaluate(policy)
    assert_same(found.by_evaluator["IPS"].summary("a").estimate(), exact._estimate)
    assert found.by_evaluator["IPS"].summary("a").missing_mass == 0
    lost = sums_over([parts[1]], {"a": policy}, {"IPS": IPS()}, None)
    assert lost.by_evaluator["IPS"].summary("a").missing_mass == 1


@pytest.mark.parametrize("grouped", [False, True])
def test_slates_that_leave_rounds_out_have_sums_of_their_own(grouped):
    logs, _ = world_of("slates_left_out", grouped)
    policies = two_policies("slates_left_out")
    parts = parts_of(logs, np.random.RandomState(0))
    found = sums_over(parts, policies, {"PI": PseudoInverse()}, None)
    joint, evaluator = found.by_evaluator["PI"], PseudoInverse().fit(logs)
    assert_same(
        joint.summary("a").estimate(), evaluator.evaluate(policies["a"])._estimate
    )
    assert_same(joint.summary(LOGGER).estimate(), logged_value(logs)._estimate)
    message = "about different rounds" if grouped else "needs sums by groups"
    with pytest.raises(ValueError, match=message):
        joint.difference("a", LOGGER)
    read = PartSums.from_table(found.to_table(), {"PI": PseudoInverse()})
    for policy in ("a", "b", LOGGER):
        one, other = (
            sums.by_evaluator["PI"].summary(policy).estimate() for sums in (found, read)
        )
        assert_same(one, other)


def test_rounds_are_let_go_with_the_part():
    # cycles would keep those of many parts until the garbage collector finds them
    rng = np.random.default_rng(0)
    action, reward = rng.integers(0, 2, 60), rng.random(60)
    logs = BanditLogs(np.zeros((60, 1)), action, reward, np.full(60, 0.5))
    policies, evaluators = {"new": ConstantPolicy(1)}, {"IPS": IPS(), "SNIPS": SNIPS()}
    gc.collect()
    gc.disable()
    try:
        rounds = logs[:40]
        known = weakref.ref(rounds)
        sums = sums_of_part(policies, evaluators, rounds)
        del rounds
        assert known() is None
    finally:
        gc.enable()
    assert sums.n == 40


@pytest.mark.parametrize("grouped", [False, True])
@pytest.mark.parametrize("name", ["real_weighted", "loggers_weighted"])
def test_arrays_that_are_one_in_the_first_block_alone(name, grouped, monkeypatch):
    # min(w, sqrt(n)) is the array of the weights itself, until one is larger
    monkeypatch.setattr(_engine, "BLOCK", 16)
    monkeypatch.setattr(_engine, "GROUPED_BLOCK", 16)
    logs, _ = world_of(name, grouped)
    logs = logs.replace(sample_weight=None)
    proba = logs.propensity.copy()
    proba[:32] = np.maximum(proba[:32], 0.5)
    proba[-1] = 0.002
    logs = logs.replace(propensity=proba, logging_proba=None)
    evaluators = {kind: WORLDS_OF[name][kind] for kind in list(WORLDS_OF[name])[:2]}
    policies = two_policies(name)
    found = sums_of_part(
        policies, evaluators, logs, n_total=len(logs), shares=shares_of(logs)
    )
    for kind, evaluator in evaluators.items():
        summary = found.by_evaluator[kind].summary("a")
        exact = evaluator.fit(logs).evaluate(policies["a"])
        assert_same(summary.estimate(), exact._estimate)
        other = weights_of_memory(evaluator, policies["a"], logs)
        one = summary.overlap
        assert other.max_w > len(logs) ** 0.5
        assert_allclose(one.evidence_above(), other.evidence_above(), rtol=1e-9)
        assert_allclose(one.mean_weight_z, other.mean_weight_z, rtol=1e-9)
