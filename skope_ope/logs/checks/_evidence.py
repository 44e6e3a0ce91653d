# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Evidence against recorded propensities that holds at any number of rounds.

E-values, and the model of the logger whose predictions bet against the propensities.
"""

import warnings
from functools import cached_property
from math import log

import numpy as np

from skope_ope.logs.checks._context_columns import context_columns

LEAST_RATIO = 0.01  # share of the uniform distribution in every prediction
LARGEST_RATIO = (
    1e9  # ratio that counts: more is no better evidence, and sums stay finite
)
STAKES = (0.1, 0.5, 1.0)
EVIDENT = log(1000)  # right propensities exceed it in one log of a thousand
SURE_FORWARD = log(100)  # of predictions from the past, fair for loggers that learn
LEAST_EFFECT = 0.035  # weights are then off by the root of it, 19%


def probability_ratio(predicted, propensity, n_offered):
    r"""Return how much likelier a prediction makes the logged actions."""
    # .. math:: f_i = (.99\, \hat p(a_i | x_i) + .01 / K_i) / p_i
    #
    # Actions that the other rounds do not know (:math:`\hat p = 0`) get nothing: a log
    # does not tell how many more of them there are, and shares for all of those that
    # happen to be logged could add up to more than one.
    known = predicted > 0
    ratio = (
        (1 - LEAST_RATIO) * predicted + known * LEAST_RATIO / n_offered
    ) / propensity
    return np.minimum(ratio, LARGEST_RATIO)


def log_e_value(ratio, share=None, group=None):
    r"""Return the logarithm of an e-value: evidence that a mean exceeds one."""
    # .. math::
    #
    #    E = \frac{1}{3} \sum_{\lambda \in \{.1, .5, 1\}}
    #    \prod_i (1 + \lambda s_i (f_i - 1))
    #
    # The wealth of somebody who bets on :math:`f > 1` at fair odds. Where every
    # :math:`f_i \ge 0` has mean at most one given the rounds before, :math:`E[E] \le 1`
    # at any number of rounds and any skewness, so :math:`P(E \ge 1000) \le .001`.
    gap = ratio - 1
    if share is not None:
        gap = gap * share
    if group is not None:
        sizes = np.bincount(group)
        gap = np.bincount(group, gap)[sizes > 0] / sizes[sizes > 0]
    with np.errstate(divide="ignore"):  # all is lost where f = 0 and the stake is all
        return log_mean_exp([np.log1p(stake * gap).sum() for stake in STAKES])


def quarters_by_time(rank):
    """Return the quarter, 0 to 3, of rounds or groups by their rank in the log."""
    quarter = np.empty(len(rank), dtype=np.intp)
    quarter[np.argsort(rank, kind="stable")] = np.arange(len(rank)) * 4 // len(rank)
    return quarter


def crosswise(half):
    """Get masks (learned, predicted): two halves of the rounds predict each other."""
    # Fair bets where choices do not depend on those before. A logger that learns makes
    # them unfair: rounds that come later know what became of the earlier ones.
    return [(half != k, half == k) for k in (0, 1)]


def forwards(quarter):
    """Return masks (learned, predicted): each quarter is predicted from its past."""
    # Fair bets for loggers that learn, too.
    return [(quarter < k, quarter == k) for k in (1, 2, 3)]


def log_e_of_parts(ratio, parts, share=None, group=None):
    """Return the logarithm of the mean of the e-values of parts of the rounds."""

    def of(part):
        s = None if share is None else share[part]
        g = None if group is None else group[part]
        return log_e_value(ratio[part], s, g)

    return log_mean_exp([of(part) for part in parts])


def log_e_forward(ratio, quarter, share=None, group=None):
    """Return the evidence of predictions from the past: of quarters, and of all."""
    parts = [quarter == 1, quarter == 2, quarter == 3, quarter > 0]
    return log_e_of_parts(ratio, parts, share, group)


class Bets:
    """Bets against propensities on rounds whose quarters in time are known."""

    def __init__(self, quarter, half=None, share=None, group=None):
        self.quarter, self.share, self.group = quarter, share, group
        self.plan = crosswise(quarter % 2 if half is None else half)

    @cached_property
    def plan_ahead(self):
        """What is learned from the past, and what it predicts."""
        return forwards(self.quarter)

    def evidence(self, ratio):
        """Return the logarithm of the e-value of halves that predict each other."""
        parts = [told for _, told in self.plan]
        return log_e_of_parts(ratio, parts, self.share, self.group)

    def evidence_ahead(self, ratio):
        """Return the same of predictions from the past, fair for learners, too."""
        return log_e_forward(ratio, self.quarter, self.share, self.group)

    def effect(self, ratio):
        """Return how much likelier a prediction makes a round, as a share."""
        return misfit_effect(ratio, self.share)


def log_mean_exp(logs):
    """Return the logarithm of the mean of numbers, from their logarithms."""
    return float(np.logaddexp.reduce(logs)) - log(len(logs))


def mean_gain(ratio, share=None):
    """Return the mean of ln f, weighted by `share`; f below .01 counts as that."""
    return float(np.average(np.log(np.maximum(ratio, LEAST_RATIO)), weights=share))


def misfit_effect(ratio, share=None):
    """Return how much likelier a prediction makes a round: a share, .05 for 5%."""
    return max(mean_gain(ratio, share), mean_ratio(ratio, share) - 1)


def mean_ratio(ratio, share=None):
    """Return the mean of f; of propensities near 0 it is a bound from below."""
    bounded = np.minimum(ratio, 1e300 / len(ratio))  # so that the sum is finite
    return float(np.average(bounded, weights=share))


# -- a model of the logger, by which some rounds predict the actions of others ---------

ACTIONS_MODELLED = 20  # above it frequencies alone are predicted
INDICATORS = 16  # of a column of texts, one feature each
LOGGER_FEATURES = 64
N_TREES, LEAST_LEAF = 60, 15


def held_out_proba(logs, rows, plan, without=None, forest=False):
    """Return the probability of each logged action, learned from other rounds."""
    # A multinomial logistic regression of the action on the context and the logger that
    # acted; frequencies where there are many actions or no features. Where offers vary,
    # probabilities are renormalised over the offered actions. An action that was not
    # learned of has probability zero.
    action = logs.action_index[rows]
    features = None
    if len(np.unique(action)) <= ACTIONS_MODELLED:
        features = logger_features(logs, rows, without)
    offered = None if logs.available is None else logs.available[rows]
    weight = None if logs.sample_weight is None else logs.sample_weight[rows]
    out = np.full(len(rows), np.nan)
    for learned, wanted in plan:
        learned, wanted = np.flatnonzero(learned), np.flatnonzero(wanted)
        w = None if weight is None else weight[learned]
        seen = action[learned]
        if features is None or not features.shape[1] or (seen == seen[0]).all():
            could = None if offered is None else offered[learned]
            proba = _action_shares(seen, logs.n_actions, could, w)[None]
        else:
            proba = np.zeros((len(wanted), logs.n_actions))
            model = (_grown if forest else fitted_regression)(
                features[learned], seen, w
            )
            proba[:, model.classes_] = model.predict_proba(features[wanted])
        could = None if offered is None else offered[wanted]
        out[wanted] = _of_taken(proba, action[wanted], could)
    return out


def _of_taken(proba, action, offered):
    """Return the share of the taken actions in that of the offered ones."""
    # One row of `proba` stands for all.
    row = np.arange(len(action)) if len(proba) > 1 else 0
    taken = proba[row, action]
    if offered is None:
        return taken
    mass = (proba * offered).sum(axis=1)
    return np.divide(taken, mass, out=np.zeros(len(action)), where=mass > 0)


def _action_shares(action, n_actions, offered, weight):
    """Return shares of the actions, of the rounds in which they were offered."""
    counts = np.bincount(action, weight, minlength=n_actions)
    if offered is None:
        return counts / counts.sum()
    times = offered.sum(axis=0) if weight is None else weight @ offered
    return np.divide(counts, times, out=np.zeros(n_actions), where=times > 0)


def fitted_regression(features, action, weight=None):
    """Return a classifier of the action, fitted as far as a few steps bring it."""
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.linear_model import LogisticRegression

    with warnings.catch_warnings():  # any model will do: its bets are fair
        warnings.simplefilter("ignore", ConvergenceWarning)
        return LogisticRegression(max_iter=50, tol=1e-3).fit(features, action, weight)


def _grown(features, action, weight):
    from sklearn.ensemble import ExtraTreesClassifier

    leaf = max(LEAST_LEAF, len(action) // 100)  # a hundredth of what is learned from
    forest = ExtraTreesClassifier(
        N_TREES, min_samples_leaf=leaf, max_features=None, random_state=0
    )
    return forest.fit(features, action, weight)


def logger_features(logs, rows, without=None):
    """Return standardised numbers that tell of the contexts and the loggers of rows."""
    # Texts become indicators of their most frequent values, missing numbers the median
    # and an indicator. At most `LOGGER_FEATURES` are kept, those of the first columns.
    parts, width = [], 0
    if logs.loggers is not None and 1 < len(logs.loggers) <= ACTIONS_MODELLED:
        codes = np.arange(len(logs.loggers))
        parts.append(logs.logger_index[rows][:, None] == codes)
        width = len(codes)
    for column in context_columns(logs.context, rows):
        if width >= LOGGER_FEATURES:
            break
        if without is None or column.name != without:
            textual = column.categorical
            parts.append(_indicators(column) if textual else _filled_numbers(column))
            width += parts[-1].shape[1]
    if not parts:
        return np.empty((len(rows), 0))
    X = np.hstack(parts)[:, :LOGGER_FEATURES].astype(float)
    largest = np.abs(X).max(axis=0, initial=0)
    X = X / np.where(largest > 0, largest, 1)  # squares of what is left are finite
    spread = X.std(axis=0)
    varies = spread > 1e-12
    return (X[:, varies] - X[:, varies].mean(axis=0)) / spread[varies]


def _indicators(column):
    n_values = int(np.nanmax(column.values, initial=-1)) + 1
    return column.values[:, None] == np.arange(min(n_values, INDICATORS))


def _filled_numbers(column):
    missing = ~np.isfinite(column.values)
    if not missing.any():
        return column.values[:, None]
    known = column.values[~missing]
    filled = np.where(missing, np.median(known) if known.size else 0, column.values)
    return np.column_stack([filled, missing])
