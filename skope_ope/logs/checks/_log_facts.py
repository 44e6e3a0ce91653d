# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""What a log holds, in numbers: rounds, actions, rewards, propensities, groups."""

import numpy as np

from skope_ope.exceptions import FewEventsWarning, FewGroupsWarning, SupportWarning
from skope_ope.logs._slate_logs import EMPTY, column_weights
from skope_ope.logs.checks._finding import Finding

MOST_ACTIONS = 100  # in a table; of more, those logged most and least
SHOWN = 5
FEW_REWARDS = 10  # below it only intervals that know the range of the rewards hold
FEW_GROUPS = 40  # effective ones


def log_facts(logs, random_state=None):
    """Return what a log holds, and where it is too little.

    Parameters
    ----------
    logs : BanditLogs or SlateLogs
        The rounds.
    random_state : object, default=None
        Ignored: nothing is drawn.

    Returns
    -------
    facts : dict
        Numbers and tables by name.
    findings : list of Finding
        Few rewards, few groups, actions that were never logged.
    """
    slates = not hasattr(logs, "action_index")
    facts = {"rounds": len(logs), "features": logs.n_features}
    facts |= _slate_facts(logs) if slates else _action_facts(logs)
    facts |= _reward_facts(logs.reward)
    if logs.propensity is not None:
        facts |= _range("propensity", logs.propensity)
    if logs.group is not None:
        facts |= _group_facts(logs.group_sizes)
    weight = column_weights(logs) if slates else logs.sample_weight
    if weight is not None:
        facts |= _range("sample weight", weight)
    if logs.timestamp is not None:
        facts |= {
            "first time": _plain_time(logs.timestamp.min()),
            "last time": _plain_time(logs.timestamp.max()),
        }
    findings = [*_few_rewards(logs), *_few_groups(logs)]
    return facts, findings if slates else findings + _unseen_actions(logs)


def _range(name, values):
    return {
        f"{name}, lowest": float(values.min()),
        f"{name}, highest": float(values.max()),
        f"{name}, mean": float(values.mean()),
    }


def _reward_facts(reward):
    return _range("reward", reward) | {
        "reward, share not zero": float(np.count_nonzero(reward) / len(reward)),
        "reward, distinct values": _n_distinct(reward),
    }


def _n_distinct(values, most=1000):
    """Return how many values there are; of many, that there are more than so many."""
    if len(np.unique(values[: 4 * most])) > most:
        return f"more than {most:,}"
    return len(np.unique(values))


def _group_facts(sizes):
    sizes = sizes[sizes > 0]
    return {
        "groups": len(sizes),
        "rounds of a group, median": float(np.median(sizes)),
        "rounds of a group, most": int(sizes.max()),
        "effective groups": _effective(sizes),
    }


def _effective(sizes):
    return float(sizes.sum() ** 2 / (sizes.astype(float) @ sizes))


def _plain_time(time):
    return str(time) if isinstance(time, np.datetime64) else float(time)


def _action_facts(logs):
    seen = logs.n_actions - len(logs.unseen)
    facts = {"number of actions": logs.n_actions, "actions logged": seen}
    order = np.arange(logs.n_actions)
    if len(order) > MOST_ACTIONS:
        order = np.argsort(-logs.action_counts, kind="stable")
        half = MOST_ACTIONS // 2
        order = np.append(order[:half], order[-half:])
    name = "actions" if len(order) == logs.n_actions else "actions, most and least"
    facts[name] = {
        "action": logs.actions[order].tolist(),
        **_table(logs, logs.action_index, logs.n_actions, order),
    }
    if logs.available is not None:
        facts |= _range("offered actions", logs.available.sum(axis=1))
    if logs.loggers is not None:
        order = np.flatnonzero(logs.logger_counts)
        facts["loggers"] = {
            "logger": logs.loggers[order].tolist(),
            **_table(logs, logs.logger_index, len(logs.loggers), order),
        }
    return facts


def _table(logs, code, n_codes, order):
    """Return counts and means of the rounds of each code, in this order."""
    counts = np.bincount(code, minlength=n_codes)
    table = {
        "rounds": counts[order].tolist(),
        "mean reward": _means(code, logs.reward, counts)[order].tolist(),
    }
    if logs.propensity is not None:
        means = _means(code, logs.propensity, counts)[order]
        table["mean propensity"] = means.tolist()
    return table


def _means(code, values, counts):
    totals = np.bincount(code, values, minlength=len(counts))
    out = np.full(len(counts), np.nan)
    return np.divide(totals, counts, out=out, where=counts > 0)


def _slate_facts(logs):
    shown = logs.slate != EMPTY
    return {
        "empty slots, share": float(1 - shown.mean()),
        "candidates, most": logs.max_candidates,
        "slots": {
            "slot": list(range(logs.n_slots)),
            "share filled": shown.mean(axis=0).tolist(),
            "distinct candidates": [
                len(np.unique(logs.slate[shown[:, k], k])) for k in range(logs.n_slots)
            ],
        },
    }


def _few_rewards(logs):
    reward = logs.reward
    rewarded = int(np.count_nonzero(reward))
    if len(reward) > 1 and (reward == reward[0]).all():
        every = (
            "No round has a reward"
            if not rewarded
            else (f"All rewards are {reward[0]:g}")
        )
        return [
            Finding(
                "few_rewards",
                "warning",
                f"{every}: this log tells no policy from another.",
                (
                    "Check the column of the rewards and the join that brings them.",
                    "Wait until rewards have arrived.",
                ),
                number=float(rewarded),
                effect=rewarded / len(reward),
                category=FewEventsWarning,
            )
        ]
    if not 0 < rewarded < FEW_REWARDS:
        return []
    have = "has" if rewarded == 1 else "have"
    return [
        Finding(
            "few_rewards",
            "note",
            f"Only {rewarded} of {len(reward):,} rounds {have} a reward.",
            (
                "State reward_range, so that intervals of few events can be formed, "
                "and expect them to be wide.",
            ),
            number=float(rewarded),
            effect=rewarded / len(reward),
            category=FewEventsWarning,
        )
    ]


def _few_groups(logs):
    if logs.group is None:
        return []
    effective, n_groups = _effective(logs.group_sizes), logs.n_groups
    if effective >= FEW_GROUPS:
        return []
    found = f"The rounds belong to {n_groups:,} group{'s' * (n_groups > 1)}"
    if effective < 0.8 * n_groups:
        found += f", which count as {effective:.3g}, for some are much larger"
    return [
        Finding(
            "few_groups",
            "warning",
            f"{found}.",
            (
                f"Standard errors rest on the groups; below {FEW_GROUPS} they are too "
                "small: use logs of more groups, or finer groups if the rounds of a "
                "group do not depend on each other.",
            ),
            number=effective,
            effect=float(logs.group_sizes.max() / len(logs)),
            category=FewGroupsWarning,
        )
    ]


def _unseen_actions(logs):
    unseen = logs.actions[logs.unseen].tolist()
    if not unseen:
        return []
    shown = ", ".join(map(repr, unseen[:SHOWN]))
    if len(unseen) > SHOWN:
        shown += f" and {len(unseen) - SHOWN:,} more"
    return [
        Finding(
            "unseen_actions",
            "note",
            f"Never logged of {logs.n_actions:,} actions: {len(unseen):,} ({shown}).",
            (
                "A policy that takes them can only be valued by a model of the "
                "rewards; take actions out of `actions` that do not exist any more.",
            ),
            number=float(len(unseen)),
            effect=len(unseen) / logs.n_actions,
            actions=unseen[:10],
            category=SupportWarning,
        )
    ]
