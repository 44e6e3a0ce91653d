# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""A classifier of actions from inverse propensity scores."""

from __future__ import annotations

from numbers import Real
from typing import TYPE_CHECKING

import numpy as np

from skope_ope._sklearn import Interval, StrOptions
from skope_ope.evaluators.core._weights import shrink
from skope_ope.evaluators.static._action_scores import doubly_robust_scores
from skope_ope.learning._logs_policy import LogsPolicy, NoEvidence, centre
from skope_ope.policies._classifier_actor import ClassifierActor

if TYPE_CHECKING:
    from typing import Any, Literal

# -- cost-sensitive classification with any classifier that takes weights --------------


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


# --------------------------------------------------------------------------------------


class IPSPolicy(CostSensitivePolicy):
    r"""Learn a classifier of actions from inverse propensity scores.

    The reward of every action of round :math:`i` is estimated by

    .. math:: \hat r_i(a) = b + 1[a_i = a]\, w_i (r_i - b), \qquad w_i = 1 / p_i,

    and a classifier learns to predict the best action, with a cost for each other
    action. Rewards may have any sign. A reward above the baseline :math:`b` favours the
    logged action, one below favours all others. Read more in the :ref:`User Guide
    <learning>`.

    Parameters
    ----------
    classifier : classifier, default=None
        Any scikit-learn classifier. One that takes no `sample_weight` is fitted on
        rows drawn in proportion to the weights. `None`: that of `ClassifierPolicy`.
        Pass one to tune its parameters, as `classifier__C`.
    baseline : {"auto", "min", "mean", "median", "midrange"} or float, default="auto"
        The reward that favours no action. It does not bias the estimated values, but it
        changes what the classifier learns, see Notes. "min" is the smallest reward;
        where that is 0, this is `ClassifierPolicy().fit(logs)`. "midrange" is the
        middle of `reward_range`, or of the rewards. "auto" is the smallest where all
        rewards are one of two numbers, otherwise the mean.
    shrinkage : float, default=None
        `lam` in the weights lam w / (w^2 + lam) [2]_: less variance from small
        propensities, for some bias. `None` (or infinity): none.
    epsilon : float, default=0.0
        Share of uniform exploration over all (offered) actions, in [0, 1].
    temperature : float, default=None
        `None` acts greedily; a positive number takes the softmax of the classifier's
        log-probabilities.

    Attributes
    ----------
    classifier_ : classifier
        The fitted classifier.
    baseline_ : float
        The baseline that is used.
    classes_ : ndarray of shape (n_actions,)
        Action labels of the logs.
    n_features_in_ : int
        Number of features of the contexts.

    See Also
    --------
    DRPolicy : Improves this classifier with a model of the rewards.
    SoftmaxPolicy : Maximises the estimated value itself.

    Notes
    -----
    A round becomes one example per action, labelled with the action. The weight of the
    example is the reward of the action minus that of the worst action. The weighted
    accuracy of a policy is then its estimated value up to a constant [1]_. A classifier
    does not maximise accuracy, but another loss. A classifier of probabilities learns
    P(a | x) proportional to the mean weight of a. The best action has the largest P,
    but with more examples for other actions the differences are smaller. A baseline
    above the smallest reward makes K - 1 such examples of every round below the
    baseline. The smallest reward as the baseline makes none, but then nearly every
    graded reward favours its action. The default is a compromise, not a theorem.
    `DRPolicy` depends less on it.

    The weights have the unit of the rewards, and a penalty of the classifier has no
    unit. If rewards are as small as 1e-4, use a larger unit.

    Actions that were never logged are chosen only if nothing else is offered.

    References
    ----------
    .. [1] Abe, N., Zadrozny, B., & Langford, J. (2004). An iterative method for
       multi-class cost-sensitive learning. KDD.
    .. [2] Su, Y., Dimakopoulou, M., Krishnamurthy, A., & Dudik, M. (2020). Doubly
       robust off-policy evaluation with shrinkage. ICML.

    Examples
    --------
    >>> from skope_ope import DoublyRobust, IPSPolicy
    >>> from skope_ope.datasets import make_bandit_logs
    >>> logs = make_bandit_logs(4000, reward="continuous", random_state=0)
    >>> train, test = logs[:2000], logs[2000:]
    >>> policy = IPSPolicy(shrinkage=100).fit(train)
    >>> bool(DoublyRobust().fit(test).score(policy) > test.reward.mean() + 0.3)
    True
    """

    _parameter_constraints: dict = {
        **CostSensitivePolicy._parameter_constraints,
        "baseline": [
            StrOptions({"auto", "min", "mean", "median", "midrange"}),
            Interval(Real, None, None, closed="neither"),
        ],
        "shrinkage": [Interval(Real, 0, None, closed="right"), None],
    }

    def __init__(
        self,
        classifier: Any = None,
        *,
        baseline: Literal["auto", "min", "mean", "median", "midrange"] | float = "auto",
        shrinkage: float | None = None,
        epsilon: float = 0.0,
        temperature: float | None = None,
    ) -> None:
        self.classifier = classifier
        self.baseline = baseline
        self.shrinkage = shrinkage
        self.epsilon = epsilon
        self.temperature = temperature

    def _first_rewards(self, logs):
        self.baseline_ = centre(logs, self.baseline)
        return estimated_rewards(logs, self.baseline_, self.shrinkage)
