# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Several policies, one of which is drawn in every round."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from sklearn.base import clone
from sklearn.utils import get_tags
from sklearn.utils.metaestimators import available_if

from skope_ope._progress import TellsOfFit, step
from skope_ope._types import Array, ArrayLike, PolicyLike
from skope_ope.logs import BanditLogs
from skope_ope.logs._row_container import own
from skope_ope.logs._validation import label_codes
from skope_ope.policies._action_probabilities import (
    action_probabilities,
    answers_alone,
    context_probabilities,
    refuse_non_policies,
    unwrap,
)
from skope_ope.policies._adaptive import AdaptivePolicy
from skope_ope.policies._base import FitFreePolicy, mixture_weights, n_rows


def _members_answer_alone(mixture):
    """Tell whether all members give `logged_proba` and `mass_on`."""
    mixture._check()
    return all(answers_alone(policy) for policy in mixture._members)


class MixtureMembers(TellsOfFit):
    """What mixtures of policies over actions and over slates share."""

    _has_steps = True

    @property
    def _members(self):
        return [unwrap(p) for p in getattr(self, "policies_", self.policies)]

    def fit(self, X, y=None):
        """Fit a clone of every policy.

        Parameters
        ----------
        X : logs, or array-like of shape (n_samples, n_features)
            The data that the policies learn from.
        y : array-like of shape (n_samples,), default=None
            Action labels or targets, if `X` are contexts or features.

        Returns
        -------
        self : estimator
            The fitted mixture.
        """
        self._check()
        self.policies_ = []
        for policy in map(clone, self.policies):
            with step(self, X, "policy", policy):
                self.policies_.append(policy.fit(X, y))
        return self

    def _mean(self, method, logs, *args):
        return sum(
            weight * getattr(policy, method)(own(logs, policy), *args)
            for policy, weight in zip(self._members, self._check(), strict=True)
        )


class MixturePolicy(MixtureMembers, FitFreePolicy):
    r"""Draw one of several policies in every round and act by it.

    .. math:: \pi(a|x) = \sum_j w_j \pi_j(a|x)

    Parameters
    ----------
    policies : list of policies
        You can evaluate a mixture of fitted policies without `fit`. `fit` fits clones.
    weights : array-like of shape (n_policies,)
        Probabilities of the policies; they sum to one.

    Attributes
    ----------
    policies_ : list of policies
        The fitted policies, after `fit`.
    classes_ : ndarray of shape (n_actions,)
        Union of the action labels of the policies.

    Examples
    --------
    >>> import numpy as np
    >>> from skope_ope import BanditLogs, ConstantPolicy, MixturePolicy, UniformPolicy
    >>> from skope_ope.policies import action_probabilities
    >>> logs = BanditLogs(np.zeros((2, 1)), ["a", "b"], [1.0, 0.0], [0.5, 0.5])
    >>> policy = MixturePolicy([ConstantPolicy("a"), UniformPolicy()], [0.8, 0.2])
    >>> action_probabilities(policy, logs)[0].round(1)
    array([0.9, 0.1])
    """

    def __init__(self, policies: Sequence[PolicyLike], weights: ArrayLike) -> None:
        self.policies = policies
        self.weights = weights

    def _check(self):
        if not isinstance(self.policies, (list, tuple)):
            raise TypeError(
                "policies must be a list of policies, got "
                f"{type(self.policies).__name__}."
            )
        if not len(self.policies):
            raise ValueError("policies is empty: a mixture needs at least one.")
        weights = mixture_weights(self.weights, len(self.policies))
        for policy in self.policies:
            if isinstance(policy, (str, list, np.ndarray)):
                raise TypeError(
                    "a mixture is made of policies, got "
                    f"{type(policy).__name__}. Mix arrays of probabilities as arrays."
                )
            refuse_non_policies(policy)
            learner = unwrap(policy)
            if isinstance(learner, AdaptivePolicy):
                raise TypeError(
                    f"{type(learner).__name__} learns while it acts, and a mixture "
                    "cannot. Mix policy.frozen(), the policy as it is now."
                )
        return weights

    @property
    def classes_(self) -> Array:
        """Union of the action labels of the policies."""
        members = [np.asarray(policy.classes_).tolist() for policy in self._members]
        labels = {label for classes in members for label in classes}
        return np.array(sorted(labels))

    def _proba(self, X, available):
        weights, classes = self._check(), self.classes_
        total = np.zeros((n_rows(X), len(classes)))
        for policy, weight in zip(self._members, weights, strict=True):
            codes = label_codes(classes, policy.classes_)
            offered = None if available is None else available[:, codes]
            proba = context_probabilities(policy, X, policy.classes_, offered)
            total[:, codes] += weight * proba
        return total

    def logs_proba(self, logs: BanditLogs) -> Array:
        """Return probabilities over the actions of the logs.

        Parameters
        ----------
        logs : BanditLogs
            The rounds.

        Returns
        -------
        proba : ndarray of shape (n_rounds, n_actions)
            Columns in the order of `logs.actions`.
        """
        weights = self._check()
        return sum(
            weight * action_probabilities(policy, logs)
            for policy, weight in zip(self._members, weights, strict=True)
        )

    @available_if(_members_answer_alone)
    def logged_proba(self, logs: BanditLogs) -> Array:
        """Return the probability of the logged actions, if all members have it.

        Parameters
        ----------
        logs : BanditLogs
            The rounds.

        Returns
        -------
        proba : ndarray of shape (n_rounds,)
        """
        return self._mean("logged_proba", logs)

    @available_if(_members_answer_alone)
    def mass_on(self, logs: BanditLogs, codes: ArrayLike) -> Array:
        """Return the probability of a set of actions, if all members have it.

        Parameters
        ----------
        logs : BanditLogs
            The rounds.
        codes : array-like of int of shape (n_codes,)
            Distinct indices into `logs.actions`.

        Returns
        -------
        mass : ndarray of shape (n_rounds,)
        """
        return self._mean("mass_on", logs, codes)

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        policies = self.policies if isinstance(self.policies, (list, tuple)) else []
        estimators = [p for p in policies if hasattr(p, "__sklearn_tags__")]
        inner = [get_tags(policy).input_tags for policy in estimators]
        tags.input_tags.sparse = all(t.sparse for t in inner)
        tags.input_tags.allow_nan = all(t.allow_nan for t in inner)
        return tags
