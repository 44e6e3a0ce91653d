# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Acting on the predictions of a classifier of actions."""

from numbers import Real

import numpy as np
from sklearn.base import MetaEstimatorMixin, clone
from sklearn.utils import get_tags

from skope_ope._sklearn import HasMethods, Interval
from skope_ope.logs._model_features import odd_part
from skope_ope.logs._row_container import take_rows
from skope_ope.logs._validation import class_targets, label_codes, plain
from skope_ope.policies._base import (
    BasePolicy,
    check_some_available,
    explore,
    first_best,
    in_blocks,
    mostly,
    soften,
)
from skope_ope.propensities._encoded import (
    begins_with_encoder,
    class_probabilities,
    default_classifier,
    predictions_of,
)
from skope_ope.propensities._weighted_fit import fit_classifier

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
        classifier = clone(self._get_classifier())
        self.classifier_, learned = fit_classifier(
            classifier, logs.context, rows, y, weight, odd_part(logs.context)
        )
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
        return with_inputs_of(self._get_classifier(), super().__sklearn_tags__())


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


def refuse_to_score():
    """Raise the error that names what scores a policy on logs."""
    raise TypeError(
        "a policy cannot score itself on logs. In a search pass "
        "scoring=PolicyScorer(evaluator); for one value call "
        "evaluator.fit(logs).score(policy)."
    )
