# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""A scikit-learn classifier as a policy."""

from numbers import Real

import numpy as np
from sklearn.base import ClassifierMixin, MetaEstimatorMixin, _fit_context, clone
from sklearn.utils import column_or_1d, get_tags
from sklearn.utils._param_validation import HasMethods, Interval
from sklearn.utils.validation import check_is_fitted

from skope_ope.logs import BanditLogs
from skope_ope.logs._row_container import take_rows
from skope_ope.logs._validation import class_targets, label_codes
from skope_ope.policies._base import BasePolicy, explore, greedy, restrict
from skope_ope.propensities._weighted_fit import fit_weighted, weight_parameter


class ClassifierPolicy(ClassifierMixin, MetaEstimatorMixin, BasePolicy):
    r"""Act on the predictions of a classifier.

    With :math:`f(x)` the classifier's most likely action and :math:`K` actions,

    .. math:: \pi(a|x) = (1 - \epsilon)\, 1[f(x) = a] + \epsilon / K,

    or, with a temperature :math:`T`, softmax of its log-probabilities,
    :math:`\pi(a|x) \propto \hat P(a|x)^{1/T}`, in place of the indicator. Read more
    in the :ref:`User Guide <policies>`.

    Parameters
    ----------
    classifier : classifier, default=None
        Any scikit-learn classifier. `None`: `LogisticRegression()`.
    epsilon : float, default=0.0
        Share of uniform exploration over all (offered) actions, in [0, 1].
    temperature : float, default=None
        `None` acts greedily and needs only `predict` (over varying offers also
        `predict_proba` or `decision_function`); a positive number needs
        `predict_proba`.

    Attributes
    ----------
    classifier_ : classifier
        The fitted classifier.
    classes_ : ndarray of shape (n_actions,)
        Action labels; those of the logs after `fit(logs)`.
    n_features_in_ : int
        Number of features seen during `fit`, if the classifier tells it.

    See Also
    --------
    UniformPolicy : The policy that explores only.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from skope_ope import ClassifierPolicy
    >>> X, y = load_iris(return_X_y=True)
    >>> policy = ClassifierPolicy(epsilon=0.3).fit(X / 10, y)
    >>> policy.predict_proba(X[:1] / 10).round(2)
    array([[0.8, 0.1, 0.1]])
    """

    _parameter_constraints: dict = {
        "classifier": [HasMethods(["fit", "predict"]), None],
        "epsilon": [Interval(Real, 0, 1, closed="both")],
        "temperature": [Interval(Real, 0, None, closed="neither"), None],
    }

    def __init__(self, classifier=None, *, epsilon=0.0, temperature=None):
        self.classifier = classifier
        self.epsilon = epsilon
        self.temperature = temperature

    def _get_classifier(self):
        if self.classifier is not None:
            return self.classifier
        from sklearn.linear_model import LogisticRegression

        return LogisticRegression()

    @_fit_context(prefer_skip_nested_validation=False)
    def fit(self, X, y=None):
        """Fit the classifier on labelled contexts or on logs.

        Parameters
        ----------
        X : BanditLogs, or array-like of shape (n_samples, n_features)
            Contexts, or logs: then the classifier learns the logged action of the
            rows with a positive reward, with `sample_weight` reward / propensity
            (the reward where propensities are unknown; a Pipeline hands it to its
            last step). A classifier without `sample_weight` is fitted on rows
            resampled in that proportion.
        y : array-like of shape (n_samples,), default=None
            Action labels, where `X` are contexts.

        Returns
        -------
        self : ClassifierPolicy

        Raises
        ------
        ValueError
            If logs hold negative rewards (`IPSPolicy` learns from them) or none that
            is positive.
        """
        if isinstance(X, BanditLogs):
            if y is not None:
                raise ValueError("fit(logs) takes no y: the logs hold the actions.")
            self._fit_logs(X)
        else:
            y = y if y is None else column_or_1d(y, warn=True)
            self.classifier_ = clone(self._get_classifier()).fit(X, y)
            if not hasattr(self.classifier_, "classes_"):
                raise TypeError(
                    f"{type(self.classifier_).__name__} is no classifier: fit gave it "
                    "no classes_."
                )
            self.classes_ = self.classifier_.classes_
            self._learned_codes = np.arange(len(self.classes_))
        vars(self).pop("feature_names_in_", None)  # of an earlier fit
        for name in ("n_features_in_", "feature_names_in_"):
            if hasattr(self.classifier_, name):
                setattr(self, name, getattr(self.classifier_, name))
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
        weight = weight[rows]
        classifier = clone(self._get_classifier())
        if weight_parameter(classifier) is None:
            rng = np.random.RandomState(0)
            rows = np.sort(rng.choice(rows, len(rows), p=weight / weight.sum()))
            weight = None
        if len(np.unique(logs.action_index[rows])) == 1:
            # One rewarded action leaves nothing to tell apart: always take it.
            from sklearn.dummy import DummyClassifier

            classifier = DummyClassifier(strategy="most_frequent")
        y, are_codes = class_targets(logs)
        X = take_rows(logs.context, rows)
        self.classifier_ = fit_weighted(classifier, X, y[rows], weight)
        self.classes_ = logs.actions
        learned = self.classifier_.classes_
        self._learned_codes = (
            learned if are_codes else label_codes(self.classes_, learned)
        )
        self.n_features_in_ = logs.n_features

    def _proba(self, X, available):
        classifier = self.classifier_
        if self.temperature is not None:
            if not hasattr(classifier, "predict_proba"):
                raise ValueError(
                    f"temperature={self.temperature} needs predict_proba, which "
                    f"{type(classifier).__name__} does not have. Use temperature=None."
                )
            # log(0) is a probability of 0; a tiny temperature sends the others there
            with np.errstate(divide="ignore", over="ignore"):
                logits = np.log(classifier.predict_proba(X))
                logits -= logits.max(axis=1, keepdims=True)
                logits /= self.temperature
            proba = self._to_classes(np.exp(logits), 0.0)
            proba = proba / proba.sum(axis=1, keepdims=True)
            proba = restrict(proba, available)
            return explore(proba, self.epsilon, available)
        return greedy(self._scores(X, available), self.epsilon, available)

    def _scores(self, X, available):
        """Scores whose first maximum is the greedy action among those offered."""
        predicted = self.classifier_.predict(X)
        chosen = self._learned_codes[label_codes(self.classifier_.classes_, predicted)]
        scores = np.zeros((len(chosen), len(self.classes_)))
        scores[np.arange(len(chosen)), chosen] = 1.0
        if available is not None:
            rows = np.flatnonzero(~available[np.arange(len(chosen)), chosen])
            if rows.size:  # the second best, or the best of what is offered
                scores[rows] = self._ranking(take_rows(X, rows))
        return scores

    def _ranking(self, X):
        """Scores of all actions."""
        classifier = self.classifier_
        if hasattr(classifier, "predict_proba"):
            scores = classifier.predict_proba(X)
        elif hasattr(classifier, "decision_function"):
            scores = classifier.decision_function(X)
            if scores.ndim == 1:  # two classes: one column
                scores = np.column_stack([-scores, scores])
        else:
            raise ValueError(
                f"{type(classifier).__name__} has neither predict_proba nor "
                "decision_function: the best of the offered actions is unknown."
            )
        return self._to_classes(scores, scores.min() - 1)

    def _to_classes(self, values, fill):
        """Columns in the order of `classes_`; actions never learned get `fill`."""
        out = np.full((len(values), len(self.classes_)), fill)
        out[:, self._learned_codes] = values
        return out

    def score(self, X, y=None, sample_weight=None):
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
            If given logs: how good a policy is on logs is an estimate, which needs
            an evaluator.
        """
        if isinstance(X, BanditLogs):
            raise TypeError(
                "a policy cannot score itself on logs. In a search pass "
                "scoring=PolicyScorer(evaluator); for one value call "
                "evaluator.fit(logs).score(policy)."
            )
        check_is_fitted(self)
        return super().score(X, y, sample_weight)

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        inner = get_tags(self._get_classifier()).input_tags
        tags.input_tags.sparse = inner.sparse
        tags.input_tags.allow_nan = inner.allow_nan
        return tags
