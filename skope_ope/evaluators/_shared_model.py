# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""The reward model that several evaluators share."""

from sklearn.base import clone

from skope_ope.reward_models._sources import reward_source


class SharedModel:
    """One reward model for all evaluators that were given none.

    Predictions are made once for every distinct model and folds.

    Parameters
    ----------
    reward_model : model, number, array, str or None
        Used where an evaluator's own is None.
    cv : int, splitter, iterable or "prefit"
        The folds that come with it.
    logs : BanditLogs or SlateLogs
        The rounds.
    """

    def __init__(self, reward_model, cv, logs):
        self.reward_model, self.cv, self.logs = reward_model, cv, logs
        self._sources = {}

    def model_of(self, evaluator):
        """Return the model that an evaluator uses, and its folds."""
        if evaluator.reward_model is None:
            return self.reward_model, self.cv
        return evaluator.reward_model, evaluator.cv

    def source_for(self, evaluator):
        """Return the predictions that an evaluator uses."""
        model, cv = self.model_of(evaluator)
        key = (id(model), cv if isinstance(cv, (int, str)) else id(cv))
        if key not in self._sources:
            self._sources[key] = reward_source(model, self.logs, cv)
        return self._sources[key]

    def fitted(self, evaluator):
        """Fit a clone of an evaluator that makes a pass of its own over the rounds."""
        evaluator = clone(evaluator)
        params = evaluator.get_params(deep=False)
        if params.get("reward_model") is not None:
            return evaluator.fit(self.logs)
        if evaluator._uses_model:
            evaluator.set_params(cv=self.cv)  # they come with the model
        return evaluator.fit(self.logs, self.reward_model)
