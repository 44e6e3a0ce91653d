# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Deviation bounds of exploration scavenging, and what they hold for."""

import numpy as np

from skope_ope._texts import meant
from skope_ope.evaluators.core._loggers import SURPRISE, chance_if_uniform
from skope_ope.evaluators.scavenging._predictability import HIGH_Z
from skope_ope.exceptions import LearnedRoundsWarning
from skope_ope.logs._validation import check_reward_range, label_codes, plain

ROUNDED = 1e-3  # relative; propensities may be recorded with few digits
METHODS = ("azuma", "hoeffding")


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


def check_method(method):
    """Raise unless the method is known."""
    if method not in METHODS:
        hint = meant(method, METHODS)
        raise ValueError(
            f"method must be 'azuma' or 'hoeffding', got {method!r}.{hint}"
        )


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
    check_method(method)
    if form not in ("arms", "1/k"):
        raise ValueError(f"form must be 'arms' or '1/k', got {form!r}.")
    _check_covered(result)
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
    _check_logged(code, result)
    return span * history_bound(
        result.arm_counts[code], n, sample.n_arms, delta, method
    )


def _check_covered(result):
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


def _check_logged(code, result):
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
    if off.max() > ROUNDED:
        row = int(off.argmax())
        raise ValueError(
            f"uniform_logging=True contradicts the propensities: row {row} has "
            f"{propensity[row]:.6g}, not 1/{len(counts)}. Use form='arms'."
        )
