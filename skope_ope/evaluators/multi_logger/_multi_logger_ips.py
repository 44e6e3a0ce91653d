# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Inverse propensity scoring of logs of several loggers, and the family's template."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from math import isnan
from numbers import Integral
from typing import Any, Literal

import numpy as np
from sklearn.base import clone

from skope_ope._sklearn import Interval, StrOptions
from skope_ope._types import ArrayLike
from skope_ope.evaluators.core import _functions
from skope_ope.evaluators.core._design import Sampling, weight_of
from skope_ope.evaluators.core._jobs import passed
from skope_ope.evaluators.core._loggers import label_list
from skope_ope.evaluators.core._overlap import by_logger
from skope_ope.evaluators.core._requires import Requires
from skope_ope.evaluators.core._rounds import weighted_reward
from skope_ope.evaluators.core._summary import summary_of
from skope_ope.evaluators.multi_logger._poolings import (
    LoggersOfSums,
    alike,
    as_given,
    by_estimates,
    by_other_folds,
    pooling_variance_ratio,
)
from skope_ope.evaluators.static._base import StaticEvaluator
from skope_ope.exceptions import LoggerWarning


class MultiLoggerEvaluator(StaticEvaluator):
    """Base class of the evaluators of logs that several loggers made."""

    # A subclass forms its terms with the weights that `weight_of` gives a round. Where
    # it is self-normalised its last term is the weights, and the sum of the others is
    # what a round says of the value without.

    _parameter_constraints: dict = {
        "pooling": [StrOptions({"naive", "balanced", "weighted"})],
        "self_normalized": ["boolean"],
        "divergences": [StrOptions({"pooled", "per_logger"}), Mapping, "array-like"],
        "cross_fit": [Interval(Integral, 2, None, closed="left"), None],
    }

    @property
    def requires(self):
        """A model, where it has one, and what its pooling takes of the loggers."""
        return Requires(
            model="reward_model" in vars(self),
            mixture=self.pooling == "balanced" or self._estimates == "pooled",
            divergences=self._estimates,
        )

    @property
    def proposal(self):
        """Against which probability the weights are."""
        return "mixture" if self.pooling == "balanced" else "own_logger"

    @property
    def sampling(self):
        """The samples: loggers, or what each of them has in a fold."""
        return Sampling("loggers", self._n_folds)

    def check_logs(self, logs):
        super().check_logs(logs)
        if not self.requires.mixture or logs.logger_proba is not None:
            return
        if logs.loggers is None or (logs.logger_index == logs.logger_index[0]).all():
            return
        what = f"pooling={self.pooling!r}"
        if self.pooling == "weighted":
            what += " with divergences='pooled'"
        raise ValueError(
            f"{what} needs the probability of every logged action under all "
            "loggers, which these logs do not have. Pass logger_proba=..., compute "
            "it with logs.with_logger_policies({name: policy}), or estimate it "
            "with LoggerPropensityEstimator. Or use pooling='naive' or "
            "divergences='per_logger', which do not need it."
        )

    def resolved(self, facts, rows=None):
        """Return the evaluator, which cuts no log that is read in parts into folds."""
        if facts.in_parts and self.pooling == "weighted" and self.cross_fit is not None:
            raise ValueError("cross_fit splits all rounds. Pass cross_fit=None.")
        return super().resolved(facts, rows)

    def stratum_weights(self, summary):
        """Return what a round of every logger counts, and of every fold."""
        return self._weighing(summary).weights.ravel()

    def diagnostics_of(self, summary, estimate):
        """Return entries by logger, and what is said of weights and single rounds."""
        weighing = self._weighing(summary)
        known = summary.facts["logger_proba"] or estimate.frame.n_strata == 1
        alone = _alone_warnings(estimate, known, self._n_folds is not None)
        entries = entries_by_logger(self, summary, weighing)
        return entries, [*weighing.warnings, *alone]

    @property
    def _estimates(self):
        """How divergences are estimated: "pooled", "per_logger" or not at all."""
        weighted = self.pooling == "weighted" and isinstance(self.divergences, str)
        return self.divergences if weighted else None

    @property
    def _n_folds(self):
        """Number of folds of estimated divergences; None: one sample tells them."""
        return None if self._estimates is None else self.cross_fit

    def _weighing(self, summary):
        """Return the `Weighing` of the loggers."""
        if summary.weighing is None:
            loggers = LoggersOfSums(summary, self._n_folds is not None)
            if summary.whole is None:
                summary.weighing = self._weigh(loggers)
            else:
                summary.weighing = self._weighing(summary.whole).of_some(loggers)
        return summary.weighing

    def _weigh(self, loggers):
        """Return the `Weighing` of the loggers of all rounds."""
        if self.pooling != "weighted":
            return alike(loggers)
        if self._estimates is None:
            logs = vars(self).get("logs_")  # None: not fitted
            known = None if logs is None else label_list(logs)
            return as_given(loggers, self.divergences, known)
        weigh = by_estimates if self._n_folds is None else by_other_folds
        return weigh(loggers, self._estimates)

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        # Weighted rounds do not average to the mean reward.
        tags.on_policy_mean = self.pooling != "weighted"
        # Of a fold by itself the cells are incomplete.
        tags.consistent = self.pooling != "weighted" or self.cross_fit is None
        return tags


class MultiLoggerIPS(MultiLoggerEvaluator):
    r"""Inverse propensity scoring with the rounds of several loggers [1]_.

    With :math:`n_i` rounds of logger i, :math:`n = \sum_i n_i`, and the weights
    :math:`w_{ij} = \pi(a_{ij}|x_{ij}) / p_{ij}` of its rounds j,

    .. math:: \hat V_{naive} = \frac1n \sum_i \sum_j w_{ij}\, r_{ij}, \qquad
        \hat V_{weighted} = \sum_i \lambda_i \sum_j w_{ij}\, r_{ij}, \qquad
        \lambda_i = \frac{1 / s_i^2}{\sum_k n_k / s_k^2}

    .. math:: \hat V_{balanced} = \frac1n \sum_i \sum_j
        \frac{\pi(a_{ij}|x_{ij})}{\bar\pi(a_{ij}|x_{ij})}\, r_{ij}, \qquad
        \bar\pi = \sum_i \frac{n_i}{n}\, \pi_i

    The naive estimate may get better when rounds are dropped. The balanced one (the
    balance heuristic of multiple importance sampling) never has a larger variance, and
    it is enough that some logger takes each action. The weighted one weights whole
    loggers in the best way, by their divergences
    :math:`s_i^2 = Var_{\pi_i}(w\, r)`; :math:`\lambda_i = 0` drops a logger. All three
    agree for a single logger. Read more in the :ref:`User Guide <multi_logger>`.

    Parameters
    ----------
    pooling : {"naive", "balanced", "weighted"}, default="naive"
        How the loggers are combined. Use "balanced" if the logs have `logger_proba`,
        which it needs. "weighted" with pooled divergences needs it, too. "naive" is the
        default because it needs the least.
    self_normalized : bool, default=False
        Divide by the same (weighted) sum of the importance weights.
    divergences : {"pooled", "per_logger"}, dict or array-like, default="pooled"
        For "weighted". "pooled" estimates the divergences of all loggers from all
        rounds. "per_logger" is the sample variance of the terms of each logger. It is
        biased if large terms are missing. Known ones are a dict by logger or an array
        in the order of `logs.loggers` of fit; `inf` leaves a logger out.
    cross_fit : int, default=None
        Number of folds, each of which is weighted by divergences estimated on the
        others. This is exactly unbiased. If the other folds do not show the divergence
        of a logger, the mean of the other loggers is used, with a warning. `None` uses
        the same rounds.

    Attributes
    ----------
    n_actions_ : int
        Number of actions in the logs of `fit`.

    See Also
    --------
    MultiLoggerDR : Lowers the variance by a reward model.
    logger_overlap : Which logger is near which policy.
    pooling_variance_ratio : What weighting gains, beforehand.

    Notes
    -----
    The numbers :math:`n_i` are fixed, so the standard error is stratified:
    :math:`SE^2 = \sum_i \lambda_i^2 n_i s_i^2`, for the balanced estimate with the
    variances of its own terms within each logger and :math:`\lambda_i = 1/n`. Round
    values are centred within each logger, so their standard deviation over the root of
    n is that standard error, also for differences. A logger of a single round shares
    the centre of another one, which overstates the variance. If that round weighs more
    than all rounds of any other logger, the standard error is NaN, with a warning.

    Balanced rounds average to the value over all loggers together. `by` warns if its
    groups have other shares of loggers than the mixture.

    References
    ----------
    .. [1] Agarwal, A., Basu, S., Schnabel, T., & Joachims, T. (2017). Effective
       evaluation using logged bandit feedback from multiple loggers. KDD.

    Examples
    --------
    >>> import numpy as np
    >>> from skope_ope import BanditLogs, MultiLoggerIPS
    >>> logs = BanditLogs(
    ...     np.zeros((4, 1)), action=[0, 1, 1, 0], reward=[1, 0, 1, 0],
    ...     logger=["A", "A", "B", "B"],
    ...     logger_proba=[[0.5, 0.2], [0.5, 0.8], [0.5, 0.8], [0.5, 0.2]],
    ... )
    >>> policy = np.tile([0.2, 0.8], (4, 1))
    >>> for pooling in ("naive", "balanced"):
    ...     print(round(MultiLoggerIPS(pooling=pooling).fit(logs).score(policy), 4))
    0.35
    0.4505
    """

    def __init__(
        self,
        *,
        pooling: Literal["naive", "balanced", "weighted"] = "naive",
        self_normalized: bool = False,
        divergences: Literal["pooled", "per_logger"]
        | Mapping[Any, Any]
        | ArrayLike = "pooled",
        cross_fit: int | None = None,
    ) -> None:
        self.pooling = pooling
        self.self_normalized = self_normalized
        self.divergences = divergences
        self.cross_fit = cross_fit

    @property
    def combine(self):
        return _functions.ratio if self.self_normalized else _functions.mean

    @property
    def shift_with(self):
        return 1 if self.self_normalized else None  # by the sum of the weights

    def terms(self, rounds):
        w = weight_of(self)(rounds)
        gain = weighted_reward(rounds, w)
        return (gain, w) if self.self_normalized else (gain,)

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.constant_reward = self.self_normalized
        # The divergences of shifted rewards are others, and so are the weights.
        tags.shift_equivariant = self.self_normalized and self.pooling != "weighted"
        return tags


def _alone_warnings(estimate, known, folds=False):
    """Return a warning where nothing tells how the rounds of a logger spread."""
    alone = estimate.shares.alone
    if not alone or isnan(estimate.value) or estimate.frame.clustered:
        return []  # groups have a warning of their own
    part, label = "", estimate.frame.strata[alone[0]]
    if folds:
        part, label = " in one of the folds", label[0]
    pooling = "balanced" if known else "naive"
    return [
        LoggerWarning(
            f"logger {label!r} has a single round{part}, so its variance is "
            "unknown, and it weighs more than all rounds of any other logger. The "
            "standard error is NaN. Leave the logger out, or use "
            f"pooling={pooling!r}, which weighs all rounds the same.",
            len(alone),
        )
    ]


def entries_by_logger(evaluator, summary, weighing):
    """Return diagnostics by logger: numbers, and functions that give them."""
    # `logger_rounds`, `logger_divergences` (s_i^2), `logger_weights` (lambda_i),
    # `logger_shares` (n_i lambda_i), `logger_effective_sample_size` and
    # `logger_unsupported_mass` are dicts by logger; `predicted_variance_ratio` is the
    # variance of the best weighting over that of the naive estimate.
    loggers = weighing.loggers
    sizes = loggers.shares * summary.n  # rounds, each counted by its sample weight
    of_each = cache(lambda: by_logger(summary.of_loggers))
    divergences = cache(lambda: _divergences_of(evaluator, summary, weighing))

    def named(values):
        return dict(zip(loggers.labels, values.tolist(), strict=True))

    def predicted_variance_ratio():
        if np.isinf(divergences()).all():
            return float("nan")
        return pooling_variance_ratio(divergences(), sizes)

    found = {
        "logger_rounds": lambda: named(loggers.count),
        "logger_weights": lambda: named(weighing.shares / sizes),
        "logger_shares": lambda: named(weighing.shares),
    }
    if summary.job is not None or weighing.divergences is not None:
        found["logger_divergences"] = lambda: named(divergences())
        found["predicted_variance_ratio"] = predicted_variance_ratio
    if summary.job is not None:
        size = "logger_effective_sample_size"
        found[size] = lambda: named(of_each().effective_sample_size)
        found["logger_unsupported_mass"] = lambda: named(of_each().missing)
    return found


def _divergences_of(evaluator, summary, weighing):
    """Return those in use; where none are, what a weighted estimate would use."""
    if weighing.divergences is not None:
        return weighing.divergences
    job = summary.job
    known = summary.facts["logger_proba"] or len(weighing.loggers) == 1
    weighted = clone(evaluator).set_params(
        pooling="weighted",
        divergences="pooled" if known else "per_logger",
        cross_fit=None,
    )
    whole = passed([(weighted, job.target, job.source)], job.kept.positive)
    [again] = whole.jobs
    summary = summary_of(whole, weighted, again.key)
    summary.job = again
    found = weighted._weighing(summary).divergences
    whole.release()
    return found
