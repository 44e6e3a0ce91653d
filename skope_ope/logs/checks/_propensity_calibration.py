# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Whether a logger was as sure of its actions as its distribution says."""

import numpy as np

from skope_ope.logs.checks._e_value import log_e_value, log_mean_exp

SHARPNESS = (0.5, 2 / 3, 0.8, 1.25, 1.5, 2.0)
MOST_CELLS = 32_000  # of the logging distribution, but for
FEWEST_ROUNDS = 1000


def calibration_evidence(mu, action, share=None, group=None):
    r"""Return evidence that another temperature fits a whole logging distribution."""
    # With :math:`\mu_\beta \propto \mu^\beta` the likelihood ratios :math:`\prod_i
    # \mu_\beta(a_i | x_i) / \mu(a_i | x_i)` are e-values under right probabilities, and
    # so is their mean over :math:`\beta`.
    most = max(MOST_CELLS // mu.shape[1], FEWEST_ROUNDS)
    rows = slice(None, None, -(-len(mu) // most))
    mu, action = mu[rows], action[rows]
    share = None if share is None else share[rows]
    group = None if group is None else group[rows]
    with np.errstate(divide="ignore"):  # what is impossible stays so
        log_mu = np.log(mu)
    own = log_mu[np.arange(len(mu)), action]
    evidence = []
    for beta in SHARPNESS:
        ratio = np.exp((beta - 1) * own) / np.exp(beta * log_mu).sum(axis=1)
        evidence.append(log_e_value(ratio, share, group))
    return log_mean_exp(evidence), SHARPNESS[int(np.argmax(evidence))]
