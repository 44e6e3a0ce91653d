# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""How we evaluate: estimators of the value of a policy."""

from skope_ope.evaluators._evaluate import evaluate
from skope_ope.evaluators._result import PolicyValue
from skope_ope.evaluators._value_table import ValueTable
from skope_ope.evaluators.sequential import (
    DRns,
    RejectionSampling,
    Replay,
    repeated_runs,
    replay_log_length,
)
from skope_ope.evaluators.static import (
    IPS,
    MRDR,
    SNDR,
    SNIPS,
    DirectMethod,
    DoublyRobust,
    DRos,
    LogSmoothing,
    SubGaussianDR,
    SubGaussianIPS,
    SwitchDR,
)

__all__ = [
    "IPS",
    "MRDR",
    "SNDR",
    "SNIPS",
    "DRns",
    "DRos",
    "DirectMethod",
    "DoublyRobust",
    "LogSmoothing",
    "PolicyValue",
    "RejectionSampling",
    "Replay",
    "SubGaussianDR",
    "SubGaussianIPS",
    "SwitchDR",
    "ValueTable",
    "evaluate",
    "repeated_runs",
    "replay_log_length",
]
