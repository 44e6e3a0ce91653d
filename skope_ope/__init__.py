# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Off-policy evaluation of contextual bandits for scikit-learn.

From logs of (context, action, reward, propensity): how good another policy would have
been, how sure that is, and whether the logs can support the answer at all.
"""

from skope_ope import _interrupted  # noqa: F401  # isort: skip  # before what takes time

from importlib import import_module
from typing import TYPE_CHECKING

from skope_ope._meant import meant
from skope_ope.audit import Audit, Verdict, VerdictThresholds, audit, verdict
from skope_ope.displays import (
    ClippingCurveDisplay,
    ConfidenceSequenceDisplay,
    ConvergenceDisplay,
    HistoryDisplay,
    PolicyComparisonDisplay,
    PolicyValueDisplay,
    QuantileCurveDisplay,
    SensitivityDisplay,
    SupportDisplay,
    WeightsDisplay,
)
from skope_ope.evaluators import (
    IPS,
    MRDR,
    SNDR,
    SNIPS,
    AdaptiveDR,
    AdaptiveIPS,
    AttentionDecay,
    CascadeDR,
    CascadeIPS,
    ConfidenceSequence,
    DirectMethod,
    DoublyRobust,
    DRns,
    DRos,
    ExplorationScavenging,
    IndependentSlotIPS,
    Lift,
    LoggerOverlap,
    LogSmoothing,
    MultiLoggerDR,
    MultiLoggerIPS,
    PolicyValue,
    PositionScavenging,
    PseudoInverse,
    RejectionSampling,
    ReorderingPolicy,
    ReorderingScavenging,
    Replay,
    Sensitivity,
    SlateDirectMethod,
    SlateDoublyRobust,
    SlateIPS,
    SubGaussianDR,
    SubGaussianIPS,
    SwitchDR,
    ValueSummary,
    ValueTable,
    dcg_attention,
    drns_sum_bias_bound,
    evaluate,
    load_summary,
    logger_overlap,
    pooling_variance_ratio,
    repeated_runs,
    replay_log_length,
    summarize,
)
from skope_ope.learning import (
    DRPolicy,
    IPSPolicy,
    PseudoInverseRanker,
    RewardModelPolicy,
    SoftmaxPolicy,
)
from skope_ope.logs import (
    BanditLogs,
    ContextEncoder,
    DistinctViews,
    HashKFold,
    LazyLogs,
    SlateLogs,
    concat,
    scan_logs,
)
from skope_ope.policies import (
    UCB1,
    AdaptiveFunctionPolicy,
    BatchPolicy,
    ClassifierPolicy,
    ConstantPolicy,
    EmpiricalSlatePolicy,
    EpochGreedy,
    EpsilonGreedy,
    FunctionPolicy,
    LinUCB,
    MixturePolicy,
    MixtureSlatePolicy,
    OnlineClassifierPolicy,
    PlackettLuceSlatePolicy,
    ProductSlatePolicy,
    RankingPolicy,
    SampledSlatePolicy,
    SegmentedPolicy,
    UniformPolicy,
    UniformSlatePolicy,
    action_probabilities,
    rank_weights,
    with_logger_policies,
)
from skope_ope.propensities import (
    LoggerPropensityEstimator,
    PropensityClipper,
    PropensityEstimator,
)
from skope_ope.readers import (
    from_obp,
    read_eppo,
    read_growthbook,
    read_jsonl,
    read_open_bandit,
    read_vw,
    to_obp,
)
from skope_ope.reports import Report, report
from skope_ope.reward_models import ActionRewardModel, AdditiveSlateModel
from skope_ope.selection import (
    EvaluatorScorer,
    OPESearchCV,
    PolicyComparison,
    PolicyScorer,
    SlopeSearch,
    Suggestion,
    compare_policies,
    in_order,
    one_standard_error,
    rounds_needed,
    suggest,
)

__version__ = "0.1.0"

# Grouped by stage, in the order of the folders.
__all__ = [  # noqa: RUF022
    # what was logged
    "BanditLogs",
    "ContextEncoder",
    "DistinctViews",
    "HashKFold",
    "LazyLogs",
    "SlateLogs",
    "concat",
    "scan_logs",
    # where logs come from
    "from_obp",
    "read_eppo",
    "read_growthbook",
    "read_jsonl",
    "read_open_bandit",
    "read_vw",
    "to_obp",
    # with what probability
    "LoggerPropensityEstimator",
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
    "EmpiricalSlatePolicy",
    "MixtureSlatePolicy",
    "PlackettLuceSlatePolicy",
    "ProductSlatePolicy",
    "RankingPolicy",
    "SampledSlatePolicy",
    "UniformSlatePolicy",
    "rank_weights",
    "with_logger_policies",
    # what we believe
    "ActionRewardModel",
    "AdditiveSlateModel",
    # how we evaluate
    "AdaptiveDR",
    "AdaptiveIPS",
    "AttentionDecay",
    "ConfidenceSequence",
    "DRns",
    "DRos",
    "DirectMethod",
    "DoublyRobust",
    "ExplorationScavenging",
    "IPS",
    "Lift",
    "LogSmoothing",
    "LoggerOverlap",
    "MRDR",
    "MultiLoggerDR",
    "MultiLoggerIPS",
    "PolicyValue",
    "PositionScavenging",
    "PseudoInverse",
    "RejectionSampling",
    "ReorderingPolicy",
    "ReorderingScavenging",
    "Replay",
    "Sensitivity",
    "SlateDirectMethod",
    "SlateDoublyRobust",
    "SlateIPS",
    "CascadeDR",
    "CascadeIPS",
    "IndependentSlotIPS",
    "SNDR",
    "SNIPS",
    "SubGaussianDR",
    "SubGaussianIPS",
    "SwitchDR",
    "ValueSummary",
    "ValueTable",
    "dcg_attention",
    "drns_sum_bias_bound",
    "evaluate",
    "load_summary",
    "summarize",
    "logger_overlap",
    "pooling_variance_ratio",
    "repeated_runs",
    "replay_log_length",
    # can the log answer
    "Audit",
    "Verdict",
    "VerdictThresholds",
    "audit",
    "verdict",
    # which one
    "EvaluatorScorer",
    "OPESearchCV",
    "PolicyComparison",
    "PolicyScorer",
    "SlopeSearch",
    "Suggestion",
    "compare_policies",
    "in_order",
    "one_standard_error",
    "rounds_needed",
    "suggest",
    # what to deploy
    "DRPolicy",
    "IPSPolicy",
    "PseudoInverseRanker",
    "RewardModelPolicy",
    "SoftmaxPolicy",
    # what we show
    "ClippingCurveDisplay",
    "ConfidenceSequenceDisplay",
    "ConvergenceDisplay",
    "HistoryDisplay",
    "PolicyComparisonDisplay",
    "PolicyValueDisplay",
    "QuantileCurveDisplay",
    "SensitivityDisplay",
    "SupportDisplay",
    "WeightsDisplay",
    # what we tell
    "Report",
    "report",
]


# Imported when they are first asked for; the others come with the names above.
LAZY_MODULES = ("base", "datasets", "utils")


if not TYPE_CHECKING:  # a type checker would take any name to be one of the package

    def __getattr__(name):
        if name in LAZY_MODULES:
            return import_module(f"skope_ope.{name}")
        known = [*__all__, *LAZY_MODULES]
        raise AttributeError(
            f"module 'skope_ope' has no attribute {name!r}.{meant(name, known)}"
        )

    def __dir__():
        return sorted({*globals(), *LAZY_MODULES})
