# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""The slate policy that draws from given slates."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from scipy.special import gammaln, logsumexp

from skope_ope._types import ArrayLike
from skope_ope.exceptions import PropensityWarning
from skope_ope.logs import SlateLogs
from skope_ope.logs._coded_labels import encode_labels
from skope_ope.logs._frames import column_of, opened_frame
from skope_ope.logs._known_rows import places_among
from skope_ope.logs._labels import rows_of_codes
from skope_ope.logs._row_container import check_output_labels, check_row_labels, own
from skope_ope.logs._validation import (
    EMPTY,
    check_labels,
    column_weights,
    is_frame,
    plain,
)
from skope_ope.logs.lazy._lazy_logs import kind_of
from skope_ope.policies.slate._slate_base import (
    BaseSlatePolicy,
    TypeMoments,
    add_moments,
    offered_slots,
    slates_with_proba,
)

ALL_ROUNDS = object()  # the only label, where all rounds have the same slates


class EmpiricalSlatePolicy(BaseSlatePolicy):
    """Draw one of a list of slates: one list for all rounds, or one per label.

    An example is a logger that showed some slates of every query at random. The labels
    are the queries, and the slates are those that the log shows.

    Parameters
    ----------
    slates : array-like of int of shape (n_slates, n_slots), or dict
        The slates for all rounds, or a dict {label: slates}; `by` gives the label of a
        round. -1 is an empty slot.
    proba : array-like of shape (n_slates,), or dict, default=None
        Their probabilities. `None`: distinct slates are equally likely.
    by : str or callable, default=None
        Only if `slates` is a dict. The name of a column, of a row field or of a context
        column of the logs with the label of every round, or a function of the logs
        that returns the labels.

    See Also
    --------
    EmpiricalSlatePolicy.seen_in : The slates that logs show, by label.

    Notes
    -----
    As a logging policy with `proba=None` it is compared with the logs: an evaluator
    warns if the counts of the slates contradict equal probabilities.

    Examples
    --------
    >>> import numpy as np
    >>> from skope_ope import SlateLogs
    >>> from skope_ope.policies import EmpiricalSlatePolicy
    >>> logs = SlateLogs(np.zeros((2, 1)), [[2, 0], [1, 2]], [1.0, 0.0])
    >>> EmpiricalSlatePolicy([[2, 0], [0, 1]]).slate_proba(logs)
    array([0.5, 0. ])
    >>> logs = logs.with_columns(query=[7, 8])
    >>> EmpiricalSlatePolicy.seen_in(logs, by="query").slate_proba(logs)
    array([1., 1.])
    """

    # rows of a distribution stand for themselves: another order of the candidates is
    # another list of slates
    _sorted = False

    def __init__(
        self,
        slates: ArrayLike | Mapping[Any, Any],
        proba: ArrayLike | Mapping[Any, Any] | None = None,
        *,
        by: str | Callable[..., Any] | None = None,
    ) -> None:
        self.slates = slates
        self.proba = proba
        self.by = by

    @classmethod
    def seen_in(
        cls,
        logs: SlateLogs,
        frequencies: bool = True,
        *,
        by: str | Callable[..., Any] | ArrayLike | None = None,
    ) -> EmpiricalSlatePolicy:
        """Policy over the slates that logs show, in all rounds or by label.

        Slates are drawn as often as they were seen. If you evaluate on the same rounds,
        a pseudoinverse with these probabilities is least squares, label by label. It is
        unbiased if rewards are sums over slots, and its standard errors are rather too
        large. It leaves out what the policy shows and the rounds of a label do not.
        Labels with few rounds say little: see the :ref:`User Guide <seen_slates>`.

        Parameters
        ----------
        logs : SlateLogs
            The rounds. Their `group` says which rounds depend on each other. It does
            not choose the slates.
        frequencies : bool, default=True
            Whether slates are drawn as often as they were seen (a column
            ``"sample_weight"`` weights the counts). `False`: all slates are equally
            likely. Use it only if you know that the logger draws so.
        by : str, callable or array-like of shape (n_rounds,), default=None
            A label of every round: rounds with the same label share a list of slates.
            Pass labels, a function of the logs, or the name of a column, of a row field
            or of a context column. An array belongs to the rows of these logs. `None`:
            all rounds share one list.

        Returns
        -------
        policy : EmpiricalSlatePolicy
        """
        if not isinstance(logs, SlateLogs):
            raise TypeError(f"logs must be SlateLogs, got {kind_of(logs)}.")
        weight = column_weights(logs)
        if by is None:
            slates, proba = logged_shares(logs.slate, weight)
            return cls(slates, proba if frequencies else None)
        if not (isinstance(by, str) or callable(by)):
            by = LabelsOfRows(round_labels(by, logs), logs.row_id)
        labels, codes = encode_labels("by", round_labels(by, logs))
        slates, proba = {}, {}
        for code, label in enumerate(labels.tolist()):
            rows = codes == code
            own = None if weight is None else weight[rows]
            slates[label], proba[label] = logged_shares(logs.slate[rows], own)
        return cls(slates, proba if frequencies else None, by=by)

    def _slots_of(self, logs):
        slates = self.slates
        if isinstance(slates, dict):
            slates = next(iter(slates.values()))
        return np.shape(slates)[-1]

    def _lists(self):
        """Return the labels and their (slates, probabilities)."""
        given = (
            self.slates if isinstance(self.slates, dict) else {ALL_ROUNDS: self.slates}
        )
        proba = self.proba
        if not isinstance(proba, dict):
            if proba is not None and isinstance(self.slates, dict):
                raise TypeError(
                    "proba must be a dict with the labels of `slates`, got "
                    f"{type(proba).__name__}."
                )
            proba = dict.fromkeys(given, None) if proba is None else {ALL_ROUNDS: proba}
        missing = [plain(label) for label in given if label not in proba]
        if missing:
            raise ValueError(
                f"proba has no probabilities for the slates of label {missing[0]!r}. "
                "Pass them, or None if distinct slates are equally likely."
            )
        lists = []
        for label, slates in given.items():
            name = "slates" if label is ALL_ROUNDS else f"slates[{plain(label)!r}]"
            lists.append(slates_with_proba(slates, proba.get(label), name))
        widths = {slates.shape[1] for slates, _ in lists}
        if len(widths) != 1:
            raise ValueError(
                "slates must all have the same number of slots, got "
                f"{sorted(widths)}. Fill shorter ones with -1."
            )
        return list(given), lists

    def _number_of(self, logs):
        """Return the list that every round draws from, after checks."""
        labels, lists = self._lists()
        if labels == [ALL_ROUNDS]:
            number = np.zeros(len(logs), dtype=np.intp)
        else:
            number = self._codes_of(labels, logs)
        shown = np.zeros((len(lists), self._slots_of(logs), logs.max_candidates), bool)
        for one, (slates, _) in enumerate(lists):
            if slates.max() >= logs.max_candidates:
                raise ValueError(
                    f"slates show candidate {slates.max()}, the logs have "
                    f"{logs.max_candidates} candidates (0 to "
                    f"{logs.max_candidates - 1})."
                )
            which, slots = np.nonzero(slates != EMPTY)
            shown[one, slots, slates[which, slots]] = True
        if logs.offered is not None:
            offered = offered_slots(logs, shown.shape[1])
            if offered.shape[1] == 1:
                shown = shown.any(axis=1, keepdims=True)
            wrong = shown[number] & ~offered
            if wrong.any():
                row, slot, candidate = np.argwhere(wrong)[0]
                where = f" in slot {slot}" if logs.offered.ndim == 3 else ""
                raise ValueError(
                    f"slates show candidate {candidate}{where}, which row {row} does "
                    "not offer."
                )
        return number

    def _codes_of(self, labels, logs):
        """Return the position among the labels of that of every round."""
        if self.by is None:
            raise ValueError(
                "slates are given by label, but `by` is missing. Pass the name of a "
                'column, or by="group".'
            )
        position = {plain(label): code for code, label in enumerate(labels)}
        found = round_labels(self.by, logs)
        codes = np.fromiter(
            (position.get(label, -1) for label in found.tolist()), np.intp, len(logs)
        )
        if (codes < 0).any():
            row = int(np.flatnonzero(codes < 0)[0])
            raise ValueError(
                f"slates has no label {plain(found[row])!r}, which row {row} has. Add "
                "its slates, or drop the row."
            )
        return codes

    def _lists_of(self, logs):
        """Return the slates that may be shown in every round, a list of arrays."""
        lists = [slates[proba > 0] for slates, proba in self._lists()[1]]
        return [lists[number] for number in self._number_of(logs)]

    def _doubts(self, logs):
        labels, lists = self._lists()
        given = self.proba if isinstance(self.proba, dict) else {ALL_ROUNDS: self.proba}
        alike = [given.get(label) is None for label in labels]
        if not any(alike):
            return []
        rows = independent_rounds(logs)
        number, shown = self._number_of(logs)[rows], logs.slate[rows]
        told, counts, known = [], [], []
        for one, part in enumerate(rows_of_codes(number, len(lists))):
            if alike[one] and len(part):
                told.append(None if labels[one] is ALL_ROUNDS else labels[one])
                known.append(lists[one][0])
                counts.append(counts_among(known[-1], shown[part]))
        return alike_warnings(type(self).__name__, told, counts, known)

    def _items(self, logs):
        number = self._number_of(logs)
        items = np.empty((len(logs), logs.max_candidates, 2))
        items[:, :, 0] = number[:, None]
        items[:, :, 1] = np.arange(logs.max_candidates)  # no two are exchangeable
        return items

    def _moments(self, items, sizes):
        lists = self._lists()[1]
        n_slots, n_types = lists[0][0].shape[1], len(sizes)
        same = np.zeros((len(items), n_slots, n_slots, n_types))
        pairs = np.zeros((*same.shape, n_types))
        for row, number in enumerate(items[:, 0, 0].astype(int)):
            add_moments(same[row], pairs[row], *lists[number], np.arange(n_types))
        return TypeMoments(same, pairs)

    def _slot_marginals(self, items, sizes):
        lists = self._lists()[1]
        marginals = np.zeros((len(items), lists[0][0].shape[1], len(sizes)))
        for row, number in enumerate(items[:, 0, 0].astype(int)):
            slates, proba = lists[number]
            which, slots = np.nonzero(slates != EMPTY)
            np.add.at(marginals[row], (slots, slates[which, slots]), proba[which])
        return marginals

    def _prefix_proba(self, items, slates):
        lists = self._lists()[1]
        numbers = items[:, 0, 0].astype(int)
        out = np.empty(slates.shape)
        for number in np.unique(numbers):
            known, proba = lists[number]
            rows = np.flatnonzero(numbers == number)
            size = max(1, 2**24 // known.size)
            for start in range(0, len(rows), size):
                part = rows[start : start + size]
                equal = slates[part, None] == known
                prefix = np.logical_and.accumulate(equal, axis=2)
                out[part] = np.einsum("rks,k->rs", prefix, proba)
        return out

    def _sample(self, items, n_rounds, rng):
        lists = self._lists()[1]
        numbers = np.broadcast_to(items[:, 0, 0].astype(int), n_rounds)
        uniform = rng.random_sample(n_rounds)
        slates = np.empty((n_rounds, lists[0][0].shape[1]), dtype=np.intp)
        for number in np.unique(numbers):
            known, proba = lists[number]
            rows = numbers == number
            sums = np.cumsum(proba)
            drawn = np.searchsorted(sums, uniform[rows] * sums[-1], side="right")
            slates[rows] = known[drawn]
        return slates


# -- how often slates were logged, and whether that refutes that all are alike ---------
# Of the S slates of a list, drawn alike, n rounds with counts :math:`O_s` have the
# probability :math:`S^{-n}` (for an order of the rounds). Under shares that are drawn
# themselves, from a symmetric Dirichlet distribution, it is
#
# .. math:: \frac{\Gamma(\alpha S)}{\Gamma(\alpha S + n)}
#     \prod_s \frac{\Gamma(\alpha + O_s)}{\Gamma(\alpha)}.
#
# The ratio of the two has mean one where all slates are alike, for any S and n, as has
# the product over lists, and the mean over several :math:`\alpha`: it exceeds 1,000
# with probability 1/1,000 at most, however few rounds a list has.

ALPHA = np.array([0.1, 0.3, 1.0, 3.0, 10.0, 100.0])
SURE_RATIO = np.log(1000)  # of the logarithm of the ratio
MATERIAL_RATIO = 1e-3  # of it per round: probabilities are off by some 4% at least


def logged_shares(slates, weight=None):
    """Return the distinct slates, and the (weighted) share of each in the rounds."""
    distinct, code = np.unique(slates, axis=0, return_inverse=True)
    count = np.bincount(code.ravel(), weight, len(distinct))
    return distinct, count / count.sum()


def counts_among(known, slates):
    """Return how often each of some distinct slates occurs among others."""
    both = np.concatenate([known, slates])
    code = np.unique(both, axis=0, return_inverse=True)[1].ravel()
    count = np.bincount(code[len(known) :], minlength=int(code.max()) + 1)
    return count[code[: len(known)]]


def alike_ratio(counts):
    """Return the logarithm of the ratio that speaks against equal probabilities."""
    ratio = np.zeros(len(ALPHA))
    alpha = ALPHA[:, None]
    for count in counts:
        n, size = count.sum(), len(count)
        ratio += gammaln(ALPHA * size) - gammaln(ALPHA * size + n) + n * np.log(size)
        ratio += (gammaln(alpha + count) - gammaln(alpha)).sum(axis=1)
    return float(logsumexp(ratio) - np.log(len(ALPHA)))


def independent_rounds(logs):
    """Return rounds that are independent draws of the logger, ndarray of int."""
    # The first of every group; where rounds were kept with probabilities that their
    # weights make up for, as many of the others as all of these leave.
    rows = np.arange(len(logs))
    if logs.group is not None:
        rows = np.unique(logs.group_index, return_index=True)[1]
    weight = column_weights(logs)
    if weight is not None:
        weight = weight[rows]
        drawn = np.random.RandomState(0).random_sample(len(rows))
        rows = rows[drawn * weight.max() < weight]
    return rows


def alike_warnings(name, labels, counts, slates):
    """Return a warning where logged slates are not alike."""
    n = sum(int(count.sum()) for count in counts)
    ratio = alike_ratio(counts)
    if not ratio > max(SURE_RATIO, MATERIAL_RATIO * n):
        return []
    far = [np.abs(c - c.mean()).max() / max(c.mean(), 1e-9) ** 0.5 for c in counts]
    worst = int(np.argmax(far))
    count = counts[worst]
    slate = int(np.argmax(np.abs(count - count.mean())))
    label = labels[worst]
    where = "rounds" if label is None else f"rounds of {plain(label)!r}"
    return [
        PropensityWarning(
            f"{name} assumes equally likely slates, but the logged slates are not. "
            f"{slates[worst][slate].tolist()} has {count[slate] / count.sum():.1%} "
            f"of the {int(count.sum()):,} {where}, not 1/{len(count)}. Unequal "
            f"probabilities make the counts of all slates e^{ratio:.0f} times as "
            "likely. Estimates that divide by equal probabilities are biased. Pass "
            "the logger's proba, or use counts: EmpiricalSlatePolicy.seen_in(logs, "
            "by=...).",
            ratio,
        )
    ]


# -- labels of rounds: a field or column of the logs, or an array for some rows --------


class LabelsOfRows:
    """Labels that belong to given rows, wherever these rows are taken."""

    def __init__(self, labels, row_id):
        self.labels, self.row_id = labels, row_id

    def __call__(self, logs):
        """Return the labels of the rounds of logs."""
        known, asked = self.row_id, logs.row_id
        place = places_among(asked.position, known.position)
        if known.origin != asked.origin or (place < 0).any():
            raise ValueError(
                "`by` is an array, which belongs to the rows it was made for, and "
                "these are other rows. Carry the labels with "
                "logs.with_columns(name=...) and pass the column's name."
            )
        return self.labels[place]


def round_labels(by, logs):
    """Return the label of every round, shape (n_rounds,)."""
    name = "by"
    if isinstance(by, str):
        name, by = f"by={by!r}", _labels_in_logs(by, logs)
    given = by
    if callable(by):
        given = by(own(logs, by))
        check_output_labels(f"the output of {name}", given, logs.context)
    else:
        check_row_labels(name, given, logs)
    labels = check_labels(name, given)
    if len(labels) != len(logs):
        raise ValueError(
            f"{name} must have one label per round ({len(logs)}), got {len(labels)}."
        )
    return labels


def _labels_in_logs(name, logs):
    if name in logs.columns:
        return logs.columns[name]
    if name in logs._row_fields and getattr(logs, name) is not None:
        return getattr(logs, name)
    if is_frame(logs.context):
        frame = opened_frame(logs.context)
        if name in frame.columns:
            return column_of(frame, name)
    raise ValueError(
        f"the logs have no `{name}`, by which slates are given: neither a row field "
        f"nor a column (they have {sorted(logs.columns)}), nor one of the context. Add "
        "it with logs.with_columns."
    )
