# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Divergences of loggers from a policy, and the weights that follow from them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from skope_ope._sklearn import validate_params
from skope_ope._types import ArrayLike

FLOOR = 1e-12  # of the largest divergence


def floored(divergences):
    """Return divergences without zeros, and which were zero."""
    # A logger whose terms are all equal looks perfect. Where all are, none is better.
    known = divergences[np.isfinite(divergences)]
    highest = known.max() if known.size else 0.0
    if highest == 0:
        out = np.where(divergences == 0, 1.0, divergences)
        return out, np.zeros(len(divergences), dtype=bool)
    low = divergences < FLOOR * highest
    return np.where(low, FLOOR * highest, divergences), low


def completed(divergences):
    """Return divergences without NaN, and which were NaN: nothing tells them."""
    # The mean of the others makes such a logger neither a good nor a bad one. Where
    # nothing tells any of them, all are the same.
    unknown = np.isnan(divergences)
    known = divergences[np.isfinite(divergences)]
    usual = known.mean() if known.size else 1.0
    return np.where(unknown, usual, divergences), unknown


def optimal_weights(divergences, sizes):
    r"""Weights with the smallest variance, (1 / s_i^2) / sum_j (n_j / s_j^2)."""
    # Zero where no logger that has a round has a finite divergence.
    with np.errstate(divide="ignore"):
        precision = 1 / divergences
    total = sizes @ precision
    return precision / total if total > 0 else np.zeros(len(precision))


@validate_params(
    {"divergences": ["array-like", Mapping], "sizes": ["array-like", Mapping]},
    prefer_skip_nested_validation=True,
)
def pooling_variance_ratio(
    divergences: ArrayLike | Mapping[Any, Any], sizes: ArrayLike | Mapping[Any, Any]
) -> float:
    r"""Predict how much weighting the loggers reduces the variance.

    The rewards are not used.

    .. math:: \gamma = \frac{Var(\text{weighted})}{Var(\text{naive})}
        = \frac{n^2}{\big(\sum_i n_i / s_i^2\big) \big(\sum_i n_i s_i^2\big)}

    for divergences :math:`s_i^2` (the variance of one inverse propensity term of
    logger i) and sizes :math:`n_i` that add up to n. Only their proportions matter.
    It is one where all divergences are equal, and small where loggers differ and have
    about as many rounds each [1]_.

    Parameters
    ----------
    divergences : array-like of shape (n_loggers,) or dict
        Positive numbers; `inf` for a logger that is to be left out, which makes the
        ratio 0. Both may be dicts by logger, as the diagnostics have them.
    sizes : array-like of shape (n_loggers,) or dict
        Numbers of rounds.

    Returns
    -------
    ratio : float
        In [0, 1].

    References
    ----------
    .. [1] Agarwal, A., Basu, S., Schnabel, T., & Joachims, T. (2017). Effective
       evaluation using logged bandit feedback from multiple loggers. KDD,
       Proposition 6.5.

    Examples
    --------
    >>> from skope_ope.evaluators import pooling_variance_ratio
    >>> round(pooling_variance_ratio([252.81, 4.271111], [1, 1]), 4)
    0.0654
    """
    if isinstance(divergences, Mapping):
        if not isinstance(sizes, Mapping) or set(sizes) != set(divergences):
            raise ValueError(
                "divergences and sizes must be dicts of the same loggers, got "
                f"divergences of {list(divergences)} and sizes {sizes!r}."
            )
        sizes = [sizes[label] for label in divergences]
        divergences = list(divergences.values())
    s2, n = (np.asarray(v, dtype=float) for v in (divergences, sizes))
    if s2.ndim != 1 or s2.shape != n.shape or not s2.size:
        raise ValueError(
            "divergences and sizes must have one entry per logger, got shapes "
            f"{s2.shape} and {n.shape}."
        )
    if not (s2 > 0).all():
        raise ValueError(
            f"divergences must be positive, got {s2[~(s2 > 0)][0]:g}. A divergence "
            "of 0 would mean that a logger gives the value without error."
        )
    if not ((n >= 0).all() and n.sum() > 0):
        raise ValueError(
            "sizes must be 0 or more, and at least one positive, got "
            f"{np.asarray(sizes).tolist()}."
        )
    s2, n = s2[n > 0], n[n > 0]
    if np.isinf(s2).all():
        raise ValueError(
            "every logger with rounds has an infinite divergence. "
            "Give at least one of them a finite divergence."
        )
    if np.isinf(s2).any():
        return 0.0
    return float(n.sum() ** 2 / ((n / s2).sum() * (n * s2).sum()))


def given_divergences(given, labels, known=None):
    """Return known divergences in the order of the labels of all loggers."""
    # An array is in the order of the labels `known`, `None`: of these.
    if known is not None and not hasattr(given, "keys") and known != labels:
        strange = [label for label in labels if label not in known]
        if strange:
            raise ValueError(
                f"divergences is an array for the loggers of fit ({known}), and "
                f"these logs have the logger {strange[0]!r}. Pass a dict by logger."
            )
        values = given_divergences(given, known)
        return values[[known.index(label) for label in labels]]
    if hasattr(given, "keys"):
        missing = [label for label in labels if label not in given]
        unknown = [label for label in given if label not in labels]
        if missing or unknown:
            raise ValueError(
                f"divergences must name every logger of the logs ({labels}), got "
                f"{list(given)}."
            )
        given = [given[label] for label in labels]
    values = np.asarray(given)
    if values.shape != (len(labels),) or values.dtype.kind not in "iuf":
        raise ValueError(
            "divergences must be an array or dict with one number per logger "
            f"({len(labels)}: {labels}), got shape {values.shape}, dtype "
            f"{values.dtype}. To estimate them, pass 'pooled' or 'per_logger'."
        )
    values = values.astype(float)
    if not (values >= 0).all():
        at = int(np.flatnonzero(~(values >= 0))[0])
        raise ValueError(
            f"divergences must be 0 or more, got {values[at]:g} for logger "
            f"{labels[at]!r}. To leave a logger out, pass inf."
        )
    return values
