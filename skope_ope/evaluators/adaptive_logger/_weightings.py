# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
r"""What every round counts: weights that follow from earlier rounds alone.

Given the past, the scores :math:`G_t` of all rounds have the policy's value as their
mean, but the variance of each is about :math:`\sum_a \pi(a|x)^2 / e_t(a|x)`, which
depends on the logger's first rewards. Weights that level it out make the standardised
estimate normal again. No weight may look at the action of its own round.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from skope_ope.evaluators.core._functions import mean, ratio
from skope_ope.evaluators.core._rounds import Rounds
from skope_ope.logs._row_container import own, take_rows
from skope_ope.logs._validation import check_distributions
from skope_ope.logs.checks._evidence import logger_features

WEIGHTS_OF_BLOCK = 1 << 19  # weights of a block of rounds at all contexts, 4 MiB
ALIKE = 1e-6  # probabilities: those of single precision
STEP_SHARE = 0.1  # squares of steps beside those of as many independent draws
SURE_Z = 4
ENOUGH = 50  # rounds, to tell steps from spread


def round_scores(rounds):
    """Return v + w (r - q) of every round; w r where there is no model."""
    return rounds.gain if rounds.v is None else rounds.v + rounds.correction


class RoundsInOrder:
    """What is known of every round before rounds are weighed."""

    def __init__(self, evaluator, rows):
        self.evaluator, self._target = evaluator, rows.target
        self.floor_decay = evaluator.floor_decay
        self.logs = logs = rows.positive.all_logs
        self.given = Rounds.of(rows.numbers, logs.reward, 0.0, logs)
        self.scores, self.v = round_scores(self.given), self.given.v
        if self.v is None:  # no model: all of a score is the correction
            self.v, self.correction = np.zeros(len(logs)), self.scores
        else:
            self.correction = self.given.correction

    def __len__(self):
        return len(self.logs)

    @cached_property
    def pi(self):
        """Probabilities of the policy, ndarray of shape (n_rounds, n_actions)."""
        if self._target.logged_only:
            raise ValueError(
                f"weighting={self.evaluator.weighting!r} needs the policy's "
                "probabilities of all actions, an array of shape (n_rounds, n_actions)."
            )
        return np.asarray(self._target.chunk(self.logs, 0))

    @cached_property
    def logger(self):
        """The logger, asked at any context."""
        what = f"weighting={self.evaluator.weighting!r}"
        return logger_of(self.evaluator.logger, self.logs, what)

    @cached_property
    def largest_weights(self):
        """The largest weight that every round might have, or None if not known."""
        e = self.logs.logging_proba
        if e is None or self._target.logged_only:
            return None
        ratio = np.divide(self.pi, e, out=np.zeros_like(self.pi), where=e > 0)
        return np.maximum(ratio.max(axis=1), self.given.w)


@dataclass(frozen=True, eq=False)
class Counts:
    """What every round counts, and the estimate that this makes of the scores."""

    h: np.ndarray | None = None  # up to a factor; None: all the same
    # Where h are the shares of the rounds in the weights at their contexts: what a
    # round adds in expectation, and the value, see `contextual`
    expected: np.ndarray | None = None
    value: float = 0.0

    @property
    def by_context(self):
        """Whether weights are normalised at every context, over all rounds."""
        return self.expected is not None

    @property
    def combine(self):
        """The mean of the terms, or the weighted mean."""
        return mean if self.h is None or self.by_context else ratio

    def terms(self, scores):
        """Return the terms of the estimate."""
        if self.h is None:
            return (scores,)
        if self.by_context:
            return (self.value + len(scores) * (self.h * scores - self.expected),)
        return self.h * scores, self.h


def uniform(rounds):
    """Weigh all rounds the same."""
    return Counts()


def two_point(rounds):
    r"""Weigh the rounds so that the variance of one arm is spent on a schedule."""
    # A share :math:`\lambda_t` of what is left is spent in every round,
    #
    # .. math:: \frac{h_t^2}{e_t} = \lambda_t \Big(1 - \sum_{s<t}
    #   \frac{h_s^2}{e_s}\Big),
    #     \quad \lambda_t = (1 - e_t) \frac{1 - a}{(1 - a) + T (t/T)^a - t}
    #     + e_t \frac{1}{1 + T - t},
    #
    # between that of a logger that leaves the arm to its floor :math:`t^{-a}` for good
    # and that of one that has settled on it.
    e, n, a = _probabilities_of_the_arm(rounds), len(rounds), rounds.floor_decay
    t = np.arange(1, n + 1)
    left_to_the_floor = (1 - a) / ((1 - a) + n * (t / n) ** a - t)
    share = (1 - e) * left_to_the_floor + e / (1 + n - t)
    share = np.clip(share, 0, 1)
    left = np.concatenate([[1.0], np.cumprod(1 - share[:-1])])
    return Counts(np.sqrt(e * share * left))


def min_variance(rounds):
    r"""Weigh contexts by :math:`h_t(x) = 1 / \sum_a \pi(a|x)^2 / e_t(a|x)`."""
    return contextual(rounds, lambda variances: 1 / variances)


def stable_variance(rounds):
    r"""Weigh contexts by the square root of what `min_variance` takes."""
    return contextual(rounds, lambda variances: 1 / np.sqrt(variances))


def contextual(rounds, weight):
    r"""Weigh rounds by weights that differ by context, normalised at each by itself."""
    # A plain weighted mean with :math:`h_t(x_t)` would favour the contexts at which the
    # logger has little variance. Instead every context has its own sum of weights,
    #
    # .. math:: \hat V = \sum_t B_t, \quad B_t = \frac{h_t(x_t)}{Z(x_t)} G_t, \quad
    #     Z(x) = \sum_s h_s(x), \qquad
    #     SE^2 = \sum_t \Big(B_t - \sum_s \frac{h_t(x_s)}{Z(x_s)} B_s\Big)^2.
    #
    # The logger is asked in every round at the contexts of all: O(T^2 K), in blocks.
    code, square, contexts = _distinct_rounds(rounds)
    size, n = max(WEIGHTS_OF_BLOCK // len(square), 1), len(rounds)

    def blocks():
        for start in range(0, n, size):
            block = slice(start, min(start + size, n))
            yield block, weight(rounds.logger.variances(block, square, contexts))

    kept = list(blocks()) if size >= n else None  # few weights are
    total, own = np.zeros(len(square)), np.empty(n)
    for block, h in kept or blocks():
        total += h.sum(axis=0)
        own[block] = h[np.arange(len(h)), code[block]]
    share = np.divide(own, total[code], out=np.zeros(n), where=own > 0)
    added = share * rounds.scores
    by_context = np.bincount(code, added, len(total))
    by_context = np.divide(by_context, total, out=by_context, where=total > 0)
    expected = np.concatenate([h @ by_context for _, h in kept or blocks()])
    value = float(added.sum())
    if not (total > 0).all():  # contexts at which the policy is never followed
        value = float("nan")
    return Counts(share, expected, value)


def _distinct_rounds(rounds):
    """Return what tells rounds apart: the policy's probabilities and the context."""
    key, contexts = rounds.pi, rounds.logs.context
    if not rounds.logger.context_free:
        if not isinstance(contexts, np.ndarray):
            return np.arange(len(rounds)), rounds.pi**2, contexts
        key = np.hstack([rounds.pi, contexts])
    _, first, code = np.unique(key, axis=0, return_index=True, return_inverse=True)
    return code.ravel(), rounds.pi[first] ** 2, take_rows(contexts, first)


def cadr(rounds):
    r"""Weigh a round by one over the standard deviation that its score should have."""
    # It is estimated from the earlier rounds, reweighed to the logger of round t:
    #
    # .. math:: h_t^{-2} = \frac{1}{t-1} \sum_{s<t} \frac{g_t}{g_s} D_s(g_t)^2
    #     - \Big(\frac{1}{t-1} \sum_{s<t} \frac{g_t}{g_s} D_s(g_t)\Big)^2,
    #     \quad D_s(g_t) = v_s + \frac{\pi(a_s|x_s)}{g_t} (r_s - q_s),
    #
    # with :math:`g_t = e_t(a_s|x_s)`. Rounds before there is a spread weigh nothing.
    sums = _sums_by_round if rounds.logger.context_free else _sums_by_calls
    first, second = sums(rounds)
    n_before = np.maximum(np.arange(len(rounds)), 1)
    with np.errstate(invalid="ignore"):
        variance = second / n_before - (first / n_before) ** 2
    known = (variance > 0) & (np.arange(len(rounds)) > 0)
    h = np.zeros(len(rounds))
    h[known] = variance[known] ** -0.5
    return Counts(h if h.any() else np.ones(len(rounds)))


WEIGHTINGS = {
    "uniform": uniform,
    "two_point": two_point,
    "min_variance": min_variance,
    "stable_variance": stable_variance,
    "cadr": cadr,
}


def _probabilities_of_the_arm(rounds):
    """Return the probability of the policy's one arm in every round."""
    pi, e = rounds.pi, rounds.logs.logging_proba
    arm = int(pi[0].argmax())
    if not (pi[:, arm] == 1).all():
        raise ValueError(
            "weighting='two_point' is for a policy that takes the same action in "
            "all rounds, such as ConstantPolicy. This policy does not. Use "
            "'stable_variance' or 'cadr'."
        )
    if rounds.floor_decay is None:
        raise ValueError(
            "weighting='two_point' needs floor_decay, a number in [0, 1). It is "
            "the exponent a of t^-a, the least probability that the logger gives "
            "to any action in round t. Pass 0 if this probability does not shrink."
        )
    for t in range(0 if rounds.logger.context_free else len(rounds)):
        if np.ptp(rounds.logger.at(t, rounds.logs.context), axis=0).max() > ALIKE:
            raise ValueError(
                "weighting='two_point' is for loggers that ignore the context, but "
                f"logger(t, X) differs between contexts at t={t}. So the value "
                "would be biased. Use 'stable_variance' or 'cadr'."
            )
    return e[:, arm]


def _sums_by_round(rounds):
    """Return the sums of both moments of a logger that ignores the context."""
    # They are sums by action: O(T K).
    code, g, e = rounds.logs.action_index, rounds.logs.propensity, rounds.logger.proba
    v, u = rounds.v, rounds.correction
    taken = code[:, None] == np.arange(rounds.logs.n_actions)

    def before(values):
        sums = np.cumsum(taken * values[:, None], axis=0)
        return np.vstack([np.zeros(sums.shape[1]), sums[:-1]])

    square = before(u * u * g)  # divided by e, which may be zero where this is not
    lost = np.where(square > 0, np.inf, 0.0)
    first = (e * before(v / g) + before(u)).sum(axis=1)
    second = e * before(v * v / g) + 2 * before(v * u)
    second += np.divide(square, e, out=lost, where=e > 0)
    return first, second.sum(axis=1)


def _sums_by_calls(rounds):
    """Return the same of a logger that looks at the context: O(T^2 K)."""
    code, g = rounds.logs.action_index, rounds.logs.propensity
    v, u, contexts = rounds.v, rounds.correction, rounds.logs.context
    first, second = np.zeros((2, len(rounds)))
    for t in range(1, len(rounds)):
        some = slice(0, t)
        proba = rounds.logger.at(t, contexts[some])
        times = proba[np.arange(t), code[some]] / g[some]
        first[t] = times @ v[some] + u[some].sum()
        spread = u[some] ** 2
        inverse = np.divide(
            spread, times, out=np.where(spread > 0, np.inf, 0.0), where=times > 0
        )
        second[t] = times @ v[some] ** 2 + 2 * v[some] @ u[some] + inverse.sum()
    return first, second


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
    if len(e) < ENOUGH or steps > STEP_SHARE * spread:
        return False
    levels = [features > np.quantile(features, q, axis=0) for q in (0.25, 0.5, 0.75)]
    moves = np.diff(np.hstack([features, *levels]).astype(float), axis=0)
    error = np.sqrt((moves**2).T @ step**2)
    return bool((np.abs(moves.T @ step) <= SURE_Z * error).all())
