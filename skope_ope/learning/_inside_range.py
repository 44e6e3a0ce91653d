# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
r"""Slates whose value the logs of a logger can tell.

Rewards of the logger's slates tell the value of a slate s, if they are sums over slots,
where :math:`1_s` lies in the range of :math:`\Gamma_x = E_\mu[1_s 1_s^T | x]`: there
:math:`1_s^T \Gamma_x^+ \Gamma_x \phi_x = 1_s^T \phi_x`. A candidate that the logger
never shows in a slot is outside; so is a slate of candidates that it does show, if it
never shows enough of them together.
"""

import numpy as np

from skope_ope.evaluators.core._slate_target import SlateTarget, method
from skope_ope.evaluators.slate._pseudo_inverse import OUTSIDE
from skope_ope.evaluators.slate._pseudo_inverse_weights import round_weights
from skope_ope.logs._slate_logs import EMPTY
from skope_ope.policies.slate._distinct_rows import distinct_rows
from skope_ope.policies.slate._slate_tables import entries

N_DRAWS = 200  # of the logger, where no assignment lies in its range


def reaches_every_ranking(logs):
    """Tell whether every ranking without repetition is in the logger's range."""
    return logs.logging_policy.closed_form(logs) == "uniform"


def outside_range(slates, logs):
    """Tell which slates lie outside of the range of the logger's second moments."""
    target = SlateTarget(slates, logs)
    residual = round_weights(logs.logging_policy, target, target.logs).residual
    return np.zeros(len(logs), dtype=bool) if residual is None else residual > OUTSIDE


def distinct_ranges(logs, query):
    """Return rounds of every pair of a query and a logging distribution."""
    drawn = logs.logging_policy.distributions(logs)
    orders, order = distinct_rows(drawn.order)
    keys = (query * len(drawn) + drawn.index) * len(orders) + order
    _, first, index = np.unique(keys, return_index=True, return_inverse=True)
    return first, index.reshape(-1)


def best_inside(values, logs, assignments):
    """Slates of a large sum of values, inside the range of the logger."""
    logger = logs.logging_policy
    values = np.where(method(logger, "slot_marginals")(logs) > 0, values, -np.inf)
    slates = np.full(values.shape[:2], EMPTY)
    left = np.arange(len(logs))
    for compose in assignments:
        found = compose(values[left])
        inside = ~outside_range(found, logs[left])
        slates[left[inside]] = found[inside]
        left = left[~inside]
        if not left.size:
            return slates
    rounds, values = logs[left], values[left]
    most = np.full(len(left), -np.inf)
    rng = np.random.RandomState(0)
    for _ in range(N_DRAWS):
        drawn = logger.sample(rounds, rng)
        total = entries(values, drawn).sum(axis=1)
        better = total > most
        slates[left[better]], most[better] = drawn[better], total[better]
    return slates
