# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Three ways to pool loggers: divergences, and the weights that follow from them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from skope_ope._sklearn import validate_params
from skope_ope._types import ArrayLike
from skope_ope.evaluators.core._divergence_sums import divergences_of, roots_of
from skope_ope.evaluators.core._overlap import by_logger
from skope_ope.exceptions import LoggerWarning
from skope_ope.logs.sums._log_sums import places_in

FLOOR = 1e-12  # of the largest divergence
SPREAD_ROUNDING = 1e-13  # of the squares: a smaller spread is none
DROPPED = 0.01  # of its share of the rounds: a logger that weighs less is left out


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


class LoggersOfSums:
    """The loggers of some sums, and what each of them has in every fold."""

    def __init__(self, summary, has_folds):
        self.summary, frame = summary, summary.sums.frame
        self.labels = frame.strata
        if has_folds:
            self.labels = list(dict.fromkeys(label for label, _ in frame.strata))
        self.sizes = self._by_fold(np.atleast_1d(summary.sums.mass))
        self.count = self._by_fold(frame.count).sum(axis=1).astype(int)
        self.shares = self.sizes.sum(axis=1) / self.sizes.sum()

    def _by_fold(self, values):
        """Return a number of every stratum by logger and fold."""
        return values.reshape(len(self.labels), -1)

    def __len__(self):
        return len(self.labels)

    @property
    def missing(self):
        """What each of them could not do of what the policy does."""
        return by_logger(self.summary).missing

    def divergences(self, estimates, without=None):
        """Return estimates, "pooled" or "per_logger", of all folds or all but one."""
        summary = self.summary
        if estimates == "pooled":  # from the rounds of all loggers
            known = summary.found.ends[divergences_of(summary.key)]
            return known.variances(self.labels, without)
        sums = summary.found.sums.of(roots_of(summary.key)) or summary.sums
        normalized = summary.evaluator.self_normalized
        return sample_variances(sums, normalized, self.sizes.shape[1], without)


@dataclass(frozen=True)
class Weighing:
    """Weights of the rounds of every logger in an estimate."""

    # Weight of a round by logger and fold, up to a factor; NaN where all loggers are
    # left out
    weights: np.ndarray
    # From which the weights follow; None where they follow from none
    divergences: np.ndarray | None
    loggers: LoggersOfSums
    warnings: tuple = ()  # warnings about the divergences

    @property
    def shares(self):
        """Weights of all rounds of every logger, n_i lambda_i."""
        total = (self.weights * self.loggers.sizes).sum(axis=1)
        return total / total.sum()

    def of_some(self, loggers):
        """Return the same weights of loggers who acted in some of the rounds."""
        rows = places_in(self.loggers.labels, loggers.labels)
        known = None if self.divergences is None else self.divergences[rows]
        return Weighing(self.weights[rows], known, loggers)


def alike(loggers):
    """Return the `Weighing` of loggers that all weigh the same."""
    return Weighing(np.ones(loggers.sizes.shape), None, loggers)


def by_estimates(loggers, estimates):
    """Return the `Weighing` by divergences that the same rounds tell."""
    found = loggers.divergences(estimates)
    unknown = np.isnan(found)
    why = (
        "logger {!r} has a single round, too few to estimate its divergence. "
        "The logger is left out. Compare with"
    )
    if unknown.all():  # no logger is known to be better than another
        found = np.ones(len(found))
        why = (
            "logger {!r} has a single round, as all loggers have, too few to "
            "estimate its divergence. All rounds weigh the same. Compare with"
        )
    # one round: nothing says that the logger is near
    divergences, low = floored(np.where(unknown & ~unknown.all(), np.inf, found))
    weights = optimal_weights(divergences, loggers.sizes[:, 0])[:, None]
    return _weighing_by_estimates(loggers, weights, divergences, low, unknown, why)


def by_other_folds(loggers, estimates):
    """Return the `Weighing` of every fold by divergences that the other folds tell."""
    sizes = loggers.sizes
    divergences, low = floored(completed(loggers.divergences(estimates))[0])
    weights, unknown = np.zeros(sizes.shape), np.zeros(len(sizes), dtype=bool)
    for k, size in enumerate(sizes.T):
        # A logger of which the other folds tell nothing is no reason to drop its
        # rounds. What all folds tell of it would bring the bias back.
        others, missed = completed(loggers.divergences(estimates, without=k))
        others, raised = floored(others)
        unknown |= missed & (size > 0)
        low = low | raised
        weights[:, k] = optimal_weights(others, size) * size.sum()
    why = (
        "the divergence of logger {!r} cannot be estimated from the other "
        "folds. The mean of the other loggers' divergences is used. Choose "
        "groups that do not hold whole loggers, or"
    )
    return _weighing_by_estimates(loggers, weights, divergences, low, unknown, why)


def as_given(loggers, given, known):
    """Return the `Weighing` by divergences that are known, see `given_divergences`."""
    every = loggers.summary.counts.loggers
    if every == [None]:  # the logs do not tell
        every = loggers.labels
    if loggers.summary.job is None and hasattr(given, "keys"):
        given = {label: given[label] for label in every if label in given}
    values = given_divergences(given, every, known)
    found = dict(zip(every, values.tolist(), strict=True))
    divergences, low = floored(np.array([found[one] for one in loggers.labels]))
    weights = optimal_weights(divergences, loggers.sizes[:, 0])[:, None]
    why = "the divergence given for logger {!r}"
    return _weighing(loggers, weights, divergences, [], low, why)


def _weighing_by_estimates(loggers, weights, divergences, low, unknown, why):
    """Return the `Weighing` by estimates, of which some are unknown, or too low."""
    warned = _unknown_warnings(loggers, unknown, why)
    warned += _dropped_warnings(loggers, weights, divergences, ~unknown & ~low.any())
    why = "the terms of logger {!r} are all equal: its estimated divergence"
    return _weighing(loggers, weights, divergences, warned, low, why)


def _weighing(loggers, weights, divergences, warned, low, why):
    """Return weights, where there is a choice between loggers, with all warnings."""
    if len(weights) == 1 and not np.isfinite(divergences).all():
        weights = np.ones(weights.shape)  # nothing to choose from
    elif not weights.any():  # all are left out
        weights = np.full(weights.shape, np.nan)
    warned = warned + [
        LoggerWarning(
            f"{why.format(loggers.labels[i])} is 0 and was raised to "
            f"{divergences[i]:.3g}, 1e-12 times the largest. So this logger "
            "carries nearly all weight. Perhaps the policy takes too few of its "
            "logged actions. Compare with pooling='balanced'.",
            0.0,
        )
        for i in np.flatnonzero(low)
    ]
    return Weighing(weights, divergences, loggers, tuple(warned))


def _unknown_warnings(loggers, unknown, why):
    """Return warnings of the loggers whose divergences nothing tells."""
    if len(loggers) == 1:
        return []
    return [
        LoggerWarning(
            f"{why.format(loggers.labels[i])} divergences='pooled'.",
            int(loggers.count[i]),
        )
        for i in np.flatnonzero(unknown)
    ]


def _dropped_warnings(loggers, weights, divergences, known):
    """Return warnings of the loggers whose rounds estimated divergences leave out."""
    sizes = loggers.sizes
    total = weights * sizes
    if len(loggers) == 1 or not total.any():
        return []
    by_fold = total / np.maximum(total.sum(axis=0), 1e-300)
    low = (by_fold < DROPPED * sizes / sizes.sum(axis=0)) & (sizes > 0)
    share = (total.sum(axis=1) / total.sum()).round(4).tolist()
    shares, found = dict(zip(loggers.labels, share, strict=True)), []
    for i in np.flatnonzero(known & low.any(axis=1)):
        label, part = loggers.labels[i], float(loggers.shares[i])
        why = f"its divergence of {divergences[i]:.3g} is far above the others"
        if np.isinf(divergences[i]):
            lost = loggers.missing[i]
            why = (
                f"it never takes actions with {lost:.2%} of the policy's "
                "probability, and its divergence is infinite"
            )
        if not low[i].all():
            why += f" in {np.count_nonzero(low[i])} of {low.shape[1]} folds"
        found.append(
            LoggerWarning(
                f"the divergences leave out logger {label!r}, {loggers.count[i]:,} "
                f"rounds ({part:.0%} of all): {why}. The loggers weigh {shares}. "
                "With pooling='balanced' one logger that takes an action is "
                "enough, so these rounds are used. Compare the standard errors.",
                part,
            )
        )
    return found


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


def sample_variances(sums, self_normalized, n_folds=1, without=None):
    """Sample variances of the terms by logger, from all folds or all but one.

    Parameters
    ----------
    sums : Sums
        Of the terms by logger and fold, over a design `with_roots` where rounds weigh
        differently.
    self_normalized : bool
        Whether the last term is what the others are divided by.
    n_folds : int, default=1
        Number of folds.
    without : int, default=None
        The fold that does not count.
    """
    # Those of the rewards themselves, whatever was subtracted from them: the weights
    # of self-normalised estimates are proportional to what is subtracted.
    first, _ = sums.about(np.zeros(sums.n_terms), 0.0)
    total = first.sum(axis=0)
    _, second = sums.about(total[:-1] / total[-1], 0.0)  # near: digits stay
    keep = np.arange(n_folds) != without
    _, kept = sums.about(np.array(sums.origin), sums.offset)  # as it was summed
    second, kept, count = (
        values.reshape(-1, n_folds, *values.shape[1:])[:, keep].sum(axis=1)
        for values in (second, kept, sums.frame.count)
    )
    plain = np.ones(sums.n_terms + 1)
    plain[-1] = 0.0
    if self_normalized:
        plain[-2] = 0.0  # the weights, by which the sum of the others is divided
    parts = plain[:, None] * second * plain
    square, noise = parts.sum(axis=(1, 2)), np.abs(parts).sum(axis=(1, 2))
    line, size = second[:, -1] @ plain, second[:, -1, -1]
    with np.errstate(divide="ignore", invalid="ignore"):
        spread = square - line * line / size
        moved = 2e-15 * np.abs(plain[:, None] * kept * plain).sum(axis=(1, 2))
        spread[spread <= np.maximum(SPREAD_ROUNDING * noise, moved)] = 0.0
        return np.where(count > 1, spread / size * count / (count - 1), np.nan)
