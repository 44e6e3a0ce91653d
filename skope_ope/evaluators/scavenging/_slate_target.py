# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""What may stand for a policy over slates, behind one face.

An integer array (n_rounds, n_slots) of candidate indices, or the name of a column that
holds one, is a deterministic policy. Anything else has `slot_marginals(logs)`, the
probability of every candidate in every slot, of shape (n_rounds, n_slots,
n_candidates), and, where whole slates are matched, `slate_proba(logs, slates)`. One
that only moves what was shown may have `shown_marginals(logs)` instead, of shape
(n_rounds, n_slots, n_slots): by logged slot, the probability of every new one.
"""

import numpy as np

from skope_ope.logs._row_container import RowContainer
from skope_ope.logs._slate_logs import EMPTY
from skope_ope.logs._validation import PROBABILITY_TOLERANCE
from skope_ope.policies._action_probabilities import unwrap


class SlateTarget:
    """A policy over slates on the rounds of some logs.

    Parameters
    ----------
    policy : slate policy, array of int of shape (n_rounds, n_slots), or str
        The policy under evaluation.
    logs : SlateLogs
        The rounds.

    Attributes
    ----------
    slates : ndarray of int of shape (n_rounds, n_slots) or None
        The slates of a deterministic policy.
    policy : object or None
        Any other.
    """

    def __init__(self, policy, logs):
        if isinstance(policy, str):
            if policy not in logs.columns:
                raise ValueError(
                    f"policy {policy!r} is not a column of the logs (they have "
                    f"{sorted(logs.columns)}). Add it with logs.with_columns."
                )
            policy = logs.columns[policy]
        self.slates = self.policy = None
        if isinstance(policy, (list, tuple)) or (
            hasattr(policy, "__array__") and not isinstance(policy, RowContainer)
        ):
            self.slates = _check_slates(np.asarray(policy), logs)
            return
        self.policy = unwrap(policy)
        if isinstance(policy, type) or not (
            hasattr(self.policy, "slot_marginals")
            or hasattr(self.policy, "slate_proba")
        ):
            raise TypeError(
                "a policy over slates is an integer array (n_rounds, n_slots) of "
                "candidate indices, or has slot_marginals(logs); got "
                f"{type(policy).__name__}."
            )

    @property
    def only_moves(self):
        """Whether the policy is known to move what was shown."""
        return hasattr(self.policy, "shown_marginals")

    def marginals(self, rounds, start, stop):
        """Probability of every candidate in every slot, for the rounds start..stop-1.

        `rounds` are these rows of the logs.
        """
        if not hasattr(self.policy, "slot_marginals"):
            raise TypeError(
                f"{type(self.policy).__name__} has no slot_marginals(logs), which say "
                "where a policy shows every candidate."
            )
        proba = np.asarray(self.policy.slot_marginals(rounds), dtype=float)
        n_candidates = rounds.max_candidates
        if proba.ndim != 3 or (len(proba), proba.shape[2]) != (
            len(rounds),
            n_candidates,
        ):
            raise ValueError(
                f"slot_marginals of {type(self.policy).__name__} must have shape "
                f"({len(rounds)}, n_slots, {n_candidates}), got {proba.shape}."
            )
        total = proba.sum(axis=2)
        wrong = ~(
            (proba.min(axis=(1, 2)) >= 0)
            & (total.max(axis=1) <= 1 + PROBABILITY_TOLERANCE)
        )
        if wrong.any():
            row = int(np.flatnonzero(wrong)[0])
            raise ValueError(
                "slot_marginals must be non-negative and sum to at most one per slot, "
                f"got {proba[row].min():.6g} and a sum of {total[row].max():.6g} at "
                f"row {start + row}."
            )
        return proba

    def slate_proba(self, logs):
        """Probability of the logged slates."""
        if not hasattr(self.policy, "slate_proba"):
            raise TypeError(
                f"{type(self.policy).__name__} has no slate_proba(logs, slates), which "
                "is needed where whole slates are matched."
            )
        proba = np.asarray(self.policy.slate_proba(logs, logs.slate), dtype=float)
        if proba.shape != (len(logs),):
            raise ValueError(
                f"slate_proba of {type(self.policy).__name__} must have shape "
                f"({len(logs)},), got {proba.shape}."
            )
        if not (proba.min() >= 0 and proba.max() <= 1 + PROBABILITY_TOLERANCE):
            raise ValueError(
                "slate_proba must lie in [0, 1], got "
                f"{proba.min():.6g} to {proba.max():.6g}."
            )
        return proba


def _check_slates(slates, logs):
    if slates.dtype.kind not in "iu":
        raise TypeError(
            "an array that stands for a policy over slates holds integers, indices of "
            f"candidates (-1: an empty slot); got dtype {slates.dtype}."
        )
    if slates.ndim != 2 or len(slates) != len(logs):
        raise ValueError(
            f"the slates of the policy must have shape ({len(logs)}, n_slots), got "
            f"{slates.shape}: an array belongs to the rows it was made for. For other "
            "rows or folds, carry it with logs.with_columns(name=...) and pass the "
            "column's name."
        )
    limit = np.broadcast_to(np.asarray(logs.n_candidates), (len(logs),))
    wrong = (slates < EMPTY) | (slates >= limit[:, None])
    if wrong.any():
        row, slot = np.argwhere(wrong)[0]
        raise ValueError(
            f"the policy shows candidate {slates[row, slot]} at row {row}, slot "
            f"{slot}; that round has the candidates 0 to {limit[row] - 1} (-1: empty)."
        )
    return slates
