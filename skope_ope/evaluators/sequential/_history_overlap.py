# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
r"""How well a log covers the simulated history of a policy.

Where the acceptance ratio c was too large for exact rejection sampling,
:math:`c\, \pi > p`, a round is accepted less often than it should be. The bias mass
:math:`\epsilon = P_\pi[c\pi > p] - P_\mu[c\pi > p] / c` bounds what that does: the
distribution of accepted rounds is within :math:`2\epsilon/(1-\epsilon)` of the
target's.
"""

import numpy as np

from skope_ope.evaluators.core._overlap import Overlap


def history_overlap(segments, positive):
    r"""Sum the weights :math:`\pi(a_k|x_k, h) / p_k` along the simulated histories.

    Given its history each has mean one, where the policy wants nothing that the logger
    never does. What it wants of other actions is not known: it was not recorded.

    Parameters
    ----------
    segments : list of LogSegment
        The parts of the logs.
    positive : PositiveRounds
        The rounds.
    """
    overlap, p = Overlap(positive.design, positive.n), positive.all_logs.propensity
    for segment in segments:
        rows = segment.rows
        block = positive.design.block(rows.start, rows.stop)
        overlap.add(block, segment.trace.pi / p[rows])
    return overlap


def violation_diagnostics(history):
    """Return how often the acceptance ratio was too large, the bias mass, its error.

    Parameters
    ----------
    history : History
        The simulated history.
    """
    c, w = history.acceptance_ratios, history.w
    # 1 + 1e-9: probabilities from two code paths differ in their last digits.
    violated = np.flatnonzero(c * w > 1 + 1e-9)
    held_back, n = w[violated] - 1 / c[violated], len(w)
    mass = held_back.sum() / n
    if history.logs.group is not None:  # whose rounds may all do the same
        held_back = np.bincount(history.logs.group_index[violated], held_back)
    square = max(float(held_back @ held_back) / n - mass * mass, 0.0)
    return {
        "n_violations": len(violated),
        "violation_share": len(violated) / n,
        "bias_mass": float(mass),
        "bias_mass_error": float(np.sqrt(square / n)),
    }
