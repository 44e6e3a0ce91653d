# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Policies that learn while they act: the protocol, new starts, repeated draws."""

from __future__ import annotations

import copy
import random
from collections.abc import Mapping
from numbers import Integral
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.utils.validation import check_is_fitted

from skope_ope._types import Array, Contexts
from skope_ope.exceptions import OPEWarning
from skope_ope.logs import BanditLogs
from skope_ope.logs._row_container import own, take_rows
from skope_ope.logs._validation import check_y
from skope_ope.logs.lazy._lazy_logs import kind_of
from skope_ope.policies._base import BasePolicy, first_best, n_rows, one_hot, restrict


class AdaptivePolicy(BasePolicy):
    """Base class of policies that depend on their own history.

    A subclass implements `reset(logs)`, `predict_proba(X, available=None)` (or
    `_proba(X, available)`, its checked core) and `update(X, action, reward, proba)`.
    **A policy may change only inside `update`.** So an evaluator can ask for a block of
    coming rounds at once, and ask again only after a change. `reset` seeds all random
    numbers of a policy from its `random_state`. `check_adaptive_policy` tests your own
    policy. Read more in the :ref:`User Guide <adaptive_policies>`.

    Attributes
    ----------
    context_free : bool
        Whether the probabilities are the same in all contexts. Such a policy
        implements `action_row()`, which returns a new list with the probability of
        every action. It does not need `predict_proba`, and its `update` ignores X.
    takes_weight : bool
        Whether `update` takes a keyword `weight`: how often the round counts, more
        than once. `DRns(excess="weight")` passes it.
    """

    context_free = False
    takes_weight = False
    _parameter_constraints: dict = {}

    def fit(self, X, y=None):
        """Start with an empty history; nothing is learned.

        Parameters
        ----------
        X : BanditLogs
            Logs with the actions and the features.
        y : array-like of shape (n_rounds,), default=None
            Ignored.

        Returns
        -------
        self : AdaptivePolicy
        """
        if not isinstance(X, BanditLogs):
            raise TypeError(
                f"{type(self).__name__} is fitted on BanditLogs, got {kind_of(X)}. fit "
                "only reads their actions and features."
            )
        check_y(y, len(X), type(self).__name__)
        self._validate_params()
        self.reset(X[:0])
        return self

    def reset(self, logs: BanditLogs) -> None:
        """Forget everything; learn actions and features from empty logs.

        Parameters
        ----------
        logs : BanditLogs
            `logs[:0]` of the logs that the policy will act on.
        """
        self.classes_ = logs.actions
        self.n_features_in_ = logs.n_features

    def update(self, X: Contexts, action: int, reward: float, proba: float) -> bool:
        """Learn from one round of the policy's own history.

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
            Whether action probabilities may have changed.
        """
        raise TypeError(f"{type(self).__name__} does not define update.")

    def update_many(
        self, X: Contexts, action: Array, reward: Array, proba: Array
    ) -> bool:
        """Learn from several rounds at once, in their order.

        The default calls `update` for each of them. `BatchPolicy` learns this way.

        Parameters
        ----------
        X : array, sparse matrix or frame of shape (n_rounds, n_features)
            Contexts.
        action : ndarray of int of shape (n_rounds,)
            Indices of the actions in `classes_`.
        reward : ndarray of shape (n_rounds,)
            Their rewards.
        proba : ndarray of shape (n_rounds,)
            Probabilities with which they were taken.

        Returns
        -------
        changed : bool
            Whether action probabilities may have changed.
        """
        changed = False
        rounds = zip(action.tolist(), reward.tolist(), proba.tolist(), strict=True)
        for row, (index, value, chance) in enumerate(rounds):
            one = None if self.context_free else take_rows(X, slice(row, row + 1))
            changed |= bool(learn(self, one, index, value, chance))
        return changed

    def context_of(self, logs: BanditLogs) -> Any:
        """Return the `X` that the policy gets for the rounds of these logs.

        Parameters
        ----------
        logs : BanditLogs
            The rounds.

        Returns
        -------
        X : array, sparse matrix, frame or other rows
            The context, with other fields of a row if the policy needs them.
        """
        return logs.context

    def look_ahead(self, X: Contexts, available: Array | None = None) -> Any:
        """Probabilities of a block of coming rounds.

        Parameters
        ----------
        X : array, sparse matrix or frame of shape (n_rounds, n_features)
            Contexts.
        available : ndarray of bool of shape (n_rounds, n_actions), default=None
            Offered actions.

        Returns
        -------
        block : object
            It has `proba` of shape (n_rounds, n_actions) and `refresh(start, action)`,
            which is called after `update` has returned True. `refresh` updates
            `proba[start:]` and returns True, or returns False if it cannot: the block
            is then computed again.
        """
        return FixedBlock(self._named(self.predict_proba(X, available)))

    def look_ahead_at(
        self, X: Contexts, action: Array, available: Array | None = None
    ) -> Any:
        """Probabilities of one given action in each of a block of coming rounds.

        An evaluator that needs one action only calls this first. It can be faster than
        computing all actions.

        Parameters
        ----------
        X : array, sparse matrix or frame of shape (n_rounds, n_features)
            Contexts.
        action : ndarray of int of shape (n_rounds,)
            Indices of the actions in `classes_`.
        available : ndarray of bool of shape (n_rounds, n_actions), default=None
            Offered actions.

        Returns
        -------
        block : object or None
            As of `look_ahead`, but `proba` has the shape (n_rounds,). `None` (the
            default) if `look_ahead` is as fast.
        """
        return None

    def frozen(self, explore: bool = False) -> Any:
        """Return the policy as it is now, as a stationary one.

        Parameters
        ----------
        explore : bool, default=False
            Whether the policy keeps exploring. Otherwise it takes the action that it
            predicts to be best, or the most likely action if it predicts none.

        Returns
        -------
        policy : FrozenPolicy
            A copy, which later updates do not change.
        """
        check_is_fitted(self)
        return FrozenPolicy(copy.deepcopy(self), explore=explore)

    def _proba(self, X, available):
        if not self.context_free:
            raise TypeError(
                f"{type(self).__name__} defines neither predict_proba nor _proba."
            )
        return restrict(np.tile(self.action_row(), (n_rows(X), 1)), available)

    def _exploit(self, X, available):
        """Probabilities without exploration; a subclass may know better."""
        proba = self._named(self.predict_proba(X, available))
        return one_hot(first_best(proba), proba.shape[1])


class FixedBlock:
    """Probabilities of coming rounds that no update can bring up to date."""

    def __init__(self, proba):
        self.proba = proba

    def refresh(self, start, action):
        """Say that the rest of the block is stale."""
        return False


class FrozenPolicy(BasePolicy):
    """A learned policy that learns no more."""

    def __init__(self, policy, *, explore=False):
        self.policy = policy
        self.explore = explore

    def __sklearn_clone__(self):
        return self  # a clone would forget what was learned

    def __sklearn_is_fitted__(self):
        return True

    def fit(self, X, y=None):
        """Do nothing: the policy is frozen."""
        return self

    @property
    def classes_(self):
        """Action labels."""
        return self.policy.classes_

    def context_of(self, logs):
        """Return the `X` that the policy gets for these logs."""
        return contexts_of(self.policy, logs)

    def _proba(self, X, available):
        X, available = own(X, self.policy), own(available, self.policy)
        if self.explore:
            return self.policy.predict_proba(X, available)
        return self.policy._exploit(X, available)


def contexts_of(policy, logs):
    """Return the `X` of a policy; a user's `context_of` may add columns to it."""
    return policy.context_of(own(logs, getattr(type(policy), "context_of", policy)))


def learn(policy, X, action, reward, proba, weight=1.0):
    """Let a policy learn from a round that counts `weight` times."""
    X = own(X, policy)
    if weight == 1.0:  # most policies do not take any
        return policy.update(X, action, reward, proba)
    return policy.update(X, action, reward, proba, weight=weight)


def fresh_copy(policy, logs, seeds=None):
    """Return a clone of an adaptive policy with an empty history for these logs."""
    policy = clone(policy)
    if hasattr(policy, "_validate_params"):
        policy._validate_params()
    restart(policy, logs, seeds)
    return policy


def restart(policy, logs, seeds=None):
    """Empty the history of a policy, which then draws by other seeds."""
    if seeds:
        policy.set_params(**seeds)
    policy.reset(logs[:0])


def seeds_of_start(policy, *numbers):
    """Return the integers that seed a policy and what it is made of, for one start."""
    # Each restart draws new random numbers. With the same numbers after every start,
    # the mean over the histories would depend on them, and the spread of the histories
    # would not show it. The first start, whose numbers are zero, has the seeds of the
    # user.
    return seeds_of_restart(given_seeds(policy), *numbers)


def given_seeds(policy):
    """Return the integers that the user gave, by the name of the parameter."""
    return {
        name: int(value)
        for name, value in policy.get_params(deep=True).items()
        if name.split("__")[-1] == "random_state" and isinstance(value, Integral)
    }


def seeds_of_restart(seeds, *numbers):
    """Return the seeds of a start, made from those that the user gave."""
    if not any(numbers):
        return seeds
    return {
        name: int(np.random.SeedSequence([seed, *numbers]).generate_state(1)[0]) // 2
        for name, seed in seeds.items()
    }


# -- whether a policy draws new numbers in every history -------------------------------
# What a policy draws is a part of the chance in its value. Evaluators change the
# parameters called `random_state` before every history but the first. A policy that
# seeds its draws from something else repeats them: the mean over its histories keeps
# the chance of these numbers, and their spread does not show it.

DEPTH, WIDTH = 4, 100  # of objects in objects, and of lists
GENERATORS = (
    np.random.RandomState,
    np.random.Generator,
    np.random.BitGenerator,
    random.Random,
)


def generator_states(policy):
    """Return the states of all random generators that a policy holds."""
    found = {}
    _collect(policy, "", found, set(), DEPTH)
    return found


def repeated_draws(one, other):
    """Return the names of generators that are in the same state in both."""
    return [name for name, state in one.items() if other.get(name) == state]


def repeated_draws_warnings(start):
    """Return a warning where two starts of a policy would draw the same numbers."""
    policy = start(1)
    states = generator_states(policy)
    same = repeated_draws(states, generator_states(start(2))) if states else []
    if not same:
        return []
    return [
        OPEWarning(
            f"the random numbers of {type(policy).__name__} are the same in every "
            f"history: {same[0]!r} does not follow random_state, an integer that "
            "evaluators change. So the standard error leaves out the variance of these "
            "numbers. Seed them from random_state in reset; check_adaptive_policy "
            "tests it.",
            len(same),
        )
    ]


def _collect(value, name, found, seen, depth):
    if isinstance(value, GENERATORS):
        found[name] = _state_of(value)
        return
    if id(value) in seen or depth < 0:
        return
    seen.add(id(value))
    if isinstance(value, Mapping):
        parts = [
            (f"{name}[{key!r}]", part) for key, part in list(value.items())[:WIDTH]
        ]
    elif isinstance(value, (list, tuple)):
        parts = [(f"{name}[{place}]", part) for place, part in enumerate(value[:WIDTH])]
    else:
        before = f"{name}." if name else ""
        own = getattr(value, "__dict__", None)
        if isinstance(value, type) or not isinstance(own, dict):
            return
        parts = [(before + key, part) for key, part in own.items()]
    for part_name, part in parts:
        _collect(part, part_name, found, seen, depth - 1)


def _state_of(generator):
    """Return the state of a generator as a text."""
    if isinstance(generator, random.Random):
        return repr(generator.getstate())
    if isinstance(generator, np.random.RandomState):
        kind, keys, *rest = generator.get_state()
        return repr((kind, keys.tobytes(), rest))
    return _digits_of(getattr(generator, "bit_generator", generator).state)


def _digits_of(state):
    """Return a text of numbers and arrays in dicts, of all of their digits."""
    if isinstance(state, dict):
        return repr([(key, _digits_of(part)) for key, part in state.items()])
    return repr(state.tobytes() if isinstance(state, np.ndarray) else state)
