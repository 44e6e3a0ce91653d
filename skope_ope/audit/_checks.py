# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""The checks of an audit, what each of them needs, and how they are run."""

from collections.abc import Callable
from typing import NamedTuple

from skope_ope.audit._context_balance import balance_findings
from skope_ope.audit._logger_findings import exploration_findings, logger_findings
from skope_ope.audit._policy_checks import (
    action_findings,
    alike_rounds_findings,
    clipping_findings,
    learned_rounds_findings,
    no_weight_facts,
    slate_policy_findings,
    summed_weight_findings,
    unsupported_findings,
    weighted_reward_findings,
)
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

ACTIONS, SLATES = "actions", "slates"
ANY_KIND = ACTIONS, SLATES


class Check(NamedTuple):
    """A check of a log, or of a policy on it."""

    # It takes what it needs and a `random_state`, and returns facts by name and a list
    # of `Finding`.
    of: Callable
    needs: str
    kinds: tuple = ANY_KIND  # of logs


# What they need: "sums" of all rounds; the "log" in memory, or its sums beside a sample
# of its rounds; "rows", of which a sample will do; the "first" rounds in their order;
# "all rows"; and of a policy which rounds it has "learned" from, the sums of its
# "weights", and the "policy" on rows, or that there is "no weight". Facts are told in
# this order.
CHECKS = (
    Check(log_facts, "sums"),
    Check(propensity_findings, "log", (ACTIONS,)),
    Check(logger_findings, "rows", (ACTIONS,)),
    Check(exploration_findings, "rows", (ACTIONS,)),
    Check(column_findings, "rows"),
    Check(group_column_findings, "all rows"),
    Check(order_findings, "log"),
    Check(adaptive_logger_findings, "first", (ACTIONS,)),
    Check(action_leak_findings, "rows", (ACTIONS,)),
    Check(repeated_findings, "rows"),
    Check(reward_leak_findings, "rows"),
    Check(ended_by_reward_findings, "rows", (SLATES,)),
    Check(pages_without_reward_findings, "rows", (SLATES,)),
    Check(page_reward_findings, "rows", (SLATES,)),
    Check(slate_logger_findings, "rows", (SLATES,)),
    Check(shift_findings, "first", (ACTIONS,)),
    # after leaks, which explain what it finds by name
    Check(fitted_propensity_findings, "rows", (ACTIONS,)),
    Check(no_weight_facts, "no weight"),
    Check(learned_rounds_findings, "learned"),
    Check(alike_rounds_findings, "policy"),
    Check(unsupported_findings, "weights", (ACTIONS,)),
    Check(action_findings, "policy", (ACTIONS,)),
    Check(summed_weight_findings, "weights", (ACTIONS,)),
    Check(weighted_reward_findings, "policy", (ACTIONS,)),
    Check(balance_findings, "policy", (ACTIONS,)),
    Check(clipping_findings, "policy", (ACTIONS,)),
    Check(slate_policy_findings, "policy", (SLATES,)),
)


def run_checks(kind, parts, random_state, facts=()):
    """Return facts and findings of all checks that parts of a log allow."""
    facts, findings = dict(facts), []
    for part in parts:
        earlier = set(facts)
        for check in CHECKS:
            if kind in check.kinds and check.needs in part.given:
                told, found = check.of(*part.given[check.needs], random_state)
                facts |= part.named(told, earlier)
                findings += map(part.placed, found)
    return facts, findings
