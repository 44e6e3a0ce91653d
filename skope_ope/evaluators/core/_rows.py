# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""The rounds behind an estimate: in memory, or gone since they were summed."""

from copy import copy
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from skope_ope.evaluators.core._blocks import blocks
from skope_ope.evaluators.core._drowned import beyond_floats
from skope_ope.evaluators.core._engine import TermStore
from skope_ope.evaluators.core._estimate import estimate_of_rounds
from skope_ope.evaluators.core._functions import along_of
from skope_ope.evaluators.core._halves import in_upper_half
from skope_ope.evaluators.core._rounds import Rounds
from skope_ope.evaluators.core._sums import JointSums

IN_MEMORY = "Evaluate the rounds in memory for that: evaluate(policy, lazy.sample(n))"


@dataclass(eq=False)
class FormulaTerms:
    """Terms of rounds by a formula, formed from their numbers when they are asked."""

    formula: object
    source: object  # the rounds: those of a pass, or of files
    key: object  # what their numbers are found by in the source
    offset: float  # what is subtracted from all rewards
    outcome: object = None  # which reward enters

    def __call__(self):
        """Return the terms of all rounds, ndarray of shape (n_terms, n_rounds)."""
        store = TermStore(len(self.source.logs))
        for block in blocks(store.n_rounds):
            store.put(None, self.of(block.rows))
            store.add_rounds(block)
        return store.terms

    @property
    def numbers(self):
        """Arrays w, pi, q and v of the rounds; None for what there is not."""
        return self.source.numbers(self.key)

    @property
    def shifts(self):
        """Whether a term rises where all rewards rise."""
        return self.formula.shift_with is not None

    def of(self, rows, offset=None):
        """Return the terms of some rounds, of rewards less this or another offset."""
        offset = self.offset if offset is None else offset
        reward = self.source.positive.reward(self.outcome, rows)
        about = reward, offset if self.shifts else 0.0, self.source.logs
        return self.formula.terms(
            Rounds.of(self.source.numbers(self.key, rows), *about)
        )

    def sums(self, offset, design, upper):
        """Return the sums of the terms of rewards less another offset."""
        joint, formula = JointSums(design, offset), self.formula
        for block in blocks(design.n_rounds):
            terms = self.of(block.rows, offset)
            joint.put(None, terms, formula.shift_with, along_of(formula))
            some = np.flatnonzero(upper[block.rows])
            joint.add(design.block(block.low, block.high, some))
        return joint.finished().of(None)


def run_together(sources, take, offset):
    """Hand on the terms of several formulas, block by block."""
    for block in blocks(len(sources[0].source.logs)):
        with beyond_floats():
            terms = [one.of(block.rows, offset) for one in sources]
        take(block.low, block.high, terms)


class Rows:
    """Terms and design of the rounds of an estimate."""

    dropped = False  # whether they were dropped after they had been summed
    of_sums = False  # whether merged sums outlive them
    _row_id = _upper = None

    def __init__(
        self, design, terms, row_id=None, logs=None, left_out=None, upper=None
    ):
        self.design, self.logs, self._terms = design, logs, terms
        self._row_id, self.left_out, self._upper = row_id, left_out, upper

    @property
    def at_hand(self):
        """The logs, where nothing is to be read for them."""
        return self.logs

    @property
    def row_id(self):
        """The rounds; None where they are not known."""
        return self._row_id if self.logs is None else self.logs.row_id

    def same_rounds(self, other):
        """Whether both are known to be about the same rounds."""
        if self.logs is not None and self.logs is other.logs:
            return True
        one, two = self.row_id, other.row_id
        return one is not None and two is not None and one == two

    @property
    def n_rounds(self):
        """Number of rounds."""
        return self.design.n_rounds

    @cached_property
    def terms(self):
        """Terms of the rounds, ndarray of shape (k, n_rounds)."""
        return self._terms() if callable(self._terms) else self._terms

    @property
    def come_in_blocks(self):
        """Whether terms of some rounds can be had, and those of all are not formed."""
        return isinstance(self._terms, FormulaTerms) and "terms" not in vars(self)

    @property
    def numbers(self):
        """Arrays w, pi, q and v of the rounds; None for what there is not."""
        return self._terms.numbers

    @property
    def source(self):
        """Where the numbers of the rounds come from."""
        return self._terms.source

    def check_known(self, name):
        """Raise where what is asked by a name needs rounds that are gone."""

    def of_changes(self, find):
        """Return the rounds of a difference, whose round values a function gives."""
        about = self._row_id, self.logs, self.left_out
        return Rows(self.design, lambda: find()[None], *about)

    def n_common(self, other):
        """Return the number of rounds that count here and in others."""
        weights = [self.design.omega, other.design.omega]
        weights = [omega for omega in weights if omega is not None]
        if not weights:
            return self.n_rounds
        return int(np.count_nonzero(np.minimum.reduce(weights)))

    def sums_about(self, offset):
        """Return the sums of the terms of rewards less an offset."""
        return self._terms.sums(offset, self.design, self.upper)

    def terms_of(self, rows):
        """Return the terms of some rounds, where they `come_in_blocks`."""
        return self._terms.of(rows)

    @property
    def counted(self):
        """Rounds of positive sample weight, ndarray of bool of shape (n_rounds,)."""
        omega = self.design.omega
        if omega is None:
            return np.ones(self.n_rounds, dtype=bool)
        return omega > 0 if self.left_out is None else (omega > 0) | self.left_out

    @property
    def n_left_out(self):
        """Number of the rounds that the estimate is not about."""
        return 0 if self.left_out is None else int(np.count_nonzero(self.left_out))

    def at(self, logs):
        """Return the same with the logs, if they were left out."""
        if self.logs is not None:
            return self
        out = copy(self)
        out.logs = logs
        return out

    @property
    def upper(self):
        """Which rounds are in the upper half, a mask; None: not known."""
        if self._upper is None and self.logs is not None:
            return in_upper_half(self.logs)
        return self._upper() if callable(self._upper) else self._upper

    def take(self, rows):
        """Return the rounds at some places (an array of ints)."""
        left_out, upper = (
            mask if mask is None else mask[rows] for mask in (self.left_out, self.upper)
        )
        terms = self.terms.take(rows, axis=1)
        return Rows(self.design.take(rows), terms, left_out=left_out, upper=upper)

    def without(self, left_out):
        """Return the rounds without some of them (a mask), which then weigh nothing."""
        design, terms = self.design.without(left_out), self._terms
        return Rows(design, terms, self._row_id, self.logs, left_out)

    def estimate(self, like, halves=False):
        """Return the estimate of these rounds that is formed like another."""
        # `halves`: whether its sums shall be in two halves, even if those are not
        about = like.combine, like.pooling, like.offset
        if like.sums is not None:
            halves = halves or like.sums.upper is not None
            upper = self.upper if halves else None
            about = *about, upper, like.sums.moves
        return estimate_of_rounds(self.design, self.terms, *about)

    def labels(self, name):
        """Return a field or a column of the logs."""
        logs = self.logs
        if logs is None:
            raise ValueError(
                f"no field or column {name!r}: this value does not hold its logs. "
                "Pickled values and those of a part of the rounds do not keep them. "
                "Pass the labels of the rounds as an array."
            )
        return labels_of(logs, name)

    def __getstate__(self):
        # A function holds the logs and the policy, which stay behind: call it now.
        terms = np.asarray(self.terms)
        return {
            "design": self.design,
            "_terms": terms,
            "terms": terms,
            "_row_id": self.row_id,
            "logs": None,
            "left_out": self.left_out,
            "_upper": self.upper,
        }


class DroppedRows:
    """Stands where a `PolicyValue` has its rounds, and knows that there are none."""

    logs = at_hand = row_id = left_out = _row_id = _terms = None
    n_left_out = 0
    come_in_blocks, dropped, of_sums = False, True, True

    def __init__(self, n_rounds, frame, counted=None):
        self.n_rounds, self.design, self.counted = n_rounds, frame, counted

    def same_rounds(self, other):
        """Whether both are known to be about the same rounds."""
        mine, others = self.counted, getattr(other, "counted", None)
        return mine is not None and others is not None and mine == others

    def at(self, logs):
        """Return self: what is in memory is not what was summed."""
        return self

    def check_known(self, name):
        """Raise: the rounds are gone."""
        raise ValueError(
            f"{name} needs the weight and the reward of every round, and a value from "
            f"merged sums has none: its rounds were summed and dropped. {IN_MEMORY}; "
            "or ask for by=... or groups when you summarize."
        )

    @property
    def terms(self):
        """Raise: the rounds are gone."""
        self.check_known("what is asked")


def labels_of(logs, name):
    """Return a field or a column of logs, which they must have."""
    if name in logs.columns:
        return logs.columns[name]
    known = [
        field
        for field in logs._row_fields
        if getattr(logs, field) is not None and not field.startswith("_")
    ]
    if name not in known:
        raise ValueError(
            f"the logs of this value have no field or column {name!r}. Pass the "
            "labels of the rounds as an array, or carry them with "
            "logs.with_columns. The logs have "
            f"{', '.join(map(repr, [*known, *logs.columns]))}."
        )
    return getattr(logs, name)
