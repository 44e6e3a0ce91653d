# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Estimate what every one of several loggers would have done."""

import numpy as np
from sklearn.base import clone

from skope_ope._parallel import one_call
from skope_ope._progress import step
from skope_ope.logs._odd_rows import odd_part
from skope_ope.logs._validation import label_codes, plain
from skope_ope.propensities._propensity_estimator import PropensityEstimator

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
            self._fit_loggers(logs, acted, odd)
        self.n_floored_ = sum(e.n_floored_ for e in self.estimators_.values())

    def _fit_loggers(self, logs, acted, odd):
        for code, label in zip(acted, self.loggers_.tolist(), strict=True):
            rows = np.flatnonzero(logs.logger_index == code)
            if len(rows) < 2:
                raise ValueError(
                    f"logger {label!r} has {len(rows)} round: its probabilities cannot "
                    "be estimated out of fold. Drop it and build the logs anew; "
                    f"{IN_A_SEARCH}"
                )
            one = _OneLogger(**{k: clone(v, safe=False) for k, v in self._own()})
            one.odd = odd
            with step(self, logs, "logger", one):
                self.estimators_[label] = one.fit(logs[rows])
            del one.odd  # a fitted estimator holds no context

    def _own(self):
        return self.get_params(deep=False).items()

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
