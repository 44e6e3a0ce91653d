# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""What tests of verdicts share: logs, a policy, values and made-up reasons."""

import numpy as np

from skope_ope import audit
from skope_ope.datasets import make_bandit_logs

LOGS, POLICY, _ = make_bandit_logs(1500, random_state=0, return_truth=True)
Finding = type(audit(LOGS.replace(propensity=np.full(1500, 0.9))).findings[0])


def finding(name, severity):
    return Finding(name, severity, f"Something about {name}.", number=1.0)


def names(found):
    return [one.name for one in found.reasons]


def value_of(evaluator, policy=POLICY, logs=LOGS):
    return evaluator.fit(logs).evaluate(policy)
