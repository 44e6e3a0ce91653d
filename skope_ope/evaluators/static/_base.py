# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""The template of static evaluators: one formula of per-round arrays."""

from __future__ import annotations

from sklearn.utils.validation import check_is_fitted

from skope_ope._types import Array
from skope_ope.evaluators.base._evaluator import BaseEvaluator
from skope_ope.evaluators.core._jobs import (
    evaluate_jobs,
    prepared_job,
)
from skope_ope.evaluators.core._part_weights import support_of_actions
from skope_ope.evaluators.core._plain_weights import is_own
from skope_ope.evaluators.core._rounds import PositiveRounds, combined_weights
from skope_ope.evaluators.core._target import Target, refuse_learning
from skope_ope.evaluators.static._action_scores import action_scores
from skope_ope.evaluators.static._clipping_curve import clipping_curve, weights_of
from skope_ope.evaluators.static._direct_simulation import simulated_value, simulates
from skope_ope.evaluators.static._own_evaluators import check_members
from skope_ope.logs._bandit_logs import BanditLogs


class StaticEvaluator(BaseEvaluator):
    """Base class of evaluators of stationary policies: a formula of single rounds.

    A subclass states what it `requires`, and gives the `terms` of rounds and the
    function of their means that is the estimate, `combine`. The other members have
    defaults, see `BaseEvaluator`.
    """

    proposal = "logger"

    def _validate_params(self):
        super()._validate_params()
        if is_own(self):
            check_members(self)

    def action_scores(self, logs: BanditLogs | None = None) -> Array:
        r"""Score every action in every round, for tools that learn targeting.

        The score of `DoublyRobust` is :math:`\hat q(x_i, a) + 1[a_i = a]\, w_i
        (r_i - \hat q(x_i, a))` with :math:`w_i = 1 / p_i`. That of `IPS` has no
        model, :math:`\hat q = 0`; that of `DirectMethod` is the model alone. The mean
        over rounds of :math:`\sum_a \pi(a|x_i) S_{ia}` is `score(policy)` for every
        policy. Policy trees and other targeting tools take such scores as rewards.

        Parameters
        ----------
        logs : BanditLogs, default=None
            The rounds; `None`: those of `fit`, which are predicted out of fold.

        Returns
        -------
        scores : ndarray of shape (n_rounds, n_actions)
            Columns in the order of `actions_`. Weights of rounds are left out: pass
            `logs.sample_weight` on. Actions that were not offered have scores, too.

        Raises
        ------
        ValueError
            If the value is not linear in the policy's probabilities, as for `SNIPS`,
            `SwitchDR` or `MRDR`. If a parameter is "auto".
        TypeError
            If the rounds are not in memory.

        Notes
        -----
        With a number as `cmax` the weight is :math:`\min(1 / p_i, c_{max})`. The mean
        is then `score(policy)` for policies that take one action in every round, and
        not for those that draw one.

        References
        ----------
        .. [1] Athey, S., & Wager, S. (2021). Policy learning with observational data.
           Econometrica 89(1).

        Examples
        --------
        A tree of depth two that decides by the scores:

        >>> import numpy as np
        >>> from sklearn.linear_model import Ridge
        >>> from sklearn.tree import DecisionTreeRegressor
        >>> from skope_ope import DoublyRobust
        >>> from skope_ope.datasets import make_bandit_logs
        >>> logs = make_bandit_logs(2000, n_actions=3, random_state=0)
        >>> train, test = logs[:1000], logs[1000:]
        >>> scores = DoublyRobust(reward_model=Ridge()).fit(train).action_scores()
        >>> tree = DecisionTreeRegressor(max_depth=2).fit(train.context, scores)
        >>> best = tree.predict(test.context).argmax(axis=1)
        >>> policy = np.eye(3)[best]
        >>> value = DoublyRobust(reward_model=Ridge()).fit(test).score(policy)
        >>> bool(value > test.reward.mean())
        True
        """
        check_is_fitted(self)
        if logs is None:
            logs = self.logs_
        else:
            self._check_kind(logs)
        self.check_logs(logs)
        self._match_those_of_fit(logs)
        self._match_features(logs)
        return action_scores(self, logs)

    def _weights_on(self, policy, logs=None):
        """Return the importance weights of the rounds, and what they become."""
        return weights_of(self, policy, self.logs_ if logs is None else logs)

    def _support_on(self, policy, logs=None):
        """Return what `SupportDisplay` shows of a policy on the rounds."""
        logs = self.logs_ if logs is None else logs
        self.check_logs(logs)
        target = Target(policy, logs)
        refuse_learning("SupportDisplay", target)
        if target.logged_only:
            raise ValueError(
                "the probabilities of the logged actions are not enough here. Pass "
                "the probabilities of all actions, an array of shape (n_rounds, "
                "n_actions), or the policy."
            )
        return support_of_actions(target, logs)

    def _clipping_curve(self, policy, logs=None, bounds=None):
        """Return the values with many bounds on the weights."""
        logs = self.logs_ if logs is None else logs
        return clipping_curve(self, policy, logs, bounds)

    def _evaluate(self, policy, logs, sample_weight):
        target = Target(policy, logs)
        if simulates(self, target):
            return simulated_value(self, target, logs, sample_weight)
        positive = PositiveRounds(logs, combined_weights(logs, sample_weight))
        [result] = evaluate_jobs([prepared_job(self, target, positive)], positive)
        return result
