# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""What is summed over the parts of a log, all of it stated beforehand."""

from copy import copy
from dataclasses import dataclass, field, replace

from skope_ope.evaluators.core._auto import auto_parameters
from skope_ope.evaluators.core._requires import LogFacts
from skope_ope.evaluators.core._summary import refuse_unstated_model, resolved_for_parts
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
        return self.resolved.get((name, policy), self.evaluators[name])

    def sums_of(self, logs, sample_weight=None):
        """Return the `PartSums` of a part of the log."""
        return sums_of_part(
            self.policies,
            self.evaluators,
            logs,
            sources=self.sources,
            n_total=self.n_total,
            shares=self.shares,
            by=list(self.by) or None,
            sample_weight=sample_weight,
            resolved=self.resolved,
        )

    @property
    def facts(self):
        """What is known of the whole log."""
        return LogFacts(self.n_total if self.is_whole else None, in_parts=True)

    def checked(self, head):
        """Return the same with evaluators that need nothing of the whole log any more.

        Parameters
        ----------
        head : BanditLogs or SlateLogs
            A few rounds.

        Raises
        ------
        ValueError
            If something depends on the whole log, and nothing states it. Numbers that
            are chosen for each policy wait until the rounds are read.
        """
        facts, ready = replace(self.facts, logs=head), {}
        for name, evaluator in self.evaluators.items():
            if self.is_whole and auto_parameters(evaluator):
                ready[name] = evaluator
                continue
            fitted = copy(evaluator)
            if name in self.sources:
                fitted._take_source(self.sources[name])
            refuse_unstated_model(fitted)
            ready[name] = resolved_for_parts(evaluator, facts)
        return replace(self, evaluators=ready)
