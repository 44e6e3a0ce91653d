# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""What the weights of a policy tell, and what they do not."""

import numpy as np
import pytest

from skope_ope.evaluators.core._design import Design
from skope_ope.evaluators.core._overlap import Overlap
from skope_ope.evaluators.core._weight_findings import (
    overlap_findings,
    slate_weight_findings,
)
from skope_ope.exceptions import LowOverlapWarning, PropensityWarning, SupportWarning


def rung(w, missing=0.0):
    """Alarms of weights: list of (class, value)."""
    overlap = overlap_of(w, missing)
    return [(a.category, a.number) for a in overlap_findings(overlap)]


def overlap_of(w, missing=0.0):
    design = Design(len(w))
    overlap = Overlap(design, len(w))
    block = design.block(0, len(w))
    overlap.add(block, np.asarray(w, dtype=float), missing * len(w))
    return overlap


def test_good_weights_ring_nothing():
    assert rung(np.ones(1000)) == []
    assert rung(np.tile([0.5, 1.5], 500)) == []
    assert overlap_findings(None) == []  # propensities are unknown


def test_support():
    [(kind, value)] = rung(np.full(1000, 0.75), missing=0.25)
    assert kind is SupportWarning
    assert value == 0.25
    assert rung(np.ones(1000), missing=1e-10) == []  # rounding


def test_no_weight_at_all():
    found = rung(np.zeros(50), missing=1.0)
    assert found == [(SupportWarning, 1.0), (LowOverlapWarning, 0.0)]
    assert rung(np.zeros(50)) == [(LowOverlapWarning, 0.0)]


def test_few_effective_rounds():
    # one round in ten has all the weight: 200 effective rounds of 2000, but 20 of 200
    assert rung(np.tile([10.0] + [0.0] * 9, 200)) == []
    [(kind, value)] = rung(np.tile([10.0] + [0.0] * 9, 20))
    assert kind is LowOverlapWarning
    assert value == pytest.approx(20)
    # below five in a hundred, however many they are
    [(kind, value)] = rung(np.tile([25.0] + [0.0] * 24, 2000))
    assert kind is LowOverlapWarning
    assert value == pytest.approx(2000)


def test_few_rounds_alone_are_no_lack_of_overlap():
    assert rung(np.ones(5)) == []
    assert rung([0.8, 1.2, 1.0, 0.9, 1.1]) == []
    [(kind, value)] = rung([3.4, 0.4, 0.4, 0.4, 0.4])  # 2.5 of 5 would do
    assert kind is LowOverlapWarning
    assert value == pytest.approx(25 / 12.2)


def test_one_round_that_carries_much():
    w = np.full(1000, 0.8)
    w[0] = 200.0  # a fifth of all weight, but still 25 effective rounds
    kinds = [kind for kind, _ in rung(w)]
    assert kinds == [LowOverlapWarning]
    w = np.full(100, 0.9)
    w[3] = 12.0
    [(kind, value)] = rung(w)
    assert kind is LowOverlapWarning
    assert value == pytest.approx(12 / 101.1)
    w = np.full(10, 0.9)
    w[3] = 2.0  # 20% of ten rounds is twice an equal share, no more
    assert rung(w) == []


def test_mean_weight_against_one():
    w = np.tile([1.4, 1.6], 500)
    [(kind, value)] = rung(w)
    assert kind is PropensityWarning
    assert value == overlap_of(w).evidence_above() > 100
    # large weights may be missing: propensities may be right, the overlap is low
    [(kind, value)] = rung(2 - w)
    assert kind is LowOverlapWarning
    assert value == pytest.approx(0.5)
    assert rung(1.45 - w / 3) == []  # .95: too little is missing to matter
    # mass that is missing lowers the mean by itself
    assert [kind for kind, _ in rung(2 - w, missing=0.5)] == [SupportWarning]


def test_a_constant_mean_weight():
    assert rung(np.full(100, 1.0)) == []
    # no spread is no excuse: an array that is not the policy's probabilities
    [(kind, value)] = rung(np.full(100, 1.5))
    assert kind is PropensityWarning
    assert value == 1.5
    assert rung(np.full(2, 2.0)) == []  # two rounds of one action are no wonder


def test_a_single_round():
    assert rung([1.0]) == []
    assert rung([7.0]) == []


def test_slates_compare_what_the_log_allows():
    overlap = overlap_of(np.r_[np.full(996, 1e-3), np.full(4, 250.0)])
    [told] = slate_weight_findings(overlap, overlap, 1.0, True)
    assert "evaluate(policy, logs)" in told.text
    assert "IndependentSlotIPS" not in told.text
    [told] = slate_weight_findings(overlap, overlap, 1.0, True, by_slot=True)
    assert "IndependentSlotIPS needs the fewest" in told.text
    assert told.text.endswith(
        "If they are far apart, collect logs closer to the policy."
    )
