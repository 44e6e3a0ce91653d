# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""A model of the logger, by which some rounds predict the actions of others."""

import warnings

import numpy as np

from skope_ope.logs.checks._context_columns import context_columns

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
            model = (_grown if forest else _fitted_regression)(
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


def _fitted_regression(features, action, weight):
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
