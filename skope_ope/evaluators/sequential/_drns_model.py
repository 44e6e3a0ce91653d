# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""What predicts rewards for DR-ns, from other rounds, or from earlier ones."""

import warnings

import numpy as np

from skope_ope.evaluators.sequential._log_facts import OrderedLogFacts
from skope_ope.exceptions import ModelErrorWarning
from skope_ope.logs._bandit_logs import BanditLogs
from skope_ope.logs._folds import FULL, UNCOVERED, repeated_positions
from skope_ope.logs._known_rows import rows_among
from skope_ope.reward_models._cross_fit import (
    CrossFittedModel,
    MeanReward,
    kept_predictions,
)
from skope_ope.reward_models._sources import reward_source


def drns_source(model, logs, cv, progress):
    """Return what predicts rewards for DR-ns."""
    # `None` is the mean reward over all actions: of the other folds; of the earlier
    # rounds (`EarlierMeans`) where the logger learned or the folds follow time. A
    # logger that learned is known by propensities that move with time
    # (`BanditLogs.propensities_drift`): later rewards then tell of earlier ones.
    if model is not None or (isinstance(cv, str) and cv == "prefit"):
        source = reward_source(model, logs, cv, progress=progress)
        if not isinstance(source, CrossFittedModel):
            return source
        if logs.propensities_drift and _sees_later(source.held_out_):
            warnings.warn(later_rounds_warning(), stacklevel=8)  # of fit
    elif logs.propensities_drift or len(logs) == 1 or logs.n_groups == 1:
        return EarlierMeans(logs)
    else:
        source = CrossFittedModel(MeanReward(by_action=False), logs, cv)
        if not _sees_later(source.held_out_):
            return EarlierMeans(logs)
    return FilledSource(source, logs) if source.n_uncovered_ else source


def _sees_later(held_out):
    """Tell whether a round is predicted by a model that saw a later one."""
    for k, train in enumerate(held_out.train):
        test = np.flatnonzero(held_out.fold == k)
        if test.size and train.max() > test[0]:
            return True
    return False


class EarlierMeans:
    """Predict every round by the mean reward of the earlier ones of other groups."""

    # A prediction that depends on the past alone leaves the doubly robust term unbiased
    # given that past, however the logger and the policy learn. Rounds without such a
    # past, the first one above all, get the mean of all rounds of other groups.

    def __init__(self, logs, facts=None, start=0, before=0.0):
        # Of a longer log that is known by its `facts` the rounds begin at `start`, and
        # the rewards of those before have the sum `before`.
        units = None  # what depends on each other; of longer logs nothing does
        if facts is None:
            facts, units = OrderedLogFacts(logs), logs.group_index
            units = repeated_positions(logs) if units is None else units
        self.logs, n, whole = logs, facts.n_rounds, sum(facts.reward_sums)
        self.mean_ = whole / n
        reward = logs.reward - self.mean_  # rewards near 1e6 keep their digits
        count = start + np.arange(len(logs), dtype=float)
        total = _before(reward) + (before - self.mean_ * start)
        own = [np.ones(len(logs)), reward]  # of all rounds of the same unit
        if units is not None:
            inside = [_before_in_unit(one, units) for one in own]
            count, total = count - inside[0], total - inside[1]
            own = [np.bincount(units, one)[units] for one in own]
        first = np.flatnonzero(count < 0.5)
        self.n_uncovered_ = len(first)
        count[first] = n - own[0][first]
        total[first] = whole - self.mean_ * n - own[1][first]
        alone = first[count[first] < 0.5]  # one round, or one group
        if len(alone):
            count[alone], total[alone] = 1.0, middle_reward(logs) - self.mean_
        self.values_ = self.mean_ + total / count

    def of(self, logs):
        """Return the predictions for the rounds of any logs."""
        if logs is self.logs:
            return self.values_
        rows = rows_among(logs, self.logs)
        return np.where(rows < 0, self.mean_, self.values_[rows])

    def __repr__(self):
        return "mean reward of earlier rounds"

    def bind(self, logs):
        """Return a chunk predictor for `logs`."""
        values = self.of(logs)
        return lambda rounds, start: np.broadcast_to(
            values[start : start + len(rounds), None], (len(rounds), rounds.n_actions)
        )


class FilledSource:
    """A cross-fitted model, and `EarlierMeans` for rounds that no test part covers."""

    def __init__(self, source, logs):
        self.source, self.means = source, EarlierMeans(logs)
        self.held_out_, self.n_uncovered_ = source.held_out_, source.n_uncovered_

    def __repr__(self):
        return repr(self.source)

    def bind(self, logs):
        """Return a chunk predictor for `logs`."""
        predict, means = self.source.bind(logs), self.means.of(logs)
        open_rows = self.held_out_.of(logs) == UNCOVERED

        def filled(rounds, start):
            here = slice(start, start + len(rounds))
            hit = open_rows[here]
            if not hit.any():
                return predict(rounds, start)
            q_hat = np.array(predict(rounds, start), dtype=float)
            q_hat[hit] = means[here][hit, None]
            return q_hat

        return filled

    def shared(self, logs):
        """Return what several evaluators of these rounds share."""
        return kept_predictions(self, logs)


def rounds_seen_ahead(source, logs):
    """Count rounds that are predicted by what came later, or by themselves."""
    # None: any number of them. Of files it is not known which rounds a model has seen.
    if not isinstance(logs, BanditLogs):
        seen = getattr(source, "held_out_", None) is not None
        seen = seen or hasattr(source, "models_")
        return None if seen else int(getattr(source, "n_uncovered_", 0))
    source = getattr(source, "source", source)  # of predictions that are kept
    held_out = getattr(source, "held_out_", None)
    if isinstance(source, EarlierMeans):
        if source.logs is logs:
            return source.n_uncovered_
        return 0 if (rows_among(logs, source.logs) < 0).all() else None
    if held_out is None or (held_out.of(logs) == FULL).all():
        return 0
    return None


def middle_reward(logs):
    """Return the middle of the range of the rewards, of [0, 1] where it holds them."""
    if logs.reward_range is not None:
        return sum(logs.reward_range) / 2
    if logs.reward.min() >= 0 and logs.reward.max() <= 1:
        return 0.5
    raise ValueError(
        "reward_model=None is the mean reward of other rounds, but the logs have "
        f"only one {'round' if logs.group is None else 'group'} and no "
        "reward_range. Pass a number as reward_model."
    )


def _before(values):
    """Sum what comes before every row."""
    return np.cumsum(values) - values


def _before_in_unit(values, units):
    """Sum what comes before every row in the same unit."""
    order = np.argsort(units, kind="stable")
    sums = _before(values[order])
    first = np.flatnonzero(np.diff(units[order], prepend=units[order[0]] - 1))
    starts = np.repeat(sums[first], np.diff(first, append=len(units)))
    out = np.empty(len(values))
    out[order] = sums - starts
    return out


def later_rounds_warning(remedy="Use time-ordered folds: cv=TimeSeriesSplit()."):
    """Return the warning that rounds are predicted by what a learner did later."""
    return ModelErrorWarning(
        "the logged propensities change over time, as if the logger learns, but "
        "the reward model is also fitted to later rounds. This biases the value. "
        f"{remedy}"
    )


class MadeInPass:
    """Stands for `EarlierMeans` of a log in parts, which a pass makes part by part."""

    n_uncovered_ = 1  # the first round: nothing came before

    def bind(self, logs):
        """Raise: rounds in memory are not among those of the fit."""
        raise ValueError(
            "reward_model=None is the mean reward of earlier rounds, and this "
            "evaluator was fitted on lazy logs, which do not keep rounds. Evaluate "
            "on lazy logs, or fit it on rounds in memory."
        )
