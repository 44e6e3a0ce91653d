# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""What searches of our own share with GridSearchCV."""

from __future__ import annotations

from collections.abc import Mapping
from copy import deepcopy
from typing import TYPE_CHECKING

from sklearn.base import MetaEstimatorMixin
from sklearn.utils import get_tags
from sklearn.utils.metadata_routing import UNUSED
from sklearn.utils.validation import check_is_fitted

from skope_ope._sklearn import CallbackSupport, Estimator
from skope_ope.logs._validation import check_y
from skope_ope.logs.lazy._kind_of import kind_of
from skope_ope.selection._candidates import is_logs
from skope_ope.selection._shared_fits import candidates_of

if TYPE_CHECKING:
    from skope_ope.logs._bandit_logs import BanditLogs
    from skope_ope.logs._slate_logs import SlateLogs


class BaseSearch(CallbackSupport, MetaEstimatorMixin, Estimator):
    """Base class of searches on logs."""

    __metadata_request__fit = {"logs": UNUSED}
    __metadata_request__score = {"logs": UNUSED}

    def _candidates(self):
        from sklearn.model_selection import ParameterGrid

        grid = self.param_grid
        if not isinstance(grid, Mapping) and not len(grid):
            raise ValueError("param_grid is empty: name at least one candidate.")
        return candidates_of(self.estimator, list(ParameterGrid(grid)))

    def _check_logs(self, logs, y):
        if not is_logs(logs):
            raise TypeError(
                f"{type(self).__name__} searches on logs, got {kind_of(logs)}."
            )
        check_y(y, len(logs), type(self).__name__)

    def score(self, logs: BanditLogs | SlateLogs) -> float:
        """Score of the chosen candidate on other logs.

        Parameters
        ----------
        logs : BanditLogs or SlateLogs
            Held-out rounds; not a policy: its value is
            `search.best_estimator_.score(policy)`.

        Returns
        -------
        score : float
            By the scorer of the search: for evaluators, minus the squared distance
            from the validator on these logs.
        """
        check_is_fitted(self)
        return self.scorer_(self.best_estimator_, logs)

    def __sklearn_is_fitted__(self):
        return hasattr(self, "best_estimator_")

    def __sklearn_tags__(self):
        tags, inner = super().__sklearn_tags__(), get_tags(self.estimator)
        # it is what it searches over, as scikit-learn's searches are
        tags.estimator_type = inner.estimator_type
        tags.classifier_tags = deepcopy(inner.classifier_tags)
        tags.input_tags = deepcopy(inner.input_tags)
        return tags
