# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""What must hold for a deployment: `--require "new.lower > logger"`.

A requirement is LEFT OPERATOR RIGHT. A side is a number; ``logger``; or the name of a
policy, with an evaluator behind a slash where it is not the recommended one, and a
field behind a dot: ``new``, ``new.lower``, ``new/SNIPS.gain.lower``,
``new.verdict``, which is compared with an answer. Nothing is run as code.
"""

import operator
import re
from argparse import ArgumentTypeError
from dataclasses import dataclass
from functools import cached_property

from skope_ope._shell._policies import POLICY_WORD, RESERVED
from skope_ope.audit import VerdictThresholds, verdict
from skope_ope.evaluators.core._evidence import (
    ESTIMATED,
    NOTHING_OUTSIDE,
    rests_on_propensities,
    weight_findings,
)
from skope_ope.evaluators.core._logged_value import logged_value
from skope_ope.evaluators.core._verdict import ANSWERS
from skope_ope.selection._outcome import LOGGER

OPERATORS = {
    ">=": operator.ge,
    "<=": operator.le,
    "==": operator.eq,
    ">": operator.gt,
    "<": operator.lt,
}
VALUE, GAIN, VERDICT = "value", "gain", "verdict"
LIMIT_FIELDS = (VALUE, "lower", "upper")
REQUIRED_FIELDS = (*LIMIT_FIELDS, GAIN, "standard_error", "effective_rounds", VERDICT)
TOKEN = re.compile(
    rf"""(?P<blank>\s+)
    |(?P<operator>[<>]=?|==)
    |(?P<number>[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?(?![\w.]))
    |(?P<quoted>"[^"]*"|'[^']*')
    |(?P<name>{POLICY_WORD})
    |(?P<dot>\.)
    |(?P<slash>/)""",
    re.VERBOSE,
)
END_OF_TEXT = "the end"


@dataclass(frozen=True)
class Side:
    """One side of a requirement."""

    text: str  # as it was written
    number: float | None = None  # where it is one
    answer: str | None = None  # of a verdict, likewise
    name: str | None = None  # the policy, and the evaluator that was named
    evaluator: str | None = None  # the policy, and the evaluator that was named
    fields: tuple = ()  # what is asked of it: ("gain", "lower")

    @property
    def is_verdict(self):
        """Whether it is an answer, or asks for one."""
        return self.answer is not None or self.fields == (VERDICT,)


@dataclass(frozen=True)
class Requirement:
    """What must hold."""

    text: str  # as it was written
    left: Side
    operator: str  # one of `OPERATORS`
    right: Side

    @property
    def sides(self):
        """Both sides."""
        return self.left, self.right

    def holds(self, left, right):
        """Whether it holds for two numbers, or two verdicts; for NaN it never does."""
        return bool(OPERATORS[self.operator](left, right))

    def __str__(self):
        return self.text

    def check_names(self, known):
        """Raise if it names a policy that does not exist."""
        for side in self.sides:
            if side.name not in (None, LOGGER, *known):
                raise ValueError(
                    f"--require {self.text!r}: no policy is called {side.name!r}. "
                    f"There are {', '.join([*known, LOGGER])}."
                )


def requirement(text):
    """Parse a requirement."""
    return _Parser(text).requirement()


class _Parser:
    """Reads the tokens of a requirement from left to right."""

    def __init__(self, text):
        self.text, self.tokens, place = text, [], 0
        while place < len(text):
            match = TOKEN.match(text, place)
            if match is None:
                self._refuse(place, f"{text[place]!r} does not fit into a requirement")
            if match.lastgroup != "blank":
                self.tokens.append((match.lastgroup, match.group(), place))
            place = match.end()
        self.tokens.append(("end", END_OF_TEXT, len(text)))

    def requirement(self):
        """Return the requirement; nothing may follow it."""
        left = self._side()
        sign = self._take(["operator"], f"one of {' '.join(OPERATORS)}")
        right = self._side()
        self._take(["end"], "nothing more (further requirements are further options)")
        if left.name is None and right.name is None:
            self._refuse(0, "neither side is about a policy or the logger")
        wanted = sum(side.is_verdict for side in (left, right))
        if wanted == 1:
            self._refuse(
                0, "a verdict is compared with one of " + ", ".join(map(repr, ANSWERS))
            )
        if not wanted and sign == "==":
            place = self.text.index("==")
            self._refuse(place, "numbers are compared with > >= < <=")
        return Requirement(self.text, left, sign, right)

    def _side(self):
        kind, text, place = self.tokens.pop(0)
        if kind == "number":
            return Side(text, number=float(text))
        if kind == "quoted" or text in RESERVED[1:]:
            return self._answer(kind, text, place)
        if kind != "name":
            self._refuse(place, f"a number or a policy stands here, got {text!r}")
        evaluator = None
        if self.tokens[0][0] == "slash":
            self.tokens.pop(0)
            evaluator = self._take(["name", "quoted"], "the name of an evaluator")
            evaluator = evaluator.strip("\"'")
        fields = self._fields(text)
        if text == LOGGER and evaluator is not None:
            self._refuse(place, "the logger's value is its mean, by no evaluator")
        return Side(
            self.text[place : self.tokens[0][2]].strip(),
            name=text,
            evaluator=evaluator,
            fields=fields,
        )

    def _answer(self, kind, text, place):
        """Return an answer of a verdict, which may be quoted."""
        if text == "not":
            text = f"not {self._take(['name'], 'supported')}"
        answer = text.strip("\"'")
        if answer not in ANSWERS:
            named = ", ".join(map(repr, ANSWERS))
            self._refuse(place, f"{answer!r} is none of the answers {named}")
        return Side(answer, answer=answer)

    def _fields(self, name):
        """Return what is asked of a policy, or of the logger."""
        found, known = [], LIMIT_FIELDS if name == LOGGER else REQUIRED_FIELDS
        while self.tokens[0][0] == "dot":
            self.tokens.pop(0)
            _, text, place = self.tokens[0]
            if text not in known:
                told = f"one of {', '.join(known)}" if known else "nothing more"
                self._refuse(place, f"{told} stands here, got {text!r}")
            found.append(self._take(["name"], "a field"))
            known = LIMIT_FIELDS if found[-1] == GAIN else ()
        return tuple(found)

    def _take(self, kinds, wanted):
        kind, text, place = self.tokens.pop(0)
        if kind not in kinds:
            self._refuse(place, f"{wanted} stands here, got {text!r}")
        return text

    def _refuse(self, place, told):
        raise ArgumentTypeError(
            f"{self.text!r} is no requirement such as 'new.lower > logger': at "
            f"character {place + 1}, {told}"
        )


# -- whether the requirements hold, by which numbers, and the verdicts behind them -----

LIMIT_BY_FIELD = {"lower": "low", "upper": "high"}
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

    def key_of(self, side):
        """Return the policy and the evaluator that a side is about."""
        return side.name, self.evaluator_of(side)

    def value_of(self, side):
        """Return the value that a side is about."""
        return self.logger if side.name == LOGGER else self.table[self.key_of(side)]

    def of(self, side):
        """Return the number or the `Verdict` of a side."""
        if side.number is not None:
            return side.number
        if side.answer is not None:
            return side.answer
        value, fields = self.value_of(side), side.fields or (VALUE,)
        if side.name == LOGGER:
            return _asked_number(value, fields[0], self.level)
        if fields[0] == VERDICT:
            return self.verdicts[self.key_of(side)]
        if fields[0] == GAIN:
            value, fields = value - self.logger, fields[1:] or (VALUE,)
        return _asked_number(value, fields[0], self.level_of_each)


def _asked_number(value, field, level):
    """Return a field of a value."""
    if field == "effective_rounds":
        return float(value.effective_sample_size)
    if field in LIMIT_BY_FIELD:
        return float(getattr(value._interval(level), LIMIT_BY_FIELD[field]))
    return float(getattr(value, field))


def add_verdicts(args, report, table, logs, audits):
    """Add to a report the verdicts, and whether the requirements hold."""
    results = Results(
        table, logs, report["level_of_each"], args.level, audits, args.accept
    )
    for record, found in zip(report["values"], results.verdicts.values(), strict=True):
        record["verdict"] = found.to_dict()
    report["requirements"] = [_gated(one, results) for one in args.require]
    return all(one["holds"] for one in report["requirements"])


def add_verdict_on_gain(args, report, gain, audits):
    """Add to the decision of a report the verdict on the gain that it rests on."""
    decision = report["decision"]
    decision["verdict"] = verdict(
        gain,
        audit=(audits or {}).get(decision["choice"]),
        thresholds=VerdictThresholds(accepted=args.accept),
    ).to_dict()


def _gated(requirement, results):
    """Return whether a requirement holds, and by which numbers."""
    # A requirement about a value that the logs do not support does not hold, whatever
    # its numbers, unless it is about the verdict itself. Neither does one about the
    # limit of an interval that leaves a bias out, or about a gain whose sign missing
    # weight could turn, unless that is accepted.
    left, right = (results.of(side) for side in requirement.sides)
    about = [side for side in requirement.sides if side.name not in (None, LOGGER)]
    holds, because = requirement.holds(left, right), ""
    if left != left or right != right:
        because = "a number that is not known (NaN) meets no requirement"
    if holds:
        asked = [side for side in about if not side.is_verdict]
        doubts = [_side_doubt(side, results) for side in asked]
        doubts += [
            _missing_part(gain, results) for gain in _gains_in(requirement, results)
        ]
        because = "; ".join(filter(None, dict.fromkeys(doubts)))
    names = [results.evaluator_of(side) for side in about]
    values = map(results.value_of, about)
    estimated = any(rests_on_propensities(one, ESTIMATED) for one in values)
    return {
        "text": requirement.text,
        "holds": holds and not because,
        "left": getattr(left, "answer", left),
        "right": getattr(right, "answer", right),
        "evaluators": list(dict.fromkeys(names)),
        "because": because,
        "note": NOTHING_OUTSIDE if estimated and holds and not because else "",
    }


def _side_doubt(side, results):
    """Return why the number of a side satisfies nothing, or nothing."""
    key = results.key_of(side)
    found, left_out = results.verdicts[key], results.table[key].leaves_bias_out
    errors = [one.name for one in found.alarms if one.severity == "error"]
    if errors:
        return f"the logs do not support {side.name} ({', '.join(errors)})"
    is_limit = side.fields[-1:] in (("lower",), ("upper",))
    if is_limit and left_out and BIAS not in results.thresholds.accepted:
        return f"the interval of {key[1]} leaves out {left_out} (--accept {BIAS})"
    return ""


def _gains_in(requirement, results):
    """Yield the gains that a requirement is about: over the logger, or the other."""
    sides = [one for one in requirement.sides if one.name and not one.is_verdict]
    values = [results.value_of(one) for one in sides]
    if len(values) == 2:
        yield values[0] - values[1]
    for side, value in zip(sides, values, strict=True):
        if side.fields[:1] == (GAIN,):
            yield value - results.logger


def _missing_part(gain, results):
    """Return why the sign of a gain is not known, or nothing."""
    found = weight_findings(gain._evidence, gain._interval(results.level_of_each))
    names = [one.name for one in found if one.name not in results.thresholds.accepted]
    return f"the logs do not support the gain ({', '.join(names)})" if names else ""
