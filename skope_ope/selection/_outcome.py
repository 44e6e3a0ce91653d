# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""How amounts of an outcome are told: as shares, amounts or costs, with their name."""

import re
from dataclasses import dataclass
from math import floor, isfinite, isnan, log10

from skope_ope.logs._shown_numbers import decimals, error_text, fixed

LOGGER = "logger"  # the baseline that is no policy, but the mean reward of the logs
THE_SYSTEM = "the system that made the log"  # what sentences call it
MORE_PLACES = 3  # of decimals, for a limit that is about zero
# Share of a base from which on its lower limit is not near zero; and where rewards of
# both signs cancel in it
LEAST_BASE, LEAST_BALANCE = 0.5, 0.8
# Rewards that are costs are often called by what they are the negative of.
NEGATIVE = re.compile(r"^(-\s*|(minus|neg|negative)[\s_.-]+)", re.IGNORECASE)


@dataclass(frozen=True)
class Outcome:
    """What the rewards of a log are, and how their means and gains are written."""

    name: str  # that of the column, quoted; "reward" or "cost" where it is not known
    is_named: bool  # whether it is known
    is_share: bool  # whether all rewards are 0 or 1, so that a mean is a share
    is_cost: bool  # whether no reward is positive, so that less of it is better
    is_balance: bool  # whether rewards have both signs
    of_values: int  # decimal places of values in tables
    # Decimal places of gains, and of both in sentences: what is subtracted in the head
    # agrees with the gain
    of_gains: int

    @classmethod
    def of(cls, rewards, values, gains, limits=()):
        """Return the outcome of `rewards_of` a log, written as errors ask."""
        scale = 100 if rewards[2] else 1
        errors = ([scale * one.standard_error for one in s] for s in (values, gains))
        places = [*map(decimals, errors)]
        for limit in limits:  # what is not zero does not look like zero
            size = scale * abs(limit)
            if 10 ** -(places[1] + MORE_PLACES) < size < 0.5 * 10 ** -places[1]:
                places[1] = -floor(log10(size))
        return cls(*rewards, *places)

    @property
    def _sign(self):
        return -1 if self.is_cost else 1

    # -- numbers -----------------------------------------------------------------------
    def value(self, x):
        """Return a value or its limit for a table; "-" where there is none."""
        return self._text(x, self.of_values, "%" * self.is_share)

    def error(self, x):
        """Return the standard error of a value for a table."""
        factor = 100 if self.is_share else 1
        return error_text(factor * x, self.of_values, "%" * self.is_share)

    def limit(self, x, sign=""):
        """Return a gain or its limit without its unit."""
        return self._text(x, self.of_gains, "", sign)

    def _text(self, x, places, unit, sign=""):
        if not isfinite(x):
            return "-"
        return fixed(100 * x if self.is_share else x, places, sign, unit)

    # -- words -------------------------------------------------------------------------
    @property
    def gain_word(self):
        """What a gain is called."""
        return "saving" if self.is_cost else "gain"

    @property
    def loss_word(self):
        """What a loss is called."""
        return "an additional cost" if self.is_cost else "a loss"

    @property
    def better(self):
        """What a better policy has."""
        return f"{'less' if self.is_cost else 'more'} {self.name}"

    @property
    def unit(self):
        """What a gain is counted in."""
        if not self.is_share:
            return f"{self.name} per round"
        return f"points of {self.name}" if self.is_named else "points"

    def gain(self, x, sign="", named=True):
        """Return a gain with its unit, which names the outcome where it is not told."""
        unit = "points" if self.is_share else "per round"
        unit = self.unit if named and self.is_named else unit
        return f"{self.limit(x, sign)} {unit}"

    def span(self, gain, low, high, named=True):
        """Return a signed gain with its unit and its limits; of costs, their change."""
        gain, *limits = (self._sign * x for x in (gain, low, high))
        limits = " to ".join(self.limit(x, "+") for x in sorted(limits))
        return f"{self.gain(gain, '+', named)}, {limits}"

    def pair(self, value, reference):
        """Return what a policy would have had, and what the baseline had."""
        unit = "%" * self.is_share
        told = [f"{self.limit(self._sign * x)}{unit}" for x in (value, reference)]
        told = " instead of ".join(told)
        if self.is_share:
            return f"{self.name if self.is_named else 'a reward'} in {told}"
        if self.is_named and not self.is_cost:
            return f"{told} {self.unit}"
        what = f"a cost in {self.name}" if self.is_named else f"a {self.name}"
        return f"{what} of {told} per round"

    # -- relative gains ----------------------------------------------------------------
    def relative(self, lift, level, sign=1):
        """Return a relative gain and a text of its limits; None about a base near 0."""
        least = min(self._sign * limit for limit in lift._baseline_limits(level))
        base, gain = self._sign * lift.baseline, self._sign * lift.gain
        share = LEAST_BALANCE if self.is_balance else LEAST_BASE
        is_above = base + gain > 0 and least > share * base > 0
        if isnan(lift.value) or not is_above:
            return None
        limits = sorted(sign * limit for limit in lift._interval(level))
        known = not any(map(isnan, limits))
        return sign * lift.value, f" ({' to '.join(map(percent, limits))})" * known

    def compared(self, lift, level, against):
        """Return a relative gain as a sentence in a list, or an empty list."""
        found = self.relative(lift, level, self._sign)
        if found is None:
            return []
        size, more = percent(abs(found[0]), ""), "more" if found[0] > 0 else "less"
        return [f"That is {size} {more} {self.name} than {against}{found[1]}."]


def rewards_of(log):
    """Return the first five fields of an outcome, of rounds, sums of them, or None."""
    ends = () if log is None else log._reward_extremes
    is_cost = bool(ends) and ends[0] < 0 >= ends[1]
    is_balance = bool(ends) and ends[0] < 0 < ends[1]
    called = str(getattr(log, "reward_name", None) or "")
    called = NEGATIVE.sub("", called) if is_cost else called
    name = f"'{called}'" if called else "cost" if is_cost else "reward"
    is_share = log is not None and log._says_yes_and_no
    return name, bool(called), is_share, is_cost, is_balance


def percent(x, sign="+"):
    """Return a relative gain or its limit: whole percent, or two digits."""
    if not isfinite(x):
        return "-"
    places = 0 if abs(x) >= 0.1 else 1
    return f"{100 * x:{sign},.{places}f}%"
