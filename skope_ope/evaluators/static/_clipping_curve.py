# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Values of a policy with many bounds on the importance weights, in one pass."""

import numpy as np
from sklearn.base import clone

from skope_ope.evaluators.core._engine import WEIGHTS, terms_of
from skope_ope.evaluators.core._jobs import evaluate_jobs, prepared_job
from skope_ope.evaluators.core._rounds import PositiveRounds, combined_weights
from skope_ope.evaluators.core._target import Target
from skope_ope.logs.lazy._lazy_logs import refuse_lazy

THRESHOLDS = ("cmax", "tau")  # parameters that bound weights
N_POINTS = 30


def clipping_curve(evaluator, policy, logs, bounds=None):
    """Evaluate a policy with every bound, all out of one pass over the rounds."""
    name = _parameter_of(evaluator)
    if bounds is None:
        bounds = _default_bounds(weights_of(evaluator, policy, logs)[0])
    bounds = np.sort(np.asarray(bounds, dtype=float).ravel())
    evaluator.evaluate(policy, logs)  # its own answer, for its warnings and its checks
    positive = PositiveRounds(logs, combined_weights(logs, None))
    own, *about = prepared_job(evaluator, Target(policy, logs), positive)
    jobs = []
    for bound in bounds.tolist():
        bounded = clone(evaluator).set_params(**{name: bound})
        bounded._validate_params()
        jobs.append((bounded, *about))
    return {
        "param_name": name,
        "param_range": bounds,
        "values": evaluate_jobs(jobs, positive),
        "own": getattr(own, name),
    }


def _parameter_of(evaluator):
    params = evaluator.get_params(deep=False)
    for name in THRESHOLDS:
        if name in params:
            return name
    raise ValueError(
        f"{type(evaluator).__name__} has no bound on the weights (a parameter "
        f"{' or '.join(THRESHOLDS)}). Use IPS, SNIPS, DoublyRobust or SwitchDR."
    )


def _default_bounds(weights):
    """From where rounds below carry a twentieth of all weight, to the largest."""
    weights = np.sort(weights)
    carried = weights.cumsum()
    if not carried[-1]:
        raise ValueError(
            "no logged action has a positive probability under the policy: there are "
            "no weights to bound."
        )
    low, high = weights[np.searchsorted(carried, 0.05 * carried[-1])], weights[-1]
    if low == high:
        low = high / 10  # all weights are equal: what less of them would give
    bounds = np.geomspace(low, high, N_POINTS)
    bounds[-1] = high  # rounding must not clip the largest weight
    return bounds


def weights_of(evaluator, policy, logs):
    """Return the weights of a policy, and what an evaluator makes of them."""
    refuse_lazy(logs)
    if not evaluator.requires.weights:
        raise ValueError(
            f"{type(evaluator).__name__} uses no importance weights: there is nothing "
            "to show. Fit IPS() to the same logs to see how far the policy is from the "
            "logger."
        )
    evaluator.check_logs(logs)
    positive = PositiveRounds(logs, combined_weights(logs, None))
    chosen, target, _ = prepared_job(evaluator, Target(policy, logs), positive)
    [plain] = terms_of(WEIGHTS, logs, target, None, positive)
    return plain, chosen.weights(plain)
