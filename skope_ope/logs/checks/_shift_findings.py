# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Contexts that have slid by a row: another row's context explains what was done."""

from math import sqrt

import numpy as np
from sklearn.utils import check_random_state

from skope_ope.exceptions import LogsWarning
from skope_ope.logs._row_container import in_stored_order
from skope_ope.logs.checks._context_columns import context_columns
from skope_ope.logs.checks._finding import Finding

ROWS_IN_BLOCK, MOST_BLOCKS = 1000, 10  # consecutive rows
FEWEST_BETWEEN = 100
NEIGHBOURS = 50  # consecutive rows of one half: neighbours are in the same one
FEW_COLUMNS = 50
MOST_TARGETS = 5  # frequent actions
FEW_OF_ACTION = 50
FREQUENT_LEVELS = 5
PENALTY = 10.0  # rounds
LEAST_VARIATION = 1e-9  # variance of what is the same in all rounds
OTHER_ROWS = {-1: "before", 1: "after"}
SHIFT_Z = 6.0
LEAST_GAIN = 0.02  # of the variance that is to be explained


def shift_findings(logs, random_state=0):
    """Return a finding where the context of a neighbour fits a round better."""
    # The propensity of an action is a function of its context; where it is not known,
    # the action follows the context. Least squares on one half of the rounds predict
    # the other half, with a round's own context and with those of the rows before and
    # after it. Rounds whose contexts depend on each other cause no alarm: a neighbour
    # then tells something, but no more than a round's own context does.
    logs = in_stored_order(logs)
    rows = _consecutive_rows(len(logs), random_state)
    own = _between_neighbours(logs._position, rows)
    known = logs.propensity is not None and not logs.propensity_estimated
    X = _squared_columns(logs.context, rows)
    if len(own) < FEWEST_BETWEEN or X is None:
        return {}, []
    action = logs.action_index[rows[own]]
    losses = by_action = _losses_of_actions(X, own, action)
    if known:
        losses = _losses_of_propensities(X, own, action, logs.propensity[rows[own]])
    best = max(OTHER_ROWS, key=lambda side: _gain(losses, side)[0])
    gain, z = _gain(losses, best)
    if not (gain > LEAST_GAIN and z > SHIFT_Z):
        return {}, []
    own_fits = (
        known and _gain({best: by_action[0], 0: by_action[best]}, best)[1] > SHIFT_Z
    )
    return {}, [_shift_finding(OTHER_ROWS[best], gain, z, known, own_fits)]


def _shift_finding(side, gain, z, known, own_fits):
    what = "propensities" if known else "actions"
    found = (
        f"The {what} follow from the context of the row {side}, not of the same row. "
        f"It explains {gain:.1%} more of their variance ({z:,.1f} standard errors, on "
        "rounds that the model did not see)."
    )
    advice = [
        "The contexts are shifted by a row against the rest of the log, by a join or a "
        "lag. Join them by a key, not by their position."
    ]
    severity = "error" if known else "warning"
    if own_fits:
        advice = (
            "The propensities are shifted by a row, because the actions follow from "
            "the contexts of the same rows. Join the propensities by a key."
        )
    elif not known and side == "after":  # which contexts that tell of the past do, too
        severity = "note"
        advice.append(
            "Columns record what was done in the row before: then this is no fault."
        )
    about = {"number": z, "effect": gain, "category": LogsWarning}
    return Finding("shifted_context", severity, found, advice, **about)


def _consecutive_rows(n_rounds, random_state):
    """Return all rows, or blocks of consecutive ones at random."""
    if n_rounds <= ROWS_IN_BLOCK * MOST_BLOCKS:
        return np.arange(n_rounds)
    random = check_random_state(random_state)
    starts = np.sort(
        random.choice(n_rounds // ROWS_IN_BLOCK, MOST_BLOCKS, replace=False)
    )
    return (starts[:, None] * ROWS_IN_BLOCK + np.arange(ROWS_IN_BLOCK)).ravel()


def _between_neighbours(position, rows):
    """Return where in `rows` both neighbours stood next to the round in the log."""
    position = position[rows] if isinstance(position, np.ndarray) else rows
    step = np.diff(position) == 1
    return 1 + np.flatnonzero(step[1:] & step[:-1])


def _squared_columns(context, rows):
    """Return standardised numbers and their squares, and the frequent categories."""
    parts = []
    for column in context_columns(context, rows)[:FEW_COLUMNS]:
        if column.categorical:
            parts.append(column.values[:, None] == np.arange(FREQUENT_LEVELS))
            continue
        known = np.isfinite(column.values)
        if not known.any():
            continue
        values = column.values / (np.abs(column.values[known]).max() or 1.0)
        level, spread = values[known].mean(), values[known].std()
        if spread > 0:
            z = np.clip((np.where(known, values, level) - level) / spread, -4, 4)
            parts.append(np.column_stack([z, z * z]))
        if not known.all():
            parts.append(known[:, None])
    return np.concatenate(parts, axis=1, dtype=float) if parts else None


def _losses_of_actions(X, own, action):
    counts = np.bincount(action)
    frequent = np.argsort(-counts, kind="stable")[:MOST_TARGETS]
    taken = (action[:, None] == frequent[counts[frequent] >= FEW_OF_ACTION]) * 1.0
    return _losses(X, own, taken)


def _losses_of_propensities(X, own, action, propensity):
    """Losses of the logarithms of propensities, for the frequent actions apart."""
    counts = np.bincount(action)
    frequent = np.argsort(-counts, kind="stable")[:MOST_TARGETS]
    parts = [
        _losses(X, own[chosen], np.log(propensity[chosen])[:, None])
        for chosen in (action == code for code in frequent)
        if chosen.sum() >= FEW_OF_ACTION
    ]
    if not parts:  # too many actions to look at each: their propensities together
        return _losses(X, own, np.log(propensity)[:, None])
    return {
        side: np.concatenate([part[side] for part in parts])
        for side in (0, *OTHER_ROWS)
    }


def _losses(X, own, targets):
    """Squared errors out of fold, in variances, with the context of each side."""
    targets = targets - targets.mean(axis=0)
    variance = float((targets**2).sum() / max(len(targets), 1))
    half = own // NEIGHBOURS % 2
    if not variance > LEAST_VARIATION or half.all() or not half.any():
        return {side: np.zeros(0) for side in (0, *OTHER_ROWS)}
    out = {}
    for side in (0, *OTHER_ROWS):
        fitted = predicted_by_halves(X[own + side], targets, half, PENALTY)
        out[side] = ((targets - fitted) ** 2).sum(axis=1) / variance
    return out


def predicted_by_halves(X, targets, half, penalty=0.0, ridge=0.0):
    """Return what least squares predict, each half of the rounds from the other."""
    fitted = np.empty(targets.shape)
    for told in (half == 0, half == 1):
        middle, level = X[~told].mean(axis=0), targets[~told].mean(axis=0)
        A, Y = X[~told] - middle, targets[~told] - level
        gram = A.T @ A
        gram.flat[:: len(gram) + 1] += penalty + ridge * len(A)
        fitted[told] = level + (X[told] - middle) @ np.linalg.solve(gram, A.T @ Y)
    return fitted


def _gain(losses, side):
    """Return what a side explains more than a round's own context, and its z."""
    # What it explains more than nothing counts: a model of a round's own context that
    # fits another time badly is no sign.
    gains = losses[0] - losses[side]
    if len(gains) < FEWEST_BETWEEN or not losses[side].mean() < 1 - LEAST_GAIN:
        return 0.0, 0.0
    gain, spread = float(gains.mean()), float(gains.std())
    return gain, gain / spread * sqrt(len(gains)) if spread > 0 else 0.0
