# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""The policy that maximises the doubly robust value."""

from sklearn.utils import get_tags

from skope_ope.evaluators.core._base import REWARD_MODEL_CONSTRAINTS
from skope_ope.learning._cost_sensitive import CostSensitivePolicy
from skope_ope.reward_models._sources import reward_source


class DRPolicy(CostSensitivePolicy):
    r"""Learn the policy of the largest doubly robust value from logs [1]_.

    The reward of every action of round :math:`i` is estimated by

    .. math:: \hat r_i(a) = \hat q(x_i, a) + 1[a_i = a]\, w_i (r_i - \hat q(x_i, a)),
        \qquad w_i = 1 / p_i,

    where the model :math:`\hat q` is cross-fitted: it never saw the reward that it is
    corrected by. A classifier learns to choose the best action, at the price of what
    others would have lost. Rewards may have any sign. Read more in the
    :ref:`User Guide <learning>`.

    Parameters
    ----------
    classifier : classifier, default=None
        Any scikit-learn classifier. One that takes no `sample_weight` is fitted on
        rows drawn in proportion to the weights. `None`: `LogisticRegression()`.
    reward_model : model, number, array or str, default=None
        What may stand for a reward model in `DoublyRobust`. `None`: the out-of-fold
        mean reward of every action.
    cv : int, splitter, iterable or "prefit", default=5
        How rounds are held out of the fits that predict for them.
    shrinkage : float, default=None
        `lam` in the weights lam w / (w^2 + lam) [2]_: 0 trusts the model alone,
        infinity and `None` shrink nothing.
    epsilon : float, default=0.0
        Share of uniform exploration over all (offered) actions, in [0, 1].
    temperature : float, default=None
        `None` acts greedily; a positive number takes the softmax of the classifier's
        log-probabilities.

    Attributes
    ----------
    classifier_ : classifier
        The fitted classifier.
    classes_ : ndarray of shape (n_actions,)
        Action labels of the logs.
    n_features_in_ : int
        Number of features of the contexts.

    See Also
    --------
    IPSPolicy : Has a constant in place of the model.
    RewardModelPolicy : Takes the action that a model holds for the best.

    Notes
    -----
    The reduction to classification is that of `IPSPolicy`. It makes up to
    n_actions - 1 examples of every round; with many actions `OffsetTree` is cheaper.

    References
    ----------
    .. [1] Dudik, M., Langford, J., & Li, L. (2011). Doubly robust policy evaluation
       and learning. ICML.
    .. [2] Su, Y., Dimakopoulou, M., Krishnamurthy, A., & Dudik, M. (2020). Doubly
       robust off-policy evaluation with shrinkage. ICML.

    Examples
    --------
    >>> from sklearn.linear_model import Ridge
    >>> from skope_ope import DoublyRobust, DRPolicy
    >>> from skope_ope.datasets import make_bandit_logs
    >>> logs = make_bandit_logs(4000, reward="continuous", random_state=0)
    >>> train, test = logs[:2000], logs[2000:]
    >>> policy = DRPolicy(reward_model=Ridge()).fit(train)
    >>> bool(DoublyRobust().fit(test).score(policy) > test.reward.mean() + 0.3)
    True
    """

    _parameter_constraints: dict = {
        **CostSensitivePolicy._parameter_constraints,
        **REWARD_MODEL_CONSTRAINTS,
    }

    def __init__(
        self,
        classifier=None,
        *,
        reward_model=None,
        cv=5,
        shrinkage=None,
        epsilon=0.0,
        temperature=None,
    ):
        self.classifier = classifier
        self.reward_model = reward_model
        self.cv = cv
        self.shrinkage = shrinkage
        self.epsilon = epsilon
        self.temperature = temperature

    def _expected(self, logs):
        return reward_source(self.reward_model, logs, self.cv).bind(logs)(logs, 0)

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        if hasattr(self.reward_model, "__sklearn_tags__"):
            inner = get_tags(self.reward_model).input_tags
            tags.input_tags.sparse &= inner.sparse
            tags.input_tags.allow_nan &= inner.allow_nan
        return tags
