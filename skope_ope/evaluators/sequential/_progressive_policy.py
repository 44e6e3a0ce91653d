# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""What a policy has learned from a history, and the mixture of all its stages."""

import numpy as np
from sklearn.utils import check_random_state

from skope_ope.logs._row_container import own, take_rows
from skope_ope.policies._adaptive import FrozenPolicy, contexts_of, fresh_copy, learn
from skope_ope.policies._base import BasePolicy
from skope_ope.policies._policy_outputs import named_table


def replay_history(policy, logs, rows, pi, weight=None):
    """Let a fresh policy learn from a history again; yield whether it changed."""
    yield True
    contexts = contexts_of(policy, logs)
    weights = [1.0] * len(rows) if weight is None else weight.tolist()
    steps = zip(rows.tolist(), pi.tolist(), weights, strict=True)
    for row, chance, times in steps:
        yield learn(
            policy,
            take_rows(contexts, slice(row, row + 1)),
            logs.action_index.item(row),
            logs.reward.item(row),
            chance,
            times,
        )


class ProgressivePolicy(BasePolicy):
    r"""Act like the target after a history drawn at random."""

    # The history :math:`h_{t-1}` is drawn with probability :math:`c_t |B(t)| / C`, the
    # share of the rounds that were scored under it; then :math:`\pi(\cdot|x, h_{t-1})`
    # acts. It replays the accepted history and keeps no copies of the policy.

    def __init__(self, policy, logs, accepted, pi, c, weight=None):
        self.policy = policy
        self.logs = logs
        self.accepted = accepted
        self.pi = pi
        self.c = c
        self.weight = weight

    def _history(self, policy, length=None):
        """Let a fresh policy learn from the first rounds, see `replay_history`."""
        rows = self.accepted[:length]
        times = None if self.weight is None else self.weight[rows]
        return replay_history(policy, self.logs, rows, self.pi[rows], times)

    def __sklearn_is_fitted__(self):
        return True

    def __sklearn_clone__(self):
        return self  # it is what happened; there is nothing to fit

    def fit(self, X, y=None):
        """Do nothing: the histories are given."""
        return self

    @property
    def classes_(self):
        """Action labels."""
        return self.logs.actions

    @property
    def weights_(self):
        """Probabilities of the histories, by their length."""
        length = np.zeros(len(self.c), dtype=np.intp)
        length[1:] = np.cumsum(np.bincount(self.accepted, minlength=len(self.c)))[:-1]
        sums = np.bincount(length, self.c, minlength=len(self.accepted) + 1)
        return sums / self.c.sum()

    def context_of(self, logs):
        """Return what the target is given as `X` for these logs."""
        return contexts_of(self.policy, logs)

    def _proba(self, X, available):
        policy = fresh_copy(self.policy, self.logs)
        total, proba = 0.0, None
        steps = self._history(policy)
        for weight, changed in zip(self.weights_, steps, strict=True):
            if changed:
                proba = policy.predict_proba(own(X, policy), own(available, policy))
                proba = named_table(policy, proba, policy.classes_)
            if weight > 0:
                total = total + weight * proba
        return total

    def sample(self, random_state=None):
        """Draw the policy of one history."""
        rng = check_random_state(random_state)
        weights = self.weights_
        length = int(rng.choice(len(weights), p=weights))
        policy = fresh_copy(self.policy, self.logs)
        for _ in self._history(policy, length):
            pass
        return FrozenPolicy(policy, explore=True)


class LastTrajectory:
    """The rounds of the last complete trajectory, and the policy to learn from them."""

    def __init__(self, simulator):
        self._policy, self.restarts = simulator.policy, simulator.restarts
        self._horizon = simulator.horizon
        self._open, self._last, self._number = [], None, None

    def take(self, logs, trace, weights):
        """Keep the accepted rounds of a part that may be needed."""
        horizon = self._horizon
        if horizon is None:
            return  # the policy itself is what it has learned
        before = sum(len(rows) for _, rows, _, _ in self._open)
        ends = range(horizon - before, len(trace.accepted) + 1, horizon)
        start = 0
        if len(ends):
            # of those that end here only the last one is kept
            start = max(ends[-1] - horizon, 0)
            whole = ends[-1] >= horizon
            last = trace.accepted[start : ends[-1]]
            kept = [] if whole else self._open
            self._last = [*kept, _to_learn(logs, trace, last, weights)]
            self._number = (0 if self._number is None else self._number) + len(ends)
            self._open, start = [], ends[-1]
        rest = trace.accepted[start:]
        if len(rest):
            self._open.append(_to_learn(logs, trace, rest, weights))

    @property
    def complete(self):
        """Whether a trajectory was completed."""
        return self._number is not None

    def learned(self):
        """Return the policy after its last complete trajectory."""
        if self._number is None:
            return self._policy
        policy = self.restarts.at(self._number - 1)
        for logs, rows, pi, weight in self._last:
            for _ in replay_history(policy, logs, rows, pi, weight):
                pass
        return policy


def _to_learn(logs, trace, rows, weights):
    weight = None if weights is None else weights[rows]
    return logs[rows], np.arange(len(rows)), trace.pi[rows], weight
