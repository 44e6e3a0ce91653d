# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Rounds in memory as samples of arms: actions, loggers, or whole slates."""

from dataclasses import dataclass, replace

import numpy as np
from scipy import sparse

from skope_ope.evaluators.core._arms import Arms
from skope_ope.evaluators.core._design import Design
from skope_ope.evaluators.core._engine import Extract, offset_of, terms_of
from skope_ope.evaluators.core._halves import rounds_of_halves
from skope_ope.evaluators.core._largest_deviation import Extremes
from skope_ope.evaluators.core._part_weights import Wanted
from skope_ope.evaluators.core._policy_value import PolicyValue
from skope_ope.evaluators.core._rounds import PositiveRounds
from skope_ope.evaluators.core._rows import Rows
from skope_ope.evaluators.core._slate_target import SlateTarget
from skope_ope.evaluators.core._sums import sums_of_rounds
from skope_ope.evaluators.core._target import Target, check_target_on, said_of_loggers
from skope_ope.evaluators.scavenging._pages import item_codes, item_labels
from skope_ope.logs import SlateLogs
from skope_ope.logs._frames import import_narwhals
from skope_ope.logs._validation import EMPTY, is_frame

_MISSING = object()
_WANTED = Extract(lambda rounds: (rounds.pi,))


@dataclass
class MatchedArms:
    """The arms of a log, and how a policy uses them."""

    code: np.ndarray  # the arm of every round
    n_arms: int  # number of arms
    wanted: np.ndarray  # probability with which the policy wants what was logged
    # (Weighted) mean probability with which it wants what was never logged; NaN for
    # random slates, of which only the logged ones' probabilities are known
    missing_mass: float
    # How many rounds of positive weight logged an arm in a stratum, the fewest of those
    # that the policy wants there
    fewest_rounds: int
    # Whether the policy wants the arm of the round anywhere in its stratum, in this
    # round or in another one; None: it wants every arm
    sought: np.ndarray | None
    # Which arms it wants anywhere, logged or not; None for slates
    plays: np.ndarray | None = None


def match_arms(evaluator, policy, logs, stratum, omega=None):
    """Return the `MatchedArms` of a policy over the actions of the logs."""
    target = target_of_arms(evaluator, policy, logs)
    code, positive = logs.action_index, PositiveRounds(logs, omega)
    counts = counts_by_stratum(code, logs.n_actions, stratum, omega)
    seen = Wanted(target, logs.actions, stratum)
    about = logs, target, None, positive, [seen]
    [wanted] = terms_of(_WANTED, *about, tables=True)
    mass, sought = seen.tally.wanted, seen.tally.wanted > 0
    of_rounds = None
    if not sought.all():
        of_rounds = sought[0 if stratum is None else stratum, code]
    return MatchedArms(
        code,
        logs.n_actions,
        wanted,
        float(mass[counts == 0].sum()) / float(positive.design.mass.sum()),
        _fewest(counts, sought, len(logs)),
        of_rounds,
        sought.any(axis=0),
    )


def target_of_arms(evaluator, policy, logs):
    """Return the `Target` of a policy over the actions of `logs`, or over loggers."""
    # Where these logs are those of `by_logger`, errors speak of loggers.
    try:
        target = Target(policy, logs)
    except ValueError as error:
        if evaluator.match != "logger":
            raise
        raise ValueError(said_of_loggers(str(error), logs)) from error
    check_target_on(evaluator, target, logs)
    return target


def match_slates(policy, logs, stratum=None, omega=None):
    """Return the `MatchedArms` of a policy over the whole slates of the logs."""
    target = SlateTarget(policy, logs, same_width=False)
    if target.slates is None:
        (code,) = slate_codes(logs, logs.slate)
        wanted, missing = target.slate_proba(target.logs), float("nan")
        (here,) = _cells_of(stratum, code)
        rounds = _count_cells(here, omega)
        weight = 1.0 if omega is None else omega
        sought = _count_cells(here, (wanted > 0) * weight, len(rounds)) > 0
        n_arms = int(code.max()) + 1
    else:
        if target.slates.shape[1] > logs.n_slots:
            raise ValueError(
                f"the policy fills {target.slates.shape[1]} slots, but the logs "
                f"have {logs.n_slots}. Use a policy with the same number of slots."
            )
        code, new = slate_codes(logs, logs.slate, target.slates)
        here, there = _cells_of(stratum, code, new)
        rounds = _count_cells(here, omega, int(max(here.max(), there.max())) + 1)
        wanted = (code == new).astype(float)
        missing = float(np.average(rounds[there] == 0, weights=omega))
        sought = _count_cells(there, omega, len(rounds)) > 0
        n_arms = int(max(code.max(), new.max())) + 1
    fewest = _fewest(rounds, sought, len(logs))
    return MatchedArms(code, n_arms, wanted, missing, fewest, sought[here])


def _fewest(rounds, sought, n_rounds):
    """Return the fewest rounds of a cell that was logged, and is wanted."""
    return int(rounds[sought & (rounds > 0)].min(initial=n_rounds))


def _count_cells(cell, omega=None, n_cells=0):
    """Return how many rounds of positive weight every cell has."""
    return np.bincount(cell if omega is None else cell[omega > 0], minlength=n_cells)


def _cells_of(stratum, *codes):
    """Return numbers of pairs of a stratum and an arm: only of those that occur."""
    if stratum is None:
        return codes
    keys = np.stack(codes)
    keys = stratum * (int(keys.max()) + 1) + keys
    cell = np.unique(keys, return_inverse=True)[1]
    return tuple(cell.reshape(keys.shape))


def slate_codes(logs, *slates):
    """Return numbers of slates: one for the same items in the same slots."""
    labels = item_labels(logs)
    n_items = logs.max_candidates if labels is None else len(labels)
    keys = np.zeros((len(slates), *logs.slate.shape), dtype=np.int64)  # 0: empty
    for key, shown in zip(keys, slates, strict=True):
        code = item_codes(logs, shown, labels) + 1
        key[:, : shown.shape[1]] = np.where(shown == EMPTY, 0, code)
    keys = keys.reshape(-1, logs.n_slots)
    if float(n_items + 2) ** logs.n_slots < 2**62:  # one number sorts faster
        keys = keys @ (n_items + 2) ** np.arange(logs.n_slots)
    code = np.unique(keys, axis=0, return_inverse=True)[1].ravel()
    return code.reshape(len(slates), len(logs))


def counts_by_stratum(code, n_arms, stratum=None, omega=None):
    """How many rounds of positive weight logged an arm, shape (n_strata, n_arms)."""
    if stratum is None:
        stratum = np.zeros(len(code), dtype=np.intp)
    n_strata = int(stratum.max()) + 1
    counts = _count_cells(stratum * n_arms + code, omega, n_strata * n_arms)
    return counts.reshape(n_strata, n_arms)


def strata_of(logs, name):
    """Return the codes of the strata that a field or a column names, or None."""
    if name is None:
        return None
    values = logs.columns.get(name)
    if values is None and name in logs._row_fields:
        values = getattr(logs, name)
    if values is None:
        raise ValueError(
            f"strata={name!r} is neither a field nor a column of the logs. They "
            f"have the columns {sorted(logs.columns)}. Add it with "
            "logs.with_columns."
        )
    code = np.zeros(len(logs), dtype=np.intp)
    for column in _columns_of(values):
        number = _numbers_of(column)
        pairs = code * (int(number.max(initial=0)) + 1) + number
        code = np.unique(pairs, return_inverse=True)[1].ravel()
    return code


def _columns_of(values):
    """Yield the columns of an array of any dimension, a frame or a sparse matrix."""
    if is_frame(values):
        frame = import_narwhals().from_native(values, eager_only=True)
        for name in frame.columns:
            yield frame.get_column(name).to_numpy()
    elif sparse.issparse(values):
        values = values.tocsc()
        for j in range(values.shape[1]):
            yield values[:, [j]].toarray().ravel()
    else:
        values = np.asarray(values)
        yield from values.reshape(len(values), -1).T


def _numbers_of(column):
    """Return a number for every distinct value; missing ones are of one kind."""
    if column.dtype.kind != "O":
        return np.unique(column, return_inverse=True)[1].ravel()
    # None, NaN and NaT are of no order, and the last two not equal to themselves
    seen = {}
    return np.fromiter(
        (
            seen.setdefault(_MISSING if v is None or v != v else v, len(seen))
            for v in column.tolist()
        ),
        np.intp,
        len(column),
    )


def check_offers(logs, stratum):
    """Raise where the offered actions vary within a stratum."""
    if isinstance(logs, SlateLogs) or logs.available is None:
        return
    first = np.zeros(len(logs), dtype=np.intp)
    if stratum is not None:
        first = np.unique(stratum, return_index=True)[1][stratum]
    # in blocks: nothing of the size of all offers is made
    for start in range(0, len(logs), 1 << 16):
        rows = slice(start, start + (1 << 16))
        varies = (logs.available[rows] != logs.available[first[rows]]).any(axis=1)
        if varies.any():
            row = start + int(np.flatnonzero(varies)[0])
            where = "" if stratum is None else " of one stratum"
            raise ValueError(
                f"the offered actions differ between rows {first[row]} and "
                f"{row}{where}. This biases scavenging: an action that is offered "
                "more often is logged more often. Pass strata='available', or the "
                "name of a column within which the offered actions are the same."
            )


@dataclass
class ArmRounds:
    """Rounds as samples of arms."""

    evaluator: object
    code: np.ndarray  # the arm of every round
    n_arms: int  # number of arms
    wanted: np.ndarray  # probability with which the policy wants what was logged
    reward: np.ndarray  # rewards
    design: Design  # sample weight and cluster of every round
    stratum: np.ndarray | None = None  # rounds in which arms were chosen by one rule
    # Probability of the logged action under every arm, where arms are policies
    under: np.ndarray | None = None
    # Whether the policy wants the arm of the round anywhere in its stratum; None: it
    # wants every arm
    sought: np.ndarray | None = None

    def take(self, rows):
        """Return the arms of some rounds only (an array of ints)."""
        names = ("code", "wanted", "reward", "stratum", "under", "sought")
        fields = {name: getattr(self, name) for name in names}
        taken = {k: v[rows] for k, v in fields.items() if v is not None}
        return replace(self, design=self.design.take(rows), **taken)

    def sums(self, **known):
        """Return the `Arms` of these rounds, and `known` facts of them."""
        cell, numbers = self._cells()
        design = self.design.with_strata(cell, numbers.tolist())
        moves, w = self.evaluator.shift_with, self._weights()
        # the value follows a shift of the rewards only where it is a ratio
        offset = 0.0 if moves is None else offset_of(self.reward)
        terms = np.stack([w * (self.reward - offset), w])
        sought = None
        if self.sought is not None:
            counted = self._counted(self.sought.astype(float))
            sought = np.bincount(cell, counted, len(numbers)) > 0
        return Arms(
            self.evaluator,
            sums_of_rounds(design, terms, offset, moves=moves),
            self.under is not None,
            sought,
            numbers // self.n_arms,
            self.n_arms,
            is_wanted=bool(self._counted(self.wanted).any()),
            rounds=(terms, design),
            **known,
        )

    def extremes(self, upper):
        """Return the largest weight of every cell, and the rounds of either half."""
        cell, numbers = self._cells()
        largest = np.zeros(len(numbers))
        np.maximum.at(largest, cell, (self._counted(1.0) > 0) * self._weights())
        out = Extremes(dict(zip(numbers.tolist(), largest.tolist(), strict=True)))
        out.rounds = rounds_of_halves(self.reward, np.flatnonzero(upper))
        return out

    def _cells(self):
        """Return the cell of every round, and the number of every cell."""
        if self.stratum is None:
            return self.code, np.arange(self.n_arms)
        cell = self.stratum * self.n_arms + self.code
        n_cells = (int(self.stratum.max()) + 1) * self.n_arms
        if n_cells <= 2 * len(cell) + 1000:
            return cell, np.arange(n_cells)
        kept, cell = np.unique(cell, return_inverse=True)
        return cell.ravel(), kept

    def _weights(self):
        """Return the weight of every round, ndarray of shape (n_rounds,)."""
        if self.under is None:
            return self.wanted
        p = self._mixture()
        # what nobody wants or does has no weight: a round of weight zero
        return np.divide(self.wanted, p, out=np.zeros_like(p), where=p > 0)

    def _mixture(self):
        """Return the probability of every logged action under the mixture."""
        stratum = self.stratum
        if stratum is None:
            stratum = np.zeros(len(self.code), dtype=np.intp)
        counts = np.zeros((int(stratum.max()) + 1, self.n_arms))
        np.add.at(counts, (stratum, self.code), self._counted(1.0))
        mixture = counts / np.maximum(counts.sum(axis=1, keepdims=True), 1e-300)
        if len(mixture) == 1:
            return self.under @ mixture[0]
        return np.einsum("ij,ij->i", self.under, mixture[stratum])

    def _counted(self, values):
        """Return values times the sample weights of the rounds."""
        omega = self.design.omega
        return values if omega is None else values * omega


class ScavengedValue(PolicyValue):
    """Value of a policy from arms, whose counts are those of the rounds it is of."""

    def __init__(self, estimate, rows, *, arms, bound_facts, **known):
        super().__init__(estimate, rows, **known)
        self.arms, self.bound_facts = arms, bound_facts
        self.arm_counts = np.bincount(arms.code, minlength=arms.n_arms)

    def _group_estimate(self, places):
        # the counts of the arms, and the mixture of the loggers, are the group's own
        return _estimate_of_arms(self.arms.take(places))

    def _estimate_without(self, left_out):
        arms, rows = self.arms, self._rows
        arms = replace(arms, design=arms.design.without(left_out))
        return _estimate_of_arms(arms, rows.row_id, rows.logs, left_out)

    def _overlap_without(self, design):
        found = replace(self.arms, design=design).sums()
        return found.effective_sample_size, {"mean_weight": found.mean_weight}


def _estimate_of_arms(arms, *about):
    """Return the estimate from some rounds, and their `Rows`."""
    found = arms.sums()
    terms, design = found.rounds
    return found.estimate, Rows(design, terms, *about)
