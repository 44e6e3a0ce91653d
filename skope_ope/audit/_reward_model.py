# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Models of all columns that foretell the reward almost perfectly."""

import numpy as np

from skope_ope.audit._interpolation import LEAST_R2, interpolated, r2_of, varies
from skope_ope.exceptions import LogsWarning
from skope_ope.logs.checks._context_columns import listed
from skope_ope.logs.checks._dropped_rounds import DROPPED, lacks_zeros
from skope_ope.logs.checks._finding import Finding

MOST_ROUNDS = 4_000
MOST_TERMS = 250  # of the model
MOST_LEVELS = 10  # of a column of categories, and actions, that the model knows
MOST_DROPPED = 30  # columns, one after the other, to see which are needed
RIDGE = 1e-9


def reward_models(columns, reward, action, random):
    """Return the finding of a model of all columns, if any."""
    # Least squares on the columns, their squares and products as long as these are few,
    # then with the actions and their products with columns; one half of the rounds is
    # predicted from the other.
    some = random.permutation(len(reward))[:MOST_ROUNDS]
    reward = reward[some]
    if not varies(reward):
        return []
    half = np.arange(len(reward)) % 2
    pieces = [_piece(column, some, k) for k, column in enumerate(columns)]
    X = np.concatenate([piece for piece, _ in pieces], axis=1)
    owner = np.concatenate([mine for _, mine in pieces])
    if X.shape[1] > MOST_TERMS:
        X, owner = X[:, :MOST_TERMS], owner[:MOST_TERMS]
    for taken in [None] if action is None else [None, _frequent(action[some])]:
        score = _score(_terms(X, taken), reward, half)
        if score > LEAST_R2:
            needed = _needed(X, owner, taken, reward, half)
            return [_model_finding([columns[k] for k in needed], score, taken, reward)]
    return []


def _piece(column, rows, k):
    """Return the terms of a column, and which column they are of."""
    values = column.values[rows]
    if column.categorical:
        codes = np.arange(min(np.nanmax(values, initial=0) + 1, MOST_LEVELS))
        terms = (values[:, None] == codes) * 1.0
    else:
        known = np.isfinite(values)
        values = np.where(known, values, 0.0)
        values = values / (np.abs(values).max() or 1.0)
        level = values[known].mean() if known.any() else 0.0
        centred = np.where(known, values - level, 0.0)
        terms = (centred / (centred.std() or 1.0))[:, None]
        if not known.all():
            terms = np.column_stack([terms, known])
    return terms, np.full(terms.shape[1], k)


def _frequent(action):
    counts = np.bincount(action)
    frequent = np.argsort(-counts, kind="stable")[:MOST_LEVELS]
    return (action[:, None] == frequent[counts[frequent] > 0]) * 1.0


def _terms(X, taken):
    """Return columns, and products with actions and each other while they are few."""
    parts = [X]
    if taken is not None:
        products = (X[:, :, None] * taken[:, None, :]).reshape(len(X), -1)
        parts += [taken, products]
    first, second = np.triu_indices(X.shape[1])
    parts.append(X[:, first] * X[:, second] if len(first) <= MOST_TERMS else X[:, :0])
    n_terms = np.cumsum([part.shape[1] for part in parts])
    kept = [part for part, n in zip(parts, n_terms, strict=True) if n <= MOST_TERMS]
    return np.concatenate(kept or parts[:1], axis=1)


def _score(terms, reward, half):
    """Return the R^2 of least squares, each half predicted from the other."""
    predicted = np.empty(len(reward))
    for told in (half == 0, half == 1):
        middle, level = terms[~told].mean(axis=0), reward[~told].mean()
        A = terms[~told] - middle
        gram = A.T @ A
        gram.flat[:: len(gram) + 1] += RIDGE * len(A)
        weight = np.linalg.solve(gram, A.T @ (reward[~told] - level))
        predicted[told] = level + (terms[told] - middle) @ weight
    along = interpolated(predicted, reward)
    return max(r2_of(predicted, reward), r2_of(along, reward))


def _needed(X, owner, taken, reward, half):
    """Return the columns without which the prediction is worse, or all."""
    columns = np.unique(owner)
    if len(columns) == 1:
        return columns
    gains = {}
    for k in columns[:MOST_DROPPED]:
        rest = _terms(X[:, owner != k], taken)
        gains[k] = LEAST_R2 - _score(rest, reward, half)
    needed = [k for k in sorted(gains, key=gains.get, reverse=True) if gains[k] > 0]
    return needed or list(columns)


def _model_finding(columns, score, taken, reward):
    labels = listed([column.label for column in columns])
    with_action = "" if taken is None else " and the action"
    written = (
        "One of these columns was written after the reward, or is computed from it: "
        "leave it out, for the context is what was known before the decision. If it "
        "was known before the choice (a price, a length), keep it and accept the "
        "finding by name: VerdictThresholds(accepted=['reward_leak'])."
    )
    world = (
        "All columns were known before, and context and action determine the reward. "
        "Then this is no fault, and a reward model needs no weights."
    )
    return Finding(
        "reward_leak",
        "warning",
        f"A model of {labels}{with_action} predicts the reward almost perfectly: R^2 "
        f"{score:.4f} on held-out rounds.",
        (written, world, *((DROPPED,) if lacks_zeros(reward) else ())),
        number=score,
        effect=score,
        columns=[column.name for column in columns],
        category=LogsWarning,
    )
