# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""How far the value of a round may lie from the estimate, seen or not.

Few rounds may hold most of what a policy earns, and a log may hold none of them. Where
the range of the rewards and the largest importance weight are known, so is the largest
round value: that of a round with the largest weight and the best or worst reward.
"""

from copy import copy
from dataclasses import dataclass, field
from functools import cached_property
from math import nan

import numpy as np

from skope_ope._parallel import dot
from skope_ope.evaluators.core._blocks import blocks
from skope_ope.evaluators.core._implied_weights import lasting, share_behind

# What larger weights than the bound may bring is below this share of a standard error:
# a bias of that size takes .007 off a coverage of .95.
SPARE = 0.25
MANY_ROUNDS = 200  # effective ones, which show the tails of the rewards


@dataclass(frozen=True)
class Reach:
    """What is known of the round values beyond those that were seen."""

    # A round value is linear in its reward, so that it is furthest from the estimate
    # with the best or the worst one, or with one that heavier rounds have. These are
    # kept apart: in a difference of two values they share the reward and the round.

    low: float  # range of the value
    high: float  # range of the value
    # By reward, of shape (3, m): sample weights that a round may have, and its lowest
    # and its highest deviation with each, linear from zero on. None: not known
    ends: dict = field(default_factory=dict)
    # The bound on the importance weights behind them; None: none was needed
    max_weight: float | None = None
    source: str | None = None  # where it comes from
    # What a typical group may add upwards and downwards, if all its rewards are the
    # best or the worst; (0, 0) for independent rounds
    of_group: tuple = (0.0, 0.0)
    # Share of the policy's decisions of which the logs tell nothing: what they bring
    # lies anywhere in the range
    lost: float = 0.0
    implied: tuple = ()  # `ImpliedWeights` of what the logs may lack

    @property
    def up(self):
        """Largest deviation upwards."""
        return float(self._any[2, 0])

    @property
    def down(self):
        """Largest deviation downwards."""
        return -float(self._any[1, 0])

    @cached_property
    def _any(self):
        """The largest sample weight and deviations of all rewards, as in `ends`."""
        found = np.hstack([*self.ends.values()] or [np.full((3, 1), nan)])
        return np.array([[found[0].max()], [found[1].min()], [found[2].max()]])

    def __sub__(self, other):
        """Return the reach of a difference of two values of the same rounds."""
        span = self._span + other._span
        largest = self if (self.max_weight or 0) >= (other.max_weight or 0) else other
        return Reach(
            self.low - other.high,
            self.high - other.low,
            {
                reward: _less(*(x.ends.get(reward, x._any) for x in (self, other)))
                for reward in self.ends | other.ends
            },
            largest.max_weight,
            largest.source,
            (
                self.of_group[0] + other.of_group[1],
                self.of_group[1] + other.of_group[0],
            ),
            # of the range of the difference, which is that of both
            (self._lost_span + other._lost_span) / span
            if span  # rewards that are all alike have no range
            else (self.lost + other.lost) / 2,
            (*self.implied, *(one.turned for one in other.implied)),
        )

    @property
    def _span(self):
        return self.high - self.low

    @property
    def _lost_span(self):
        return self.lost * self._span


def at_ends(limits, worst, best, omega=1.0):
    """Return `Reach.ends` of rounds of one sample weight, at the ends of a range."""
    pairs = zip(limits, (worst, best), strict=True)
    return {end: np.array([[omega], [low], [high]]) for end, (low, high) in pairs}


def _less(one, other):
    """Return the deviations of a difference, at all weights where either bends."""
    at = np.union1d(one[0], other[0])
    low, high, least, most = (
        np.interp(at, [0.0, *omega], [0.0, *row])
        for omega, *rows in (one, other)
        for row in rows
    )
    return np.stack([at, low - most, high - least])


class FindsReach:
    """What finds the `Reach` of a value: what most of them have in common."""

    of_halves = False

    def without_model(self, value):
        """Return None: there is none, or another estimate has no meaning."""

    def take(self, rows):
        """Return the reach of some rounds: only the range is known."""
        return range_only(self.limits)


class DifferenceReach(FindsReach):
    """The reach of a difference of two values from the same rounds."""

    smooth = None  # it is no part of another difference

    def __init__(self, a, b):
        self.a, self.b = a, b

    @property
    def of_halves(self):
        """Whether sums in two halves say how both spread."""
        return self.a._is_of_halves and self.b._is_of_halves

    @property
    def limits(self):
        """Range of the difference, or None."""
        low, high = self.a._limits, self.b._limits
        if low is None or high is None:
            return None
        return low[0] - high[1], low[1] - high[0]

    def __call__(self, value, max_weight=None, error=None):
        """Return the `Reach` of the difference, or None where no range is known."""
        error = value.standard_error if error is None else error
        # what both leave aside together must be small beside the difference's error
        ends = [one._reach(max_weight, error / 2) for one in (self.a, self.b)]
        return None if None in ends else ends[0] - ends[1]

    def of_seen_rewards(self, value):
        """Return the `Reach` if no reward were beyond those of the log, or None."""
        ends = [of_seen_rewards(one, few=0) for one in (self.a, self.b)]
        return None if None in ends else ends[0] - ends[1]

    def implied(self, value):
        """Return what the log may lack of both policies."""
        return *implied_of(self.a), *(one.turned for one in implied_of(self.b))

    @property
    def n_effective(self):
        """The smaller of the effective numbers of rounds."""
        return min(one.effective_sample_size for one in (self.a, self.b))

    def without_model(self, value):
        """Return the difference of the values without reward models, or None."""
        pair = self.a, self.b
        found = [without_model(one) for one in pair]
        if found == [None, None]:
            return None
        one, other = (f or v for f, v in zip(found, pair, strict=True))
        return one - other


class StatedReach(FindsReach):
    """The reach that was found before the rounds were left behind."""

    smooth = None  # see `LargestDeviation`; None: a value that is no part of another
    halves = None  # the estimate whose sums are in two halves, of a part of another
    of_all_weights = None  # the reach that neglects none, where there are rare ones

    def __init__(self, limits, reach, other=None, deviations=None):
        self.limits, self.reach, self.other = limits, reach, other
        self.deviations = deviations  # numbers of `Deviations`, where they were found

    def estimate_of_halves(self, value):
        """Return the estimate whose sums are in two halves, as it was found."""
        return self.halves

    def effective_rounds(self, value):
        """Return those of the halves, as they were found."""
        return self.rounds

    def without_model(self, value):
        """Return the value of the same rounds without a reward model, or None."""
        return self.other

    def __call__(self, value, max_weight=None, error=None):
        """Return the reach; another bound on the weights cannot be tried."""
        if max_weight is not None:
            raise ValueError(
                "max_weight cannot be used for this value: its interval needs no bound "
                "on the weights, or it was pickled, which keeps no rounds. "
                "Leave it out, or ask for the interval before."
            )
        if error is None or error >= value.standard_error:
            return self.reach
        return self.of_all_weights or self.reach


class CornerReach(FindsReach):
    """The reach of an estimate from terms that a round might have had."""

    def __init__(
        self,
        limits,
        corners,
        rows=None,
        reward=None,
        lost=0.0,
        alike=False,
    ):
        self.limits, self.corners, self.rows = limits, corners, rows
        self.reward, self.lost, self.alike = reward, lost, alike

    def __call__(self, value, max_weight=None, error=None):
        """Return the `Reach` of a `PolicyValue`, or None where no range is known."""
        if self.limits is None:
            return None
        return self._within(self.limits, value, max_weight)

    def of_seen_rewards(self, value):
        """Return the `Reach` if no reward were beyond those of the log."""
        # A single round may then be as heavy as the heaviest and bring the rarest
        # reward, though no round was both.
        limits = float(self.reward.min()), float(self.reward.max())
        return self._within(limits, value)

    def _within(self, limits, value, max_weight=None):
        corners, own, max_weight, source = self.corners(limits, max_weight)
        worst, best = (self._extremes(value, terms) for terms in corners)
        of_group = self._of_group(value, own)
        about = max_weight, source, of_group, self.lost
        ends = at_ends(limits, worst, best, value._rows.design.heaviest)
        return Reach(*limits, ends, *about)

    def _changes(self, value, terms, rows=None):
        """Return the deviations of the round values of some rounds, with some terms."""
        places = slice(None) if rows is None else rows
        if self.rows is not None:
            places = self.rows[places]
        design = value._rows.design
        return value._estimate.round_values(terms(places), design, rows) - value.value

    def _extremes(self, value, corners):
        """Return the lowest and the highest deviation."""
        lows, highs, design = [], [], value._rows.design
        parts = [block.rows for block in blocks(design.n_rounds)]
        alike = self.alike and design.n_strata == 1 and design.omega is None
        for terms in corners:
            for rows in [slice(0, 1)] if alike else parts:
                change = self._changes(value, terms, rows)
                lows.append(float(change.min()))
                highs.append(float(change.max()))
        return float(np.min(lows)), float(np.max(highs))  # NaN stays

    def _of_group(self, value, own):
        """Return what a typical group may add upwards and downwards."""
        design = value._rows.design
        if not design.clustered:
            return 0.0, 0.0
        sums = [np.bincount(design.cluster, self._changes(value, one)) for one in own]
        up, down = np.maximum.reduce(sums), -np.minimum.reduce(sums)
        return typical(up), typical(down)

    def take(self, rows):
        """Return the reach of the rounds at some places (an array of ints)."""
        places = rows if self.rows is None else self.rows[rows]
        out = copy(self)
        out.rows = places
        return out


def typical(size):
    """Return the mean size, each counted by its size, of those above zero."""
    size = np.maximum(size, 0.0)
    total = float(size.sum())
    return dot(size, size) / total if total else 0.0


class LinearReach(FindsReach):
    """The reach of round values that move with the reward of their round."""

    def __init__(self, limits, slope, reward):
        self.limits, self.slope, self.reward = limits, slope, reward

    def __call__(self, value, max_weight=None, error=None):
        """Return the `Reach` of a `PolicyValue`, or None where no range is known."""
        if self.limits is None:
            return None
        refuse_stated(max_weight)
        change = value.round_values - value.value
        ends = []
        for end in self.limits:
            moved = change + self.slope * (end - self.reward)
            ends.append((float(moved.min()), float(moved.max())))
        return Reach(*self.limits, at_ends(self.limits, *ends))


def refuse_stated(max_weight):
    """Raise where a bound of the weights is stated that would not be used."""
    if max_weight is not None:
        raise ValueError(
            "max_weight cannot be used for this evaluator: its interval takes the "
            "weights that were logged."
        )


def of_seen_rewards(value, few=MANY_ROUNDS):
    """Return the `Reach` if no reward were beyond those of the log, or None."""
    # With many effective rounds, `few` or more, they show the tails of the rewards
    # themselves, and None is returned; 0 asks in any case.
    find = value._find_reach
    size = getattr(find, "n_effective", value.effective_sample_size)
    if not hasattr(find, "of_seen_rewards") or (few and size >= few):
        return None
    return find.of_seen_rewards(value)


def implied_of(value):
    """Return the `ImpliedWeights` of a value, where the range is that of the log."""
    find = value._find_reach
    return find.implied(value) if hasattr(find, "implied") else ()


def lasting_reach(value):
    """Return by how much its limits are further, however many rounds come."""
    return lasting(_implied_in(value))


def hidden_share(value, low, high):
    """Return the share of a policy behind the distance of the limit towards zero."""
    side, distance = (
        (0, value.value - low) if value.value > 0 else (1, high - value.value)
    )
    return share_behind(_implied_in(value), distance, side)


def _implied_in(value):
    """Return the `ImpliedWeights` for which the intervals of a value allow."""
    reach = value._reach()
    return implied_of(value) if reach is None else reach.implied


def range_only(limits):
    """Return a reach of which the range is known, (low, high), or not even that."""
    return StatedReach(limits, None if limits is None else Reach(*limits))


def without_model(value):
    """Return the value of the same rounds without a reward model, or None."""
    find = value._find_reach
    return None if find is None else find.without_model(value)


def terms_at(*terms):
    """Return the function of some rounds that gives their terms, of those of all."""
    return lambda rows: tuple(term[rows] for term in terms)
