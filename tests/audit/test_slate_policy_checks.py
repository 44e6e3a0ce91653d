# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""An audit of a slate policy: what is never shown, and how few rounds bear on it."""

import warnings

import numpy as np
import pytest

from skope_ope import (
    PlackettLuceSlatePolicy,
    PseudoInverse,
    SlateIPS,
    SlateLogs,
    UniformSlatePolicy,
)
from skope_ope.audit._slate_policy_checks import slate_policy_findings
from skope_ope.policies import EmpiricalSlatePolicy
from tests._quiet import quiet
from tests.audit._rounds import names

N = 600
RNG = np.random.RandomState(0)
SLATES = np.array([RNG.permutation(4)[:2] for _ in range(N)])
REWARD = (RNG.random_sample(N) < 0.3).astype(float)
FIRST = np.tile([0, 1], (N, 1))


def logs_of(slates=SLATES, **fields):
    return SlateLogs(np.zeros((N, 1)), slates, REWARD, n_candidates=4, **fields)


UNIFORM = logs_of(logging_policy=UniformSlatePolicy(2))


def checked(policy, logs):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        return slate_policy_findings(policy, logs, 0)


@pytest.mark.parametrize("policy", [FIRST, PlackettLuceSlatePolicy([1, 2, 3, 4.0], 2)])
def test_weights_of_slates_and_of_slots(policy):
    facts, found = checked(policy, UNIFORM)
    assert found == []
    for what, evaluator in (("slates", SlateIPS()), ("slots", PseudoInverse())):
        told = quiet(evaluator.fit(UNIFORM), policy).diagnostics
        size = facts[f"effective sample size ({what})"]
        assert size == pytest.approx(told["effective_sample_size"])
        assert facts[f"mean weight ({what})"] == pytest.approx(told["mean_weight"])
    assert not any(name.startswith("tail shape") for name in facts)  # two sizes


def test_a_tail_shape_says_from_where_on_it_is_heavy():
    weights = np.exp(2 * RNG.normal(size=(N, 4)))
    logs = UNIFORM.replace(reward=RNG.exponential(size=N))
    facts, _ = slate_policy_findings(PlackettLuceSlatePolicy(weights, 2), logs, 0)
    shapes = [name for name in facts if name.startswith("tail shape")]
    assert shapes and all(name.endswith(", heavy above 0.7") for name in shapes)


def test_what_the_logger_never_shows():
    two = np.array([[0, 1], [1, 0]])[RNG.randint(2, size=N)]
    logs = logs_of(two, logging_policy=EmpiricalSlatePolicy([[0, 1], [1, 0]]))
    assert checked(FIRST, logs)[1] == []
    facts, found = checked(np.tile([2, 3], (N, 1)), logs)
    assert names(found) == 2 * [("unsupported_mass", "warning")]
    assert facts["share never shown (slates)"] == 1


def test_a_policy_made_from_the_logged_slates():
    _, found = checked(SLATES, UNIFORM)
    assert names(found) == 2 * [("mean_weight", "error")]
    assert "learned from these rounds" in found[0].text
    for one, what in zip(found, ("slates", "slots"), strict=True):
        assert one.found.startswith(f"Weights of {what}: The mean importance weight")


def test_what_is_known_of_the_logger_decides():
    facts, _ = checked(FIRST, logs_of(propensity=np.full(N, 1 / 12)))
    assert "mean weight (slates)" in facts
    assert "mean weight (slots)" not in facts
    facts, found = checked(FIRST, logs_of())
    assert found == []
    assert facts["weights of the policy"].startswith("not possible")
    # marginals do not tell whole slates
    facts, _ = checked(np.full((N, 2, 4), 0.25), UNIFORM)
    assert "mean weight (slates)" not in facts
    assert facts["mean weight (slots)"] == pytest.approx(1)


def test_one_round():
    facts, found = checked(FIRST[:1], UNIFORM[:1])
    assert found == []
    assert "mean weight (slots)" in facts
