# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""What the logger never does is told with its share; what moves nothing is a note."""

from math import isnan
from types import SimpleNamespace

from skope_ope.evaluators.core._support_findings import (
    no_round_finding,
    not_normalised_finding,
    slate_support_findings,
    support_findings,
)
from skope_ope.exceptions import LowOverlapWarning, SupportWarning


def of(mass, by_logger=None):
    return support_findings(
        SimpleNamespace(
            missing_mass=mass,
            missing_by_logger=by_logger,
            lacking="the logger never took",
        )
    )


def test_a_share_of_the_policy():
    assert support_findings(None) == []
    assert of(1e-10) == []  # rounding
    [found] = of(0.25)
    assert (found.name, found.severity) == ("unsupported_mass", "warning")
    assert (found.number, found.effect) == (0.25, 0.25)
    assert "25.00% of its probability" in found.text
    assert isinstance(found.warning(), SupportWarning)
    assert found.warning().value == 0.25


def test_what_moves_nothing_is_a_note():
    [found] = of(2e-5)  # where propensities of two digits are 1.00
    assert not found.is_alarm
    assert "2e-05 of its probability" in found.text
    assert not of(4e-3)[0].is_alarm
    assert of(5e-3)[0].is_alarm


def test_loggers_are_named():
    found = of(0.2, {"old": 0.3, "new": 0.0})
    [one] = found
    assert "logger 'old' never took" in one.text
    assert "pooling='balanced'" in one.text


def test_slates():
    assert slate_support_findings(float("nan"), "slates") == []
    assert slate_support_findings(0.0, "slots") == []
    [found] = slate_support_findings(0.5, "slots")
    assert "50.00% of the policy's slots" in found.text


def test_estimates_that_are_not_formed():
    found = no_round_finding("IPS")
    assert found.text.startswith("IPS has no estimate: the policy takes no logged")
    assert isnan(found.warning().value)
    found = not_normalised_finding("wPI", -2.0)
    assert (found.category, found.number) == (LowOverlapWarning, -2.0)
