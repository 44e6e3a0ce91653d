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
NEGLIGIBLE = 1e-6  # bias mass: that of single precision probabilities


def violation_diagnostics(runs, logs):
    """Return the number of violations and the estimated bias mass."""
    pi = np.concatenate([run.trace.pi for run in runs])
    c = np.concatenate([run.trace.c for run in runs])
    w = pi / logs.propensity
    # 1 + 1e-9: probabilities from two code paths differ in their last digits.
    violated = np.flatnonzero(c * w > 1 + 1e-9)
    mass = (w[violated] - 1 / c[violated]).sum() / len(w)
    return {
        "n_violations": len(violated),
        "violation_share": len(violated) / len(w),
        "bias_mass": float(mass),
    }


def violation_warnings(diagnostics, allowed, advice="Lower cmax."):
    """Return a warning where more rounds were violated than allowed, beyond chance."""
    share, n_rounds = diagnostics["violation_share"], diagnostics["n_rounds"]
    # c is a quantile of earlier rounds: about `allowed` of the later ones violate it.
    if share <= allowed + CHANCE_Z * np.sqrt(allowed * (1 - allowed) / n_rounds):
        return []
    if diagnostics["bias_mass"] <= NEGLIGIBLE:
        return []
    return [
        PropensityWarning(
            f"the acceptance ratio was too large in {diagnostics['n_violations']} of "
            f"{n_rounds} rounds ({allowed:.3g} of all are allowed): the simulated "
            "history is biased towards common actions (estimated bias mass "
            f"{diagnostics['bias_mass']:.3g}). {advice}",
            share,
        )
    ]
