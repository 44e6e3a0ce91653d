# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Per-round arrays of the rounds that enter: the arguments of every formula.

A round of sample weight 0 does not enter.
"""

from dataclasses import dataclass
from functools import cached_property
from math import inf, isfinite

import numpy as np

from skope_ope._parallel import dot
from skope_ope.evaluators.core._design import design_of
from skope_ope.evaluators.core._halves import rounds_of_halves
from skope_ope.evaluators.core._requires import LogFacts
from skope_ope.exceptions import RowError
from skope_ope.logs._row_container import check_row_labels
from skope_ope.logs._slate_logs import SlateLogs
from skope_ope.logs._validation import (
    as_numbers,
    check_distributions,
    check_finite,
    check_length,
    column_weights,
)


@dataclass(frozen=True, eq=False)
class WeightFactor:
    """What the importance weights of all rounds are multiplied by, beside pi / p."""

    values: np.ndarray  # of shape (n_rounds,)
    mean_is_one: bool = True  # in expectation, given the context and the action
    is_signed: bool = False  # whether it may be negative
    largest: float = inf  # a bound, of rounds that were not logged, too
    leaves_bias_out: str | bool = False  # a bias that no interval knows, in words


class PositiveRounds:
    """The rounds of some logs whose sample weight is positive."""

    shares = None  # stated for the loggers; else those of the rounds themselves
    outcomes = {}  # rewards of further outcomes, by name
    factors = ()  # of the importance weights, each a `WeightFactor`

    def __init__(self, all_logs, sample_weight=None):
        self.all_logs, self.sample_weight = all_logs, sample_weight
        self.mask, self.n, self.omega = None, len(all_logs), sample_weight
        if sample_weight is not None and not sample_weight.all():
            self.mask = sample_weight > 0
            self.n = int(np.count_nonzero(self.mask))
            scale = self.n / sample_weight.sum() if self.n else 0.0
            self.omega = sample_weight * scale

    @cached_property
    def facts(self):
        """What is known of the whole log: these are all of its rounds."""
        return LogFacts(len(self.all_logs), logs=self.all_logs)

    @cached_property
    def design(self):
        """Weight and cluster of every round."""
        return design_of(self.all_logs, self.omega)

    def reward(self, outcome, rows):
        """Return the rewards of an outcome in some rounds; None: those of the logs."""
        every = self.all_logs.reward if outcome is None else self.outcomes[outcome]
        return every[rows]

    def weights(self, w, rows):
        """Return the weights of some rounds: pi / p times all factors."""
        for factor in self.factors:
            w = w * factor.values[rows]
        return w

    @property
    def leaves_bias_out(self):
        """The biases of the factors that no interval knows, in words, or False."""
        told = [one.leaves_bias_out for one in self.factors if one.leaves_bias_out]
        return "; ".join(told) or False

    def of(self, values):
        """Return the last axis of an array without the rounds that do not enter."""
        return values if self.mask is None else values[..., self.mask]

    def counts(self, codes, n_codes):
        """Return how many rounds that enter have each code."""
        return np.bincount(self.of(codes), minlength=n_codes)

    @cached_property
    def logs(self):
        """Logs of the rounds that enter."""
        return self.all_logs if self.mask is None else self.all_logs[self.mask]

    @cached_property
    def unseen(self):
        """Codes of the actions that none of them took."""
        logs = self.all_logs
        if self.mask is None:
            return logs._unseen
        return np.flatnonzero(self.counts(logs.action_index, logs.n_actions) == 0)


class Part(PositiveRounds):
    """The rounds of a part of a log: they weigh what they weigh in the whole."""

    def __init__(self, logs, sample_weight=None, shares=None):
        super().__init__(logs, sample_weight)
        self.omega, self.shares = sample_weight, shares


# -- sample weights -------------------------------------------------------------------
def combined_weights(logs, sample_weight):
    """Product of the weights of the logs and those given, with mean one, or None."""
    weight = plain_weights(logs, sample_weight)
    if weight is None or (weight == weight[0]).all():
        return None
    return weight / weight.mean()


def plain_weights(logs, sample_weight, of_part=False):
    """Product of the weights of the logs and those given, as they are, or None."""
    if isinstance(logs, SlateLogs):
        weight = column_weights(logs, of_part)
    else:
        weight = getattr(logs, "sample_weight", None)
    if sample_weight is not None:
        given = as_numbers("sample_weight", sample_weight)
        check_length("sample_weight", given, len(logs), "the log")
        check_row_labels("sample_weight", sample_weight, logs)
        if given.min() < 0 or not given.any():
            raise ValueError(
                "sample_weight must be non-negative and positive somewhere, got a "
                f"minimum of {given.min():.6g}, a maximum of {given.max():.6g}."
            )
        weight = given if weight is None else weight * given
        if not weight.any():
            raise ValueError(
                "sample_weight times the weights of the logs is zero in every round: "
                "no round counts."
            )
    return weight


class Block:
    """Consecutive rounds of some logs, as every target and every job sees them."""

    loggers = None

    def __init__(self, logs, low, high, positive, shift, offsets, middle):
        rows = slice(low, high)
        self.low, self.high, self.logs, self.rows = low, high, logs, rows
        self.positive, self.shift, self.n_rounds = positive, shift, len(logs)
        self.codes, self.reward = logs.action_index[rows], logs.reward[rows]
        self.p = None if logs.propensity is None else logs.propensity[rows]
        self.omega = None if positive.omega is None else positive.omega[rows]
        self.available = None if logs.available is None else logs.available[rows]
        self._designs, self._extremes = {}, {}
        self._offsets, self._middle = offsets[: high - low], middle

    def of(self, design):
        """Return the design of these rounds; one object for all jobs that share it."""
        key = id(design)
        if key not in self._designs:
            self._designs[key] = design.block(self.low, self.high, self.upper)
        return self._designs[key]

    def extremes(self, values):
        """Return the smallest and the largest of an array, once for all that ask."""
        key = id(values)
        if key not in self._extremes:  # the array stays alive: ids are its own
            found = float(np.minimum.reduce(values)), float(np.maximum.reduce(values))
            self._extremes[key] = found, values
        return self._extremes[key][0]

    @cached_property
    def entering(self):
        """Which rounds enter: a mask, or None for all."""
        if self.omega is None or self.omega.all():
            return None
        return self.omega > 0

    @cached_property
    def smallest_propensity(self):
        """The smallest one of the rounds that enter."""
        some = self.p if self.entering is None else self.p[self.entering]
        return float(np.minimum.reduce(some, initial=inf))

    @cached_property
    def upper(self):
        """Rows of the rounds in the upper half."""
        return (self.reward > self._middle).nonzero()[0]

    @cached_property
    def rounds_of_halves(self):
        """Rounds of the lower and the upper half, and those with a reward but zero."""
        # all of the upper half have one, unless zero is above the middle
        return rounds_of_halves(self.reward, self.upper, self._middle >= 0)

    @cached_property
    def _flat(self):
        return self._offsets + self.codes

    def logged(self, table):
        """Entry of the logged action of every row of a table of all actions."""
        if table.strides[0] == 0:  # the same row for all rounds
            return table[0].take(self.codes)
        return table.ravel().take(self._flat)


class TargetBlock:
    """What a policy does in a block of rounds."""

    read = {}  # by id of an observer: what it read of the table, where that is gone

    def __init__(self, block, answer, mass_on=None):
        self.block, self.mass_on = block, mass_on
        answer = as_floats(answer)
        if answer.ndim == 1:
            self.table, self.pi = None, check_logged(answer, block.low)
        else:
            check_distributions("policy", answer, block.available, block.low)
            self.table, self.pi = answer, block.logged(answer)
        self.w = None
        if block.p is not None:
            self.w = block.positive.weights(self.pi / block.p, block.rows)
            self.w.flags.writeable = False  # formulas share it

    @cached_property
    def b(self):
        """Weights pi(a|x) / (probability under all loggers)."""
        b, block = self.pi / self.block.loggers.mixture, self.block
        return block.positive.weights(b, block.rows)

    @cached_property
    def missing(self):
        """(Weighted) sum of the policy's mass on what the logger could not do."""
        block, omega = self.block, self.block.omega
        proba, unseen = block.logs.logging_proba, block.positive.unseen
        if self.table is None and self.mass_on is None:
            return 0.0
        if proba is not None and self.table is not None:
            mu = proba[block.rows]
            if mu.min() > 0:
                return 0.0
            if omega is None:  # a sum over fewer entries is faster
                return float(self.table[mu == 0].sum())
            mass = (self.table * (mu == 0)).sum(axis=1)
        else:
            # where the logged action was certain, all others had probability 0
            certain = block.p is not None and block.p.max() >= 1
            if not certain and not unseen.size:
                return 0.0
            mass = self.of(unseen)
            if certain:
                mass = np.where(block.p >= 1, 1 - self.pi, mass)
        return float(mass.sum()) if omega is None else dot(omega, mass)

    @cached_property
    def impossible(self):
        """What the logger could not do, as far as `missing` knows: a mask (n, K)."""
        block = self.block
        if block.logs.logging_proba is not None:
            return block.logs.logging_proba[block.rows] == 0
        mask = np.zeros((len(self.pi), block.logs.n_actions), dtype=bool)
        mask[:, block.positive.unseen] = True
        if block.p is not None:
            mask |= (block.p >= 1)[:, None]
            mask[np.arange(len(mask)), block.codes] = False
        return mask

    def of(self, codes):
        """Return the policy's probability of a set of actions in every round."""
        if self.table is not None:
            return self.table[:, codes].sum(axis=1)
        return self.mass_on(codes)


class Rounds:
    """The arguments of every formula: arrays, or columns, of some rounds."""

    # w, r, n_rounds and shift; q and v where there is a model; pi or p; offset, what
    # was subtracted from rewards and model values.
    q = v = None
    offset, p = 0.0, 1.0

    def __init__(self, **given):
        self.__dict__.update(given)

    @classmethod
    def of_block(cls, target, values=None, offset=0.0, outcome=None):
        """Return the rounds of a block, of a policy and of the values of a model."""
        block, (v, q) = target.block, (None, None) if values is None else values
        reward = block.reward
        if outcome is not None:
            reward = block.positive.reward(outcome, block.rows)
        out = cls(w=target.w, pi=target.pi, target=target, block=block)
        return out._less(reward, q, v, offset, block.n_rounds, block.shift)

    @classmethod
    def of(cls, numbers, reward, offset, logs):
        """Return rounds of w, pi, q and v, and of rewards less an offset."""
        w, pi, q, v = numbers
        out = cls(w=w, b=w) if pi is None else cls(w=w, b=w, pi=pi)
        return out._less(reward, q, v, offset, len(logs), known_shift(logs))

    def _less(self, reward, q, v, offset, n_rounds, shift):
        """Take rewards and model values less an offset, and facts of the log."""
        if offset:
            reward = reward - offset
            q, v = (None if one is None else one - offset for one in (q, v))
        self.r, self.q, self.v, self.offset = reward, q, v, offset
        self.n_rounds, self.shift = n_rounds, shift
        return self

    @cached_property
    def pi(self):
        """Probabilities of the logged actions."""
        return np.minimum(self.w * self.p, 1.0)

    @cached_property
    def b(self):
        """Weights pi(a|x) / (probability under all loggers)."""
        return self.target.b

    @cached_property
    def gain(self):
        """Weighted rewards w r; one array for all evaluators that sum it."""
        return self.w * self.r

    @cached_property
    def residual(self):
        """What the model leaves unexplained, r - q."""
        if self.q is None:
            raise ValueError(
                "the terms read what a model leaves unexplained, and there is none: "
                "state requires = Requires(model=True)."
            )
        return self.r - self.q

    @cached_property
    def correction(self):
        """Weighted residual of the model, w (r - q)."""
        return self.w * self.residual


def weighted_reward(rounds, w):
    """Return w r; one array for all evaluators that sum it with the same weights."""
    return rounds.gain if w is rounds.w else w * rounds.r


def weighted_residual(rounds, w):
    """Return w (r - q), likewise."""
    return rounds.correction if w is rounds.w else w * rounds.residual


def known_shift(logs):
    """Return the known lower bound of the rewards where it is negative, otherwise 0."""
    return min(logs.reward_range[0], 0.0) if logs.reward_range else 0.0


def as_floats(answer):
    """Return what was said of a block as floats, the rows one after the other."""
    # So a table of any kind is converted block by block, and never a whole.
    answer = np.asarray(answer)
    if answer.strides[0] == 0:  # the same row for all rounds
        return np.asarray(answer, dtype=np.float64)
    return np.ascontiguousarray(answer, dtype=np.float64)


def check_logged(pi, low):
    """Probabilities of the logged actions lie in [0, 1]."""
    if not (pi.min() >= 0 and pi.max() <= 1 + 1e-9):  # NaN fails, too
        row = int(np.flatnonzero(~((pi >= 0) & (pi <= 1 + 1e-9)))[0])
        text = "policy must hold probabilities of the logged actions in [0, 1], got "
        raise RowError(f"{text}{pi[row]:.6g}", row + low, ". Correct it.")
    return pi


def model_values(target, table):
    """Return model values: sum_a pi(a|x) q(x, a), and that of the logged action."""
    q = as_floats(table)
    v = np.einsum("ij,ij->i", target.table, q)
    if not isfinite(dot(v, v)):  # then one of the entries may be at fault
        check_finite("reward_model", q, target.block.low)
    return v, target.block.logged(q)
