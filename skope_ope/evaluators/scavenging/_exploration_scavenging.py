# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Evaluation without propensities, where the logger ignored the context."""

from __future__ import annotations

from functools import partial
from types import SimpleNamespace
from typing import Any, Literal, Self

import numpy as np

from skope_ope._progress import untold
from skope_ope._sklearn import StrOptions
from skope_ope.evaluators.base._evaluator import BaseEvaluator
from skope_ope.evaluators.core._drowned import lost_finding
from skope_ope.evaluators.core._mean_weight import EFFECT
from skope_ope.evaluators.core._mean_weight import SURE as SURE_OF_MEAN
from skope_ope.evaluators.core._mean_weight_findings import (
    MADE_FROM_ACTIONS,
    high_mean_finding,
    wrong_propensities,
)
from skope_ope.evaluators.core._part_weights import Wanted
from skope_ope.evaluators.core._positive_rounds import PositiveRounds
from skope_ope.evaluators.core._reach import CornerReach, weighted_corners
from skope_ope.evaluators.core._requires import Requires
from skope_ope.evaluators.core._rows import Rows
from skope_ope.evaluators.core._sample_weights import combined_weights
from skope_ope.evaluators.core._sums import weights_of
from skope_ope.evaluators.core._warnings import unformed_warning
from skope_ope.evaluators.scavenging._arms import (
    SURE,
    Arms,
    ArmTerms,
    ColumnArmTerms,
)
from skope_ope.evaluators.scavenging._bounds import theorem_bound
from skope_ope.evaluators.scavenging._matching import (
    by_logger,
    check_offers,
    check_target_of_arms,
    match_arms,
    match_slates,
    slate_codes,
    strata_of,
)
from skope_ope.evaluators.scavenging._predictability import LOW_Z, predictability
from skope_ope.evaluators.scavenging._scavenged_value import ScavengedValue
from skope_ope.evaluators.scavenging._summed_arms import (
    ArmsJob,
    SummedArms,
    estimate_of_sums,
    reach_of_sums,
)
from skope_ope.evaluators.static._base import check_all_actions
from skope_ope.exceptions import LowOverlapWarning, OPEWarning, SupportWarning
from skope_ope.logs import BanditLogs, SlateLogs
from skope_ope.logs._known_range import known_range

UNTESTED = OPEWarning(
    "merged sums do not show whether the context predicts the logged arms. If it "
    "does, scavenging is biased. Check a sample in memory, which warns of it: "
    "ExplorationScavenging().fit(lazy.sample(100_000)).evaluate(policy).",
    name="untested_context",
)


class ExplorationScavenging(BaseEvaluator):
    r"""Evaluation without propensities, where the logger ignored the context [1]_.

    .. math:: \hat V(h) = \sum_t \frac{r_t\, h(a_t | x_t)}{T_{a_t}}, \qquad
        T_a = \sum_t 1(a_t = a)

    needs only the logged actions. If the logger ignored the context, the rounds of each
    action are a random sample of contexts. The policy may be deterministic or random. A
    test checks whether the context predicts the logged action, and warns if it does.
    Read more in the :ref:`User Guide <scavenging>`.

    Parameters
    ----------
    self_normalized : bool, default=False
        Divide by :math:`\sum_t h(a_t|x_t) / T_{a_t}`, whose expectation is one.
        The value then stays within the range of the rewards.
    match : {"action", "logger"}, default="action"
        What the policy has to match. "logger": the arms are the loggers, and the policy
        chooses one of `logs.loggers`. The logged choice of the logger must not depend
        on the context. "action": the arms are the actions. If the logs have
        `logger_proba`, the policy's probability of the logged action is divided by that
        of the mixture of the loggers. The mixture has the empirical shares of the
        loggers.
    strata : str, default=None
        Field or column of the logs. Within each of its values the logger ignored the
        context, and rounds are counted within each value. Use "available" if the
        offered actions vary; without strata such logs are refused.
    on_missing : {"warn", "nan"}, default="warn"
        What to do if the policy takes actions that were never logged. "warn" leaves
        them out and warns of their share. "nan" also makes the value NaN.

    Attributes
    ----------
    predictability_ : Predictability
        Gain in out-of-fold log-loss of predicting the logged arm from the context, and
        its z.

    See Also
    --------
    Replay : For policies that learn, on uniform logs.
    MixturePolicy : A target that follows several policies at random.

    Notes
    -----
    The value is unbiased if the number of rounds per action is fixed. It is consistent
    if the logger depends on the past. Actions are strata: :math:`SE^2 = \sum_a s_a^2 /
    T_a`.

    On `SlateLogs` the action is the whole slate, and the reward the sum over its slots.

    `deviation_bound(delta, method=..., arms=None)` is Theorem 3 of the paper,
    :math:`\sum_a \sqrt{2 \ln(2 k T / \delta) / T_a}`. With `method="hoeffding"` it is
    half of that. The rewards need a known range of width one (`reward_range`, or
    rewards 0 and 1). `arms` names all actions that the policy can take, if that is
    known beforehand. For uniform logging only,
    `deviation_bound(delta, form="1/k", uniform_logging=True)` is Theorem 5. Theorem 5
    is about :math:`U = (k/T) \sum_t r_t h(a_t|x_t)`, `diagnostics["uniform_value"]`.
    The distance :math:`|\hat V - U|` is added, so the sum bounds the value. The
    theorems do not cover actions that were never logged, `self_normalized`, strata,
    mixtures of loggers, groups, unequal sample weights, slates, and policies that
    learned from the rounds. For these `deviation_bound` raises an error.

    References
    ----------
    .. [1] Langford, J., Strehl, A., & Wortman, J. (2008). Exploration scavenging.
       ICML.

    Examples
    --------
    >>> import numpy as np
    >>> from skope_ope import BanditLogs, ExplorationScavenging
    >>> x = np.array([0, 1, 0, 1, 1, 0])
    >>> logs = BanditLogs(x[:, None], [0, 1, 1, 0, 1, 0], [1, 1, 0, 0, 1, 1])
    >>> target = np.eye(2)[x]
    >>> import warnings
    >>> with warnings.catch_warnings(record=True) as caught:
    ...     warnings.simplefilter("always")  # the value is above all rewards
    ...     result = ExplorationScavenging().fit(logs).evaluate(target)
    >>> round(result.value, 4), round(result.standard_error, 4)
    (1.3333, 0.4714)
    >>> caught[0].category.__name__
    'LowOverlapWarning'
    >>> ExplorationScavenging(self_normalized=True).fit(logs).score(target)
    1.0
    """

    _parameter_constraints: dict = {
        "self_normalized": ["boolean"],
        "match": [StrOptions({"action", "logger"})],
        "strata": [str, None],
        "on_missing": [StrOptions({"warn", "nan"})],
    }

    def __init__(
        self,
        *,
        self_normalized: bool = False,
        match: Literal["action", "logger"] = "action",
        strata: str | None = None,
        on_missing: Literal["warn", "nan"] = "warn",
    ) -> None:
        self.self_normalized = self_normalized
        self.match = match
        self.strata = strata
        self.on_missing = on_missing

    def fit(self, logs: BanditLogs | SlateLogs, reward_model: Any = None) -> Self:
        """Keep the logs, and ask whether the context predicts the logged actions.

        Parameters
        ----------
        logs : BanditLogs or SlateLogs
            The logged rounds; propensities are not needed.
        reward_model : object, default=None
            Ignored.

        Returns
        -------
        self : ExplorationScavenging
        """
        return super().fit(logs, reward_model)

    def _fitted(self, logs, reward_model, progress=untold):
        found = super()._fitted(logs, reward_model, progress)
        return found | {"predictability_": self._predictability(logs)}

    def _check_logs(self, logs):
        super()._check_logs(logs)
        stratum = strata_of(logs, self.strata)
        if self.match == "logger":
            if isinstance(logs, SlateLogs):
                raise ValueError(
                    "match='logger' is for BanditLogs with loggers. For slates use "
                    "match='action'."
                )
            by_logger(logs)
        elif not self.requires.mixes(logs):
            check_offers(logs, stratum)

    def _predictability(self, logs):
        stratum = strata_of(logs, self.strata)
        if isinstance(logs, SlateLogs):
            (code,) = slate_codes(logs, logs.slate)
            return predictability(logs, code, stratum, "slate")
        if self.match == "logger" or self.requires.mixes(logs):
            return predictability(logs, logs.logger_index, stratum, "logger")
        return predictability(logs, logs.action_index, stratum)

    def _unstated(self, logs):
        if isinstance(logs, SlateLogs):
            return (
                "its arms are the slates of the log, which differ from part to "
                "part. Evaluate rounds in memory: lazy.sample(1_000_000)."
            )
        if self.strata is not None:
            return (
                f"its strata={self.strata!r} are numbered within a log. Sum each "
                "stratum separately, with logs.filter(...) of files or logs[rows], "
                "and weight the values by the shares of the strata."
            )
        if self.on_missing == "nan" and self.requires.mixes(logs):
            return (
                "on_missing='nan' needs all rounds, to find whether the loggers "
                "take the policy's actions. Pass on_missing='warn'."
            )
        return None

    @property
    def requires(self):
        """Rewards of arms; where all loggers are known these are their mixture."""
        mixture = "if known" if self.match == "action" else False
        return Requires(weights=False, mixture=mixture, logs=(BanditLogs, SlateLogs))

    def _enter_frame(self, whole, name):
        mixes = self.requires.mixes(whole.rounds)
        role = "logger" if mixes else self.match
        sums = whole.sums_by("actions" if role == "action" else "arms", role)
        formula = ColumnArmTerms(self.self_normalized, mixes or None)
        for policy in whole.policies:
            target = whole.target(policy, self.match)
            check_all_actions(self, target)
            whole.add_wanted(self.proposal, policy, target, self.match)
            whole.add_arms((name, policy, None), formula, sums, target)

    def _enter(self, whole, name):
        logs, mixes = whole.logs, self.requires.mixes(whole.logs)
        chosen = whole.seen_as(by_logger) if self.match == "logger" else logs
        by_actions = chosen is logs and not mixes
        code = chosen.action_index if by_actions else logs.logger_index
        labels = chosen.actions if by_actions else logs.loggers
        design = whole.part.design.with_strata(code, labels.tolist())
        arms = "arms" if chosen is logs else "arms of loggers"  # of a pass each
        sums = whole.sums_by("actions" if by_actions else arms, design)
        formula = ArmTerms(self.self_normalized, whole.part.shares if mixes else None)
        for policy in whole.policies:
            target = whole.target(policy, chosen)
            check_target_of_arms(self, target, chosen)
            owner = weights_of(self.proposal, policy)
            if owner not in whole.tallies:
                observer = Wanted(whole, owner, target, chosen.actions)
                whole.pass_over(chosen).observers.append(observer)
            job = ArmsJob(formula, target, None, (name, policy, None), sums)
            whole.ends[job.key] = job.ends
            whole.add_job(job, chosen)

    @property
    def proposal(self):
        """What a policy wants of its arms, as parts of a log tell it."""
        return f"wanted of {self.match}s"

    def _mixes_in_sums(self, summary):
        return summary.facts["logger_proba"] and self.match == "action"

    def _estimate_of_sums(self, summary):
        return estimate_of_sums(
            self.self_normalized,
            self._mixes_in_sums(summary),
            self.on_missing,
            summary,
        )

    def _overlap_of_sums(self, summary):
        return None  # there are no propensities

    def _known_of_sums(self, summary, log, n_rounds):
        arms = SummedArms(summary, summary.estimate())
        mixes = self._mixes_in_sums(summary)
        match, warned = SimpleNamespace(missing_mass=arms.missing_mass), []
        if mixes:
            warned = _doubts_of_mixture(arms, arms, match, log)
        found = arms.estimate
        facts = {
            "n_rounds": n_rounds,
            "n_arms": len(summary.counts.loggers if mixes else summary.counts.actions),
            "fewest_rounds": arms.fewest_rounds(n_rounds),
            "unsupported_mass": match.missing_mass,
            "mean_weight": arms.mean_weight,
            "effective_sample_size": arms.effective_sample_size,
            # whether the context predicts the arms is not told by sums
            "predictability_z": float("nan"),
            "predictability_gain": float("nan"),
        }
        if not mixes:
            facts["uniform_value"] = facts["n_arms"] * arms.mean_gain
        found = self._judged(found, match, arms.n_alone, bool(arms.largest), warned)
        if not np.isnan(found.value):
            warned.append(UNTESTED)
            if arms.lost:
                warned.append(lost_finding().warning())
        return found, {
            "effective_sample_size": arms.effective_sample_size,
            "diagnostics": facts,
            "warnings": warned,
            "reach": reach_of_sums(
                summary,
                self.self_normalized,
                None if log is None else known_range(log),
                n_rounds,
            ),
        }

    def _evaluate(self, policy, logs, sample_weight):
        omega = combined_weights(logs, sample_weight)
        match, arms = self._match(policy, logs, omega)
        found, warned = arms.estimate(), []
        if np.isnan(match.missing_mass):
            match.missing_mass = arms.unseen_mass()
        elif self.requires.mixes(logs):
            warned = _doubts_of_mixture(arms, found, match, logs)
        predicted = self.predictability_
        if logs is not self.logs_:
            predicted = self._predictability(logs)
        diagnostics = self._facts(logs, match, arms, found, predicted)
        counted = match.wanted if omega is None else match.wanted * omega
        found = self._judged(found, match, found.n_alone, counted.any(), warned)
        bias = float("nan")
        if predicted.z > LOW_Z and not np.isnan(found.value):
            bias = predicted.bias(found.value, found.round_values())
        warned += predicted.warnings(bias, found.standard_error)
        return ScavengedValue(
            found,
            Rows(found.design, found.terms, logs=logs),
            estimator=type(self).__name__,
            effective_sample_size=found.effective_sample_size,
            diagnostics=diagnostics,
            warnings=warned,
            bound=theorem_bound,
            arms=arms,
            bound_facts=self._bound_facts(logs, match, predicted),
            reach=_reach(found, arms, logs),
        )

    def _match(self, policy, logs, omega):
        """Return how the policy uses the arms, and the arms."""
        stratum = strata_of(logs, self.strata)
        if isinstance(logs, SlateLogs):
            match = match_slates(policy, logs, stratum, omega)
        else:
            chosen = by_logger(logs) if self.match == "logger" else logs
            match = match_arms(self, policy, chosen, stratum, omega)
        mixes = self.requires.mixes(logs)
        arms = Arms(
            logs.logger_index if mixes else match.code,
            len(logs.loggers) if mixes else match.n_arms,
            match.wanted,
            logs.reward,
            stratum=stratum,
            under=logs.logger_proba if mixes else None,
            design=PositiveRounds(logs, omega).design,
            self_normalized=self.self_normalized,
            # whatever the policy wants, a logger may have had a part in it
            sought=None if mixes else match.sought,
        )
        return match, arms

    def _facts(self, logs, match, arms, found, predicted):
        """Return the diagnostics."""
        facts = {
            "n_rounds": len(logs),
            "n_arms": arms.n_arms,
            "fewest_rounds": match.fewest_rounds,
            "unsupported_mass": match.missing_mass,
            "mean_weight": found.mean_weight,
            "effective_sample_size": found.effective_sample_size,
            "predictability_z": predicted.z,
            "predictability_gain": predicted.gain,
        }
        slates = isinstance(logs, SlateLogs)
        if not self.requires.mixes(logs) and self.strata is None and not slates:
            facts["uniform_value"] = float(
                match.n_arms
                * np.average(match.wanted * logs.reward, weights=arms.omega)
            )
        return facts

    def _bound_facts(self, logs, match, predicted):
        """Return what the theorems' bounds need."""
        by_action = self.match == "action"
        return {
            "arm": self.match,
            "reward_range": known_range(logs),
            "predictability": predicted,
            "arms": getattr(logs, "actions" if by_action else "loggers", None),
            "plays": match.plays,
            "propensity": getattr(logs, "propensity", None) if by_action else None,
            "mass": match.missing_mass,
        }

    @property
    def _words(self):
        """What the arms are, what those never did that are missing, and what once."""
        if self.match == "logger":
            return "loggers", "never acted", "acted"
        return "actions", "were never logged", "were logged"

    def _judged(self, found, match, n_alone, something, warned):
        """Return the estimate, given what was never logged; warn of it."""
        mass, arms, never, once = (match.missing_mass, *self._words)
        if mass > 1e-9 and not warned:
            warned.append(
                SupportWarning(
                    f"the policy gives {mass:.2%} of its probability to {arms} "
                    f"that {never}. Their rewards are left out, so for rewards of "
                    "0 or more the value is a lower bound. To make the value NaN "
                    "instead, pass on_missing='nan'.",
                    mass,
                )
            )
        nothing = not something or mass > 1 - 1e-9
        if nothing or (mass > 1e-9 and self.on_missing == "nan"):
            found = found.without_value()
        if nothing:
            warned.append(unformed_warning(self))
        elif not np.isnan(found.value) and n_alone:
            warned.append(
                LowOverlapWarning(
                    f"{n_alone} of the {arms}{' by stratum' * bool(self.strata)} "
                    f"that the policy takes {once} in a single round, so the "
                    "standard error is NaN. Use more rounds, or a policy that does "
                    "not take them.",
                    n_alone,
                )
            )
        return found

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.uniform_logger = True
        tags.consistent = self.match == "action"
        tags.constant_reward = tags.shift_equivariant = bool(self.self_normalized)
        return tags


def _reach(found, arms, logs):
    """Return what finds how far the value of a round may lie from the estimate."""
    given = partial(weighted_corners, found.terms, found.terms[1], arms.reward)
    return CornerReach(known_range(logs), given, reward=arms.reward)


def _doubts_of_mixture(arms, found, match, logs):
    """Return what a mean weight other than one says of a mixture of loggers."""
    # What is never logged anywhere is known. What no logger does in the contexts where
    # the policy wants it shows in the mean weight only.
    z = arms.mean_weight_z(1 - match.missing_mass)
    if z < -SURE:
        match.missing_mass = mass = 1 - found.mean_weight
        return [
            SupportWarning(
                f"the policy seems to give {mass:.2%} of its probability to "
                "actions that no logger takes in the same context. Its weights "
                "against the mixture of the loggers average "
                f"{found.mean_weight:.4g}, {z:+.1f} standard errors from the "
                "expected mean. The value leaves out the rewards of these actions; "
                "on_missing='nan' makes it NaN. Choose among the loggers' actions, "
                "or check logger_proba.",
                mass,
            )
        ]
    expected, evidence = 1 - match.missing_mass, 0.0
    if found.mean_weight > (1 + EFFECT) * expected:
        evidence = arms.evidence_above(expected)
    if evidence <= SURE_OF_MEAN:
        return []
    causes = wrong_propensities("small", logs), MADE_FROM_ACTIONS
    high = high_mean_finding(found.mean_weight, evidence, causes, expected)
    return [high.warning()]
