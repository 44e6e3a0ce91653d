# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""What is known of a log from its parts: counts and extremes that add up."""

from contextlib import suppress
from functools import cached_property
from math import inf, nan

import numpy as np

from skope_ope.logs._factorise import objects

FORMAT = 1  # of the table
NUMBERS = (
    "n",
    "n_logged",
    "mass",
    "reward_sum",
    "n_rewarded",
    "propensity_sum",
    "propensity_log_sum",
)
LOWS = ("reward_low", "propensity_low", "sample_weight_low")
HIGHS = ("reward_high", "propensity_high", "sample_weight_high")
SOME = ("has_propensity", "has_group", "has_timestamp")
COUNTS = ("actions", "action_counts"), ("loggers", "logger_counts")
CHUNK = 16  # propensities whose product is a float, whatever they are


class LogSums:
    """Counts, extremes and a sample of the rounds of a log, or of a part of it.

    Parts add up to what one pass over the whole log gives, in any order and however
    the log is cut.

    Attributes
    ----------
    n : int
        Number of rounds that enter values: those with a positive sample weight.
    n_logged : int
        Number of all rounds.
    mass : float
        Sum of the sample weights of the rounds that enter.
    actions : ndarray of shape (n_actions,) or None
        Labels; None for slates.
    action_counts : ndarray of int of shape (n_actions,) or None
        How often each was logged.
    loggers : ndarray of shape (n_loggers,) or None
        Labels of the loggers, where the logs tell them.
    logger_counts : ndarray of int of shape (n_loggers,) or None
        How many rounds each made.
    reward_range : tuple (float, float) or None
        The bounds that were stated.
    reward_low, reward_high, reward_sum : float
        Of the rewards that were found.
    n_rewarded : int
        Number of rounds whose reward is not zero.
    says_yes_and_no : bool
        Whether all rewards are 0 or 1, and some are 1.
    has_propensity, propensity_estimated : bool
        Whether propensities are known, and whether some were estimated.
    propensity_low, propensity_high, propensity_sum, propensity_log_sum : float
        Of the recorded propensities, and of their logarithms.
    sample_weight_low, sample_weight_high : float
        Of the sample weights of the rounds that enter; 1 where there are none.
    has_group : bool
        Whether rounds have groups.
    first_time, last_time : float, datetime64 or None
        Smallest and largest timestamp.
    """

    @classmethod
    def of(cls, logs, entering=None):
        """Return the sums of some rounds.

        Parameters
        ----------
        logs : BanditLogs or SlateLogs
            The rounds.
        entering : BanditLogs or SlateLogs, default=None
            Those of them that enter values. `None`: those whose own sample weight is
            positive.
        """
        out = cls.__new__(cls)
        if entering is None:
            weight = getattr(logs, "sample_weight", None)
            some = weight is None or weight.all()
            entering = logs if some else logs[weight > 0]
        out.n, out.n_logged = len(entering), len(logs)
        out.reward_range = logs.reward_range
        out._count_labels(entering)
        out._sum_weights(entering)
        out._sum_rewards(entering)
        out._sum_propensities(entering)
        out.has_group = logs.group is not None
        out._see_times(logs)
        return out

    # -- one part ----------------------------------------------------------------------
    def _count_labels(self, logs):
        self.actions = self.action_counts = self.loggers = self.logger_counts = None
        if hasattr(logs, "action_index"):
            self.actions, self.action_counts = logs.actions, logs.action_counts
            if logs.loggers is not None:
                self.loggers, self.logger_counts = logs.loggers, logs.logger_counts

    def _sum_weights(self, logs):
        weight = getattr(logs, "sample_weight", None)
        if weight is None or not len(weight):
            self.mass = float(self.n)
            self.sample_weight_low = self.sample_weight_high = 1.0
            return
        self.mass = float(weight.sum())
        self.sample_weight_low = float(weight.min())
        self.sample_weight_high = float(weight.max())

    def _sum_rewards(self, logs):
        reward = logs.reward
        self.reward_low = float(reward.min(initial=inf))
        self.reward_high = float(reward.max(initial=-inf))
        self.reward_sum = float(reward.sum())
        self.n_rewarded = int(np.count_nonzero(reward))
        inside = self.reward_low >= 0 and self.reward_high <= 1
        self._binary = bool(inside and (reward * reward == reward).all())

    def _sum_propensities(self, logs):
        p = logs.propensity
        self.has_propensity = p is not None
        self.propensity_estimated = getattr(logs, "propensity_estimated", False)
        self.propensity_low, self.propensity_high = inf, -inf
        self.propensity_sum = self.propensity_log_sum = 0.0
        if p is not None and len(p):
            self.propensity_low, self.propensity_high = float(p.min()), float(p.max())
            self.propensity_sum = float(p.sum())
            self.propensity_log_sum = log_sum(p, self.propensity_low)

    def _see_times(self, logs):
        time = logs.timestamp
        self.has_timestamp = time is not None
        self.first_time = self.last_time = None
        if time is not None and len(time):
            self.first_time, self.last_time = time.min(), time.max()

    # -- parts -------------------------------------------------------------------------
    def __add__(self, other):
        """Return the sums of both parts."""
        if not isinstance(other, LogSums):
            return NotImplemented
        self._refuse_unlike(other)
        out = LogSums.__new__(LogSums)
        for name in NUMBERS:
            setattr(out, name, getattr(self, name) + getattr(other, name))
        for name in LOWS:
            setattr(out, name, min(getattr(self, name), getattr(other, name)))
        for name in HIGHS:
            setattr(out, name, max(getattr(self, name), getattr(other, name)))
        for name in SOME:
            setattr(out, name, getattr(self, name))
        same = self.reward_range == other.reward_range
        out.reward_range = self.reward_range if same else None
        out._binary = self._binary and other._binary
        out.propensity_estimated = (
            self.propensity_estimated or other.propensity_estimated
        )
        for labels, counts in COUNTS:
            both = merged_labels(getattr(self, labels), getattr(other, labels))
            setattr(out, labels, both[0])
            setattr(
                out,
                counts,
                None
                if both[0] is None
                else placed(getattr(self, counts), both[1], len(both[0]))
                + placed(getattr(other, counts), both[2], len(both[0])),
            )
        firsts = [one.first_time for one in (self, other) if one.first_time is not None]
        lasts = [one.last_time for one in (self, other) if one.last_time is not None]
        out.first_time, out.last_time = (
            min(firsts, default=None),
            max(lasts, default=None),
        )
        return out

    def __radd__(self, other):
        """Return self for the 0 that `sum` begins with."""
        return self if isinstance(other, int) and other == 0 else NotImplemented

    def _refuse_unlike(self, other):
        told = {
            "has_propensity": "propensities",
            "has_group": "groups",
            "has_timestamp": "timestamps",
        }
        for name, what in told.items():
            if getattr(self, name) != getattr(other, name):
                raise ValueError(
                    f"one part of the log has {what} and another has none: build all "
                    "parts with the same columns."
                )
        for name in ("actions", "loggers"):
            if (getattr(self, name) is None) != (getattr(other, name) is None):
                raise ValueError(
                    f"one part of the log has {name} and another has none: build all "
                    "parts with the same columns."
                )

    # -- what is asked -----------------------------------------------------------------
    def __len__(self):
        return self.n

    @property
    def n_actions(self):
        """Number of actions."""
        return len(self.actions)

    @cached_property
    def unseen(self):
        """Codes of the actions that were never logged."""
        return np.flatnonzero(self.action_counts == 0)

    @property
    def says_yes_and_no(self):
        """Whether all rewards are 0 or 1, and some are 1."""
        return self._binary and self.n_rewarded > 0

    _says_yes_and_no = says_yes_and_no

    @property
    def lowest_propensity(self):
        """The smallest propensity, NaN where they are not known."""
        return self.propensity_low if self.has_propensity else nan


def log_sum(p, lowest):
    """Return the sum of the logarithms of some numbers in (0, 1].

    Parameters
    ----------
    p : ndarray of shape (n,)
        The numbers.
    lowest : float
        The smallest of them.
    """
    if lowest**CHUNK < 1e-290 or len(p) < CHUNK:  # their products are no floats
        return float(np.log(p).sum())
    whole = len(p) // CHUNK * CHUNK
    products = np.multiply.reduce(p[:whole].reshape(CHUNK, -1), axis=0)
    return float(np.log(products).sum() + np.log(p[whole:]).sum())


def merged_labels(one, other):
    """Return all labels of two arrays in order, and where those of each stand.

    Parameters
    ----------
    one, other : ndarray or None
        Labels in order.

    Returns
    -------
    labels : ndarray or None
        Sorted, or as they appear where they cannot be compared; of equal arrays the
        first.
    places, more : ndarray of int or None
        Of the labels of each; None where they are all labels, in order.
    """
    if one is None or one is other or _alike(one, other):
        return one, None, None
    mine, theirs = one.tolist(), other.tolist()
    labels = list(dict.fromkeys([*mine, *theirs]))
    with suppress(TypeError):  # labels of several types stay as they appear
        labels = sorted(labels)
    place = {label: k for k, label in enumerate(labels)}
    places = [
        np.array([place[label] for label in part], dtype=np.intp)
        for part in (mine, theirs)
    ]
    return label_array(labels, one.dtype, other.dtype), *places


def label_array(labels, *kinds):
    """Return labels as an array, of objects unless all are of one kind."""
    if len({kind.kind for kind in kinds}) == 1 and kinds[0].kind != "O":
        return np.array(labels)
    return objects(labels)


def _alike(one, other):
    return (
        len(one) == len(other)
        and one.dtype.kind == other.dtype.kind
        and bool(np.all(one == other))
    )


def placed(values, places, n):
    """Return values at their places among n, zeros elsewhere."""
    if places is None:
        return values
    out = np.zeros((n, *values.shape[1:]), dtype=values.dtype)
    out[places] = values
    return out
