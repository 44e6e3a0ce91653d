# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause

from types import SimpleNamespace

import pytest

from skope_ope.evaluators.core._intervals import UNTOLD, WIDER
from skope_ope.exceptions import (
    AdaptiveLoggerWarning,
    FewEventsWarning,
    FewGroupsWarning,
    LearnedRoundsWarning,
    LowOverlapWarning,
    OPEWarning,
    PropensityWarning,
    SupportWarning,
    TailWarning,
)
from skope_ope.selection._doubts import (
    BOTH,
    bias_doubts,
    doubts_about,
    missing_doubts,
    support_doubts,
)

NAN = float("nan")


class NewWarning(OPEWarning):
    """Nobody has thought about it yet."""


@pytest.mark.parametrize(
    "warning, forbids, text",
    [
        (LowOverlapWarning("", 12.0), set(), "few rounds carry most of the weight"),
        (FewGroupsWarning("", 12.0), set(), "few groups"),
        (
            LowOverlapWarning("", 0.0),
            BOTH,
            "no logged round with information on the policy",
        ),
        (LearnedRoundsWarning("", 0.5), {"better"}, "learned from 50.0% of these"),
        (FewEventsWarning("", 3.0), BOTH, "fewer than ten effective events"),
        (AdaptiveLoggerWarning("", 0.01), BOTH, "a logger that learned from these"),
        (PropensityWarning("", 5.0), BOTH, "propensities or acceptance ratios"),
        (TailWarning("", 0.5), BOTH, "few rounds make most of the spread"),
        (TailWarning("", 0.5, UNTOLD), BOTH, "merged sums that do not show whether"),
        (TailWarning("", 0.5, WIDER), set(), "merged sums, whose interval is wider"),
        (NewWarning(""), BOTH, "a NewWarning"),
        (LearnedRoundsWarning(""), {"better"}, "a LearnedRoundsWarning"),
    ],
)
def test_what_a_warning_forbids(warning, forbids, text):
    (doubt,) = doubts_about("new", [warning])
    assert doubt.who == "new" and doubt.forbids == forbids
    assert doubt.text.startswith(text) and doubt.kind is type(warning)


def test_a_baseline_that_learned_is_valued_too_high():
    (doubt,) = doubts_about("old", [LearnedRoundsWarning("", 1.0)], is_baseline=True)
    assert doubt.forbids == {"worse"}


def test_support_is_weighed_by_itself():
    assert doubts_about("new", [SupportWarning("", 0.1)]) == []


def with_mass(*masses):
    return SimpleNamespace(warnings=[SupportWarning("", mass) for mass in masses])


@pytest.mark.parametrize(
    "interval, width, forbids",
    [
        ((0.2, 0.3), 1.0, {"worse"}),  # .9 * .2 > .1
        ((0.1, 0.3), 1.0, BOTH),
        ((0.1, 0.3), 0.5, {"worse"}),
        ((-0.3, -0.2), 1.0, {"better"}),
        ((-0.3, -0.1), 1.0, BOTH),
        ((0.2, 0.3), None, BOTH),  # what was not logged may be worth anything
    ],
)
def test_mass_that_was_not_logged(interval, width, forbids):
    values = with_mass(0.1), with_mass()
    (doubt,) = support_doubts(("new", "old"), values, interval, width)
    assert doubt.forbids == forbids
    assert doubt.text == "10% of the decisions not in the log" and doubt.who == "new"


def test_masses_add_up():
    def lost(*args, **kwargs):
        return support_doubts(("new", "old"), *args, (0.3, 0.4), 1.0, **kwargs)[0].text

    assert lost((with_mass(0.1, 0.05), with_mass(0.2))).startswith("35%")
    assert lost((with_mass(0.1), with_mass(NAN))).startswith("100%")
    assert lost((with_mass(), with_mass()), common=0.75).startswith("25%")
    nothing = with_mass(), with_mass()
    assert support_doubts(("new", "old"), nothing, (0.3, 0.4), 1.0) == []


def test_a_bias_by_design():
    gain = SimpleNamespace(estimator="DRos - DRos", leaves_bias_out="what it shrinks")
    (doubt,) = bias_doubts("new", gain)
    assert doubt.forbids == BOTH
    assert doubt.text == "what it shrinks, which the interval of DRos leaves out"
    gain.leaves_bias_out = False
    assert bias_doubts("new", gain) == []


@pytest.mark.parametrize(
    "value, error, reference, who, text",
    [
        (NAN, NAN, 0.5, "new", "no value (NaN)"),
        (NAN, NAN, NAN, "old", "no value (NaN)"),
        (0.1, NAN, 0.5, "new", "no standard error (NaN)"),
        (0.1, 0.0, 0.5, "new", "a gain that is the same in every round"),
        (0.0, 0.0, 0.5, "new", "a gain that is the same in every round"),
        (0.1, 1e-15, 0.5, "new", "a gain that is the same in every round"),
    ],
)
def test_a_gain_that_is_not_known(value, error, reference, who, text):
    gain = SimpleNamespace(value=value, standard_error=error)
    reference = SimpleNamespace(value=reference)
    (doubt,) = missing_doubts("new", "old", gain, reference)
    assert doubt.who == who and doubt.text.startswith(text) and doubt.forbids == BOTH


def test_a_gain_that_is_known():
    gain = SimpleNamespace(value=0.1, standard_error=0.01)
    assert missing_doubts("new", "old", gain, gain) == []
