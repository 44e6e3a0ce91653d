# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""The checks of an audit, in the order in which their facts are told.

A check takes the logs and a `random_state` (a check of a policy takes the policy
first) and returns facts by name and a list of `Finding`.
"""

LOG_CHECKS = ()
SLATE_CHECKS = ()
POLICY_CHECKS = ()
SLATE_POLICY_CHECKS = ()
