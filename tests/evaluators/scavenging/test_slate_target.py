# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause

import numpy as np
import pytest

from skope_ope import UniformPolicy
from skope_ope.evaluators.scavenging._slate_target import SlateTarget
from tests.evaluators.scavenging._toys import SL4_SLATES, sl4


class Marginals:
    """A slate policy as far as its marginals."""

    def __init__(self, proba):
        self.proba = np.asarray(proba, dtype=float)

    def slot_marginals(self, logs):
        return self.proba


class Probabilities:
    """A slate policy as far as the probabilities of the logged slates."""

    def __init__(self, proba):
        self.proba = proba

    def slate_proba(self, logs, slates):
        return self.proba


UNIFORM = np.full((4, 2, 4), 0.25)


def test_arrays_lists_and_columns():
    logs = sl4().with_columns(target=SL4_SLATES)
    for policy in (SL4_SLATES, SL4_SLATES.tolist(), "target"):
        assert np.array_equal(SlateTarget(policy, logs).slates, SL4_SLATES)


def test_objects():
    target = SlateTarget(Marginals(UNIFORM), sl4())
    assert target.slates is None
    assert np.array_equal(target.marginals(sl4(), 0, 4), UNIFORM)
    target = SlateTarget(Probabilities([0.5] * 4), sl4())
    assert target.slate_proba(sl4()).tolist() == [0.5] * 4


@pytest.mark.parametrize(
    ("policy", "error", "match"),
    [
        (SL4_SLATES.astype(float), TypeError, "holds integers"),
        (SL4_SLATES[:3], ValueError, r"shape \(4, n_slots\), got \(3, 4\).*with_col"),
        (SL4_SLATES[0], ValueError, r"got \(4,\)"),
        (SL4_SLATES + 1, ValueError, "candidate 4 at row 0, slot 3; .* 0 to 3"),
        (SL4_SLATES - 2, ValueError, "candidate -2 at row 0, slot 0"),
        ("target", ValueError, "'target' is not a column"),
        (UniformPolicy(), TypeError, "has slot_marginals.*got UniformPolicy"),
        (Marginals, TypeError, "slot_marginals"),
        (sl4(), TypeError, "got SlateLogs"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_is_no_policy_over_slates(policy, error, match):
    with pytest.raises(error, match=match):
        SlateTarget(policy, sl4())


@pytest.mark.parametrize(
    ("proba", "match"),
    [
        (UNIFORM[:3], r"shape \(4, n_slots, 4\), got \(3, 2, 4\)"),
        (UNIFORM[:, :, :3], "n_slots, 4"),
        (2 * UNIFORM, "sum to at most one .* a sum of 2 at row 10"),
        (-UNIFORM, "non-negative"),
        (np.nan * UNIFORM, "non-negative"),
    ],
)
def test_marginals_are_checked(proba, match):
    with pytest.raises(ValueError, match=match):
        SlateTarget(Marginals(proba), sl4()).marginals(sl4(), 10, 14)


@pytest.mark.parametrize(
    ("proba", "match"), [([0.5] * 3, "shape"), ([2.0] * 4, r"in \[0, 1\]")]
)
def test_probabilities_are_checked(proba, match):
    with pytest.raises(ValueError, match=match):
        SlateTarget(Probabilities(proba), sl4()).slate_proba(sl4())


def test_what_a_policy_cannot_say():
    with pytest.raises(TypeError, match="no slate_proba"):
        SlateTarget(Marginals(UNIFORM), sl4()).slate_proba(sl4())
    with pytest.raises(TypeError, match="no slot_marginals"):
        SlateTarget(Probabilities([0.5] * 4), sl4()).marginals(sl4(), 0, 4)
