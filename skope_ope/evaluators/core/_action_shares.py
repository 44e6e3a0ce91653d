# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""What a policy wants of every action, and what the rounds of a log hold of it."""

import numpy as np

from skope_ope.evaluators.core._blocks import Observer
from skope_ope.evaluators.core._engine import Extract, terms_of
from skope_ope.evaluators.core._overlap import Support
from skope_ope.evaluators.core._positive_rounds import PositiveRounds, combined_weights
from skope_ope.logs._validation import plain

LOGGED_PROBA = Extract(lambda rounds: (rounds.pi,))


class ActionShares(Observer):
    """Observes what one policy wants of every action, and at which weights."""

    def __init__(self, positive):
        self.positive, self.limit = positive, positive.n**0.5
        self.wanted, self.unsupported, self.unreached = None, None, float("nan")

    def see(self, key, target):
        """Add what the policy does in a block."""
        table, block = target.table, target.block
        if table is None:
            return
        omega = np.ones(len(table)) if block.omega is None else block.omega
        if self.wanted is None:
            self.wanted, self.unsupported = np.zeros((2, table.shape[1]))
            if block.logs.logging_proba is not None:
                self.unreached = 0.0
        self.wanted += omega @ table / self.positive.n
        if target.missing:
            lost = np.where(target.impossible, table, 0.0)
            self.unsupported += omega @ lost / self.positive.n
        mu = block.logs.logging_proba
        if mu is not None and mu[block.rows].min() < 1 / self.limit:
            beyond = np.where(table > self.limit * mu[block.rows], table, 0.0)
            self.unreached += float(omega @ beyond.sum(axis=1)) / self.positive.n


def support_of_actions(target, logs):
    """Return what `SupportDisplay` shows of a policy on the rounds of some logs."""
    positive = PositiveRounds(logs, combined_weights(logs, None))
    support, shares = Support(positive), ActionShares(positive)
    given = logs, target, None, positive, [support, shares]
    [pi] = terms_of(LOGGED_PROBA, *given, tables=True)
    rounds = positive.logs
    omega = np.ones(positive.n) if positive.omega is None else positive.omega
    omega, code, K = positive.of(omega), rounds.action_index, logs.n_actions
    if rounds.logging_proba is None:
        logger_share = np.bincount(code, omega, K) / positive.n
    else:
        logger_share = omega @ rounds.logging_proba / positive.n
    found = {
        "labels": [plain(action) for action in logs.actions],
        "policy_share": shares.wanted,
        "logger_share": logger_share,
        "unsupported": shares.unsupported,
    }
    if rounds.propensity is not None:
        w = omega * positive.of(pi) / rounds.propensity
        found["weight_sums"] = np.bincount(code, w, K), np.bincount(code, w * w, K)
    return found
