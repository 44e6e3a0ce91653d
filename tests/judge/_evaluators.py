# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Every public evaluator that takes the logs of a world, by family."""

from functools import partial
from itertools import product

import numpy as np
from sklearn.linear_model import Ridge
from sklearn.model_selection import KFold

import skope_ope.evaluators as ope

RIDGE = Ridge(solver="cholesky")


def static_entries(world):
    """Static evaluators, with their cuts."""
    entries = {
        "IPS": ope.IPS(),
        "SNIPS": ope.SNIPS(),
        "DirectMethod": ope.DirectMethod(),
        "DirectMethod q_hat": ope.DirectMethod(reward_model="q_hat"),
        "SNDR": ope.SNDR(),
        "SNDR q_hat": ope.SNDR(reward_model="q_hat"),
        "MRDR": ope.MRDR(),
        "LogSmoothing": ope.LogSmoothing(),
        "LogSmoothing 0.5": ope.LogSmoothing(lam=0.5),
    }
    for bound in (None, 2.0, "auto"):
        entries[f"IPS {bound}"] = ope.IPS(cmax=bound)
        entries[f"SNIPS {bound}"] = ope.SNIPS(cmax=bound)
        entries[f"DoublyRobust {bound}"] = ope.DoublyRobust(cmax=bound)
    for model in (0.0, "q_hat"):
        entries[f"DoublyRobust {model}"] = ope.DoublyRobust(reward_model=model)
    for cut in (1.0, 10.0, float("inf"), "auto"):
        entries[f"SwitchDR {cut}"] = ope.SwitchDR(tau=cut)
        entries[f"DRos {cut}"] = ope.DRos(lam=cut)
    for lam in (0.0, 0.1, "auto"):
        entries[f"SubGaussianIPS {lam}"] = ope.SubGaussianIPS(lam=lam)
        entries[f"SubGaussianDR {lam}"] = ope.SubGaussianDR(
            reward_model="q_hat", lam=lam
        )
    return {name: (entry, world.policies) for name, entry in entries.items()}


def multi_logger_entries(world):
    """All poolings, plain and self-normalised."""
    entries = {}
    of_model = partial(ope.MultiLoggerDR, reward_model="q_hat")
    kinds = {"MultiLoggerIPS": ope.MultiLoggerIPS, "MultiLoggerDR": of_model}
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
    entries["MultiLoggerDR means"] = ope.MultiLoggerDR(pooling="balanced", cv=by_time)
    return {name: (entry, world.policies) for name, entry in entries.items()}


def sequential_entries(world):
    """Replay, rejection sampling and DR-ns, for policies that learn as well."""
    fixed = {
        "RejectionSampling": ope.RejectionSampling(random_state=0),
        "RejectionSampling target": ope.RejectionSampling(
            cmax="target", random_state=0
        ),
        "RejectionSampling 0.3": ope.RejectionSampling(cmax=0.3, random_state=0),
        "DRns": ope.DRns(random_state=0),
        "DRns sums": ope.DRns(normalize="pooled", random_state=0),
        "DRns q_hat": ope.DRns(reward_model="q_hat", q=0.2, random_state=0),
        "DRns worst": ope.DRns(acceptance="worst_case", random_state=0),
        "DRns splits": ope.DRns(n_splits=4, random_state=0),
    }
    parts = {
        "RejectionSampling horizon": ope.RejectionSampling(horizon=10, random_state=0),
        "DRns horizon": ope.DRns(horizon=10, random_state=0),
        "DRns horizon sums": ope.DRns(horizon=10, normalize="pooled", random_state=0),
        "DRns horizon length": ope.DRns(horizon=10, normalize=False, random_state=0),
        "DRns horizon splits": ope.DRns(horizon=10, n_splits=3, random_state=0),
    }
    equal = world.logs.propensity.min() == world.logs.propensity.max()
    if equal:
        fixed["Replay"] = ope.Replay(random_state=0)
        parts["Replay horizon"] = ope.Replay(horizon=10, random_state=0)
    entries = {n: (e, world.policies) for n, e in {**fixed, **parts}.items()}
    for name in ("DRns", "RejectionSampling", *parts):
        evaluator = fixed.get(name, parts.get(name))
        entries[f"{name} learner"] = (evaluator, world.facts["learners"])
    return entries


def scavenging_entries(world, word="strata", kinds=(None, "half")):
    """Scavenging of actions, with and without strata, and of loggers."""
    entries = {}
    for ratio, kind in product((False, True), kinds):
        how = {"self_normalized": ratio, word: kind}
        name = f"ExplorationScavenging ratio={ratio} {word}={kind}"
        entries[name] = ope.ExplorationScavenging(**how)
    return {name: (entry, world.policies) for name, entry in entries.items()}


def slate_entries(world):
    """Evaluators of whole slates, of slots and of positions."""
    entries = {
        "ExplorationScavenging": ope.ExplorationScavenging(),
        "SlateIPS": ope.SlateIPS(),
        "SlateIPS self-normalised": ope.SlateIPS(self_normalized=True),
        "PseudoInverse": ope.PseudoInverse(),
        "PseudoInverse 2": ope.PseudoInverse(cmax=2.0),
        "PseudoInverse self-normalised": ope.PseudoInverse(self_normalized=True),
        "PseudoInverse single": ope.PseudoInverse(control_variates="single"),
        "PseudoInverse multiple": ope.PseudoInverse(control_variates="multiple"),
        "SlateDirectMethod": ope.SlateDirectMethod(),
        "SlateDirectMethod 0.5": ope.SlateDirectMethod(reward_model=0.5),
        "SlateDoublyRobust": ope.SlateDoublyRobust(),
        "SlateDoublyRobust 0.5": ope.SlateDoublyRobust(reward_model=0.5),
        "SlateDoublyRobust 2": ope.SlateDoublyRobust(reward_model=0.5, cmax=2.0),
        "IndependentSlotIPS": ope.IndependentSlotIPS(),
        "CascadeIPS": ope.CascadeIPS(),
        "CascadeDR": ope.CascadeDR(),
        "CascadeDR 0.1": ope.CascadeDR(reward_model=0.1),
    }
    entries = {name: (entry, world.policies) for name, entry in entries.items()}
    attention = {
        "dcg": ope.dcg_attention(3),
        "min": ope.AttentionDecay(method="min_variance"),
        "naive": ope.AttentionDecay(method="naive"),
    }
    orders = (
        ope.ReorderingPolicy({0: 1, 1: 3, 2: 5, 3: 4, 4: 2}),
        ope.ReorderingPolicy("random"),
    )
    for name, one in attention.items():
        drawn = {"n_bootstrap": 20, "random_state": 0} if name != "dcg" else {}
        plain = ope.PositionScavenging(attention=one, **drawn)
        entries[f"PositionScavenging {name}"] = (plain, world.policies[:1])
        pooled = ope.PositionScavenging(attention=one, pooled=True, **drawn)
        entries[f"PositionScavenging pooled {name}"] = (pooled, world.policies[:1])
        entries[f"ReorderingScavenging {name}"] = (
            ope.ReorderingScavenging(attention=one, **drawn),
            orders,
        )
    return entries


def adaptive_entries(world):
    """Evaluators for loggers that learn, and one that does not mind."""
    entries = {"AdaptiveIPS": ope.AdaptiveIPS(), "SNIPS": ope.SNIPS()}
    entries["AdaptiveDR Ridge"] = ope.AdaptiveDR(reward_model=RIDGE, n_refits=3)
    for how in ("uniform", "two_point", "min_variance", "stable_variance", "cadr"):
        entries[f"AdaptiveDR {how}"] = ope.AdaptiveDR(weighting=how)
    return {name: (entry, world.policies) for name, entry in entries.items()}


FAMILIES = {
    "static": static_entries,
    "adaptive": adaptive_entries,
    "multi_logger": multi_logger_entries,
    "sequential": sequential_entries,
    "scavenging": scavenging_entries,
    "lottery": partial(scavenging_entries, word="match", kinds=("logger", "action")),
    "slate": slate_entries,
}
