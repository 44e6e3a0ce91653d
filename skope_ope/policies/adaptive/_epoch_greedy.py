# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Explore one round, exploit what was explored for a while, and so on."""

from __future__ import annotations

from math import sqrt
from numbers import Integral, Real
from typing import TYPE_CHECKING

import numpy as np
from sklearn.base import MetaEstimatorMixin

from skope_ope._sklearn import HasMethods, Interval
from skope_ope.policies._adaptive import AdaptivePolicy
from skope_ope.policies._base import check_some_available, explore, greedy, n_rows
from skope_ope.policies.adaptive._online_classifier_policy import ArmModels

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from skope_ope._types import Contexts
    from skope_ope.logs._bandit_logs import BanditLogs


class EpochGreedy(MetaEstimatorMixin, AdaptivePolicy):
    r"""Alternate one round of exploration with epochs of exploitation [1]_.

    Epoch :math:`\ell = 1, 2, \dots` begins with one round whose action is drawn
    uniformly. One reward model per action learns from these explored rounds only. Then
    follow

    .. math:: s(\ell) = \lfloor c \sqrt{\ell / K} \rfloor

    rounds that take the action with the largest estimate. With K actions, the first
    :math:`K / c^2` epochs only explore. Of T rounds, about :math:`T^{2/3}` explore.
    Read more in the :ref:`User Guide <adaptive_policies>`.

    Parameters
    ----------
    reward_model : regressor or classifier, default=None
        Any scikit-learn regressor, or a classifier with `predict_proba` if rewards are
        0/1. Every action has a clone. Models with `partial_fit` learn the new round
        only; others are fitted again. `None`: `Ridge()`.
    exploit : float or callable, default=1.0
        The constant c of the formula, which stands for the complexity of the models in
        the bound of the paper. Or `exploit(l)`, the number of rounds in which epoch l
        exploits.
    random_state : int, default=0
        Seed of nested models without a `random_state`, set again at every `reset`.

    Attributes
    ----------
    classes_ : ndarray of shape (n_actions,)
        Action labels.
    n_features_in_ : int
        Number of features.
    n_epochs_ : int
        Number of epochs that have begun.

    See Also
    --------
    EpsilonGreedy : Explores at a constant rate, without contexts.
    OnlineClassifierPolicy : Explores at a constant rate and learns from all rounds.

    Notes
    -----
    The paper minimises the importance-weighted error of a policy class over the
    explored rounds. One regression per action and its argmax does this with models of
    scikit-learn. An action without an explored round gets the mean reward of all
    explored rounds. If a classifier has not seen both rewards of an action, the
    estimate is (successes + 1) / (pulls + 2).

    References
    ----------
    .. [1] Langford, J., & Zhang, T. (2007). The epoch-greedy algorithm for
       multi-armed bandits with side information. NIPS.

    Examples
    --------
    >>> import numpy as np
    >>> from skope_ope import BanditLogs
    >>> from skope_ope.policies import EpochGreedy
    >>> X = np.array([[1.0], [2.0]])
    >>> logs = BanditLogs(X, ["a", "b"], [0.0, 1.0], [0.5, 0.5])
    >>> policy = EpochGreedy(exploit=lambda epoch: 3).fit(logs)
    >>> policy.predict_proba(X[:1])  # the first round explores
    array([[0.5, 0.5]])
    >>> policy.update(X[1:], 1, 1.0, 0.5)  # now come three rounds of exploitation
    True
    >>> policy.n_epochs_
    1
    """

    _parameter_constraints: dict = {
        "reward_model": [HasMethods(["fit", "predict"]), None],
        "exploit": [Interval(Real, 0, None, closed="left"), callable],
        "random_state": [Interval(Integral, 0, None, closed="left")],
    }

    def __init__(
        self,
        reward_model: Any = None,
        *,
        exploit: float | Callable[..., Any] = 1.0,
        random_state: int = 0,
    ) -> None:
        self.reward_model = reward_model
        self.exploit = exploit
        self.random_state = random_state

    def reset(self, logs: BanditLogs) -> None:
        """Forget everything; learn the actions from empty logs.

        Parameters
        ----------
        logs : BanditLogs
            `logs[:0]` of the logs that the policy will act on.
        """
        super().reset(logs)
        model = self.reward_model
        if model is None:
            from sklearn.linear_model import Ridge

            model = Ridge()
        name = type(self).__name__
        self._models = ArmModels(model, logs.n_actions, self.random_state, name)
        self.n_epochs_ = 0
        self._left = 0  # rounds of exploitation left in this epoch

    def update(self, X: Contexts, action: int, reward: float, proba: float) -> bool:
        """Learn from one round of the policy's own history, if it explored.

        Parameters
        ----------
        X : array, sparse matrix or frame of shape (1, n_features)
            Context.
        action : int
            Index of the action in `classes_`.
        reward : float
            Its reward.
        proba : float
            Ignored.

        Returns
        -------
        changed : bool
            Whether exploration begins or ends.
        """
        if self._left:
            self._left -= 1
            return not self._left
        self._models.add(action, X, np.array([reward]))
        self.n_epochs_ += 1
        self._left = self._length()
        if not self._left:
            return False
        self._models.train()
        return True

    def _length(self):
        if not callable(self.exploit):
            return int(self.exploit * sqrt(self.n_epochs_ / len(self.classes_)))
        length = self.exploit(self.n_epochs_)
        if length != int(length) or length < 0:
            raise ValueError(
                f"exploit({self.n_epochs_}) is {length!r}; it must be a number of "
                "rounds: 0, 1, 2, ..."
            )
        return int(length)

    def _proba(self, X, available):
        if self._left:
            return self._exploit(X, available)
        uniform = np.full((n_rows(X), len(self.classes_)), 1 / len(self.classes_))
        if available is not None:
            check_some_available(available)
        return explore(uniform, 1.0, available)

    def _exploit(self, X, available):
        return greedy(self._models.estimates(X), 0.0, available)
