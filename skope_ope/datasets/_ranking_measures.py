# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""What a ranking of graded items is worth: DCG, NDCG, ERR, reciprocal rank."""

from __future__ import annotations

from typing import Literal

import numpy as np

from skope_ope._texts import meant
from skope_ope._types import Array, ArrayLike
from skope_ope.logs._validation import EMPTY, as_numbers

DISCOUNTS = ("paper", "jarvelin")


def slot_discounts(n_slots, discount="paper"):
    r"""Return the factors of the slots' gains in DCG, shape (n_slots,)."""
    slots = np.arange(1, n_slots + 1)
    if discount == "paper":
        return 1 / np.log2(slots + 1)
    if discount == "jarvelin":
        return 1 / np.log2(np.maximum(slots, 2))
    hint = meant(discount, DISCOUNTS)
    raise ValueError(f"discount must be one of {DISCOUNTS}, got {discount!r}.{hint}")


def dcg(
    grades: ArrayLike,
    slates: ArrayLike,
    *,
    discount: Literal["paper", "jarvelin"] = "paper",
) -> Array:
    r"""Discounted cumulative gain of slates.

    .. math:: DCG(s) = \sum_j (2^{g(s_j)} - 1) / d_j

    Parameters
    ----------
    grades : array-like of shape (n_rounds, n_candidates) or (n_candidates,)
        Grades of relevance of the candidates, at least 0.
    slates : array-like of int of shape (n_rounds, n_slots)
        Candidate in every slot; -1 is an empty slot, with gain 0.
    discount : {"paper", "jarvelin"}, default="paper"
        "paper": :math:`d_j = \log_2(j + 1)` [1]_. "jarvelin": 1, 1,
        :math:`\log_2 3`, :math:`\log_2 4`, ... [2]_.

    Returns
    -------
    reward : ndarray of shape (n_rounds,)

    References
    ----------
    .. [1] Swaminathan, A., et al. (2017). Off-policy evaluation for slate
       recommendation. NeurIPS 30.
    .. [2] Järvelin, K., Kekäläinen, J. (2002). Cumulated gain-based evaluation of IR
       techniques. ACM TOIS 20.

    Examples
    --------
    >>> from skope_ope.datasets import dcg
    >>> dcg([0, 2, 1], [[1, 2], [0, 1]]).round(3)
    array([3.631, 1.893])
    """
    grades, slates = _grades_of(grades, slates)
    gains = np.where(slates == EMPTY, 0.0, 2.0 ** _in_slots(grades, slates) - 1)
    return gains @ slot_discounts(slates.shape[1], discount)


def ndcg(
    grades: ArrayLike,
    slates: ArrayLike,
    *,
    discount: Literal["paper", "jarvelin"] = "paper",
    offered: Array | None = None,
) -> Array:
    """DCG of slates, divided by the DCG of the best slate of the round.

    Parameters
    ----------
    grades : array-like of shape (n_rounds, n_candidates) or (n_candidates,)
        Grades of relevance of the candidates, at least 0.
    slates : array-like of int of shape (n_rounds, n_slots)
        Candidate in every slot; -1 is an empty slot, with gain 0.
    discount : {"paper", "jarvelin"}, default="paper"
        As in `dcg`.
    offered : ndarray of bool of shape (n_rounds, n_candidates), default=None
        Candidates that the best slate may show. `None`: all.

    Returns
    -------
    reward : ndarray of shape (n_rounds,)
        Between 0 and 1; 0 if no candidate has a positive grade.

    Examples
    --------
    >>> from skope_ope.datasets import ndcg
    >>> ndcg([0, 2, 1], [[1, 2], [0, 1]]).round(3)
    array([1.   , 0.521])
    """
    grades, slates = _grades_of(grades, slates)
    best = best_dcg(grades, slates.shape[1], discount, offered)
    reached = dcg(grades, slates, discount=discount)
    return np.divide(reached, best, out=np.zeros(len(slates)), where=best > 0)


def best_dcg(grades, n_slots, discount="paper", offered=None):
    """DCG of the best slate of every round."""
    grades = grades if offered is None else np.where(offered, grades, 0.0)
    top = -np.sort(-grades, axis=-1)[..., :n_slots]
    return (2.0**top - 1) @ slot_discounts(top.shape[-1], discount)


def err(grades: ArrayLike, slates: ArrayLike, *, max_grade: float = 4) -> Array:
    r"""Return the expected reciprocal rank of slates.

    .. math::

        ERR(s) = \sum_j \frac{R(s_j)}{j} \prod_{i < j} (1 - R(s_i)),
        \quad R(a) = \frac{2^{g(a)} - 1}{2^{g_{max}}}

    It is not a sum over slots: what a slot adds depends on the slots before it.

    Parameters
    ----------
    grades : array-like of shape (n_rounds, n_candidates) or (n_candidates,)
        Grades of relevance of the candidates, between 0 and `max_grade`.
    slates : array-like of int of shape (n_rounds, n_slots)
        Candidate in every slot; -1 is an empty slot.
    max_grade : float, default=4
        The largest possible grade.

    Returns
    -------
    reward : ndarray of shape (n_rounds,)

    References
    ----------
    .. [1] Chapelle, O., Metzler, D., Zhang, Y., Grinspan, P. (2009). Expected
       reciprocal rank for graded relevance. CIKM.

    Examples
    --------
    >>> from skope_ope.datasets import err
    >>> err([0, 2, 1], [[1, 2], [0, 1]], max_grade=2)
    array([0.78125, 0.375  ])
    """
    grades, slates = _grades_of(grades, slates)
    if grades.max() > max_grade:
        raise ValueError(
            f"a grade is {grades.max():g}, more than max_grade={max_grade:g}. Pass the "
            "largest grade there is."
        )
    stops = (2.0 ** _in_slots(grades, slates) - 1) / 2.0**max_grade
    stops = np.where(slates == EMPTY, 0.0, stops)
    reads_on = np.cumprod(1 - stops, axis=1)[:, :-1]
    stops[:, 1:] *= reads_on
    return stops @ (1 / np.arange(1, slates.shape[1] + 1))


def reciprocal_rank(grades: ArrayLike, slates: ArrayLike) -> Array:
    """Return 1 / (slot of the first candidate with a positive grade), or 0.

    Parameters
    ----------
    grades : array-like of shape (n_rounds, n_candidates) or (n_candidates,)
        Grades of relevance of the candidates, at least 0.
    slates : array-like of int of shape (n_rounds, n_slots)
        Candidate in every slot; -1 is an empty slot.

    Returns
    -------
    reward : ndarray of shape (n_rounds,)

    Examples
    --------
    >>> from skope_ope.datasets import reciprocal_rank
    >>> reciprocal_rank([0, 2, 1], [[1, 2], [0, 1]])
    array([1. , 0.5])
    """
    grades, slates = _grades_of(grades, slates)
    found = (slates != EMPTY) & (_in_slots(grades, slates) > 0)
    return np.where(found.any(axis=1), 1 / (1 + found.argmax(axis=1)), 0.0)


def _grades_of(grades, slates):
    """Return grades of shape (n_rounds, n_candidates) and the slates."""
    grades = as_numbers("grades", grades, 1 if np.ndim(grades) == 1 else 2)
    slates = np.asarray(slates)
    if slates.dtype.kind not in "iu" or slates.ndim != 2:
        raise TypeError(
            "slates must hold integers of shape (n_rounds, n_slots), got dtype "
            f"{slates.dtype}, shape {slates.shape}."
        )
    if grades.ndim == 1:
        grades = np.broadcast_to(grades, (len(slates), len(grades)))
    if len(grades) != len(slates):
        raise ValueError(
            f"grades has {len(grades)} rows, slates has {len(slates)}: one each is "
            "needed, or grades of shape (n_candidates,) for all rounds."
        )
    if grades.size and grades.min() < 0:
        raise ValueError(f"grades must be at least 0, got {grades.min():g}.")
    if slates.min() < EMPTY or slates.max() >= grades.shape[1]:
        raise ValueError(
            f"slates must hold candidates 0 to {grades.shape[1] - 1} or -1, got "
            f"{slates.min()} to {slates.max()}."
        )
    return grades, slates


def _in_slots(grades, slates):
    return np.take_along_axis(grades, np.maximum(slates, 0), axis=1)
