# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""The template of evaluators that walk through the logs in order."""

from __future__ import annotations

from typing import Self

import numpy as np
from sklearn.base import clone
from sklearn.utils import check_random_state

from skope_ope._progress import untold
from skope_ope._types import RewardModelLike
from skope_ope.evaluators.base._evaluator import BaseEvaluator
from skope_ope.evaluators.core._counted import Counted
from skope_ope.evaluators.core._overlap_findings import support_findings
from skope_ope.evaluators.core._rounds import combined_weights
from skope_ope.evaluators.core._target import Target
from skope_ope.evaluators.core._warnings import few_accepted_warnings, warnings_of
from skope_ope.evaluators.sequential._acceptance import UniformStream, stream_state
from skope_ope.evaluators.sequential._drns_model import MadeInWalk, takes_earlier
from skope_ope.evaluators.sequential._engine import AdaptiveWalk, StationaryWalk
from skope_ope.evaluators.sequential._history import History, PartHistory, Stretch
from skope_ope.evaluators.sequential._log_facts import LogFacts, smallest_ratio
from skope_ope.evaluators.sequential._sequential_value import (
    OWN,
    PROGRESSIVE,
    SequentialValue,
)
from skope_ope.evaluators.sequential._sequential_values import (
    no_weights,
    parts_of,
    sequential_values,
)
from skope_ope.evaluators.sequential._warnings import (
    left_out_warnings,
    reversal_warnings,
    single_trajectory_warning,
    unformed_warning,
)
from skope_ope.logs._bandit_logs import BanditLogs
from skope_ope.logs.lazy._lazy_logs import LazyLogs
from skope_ope.policies._adaptive import AdaptivePolicy, repeated_draws_warnings


class SequentialEvaluator(BaseEvaluator):
    """Base class of evaluators that accept logged rounds into a simulated history."""

    # A subclass implements `_rule(facts, n_rounds, ratio)`, the acceptance rule of a
    # history, `_terms(trace, reward, w)`, the sums of which a trajectory's value is the
    # ratio and where they are, and `_slope(trace, w)`, what a unit of reward adds to
    # the first.

    n_splits = 1
    _uniform_state = None  # what draws the numbers of logs that are read in parts
    _pooled = False  # whether trajectories count by their weights
    _counts_blocks = False  # whether rounds after the last accepted one do not count
    _deviation_bound = None
    _is_linear = True  # whether the reward of a round moves nothing but its own value

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
        target, u, facts = Target(policy, logs), self._uniforms(logs), LogFacts(logs)
        adaptive = isinstance(target.policy, AdaptivePolicy)
        self._check_settings(adaptive, target, len(logs))
        source = self.reward_model_ if self.requires.model else None
        parts = []
        for number, rows in enumerate(parts_of(len(logs), self.n_splits)):
            about = target, u[rows], source
            if rows.stop - rows.start == len(logs):
                stretch = Stretch(logs, facts, *about)
            else:
                stretch = Stretch.of_rows(rows, logs, facts, *about)
            state = self._begin(stretch, facts, rows, number, keeps_rounds=True)
            parts.append(self.advance(stretch, state).finish())
        given = target.policy
        if given is None:
            given = np.asarray(target.array, dtype=np.float64)
        return self._value(History(self, parts, facts), given)

    def _begin(self, stretch, facts, rows, number, keeps_rounds=False, least=None):
        """Return the state of a walk before the first stretch of a part."""

        def smallest():
            """Return the smallest p / pi of the log: of one stretch if unknown."""
            if least is not None:
                return least
            return smallest_ratio(stretch.known[0][0], stretch.logs.propensity)

        policy = stretch.target.policy
        rule = self._rule(facts, rows.stop - rows.start, smallest)
        walk = StationaryWalk(rule)
        if isinstance(policy, AdaptivePolicy):
            told = self._tells_weights(policy)
            walk = AdaptiveWalk(policy, stretch.logs, rule, self.horizon, number, told)
        return PartHistory(self, walk, rows, facts, keeps_rounds)

    def advance(self, stretch: Stretch, state: PartHistory) -> PartHistory:
        """Return the state of a walk after another stretch of rounds.

        Parameters
        ----------
        stretch : Stretch
            The rounds, and what is said of them.
        state : PartHistory
            What was found in the rounds before.

        Returns
        -------
        state : PartHistory
        """
        if state.restarts is None:
            known, overlap = stretch.known
        else:
            known, overlap = stretch.predict, None
        trace = state.walk.take(stretch.logs, stretch.u, known)
        state.add(stretch.positive, trace, overlap)
        return state

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

    def _tells_weights(self, policy):
        """Tell whether the policy learns how often an accepted round counts."""
        return False

    def _value(self, history, policy, counted=None):
        """Return the result, from walks through the parts of the logs."""
        estimate, about = self._estimate(history)
        diagnostics = self._diagnostics(history)
        diagnostics["n_trajectories"] = len(history.trajectories.values)
        if not history.adaptive:
            overlap = history.overlap
            diagnostics["unsupported_mass"] = overlap.missing_mass
            diagnostics["mean_weight"] = overlap.mean_weight
            diagnostics["mean_weight_z"] = overlap.mean_weight_z
        diagnostics["standard_error_of"] = about
        left_out = self._acceptances_count(history) and self.leaves_bias_out
        return SequentialValue(
            estimate,
            history,
            policy=policy,
            estimator=type(self).__name__,
            effective_sample_size=diagnostics["effective_sample_size"],
            diagnostics=diagnostics,
            warnings=self._warnings(history, estimate, diagnostics),
            bound=self._deviation_bound,
            bound_terms=self._bound_terms(history),
            successes=self._successes(history),
            leaves_bias_out=left_out,
            reach=history.reach(estimate),
            progressive_policy=self._progressive_policy(history),
            counted=counted,
        )

    def _estimate(self, history):
        """Return the estimate, and what its standard error is about."""
        # Several trajectories or parts tell by their spread how sure their mean is. For
        # a single one the round values do, where they are independent given the past.
        terms = history.trajectories.terms
        m = len(terms)
        if m > 1:
            return history.given(float(terms.std(ddof=1) / np.sqrt(m)), m - 1), OWN
        about = PROGRESSIVE if history.adaptive else OWN
        if m and self._tells_spread(history.adaptive) and self._has_spread(history):
            return history.spread(self._freedom(history)), about
        return history.given(float("nan"), history.n_rounds - 1), OWN

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

    def _successes(self, history):
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
            "final_c": history.found.final_ratio,
            "effective_sample_size": float(accepted),
        }

    def _warnings(self, history, estimate, diagnostics):
        found = history.trajectories
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
        return reversal_warnings(history.facts.first_reversal)

    def _weight_warnings(self, history):
        """Return warnings about the overlap of the policy with the logs."""
        if history.adaptive:
            return []
        return warnings_of(support_findings(history.overlap, history.log))

    def _acceptance_warnings(self, history, diagnostics):
        """Return warnings about the simulated history."""
        return few_accepted_warnings(diagnostics["n_accepted"], diagnostics["n_rounds"])

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.order_dependent = True
        return tags
