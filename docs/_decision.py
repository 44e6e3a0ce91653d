# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""The tables of "which evaluator?": the rules and the stops of `suggest`, doubts.

Rules and stops are those of the package. The keys are the names that `suggest` uses,
and tests compare the rows with its answers: T is a horizon, and `says` is how the text
of a stop begins. `page` is a page of the guide.
"""

from pathlib import Path

from skope_ope.evaluators._rules import RULES
from skope_ope.selection._suggest import Named, code_of, estimators_of
from skope_ope.selection._suggested_doubts import STOPS as STOPS_OF_SUGGEST

STOP = "stop"


def _row(rule):
    """Return a rule as a row: its evaluators are written in code."""
    horizon = {"horizon": Named("T")} if isinstance(rule.use, type) else {}
    evaluator, check = estimators_of(rule, rule.step, **horizon)
    return {
        "log": rule.log,
        "evaluator": code_of(evaluator) if evaluator else STOP,
        "check": code_of(check) if check else "",
        "doubt": rule.doubt,
        "page": rule.page,
    }


SITUATIONS = {name: _row(rule) for name, rule in RULES.items()}
# Why `suggest` names no evaluator. The first names are those of the situation.
STOPS = {
    name: stop._asdict() | {"says": stop.text}
    for name, stop in STOPS_OF_SUGGEST.items()
}

# Doubts about any of these rows; the evaluator stays.
DOUBTS = {
    "few_events": {
        "log": "Few rounds with a reward (or few without) inform the value.",
        "do": "State ``reward_range``. If the interval is the whole range, the log "
        "cannot answer.",
        "page": "guide/intervals",
    },
    "few_rewards": {
        "log": "The log has few rounds with a reward, or few without.",
        "do": "State ``reward_range``, or collect more rounds.",
        "page": "guide/audit",
    },
    "few_groups": {
        "log": "The same users come back, and there are few users.",
        "do": "Pass ``group``: errors then count users.",
        "page": "guide/intervals",
    },
    "many_actions": {
        "log": "Many actions, few rounds for each.",
        "do": "Pass ``action_context``, features of the actions. One model then "
        "predicts for all actions.",
        "page": "guide/reward_models",
    },
    "tiny_log": {
        "log": "Fewer than 100 rounds.",
        "do": "Tune nothing. Ask ``rounds_needed`` how many rounds you need.",
        "page": "guide/intervals",
    },
    "low_overlap": {
        "log": "The policy is far from the system: few rounds carry most of the "
        "weight.",
        "do": "Ask for a policy nearer the system. Cut weights to compare, not to "
        "decide: intervals of ``SwitchDR``, ``DRos`` and ``cmax`` ignore a bias.",
        "page": "guide/intervals",
    },
    "out_of_reach": {
        "log": "The policy wants actions that the system takes very rarely.",
        "do": "Compare with cut weights, or collect rounds closer to the policy.",
        "page": "guide/audit",
    },
    "heavy_tail": {
        "log": "A few weighted rewards are far larger than the others.",
        "do": "Do not use intervals that assume a normal distribution.",
        "page": "guide/audit",
    },
    "unsupported_mass": {
        "log": "The policy takes actions that were never logged.",
        "do": "The interval ignores their rewards. Collect such rounds.",
        "page": "guide/evaluators",
    },
    "mean_weight": {
        "log": "The weights do not average 1.",
        "do": "Check the propensities, and the order of the policy's columns.",
        "page": "guide/audit",
    },
    "constant_weight": {
        "log": "All weights are the same number, and it is not 1.",
        "do": "Pass the probabilities of the policy, not those of the logger.",
        "page": "guide/audit",
    },
    "impossible_propensity": {
        "log": "A propensity is so small that its weight is not usable.",
        "do": "Correct this propensity, or drop the round.",
        "page": "guide/audit",
    },
    "no_reward_range": {
        "log": "Rewards without a known range, such as revenue.",
        "do": "State a range if there is one. The interval cannot allow for large "
        "rewards that were not seen.",
        "page": "guide/intervals",
    },
    "learned_rounds": {
        "log": "The policy learned from these rounds.",
        "do": "Split the log, and evaluate on rounds that the policy has not seen.",
        "page": "guide/learning",
    },
    "learned_groups": {
        "log": "The policy learned from other rounds of the same users.",
        "do": "Split by user, unless the policy will act for the same users.",
        "page": "guide/learning",
    },
    "rows_not_recognised": {
        "log": "The policy learned from another log object. Whether it saw these "
        "rounds is not known.",
        "do": "Build the logs once and split them.",
        "page": "guide/learning",
    },
}

# Doubts about some of the rows only.
DOUBTS_OF_ROWS = {
    "wrong_propensities": {
        "log": "One system decided, and the propensities are recorded.",
        "do": "Wrong probabilities bias every value: run ``audit(policy, logs)`` "
        "first.",
        "page": "guide/audit",
    },
    "estimated_propensities": {
        "log": "The propensities are estimated.",
        "do": "The interval treats them as exact. ``value.sensitivity()`` shows what "
        "hidden reasons could change.",
        "page": "guide/propensities",
    },
    "support_of_each": {
        "log": "Several systems decided, without ``logger_proba``.",
        "do": "Each system must be able to take what the policy takes. Or pass "
        "``logger_proba``.",
        "page": "guide/multi_logger",
    },
    "trends": {
        "log": "Several systems decided at different times, or one system took one "
        "action at a time.",
        "do": "A change over time looks like an effect: use ``logger_overlap``, or "
        "compare periods.",
        "page": "guide/multi_logger",
    },
    "given_up": {
        "log": "The system was a bandit, and gave up some actions.",
        "do": "For one fixed action use ``AdaptiveDR(weighting='two_point')``.",
        "page": "guide/adaptive_logs",
    },
    "few_trajectories": {
        "log": "Your policy learns, and few trajectories fit into the log.",
        "do": "Shorten the horizon. One trajectory has no standard error.",
        "page": "guide/evaluators",
    },
    "short_life": {
        "log": "Your policy learns, and the suggested horizon is below 10 rounds.",
        "do": "Collect more rounds: a policy learns little in so few.",
        "page": "guide/evaluators",
    },
    "bias_mass": {
        "log": "Your policy learns, and the system drew unevenly.",
        "do": "If ``bias_mass`` is above 0.1, the simulated history differs from a "
        "live one. Try a smaller ``q``.",
        "page": "guide/evaluators",
    },
    "logger_learned": {
        "log": "Your policy learns, and so did the system.",
        "do": "Few rounds are accepted of actions that the system gave up: look at "
        "``n_trajectories``.",
        "page": "guide/adaptive_logs",
    },
    "sum_over_slots": {
        "log": "A list was shown together, and its items compete or help each other.",
        "do": "The reward is then no sum over the places: compare with ``SlateIPS``.",
        "page": "guide/slates",
    },
    "attention": {
        "log": "Lists with clicks by place, and attention is estimated from these "
        "clicks.",
        "do": "The error is larger, so pages are resampled. Give ``attention`` if "
        "you know it.",
        "page": "guide/scavenging",
    },
    "learned_ranks": {
        "log": "The policy sorts what was shown, by ranks from the same clicks.",
        "do": "The value is too good. Learn the ranks on other rounds.",
        "page": "guide/scavenging",
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
    for name, key, table in (
        ("stops", "Situation", STOPS),
        ("doubts", "Doubt", DOUBTS),
        ("doubts_of_rows", "Doubt", DOUBTS_OF_ROWS),
    ):
        header = (key, "If", "Then", "Read")
        cells = [_named_cells(*item) for item in table.items()]
        _write(folder / f"{name}.inc", header, cells, (20, 32, 36, 12))


def _named_cells(key, row):
    name, *more = key.split(", ")
    name = ", ".join([name if name == "any" else _code(name), *more])
    return [name, row["log"], row["do"], _page(row)]


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
    shares = " ".join(map(str, widths))
    lines = [".. list-table::", "   :header-rows: 1", f"   :widths: {shares}", ""]
    for row in (header, *rows):
        lines.append(f"   * - {row[0]}")
        lines += [f"     - {cell}" for cell in row[1:]]
    text = "\n".join(lines) + "\n"
    if not path.exists() or path.read_text(encoding="utf-8") != text:
        path.write_text(text, encoding="utf-8")
