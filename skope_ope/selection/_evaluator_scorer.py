# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""The error of an evaluator, estimated on rounds that it has not seen."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from sklearn.base import clone
from sklearn.utils.validation import check_is_fitted

from skope_ope._inside import fitted_part
from skope_ope._user_line import warn_user
from skope_ope.evaluators.core._wrapped import bare
from skope_ope.logs._row_container import in_stored_order
from skope_ope.logs.lazy._kind_of import kind_of
from skope_ope.selection._candidates import (
    check_evaluator,
    check_policy_of_search,
    is_adaptive,
    is_logs,
    reasons_of,
    rows_in_stored_order,
    unfit_warnings,
    with_propensities,
)
from skope_ope.selection._shared_fits import SharedPolicy
from skope_ope.selection._validators import (
    check_validator,
    common_horizon,
    validator_for,
)

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from skope_ope._types import AnyEvaluator, PolicyLike
    from skope_ope.logs._bandit_logs import BanditLogs
    from skope_ope.logs._slate_logs import SlateLogs


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
        check_evaluator(candidate)
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
        check_evaluator(candidate)
        horizon = common_horizon(candidate) if is_adaptive(self.policy) else None
        ordered = candidate.__sklearn_tags__().order_dependent
        result = self._trained(candidate, ordered)
        key = (horizon, ordered and not self.logs._in_order)
        if key not in self._validated:
            logs = in_stored_order(self.logs) if ordered else self.logs
            self._validated[key] = self._validate(logs, horizon)
        score = -((float(result.value) - self._validated[key]) ** 2)
        return score, reasons_of(result) if np.isnan(score) else []

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
