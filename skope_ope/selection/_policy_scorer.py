# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""The off-policy value of a policy on rounds that it has not learned from."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.utils import check_random_state

from skope_ope._inside import fitted_part, inside
from skope_ope._types import AnyEvaluator
from skope_ope._user_line import warn_user
from skope_ope.evaluators.base._evaluator import BaseEvaluator
from skope_ope.evaluators.core._estimate import Estimate
from skope_ope.evaluators.core._functions import ratio
from skope_ope.evaluators.core._slates import SlateValue
from skope_ope.evaluators.core._wrapped import bare, with_seed
from skope_ope.exceptions import LowOverlapWarning, SupportWarning
from skope_ope.logs import BanditLogs, SlateLogs
from skope_ope.logs._known_range import known_range
from skope_ope.logs._row_container import in_stored_order
from skope_ope.logs._shown_numbers import figure
from skope_ope.logs.lazy._lazy_logs import kind_of
from skope_ope.policies._action_probabilities import refuse_non_policies
from skope_ope.policies.slate._slate_policy import is_slate_policy
from skope_ope.selection._candidates import (
    is_logs,
    nan_reasons,
    refuse_array_models,
    unfit_warnings,
    with_propensities,
)
from skope_ope.selection._shared_fits import shared_source


class PolicyScorer:
    r"""Score policies in a search: their off-policy value on held-out logs.

    The search fits the policy on the training part. A clone of `evaluator` is fitted on
    the held-out part, and its reward model is cross-fitted there. So no model predicts
    rewards that it has seen, and no policy is evaluated on rounds that it learned from.
    The `best_score_` of a search is the best of many, so it is too high. The score of
    the search on an outer fold is not. The steps of a Pipeline are applied to held-out
    logs only if propensities are missing. Read more in the :ref:`User Guide
    <policy_search>`.

    Parameters
    ----------
    evaluator : evaluator, Pipeline or search
        It is cloned. Its random numbers are seeded with 0, so that they are the same
        for all policies of a search. For a fitted search the best evaluator is used. An
        unfitted search is fitted to every held-out part. The steps of a Pipeline are
        applied to the held-out logs.

    Warns
    -----
    SupportWarning
        If the value leaves out rounds, such as those of slates that the logger never
        shows. If these are more than 5%, the score is NaN: other policies would be
        scored on other rounds.
    LowOverlapWarning
        If the score depends on few effective rounds. For values that are divided by the
        weights there are two more rules. The score is NaN if the weights average less
        than 0.25. It is also NaN if the value is outside the known range of the rewards
        by more than a quarter of this range. If it is outside by less, it is moved to
        the end of the range.

    See Also
    --------
    EvaluatorScorer : Scores evaluators.
    one_standard_error : Chooses by value minus one standard error.
    compare_policies : Compares a few given policies, with intervals.

    Examples
    --------
    >>> from sklearn.linear_model import Ridge
    >>> from sklearn.model_selection import GridSearchCV
    >>> from skope_ope import ClassifierPolicy, DoublyRobust, PolicyScorer
    >>> from skope_ope.datasets import make_bandit_logs
    >>> logs = make_bandit_logs(3000, reward="binary", random_state=0)
    >>> search = GridSearchCV(ClassifierPolicy(), {"epsilon": [0.0, 1.0]},
    ...                       scoring=PolicyScorer(DoublyRobust(reward_model=Ridge())))
    >>> search.fit(logs).best_params_
    {'epsilon': 0.0}
    """

    def __init__(self, evaluator: AnyEvaluator) -> None:
        check_search_evaluator(evaluator, type(self).__name__)
        self.evaluator = evaluator
        self.__name__ = "policy_value"  # the displays of curves ask for it

    def __call__(self, estimator, X, y=None):
        """Score a fitted policy."""
        if not is_logs(X):
            raise TypeError(
                f"PolicyScorer values a policy on held-out logs, got "
                f"{kind_of(X)}. Fit the search on BanditLogs, search.fit(logs); "
                "its score is search.score(logs)."
            )
        last, pipeline = fitted_part(estimator)
        check_policy(estimator, last)
        return self.on(with_propensities(X, pipeline))(estimator)

    def on(
        self,
        logs: BanditLogs | SlateLogs,
        learned: BanditLogs | SlateLogs | None = None,
    ) -> Callable[..., Any]:
        """Return the scorer of policies on one held-out part.

        Parameters
        ----------
        logs : BanditLogs or SlateLogs
            The held-out part.
        learned : BanditLogs or SlateLogs, default=None
            Given where several policies are to be scored: the predictions of the
            reward model are then kept.

        Returns
        -------
        score : callable
            `score(estimator)`; the evaluator is fitted once.
        """
        return HeldOutValue(self.evaluator, logs, several=learned is not None)

    def __repr__(self):
        return f"PolicyScorer({self.evaluator!r})"


class HeldOutValue:
    """Scores of policies on one held-out part."""

    def __init__(self, evaluator, logs, several=False):
        self.logs, self.several = logs, several
        self.evaluator = evaluator
        self._fitted = None

    def serves(self, logs, learned):
        """Tell whether this is the part that it was made for."""
        return logs is self.logs

    def __call__(self, estimator):
        """Score a fitted policy."""
        score, warned = self.judged(estimator)
        warn_user(warned)
        return score

    def judged(self, estimator):
        """Return the score of a fitted policy, and warnings: why it is NaN first."""
        check_policy(estimator, fitted_part(estimator)[0])
        if self._fitted is None:
            self._fitted = self._fit()
        result = self._fitted._result(estimator, None, None)
        score, warned = judged(result, self._fitted)
        if not np.isnan(result.value):
            warned += unfit_warnings(result, estimator, self._fitted.logs_)
        return score, warned

    def _fit(self):
        evaluator, logs = bare(self.evaluator, self.logs, tune=True)
        evaluator = with_seed(clone(evaluator), check_random_state(0))
        if evaluator.__sklearn_tags__().order_dependent:
            logs = in_stored_order(logs)
        fitted = clone(evaluator).fit(logs)
        source = shared_source(fitted) if self.several else None
        if source is None:
            return fitted
        return clone(evaluator).fit(logs, reward_model=source)


def check_policy(estimator, last):
    """Refuse to score anything but a policy by its value."""
    if isinstance(last, BaseEvaluator):
        raise TypeError(
            f"PolicyScorer scores policies, got the evaluator {type(last).__name__}. "
            "In a search over evaluators pass scoring=EvaluatorScorer(policy)."
        )
    if not is_slate_policy(last):
        refuse_non_policies(estimator)


def check_search_evaluator(evaluator, user):
    """Refuse what is no evaluator, or one for its own rows only."""
    if isinstance(evaluator, type):
        raise TypeError(
            f"{user} expects an evaluator, got the class {evaluator.__name__}; make an "
            "instance."
        )
    found = inside(evaluator)
    if not isinstance(found, BaseEvaluator):
        raise TypeError(
            f"{user} expects an evaluator such as DoublyRobust(reward_model=Ridge()), "
            f"got {type(found).__name__}. The policies are the candidates. To search "
            "over evaluators, pass scoring=EvaluatorScorer(policy)."
        )
    refuse_array_models(evaluator, user)


# -- which values of policies are scores, and what is to be said of them ---------------
# A search takes the greatest of many scores, and so finds every value that is great for
# another reason than the policy: weights that cancel, rounds that are not counted. Such
# values are no scores. Those of unbiased evaluators are, wherever they lie: what makes
# one of them too great makes another too small.

MOST_LEFT_OUT = 0.05  # share of the rounds that a value may leave out
FAR_OUTSIDE = 0.25  # ranges of the rewards by which a weighted mean may miss theirs
LEAST_MEAN_WEIGHT = 0.25  # mean weight, which should be one


def judged(result, evaluator):
    """Return the score that the value of a policy is, and what is to be said of it."""
    if np.isnan(result.value):
        return result.value, nan_reasons(result)
    value, warned = result.value, []
    for rule in (_by_support, _by_rounds, _by_weights, _by_range):
        value, found = rule(value, result, evaluator)
        warned += found
        if np.isnan(value):
            return value, warned
    return float(value), warned + _of_size(result)


def _by_support(value, result, evaluator):
    """Refuse a value of the reward model alone: no logged action is taken."""
    masses = [w.value for w in result.warnings if isinstance(w, SupportWarning)]
    if not any(mass and mass > 1 - 1e-9 for mass in masses):
        return value, []
    text = (
        "the score is NaN: the logger never takes the policy's actions. "
        f"{figure(value)} is only what the reward model of {result.estimator} "
        "predicts for them. Leave the policy out, or log its actions."
    )
    return np.nan, [SupportWarning(text, 1.0)]


def _by_rounds(value, result, evaluator):
    """Refuse a value that leaves out rounds which others do not."""
    share = result.diagnostics.get("left_out_share", 0.0)
    if not share:
        return value, []
    where = (
        f"{share:.1%} of the {result.n_rounds:,} held-out rounds, in which the logger "
        "never shows what the policy shows"
    )
    if share <= MOST_LEFT_OUT:
        text = f"the score of {result.estimator} leaves out {where}."
        return value, [SupportWarning(text, share)]
    text = (
        f"the score is NaN: {result.estimator} has no information on the policy in "
        f"{where}, and {figure(value)} is its value in the others. A search compares "
        f"policies on the same rounds (at most {MOST_LEFT_OUT:.0%} may be left out). "
        "Change the policy there, or use compare_policies, which compares on common "
        "rounds."
    )
    return np.nan, [SupportWarning(text, share)]


def _by_weights(value, result, evaluator):
    """Refuse what is divided by weights that sum to little."""
    mean = _mean_weight(result, evaluator)
    if mean is None or mean >= LEAST_MEAN_WEIGHT:
        return value, []
    text = (
        f"the score is NaN: the weights of {result.estimator} average "
        f"{figure(mean, 3)}, not 1, and {figure(value)} is divided by them. Hold out "
        "more rounds, or score by an evaluator with a reward model."
    )
    return np.nan, [LowOverlapWarning(text, mean)]


def _by_range(value, result, evaluator):
    """Refuse a weighted mean of rewards beyond their range: its weights cancel."""
    limits = known_range(evaluator.logs_)
    if limits is None or not _is_weighted_mean(result):
        return value, []
    low, high = limits
    inside = min(max(value, low), high)
    if abs(value - inside) <= 1e-9 * (high - low):
        return value, []
    told = (
        f"{result.estimator} gave {figure(value)}, a weighted mean of rewards that "
        "lie in "
        f"[{figure(low)}, {figure(high)}]"
    )
    if abs(value - inside) > FAR_OUTSIDE * (high - low):
        text = (
            f"the score is NaN: {told}. Positive and negative weights nearly cancel. "
            "Hold out more rounds, or score by an evaluator that does not divide by "
            "the weights."
        )
        return np.nan, [LowOverlapWarning(text, value)]
    return inside, [LowOverlapWarning(f"the score is {figure(inside)}: {told}.", value)]


def _of_size(result):
    """Say once that scores rest on few rounds; the text is the same for all scores."""
    found = [one for one in result.warnings if isinstance(one, LowOverlapWarning)]
    if not any(one.value for one in found):  # 0: the value comes from nothing
        return []
    size = result.effective_sample_size
    return [
        LowOverlapWarning(
            f"scores of {result.estimator} rest on few effective rounds of the "
            "held-out part, and the best score may be best by chance. Hold out more "
            "rounds, and choose with refit=one_standard_error.",
            size,
        )
    ]


def _is_weighted_mean(result):
    """Tell whether a value is a mean of rewards, divided by that of the weights."""
    estimate = result._estimate
    if not isinstance(estimate, Estimate):
        return False
    return getattr(estimate.combine, "combine", estimate.combine) is ratio


def _mean_weight(result, evaluator):
    """Get the mean weight of a weighted mean, 1 in expectation, where it is known."""
    # Weights of slates are known as they were clipped, and others as they were.
    clipped = getattr(evaluator, "cmax", None) is not None
    known = result.diagnostics
    if not _is_weighted_mean(result) or "mean_weight" not in known:
        return None
    if clipped and isinstance(result, SlateValue):
        return None
    return known["mean_weight"] + 1 - known.get("expected_weight", 1.0)
