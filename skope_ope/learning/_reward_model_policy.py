# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""The action that a model of the rewards predicts to be best."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
from sklearn.base import clone
from sklearn.utils.metaestimators import available_if

from skope_ope._progress import step
from skope_ope._sklearn import HasMethods, StrOptions
from skope_ope._types import Array
from skope_ope.learning._logs_policy import LogsPolicy, act
from skope_ope.logs import BanditLogs
from skope_ope.policies._action_probabilities import unwrap
from skope_ope.policies._classifier_policy import (
    ACTING_CONSTRAINTS,
    with_inputs_of_model,
)
from skope_ope.reward_models import ActionRewardModel
from skope_ope.reward_models._sources import refuse_non_models


def _features_vary(policy):
    """Tell whether the model needs the actions' features of every round."""
    features = getattr(getattr(policy, "reward_model_", None), "action_context_", None)
    return (
        features is not None
        and features.ndim == 3
        and policy.reward_model_.encoding == "action_context"
    )


class RewardModelPolicy(LogsPolicy):
    r"""Act on a model of the rewards, learned from logs.

    .. math:: \pi(x) = \arg\max_a\, \hat q(x, a), \qquad \text{or} \qquad
        \pi(a|x) \propto \exp(\hat q(x, a) / T),

    mixed with uniform exploration. A simple model is most accurate for the actions that
    the logger took often. Importance-weighted regression fits it as if all actions had
    been taken equally often. The argmax policy of [1]_ was learned like this. Read more
    in the :ref:`User Guide <learning>`.

    Parameters
    ----------
    reward_model : regressor, classifier or ActionRewardModel
        Any scikit-learn regressor (a classifier for 0/1 rewards), fitted per action;
        an `ActionRewardModel` chooses otherwise.
    weight : {"uniform", "inverse_propensity"}, default="uniform"
        Weights of the rounds in the fit, times `logs.sample_weight`.
    epsilon : float, default=0.0
        Share of uniform exploration over all (offered) actions, in [0, 1].
    temperature : float, default=None
        `None` acts greedily; a positive number takes the softmax of the predicted
        rewards divided by it.

    Attributes
    ----------
    reward_model_ : ActionRewardModel
        The fitted model.
    classes_ : ndarray of shape (n_actions,)
        Action labels of the logs.
    n_features_in_ : int
        Number of features of the contexts.

    See Also
    --------
    DRPolicy : Corrects the model by the logged rewards.

    Notes
    -----
    Actions that were never logged are chosen only if nothing else is offered, unless
    the model knows their features (`encoding="action_context"`). The model predicts too
    good a value for its own choices: evaluate the policy on other rounds.

    References
    ----------
    .. [1] Dudik, M., Erhan, D., Langford, J., & Li, L. (2012). Sample-efficient
       nonstationary policy evaluation for contextual bandits. UAI.

    Examples
    --------
    >>> from sklearn.linear_model import Ridge
    >>> from skope_ope import DoublyRobust, RewardModelPolicy
    >>> from skope_ope.datasets import make_bandit_logs
    >>> logs = make_bandit_logs(4000, reward="continuous", random_state=0)
    >>> train, test = logs[:2000], logs[2000:]
    >>> policy = RewardModelPolicy(Ridge(), weight="inverse_propensity").fit(train)
    >>> bool(DoublyRobust().fit(test).score(policy) > test.reward.mean() + 0.3)
    True
    """

    _has_steps = True
    _parameter_constraints: dict = {
        "reward_model": [HasMethods(["fit", "predict"])],
        "weight": [StrOptions({"uniform", "inverse_propensity"})],
        **ACTING_CONSTRAINTS,
    }

    def __init__(
        self,
        reward_model: Any,
        *,
        weight: Literal["uniform", "inverse_propensity"] = "uniform",
        epsilon: float = 0.0,
        temperature: float | None = None,
    ) -> None:
        self.reward_model = reward_model
        self.weight = weight
        self.epsilon = epsilon
        self.temperature = temperature

    @property
    def _needs_propensity(self):
        return self.weight == "inverse_propensity"

    def _fit(self, logs):
        model = self.reward_model
        refuse_non_models(model, "reward_model")
        if model is not unwrap(model):
            raise TypeError(
                f"reward_model is a {type(model).__name__} around a fitted model, but "
                "it is fitted here. Pass the model itself."
            )
        if not isinstance(model, ActionRewardModel):
            model = ActionRewardModel(model)
        model = clone(model)
        weight = None  # those of the logs
        if self._needs_propensity:
            weight = 1 / logs.propensity
            if logs.sample_weight is not None:
                weight = weight * logs.sample_weight
        with step(self, logs, "reward model", model):
            self.reward_model_ = model.fit(logs, sample_weight=weight)
        self.known_ = logs._action_counts > 0
        if model.encoding == "action_context":
            self.known_ = np.ones(logs.n_actions, dtype=bool)

    def _proba(self, X, available):
        return act(self, self.reward_model_.predict(X), self.known_, available)

    @available_if(_features_vary)
    def logs_proba(self, logs: BanditLogs) -> Array:
        """Return probabilities over the actions of the logs, known by features.

        Parameters
        ----------
        logs : BanditLogs
            The rounds, with `action_context`.

        Returns
        -------
        proba : ndarray of shape (n_rounds, n_actions)
            Columns in the order of `logs.actions`.
        """
        q_hat = self.reward_model_.predict_logs(logs)
        known = np.ones(logs.n_actions, dtype=bool)
        return act(self, q_hat, known, logs.available)

    def __sklearn_tags__(self):
        model = getattr(self.reward_model, "model", self.reward_model)
        return with_inputs_of_model(model, super().__sklearn_tags__())
