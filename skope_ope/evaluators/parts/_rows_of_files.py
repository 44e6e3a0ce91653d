# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""The rounds behind values from files, which are read again where sums say too little.

A part is read at a time. The columns that a log has beside its contexts stay in memory,
and of policies and models a few numbers of every round.
"""

from dataclasses import dataclass
from functools import cached_property, partial

import numpy as np

from skope_ope.evaluators.core._auto import auto_parameters, mass_above
from skope_ope.evaluators.core._design import design_of
from skope_ope.evaluators.core._largest_deviation import (
    WeightedRewardTerms,
)
from skope_ope.evaluators.core._plain_weights import plain_weights_of
from skope_ope.evaluators.core._rounds import (
    PositiveRounds,
    combined_weights,
    plain_weights,
)
from skope_ope.evaluators.core._rows import FormulaTerms, Rows, labels_of
from skope_ope.evaluators.core._target import Target
from skope_ope.evaluators.parts._part_sums import numbers_of_part
from skope_ope.logs.lazy._lazy_logs import first_rows


@dataclass(eq=False)
class RowsToRead:
    """Files, and what was asked of their rounds."""

    stated: object  # `Stated`
    lazy: object  # the logs, with what policies and models look at
    whole: object  # the same with all columns
    n_rounds: int  # that were summed

    @cached_property
    def logs(self):
        """All rounds without their contexts and columns."""
        return self._narrow([])

    def labels(self, name):
        """Return a field or a column of the logs."""
        columns = [name] if name in self.whole.columns else []
        return labels_of(self._narrow(columns) if columns else self.logs, name)

    def _narrow(self, columns):
        narrow = self.whole._needing(context=False, columns=columns)
        return self._checked(first_rows(narrow, self.n_rounds + 1))

    @cached_property
    def positive(self):
        """The rounds that enter."""
        return PositiveRounds(self.logs, combined_weights(self.logs, None))

    def numbers(self, owner, rows=slice(None)):
        """Return w, pi, q and v of some rounds, None for what there is not."""
        name, policy = owner
        evaluator = self.stated.evaluators[name]
        kind = policy, evaluator.proposal
        source = self.stated.sources.get(name, evaluator)
        key = *kind, id(source) if evaluator.requires.model else None
        known = self._numbers.get(key)
        if known is None and not evaluator.requires.model:  # one with a model has them
            known = next((x for k, x in self._numbers.items() if k[:2] == kind), None)
        if known is None:
            parts = [
                numbers_of_part(self.stated, logs, name, policy)
                for _, logs in self.lazy.read()
                if logs is not None and len(logs)
            ]
            table = self._checked(np.concatenate(parts, axis=1).T).T
            known = [None if np.isnan(one).all() else one for one in table]
            self._numbers[key] = known
        return [None if one is None else one[rows] for one in known]

    def logged_proba(self, owner, rows):
        """Return the policy's probabilities of logged actions."""
        return self.numbers(owner, rows)[1]

    @cached_property
    def _numbers(self):
        return {}

    def mass_above(self, policy, thresholds):
        """Return the policy's mass of what it weighs above each threshold."""
        mass, total, what = np.zeros(len(thresholds)), 0.0, self.stated.policies[policy]
        for _, logs in self.lazy.read():
            if logs is not None and len(logs):
                omega = plain_weights(logs, None, True)
                mass += mass_above(Target(what, logs), logs, omega, thresholds)
                total += len(logs) if omega is None else omega.sum()
        return mass * self.n_rounds / total

    def _checked(self, found):
        if len(found) != self.n_rounds:
            raise RuntimeError(
                f"the files had {self.n_rounds:,} rounds, and now {len(found):,}: they "
                "changed since they were summed. Ask for the values again."
            )
        return found


class RowsOfFiles(Rows):
    """The rounds of a value, where files give them; nothing is read until asked for."""

    left_out = at_hand = counted = None
    of_sums = True  # and so a copy leaves the rounds behind

    def __init__(self, reading, owner, sums, counted=None, weighted=False):
        self.reading, self.counted, self._strata = reading, counted, sums.frame.strata
        formula = reading.stated.evaluator(*owner)
        formula = WeightedRewardTerms(formula.proposal) if weighted else formula
        self._terms = FormulaTerms(formula, reading, owner, sums.offset)

    @property
    def n_rounds(self):
        """Number of rounds."""
        return self.reading.n_rounds

    @property
    def logs(self):
        """All rounds without their contexts."""
        return self.reading.logs

    def of_changes(self, find):
        """Return the rounds of a difference, whose round values a function gives."""
        out = RowsOfFiles.__new__(RowsOfFiles)  # a copy leaves the logs behind
        out.__dict__.update(self.__dict__)
        out.__dict__.pop("terms", None)
        out._terms = lambda: find()[None]
        return out

    @cached_property
    def design(self):
        """Weight, stratum and cluster of every round; sums may have hashed clusters."""
        logs, strata = self.logs, self._strata
        design = design_of(logs, plain_weights(logs, None, True))
        if strata == [None]:
            return design
        place = {label: k for k, label in enumerate(strata)}
        places = np.array([place.get(label, 0) for label in logs.loggers.tolist()])
        return design.with_strata(places[logs.logger_index], strata)

    def labels(self, name):
        """Return a field or a column of the logs."""
        return self.reading.labels(name)

    def at(self, logs):
        """Return self: what is in memory is not what was summed."""
        return self


def with_rows(value, reading, owner):
    """Give a value from the sums of files the rounds, which are read when asked for."""
    evaluator, find = reading.stated.evaluator(*owner), value._find_reach
    about = reading, owner
    counted, weighted = value._rows.counted, find.weighted
    value._rows = RowsOfFiles(*about, value._estimate.sums, counted)
    if weighted is not None:
        rows = RowsOfFiles(*about, weighted.sums, counted, weighted=True)
        find.weighted = weighted.on(rows)
    rows = RowsOfFiles(*about, value._estimate.sums, counted, weighted=True)
    value._find_plain_weights = partial(plain_weights_of, evaluator, rows, find.bound)
    return value


def resolved(stated, lazy, whole):
    """Return evaluators whose "auto" is a number, by name and policy."""
    some = {n: one for n, one in stated.evaluators.items() if auto_parameters(one)}
    if not some or not stated.is_whole:
        return {}
    n_rounds = stated.n_total
    if n_rounds is None:
        n_rounds = sum(len(logs) for _, logs in lazy.read() if logs is not None)
    reading = RowsToRead(stated, lazy, whole, n_rounds)
    return {
        (name, policy): evaluator.resolved(
            stated.facts, RowsOfPolicy(reading, name, policy)
        )
        for name, evaluator in some.items()
        for policy in stated.policies
    }


@dataclass(frozen=True)
class RowsOfPolicy:
    """The rounds of a policy as a parameter that is "auto" is chosen from them."""

    reading: RowsToRead
    name: str  # of the evaluator
    policy: str

    @property
    def positive(self):
        """The rounds that enter."""
        return self.reading.positive

    @property
    def numbers(self):
        """Arrays w, pi, q and v of all rounds; None for what there is not."""
        return self.reading.numbers((self.name, self.policy))

    @property
    def mass_above(self):
        """Function that gives the policy's mass above thresholds; None: not known."""
        if self.reading.lazy.head().logging_proba is None:
            return None
        return partial(self.reading.mass_above, self.policy)
