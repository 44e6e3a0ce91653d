# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Objects that may stand for a slate policy."""

import re

import numpy as np

from skope_ope.logs._row_container import RowContainer, check_row_labels
from skope_ope.logs._validation import EMPTY, PROBA_TOLERANCE, as_numbers, is_frame
from skope_ope.logs.lazy._lazy_logs import refuse_lazy
from skope_ope.policies._action_probabilities import last_step, unwrap
from skope_ope.policies.slate._slate_base import (
    BaseSlatePolicy,
    IndependentSlots,
    check_slates,
    entries,
    row_values,
)

# each of them makes an object a slate policy; what an evaluator needs, it asks for
SLATE_METHODS = ("slot_marginals", "slate_proba", "shown_marginals")


def is_slate_policy(policy):
    """Tell whether an object, no class, is a policy over slates."""
    return isinstance(policy, BaseSlatePolicy) or (
        not isinstance(policy, type)
        and any(hasattr(policy, name) for name in SLATE_METHODS)
    )


def slate_policy(policy, logs):
    """Return what may stand for a slate policy as one."""
    refuse_lazy(logs)
    policy = last_step(unwrap(policy))  # steps in front are for the logs
    if isinstance(policy, type):
        raise TypeError(
            f"a slate policy is expected, got the class {policy.__name__}; make an "
            "instance."
        )
    if is_slate_policy(policy):
        return policy
    array = policy
    if isinstance(policy, str):
        instead = (
            ", or pass a policy, which is an object such as UniformSlatePolicy(n_slots)"
        )
        array = row_values(policy, logs, "policy", instead)
    if isinstance(array, (list, tuple)) or (
        hasattr(array, "__array__") and not isinstance(array, RowContainer)
    ):
        check_row_labels("policy", array, logs)
        array = as_slate_array(array)
    if isinstance(array, np.ndarray) and array.ndim in (2, 3):
        if len(array) != len(logs):
            raise ValueError(
                f"the policy has {len(array)} rows, the logs have {len(logs)}: an "
                "array belongs to the rows of its logs. Where folds are taken, add it "
                "with logs.with_columns(name=...) and pass the column's name."
            )
        wrap = DeterministicSlates if array.ndim == 2 else GivenMarginals
        return wrap(policy if isinstance(policy, str) else array)
    found = f" of shape {array.shape}" if isinstance(array, np.ndarray) else ""
    raise TypeError(
        "a slate policy is expected, such as RankingPolicy or UniformSlatePolicy, or "
        f"integers of shape (n_rounds, n_slots); got {type(policy).__name__}{found}."
    )


def as_slate_array(given):
    """Return an array-like that stands for a policy as an array."""
    # A frame has a column for every slot. Where their names end in numbers, such as
    # `slot_1` and `slot_2`, the numbers must rise.
    if is_frame(given):
        names = list(getattr(given, "column_names", None) or given.columns)
        found = [re.search(r"\d+$", str(name)) for name in names]
        numbers = [int(digits.group()) for digits in found if digits]
        if len(numbers) == len(names) and numbers != sorted(numbers):
            raise ValueError(
                f"the columns of the slates are {names}, and their order is that of "
                "the slots: bring them into the order of their numbers."
            )
    try:
        return np.asarray(given)
    except ValueError as error:  # ragged
        raise ValueError(
            f"the slates are no rectangular array: {error}. Fill empty slots with -1."
        ) from error


# -- given slot marginals as a policy --------------------------------------------------


class GivenMarginals(BaseSlatePolicy):
    """Slot marginals of a target, as an array or a column: all that PI needs of it."""

    def __init__(self, marginals):
        self.marginals = marginals

    def _slots_of(self, logs):
        return self._round_marginals(logs).shape[1]

    def _round_marginals(self, logs):
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
                "slot marginals must be 0 or more and sum to at most 1 in every "
                f"slot, got minimum {table.min():.6g}, largest sum "
                f"{sums.max():.9g}."
            )
        offered = logs.offered
        if offered is not None:
            offered = offered[:, None] if offered.ndim == 2 else offered
            wrong = (table > PROBA_TOLERANCE) & ~offered
            if wrong.any():
                row, slot, candidate = np.argwhere(wrong)[0]
                raise ValueError(
                    f"slot marginals show candidate {candidate} at row {row}, slot "
                    f"{slot}, which is not offered there, with probability "
                    f"{table[row, slot, candidate]:.6g} ({int(wrong.sum())} such "
                    "entries)."
                )
        return table

    def _round_slots(self, logs, slates):
        table = self._round_marginals(logs)
        return entries(table, slates, 1 - table.sum(axis=2))

    def _unknown(self, *args):
        raise TypeError(
            "the policy is given by its slot marginals (the probability of each "
            "candidate in each slot), which do not determine the probability of a "
            "slate. Pass a slate policy, or slates of shape (n_rounds, n_slots)."
        )

    _round_prefixes = _round_draws = _items = _unknown


# -- given slates as a policy ----------------------------------------------------------


class DeterministicSlates(IndependentSlots):
    """Given slates: an array for the rounds, a function of the logs, a column."""

    def __init__(self, chosen):
        self.chosen = chosen

    def deterministic_slates(self, logs):
        """Return the slates, checked against the candidates of the rounds."""
        self._check_logs(logs)
        slates = check_slates(row_values(self.chosen, logs, "slates"), logs)
        offered = logs.offered
        if offered is not None:
            rows, slots = np.nonzero(slates != EMPTY)
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

    def _round_marginals(self, logs):
        return np.ascontiguousarray(self._items(logs).transpose(0, 2, 1))

    def _round_slots(self, logs, slates):
        return (self.deterministic_slates(logs) == slates).astype(float)

    def _round_draws(self, logs, rng):
        return self.deterministic_slates(logs)

    def _sample(self, items, n_rounds, rng):
        slots = items.transpose(0, 2, 1)
        slates = np.where(slots.any(axis=2), slots.argmax(axis=2), EMPTY)
        return np.broadcast_to(slates, (n_rounds, slates.shape[1]))

    def _prefix_proba(self, items, slates):
        own = self._sample(items, len(slates), None)
        return np.cumprod(own == slates, axis=1).astype(float)
