# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""The importance weights with which an evaluator values a policy."""

from skope_ope.evaluators.core._engine import WEIGHTS, terms_of
from skope_ope.evaluators.core._jobs import prepared_job
from skope_ope.evaluators.core._positive_rounds import PositiveRounds
from skope_ope.evaluators.core._sample_weights import combined_weights
from skope_ope.evaluators.core._target import Target
from skope_ope.logs.lazy._kind_of import refuse_lazy


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
