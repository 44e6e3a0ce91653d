# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Values from merged sums say what values in memory say: diagnostics and warnings."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from skope_ope import (
    CascadeDR,
    CascadeIPS,
    ExplorationScavenging,
    IndependentSlotIPS,
    PseudoInverse,
    SlateDirectMethod,
    SlateDoublyRobust,
    SlateIPS,
)
from skope_ope.evaluators.parts._part_sums import sums_of_part
from skope_ope.exceptions import ExplorationWarning
from tests.evaluators._reference_worlds import WORLDS
from tests.evaluators.test_merging import parts_of, shares_of, world_of

pytestmark = pytest.mark.filterwarnings("ignore::skope_ope.exceptions.OPEWarning")

SLATES = [
    PseudoInverse(),
    PseudoInverse(self_normalized=True),
    PseudoInverse(control_variates="single"),
    SlateIPS(self_normalized=True),
    IndependentSlotIPS(),
    CascadeIPS(),
    CascadeDR(reward_model=0.3),
    SlateDoublyRobust(reward_model=0.5),
    SlateDirectMethod(reward_model=0.5),
]
ARMS = [
    ExplorationScavenging(),
    ExplorationScavenging(self_normalized=True),
    ExplorationScavenging(on_missing="nan"),
]
LOTTERY = [*ARMS[:2], ExplorationScavenging(match="logger")]
WORLDS_OF = {
    "context_free_weighted": ARMS,
    "context_free_unseen": ARMS,
    "lottery": LOTTERY,
    "slates_uniform": SLATES,
    "slates_left_out": SLATES,
    "slates_weighted": SLATES,
}
# of the rounds themselves, or of models that look at all of them
UNKNOWN = ("predictability", "sigma2", "rho", "largest_residual", "model_r2")


@pytest.mark.parametrize("grouped", [False, True])
@pytest.mark.parametrize("name", WORLDS_OF)
def test_diagnostics_and_warnings_are_those_of_memory(name, grouped):
    logs, atol = world_of(name, grouped)
    evaluators = {str(k): one for k, one in enumerate(WORLDS_OF[name])}
    parts = parts_of(logs, np.random.RandomState(3))
    policies = {"a": WORLDS[name][1]().policies[0]}
    found = sum(
        sums_of_part(policies, evaluators, p, shares=shares_of(logs), n_total=len(logs))
        for p in parts
    )
    for key, evaluator in evaluators.items():
        exact = evaluator.fit(logs).evaluate(policies["a"])
        value = found.evaluators[key]._value_of_sums(
            found.by_evaluator[key].summary("a"), found.log, n_rounds=found.n
        )
        assert_allclose(value.value, exact.value, rtol=1e-12, atol=max(atol, 1e-14))
        assert_allclose(
            value.effective_sample_size, exact.effective_sample_size, rtol=1e-11
        )
        for entry, number in exact.diagnostics.items():
            if entry.startswith(UNKNOWN) or entry == "altered_mass":
                continue
            assert_allclose(
                value.diagnostics[entry], number, rtol=1e-10, atol=1e-12, err_msg=entry
            )
        known = [w for w in exact.warnings if not isinstance(w, ExplorationWarning)]
        assert list(map(type, value.warnings)) == list(map(type, known))
        for one, other in zip(value.warnings, known, strict=True):
            assert (one.value is None) == (other.value is None)
            if other.value is not None:
                assert_allclose(one.value, other.value, rtol=1e-9)
