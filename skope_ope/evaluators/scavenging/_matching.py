# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""What the arms of a log are: its actions, its loggers, or its whole slates."""

from dataclasses import dataclass

import numpy as np

from skope_ope.evaluators._target import Target
from skope_ope.evaluators.scavenging._pages import item_codes, item_labels
from skope_ope.evaluators.scavenging._slate_target import SlateTarget
from skope_ope.evaluators.static._base import check_all_actions
from skope_ope.evaluators.static._engine import Extract, Job, TermStore, run
from skope_ope.logs import SlateLogs
from skope_ope.logs._slate_logs import EMPTY
from skope_ope.policies._adaptive import AdaptivePolicy

_WANTED = Extract(lambda rounds: (rounds.pi,))


@dataclass
class Match:
    """The arms of a log, and how a policy uses them.

    Attributes
    ----------
    code : ndarray of int of shape (n_rounds,)
        The arm of every round.
    n_arms : int
        Number of arms.
    wanted : ndarray of shape (n_rounds,)
        Probability with which the policy wants what was logged.
    missing_mass : float
        (Weighted) mean probability with which it wants what was never logged; NaN for
        random slates, of which only the logged ones' probabilities are known.
    """

    code: np.ndarray
    n_arms: int
    wanted: np.ndarray
    missing_mass: float


class _WatchedTarget:
    """A target that adds up, on the way, what the policy wants of missing arms."""

    def __init__(self, target, missing, stratum, omega):
        self.target, self.missing, self.stratum = target, missing, stratum
        self.omega = omega
        self.policy, self.logged_only = target.policy, target.logged_only
        self.mass = 0.0

    def chunk(self, rounds, start, stop):
        pi = self.target.chunk(rounds, start, stop)
        if self.missing.any():
            omega = None if self.omega is None else self.omega[start:stop]
            missing = self.missing[0]
            if self.stratum is not None:
                missing = self.missing[self.stratum[start:stop]]
            lost = (pi * missing).sum(axis=1)
            self.mass += float((lost if omega is None else omega * lost).sum())
        return pi


def match_arms(evaluator, policy, logs, stratum, omega=None):
    """Return the `Match` of a policy over the actions of the logs."""
    target = Target(policy, logs)
    if isinstance(target.policy, AdaptivePolicy):
        raise TypeError(
            f"{type(target.policy).__name__} learns while it acts; "
            f"{type(evaluator).__name__} evaluates stationary policies. Use Replay or "
            "DRns, or evaluate the policy as it is now: policy.frozen()."
        )
    check_all_actions(evaluator, target)
    missing = counts_by_stratum(logs.action_index, logs.n_actions, stratum, omega) == 0
    watched = _WatchedTarget(target, missing, stratum, omega)
    job = Job(_WANTED, watched, None, TermStore(len(logs)))
    run(logs, [job])
    mass = watched.mass / (len(logs) if omega is None else omega.sum())
    return Match(logs.action_index, logs.n_actions, job.sink.terms[0], mass)


def match_slates(policy, logs, stratum=None, omega=None):
    """Return the `Match` of a policy over the whole slates of the logs."""
    target = SlateTarget(policy, logs)
    if target.slates is None:
        (code,) = slate_codes(logs, logs.slate)
        return Match(code, int(code.max()) + 1, target.slate_proba(logs), float("nan"))
    if target.slates.shape[1] > logs.n_slots:
        raise ValueError(
            f"the policy fills {target.slates.shape[1]} slots, the logs have "
            f"{logs.n_slots}."
        )
    logged, wanted = slate_codes(logs, logs.slate, target.slates)
    n_arms = int(max(logged.max(), wanted.max())) + 1
    counts = counts_by_stratum(logged, n_arms, stratum, omega)
    never = counts[0 if stratum is None else stratum, wanted] == 0
    mass = float(np.average(never, weights=omega))
    return Match(logged, n_arms, (logged == wanted).astype(float), mass)


def slate_codes(logs, *slates):
    """Return numbers of slates: one for the same items in the same slots."""
    labels = item_labels(logs)
    n_items = logs.max_candidates if labels is None else len(labels)
    keys = np.zeros((len(slates), *logs.slate.shape), dtype=np.int64)  # 0: empty
    for key, shown in zip(keys, slates, strict=True):
        code = item_codes(logs, shown, labels) + 1
        key[:, : shown.shape[1]] = np.where(shown == EMPTY, 0, code)
    keys = keys.reshape(-1, logs.n_slots)
    if float(n_items + 2) ** logs.n_slots < 2**62:  # one number sorts faster
        keys = keys @ (n_items + 2) ** np.arange(logs.n_slots)
    code = np.unique(keys, axis=0, return_inverse=True)[1].ravel()
    return code.reshape(len(slates), len(logs))


def counts_by_stratum(code, n_arms, stratum=None, omega=None):
    """How often every arm was logged in every stratum, shape (n_strata, n_arms)."""
    if stratum is None:
        stratum = np.zeros(len(code), dtype=np.intp)
    n_strata = int(stratum.max()) + 1
    counts = np.bincount(stratum * n_arms + code, omega, minlength=n_strata * n_arms)
    return counts.reshape(n_strata, n_arms)


def by_logger(logs):
    """Return logs whose actions are the loggers."""
    if logs.loggers is None:
        raise ValueError(
            "match='logger' needs to know which logger acted: pass logger=... to "
            "BanditLogs, or match actions."
        )
    out = logs._copy()
    out.__dict__.update(
        actions=logs.loggers,
        action=logs.logger,
        action_index=logs.logger_index,
        **dict.fromkeys(
            ("available", "propensity", "logging_proba", "logger_proba"), None
        ),
        action_context=None,
    )
    return out


def strata_of(logs, name):
    """Return the codes of the strata that a field or a column names, or None."""
    if name is None:
        return None
    values = logs.columns.get(name)
    if values is None and name in logs._row_fields:
        values = getattr(logs, name)
    if values is None:
        raise ValueError(
            f"strata={name!r} is neither a field nor a column of the logs (they have "
            f"the columns {sorted(logs.columns)}). Add it with logs.with_columns."
        )
    values = np.asarray(values)
    if values.ndim > 1:
        values = values.reshape(len(values), -1)
    return np.unique(values, axis=0, return_inverse=True)[1].ravel()


def check_offers(logs, stratum):
    """Raise where the offered actions vary within a stratum."""
    if isinstance(logs, SlateLogs) or logs.available is None:
        return
    first = np.zeros(len(logs), dtype=np.intp)
    if stratum is not None:
        first = np.unique(stratum, return_index=True)[1][stratum]
    # in blocks: nothing of the size of all offers is made
    for start in range(0, len(logs), 1 << 16):
        rows = slice(start, start + (1 << 16))
        varies = (logs.available[rows] != logs.available[first[rows]]).any(axis=1)
        if varies.any():
            row = start + int(np.flatnonzero(varies)[0])
            where = "" if stratum is None else " of one stratum"
            raise ValueError(
                f"the offered actions vary between rows {first[row]} and {row}{where}: "
                "an action that is offered more often is logged more often. Pass "
                "strata='available', or the name of a column within which they do not "
                "vary."
            )
