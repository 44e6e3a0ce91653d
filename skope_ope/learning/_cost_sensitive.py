# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Cost-sensitive classification with any classifier that takes weights."""

from numbers import Real

import numpy as np

from skope_ope._sklearn import Interval
from skope_ope.evaluators.core._weights import shrink
from skope_ope.evaluators.static._action_scores import doubly_robust_scores
from skope_ope.learning._logs_policy import LogsPolicy, NoEvidence
from skope_ope.policies._classifier_actor import ClassifierActor


class CostSensitivePolicy(LogsPolicy, ClassifierActor):
    """A classifier that learns from estimated rewards."""

    # A subclass implements `_first_rewards(logs)`, the estimated reward of every action
    # in every round, which the first classifier learns from, and may fit others in its
    # place, in `_fit_classifier(logs)`.

    _parameter_constraints: dict = {
        **ClassifierActor._parameter_constraints,
        "shrinkage": [Interval(Real, 0, None, closed="both"), None],
    }

    def _fit(self, logs):
        if (logs._action_counts > 0).sum() == 1:  # nothing to choose from
            self._learn(logs, np.zeros(1, int), logs.action_index[:1], np.ones(1))
        else:
            self._fit_classifier(logs)
        self._copy_features()

    def _fit_classifier(self, logs):
        """Fit the first classifier; return the weight of the logged actions."""
        rows, codes, weight = weighted_labels(
            self._first_rewards(logs), offered_actions(logs), logs.sample_weight
        )
        if not rows.size:
            raise NoEvidence(self)
        self._learn(logs, rows, codes, weight)
        return weight[codes == logs.action_index[rows]].sum()


def offered_actions(logs):
    """Actions that were offered and that the logs have taken, for broadcasting."""
    logged = logs._action_counts > 0
    return logged if logs.available is None else logged & logs.available


def estimated_rewards(logs, expected, shrinkage=None):
    r"""Return :math:`\hat r_i(a) = q_i(a) + 1[a_i = a] w_i (r_i - q_i(a))`."""
    w = 1 / logs.propensity
    if shrinkage is not None:
        w = shrink(w, shrinkage)
    return doubly_robust_scores(logs, expected, w)


def weighted_labels(rewards, offered, sample_weight=None, chance=None):
    r"""Return (rows, codes, weights) whose weighted accuracy is the value."""
    # For every policy :math:`\pi` that chooses one action
    #
    # .. math:: \sum_i \hat r_i(\pi(x_i)) = \sum_i \min_b \hat r_i(b)
    #     + \sum_i \sum_a 1[\pi(x_i) = a]\, (\hat r_i(a) - \min_b \hat r_i(b)),
    #
    # so a round becomes one example per action, weighted by how much better than the
    # worst offered action it is; the worst one itself has weight 0 and is left out.
    # Weights times the chances of the actions under a policy are those of a step of
    # expectation-maximisation from it.
    worst = np.where(offered, rewards, np.inf).min(axis=1, keepdims=True)
    weight = np.where(offered, rewards - worst, 0.0)
    rounding = 1e-12 * np.abs(rewards).max(axis=1, keepdims=True)
    weight[weight <= rounding] = 0.0
    if chance is not None:
        weight *= chance
    if sample_weight is not None:
        weight *= sample_weight[:, None]
    rows, codes = np.nonzero(weight)
    return rows, codes, weight[rows, codes]
