# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Columns, and models of them, that foretell the reward almost perfectly."""

import numpy as np
from sklearn.utils import check_random_state

from skope_ope.exceptions import LogsWarning
from skope_ope.logs._context_columns import (
    capital,
    columns_of,
    listed,
    sampled_rows,
)
from skope_ope.logs._finding import Finding

MOST_ROUNDS = 10_000
FEWEST_ROUNDS = 50
LEAST_R2 = 0.99
FEW_REPEATS = 8  # rounds of one value: fewer may be copies of one round
MODEL_ROUNDS = 4_000
MOST_TERMS = 250  # of the model
MOST_DROPPED = 30  # columns, one after the other, to see which are needed
RIDGE = 1e-9
MOST_LEVELS = 10  # of a column that the model takes apart


def reward_leak_findings(logs, random_state=0):
    r"""Return a finding where the context foretells the reward almost perfectly.

    A single column predicts a reward by the mean of its other rounds with the same
    value, or, where these are few, by interpolation between the rounds with the next
    values; so a column is found whatever function of it the reward is. Then a model
    of all columns predicts one half of the rounds from the other: least squares on
    columns, their squares and products, with the actions where those do not do
    without, followed by the same interpolation along the prediction.

    Parameters
    ----------
    logs : BanditLogs or SlateLogs
        The rounds.
    random_state : int, RandomState instance or None, default=0
        Which rounds are drawn where there are many, and their halves.

    Returns
    -------
    facts : dict
        Empty.
    findings : list of Finding
        Where :math:`R^2 > .99`.
    """
    random = check_random_state(random_state)
    rows = _rows(logs, random)
    reward = logs.reward[rows]
    if len(rows) < FEWEST_ROUNDS or not _varies(reward) or not logs.n_features:
        return {}, []
    reward = reward / np.abs(reward).max()  # squares of huge rewards overflow
    columns = columns_of(logs.context, rows)
    single = _single_columns(columns, reward)
    if single:
        return {}, [single]
    return {}, _models(logs, rows, columns, reward, random)


def _rows(logs, random):
    """Return rows to test: of each group one, so that none is told by its group."""
    if logs.group is None:
        return sampled_rows(len(logs), MOST_ROUNDS, random)
    shuffled = random.permutation(len(logs))
    _, first = np.unique(logs.group_index[shuffled], return_index=True)
    return np.sort(shuffled[random.permutation(first)[:MOST_ROUNDS]])


def _varies(reward):
    _, counts = np.unique(reward, return_counts=True)
    return len(reward) - counts.max() >= FEW_REPEATS


def _single_columns(columns, reward):
    """Return the finding of columns that foretell the reward by themselves."""
    targets = {"the reward": reward}
    rewarded = (reward != 0).astype(float)
    if _varies(rewarded) and len(np.unique(reward)) > 2:
        targets["whether there is a reward"] = rewarded
    told = []
    for column in columns:
        scores = {
            what: r2_of(interpolated(column.values, target, column.categorical), target)
            for what, target in targets.items()
        }
        what = max(scores, key=scores.get)
        if scores[what] > LEAST_R2:
            told.append((scores[what], what, column))
    if not told:
        return None
    told.sort(key=lambda one: -one[0])
    r2, what, column = told[0]
    labels = [one.label for _, _, one in told]
    more = f" So do {listed(labels[1:])}." if len(told) > 1 else ""
    return Finding(
        "reward_leak",
        "error",
        f"{capital(labels[0])} foretells {what}, whatever was done: R^2 {r2:.4f} on "
        f"rounds left out.{more}",
        (
            f"{capital(labels[0])} was written after the reward, or is made from it: "
            "take it out of the context, which is what was known before the decision.",
            "It was known before, and the action does not matter for the reward: then "
            "all policies have the same value.",
        ),
        number=r2,
        effect=r2,
        columns=[one.name for _, _, one in told],
        category=LogsWarning,
    )


def interpolated(values, reward, categorical=False):
    """Predict the reward of each round from other rounds by one column.

    Parameters
    ----------
    values : ndarray of shape (n_rounds,)
        The column; NaN where it is missing.
    reward : ndarray of shape (n_rounds,)
        The rewards.
    categorical : bool, default=False
        Whether values have no order: then rare ones are predicted by the mean.

    Returns
    -------
    predicted : ndarray of shape (n_rounds,)
        Without the round itself; where its value is rare, without all that share it.
    """
    distinct, code = np.unique(values, return_inverse=True)
    code = code.ravel()
    counts, totals = np.bincount(code), np.bincount(code, reward)
    others = (reward.sum() - reward) / (len(reward) - 1)
    apart = (totals[code] - reward) / np.maximum(counts[code] - 1, 1)
    near = others
    ordered = np.count_nonzero(np.isfinite(distinct))  # what is missing stands last
    if not categorical and ordered > 2:
        x, level = distinct[:ordered], totals[:ordered] / counts[:ordered]
        near = np.append(_between(x, level), np.zeros(len(distinct) - ordered))[code]
        near = np.where(code < ordered, near, others)
    return np.where(counts[code] >= FEW_REPEATS, apart, near)


def _between(x, level):
    """Interpolate each level from its two neighbours."""
    gap = np.diff(x)
    inner = level[:-2] + (level[2:] - level[:-2]) * (gap[:-1] / (gap[:-1] + gap[1:]))
    return np.concatenate([level[1:2], inner, level[-2:-1]])


def r2_of(predicted, target):
    """Return the share of the variance that predictions explain."""
    total = float(((target - target.mean()) ** 2).sum())
    return 1 - float(((target - predicted) ** 2).sum()) / total


def _models(logs, rows, columns, reward, random):
    """Return the finding of a model of all columns, in a list, or an empty one."""
    some = random.permutation(len(rows))[:MODEL_ROUNDS]
    rows, reward = rows[some], reward[some]
    if not _varies(reward):
        return []
    half = np.arange(len(rows)) % 2
    pieces = [_piece(column, some, k) for k, column in enumerate(columns)]
    X = np.concatenate([piece for piece, _ in pieces], axis=1)
    owner = np.concatenate([mine for _, mine in pieces])
    if X.shape[1] > MOST_TERMS:
        X, owner = X[:, :MOST_TERMS], owner[:MOST_TERMS]
    for action in (None, getattr(logs, "action_index", None)):
        taken = None if action is None else _frequent(action[rows])
        score = _score(_terms(X, taken), reward, half)
        if score > LEAST_R2:
            needed = _needed(X, owner, taken, reward, half)
            return [_model_finding([columns[k] for k in needed], score, taken)]
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


def _model_finding(columns, score, taken):
    labels = listed([column.label for column in columns])
    with_action = "" if taken is None else " and the action"
    written = (
        "One of these columns was written after the reward, or is made from it: take "
        "it out of the context, which is what was known before the decision."
    )
    world = (
        "All were known before, and the reward follows from context and action without "
        "chance: then this is no fault, and a model of the rewards needs no weights."
    )
    return Finding(
        "reward_leak",
        "warning",
        f"A model of {labels}{with_action} foretells the reward almost perfectly: R^2 "
        f"{score:.4f} on rounds left out.",
        (written, world),
        number=score,
        effect=score,
        columns=[column.name for column in columns],
        category=LogsWarning,
    )
