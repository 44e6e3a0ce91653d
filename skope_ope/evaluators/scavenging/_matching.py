# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""What the arms of a log are: its actions, its loggers, or its whole slates."""

from dataclasses import dataclass

import numpy as np
from scipy import sparse

from skope_ope.evaluators.core._engine import Extract, terms_of
from skope_ope.evaluators.core._part_weights import Wanted
from skope_ope.evaluators.core._rounds import PositiveRounds
from skope_ope.evaluators.core._slate_target import SlateTarget
from skope_ope.evaluators.core._target import (
    Target,
    check_target_on,
    said_of_loggers,
)
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
        (here,) = _cells(stratum, code)
        rounds = _counted(here, omega)
        weight = 1.0 if omega is None else omega
        sought = _counted(here, (wanted > 0) * weight, len(rounds)) > 0
        n_arms = int(code.max()) + 1
    else:
        if target.slates.shape[1] > logs.n_slots:
            raise ValueError(
                f"the policy fills {target.slates.shape[1]} slots, but the logs "
                f"have {logs.n_slots}. Use a policy with the same number of slots."
            )
        code, new = slate_codes(logs, logs.slate, target.slates)
        here, there = _cells(stratum, code, new)
        rounds = _counted(here, omega, int(max(here.max(), there.max())) + 1)
        wanted = (code == new).astype(float)
        missing = float(np.average(rounds[there] == 0, weights=omega))
        sought = _counted(there, omega, len(rounds)) > 0
        n_arms = int(max(code.max(), new.max())) + 1
    fewest = _fewest(rounds, sought, len(logs))
    return MatchedArms(code, n_arms, wanted, missing, fewest, sought[here])


def _fewest(rounds, sought, n_rounds):
    """Return the fewest rounds of a cell that was logged, and is wanted."""
    return int(rounds[sought & (rounds > 0)].min(initial=n_rounds))


def _counted(cell, omega=None, n_cells=0):
    """Return how many rounds of positive weight every cell has."""
    return np.bincount(cell if omega is None else cell[omega > 0], minlength=n_cells)


def _cells(stratum, *codes):
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
    counts = _counted(stratum * n_arms + code, omega, n_strata * n_arms)
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
