# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""The toy of the paper on several loggers: two contexts, two actions, no noise."""

from itertools import combinations_with_replacement, product
from math import factorial

import numpy as np

from skope_ope import BanditLogs

DELTA = np.array([[10.0, 1.0], [1.0, 10.0]])  # reward of (context, action)
LOGGERS = np.array([[[0.2, 0.8], [0.8, 0.2]], [[0.9, 0.1], [0.1, 0.9]]])
TARGET = np.array([[0.8, 0.2], [0.2, 0.8]])
VALUE = 8.2
DIVERGENCES = (252.81, 4.271111111111112)
CELLS = [(0, 0), (0, 1), (1, 0), (1, 1)]  # (context, action)


def toy_logs(rows):
    """Logs of rows (logger, context, action), and the target's probabilities."""
    g, x, a = np.array(rows).T
    logs = BanditLogs(
        x[:, None].astype(float),
        a,
        DELTA[x, a],
        actions=[0, 1],
        logger=g,
        logger_proba=LOGGERS[:, x, a].T,
    )
    return logs, TARGET[x]


def ml4():
    """Four rows of the toy."""
    return toy_logs([(0, 0, 1), (0, 1, 1), (1, 0, 0), (1, 1, 1)])


def draws(logger, size, ordered_parts=1):
    """Every multiset of `size` cells that a logger may give, with its probability.

    With `ordered_parts` parts the multisets of the parts are kept apart.
    """
    part = size // ordered_parts
    p = {cell: 0.5 * LOGGERS[logger][cell] for cell in CELLS}
    found = []
    for cells in combinations_with_replacement(CELLS, part):
        ways = factorial(part)
        for cell in CELLS:
            ways //= factorial(cells.count(cell))
        found.append((list(cells), ways * np.prod([p[cell] for cell in cells])))
    out = []
    for parts in product(found, repeat=ordered_parts):
        out.append(
            (
                [cell for cells, _ in parts for cell in cells],
                np.prod([weight for _, weight in parts]),
            )
        )
    return out


def exact_moments(statistic, size=1, ordered_parts=1):
    """Mean and variance of ``statistic(logs, pi)``, `size` rows of each logger."""
    values, weights = [], []
    firsts, seconds = (draws(k, size, ordered_parts) for k in (0, 1))
    for (first, p), (second, q) in product(firsts, seconds):
        rows = [(0, *cell) for cell in first] + [(1, *cell) for cell in second]
        values.append(statistic(*toy_logs(rows)))
        weights.append(p * q)
    values, weights = np.array(values), np.array(weights)
    np.testing.assert_allclose(weights.sum(), 1, rtol=1e-12)
    mean = weights @ values
    return mean, weights @ (values - mean) ** 2
