# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
r"""How far an acceptance ratio was too large for exact rejection sampling.

Where :math:`c\, \pi > p` a round is accepted less often than it should be. The bias
mass :math:`\epsilon = P_\pi[c\pi > p] - P_\mu[c\pi > p] / c` bounds what that does: the
law of accepted rounds is within :math:`2\epsilon/(1-\epsilon)` of the target's.
"""

import numpy as np

from skope_ope.exceptions import PropensityWarning

CHANCE_Z = 3  # standard errors


def violation_diagnostics(runs, logs):
    """Return the number of violations and the estimated bias mass."""
    pi = np.concatenate([run.trace.pi for run in runs])
    c = np.concatenate([run.trace.c for run in runs])
    w = pi / logs.propensity
    # 1 + 1e-9: probabilities from two code paths differ in their last digits.
    violated = c * w > 1 + 1e-9
    mass = (w * violated).mean() - (violated / c).mean()
    return {
        "n_violations": int(violated.sum()),
        "violation_share": float(violated.mean()),
        "bias_mass": float(mass),
    }


def violation_warnings(diagnostics, allowed):
    """Return a warning where more rounds were violated than allowed, beyond chance."""
    share, n_rounds = diagnostics["violation_share"], diagnostics["n_rounds"]
    # c is a quantile of earlier rounds: about `allowed` of the later ones violate it.
    if share <= allowed + CHANCE_Z * np.sqrt(allowed * (1 - allowed) / n_rounds):
        return []
    return [
        PropensityWarning(
            f"the acceptance ratio was too large in {share:.2%} of the rounds (allowed "
            f"{allowed:.2%}): the simulated history is biased towards common actions "
            f"(estimated bias mass {diagnostics['bias_mass']:.3g}). Lower cmax.",
            share,
        )
    ]
