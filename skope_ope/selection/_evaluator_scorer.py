# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""The error of an evaluator, estimated on rounds that it has not seen."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from skope_ope._inside import fitted_part, inside
from skope_ope._types import AnyEvaluator, PolicyLike
from skope_ope._user_line import warn_user
from skope_ope.evaluators.base._evaluator import BaseEvaluator
from skope_ope.evaluators.core._wrapped import bare, with_seed
from skope_ope.evaluators.sequential import DRns, RejectionSampling
from skope_ope.evaluators.slate import PseudoInverse
from skope_ope.evaluators.static import DirectMethod, DoublyRobust
from skope_ope.exceptions import ModelErrorWarning, OPEWarning
from skope_ope.logs import BanditLogs, SlateLogs
from skope_ope.logs._row_container import in_stored_order
from skope_ope.logs.lazy._lazy_logs import kind_of
from skope_ope.policies._base import BasePolicy
from skope_ope.selection._candidates import (
    check_policy_of_search,
    is_adaptive,
    is_logs,
    nan_reasons,
    refuse_array_models,
    refuse_others,
    rows_in_stored_order,
    unfit_warnings,
    with_propensities,
)
from skope_ope.selection._shared_fits import SharedPolicy


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
UNBIASED = {"bandit": DoublyRobust, "slate": PseudoInverse}


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
        validator = UNBIASED[kind]()
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
