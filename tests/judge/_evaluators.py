# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Every public evaluator that takes the logs of a world, by family."""

from itertools import product

import numpy as np
from sklearn.linear_model import Ridge
from sklearn.model_selection import KFold

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
    ReorderingPolicy,
    ReorderingScavenging,
    Replay,
    SlateDirectMethod,
    SlateDoublyRobust,
    SlateIPS,
    SubGaussianDR,
    SubGaussianIPS,
    SwitchDR,
    dcg_attention,
)

RIDGE = Ridge(solver="cholesky")


def static_entries(world):
    """Static evaluators, with their cuts."""
    entries = {
        "IPS": IPS(),
        "SNIPS": SNIPS(),
        "DirectMethod": DirectMethod(),
        "DirectMethod q_hat": DirectMethod(reward_model="q_hat"),
        "SNDR": SNDR(),
        "SNDR q_hat": SNDR(reward_model="q_hat"),
        "MRDR": MRDR(),
        "LogSmoothing": LogSmoothing(),
        "LogSmoothing 0.5": LogSmoothing(lam=0.5),
    }
    for bound in (None, 2.0, "auto"):
        entries[f"IPS {bound}"] = IPS(cmax=bound)
        entries[f"SNIPS {bound}"] = SNIPS(cmax=bound)
        entries[f"DoublyRobust {bound}"] = DoublyRobust(cmax=bound)
    for model in (0.0, "q_hat"):
        entries[f"DoublyRobust {model}"] = DoublyRobust(reward_model=model)
    for cut in (1.0, 10.0, float("inf"), "auto"):
        entries[f"SwitchDR {cut}"] = SwitchDR(tau=cut)
        entries[f"DRos {cut}"] = DRos(lam=cut)
    for lam in (0.0, 0.1, "auto"):
        entries[f"SubGaussianIPS {lam}"] = SubGaussianIPS(lam=lam)
        entries[f"SubGaussianDR {lam}"] = SubGaussianDR(reward_model="q_hat", lam=lam)
    return {name: (entry, world.policies) for name, entry in entries.items()}


def multi_logger_entries(world):
    """All poolings, plain and self-normalised."""
    entries = {}
    kinds = {
        "MultiLoggerIPS": lambda **kw: MultiLoggerIPS(**kw),
        "MultiLoggerDR": lambda **kw: MultiLoggerDR(reward_model="q_hat", **kw),
    }
    for (name, kind), ratio in product(kinds.items(), (False, True)):
        word = f"{name}{' self-normalised' if ratio else ''}"
        for pooling in ("naive", "balanced", "weighted"):
            entries[f"{word} {pooling}"] = kind(pooling=pooling, self_normalized=ratio)
        weighted = {"pooling": "weighted", "self_normalized": ratio}
        for how in ("pooled", "per_logger"):
            for folds in (None, 3):
                entries[f"{word} weighted {how} {folds}"] = kind(
                    divergences=how, cross_fit=folds, **weighted
                )
        known = np.linspace(1.0, 2.0, 3)
        entries[f"{word} weighted known"] = kind(divergences=known, **weighted)
        known = np.array([1.0, np.inf, 2.0])
        entries[f"{word} weighted left out"] = kind(divergences=known, **weighted)
    by_time = KFold(5)  # of an integer then; now its folds hold all loggers
    entries["MultiLoggerDR means"] = MultiLoggerDR(pooling="balanced", cv=by_time)
    return {name: (entry, world.policies) for name, entry in entries.items()}


def sequential_entries(world):
    """Replay, rejection sampling and DR-ns, for policies that learn as well."""
    fixed = {
        "RejectionSampling": RejectionSampling(random_state=0),
        "RejectionSampling target": RejectionSampling(cmax="target", random_state=0),
        "RejectionSampling 0.3": RejectionSampling(cmax=0.3, random_state=0),
        "DRns": DRns(random_state=0),
        "DRns sums": DRns(normalize="pooled", random_state=0),
        "DRns q_hat": DRns(reward_model="q_hat", q=0.2, random_state=0),
        "DRns worst": DRns(acceptance="worst_case", random_state=0),
        "DRns splits": DRns(n_splits=4, random_state=0),
    }
    parts = {
        "RejectionSampling horizon": RejectionSampling(horizon=10, random_state=0),
        "DRns horizon": DRns(horizon=10, random_state=0),
        "DRns horizon sums": DRns(horizon=10, normalize="pooled", random_state=0),
        "DRns horizon length": DRns(horizon=10, normalize=False, random_state=0),
        "DRns horizon splits": DRns(horizon=10, n_splits=3, random_state=0),
    }
    equal = world.logs.propensity.min() == world.logs.propensity.max()
    if equal:
        fixed["Replay"] = Replay(random_state=0)
        parts["Replay horizon"] = Replay(horizon=10, random_state=0)
    entries = {n: (e, world.policies) for n, e in {**fixed, **parts}.items()}
    for name in ("DRns", "RejectionSampling", *parts):
        evaluator = fixed.get(name, parts.get(name))
        entries[f"{name} learner"] = (evaluator, world.facts["learners"])
    return entries


def scavenging_entries(world):
    """Scavenging of actions, with and without strata."""
    entries = {}
    for ratio in (False, True):
        for strata in (None, "half"):
            name = f"ExplorationScavenging ratio={ratio} strata={strata}"
            entries[name] = ExplorationScavenging(self_normalized=ratio, strata=strata)
    return {name: (entry, world.policies) for name, entry in entries.items()}


def lottery_entries(world):
    """Scavenging of loggers, and of actions of a mixture of loggers."""
    entries = {}
    for ratio in (False, True):
        for match in ("logger", "action"):
            name = f"ExplorationScavenging ratio={ratio} match={match}"
            entries[name] = ExplorationScavenging(self_normalized=ratio, match=match)
    return {name: (entry, world.policies) for name, entry in entries.items()}


def slate_entries(world):
    """Evaluators of whole slates, of slots and of positions."""
    entries = {
        "ExplorationScavenging": ExplorationScavenging(),
        "SlateIPS": SlateIPS(),
        "SlateIPS self-normalised": SlateIPS(self_normalized=True),
        "PseudoInverse": PseudoInverse(),
        "PseudoInverse 2": PseudoInverse(cmax=2.0),
        "PseudoInverse self-normalised": PseudoInverse(self_normalized=True),
        "PseudoInverse single": PseudoInverse(control_variates="single"),
        "PseudoInverse multiple": PseudoInverse(control_variates="multiple"),
        "SlateDirectMethod": SlateDirectMethod(),
        "SlateDirectMethod 0.5": SlateDirectMethod(reward_model=0.5),
        "SlateDoublyRobust": SlateDoublyRobust(),
        "SlateDoublyRobust 0.5": SlateDoublyRobust(reward_model=0.5),
        "SlateDoublyRobust 2": SlateDoublyRobust(reward_model=0.5, cmax=2.0),
        "IndependentSlotIPS": IndependentSlotIPS(),
        "CascadeIPS": CascadeIPS(),
        "CascadeDR": CascadeDR(),
        "CascadeDR 0.1": CascadeDR(reward_model=0.1),
    }
    entries = {name: (entry, world.policies) for name, entry in entries.items()}
    attention = {
        "dcg": dcg_attention(3),
        "min": AttentionDecay(method="min_variance"),
        "naive": AttentionDecay(method="naive"),
    }
    orders = (
        ReorderingPolicy({0: 1, 1: 3, 2: 5, 3: 4, 4: 2}),
        ReorderingPolicy("random"),
    )
    for name, one in attention.items():
        drawn = {"n_bootstrap": 20, "random_state": 0} if name != "dcg" else {}
        plain = PositionScavenging(attention=one, **drawn)
        entries[f"PositionScavenging {name}"] = (plain, world.policies[:1])
        pooled = PositionScavenging(attention=one, pooled=True, **drawn)
        entries[f"PositionScavenging pooled {name}"] = (pooled, world.policies[:1])
        entries[f"ReorderingScavenging {name}"] = (
            ReorderingScavenging(attention=one, **drawn),
            orders,
        )
    return entries


def adaptive_entries(world):
    """Evaluators for loggers that learn, and one that does not mind."""
    entries = {"AdaptiveIPS": AdaptiveIPS(), "SNIPS": SNIPS()}
    entries["AdaptiveDR Ridge"] = AdaptiveDR(reward_model=RIDGE, n_refits=3)
    for how in ("uniform", "two_point", "min_variance", "stable_variance", "cadr"):
        entries[f"AdaptiveDR {how}"] = AdaptiveDR(weighting=how)
    return {name: (entry, world.policies) for name, entry in entries.items()}


FAMILIES = {
    "static": static_entries,
    "adaptive": adaptive_entries,
    "multi_logger": multi_logger_entries,
    "sequential": sequential_entries,
    "scavenging": scavenging_entries,
    "lottery": lottery_entries,
    "slate": slate_entries,
}
