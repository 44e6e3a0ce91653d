# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Policies that train classifiers of rewards while they act."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from math import sqrt
from numbers import Integral, Real
from typing import Any

import numpy as np
from sklearn.base import MetaEstimatorMixin, clone, is_classifier
from sklearn.utils import check_consistent_length, check_random_state

from skope_ope._sklearn import HasMethods, Interval, has_method
from skope_ope._texts import meant
from skope_ope._types import Array, Contexts
from skope_ope.logs import BanditLogs
from skope_ope.logs._concat import stack_rows
from skope_ope.logs._row_container import own, take_rows
from skope_ope.logs._validation import is_frame, label_codes
from skope_ope.policies._adaptive import AdaptivePolicy
from skope_ope.policies._base import check_some_available, explore, greedy, n_rows
from skope_ope.propensities._model_fits import (
    class_probabilities,
    fit_encoded,
    in_one_thread,
    predictions_of,
)


class OnlineClassifierPolicy(MetaEstimatorMixin, AdaptivePolicy):
    r"""Learn to act with a scikit-learn classifier per action.

    One clone of the classifier per action learns :math:`\hat P_a(r = 1 | x)` from the
    rounds in which that action was taken (the "adaptive policy" of [1]_). With K
    actions,

    .. math:: \pi_t(a|x) = (1 - \epsilon)\, 1[a = \arg\max_b \hat P_b(r = 1 | x)]
        + \epsilon / K.

    An action that has not seen both rewards is estimated by
    (successes + 1) / (pulls + 2). The classifiers are trained again after every
    `update_every` rounds of the policy's own history. Between two trainings nothing
    changes, so that coming rounds are predicted in blocks. Read more in the
    :ref:`User Guide <adaptive_policies>`.

    Parameters
    ----------
    classifier : classifier, default=None
        Any scikit-learn classifier with `predict_proba`. Classifiers with
        `partial_fit` learn the new rounds only; others are fitted again on all rounds
        of their action. `None`: `LogisticRegression()`.
    epsilon : float, default=0.1
        Share of uniform exploration over all (offered) actions, in [0, 1].
    update_every : int, default=15
        Rounds between two trainings.
    initial : tuple (X, y), default=None
        Fully labelled contexts that every classifier learns before the first round. y
        holds the right action of each, with reward 1 for it and 0 for all others. Or y
        has the shape (n_samples, n_actions), with the 0/1 reward of every action in
        the order of `logs.actions`.
    random_state : int, default=0
        Seed of nested classifiers without a `random_state`, set again at every `reset`.

    Attributes
    ----------
    classes_ : ndarray of shape (n_actions,)
        Action labels.
    n_features_in_ : int
        Number of features.
    classifiers_ : list of (classifier or None)
        The classifier of every action, None before its first training.
    n_trainings_ : int
        Number of trainings so far.

    Raises
    ------
    TypeError
        If the classifier has no `predict_proba`.
    ValueError
        If a reward is neither 0 nor 1.

    See Also
    --------
    ClassifierPolicy : Learns once, before it acts.
    EpochGreedy : Learns from its exploration only.

    Notes
    -----
    A logged row trains the classifier of its own action only. `initial` trains all.

    References
    ----------
    .. [1] Dudík, M., Erhan, D., Langford, J., & Li, L. (2012). Sample-efficient
       nonstationary policy evaluation for contextual bandits. UAI.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.naive_bayes import GaussianNB
    >>> from skope_ope import BanditLogs
    >>> from skope_ope.policies import OnlineClassifierPolicy
    >>> X = np.array([[0.0], [0.1], [0.9], [1.0]])
    >>> logs = BanditLogs(X, ["a", "a", "b", "b"], np.ones(4), np.full(4, 0.5))
    >>> policy = OnlineClassifierPolicy(GaussianNB(), initial=(X, logs.action))
    >>> policy.fit(logs).predict_proba([[0.2]])
    array([[0.95, 0.05]])
    """

    _parameter_constraints: dict = {
        "classifier": [HasMethods(["fit", "predict"]), None],
        "epsilon": [Interval(Real, 0, 1, closed="both")],
        "update_every": [Interval(Integral, 1, None, closed="left")],
        "initial": [tuple, None],
        "random_state": [Interval(Integral, 0, None, closed="left")],
    }

    def __init__(
        self,
        classifier: Any = None,
        *,
        epsilon: float = 0.1,
        update_every: int = 15,
        initial: tuple[Any, Any] | None = None,
        random_state: int = 0,
    ) -> None:
        self.classifier = classifier
        self.epsilon = epsilon
        self.update_every = update_every
        self.initial = initial
        self.random_state = random_state

    def reset(self, logs: BanditLogs) -> None:
        """Forget everything but `initial`; learn the actions from empty logs.

        Parameters
        ----------
        logs : BanditLogs
            `logs[:0]` of the logs that the policy will act on.
        """
        super().reset(logs)
        classifier = self.classifier
        if classifier is None:
            from sklearn.linear_model import LogisticRegression

            classifier = LogisticRegression()
        name = type(self).__name__
        self._models = ArmModels(classifier, logs.n_actions, self.random_state, name)
        if not self._models.classifies:
            raise TypeError(
                f"{name} needs a classifier, got {type(classifier).__name__}. "
                "EpochGreedy takes regressors."
            )
        self._waiting, self.n_trainings_ = 0, 0
        if self.initial is not None:
            X, reward = self._initial_rewards(logs.context)
            for action, column in enumerate(reward.T):
                self._models.add(action, X, column)
            self._train()

    def _initial_rewards(self, context):
        if len(self.initial) != 2:
            raise ValueError(
                f"initial must be a pair (X, y), got a tuple of {len(self.initial)}."
            )
        X, y = self.initial
        X = X if hasattr(X, "shape") else np.asarray(X, dtype=float)
        if is_frame(X) != is_frame(context):
            raise TypeError(
                f"initial holds contexts as {type(X).__name__}, the logs as "
                f"{type(context).__name__}: give both as frames, or none."
            )
        y = np.asarray(y)
        check_consistent_length(X, y)
        if X.shape[1] != self.n_features_in_:
            raise ValueError(
                f"initial has {X.shape[1]} features, the logs have "
                f"{self.n_features_in_}."
            )
        if y.ndim == 2:
            if y.shape[1] != len(self.classes_):
                raise ValueError(
                    f"initial: y has {y.shape[1]} columns, but must have one per "
                    f"action ({len(self.classes_)}), in the order of logs.actions."
                )
            return X, y.astype(float)
        codes = label_codes(self.classes_, y)
        if (codes < 0).any():
            row, known = int(np.flatnonzero(codes < 0)[0]), self.classes_.tolist()
            raise ValueError(
                f"initial: label {y.item(row)!r} at row {row} is not among the actions "
                f"{known}.{meant(y.item(row), known)} Pass all of them as "
                "actions=[...] when building the logs, or drop the row."
            )
        return X, (codes[:, None] == np.arange(len(self.classes_))).astype(float)

    def update(self, X: Contexts, action: int, reward: float, proba: float) -> bool:
        """Learn from one round of the policy's own history.

        Parameters
        ----------
        X : array, sparse matrix or frame of shape (1, n_features)
            Context.
        action : int
            Index of the action in `classes_`.
        reward : float
            Its reward, 0 or 1.
        proba : float
            Ignored.

        Returns
        -------
        changed : bool
            Whether the classifiers were trained.
        """
        self._models.add(action, X, np.array([reward]))
        self._waiting += 1
        if self._waiting < self.update_every:
            return False
        self._train()
        return True

    def update_many(
        self, X: Contexts, action: Array, reward: Array, proba: Array
    ) -> bool:
        """Learn from several rounds at once and train once at the end.

        Parameters
        ----------
        X : array, sparse matrix or frame of shape (n_rounds, n_features)
            Contexts.
        action : ndarray of int of shape (n_rounds,)
            Indices of the actions in `classes_`.
        reward : ndarray of shape (n_rounds,)
            Their rewards, 0 or 1.
        proba : ndarray of shape (n_rounds,)
            Ignored.

        Returns
        -------
        changed : bool
            True.
        """
        for index in np.unique(action).tolist():
            rows = np.flatnonzero(action == index)
            self._models.add(index, take_rows(X, rows), reward[rows])
        self._train()
        return True

    def _train(self):
        self._models.train()
        self._waiting = 0
        self.n_trainings_ += 1

    @property
    def classifiers_(self) -> Any:
        """Trained classifier of every action, or None."""
        pairs = zip(self._models.models, self._models.trained, strict=True)
        return [model if trained else None for model, trained in pairs]

    def _proba(self, X, available):
        return greedy(self._models.estimates(X), self.epsilon, available)

    def _exploit(self, X, available):
        return greedy(self._models.estimates(X), 0.0, available)


# -- one model of the reward per action, trained on the rounds that took it ------------

THREADS_FROM = 10_000  # rounds of one action, where threads may pay


class ArmModels:
    """Models of the reward, one clone per action, and the rounds they learn from."""

    # An action whose model cannot be trained yet is estimated without contexts: by
    # (successes + 1) / (pulls + 2) where a classifier has not seen both rewards, by the
    # mean over all actions where a regressor has no rounds.

    def __init__(self, model, n_actions, random_state, owner):
        self.classifies = is_classifier(model)
        if self.classifies and not has_method(model, "predict_proba"):
            raise TypeError(
                f"{owner} needs P(reward = 1), but {type(model).__name__} has no "
                "predict_proba. Use one that has (SGDClassifier with "
                "loss='log_loss'), or wrap it in CalibratedClassifierCV."
            )
        rng = check_random_state(random_state)
        unseeded = [
            name
            for name, value in sorted(model.get_params(deep=True).items())
            if value is None and name.split("__")[-1] == "random_state"
        ]
        self.models = []
        for _ in range(n_actions):
            seeds = {name: int(rng.randint(2**31 - 1)) for name in unseeded}
            self.models.append(clone(model).set_params(**seeds))
        self.trained = [False] * n_actions
        self.owner = owner
        self._online = hasattr(model, "partial_fit")
        self._contexts = [[] for _ in range(n_actions)]
        self._rewards = [[] for _ in range(n_actions)]
        self._new = set()
        # (pulls, sum of rewards): so far, and as of the last training
        self._sums = np.zeros((n_actions, 2))
        self._known = np.zeros((n_actions, 2))

    def add(self, action, X, reward):
        """Keep rounds of one action for the next training."""
        if self.classifies:
            # rewards come one by one, where a set is faster than an array
            other = set(reward.tolist()) - {0, 1}
            if other:
                raise ValueError(
                    f"{self.owner} learns 0/1 rewards with a classifier, got "
                    f"{min(other):.6g}. Make them 0/1, or use a policy that learns any "
                    "(LinUCB, or EpochGreedy with a regressor)."
                )
            reward = reward.astype(int)
        self._contexts[action].append(X)
        self._rewards[action].append(reward)
        self._sums[action] += len(reward), reward.sum()
        self._new.add(int(action))

    def train(self):
        """Train the models of the actions that have new rounds."""
        is_small = max(self._sums[:, 0]) < THREADS_FROM
        with in_one_thread(is_small):
            self._train_new()
        self._new = set()

    def _train_new(self):
        for action in sorted(self._new):
            X = stack_rows(self._contexts[action])
            reward = np.concatenate(self._rewards[action])
            pulls, total = self._known[action] = self._sums[action]
            if self.classifies and not 0 < total < pulls:
                self._keep(action, X, reward)
                continue
            model = self.models[action]
            if self._online:
                classes = {"classes": np.array([0, 1])} if self.classifies else {}
                model.partial_fit(own(X, model), reward, **classes)
                self._contexts[action], self._rewards[action] = [], []
            else:
                fit = partial(_fit_arm, X, reward)
                self.models[action] = fit_encoded(fit, model, X)
                self._keep(action, X, reward)
            self.trained[action] = True

    def _keep(self, action, X, reward):
        self._contexts[action], self._rewards[action] = [X], [reward]

    def estimates(self, X):
        """Estimate the reward of every action, as of the last training."""
        pulls, totals = self._known.T
        if self.classifies:
            unconditional = (totals + 1) / (pulls + 2)
        else:
            unconditional = np.full(len(pulls), totals.sum() / max(pulls.sum(), 1))
        estimates = np.tile(unconditional, (n_rows(X), 1))
        for action, model in enumerate(self.models):
            if self.trained[action]:
                estimates[:, action] = (
                    class_probabilities(model, X)[:, 1]
                    if self.classifies
                    else predictions_of(model, X)
                )
        return estimates


def _fit_arm(X, reward, model):
    return model.fit(own(X, model), own(reward, model))


# -- explore one round, exploit what was explored for a while, and so on ---------------


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
