# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Models of the reward of every action, fitted out of fold."""

from skope_ope.reward_models._action_reward_model import ActionRewardModel
from skope_ope.reward_models._slate_reward_models import AdditiveSlateModel

__all__ = ["ActionRewardModel", "AdditiveSlateModel"]
