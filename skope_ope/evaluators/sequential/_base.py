# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""The template of evaluators that take the rounds in their order."""

from __future__ import annotations

from numbers import Integral
from typing import Self

import numpy as np
from sklearn.base import clone
from sklearn.utils import check_random_state

from skope_ope._progress import untold
from skope_ope._sklearn import Interval
from skope_ope._types import RewardModelLike
from skope_ope.evaluators.base._evaluator import BaseEvaluator
from skope_ope.evaluators.core._counted import Counted
from skope_ope.evaluators.core._overlap_findings import support_findings
from skope_ope.evaluators.core._rounds import combined_weights
from skope_ope.evaluators.core._target import Target
from skope_ope.evaluators.core._warnings import (
    few_accepted_warnings,
    none_accepted_warning,
    warnings_of,
)
from skope_ope.evaluators.sequential._acceptance import UniformStream, stream_state
from skope_ope.evaluators.sequential._drns_model import MadeInPass
from skope_ope.evaluators.sequential._history import History, PartHistory, Stretch
from skope_ope.evaluators.sequential._log_facts import (
    OrderedLogFacts,
    reversal_warnings,
    smallest_ratio,
)
from skope_ope.evaluators.sequential._sequential_value import (
    OWN,
    PROGRESSIVE,
    SequentialValue,
)
from skope_ope.evaluators.sequential._simulator import (
    AdaptiveSimulator,
    StationarySimulator,
    takes_weight,
)
from skope_ope.evaluators.sequential._values_on_lazy_logs import (
    even_parts,
    no_weights,
    sequential_values,
)
from skope_ope.exceptions import BiasWarning, HorizonWarning, SingleTrajectoryWarning
from skope_ope.logs._bandit_logs import BanditLogs
from skope_ope.logs._shown_numbers import figure
from skope_ope.logs.lazy._lazy_logs import LazyLogs
from skope_ope.policies._adaptive import AdaptivePolicy, repeated_draws_warnings

LARGE_MASS, MASS_Z = 0.1, 2  # bias mass; its standard errors from nothing
NEGLIGIBLE_BIAS = 1e-6  # bias mass: that of single precision probabilities


class SequentialEvaluator(BaseEvaluator):
    """Base class of evaluators that accept logged rounds into a simulated history."""

    # A subclass implements `_rule(facts, n_rounds, ratio)`, the acceptance rule of a
    # history, `_terms(trace, reward, w)`, the sums of which a trajectory's value is the
    # ratio and where they are, and `_slope(trace, w)`, what a unit of reward adds to
    # the first.

    _parameter_constraints: dict = {
        "horizon": [Interval(Integral, 1, None, closed="left"), None],
        "random_state": ["random_state"],
    }
    n_splits = 1
    _uniform_state = None  # what draws the numbers of logs that are read in parts
    _pooled = False  # whether trajectories count by their weights
    _counts_blocks = False  # whether rounds after the last accepted one do not count
    _is_linear = True  # whether the reward of a round moves nothing but its own value
    # Whether a single trace of a policy that learns has a standard error: it values the
    # policy's progressive-validation policy
    _is_progressive = False
    _weighs = False  # whether a policy that takes weights learns them

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
        if self._takes_earlier(reward_model):
            reward_model = MadeInPass()
        found = clone(self).set_params(random_state=0)._fitted(head, reward_model)
        del found["uniforms_"]  # a pass draws them again
        stream = UniformStream(state).skip(n_rounds or 0)
        return found | {"_uniform_state": state, "seed_": stream.seed()}

    def _answer(self, question, sources, of_fit):
        """Return the value from a pass over the parts of lazy logs."""
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
        target, facts = Target(policy, logs), OrderedLogFacts(logs)
        u = self._uniforms(logs)
        adaptive = isinstance(target.policy, AdaptivePolicy)
        self._check_settings(adaptive, target, len(logs))
        source = self.reward_model_ if self.requires.model else None
        parts = []
        for number, rows in enumerate(even_parts(len(logs), self.n_splits)):
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
        """Return the state before the first stretch of a part."""

        def smallest():
            """Return the smallest p / pi of the log: of one stretch if unknown."""
            if least is not None:
                return least
            return smallest_ratio(stretch.known[0][0], stretch.logs.propensity)

        policy = stretch.target.policy
        rule = self._rule(facts, rows.stop - rows.start, smallest)
        simulator = StationarySimulator(rule)
        if isinstance(policy, AdaptivePolicy):
            weighs = self._weighs and takes_weight(policy)
            about = self.horizon, number, weighs
            simulator = AdaptiveSimulator(policy, stretch.logs, rule, *about)
        return PartHistory(self, simulator, rows, facts, keeps_rounds)

    def advance(self, stretch: Stretch, state: PartHistory) -> PartHistory:
        """Return the state after another stretch of rounds.

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
        trace = state.simulator.take(stretch.logs, stretch.u, known)
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

    def _value(self, history, policy, counted=None):
        """Return the result, from the histories in the parts of the logs."""
        estimate, about = self._estimate(history)
        diagnostics = self._diagnostics(history)
        diagnostics["n_trajectories"] = len(history.trajectories.values)
        if not history.adaptive:
            overlap = history.overlap
            diagnostics["unsupported_mass"] = overlap.missing_mass
            diagnostics["mean_weight"] = overlap.mean_weight
            diagnostics["mean_weight_z"] = overlap.mean_weight_z
        diagnostics["standard_error_of"] = about
        bound, bound_terms = self._bound(history)
        return SequentialValue(
            estimate,
            history,
            policy=policy,
            estimator=type(self).__name__,
            effective_sample_size=diagnostics["effective_sample_size"],
            diagnostics=diagnostics,
            warnings=self._warnings(history, estimate, diagnostics),
            bound=bound,
            bound_terms=bound_terms,
            successes=self._successes(history),
            leaves_bias_out=self._acceptances_count(history) and self.leaves_bias_out,
            reach=history.reach(estimate),
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
        freedom = self._freedom(history)
        if m and freedom and (self._is_progressive or not history.adaptive):
            return history.spread(freedom), PROGRESSIVE if history.adaptive else OWN
        return history.given(float("nan"), history.n_rounds - 1), OWN

    def _freedom(self, history):
        """Return at most how many degrees of freedom a single trace has."""
        return history.n_rounds - 1

    def _acceptances_count(self, history):
        """Whether the value depends on which rounds were accepted."""
        return True

    def _successes(self, history):
        """Return ones among accepted 0/1 rewards and their number, or None."""

    def _bound(self, history):
        """Return the theorem behind the evaluator, or None, and what it needs."""
        return None, {}

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
        warned = reversal_warnings(history.facts.first_reversal)
        warned += self._weight_warnings(history)
        if np.isnan(found.value):
            warned += self._unformed_warnings(history)
        elif found.n_lost:
            text = (
                f"{found.n_lost} of {found.n_lost + len(found.terms)} parts gave no "
                "value and are left out. Use fewer parts or a shorter horizon."
            )
            warned.append(HorizonWarning(text, found.n_lost))
        if history.adaptive and len(found.terms) == 1:
            about, error = diagnostics["standard_error_of"], estimate.standard_error
            warned.append(single_trajectory_warning(error, self.horizon, about))
        elif history.adaptive:
            warned += repeated_draws_warnings(history.restarts.at)
        return warned + self._acceptance_warnings(history, diagnostics)

    def _unformed_warnings(self, history):
        """Return the warning that says why the value is NaN."""
        most, horizon = history.longest, self.horizon
        if horizon is None or not most:
            ratio = history.found.final_ratio
            return [none_accepted_warning(ratio, history.n_rounds)]
        text = (
            f"no trajectory of horizon={horizon} was completed: the logs gave T = "
            f"{most} accepted rounds. The value is NaN. Shorten the horizon or use "
            "more logs."
        )
        return [HorizonWarning(text, most)]

    def _weight_warnings(self, history):
        """Return warnings about the logger, and its overlap with the policy."""
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


def single_trajectory_warning(error, horizon, about):
    """Return the warning that goes with one trajectory of a policy that learns."""
    setting = "Set horizon" if horizon is None else "Set a smaller horizon"
    remedy = (
        f"{setting} so that the logs give several trajectories, or evaluate parts of "
        "the logs with repeated_runs."
    )
    if np.isnan(error):
        text = (
            "the standard error is NaN: it needs more than one trajectory of a "
            "policy that learns"
        )
    else:
        text = (
            f"a single trace tells about {about} only, a mixture of all stages of "
            "the policy. Its standard error and interval are not those of the "
            "learning policy at some horizon, whose value varies more"
        )
    return SingleTrajectoryWarning(f"{text}. {remedy}", 1)


def bias_mass_warnings(diagnostics, advice, allowed=LARGE_MASS, z=MASS_Z):
    """Return a warning where the acceptance ratio keeps too much out of the history."""
    mass, error = diagnostics["bias_mass"], diagnostics["bias_mass_error"]
    if not mass > max(allowed, z * error):
        return []
    share = diagnostics["violation_share"]
    return [
        BiasWarning(
            f"the acceptance ratio is too large in {share:.2%} of the rounds, "
            "where the logger seldom takes the logged action. So "
            f"{figure(mass, 3)} ± {error:.2g} of the policy's rounds are missing "
            f"in the simulated history (bias mass, at most {figure(allowed, 3)} is "
            "allowed). The value is biased, and its interval leaves out this bias. "
            f"{advice}.",
            mass,
        )
    ]
