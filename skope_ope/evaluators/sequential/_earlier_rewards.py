# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""The mean reward of the rounds before, where a log is read part by part."""

import numpy as np

from skope_ope.evaluators.sequential._drns_model import EarlierMeans, middle_reward
from skope_ope.reward_models._cross_fit import MeanReward


def takes_earlier(evaluator, reward_model=None):
    """Whether the mean of the rounds before stands for a reward model."""
    # Then no source of `part_models` does.
    cv = getattr(evaluator, "cv", None)  # AdaptiveDR has none
    if not evaluator.requires.model or cv is None or isinstance(cv, str):
        return False
    from sklearn.model_selection import TimeSeriesSplit  # its import takes long

    none = reward_model is None and evaluator.reward_model is None
    return none and isinstance(cv, TimeSeriesSplit)


def is_one_mean(source):
    """Whether a source predicts one mean reward for all actions, by fold."""
    models = list(getattr(source, "models_", {}).values())
    return bool(models) and all(
        isinstance(one, MeanReward) and not one.by_action for one in models
    )


class MadeInWalk:
    """Stands for `EarlierRewards` after a fit: a walk makes them in its first pass."""

    n_uncovered_ = 1

    def bind(self, logs):
        """Raise: rounds in memory are not among those of the fit."""
        raise ValueError(
            "reward_model=None is the mean reward of earlier rounds, and this "
            "evaluator was fitted on lazy logs, which do not keep rounds. Evaluate "
            "on lazy logs, or fit it on rounds in memory."
        )


class EarlierRewards:
    """`EarlierMeans` of a log of which only sums are known."""

    n_uncovered_ = 1  # the first round: nothing came before

    def __init__(self, facts):
        if facts.log.groups is not None:
            raise ValueError(
                "reward_model=None is the mean reward of earlier rounds if the "
                "logger learned or the folds follow time. With groups this mean is "
                "not known when a log is read in parts. Pass a number, the name of "
                "a column, or FrozenEstimator(model) of earlier rounds as "
                "reward_model. Or scan the log without its groups."
            )
        self.facts = facts
        self.mean_ = facts.log.reward_sum / facts.n_rounds

    def at(self, start, logs, before):
        """Return what predicts consecutive rounds."""
        n = self.facts.n_rounds
        if n == 1:
            return EarlierMeansOfPart(np.full(1, middle_reward(logs)))
        reward = logs.reward - self.mean_
        count = start + np.arange(len(logs), dtype=float)
        total = np.cumsum(reward) - reward + (before - self.mean_ * start)
        if start == 0:
            count[0] = n - 1
            total[0] = self.facts.log.reward_sum - self.mean_ * n - reward[0]
        return EarlierMeansOfPart(self.mean_ + total / count)


class EarlierMeansOfPart:
    """The predictions for the rounds of a part."""

    n_uncovered_ = EarlierRewards.n_uncovered_

    def __init__(self, values):
        self.values_ = values

    def of(self, logs):
        """Return the predictions; `logs` are those of the part."""
        return self.values_

    bind = EarlierMeans.bind
