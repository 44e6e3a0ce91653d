# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Three ways to pool loggers: weights of rounds and of loggers."""

from dataclasses import dataclass

import numpy as np

from skope_ope.evaluators.core._divergence_sums import divergences_of, roots_of
from skope_ope.evaluators.core._functions import stratified
from skope_ope.evaluators.core._overlap import (
    by_logger,
)
from skope_ope.evaluators.core._tally import places_in
from skope_ope.evaluators.multi_logger._divergences import (
    completed,
    floored,
    given_divergences,
    optimal_weights,
    sample_variances,
)
from skope_ope.exceptions import LoggerWarning

DROPPED = 0.01  # of its share of the rounds: a logger that weighs less is left out


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

    def pooled_divergences(self, without=None):
        """Divergences that the rounds of all tell, of all folds or all but one."""
        summary = self.summary
        known = summary.found.ends[divergences_of(summary.key)]
        return known.variances(self.labels, without)

    def own_divergences(self, without=None):
        """Divergences that the rounds of each tell, of all folds or all but one."""
        summary = self.summary
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
    def pooling(self):
        """The pooling of the strata."""
        return stratified(self.weights.ravel())

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


class Naive:
    """Rounds weigh pi / p, and all loggers the same."""

    cross_fit = None
    estimates = None  # how divergences are estimated: "pooled" or "per_logger"

    def weigh(self, loggers):
        """Return the `Weighing` of the loggers of some sums."""
        return Weighing(np.ones(loggers.sizes.shape), None, loggers)


class Balanced(Naive):
    """Rounds weigh pi / (mixture of the loggers), and all loggers the same."""


class Weighted(Naive):
    """Rounds weigh pi / p, and loggers by estimates of their divergences."""

    def __init__(self, estimates, cross_fit=None):
        self.estimates, self.cross_fit = estimates, cross_fit

    def _divergences(self, loggers, without=None):
        if self.estimates == "pooled":
            return loggers.pooled_divergences(without)
        return loggers.own_divergences(without)

    def weigh(self, loggers):
        """Return the `Weighing` of the loggers of some sums."""
        if self.cross_fit is not None:
            return self._by_fold(loggers)
        found = self._divergences(loggers)
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
        warned = _unknown(loggers, unknown, why)
        warned += _dropped(loggers, weights, divergences, ~unknown & ~low.any())
        return _weighing(loggers, weights, divergences, warned, low)

    def _by_fold(self, loggers):
        """Return weights of the rounds of every fold that the other folds tell."""
        sizes = loggers.sizes
        divergences, low = floored(completed(self._divergences(loggers))[0])
        weights, unknown = np.zeros(sizes.shape), np.zeros(len(sizes), dtype=bool)
        for k, size in enumerate(sizes.T):
            # A logger of which the other folds tell nothing is no reason to drop its
            # rounds. What all folds tell of it would bring the bias back.
            others, missed = completed(self._divergences(loggers, without=k))
            others, raised = floored(others)
            unknown |= missed & (size > 0)
            low = low | raised
            weights[:, k] = optimal_weights(others, size) * size.sum()
        why = (
            "the divergence of logger {!r} cannot be estimated from the other "
            "folds. The mean of the other loggers' divergences is used. Choose "
            "groups that do not hold whole loggers, or"
        )
        warned = _unknown(loggers, unknown, why)
        warned += _dropped(loggers, weights, divergences, ~unknown & ~low.any())
        return _weighing(loggers, weights, divergences, warned, low)


class WeightedAsGiven(Weighted):
    """Rounds weigh pi / p, and loggers by divergences that are known."""

    def __init__(self, given, known):
        super().__init__(None)
        self.given, self.known = given, known

    def weigh(self, loggers):
        """Return the `Weighing` of the loggers of some sums."""
        every, given = loggers.summary.counts.loggers, self.given
        if every == [None]:  # the logs do not tell
            every = loggers.labels
        if loggers.summary.job is None and hasattr(given, "keys"):
            given = {label: given[label] for label in every if label in given}
        values = given_divergences(given, every, self.known)
        found = dict(zip(every, values.tolist(), strict=True))
        divergences, low = floored(np.array([found[one] for one in loggers.labels]))
        weights = optimal_weights(divergences, loggers.sizes[:, 0])[:, None]
        why = "the divergence given for logger {!r}"
        return _weighing(loggers, weights, divergences, [], low, why)


def _weighing(
    loggers,
    weights,
    divergences,
    warned,
    low,
    why="the terms of logger {!r} are all equal: its estimated divergence",
):
    """Return weights, where there is a choice between loggers, with all warnings."""
    weights = _chosen(weights, divergences)
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


def _chosen(weights, divergences):
    """Return weights where there is a choice between loggers."""
    if len(weights) == 1 and not np.isfinite(divergences).all():
        return np.ones(weights.shape)  # nothing to choose from
    if not weights.any():  # all are left out
        return np.full(weights.shape, np.nan)
    return weights


def _unknown(loggers, unknown, why):
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


def _dropped(loggers, weights, divergences, known):
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
