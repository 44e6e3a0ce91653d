# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""What findings ask of logs, as sums of parts answer it."""

from dataclasses import replace
from functools import cached_property
from math import nan

import numpy as np

from skope_ope.logs._propensity_audit import (
    gap_spread,
    grouped_z,
    inverse_propensity_z,
    law_by_action,
    same_gap_z,
)
from skope_ope.logs.checks._adaptive_logger import learning_findings
from skope_ope.logs.checks._lost_rows import choices_of_sums, left_out_by_chance
from skope_ope.logs.checks._propensity_findings import quick_propensity_findings
from skope_ope.logs.checks._slate_order import quick_slate_findings
from skope_ope.logs.sums import _sampled_logs
from skope_ope.logs.sums._sampled_slates import UNIFORM, slates_of


class SumsAsLogs:
    """Answers of `LogSums` by the names that logs have for them."""

    def __len__(self):
        return self.n

    @property
    def n_actions(self):
        """Number of actions."""
        return len(self.actions)

    @cached_property
    def _unseen(self):
        """Codes of the actions that were never logged."""
        return np.flatnonzero(self._action_counts == 0)

    @property
    def _says_yes_and_no(self):
        return self._binary and self.n_rewarded > 0

    @property
    def _reward_extremes(self):
        known = self.reward_low <= self.reward_high
        return (self.reward_low, self.reward_high) if known else ()

    @property
    def has_group(self):
        """Whether rounds have groups."""
        return "group" in self.fields

    @property
    def has_timestamp(self):
        """Whether rounds have timestamps."""
        return "timestamp" in self.fields

    @property
    def propensity_low(self):
        """The smallest propensity, NaN where they are not known."""
        return nan if self.propensities is None else self.propensities.low

    @property
    def propensity_high(self):
        """The largest propensity, NaN where they are not known."""
        return nan if self.propensities is None else self.propensities.high

    _lowest_propensity = propensity_low

    def _propensities_below(self, limit):
        """Return kept propensities below a limit, rising, their positions, actions."""
        return self.propensities.below(limit)

    def _called(self, rows):
        """Return what messages call rows by their positions: these."""
        return rows

    @property
    def _propensity_by_action(self):
        """The propensity of every action where it belongs to the action alone."""
        return self.propensities.by_action

    @property
    def _mean_log_propensity(self):
        """Mean of the logarithms of the propensities."""
        return self.propensities.log_sum / self.n

    @cached_property
    def _action_count_law(self):
        """Mean and variance of the counts of the actions, or None if not known."""
        if self.propensities is None:
            return None
        if self.propensities.law is not None or "available" in self.fields:
            law = self.propensities.law
            return None if law is None else tuple(law)
        return law_by_action(self.propensities.by_action, self.n)

    @property
    def _group_sizes(self):
        """Numbers of rounds of the groups that are kept, or None."""
        return None if self.groups is None else self.groups["n"]

    @property
    def n_groups(self):
        """Number of groups, about where they are many, or None."""
        return None if self.groups is None else self.groups.n_groups

    @cached_property
    def _inverse_propensity_z(self):
        """Mean of 1/p against the number of actions, in standard errors."""
        sums, n = self.propensities, self.n
        if sums is None or n < 2:
            return nan
        never = len(self._unseen)
        if (
            "available" in self.fields and never
        ):  # offered and never logged: by the sample
            return inverse_propensity_z(self.sampled)
        gap, square = sums.about(-never)
        spread = gap_spread(n, gap, square, sums.gap_square)
        if not spread:
            p = self.sampled.propensity
            return same_gap_z(gap / n, p, n if self.groups is None else self.n_groups)
        if self.groups is None:
            return gap / spread
        groups = self.groups
        change = groups["gap"] + never * groups["mass"] - gap / n * groups["n"]
        return grouped_z(gap, change, groups.n_groups)

    # -- findings ----------------------------------------------------------------------
    @cached_property
    def sampled(self):
        """The sample as logs without context, `BanditLogs`."""
        return _sampled_logs.logs_of(self, self.sample)

    @cached_property
    def _quick_propensity_findings(self):
        """Facts and findings of the tests that every value makes of propensities."""
        if not self.n:
            return {}, []
        if self.actions is None:
            slates = slates_of(self.sample)
            if slates is None:
                return {}, []
            is_uniform = UNIFORM in self.sample.columns
            facts, found = quick_slate_findings(slates, is_uniform)
            # rows of the sample are not those of the log
            return facts, [replace(one, rows=()) for one in found]
        return quick_propensity_findings(self, self.sampled)

    @cached_property
    def _learning_findings(self):
        """Finding where the propensities of the first rounds follow earlier rewards."""
        if not len(self.first) or self.actions is None:
            return []
        return learning_findings(_sampled_logs.logs_of(self, self.first))

    @property
    def _weighs_unevenly(self):
        """Whether the sample weights differ."""
        return self.weight_low < self.weight_high

    @cached_property
    def _choices(self):
        """What the rounds tell of the actions that the logger could take."""
        return choices_of_sums(self)

    @cached_property
    def _left_out_by_chance(self):
        """Whether the logger could take the actions that it never took."""
        return left_out_by_chance(self)

    @property
    def propensity(self):
        """Propensities of the sample, None where they are not known."""
        return self.sample.columns.get("propensity")

    @property
    def logging_proba(self):
        """Logging distributions of the sample, or None."""
        return self.sample.columns.get("logging_proba")

    @property
    def available(self):
        """Offered actions of the sample, or None."""
        return self.sample.columns.get("available")

    @property
    def sample_weight(self):
        """Sample weights of the sample, or None."""
        return self.sample.columns.get("sample_weight")

    @property
    def group(self):
        """Groups of the sample, or None."""
        return self.sample.columns.get("group")
