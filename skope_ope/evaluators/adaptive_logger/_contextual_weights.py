# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
r"""Weights that differ by context, normalised at every context by itself.

A plain weighted mean with :math:`h_t(x_t)` would favour the contexts at which the
logger has little variance. Instead every context has its own sum of weights,

.. math:: \hat V = \sum_t B_t, \quad B_t = \frac{h_t(x_t)}{Z(x_t)} G_t, \quad
    Z(x) = \sum_s h_s(x), \qquad
    SE^2 = \sum_t \Big(B_t - \sum_s \frac{h_t(x_s)}{Z(x_s)} B_s\Big)^2.

The logger is asked in every round at the contexts of all: O(T^2 K), in blocks.
"""

import numpy as np

from skope_ope.evaluators.core._functions import mean
from skope_ope.logs._row_container import take_rows

BLOCK_ENTRIES = 1 << 19  # weights of a block of rounds at all contexts, 4 MiB


class ContextualForm:
    """The sum of the scores, each with its share of the weights at its context."""

    combine = staticmethod(mean)
    by_group = False

    def __init__(self, share, expected, value):
        self.share, self.expected, self.value = share, expected, value

    def shares(self):
        """Return what every round counts."""
        return self.share

    def terms(self, scores):
        """Return the terms of the estimate."""
        return (self.value + len(scores) * (self.share * scores - self.expected),)


def contextual_form(rounds, weight):
    """Return the form of an estimate whose weights differ by context."""
    code, square, contexts = _distinct(rounds)
    blocks = _Blocks(rounds.logger, len(rounds), square, contexts, weight)
    total, own = np.zeros(len(square)), np.empty(len(rounds))
    for block, h in blocks:
        total += h.sum(axis=0)
        own[block] = h[np.arange(len(h)), code[block]]
    share = np.divide(own, total[code], out=np.zeros(len(own)), where=own > 0)
    added = share * rounds.scores
    by_context = np.bincount(code, added, len(total))
    by_context = np.divide(by_context, total, out=by_context, where=total > 0)
    expected = np.concatenate([h @ by_context for _, h in blocks])
    value = float(added.sum())
    if not (total > 0).all():  # contexts at which the policy is never followed
        value = float("nan")
    return ContextualForm(share, expected, value)


class _Blocks:
    """The weights of blocks of rounds at all contexts, kept where they are few."""

    def __init__(self, logger, n_rounds, square, contexts, weight):
        self.logger, self.n_rounds, self.weight = logger, n_rounds, weight
        self.square, self.contexts = square, contexts
        self.rows = max(BLOCK_ENTRIES // len(square), 1)
        self.kept = None

    def __iter__(self):
        if self.kept is not None:
            return iter([self.kept])
        return self._computed()

    def _computed(self):
        for start in range(0, self.n_rounds, self.rows):
            block = slice(start, min(start + self.rows, self.n_rounds))
            variances = self.logger.variances(block, self.square, self.contexts)
            h = self.weight(variances)
            if self.rows >= self.n_rounds:
                self.kept = block, h
            yield block, h


def _distinct(rounds):
    """Return what tells rounds apart: the policy's probabilities and the context."""
    key, contexts = rounds.pi, rounds.logs.context
    if not rounds.logger.context_free:
        if not isinstance(contexts, np.ndarray):
            return np.arange(len(rounds)), rounds.pi**2, contexts
        key = np.hstack([rounds.pi, contexts])
    _, first, code = np.unique(key, axis=0, return_index=True, return_inverse=True)
    return code.ravel(), rounds.pi[first] ** 2, take_rows(contexts, first)
