# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""A classifier of actions from inverse propensity scores."""

from __future__ import annotations

from numbers import Real
from typing import TYPE_CHECKING

from skope_ope._sklearn import Interval, StrOptions
from skope_ope.learning._cost_sensitive import (
    CostSensitivePolicy,
    estimated_rewards,
)
from skope_ope.learning._logs_policy import centre

if TYPE_CHECKING:
    from typing import Any, Literal


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
