# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""The slate policy under evaluation, on the rounds of some logs."""

import numpy as np

from skope_ope.logs._row_container import RowContainer, check_row_labels, own
from skope_ope.logs._validation import PROBA_TOLERANCE, as_numbers
from skope_ope.policies.slate._slate_base import entries
from skope_ope.policies.slate._slate_policy import as_slate_array, slate_policy

COLUMN = "policy under evaluation"  # carries an array along where rounds are taken


class SlateTarget:
    """Probabilities of a policy over slates, as evaluators need them."""

    def __init__(self, policy, logs, *, same_width=True, may_move=False):
        self.policy = self.slates = self.logged = None
        self.is_array, self.same_width = False, same_width
        by_name = isinstance(policy, str)
        given = logs.columns.get(policy) if by_name else policy
        if _is_array_like(given):
            if not by_name:
                check_row_labels("policy", given, logs)
            array = as_slate_array(given)
            if array.ndim == 2 and array.dtype.kind in "fb":
                if not by_name:  # part of a column may be anything
                    _refuse_ambiguous(array)
                self.logs, self.logged = logs, _check_logged(array, logs)
                return
            policy = policy if by_name else array
            if not by_name and array.ndim in (2, 3) and len(array) == len(logs):
                logs, policy = logs.with_columns(**{COLUMN: array}), COLUMN
                self.is_array = True
        self.logs = logs
        self.policy = slate_policy(policy, logs)
        if self.only_moves and not may_move:
            raise TypeError(
                f"{type(self.policy).__name__} moves what was shown, so it depends on "
                "the logged slate: neither weights nor matches of that slate give its "
                "value. ReorderingScavenging and PositionScavenging evaluate it."
            )
        if hasattr(self.policy, "deterministic_slates"):
            self.slates = method(self.policy, "deterministic_slates")(logs)
            if self.slates is not None:
                self._check_width(self.slates.shape[1], logs)

    @property
    def only_moves(self):
        """Whether the policy is known to move what was shown."""
        return hasattr(self.policy, "shown_marginals")

    def require_policy(self):
        """Return the policy, or raise where only `logged` is known."""
        if self.policy is None:
            raise TypeError(
                "an array of shape (n_rounds, n_slots) with the policy's probabilities "
                "of the logged candidates serves IndependentSlotIPS, and PseudoInverse "
                "where the logger fills slots independently. Pass a slate policy, "
                "integer slates, or slot marginals of shape (n_rounds, n_slots, "
                "n_candidates)."
            )
        return self.policy

    def marginals(self, rounds, start=0):
        """Probability of every candidate in every slot of rounds of the logs."""
        # `start` is the row of the first of them, for messages.
        policy = self.require_policy()
        name = f"slot_marginals of {type(policy).__name__}"
        table = np.asarray(method(policy, "slot_marginals")(rounds), dtype=float)
        n_rounds, n_candidates = len(rounds), rounds.max_candidates
        if table.ndim != 3 or (len(table), table.shape[2]) != (n_rounds, n_candidates):
            raise ValueError(
                f"{name} must have shape ({n_rounds}, n_slots, {n_candidates}), got "
                f"{table.shape}."
            )
        self._check_width(table.shape[1], rounds)
        _check_marginals(table, start)
        return table

    def moves(self, rounds):
        """Probability that what a slot shows (second axis) moves to another slot."""
        return np.asarray(method(self.policy, "shown_marginals")(rounds), dtype=float)

    def marginal_proba(self, logs):
        """Probability that each slot, taken alone, is filled as in the logs."""
        if self.logged is not None:
            return self.logged
        if self.slates is not None and logs is self.logs:
            return (self.slates == logs.slate).astype(float)
        if hasattr(self.policy, "marginal_proba"):
            return method(self.policy, "marginal_proba")(logs)
        table = self.marginals(logs)
        return entries(table, logs.slate, 1 - table.sum(axis=2))

    def slate_proba(self, logs, slates=None):
        """Probability of slates, by default of the logged ones."""
        if slates is None:
            if self.slates is not None and logs is self.logs:
                return (self.slates == logs.slate).all(axis=1).astype(float)
            slates = logs.slate
        policy = self.require_policy()
        proba = np.asarray(method(policy, "slate_proba")(logs, slates), dtype=float)
        if proba.shape != (len(logs),):
            raise ValueError(
                f"slate_proba of {type(policy).__name__} must have shape "
                f"({len(logs)},), got {proba.shape}."
            )
        if not (proba.min() >= 0 and proba.max() <= 1 + PROBA_TOLERANCE):
            raise ValueError(
                "slate_proba must lie in [0, 1], got "
                f"{proba.min():.6g} to {proba.max():.6g}."
            )
        return proba

    def prefix_proba(self, logs, slates=None):
        """Probability that the first slots are filled as in slates."""
        return method(self.require_policy(), "prefix_proba")(logs, slates)

    def sample(self, logs, random_state):
        """Draw a slate for every round."""
        return method(self.require_policy(), "sample")(logs, random_state)

    def _check_width(self, n_slots, logs):
        if self.same_width:
            check_width(n_slots, logs)


def method(policy, name):
    """Return a method of a slate policy that not every one has."""
    if hasattr(policy, name):
        asked = getattr(policy, name)
        return lambda logs, *more: asked(own(logs, policy), *more)
    raise TypeError(
        f"{type(policy).__name__} has no {name}, which this evaluator needs. Derive "
        "the policy from BaseSlatePolicy."
    )


def _other_width(n_slots, of_logs):
    if n_slots > of_logs:
        return f"Use n_slots={of_logs}, or slates of {of_logs} columns."
    return (
        f"Use n_slots={of_logs}; a page with fewer slots has -1, an empty slot, in the "
        "last of them. Its candidates then differ by slot: SlateLogs.from_frame with a "
        "logging_policy lets slots that a page lacks offer nothing, and policies leave "
        "them empty. In an array of slates, write -1 there."
    )


def check_width(n_slots, logs, whose="the policy"):
    """Raise unless a policy fills as many slots as the logs have."""
    if n_slots != logs.n_slots:
        raise ValueError(
            f"{whose} fills {n_slots} slots, the logs have {logs.n_slots}. "
            f"{_other_width(n_slots, logs.n_slots)}"
        )


def _is_array_like(given):
    return isinstance(given, (list, tuple)) or (
        hasattr(given, "__array__") and not isinstance(given, RowContainer)
    )


def _refuse_ambiguous(array):
    """Raise where floats may be slates or probabilities."""
    if array.dtype.kind == "f" and array.size and np.isin(array, (0, 1)).all():
        raise TypeError(
            "floats that are all 0 or 1 may be slates or probabilities of the logged "
            "candidates. Pass slates as integers, policy.astype(int); and such "
            "probabilities as booleans, policy == 1."
        )


def _check_logged(array, logs):
    array = as_numbers("policy", array, 2)
    if array.shape != logs.slate.shape:
        raise ValueError(
            "probabilities of the logged candidates must have shape (n_rounds, "
            f"n_slots) = {logs.slate.shape}, got {array.shape}."
        )
    if not (array.min() >= 0 and array.max() <= 1 + PROBA_TOLERANCE):
        raise ValueError(
            "policy must hold probabilities of the logged candidates in [0, 1], got "
            f"{array.min():.6g} to {array.max():.6g}. Slates are integers."
        )
    return array


def _check_marginals(table, start):
    """Raise unless every slot has probabilities that sum to at most one."""
    most = 1 + PROBA_TOLERANCE
    total = table @ np.ones(table.shape[2])  # faster than a sum over a short axis
    if not (table.min(initial=0) >= 0 and total.max(initial=0) <= most):  # also NaN
        low, total = table.min(axis=(1, 2)), total.max(axis=1)
        row = int(np.flatnonzero(~((low >= 0) & (total <= most)))[0])
        raise ValueError(
            "slot_marginals must be non-negative and sum to at most one per slot, got "
            f"{low[row]:.6g} and a sum of {total[row]:.6g} at row {start + row}."
        )
