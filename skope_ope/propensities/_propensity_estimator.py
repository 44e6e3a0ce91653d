# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Estimate and bound the logger's probabilities, from the logs themselves."""

from __future__ import annotations

from numbers import Real
from typing import Any, Literal

import numpy as np
from sklearn.base import clone

from skope_ope._parallel import one_call
from skope_ope._progress import step, steps
from skope_ope._sklearn import HasMethods, Interval, StrOptions
from skope_ope._texts import meant
from skope_ope._types import SplitterLike
from skope_ope.exceptions import PropensityWarning, warn_user
from skope_ope.logs._context_encoder import odd_part
from skope_ope.logs._folds import FULL, UNCOVERED, HeldOut
from skope_ope.logs._transformer import BaseLogTransformer
from skope_ope.logs._validation import class_targets, label_codes, plain
from skope_ope.logs.checks._propensity_sums import acting_loggers, estimating_step
from skope_ope.propensities._model_fits import (
    all_alike,
    class_probabilities,
    default_classifier,
    fit_labels,
    takes_weights,
)

CERTAIN_FROM = 0.999  # a logged action this likely was no choice
CERTAIN_SHARE = 0.99
FOLD_CLASSIFIER = "propensity model"  # what progress is told of


class PropensityEstimator(BaseLogTransformer):
    r"""Estimate propensities by a classifier of the logged action.

    .. math:: \hat p_i = \max(\hat P_{-k(i)}(a_i | x_i),\ floor)

    The rounds of `fit` are predicted out of fold, by a classifier that did not see
    them. A classifier of all rounds of `fit` predicts other rounds. If offers vary by
    round, probabilities are renormalised over the offered actions. Weights of the logs
    are passed as `sample_weight`. A classifier without `sample_weight` is fitted to
    rounds drawn in proportion to the weights, with a warning. Recorded propensities
    and logging distributions are replaced. `logs.propensity_estimated` becomes true,
    so that the propensities are not tested on the rounds that they come from. Read
    more in the :ref:`User Guide <propensities>`.

    Parameters
    ----------
    classifier : classifier with `predict_proba`, default=None
        `None`: a `ContextEncoder` and `LogisticRegression(max_iter=1000)`. Any
        classifier can take frames with texts and dates: :ref:`texts_and_dates`.
    cv : int, splitter or iterable, default=5
        Folds. An int is `KFold` without shuffling; with several loggers, every fold has
        rounds of each. If the logs have groups, an int is `GroupKFold`.
    calibration : {"sigmoid", "isotonic"}, default=None
        Calibrate every classifier by `CalibratedClassifierCV`.
    floor : float, default=1e-3
        Lower bound of the estimates. A warning counts the estimates that were raised
        to it.

    Attributes
    ----------
    classifier_ : classifier
        Fitted on all rounds of `fit`.
    n_floored_ : int
        Number of rounds of `fit` whose estimate was raised to the floor.
    actions_ : ndarray of shape (n_actions,)
        Action labels of the logs of `fit`.

    Raises
    ------
    ValueError
        If the logger looks deterministic: the context determines nearly every logged
        action, so the logs say nothing about other actions.

    See Also
    --------
    LoggerPropensityEstimator : For logs of several loggers.
    PropensityClipper : Bounds known propensities.

    Examples
    --------
    >>> from sklearn.pipeline import make_pipeline
    >>> from skope_ope import SNIPS, PropensityEstimator
    >>> from skope_ope.datasets import make_bandit_logs
    >>> logs, policy, truth = make_bandit_logs(random_state=0, return_truth=True)
    >>> unknown = logs.replace(propensity=None, logging_proba=None)
    >>> pipeline = make_pipeline(PropensityEstimator(), SNIPS()).fit(unknown)
    >>> bool(abs(pipeline.score(policy) - truth.value) < 0.1)
    True
    """

    _parameter_constraints: dict = {
        "classifier": [HasMethods(["fit", "predict_proba"]), None],
        "cv": ["cv_object"],
        "calibration": [StrOptions({"sigmoid", "isotonic"}), None],
        "floor": [Interval(Real, 0, 1, closed="neither")],
    }

    _has_steps = True

    def __init__(
        self,
        classifier: Any = None,
        *,
        cv: SplitterLike = 5,
        calibration: Literal["sigmoid", "isotonic"] | None = None,
        floor: float = 1e-3,
    ) -> None:
        self.classifier = classifier
        self.cv = cv
        self.calibration = calibration
        self.floor = floor

    def _fit(self, logs):
        self.actions_ = logs.actions
        self._warn_of_loggers(logs)
        if not all_alike(logs.sample_weight) and not takes_weights(self._inner()):
            told = (
                f"{type(self._inner()).__name__} takes no sample_weight: it is "
                "fitted to rounds drawn in proportion to the weights of the logs."
            )
            warn_user([PropensityWarning(told)])
        self.held_out_ = HeldOut(logs, self.cv)
        uncovered = np.flatnonzero(self.held_out_.fold == UNCOVERED)
        if uncovered.size:
            raise ValueError(
                f"cv leaves row {uncovered[0]} in no test part: its propensity cannot "
                "be estimated out of fold. Use folds that cover all rounds."
            )
        odd = self._odd_rows(logs)
        folds = enumerate(self.held_out_.train)
        with one_call():
            self._models = {
                k: self._classifier_of(logs[train], odd)
                for k, train in steps(self, logs, folds, FOLD_CLASSIFIER)
            }
            self._models[FULL] = self._classifier_of(logs, odd)
        self.classifier_ = self._models[FULL][0]
        estimates = self._estimates(logs)
        self._refuse_certain(estimates, logs)
        self.n_floored_ = int((estimates < self.floor).sum())
        if self.n_floored_:
            told = (
                f"{self.n_floored_} estimated propensities lie below floor="
                f"{self.floor:g} and were raised to it."
            )
            warn_user([PropensityWarning(told, self.n_floored_)])

    def _warn_of_loggers(self, logs):
        several = acting_loggers(logs)
        if several > 1:
            told = (
                f"these logs have {several} loggers, but {type(self).__name__} "
                "learns one logger from all rounds. If the loggers follow each "
                "other, the estimates are wrong for all of them. Use "
                "LoggerPropensityEstimator."
            )
            warn_user([PropensityWarning(told, several)])

    def _refuse_certain(self, estimates, logs):
        certain = float((estimates > CERTAIN_FROM).mean())
        if logs.n_actions > 1 and certain > CERTAIN_SHARE:
            raise ValueError(
                f"the context determines the logged action in {certain:.1%} of the "
                "rounds. The logger looks deterministic, and its logs say nothing "
                "about other actions. Use logs of a logger that explores, or of "
                "several loggers."
            )

    def _odd_rows(self, logs):
        """Return rows that the classifiers will have to predict, see `fit_encoded`."""
        return odd_part(logs.context)

    def _inner(self):
        return default_classifier() if self.classifier is None else self.classifier

    def _classifier_of(self, rounds, odd):
        """Return a fitted classifier, and the actions that its classes stand for."""
        classifier = self._inner()
        same = len(np.unique(rounds.action_index)) == 1
        if same or not rounds.n_features:  # nothing to tell apart, or by nothing
            from sklearn.dummy import DummyClassifier

            classifier = DummyClassifier(strategy="prior")
        elif self.calibration is not None:
            from sklearn.calibration import CalibratedClassifierCV

            classifier = CalibratedClassifierCV(
                clone(classifier), method=self.calibration
            )
        y, are_codes = class_targets(rounds)
        X, weight = rounds.context, rounds.sample_weight
        fitted, learned = fit_labels(clone(classifier), X, y, weight, odd)
        return fitted, self.actions_[learned] if are_codes else learned

    def _estimates(self, logs):
        """Probability of the logged action, before the floor."""
        fold = self.held_out_.of(logs)
        out = np.empty(len(logs))
        for k in np.unique(fold).tolist():
            rows = np.flatnonzero(fold == k)
            out[rows] = self._logged_probability(self._models[k], logs[rows])
        return out

    def _logged_probability(self, model, rounds):
        classifier, learned = model
        proba = class_probabilities(classifier, rounds.context)
        codes = label_codes(rounds.actions, learned)
        full = np.zeros((len(rounds), rounds.n_actions))
        full[:, codes[codes >= 0]] = proba[:, codes >= 0]
        if rounds.available is not None:
            full = np.where(rounds.available, full, 0.0)
            mass = full.sum(axis=1, keepdims=True)
            full = np.divide(full, mass, out=full, where=mass > 0)
        return full[np.arange(len(rounds)), rounds.action_index]

    def _check_actions(self, logs):
        unknown = label_codes(self.actions_, logs.actions) < 0
        if unknown.any():
            unseen = logs.actions[unknown].item(0)
            raise ValueError(
                f"action {unseen!r} of the logs was unknown in fit."
                f"{meant(unseen, self.actions_.tolist())} Fit on logs that know it "
                "(actions=[...])."
            )

    def _transform(self, logs):
        self._check_actions(logs)
        propensity = np.clip(self._estimates(logs), self.floor, 1.0)
        return logs._with_estimates(
            logging_proba=None, logger_proba=None, propensity=propensity
        )


# -- estimate what every one of several loggers would have done ------------------------

IN_A_SEARCH = (
    "in a search pass cv=KFold(shuffle=True), because loggers follow each other in the "
    "log, or estimate before the search."
)


class LoggerPropensityEstimator(PropensityEstimator):
    r"""Estimate the probability of the logged actions under every logger.

    One classifier per logger is fitted to the rounds of that logger. It predicts these
    rounds out of fold. A classifier of all rounds of the logger predicts the rounds of
    the other loggers, and other logs. `logger_proba` and `propensity` are replaced.
    Unlike `PropensityEstimator`, this accepts deterministic loggers: they explore if
    they differ in the same context. Read more in the :ref:`User Guide <propensities>`.

    Parameters
    ----------
    classifier : classifier with `predict_proba`, default=None
        `None`: a `ContextEncoder` and `LogisticRegression(max_iter=1000)`. Any
        classifier can take frames with texts and dates: :ref:`texts_and_dates`.
    cv : int or splitter, default=5
        Folds of the rounds of each logger.
    calibration : {"sigmoid", "isotonic"}, default=None
        Calibrate every classifier by `CalibratedClassifierCV`.
    floor : float, default=1e-3
        Lower bound of the estimates. A warning counts the rounds whose propensity was
        raised to it.

    Attributes
    ----------
    estimators_ : dict
        The `PropensityEstimator` of every logger, by label.
    loggers_ : ndarray of shape (n_loggers,)
        Labels of the loggers that acted in the logs of `fit`. Other entries of
        `logs.loggers` are ignored; their column of `logger_proba` is 0.
    n_floored_ : int
        Rounds of `fit` whose propensity was raised to the floor.
    actions_ : ndarray of shape (n_actions,)
        Action labels of the logs of `fit`.

    See Also
    --------
    BanditLogs.with_logger_policies : If you have the policies of the loggers.
    PropensityEstimator : For a single logger.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.pipeline import make_pipeline
    >>> from skope_ope import BanditLogs, MultiLoggerIPS
    >>> from skope_ope.propensities import LoggerPropensityEstimator
    >>> rng = np.random.RandomState(0)
    >>> logger = np.repeat(["old", "new"], 500)
    >>> action = rng.random_sample(1000) < np.where(logger == "old", 0.2, 0.6)
    >>> logs = BanditLogs(rng.normal(size=(1000, 2)), action, action * 1.0,
    ...                   logger=logger)
    >>> step = LoggerPropensityEstimator().fit(logs)
    >>> step.transform(logs).logger_proba.shape
    (1000, 2)
    >>> pipeline = make_pipeline(step, MultiLoggerIPS(pooling="balanced")).fit(logs)
    >>> bool(abs(pipeline.score(np.tile([0.5, 0.5], (1000, 1))) - 0.5) < 0.05)
    True
    """

    def _fit(self, logs):
        self.actions_ = logs.actions
        if logs.loggers is None:
            raise ValueError(
                "LoggerPropensityEstimator needs logs with logger=..., the label of "
                "the logger of every round. For one logger use PropensityEstimator."
            )
        acted = np.flatnonzero(logs._logger_counts)
        self.loggers_ = logs.loggers[acted]
        self.estimators_, odd = {}, odd_part(logs.context)
        with one_call():
            for code, label in zip(acted, self.loggers_.tolist(), strict=True):
                rows = np.flatnonzero(logs.logger_index == code)
                self.estimators_[label] = self._fit_logger(label, logs, rows, odd)
        self.n_floored_ = sum(e.n_floored_ for e in self.estimators_.values())

    def _fit_logger(self, label, logs, rows, odd):
        if len(rows) < 2:
            raise ValueError(
                f"logger {label!r} has {len(rows)} round: its probabilities cannot "
                "be estimated out of fold. Drop it and build the logs anew; "
                f"{IN_A_SEARCH}"
            )
        params = self.get_params(deep=False).items()
        one = _OneLogger(**{name: clone(given, safe=False) for name, given in params})
        one.odd = odd
        with step(self, logs, "logger", one):
            one.fit(logs[rows])
        del one.odd  # a fitted estimator holds no context
        return one

    def _transform(self, logs):
        if logs.loggers is None:
            raise ValueError("the logs have no logger, but those of fit had one.")
        unknown = label_codes(self.loggers_, logs.loggers) < 0
        acted = logs._logger_counts > 0
        if (unknown & acted).any():
            raise ValueError(
                f"logger {plain(logs.loggers[unknown & acted][0])!r} of the logs was "
                f"unknown in fit, which had rounds of {self.loggers_.tolist()}. Fit on "
                f"rounds of all loggers; {IN_A_SEARCH}"
            )
        self._check_actions(logs)
        proba = np.zeros((len(logs), len(logs.loggers)))  # those without rounds: 0
        for column, label in enumerate(logs.loggers.tolist()):
            if not unknown[column]:
                estimates = self.estimators_[label]._estimates(logs)
                proba[:, column] = np.clip(estimates, self.floor, 1.0)
        own = proba[np.arange(len(logs)), logs.logger_index]
        return logs._with_estimates(
            logging_proba=None, logger_proba=proba, propensity=own
        )


class _OneLogger(PropensityEstimator):
    """Estimates for one of several loggers, which may be deterministic."""

    # It predicts the rounds of all loggers; `odd` are rows of theirs.

    def _odd_rows(self, logs):
        return self.odd

    def _refuse_certain(self, estimates, logs):
        pass


# -- raise small propensities to a lower bound -----------------------------------------


class PropensityClipper(BaseLogTransformer):
    r"""Bound the logged propensities from below: :math:`\max(p_i, low)`.

    Weights are then at most 1 / low. This lowers the variance and biases values
    towards 0.

    Parameters
    ----------
    low : float, default=0.0
        Lower bound, in [0, 1]; 0 changes nothing.

    Attributes
    ----------
    n_clipped_ : int
        Number of rounds of `fit` whose propensity was below the bound.

    See Also
    --------
    PropensityEstimator : Estimates propensities.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.pipeline import make_pipeline
    >>> from skope_ope import IPS, BanditLogs, PropensityClipper
    >>> logs = BanditLogs(np.zeros((2, 1)), [0, 1], [1.0, 1.0], [0.01, 0.99])
    >>> pipeline = make_pipeline(PropensityClipper(low=0.25), IPS()).fit(logs)
    >>> float(pipeline[:-1].transform(logs).propensity[0])
    0.25
    """

    _parameter_constraints: dict = {"low": [Interval(Real, 0, 1, closed="both")]}

    def __init__(self, low: float = 0.0) -> None:
        self.low = low

    def _fit(self, logs):
        self.n_clipped_ = int((self._propensity(logs) < self.low).sum())

    def _transform(self, logs):
        clipped = np.maximum(self._propensity(logs), self.low)
        change = logs._with_estimates if logs.propensity_estimated else logs.replace
        return change(propensity=clipped)

    def _propensity(self, logs):
        if logs.propensity is None:
            raise ValueError(
                "PropensityClipper needs logs with propensities, these have none. Put "
                f"{estimating_step(logs)} in front of it."
            )
        return logs.propensity
