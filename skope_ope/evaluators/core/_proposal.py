# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""What one sample is, and against which distribution the weights of a round are."""

from dataclasses import dataclass
from operator import attrgetter

# What a round weighs: "logger" and "own_logger" against the probability of whoever
# acted, where all rounds are one sample and where each logger has a sample of its own;
# "mixture" against the probability under all loggers; None: against none.
PLAIN_WEIGHT = attrgetter("w")  # one object: evaluators share what it gives
WEIGHTS = {
    "logger": PLAIN_WEIGHT,
    "own_logger": PLAIN_WEIGHT,
    "mixture": attrgetter("b"),
    None: attrgetter("pi"),
}


@dataclass(frozen=True)
class Sampling:
    """What one sample is: the strata of an estimate.

    Parameters
    ----------
    by : {"rounds", "loggers", "arms"}, default="rounds"
        All rounds, or those of each logger, or of each arm.
    n_folds : int, default=None
        Folds into which the rounds of every logger are cut, each a stratum; None: they
        are not cut.
    arms : {"action", "logger"}, default=None
        What a policy chooses among, where samples are those of arms.
    """

    by: str = "rounds"
    n_folds: int | None = None
    arms: str | None = None

    @property
    def name(self) -> str:
        """What the sums are found by."""
        return self.by if self.n_folds is None else f"{self.by} in {self.n_folds} folds"


def tallied_as(evaluator):
    """Return what tells the weights of an evaluator, and what a policy wants, apart."""
    arms = evaluator.sampling.arms
    return evaluator.proposal if arms is None else f"wanted of {arms}s"


def weight_of(evaluator):
    """Return the function of some rounds that gives the importance weights."""
    return WEIGHTS[evaluator.proposal]


def kind_of_sums(evaluator):
    """Return what tells the sums of weighted rewards from those of other evaluators."""
    # Weights of one kind have the same sums, but for those of other strata.
    proposal, folds = evaluator.proposal, evaluator.sampling.n_folds
    return proposal if folds is None else f"{proposal}, {evaluator.sampling.name}"
