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
    "The logger ignored the context. A classifier can refute that, and cannot prove it."
)
POOLED = "All loggers saw the same kind of contexts."
SLATES = "The reward of a slate is about a sum over its slots."
SLOT_CLICKS = (
    "Pages were composed without looking at the context.",
    "A click needs a look at the slot, and then depends on the item alone.",
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
    "probabilities and the order of time.",
)
ESTIMATED = (
    "No probabilities were recorded, so they are estimated. Compute them from the "
    "logger's code instead if you can: that is exact."
)
UNPREDICTED = (
    "No classifier predicts the logged actions from the context. A logger that ignores "
    "the context needs no probabilities."
)

# -- stop -----------------------------------------------------------------------------
CERTAIN = (
    "The logger seems to have had no choice: in the same context it always takes the "
    "same action, and the log tells nothing about the others. Let the logger explore, "
    "or add the rounds of another logger that decides otherwise."
)
NO_PROPENSITIES_OF_SLATES = (
    "Neither the logging policy nor propensities nor rewards of slots are known: only "
    "a reward model is left, and no interval knows its error. Pass logging_policy=... "
    "to SlateLogs."
)
NO_OVERLAP = (
    "The policy takes none of the logged actions: the logged rewards say nothing about "
    "it. Collect logs closer to the policy."
)
