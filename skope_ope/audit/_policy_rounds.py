# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""What a policy does in the rounds of a log, from one pass over them."""

from functools import cached_property

from skope_ope.evaluators.core._action_shares import LOGGED_PROBA, ActionShares
from skope_ope.evaluators.core._engine import terms_of
from skope_ope.evaluators.core._overlap import Support
from skope_ope.evaluators.core._positive_rounds import PositiveRounds
from skope_ope.evaluators.core._sample_weights import combined_weights
from skope_ope.evaluators.core._target import Target
from skope_ope.evaluators.static._base import refuse_learning


class PolicyRounds:
    """A policy on the rounds of a log that enter estimates."""

    def __init__(self, policy, logs):
        self.target, self.all_logs = Target(policy, logs), logs
        refuse_learning("an audit", self.target)
        self.positive = PositiveRounds(logs, combined_weights(logs, None))
        support, shares = Support(self.positive), ActionShares(self.positive)
        observers = [support, shares]
        given = logs, self.target, None, self.positive, observers
        [self.pi] = terms_of(LOGGED_PROBA, *given)
        self.overlap = support.overlaps[id(self.target)]
        self.wanted, self.unreached = shares.wanted, shares.unreached

    @property
    def logs(self):
        """The rounds that enter."""
        return self.positive.logs

    @property
    def known(self):
        """Whether the propensities are."""
        return self.all_logs.propensity is not None

    @cached_property
    def w(self):
        """Weights of the rounds that enter, ndarray."""
        return self.positive.of(self.pi) / self.logs.propensity

    @cached_property
    def omega(self):
        """Their sample weights, of mean one, or None."""
        omega = self.positive.omega
        return None if omega is None else self.positive.of(omega)

    @cached_property
    def counted(self):
        """Weights times sample weights."""
        return self.w if self.omega is None else self.omega * self.w
