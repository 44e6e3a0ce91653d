# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""The more robust doubly robust estimator."""

from __future__ import annotations

import numpy as np

from skope_ope._progress import untold
from skope_ope._types import RewardModelLike, SplitterLike
from skope_ope.evaluators.core._drowned import is_huge
from skope_ope.evaluators.core._engine import EXTRACT_WEIGHTS, terms_of
from skope_ope.evaluators.core._requires import Requires
from skope_ope.evaluators.core._rounds import PositiveRounds
from skope_ope.evaluators.static._doubly_robust import DoublyRobustBase
from skope_ope.reward_models._sources import reward_source


class MRDR(DoublyRobustBase):
    r"""Doubly robust with a model fitted to minimise its variance [1]_.

    The value is that of `DoublyRobust`; the reward model is refitted for every policy,
    inside `evaluate`, with row weights

    .. math:: \pi(a_i|x_i) (1 - p_i) / p_i^2,

    which minimise the variance for deterministic policies and approximate that for
    others. A model that is not fitted here (a number, an array, a column, a
    frozen model) cannot be refitted and is refused.

    Parameters
    ----------
    reward_model : model, default=None
        A regressor or classifier that follows scikit-learn, or an `ActionRewardModel`.
        A model without `sample_weight` is fitted to rounds drawn in proportion to their
        weights. `None`: weighted out-of-fold means per action.
    cv : int, splitter or iterable, default=5
        How rounds are split for cross-fitting, see `DoublyRobust`.

    Attributes
    ----------
    n_actions_ : int
        Number of actions in the logs of `fit`.

    See Also
    --------
    DoublyRobust : Fits the model without regard to the policy.

    References
    ----------
    .. [1] Farajtabar, M., Chow, Y., & Ghavamzadeh, M. (2018). More robust doubly
       robust off-policy evaluation. ICML.

    Examples
    --------
    >>> from sklearn.linear_model import Ridge
    >>> from skope_ope import MRDR
    >>> from skope_ope.datasets import make_bandit_logs
    >>> logs, policy, truth = make_bandit_logs(random_state=0, return_truth=True)
    >>> result = MRDR(reward_model=Ridge()).fit(logs).evaluate(policy)
    >>> low, high = result.confidence_interval()
    >>> bool(low < truth.value < high)
    True
    """

    requires = Requires(model=True, refits=True)

    def __init__(
        self, *, reward_model: RewardModelLike = None, cv: SplitterLike = 5
    ) -> None:
        self.reward_model = reward_model
        self.cv = cv

    def fit_reward_model(self, logs, model, cv=None, target=None, progress=untold):
        """Return what predicts the rewards, fitted to minimise the variance."""
        weight = variance_weights(logs, target)
        if logs.sample_weight is not None:
            weight = weight * logs.sample_weight
        return reward_source(model, logs, cv, weight)

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.consistent = True
        tags.parameters_after_model = None  # nothing is fitted in fit
        return tags


def variance_weights(logs, target):
    """Row weights pi(a|x) (1 - p) / p^2 that stand for the variance of DR."""
    [w] = terms_of(EXTRACT_WEIGHTS, logs, target, None, PositiveRounds(logs))
    p = logs.propensity
    with np.errstate(over="ignore"):
        found = w * (1 - np.minimum(p, 1)) / p
    row = int(np.argmax(found))
    if is_huge(found[row]):
        raise ValueError(
            f"MRDR weights row {row} by pi (1 - p) / p^2 = {found[row]:.3g}, which "
            f"is too large to fit a model: its propensity is {p[row]:.3g}. Correct "
            "it, drop the row, or raise small propensities with PropensityClipper."
        )
    return found
