# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Limits: parameters at which an evaluator is another one."""

import numpy as np
from sklearn.base import clone

from skope_ope.evaluators import (
    IPS,
    SNDR,
    SNIPS,
    DirectMethod,
    DoublyRobust,
    DRos,
    LogSmoothing,
    MultiLoggerDR,
    MultiLoggerIPS,
    SubGaussianDR,
    SubGaussianIPS,
    SwitchDR,
)
from skope_ope.utils._check_rounds import assert_same, check_rounds, value_of

INF = float("inf")
LARGE = 1e12  # above every weight

# class: (parameters, what it then is, whether the model is 0)
LIMITS = {
    IPS: [({"cmax": LARGE}, IPS(), False)],
    SNIPS: [({"cmax": LARGE}, SNIPS(), False)],
    DoublyRobust: [
        ({"cmax": 0}, DirectMethod(), False),
        ({"cmax": LARGE}, DoublyRobust(), False),
        ({"cmax": None}, IPS(), True),
        ({"cmax": 2.0}, IPS(cmax=2.0), True),
    ],
    SNDR: [({}, SNIPS(), True)],
    SwitchDR: [
        ({"tau": 0}, DirectMethod(), False),
        ({"tau": INF}, DoublyRobust(), False),
        ({"tau": INF}, IPS(), True),
    ],
    DRos: [
        ({"lam": 0}, DirectMethod(), False),
        ({"lam": INF}, DoublyRobust(), False),
        ({"lam": INF}, IPS(), True),
    ],
    SubGaussianIPS: [({"lam": 0}, IPS(), False)],
    SubGaussianDR: [
        ({"lam": 0}, DoublyRobust(), False),
        ({"lam": 0.4}, SubGaussianIPS(lam=0.4), True),
    ],
    LogSmoothing: [({"lam": 0}, IPS(), False)],
    MultiLoggerIPS: [  # of a single logger
        ({"self_normalized": False}, IPS(), False),
        ({"self_normalized": True}, SNIPS(), False),
    ],
    MultiLoggerDR: [
        ({"self_normalized": False}, DoublyRobust(), False),
        ({"self_normalized": True}, SNDR(), False),
        ({"self_normalized": False}, IPS(), True),
    ],
}


def check_limits(evaluator):
    """Set the parameters to their limits: the estimate is that of the limit."""
    rounds = check_rounds(evaluator)
    zero = np.zeros_like(rounds.q_hat)
    for params, limit, model_is_zero in LIMITS[type(evaluator)]:
        there = clone(evaluator).set_params(**params)
        kind = zero if model_is_zero else "array"
        found, expected = (
            value_of(e, rounds, kind if e._uses_model else "none")
            for e in (there, limit)
        )
        model = " and a model of 0" if model_is_zero else ""
        assert_same(found, expected, f"with {params}{model} it is not {limit!r}")
