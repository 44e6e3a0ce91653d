# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""What a check of a log has found: how bad it is, the numbers, and what to do."""

from dataclasses import dataclass
from math import nan

from skope_ope.exceptions import OPEWarning
from skope_ope.logs._text_table import wrapped

SEVERITIES = ("error", "warning", "note")
STEPS = "What to check, most likely first:"


@dataclass(frozen=True, eq=False)
class Finding:
    """What a check has found in a log."""

    name: str  # short name of the fault, the same wherever it is found
    # "error": estimates from this log are wrong until it is corrected. "warning": they
    # may be wrong. "note": worth knowing; no alarm
    severity: str
    found: str  # A sentence that says what was found, with its number
    advice: tuple = ()  # what to do: the most likely cause first
    # What triggered it: a number of standard errors, a chance, a share, the natural
    # logarithm of an e-value; the sentence says which
    number: float = nan
    # How large the deviation is, as a share: .1 is ten percent. An alarm about chance
    # needs both, a number beyond chance and an effect that matters
    effect: float = nan
    rows: tuple = ()  # some rows that show it, by position in the log; at most ten
    columns: tuple = ()  # the columns of the context that it is about; at most ten
    actions: tuple = ()  # the actions, or loggers, that it is about; at most ten
    category: type = OPEWarning  # which warning tells of it where an evaluator finds it
    # Evaluators whose values it does not touch: they are made for what was found, or do
    # not use it
    spares: tuple = ()

    def __post_init__(self):
        if self.severity not in SEVERITIES:
            raise ValueError(
                f"severity must be one of {SEVERITIES}, got {self.severity}"
            )
        for name in ("advice", "rows", "columns", "actions", "spares"):
            object.__setattr__(self, name, tuple(getattr(self, name)))

    @property
    def is_alarm(self):
        """Whether somebody should act before reading an estimate."""
        return self.severity != "note"

    @property
    def text(self):
        """What was found and what to do about it."""
        if len(self.advice) < 2:
            return " ".join((self.found, *self.advice))
        steps = " ".join(f"({i}) {one}" for i, one in enumerate(self.advice, 1))
        return f"{self.found} {STEPS} {steps}"

    def __str__(self):
        head = f"[{self.severity}] {self.name}: "
        if len(self.advice) < 2:
            return "\n".join(wrapped(head + self.text))
        lines = wrapped(f"{head}{self.found} {STEPS}")
        for i, one in enumerate(self.advice, 1):
            lines += wrapped(one, f"({i}) ")
        return "\n".join(lines)

    def warning(self):
        """Return the warning that carries this text, this number and this name."""
        return self.category(
            self.text, self.number, name=self.name, severity=self.severity
        )
