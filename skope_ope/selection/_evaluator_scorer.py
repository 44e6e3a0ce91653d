# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""The error of an evaluator, estimated on rounds that it has not seen."""

import warnings

import numpy as np
from sklearn.base import clone
from sklearn.utils.validation import check_is_fitted

from skope_ope.logs import BanditLogs
from skope_ope.logs._fingerprint import fingerprint
from skope_ope.logs._shelf import (
    Identity,
    give_shelf,
    has_room,
    in_stored_order,
)
from skope_ope.policies import action_probabilities
from skope_ope.reward_models._cross_fit import leave_for_others
from skope_ope.selection._candidates import (
    check_evaluator,
    check_policy_of_search,
    fitted_part,
    is_adaptive,
    is_logs,
    rows_in_stored_order,
    warn_of_bad_judges,
    with_propensities,
)
from skope_ope.selection._validators import (
    check_validator,
    common_horizon,
    validator_for,
)


class EvaluatorScorer:
    r"""Score evaluators in a search: minus their squared error against a validator.

    With :math:`\hat V_h` the candidate's value of the policy on the training part and
    :math:`\hat V` that of an unbiased validator on the held-out part [1]_,

    .. math:: \text{score} = -(\hat V_h(\text{train})
        - \hat V(\text{held-out}))^2,

    whose expectation is minus (bias of the candidate)\ :sup:`2` minus the variances of
    both. The validator's variance is the same for all candidates, so the greatest mean
    score belongs to the least mean squared error. A larger *estimate* says nothing
    about the evaluator: `scoring=None` is refused. Read more in the
    :ref:`User Guide <selection>`.

    Parameters
    ----------
    policy : policy or str
        The policy whose value matters; or the name of a column of the logs with its
        probabilities. Arrays are refused: folds have other rows.
    validator : evaluator, default=None
        An unbiased evaluator, cloned and fitted on the held-out part, its reward model
        cross-fitted there, the same for all candidates. `None`: `DoublyRobust()`; for
        a policy that learns `RejectionSampling` at the horizon of the candidate.
        `SNDR(reward_model=...)`, unbiased up to terms of order 1/n, chooses better
        where few rounds carry large weights.
    cache : bool, default=True
        Keep what candidates share on a fold (predictions of equal reward models, the
        policy's probabilities, the validator's value) while the search runs, in at
        most 1 GiB; scores are the same without.

    See Also
    --------
    PolicyScorer : Scores policies.
    one_standard_error : Chooses by the scores of all folds, cautiously.
    OPESearchCV : Splits the logs for every candidate in another proportion.

    Notes
    -----
    For all scikit-learn's searches, curves and `cross_validate`, with the evaluator
    alone, at the end of a Pipeline of logs -> logs steps, or inside of another search.
    The held-out logs are taken as they are; the steps of a Pipeline are applied only
    where propensities are missing. Rows that a splitter did not give in the order of
    the logs are put in order for evaluators that need it (see `in_order`). Warnings of
    single evaluations are left out, except where a candidate has no value (its score
    is then NaN), where no held-out round bears on the policy, or where the policy has
    learned from held-out rounds.

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

    def __init__(self, policy, validator=None, *, cache=True):
        check_policy_of_search(policy, type(self).__name__)
        check_validator(validator, is_adaptive(policy))
        self.policy = policy
        self.validator = validator
        self.cache = cache
        self.__name__ = "neg_validated_error"  # the displays of curves ask for it
        self._identity = Identity()

    def __call__(self, estimator, X, y=None):
        """Score a fitted evaluator.

        Parameters
        ----------
        estimator : evaluator, Pipeline or search
            Fitted on the training part.
        X : BanditLogs or SlateLogs
            The held-out part.
        y : None
            Ignored.

        Returns
        -------
        score : float
            At most 0; NaN where the candidate has no value.
        """
        if not is_logs(X):
            raise TypeError(
                f"EvaluatorScorer scores an evaluator on held-out logs, got "
                f"{type(X).__name__}. For the value of a policy call "
                "search.best_estimator_.score(policy)."
            )
        candidate, pipeline = fitted_part(estimator)
        check_evaluator(candidate)
        check_is_fitted(candidate)
        X = with_propensities(X, pipeline)
        horizon = common_horizon(candidate) if is_adaptive(self.policy) else None
        if candidate.__sklearn_tags__().order_dependent:
            self._shelf_of(X)
            X = in_stored_order(X)
        value = self._trained_value(candidate)
        return -((value - self._held_out_value(X, horizon)) ** 2)

    def _trained_value(self, candidate):
        """Value of the policy on the rounds that the candidate was fitted on."""
        logs = candidate.logs_
        shelf = self._shelf_of(logs)
        if candidate.__sklearn_tags__().order_dependent and not logs._in_order:
            model = rows_in_stored_order(candidate._model_of_fit, logs)
            logs = in_stored_order(logs)
            candidate = clone(candidate).fit(logs, reward_model=model)
        elif shelf is not None:
            leave_for_others(getattr(candidate, "reward_source_", None))
        result = candidate._result(self._policy_on(logs), None, None)
        if np.isnan(result.value):
            for warning in result.warnings:
                warnings.warn(warning, stacklevel=3)
        return float(result.value)

    def _held_out_value(self, logs, horizon):
        shelf = self._shelf_of(logs)
        if shelf is None:
            return self._validate(logs, horizon)
        key = ("validator", self._token(), horizon)
        return shelf.get(key, lambda: self._validate(logs, horizon))

    def _validate(self, logs, horizon):
        validator = validator_for(logs, self.validator, horizon)
        if validator.__sklearn_tags__().order_dependent:
            logs = in_stored_order(logs)
        result = validator.fit(logs)._result(self._policy_on(logs), None, None)
        if np.isnan(result.value):
            why = "; ".join(str(warning) for warning in result.warnings)
            raise ValueError(
                f"the validator {type(validator).__name__} has no value on the "
                f"{len(logs)} held-out rounds: {why} Hold out more rounds, shorten the "
                "horizon, or pass another validator."
            )
        warn_of_bad_judges(result, self.policy, logs, stacklevel=4)
        return float(result.value)

    def _token(self):
        return self._identity.token(self.policy, self.validator)

    def __getstate__(self):
        # Workers get a copy with every task, and their shelves outlive a search: the
        # token tells the scorer, and what its objects hold tells whether they changed.
        content = fingerprint(self.policy, self.validator)
        token = None if content is None else f"{self._token()} {content}"
        return {**self.__dict__, "_identity": Identity(token)}

    def _shelf_of(self, logs):
        return give_shelf(logs, owner=self) if self.cache else None

    def _policy_on(self, logs):
        """Return the policy, or its probabilities of these rounds, computed once."""
        shelf = logs._shelf if self.cache else None
        known = isinstance(self.policy, str) or is_adaptive(self.policy)
        if shelf is None or known or not isinstance(logs, BanditLogs):
            return self.policy
        n_bytes = 8 * len(logs) * logs.n_actions
        key = ("policy", self._token())
        if key not in shelf and not has_room(n_bytes):
            return self.policy
        return shelf.get(key, lambda: action_probabilities(self.policy, logs), n_bytes)

    def __repr__(self):
        validator = "" if self.validator is None else f", {self.validator!r}"
        return f"EvaluatorScorer({self.policy!r}{validator})"
