# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Sentences of `suggest`: what no log shows, and what only its owner knows."""

# -- assumptions ----------------------------------------------------------------------
LATER_ROUNDS = (
    "An action does not change the later contexts or rewards of the same user. If it "
    "does, stop: that is reinforcement learning, which this package does not do."
)
HIDDEN = (
    "The context holds everything that the logger looked at. Hidden reasons bias every "
    "value; value.sensitivity() shows by how much they could."
)
BLIND = (
    "The logger ignored the context. A classifier can disprove this, but cannot "
    "prove it."
)
POOLED = "All loggers saw the same kind of contexts."
SLATES = "The reward of a slate is about a sum over its slots."
SLOT_CLICKS = (
    "Pages were composed without looking at the context.",
    "A user clicks only items that he or she looks at, and the click then "
    "depends on the item alone.",
)

# -- questions ------------------------------------------------------------------------
USERS_ASKED = "Do users come back? Then pass group=user, so that errors count users."
ASKED = (
    "Is the reward what you are paid for, and has it arrived for every round?",
    USERS_ASKED,
    "Will the system work as it did when these rounds were logged?",
)

# -- reasons --------------------------------------------------------------------------
ADAPTIVE = (
    "AdaptiveDR stays unbiased while the logger learns. It needs the recorded "
    "probabilities and the order of the rounds in time.",
)
ESTIMATED = (
    "No probabilities were recorded, so they are estimated. If you can, compute them "
    "from the logger's code instead: this is exact."
)
UNPREDICTED = (
    "No classifier predicts the logged actions from the context. If the logger "
    "ignores the context, no probabilities are needed."
)

# -- stop -----------------------------------------------------------------------------
CERTAIN = (
    "The logger seems to have no choice: whenever the context is the same, it takes "
    "the same action. So the log has no information on the other actions. Let the "
    "logger explore, or add the rounds of another logger that decides otherwise."
)
CERTAIN_LOGGERS = (
    "Each logger had no choice. Evaluators of policies that learn need loggers that "
    "choose at random. Evaluate the policy as it is now, policy.frozen()."
)
WEIGHTED_ROUNDS = (
    "The policy learns from a history of whole rounds, and the sample weights of "
    "these rounds differ. Use rounds that were not subsampled, or "
    "evaluate the policy as it is now, policy.frozen()."
)
NO_PROPENSITIES_OF_SLATES = (
    "The log has no logging policy, no propensities and no rewards of slots. Only a "
    "reward model can be used, and no interval includes its error. Pass "
    "logging_policy=... to SlateLogs."
)
NO_OVERLAP = (
    "The policy takes none of the logged actions, so the logged rewards have no "
    "information on it. Collect logs closer to the policy."
)
