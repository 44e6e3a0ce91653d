# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""The slate policy that draws from given slates."""

import numpy as np

from skope_ope.logs._slate_logs import EMPTY
from skope_ope.logs._validation import PROBABILITY_TOLERANCE, as_numbers, plain
from skope_ope.policies.slate._slate_base import BaseSlatePolicy
from skope_ope.policies.slate._slate_moments import TypeMoments, add_moments
from skope_ope.policies.slate._slate_tables import offered_slots

ALL = object()  # the only group, where slates are not given by group


class EmpiricalSlatePolicy(BaseSlatePolicy):
    """Draw one of a list of slates, the same for all rounds or one list per group.

    A logger that showed some slates of every query at random is of this kind: its
    groups are the queries, its slates those that were seen.

    Parameters
    ----------
    slates : array-like of int of shape (n_slates, n_slots), or dict
        The slates, for all rounds or, in a dict, by the label in `logs.group`. -1 is
        an empty slot.
    proba : array-like of shape (n_slates,), or dict, default=None
        Their probabilities. `None`: every distinct slate alike.

    See Also
    --------
    EmpiricalSlatePolicy.seen_in : The slates that logs show, by group.

    Examples
    --------
    >>> import numpy as np
    >>> from skope_ope import EmpiricalSlatePolicy, SlateLogs
    >>> logs = SlateLogs(np.zeros((2, 1)), [[2, 0], [1, 2]], [1.0, 0.0], group=[7, 8])
    >>> EmpiricalSlatePolicy([[2, 0], [0, 1]]).slate_proba(logs)
    array([0.5, 0. ])
    >>> EmpiricalSlatePolicy.seen_in(logs).slate_proba(logs)
    array([1., 1.])
    """

    # rows of a law stand for themselves: another order of the candidates is another
    # list of slates
    _sorted = False

    def __init__(self, slates, proba=None):
        self.slates = slates
        self.proba = proba

    @classmethod
    def seen_in(cls, logs, frequencies=False):
        """Policy over the slates that logs show in every group.

        Parameters
        ----------
        logs : SlateLogs
            Where `group` is None, all rounds are one group.
        frequencies : bool, default=False
            Whether slates are drawn as often as they were seen, not all alike.

        Returns
        -------
        policy : EmpiricalSlatePolicy
        """
        slates, proba = {}, {}
        labels = [ALL] if logs.group is None else np.unique(logs.group).tolist()
        for label in labels:
            rows = slice(None) if label is ALL else logs.group == label
            slates[label], counts = np.unique(
                logs.slate[rows], axis=0, return_counts=True
            )
            proba[label] = counts / counts.sum() if frequencies else None
        if logs.group is None:
            return cls(slates[ALL], proba[ALL])
        return cls(slates, proba if frequencies else None)

    def _slots_of(self, logs):
        slates = self.slates
        if isinstance(slates, dict):
            slates = next(iter(slates.values()))
        return np.shape(slates)[-1]

    def _lists(self):
        """Return the labels of the groups and their (slates, probabilities)."""
        given = self.slates if isinstance(self.slates, dict) else {ALL: self.slates}
        proba = self.proba
        if not isinstance(proba, dict):
            if proba is not None and isinstance(self.slates, dict):
                raise TypeError(
                    "proba must be a dict with the labels of `slates`, got "
                    f"{type(proba).__name__}."
                )
            proba = dict.fromkeys(given, None) if proba is None else {ALL: proba}
        missing = [plain(label) for label in given if label not in proba]
        if missing:
            raise ValueError(
                f"proba has no probabilities for the slates of group {missing[0]!r}. "
                "Give them, or None where every distinct slate is alike."
            )
        lists = []
        for label, slates in given.items():
            name = "slates" if label is ALL else f"slates[{plain(label)!r}]"
            lists.append(_slates_with_proba(slates, proba.get(label), name))
        widths = {slates.shape[1] for slates, _ in lists}
        if len(widths) != 1:
            raise ValueError(
                "slates must all have the same number of slots, got "
                f"{sorted(widths)}. Fill shorter ones with -1."
            )
        return list(given), lists

    def _law_of(self, logs):
        """Return the list that every round draws from, after checks."""
        labels, lists = self._lists()
        if labels == [ALL]:
            law = np.zeros(len(logs), dtype=np.intp)
        else:
            law = _codes_of_groups(labels, logs)
        shown = np.zeros((len(lists), self._slots_of(logs), logs.max_candidates), bool)
        for number, (slates, _) in enumerate(lists):
            if slates.max() >= logs.max_candidates:
                raise ValueError(
                    f"slates show candidate {slates.max()}, the logs have "
                    f"{logs.max_candidates} candidates (0 to "
                    f"{logs.max_candidates - 1})."
                )
            which, slots = np.nonzero(slates != EMPTY)
            shown[number, slots, slates[which, slots]] = True
        if logs.offered is not None:
            offered = offered_slots(logs, shown.shape[1])
            if offered.shape[1] == 1:
                shown = shown.any(axis=1, keepdims=True)
            wrong = shown[law] & ~offered
            if wrong.any():
                row, slot, candidate = np.argwhere(wrong)[0]
                where = f" in slot {slot}" if logs.offered.ndim == 3 else ""
                raise ValueError(
                    f"slates show candidate {candidate}{where}, which row {row} does "
                    "not offer."
                )
        return law

    def _items(self, logs):
        law = self._law_of(logs)
        items = np.empty((len(logs), logs.max_candidates, 2))
        items[:, :, 0] = law[:, None]
        items[:, :, 1] = np.arange(logs.max_candidates)  # no two are exchangeable
        return items

    def _moments(self, items, sizes):
        lists = self._lists()[1]
        n_slots, n_types = lists[0][0].shape[1], len(sizes)
        same = np.zeros((len(items), n_slots, n_slots, n_types))
        pairs = np.zeros((*same.shape, n_types))
        for row, law in enumerate(items[:, 0, 0].astype(int)):
            add_moments(same[row], pairs[row], *lists[law], np.arange(n_types))
        return TypeMoments(same, pairs)

    def _slot_marginals(self, items, sizes):
        lists = self._lists()[1]
        marginals = np.zeros((len(items), lists[0][0].shape[1], len(sizes)))
        for row, law in enumerate(items[:, 0, 0].astype(int)):
            slates, proba = lists[law]
            which, slots = np.nonzero(slates != EMPTY)
            np.add.at(marginals[row], (slots, slates[which, slots]), proba[which])
        return marginals

    def _prefix_proba(self, items, slates):
        lists = self._lists()[1]
        laws = items[:, 0, 0].astype(int)
        out = np.empty(slates.shape)
        for law in np.unique(laws):
            known, proba = lists[law]
            rows = np.flatnonzero(laws == law)
            size = max(1, 2**24 // known.size)
            for start in range(0, len(rows), size):
                part = rows[start : start + size]
                equal = slates[part, None] == known
                prefix = np.logical_and.accumulate(equal, axis=2)
                out[part] = np.einsum("rks,k->rs", prefix, proba)
        return out

    def _sample(self, items, n_rounds, rng):
        lists = self._lists()[1]
        laws = np.broadcast_to(items[:, 0, 0].astype(int), n_rounds)
        uniform = rng.random_sample(n_rounds)
        slates = np.empty((n_rounds, lists[0][0].shape[1]), dtype=np.intp)
        for law in np.unique(laws):
            known, proba = lists[law]
            rows = laws == law
            sums = np.cumsum(proba)
            drawn = np.searchsorted(sums, uniform[rows] * sums[-1], side="right")
            slates[rows] = known[drawn]
        return slates


def _slates_with_proba(slates, proba, name):
    """Return checked slates and probabilities."""
    try:
        array = np.asarray(slates)
    except ValueError as error:
        raise ValueError(f"{name} is no rectangular array: {error}") from error
    if array.ndim != 2 or not array.size:
        raise ValueError(
            f"{name} must have shape (n_slates, n_slots), got {array.shape}."
        )
    if array.dtype.kind not in "iu":
        raise TypeError(f"{name} must hold integers, got dtype {array.dtype}.")
    if array.min() < EMPTY:
        raise ValueError(f"{name} holds {array.min()}: candidates count from 0.")
    array = array.astype(np.intp, copy=False)
    if proba is None:
        array = np.unique(array, axis=0)
        return array, np.full(len(array), 1 / len(array))
    proba = as_numbers("proba", proba)
    if len(proba) != len(array):
        raise ValueError(
            f"proba has {len(proba)} entries, {name} has {len(array)} slates."
        )
    if (proba < 0).any() or abs(proba.sum() - 1) > PROBABILITY_TOLERANCE:
        raise ValueError(
            "proba must be non-negative and sum to 1, got "
            f"minimum {proba.min():.6g}, sum {proba.sum():.9g}."
        )
    return array, proba


def _codes_of_groups(labels, logs):
    if logs.group is None:
        raise ValueError(
            "slates are given by group, the logs have no `group`. Pass the label of "
            "every round as SlateLogs(..., group=...)."
        )
    codes = {plain(label): code for code, label in enumerate(labels)}
    law = np.fromiter(
        (codes.get(label, -1) for label in logs.group.tolist()), np.intp, len(logs)
    )
    if (law < 0).any():
        row = int(np.flatnonzero(law < 0)[0])
        raise ValueError(
            f"slates know no group {plain(logs.group[row])!r}, that of row {row}."
        )
    return law
