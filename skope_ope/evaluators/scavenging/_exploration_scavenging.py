# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Evaluation without propensities, where the logger ignored the context, and bounds."""

from __future__ import annotations

from math import isnan
from typing import Any, Literal, Self

import numpy as np

from skope_ope._progress import untold
from skope_ope._sklearn import StrOptions
from skope_ope._texts import meant
from skope_ope.evaluators.base._evaluator import BaseEvaluator
from skope_ope.evaluators.core._arms import ArmDeviation
from skope_ope.evaluators.core._design import Sampling, weight_of
from skope_ope.evaluators.core._functions import mean, ratio
from skope_ope.evaluators.core._halves import in_upper_half
from skope_ope.evaluators.core._loggers import SURPRISE, chance_if_uniform
from skope_ope.evaluators.core._requires import Requires
from skope_ope.evaluators.core._rounds import (
    PositiveRounds,
    combined_weights,
    weighted_reward,
)
from skope_ope.evaluators.core._rows import Rows
from skope_ope.evaluators.core._target import loggers_as_actions
from skope_ope.evaluators.parts._part_tables import bare_evaluator
from skope_ope.evaluators.scavenging._arms import (
    ArmRounds,
    ScavengedValue,
    check_offers,
    match_arms,
    match_slates,
    slate_codes,
    strata_of,
)
from skope_ope.evaluators.scavenging._predictability import (
    HIGH_Z,
    LOW_Z,
    predictability,
)
from skope_ope.exceptions import LearnedRoundsWarning
from skope_ope.logs import BanditLogs, SlateLogs
from skope_ope.logs._row_container import known_range
from skope_ope.logs._validation import check_reward_range, label_codes, plain

FEW_DIGITS = 1e-3  # relative; propensities may be recorded with few digits
BOUND_METHODS = ("azuma", "hoeffding")


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

    def check_logs(self, logs):
        super().check_logs(logs)
        stratum = strata_of(logs, self.strata)
        if self.match == "logger":
            if isinstance(logs, SlateLogs):
                raise ValueError(
                    "match='logger' is for BanditLogs with loggers. For slates use "
                    "match='action'."
                )
            loggers_as_actions(logs)
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

    def resolved(self, facts, rows=None):
        """Return the evaluator that knows whether its weights are those of a mixture.

        Parameters
        ----------
        facts : LogFacts
            With rounds of the log.
        rows : object, default=None
            Not used.

        Raises
        ------
        ValueError
            If its arms need the whole log, and that is read in parts.
        """
        reason = self._whole_log_needed(facts.logs) if facts.in_parts else None
        if reason:
            raise ValueError(reason)
        return self.with_parameters(_mixture=self.requires.mixes(facts.logs))

    def _whole_log_needed(self, logs):
        """Return why parts of a log cannot be summed, or None."""
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

    _mixture = "if known"  # whether the mixture of all loggers enters

    @property
    def requires(self):
        """Rewards of arms; where all loggers are known these are their mixture."""
        mixture = self._mixture if self.match == "action" else False
        kinds = BanditLogs, SlateLogs
        return Requires(weights=False, mixture=mixture, all_actions=True, logs=kinds)

    @property
    def sampling(self):
        """The samples: the rounds of every arm."""
        return Sampling("arms", arms=self.match)

    @property
    def proposal(self):
        """Against what the weights are: the mixture of loggers, or nothing."""
        return "mixture" if self.requires.mixture else None

    @property
    def combine(self):
        """The mean of the weighted rewards, or that over the mean weight."""
        return ratio if self.self_normalized else mean

    @property
    def shift_with(self):
        """The weight, where the value is divided by it."""
        return 1 if self.self_normalized else None

    def terms(self, rounds):
        """Return the rewards times what the policy wants of the arm, and that."""
        w = weight_of(self)(rounds)
        return weighted_reward(rounds, w), w

    def _evaluate(self, policy, logs, sample_weight):
        omega = combined_weights(logs, sample_weight)
        match, rounds = self._match(policy, logs, omega)
        arms = rounds.sums(
            fewest_rounds=match.fewest_rounds,
            missing_mass=match.missing_mass,
            of_slates=isinstance(logs, SlateLogs),
        )
        if isnan(arms.missing_mass):
            arms.missing_mass = arms.unseen_mass()
        estimate, known = arms.known(logs, len(logs))
        predicted = self.predictability_
        if logs is not self.logs_:
            predicted = self._predictability(logs)
        bias, (terms, design) = float("nan"), arms.rounds
        if predicted.z > LOW_Z and not isnan(estimate.value):
            bias = predicted.bias(estimate.value, estimate.round_values(terms, design))
        known["warnings"] += predicted.warnings(bias, estimate.standard_error)
        known["diagnostics"] |= {
            "predictability_z": predicted.z,
            "predictability_gain": predicted.gain,
        }
        return ScavengedValue(
            estimate,
            Rows(design, terms, logs=logs),
            estimator=type(self).__name__,
            bound=theorem_bound,
            arms=rounds,
            bound_facts=self._bound_facts(logs, match, arms, predicted),
            reach=ArmDeviation(
                known_range(logs),
                lambda: rounds.extremes(in_upper_half(logs)),
                logs._reward_extremes,
            ),
            **known,
        )

    def _match(self, policy, logs, omega):
        """Return how the policy uses the arms, and the rounds of these."""
        stratum, mixes = strata_of(logs, self.strata), self.requires.mixes(logs)
        if isinstance(logs, SlateLogs):
            match = match_slates(policy, logs, stratum, omega)
        else:
            chosen = loggers_as_actions(logs) if self.match == "logger" else logs
            match = match_arms(self, policy, chosen, stratum, omega)
        return match, ArmRounds(
            bare_evaluator(self),  # a value is pickled without the logs of `fit`
            logs.logger_index if mixes else match.code,
            len(logs.loggers) if mixes else match.n_arms,
            match.wanted,
            logs.reward,
            PositiveRounds(logs, omega).design,
            stratum,
            logs.logger_proba if mixes else None,
            # whatever the policy wants, a logger may have had a part in it
            None if mixes else match.sought,
        )

    def _bound_facts(self, logs, match, arms, predicted):
        """Return what the theorems' bounds need."""
        by_action = self.match == "action"
        return {
            "arm": self.match,
            "reward_range": known_range(logs),
            "predictability": predicted,
            "arms": getattr(logs, "actions" if by_action else "loggers", None),
            "plays": match.plays,
            "propensity": getattr(logs, "propensity", None) if by_action else None,
            "mass": arms.missing_mass,
        }

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.uniform_logger = True
        tags.consistent = self.match == "action"
        tags.constant_reward = tags.shift_equivariant = bool(self.self_normalized)
        return tags


def history_bound(counts, n_rounds, n_arms, delta, method="azuma"):
    r"""Bound where the logger may look at the past, but not at the context."""
    # .. math:: \sum_a \sqrt{2 \ln(2 k T / \delta) / T_a}
    #
    # is Theorem 3 of the paper, for rewards in [0, 1]; its terms have a conditional
    # range of one, not two, so that half of it holds as well (`method="hoeffding"`).
    counts = np.asarray(counts, dtype=float)
    if (counts == 0).any():
        raise ValueError(
            "an arm that was never logged has no bound. Leave it out of the counts."
        )
    bound = np.sqrt(2 * np.log(2 * n_arms * n_rounds / delta) / counts).sum()
    return float(bound if method == "azuma" else bound / 2)


def uniform_bound(n_rounds, n_arms, delta, method="azuma"):
    r"""Bound of :math:`(k/T) \sum_t r_t h(a_t|x_t)` under uniform logging."""
    # :math:`k \sqrt{2 \ln(2 k / \delta) / T}` is Theorem 5 of the paper; there is one
    # sum only, so that :math:`2 / \delta` serves (`method="hoeffding"`).
    union = n_arms if method == "azuma" else 1
    return float(n_arms * np.sqrt(2 * np.log(2 * union / delta) / n_rounds))


def reward_span(reward, reward_range):
    """Return the range in which a reward that may be left out lies."""
    # The rewards that the policy does not want count as 0, so the range includes it.
    if reward_range is None:
        raise ValueError(
            "the bound needs a range of the rewards that is known in advance. The "
            f"logged rewards, {float(reward.min()):.6g} to "
            f"{float(reward.max()):.6g}, are not enough. Pass reward_range=(low, "
            "high) to the logs or to deviation_bound."
        )
    low, high = reward_range
    return max(float(high), 0.0) - min(float(low), 0.0)


def theorem_bound(
    result,
    delta,
    *,
    form="arms",
    method="azuma",
    uniform_logging=False,
    arms=None,
    reward_range=None,
    **unknown,
):
    r"""Bound the deviation of a value: Theorem 3 (`arms`) or 5 (`1/k`)."""
    # Theorem 5 bounds :math:`|U - V|` for the `uniform_value` U. With the distance of
    # U, :math:`|\hat V - V| \le |\hat V - U| + |U - V|`, it bounds the value.
    if unknown:
        raise ValueError(
            f"the bound has no parameter {sorted(unknown)[0]!r}. Its parameters "
            "are form, method, uniform_logging, arms and reward_range."
        )
    facts, sample, n = result.bound_facts, result.arms, result.n_rounds
    if method not in BOUND_METHODS:
        hint = meant(method, BOUND_METHODS)
        raise ValueError(
            f"method must be 'azuma' or 'hoeffding', got {method!r}.{hint}"
        )
    if form not in ("arms", "1/k"):
        raise ValueError(f"form must be 'arms' or '1/k', got {form!r}.")
    _check_theorem(result)
    known = facts["reward_range"]
    if reward_range is not None:
        known = check_reward_range(reward_range, sample.reward)
    span = reward_span(sample.reward, known)
    if form == "1/k":
        _check_uniform(uniform_logging, result.arm_counts, facts)
        distance = abs(result.value - result.diagnostics["uniform_value"])
        return distance + span * uniform_bound(n, sample.n_arms, delta, method)
    code = np.arange(sample.n_arms)
    if arms is not None:
        code = _playable(arms, facts)
    _check_arms_logged(code, result)
    return span * history_bound(
        result.arm_counts[code], n, sample.n_arms, delta, method
    )


def _check_theorem(result):
    """Raise where the theorems are about another value, or other rounds."""
    facts, sample = result.bound_facts, result.arms
    learned = any(isinstance(one, LearnedRoundsWarning) for one in result.warnings)
    beyond = {
        "self_normalized=True": sample.evaluator.self_normalized,
        "strata": sample.stratum is not None,
        "a mixture of loggers": sample.under is not None,
        "sample weights that differ": sample.design.omega is not None,
        "groups, whose rounds depend on each other": sample.design.clustered,
        "slates, whose number is not known": facts["arms"] is None,
        "a policy that learned from these rounds": learned,
    }
    remedy = "Use confidence_interval."
    if learned:
        remedy = "Evaluate the policy on other rounds."
    for what, found in beyond.items():
        if found:
            raise ValueError(f"the theorems do not cover {what}. {remedy}")
    if np.isnan(result.value):
        raise ValueError("the value is NaN, so it has no bound.")
    if facts["predictability"].z > HIGH_Z:
        raise ValueError(
            "the theorems need arms that were chosen without the context, but the "
            f"logged {facts['predictability'].arm} is predictable from it (by "
            f"{facts['predictability'].z:.1f} standard errors). Use an evaluator "
            "with importance weights, such as SNIPS."
        )


def _playable(arms, facts):
    """Return the codes of the arms that the policy is said to be able to play."""
    code = np.unique(label_codes(facts["arms"], np.asarray(arms).ravel()))
    if not code.size or code[0] < 0:
        raise ValueError(
            f"arms must name one or more of {facts['arms'].tolist()}, got {arms!r}."
        )
    beyond = np.setdiff1d(np.flatnonzero(facts["plays"]), code)
    if beyond.size:
        raise ValueError(
            f"arms={np.asarray(arms).tolist()} leaves out "
            f"{plain(facts['arms'][beyond[0]])!r}, which the policy plays in these "
            f"rounds. Name every {facts['arm']} that the policy can play."
        )
    return code


def _check_arms_logged(code, result):
    """Raise where an arm of the sum was never logged: it has no term."""
    facts, never = result.bound_facts, code[result.arm_counts[code] == 0]
    if not never.size:
        return
    played = never[facts["plays"][never]]
    name = plain(facts["arms"][played[0] if played.size else never[0]])
    arm = facts["arm"]
    never_done = "never acted" if arm == "logger" else "was never logged"
    if played.size:
        raise ValueError(
            f"the policy plays {name!r}, which {never_done} ({facts['mass']:.2%} "
            "of the policy's probability). The value leaves out its reward, so it "
            "has no bound. Evaluate a policy that does not play it."
        )
    raise ValueError(
        f"{name!r} {never_done} ({len(never)} such), so the sum over all {arm}s "
        f"has no bound. If the policy cannot play it, name the {arm}s that it can "
        "play: arms=[...]."
    )


def _check_uniform(claimed, counts, facts):
    """Raise unless logging is said to be uniform, and nothing speaks against it."""
    propensity, chose = facts["propensity"], "the logger chose all actions"
    if facts["arm"] == "logger":
        chose = "all loggers were chosen"
    if claimed is not True:
        raise ValueError(
            f"form='1/k' holds only if {chose} with equal probability. A uniform "
            "target policy is not enough. If this is so, pass uniform_logging=True."
        )
    chance = chance_if_uniform(counts)
    if chance < SURPRISE:
        raise ValueError(
            f"uniform_logging=True contradicts the logs: counts of {counts.min()} "
            f"to {counts.max()} have probability {chance:.1g} under uniform "
            "logging. Use form='arms'."
        )
    if propensity is None:
        return
    off = np.abs(len(counts) * propensity - 1)
    if off.max() > FEW_DIGITS:
        row = int(off.argmax())
        raise ValueError(
            f"uniform_logging=True contradicts the propensities: row {row} has "
            f"{propensity[row]:.6g}, not 1/{len(counts)}. Use form='arms'."
        )
