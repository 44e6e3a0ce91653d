# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Every public evaluator, and its numbers on the reference worlds.

`python -m tests.evaluators._reference_values --write` writes the numbers of the
package at hand to the folder `reference_values`, one file per world.
"""

import json
import sys
import warnings
from itertools import product
from pathlib import Path

import numpy as np
from sklearn.model_selection import KFold

from skope_ope import (
    IPS,
    MRDR,
    SNDR,
    SNIPS,
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

if __package__:
    from tests.evaluators._reference_worlds import WORLDS
else:  # as a script, on another version of the package
    from _reference_worlds import WORLDS

FOLDER = Path(__file__).with_name("reference_values")


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


FAMILIES = {
    "static": static_entries,
    "multi_logger": multi_logger_entries,
    "sequential": sequential_entries,
    "scavenging": scavenging_entries,
    "lottery": lottery_entries,
    "slate": slate_entries,
}


def numbers_of(evaluator, policies, world):
    """The numbers of one evaluator: of the first policy, and of the difference."""
    omega = (
        {} if world.sample_weight is None else {"sample_weight": world.sample_weight}
    )
    evaluator = evaluator.fit(world.logs)
    results = [evaluator.evaluate(policy, **omega) for policy in policies]
    first = results[0]
    found = {
        "value": first.value,
        "standard_error": first.standard_error,
        "degrees_of_freedom": first.degrees_of_freedom,
        "effective_sample_size": first.effective_sample_size,
        "round_values": list(first.round_values[:5]),
        "squares": ((first.round_values - first.value) ** 2).sum(),
    }
    by = first.by("day")
    found["by"] = [v.value for v in by.values()]
    found["by_errors"] = [v.standard_error for v in by.values()]
    if len(results) == 2:
        found["second"] = results[1].value
        difference = results[0] - results[1]
        found["difference"] = difference.value
        found["difference_error"] = difference.standard_error
        found["difference_freedom"] = difference.degrees_of_freedom
    return found


def reference_numbers(name, only=None):
    """Numbers of a world: {entry: {quantity: number or list}}.

    `only(entry, evaluator)` returns the evaluator of an entry to take, or None; all are
    taken as they are where it is not given.
    """
    family, make = WORLDS[name]
    world = make()
    table = {}
    for entry, (evaluator, policies) in FAMILIES[family](world).items():
        evaluator = evaluator if only is None else only(entry, evaluator)
        if evaluator is None:
            continue
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                table[entry] = numbers_of(evaluator, policies, world)
            except (TypeError, ValueError, ZeroDivisionError) as error:
                table[entry] = {"raises": type(error).__name__, "text": str(error)}
    return table, world.atol


def _as_text(value):
    if isinstance(value, list):
        return [_as_text(one) for one in value]
    return value if isinstance(value, str) else repr(float(value))


def main():
    """Write the numbers of the package at hand, and print what raised."""
    for name in WORLDS:
        table, _ = reference_numbers(name)
        lines = []
        for entry, numbers in table.items():
            if "text" in numbers:
                sys.stdout.write(f"{name} / {entry}: {numbers.pop('text')}\n")
            texts = {key: _as_text(value) for key, value in numbers.items()}
            lines.append(f"{json.dumps(entry)}: {json.dumps(texts)}")
        text = ",\n".join(lines)
        (FOLDER / f"{name}.json").write_text(f"{{\n{text}\n}}\n")


if __name__ == "__main__" and sys.argv[1:] == ["--write"]:
    main()
