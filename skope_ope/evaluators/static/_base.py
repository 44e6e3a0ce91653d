# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""The template of static evaluators, with scores of actions and a clipping curve."""

from __future__ import annotations

import numpy as np
from sklearn.base import clone
from sklearn.utils.validation import check_is_fitted

from skope_ope._types import Array
from skope_ope.evaluators.base._evaluator import BaseEvaluator
from skope_ope.evaluators.core._auto import auto_parameters
from skope_ope.evaluators.core._engine import EXTRACT_WEIGHTS, terms_of
from skope_ope.evaluators.core._functions import (
    mean,
    mean_plus_ratio,
    ratio,
    sum_of_two,
)
from skope_ope.evaluators.core._jobs import evaluate_jobs, prepared_job
from skope_ope.evaluators.core._part_weights import support_of_actions
from skope_ope.evaluators.core._plain_weights import PROBE, PROBE_WITH_MODEL, is_own
from skope_ope.evaluators.core._requires import LogFacts
from skope_ope.evaluators.core._rounds import PositiveRounds, combined_weights
from skope_ope.evaluators.core._target import Target, refuse_learning
from skope_ope.evaluators.static._direct_simulation import simulated_value, simulates
from skope_ope.evaluators.static._own_evaluators import check_members
from skope_ope.logs._bandit_logs import BanditLogs
from skope_ope.logs._validation import check_finite
from skope_ope.logs.lazy._lazy_logs import refuse_lazy

THRESHOLDS = ("cmax", "tau")  # parameters that bound weights
N_BOUNDS = 30


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
        why = _why_no_scores(self)
        if why:
            raise ValueError(
                f"{type(self).__name__} has no scores of actions: {why}. Use "
                "DoublyRobust, IPS or DirectMethod."
            )
        expected = 0.0
        if self.requires.model:
            expected = self.reward_model_.bind(logs)(logs, 0)
            check_finite("reward_model", expected)
        if not self.requires.weights:
            return np.array(expected, dtype=np.float64)  # the source may keep its own
        return doubly_robust_scores(logs, expected, self.weights(1 / logs.propensity))

    def _weights_on(self, policy, logs=None):
        """Return the importance weights of the rounds, and what they become."""
        return importance_weights(self, policy, self.logs_ if logs is None else logs)

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
        """Return the values with many bounds on the weights, all out of one pass."""
        logs, name = self.logs_ if logs is None else logs, _name_of_bound(self)
        if bounds is None:
            bounds = _default_bounds(importance_weights(self, policy, logs)[0])
        bounds = np.sort(np.asarray(bounds, dtype=float).ravel())
        self.evaluate(policy, logs)  # its own answer, for its warnings and its checks
        positive = PositiveRounds(logs, combined_weights(logs, None))
        own, *about = prepared_job(self, Target(policy, logs), positive)
        jobs = []
        for bound in bounds.tolist():
            bounded = clone(self).set_params(**{name: bound})
            bounded._validate_params()
            jobs.append((bounded, *about))
        return {
            "param_name": name,
            "param_range": bounds,
            "values": evaluate_jobs(jobs, positive),
            "own": getattr(own, name),
        }

    def _evaluate(self, policy, logs, sample_weight):
        target = Target(policy, logs)
        if simulates(self, target):
            return simulated_value(self, target, logs, sample_weight)
        positive = PositiveRounds(logs, combined_weights(logs, sample_weight))
        [result] = evaluate_jobs([prepared_job(self, target, positive)], positive)
        return result


def _name_of_bound(evaluator):
    params = evaluator.get_params(deep=False)
    for name in THRESHOLDS:
        if name in params:
            return name
    raise ValueError(
        f"{type(evaluator).__name__} has no bound on the weights (a parameter "
        f"{' or '.join(THRESHOLDS)}). Use IPS, SNIPS, DoublyRobust or SwitchDR."
    )


def _default_bounds(weights):
    """From where rounds below carry a twentieth of all weight, to the largest."""
    weights = np.sort(weights)
    carried = weights.cumsum()
    if not carried[-1]:
        raise ValueError(
            "no logged action has a positive probability under the policy: there are "
            "no weights to bound."
        )
    low, high = weights[np.searchsorted(carried, 0.05 * carried[-1])], weights[-1]
    if low == high:
        low = high / 10  # all weights are equal: what less of them would give
    bounds = np.geomspace(low, high, N_BOUNDS)
    bounds[-1] = high  # rounding must not clip the largest weight
    return bounds


def importance_weights(evaluator, policy, logs):
    """Return the weights of a policy, and what an evaluator makes of them."""
    refuse_lazy(logs)
    if not evaluator.requires.weights:
        raise ValueError(
            f"{type(evaluator).__name__} uses no importance weights: there is nothing "
            "to show. Fit IPS() to the same logs to see how far the policy is from the "
            "logger."
        )
    evaluator.check_logs(logs)
    positive = PositiveRounds(logs, combined_weights(logs, None))
    chosen, target, _ = prepared_job(evaluator, Target(policy, logs), positive)
    [plain] = terms_of(EXTRACT_WEIGHTS, logs, target, None, positive)
    return plain, chosen.weights(plain)


def doubly_robust_scores(logs, expected, w):
    r"""Return :math:`S_i(a) = q_i(a) + 1[a_i = a] w_i (r_i - q_i(a))`."""
    scores = np.empty((len(logs), logs.n_actions))
    scores[:] = expected
    logged = np.arange(len(logs)), logs.action_index
    residual = logs.reward - scores[logged]
    size = np.maximum(np.abs(logs.reward), np.abs(scores[logged]))
    residual[np.abs(residual) <= 1e-12 * size] = 0.0  # they differ by rounding only
    scores[logged] += w * residual
    return scores


def _why_no_scores(evaluator):
    """Return why an evaluator has no scores; None: it has."""
    for name, auto in auto_parameters(evaluator).items():
        if auto.neutral is not None:  # no bound on the weights
            return "its weights are not linear in the policy's probabilities"
        return f"{name}='auto' is chosen for every policy. Pass a number"
    evaluator = evaluator.resolved(LogFacts(len(PROBE.r)))
    requires, combine = evaluator.requires, evaluator.combine
    if evaluator.sampling.by != "rounds" or evaluator.proposal != "logger":
        return "its weights depend on all loggers"
    if requires.refits:
        return "its reward model is fitted anew for every policy"
    if combine in (ratio, mean_plus_ratio):
        return "it divides by the sum of the weights of the policy"
    if not _is_clipped(evaluator.weights(PROBE.w)):
        return "its weights are not linear in the policy's probabilities"
    if not _is_linear_score(evaluator):
        return "its value is not known to be linear in the policy's probabilities"
    return None


def _is_clipped(weights):
    """Whether weights are as they were, but for a bound from above."""
    return np.array_equal(weights, np.minimum(PROBE.w, weights.max()))


def _is_linear_score(evaluator):
    """Whether the formula is that of `doubly_robust_scores`, on a few rounds."""
    combine, requires = evaluator.combine, evaluator.requires
    if combine not in (mean, sum_of_two):
        return False
    rounds = PROBE_WITH_MODEL if requires.model else PROBE
    score, w = 0.0, evaluator.weights(rounds.w)
    if requires.weights:
        score = w * (rounds.residual if requires.model else rounds.r)
    expected = rounds.v + score if requires.model else score
    found = combine(evaluator.terms(rounds))[0]
    return np.allclose(found, expected, rtol=1e-12, atol=0)
