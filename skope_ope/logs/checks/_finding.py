# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""What a check of a log has found: how bad it is, the numbers, and what to do."""

from collections.abc import Mapping
from dataclasses import dataclass
from math import isfinite, nan
from numbers import Real

import numpy as np

from skope_ope._texts import harmless
from skope_ope.exceptions import OPEWarning, PropensityWarning
from skope_ope.logs._html import element, tag
from skope_ope.logs._shown_numbers import figure, wrapped
from skope_ope.logs._validation import plain

SEVERITIES = ("error", "warning", "note")
STEPS_HEAD = "What to check, most likely first:"


@dataclass(frozen=True, eq=False)
class Finding:
    """What a check has found in a log."""

    name: str  # short name of the fault, the same wherever it is found
    # "error": estimates from this log are wrong until it is corrected. "warning": they
    # may be wrong. "note": worth knowing; no alarm
    severity: str
    found: str  # A sentence that says what was found, with its number
    advice: tuple = ()  # what to do: a text, or several, the most likely cause first
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
            known = f"severity must be one of {SEVERITIES}"
            raise ValueError(f"{known}, got {self.severity}")
        if isinstance(self.advice, str):
            object.__setattr__(self, "advice", (self.advice,))
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
        return f"{self.found} {STEPS_HEAD} {steps}"

    def __str__(self):
        head = f"[{self.severity}] {self.name}: "
        if len(self.advice) < 2:
            return "\n".join(wrapped(head + self.text))
        lines = wrapped(f"{head}{self.found} {STEPS_HEAD}")
        for i, one in enumerate(self.advice, 1):
            lines += wrapped(one, f"({i}) ")
        return "\n".join(lines)

    def warning(self):
        """Return the warning that carries this text, this number and this name."""
        return self.category(
            self.text, self.number, name=self.name, severity=self.severity
        )


def propensity_alarm(name, found, advice, number=nan, effect=nan, **more):
    """Return the finding that propensities or a logger are not what was recorded."""
    given = {"severity": "error", "category": PropensityWarning, **more}
    numbers = {"number": float(number), "effect": float(effect)}
    return Finding(name, found=found, advice=advice, **numbers, **given)


# -- A finding as HTML, as short texts and as a plain record ---------------------------

SOME = 6  # columns, actions or rows of a finding
LONGEST_LABEL = 40  # characters of a label
EFFECT_TOLD = ("low_overlap",)  # by the rounds that the sentence names


def plain_record(value):
    """Return what JSON takes: no arrays, no numpy scalars, None for NaN."""
    if isinstance(value, Mapping):
        return {str(plain(name)): plain_record(one) for name, one in value.items()}
    if isinstance(value, (list, tuple, np.ndarray)):
        return [plain_record(one) for one in value]
    value = plain(value)
    if value is None or isinstance(value, (bool, int, str)):
        return value
    if isinstance(value, Real):
        return float(value) if isfinite(value) else None
    return str(value)


def finding_record(finding):
    """Return a finding as a dict of plain numbers and words."""
    names = ("number", "effect", "columns", "actions", "rows", "text")
    told = {name: getattr(finding, name) for name in names}
    return plain_record({"severity": finding.severity, "finding": finding.name, **told})


def finding_html(finding, answer):
    """Return a finding as a part of a card: what was found, what to do, and where."""
    name = element("span", finding.name, class_="title")
    told = [element("p", tag(answer, finding.is_alarm), name)]
    if len(finding.advice) < 2:
        told.append(element("p", finding.text))
    else:
        steps = element("ol", *(element("li", one) for one in finding.advice))
        told += [element("p", f"{finding.found} {STEPS_HEAD}"), steps]
    where = "; ".join(places(finding))
    told += [element("p", where, class_="note")] if where else []
    return element("div", *told, class_="finding")


def places(finding):
    """Return how large an effect is and where it shows, as short texts."""
    told = []
    if isfinite(finding.effect) and finding.name not in EFFECT_TOLD:
        told.append(f"effect: {figure(finding.effect, 3)}")
    for name in ("columns", "actions", "rows"):
        values = [short_label(plain(one)) for one in getattr(finding, name)]
        if values:
            more = ", ..." if len(values) > SOME else ""
            told.append(f"{name}: {', '.join(values[:SOME])}{more}")
    return told


def short_label(label):
    """Return a label as a short text."""
    text = harmless(label)
    return text if len(text) <= LONGEST_LABEL else f"{text[: LONGEST_LABEL - 3]}..."


# -- A cause of many findings: rounds that were dropped before the log was built -------


UNLOGGED = (
    "Rounds were dropped, such as those without a reward (no click, no order): log "
    "every choice, with reward 0 where nothing came of it."
)
ONE_SIGN = 0.9  # of the rewards have one sign, as sums that were paid do


def with_dropped(causes, logs=None):
    """Return causes with the one that rounds were dropped."""
    # That is the first one where no reward is 0 and nearly all have one sign, as in an
    # export of orders. Rewards from which a cost is subtracted have both. Sums tell
    # whether all have one.
    reward = getattr(logs, "reward", None)
    if reward is None and getattr(logs, "n_rewarded", 0) == getattr(logs, "n", None):
        reward = np.array([logs.reward_low, logs.reward_high])
    if lacks_zeros(reward):
        return (f"No reward of the log is 0. {UNLOGGED}", *causes)
    return (*causes, UNLOGGED)


def lacks_zeros(reward):
    """Return whether no reward is 0, and nearly all have one sign."""
    if reward is None or not len(reward) or not (reward != 0).all():
        return False
    positive = np.mean(reward > 0)
    return bool(max(positive, 1 - positive) >= ONE_SIGN)
