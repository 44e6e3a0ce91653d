# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""What is suggested for a log: an evaluator, the reasons, and what to doubt."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from skope_ope.logs._html import Markup, bullets, card, element, joined, pairs
from skope_ope.logs._shown_numbers import wrapped


@dataclass(frozen=True)
class Suggestion:
    """The evaluator that fits a log, why, and what to doubt.

    Made by `suggest`.

    Parameters
    ----------
    situation : str
        Short name of the kind of log, as in the table of the guide.
    evaluator : evaluator, Pipeline or None
        Unfitted. A Pipeline has a step that adds what the logs lack. `None`: no
        evaluator can answer.
    check : evaluator, Pipeline or None
        A second evaluator, unfitted. Its value should be about the same.
    interval : str
        The `method` that ``value.confidence_interval`` takes.
    stop : str or None
        Why this log cannot answer, and what would help; `None` if it can.
    reasons : tuple of str
        Why this evaluator and this interval.
    doubts : dict of str
        What to doubt, a sentence by the name of each doubt.
    assumptions : tuple of str
        Assumptions that no log can show.
    questions : tuple of str
        Questions that only you can answer, and what follows from the answer.
    link : str
        The page of the guide to read, such as "guide/evaluators".
    code : str
        Code that runs with your `logs` and `policy`.

    Examples
    --------
    >>> from skope_ope import suggest
    >>> from skope_ope.datasets import make_bandit_logs
    >>> logs, policy, truth = make_bandit_logs(random_state=0, return_truth=True)
    >>> found = suggest(policy, logs)
    >>> found.evaluator, found.check, found.interval, found.stop
    (DoublyRobust(), SNIPS(), 'auto', None)
    """

    situation: str
    evaluator: Any = None
    check: Any = None
    interval: str = "auto"
    stop: str | None = None
    reasons: tuple[str, ...] = ()
    doubts: dict[str, str] = field(default_factory=dict)
    assumptions: tuple[str, ...] = ()
    questions: tuple[str, ...] = ()
    link: str = "which_evaluator"
    code: str = ""

    def _lines(self):
        """Return pairs of a heading and a text, in the order in which they are told."""
        if self.stop is not None:
            lines = [("stop", self.stop)]
        else:
            lines = [("evaluator", code_of(self.evaluator))]
            if self.check is not None:
                lines.append(("check", code_of(self.check)))
            lines.append(("interval", self.interval))
        many = (
            ("because", self.reasons),
            ("doubt", self.doubts.values()),
            ("assumes", self.assumptions),
            ("ask", self.questions),
        )
        lines += [(name, text) for name, texts in many for text in texts]
        return [*lines, ("read", self.link)]

    def __repr__(self) -> str:
        lines, last = [], None
        for name, text in self._lines():
            lines += wrapped(text, f"{'' if name == last else name:<11}", " " * 11)
            last = name
        if self.code:
            lines += ["", *self.code.splitlines()]
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        told = {}
        for name, text in self._lines():
            told.setdefault(name, []).append(text)
        rows = {
            name: texts[0] if len(texts) == 1 else bullets(texts)
            for name, texts in told.items()
        }
        lines = [joined(line, Markup("\n")) for line in self.code.splitlines()]
        code = element("pre", *lines) if lines else ""
        return card("Suggestion", pairs(rows), code)


def code_of(evaluator):
    """Return an evaluator as it is written in code; None: "none"."""
    if evaluator is None:
        return "none"
    if hasattr(evaluator, "steps"):
        steps = ", ".join(code_of(step) for _, step in evaluator.steps)
        return f"make_pipeline({steps})"
    return " ".join(repr(evaluator).split())
