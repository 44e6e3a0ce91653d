# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""How we evaluate: estimators of the value of a policy."""

from skope_ope.evaluators._evaluate import evaluate
from skope_ope.evaluators._value_table import ValueTable
from skope_ope.evaluators.core._policy_value import PolicyValue
from skope_ope.evaluators.multi_logger import (
    LoggerOverlap,
    MultiLoggerDR,
    MultiLoggerIPS,
    logger_overlap,
    pooling_variance_ratio,
)
from skope_ope.evaluators.scavenging import (
    AttentionDecay,
    ExplorationScavenging,
    PositionScavenging,
    ReorderingPolicy,
    ReorderingScavenging,
    dcg_attention,
)
from skope_ope.evaluators.sequential import (
    DRns,
    RejectionSampling,
    Replay,
    repeated_runs,
    replay_log_length,
)
from skope_ope.evaluators.slate import (
    CascadeDR,
    CascadeIPS,
    IndependentSlotIPS,
    PseudoInverse,
    SlateDirectMethod,
    SlateDoublyRobust,
    SlateIPS,
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
    "AttentionDecay",
    "CascadeDR",
    "CascadeIPS",
    "DRns",
    "DRos",
    "DirectMethod",
    "DoublyRobust",
    "ExplorationScavenging",
    "IndependentSlotIPS",
    "LogSmoothing",
    "LoggerOverlap",
    "MultiLoggerDR",
    "MultiLoggerIPS",
    "PolicyValue",
    "PositionScavenging",
    "PseudoInverse",
    "RejectionSampling",
    "ReorderingPolicy",
    "ReorderingScavenging",
    "Replay",
    "SlateDirectMethod",
    "SlateDoublyRobust",
    "SlateIPS",
    "SubGaussianDR",
    "SubGaussianIPS",
    "SwitchDR",
    "ValueTable",
    "dcg_attention",
    "evaluate",
    "logger_overlap",
    "pooling_variance_ratio",
    "repeated_runs",
    "replay_log_length",
]
