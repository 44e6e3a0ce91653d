# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""The checks of an audit, in the order in which their facts are told.

A check takes the logs and a `random_state` (a check of a policy takes the policy
first) and returns facts by name and a list of `Finding`.
"""

from skope_ope.audit._logger_findings import exploration_findings, logger_findings
from skope_ope.audit._reward_leak import reward_leak_findings
from skope_ope.audit._slate_logger import slate_logger_findings
from skope_ope.logs.checks._adaptive_logger import adaptive_logger_findings
from skope_ope.logs.checks._context_columns import (
    column_findings,
    group_column_findings,
)
from skope_ope.logs.checks._leak_findings import action_leak_findings
from skope_ope.logs.checks._log_facts import log_facts
from skope_ope.logs.checks._lost_rows import (
    ended_by_reward_findings,
    page_reward_findings,
    pages_without_reward_findings,
)
from skope_ope.logs.checks._order_findings import order_findings
from skope_ope.logs.checks._propensity_findings import propensity_findings
from skope_ope.logs.checks._propensity_fit import fitted_propensity_findings
from skope_ope.logs.checks._repeated_rounds import repeated_findings
from skope_ope.logs.checks._shift_findings import shift_findings

LOG_CHECKS = (
    log_facts,
    propensity_findings,
    logger_findings,
    exploration_findings,
    column_findings,
    group_column_findings,
    order_findings,
    adaptive_logger_findings,
    action_leak_findings,
    repeated_findings,
    reward_leak_findings,
    shift_findings,
    fitted_propensity_findings,  # after leaks, which explain what it finds by name
)
SLATE_CHECKS = (
    log_facts,
    column_findings,
    group_column_findings,
    order_findings,
    repeated_findings,
    reward_leak_findings,
    ended_by_reward_findings,
    pages_without_reward_findings,
    page_reward_findings,
    slate_logger_findings,
)
# Of lazy logs: what looks at a sample of the rounds, and at those from the start on;
# sums of all rounds tell the others.
BY_SUMS = (log_facts, propensity_findings, group_column_findings, order_findings)
LAZY_FIRST = (adaptive_logger_findings, shift_findings)
LAZY_SAMPLED = tuple(
    one for one in LOG_CHECKS if one not in BY_SUMS and one not in LAZY_FIRST
)
LAZY_SLATES_SAMPLED = tuple(one for one in SLATE_CHECKS if one not in BY_SUMS)
