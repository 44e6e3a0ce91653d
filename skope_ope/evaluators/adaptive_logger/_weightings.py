# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
r"""What every round counts: weights that follow from earlier rounds alone.

Given the past, the scores :math:`G_t` of all rounds have the policy's value as their
mean, but the variance of each is about :math:`\sum_a \pi(a|x)^2 / e_t(a|x)`, which
depends on the logger's first rewards. Weights that level it out make the standardised
estimate normal again. No weight may look at the action of its own round.
"""

import numpy as np

from skope_ope.evaluators.adaptive_logger._contextual_weights import contextual_form
from skope_ope.evaluators.core._functions import mean, ratio


class UniformForm:
    """The mean of the scores."""

    combine = staticmethod(mean)
    by_group = True  # whether groups of rounds have a value of their own

    def shares(self):
        """Return what every round counts, up to a factor; None: all the same."""

    def terms(self, scores):
        """Return the terms of the estimate."""
        return (scores,)


class RatioForm:
    r"""The weighted mean :math:`\sum_t h_t G_t / \sum_t h_t`."""

    combine = staticmethod(ratio)
    by_group = True

    def __init__(self, h):
        self.h = h

    def shares(self):
        """Return what every round counts, up to a factor."""
        return self.h

    def terms(self, scores):
        """Return the terms of the estimate."""
        return self.h * scores, self.h


def uniform(rounds):
    """Weigh all rounds the same."""
    return UniformForm()


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
    e, a, n = _probabilities_of_the_arm(rounds), rounds.floor_decay, len(rounds)
    t = np.arange(1, n + 1)
    left_to_the_floor = (1 - a) / ((1 - a) + n * (t / n) ** a - t)
    share = (1 - e) * left_to_the_floor + e / (1 + n - t)
    share = np.clip(share, 0, 1)
    left = np.concatenate([[1.0], np.cumprod(1 - share[:-1])])
    return RatioForm(np.sqrt(e * share * left))


def min_variance(rounds):
    r"""Weigh contexts by :math:`h_t(x) = 1 / \sum_a \pi(a|x)^2 / e_t(a|x)`."""
    return contextual_form(rounds, lambda variances: 1 / variances)


def stable_variance(rounds):
    r"""Weigh contexts by the square root of what `min_variance` takes."""
    return contextual_form(rounds, lambda variances: 1 / np.sqrt(variances))


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
    return RatioForm(h if h.any() else np.ones(len(rounds)))


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
    if not rounds.logger.context_free:
        _refuse_contextual(rounds)
    return e[:, arm]


def _refuse_contextual(rounds):
    """Raise where the logger looks at the context."""
    e, contexts = rounds.logs.logging_proba, rounds.logs.context
    for t in range(len(rounds)):
        if np.ptp(rounds.logger.at(t, contexts), axis=0).max() > 1e-6:
            raise ValueError(
                "weighting='two_point' is for loggers that ignore the context, but "
                f"logger(t, X) differs between contexts at t={t}. So the value "
                "would be biased. Use 'stable_variance' or 'cadr'."
            )
    return e


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
