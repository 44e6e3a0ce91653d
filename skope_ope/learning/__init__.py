# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""What to deploy: policies learned from logs."""

from skope_ope.learning._dr_policy import DRPolicy, IPSPolicy
from skope_ope.learning._pseudo_inverse_ranker import PseudoInverseRanker
from skope_ope.learning._reward_model_policy import RewardModelPolicy
from skope_ope.learning._softmax_policy import SoftmaxPolicy

__all__ = [
    "DRPolicy",
    "IPSPolicy",
    "PseudoInverseRanker",
    "RewardModelPolicy",
    "SoftmaxPolicy",
]
