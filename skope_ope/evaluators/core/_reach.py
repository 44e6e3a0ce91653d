# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""How far the value of a round may lie from the estimate, seen or not.

Few rounds may hold most of what a policy earns, and a log may hold none of them. Where
the range of the rewards and the largest importance weight are known, so is the largest
round value: that of a round with the largest weight and the best or worst reward.
"""

from dataclasses import dataclass
from functools import partial
from math import inf, nan

import numpy as np

from skope_ope.evaluators.core._engine import Extract, terms_of
from skope_ope.evaluators.core._jobs import observers_of
from skope_ope.evaluators.core._rounds import StoredRounds
from skope_ope.evaluators.core._tally import bins_of, edges_of
from skope_ope.logs._known_range import known_range

LOGGED = "largest logged weight"
# What larger weights than the bound may bring is below this share of a standard error:
# a bias of that size takes .007 off a coverage of .95.
SPARE = 0.25
MANY_ROUNDS = 1000  # effective ones, which show the tails of the rewards


@dataclass(frozen=True)
class Reach:
    """What is known of the round values beyond those that were seen.

    A round value is linear in its reward, so that it is furthest from the estimate
    with the best or the worst one. Both are kept apart: in a difference of two values
    they share the reward.

    Attributes
    ----------
    low, high : float
        Range of the value.
    best, worst : tuple (float, float)
        Lowest and highest deviation of a round value from the estimate with the best
        and with the worst reward. NaN: not known.
    max_weight : float or None
        The bound on the importance weights behind them; None: none was needed.
    source : str or None
        Where it comes from.
    of_group : tuple (float, float)
        What a typical group may add upwards and downwards, if all its rewards are the
        best or the worst; (0, 0) for independent rounds.
    lost : float
        Share of the policy's decisions of which the logs tell nothing: what they bring
        lies anywhere in the range.
    """

    low: float
    high: float
    best: tuple = (nan, nan)
    worst: tuple = (nan, nan)
    max_weight: float | None = None
    source: str | None = None
    of_group: tuple = (0.0, 0.0)
    lost: float = 0.0

    @property
    def up(self):
        """Largest deviation upwards."""
        return max(self.best[1], self.worst[1])

    @property
    def down(self):
        """Largest deviation downwards."""
        return -min(self.best[0], self.worst[0])

    def __sub__(self, other):
        """Return the reach of a difference of two values of the same rounds."""
        largest = self if (self.max_weight or 0) >= (other.max_weight or 0) else other
        return Reach(
            self.low - other.high,
            self.high - other.low,
            (self.best[0] - other.best[1], self.best[1] - other.best[0]),
            (self.worst[0] - other.worst[1], self.worst[1] - other.worst[0]),
            largest.max_weight,
            largest.source,
            (
                self.of_group[0] + other.of_group[1],
                self.of_group[1] + other.of_group[0],
            ),
            # of the range of the difference, which is that of both
            (self._lost_span + other._lost_span) / (self._span + other._span),
        )

    @property
    def _span(self):
        return self.high - self.low

    @property
    def _lost_span(self):
        return self.lost * self._span


class DifferenceReach:
    """The reach of a difference of two values from the same rounds.

    Parameters
    ----------
    a, b : PolicyValue
    """

    def __init__(self, a, b):
        self.a, self.b = a, b

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

    @property
    def n_effective(self):
        """The smaller of the effective numbers of rounds."""
        return min(one.effective_sample_size for one in (self.a, self.b))

    def take(self, rows):
        """Return the reach of some rounds: only the range is known."""
        return StatedReach(self.limits, self.limits and Reach(*self.limits))


class StatedReach:
    """The reach that was found before the rounds were left behind.

    Parameters
    ----------
    limits : tuple (float, float) or None
        The known range of the rewards.
    reach : Reach or None
    """

    def __init__(self, limits, reach):
        self.limits, self.reach = limits, reach

    def __call__(self, value, max_weight=None, error=None):
        """Return the reach; another bound on the weights cannot be tried."""
        if max_weight is not None:
            raise ValueError(
                "max_weight cannot be stated for a value whose rounds are not at hand "
                "(pickled values do not keep them). Ask for the interval before."
            )
        return self.reach

    def take(self, rows):
        """Return the reach of some rounds: only the range is known."""
        reach = None if self.limits is None else Reach(*self.limits)
        return StatedReach(self.limits, reach)


class CornerReach:
    """The reach of an estimate from terms that a round might have had.

    Parameters
    ----------
    limits : tuple (float, float) or None
        The known range of the rewards.
    corners : callable
        Takes a range of the rewards, a bound on the weights, or None, and what share of
        the policy's probability may have larger ones. Returns for the worst and for the
        best reward a list of terms of all rounds (with the largest and with the
        smallest weight); for both the terms of all rounds with their own weights; the
        bound that was used; and where it comes from.
    rows : ndarray of int, default=None
        Places of the rounds of the estimate; `None`: all.
    reward : ndarray, default=None
        The rewards of the log, where their range is not known.
    weights : callable, default=None
        Returns the importance weights of the rounds, for an evaluator that has a reward
        model: the estimate can be compared with one that has none.
    lost : float, default=0.0
        Share of the policy's decisions of which the logs tell nothing.
    """

    def __init__(self, limits, corners, rows=None, reward=None, weights=None, lost=0.0):
        self.limits, self.corners, self.rows = limits, corners, rows
        self.reward, self.weights, self.lost = reward, weights, lost

    def __call__(self, value, max_weight=None, error=None):
        """Return the `Reach` of a `PolicyValue`, or None where no range is known.

        `error` is the standard error beside which rare weights are neglected; None:
        that of the value.
        """
        if self.limits is None:
            return None
        return self._within(self.limits, value, max_weight, error)

    def of_seen_rewards(self, value):
        """Return the `Reach` if no reward were beyond those of the log.

        A single round may then be as heavy as the heaviest and bring the rarest reward,
        though no round was both.
        """
        limits = float(self.reward.min()), float(self.reward.max())
        return self._within(limits, value)

    def _within(self, limits, value, max_weight=None, error=None):
        low, high = limits
        error = value.standard_error if error is None else error
        spare = SPARE * error / (high - low) if error > 0 and high > low else 0.0
        corners, own, max_weight, source = self.corners(limits, max_weight, spare)
        worst, best = (self._extremes(value, terms) for terms in corners)
        of_group = self._of_group(value, own)
        about = max_weight, source, of_group, self.lost
        return Reach(*limits, best, worst, *about)

    def _changes(self, value, terms):
        """Return the deviations of round values with some terms."""
        if self.rows is not None:
            terms = [term[self.rows] for term in terms]
        return value._estimate.round_values(terms, value._rows.design) - value.value

    def _extremes(self, value, corners):
        """Return the lowest and the highest deviation."""
        changes = [self._changes(value, terms) for terms in corners]
        lows, highs = ([f(change) for change in changes] for f in (np.min, np.max))
        return float(min(lows)), float(max(highs))

    def _of_group(self, value, own):
        """Return what a typical group may add upwards and downwards."""
        design = value._rows.design
        if not design.clustered:
            return 0.0, 0.0
        sums = [np.bincount(design.cluster, self._changes(value, one)) for one in own]
        up, down = np.maximum.reduce(sums), -np.minimum.reduce(sums)
        return _typical(up), _typical(down)

    def take(self, rows):
        """Return the reach of the rounds at some places (an array of ints)."""
        places = rows if self.rows is None else self.rows[rows]
        return CornerReach(
            self.limits, self.corners, places, self.reward, lost=self.lost
        )


def _typical(size):
    """Return the mean size, each counted by its size, of those above zero."""
    size = np.maximum(size, 0.0)
    total = float(size.sum())
    return float(size @ size) / total if total else 0.0


class LinearReach:
    """The reach of round values that move with the reward of their round.

    Parameters
    ----------
    limits : tuple (float, float) or None
        The known range of the rewards.
    slope : ndarray of shape (n_rounds,)
        What one unit of reward adds to the value of its round.
    reward : ndarray of shape (n_rounds,)
        The rewards.
    """

    def __init__(self, limits, slope, reward):
        self.limits, self.slope, self.reward = limits, slope, reward

    def __call__(self, value, max_weight=None, error=None):
        """Return the `Reach` of a `PolicyValue`, or None where no range is known."""
        if self.limits is None:
            return None
        _refuse_stated(max_weight)
        change = value.round_values - value.value
        ends = []
        for end in self.limits:
            moved = change + self.slope * (end - self.reward)
            ends.append((float(moved.min()), float(moved.max())))
        worst, best = ends
        return Reach(*self.limits, best, worst)

    def take(self, rows):
        """Return the reach of some rounds: only the range is known."""
        return StatedReach(self.limits, self.limits and Reach(*self.limits))


def _refuse_stated(max_weight):
    if max_weight is not None:
        raise ValueError(
            "max_weight cannot be stated for this evaluator: its interval takes the "
            "weights that were logged."
        )


def of_seen_rewards(value, few=MANY_ROUNDS):
    """Return the `Reach` if no reward were beyond those of the log, or None.

    With many effective rounds, `few` or more, they show the tails of the rewards
    themselves, and None is returned; 0 asks in any case.
    """
    find = value._find_reach
    size = getattr(find, "n_effective", value.effective_sample_size)
    if not hasattr(find, "of_seen_rewards") or (few and size >= few):
        return None
    return find.of_seen_rewards(value)


def range_alone(logs):
    """Return a reach of which only the range of the rewards is known."""
    limits = known_range(logs)
    return StatedReach(limits, None if limits is None else Reach(*limits))


def reach_of_job(job, positive, lost=0.0):
    """Return the `CornerReach` of a static evaluator on one policy.

    Parameters
    ----------
    job : Job
        What it did.
    positive : PositiveRounds
        The rounds.
    """
    logs, plain = positive.all_logs, None
    if job.source is not None:
        plain = partial(weights_of_job, job, positive)
    corners = partial(_corners, job, positive)
    given = {"reward": logs.reward, "weights": plain, "lost": lost}
    return CornerReach(known_range(logs), corners, **given)


def _corners(job, positive, limits, max_weight=None, spare=0.0):
    """Return the terms of all rounds with the largest weight, or none.

    A round of every stratum is as heavy as the heaviest that the stratum may have.
    """
    logs, evaluator = positive.all_logs, job.evaluator
    weight = evaluator._tallied_weight
    parts = Extract(lambda r: [x for x in (weight(r), r.q, r.v) if x is not None])
    bound = WeightBound(logs, job.target, several=job.design.n_strata > 1)
    observers = [*observers_of([job], positive).values(), bound]
    w, *model = terms_of(
        parts, logs, job.target, job.source, positive, observers, bound.needs_tables
    )
    q, v = (part - job.offset for part in model) if model else (None, None)
    largest, source = bound.largest(w, job.design, spare)
    if max_weight is not None:
        largest, source = np.full(len(w), stated_weight(max_weight, w)), "stated"
    shift = min(logs.reward_range[0], 0.0) if logs.reward_range else 0.0
    known = {"q": q, "v": v, "n_rounds": len(logs), "shift": shift}

    def terms(weights, end):
        reward = np.full(len(w), end - job.offset)
        return evaluator._terms(StoredRounds(w=weights, b=weights, r=reward, **known))

    none = np.zeros(len(w))
    corners = [[terms(weights, end) for weights in (largest, none)] for end in limits]
    own = [terms(w, end) for end in limits]
    return corners, own, float(largest.max()), source


def weights_of_job(job, positive):
    """Return the importance weights of all rounds, as the evaluator takes them."""
    weight = job.evaluator._tallied_weight
    parts = Extract(lambda rounds: (weight(rounds),))
    observers = observers_of([job], positive).values()
    [w] = terms_of(parts, positive.all_logs, job.target, None, positive, observers)
    return w


def weighted_corners(terms, w, reward, limits, max_weight=None, spare=0.0):
    """Return the terms of all rounds with the best and with the worst reward.

    The first term is w r, or moves with the reward as w r does; where there is a
    second it is w.

    Parameters
    ----------
    terms : sequence of k ndarray of shape (n_rounds,)
        The terms.
    w, reward : ndarray of shape (n_rounds,)
        Weights and rewards.
    limits : tuple (float, float)
        Range of the rewards.
    max_weight : float, default=None
        Not known here: the weights are those that were logged.
    spare : float, default=0.0
        Not needed.
    """
    _refuse_stated(max_weight)
    own = [(terms[0] + w * (end - reward), *terms[1:]) for end in limits]
    return [[one] for one in own], own, float(w.max(initial=0.0)), LOGGED


def stated_weight(max_weight, w):
    """Return a stated bound on the weights, which none of them exceeds."""
    if not 0 < max_weight < inf:
        raise ValueError(f"max_weight must be a positive number, got {max_weight!r}.")
    row = int(np.argmax(w))
    if w[row] > max_weight * (1 + 1e-9):
        raise ValueError(
            f"max_weight={max_weight:.6g} is below the importance weight of row {row}, "
            f"{w[row]:.6g}: it bounds all weights that the policy may have on such "
            "logs, those of the log included."
        )
    return float(max_weight)


class WeightBound:
    """Observes the largest importance weight that a policy may have.

    It is known where the whole logging distribution is, or where propensities belong to
    the actions alone: the largest, but for those that so little of the policy's
    probability has that all that it may bring is lost in the standard error. Elsewhere
    it is the largest weight of a logged action, or, where all of these are zero, one
    over the smallest propensity.

    Parameters
    ----------
    logs : BanditLogs
        The rounds.
    target : Target
        The policy.
    several : bool, default=False
        Whether several loggers acted, so that weights are against more than the
        propensities.

    Attributes
    ----------
    mass : ndarray
        (Unnormalised) probability that the policy gives to weights, by their bin.
    found : float
        The largest of them.
    """

    def __init__(self, logs, target, several=False):
        self.logs, self.mass, self.found = logs, [], 0.0
        self.proba = self.by_action = None
        if several or target.logged_only:
            return
        self.proba = logs.logging_proba
        if self.proba is None:
            self.by_action = propensity_by_action(logs)

    @property
    def needs_tables(self):
        """Whether it needs the policy's probabilities of all actions."""
        return self.proba is not None or self.by_action is not None

    def begin(self, block):
        """Nothing is to be done for a block alone."""

    def see(self, key, target):
        """Take what a policy does in a block."""
        if not self.needs_tables:
            return
        table, mu = target.table, self.by_action
        if mu is None:
            mu = self.proba[target.block.rows]
        ratio = np.divide(table, mu, out=np.zeros_like(table), where=mu > 0)
        self.found = max(self.found, float(ratio.max()))
        bins = bins_of(ratio.ravel())
        seen, place = np.unique(bins, return_inverse=True)
        self.mass.append((seen, np.bincount(place, np.ravel(table))))

    def _known(self, spare):
        """Return the largest weight but for a share of the policy's probability."""
        if not self.mass:
            return 0.0
        seen, mass = (np.concatenate(parts) for parts in zip(*self.mass, strict=True))
        mass[seen == 0] = 0.0  # of weight zero, or of what the logger never does
        order = np.argsort(-seen, kind="stable")
        above = np.cumsum(mass[order])
        place = order[above > spare * len(self.logs)]
        edge = float(edges_of(seen[place[:1]] + 1)[0]) if place.size else 0.0
        return min(edge, self.found)

    def largest(self, w, design, spare=0.0):
        """Return the bound of every round, and where it comes from.

        Parameters
        ----------
        w : ndarray of shape (n_rounds,)
            Weights of the logged actions.
        design : Design
            Strata of the rounds.
        spare : float, default=0.0
            The share of the policy's probability that may have larger weights.
        """
        logged, known = float(w.max(initial=0.0)), self._known(spare)
        if known > 0:
            source = "propensities of the actions"
            if self.proba is not None:
                source = "logging_proba"
            return np.full(len(w), max(known, logged)), source
        if not logged > 0:
            smallest = float(self.logs.propensity.min())
            return np.full(len(w), 1 / smallest), "smallest propensity"
        if design.n_strata == 1:
            return np.full(len(w), logged), LOGGED
        by_stratum = np.zeros(design.n_strata)
        np.maximum.at(by_stratum, design.stratum, w)
        return by_stratum[design.stratum], LOGGED


def propensity_by_action(logs):
    """Return the propensity of every action where it belongs to the action alone.

    Actions that were never logged share what is left.

    Returns
    -------
    propensity : ndarray of shape (n_actions,) or None
    """
    if logs.available is not None:
        return None
    by_action = np.zeros(logs.n_actions)
    by_action[logs.action_index] = logs.propensity
    if (by_action[logs.action_index] != logs.propensity).any():
        return None
    left = 1 - by_action.sum()
    if len(logs.unseen) and left > 1e-6:
        by_action[logs.unseen] = left / len(logs.unseen)
    return by_action
