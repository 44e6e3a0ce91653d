# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""What every policy learned from logs alone shares."""

from __future__ import annotations

import numpy as np
from scipy import sparse
from sklearn.base import MetaEstimatorMixin, clone
from sklearn.utils.metadata_routing import UNUSED

from skope_ope._parallel import one_call
from skope_ope._sklearn import fit_context
from skope_ope.logs import BanditLogs
from skope_ope.logs._context_encoder import has_other_columns
from skope_ope.logs._validation import check_finite, check_y
from skope_ope.logs.checks._propensity_sums import estimating_step
from skope_ope.logs.lazy._lazy_logs import kind_of
from skope_ope.policies._base import (
    BasePolicy,
    check_some_available,
    explore,
    greedy,
    soften,
)
from skope_ope.policies._classifier_policy import refuse_to_score
from skope_ope.policies._learned_rounds import remember_rows
from skope_ope.propensities._model_fits import behind_encoder, in_one_thread
from skope_ope.reward_models._sources import reward_source

BLAS_THREADS_FROM = 10**7  # entries of the contexts, where its threads may pay


class LogsPolicy(MetaEstimatorMixin, BasePolicy):
    """A policy with `fit(logs)`; a subclass implements `_fit(logs)`."""

    __metadata_request__fit = {"logs": UNUSED}
    __metadata_request__score = {"logs": UNUSED}
    _needs_propensity = True

    @fit_context(prefer_skip_nested_validation=False)
    def fit(self, logs, y=None):
        """Learn from logs.

        Parameters
        ----------
        logs : BanditLogs
            The rounds to learn from, others than those to evaluate the policy on.
        y : array-like of shape (n_rounds,), default=None
            Ignored: the logs hold actions and rewards.

        Returns
        -------
        self : object

        Raises
        ------
        TypeError
            If `logs` are not logs.
        ValueError
            If the logs lack what is learned from, or `y` has another length.
        """
        name = type(self).__name__
        if not isinstance(logs, BanditLogs):
            raise TypeError(
                f"{name} learns from BanditLogs, got {kind_of(logs)}. Build them "
                "with BanditLogs(context, action, reward, propensity) and fit a search "
                "on them, too, search.fit(logs). Where the right action of every "
                "context is known, use ClassifierPolicy().fit(X, y)."
            )
        check_y(y, len(logs), name)
        if not len(logs):
            raise ValueError(
                f"the logs are empty: {name} needs at least one round to learn from."
            )
        if self._needs_propensity and logs.propensity is None:
            raise ValueError(
                f"{name} needs the propensities of the logged actions, which these "
                "logs do not have. Pass propensity=..., or estimate them with "
                f"{estimating_step(logs)}."
            )
        if logs.sample_weight is not None and not logs.sample_weight.any():
            raise ValueError("sample_weight is zero everywhere: no round counts.")
        self.classes_ = logs.actions
        self.n_features_in_ = logs.n_features
        vars(self).pop("feature_names_in_", None)  # of an earlier fit
        names = list(getattr(logs.context, "columns", ()))
        if names and all(isinstance(name, str) for name in names):
            self.feature_names_in_ = np.array(names, dtype=object)
        is_small = len(logs) * logs.n_features < BLAS_THREADS_FROM
        with one_call(), in_one_thread(is_small, "blas"):
            self._fit(logs)
        remember_rows(self, logs)
        return self

    score = property(refuse_to_score)


def centre(logs, where):
    """Return the reward that counts as neither good nor bad."""
    reward = logs.reward
    if where == "auto":
        low, high = reward.min(), reward.max()
        where = "min" if ((reward == low) | (reward == high)).all() else "mean"
    if where == "min":
        return float(reward.min())
    if where == "mean":
        return float(np.average(reward, weights=logs.sample_weight))
    if where == "median":
        order, weight = np.argsort(reward), logs.sample_weight
        below = np.cumsum(np.ones(len(logs)) if weight is None else weight[order])
        # the least reward that half of the weight does not exceed
        return float(reward[order][np.searchsorted(below, below[-1] / 2)])
    if where == "midrange":
        low, high = logs.reward_range or (reward.min(), reward.max())
        return float(low + (high - low) / 2)
    return float(where)


def prefer(known, available):
    """Offered actions of every row, only known ones where any of them is offered."""
    both = available & known
    return np.where(both.any(axis=1, keepdims=True), both, available)


def act(policy, scores, known, available):
    """Return what a policy does with scores of the actions."""
    everything = np.ones(scores.shape, dtype=bool)
    may_take = prefer(known, everything if available is None else available)
    if policy.temperature is None:
        proba = greedy(scores, 0.0, may_take)
    else:
        check_some_available(may_take)
        proba = soften(np.where(may_take, scores, -np.inf), policy.temperature)
    return explore(proba, policy.epsilon, available)


class NoEvidence(ValueError):
    """Logs in which no action does better than another."""

    def __init__(self, policy):
        super().__init__(
            f"{type(policy).__name__} cannot tell actions apart. In every round "
            "with a positive weight the reward equals the expected reward of all "
            "offered actions, or only one action was offered. Check the rewards."
        )


# -- the model of the rewards that a learned policy takes where none is given ----------


def learners_source(policy, logs, transformers):
    """Return the source of predicted rewards for a learned policy."""
    model = policy.reward_model
    if model is None and policy.cv != "prefit":  # which needs a model, and says so
        model = _linear_model(logs, transformers)
    return reward_source(model, logs, policy.cv)


def finite_predictions(source, logs):
    """Return `predict(rounds, start)` of a source; it raises at what is not finite."""
    # Evaluators do; what is learned from such a prediction would be anything.
    predict = source.bind(logs)

    def checked(rounds, start):
        q_hat = predict(rounds, start)
        check_finite("reward_model", q_hat, start)
        return q_hat

    return checked


def _linear_model(logs, transformers):
    from sklearn.linear_model import LogisticRegression, Ridge
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    binary = bool(np.isin(logs.reward, (0, 1)).all())
    last = LogisticRegression(max_iter=1000) if binary else Ridge()
    # samplers of imbalanced-learn change rows, "passthrough" nothing
    transformers = [step for step in transformers if hasattr(step, "transform")]
    if transformers:
        return make_pipeline(*(clone(step) for step in transformers), last)
    if sparse.issparse(logs.context):
        return last
    if has_other_columns(logs.context):
        return behind_encoder(last)
    return make_pipeline(StandardScaler(), last) if _finite(logs.context) else None


def _finite(context):
    try:
        return bool(np.isfinite(np.asarray(context, dtype=float)).all())
    except (TypeError, ValueError):  # texts, categories
        return False
