# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Evaluators of policies that compose slates."""

from skope_ope.evaluators.slate._cascade_dr import CascadeDR
from skope_ope.evaluators.slate._pseudo_inverse import PseudoInverse
from skope_ope.evaluators.slate._slate_direct_method import SlateDirectMethod
from skope_ope.evaluators.slate._slate_doubly_robust import SlateDoublyRobust
from skope_ope.evaluators.slate._slate_ips import (
    CascadeIPS,
    IndependentSlotIPS,
    SlateIPS,
)

__all__ = [
    "CascadeDR",
    "CascadeIPS",
    "IndependentSlotIPS",
    "PseudoInverse",
    "SlateDirectMethod",
    "SlateDoublyRobust",
    "SlateIPS",
]
