# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Whether the requirements hold, by which numbers, and the verdicts behind them."""

from functools import cached_property

from skope_ope._shell._policies import LOGGER
from skope_ope._shell._require import GAIN, VALUE, VERDICT
from skope_ope.audit import VerdictThresholds, verdict
from skope_ope.evaluators._logged_value import logged_value
from skope_ope.evaluators.core._assumptions import (
    NOTHING_OUTSIDE,
    rests_on_propensities,
)
from skope_ope.evaluators.core._grounds import ESTIMATED
from skope_ope.evaluators.core._missing_part import weight_findings

LIMIT = {"lower": "low", "upper": "high"}
BIAS = "bias_left_out"


class Results:
    """What requirements may ask for."""

    def __init__(self, table, logs, level_of_each, level, audits=None, accepted=()):
        self.table, self.logs = table, logs
        self.level_of_each, self.level = level_of_each, level
        self.audits = audits or {}
        # at their own level: a lower --level makes no value more trustworthy
        self.thresholds = VerdictThresholds(accepted=accepted)

    @cached_property
    def logger(self):
        """The mean reward of the rounds."""
        return logged_value(self.logs)

    @cached_property
    def verdicts(self):
        """Verdicts by (policy, evaluator)."""
        return {
            key: verdict(
                value, audit=self.audits.get(key[0]), thresholds=self.thresholds
            )
            for key, value in self.table.items()
        }

    def evaluator_of(self, side):
        """Return the evaluator that a side is about."""
        known = [name for policy, name in self.table if policy == side.name]
        if side.evaluator is not None:
            if side.evaluator not in known:
                raise ValueError(
                    f"--require: {side.text!r} names the evaluator "
                    f"{side.evaluator!r}, and the table has {', '.join(known)}."
                )
            return side.evaluator
        if self.table.recommended in known:
            return self.table.recommended
        if len(known) == 1:
            return known[0]
        raise ValueError(
            f"--require: no evaluator is recommended for {side.text!r}, because "
            f"{self.table.reason}. Name one of {', '.join(known)}, as "
            f"{side.name}/{known[0]}."
        )

    def of(self, side):
        """Return the number or the `Verdict` of a side."""
        if side.number is not None:
            return side.number
        if side.answer is not None:
            return side.answer
        if side.name == LOGGER:
            return _number(self.logger, (side.fields or (VALUE,))[0], self.level)
        key = side.name, self.evaluator_of(side)
        value, fields = self.table[key], side.fields or (VALUE,)
        if fields[0] == VERDICT:
            return self.verdicts[key]
        if fields[0] == GAIN:
            value, fields = value - self.logger, fields[1:] or (VALUE,)
        return _number(value, fields[0], self.level_of_each)


def _number(value, field, level):
    """Return a field of a value."""
    if field == "effective_rounds":
        return float(value.effective_sample_size)
    if field in LIMIT:
        return float(getattr(value._interval(level), LIMIT[field]))
    return float(getattr(value, field))


def add_verdicts(args, report, table, logs, audits):
    """Add to a report the verdicts, and whether the requirements hold."""
    results = Results(
        table, logs, report["level_of_each"], args.level, audits, args.accept
    )
    for record, found in zip(report["values"], results.verdicts.values(), strict=True):
        record["verdict"] = found.to_dict()
    report["requirements"] = gated(args.require, results)
    return all(one["holds"] for one in report["requirements"])


def add_verdict_on_gain(args, report, gain, audits):
    """Add to the decision of a report the verdict on the gain that it rests on."""
    decision = report["decision"]
    decision["verdict"] = verdict(
        gain,
        audit=(audits or {}).get(decision["choice"]),
        thresholds=VerdictThresholds(accepted=args.accept),
    ).to_dict()


def gated(requirements, results):
    """Return whether requirements hold, and by which numbers."""
    # A requirement about a value that the logs do not support does not hold, whatever
    # its numbers, unless it is about the verdict itself. Neither does one about the
    # limit of an interval that leaves a bias out, or about a gain whose sign missing
    # weight could turn, unless that is accepted.
    return [_gated(one, results) for one in requirements]


def _gated(requirement, results):
    left, right = (results.of(side) for side in requirement.sides)
    about = [side for side in requirement.sides if side.name not in (None, LOGGER)]
    holds, because = requirement.holds(left, right), ""
    if left != left or right != right:
        because = "a number that is not known (NaN) meets no requirement"
    if holds:
        asked = [side for side in about if not side.is_verdict]
        doubts = [_doubt(side, results) for side in asked]
        doubts += [
            _missing_part(gain, results) for gain in _gains(requirement, results)
        ]
        because = "; ".join(filter(None, dict.fromkeys(doubts)))
    names = [results.evaluator_of(side) for side in about]
    values = [results.table[one.name, results.evaluator_of(one)] for one in about]
    estimated = any(rests_on_propensities(one, ESTIMATED) for one in values)
    return {
        "text": requirement.text,
        "holds": holds and not because,
        "left": _plain(left),
        "right": _plain(right),
        "evaluators": list(dict.fromkeys(names)),
        "because": because,
        "note": NOTHING_OUTSIDE if estimated and holds and not because else "",
    }


def _doubt(side, results):
    """Return why the number of a side satisfies nothing, or nothing."""
    key = side.name, results.evaluator_of(side)
    found, left_out = results.verdicts[key], results.table[key].leaves_bias_out
    errors = [one.name for one in found.alarms if one.severity == "error"]
    if errors:
        return f"the logs do not support {side.name} ({', '.join(errors)})"
    is_limit = side.fields[-1:] in (("lower",), ("upper",))
    if is_limit and left_out and BIAS not in results.thresholds.accepted:
        return f"the interval of {key[1]} leaves out {left_out} (--accept {BIAS})"
    return ""


def _gains(requirement, results):
    """Yield the gains that a requirement is about: over the logger, or the other."""
    sides = [one for one in requirement.sides if one.name and not one.is_verdict]
    values = [
        results.logger
        if one.name == LOGGER
        else results.table[one.name, results.evaluator_of(one)]
        for one in sides
    ]
    if len(values) == 2:
        yield values[0] - values[1]
    for side, value in zip(sides, values, strict=True):
        if side.fields[:1] == (GAIN,):
            yield value - results.logger


def _missing_part(gain, results):
    """Return why the sign of a gain is not known, or nothing."""
    found = weight_findings(gain._grounds, gain._interval(results.level_of_each))
    names = [one.name for one in found if one.name not in results.thresholds.accepted]
    return f"the logs do not support the gain ({', '.join(names)})" if names else ""


def _plain(side):
    return getattr(side, "answer", side)
