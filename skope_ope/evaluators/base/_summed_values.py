# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Sums of what is asked, from rounds in memory, files or frames; and their values."""

from __future__ import annotations

import warnings
from copy import copy
from dataclasses import dataclass, field, replace
from functools import partial
from math import nan

import numpy as np

from skope_ope.evaluators.core._auto import auto_parameters
from skope_ope.evaluators.core._counted import Counted
from skope_ope.evaluators.core._design import Frame, sorted_labels
from skope_ope.evaluators.core._drowned import beyond_floats
from skope_ope.evaluators.core._estimate import GivenEstimate
from skope_ope.evaluators.core._known_of_sums import known_of_sums
from skope_ope.evaluators.core._largest_deviation import LargestDeviation
from skope_ope.evaluators.core._logged_value import logged_value_of_sums
from skope_ope.evaluators.core._loggers import doubt_of_parts
from skope_ope.evaluators.core._policy_value import PolicyValue
from skope_ope.evaluators.core._requires import LogFacts
from skope_ope.evaluators.core._rows import DroppedRows
from skope_ope.evaluators.core._summary import (
    LOGGER_JOB,
    refuse_unstated_model,
    resolved_for_parts,
)
from skope_ope.evaluators.core._sums import weights_of
from skope_ope.evaluators.core._values_of_groups import NO_GROUP_VALUE
from skope_ope.evaluators.core._warnings import rounds_warnings_of_sums
from skope_ope.evaluators.parts._part_sums import (
    logger_shares,
    partition_sums,
    sums_of_part,
)
from skope_ope.evaluators.parts._rows_of_files import (
    RowsOfFiles,
    RowsToRead,
    resolved,
    with_rows,
)
from skope_ope.exceptions import SupportWarning


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


LEAST_GAP = 1e-13  # of the squares: smaller differences of weights are none


def sums_of(question, sources=None, is_whole=True):
    """Return the `ValuesOfSums` of what is asked; to a whole nothing is added."""
    # `sources`: what predicts rewards by name of the evaluator, where that is fitted
    logs, policies, evaluators = question.logs, question.policies, question.evaluators
    if question.of_frame:
        # loaded when a frame comes
        from skope_ope.evaluators.frames._frame_sums import frame_sums

        sums = frame_sums(
            policies,
            evaluators,
            logs,
            sources=sources,
            reward_model=question.reward_model,
            by=question.by,
        )
        return ValuesOfSums(sums, evaluators, Counted.of_frame())
    sources = question.sources() if sources is None else sources
    models = {n: one.facts for n, one in sources.items() if hasattr(one, "facts")}
    shares = None
    if any(one.requires.mixes(question.head) for one in evaluators.values()):
        shares = logger_shares(logs, question.n_jobs)
    about = policies, evaluators, sources, question.n_rounds, is_whole, shares
    stated = Stated(*about, question.by).checked(question.head)
    evaluators = stated.evaluators
    if not question.lazy:
        sums = stated.sums_of(logs, question.sample_weight)
        return ValuesOfSums(sums, evaluators, Counted.of_logs(logs), models)
    stated = replace(stated, resolved=resolved(stated, logs, question.whole))
    sums = partition_sums(stated, logs, question.n_jobs, question.verbose)
    counted = Counted.of_partitions(logs.partitions)
    reading = RowsToRead(stated, logs, question.whole, sums.n)
    return ValuesOfSums(sums, evaluators, counted, models, reading)


class ValuesOfSums:
    """Values of policies by evaluators from sums, and from rounds that files keep."""

    def __init__(self, sums, evaluators, counted, models=(), reading=None):
        self._sums, self.evaluators = sums, dict(evaluators)
        self.counted, self._models = counted, dict(models)
        self._reading = reading  # None: the rounds are gone, or in memory

    def __getstate__(self):
        return {**self.__dict__, "_reading": None}

    @property
    def _log(self):
        """What is known of the rounds themselves, `LogSums`, or None."""
        return self._some_sums().log

    def _by_job(self):
        """Return the values by (policy, evaluator)."""
        sums = self._some_sums()
        joint = sums.by_evaluator
        return {
            (policy, name): self._value(sums, joint[name][policy], policy, name)
            for policy in sums.policies
            for name in self.evaluators
        }

    def logged_value(self, evaluator: str | None = None) -> PolicyValue:
        """Return the mean reward of the rounds, the value of the logger.

        Parameters
        ----------
        evaluator : str, default=None
            Name of the evaluator with whose values it will be compared; `None`: the
            first.

        Returns
        -------
        value : PolicyValue
            Values of policies by this evaluator can be compared with it in pairs.
        """
        sums = self._some_sums()
        name = next(iter(self.evaluators)) if evaluator is None else evaluator
        summary = sums.by_evaluator[name][LOGGER_JOB]
        about = self._about(sums, (name, LOGGER_JOB, None))
        rows = DroppedRows(sums.n, summary.sums.frame, self.counted)
        return logged_value_of_sums(summary, sums.log, rows, **about)

    def _acts_alike(self, policy, other=None):
        """Tell whether two policies gave all logged actions the same probability."""
        sums = self._some_sums()
        log = sums.log
        if log is None or "propensity" not in log.fields or log.actions is None:
            return False
        names = [policy] if other is None else [policy, other]
        for kind in dict.fromkeys(kind for (_, kind), *_ in sums.tallies):
            jobs = [weights_of(kind, name) for name in names]
            joint = sums.sums.joint_of(jobs[0])
            if joint is None or not all(job in joint.places for job in jobs):
                continue
            weights = joint.whole.some([joint.places[job][0] for job in jobs])
            # of one policy its weights less one, of two the difference of theirs
            change = [1.0, -1.0][: len(jobs)]
            origin = [1.0] if other is None else [0.0, 0.0]
            _, second = weights.about(origin, weights.offset)
            second = second.sum(axis=0)
            gap = np.array([*change, 0.0])
            size = float(np.trace(second[:-1, :-1])) + float(second[-1, -1])
            return bool(gap @ second @ gap <= LEAST_GAP * size)
        return False

    def _some_sums(self):
        if self._sums is None or self._sums.counts is None:
            raise ValueError(
                "the summary has no rounds yet. Add a summary of some rounds: "
                "summarize(policies, logs)."
            )
        return self._sums

    def _value(self, sums, summary, policy, name):
        """Return one value, of all rounds or of those with one label."""
        job = name, policy
        evaluator = sums.resolved.get(job, self.evaluators[name])
        by = partial(self._values_by, sums, policy, name) if sums.by else None
        may_read = self._reading is not None and sums is self._sums
        if may_read:
            summary.rows = RowsOfFiles(self._reading, job, summary.sums)
        with beyond_floats():
            estimate, known = known_of_sums(evaluator, summary, sums.log, sums.n)
        value = PolicyValue(
            estimate,
            DroppedRows(sums.n, estimate.frame, self.counted),
            estimator=type(evaluator).__name__,
            leaves_bias_out=evaluator.leaves_bias_out,
            by=by,
            columns=tuple(sums.by),
            **known,
            **self._about(sums, (*job, None)),
        )
        value = value._with_diagnostics(self._models.get(name))
        if may_read and getattr(value._find_reach, "has_rows_of_files", False):
            value = with_rows(value, self._reading, job)
        if sums.log is not None and "n_buckets" in value.diagnostics:
            value = value._with_diagnostics({"n_groups": sums.log.n_groups})
        return value._with_warnings(rounds_warnings_of_sums(sums, policy))

    def _about(self, sums, owner):
        """Return what a value is told of its rounds."""
        return {"joint": sums.sums, "owner": owner, "origin": sums.log}

    def _values_by(self, sums, policy, name, column):
        """Return the values of the groups of rounds of a column, by label."""
        of_all, found = sums.by_evaluator[name][policy], {}
        whole = self._value(sums, of_all, policy, name)._find_reach
        for label in sorted_labels(sums.by[column]):
            part = sums.by[column][label]
            if part.counts is None:  # all its rounds have sample weight zero
                found[label] = self._nothing(part, name, label)
                continue
            summary = part.by_evaluator[name][policy]
            summary.whole = of_all
            value = self._value(part, summary, policy, name)
            value.estimator = f"{value.estimator} of {label!r}"
            # the range of the rewards is that of the whole log
            if isinstance(value._find_reach, LargestDeviation):
                value._find_reach = value._find_reach.within(whole)
            found[label] = value
        mixture = self.evaluators[name].proposal == "mixture"
        if mixture and of_all.facts["logger_proba"]:
            doubt = doubt_of_parts(sums, sums.by[column])
            if doubt is not None:
                warnings.warn(doubt, stacklevel=3)
                found = {k: one._with_warnings([doubt]) for k, one in found.items()}
        return found

    def _nothing(self, part, name, label):
        """Return the value of rounds of which none counts: NaN."""
        estimate = GivenEstimate(nan, nan, 0.0, None, Frame(np.zeros(1, dtype=int)))
        return PolicyValue(
            estimate,
            DroppedRows(part.n, estimate.frame),
            estimator=f"{type(self.evaluators[name]).__name__} of {label!r}",
            warnings=[SupportWarning(NO_GROUP_VALUE, nan)],
        )
