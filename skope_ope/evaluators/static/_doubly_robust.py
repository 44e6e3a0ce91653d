# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""The doubly robust estimator and its template."""

from numbers import Real

from sklearn.utils._param_validation import Interval

from skope_ope.evaluators._base import REWARD_MODEL_CONSTRAINTS
from skope_ope.evaluators._weights import clip
from skope_ope.evaluators.static._base import StaticEvaluator


class CorrectedModel(StaticEvaluator):
    """Model value plus transformed weights times the model's residual."""

    _parameter_constraints: dict = {**REWARD_MODEL_CONSTRAINTS}
    _uses_model = True
    _shifts = True

    def _terms(self, rounds):
        return (rounds.v + self._weights(rounds.w) * rounds.residual,)

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.constant_reward = True
        return tags


class DoublyRobust(CorrectedModel):
    r"""Reward model, corrected by the logged rewards [1]_.

    .. math:: \hat V = \frac1n \sum_i \Big[ \sum_a \pi(a|x_i)\, \hat q(x_i, a)
        + \min(w_i, c_{max}) (r_i - \hat q(x_i, a_i)) \Big],
        \qquad w_i = \pi(a_i|x_i) / p_i

    Unbiased without clipping where the propensities are right, whatever the model;
    nearly so where the model is right, whatever the propensities. The model is
    cross-fitted, so that no round is scored by a model that saw its reward. Read
    more in the :ref:`User Guide <doubly_robust>`.

    Parameters
    ----------
    reward_model : model, number, array or str, default=None
        A scikit-learn regressor (a classifier for 0/1 rewards), cross-fitted per
        action; an `ActionRewardModel`; a fitted one as `FrozenEstimator(model)`; a
        number; an array of shape (n_rounds, n_actions) for the rows of the logs of
        `fit`; or the name of such a column. `None`: the out-of-fold mean reward of
        every action.
    cmax : float, default=None
        Upper bound on the importance weights; 0 would be the direct method. `None`
        keeps the weights as they are.
    cv : int, splitter, iterable or "prefit", default=5
        How rounds are held out of the fits that predict for them. An int is `KFold`
        without shuffling, or `GroupKFold` where the logs have groups.

    Attributes
    ----------
    n_actions_ : int
        Number of actions in the logs of `fit`.

    See Also
    --------
    SNDR : Normalises the correction.
    SwitchDR : Drops the correction where weights are large.
    DRos : Shrinks the weights.

    References
    ----------
    .. [1] Dudik, M., Langford, J., & Li, L. (2011). Doubly robust policy evaluation
       and learning. ICML.

    Examples
    --------
    >>> from sklearn.linear_model import Ridge
    >>> from skope_ope import DoublyRobust
    >>> from skope_ope.datasets import make_bandit_logs
    >>> logs, policy, truth = make_bandit_logs(random_state=0, return_truth=True)
    >>> result = DoublyRobust(reward_model=Ridge()).fit(logs).evaluate(policy)
    >>> low, high = result.confidence_interval()
    >>> bool(low < truth.value < high)
    True
    """

    _parameter_constraints: dict = {
        **CorrectedModel._parameter_constraints,
        "cmax": [Interval(Real, 0, None, closed="left"), None],
    }

    def __init__(self, *, reward_model=None, cmax=None, cv=5):
        self.reward_model = reward_model
        self.cmax = cmax
        self.cv = cv

    def _weights(self, w):
        return clip(w, self.cmax)

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        # Clipping above one leaves on-policy weights alone.
        tags.on_policy_mean = self.cmax is None or self.cmax >= 1
        return tags
