# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Given slates as a policy, and whatever else may stand for a slate policy."""

import numpy as np

from skope_ope.logs._slate_logs import EMPTY
from skope_ope.logs._validation import PROBABILITY_TOLERANCE, as_numbers
from skope_ope.policies._action_probabilities import last_step, unwrap
from skope_ope.policies.slate._plackett_luce_slate_policy import row_values
from skope_ope.policies.slate._slate_base import (
    BaseSlatePolicy,
    check_slates,
    entries,
    independent_moments,
)


class DeterministicSlates(BaseSlatePolicy):
    """Compose given slates: an array for the rounds, a function of the logs, a column.

    Parameters
    ----------
    chosen : ndarray of int of shape (n_rounds, n_slots), callable or str
        The slates.
    """

    def __init__(self, chosen):
        self.chosen = chosen

    def deterministic_slates(self, logs):
        """Return the slates, checked against the candidates of the rounds."""
        self._check_logs(logs)
        slates = check_slates(row_values(self.chosen, logs, "slates"), logs)
        rows, slots = np.nonzero(slates != EMPTY)
        offered = logs.offered
        if offered is not None:
            shown = slates[rows, slots]
            where = (rows, shown) if offered.ndim == 2 else (rows, slots, shown)
            wrong = np.flatnonzero(~offered[where])
            if wrong.size:
                raise ValueError(
                    f"the policy shows candidate {shown[wrong[0]]} at row "
                    f"{rows[wrong[0]]}, slot {slots[wrong[0]]}, which is not offered "
                    f"there ({wrong.size} such entries)."
                )
        return slates

    def _slots_of(self, logs):
        return np.shape(row_values(self.chosen, logs, "slates"))[1]

    def _items(self, logs):
        slates = self.deterministic_slates(logs)
        items = np.zeros((len(logs), logs.max_candidates, slates.shape[1]))
        rows, slots = np.nonzero(slates != EMPTY)
        items[rows, slates[rows, slots], slots] = 1.0
        return items

    def slot_marginals(self, logs):
        """Return one for what is shown and zero for all else."""
        return np.ascontiguousarray(self._items(logs).transpose(0, 2, 1))

    def marginal_proba(self, logs, slates=None):
        """Return whether each slot shows what the slate shows."""
        own = self.deterministic_slates(logs)
        return (own == self._check_slates(slates, logs)).astype(float)

    def prefix_proba(self, logs, slates=None):
        """Return whether all slots up to each show what the slate shows."""
        return np.cumprod(self.marginal_proba(logs, slates), axis=1)

    def sample(self, logs, random_state=None):
        """Return the slates."""
        return self.deterministic_slates(logs)

    def _moments(self, items, sizes):
        return independent_moments(items.transpose(0, 2, 1))

    def _slot_marginals(self, items, sizes):
        return items.transpose(0, 2, 1)

    def _sample(self, items, n_rounds, rng):
        slots = items.transpose(0, 2, 1)
        slates = np.where(slots.any(axis=2), slots.argmax(axis=2), EMPTY)
        return np.broadcast_to(slates, (n_rounds, slates.shape[1]))

    def _prefix_proba(self, items, slates):
        own = self._sample(items, len(slates), None)
        return np.cumprod(own == slates, axis=1).astype(float)


class GivenMarginals(BaseSlatePolicy):
    """Slot marginals of a target, as an array or a column: all that PI needs of it.

    Parameters
    ----------
    marginals : ndarray of shape (n_rounds, n_slots, n_candidates) or str
        Probability of every candidate in every slot.
    """

    def __init__(self, marginals):
        self.marginals = marginals

    def _slots_of(self, logs):
        return self.slot_marginals(logs).shape[1]

    def slot_marginals(self, logs):
        """Return the marginals, checked."""
        self._check_logs(logs)
        given = row_values(self.marginals, logs, "marginals")
        table = as_numbers("slot marginals", given, 3)
        if len(table) != len(logs) or table.shape[2] != logs.max_candidates:
            raise ValueError(
                "slot marginals must have shape (n_rounds, n_slots, n_candidates) with "
                f"{len(logs)} rounds and {logs.max_candidates} candidates, got "
                f"{table.shape}."
            )
        sums = table.sum(axis=2)
        if table.min() < 0 or sums.max() > 1 + 1e-6:
            raise ValueError(
                "slot marginals must be non-negative and sum to at most 1 in every "
                f"slot, got minimum {table.min():.6g}, largest sum {sums.max():.9g}."
            )
        offered = logs.offered
        if offered is not None:
            offered = offered[:, None] if offered.ndim == 2 else offered
            wrong = (table > PROBABILITY_TOLERANCE) & ~offered
            if wrong.any():
                row, slot, candidate = np.argwhere(wrong)[0]
                raise ValueError(
                    f"slot marginals show candidate {candidate} at row {row}, slot "
                    f"{slot}, which is not offered there, with probability "
                    f"{table[row, slot, candidate]:.6g} ({int(wrong.sum())} such "
                    "entries)."
                )
        return table

    def marginal_proba(self, logs, slates=None):
        """Return the marginals of what a slate shows."""
        table = self.slot_marginals(logs)
        return entries(table, self._check_slates(slates, logs), 1 - table.sum(axis=2))

    def prefix_proba(self, logs, slates=None):
        """Refuse: marginals do not say with what probability a slate is shown."""
        raise TypeError(_MARGINALS_ONLY)

    def sample(self, logs, random_state=None):
        """Refuse: marginals are not enough to draw slates."""
        raise TypeError(_MARGINALS_ONLY)

    def _items(self, logs):
        raise TypeError(_MARGINALS_ONLY)


_MARGINALS_ONLY = (
    "the target is known by its slot marginals only, which do not tell the probability "
    "of a slate. Pass a slate policy, or slates of shape (n_rounds, n_slots)."
)


def slate_policy(policy, logs):
    """Return what may stand for a slate policy as one.

    Parameters
    ----------
    policy : slate policy, array-like or str
        A policy, also one that a search has found; integers of shape (n_rounds,
        n_slots), the slates of a deterministic one; floats of shape (n_rounds, n_slots,
        n_candidates), slot marginals; or the name of a column of the logs with either.
        An object with the three public
        methods of a slate policy is returned as it is.
    logs : SlateLogs
        The rounds, to which an array belongs.

    Returns
    -------
    policy : BaseSlatePolicy
    """
    policy = last_step(unwrap(policy))  # steps in front are for the logs
    if isinstance(policy, BaseSlatePolicy):
        return policy
    if isinstance(policy, type):
        raise TypeError(
            f"a slate policy is expected, got the class {policy.__name__}; make an "
            "instance."
        )
    methods = ("slot_marginals", "slate_proba", "sample")
    if all(hasattr(policy, name) for name in methods):
        return policy
    given = row_values(policy, logs, "policy") if isinstance(policy, str) else policy
    array = given
    if isinstance(given, (list, tuple)) or hasattr(given, "__array__"):
        try:
            array = np.asarray(given)
        except ValueError as error:  # ragged
            raise ValueError(
                f"the slates are no rectangular array: {error}. Fill empty slots with "
                "-1."
            ) from error
    if isinstance(array, np.ndarray) and array.ndim in (2, 3):
        if len(array) != len(logs):
            raise ValueError(
                f"the policy has {len(array)} rows, the logs have {len(logs)}: an "
                "array belongs to the rows of its logs. Where folds are taken, add it "
                "with logs.with_columns(name=...) and pass the column's name."
            )
        wrap = DeterministicSlates if array.ndim == 2 else GivenMarginals
        return wrap(policy if isinstance(policy, str) else array)
    raise TypeError(
        "a slate policy is expected, such as RankingPolicy or UniformSlatePolicy, or "
        "integers of shape (n_rounds, n_slots); got "
        f"{type(policy).__name__}{_shape_text(array)}."
    )


def _shape_text(array):
    return f" of shape {array.shape}" if isinstance(array, np.ndarray) else ""
