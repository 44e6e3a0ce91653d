# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""The least wide of the estimates that agree, along a path of growing bias."""

from __future__ import annotations

import time
import warnings
from collections.abc import Mapping, Sequence
from numbers import Real
from typing import Any, Literal, Self

import numpy as np
from scipy.special import stdtrit

from skope_ope._progress import fit_progress
from skope_ope._sklearn import (
    HasMethods,
    Interval,
    StrOptions,
    fit_context,
    fitted_part,
)
from skope_ope._types import AnyEvaluator, ArrayLike
from skope_ope.evaluators.core._warnings import learned_warnings
from skope_ope.exceptions import BiasWarning, OPEWarning, warn_user
from skope_ope.logs import BanditLogs, SlateLogs
from skope_ope.selection._candidates import (
    fits_by_model,
    is_adaptive,
    nan_reasons,
    refuse_others,
)
from skope_ope.selection._ope_search import BaseSearch
from skope_ope.selection._scored_splits import param_columns, ranks
from skope_ope.selection._scorers import (
    EvaluatorScorer,
    PolicyScorer,
    common_horizon,
)

# -- lepski's principle over a path of estimates: SLOPE and SLOPE++ --------------------

PLUS_PLUS = 6**0.5 - 1


def slope_index(values, widths):
    r"""Return the last estimate whose interval shares a point with all earlier ones."""
    # The path goes from the least to the most biased estimate. With widths made
    # non-increasing from the right, :math:`I_i = [\hat V_i \pm 2 w_i]`, and the choice
    # is the last i for which :math:`I_1, \ldots, I_i` have a common point.
    widths = non_increasing(widths)
    low = np.maximum.accumulate(values - 2 * widths)
    high = np.minimum.accumulate(values + 2 * widths)
    return _last_of_prefix(low <= high)


def slope_plus_plus_index(values, widths):
    r"""Return the last estimate that is close to every earlier one."""
    # The choice is the last i such that every :math:`j \le i` satisfies :math:`|\hat
    # V_j - \hat V_k| \le w_j + (\sqrt 6 - 1) w_k` for all :math:`k < j`.
    gaps = np.abs(values[:, None] - values)
    close = gaps <= widths[:, None] + PLUS_PLUS * widths
    later = np.triu(np.ones_like(close))  # only earlier ones count
    return _last_of_prefix((close | later).all(axis=1))


def non_increasing(widths):
    """Raise every width to the largest one that comes after it."""
    return np.maximum.accumulate(widths[::-1])[::-1]


def _last_of_prefix(agrees):
    """Index of the last True before the first False."""
    disagree = np.flatnonzero(~agrees)
    return int(disagree[0]) - 1 if disagree.size else len(agrees) - 1


# --------------------------------------------------------------------------------------

DELTA_PLUS_PLUS = 0.1  # one-sided, of the widths of SLOPE++
CHOICE = {"slope": slope_index, "slope++": slope_plus_plus_index}


class SlopeSearch(BaseSearch):
    r"""Choose along a path of candidates by Lepski's principle (SLOPE) [1]_ [2]_.

    The candidates are listed from the least to the most biased one, so that their
    standard errors fall: ``{"cmax": [None, 30, 10, 3, 1]}``. All are fitted on all
    rounds. As long as their intervals agree, the narrower one is preferred. The first
    that disagrees with an earlier one shows a bias. A candidate of :class:`DRns` with a
    large bias mass is left out of the path, because no interval includes this bias.
    Large means above 0.1, and above two of its standard errors. No rounds are held out,
    and no validator is needed. Read more in the :ref:`User Guide <slope>`.

    Parameters
    ----------
    estimator : evaluator or Pipeline
        It is cloned for every candidate.
    param_grid : dict or list of dicts
        The path, in the order of scikit-learn's `ParameterGrid`: list the values of
        one parameter in a dict, or one dict per candidate.
    scoring : EvaluatorScorer
        The scorer, which has the policy.
    method : {"slope", "slope++"}, default="slope"
        The last candidate that agrees with all earlier ones is chosen. `"slope"`: they
        agree if their intervals, value plus or minus twice the width, have a common
        point. `"slope++"`: they agree if each pair differs by at most the later width
        plus :math:`\sqrt 6 - 1` times the earlier one. Candidates are then sorted by
        width.
    width : float, default=None
        Standard errors per width. `None`: 1 for `"slope"`, Student's 90% quantile for
        `"slope++"`.
    refit : bool, default=True
        Whether to keep the chosen evaluator, which is fitted on all rounds.

    Attributes
    ----------
    best_index_ : int
        Index of the chosen candidate.
    best_params_ : dict
        Its parameters.
    best_estimator_ : evaluator or Pipeline
        The chosen evaluator, fitted on all rounds.
    best_score_ : float
        Minus its width.
    cv_results_ : dict
        By candidate: `params`, `value`, `standard_error`, `width`, `agrees`,
        `bias_alarm` and `mean_test_score`. The score is minus the width if the
        candidate agrees with all earlier ones, otherwise minus infinity.
    n_splits_ : int
        1: all rounds.
    refit_time_ : float
        Seconds in which the chosen candidate was fitted.
    scorer_ : EvaluatorScorer
        Used by `score`.

    Raises
    ------
    ValueError
        If the widths grow along the path, which is then in the wrong order. If a
        candidate has no value or no standard error. If all candidates have a large bias
        mass.

    See Also
    --------
    OPESearchCV : Chooses by a validator; for candidates without an order.

    References
    ----------
    .. [1] Su, Y., Srinath, P., & Krishnamurthy, A. (2020). Adaptive estimator
       selection for off-policy evaluation. ICML.
    .. [2] Tucker, G., & Lee, J. (2021). Improved estimator selection for off-policy
       evaluation. Workshop on Reinforcement Learning Theory, ICML.

    Examples
    --------
    >>> from skope_ope import EvaluatorScorer, IPS, SlopeSearch
    >>> from skope_ope.datasets import make_bandit_logs
    >>> logs, policy, truth = make_bandit_logs(random_state=0, return_truth=True)
    >>> search = SlopeSearch(IPS(), {"cmax": [None, 10.0, 5.0, 2.0]},
    ...                      scoring=EvaluatorScorer(policy)).fit(logs)
    >>> int(search.cv_results_["agrees"].sum()) == search.best_index_ + 1
    True
    """

    _parameter_constraints: dict = {
        "estimator": [HasMethods(["fit"])],
        "param_grid": [dict, list],
        "scoring": "no_validation",
        "method": [StrOptions(set(CHOICE))],
        "width": [Interval(Real, 0, None, closed="neither"), None],
        "refit": ["boolean"],
    }

    def __init__(
        self,
        estimator: AnyEvaluator,
        param_grid: Mapping[str, Any] | Sequence[Mapping[str, Any]],
        *,
        scoring: EvaluatorScorer | None = None,
        method: Literal["slope", "slope++"] = "slope",
        width: float | None = None,
        refit: bool = True,
    ) -> None:
        self.estimator = estimator
        self.param_grid = param_grid
        self.scoring = scoring
        self.method = method
        self.width = width
        self.refit = refit

    @fit_context(prefer_skip_nested_validation=False)
    def fit(self, logs: BanditLogs | SlateLogs, y: ArrayLike | None = None) -> Self:
        """Evaluate the path and choose.

        Parameters
        ----------
        logs : BanditLogs or SlateLogs
            All rounds.
        y : array-like of shape (n_rounds,), default=None
            Ignored: the logs hold actions and rewards.

        Returns
        -------
        self : SlopeSearch
        """
        scorer = self._checked_scorer()
        self._check_logs(logs, y)
        candidates = self._candidates()
        for warning in learned_warnings(scorer.policy, logs):
            warnings.warn(warning, stacklevel=3)  # 2 is what validates parameters
        fits = fits_by_model(self.estimator, logs, candidates)
        with fit_progress(self, logs) as progress:
            told = progress(candidates, len(candidates), "candidate")
            fitted, results, seconds = _evaluated(told, fits, scorer.policy)
        keys = [one.key for one in candidates]
        candidates = [one.params for one in candidates]
        values = np.array([one.value for one in results])
        errors = np.array([one.standard_error for one in results])
        biased = np.array([is_biased(one) for one in results])
        path = self._unbiased(biased, results, candidates)
        self._check_numbers(path, results, candidates)
        widths = errors * self._multiplier(len(logs))
        order = path[self._order(widths[path], [candidates[k] for k in path])]
        last = CHOICE[self.method](values[order], widths[order])
        self.best_index_ = int(order[last])
        agrees = np.zeros(len(values), dtype=bool)
        agrees[order[: last + 1]] = True
        columns = values, errors, widths, agrees, biased
        self._keep_results(candidates, columns, seconds)
        self.best_params_ = candidates[self.best_index_]
        self.best_score_ = -float(widths[self.best_index_])
        self.n_splits_, self.multimetric_, self.scorer_ = 1, False, scorer
        if self.refit:
            shared = fits[keys[self.best_index_]]
            best = fitted[self.best_index_]
            self.best_estimator_ = shared.final(self.best_params_, best)
            self.refit_time_ = seconds[self.best_index_]
        return self

    def _checked_scorer(self):
        if isinstance(self.scoring, EvaluatorScorer):
            return self.scoring
        if isinstance(self.scoring, PolicyScorer):
            raise TypeError(
                "SlopeSearch searches over evaluators and needs "
                "scoring=EvaluatorScorer(policy), got PolicyScorer. Search policies "
                "with OPESearchCV."
            )
        raise TypeError(
            "SlopeSearch needs scoring=EvaluatorScorer(policy), got "
            f"{type(self.scoring).__name__}: an evaluator's error is known only for a "
            "given policy."
        )

    def _unbiased(self, biased, results, candidates):
        """Return the candidates whose alarm of bias does not fire; warn of others."""
        path = np.flatnonzero(~biased)
        if len(path) == len(biased):
            return path
        first = int(np.flatnonzero(biased)[0])
        mass = float(results[first].diagnostics["bias_mass"])
        told = (
            f"have a large bias mass (the first, {candidates[first]}, has "
            f"{mass:.3g}): the acceptance ratio loses this share of the policy's "
            "rounds, and no interval includes the bias"
        )
        if not path.size:
            raise ValueError(
                f"all {len(biased)} candidates {told}. Give candidates with a smaller "
                "bias mass: a smaller q, or a smaller cmax."
            )
        text = f"{len(biased) - len(path)} of {len(biased)} candidates {told}. They "
        text += "are left out of the path."
        warnings.warn(OPEWarning(text, mass), stacklevel=4)
        return path

    def _check_numbers(self, path, results, candidates):
        numbers = np.array([[r.value, r.standard_error] for r in results])[path]
        bad = path[~np.isfinite(numbers).all(axis=1)]
        if bad.size:
            first = results[bad[0]]
            reason = f" {nan_reasons(first)[0]}" if first.warnings else ""
            raise ValueError(
                f"{bad.size} of {len(path)} candidates have no value or no standard "
                f"error. The first is {candidates[bad[0]]} (value {first.value:.6g}, "
                f"standard error {first.standard_error:.6g}).{reason} SLOPE compares "
                "intervals. Leave these candidates out, or give a policy that learns "
                "several trajectories (horizon, n_splits)."
            )

    def _multiplier(self, n_rounds):
        if self.width is not None:
            return self.width
        if self.method == "slope":
            return 1.0
        return float(stdtrit(max(n_rounds - 1, 1), 1 - DELTA_PLUS_PLUS))

    def _order(self, widths, candidates):
        if self.method == "slope++":
            return np.argsort(-widths, kind="stable")
        if len(widths) > 1 and widths[-1] > widths[0]:
            raise ValueError(
                "the path must go from the least to the most biased candidate, with "
                f"falling standard errors. Here they rise from {widths[0]:.4g} at "
                f"{candidates[0]} to {widths[-1]:.4g} at {candidates[-1]}. Reverse "
                "the list, or use method='slope++', which sorts by width."
            )
        growing = non_increasing(widths) > widths * (1 + 1e-9)
        if growing.any():
            where = candidates[int(np.flatnonzero(growing)[0])]
            told = (
                f"{growing.sum()} of {len(widths)} candidates have a narrower "
                f"interval than a later one, the first of them {where}. They get "
                "the later one's width. Check that the bias grows along the path."
            )
            warn_user([OPEWarning(told, int(growing.sum()))])
        return np.arange(len(widths))

    def _keep_results(self, candidates, columns, seconds):
        values, errors, widths, agrees, biased = columns
        score = np.where(agrees, -widths, -np.inf)
        rank = ranks(score)
        rank[self.best_index_] = 1
        self.cv_results_ = {
            "mean_fit_time": np.array(seconds),
            **param_columns(candidates),
            "params": candidates,
            "value": values,
            "standard_error": errors,
            "width": widths,
            "agrees": agrees,
            "bias_alarm": biased,
            "mean_test_score": score,
            "rank_test_score": rank,
        }


def is_biased(result):
    """Tell whether the alarm of bias came with a value: its history keeps much out."""
    return any(isinstance(warning, BiasWarning) for warning in result.warnings)


def _evaluated(candidates, fits, policy):
    """Return the fitted candidates, their values and seconds."""
    fitted, results, seconds = [], [], []
    horizons = set()
    for candidate in candidates:
        start = time.perf_counter()
        one = fits[candidate.key].fit(candidate.params)
        evaluator, _ = fitted_part(one)
        refuse_others(evaluator)
        if is_adaptive(policy):
            horizons.add(common_horizon(evaluator))
        results.append(evaluator._result(policy, None, None))
        fitted.append(one)
        seconds.append(time.perf_counter() - start)
    if len(horizons) > 1:
        raise ValueError(
            "the policy learns, so its value depends on the horizon. The candidates "
            f"have the horizons {sorted(horizons)}, and their intervals cannot be "
            "compared. Give all the same horizon."
        )
    return fitted, results, seconds
