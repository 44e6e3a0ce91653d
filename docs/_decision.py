# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""The table "which evaluator?", from one dict.

A key is a situation that `suggest` names, or a doubt that it adds to any of them. The
cells of `evaluator` and `check` are what `suggest` answers, so a test can hold the
table against it; T stands for a horizon. `page` is a page of the guide.
"""

from pathlib import Path

STOP = "stop"

SITUATIONS = {
    "one_logger": {
        "log": "One system decided with some chance, and you know how likely each "
        "action was. A trial that drew evenly has ``propensity=1/3``.",
        "evaluator": "DoublyRobust()",
        "check": "SNIPS()",
        "doubt": "Wrong probabilities; actions that were never logged; a policy that "
        "was trained on these rounds.",
        "page": "guide/evaluators",
    },
    "one_logger_unknown": {
        "log": "The same, but nobody recorded the probabilities. The columns hold "
        "all that the system used.",
        "evaluator": "make_pipeline(PropensityEstimator(), DoublyRobust())",
        "check": "make_pipeline(PropensityEstimator(), SNIPS())",
        "doubt": "Hidden reasons; the interval treats estimated probabilities as "
        "exact.",
        "page": "guide/propensities",
    },
    "deterministic": {
        "log": "One fixed rule decided. In the same context it always takes the same "
        "action.",
        "evaluator": STOP,
        "check": "",
        "doubt": "Nothing shows what another action would have brought. Let the system "
        "explore, or add another system's rounds.",
        "page": "guide/propensities",
    },
    "blind_logger": {
        "log": "No probabilities, and the system ignored the context: it took turns, "
        "or followed a plan.",
        "evaluator": "ExplorationScavenging()",
        "check": "make_pipeline(PropensityEstimator(), SNIPS())",
        "doubt": "Did it use the context after all? Trends between the turns.",
        "page": "guide/scavenging",
    },
    "several_loggers": {
        "log": "Several systems decided, and you know what each would have done in "
        "every round (``logger_proba``).",
        "evaluator": "MultiLoggerDR(pooling='balanced')",
        "check": "MultiLoggerIPS(pooling='balanced', self_normalized=True)",
        "doubt": "Trends between the systems; systems with few rounds.",
        "page": "guide/multi_logger",
    },
    "several_loggers_apart": {
        "log": "Several systems decided, and you know the probability of the logged "
        "action only.",
        "evaluator": "DoublyRobust()",
        "check": "SNIPS()",
        "doubt": "Each system must be able to take what the policy takes.",
        "page": "guide/multi_logger",
    },
    "several_loggers_unknown": {
        "log": "Several systems decided, without probabilities.",
        "evaluator": "make_pipeline(LoggerPropensityEstimator(), "
        "MultiLoggerDR(pooling='balanced'))",
        "check": "make_pipeline(LoggerPropensityEstimator(), "
        "MultiLoggerIPS(pooling='balanced', self_normalized=True))",
        "doubt": "Hidden reasons, and trends between the systems.",
        "page": "guide/propensities",
    },
    "adaptive_logger": {
        "log": "The system was a bandit: it learned from rewards while it decided.",
        "evaluator": "AdaptiveDR()",
        "check": "",
        "doubt": "Actions that it gave up; probabilities that were estimated from all "
        "rounds.",
        "page": "guide/adaptive_logs",
    },
    "learner_uniform": {
        "log": "Your policy learns while it acts, and the system drew evenly.",
        "evaluator": "Replay(horizon=T)",
        "check": "",
        "doubt": "Few trajectories; with one, the error is unknown.",
        "page": "guide/evaluators",
    },
    "learner": {
        "log": "Your policy learns while it acts, and the system drew unevenly.",
        "evaluator": "DRns(horizon=T)",
        "check": "",
        "doubt": "A ``bias_mass`` above 0.1 in the diagnostics. Try two or three "
        "values of ``q``.",
        "page": "guide/evaluators",
    },
    "slates": {
        "log": "A list was shown together, and you have the policy that composed it.",
        "evaluator": "PseudoInverse(control_variates='multiple')",
        "check": "SlateIPS()",
        "doubt": "Is the reward roughly a sum over the places? With clicks by place, "
        "the check is IndependentSlotIPS().",
        "page": "guide/slates",
    },
    "slates_propensities": {
        "log": "A list was shown together, and you know its probability only.",
        "evaluator": "SlateIPS(self_normalized=True)",
        "check": "",
        "doubt": "Few lists match: the interval is wide.",
        "page": "guide/slates",
    },
    "slot_clicks": {
        "log": "Lists with clicks by place, without probabilities; the "
        "logger ignored the context.",
        "evaluator": "PositionScavenging(attention=AttentionDecay())",
        "check": "",
        "doubt": "The assumption on how people look at a page.",
        "page": "guide/scavenging",
    },
    "slot_clicks_reordered": {
        "log": "The same, and your policy only sorts what was shown.",
        "evaluator": "ReorderingScavenging(attention=AttentionDecay())",
        "check": "",
        "doubt": "Ranks that were learned from the same clicks.",
        "page": "guide/scavenging",
    },
    "slates_unknown": {
        "log": "A list was shown together, without probabilities and without clicks by "
        "place.",
        "evaluator": STOP,
        "check": "",
        "doubt": "Only a model is left, and no interval contains its error. Pass "
        "``logging_policy``.",
        "page": "guide/slates",
    },
}

# Doubts that come to any of these rows; the evaluator stays.
DOUBTS = {
    "few_events": {
        "log": "Few rounds with a reward (or few without).",
        "do": "State ``reward_range``. If the interval is the whole range, the log "
        "cannot tell.",
        "page": "guide/intervals",
    },
    "few_groups": {
        "log": "The same users come back, and there are few of them.",
        "do": "Pass ``group``: errors then count users.",
        "page": "guide/intervals",
    },
    "many_actions": {
        "log": "Many actions, few rounds for each.",
        "do": "Pass ``action_context``, features of the actions: one model then serves "
        "all of them.",
        "page": "guide/reward_models",
    },
    "tiny_log": {
        "log": "Fewer than 100 rounds.",
        "do": "Tune nothing. Ask ``rounds_needed`` how many would tell.",
        "page": "guide/intervals",
    },
    "low_overlap": {
        "log": "The policy is far from the system: few rounds carry most of the "
        "weight.",
        "do": "Ask for a policy nearer the system. Cut weights to compare, not to "
        "decide: intervals of ``SwitchDR``, ``DRos`` and ``cmax`` ignore a bias.",
        "page": "guide/intervals",
    },
    "unsupported_mass": {
        "log": "The policy takes actions that were never logged.",
        "do": "The interval ignores their rewards. Collect such rounds.",
        "page": "guide/evaluators",
    },
    "no_reward_range": {
        "log": "Rewards without a known range, such as revenue.",
        "do": "State a range if there is one. The interval cannot allow for large "
        "rewards that were not seen.",
        "page": "guide/intervals",
    },
}
TEASER = ("one_logger", "one_logger_unknown", "several_loggers", "deterministic")


def write_tables(folder):
    """Write the tables as files that pages include."""
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    header = ("Your log", "Use", "What to doubt", "Read")
    rows = {name: _cells(row) for name, row in SITUATIONS.items()}
    _write(folder / "situations.inc", header, rows.values(), (29, 34, 25, 12))
    teaser = [rows[name][:3] for name in TEASER]
    _write(folder / "teaser.inc", header[:3], teaser, (35, 35, 30))
    doubts = [[row["log"], row["do"], _page(row)] for row in DOUBTS.values()]
    _write(folder / "doubts.inc", ("If", "Then", "Read"), doubts, (35, 50, 15))


def _cells(row):
    use = "**stop**" if row["evaluator"] == STOP else _code(row["evaluator"])
    if row["check"]:
        use += f"; check by {_code(row['check'])}"
    return [row["log"], use, row["doubt"], _page(row)]


def _code(text):
    return f"``{text}``"


def _page(row):
    return f":doc:`/{row['page']}`"


def _write(path, header, rows, widths):
    told = " ".join(map(str, widths))
    lines = [".. list-table::", "   :header-rows: 1", f"   :widths: {told}", ""]
    for row in (header, *rows):
        lines.append(f"   * - {row[0]}")
        lines += [f"     - {cell}" for cell in row[1:]]
    text = "\n".join(lines) + "\n"
    if not path.exists() or path.read_text(encoding="utf-8") != text:
        path.write_text(text, encoding="utf-8")
