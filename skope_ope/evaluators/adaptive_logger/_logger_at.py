# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""The probabilities of a logger that learns, in any of its rounds at any context."""

import numpy as np

from skope_ope.logs._row_container import own
from skope_ope.logs._validation import check_distributions
from skope_ope.logs.checks._logger_model import logger_features

ALIKE = 1e-6  # probabilities: those of single precision
STEPS = 0.1  # squares of steps beside those of as many independent draws
SURE_Z = 4
ENOUGH = 50  # rounds, to tell steps from spread


class ContextFreeLogger:
    """A logger whose probabilities in a round are the same at all contexts."""

    context_free = True

    def __init__(self, proba):
        self.proba = proba

    def variances(self, rounds, square, contexts):
        r"""Return :math:`\sum_a \pi(a|x)^2 / e_t(a|x)` by round and context."""
        e = self.proba[rounds]
        never = e <= 0
        found = np.where(never, 0.0, 1 / np.where(never, 1.0, e)) @ square.T
        if never.any():
            found[(never.astype(float) @ square.T) > 0] = np.inf
        return found


class ContextualLogger:
    """A logger that looks at the context: a function tells what it does."""

    context_free = False

    def __init__(self, logger, logs):
        self.logger, self.logs = logger, logs

    def at(self, t, contexts):
        """Return the probabilities in a round, ndarray of (n_contexts, n_actions)."""
        proba = np.asarray(self.logger(t, own(contexts, self.logger)), dtype=float)
        shape = (contexts.shape[0], self.logs.n_actions)
        if proba.shape != shape:
            raise ValueError(
                "logger(t, X) must return the probabilities of all actions for all "
                f"contexts, an array of shape {shape}; got {proba.shape} at t={t}."
            )
        try:
            check_distributions("logger", proba)
        except ValueError as error:
            error.add_note(f"This is what logger(t, X) returned at t={t}.")
            raise
        return proba

    def variances(self, rounds, square, contexts):
        """Return the same as those of a `ContextFreeLogger`."""
        found = np.empty((rounds.stop - rounds.start, len(square)))
        for row, t in enumerate(range(rounds.start, rounds.stop)):
            found[row] = _variance(self.at(t, contexts), square)
        return found

    def check_own_rounds(self):
        """Raise unless it gives the logged probabilities at its own contexts."""
        # A logger that counts rounds from 1, or knows the end of the log in all of
        # them, does not.
        logs = self.logs
        for t in np.unique(np.linspace(0, len(logs) - 1, 20).astype(int)).tolist():
            found = self.at(t, logs[t : t + 1].context)[0]
            recorded = logs.logging_proba[t]
            if np.abs(found - recorded).max() > ALIKE:
                raise ValueError(
                    f"logger(t, X) gives {np.round(found, 6).tolist()} at t={t} "
                    f"for the context of row {t}, but logging_proba has "
                    f"{np.round(recorded, 6).tolist()}. Count rounds from 0, and "
                    "let the logger of round t learn only from the rows before t."
                )


def _variance(proba, square):
    never = proba <= 0
    found = np.where(never, 0.0, square / np.where(never, 1.0, proba)).sum(axis=1)
    found[(never & (square > 0)).any(axis=1)] = np.inf
    return found


def logger_of(logger, logs, what):
    """Return the logger of some logs, as weightings ask it."""
    if logger is not None:
        found = ContextualLogger(logger, logs)
        found.check_own_rounds()
        return found
    if ignores_context(logs):
        return ContextFreeLogger(logs.logging_proba)
    raise ValueError(
        f"{what} needs the logger's probabilities for the contexts of other "
        "rounds, and these logs have them only for its own context. Pass logger=f, "
        "where f(t, X) returns the probabilities in round t (from 0) for contexts "
        "X, an array of shape (len(X), n_actions). If the logger ignored the "
        "context, pass logger=lambda t, X: np.tile(logs.logging_proba[t], (len(X), "
        "1)). Or use weighting='uniform', which needs none of these."
    )


def ignores_context(logs):
    """Tell whether the logs show that their logger did not look at the context."""
    # It did not where all contexts are alike. It cannot have looked, either, where its
    # probabilities move in steps that are small beside their spread, and no step goes
    # with a change of the context. What cannot be told is taken for a logger that
    # looked.
    e = logs.logging_proba
    if len(e) == 1 or not logs.n_features or (np.ptp(e, axis=0) <= ALIKE).all():
        return True
    features = logger_features(logs, np.arange(len(logs)))
    if not features.shape[1]:
        return True
    step = np.diff(e, axis=0)
    steps, spread = (step**2).sum(), 2 * len(e) * e.var(axis=0).sum()
    if len(e) < ENOUGH or steps > STEPS * spread:
        return False
    levels = [features > np.quantile(features, q, axis=0) for q in (0.25, 0.5, 0.75)]
    moves = np.diff(np.hstack([features, *levels]).astype(float), axis=0)
    error = np.sqrt((moves**2).T @ step**2)
    return bool((np.abs(moves.T @ step) <= SURE_Z * error).all())
