# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Logs -> logs steps: what may stand in a Pipeline in front of an evaluator."""

from __future__ import annotations

from typing import Any

from sklearn.base import TransformerMixin
from sklearn.utils.validation import check_is_fitted

from skope_ope._progress import TellsOfFit
from skope_ope._sklearn import Estimator
from skope_ope.logs._bandit_logs import BanditLogs
from skope_ope.logs._row_container import own


class BaseLogTransformer(TransformerMixin, TellsOfFit, Estimator):
    """Base class of logs -> logs steps.

    A subclass implements `_fit(logs)` and `_transform(logs)`. It never changes the
    context, because the policy was trained on it. Anything but logs is returned
    unchanged, because `Pipeline.score(policy)` passes the policy through every step.
    """

    def fit(self, X, y=None):
        """Learn from logs.

        Parameters
        ----------
        X : BanditLogs
            The logged rounds.
        y : object, default=None
            Ignored: a Pipeline hands y, or a reward model, through here.

        Returns
        -------
        self : object
        """
        if not isinstance(X, BanditLogs):
            raise self._refusal(X)
        self._validate_params()
        self._fit(own(X, self))
        self.n_features_in_ = X.n_features
        return self

    def transform(self, X: Any) -> BanditLogs:
        """Return the transformed logs.

        Parameters
        ----------
        X : BanditLogs or anything else
            Logs; anything else is returned unchanged.

        Returns
        -------
        logs : BanditLogs
            New logs with the same `row_id` and the same context.
        """
        check_is_fitted(self)
        if isinstance(X, BanditLogs):
            given = own(X, self)
            out = self._transform(given)
            if out.context is given.context:  # which a step never changes
                out.__dict__["context"] = X.context
            return out
        if hasattr(X, "partitions"):  # unchanged, its propensities would be believed
            raise self._refusal(X)
        return X

    def _refusal(self, X):
        """Return what is raised where logs in memory are needed."""
        from skope_ope.logs.lazy._lazy_logs import kind_of

        return TypeError(f"{type(self).__name__} takes BanditLogs, got {kind_of(X)}.")
