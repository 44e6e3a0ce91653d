# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Columns, and models of them, that foretell the reward almost perfectly."""

from math import log

import numpy as np
from sklearn.utils import check_random_state

from skope_ope.exceptions import LogsWarning
from skope_ope.logs._shown_numbers import figure
from skope_ope.logs.checks._context_columns import (
    capital,
    context_columns,
    in_words,
    rows_apart,
)
from skope_ope.logs.checks._finding import Finding
from skope_ope.logs.checks._lost_rows import UNLOGGED, lacks_zeros
from skope_ope.logs.checks._shift_findings import predicted_by_halves

MOST_FOR_LEAK = 10_000
FEWEST_FOR_LEAK = 50


def reward_leak_findings(logs, random_state=0):
    """Return a finding where the context foretells the reward almost perfectly."""
    # A single column predicts a reward by the mean of its other rounds with the same
    # value, or, where these are few, by interpolation between the rounds with the next
    # values; so a column is found whatever function of it the reward is. Then come
    # columns of which one value is always rewarded, and models of all columns.
    random = check_random_state(random_state)
    rows = rows_apart(logs, MOST_FOR_LEAK, random)  # none is told by its group
    reward = logs.reward[rows]
    if len(rows) < FEWEST_FOR_LEAK or not varies(reward) or not logs.n_features:
        return {}, []
    reward = reward / np.abs(reward).max()  # squares of huge rewards overflow
    columns = context_columns(logs.context, rows)
    action = getattr(logs, "action_index", None)
    action = None if action is None else action[rows]
    found = _single_columns(columns, reward)
    found = found or sure_rewards(columns, reward, action, len(logs))
    return {}, found or reward_models(columns, reward, action, random)


def _single_columns(columns, reward):
    """Return the finding of columns that foretell the reward by themselves, if any."""
    targets = {"the reward": reward}
    rewarded = (reward != 0).astype(float)
    if varies(rewarded) and len(np.unique(reward)) > 2:
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
        return []
    told.sort(key=lambda one: -one[0])
    r2, what, column = told[0]
    label, others = capital(column.label), [one.label for _, _, one in told[1:]]
    more = f" The same holds for {in_words(others)}." if others else ""
    finding = Finding(
        "reward_leak",
        "error",
        f"{label} predicts {what}, whatever the action: R^2 {r2:.4f} on held-out "
        f"rounds.{more}",
        (
            f"{label} was written after the reward, or is computed from it. Leave it "
            "out: the context is what was known before the decision.",
            f"{label} was known before, and the action does not change the reward. "
            "Then all policies have the same value.",
        ),
        number=r2,
        effect=r2,
        columns=[one.name for _, _, one in told],
        category=LogsWarning,
    )
    return [finding]


# -- models of all columns that foretell the reward almost perfectly -------------------

MOST_MODEL_ROUNDS = 4_000
MOST_TERMS = 250  # of the model
MOST_MODEL_LEVELS = 10  # of a column of categories, and actions, that the model knows
MOST_DROPPED = 30  # columns, one after the other, to see which are needed
RIDGE_OF_LEAK = 1e-9


def reward_models(columns, reward, action, random):
    """Return the finding of a model of all columns, if any."""
    # Least squares on the columns, their squares and products as long as these are few,
    # then with the actions and their products with columns; one half of the rounds is
    # predicted from the other.
    some = random.permutation(len(reward))[:MOST_MODEL_ROUNDS]
    reward = reward[some]
    if not varies(reward):
        return []
    half = np.arange(len(reward)) % 2
    pieces = [_piece(column, some, k) for k, column in enumerate(columns)]
    X = np.concatenate([piece for piece, _ in pieces], axis=1)
    owner = np.concatenate([mine for _, mine in pieces])
    if X.shape[1] > MOST_TERMS:
        X, owner = X[:, :MOST_TERMS], owner[:MOST_TERMS]
    for taken in [None] if action is None else [None, _frequent_actions(action[some])]:
        score = _score(_terms(X, taken), reward, half)
        if score > LEAST_R2:
            needed = _needed_columns(X, owner, taken, reward, half)
            return [_model_finding([columns[k] for k in needed], score, taken, reward)]
    return []


def _piece(column, rows, k):
    """Return the terms of a column, and which column they are of."""
    values = column.values[rows]
    if column.categorical:
        codes = np.arange(min(np.nanmax(values, initial=0) + 1, MOST_MODEL_LEVELS))
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


def _frequent_actions(action):
    counts = np.bincount(action)
    frequent = np.argsort(-counts, kind="stable")[:MOST_MODEL_LEVELS]
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
    predicted = predicted_by_halves(terms, reward, half, ridge=RIDGE_OF_LEAK)
    along = interpolated(predicted, reward)
    return max(r2_of(predicted, reward), r2_of(along, reward))


def _needed_columns(X, owner, taken, reward, half):
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
    labels = in_words([column.label for column in columns])
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
        (written, world, *((UNLOGGED,) if lacks_zeros(reward) else ())),
        number=score,
        effect=score,
        columns=[column.name for column in columns],
        category=LogsWarning,
    )


# -- values of columns whose rounds are all rewarded, as those of outcomes are ---------

LEAST_CHANCE = 1e-12  # that all rounds of a value are rewarded
FEWEST_OF_VALUE = 30  # rounds of a value
FEWEST_OF_ACTION = 5
MOST_CODES = 64  # of a column: more are numbers, not categories


def sure_rewards(columns, reward, action, n_rounds):
    """Return the finding of values whose rounds all have the rarer kind of reward."""
    # Every buyer has visited: a column may say little about the reward in most rounds,
    # and all in a few. A value counts where chance does not explain it and at least two
    # actions were rewarded without exception. So does the set of all values but the
    # most frequent one, such as amounts above zero.
    rewarded = reward != 0
    rate = rewarded.mean()
    if not 0 < rate < 0.5:
        return []
    least = max(FEWEST_OF_VALUE, log(LEAST_CHANCE / max(len(columns), 1)) / log(rate))
    found = []
    for column in columns:
        for what, rounds in _sets(column, rewarded, least):
            if _of_several_actions(action, rounds):
                found.append((column, what, int(rounds.sum())))
                break
    if not found:
        return []
    column, what, count = found[0]
    label = capital(column.label)
    others = [one.label for one, _, _ in found[1:]]
    more = f" The same is true of values of {in_words(others)}." if others else ""
    looked_at = f"{len(reward):,} rounds"
    if len(reward) < n_rounds:
        looked_at += f" drawn from {n_rounds:,}"
    return [
        Finding(
            "reward_leak",
            "warning",
            f"All {count:,} rounds in which {column.label} {what} are rewarded, "
            f"whatever the action. Of all {looked_at} {rate:.1%} are.{more}",
            (
                f"{label} is an outcome, or was written after the reward. Leave it "
                "out: the context is what was known before the decision.",
                f"{label} was known before, and these rounds are always rewarded. "
                "Then this is no fault.",
            ),
            number=float(count),
            effect=1 - float(rate),
            columns=[one.name for one, _, _ in found],
            category=LogsWarning,
        )
    ]


def _sets(column, rewarded, least):
    """Yield sets of at least so many rounds that are all rewarded."""
    distinct, code, counts = np.unique(
        column.values, return_inverse=True, return_counts=True
    )
    code, most = code.ravel(), int(counts.argmax())
    if len(distinct) < 2:
        return
    rest = code != most
    if 2 * counts[most] >= len(code) and rest.sum() >= least and rewarded[rest].all():
        only = len(distinct) == 2
        yield (
            _rule_text(column, distinct[1 - most] if only else distinct[most], only),
            rest,
        )
    if len(distinct) > MOST_CODES and not column.categorical:
        return
    hits = np.bincount(code, rewarded)
    for k in np.flatnonzero((hits == counts) & (counts >= least)):
        yield _rule_text(column, distinct[k], True), code == k


def _rule_text(column, value, equal):
    if np.isnan(value):
        text = "missing"
    else:
        text = repr(column.labels[int(value)]) if column.categorical else figure(value)
    return f"is {text}" if equal else f"is not {text}"


def _of_several_actions(action, rounds):
    """Whether at least two actions were taken, or all that there are."""
    if action is None or (action == action[0]).all():
        return True
    return np.count_nonzero(np.bincount(action[rounds]) >= FEWEST_OF_ACTION) >= 2


# -- how well one number foretells another, whatever function of it that is ------------

LEAST_R2 = 0.99  # almost perfectly
FEW_REPEATS = 8  # rounds of one value: fewer may be copies of one round


def varies(reward):
    """Tell whether enough rounds differ from the most frequent value."""
    _, counts = np.unique(reward, return_counts=True)
    return len(reward) - counts.max() >= FEW_REPEATS


def interpolated(values, reward, categorical=False):
    """Predict the reward of each round from other rounds by one column."""
    distinct, code = np.unique(values, return_inverse=True)
    code = code.ravel()
    counts, totals = np.bincount(code), np.bincount(code, reward)
    others = (reward.sum() - reward) / (len(reward) - 1)
    apart = (totals[code] - reward) / np.maximum(counts[code] - 1, 1)
    near = others
    ordered = np.count_nonzero(np.isfinite(distinct))  # what is missing stands last
    if not categorical and ordered > 2:
        x, level = distinct[:ordered], totals[:ordered] / counts[:ordered]
        near = np.append(_interpolate(x, level), np.zeros(len(distinct) - ordered))[
            code
        ]
        near = np.where(code < ordered, near, others)
    return np.where(counts[code] >= FEW_REPEATS, apart, near)


def _interpolate(x, level):
    """Interpolate each level from its two neighbours; the first and last have one."""
    gap = np.diff(x)
    inner = level[:-2] + (level[2:] - level[:-2]) * (gap[:-1] / (gap[:-1] + gap[1:]))
    return np.concatenate([[np.nan], inner, [np.nan]])


def r2_of(predicted, target):
    """Return the share of the variance that predictions (not NaN) explain."""
    told = np.isfinite(predicted)
    target = target[told]
    total = float(((target - target.mean()) ** 2).sum()) if len(target) else 0.0
    if not total:
        return 0.0
    return 1 - float(((target - predicted[told]) ** 2).sum()) / total
