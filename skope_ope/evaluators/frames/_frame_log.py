# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""What is known of the log behind a lazy frame: its first rows, and sums of all."""

from copy import copy
from functools import cached_property
from types import SimpleNamespace

import numpy as np

from skope_ope.evaluators.core._engine import offset_of
from skope_ope.evaluators.core._tally import MOST_REWARDS
from skope_ope.evaluators.frames._columns import where
from skope_ope.logs.lazy._lazy_logs import FIRST_OF_FRAME, first_table
from skope_ope.logs.sums._group_sums import GroupSums, WordsOfGroups
from skope_ope.logs.sums._log_sums import LogSums


class FirstRows:
    """The first rows of a lazy frame, which tell what is asked of all of them."""

    def __init__(self, lazy):
        self.lazy = lazy
        found = self._pairs("logger", "action", most="sample_weight").to_pylist()
        self._seen = {
            (row.get("logger"), row["action"])
            for row in found
            if (row.get("sample_weight_max", 1.0) or 0.0) > 0
        }
        known = lazy.actions
        # How many actions there are, as far as is known
        seen = {action for _, action in self._seen}
        self.n_actions = len(seen if known is None else known)

    def _pairs(self, *roles, most=None):
        """Return the distinct entries of some roles, and the largest one of another."""
        named = self.lazy.roles
        roles = [role for role in roles if named.get(role)]
        asked = [(most, "max")] * bool(named.get(most))
        names = [*roles, *(name for name, _ in asked)]
        columns = [named[name][0] for name in names]
        table = first_table(self.lazy, FIRST_OF_FRAME, columns).rename_columns(names)
        return table.group_by(roles).aggregate(asked)

    @cached_property
    def may_belong_to_actions(self):
        """Whether every action has a propensity of its own."""
        if self.lazy._reading.stated.get("propensity") is not None:
            return True
        if len(self.lazy.roles.get("propensity") or ()) != 1:
            return False
        return len(self._pairs("action", "propensity")) == len(self._pairs("action"))

    @property
    def has_few_rewards(self):
        """Whether these have few distinct rewards."""
        return len(self._pairs("reward")) <= MOST_REWARDS

    @property
    def offset(self):
        """What is subtracted from rewards that lie far from zero."""
        table = first_table(self.lazy, FIRST_OF_FRAME, list(self.lazy.roles["reward"]))
        try:
            reward = np.asarray(table.column(0).drop_null().to_numpy(), dtype=float)
        except (TypeError, ValueError):  # the query says what is wrong
            return 0.0
        reward = reward[np.isfinite(reward)]
        if not len(reward) or reward.min() == reward.max():  # those of one odd day
            return 0.0
        return offset_of(np.array([reward.min(), reward.max()]))

    def lacking(self, actions, loggers=None):
        """Return the codes of actions that nobody, or some logger, did not take."""
        # What is taken there lacks nowhere.
        seen = self._seen if loggers else {(None, action) for _, action in self._seen}
        return [
            code
            for code, action in enumerate(actions)
            if not all((logger, action) in seen for logger in loggers or [None])
        ]

    def logs(self, counts):
        """Return them as logs that know all labels."""
        stated = {**self.lazy._reading.stated, "actions": np.array(counts.actions)}
        known, loggers = self.lazy._needing(context=False, columns=[]), None
        if self.lazy.roles.get("logger"):
            loggers = np.array(counts.loggers)
        return known._with(stated=stated, loggers=loggers).head(FIRST_OF_FRAME)


def ask_log(whole):
    """Ask for sums of rewards and propensities; return what makes `LogSums` of them."""
    # Tests that need rows look at the first 20,000 that come, not at rows drawn by lot
    # from all of them: a draw would cost as much as the sums.
    asking, rounds, asked = whole.asking, whole.logs, {}
    omega, r, ends, by_group = rounds.omega, rounds.reward, {}, None
    if omega is not None:
        r = rounds.query.define(where(omega > 0, r, 0.0))
        asked["mass_square"] = asking.sum(omega * omega)
        ends["weight"] = whole.ask_ends(omega)
    asked |= {"reward_sum": asking.sum(r), "square": asking.sum(r * r)}
    asked["n_rewarded"] = asking.sum(where(r != 0.0, 1.0, 0.0))
    if rounds.p is not None:
        ends["p"] = whole.ask_ends(rounds.p)
        gap = rounds.weighed(1.0 / rounds.p - float(whole.first.n_actions))
        asked |= {"gap": asking.sum(gap), "gap_square": asking.sum(gap * gap)}
        asked["gap_cross"] = asking.sum(rounds.weighed(gap))
        by_group = whole.cells.sum(gap)

    def read(found):
        counts, answers = found.counts, found.answers
        sums = {name: answers.total(one) for name, one in asked.items()}
        sums.setdefault("mass_square", float(counts.n))
        out = LogSums.of(whole.first.logs(counts))
        out.n, out.mass = counts.n, counts.mass
        out.n_logged = int(answers.total("n"))
        out._action_counts = counts.counts.sum(axis=0).astype(int)
        if rounds.loggers is not None:
            out._logger_counts = counts.counts.sum(axis=1).astype(int)
        if "weight" in ends:
            out.weight_low, out.weight_high = ends["weight"](answers)
        out.reward_low, out.reward_high = limits = counts.reward_range
        out.reward_sum, out.n_rewarded = sums["reward_sum"], int(sums["n_rewarded"])
        inside = limits[0] >= 0 and limits[1] <= 1
        out._binary = bool(inside and out.reward_sum == sums["square"])
        out.pairs = out.first_time = out.last_time = None
        out.orders = {}  # what comes first tells nothing of rewards that are late
        more = len(counts.actions) - whole.first.n_actions
        if out.propensities is not None:
            first, out.propensities = out.propensities, copy(out.propensities)
            every = out.propensities
            # no test rests on these two alone
            every.total = first.total * counts.n / first.n
            every.log_sum = first.log_sum * counts.n / first.n
            every.n, every.mass, every.law = counts.n, counts.mass, None
            every.low, every.high = ends["p"](answers)
            for name in ("mass_square", "gap", "gap_square", "gap_cross"):
                setattr(every, name, sums[name])
            every.gap, every.gap_square = every.about(more)
            every.gap_cross -= more * every.mass_square
            if first.by_action is not None:  # of the first rows: is it so of all?
                every.by_action = found.propensity
        out.groups = None
        if found.cells is not None:
            out.groups = _groups_of_frame(whole, found.cells, by_group, more)
        return out

    return read


def _groups_of_frame(whole, cells, by_group, more):
    """Return the sums by group, or by hash bucket of more groups than are kept."""
    sums = {"n": cells.of(whole.count_by_group, "group").astype(np.int64)}
    if by_group is not None:
        mass = cells.of(whole.mass_by_group, "group")
        sums |= {"gap": cells.of(by_group, "group") - more * mass, "mass": mass}
    words = WordsOfGroups(SimpleNamespace(groups=cells.strata("group")[0]))
    return GroupSums.of(words, {name: one[words.order] for name, one in sums.items()})
