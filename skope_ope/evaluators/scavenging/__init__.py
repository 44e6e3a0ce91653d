# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Evaluation of logs without propensities, and by positions on a page."""

from skope_ope.evaluators.scavenging._attention_decay import (
    AttentionDecay,
    dcg_attention,
)
from skope_ope.evaluators.scavenging._exploration_scavenging import (
    ExplorationScavenging,
)
from skope_ope.evaluators.scavenging._position_scavenging import PositionScavenging
from skope_ope.evaluators.scavenging._reordering_scavenging import (
    ReorderingPolicy,
    ReorderingScavenging,
)

__all__ = [
    "AttentionDecay",
    "ExplorationScavenging",
    "PositionScavenging",
    "ReorderingPolicy",
    "ReorderingScavenging",
    "dcg_attention",
]
