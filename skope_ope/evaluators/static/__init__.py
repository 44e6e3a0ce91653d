# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Evaluators of stationary policies on single-action logs."""

from skope_ope.evaluators.static._direct_method import DirectMethod
from skope_ope.evaluators.static._doubly_robust import DoublyRobust
from skope_ope.evaluators.static._dros import DRos
from skope_ope.evaluators.static._ips import IPS
from skope_ope.evaluators.static._log_smoothing import LogSmoothing
from skope_ope.evaluators.static._mrdr import MRDR
from skope_ope.evaluators.static._sndr import SNDR
from skope_ope.evaluators.static._snips import SNIPS
from skope_ope.evaluators.static._subgaussian import SubGaussianDR, SubGaussianIPS
from skope_ope.evaluators.static._switch_dr import SwitchDR

# In the order in which tables show them.
__all__ = [  # noqa: RUF022
    "IPS",
    "SNIPS",
    "DirectMethod",
    "DoublyRobust",
    "SwitchDR",
    "DRos",
    "SNDR",
    "MRDR",
    "SubGaussianIPS",
    "SubGaussianDR",
    "LogSmoothing",
]
