# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""The rounds that enter an estimate, and their weights: weight 0 does not enter."""

from dataclasses import dataclass
from functools import cached_property
from math import inf

import numpy as np

from skope_ope.evaluators.core._design import design_of
from skope_ope.evaluators.core._requires import LogFacts
from skope_ope.logs._row_labels import check_row_labels
from skope_ope.logs._slate_fields import column_weights
from skope_ope.logs._slate_logs import SlateLogs
from skope_ope.logs._validation import as_numbers, check_length


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
