# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""The rounds behind values from files, which are read again where sums say too little.

A part is read at a time. The columns that a log has beside its contexts stay in memory,
and of policies and models a few numbers of every round.
"""

from copy import copy
from dataclasses import dataclass
from functools import cached_property, partial

import numpy as np

from skope_ope.evaluators.core._auto import mass_above
from skope_ope.evaluators.core._design import design_of
from skope_ope.evaluators.core._functions import along_of
from skope_ope.evaluators.core._halves import in_upper_half
from skope_ope.evaluators.core._largest_deviation import (
    WeightedRewards,
    WeightedRounds,
)
from skope_ope.evaluators.core._positive_rounds import PositiveRounds
from skope_ope.evaluators.core._rounds import StoredRounds
from skope_ope.evaluators.core._rows import Rows, labels_of
from skope_ope.evaluators.core._sample_weights import combined_weights, plain_weights
from skope_ope.evaluators.core._sums import sums_of_rounds
from skope_ope.evaluators.core._target import Target
from skope_ope.evaluators.core._weight_bound import largest_weight
from skope_ope.evaluators.parts._part_sums import numbers_of_part
from skope_ope.logs.lazy._lazy_rows import first_rows


@dataclass(eq=False)
class Reading:
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

    def numbers(self, name, policy):
        """Return w, pi, q and v of all rounds, as an evaluator takes them."""
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
            known = self._numbers[key] = self._checked(
                np.concatenate(parts, axis=1).T
            ).T
        return known

    def known_numbers(self, name, policy):
        """Return the same as a list, with None for what there is not."""
        found = self.numbers(name, policy)
        return [None if np.isnan(one).all() else one for one in found]

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


class RowsOfFiles:
    """The rounds of a value, where files give them; see `Rows`."""

    left_out = at_hand = None  # nothing is read until it is asked for
    n_left_out, come_in_blocks, gone = 0, False, False
    _find = None  # what gives the terms of a difference

    def __init__(self, reading, owner, sums, counted=None, weighted=False):
        self.reading, self.counted, self.n_rounds = reading, counted, reading.n_rounds
        self._owner, self._offset, self._strata = owner, sums.offset, sums.frame.strata
        evaluator = reading.stated.evaluator(*owner)
        self._formula = WeightedRewards(evaluator) if weighted else evaluator

    @property
    def logs(self):
        """All rounds without their contexts."""
        return self.reading.logs

    @property
    def row_id(self):
        """The rounds."""
        return self.logs.row_id

    @property
    def numbers(self):
        """Arrays w, pi, q and v of the rounds; None for what there is not."""
        return self.reading.known_numbers(*self._owner)

    @cached_property
    def terms(self):
        """Terms of the rounds, ndarray of shape (k, n_rounds)."""
        return self.terms_less(self._offset) if self._find is None else self._find()

    def of_changes(self, find):
        """Return the rounds of a difference, whose round values a function gives."""
        out = copy(self)
        out.__dict__.pop("terms", None)
        out._find = lambda: find()[None]
        return out

    def terms_less(self, offset):
        """Return the terms of rewards less an offset."""
        offset = 0.0 if self._formula.shift_with is None else offset
        logs = self.logs
        rounds = StoredRounds.of(self.numbers, logs.reward, offset, logs)
        return np.stack(self._formula.terms(rounds))

    def sums_about(self, offset):
        """Return the sums of the terms of rewards less an offset."""
        given = self.terms_less(offset), offset, self.upper, self._formula.shift_with
        return sums_of_rounds(self.design, *given, along=along_of(self._formula))

    @property
    def _terms(self):
        return self.terms

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

    @property
    def upper(self):
        """Which rounds are in the upper half, a mask."""
        return in_upper_half(self.logs)

    def take(self, rows):
        """Return the rounds at some places (an array of ints), in memory."""
        terms = self.terms.take(rows, axis=1)
        return Rows(self.design.take(rows), terms, upper=self.upper[rows])

    def labels(self, name):
        """Return a field or a column of the logs."""
        return self.reading.labels(name)

    def at(self, logs):
        """Return self: what is in memory is not what was summed."""
        return self


class WeightsOfFiles:
    """Plain importance weights of files, as `PlainWeights` of rounds in memory."""

    bound = None

    def __init__(self, rows, ratio, bound):
        self._rows, self.ratio, self._bound = rows, ratio, bound

    @property
    def logs(self):
        """The rounds, without their contexts."""
        return self._rows.logs

    @cached_property
    def positive(self):
        """Those that enter."""
        return PositiveRounds(self.logs, combined_weights(self.logs, None))

    def find(self):
        """Return the weights of all rounds."""
        return self._rows.numbers[0]

    def limit(self, w):
        """Return the largest weight that the policy may have, and where it is from."""
        lowest, logged = self.logs.propensity.min, float(w.max(initial=0.0))
        return largest_weight(logged, self._bound, 0.0, lowest)


def with_rows(value, reading, owner):
    """Give a value from the sums of files the rounds, which are read when asked for."""
    evaluator, find = reading.stated.evaluator(*owner), value._find_reach
    find.evaluator = reading.stated.ready(find.evaluator)
    about = reading, owner
    counted, weighted = value._rows.counted, find.weighted
    value._rows = RowsOfFiles(*about, value._estimate.sums, counted)
    value._bound = evaluator._deviation_bound
    if weighted is not None:
        rows = RowsOfFiles(*about, weighted.sums, counted, weighted=True)
        find.weighted = WeightedRounds(rows, weighted.sums, weighted.job)
    if evaluator._plain_ratio is not None:
        rows = RowsOfFiles(*about, value._estimate.sums, counted, weighted=True)
        value._plain_weights = WeightsOfFiles(rows, evaluator._plain_ratio, find.bound)
    return value


def resolved(stated, lazy, whole):
    """Return evaluators whose "auto" is a number, by name and policy."""
    some = {n: one for n, one in stated.evaluators.items() if stated.is_auto(one)}
    if not some:
        return {}
    n_rounds = stated.n_total
    if n_rounds is None:
        n_rounds = sum(len(logs) for _, logs in lazy.read() if logs is not None)
    reading, found = Reading(stated, lazy, whole, n_rounds), {}
    positive = PositiveRounds(reading.logs, combined_weights(reading.logs, None))
    is_told = lazy.head().logging_proba is not None
    for name, evaluator in some.items():
        for policy in stated.policies:
            numbers = reading.known_numbers(name, policy)
            above = partial(reading.mass_above, policy) if is_told else None
            number = evaluator._auto.choose(evaluator, numbers, positive, above)
            found[name, policy] = evaluator._auto.fixed(evaluator, number)
    return found
