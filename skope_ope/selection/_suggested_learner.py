# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""What is suggested for a policy that learns while it acts."""

import numpy as np

from skope_ope.evaluators.sequential import DRns, Replay
from skope_ope.evaluators.sequential._replay import UNIFORM_TOLERANCE
from skope_ope.evaluators.sequential._rules import n_offered

TRAJECTORIES = 20  # of which a standard error can be formed


def for_learner(logs, known=True):
    """Return the situation, an evaluator with a horizon, and the reasons."""
    offered = n_offered(logs)
    even = np.broadcast_to(1 / offered, len(logs))
    p = logs.propensity if known else even
    uniform = known and not (np.abs(p - even) > UNIFORM_TOLERANCE).any()
    evaluator = Replay if uniform else DRns
    accepted = len(logs) * (p.mean() if uniform else np.quantile(p, DRns().q))
    horizon = max(1, int(accepted / TRAJECTORIES))
    reasons = [
        "The policy learns while it acts, so its value depends on how many "
        "rounds it acts.",
        f"With horizon={horizon:,} about {TRAJECTORIES} trajectories fit into this "
        "log. Set it to the number of rounds that your policy will act.",
    ]
    if uniform:
        reasons.append(
            "The logger was uniform, so accepted rounds are distributed as in a live "
            "run."
        )
        situation = "learner_uniform"
    else:
        reasons.append(
            "The logger was not uniform: DRns accepts rounds by their propensity. "
            "Compare the value with q=0.01 and q=0.1."
        )
        situation = "learner" if known else "learner_unknown"
    return situation, evaluator(horizon=horizon, random_state=0), *reasons
