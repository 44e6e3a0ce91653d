# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Three ways to pool loggers: weights of rounds and of loggers."""

from dataclasses import dataclass
from functools import partial

import numpy as np

from skope_ope.evaluators.core._loggers import (
    Loggers,
    MixtureOverlap,
    MixtureSupport,
    label_list,
)
from skope_ope.evaluators.core._pooling import pooled, stratified
from skope_ope.evaluators.multi_logger._divergences import (
    completed,
    floored,
    given_divergences,
    optimal_weights,
)
from skope_ope.evaluators.multi_logger._jobs import LoggerJob
from skope_ope.evaluators.multi_logger._weighed_overlap import WeighedOverlap
from skope_ope.exceptions import LoggerWarning

DROPPED = 0.01  # of its share of the rounds: a logger that weighs less is left out


@dataclass(frozen=True)
class Weighing:
    """Weights of the rounds of every logger in an estimate."""

    # Weight of a round, up to a factor; NaN where all loggers are left out
    weights: np.ndarray
    # From which the weights follow; None where they follow from none
    divergences: np.ndarray | None
    warnings: tuple = ()  # warnings about the divergences

    @property
    def pooling(self):
        """The pooling of the strata."""
        return stratified(self.weights.ravel())


class Naive:
    """Rounds weigh pi / p, and all loggers the same."""

    observers = {"loggers": Loggers}
    job = LoggerJob
    cross_fit = None
    needs_logger_proba = False

    def weight(self, rounds):
        """Return the importance weights of a block of rounds."""
        return rounds.w

    def weigh(self, job):
        """Return the weights of the loggers, from the sums of a job."""
        return Weighing(np.ones(job.strata.sizes.shape), None)

    def pooling_of_parts(self, frame):
        """Return the pooling of the loggers of all parts of a log."""
        return stratified(np.ones(frame.n_strata))

    def overlap(self, job, observed):
        """Return sums of the weights as they enter."""
        return WeighedOverlap(job, pooled)

    def overlap_of_sums(self, summary):
        """Return the same from a `Summary` of all parts of a log."""
        return WeighedOverlap.of_loggers(summary, pooled, self.pooling_of_parts)


class Balanced(Naive):
    """Rounds weigh pi / (mixture of the loggers), and all loggers the same."""

    observers = {"loggers": Loggers, "mixture": MixtureSupport}
    needs_logger_proba = True

    def weight(self, rounds):
        """Return the importance weights of a block of rounds."""
        return rounds.b

    def overlap(self, job, observed):
        """Return sums of the weights as they enter."""
        return observed["mixture"].overlaps[id(job.target)]

    def overlap_of_sums(self, summary):
        """Return the same from a `Summary` of all parts of a log."""
        out = MixtureOverlap.of_sums(summary)
        out.gaps = summary.tally.gaps
        out.several = summary.sums.frame.n_strata > 1
        return out


class Weighted(Naive):
    """Rounds weigh pi / p, and loggers by estimates of their divergences."""

    def __init__(self, job, cross_fit, needs_logger_proba):
        self.job, self.cross_fit = job, cross_fit
        self.needs_logger_proba = needs_logger_proba

    def weigh(self, job):
        """Return the weights of the loggers, from the sums of a job."""
        if self.cross_fit is not None:
            return self._by_fold(job)
        found = job.variances()
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
        weights = optimal_weights(divergences, job.strata.sizes[:, 0])[:, None]
        warned = _unknown(job, unknown, why)
        warned += _dropped(job, weights, divergences, ~unknown & ~low.any())
        return _weighing(job, weights, divergences, warned, low)

    def _by_fold(self, job):
        """Return weights of the rounds of every fold that the other folds tell."""
        sizes = job.strata.sizes
        divergences, low = floored(completed(job.variances())[0])
        weights, unknown = np.zeros(sizes.shape), np.zeros(len(sizes), dtype=bool)
        for k, size in enumerate(sizes.T):
            # A logger of which the other folds tell nothing is no reason to drop its
            # rounds. What all folds tell of it would bring the bias back.
            others, missed = completed(job.variances(without=k))
            others, raised = floored(others)
            unknown |= missed & (size > 0)
            low = low | raised
            weights[:, k] = optimal_weights(others, size) * size.sum()
        why = (
            "the divergence of logger {!r} cannot be estimated from the other "
            "folds. The mean of the other loggers' divergences is used. Choose "
            "groups that do not hold whole loggers, or"
        )
        warned = _unknown(job, unknown, why)
        warned += _dropped(job, weights, divergences, ~unknown & ~low.any())
        return _weighing(job, weights, divergences, warned, low)

    def overlap(self, job, observed):
        """Return sums of the weights as they enter, n lambda_i w."""
        return WeighedOverlap(job, stratified(job.effective_shares / job.loggers.sizes))

    def overlap_of_sums(self, summary):
        """Return the same from a `Summary` of all parts of a log."""
        return WeighedOverlap.of_loggers(summary, None, self.pooling_of_parts)


class WeightedAsGiven(Weighted):
    """Rounds weigh pi / p, and loggers by divergences that are known."""

    def __init__(self, given, known):
        super().__init__(LoggerJob, None, False)
        self.given, self.known = given, known

    def weigh(self, job):
        """Return the weights of the loggers."""
        loggers = job.loggers
        given = given_divergences(self.given, label_list(loggers.logs), self.known)
        divergences, low = floored(given[loggers.present])
        weights = optimal_weights(divergences, job.strata.sizes[:, 0])[:, None]
        why = "the divergence given for logger {!r}"
        return _weighing(job, weights, divergences, [], low, why)

    def pooling_of_parts(self, frame):
        """Return the pooling of the loggers of all parts of a log."""
        by_label = self.given
        if not hasattr(by_label, "keys"):
            known = frame.strata if self.known is None else self.known
            if len(known) != len(self.given):
                raise ValueError(
                    f"divergences has {len(self.given)} entries, but the log has "
                    f"the loggers {list(known)}. Pass a dict by logger."
                )
            by_label = dict(zip(known, self.given, strict=True))
        given = np.array([by_label[label] for label in frame.strata], dtype=float)
        return partial(_as_given, floored(given)[0])


def _as_given(divergences, mass, units):
    """Return `Shares` of loggers with known divergences."""
    weights = optimal_weights(divergences, np.atleast_1d(mass))
    return stratified(_chosen(weights[:, None], divergences).ravel())(mass, units)


def _weighing(
    job,
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
            f"{why.format(job.loggers.labels[i])} is 0 and was raised to "
            f"{divergences[i]:.3g}, 1e-12 times the largest. So this logger "
            "carries nearly all weight. Perhaps the policy takes too few of its "
            "logged actions. Compare with pooling='balanced'.",
            0.0,
        )
        for i in np.flatnonzero(low)
    ]
    return Weighing(weights, divergences, tuple(warned))


def _chosen(weights, divergences):
    """Return weights where there is a choice between loggers."""
    if len(weights) == 1 and not np.isfinite(divergences).all():
        return np.ones(weights.shape)  # nothing to choose from
    if not weights.any():  # all are left out
        return np.full(weights.shape, np.nan)
    return weights


def _unknown(job, unknown, why):
    """Return warnings of the loggers whose divergences nothing tells."""
    loggers = job.loggers
    if len(loggers) == 1:
        return []
    return [
        LoggerWarning(
            f"{why.format(loggers.labels[i])} divergences='pooled'.",
            int(loggers.count[i]),
        )
        for i in np.flatnonzero(unknown)
    ]


def _dropped(job, weights, divergences, known):
    """Return warnings of the loggers whose rounds estimated divergences leave out."""
    loggers, sizes = job.loggers, job.strata.sizes
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
            lost = job.overlap.missing_mass[i]
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
