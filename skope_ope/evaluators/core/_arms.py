# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
r"""Sums of mean rewards of arms: the estimate that needs no propensities.

A log is a set of arms, each of them a separate sample. With :math:`T_c` rounds in
cell c (an arm, or an arm in a stratum) the estimate is

.. math:: \hat V = \sum_c W_c\, \bar y_c, \qquad y_i = w_i r_i,

with :math:`w_i = h(a_i|x_i)` and :math:`W_c` the share of the stratum. Where arms are
known policies and the logged action is matched, :math:`w_i = h(a_i|x_i) / \hat
p(a_i|x_i)` with the mixture :math:`\hat p` of the arms, and :math:`W_c` the share of
the arm. Cells are the strata of the one statistic: independent samples, so that
:math:`SE^2 = \sum_c W_c^2 s_c^2 / T_c`.
"""

from dataclasses import dataclass
from functools import cached_property, partial
from math import nan, sqrt

import numpy as np

from skope_ope.evaluators.core._drowned import lost_finding
from skope_ope.evaluators.core._estimate import Estimate, error_of
from skope_ope.evaluators.core._functions import Shares, mean
from skope_ope.evaluators.core._largest_deviation import (
    LargestDeviation,
    WeightedRewardTerms,
)
from skope_ope.evaluators.core._mean_weight import (
    EFFECT,
    MADE_FROM_ACTIONS,
    deviations,
    high_mean_finding,
    log_evidence,
    squares_about,
    wrong_propensities,
)
from skope_ope.evaluators.core._overlap_findings import no_overlap_finding
from skope_ope.evaluators.core._products import total
from skope_ope.evaluators.core._reach import refuse_stated
from skope_ope.evaluators.core._warnings import unformed_warning
from skope_ope.evaluators.core._weight_bound import LOGGED, POSSIBLE
from skope_ope.exceptions import LowOverlapWarning, OPEWarning, SupportWarning
from skope_ope.logs._row_container import known_range
from skope_ope.logs.checks._evidence import EVIDENT

SURE_ERRORS = 4  # standard errors
DROWNED = 1e-3  # of the size of rewards: squares of smaller differences may be lost
LEAST_MASS = 1e-9  # of a mass: less is rounding
WEIGHT_TERM = 1  # the number of the term w, beside w r
# What the arms are, what those never did that are missing, and what once
ARM_WORDS = {
    "action": ("actions", "were never logged", "were logged"),
    "logger": ("loggers", "never acted", "acted"),
}
UNTESTED = OPEWarning(
    "merged sums do not show whether the context predicts the logged arms. If it "
    "does, scavenging is biased. Check a sample in memory, which warns of it: "
    "ExplorationScavenging().fit(lazy.sample(100_000)).evaluate(policy).",
    name="untested_context",
)


@dataclass(eq=False)
class Arms:
    """Sums of the terms w r and w over arms, and what a policy wants of these."""

    evaluator: object
    sums: object  # their strata are the cells
    mixes: bool  # whether arms are known policies, whose actions are matched
    # Whether the policy may go to the arm of a cell; None: to all
    sought: np.ndarray | None = None
    stratum_of: np.ndarray | int = 0  # of every cell
    n_arms: int = 0
    # Of an arm that was logged, and is wanted; None: there is no such
    fewest_rounds: int | None = None
    missing_mass: float = 0.0  # what is wanted and was never logged; NaN: not known
    is_wanted: bool = True  # whether anything is that was logged
    seen: tuple | None = None  # range of the rewards, where the rounds are gone
    rounds: tuple | None = None  # terms and design, where they are in memory
    of_slates: bool = False  # whether more arms are possible than were logged

    @classmethod
    def of_sums(cls, evaluator, summary):
        """Return the arms of a `Summary`."""
        sums, tally, counts = summary.sums, summary.tally, summary.counts
        mixes = evaluator.proposal == "mixture" and summary.facts["logger_proba"]
        wanted = dict(zip(tally.actions, tally.wanted[0].tolist(), strict=True))
        sought = None
        if not mixes:
            sought = np.array([wanted[label] > 0 for label in sums.frame.strata])
        logged = zip(counts.actions, counts.counts.sum(axis=0).tolist(), strict=True)
        fewest = min((n for arm, n in logged if n and wanted[arm] > 0), default=None)
        return cls(
            evaluator,
            sums,
            mixes,
            sought,
            n_arms=len(counts.loggers if mixes else counts.actions),
            fewest_rounds=fewest,
            missing_mass=summary.missing_mass,
            is_wanted=bool(tally.largest[0]),
            seen=counts.reward_range,
        )

    # -- the estimate ------------------------------------------------------------
    @property
    def pooling(self):
        """What a round of every cell counts."""
        return partial(_shares, self.stratum_of, self.mixes, self.sought)

    @cached_property
    def formed(self):
        """The estimate as sums tell it."""
        about = self.sums, self.evaluator.combine, self.pooling
        found = Estimate(*about)
        if found.lost and self.rounds is not None:
            return Estimate(*about, rounds=self.rounds)
        return found

    @cached_property
    def estimate(self):
        """The estimate, without an error where rounding hides it."""
        return self.formed.without_error() if self.is_lost else self.formed

    @property
    def is_lost(self):
        """Whether sums of squares have lost how far the rounds of an arm differ."""
        if self.rounds is not None or not self.formed.lost:
            return False
        low, high = self.seen
        # rewards that differ as much as they are large do not drown: they are alike by
        # arm
        return 0 < high - low < DROWNED * max(abs(low), abs(high))

    @property
    def n_alone(self):
        """Number of arms of one round, where the policy may go."""
        return len(self.formed.shares.alone)

    # -- the weights -------------------------------------------------------------
    @cached_property
    def weights(self):
        """Sums of the weights."""
        return self.sums.some([WEIGHT_TERM])

    @property
    def mean_weight(self):
        """One in expectation."""
        return self.formed.means[WEIGHT_TERM]

    @cached_property
    def effective_sample_size(self):
        """(sum w)^2 / sum w^2 of the weights as they count."""
        share = np.atleast_1d(self.formed.shares.weight)
        square = total(share * share * np.atleast_1d(squares_about(self.weights, 0.0)))
        return self.mean_weight**2 / square if square else nan

    @property
    def uniform_value(self):
        """The value if the logger chose uniformly."""
        gain = float(self.sums.plain(0.0)[0]) / total(self.sums.mass)
        return self.n_arms * gain

    def unseen_mass(self):
        """Estimate the policy's mass on arms that were never logged."""
        # The mean weight estimates the mass on the others. What is missing of one
        # counts where it is more than noise.
        terms, design = self.rounds
        known, noise = Estimate(self.weights, mean, self.pooling), 0.0
        values = known.round_values(terms[WEIGHT_TERM:], design)
        if len(values) > 1:
            noise = error_of(values, known.value, design.cluster)
        lost = 1 - self.mean_weight
        return lost if lost > max(SURE_ERRORS * noise, LEAST_MASS) else 0.0

    # -- what is said of it --------------------------------------------------------
    def known(self, log, n_rounds):
        """Return the estimate, and what a value is told beside it, by name."""
        doubts = self._doubts_of_mixture(log) if self.mixes else []
        estimate, warned = self._judged(doubts)
        fewest = self.fewest_rounds
        entries = {
            "n_rounds": n_rounds,
            "n_arms": self.n_arms,
            "fewest_rounds": n_rounds if fewest is None else int(fewest),
            "unsupported_mass": self.missing_mass,
            "mean_weight": self.mean_weight,
            "effective_sample_size": self.effective_sample_size,
            # whether the context predicts the arms is not told by sums
            "predictability_z": nan,
            "predictability_gain": nan,
        }
        if not (self.mixes or self.of_slates or self.evaluator.strata):
            entries["uniform_value"] = self.uniform_value
        return estimate, {
            "effective_sample_size": self.effective_sample_size,
            "diagnostics": entries,
            "warnings": warned,
        }

    def _doubts_of_mixture(self, log):
        """Return what a mean weight other than one says of a mixture of loggers."""
        # What is never logged anywhere is known. What no logger does in the contexts
        # where the policy wants it shows in the mean weight only.
        expected, found = 1 - self.missing_mass, self.mean_weight
        change, square, unit = deviations(self.weights, 1.0, expected)
        error = sqrt(square)
        z = change / error if error > 1e-9 else 0.0
        if z < -SURE_ERRORS:
            self.missing_mass = mass = 1 - found
            return [
                SupportWarning(
                    f"the policy seems to give {mass:.2%} of its probability to "
                    "actions that no logger takes in the same context. Its weights "
                    "against the mixture of the loggers average "
                    f"{found:.4g}, {z:+.1f} standard errors from the "
                    "expected mean. The value leaves out the rewards of these "
                    "actions; on_missing='nan' makes it NaN. Choose among the "
                    "loggers' actions, or check logger_proba.",
                    mass,
                )
            ]
        if not found > (1 + EFFECT) * expected:
            return []
        unit *= expected
        evidence = log_evidence(change / unit, square / unit / unit)
        if evidence <= EVIDENT:
            return []
        causes = wrong_propensities("small", log), MADE_FROM_ACTIONS
        return [high_mean_finding(found, evidence, causes, expected).warning()]

    def _judged(self, warned):
        """Return the estimate, given what was never logged; warn of it."""
        evaluator, mass, found = self.evaluator, self.missing_mass, self.estimate
        arms, never, once = ARM_WORDS[evaluator.sampling.arms]
        if mass > LEAST_MASS and not warned:
            warned.append(
                SupportWarning(
                    f"the policy gives {mass:.2%} of its probability to {arms} "
                    f"that {never}. Their rewards are left out, so for rewards of "
                    "0 or more the value is a lower bound. To make the value NaN "
                    "instead, pass on_missing='nan'.",
                    mass,
                )
            )
        # A policy that takes no logged action although all are in the log may earn
        # nothing: the sum is zero, unless it is divided by that of the weights.
        nothing = mass > 1 - LEAST_MASS or np.isnan(found.value)
        if nothing or (mass > LEAST_MASS and evaluator.on_missing == "nan"):
            found = found.without_value()
        if nothing:
            warned.append(unformed_warning(evaluator))
        elif not self.is_wanted:
            warned.append(no_overlap_finding().warning())
        elif not np.isnan(found.value) and self.n_alone:
            by = " by stratum" * bool(evaluator.strata)
            warned.append(
                LowOverlapWarning(
                    f"{self.n_alone} of the {arms}{by} that the policy takes {once} in "
                    "a single round, so the standard error is NaN. Use more rounds, or "
                    "a policy that does not take them.",
                    self.n_alone,
                )
            )
        return found, warned


def _shares(stratum_of, mixes, sought, mass, units):
    """Weigh the mean of every cell by the share of its stratum, or by its own."""
    mass = np.atleast_1d(mass)
    share = mass / mass.sum()
    if not mixes:
        stratum_of = np.broadcast_to(stratum_of, len(mass))
        by_stratum = np.bincount(stratum_of, mass)
        share = by_stratum[stratum_of] / by_stratum.sum()
    weight = np.divide(share, mass, out=np.zeros(len(mass)), where=mass > 0)
    # A cell of one round has no spread; it matters where the policy may go there, be
    # it in other rounds than the one that was logged.
    needed = (units > 0) if sought is None else (units > 0) & sought
    if len(weight) == 1:
        weight = float(weight[0])
    alone = tuple(np.flatnonzero(needed & (units == 1)))
    return Shares(weight, np.arange(len(mass)), needed, alone=alone)


def known_of_arms(evaluator, summary, log, n_rounds):
    """Return the estimate from sums over arms, and what a value is told beside it."""
    arms = Arms.of_sums(evaluator, summary)
    estimate, known = arms.known(log, n_rounds)
    if not np.isnan(estimate.value):
        known["warnings"].append(UNTESTED)
        if arms.is_lost:
            known["warnings"].append(lost_finding().warning())
    limits = None if log is None else known_range(log)
    seen = summary.counts.reward_range
    return estimate, known | {"reach": ArmDeviation(limits, summary.ends, seen)}


class ArmDeviation(LargestDeviation):
    """How far a round of an arm may lie: it is as heavy as the heaviest of the arm."""

    regional = None
    has_rows_of_files = False

    def __init__(self, limits, extremes, seen):
        super().__init__(_OF_ARM, limits, extremes, seen=seen)

    def _largest(self, strata, max_weight, spare):
        refuse_stated(max_weight)
        largest = self.extremes.largest_weights(strata)
        if largest.any():
            return largest, LOGGED
        # no logged action is wanted: one that is not logged may be, for certain
        return np.ones(len(strata)), POSSIBLE

    def sums_of_weights(self, value):
        """Return the sums of the estimate: its terms are w r and w."""
        return value._estimate_of_halves.sums


_OF_ARM = WeightedRewardTerms("logger")
