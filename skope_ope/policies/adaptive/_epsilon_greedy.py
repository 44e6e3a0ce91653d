# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Mostly the best action so far, sometimes any."""

from __future__ import annotations

from numbers import Real
from typing import TYPE_CHECKING

from skope_ope._sklearn import Interval
from skope_ope.policies.adaptive._context_free import ContextFreePolicy

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from skope_ope.logs._bandit_logs import BanditLogs


class EpsilonGreedy(ContextFreePolicy):
    r"""Take the action with the best mean reward so far, or explore uniformly [1]_.

    With :math:`\hat\mu_a` the mean reward of action a in the policy's own history
    (infinite before it was tried) and K actions,

    .. math:: \pi_t(a) = (1 - \epsilon_t)\, 1[a = \arg\max_b \hat\mu_b]
        + \epsilon_t / K.

    The context is ignored. Means within 1e-12 (relative) of the best are tied; the
    lowest index wins. If offers vary, the policy chooses and explores among the offered
    actions. Read more in the :ref:`User Guide <adaptive_policies>`.

    Parameters
    ----------
    epsilon : float or callable, default=0.1
        Share of uniform exploration in [0, 1], or a function `epsilon(t)`. t is the
        number 1, 2, ... of the coming round in the policy's own history.

    Attributes
    ----------
    classes_ : ndarray of shape (n_actions,)
        Action labels.
    counts_ : ndarray of shape (n_actions,)
        How often each action was taken.
    means_ : ndarray of shape (n_actions,)
        Mean reward of every action, NaN before it was tried.

    See Also
    --------
    OnlineClassifierPolicy : Epsilon-greedy on a classifier, which uses the context.
    UCB1 : Explores uncertain actions.

    References
    ----------
    .. [1] Sutton, R. S., & Barto, A. G. (1998). Reinforcement learning: an
       introduction. MIT Press.

    Examples
    --------
    >>> import numpy as np
    >>> from skope_ope import BanditLogs, EpsilonGreedy
    >>> logs = BanditLogs(np.empty((2, 0)), ["a", "b"], [0.0, 1.0], [0.5, 0.5])
    >>> policy = EpsilonGreedy(epsilon=0.2).fit(logs)
    >>> policy.action_row()  # nothing is known: the first of the untried
    [0.9, 0.1]
    >>> changed = policy.update(None, 0, 0.0, 0.9)
    >>> changed = policy.update(None, 1, 1.0, 0.9)
    >>> policy.action_row()
    [0.1, 0.9]
    """

    _parameter_constraints: dict = {
        "epsilon": [Interval(Real, 0, 1, closed="both"), callable],
    }

    def __init__(self, epsilon: float | Callable[..., Any] = 0.1) -> None:
        self.epsilon = epsilon

    def reset(self, logs: BanditLogs) -> None:
        """Forget everything; learn the actions from empty logs.

        Parameters
        ----------
        logs : BanditLogs
            `logs[:0]` of the logs that the policy will act on.
        """
        super().reset(logs)
        self._set_epsilon()

    def update(
        self, X: Any, action: int, reward: float, proba: float, weight: float = 1
    ) -> bool:
        """Learn from one round of the policy's own history.

        Parameters
        ----------
        X : object
            Ignored.
        action : int
            Index of the action in `classes_`.
        reward : float
            Its reward.
        proba : float
            Ignored.
        weight : float, default=1
            How often the round counts in the count and the mean of the action.

        Returns
        -------
        changed : bool
            True.
        """
        super().update(X, action, reward, proba, weight)
        if callable(self.epsilon):
            self._set_epsilon()
        return True

    def _set_epsilon(self):
        if not callable(self.epsilon):
            self._epsilon = float(self.epsilon)
            return
        t = self._n_rounds + 1
        self._epsilon = float(self.epsilon(t))
        if not 0 <= self._epsilon <= 1:
            raise ValueError(
                f"epsilon({t}) is {self._epsilon:.6g}; it must lie in [0, 1]. Bound "
                "it, e.g. lambda t: min(1, 5 / t)."
            )

    def _scores(self):
        return self._means
