# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""What is summed over the parts of a log, all of it stated beforehand."""

from copy import copy
from dataclasses import dataclass, field

from skope_ope.evaluators.core._summary import refuse_unstated
from skope_ope.evaluators.parts._part_sums import sums_of_part


@dataclass(frozen=True)
class Stated:
    """What every part of a log is asked, wherever it lies."""

    policies: dict  # by name
    evaluators: dict  # by name
    sources: dict  # reward sources by name of the evaluator
    n_total: int | None = None  # rounds of the whole log, where that is known
    is_whole: bool = False  # whether nothing will be added to the sums
    # Shares of the loggers in the whole log, where their mixture enters
    shares: dict | None = None
    by: tuple = ()  # columns by whose values sums are wanted, too
    # Evaluators with a number in the place of "auto", by name and policy
    resolved: dict = field(default_factory=dict)

    def evaluator(self, name, policy):
        """Return the evaluator that values a policy."""
        known = self.resolved.get((name, policy), self.evaluators[name])
        return self.ready(known)

    def ready(self, evaluator):
        """Return an evaluator with what the number of all rounds states."""
        return evaluator._stated_by(self.n_total) if self.is_whole else evaluator

    def sums_of(self, logs, sample_weight=None):
        """Return the `PartSums` of a part of the log."""
        evaluators = {name: self.ready(one) for name, one in self.evaluators.items()}
        return sums_of_part(
            self.policies,
            evaluators,
            logs,
            sources=self.sources,
            n_total=self.n_total,
            shares=self.shares,
            by=list(self.by) or None,
            sample_weight=sample_weight,
            resolved=self.resolved,
        )

    def check(self, head):
        """Raise where something depends on the whole log, before a part is read."""
        for name, evaluator in self.evaluators.items():
            if self.is_auto(evaluator):
                continue  # it is chosen when the rounds are read
            evaluator = copy(self.ready(evaluator))
            evaluator.logs_ = head
            if name in self.sources:
                evaluator._take_source(self.sources[name])
            refuse_unstated(evaluator, head)

    def is_auto(self, evaluator):
        """Whether a parameter of an evaluator is chosen for every policy."""
        return self.is_whole and getattr(evaluator, "_is_auto", False)
