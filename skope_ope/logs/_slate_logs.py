# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Logged slates: several actions shown together, one reward for all of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from skope_ope._types import Array, ArrayLike, Contexts, SlatePolicyLike
from skope_ope.exceptions import RowError
from skope_ope.logs._coded_labels import Grouped
from skope_ope.logs._fields import (
    SLATE,
    fields_of,
    indexed_fields,
    replaceable_fields,
    row_fields,
)
from skope_ope.logs._html import logs_html
from skope_ope.logs._known_rows import Recognised
from skope_ope.logs._row_container import (
    RowContainer,
    check_row_labels,
    labels_to_keep,
    read_only,
)
from skope_ope.logs._slate_frames import SlateFramed
from skope_ope.logs._validation import (
    EMPTY,
    Checked,
    as_numbers,
    check_context,
    check_feature_names,
    check_length,
    check_propensity,
    check_slate,
    is_uniform,
    refuse_entries,
    rewards_told,
    value_range,
)
from skope_ope.logs.checks._order import trailing_zeros
from skope_ope.logs.checks._slate_logger import quick_slate_findings


def check_logging_policy(policy):
    """Return a slate policy, or None; raise where it is something else."""
    needed = ("slot_marginals", "slate_proba", "sample")
    is_policy = all(hasattr(policy, name) for name in needed)
    if policy is None or (is_policy and not isinstance(policy, type)):
        return policy
    raise TypeError(
        "logging_policy must be a slate policy such as UniformSlatePolicy(n_slots), "
        f"got {type(policy).__name__}. Marginals of independent slots are given as "
        "ProductSlatePolicy(slot_proba), the probability of the logged slate alone as "
        "propensity=..."
    )


@dataclass(frozen=True, eq=False, repr=False)
class SlateLogs(SlateFramed, Grouped, Recognised, Checked, RowContainer):
    """Logs of (context, slate, reward), one row per round.

    A slate has one index per slot, which names a candidate of the round. -1 marks an
    empty slot. The constructor validates every field, and nothing changes the logs
    later.

    Parameters
    ----------
    context : array, sparse matrix or data frame of shape (n_rounds, n_features)
        What was known when the slate was composed.
    slate : array-like of int of shape (n_rounds, n_slots)
        Index of the candidate in every slot; -1: empty.
    reward : array-like of shape (n_rounds,) or None
        Reward of the whole slate. `None`: the sum of `slot_reward`.
    n_candidates : int or array-like of shape (n_rounds,), default=None
        Number of candidates. `None`: that of `candidates`, or the largest index in
        `slate` plus one.
    candidates : array-like of bool, default=None
        Which candidates could be shown, of shape (n_rounds, n_candidates); or in which
        slots, of shape (n_rounds, n_slots, n_candidates).
    item_id : array-like of shape (n_rounds, n_candidates), default=None
        Labels of the candidates, the same in all rounds. `None`: their indices.
    item_features : array-like, default=None
        Features of the candidates, of shape (n_candidates, n_item_features) or
        (n_rounds, n_candidates, n_item_features). A catalogue of shape
        (n_items, n_item_features) saves memory: `item_id` then holds its row numbers.
        n_items must differ from n_candidates.
    slot_reward : array-like of shape (n_rounds, n_slots), default=None
        Non-negative rewards of the slots (clicks, revenue), if known.
    logging_policy : slate policy, default=None
        The policy that composed the slates, if known.
    propensity : float or array-like of shape (n_rounds,), default=None
        Probability with which the logger composed the whole slate. One number holds
        for all rounds.
    timestamp : array-like of shape (n_rounds,), default=None
        When each round was logged: numbers or datetimes.
    group : array-like of shape (n_rounds,) or (n_rounds, n_parts), default=None
        Labels of rounds that belong together, such as those of a user or a session.
        The rows of a 2-d array or frame become tuples.
    reward_range : tuple of (float, float), default=None
        Known bounds of the reward. Leave it out if there are none, as often with money:
        bounds that are not sure make intervals too narrow or too wide.
    item_feature_names : list of str, default=None
        Names of the columns of `item_features`.

    Attributes
    ----------
    n_rounds : int
        Number of rounds, that of the rows.
    n_slots : int
        Number of slots.
    group_index : ndarray of shape (n_rounds,) or None
        Codes 0..n_groups-1 of the groups.
    n_groups : int or None
        Number of groups.
    row_id : RowId
        Origin and position of every row, kept by indexing and pickling.
    columns : dict
        Named row fields added by `with_columns`. A column "sample_weight" weights the
        rounds, both for evaluation and for learning.
    reward_name : str or None
        What the reward is called where decisions are told: the name of its column or
        of its Series.

    Raises
    ------
    ValueError, TypeError
        If a field is wrong or contradicts another field. The message names the field,
        the row and the value, and says what to do.

    Examples
    --------
    >>> import numpy as np
    >>> from skope_ope import SlateLogs
    >>> logs = SlateLogs(
    ...     np.zeros((2, 1)), [[2, 0], [1, 2]], slot_reward=[[1, 0], [0, 0]],
    ...     n_candidates=3,
    ... )
    >>> logs
    SlateLogs(n_rounds=2, n_features=1, n_slots=2, n_candidates=3)
    >>> logs.reward
    array([1., 0.])
    """

    context: Any
    slate: Array
    reward: Array
    n_candidates: Any = None
    candidates: Any = None
    item_id: Any = None
    item_features: Any = None
    slot_reward: Any = None
    logging_policy: Any = None
    propensity: Any = None
    timestamp: Any = None
    group: Any = None
    reward_range: tuple[float, float] | None = None
    item_feature_names: Any = None

    _row_fields = row_fields(SLATE)
    _carried_fields = (*fields_of(SLATE, False), "max_candidates", "_group_labels")
    _carried_fields += ("reward_name",)
    _counted_by = "slate"

    def __init__(
        self,
        context: Contexts,
        slate: ArrayLike,
        reward: ArrayLike | None = None,
        *,
        n_candidates: int | ArrayLike | None = None,
        candidates: ArrayLike | None = None,
        item_id: ArrayLike | None = None,
        item_features: ArrayLike | None = None,
        slot_reward: ArrayLike | None = None,
        logging_policy: SlatePolicyLike = None,
        propensity: float | ArrayLike | None = None,
        timestamp: ArrayLike | None = None,
        group: ArrayLike | None = None,
        reward_range: tuple[float, float] | None = None,
        item_feature_names: Sequence[str] | None = None,
    ) -> None:
        given = dict(locals())
        state = self.__dict__  # the class is frozen for everybody else
        state["context"] = check_context(context)
        slate = check_slate(slate)
        state["slate"] = slate
        n_rounds = len(slate)
        check_length("context", self.context, n_rounds, "slate")
        self._start_rows()
        fields = {name: given[name] for name in indexed_fields(SLATE)}
        state["_labels"] = labels_to_keep(fields, n_rounds)
        self._set("slot_reward", slot_reward)
        if reward is None:
            if slot_reward is None:
                raise ValueError("reward is None: pass it, or slot_reward.")
            reward = self.slot_reward.sum(axis=1)
        self._set_reward(reward, reward_range)
        self._set_candidates(n_candidates, candidates)
        self._set("item_id", item_id)  # it may number the rows of the features
        for name in (*row_fields(SLATE), "logging_policy"):
            if name not in state:
                self._set(name, given[name])
        names = check_feature_names(item_feature_names, self.item_features)
        state["item_feature_names"] = names

    def _set_candidates(self, n_candidates, candidates):
        state = self.__dict__
        most = int(self.slate.max()) + 1
        self._set("candidates", candidates)
        if candidates is not None:
            most = self.candidates.shape[-1]
        if n_candidates is None:
            n_candidates = most
        limit = as_numbers("n_candidates", n_candidates, min(np.ndim(n_candidates), 1))
        self._check_counts(limit, np.inf if candidates is None else most)
        limit = limit.astype(np.intp)
        if limit.ndim == 0:
            state["n_candidates"] = int(limit)
            limit = np.full(len(self), limit)
        else:
            check_length("n_candidates", limit, len(self), "slate")
            state["n_candidates"] = read_only(limit)
        state["max_candidates"] = int(limit.max() if candidates is None else most)
        over = self.slate >= limit[:, None]
        if over.any():
            row, slot = np.argwhere(over)[0]
            raise RowError(
                f"slate holds candidate {self.slate[row, slot]}",
                row,
                f", slot {slot}, but that round has {limit[row]} candidates (0 to "
                f"{limit[row] - 1}). Correct n_candidates or the slate.",
            )

    @staticmethod
    def _check_counts(n_candidates, most):
        wrong = (n_candidates != np.round(n_candidates)) | (n_candidates < 0)
        wrong |= n_candidates > most
        if wrong.any():
            row = np.flatnonzero(wrong)[0]
            most = "" if most == np.inf else f", at most {most} as in `candidates`"
            raise ValueError(
                f"n_candidates must hold numbers of candidates{most}, got "
                f"{np.ravel(n_candidates)[row]:g}"
                f"{f' at row {row}' if np.ndim(n_candidates) else ''}."
            )

    def _check_candidates(self, candidates):
        if candidates.shape[-1] <= self.slate.max():
            raise ValueError(
                f"candidates must tell of more than {self.slate.max()} candidates, "
                f"which slate shows, got shape {candidates.shape}."
            )
        rows, slots = np.nonzero(self.slate != EMPTY)
        shown = self.slate[rows, slots]
        at = (rows, shown) if candidates.ndim == 2 else (rows, slots, shown)
        offered = candidates[at]
        if not offered.all():
            first = int(np.flatnonzero(~offered)[0])
            raise RowError(
                f"slate shows candidate {shown[first]}",
                rows[first],
                f", slot {slots[first]}, which is not among its candidates "
                f"({int((~offered).sum())} such entries).",
            )
        return candidates

    def _check_item_features(self, item_features):
        ndim = np.ndim(item_features)
        first = "item" if ndim == 2 else "row"
        array = as_numbers("item_features", item_features, ndim, first=first)
        want = {2: (self.max_candidates,), 3: (len(self), self.max_candidates)}
        is_catalogue = array.ndim == 2 and len(array) != self.max_candidates
        if is_catalogue and self._names_rows(len(array)):
            return array
        if array.ndim not in want or array.shape[:-1] != want[array.ndim]:
            raise ValueError(
                "item_features must have shape (n_candidates, n_item_features) or "
                f"(n_rounds, n_candidates, n_item_features) with {len(self)} rounds "
                f"and {self.max_candidates} candidates, got {array.shape}. One row per "
                "item of a catalogue needs item_id to hold the numbers of these rows."
            )
        return array

    def _names_rows(self, n_items):
        """Tell whether `item_id` numbers the rows of a catalogue of items."""
        numbers = self.item_id
        return (
            numbers is not None
            and numbers.dtype.kind in "iu"
            and numbers.min() >= 0
            and numbers.max() < n_items
        )

    def _per_candidate(self, values):
        """Arrange values of the rows of `item_features` by round and candidate."""
        if self.item_features.ndim == 3:
            return values
        if len(self.item_features) == self.max_candidates:
            return values[None]
        return values[self.item_id]

    def replace(self, **fields: Any) -> SlateLogs:
        """Return the same rows with other values in some fields.

        Parameters
        ----------
        **fields : array-like or slate policy
            New values of `logging_policy`, `propensity`, `reward`, `timestamp` or
            `group`. `None` removes the field.

        Returns
        -------
        logs : SlateLogs
            New logs with the same `row_id`; other fields are shared.
        """
        out, allowed = self._copy(), replaceable_fields(SLATE)
        for name, values in fields.items():
            if name not in allowed:
                raise ValueError(
                    f"{name!r} cannot be replaced, only {allowed}. Build new logs "
                    "for other fields."
                )
            check_row_labels(name, values, self)
            out._set(name, values)
        return out

    def _check_slot_reward(self, slot_reward):
        wrong = (self.slate == EMPTY) & (slot_reward != 0)
        if wrong.any():
            refuse_entries("slot_reward", slot_reward, wrong)
        return slot_reward

    _check_logging_policy = staticmethod(check_logging_policy)

    def _check_propensity(self, propensity):
        instead = "pass the logging_policy instead"
        return check_propensity(propensity, len(self), instead)

    def __len__(self) -> int:
        return len(self.slate)

    def _is_row_aligned(self, name):
        value = getattr(self, name)
        if name == "n_candidates":
            return isinstance(value, np.ndarray)
        return name != "item_features" or value.ndim == 3

    @property
    def n_slots(self) -> int:
        """Number of slots of a slate."""
        return self.slate.shape[1]

    @property
    def offered(self) -> Any:
        """Which candidates could be shown, by `candidates` and `n_candidates`.

        A boolean array of shape (n_rounds, n_candidates) or (n_rounds, n_slots,
        n_candidates). None if every round offers all candidates.
        """
        limit = self.n_candidates
        if np.ndim(limit) == 0 and limit == self.max_candidates:
            return self.candidates
        limit = np.broadcast_to(limit, len(self))
        offered = np.arange(self.max_candidates) < limit[:, None]
        if self.candidates is None:
            return offered
        wide = self.candidates.ndim == 2
        return self.candidates & (offered if wide else offered[:, None])

    @cached_property
    def _offered_counts(self) -> Any:
        """How many candidates each round offers, in any slot; None: all of them."""
        offered = self.offered
        if offered is None:
            return None
        return (offered.any(axis=1) if offered.ndim > 2 else offered).sum(axis=1)

    @cached_property
    def _quick_propensity_findings(self) -> Any:
        """Facts and findings of the tests that every value makes of the logger."""
        return quick_slate_findings(self, is_uniform(self))

    _trailing_zeros = cached_property(trailing_zeros)  # every value asks for it

    def __repr__(self):
        return (
            f"SlateLogs(n_rounds={len(self)}, n_features={self.n_features}, "
            f"n_slots={self.n_slots}, n_candidates={self.max_candidates}"
            f"{self._told_per_page()})"
        )

    def _told_per_page(self):
        """Return how many candidates a round has, where they differ from the whole."""
        counts = self._offered_counts
        if counts is None or not counts.size or (counts == self.max_candidates).all():
            return ""
        low, high = int(counts.min()), int(counts.max())
        span = f"{low} to {high}" if low < high else f"{low}"
        return f", {span} per page"

    def summary(self) -> dict[Any, Any]:
        """Describe the logs in a dict of short texts.

        Returns
        -------
        summary : dict
            Rounds, slots, candidates, empty slots, range of rewards.
        """
        out = {"rounds": f"{len(self):,}"}
        if not len(self):
            return out
        out["slots"] = f"{self.n_slots} ({(self.slate == EMPTY).sum():,} empty)"
        out["candidates"] = f"{self.max_candidates}{self._told_per_page()}"
        out["features"] = f"{self.n_features} ({type(self.context).__name__})"
        out["reward"] = rewards_told(self)
        if self.logging_policy is not None:
            out["logging policy"] = type(self.logging_policy).__name__
        if self.propensity is not None:
            out["propensity"] = value_range(self.propensity)
        if self.group is not None:
            out["groups"] = f"{self.n_groups:,}"
        if self.columns:
            out["columns"] = ", ".join(self.columns)
        return out

    def _repr_html_(self):
        return logs_html(self)
