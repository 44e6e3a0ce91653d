# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""What a value assumes and no log shows."""

from skope_ope.evaluators.core._grounds import ESTIMATED

RECORDED = (
    "The recorded propensities are those that drew the actions. Tests miss errors of "
    "a few percent."
)
NO_HIDDEN_REASON = (
    "Nothing outside the log affects both the action and the reward. The log cannot "
    "show such a hidden cause."
)
NOTHING_OUTSIDE = "if nothing outside the context drove the choices"
NO_CARRY_OVER = "An action does not change the contexts or the rewards of later rounds."
NO_CHANGE = "Contexts and rewards will be as in the log when the policy acts."
MODEL = (
    "The reward model is right for the actions of the policy that the logger did not "
    "take."
)
UNIFORM = "The logger chose uniformly among the offered actions."
NO_LOOKING = "The logger's choice did not depend on the context."
SUM_OF_SLOTS = "The value of a slate is about a sum over its slots and items."
SLOTS_ALONE = "What a slot earns does not depend on the items in other slots."
ATTENTION = "Attention depends on the position alone, as the coefficients say."
NO_LARGER_REWARD = (
    "No reward is far larger or smaller than those of the log. If you know the range "
    "of the rewards, give reward_range=(low, high) with the logs."
)
SUPPORTED = (
    "The policy takes only actions that the logger takes. Only its probabilities of "
    "the logged actions were given, so this was not checked."
)
NO_AUDIT = (
    "The log was not audited. audit(policy, logs) looks for leaks, repeated rounds, "
    "drift and wrong propensities. verdict(value, audit=...) uses its findings."
)
NO_POLICY = "The audit did not include the policy. audit(policy, logs) checks both."

WEIGHTED = (RECORDED, NO_HIDDEN_REASON)
# In the place of right propensities.
OTHERS = {
    "mean reward": (),
    "DirectMethod": (MODEL, NO_HIDDEN_REASON),
    "SlateDirectMethod": (MODEL, NO_HIDDEN_REASON),
    "Replay": (UNIFORM,),
    "ExplorationScavenging": (NO_LOOKING,),
    "PositionScavenging": (NO_LOOKING, ATTENTION),
    "ReorderingScavenging": (NO_LOOKING, ATTENTION),
    "PseudoInverse": (*WEIGHTED, SUM_OF_SLOTS),
    "IndependentSlotIPS": (*WEIGHTED, SLOTS_ALONE),
}


def rests_on_propensities(value, where=None):
    """Tell whether a value weights rounds by propensities, perhaps of some origin."""
    grounds = value._grounds
    if where is not None and grounds.propensities != where:
        return False
    return any(RECORDED in _of(name) for name in grounds.evaluators)


def assumptions_of(grounds, range_known):
    """Return what a value assumes and no log shows, in sentences."""
    found = [text for name in grounds.evaluators for text in _of(name)]
    if grounds.propensities == ESTIMATED:  # a reason of its own tells of these
        found = [text for text in found if text is not RECORDED]
    found += [] if grounds.support_known else [SUPPORTED]
    found += [] if range_known else [NO_LARGER_REWARD]
    return list(dict.fromkeys([*found, NO_CARRY_OVER, NO_CHANGE]))


def slates_assumed(grounds):
    """Return what a value assumes of slates, in sentences."""
    named = [text for name in grounds.evaluators for text in _of(name)]
    return [
        f"Assumed: {text[0].lower()}{text[1:]}"
        for text in (SUM_OF_SLOTS, SLOTS_ALONE)
        if text in named
    ]


def _of(name):
    return OTHERS.get(name, WEIGHTED)
