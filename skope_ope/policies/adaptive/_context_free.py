# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Policies that learn a mean reward per action, or call a function."""

from __future__ import annotations

from collections.abc import Callable
from math import inf, log, sqrt
from numbers import Real
from typing import Any, Literal, NamedTuple

import numpy as np

from skope_ope._sklearn import Interval, StrOptions
from skope_ope._types import Array, Contexts
from skope_ope.logs import BanditLogs
from skope_ope.logs._concat import stack_rows
from skope_ope.logs._row_container import own
from skope_ope.logs._validation import check_distributions
from skope_ope.policies._adaptive import AdaptivePolicy
from skope_ope.policies._base import first_best_of_list, greedy, n_rows, restrict
from skope_ope.policies._policy_outputs import columns_told, function_table


class ContextFreePolicy(AdaptivePolicy):
    """Base class of policies whose scores depend on counts and mean rewards only."""

    # A subclass implements `_scores()`, a list with the score of every action; the best
    # one is taken, mixed with `_epsilon` uniform exploration. Lists of Python numbers,
    # not arrays: at some ten actions they are several times faster.

    context_free = takes_weight = True
    _epsilon = 0.0

    def reset(self, logs: BanditLogs) -> None:
        """Forget everything; learn the actions from empty logs.

        Parameters
        ----------
        logs : BanditLogs
            `logs[:0]` of the logs that the policy will act on.
        """
        super().reset(logs)
        self._n_rounds = 0
        self._counts = [0] * logs.n_actions
        self._totals = [0.0] * logs.n_actions
        self._means = [inf] * logs.n_actions  # untried actions come first
        self._begin()

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
        self._n_rounds += 1
        self._counts[action] += weight
        self._totals[action] += weight * float(reward)
        self._means[action] = self._totals[action] / self._counts[action]
        self._follow(action)
        return True

    def _begin(self):
        """Set what scores need beside counts and means; a subclass may have some."""

    def _follow(self, action):
        """Bring up to date what scores need of an action that has learned."""

    @property
    def counts_(self) -> Array:
        """How often each action was taken."""
        return np.array(self._counts)

    @property
    def means_(self) -> Array:
        """Mean reward of every action, NaN where it was never taken."""
        return np.where(self.counts_ > 0, self._means, np.nan)

    def action_row(self) -> list[float]:
        """Probability of every action, for all contexts.

        Returns
        -------
        proba : list of float
            A new list every time.
        """
        epsilon, n_actions = self._epsilon, len(self._counts)
        proba = [epsilon / n_actions] * n_actions
        proba[first_best_of_list(self._scores())] += 1 - epsilon
        return proba

    def look_ahead(self, X: Contexts, available: Array | None = None) -> Any:
        """Probabilities of a block of coming rounds; see `AdaptivePolicy`.

        Parameters
        ----------
        X : array, sparse matrix or frame of shape (n_rounds, n_features)
            Contexts, of which only the number counts.
        available : ndarray of bool of shape (n_rounds, n_actions), default=None
            Offered actions.

        Returns
        -------
        block : object
            Its `refresh` never fails.
        """
        return _ContextFreeBlock(self, X, available)

    def _proba(self, X, available):
        if available is None:
            return np.tile(self.action_row(), (n_rows(X), 1))
        scores = np.broadcast_to(self._scores(), available.shape)
        return greedy(scores, self._epsilon, available)

    def _exploit(self, X, available):
        """Take the best mean; an untried action only where nothing else is offered."""
        scores = [-inf if mean == inf else mean for mean in self._means]
        if available is None:
            return greedy(np.tile(scores, (n_rows(X), 1)))
        lowest = min([0.0, *(score for score in scores if score > -inf)])
        # an action that is not offered must stay behind one that was never tried
        scores = [lowest - 1 if score == -inf else score for score in scores]
        return greedy(np.broadcast_to(scores, available.shape), 0.0, available)


class _ContextFreeBlock:
    def __init__(self, policy, X, available):
        self.policy, self.available = policy, available
        self.proba = policy._proba(X, available)

    def refresh(self, start, action):
        if self.available is None:
            self.proba[start:] = self.policy.action_row()
        elif start < len(self.proba):
            rest = self.available[start:]
            self.proba[start:] = self.policy._proba(None, rest)
        return True


# -- mostly the best action so far, sometimes any --------------------------------------


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

    def _begin(self):
        if not callable(self.epsilon):
            self._epsilon = float(self.epsilon)
        self._follow(None)

    def _follow(self, action):
        if not callable(self.epsilon):
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


# -- the action whose mean reward could be the best ------------------------------------


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

    def _begin(self):
        self._alpha = float(self.alpha)
        # mean and 1 / sqrt(n_a), in pairs, which are read faster than two lists
        self._terms = [(inf, 0.0)] * len(self._counts)

    def _follow(self, action):
        self._terms[action] = self._means[action], 1 / sqrt(self._counts[action])

    def _scores(self):
        weight = self._alpha
        if self.width == "log":
            weight *= sqrt(log(self._n_rounds or 1))
        return [mean + weight * width for mean, width in self._terms]


# -- A function of the contexts and of the history as a policy -------------------------


class PolicyHistory(NamedTuple):
    """The rounds that a policy has learned from, in their order."""

    contexts: object
    actions: np.ndarray
    rewards: np.ndarray
    proba: np.ndarray


class AdaptiveFunctionPolicy(AdaptivePolicy):
    """Act by a function of the contexts and of the policy's own history.

    It makes a policy of a function. A subclass of `AdaptivePolicy` with a cheap
    `update` is faster. Read more in the :ref:`User Guide <adaptive_policies>`.

    Parameters
    ----------
    func : callable
        `func(X, history)` gives the label of one action per round, shape (n_rounds,),
        or an array of shape (n_rounds, n_actions) with the probability of every
        action. Columns are in the order of `logs.actions`; those of a frame are
        matched by name. If offers vary, the array is renormalised over the offered
        actions. `history` is a tuple (contexts, actions, rewards, proba) of the rounds
        so far. Contexts have the shape (n_history, n_features). Action indices, rewards
        and the policy's own probabilities of these actions have the shape (n_history,).
        The function must not change them, and its result must depend on nothing else.

    Attributes
    ----------
    classes_ : ndarray of shape (n_actions,)
        Action labels.
    history_ : tuple (contexts, actions, rewards, proba)
        The history so far.

    See Also
    --------
    FunctionPolicy : A function of the contexts only.

    Examples
    --------
    >>> import numpy as np
    >>> from skope_ope import BanditLogs
    >>> from skope_ope.policies import AdaptiveFunctionPolicy
    >>> def win_stay_lose_shift(X, history):
    ...     last = history.actions[-1] if len(history.actions) else 0
    ...     if len(history.rewards) and history.rewards[-1] == 0:
    ...         last = (last + 1) % 2
    ...     return np.tile(np.eye(2)[last], (len(X), 1))
    >>> logs = BanditLogs(np.zeros((2, 1)), ["a", "b"], [0.0, 1.0], [0.5, 0.5])
    >>> policy = AdaptiveFunctionPolicy(win_stay_lose_shift).fit(logs)
    >>> changed = policy.update(logs[:1].context, 0, 0.0, 1.0)
    >>> policy.predict_proba([[0.0]])
    array([[0., 1.]])
    """

    _parameter_constraints: dict = {"func": [callable]}

    def __init__(self, func: Callable[..., Any]) -> None:
        self.func = func

    def reset(self, logs: BanditLogs) -> None:
        """Forget everything; learn the actions from empty logs.

        Parameters
        ----------
        logs : BanditLogs
            `logs[:0]` of the logs that the policy will act on.
        """
        super().reset(logs)
        self._contexts = [self.context_of(logs)]
        self._rounds = np.empty((3, 16))
        self._n_rounds = 0

    def update(self, X: Contexts, action: int, reward: float, proba: float) -> bool:
        """Append one round to the history.

        Parameters
        ----------
        X : array, sparse matrix or frame of shape (1, n_features)
            Context.
        action : int
            Index of the action in `classes_`.
        reward : float
            Its reward.
        proba : float
            The policy's own probability of the action.

        Returns
        -------
        changed : bool
            True.
        """
        if self._n_rounds == self._rounds.shape[1]:  # double: appending stays cheap
            self._rounds = np.hstack([self._rounds, np.empty_like(self._rounds)])
        self._rounds[:, self._n_rounds] = action, reward, proba
        self._contexts.append(X)
        self._n_rounds += 1
        return True

    @property
    def history_(self) -> Any:
        """The history so far."""
        if len(self._contexts) > 1:
            self._contexts = [stack_rows(self._contexts)]
        actions, rewards, proba = self._rounds[:, : self._n_rounds]
        return PolicyHistory(self._contexts[0], actions.astype(np.intp), rewards, proba)

    def _proba(self, X, available):
        X = X if hasattr(X, "shape") else np.asarray(X)
        with columns_told(X):
            given, classes = self.func(own(X, self.func), self.history_), self.classes_
        proba = function_table("the output of func", given, classes, n_rows(X))
        shape = (n_rows(X), len(classes))
        if proba.shape != shape:
            raise ValueError(
                f"func gave an array of shape {proba.shape}, expected {shape} "
                "(n_rounds, n_actions): one column per action of the logs."
            )
        if available is not None:
            return restrict(proba, available)
        check_distributions("func", proba)
        return proba
