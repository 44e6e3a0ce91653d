# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Every public call, and what is kept of its answer.

A call takes a world and a source and yields ``(name, numbers or texts)``. Names that
start with "~" follow from an interval: limits, decisions, verdicts.
"""

import warnings
from numbers import Real

import numpy as np

from skope_ope import audit, compare_policies, evaluate, report, suggest, verdict
from skope_ope.exceptions import OPEWarning
from tests.judge._evaluators import RIDGE
from tests.judge._sources import FOLDS

METHODS = ("gamma", "student", "normal", "bootstrap", "percentile", "hoeffding")
METHODS += ("empirical_bernstein", "clopper_pearson", "empirical_likelihood")
METHODS += ("cressie_read", "log_smoothing", "betting")


def answer(ask):
    """What was asked for, or the class of the error."""
    try:
        return ask()
    except Exception as error:
        return f"raises {type(error).__name__}"


def checksum(values):
    """One number that any change of any of the values changes."""
    fixed = np.random.RandomState(0).uniform(-1, 1, len(values))
    return float(fixed @ np.asarray(values, dtype=float))


def of_rounds(value):
    rounds = np.asarray(value.round_values)
    return [*rounds[:3], rounds[-1], checksum(rounds)]


def of_days(value):
    days = value.by("day").values()
    numbers = ([v.value for v in days], [v.standard_error for v in days])
    return [checksum(some) for some in numbers]


def of_difference(a, b):
    difference = a - b
    return [difference.value, difference.standard_error, difference.degrees_of_freedom]


def of_value(value):
    """What every value has."""
    numbers = [value.value, value.standard_error, value.degrees_of_freedom]
    return [*numbers, value.effective_sample_size]


def limits(value, *method):
    return list(value.confidence_interval(0.95, *method))


def values_of(table, evaluator, policies, asks=None):
    """What is kept of the row of one evaluator: two policies and their difference."""
    first, *others = (table[name, evaluator] for name in policies)
    yield evaluator, of_value(first)
    yield f"~{evaluator}", answer(lambda: limits(first))
    for word, ask in (asks or {}).items():
        yield f"{evaluator} {word}", answer(lambda ask=ask: ask(first))
    for other in others:
        yield f"{evaluator} other", [other.value, other.standard_error]
        minus = f"{evaluator} minus"
        yield minus, answer(lambda other=other: of_difference(first, other))
        yield f"~{minus}", answer(lambda other=other: limits(first - other))


def by_policies(entries):
    """Evaluators by the policies that they are asked about."""
    found = {}
    for name, (evaluator, some) in entries.items():
        policies = dict(zip(("new", "other"), some, strict=False))
        _, evaluators = found.setdefault(tuple(map(id, some)), (policies, {}))
        evaluators[name] = evaluator
    return found.values()


def methods(value):
    """All methods of intervals, and what a hidden reason could do."""
    for method in METHODS:
        yield f"~{method}", answer(lambda method=method: limits(value, method))
    yield "sensitivity", answer(lambda: _sensitivity(value))


def _sensitivity(value):
    found = value.sensitivity([1.0, 1.5])
    return [float(one) for one in np.ravel([found.low, found.high])]


def named(world, source):
    """Evaluators by name, and all that can be asked of the first value."""
    asks, described = {"rounds": of_rounds, "by day": of_days}, False
    for policies, evaluators in by_policies(world.facts["entries"]):
        for name, table in tables(source, policies, evaluators).items():
            if isinstance(table, str):
                yield name, table
                continue
            yield from values_of(table, name, policies, asks)
            asks = source.of_every_row(asks)
            if not described:
                yield from methods(table["new", name])
            described = True


def tables(source, policies, evaluators):
    """One table for all evaluators; one by one where one of them raises."""
    table = answer(lambda: source.table(policies, evaluators, cv=FOLDS))
    if not isinstance(table, str) or len(evaluators) == 1:
        return dict.fromkeys(evaluators, table)
    found = {}
    for name, one in evaluators.items():
        found |= tables(source, policies, {name: one})
    return found


def defaults(world, source):
    """The one-call start, and what else can be asked of its first values."""
    policies = dict(zip(("new", "other"), world.policies, strict=False))
    table = source.table(policies, None)
    yield "recommended", str(table.recommended)
    for name in dict.fromkeys(name for _, name in table):
        yield from values_of(table, name, policies)
    name = table.recommended or next(iter(table))[1]
    value, other = table["new", name], table["other", name]
    told = {k: float(v) for k, v in value.diagnostics.items() if _is_number(v)}
    if source.holds_rounds:  # others have fewer
        yield "diagnostics", sorted(told)
        yield "diagnosed", [told[name] for name in sorted(told)]
    lift = answer(lambda: value.lift(other))
    if not isinstance(lift, str):
        yield "~lift", answer(lambda: [lift.value, *limits(lift)])
    yield "~verdict", value.verdict.answer


def _is_number(one):
    return isinstance(one, (Real, np.number)) and not isinstance(one, (bool, np.bool_))


def model(world, source):
    """A model that is fitted, by the same folds wherever the rounds lie; and arrays."""
    policies, names = {"new": world.policies[0]}, world.facts["models"]
    table = source.table(policies, list(names), reward_model=RIDGE, cv=FOLDS)
    for name in names:
        yield name, of_value(table["new", name])
    if source.holds_rounds and "q_hat" in source.logs.columns:
        pi, q_hat = (source.logs.columns[one] for one in (world.policies[0], "q_hat"))
        table = source.table({"new": pi}, list(names), reward_model=q_hat)
        for name in names:
            yield f"{name} arrays", of_value(table["new", name])


def fit(world, source):
    """fit and score, on other logs too, of a policy that predicts."""
    entries = world.facts["entries"]
    name, (evaluator, _) = list(entries.items())[-1]
    policy = world.facts["object"]
    fitted = evaluator.fit(source.logs)
    yield f"{name} score", answer(lambda: [fitted.score(policy)])
    if source.holds_rounds:
        few = source.logs[: len(source.logs) // 2]
        yield f"{name} others", answer(lambda: of_value(fitted.evaluate(policy, few)))


def compare(world, source):
    policies = dict(zip(("new", "other"), world.policies, strict=False))
    found = compare_policies(policies, source.logs)
    for name, gain in found.differences.items():
        yield name, [gain.value, gain.standard_error]
        yield f"~{name}", limits(gain)
    yield "~decision", [found.decision, str(found.choice)]


def audited(world, source):
    found = audit(world.policies[0], source.logs)
    yield "findings", [f"{one.severity} {one.name}" for one in found.findings]


def judged(world, source):
    value = evaluate(world.policies[0], source.logs)
    value = value[value.recommended or next(iter(value))]
    found = verdict(value, audit=audit(world.policies[0], source.logs))
    yield "~answer", found.answer


def reported(world, source):
    policies = dict(zip(("new", "other"), world.policies, strict=False))
    found = report(policies, source.logs)
    yield "~decision", [found.decision, str(found.choice)]


def suggested(world, source):
    """The evaluator that fits a log."""
    found = suggest(world.policies[0], source.logs)
    yield "situation", [found.situation, type(found.evaluator).__name__, found.interval]


SUMS = ("memory", "days", "files", "frame")
FILES = ("memory", "files")
CALLS = {  # and where the rounds may lie
    "defaults": (defaults, SUMS),
    "named": (named, SUMS),
    "model": (model, FILES),
    "fit": (fit, FILES),
    "compare": (compare, (*FILES, "frame")),
    "audit": (audited, FILES),
    "verdict": (judged, ("memory",)),
    "report": (reported, ("memory",)),
    "suggest": (suggested, ("memory",)),
}


def answers(world, kind, source):
    """All answers of a source: {"call/name": numbers or texts}."""
    found = {}
    for call, (ask, kinds) in CALLS.items():
        if kind not in kinds or call not in world.facts.get("calls", CALLS):
            continue
        with warnings.catch_warnings(record=True) as warned:
            warnings.simplefilter("always")
            rows = answer(lambda ask=ask: list(ask(world, source)))
        if isinstance(rows, str):
            rows = [("raises", rows)]
        found |= {f"{call}/{name}": told for name, told in rows}
        classes = {w.category for w in warned if issubclass(w.category, OPEWarning)}
        found[f"{call}/~warnings"] = sorted(one.__name__ for one in classes)
    return found
