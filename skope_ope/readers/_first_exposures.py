# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Logs of an experiment: the first exposure of every user, and what came after it."""

import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from numbers import Real

import numpy as np

from skope_ope._meant import meant
from skope_ope.exceptions import LogsWarning
from skope_ope.logs._bandit_logs import BanditLogs
from skope_ope.logs._numbers import quoted
from skope_ope.logs._texts import parse_labels
from skope_ope.logs._validation import PROBABILITY_TOLERANCE
from skope_ope.readers._user_tables import UserTable

SHOWN = 8  # experiments in a message


@dataclass(frozen=True, kw_only=True)
class Assignments:
    """What is wanted of a log of assignments; the parameters of its readers."""

    weights: object
    experiment: object
    user: str
    timestamp: str
    experiment_column: str
    variation: str
    context: tuple
    several_variations: str


@dataclass(frozen=True, kw_only=True)
class Outcomes:
    """What is wanted of a table of outcomes; the parameters of its readers."""

    user: str
    reward: object
    timestamp: object
    aggregate: str
    window: object


def logs_of_experiment(assignments, outcomes, wanted, rewards, reward_range=None):
    """Return the logs of an experiment, a round for every user."""
    table = UserTable(
        assignments,
        "assignments",
        [
            (wanted.user, "label"),
            (wanted.timestamp, "moment"),
            (wanted.experiment_column, "label"),
            (wanted.variation, "label"),
            *((name, "cell") for name in wanted.context),
        ],
    )
    rows = _rows_of_experiment(table, wanted)
    user = table.column(wanted.user)[rows]
    when = table.column(wanted.timestamp)[rows]
    variation = table.column(wanted.variation)[rows]
    first = _first_exposures(table, wanted, user, when, variation)
    rows, user, when, variation = (
        values[first] for values in (rows, user, when, variation)
    )
    reward = _rewards(outcomes, rewards, user, when)
    action, actions, share = _stated_split(wanted.weights, variation)
    return BanditLogs(
        table.rows(list(wanted.context), rows),
        action,
        reward,
        actions=actions,
        logging_proba=np.tile(share, (len(rows), 1)),
        timestamp=when,
        group=user,
        reward_range=reward_range,
    )


def _rows_of_experiment(table, wanted):
    """Return the rows of the one experiment that is asked for."""
    found = table.column(wanted.experiment_column)
    names, codes = np.unique(found, return_inverse=True)
    texts = list(map(str, names.tolist()))
    shown = ", ".join(map(quoted, texts[:SHOWN])) + ", ..." * (len(texts) > SHOWN)
    if wanted.experiment is None:
        if len(texts) > 1:
            raise ValueError(
                f"{table.name} holds {len(texts)} experiments ({shown}). Name one: "
                "experiment=..."
            )
        return np.arange(len(found))
    if str(wanted.experiment) not in texts:
        raise ValueError(
            f"{table.name} holds no experiment {str(wanted.experiment)!r}."
            f"{meant(wanted.experiment, texts)} It has {shown}."
        )
    return np.flatnonzero(codes == texts.index(str(wanted.experiment)))


def _first_exposures(table, wanted, user, when, variation):
    """Return the first row of every user, in the order of time."""
    _, users = np.unique(user, return_inverse=True)
    _, variations = np.unique(variation, return_inverse=True)
    order = np.lexsort((np.arange(len(when)), when))
    _, place = np.unique(users[order], return_index=True)
    first = order[np.sort(place)]
    of_first = np.empty(users.max() + 1, dtype=np.intp)
    of_first[users[first]] = variations[first]
    moved = np.zeros(len(of_first), dtype=bool)
    moved[users[variations != of_first[users]]] = True
    if not moved.any():
        return first
    n_moved = int(moved.sum())
    example = user[np.flatnonzero(moved[users])[0]]
    told = (
        f"{table.name}: {n_moved} of {len(of_first)} users are in several variations "
        f"(such as {quoted(np.asarray(example).item())})"
    )
    if wanted.several_variations == "raise":
        raise ValueError(
            f"{told}, so their outcomes belong to no single variation. Find out why, "
            "or leave them out: several_variations='drop'."
        )
    kept = first[~moved[users[first]]]
    if not kept.size:
        raise ValueError(
            f"{told}, so no user is left. Find out why users are in several variations."
        )
    warnings.warn(
        LogsWarning(f"{told}. They are left out.", n_moved),
        stacklevel=5,
    )
    return kept


def _rewards(source, wanted, user, when):
    """Return the reward of every user: outcomes from the first exposure on."""
    columns = [(wanted.user, "label")]
    if wanted.reward is not None:
        columns.append((wanted.reward, "number"))
    if wanted.timestamp is not None:
        columns.append((wanted.timestamp, "moment"))
    table = UserTable(source, "outcomes", columns)
    if not len(table):
        return np.zeros(len(user))
    place = _places(table, table.column(wanted.user), user)
    amount = np.ones(len(table))
    if wanted.reward is not None:
        amount = table.column(wanted.reward)
    counts = place >= 0
    if wanted.timestamp is not None:
        then = table.column(wanted.timestamp)
        if then.dtype.kind != when.dtype.kind:
            kinds = [
                "datetimes" if one.dtype.kind == "M" else "numbers"
                for one in (then, when)
            ]
            raise ValueError(
                f"{table.name}: column {wanted.timestamp!r} holds {kinds[0]}, the "
                f"times of the assignments are {kinds[1]}. Convert one of them."
            )
        start = when[place]
        counts &= then >= start
        if wanted.window is not None:
            counts &= then <= start + _window(wanted.window, when)
    place, amount = place[counts], amount[counts]
    if wanted.aggregate == "any":
        return (np.bincount(place, amount != 0, minlength=len(user)) > 0).astype(float)
    return np.bincount(place, amount, minlength=len(user))


def _window(window, when):
    if when.dtype.kind != "M":
        if isinstance(window, Real):
            return window
        raise ValueError(f"window must be a number, as the times are, got {window!r}.")
    if isinstance(window, (timedelta, np.timedelta64)):
        return np.timedelta64(window)
    raise ValueError(
        f"window must be a timedelta, as in timedelta(days=7), got {window!r}."
    )


def _places(table, found, user):
    """Return which user every outcome belongs to; -1: none of them."""
    kinds = {found.dtype.kind, user.dtype.kind}
    if "U" in kinds and len(kinds) > 1:  # 7 and "7" are the same user
        found, user = found.astype(str), user.astype(str)
    order = np.argsort(user, kind="stable")
    place = np.searchsorted(user[order], found)
    place = order[np.minimum(place, len(user) - 1)]
    place[user[place] != found] = -1
    if (place < 0).all():
        raise ValueError(
            f"{table.name}: no user of the outcomes is among the assignments. Users of "
            f"outcomes are such as {quoted(found[0].item())}, users of assignments "
            f"such as {quoted(user[0].item())}. Name columns with the same labels."
        )
    return place


def _stated_split(weights, variation):
    """Return the variations, all there are, and the probability of each."""
    logged = np.unique(variation)
    if isinstance(weights, str) and weights == "even":
        if len(logged) == 1:
            raise ValueError(
                "weights='even' needs several variations, but the log holds only "
                f"{quoted(logged[0].item())}. State all: weights={{variation: share}}."
            )
        return variation, logged, np.full(len(logged), 1 / len(logged))
    if not isinstance(weights, Mapping) or not weights:
        raise TypeError(
            "weights must be 'even' or a dictionary {variation: share} with the split "
            f"that the experiment was set to, got {weights!r}."
        )
    texts = list(map(str, weights))
    for label in map(str, logged.tolist()):
        if label not in texts:
            raise ValueError(
                f"weights have no share of variation {label!r}, which was logged."
                f"{meant(label, texts)} They have {', '.join(map(quoted, texts))}."
            )
    actions = np.array(texts)
    if variation.dtype.kind != "U":
        actions = parse_labels(texts)
        if actions.dtype.kind == "U":
            variation = variation.astype(str)
    share = np.array(list(weights.values()), dtype=np.float64)
    wrong = ~((share > 0) & (share <= 1))
    if wrong.any():
        bad = int(wrong.argmax())
        raise ValueError(
            f"the share of variation {texts[bad]!r} in weights must be in (0, 1], got "
            f"{share[bad]:g}."
        )
    if abs(share.sum() - 1) > PROBABILITY_TOLERANCE:
        raise ValueError(
            f"weights must sum to 1, got {share.sum():.6g}. They are the shares of the "
            "users in the experiment, not of all traffic."
        )
    return variation, actions, share
