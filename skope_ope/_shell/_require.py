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

from skope_ope._shell._policies import POLICY_WORD, RESERVED
from skope_ope.evaluators.core._verdict import ANSWERS
from skope_ope.selection._policy_comparison import LOGGER

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
