# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""What a value assumes and no log shows."""

from skope_ope.evaluators.core._grounds import ESTIMATED

RECORDED = (
    "The recorded propensities are those with which the actions were drawn: tests see "
    "only what differs from them by a few percent."
)
NO_HIDDEN_REASON = (
    "Nothing that is not in the log moved both the action and the reward: a hidden "
    "reason leaves no trace."
)
NO_CARRY_OVER = "An action does not change the contexts or the rewards of later rounds."
NO_CHANGE = "Contexts and rewards will be as in the log when the policy acts."
MODEL = "The reward model is right where the policy acts and the logger did not."
UNIFORM = "The logger chose uniformly among the offered actions."
NO_LOOKING = "The logger's choice did not depend on the context."
SUM_OF_SLOTS = "The value of a slate is about a sum over its slots and items."
ATTENTION = "Attention depends on the position alone, as the coefficients say."
NO_LARGER_REWARD = (
    "No reward is far beyond those of the log: their range is not known. State "
    "reward_range=(low, high) with the logs where there is one."
)
SUPPORTED = (
    "The policy takes nothing that the logger never takes: only its probabilities of "
    "the logged actions were given."
)
NO_AUDIT = (
    "The log was not audited: audit(policy, logs) looks for leaks, repeated rounds, "
    "drift and wrong propensities; verdict(value, audit=...) takes in what it finds."
)
NO_POLICY = "The log was audited without the policy: audit(policy, logs) looks at both."

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
}


def uses_propensities(evaluators):
    """Tell whether one of some evaluators weights rounds by propensities."""
    return any(RECORDED in _of(name) for name in evaluators)


def assumptions_of(grounds, range_known):
    """Return what a value assumes and no log shows, in sentences.

    Parameters
    ----------
    grounds : Grounds
        What the value rests on.
    range_known : bool
        Whether the range of the rewards is.

    Returns
    -------
    assumptions : list of str
    """
    found = [text for name in grounds.evaluators for text in _of(name)]
    if grounds.propensities == ESTIMATED:  # a reason of its own tells of these
        found = [text for text in found if text is not RECORDED]
    found += [] if grounds.support_known else [SUPPORTED]
    found += [] if range_known else [NO_LARGER_REWARD]
    return list(dict.fromkeys([*found, NO_CARRY_OVER, NO_CHANGE]))


def _of(name):
    return OTHERS.get(name, WEIGHTED)
