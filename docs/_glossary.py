# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Where the words of the glossary stand in the package: term, class, file.

Terms are named here. The files are asked of the package when the site is built.
"""

import importlib
import inspect
from operator import attrgetter
from pathlib import Path

import skope_ope

ROOT = Path(skope_ope.__file__).parents[1]

# The first name of an entry, and the class or function to read first.
TERMS = {
    "round": "logs.BanditLogs",
    "context": "logs.ContextEncoder",
    "action": "logs.BanditLogs",
    "reward": "logs.BanditLogs",
    "log": "logs.BanditLogs",
    "logger": "evaluators.LoggerOverlap",
    "policy": "base.BasePolicy",
    "propensity": "propensities.PropensityEstimator",
    "value": "evaluators.PolicyValue",
    "off-policy evaluation": "evaluators.evaluate",
    "A/B test": "readers.read_growthbook",
    "evaluator": "base.BaseEvaluator",
    "baseline": "selection.compare_policies",
    "interval": "evaluators.PolicyValue.confidence_interval",
    "confidence sequence": "evaluators.ConfidenceSequence",
    "stationary": "base.BasePolicy",
    "adaptive": "base.AdaptivePolicy",
    "support": "displays.SupportDisplay",
    "overlap": "exceptions.LowOverlapWarning",
    "absolute continuity": "evaluators.PseudoInverse",
    "importance weight": "evaluators.IPS",
    "effective sample size": "displays.WeightsDisplay",
    "self-normalised": "evaluators.SNIPS",
    "reward model": "reward_models.ActionRewardModel",
    "doubly robust": "evaluators.DoublyRobust",
    "cross-fitting": "logs.HashKFold",
    "revealed randomness": "evaluators.DRns",
    "horizon": "evaluators.DRns",
    "trajectory": "displays.HistoryDisplay",
    "replay": "evaluators.Replay",
    "rejection": "evaluators.RejectionSampling",
    "bias mass": "evaluators.DRns",
    "idempotent self-evaluation": "evaluators.DRns",
    "progressive validation": "evaluators.DRns",
    "scavenging": "evaluators.ExplorationScavenging",
    "slate": "logs.SlateLogs",
    "slot": "logs.SlateLogs",
    "marginal": "base.BaseSlatePolicy",
    "pseudoinverse": "evaluators.PseudoInverse",
    "linearity assumption": "evaluators.PseudoInverse",
    "attention decay coefficient": "evaluators.AttentionDecay",
    "examination": "evaluators.AttentionDecay",
    "balance heuristic": "evaluators.MultiLoggerIPS",
    "clustered": "exceptions.FewGroupsWarning",
    "design effect": "evaluators.PolicyValue",
    "e-value": "audit.audit",
    "few events": "exceptions.FewEventsWarning",
    "paired difference": "selection.PolicyComparison",
    "terms": "base.StaticEvaluator",
    "joint sums": "evaluators.ValueSummary",
    "finding": "audit.Audit",
    "verdict": "audit.Verdict",
}


def place_of(name):
    """Return (object, file from the root) of a public name below `skope_ope`."""
    module, _, member = name.partition(".")
    found = attrgetter(member)(importlib.import_module(f"skope_ope.{module}"))
    source = Path(inspect.getsourcefile(inspect.unwrap(found)))
    return found, source.relative_to(ROOT).as_posix()


def rows():
    """Return (term, link, file) of all terms, sorted."""
    found = []
    for term, name in sorted(TERMS.items(), key=lambda item: item[0].lower()):
        one, file = place_of(name)
        short = name.partition(".")[2]
        role = "class" if isinstance(one, type) else "meth" if "." in short else "func"
        found.append((f":term:`{term}`", f":{role}:`{short}`", f"``{file}``"))
    return found


def write_table(folder):
    """Write the table that the page of the glossary includes."""
    lines = [".. list-table::", "   :header-rows: 1", "   :widths: 25 30 45", ""]
    for cells in [("term", "class or function", "file"), *rows()]:
        first, *others = cells
        lines += [f"   * - {first}", *(f"     - {cell}" for cell in others)]
    path, text = Path(folder) / "terms.inc", "\n".join(lines) + "\n"
    path.parent.mkdir(parents=True, exist_ok=True)
    if not path.exists() or path.read_text(encoding="utf-8") != text:
        path.write_text(text, encoding="utf-8")  # else sphinx reads the page anew
