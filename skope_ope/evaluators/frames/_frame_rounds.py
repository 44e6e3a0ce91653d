# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""The rounds of a lazy frame as columns: the arguments of every formula."""

from copy import copy
from functools import cached_property
from numbers import Real

import numpy as np

from skope_ope.evaluators.core._halves import middle_of_range
from skope_ope.evaluators.core._rounds import known_shift
from skope_ope.evaluators.frames._columns import (
    all_of,
    label_is,
    sum_of,
    where,
)
from skope_ope.evaluators.frames._frame_query import INSTEAD
from skope_ope.logs._fields import FIELDS, FLOAT_MAX
from skope_ope.logs._validation import PROBA_TOLERANCE, plain

TINIEST = float(np.finfo(np.float64).tiny)  # one over less is infinite
ONE_ROUNDED = 1 + 1e-9  # a probability of one that is rounded


class FrameRounds:
    """The rounds of a lazy frame as columns."""

    # It stands for the logs where an evaluator asks what they have, and is the only
    # block of a pass.

    role, n_rounds = "action", None

    def __init__(self, query, lazy, shares=None):
        self.query, self.lazy, self.shares = query, lazy, shares
        self.reward_range, self.shift = lazy.reward_range, known_shift(lazy)
        self.loggers = None
        if self.has("logger"):
            self.loggers = [plain(label) for label in lazy.loggers.tolist()]
        self.logger_proba = self._many("logger_proba")
        self.logging_proba = self._many("logging_proba")
        self.reward = self._reward()
        self.omega = None
        if self.has("sample_weight"):
            self.omega = self._one("sample_weight")
        self.p = self._propensity()
        if self.p is None:
            self.reward = query.guarded(self.reward)

    @cached_property
    def actions(self):
        """Labels of the actions, which are asked for where they are not known."""
        return [plain(label) for label in self.lazy.labelled().actions.tolist()]

    def by_logger(self):
        """Return the rounds with loggers in the place of actions."""
        out = copy(self)
        out.role, out.actions, out.p, out.shares = "logger", self.loggers, None, None
        return out

    @property
    def has_several_loggers(self):
        """Whether rounds of more than one logger are told apart."""
        return self.loggers is not None and len(self.loggers) > 1

    @cached_property
    def upper(self):
        """One where a round is in the upper half, zero elsewhere."""
        above = self.reward > middle_of_range(self.reward_range)
        return self.query.define(where(above, 1.0, 0.0))

    def weighed(self, found):
        """Return a column times the sample weights; None stands for ones."""
        if self.omega is None or found is None:
            return self.omega if found is None else self.query.define(found)
        return self.query.define(self.omega * found)

    def counted(self, found):
        """Return a column that is null in rounds that weigh nothing."""
        if self.omega is not None:
            found = where(self.omega > 0, found, None)
        return self.query.define(found)

    # -- columns of the frame ----------------------------------------------------
    def has(self, role):
        return bool(self.lazy.roles.get(role))

    def _names(self, role):
        names = self.lazy.roles[role]
        return [names] if isinstance(names, str) else list(names)

    def _number(self, name, what, message, low=-FLOAT_MAX, high=FLOAT_MAX):
        """Return a column of numbers; others than within limits are refused."""
        found = self.query.number(name, what)
        self.query.check_number(found, f"column {name!r}: {message}", low, high, what)
        return found

    def _one(self, role):
        """Return the only column of a role."""
        [name], field = self._names(role), FIELDS[role]
        return self._number(name, role, f"{role} {field.must}", *field.range)

    def _many(self, role):
        """Return one column of probabilities per action, or logger, or None."""
        if not self.has(role):
            return None
        message = f"{role} must lie in [0, 1]"
        return [
            self._number(one, role, message, 0.0, ONE_ROUNDED)
            for one in self._names(role)
        ]

    def label(self, role):
        """Return the labels of a role."""
        name, *more = self._names(role)
        if more:
            raise TypeError(
                f"{role} is labelled by several columns, {[name, *more]}. Inside a "
                "lazy frame it must be one column: join them before the scan."
            )
        return self.column_label(name, role)

    def column_label(self, name, what):
        """Return the labels of a column of the frame."""
        found = self.query.label(name, what)
        message = f"column {name!r}: the {what} is missing"
        self.query.check_label(name, found, message, what)
        return found

    def _reward(self):
        found = self._one("reward")
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
            p = self._one("propensity")
        elif self.logging_proba is not None:
            p = self._logged(self.logging_proba)
        elif self.logger_proba is not None and self.has("logger"):
            p = self._of_label("logger", self.loggers, self.logger_proba)
        else:
            return None
        if not self.has("propensity"):
            name, field = "propensity", FIELDS["propensity"]
            message = f"the probability of the logged action {field.must}"
            self.query.check_number(p, message, *field.range, name)
        return self.query.guarded(p)

    def _logged(self, columns):
        """Return the entry of the logged action of one column per action."""
        return self._of_label("action", self.actions, columns)

    def _of_label(self, role, labels, columns):
        found, [column] = self.label(role), self._names(role)
        if len(labels) != len(columns):
            raise ValueError(
                f"{len(columns)} columns are named, one per {role}, but there are "
                f"{len(labels)} {role}s: {labels}. Name one "
                f"column per {role}."
            )
        flags = [label_is(found.key[1], label) for label in labels]
        known = sum_of([flag.astype(float) for flag in flags])
        self.query.check(
            self.query.define(known) > 0.5,
            f"column {column!r}: the label is not among the {len(labels)} {role}s",
        )
        pairs = zip(flags, columns, strict=True)
        return self.query.define(sum_of([where(*pair, 0.0) for pair in pairs]))

    # -- policies and models -----------------------------------------------------
    def policy(self, what, name):
        """Return the `PolicyColumns` of a policy."""
        who = "the policy" if name is None else f"policy {name!r}"
        names = self._columns_of(what, who)
        if isinstance(self.lazy.columns.get(what, what), str):
            message = "must hold probabilities of the logged actions in [0, 1]"
            self.query.refuse_codes(names[0], who)
            limits = f"{who} {message}", 0.0, ONE_ROUNDED
            return PolicyColumns(self, self._number(names[0], who, *limits), None)
        found = [self.query.number(one, who) for one in names]
        near = PROBA_TOLERANCE
        whole = self.query.define(sum_of(found))
        fit = [one >= 0 for one in found] + [whole >= 1 - near, whole <= 1 + near]
        self.query.check(
            all_of(fit),
            f"columns {names[0]!r} to {names[-1]!r}: the probabilities of {who} "
            "must be 0 or more and sum to 1",
            whole,
        )
        return PolicyColumns(
            self, self._of_label(self.role, self.actions, found), found
        )

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
            return self.query.define(sum_of(policy.table) * number), number
        who = f"the reward model of {name}"
        names = self._columns_of(source, who, "predictions")
        found = [self._number(one, who, "model values must be finite") for one in names]
        logged = self._logged(found)
        pairs = zip(policy.table, found, strict=True)
        return self.query.define(sum_of([pi * q for pi, q in pairs])), logged

    @cached_property
    def mixture(self):
        """The probability of the logged action under several loggers."""
        pairs = zip(self.loggers, self.logger_proba, strict=True)
        found = self.query.define(
            sum_of([proba * self.shares[label] for label, proba in pairs])
        )
        self.query.check_number(
            found,
            "logger_proba is 0 for every logger, but one of them took this action. "
            "Correct logger_proba",
            TINIEST,
            ONE_ROUNDED,
        )
        return self.query.define(where(found > 0, found, None))


class PolicyColumns:
    """What a policy does, as columns."""

    policy = array = None  # nothing but columns

    def __init__(self, rounds, pi, table):
        self.block, self.pi, self.table = rounds, pi, table
        self.logged_only = table is None
        self.w = self.b = None
        if rounds.p is not None:
            self.w = self.b = rounds.query.define(pi / rounds.p)
        if rounds.shares is not None:
            self.b = rounds.query.define(pi / rounds.mixture)

    def of(self, codes):
        """Return the probability of a set of actions."""
        return sum_of([self.table[code] for code in codes])
