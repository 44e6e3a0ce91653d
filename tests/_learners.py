# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Learning rules as functions of the history, and policies that follow them.

A rule is ``rule(history, x)``, a list of action probabilities; ``history`` is a list of
``(x, a, r)``. `RulePolicy` asks it in every way that evaluators know; it writes down
what it was told, so that tests see which rounds reached it.
"""

import numpy as np

from skope_ope.base import AdaptivePolicy


def counts(history, n_actions):
    """Pulls and sums of rewards of every action."""
    pulls, sums = [0] * n_actions, [0.0] * n_actions
    for _, a, r in history:
        pulls[a] += 1
        sums[a] += r
    return pulls, sums


def best(history, n_actions, prior=1.0, weight=2.0):
    """Action with the largest (sum + prior) / (pulls + weight), the first of ties."""
    pulls, sums = counts(history, n_actions)
    scores = [(sums[a] + prior) / (pulls[a] + weight) for a in range(n_actions)]
    return scores.index(max(scores))


def spec_rule(history, x):
    """The learner of the fixed trace: .5 at first, then .8 on the better arm."""
    if not history:
        return [0.5, 0.5]
    return [0.2, 0.8] if best(history, 2) else [0.8, 0.2]


def contrary_rule(history, x):
    """Deterministic: the better arm where x = 1, the other one where x = 0."""
    good = best(history, 2, 0.5, 1.0)
    return [float(a == (good if x else 1 - good)) for a in range(2)]


def greedy_rule(n_actions, epsilon=0.3):
    """Epsilon-greedy on smoothed means."""

    def rule(history, x):
        proba = [epsilon / n_actions] * n_actions
        proba[best(history, n_actions)] += 1 - epsilon
        return proba

    return rule


def contextual_rule(n_actions):
    """Best arm of the rounds with contexts of the same sign; now and then another.

    Action 0 is never taken where x is large, so that its ratio is infinite.
    """

    def rule(history, x):
        own = [row for row in history if (row[0] > 0) == (x > 0)]
        proba = [0.0] * n_actions
        proba[best(own, n_actions)] += 0.75
        proba[(len(own) + 1) % n_actions] += 0.25
        if x > 1:
            proba[1] += proba[0]
            proba[0] = 0.0
        return proba

    return rule


class RulePolicy(AdaptivePolicy):
    """A rule as a policy.

    Parameters
    ----------
    rule : callable
        ``rule(history, x)``.
    every : int, default=1
        The rule learns of new rounds every so often, and `update` says so.
    ask : {"blocks", "refresh", "rows"}, default="blocks"
        How it offers its probabilities: anew after a change, by refreshing a block,
        or as one row for all contexts.
    """

    def __init__(self, rule, *, every=1, ask="blocks"):
        self.rule = rule
        self.every = every
        self.ask = ask

    @property
    def context_free(self):
        return self.ask == "rows"

    def reset(self, logs):
        super().reset(logs)
        self.history, self.told = [], []

    def _known(self):
        return self.history[: len(self.history) // self.every * self.every]

    def action_row(self):
        return self.rule(self._known(), None)

    def _proba(self, X, available):
        known = self._known()
        proba = np.array([self.rule(known, x) for x in np.asarray(X)[:, 0].tolist()])
        if available is not None:
            proba = np.where(available, proba + 1e-3, 0.0)
            proba /= proba.sum(axis=1, keepdims=True)
        return proba

    def update(self, X, action, reward, proba):
        x = None if X is None else np.asarray(X)[0, 0].item()
        self.history.append((x, action, reward))
        self.told.append(proba)
        return len(self.history) % self.every == 0

    def look_ahead(self, X, available=None):
        block = super().look_ahead(X, available)
        if self.ask == "refresh":
            return RefreshedBlock(self, X, available, block.proba)
        return block


class RefreshedBlock:
    def __init__(self, policy, X, available, proba):
        self.policy, self.X, self.available, self.proba = policy, X, available, proba

    def refresh(self, start, action):
        if start < len(self.proba):
            offered = None if self.available is None else self.available[start:]
            self.proba[start:] = self.policy._proba(self.X[start:], offered)
        return True


def as_target(rule, every=1):
    """The rule as the loops want it, with the same delay."""
    return lambda history, x: rule(history[: len(history) // every * every], x)
