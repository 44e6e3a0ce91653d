# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""The action whose mean reward could be the best."""

from __future__ import annotations

from math import inf, log, sqrt
from numbers import Real
from typing import TYPE_CHECKING

from skope_ope._sklearn import Interval, StrOptions
from skope_ope.policies.adaptive._context_free import ContextFreePolicy

if TYPE_CHECKING:
    from typing import Any, Literal

    from skope_ope.logs._bandit_logs import BanditLogs


class UCB1(ContextFreePolicy):
    r"""Take the action with the largest upper confidence bound of its mean [1]_.

    With :math:`\hat\mu_a` the mean reward of action a, :math:`n_a` how often it was
    taken and :math:`t` the rounds so far in the policy's own history,

    .. math:: a_t = \arg\max_a \hat\mu_a + \alpha \sqrt{\ln t / n_a},

    untried actions first, in their order. With `width="constant"` the bonus is
    :math:`\alpha / \sqrt{n_a}` [2]_. The context is ignored. Bounds within 1e-12
    (relative) of the best are tied; the lowest index wins. Read more in the
    :ref:`User Guide <adaptive_policies>`.

    Parameters
    ----------
    alpha : float, default=2**0.5
        Weight of the bonus. The default is that of the paper, for rewards in [0, 1].
    width : {"log", "constant"}, default="log"
        Whether the bonus grows with the logarithm of the rounds.

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
    LinUCB : Bounds that depend on the context.

    Notes
    -----
    The policy is deterministic. If actions were logged uniformly, only one in K rounds
    can enter its history.

    References
    ----------
    .. [1] Auer, P., Cesa-Bianchi, N., & Fischer, P. (2002). Finite-time analysis of
       the multiarmed bandit problem. Machine Learning 47.
    .. [2] Li, L., Chu, W., Langford, J., & Schapire, R. E. (2010). A
       contextual-bandit approach to personalized news article recommendation. WWW.

    Examples
    --------
    >>> import numpy as np
    >>> from skope_ope import BanditLogs, UCB1
    >>> logs = BanditLogs(np.empty((2, 0)), ["a", "b"], [0.0, 1.0], [0.5, 0.5])
    >>> policy = UCB1().fit(logs)
    >>> for action, reward in [(0, 1.0), (1, 0.0), (0, 0.0), (0, 0.0)]:
    ...     changed = policy.update(None, action, reward, 1.0)
    >>> policy.action_row()  # 1/3 + sqrt(2 ln 4 / 3) < 0 + sqrt(2 ln 4 / 1)
    [0.0, 1.0]
    """

    _parameter_constraints: dict = {
        "alpha": [Interval(Real, 0, None, closed="left")],
        "width": [StrOptions({"log", "constant"})],
    }

    def __init__(
        self, alpha: float = 2**0.5, *, width: Literal["log", "constant"] = "log"
    ) -> None:
        self.alpha = alpha
        self.width = width

    def reset(self, logs: BanditLogs) -> None:
        """Forget everything; learn the actions from empty logs.

        Parameters
        ----------
        logs : BanditLogs
            `logs[:0]` of the logs that the policy will act on.
        """
        super().reset(logs)
        self._alpha = float(self.alpha)
        # mean and 1 / sqrt(n_a), in pairs, which are read faster than two lists
        self._terms = [(inf, 0.0)] * logs.n_actions

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
        self._terms[action] = self._means[action], 1 / sqrt(self._counts[action])
        return True

    def _scores(self):
        weight = self._alpha
        if self.width == "log":
            weight *= sqrt(log(self._n_rounds or 1))
        return [mean + weight * width for mean, width in self._terms]
