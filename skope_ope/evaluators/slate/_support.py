# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""What is known of the logger of slates, and what it never shows."""

import numpy as np

from skope_ope.evaluators.core._slate_target import SlateTarget, method


def form_of(logger, logs):
    """Name the closed form of a logger on logs, or None."""
    return logger.closed_form(logs) if hasattr(logger, "closed_form") else None


def knows_all(logger, target, logs):
    """Tell whether more is known than the probabilities of the logged candidates."""
    return target.logged is None and recorded(logger, logs) is None


def recorded(logger, logs):
    """Return the column with the logger's probabilities of the logged candidates."""
    # None where the logger is known by more than that.
    name = getattr(logger, "slot_proba", None)
    column = logs.columns.get(name) if isinstance(name, str) else None
    return column if np.ndim(column) == 2 else None


def never_shown(target, logs, name):
    """Share of a deterministic policy's slots or slates that the logger never shows."""
    # NaN where the policy draws its slates, or the logger is not known well enough.
    never = which_never_shown(target, logs, name)
    return float("nan") if never is None else float(np.mean(never))


def which_never_shown(target, logs, name):
    """Return which of a deterministic policy's slots or slates are never shown."""
    # None where the policy draws its slates, or the logger is not known well enough.
    logger = logs.logging_policy
    if target.slates is None or logger is None or not knows_all(logger, target, logs):
        return None
    return method(logger, name)(logs, target.slates) == 0


def are_logged_by_slot(target, omega, rows=None):
    """Return in which rounds all that a policy shows was logged in the same slots."""
    # Zeros and ones: other slates of the log, or of some of its rows, have what the
    # policy shows, though none of them is what it would have shown. Rounds of sample
    # weight zero say nothing.
    if rows is not None:
        target = SlateTarget(target.policy, target.logs[rows])
    logs = target.logs
    logged = np.zeros((logs.n_slots, logs.max_candidates + 1), dtype=bool)
    slots = np.arange(logs.n_slots)
    seen = logs.slate if omega is None else logs.slate[omega > 0]
    logged[slots, seen] = True  # an empty slot is the last candidate
    if target.slates is not None:
        return logged[slots, target.slates].all(axis=1).astype(float)
    found = np.empty(len(logs))
    for rows, _, q in chunks(target, logs):
        found[rows] = ~((q > 0) & ~logged[:, :-1]).any(axis=(1, 2))
    return found


# -- tables ---------------------------------------------------------------------------
CHUNK_BYTES = 2**22  # of one table


def chunk_rows(logs):
    """Return how many rounds a table is made for at once."""
    return max(1, CHUNK_BYTES // (8 * logs.n_slots * logs.max_candidates))


def chunks(target, logs):
    """Yield (rows, rounds, slot marginals of the target), some rounds at a time."""
    step = chunk_rows(logs)
    for start in range(0, len(logs), step):
        rows = slice(start, min(start + step, len(logs)))
        rounds = logs[rows]
        yield rows, rounds, target.marginals(rounds)


# -- what a display shows -------------------------------------------------------------
ENTRIES = 1 << 20  # marginals that are asked at once


def support_of_slots(target, logs):
    """Return what `SupportDisplay` shows of a slate policy on some rounds."""
    logger, n = logs.logging_policy, len(logs)
    shape = logs.n_slots, logs.max_candidates
    known = hasattr(logger, "slot_marginals") and knows_all(logger, target, logs)
    wanted, shown, lost = np.zeros((3, *shape))
    step = max(ENTRIES // (shape[0] * shape[1]), 1)
    for start in range(0, n, step):
        rounds = logs[start : start + step]
        pi = target.marginals(rounds, start)
        wanted += pi.sum(axis=0) / n
        if known:
            mu = np.asarray(method(logger, "slot_marginals")(rounds), dtype=float)
            shown += mu.sum(axis=0) / n
            lost += np.where(mu == 0, pi, 0.0).sum(axis=0) / n
        else:
            filled = rounds.slate >= 0
            np.add.at(shown, (np.nonzero(filled)[1], rounds.slate[filled]), 1 / n)
    if not known:
        lost = np.where(shown == 0, wanted, 0.0)
    slot, candidate = np.nonzero((wanted > 0) | (shown > 0))
    return {
        "labels": [f"slot {s}: {k}" for s, k in zip(slot + 1, candidate, strict=True)],
        "policy_share": wanted[slot, candidate],
        "logger_share": shown[slot, candidate],
        "unsupported": lost[slot, candidate],
        "label_name": "slot and candidate",
    }
