# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""A scikit-learn classifier as a policy."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from sklearn.base import ClassifierMixin, clone
from sklearn.utils import column_or_1d
from sklearn.utils.validation import check_is_fitted

from skope_ope._sklearn import fit_context
from skope_ope.logs import BanditLogs
from skope_ope.logs._validation import check_y
from skope_ope.logs.lazy._kind_of import kind_of
from skope_ope.logs.lazy._lazy_logs import LazyLogs
from skope_ope.policies._classifier_actor import ClassifierActor, refuse_to_score
from skope_ope.policies._learned_rounds import remember_rows
from skope_ope.propensities._weighted_fit import fit_labels

if TYPE_CHECKING:
    from typing import Any

    from skope_ope._types import ArrayLike


class ClassifierPolicy(ClassifierMixin, ClassifierActor):
    r"""Act on the predictions of a classifier.

    With :math:`f(x)` the classifier's most likely action and :math:`K` actions,

    .. math:: \pi(a|x) = (1 - \epsilon)\, 1[f(x) = a] + \epsilon / K.

    With a temperature :math:`T`, the softmax of its log-probabilities,
    :math:`\pi(a|x) \propto \hat P(a|x)^{1/T}`, replaces the indicator. Read more in
    the :ref:`User Guide <policies>`.

    Parameters
    ----------
    classifier : classifier, default=None
        Any classifier with the interface of scikit-learn. `None`: a `ContextEncoder`
        and `LogisticRegression(max_iter=1000)`. Pass one to tune its parameters, such
        as `classifier__C`. If a classifier does not accept the texts or dates of a
        frame, a `ContextEncoder` is put in front of it, see :ref:`texts_and_dates`.
    epsilon : float, default=0.0
        Share of uniform exploration over all (offered) actions, in [0, 1].
    temperature : float, default=None
        `None` acts greedily and needs only `predict`. If offers vary, it also needs
        `predict_proba` or `decision_function`. A positive number needs
        `predict_proba`.

    Attributes
    ----------
    classifier_ : classifier
        The fitted classifier. If it accepts only the labels 0, 1, ..., it learns the
        codes of the sorted labels.
    classes_ : ndarray of shape (n_actions,)
        Action labels; those of the logs after `fit(logs)`.
    n_features_in_ : int
        Number of features seen during `fit`, if the classifier has this attribute.

    See Also
    --------
    IPSPolicy : Learns from rewards of any sign.
    UniformPolicy : A policy that only explores.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from skope_ope import ClassifierPolicy
    >>> X, y = load_iris(return_X_y=True)
    >>> policy = ClassifierPolicy(epsilon=0.3).fit(X / 10, y)
    >>> policy.predict_proba(X[:1] / 10).round(2)
    array([[0.8, 0.1, 0.1]])
    """

    def __init__(
        self,
        classifier: Any = None,
        *,
        epsilon: float = 0.0,
        temperature: float | None = None,
    ) -> None:
        self.classifier = classifier
        self.epsilon = epsilon
        self.temperature = temperature

    @fit_context(prefer_skip_nested_validation=False)
    def fit(self, X, y=None):
        """Fit the classifier on labelled contexts or on logs.

        Parameters
        ----------
        X : BanditLogs, or array-like of shape (n_samples, n_features)
            Contexts or logs. From logs, the classifier learns the logged action of the
            rows with a positive reward. Their `sample_weight` is reward / propensity,
            or the reward if propensities are unknown; a Pipeline passes it to its last
            step. A classifier without `sample_weight` is fitted on rows that are
            resampled in proportion to these weights.
        y : array-like of shape (n_samples,), default=None
            Action labels, if `X` are contexts. Ignored if `X` are logs.

        Returns
        -------
        self : ClassifierPolicy

        Raises
        ------
        ValueError
            If logs hold a negative reward (`IPSPolicy` learns from these), or no
            positive one.
        """
        if isinstance(X, LazyLogs):
            raise TypeError(
                f"{type(self).__name__} learns from rounds in memory, got {kind_of(X)}."
            )
        if isinstance(X, BanditLogs):
            check_y(y, len(X), type(self).__name__)
            self._fit_logs(X)
            remember_rows(self, X)
        else:
            if y is None:
                raise ValueError(
                    "ClassifierPolicy requires y to be passed, but the target y is "
                    f"None, and {type(X).__name__} is no BanditLogs. Learn from logs, "
                    "fit(logs) with logs = BanditLogs.from_frame(...), or from the "
                    "right action of every context, fit(X, y)."
                )
            y = column_or_1d(y, warn=True)
            self.classifier_, self.classes_ = fit_labels(
                clone(self._get_classifier()), X, y
            )
            self._learned_codes = np.arange(len(self.classes_))
            remember_rows(self, None)
        self._copy_features()
        return self

    def _fit_logs(self, logs):
        weight = reward = logs.reward
        if (reward < 0).any():
            row = int(np.argmin(reward))
            raise ValueError(
                f"ClassifierPolicy learns from rewarded actions; reward "
                f"{reward[row]:.6g} at row {row} is negative. Use IPSPolicy, which "
                "learns from rewards of any sign, or shift the rewards."
            )
        if logs.propensity is not None:
            weight = weight / logs.propensity
        if logs.sample_weight is not None:
            weight = weight * logs.sample_weight
        rows = np.flatnonzero(weight > 0)
        if not rows.size:
            raise ValueError(
                "ClassifierPolicy learns from rewarded actions, but no row of the "
                "logs has a positive reward (and weight)."
            )
        self._learn(logs, rows, logs.action_index[rows], weight[rows])

    def score(
        self,
        X: ArrayLike,
        y: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
    ) -> float:
        """Accuracy on labelled contexts; logs are refused.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Contexts.
        y : array-like of shape (n_samples,)
            The right actions.
        sample_weight : array-like of shape (n_samples,), default=None
            Weights.

        Returns
        -------
        accuracy : float

        Raises
        ------
        TypeError
            If `X` are logs. The value of a policy on logs is an estimate, which needs
            an evaluator.
        """
        if isinstance(X, BanditLogs):
            refuse_to_score()
        check_is_fitted(self)
        return super().score(X, y, sample_weight)
