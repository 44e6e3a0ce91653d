# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""The doubly robust estimator and its template."""

from __future__ import annotations

from numbers import Real
from typing import Literal

from skope_ope._sklearn import Interval
from skope_ope._types import RewardModelLike, SplitterLike
from skope_ope.evaluators.core._auto import AUTO, AutoParameter, clip_grid
from skope_ope.evaluators.core._estimate import Estimate
from skope_ope.evaluators.core._functions import sum_of_two, third_less_second
from skope_ope.evaluators.core._requires import REWARD_MODEL_CONSTRAINTS, Requires
from skope_ope.evaluators.core._sums import WEIGHT
from skope_ope.evaluators.core._weights import clip
from skope_ope.evaluators.static._base import StaticEvaluator
from skope_ope.exceptions import ModelErrorWarning

REMOVED_Z = 4  # what was taken from the correction, in standard errors


class DoublyRobustBase(StaticEvaluator):
    """Model value plus transformed weights times the model's residual."""

    # Where weights are transformed the third term is the correction without that: what
    # the transform takes away estimates the bias that buys the smaller variance.

    _parameter_constraints: dict = {**REWARD_MODEL_CONSTRAINTS}
    requires = Requires(model=True)
    combine = staticmethod(sum_of_two)
    shift_with, smooth = WEIGHT, (0,)

    def __init__(
        self,
        *,
        reward_model: RewardModelLike = None,
        cv: SplitterLike | Literal["prefit"] = 5,
    ) -> None:
        self.reward_model = reward_model
        self.cv = cv

    def terms(self, rounds):
        w = self.weights(rounds.w)
        if w is rounds.w:
            return rounds.v, rounds.correction
        return rounds.v, w * rounds.residual, rounds.correction

    def diagnostics_of(self, summary, estimate):
        """Return nothing, and a warning where the weights that were cut matter."""
        if self.combine is not sum_of_two or len(estimate.means) < 3:
            return {}, []
        error = estimate.standard_error
        if not abs(estimate.means[2] - estimate.means[1]) > error > 0:
            return {}, []  # what is taken off the weights hardly moves the value
        taken = Estimate(estimate.sums, third_less_second, estimate.pooling)
        removed, spread = taken.value - taken.offset, taken.standard_error
        if not abs(removed) > REMOVED_Z * spread > 0:
            return {}, []
        text = (
            f"reducing weights changed the value of {type(self).__name__} by "
            f"{-removed:+.4g}, {abs(removed) / error:.1f} of its standard errors "
            f"(z = {-removed / spread:+.1f}). The model is biased for these rounds, "
            "and the interval leaves that bias out. Compare with DoublyRobust, or "
            "improve the model."
        )
        return {}, [ModelErrorWarning(text, removed / spread)]

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.constant_reward = True
        tags.parameters_after_model = ()
        return tags


class DoublyRobust(DoublyRobustBase):
    r"""Reward model, corrected by the logged rewards [1]_.

    .. math:: \hat V = \frac1n \sum_i \Big[ \sum_a \pi(a|x_i)\, \hat q(x_i, a)
        + \min(w_i, c_{max}) (r_i - \hat q(x_i, a_i)) \Big],
        \qquad w_i = \pi(a_i|x_i) / p_i

    Without clipping it is unbiased if the propensities are right, even if the model is
    wrong. It is nearly unbiased if the model is right, even if the propensities are
    wrong. The model is cross-fitted: no round is predicted by a model that saw its
    reward. Read more in the :ref:`User Guide <doubly_robust>`.

    Parameters
    ----------
    reward_model : model, number, array or str, default=None
        A scikit-learn regressor (a classifier for 0/1 rewards) is cross-fitted per
        action, and an `ActionRewardModel` is cross-fitted as it is. A fitted model is
        `FrozenEstimator(model)`. Predictions are a number, an array of shape (n_rounds,
        n_actions) for the logs of `fit`, or the name of such a column. `None`: the
        out-of-fold mean reward of every action.
    cmax : float or "auto", default=None
        Upper bound on the importance weights; 0 would be the direct method. `None`
        keeps the weights as they are; "auto" chooses for every policy the bound with
        the least estimated mean squared error.
    cv : int, splitter, iterable or "prefit", default=5
        How rounds are split for cross-fitting: each round is predicted by a model that
        was fitted on other rounds. An int is the number of folds of `KFold` without
        shuffling. With several loggers, each of these folds has rounds of each logger.
        If the logs have groups, it is `GroupKFold`.

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
        **DoublyRobustBase._parameter_constraints,
        "cmax": [
            Interval(Real, 0, None, closed="left"),
            AutoParameter(None, clip_grid),
            None,
        ],
    }

    def __init__(
        self,
        *,
        reward_model: RewardModelLike = None,
        cmax: float | Literal["auto"] | None = None,
        cv: SplitterLike | Literal["prefit"] = 5,
    ) -> None:
        self.reward_model = reward_model
        self.cmax = cmax
        self.cv = cv

    @property
    def leaves_bias_out(self):
        return self.cmax is not None and "the bias of clipped weights"

    def weights(self, w):
        return clip(w, self.cmax)

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        # Clipping above one leaves on-policy weights alone.
        tags.on_policy_mean = self.cmax in (None, AUTO) or self.cmax >= 1
        tags.consistent = self.cmax is None
        tags.parameters_after_model = ("cmax",)
        return tags
