# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""The rounds of a lazy frame as columns: the arguments of every formula."""

from copy import copy
from functools import cached_property
from numbers import Real

import numpy as np

from skope_ope.evaluators.core._halves import middle_of_range
from skope_ope.evaluators.core._rounds import Rounds
from skope_ope.evaluators.frames._columns import (
    all_of,
    label_is,
    total,
    where,
)
from skope_ope.evaluators.frames._frame_query import INSTEAD, LARGEST
from skope_ope.logs._validation import PROBA_TOLERANCE, plain

TINIEST = float(np.finfo(np.float64).tiny)  # one over less is infinite


class FrameRounds:
    """The rounds of a lazy frame as columns."""

    # It stands for the logs where an evaluator asks what they have.

    def __init__(self, query, lazy, counts, shares=None):
        self.query, self.lazy, self.shares = query, lazy, shares
        self.offset = 0.0
        self.reward_range = lazy.reward_range
        self.actions, self.loggers = counts.actions, counts.loggers
        self.logger_proba = self._many("logger_proba")
        self.logging_proba = self._many("logging_proba")
        self.reward = self._reward()
        self.omega = None
        if self.has("sample_weight"):
            self.omega = self._number(
                "sample_weight", "sample_weight must be a finite number >= 0", 0.0
            )
        self.p = self._propensity()
        if self.p is None:
            self.reward = query.guarded(self.reward)

    def less(self, offset):
        """Return the same rounds, of rewards and model values less an offset."""
        if not offset:
            return self
        out = copy(self)
        out.offset = offset
        return out

    @property
    def gain(self):
        """Rewards less the offset."""
        return self._less(self.reward)

    @cached_property
    def upper(self):
        """One where a round is in the upper half, zero elsewhere."""
        above = self.reward > middle_of_range(self.reward_range)
        return self.query.define(where(above, 1.0, 0.0))

    def count(self, asking):
        """Ask for the number of rounds that weigh something."""
        if self.omega is None:
            return "n"
        return asking.sum((self.omega > 0).astype(float))

    # -- columns of the frame ----------------------------------------------------
    def has(self, role):
        return bool(self.lazy.roles.get(role))

    def _names(self, role):
        names = self.lazy.roles[role]
        return [names] if isinstance(names, str) else list(names)

    def _number(self, role, message, low=-LARGEST, high=LARGEST):
        [name] = self._names(role)
        found = self.query.number(name, role)
        self.query.check_number(found, f"column {name!r}: {message}", low, high)
        return found

    def _many(self, role):
        """Return one column of probabilities per action, or logger, or None."""
        if not self.has(role):
            return None
        found = []
        for name in self._names(role):
            found.append(self.query.number(name, role))
            self.query.check_number(
                found[-1], f"column {name!r}: {role} must lie in [0, 1]", 0.0, 1 + 1e-9
            )
        return found

    def label(self, role):
        """Return the name of the labels of a role in the query."""
        name, *more = self._names(role)
        if more:
            raise TypeError(
                f"{role} is labelled by several columns, {[name, *more]}. Inside a "
                "lazy frame it must be one column: join them before the scan."
            )
        found = self.query.label(name, role)
        self.query.check_label(name, found, f"column {name!r}: {role} is missing")
        return found

    def column_label(self, name):
        """Return the name of the labels of a column of the frame."""
        found = self.query.label(name, f"by={name!r}", again=True)
        self.query.check_label(name, found, f"column {name!r}: a label is missing")
        return found

    def bucket(self, role, n_buckets):
        """Return the name of the hash buckets of integer labels, or None."""
        [name] = self._names(role)
        return self.query.bucket(name, n_buckets)

    def _reward(self):
        found = self._number("reward", "reward must be a finite number")
        if self.reward_range is not None:
            low, high = map(float, self.reward_range)
            number = where(found - found == 0.0, found, low)  # others are told above
            self.query.check_number(
                number,
                f"column {self._names('reward')[0]!r}: reward must lie in "
                f"reward_range=({low:.6g}, {high:.6g})",
                low,
                high,
            )
        return found

    def _propensity(self):
        number = self.lazy._reading.stated.get("propensity")
        if number is not None:  # the same in all rounds
            return self.query.guarded(self.query.define(self.reward * 0.0 + number))
        if self.has("propensity"):
            p = self._number("propensity", "propensity must lie in (0, 1]", TINIEST, 1)
        elif self.logging_proba is not None:
            p = self._logged(self.logging_proba)
        elif self.logger_proba is not None and self.has("logger"):
            p = self._of_label("logger", self.loggers, self.logger_proba)
        else:
            return None
        if not self.has("propensity"):
            self.query.check_number(
                p, "the probability of the logged action must lie in (0, 1]", TINIEST, 1
            )
        return self.query.guarded(p)

    def _logged(self, columns):
        """Return the entry of the logged action of one column per action."""
        return self._of_label("action", self.actions, columns)

    def _of_label(self, role, labels, columns):
        name, [column] = self.label(role), self._names(role)
        if len(labels) != len(columns):
            raise ValueError(
                f"{len(columns)} columns are named, one per {role}, but there are "
                f"{len(labels)} {role}s: {list(map(plain, labels))}. Name one "
                f"column per {role}."
            )
        flags = [label_is(name, plain(label)) for label in labels]
        known = total([flag.astype(float) for flag in flags])
        self.query.check(
            self.query.define(known) > 0.5,
            f"column {column!r}: the label is not among the {len(labels)} {role}s",
        )
        pairs = zip(flags, columns, strict=True)
        return self.query.define(total([where(*pair, 0.0) for pair in pairs]))

    # -- policies and models -----------------------------------------------------
    def policy(self, what, name, role="action"):
        """Return the `PolicyColumns` of a policy."""
        who = "the policy" if name is None else f"policy {name!r}"
        names = self._columns_of(what, who)
        found = [self.query.number(one, who) for one in names]
        if isinstance(self.lazy.columns.get(what, what), str):
            self.query.check_number(
                found[0],
                f"column {names[0]!r}: {who} must hold probabilities of the logged "
                "actions in [0, 1]",
                0.0,
                1 + 1e-9,
            )
            return PolicyColumns(self, found[0], None)
        near = PROBA_TOLERANCE
        whole = self.query.define(total(found))
        fit = [one >= 0 for one in found] + [whole >= 1 - near, whole <= 1 + near]
        self.query.check(
            all_of(fit),
            f"columns {names[0]!r} to {names[-1]!r}: the probabilities of {who} "
            "must be 0 or more and sum to 1",
            whole,
        )
        labels = self.actions if role == "action" else self.loggers
        return PolicyColumns(self, self._of_label(role, labels, found), found)

    def _columns_of(self, what, who, of="probabilities"):
        """Return the names of the columns that stand for a policy or a model."""
        if not isinstance(what, str):
            raise TypeError(
                f"{who} is a {type(what).__name__}. Inside a lazy frame it must be "
                f"the name of a column of its {of}, or of columns={{name: [one per "
                f"action]}} if all are needed. Add it to the frame, or {INSTEAD}"
            )
        names = self.lazy.columns.get(what, what)
        return [names] if isinstance(names, str) else list(names)

    def model(self, source, policy, name):
        """Return the model values of a policy and of the logged actions."""
        source = getattr(source, "number", getattr(source, "name", source))
        if isinstance(source, Real):
            number = float(source)
            v = self.query.define(total(policy.table) * number)
            return self._less(v), number - self.offset
        names = self._columns_of(source, f"the reward model of {name}", "predictions")
        found = []
        for one in names:
            q = self.query.number(one, f"the reward model of {name}")
            self.query.check_number(q, f"column {one!r}: model values must be finite")
            found.append(q)
        logged = self._logged(found)
        pairs = zip(policy.table, found, strict=True)
        v = self.query.define(total([pi * q for pi, q in pairs]))
        return self._less(v), self._less(logged)

    def _less(self, found):
        """Return rewards or model values less the offset."""
        return found - self.offset if self.offset else found

    def mixture(self):
        """Return the probability of the logged action under all loggers."""
        if not self.has("logger") or len(self.loggers) == 1:
            return self.p
        pairs = zip(self.loggers, self.logger_proba, strict=True)
        found = self.query.define(
            total([proba * self.shares[plain(label)] for label, proba in pairs])
        )
        self.query.check_number(
            found,
            "logger_proba is 0 for every logger, but one of them took this action. "
            "Correct logger_proba",
            TINIEST,
            1 + 1e-9,
        )
        return self.query.define(where(found > 0, found, None))

    def of(self, policy, v=None, q=None):
        """Return the arguments of every formula."""
        low = min(self.reward_range[0], 0.0) if self.reward_range else 0.0
        given = {"pi": policy.pi, "w": policy.w, "b": policy.b, "r": self.gain}
        given |= {"v": v, "q": q, "logger_proba": self.logger_proba}
        return Rounds(**given, shift=float(low), offset=self.offset)


class PolicyColumns:
    """What a policy does, as columns."""

    def __init__(self, rounds, pi, table):
        query = rounds.query
        self.policy, self.logged_only = None, table is None
        self.pi, self.table = pi, table
        self.w = self.b = None
        if rounds.p is not None:
            self.w = self.b = query.define(pi / rounds.p)
        if rounds.shares is not None:
            mixture = rounds.mixture()
            if mixture is not rounds.p:
                self.b = query.define(pi / mixture)
