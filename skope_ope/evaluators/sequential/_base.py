# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""The template of evaluators that walk through the logs in order."""

from __future__ import annotations

from typing import NamedTuple, Self

import numpy as np
from sklearn.base import clone
from sklearn.utils import check_random_state

from skope_ope._progress import untold
from skope_ope._types import RewardModelLike
from skope_ope.evaluators.base._evaluator import BaseEvaluator
from skope_ope.evaluators.core._counted import Counted
from skope_ope.evaluators.core._design import Frame
from skope_ope.evaluators.core._drowned import beyond_floats
from skope_ope.evaluators.core._engine import Extract, terms_of
from skope_ope.evaluators.core._estimate import GivenEstimate, spread_estimate
from skope_ope.evaluators.core._functions import ratio
from skope_ope.evaluators.core._overlap import Support
from skope_ope.evaluators.core._positive_rounds import PositiveRounds
from skope_ope.evaluators.core._reach import LinearReach, range_alone
from skope_ope.evaluators.core._rows import Rows
from skope_ope.evaluators.core._sample_weights import combined_weights
from skope_ope.evaluators.core._support_findings import support_findings
from skope_ope.evaluators.core._target import Target
from skope_ope.evaluators.core._warnings import few_accepted_warnings, warnings_of
from skope_ope.evaluators.sequential._acceptance import (
    UniformStream,
    n_offered,
    stream_state,
)
from skope_ope.evaluators.sequential._drns_model import (
    MadeInWalk,
    takes_earlier,
)
from skope_ope.evaluators.sequential._engine import AdaptiveWalk, StationaryWalk
from skope_ope.evaluators.sequential._history import (
    History,
    LogSegment,
    Trajectories,
    TrajectoryEstimate,
)
from skope_ope.evaluators.sequential._history_overlap import history_overlap
from skope_ope.evaluators.sequential._result import (
    OWN,
    PROGRESSIVE,
    SequentialValue,
    ratio_terms,
)
from skope_ope.evaluators.sequential._sequential_values import (
    JUST_PI,
    no_weights,
    parts_of,
    sequential_values,
    smallest_ratio,
)
from skope_ope.evaluators.sequential._warnings import (
    left_out_warnings,
    reversal_warnings,
    single_trajectory_warning,
    unformed_warning,
)
from skope_ope.logs._bandit_logs import BanditLogs
from skope_ope.logs._known_range import known_range
from skope_ope.logs.lazy._lazy_logs import LazyLogs
from skope_ope.policies._adaptive import AdaptivePolicy
from skope_ope.policies._own_draws import repeated_draws_warnings

_PI_V_Q = Extract(lambda rounds: (rounds.pi, rounds.v, rounds.q))


class SequentialEvaluator(BaseEvaluator):
    """Base class of evaluators that accept logged rounds into a simulated history."""

    # A subclass implements `_rule(known, n_rounds)`, the acceptance rule of a history,
    # and `_terms(trace, reward, p, rows)`, the sums of which a trajectory's value is
    # the ratio.

    n_splits = 1
    _uniform_state = None  # what draws the numbers of logs that are read in parts
    _pooled = False  # whether trajectories count by their weights
    _counts_blocks = False  # whether rounds after the last accepted one do not count
    _deviation_bound = None

    def fit(
        self, logs: BanditLogs | LazyLogs, reward_model: RewardModelLike = None
    ) -> Self:
        """Keep the logs, draw one uniform number per row, fit the reward model.

        Parameters
        ----------
        logs : BanditLogs or LazyLogs
            The logged rounds, in the order in which they happened. Lazy logs are walked
            through part by part; nothing but the accepted rows is kept of them.
        reward_model : model, default=None
            Used if the `reward_model` of the constructor is None. Evaluators without a
            reward model ignore it.

        Returns
        -------
        self : evaluator
        """
        return super().fit(logs, reward_model)

    def _fitted(self, logs, reward_model, progress=untold):
        found = super()._fitted(logs, reward_model, progress)
        rng = check_random_state(self.random_state)
        found["uniforms_"] = rng.random_sample(len(logs))
        found["seed_"] = rng.randint(2**31 - 1)
        found["_uniform_state"] = None
        return found

    def _fitted_in_parts(self, head, reward_model, n_rounds):
        state = stream_state(self.random_state, n_rounds or 0)
        if takes_earlier(self, reward_model):
            reward_model = MadeInWalk()
        found = clone(self).set_params(random_state=0)._fitted(head, reward_model)
        del found["uniforms_"]  # a walk draws them again
        stream = UniformStream(state).skip(n_rounds or 0)
        return found | {"_uniform_state": state, "seed_": stream.seed()}

    def _takes_earlier(self, reward_model):
        return takes_earlier(self, reward_model)

    def _answer(self, question, sources, of_fit):
        """Return the value from a walk through the parts of lazy logs."""
        [name] = question.evaluators
        found = sequential_values(
            question.policies,
            question.evaluators,
            question.logs,
            sources=sources,
            # what the uniform numbers come from
            states={name: self._uniform_state if of_fit else self.seed_},
            counted=Counted.of_partitions(question.logs.partitions or ()),
        )
        return found[name][None]

    def _uniforms(self, logs):
        if logs is self.logs_:
            return self.uniforms_
        return check_random_state(self.seed_).random_sample(len(logs))

    def check_logs(self, logs):
        super().check_logs(logs)
        if combined_weights(logs, None) is not None:
            raise ValueError(no_weights(self))

    def _evaluate(self, policy, logs, sample_weight):
        if combined_weights(logs, sample_weight) is not None:
            raise ValueError(no_weights(self))
        target, positive = Target(policy, logs), PositiveRounds(logs)
        adaptive = isinstance(target.policy, AdaptivePolicy)
        self._check_settings(adaptive, target, len(logs))
        known = overlap = None
        if not adaptive:
            known, overlap = self._known(target, positive)
        segments = self._segments(target, logs, known)
        if adaptive and logs.propensity is not None:
            overlap = history_overlap(segments, positive)
        told = self._tells_weights(target.policy)
        history = History(positive, segments, adaptive, overlap, told)
        with beyond_floats():
            return self._policy_value(history)

    def _check_settings(self, adaptive, target, n_rounds):
        if self.n_splits > n_rounds:
            raise ValueError(
                f"n_splits={self.n_splits} parts need at least as many rounds, but "
                f"the logs have {n_rounds}. Lower n_splits."
            )
        if adaptive and self.n_splits > 1 and self.horizon is None:
            raise ValueError(
                "n_splits > 1 with a policy that learns needs a horizon. Without "
                "one, the histories of the parts would differ in length. Pass "
                "horizon=..., the number of rounds that the policy learns from."
            )

    def _known(self, target, positive):
        """Get what is known of a stationary policy, and its overlap with the logs."""
        # Probabilities of the logged actions, and model values where there is one.
        source = self.reward_model_ if self.requires.model else None
        support, extract = Support(positive), JUST_PI if source is None else _PI_V_Q
        logs = positive.all_logs
        known = terms_of(extract, logs, target, source, positive, [support])
        return known, support.overlaps[id(target)]

    def _segments(self, target, logs, known):
        """Return the parts of the logs, after a walk through each of them."""
        policy = target.policy
        if policy is None:
            policy = np.asarray(target.array, dtype=np.float64)
        u, whole = self._uniforms(logs), Known(logs, known)
        segments = []
        for number, rows in enumerate(parts_of(len(logs), self.n_splits)):
            rule = self._rule(whole, rows.stop - rows.start)
            part = logs if rows.stop - rows.start == len(logs) else logs[rows]
            walk = self._walk(policy, part, rule, number, known is not None)
            if known is not None:
                trace = walk.take(part, u[rows], [term[rows] for term in known])
            else:
                trace = walk.take(part, u[rows], self._predictor(logs, rows.start))
            segments.append(LogSegment(rows, trace))
        return segments

    def _walk(self, policy, logs, rule, number, stationary):
        """Return the walk through a part of the logs, which is number so-and-so."""
        if stationary:
            return StationaryWalk(policy, rule)
        told = self._tells_weights(policy)
        return AdaptiveWalk(policy, logs, rule, self.horizon, number, told)

    def _predictor(self, logs, start):
        """Return what predicts rewards of rounds from a row of the logs on, or None."""
        return None

    def _tells_weights(self, policy):
        """Tell whether the policy learns how often an accepted round counts."""
        return False

    def _policy_value(self, history):
        """Return the result, from a walk through the logs."""
        logs = history.logs
        found = Trajectories(
            [self._trajectories(one, logs) for one in history.segments], self._pooled
        )
        round_values, below = found.round_values(len(logs))
        spread = RoundSpread(round_values, history.positive.design)
        estimate, about = self._estimate(history, found, spread)
        return SequentialValue(
            estimate,
            Rows(
                history.positive.design,
                lambda: ratio_terms(round_values, below, found.value),
                logs=logs,
            ),
            progressive_policy=self._progressive_policy(history),
            reach=self._reach(history, found, below),
            **self._facts(history, found, estimate, about),
        )

    def _facts(self, history, found, estimate, about):
        """Return what a result is told beside the estimate and the rounds."""
        diagnostics = self._diagnostics(history)
        diagnostics["n_trajectories"] = len(found.formed)
        if not history.adaptive:
            overlap = history.overlap
            diagnostics["unsupported_mass"] = overlap.missing_mass
            diagnostics["mean_weight"] = overlap.mean_weight
            diagnostics["mean_weight_z"] = overlap.mean_weight_z
        diagnostics["standard_error_of"] = about
        return {
            "estimator": type(self).__name__,
            "effective_sample_size": diagnostics["effective_sample_size"],
            "diagnostics": diagnostics,
            "warnings": self._warnings(history, found, estimate, diagnostics),
            "bound": self._deviation_bound,
            "successes": self._successes(history, found),
            "leaves_bias_out": self._acceptances_count(history)
            and self.leaves_bias_out,
            "history": history,
            "trajectories": found,
            "horizon": self.horizon,
            "bound_terms": self._bound_terms(history),
        }

    def _reach(self, history, found, below):
        """Return what finds how far the value of a round may lie from the estimate."""
        logs = history.logs
        slopes = self._slopes(history, below)
        if history.adaptive or len(found.terms) != 1 or slopes is None:
            return range_alone(logs)  # trajectories and parts are few, and alike
        return LinearReach(known_range(logs), len(logs) * slopes, logs.reward)

    def _slopes(self, history, below):
        """Return what a unit of reward adds to the value by round, or None."""
        return below

    def _trajectories(self, segment, logs):
        """Return the estimates from the complete trajectories of a part."""
        found = []
        reward, p = (
            None if field is None else field[segment.rows]
            for field in (logs.reward, logs.propensity)
        )
        for rows, accepted in segment.trajectories(self.horizon):
            terms = self._terms(segment.trace, reward, p, rows, accepted)
            if self._counts_blocks:
                complete = accepted[-1] + 1 - rows.start if len(accepted) else 0
                terms[1][complete:] = 0.0
            one = _trajectory(rows.stop - rows.start, *terms)
            start = segment.rows.start
            one.rows = slice(start + rows.start, start + rows.stop)
            found.append(one)
        return found

    def _estimate(self, history, found, spread):
        """Return the estimate, and what its standard error is about."""
        # Several trajectories or parts tell by their spread how sure their mean is. For
        # a single one the round values do, where they are independent given the past.
        m = len(found.terms)
        if m > 1:
            error = float(found.terms.std(ddof=1) / np.sqrt(m))
            return spread.given(found.value, error, m - 1), OWN
        about = PROGRESSIVE if history.adaptive else OWN
        if m and self._tells_spread(history.adaptive) and self._has_spread(history):
            return spread.estimate(found.value, self._freedom(history)), about
        return spread.given(found.value, float("nan"), history.n_rounds - 1), OWN

    @property
    def _follows_rewards(self):
        """Whether what is added to all rewards, and to the model, is to the value."""
        return self.__sklearn_tags__().shift_equivariant

    def _tells_spread(self, adaptive):
        """Tell whether the spread within a single trace is a standard error."""
        return not adaptive or self._values_the_progressive_policy()

    def _has_spread(self, history):
        """Tell whether a single trace has terms enough for a standard error."""
        return history.n_rounds > 1

    def _freedom(self, history):
        """Return at most how many degrees of freedom a single trace has, or None."""
        return None

    def _acceptances_count(self, history):
        """Whether the value depends on which rounds were accepted."""
        return True

    def _values_the_progressive_policy(self):
        return False

    def _progressive_policy(self, history):
        """Return the policy that a single trace of a policy that learns values."""
        return None

    def _successes(self, history, found):
        """Return ones among accepted 0/1 rewards and their number, or None."""
        return None

    def _bound_terms(self, history):
        """Return what the theorem behind the evaluator needs to know."""
        return {}

    def _diagnostics(self, history):
        n_rounds, accepted = history.n_rounds, history.n_accepted
        return {
            "n_rounds": n_rounds,
            "n_accepted": accepted,
            "acceptance_rate": accepted / n_rounds,
            "rounds_reached": history.longest,
            "final_c": history.final_ratio,
            "effective_sample_size": float(accepted),
        }

    def _warnings(self, history, found, estimate, diagnostics):
        warned = self._log_warnings(history)
        warned += self._weight_warnings(history)
        if np.isnan(found.value):
            warned += self._unformed_warnings(history)
        else:
            warned += left_out_warnings(found)
        if history.adaptive and len(found.terms) == 1:
            about, error = diagnostics["standard_error_of"], estimate.standard_error
            warned.append(single_trajectory_warning(error, self.horizon, about))
        elif history.adaptive:
            warned += repeated_draws_warnings(history.restarts.at)
        return warned + self._acceptance_warnings(history, diagnostics)

    def _unformed_warnings(self, history):
        """Return the warning that says why the value is NaN."""
        return [unformed_warning(history, self.horizon)]

    def _log_warnings(self, history):
        """Return warnings about the logs, given the evaluator's assumptions."""
        return reversal_warnings(history.first_reversal)

    def _weight_warnings(self, history):
        """Return warnings about the overlap of the policy with the logs."""
        if history.adaptive:
            return []
        return warnings_of(support_findings(history.overlap, history.logs))

    def _acceptance_warnings(self, history, diagnostics):
        """Return warnings about the simulated history."""
        return few_accepted_warnings(diagnostics["n_accepted"], diagnostics["n_rounds"])

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.order_dependent = True
        return tags


class RoundSpread:
    """The spread of the round values of a log in memory."""

    def __init__(self, round_values, design):
        self.round_values, self.design = round_values, design

    def given(self, value, error, freedom):
        """Return an estimate whose standard error is known from elsewhere."""
        frame = Frame(np.array([len(self.round_values)]))
        numbers = value, error, freedom, self.round_values, frame
        return GivenEstimate(*numbers, combine=ratio)

    def estimate(self, value, freedom):
        """Return the estimate whose error is their spread, with at most a freedom."""
        numbers = value, self.round_values, self.design, freedom
        return spread_estimate(*numbers, combine=ratio)


class Known(NamedTuple):
    """What an acceptance rule may know of the whole log beforehand."""

    logs: object  # the rounds
    terms: object  # of a stationary policy: probabilities of the logged actions first

    @property
    def smallest_propensity(self):
        """The smallest logged propensity."""
        return float(self.logs.propensity.min())

    @property
    def smallest_ratio(self):
        """The smallest p / pi of what the policy wants, 1 where it wants nothing."""
        return smallest_ratio(self.terms[0], self.logs.propensity)

    @property
    def most_offered(self):
        """The most actions that were ever offered."""
        return int(np.max(n_offered(self.logs)))


def _trajectory(n_rounds, rows, above, below):
    """Return the estimate of a trajectory, the ratio of two sums over its rows."""
    total = float(below.sum())
    influence, share = np.zeros((2, n_rounds))
    if not total:
        return TrajectoryEstimate(float("nan"), influence, share, total)
    value = float(above.sum() / total)
    influence[rows] = (above - value * below) / total
    share[rows] = below / total
    return TrajectoryEstimate(value, influence, share, total)
