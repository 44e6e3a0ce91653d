# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""What a policy shows in every slot, and what the logger shows there."""

import numpy as np

from skope_ope.evaluators.core._slate_target import method
from skope_ope.evaluators.slate._support import knows_all

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
