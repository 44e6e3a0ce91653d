# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Whether a log can answer for a policy: its support, its weights, its balance."""

from sklearn.utils import check_random_state

from skope_ope.audit._balance import balance_of
from skope_ope.audit._clipping import clipping_of
from skope_ope.audit._policy_rounds import PolicyRounds
from skope_ope.audit._policy_weights import weights_of_policy
from skope_ope.audit._rows_not_recognised import training_findings
from skope_ope.audit._support import support_of

NO_WEIGHTS = "not possible: no propensities"


def policy_findings(policy, logs, random_state):
    """Return facts and findings about a policy on a log."""
    if logs.sample_weight is not None and not logs.sample_weight.any():
        return {"checks of the policy": "not possible: all sample weights are 0"}, []
    rounds = PolicyRounds(policy, logs)
    facts, found = support_of(rounds)
    found = training_findings(policy, logs) + found
    if not rounds.known:
        return facts | {"weights of the policy": NO_WEIGHTS}, found
    parts = [weights_of_policy(rounds)]
    if not any(one.name == "impossible_propensity" for one in parts[0][1]):
        parts.append(balance_of(rounds, check_random_state(random_state)))
        parts.append(clipping_of(rounds))
    for told, more in parts:
        facts |= told
        found += more
    return facts, found
