# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Off-policy evaluation of contextual bandits for scikit-learn.

From logs of (context, action, reward, propensity): how good another policy would have
been, how sure that is, and whether the logs can support the answer at all.
"""

from skope_ope import _interrupted  # noqa: F401  # isort: skip  # before what takes time

from importlib import import_module
from typing import TYPE_CHECKING

from skope_ope._texts import meant
from skope_ope.audit import audit, verdict
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
    LogSmoothing,
    MultiLoggerDR,
    MultiLoggerIPS,
    PositionScavenging,
    PseudoInverse,
    RejectionSampling,
    ReorderingScavenging,
    Replay,
    SlateDirectMethod,
    SlateDoublyRobust,
    SlateIPS,
    SubGaussianDR,
    SubGaussianIPS,
    SwitchDR,
    evaluate,
    summarize,
)
from skope_ope.logs import BanditLogs, ContextEncoder, SlateLogs, concat, scan_logs
from skope_ope.policies import (
    UCB1,
    ClassifierPolicy,
    ConstantPolicy,
    EpsilonGreedy,
    FunctionPolicy,
    LinUCB,
    MixturePolicy,
    PlackettLuceSlatePolicy,
    RankingPolicy,
    UniformPolicy,
    UniformSlatePolicy,
)
from skope_ope.propensities import PropensityClipper, PropensityEstimator
from skope_ope.reward_models import ActionRewardModel

if TYPE_CHECKING:
    from skope_ope.learning import (
        DRPolicy,
        IPSPolicy,
        PseudoInverseRanker,
        RewardModelPolicy,
        SoftmaxPolicy,
    )
    from skope_ope.reports import report
    from skope_ope.selection import (
        EvaluatorScorer,
        OPESearchCV,
        PolicyScorer,
        SlopeSearch,
        compare_policies,
        in_order,
        one_standard_error,
        suggest,
    )

__version__ = "0.1.0"

# Grouped by stage, in the order of the folders.
__all__ = [  # noqa: RUF022
    # what was logged
    "BanditLogs",
    "ContextEncoder",
    "SlateLogs",
    "concat",
    "scan_logs",
    # with what probability
    "PropensityClipper",
    "PropensityEstimator",
    # what we want to evaluate
    "ClassifierPolicy",
    "ConstantPolicy",
    "EpsilonGreedy",
    "FunctionPolicy",
    "LinUCB",
    "MixturePolicy",
    "UCB1",
    "UniformPolicy",
    "PlackettLuceSlatePolicy",
    "RankingPolicy",
    "UniformSlatePolicy",
    # what we believe
    "ActionRewardModel",
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
    "LogSmoothing",
    "MRDR",
    "MultiLoggerDR",
    "MultiLoggerIPS",
    "PositionScavenging",
    "PseudoInverse",
    "RejectionSampling",
    "ReorderingScavenging",
    "Replay",
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
    "evaluate",
    "summarize",
    # can the log answer
    "audit",
    "verdict",
    # which one
    "EvaluatorScorer",
    "OPESearchCV",
    "PolicyScorer",
    "SlopeSearch",
    "compare_policies",
    "in_order",
    "one_standard_error",
    "suggest",
    # what to deploy
    "DRPolicy",
    "IPSPolicy",
    "PseudoInverseRanker",
    "RewardModelPolicy",
    "SoftmaxPolicy",
    # what we tell
    "report",
]


# Imported when they are first asked for; the others come with the names above.
LAZY_MODULES = ("base", "datasets", "utils")
# Likewise; these have names of the package.
LAZY_FOLDERS = ("selection", "learning", "reports")
# What is public, but not here: each folder lists its own names.
FOLDERS = (
    "logs",
    "readers",
    "propensities",
    "policies",
    "reward_models",
    "intervals",
    "evaluators",
    "audit",
    "selection",
    "learning",
    "displays",
    "reports",
    "exceptions",
    *LAZY_MODULES,
)


if not TYPE_CHECKING:  # a type checker would take any name to be one of the package

    def __getattr__(name):
        if name in FOLDERS:
            return import_module(f"skope_ope.{name}")
        if name in __all__:
            folders = (import_module(f"skope_ope.{one}") for one in LAZY_FOLDERS)
            home = next(one for one in folders if name in one.__all__)
            return globals().setdefault(name, getattr(home, name))
        text = f"module 'skope_ope' has no attribute {name!r}."
        if name.startswith("_"):  # asked for by tools: no reason to load all folders
            raise AttributeError(text)
        homes = {}
        for folder in FOLDERS:
            module = import_module(f"skope_ope.{folder}")
            homes |= dict.fromkeys(module.__all__, module.__name__)
        if name in homes:
            text += f" Write: from {homes[name]} import {name}"
        else:
            text += meant(name, [*homes, *__all__, *FOLDERS])
        raise AttributeError(text)

    def __dir__():
        return sorted({*__all__, *FOLDERS, "__version__"})
