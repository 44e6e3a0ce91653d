# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Off-policy evaluation of contextual bandits for scikit-learn.

From logs of (context, action, reward, propensity): how good another policy would have
been, how sure that is, and whether the logs can support the answer at all.
"""

from skope_ope.displays import (
    ClippingCurveDisplay,
    HistoryDisplay,
    PolicyValueDisplay,
    WeightsDisplay,
)
from skope_ope.evaluators import (
    IPS,
    MRDR,
    SNDR,
    SNIPS,
    DirectMethod,
    DoublyRobust,
    DRns,
    DRos,
    LogSmoothing,
    PolicyValue,
    RejectionSampling,
    Replay,
    SubGaussianDR,
    SubGaussianIPS,
    SwitchDR,
    ValueTable,
    evaluate,
    repeated_runs,
    replay_log_length,
)
from skope_ope.logs import (
    BanditLogs,
    DistinctViews,
    SlateLogs,
    read_open_bandit,
    read_vw,
)
from skope_ope.policies import (
    UCB1,
    AdaptiveFunctionPolicy,
    BatchPolicy,
    ClassifierPolicy,
    ConstantPolicy,
    EpochGreedy,
    EpsilonGreedy,
    FunctionPolicy,
    LinUCB,
    MixturePolicy,
    OnlineClassifierPolicy,
    SegmentedPolicy,
    UniformPolicy,
    action_probabilities,
)
from skope_ope.propensities import PropensityClipper, PropensityEstimator
from skope_ope.reward_models import ActionRewardModel

__version__ = "0.1.0"

# Grouped by stage, in the order of the folders.
__all__ = [  # noqa: RUF022
    # what was logged
    "BanditLogs",
    "DistinctViews",
    "SlateLogs",
    "read_open_bandit",
    "read_vw",
    # with what probability
    "PropensityClipper",
    "PropensityEstimator",
    # what we want to evaluate
    "AdaptiveFunctionPolicy",
    "BatchPolicy",
    "ClassifierPolicy",
    "ConstantPolicy",
    "EpochGreedy",
    "EpsilonGreedy",
    "FunctionPolicy",
    "LinUCB",
    "MixturePolicy",
    "OnlineClassifierPolicy",
    "SegmentedPolicy",
    "UCB1",
    "UniformPolicy",
    "action_probabilities",
    # what we believe
    "ActionRewardModel",
    # how we evaluate
    "DRns",
    "DRos",
    "DirectMethod",
    "DoublyRobust",
    "IPS",
    "LogSmoothing",
    "MRDR",
    "PolicyValue",
    "RejectionSampling",
    "Replay",
    "SNDR",
    "SNIPS",
    "SubGaussianDR",
    "SubGaussianIPS",
    "SwitchDR",
    "ValueTable",
    "evaluate",
    "repeated_runs",
    "replay_log_length",
    # what we show
    "ClippingCurveDisplay",
    "HistoryDisplay",
    "PolicyValueDisplay",
    "WeightsDisplay",
]
