# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""The reward model that several evaluators share."""

from sklearn.base import clone

from skope_ope.reward_models._sources import model_and_folds, reward_source


class SharedModel:
    """One reward model for all evaluators that were given none."""

    # Predictions are made once for every distinct model and folds.

    def __init__(self, reward_model, cv, logs, n_jobs=None):
        self.reward_model, self.cv, self.logs = reward_model, cv, logs
        self.n_jobs = n_jobs
        self._sources = []  # (model, cv, source)

    def model_of(self, evaluator):
        """Return the model that an evaluator uses, and its folds."""
        return model_and_folds(evaluator, self.reward_model, self.cv)

    def source_for(self, evaluator):
        """Return the predictions that an evaluator uses."""
        model, cv = self.model_of(evaluator)
        for known, folds, source in self._sources:
            if known is model and _same(folds, cv):
                return source
        source = reward_source(model, self.logs, cv, n_jobs=self.n_jobs)
        self._sources.append((model, cv, source))
        return source

    def fitted(self, evaluator):
        """Fit a clone of an evaluator that makes a pass of its own over the rounds."""
        evaluator = clone(evaluator)
        params = evaluator.get_params(deep=False)
        if params.get("reward_model") is not None:
            return evaluator.fit(self.logs)
        if evaluator.requires.model and "cv" in params and self.cv is not None:
            evaluator.set_params(cv=self.cv)  # they come with the model
        return evaluator.fit(self.logs, self.reward_model)


def _same(one, other):
    """Whether two `cv` give the same folds: the same number, word or object."""
    if isinstance(one, (int, str)):
        return type(one) is type(other) and one == other
    return one is other
