# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""A scikit-learn classifier as a policy."""

from __future__ import annotations

from dataclasses import replace
from numbers import Real
from typing import Any, NoReturn

import numpy as np
from sklearn.base import ClassifierMixin, MetaEstimatorMixin, clone
from sklearn.frozen import FrozenEstimator
from sklearn.utils import check_consistent_length, column_or_1d, get_tags

from skope_ope._sklearn import (
    HasMethods,
    Interval,
    check_sample_weight,
    fit_context,
    once_fitted,
)
from skope_ope._types import ArrayLike
from skope_ope.logs import BanditLogs
from skope_ope.logs._context_encoder import odd_part
from skope_ope.logs._row_container import take_rows
from skope_ope.logs._validation import check_y, class_targets, label_codes, plain
from skope_ope.logs.lazy._lazy_logs import LazyLogs, kind_of
from skope_ope.policies._base import (
    BasePolicy,
    check_some_available,
    explore,
    first_best,
    in_blocks,
    mostly,
    soften,
)
from skope_ope.policies._learned_rounds import remember_rows
from skope_ope.propensities._model_fits import (
    begins_with_encoder,
    check_classes,
    class_probabilities,
    default_classifier,
    fit_classifier,
    fit_labels,
    is_bare,
    predictions_of,
)

ACTING_CONSTRAINTS: dict = {
    "epsilon": [Interval(Real, 0, 1, closed="both")],
    "temperature": [Interval(Real, 0, None, closed="neither"), None],
}


class ClassifierActor(MetaEstimatorMixin, BasePolicy):
    """A policy that asks a fitted classifier for the action."""

    # A subclass has the parameters `classifier`, `epsilon` and `temperature`; its `fit`
    # calls `_learn`, or sets `classifier_`, `classes_` and `_learned_codes`.

    _parameter_constraints: dict = {
        "classifier": [HasMethods(["fit", "predict"]), None],
        **ACTING_CONSTRAINTS,
    }

    def _get_classifier(self):
        return default_classifier() if self.classifier is None else self.classifier

    def _learn(self, logs, rows, codes, weight):
        """Learn to name the action `codes[j]` for the context of `rows[j]`."""
        y, are_codes = class_targets(logs, codes)
        self.classifier_, learned = self._fitted(logs.context, rows, y, weight)
        self.classes_ = logs.actions
        self._learned_codes = (
            learned.astype(np.intp)
            if are_codes
            else label_codes(self.classes_, learned)
        )
        if (self._learned_codes < 0).any():
            raise ValueError(
                f"{type(self.classifier_).__name__} has the classes_ "
                f"{learned.tolist()[:8]}, and not all are labels of actions: "
                f"{self.classes_.tolist()[:8]}. Fit it to labels of actions."
            )
        self.n_features_in_ = logs.n_features

    def _fitted(self, context, rows, y, weight):
        """Return a classifier of some rows, and what it learned."""
        classifier, odd = clone(self._get_classifier()), odd_part(context)
        if isinstance(classifier, FrozenEstimator):  # it learns nothing
            check_classes(classifier.fit(context, y))
            return classifier, np.asarray(classifier.classes_)
        return fit_classifier(classifier, context, rows, y, weight, odd)

    def _copy_features(self):
        """Take over what the classifier knows of the features."""
        vars(self).pop("feature_names_in_", None)  # of an earlier fit
        for name in ("n_features_in_", "feature_names_in_"):
            if hasattr(self.classifier_, name):
                setattr(self, name, getattr(self.classifier_, name))

    def _proba(self, X, available):
        if self.temperature is None:
            chosen = self._choice(X, available)
            return mostly(chosen, len(self.classes_), self.epsilon, available)
        proba = probabilities_of(self.classifier_, X, self.temperature)
        if available is not None:
            check_some_available(available)
        return in_blocks(self._softened, len(self.classes_), proba, available)

    def _softened(self, proba, available):
        """Return what the policy does, from probabilities of the classifier."""
        with np.errstate(divide="ignore"):  # log(0) is a probability of 0
            scores = self._to_classes(np.log(proba), -np.inf)
        proba = soften(scores, self.temperature, available)
        return explore(proba, self.epsilon, available)

    def _choice(self, X, available):
        """Return the greedy action of every round among those offered."""
        predicted = predictions_of(self.classifier_, X)
        known = label_codes(np.asarray(self.classifier_.classes_), predicted)
        if (known < 0).any():
            row = int(np.argmin(known))
            raise ValueError(
                f"{type(self.classifier_).__name__} predicts {plain(predicted[row])!r} "
                f"at row {row}, which is none of its classes_."
            )
        chosen = self._learned_codes[known]
        if available is None:
            return chosen
        rows = np.flatnonzero(~available[np.arange(len(chosen)), chosen])
        if rows.size:  # the second best, or the best of what is offered
            offered = available[rows]
            check_some_available(offered, rows)
            scores = self._ranking(take_rows(X, rows))
            chosen[rows] = first_best(np.where(offered, scores, -np.inf))
        return chosen

    def _ranking(self, X):
        """Scores of all actions."""
        classifier = self.classifier_
        if hasattr(classifier, "predict_proba"):
            scores = class_probabilities(classifier, X)
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
        learned = self._learned_codes
        if np.array_equal(learned, np.arange(len(self.classes_))):
            return values.astype(np.float64, copy=False)
        out = np.full((len(values), len(self.classes_)), fill, dtype=np.float64)
        out[:, learned] = values
        return out

    def __sklearn_tags__(self):
        return with_inputs_of_model(self._get_classifier(), super().__sklearn_tags__())


def probabilities_of(classifier, X, temperature):
    """Return the probabilities of a classifier, which the temperature asks for."""
    if not hasattr(classifier, "predict_proba"):
        raise ValueError(
            f"temperature={temperature} needs predict_proba, which "
            f"{type(classifier).__name__} does not have. Use temperature=None."
        )
    return class_probabilities(classifier, X)


def with_inputs_of(model, tags):
    """Give the tags of a policy what its model says of its input."""
    inner = get_tags(model).input_tags
    tags.input_tags.sparse = inner.sparse
    tags.input_tags.allow_nan = inner.allow_nan or begins_with_encoder(model)
    return tags


def with_inputs_of_model(model, tags):
    """Do the same for a model, which goes behind a ContextEncoder if need be."""
    tags = with_inputs_of(model, tags)
    tags.input_tags.allow_nan |= is_bare(model)  # a Pipeline does not
    return tags


def refuse_to_score(policy: Any, error: type[Exception] = AttributeError) -> NoReturn:
    """Not there: how good a policy is on logs is an estimate of an evaluator.

    A search without `scoring` then raises, where an error in `score` would be NaN.
    """
    raise error(
        f"{type(policy).__name__} cannot score itself on logs. In a search pass "
        "scoring=PolicyScorer(evaluator); for one value call "
        "evaluator.fit(logs).score(policy)."
    )


# -- A scikit-learn classifier as a policy ---------------------------------------------


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
        A `FrozenEstimator` acts as it is: `fit(logs)` only reads the actions.
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
    def fit(self, X, y=None, sample_weight=None):
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
        sample_weight : array-like of shape (n_samples,), default=None
            Row weights. With logs, they stand in for `logs.sample_weight`.

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
        frozen = isinstance(self.classifier, FrozenEstimator)
        if isinstance(X, BanditLogs):
            check_y(y, len(X), type(self).__name__)
            if sample_weight is not None:
                X = replace(X, sample_weight=sample_weight)
            if frozen:
                self._learn(X, np.arange(len(X)), X.action_index, None)
            else:
                self._fit_logs(X)
            remember_rows(self, None if frozen else X)
        else:
            if y is None:
                raise ValueError(
                    "ClassifierPolicy requires y to be passed, but the target y is "
                    f"None, and {type(X).__name__} is no BanditLogs. Learn from logs, "
                    "fit(logs) with logs = BanditLogs.from_frame(...), or from the "
                    "right action of every context, fit(X, y)."
                )
            y = column_or_1d(y, warn=True)
            if sample_weight is not None:
                check_consistent_length(X, y)
                weight = check_sample_weight(sample_weight, X, ensure_non_negative=True)
                sample_weight, rows = weight[weight > 0], np.flatnonzero(weight)
                if len(rows) < len(y):
                    X, y = take_rows(X, rows), y[rows]
            self.classifier_, self.classes_ = fit_labels(
                clone(self._get_classifier()), X, y, sample_weight
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

    # Searches make NaN of errors of `score`, and raise where there is none.
    @once_fitted
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
        NotFittedError
            Before `fit`: a search without `scoring` finds no `score` and raises.
        """
        if isinstance(X, BanditLogs):
            refuse_to_score(self, TypeError)
        return super().score(X, y, sample_weight)
