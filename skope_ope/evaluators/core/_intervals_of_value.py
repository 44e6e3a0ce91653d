# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""How sure a value is: intervals, one-sided bounds, bounds of theorems."""

from __future__ import annotations

import warnings as python_warnings
from typing import Any

from skope_ope._types import IntervalMethod
from skope_ope.evaluators.core._intervals import interval_of, one_sided
from skope_ope.intervals._confidence_interval import ConfidenceInterval


class IntervalsOfValue:
    """What a `PolicyValue` says of how sure it is."""

    def confidence_interval(
        self,
        level: float = 0.95,
        method: IntervalMethod = "auto",
        *,
        max_weight: float | None = None,
        n_resamples: int | None = None,
        block_length: int | None = None,
        random_state: int = 0,
        n_jobs: int | None = None,
    ) -> ConfidenceInterval:
        """Two-sided interval for the value.

        Read more in the :ref:`User Guide <intervals>`.

        Parameters
        ----------
        level : float, default=0.95
            Coverage, in (0, 1).
        method : str, default="auto"
            "auto" : the paired gamma interval if the range of the rewards is known
            (`reward_range` of the logs, or rewards that are all 0 or 1). It is valid
            for few events and stays in the range. If the range is not known, or no
            round can be large beside the standard error, it is Student's. A
            `TailWarning` then says if a few rounds make most of the spread.

            "gamma", "student" (with `degrees_of_freedom`), "normal" : this one.

            "jackknife" : Student's, with the spread of the estimates that leave out one
            group each. Only for logs with groups.

            "bootstrap", "percentile" : from values of resamples of the rounds, of the
            groups if the logs have groups, or of blocks of time. "bootstrap" divides
            the distance of each to the value by its standard error.

            "clopper_pearson" : the exact interval for a share of 0/1 rewards.

            "hoeffding", "empirical_bernstein" : for means of plain importance weights
            times rewards, from the bounds of both, for every number of rounds.

            "log_smoothing" : for means and ratios of these, from the range of the
            rewards only, for every number of rounds and weights of any size.

            "betting", "empirical_likelihood", "cressie_read" : for means and ratios of
            these, from the bounds of both.
        max_weight : float, default=None
            Upper bound on the importance weights that the policy may have on such logs.
            `None`: the bound comes from `logging_proba`, or from one propensity per
            action. If there is neither, "auto" takes the largest logged weight, and the
            methods that need a bound raise an error.
        n_resamples : int, default=None
            How many resamples "bootstrap" and "percentile" draw. `None`: 2,000, or more
            if the level needs more.
        block_length : int, default=None
            Rounds of a block of time, for "bootstrap" and "percentile". All runs of
            this many rounds in stored order are resampled. `None`: single rounds, or
            groups.
        random_state : int, default=0
            Seed of the resamples; other methods draw nothing.
        n_jobs : int, default=None
            Threads that share the resamples of more than 8,192 rounds, for "bootstrap"
            and "percentile". The limits do not depend on it.

        Returns
        -------
        interval : ConfidenceInterval
            The tuple (low, high), with the method and the `max_weight` that were used.

        Raises
        ------
        ValueError
            If `level` is not in (0, 1), the method does not apply to this value, or
            does not use a parameter that was given.

        Warns
        -----
        FewEventsWarning
            With the effective number of events below ten.
        TailWarning
            If Student's interval depends mostly on a few rounds.
        """
        found = self._interval(
            level,
            method,
            max_weight=max_weight,
            n_resamples=n_resamples,
            block_length=block_length,
            random_state=random_state,
            n_jobs=n_jobs,
        )
        for warning in found.warnings:
            python_warnings.warn(warning, stacklevel=2)
        return found

    def _interval(self, level=0.95, method="auto", **options):
        """Return the interval without a word; its warnings are in it."""
        return interval_of(self, level, method, **options)

    def lower_bound(
        self, level: float = 0.95, method: IntervalMethod = "auto", **options: Any
    ) -> float:
        """Lower confidence bound: the value is above it with probability `level`.

        It is the lower end of the two-sided interval at 2 level - 1, whose tails have
        the same size. Read more in the :ref:`User Guide <one_sided>`.

        Parameters
        ----------
        level : float, default=0.95
            Coverage, one-sided, in (0.5, 1): at a half the bound would be the estimate
            itself.
        method : str, default="auto"
            As in `confidence_interval`.
        **options : dict
            `max_weight`, `n_resamples`, `block_length`, `random_state`, `n_jobs`: as
            there.

        Returns
        -------
        low : float

        Examples
        --------
        >>> from skope_ope import IPS, UniformPolicy
        >>> from skope_ope.datasets import make_bandit_logs
        >>> logs = make_bandit_logs(random_state=0)
        >>> value = IPS().fit(logs).evaluate(UniformPolicy())
        >>> value.lower_bound(0.975) == value.confidence_interval(0.95).low
        True
        """
        return self._one_sided(0, level, method, options)

    def upper_bound(
        self, level: float = 0.95, method: IntervalMethod = "auto", **options: Any
    ) -> float:
        """Upper confidence bound: the value is below it with probability `level`.

        It is the upper end of the two-sided interval at 2 level - 1. Read more in the
        :ref:`User Guide <one_sided>`.

        Parameters
        ----------
        level : float, default=0.95
            Coverage, one-sided, in (0.5, 1).
        method : str, default="auto"
            As in `confidence_interval`.
        **options : dict
            `max_weight`, `n_resamples`, `block_length`, `random_state`, `n_jobs`: as
            there.

        Returns
        -------
        high : float
        """
        return self._one_sided(1, level, method, options)

    def _one_sided(self, side, level, method, options):
        found = one_sided(self, level, method, **options)
        for warning in found.warnings:
            python_warnings.warn(warning, stacklevel=3)
        return found[side]

    def deviation_bound(self, delta: float = 0.05, **assumptions: Any) -> float:
        """Bound ``|value - truth|`` with probability 1 - delta.

        Parameters
        ----------
        delta : float, default=0.05
            Allowed probability of failure, in (0, 1).
        **assumptions : float
            What the theorem for the evaluator assumes. The error names a missing
            assumption.

        Returns
        -------
        radius : float

        Raises
        ------
        ValueError
            If no theorem covers the evaluator, or an assumption is missing.
        """
        if not 0 < delta < 1:
            raise ValueError(f"delta must lie in (0, 1), got {delta}.")
        if not self._of_sequence:
            self._rows.check_known("deviation_bound")
        if self._bound is None:
            raise ValueError(
                f"no theorem bounds the deviation of {self.estimator}: use "
                "confidence_interval."
            )
        return self._bound(self, delta, **assumptions)
