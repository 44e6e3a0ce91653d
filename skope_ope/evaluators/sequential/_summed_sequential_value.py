# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""The value of a policy from simulated histories in a log that was read in parts."""

from functools import cached_property

import numpy as np

from skope_ope.evaluators.core._design import Frame
from skope_ope.evaluators.core._estimate import GivenEstimate
from skope_ope.evaluators.core._policy_value import PolicyValue
from skope_ope.evaluators.core._rows import RowsGone
from skope_ope.evaluators.sequential._progressive_policy import replay_history
from skope_ope.evaluators.sequential._result import HistoryFacts


class SummedSequentialValue(HistoryFacts, PolicyValue):
    """Value of a policy from simulated histories, whose rounds were dropped."""

    # It says of the histories what a value from rounds in memory says, see
    # `HistoryFacts`; rows are counted along the log. What needs all rounds raises.

    def __init__(
        self,
        estimate,
        *,
        history,
        trajectories,
        horizon,
        bound_terms,
        lessons,
        policy,
        of_rewards,
        **about,
    ):
        rows = RowsGone(history.n_rounds, estimate.frame, about.pop("counted", None))
        super().__init__(estimate, rows, **about)
        self._tell(history, trajectories, horizon, bound_terms)
        self._lessons, self._policy = lessons, policy
        self._seen_deviations = None
        if np.isfinite(self.value) and not estimate.frame.clustered:
            told = trajectories, self.standard_error, of_rewards
            self._seen_deviations = history.deviations(*told)

    _walked = True

    @cached_property
    def _deviations(self):
        """Sums of the deviations of the round values, or bounds of them."""
        known = self._seen_deviations
        return PolicyValue._deviations.func(self) if known is None else known

    @property
    def acceptance_ratios(self):
        """Raise: the ratio of every round is not kept."""
        raise _dropped(
            "acceptance_ratios", ("diagnostics has their sum and the last one")
        )

    @property
    def progressive_policy_(self):
        """Raise: it replays the accepted rounds, which are not kept."""
        # hasattr tells that there is none
        told = _dropped("progressive_policy_", "accepted has the rows of its histories")
        raise AttributeError(str(told))

    def running_values(self):
        """Return the value so far, along the log, at the ends of the trajectories."""
        if self.n_trajectories == 1:
            raise _dropped("running_values of a single history", "set a horizon")
        return self.trajectory_stops - 1, self._values_by_then()

    @cached_property
    def learned_policy(self):
        """The policy after its last complete trajectory."""
        if self._lessons is None:
            return self._policy
        return self._lessons.learned()

    def _paired_of_sums(self, other):
        gaps = None
        if isinstance(other, SummedSequentialValue):
            gaps = self._paired_parts(other)
        mine, others = self._rows.counted, getattr(other._rows, "counted", None)
        if gaps is None or mine is None or mine != others:
            return super()._paired_of_sums(other)
        error, freedom = gaps
        frame = Frame(np.array([self.n_rounds]))  # parts, not groups, are pairs
        value = self.value - other.value
        estimate = GivenEstimate(value, float(error), freedom, None, frame)
        rows = RowsGone(self.n_rounds, frame, mine)
        out = self._difference_from(other, estimate, rows)
        return self, other, out._resting_on(self, other), ()


class Lessons:
    """The rounds of the last complete trajectory, and the policy to learn from them."""

    def __init__(self, walk):
        self._policy, self.restarts = walk.policy, walk.restarts
        self._horizon = walk.horizon
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
            self._last = [*kept, _lesson(logs, trace, last, weights)]
            self._number = (0 if self._number is None else self._number) + len(ends)
            self._open, start = [], ends[-1]
        rest = trace.accepted[start:]
        if len(rest):
            self._open.append(_lesson(logs, trace, rest, weights))

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


def _lesson(logs, trace, rows, weights):
    weight = None if weights is None else weights[rows]
    return logs[rows], np.arange(len(rows)), trace.pi[rows], weight


def _dropped(name, instead):
    return ValueError(
        f"{name} needs the rounds, which a lazy log does not keep; {instead}. To "
        "have it, evaluate rounds in memory, evaluate(policy, lazy.sample(n)), or "
        "one partition, partitions[0].read()."
    )
