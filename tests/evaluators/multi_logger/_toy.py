# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Small worlds with several loggers, among them the toy of the paper.

A world is a number of contexts and actions without noise. All logs of a few rounds can
be drawn, each with its probability: means and variances of what an evaluator returns
for them are exact.
"""

import warnings
from collections import Counter
from dataclasses import dataclass
from itertools import combinations_with_replacement, product
from math import factorial

import numpy as np

from skope_ope import BanditLogs


def score(evaluator):
    """Return the value of an evaluator as a statistic of logs."""

    def statistic(logs, pi):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return evaluator.fit(logs).score(pi)

    return statistic


@dataclass
class World:
    """Contexts with probabilities p, loggers, a target and rewards."""

    p: np.ndarray  # (n_contexts,)
    loggers: np.ndarray  # (n_loggers, n_contexts, n_actions)
    target: np.ndarray  # (n_contexts, n_actions)
    delta: np.ndarray  # (n_contexts, n_actions)

    @property
    def cells(self):
        """All pairs (context, action)."""
        return list(np.ndindex(self.delta.shape))

    @property
    def value(self):
        """What the target is worth."""
        return self.p @ (self.target * self.delta).sum(axis=1)

    def logs(self, rows, **fields):
        """Logs of rows (logger, context, action), and the target's probabilities."""
        g, x, a = np.array(rows).T
        fields |= {"logger": g, "actions": range(self.delta.shape[1])}
        fields["logger_proba"] = self.loggers[np.unique(g)][:, x, a].T
        context = x[:, None].astype(float)
        return BanditLogs(context, a, self.delta[x, a], **fields), self.target[x]

    def draws(self, logger, size, ordered_parts=1):
        """Every multiset of `size` cells that a logger may give, with its probability.

        With `ordered_parts` parts the multisets of the parts are kept apart.
        """
        part = size // ordered_parts
        chance = {(x, a): self.p[x] * self.loggers[logger, x, a] for x, a in self.cells}
        found = []
        for cells in combinations_with_replacement(self.cells, part):
            ways = factorial(part)
            for times in Counter(cells).values():
                ways //= factorial(times)
            found.append((list(cells), ways * np.prod([chance[c] for c in cells])))
        out = []
        for parts in product(found, repeat=ordered_parts):
            cells = [cell for some, _ in parts for cell in some]
            out.append((cells, np.prod([weight for _, weight in parts])))
        return out

    def exact_moments(self, statistic, sizes, ordered_parts=1):
        """Mean and variance of ``statistic(logs, pi)`` for rounds of every logger."""
        values, weights = [], []
        draws = [self.draws(i, n, ordered_parts) for i, n in enumerate(sizes)]
        for drawn in product(*draws):
            rows = [(i, *cell) for i, (cells, _) in enumerate(drawn) for cell in cells]
            values.append(statistic(*self.logs(rows)))
            weights.append(np.prod([weight for _, weight in drawn]))
        values, weights = np.array(values), np.array(weights)
        np.testing.assert_allclose(weights.sum(), 1, rtol=1e-12)
        mean = weights @ values
        return mean, weights @ (values - mean) ** 2


DELTA = np.array([[10.0, 1.0], [1.0, 10.0]])  # reward of (context, action)
LOGGERS = np.array([[[0.2, 0.8], [0.8, 0.2]], [[0.9, 0.1], [0.1, 0.9]]])
TARGET = np.array([[0.8, 0.2], [0.2, 0.8]])
VALUE = 8.2
DIVERGENCES = (252.81, 4.271111111111112)
TOY = World(np.array([0.5, 0.5]), LOGGERS, TARGET, DELTA)
toy_logs = TOY.logs
# The second context mirrors the first: one of them has all weights and rewards.
ONE_CONTEXT = World(np.ones(1), LOGGERS[:, :1], TARGET[:1], DELTA[:1])


def ml4():
    """Four rows of the toy."""
    return toy_logs([(0, 0, 1), (0, 1, 1), (1, 0, 0), (1, 1, 1)])


def exact_moments(statistic, size=1, ordered_parts=1):
    """Mean and variance of ``statistic(logs, pi)``, `size` rows of each logger."""
    return ONE_CONTEXT.exact_moments(statistic, (size, size), ordered_parts)
