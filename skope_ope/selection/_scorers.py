# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Scores on held-out rounds: the value of a policy, the error of an evaluator."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from skope_ope._sklearn import fitted_part, inside
from skope_ope._types import AnyEvaluator, PolicyLike
from skope_ope.evaluators.base._evaluator import BaseEvaluator
from skope_ope.evaluators.core._estimate import Estimate
from skope_ope.evaluators.core._functions import ratio
from skope_ope.evaluators.core._slates import SlateValue
from skope_ope.evaluators.core._wrapped import bare, with_seed
from skope_ope.evaluators.sequential import DRns, RejectionSampling
from skope_ope.evaluators.slate import PseudoInverse
from skope_ope.evaluators.static import DirectMethod, DoublyRobust
from skope_ope.exceptions import (
    LowOverlapWarning,
    ModelErrorWarning,
    OPEWarning,
    SupportWarning,
    warn_user,
)
from skope_ope.logs import BanditLogs, SlateLogs
from skope_ope.logs._row_container import in_stored_order, known_range
from skope_ope.logs._shown_numbers import figure
from skope_ope.logs.lazy._lazy_logs import kind_of
from skope_ope.policies._action_probabilities import refuse_non_policies
from skope_ope.policies._base import BasePolicy
from skope_ope.policies.slate._slate_policy import is_slate_policy
from skope_ope.selection._candidates import (
    SharedPolicy,
    check_policy_of_search,
    is_adaptive,
    is_logs,
    nan_reasons,
    refuse_array_models,
    refuse_others,
    rows_in_stored_order,
    shared_source,
    unfit_warnings,
    with_propensities,
)


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


# -- the error of an evaluator on rounds that it has not seen --------------------------


class EvaluatorScorer:
    r"""Score evaluators in a search: minus their squared error against a validator.

    With :math:`\hat V_h` the candidate's value of the policy on the training part and
    :math:`\hat V` that of an unbiased validator on the held-out part [1]_,

    .. math:: \text{score} = -(\hat V_h(\text{train})
        - \hat V(\text{held-out}))^2,

    whose expectation is minus (bias of the candidate)\ :sup:`2` minus the variances of
    both. The validator's variance is the same for all candidates. So the candidate with
    the greatest expected score has the smallest mean squared error. A larger *estimate*
    does not make an evaluator better, so `scoring=None` is refused. Read more in the
    :ref:`User Guide <selection>`.

    Parameters
    ----------
    policy : policy or str
        The policy to evaluate, or the name of a column of the logs with its
        probabilities. Arrays are refused, because the folds have other rows.
    validator : evaluator, Pipeline or search, default=None
        An unbiased evaluator, the same for all candidates. It is cloned and fitted on
        the held-out part, and its reward model is cross-fitted there. For a fitted
        search the best evaluator is used. An unfitted search is fitted to every
        held-out part. The steps of a Pipeline are applied to the held-out logs. `None`:
        `DoublyRobust()`, or, for a policy that learns, `RejectionSampling` at the
        candidate's horizon. If few rounds have large weights, `SNDR(reward_model=...)`
        chooses better. Its bias is of order 1/n.

    See Also
    --------
    PolicyScorer : Scores policies.
    one_standard_error : Chooses by the scores of all folds, cautiously.
    OPESearchCV : Splits the logs for every candidate in another proportion.

    Notes
    -----
    It works with all of scikit-learn's searches and curves, and with `cross_validate`.
    The evaluator may be by itself, the last step of a Pipeline of logs -> logs steps,
    or inside another search. The steps of a Pipeline are applied to held-out logs only
    if propensities are missing. Evaluators that need the rows in order get them in
    order (see `in_order`). Warnings of single evaluations are hidden, with three
    exceptions. A candidate has no value: its score is then NaN. The policy takes no
    action of the held-out rounds. The policy has learned from held-out rounds.

    References
    ----------
    .. [1] Cief, M., Kveton, B., & Kompan, M. (2025). Cross-validated off-policy
       evaluation. AAAI.

    Examples
    --------
    >>> from sklearn.linear_model import Ridge
    >>> from sklearn.model_selection import GridSearchCV
    >>> from skope_ope import DRos, EvaluatorScorer
    >>> from skope_ope.datasets import make_bandit_logs
    >>> logs, policy, truth = make_bandit_logs(random_state=0, return_truth=True)
    >>> search = GridSearchCV(DRos(reward_model=Ridge()), {"lam": [0, 10, 1000]},
    ...                       scoring=EvaluatorScorer(policy)).fit(logs)
    >>> value = search.best_estimator_.evaluate(policy)
    >>> low, high = value.confidence_interval()
    >>> bool(low < truth.value < high)
    True
    """

    def __init__(self, policy: PolicyLike, validator: AnyEvaluator = None) -> None:
        check_policy_of_search(policy, type(self).__name__)
        check_validator(validator, is_adaptive(policy))
        self.policy = policy
        self.validator = validator
        self.__name__ = "neg_validated_error"  # the displays of curves ask for it

    def __call__(self, estimator, X, y=None):
        """Score a fitted evaluator."""
        if not is_logs(X):
            raise TypeError(
                "EvaluatorScorer scores an evaluator on held-out logs, got "
                f"{kind_of(X)}. To get the value of a policy, call "
                "search.best_estimator_.score(policy)."
            )
        candidate, pipeline = fitted_part(estimator)
        refuse_others(candidate)
        check_is_fitted(candidate)
        return self.on(with_propensities(X, pipeline))(estimator)

    def on(
        self,
        logs: BanditLogs | SlateLogs,
        learned: BanditLogs | SlateLogs | None = None,
    ) -> Callable[..., Any]:
        """Return the scorer of evaluators on one held-out part.

        Parameters
        ----------
        logs : BanditLogs or SlateLogs
            The held-out part.
        learned : BanditLogs or SlateLogs, default=None
            The training part, where several candidates were fitted on it: the policy's
            probabilities for it are computed once.

        Returns
        -------
        score : callable
            `score(estimator)`, in which the validator is fitted once.
        """
        return HeldOutError(self.policy, self.validator, logs, learned)

    def __repr__(self):
        validator = "" if self.validator is None else f", {self.validator!r}"
        return f"EvaluatorScorer({self.policy!r}{validator})"


class HeldOutError:
    """Scores of evaluators on one held-out part."""

    def __init__(self, policy, validator, logs, learned=None):
        self.policy, self.validator = policy, validator
        self.logs, self.learned = logs, learned
        self._shared_policy = SharedPolicy(policy, learned)
        self._validated = {}  # value of the validator, by horizon and order

    def serves(self, logs, learned):
        """Tell whether these are the parts that it was made for."""
        return logs is self.logs and learned is self.learned

    def __call__(self, estimator):
        """Score a fitted evaluator."""
        score, warned = self.judged(estimator)
        warn_user(warned)
        return score

    def judged(self, estimator):
        """Return the score of a fitted evaluator, and why it is NaN, as warnings."""
        candidate, _ = fitted_part(estimator)
        refuse_others(candidate)
        horizon = common_horizon(candidate) if is_adaptive(self.policy) else None
        ordered = candidate.__sklearn_tags__().order_dependent
        result = self._trained(candidate, ordered)
        key = (horizon, ordered and not self.logs._in_order)
        if key not in self._validated:
            logs = in_stored_order(self.logs) if ordered else self.logs
            self._validated[key] = self._validate(logs, horizon)
        score = -((float(result.value) - self._validated[key]) ** 2)
        return score, nan_reasons(result) if np.isnan(score) else []

    def _trained(self, candidate, ordered):
        """Value of the policy on the rounds that the candidate was fitted on."""
        logs = candidate.logs_
        if ordered and not logs._in_order:
            model = rows_in_stored_order(candidate._model_of_fit, logs)
            candidate = clone(candidate).fit(in_stored_order(logs), reward_model=model)
        policy = self._shared_policy.on(candidate.logs_)
        return candidate._result(policy, None, None)

    def _validate(self, logs, horizon):
        validator, logs = bare(self.validator, logs, tune=True)
        validator = validator_for(logs, validator, horizon)
        if validator.__sklearn_tags__().order_dependent:
            logs = in_stored_order(logs)
        result = validator.fit(logs)._result(self.policy, None, None)
        if np.isnan(result.value):
            why = "; ".join(str(warning) for warning in result.warnings)
            raise ValueError(
                f"the validator {type(validator).__name__} has no value on the "
                f"{len(logs)} held-out rounds: {why} Hold out more rounds, shorten the "
                "horizon, or pass another validator."
            )
        warn_user(unfit_warnings(result, self.policy, logs))
        return float(result.value)


# -- unbiased evaluators that check others on held-out rounds --------------------------

# by kind of logs, for policies that do not learn; of slates where slots add up
VALIDATORS = {"bandit": DoublyRobust, "slate": PseudoInverse}


def check_validator(validator, policy_learns):
    """Raise where something is no validator, or none of policies that learn."""
    if validator is None:
        return
    if isinstance(validator, type):
        raise TypeError(
            f"validator must be an evaluator, got the class {validator.__name__}; make "
            "an instance."
        )
    validator = inside(validator)
    if not isinstance(validator, BaseEvaluator):
        what = "policy " if isinstance(validator, BasePolicy) else ""
        raise TypeError(
            f"validator must be an evaluator such as DoublyRobust(), got the {what}"
            f"{type(validator).__name__}."
        )
    refuse_array_models(validator, "validator")
    if policy_learns and not validator.__sklearn_tags__().order_dependent:
        raise ValueError(
            f"{type(validator).__name__} cannot validate: the policy learns while it "
            "acts, and only simulated histories of the same length give its value "
            "without bias. Use validator=None, which is RejectionSampling at the "
            "candidate's horizon, or Replay on logs of a uniform logger."
        )
    biased = _bias_warning(validator, policy_learns)
    if biased is not None:
        warnings.warn(biased, stacklevel=3)


def _bias_warning(validator, policy_learns):
    """Return a warning about a validator that is biased by design, or None."""
    if isinstance(validator, DirectMethod):
        return ModelErrorWarning(
            "the validator DirectMethod has the error of its reward model, and prefers "
            "candidates that share it. DoublyRobust with the same model has none."
        )
    quantile = isinstance(validator, DRns) and validator.acceptance == "quantile"
    if policy_learns and quantile and validator.q > 0:
        return OPEWarning(
            f"the validator DRns with q={validator.q:g} is biased where the policy "
            "learns, and prefers candidates with the same bias. Use validator=None, "
            "which is RejectionSampling, or acceptance='worst_case'.",
            validator.q,
        )
    return None


def common_horizon(candidate):
    """Return the horizon at which a policy that learns is valued."""
    name = type(candidate).__name__
    if not hasattr(candidate, "horizon"):
        remedy = (
            f" Outside a search, {name} simulates the policy along all contexts: "
            f"{name}(...).fit(logs).score(policy)."
            if isinstance(candidate, DirectMethod)
            else ""
        )
        raise ValueError(
            f"the policy learns, and {name} has no horizon. A search compares "
            "candidates by histories of the same length. Search over DRns, "
            f"RejectionSampling or Replay with horizon=....{remedy}"
        )
    horizon = getattr(candidate, "horizon", None)
    if horizon is None:
        raise ValueError(
            f"the policy learns and {type(candidate).__name__} has no horizon. Every "
            "candidate would evaluate a history of another length, and their errors "
            "could not be compared. Set horizon=..., the same for all candidates, "
            "short enough for a part of the logs."
        )
    return horizon


def validator_for(logs, validator=None, horizon=None):
    """Return a fresh, seeded validator."""
    if validator is not None:
        validator = clone(validator)
    elif horizon is not None:
        validator = RejectionSampling()
    else:
        kind = "bandit" if isinstance(logs, BanditLogs) else "slate"
        validator = VALIDATORS[kind]()
    if horizon is not None:
        own = getattr(validator, "horizon", None)
        if own not in (None, horizon):
            raise ValueError(
                f"the validator has horizon={own}, the candidate horizon={horizon}, "
                "so their values are about different horizons. Leave the validator's "
                "horizon at None."
            )
        validator.set_params(horizon=horizon)
    return with_seed(validator, check_random_state(0))
