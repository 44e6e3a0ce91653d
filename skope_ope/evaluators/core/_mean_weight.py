# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
r"""Whether importance weights average to one, as they do in expectation.

Weights are skewed: their mean lies below one in most logs of a heavy tail, and by many
of its own standard errors, so that no normal quantile serves. For independent
:math:`\xi_i \ge -1` of mean at most zero (and for those of a history, given what went
before), every :math:`\lambda` in [0, 1) makes

.. math:: E(\lambda) = \exp\Big(\lambda \sum_i \xi_i - \psi(\lambda) \sum_i
    \xi_i^2\Big), \qquad \psi(\lambda) = -\ln(1 - \lambda) - \lambda,

an e-value (Fan, Grama and Liu 2015): its expectation is at most one at any number of
rounds and any skewness, and so is that of the mean of several. It exceeds 1,000 in at
most one of 1,000 right logs. Upwards :math:`\xi = \min(w, \sqrt n) - 1`, so that a
single weight hides nothing; downwards :math:`\xi = (1 - w) / W`, where no weight is
larger than W.
"""

from math import exp, inf, isnan, log

import numpy as np

from skope_ope._parallel import dot
from skope_ope.evaluators.core._products import total
from skope_ope.exceptions import PropensityWarning
from skope_ope.logs._shown_numbers import figure
from skope_ope.logs.checks._evidence import EVIDENT
from skope_ope.logs.checks._finding import Finding, with_dropped
from skope_ope.logs.checks._propensity_fit import OTHER_CLASSIFIER
from skope_ope.logs.checks._propensity_sums import estimating_step

LAMBDAS = 0.9 * 2.0 ** -np.arange(20)
PSI = -np.log1p(-LAMBDAS) - LAMBDAS
EFFECT = 0.05  # of the mean weight: a smaller deviation changes no decision
UNSEEN = 3  # weights may be this many times as large as those that were possible so far
USUAL = 30  # weights up to here are possible in any log


def log_evidence(total, square):
    """Return ln E from the sum and the sum of squares of terms that are at least -1."""
    exponents = LAMBDAS * total - PSI * square
    return float(np.logaddexp.reduce(exponents)) - log(len(exponents))


def bounded(w, n_rounds, largest):
    """Return min(w, sqrt(n)); the same array where no weight is larger."""
    limit = n_rounds**0.5
    return w if largest <= limit else np.minimum(w, limit)


def deviations(sums, factor=1.0, expected=1.0):
    """Get sum and sum of squares of weights less their mean, over independent units."""
    frame, near = sums.frame, sums.origin[0] - expected
    if frame.clustered:
        units = len(frame.clusters)
        factor = np.broadcast_to(factor, frame.n_strata)[frame.cell_stratum]
        above, mass = sums.totals
        sizes = np.bincount(frame.cell_cluster, factor * mass, units)
        change = factor * (above + near * mass)
        change = np.bincount(frame.cell_cluster, change, units)
        return float(change.sum()), dot(change, change), float(sizes.max())
    above = total(factor * (sums.first[0] + near * sums.mass))
    square = total(factor * factor * squares_about(sums, expected))
    largest = factor if isinstance(factor, float) else float(factor.max())
    return above, square, largest * frame.heaviest


def squares_about(sums, value):
    """Return the sum of squares of weighted terms about a value, of every stratum."""
    near = sums.origin[0] - value
    cross, square = sums.product(1, 0), sums.product(1, 1)
    return sums.product(0, 0) + 2 * near * cross + near * near * square


def evidence_above(sums, factor=1.0, lowest=0.0):
    """Return ln E of a mean above one."""
    above, square, unit = deviations(sums, factor)
    unit *= 1 - lowest
    return log_evidence(above / unit, square / unit / unit)


def evidence_below(sums, largest, factor=1.0, expected=1.0):
    """Return ln E of a mean below `expected`, where no weight exceeds `largest`."""
    above, square, unit = deviations(sums, factor, expected)
    unit *= largest
    return log_evidence(-above / unit, square / unit / unit)


def surprise(weight, n_units):
    """Return -ln of the largest chance that n weights are all alike, and above one."""
    # By Markov's inequality it is :math:`w^{-n}`, for the product of the weights has
    # expectation one.
    return n_units * log(weight) if weight > 0 else 0.0


MADE_FROM_ACTIONS = (
    "The policy's probabilities were made from the logged actions, or learned from "
    "these rounds. Evaluate a policy that was fixed before, on rounds that it has "
    "not seen."
)
NO_DISTRIBUTION = (
    "The array does not hold pi(a_i | x_i), the policy's probability of each logged "
    "action. Pass the probabilities of all actions, shape (n_rounds, n_actions): "
    "they are checked to sum to one."
)
NEVER_TAKEN_THERE = (
    "In some contexts the logger never takes the policy's actions, and about this "
    "share of the policy's decisions is not in the logs. Evaluate a policy that "
    "takes only actions that the logger takes, or give logging_proba, the "
    "probabilities of all actions: then it is known where."
)


def mean_weight_findings(overlap, logs=None, logged_only=False, given=False):
    """Return what a mean weight other than one tells."""
    # Upwards chance alone is no excuse. Downwards it is, wherever weights are possible
    # that are large and rare: they must be as small as those that the propensities have
    # shown.
    if overlap.sums.first is None or not 0 < overlap.sum_w2 < inf:
        return []
    if not isnan(overlap.constant_weight):
        return _constant_findings(overlap, logs, logged_only, given)
    mean = overlap.mean_weight
    if mean > 1 + EFFECT:
        evidence = overlap.evidence_above()
        if evidence > EVIDENT:
            causes = _causes_above(logs, logged_only, given)
            return [high_mean_finding(mean, evidence, causes)]
    if mean >= 1 - EFFECT or overlap.missing_mass > 1e-9 or logs is None:
        return []
    largest = max(UNSEEN / logs._lowest_propensity, UNSEEN * overlap.max_w, USUAL)
    evidence = overlap.evidence_below(float(largest))
    if evidence <= EVIDENT:
        return []
    return [_low_mean_finding(mean, evidence, _causes_below(logs, logged_only))]


def high_mean_finding(mean, evidence, causes, expected=1.0):
    """Return the finding that weights average to more than they should."""
    return Finding(
        "mean_weight",
        "error",
        f"The mean importance weight is {figure(mean)}, where at most "
        f"{figure(expected)} is expected ({_chance_text(evidence)}). So weighted "
        f"rewards count {figure(mean / expected, 3)} times too much.",
        causes,
        number=evidence,
        effect=mean / expected - 1,
        category=PropensityWarning,
    )


def _low_mean_finding(mean, evidence, causes):
    return Finding(
        "mean_weight",
        "warning",
        f"The mean importance weight is {figure(mean)}, where 1 is expected. Rare "
        f"large weights do not explain it ({_chance_text(evidence)}).",
        causes,
        number=evidence,
        effect=mean - 1,
        category=PropensityWarning,
    )


def _constant_findings(overlap, logs, logged_only, given):
    """Return what weights that are all alike tell: they have no errors to count in."""
    weight = overlap.constant_weight
    if abs(weight - 1) <= EFFECT or overlap.missing_mass > 1e-9:
        return []
    if weight > 1:
        units = int(overlap.sums.frame.units.sum())
        if surprise(weight, units) <= EVIDENT:
            return []
        causes = _causes_above(logs, logged_only, given)
    elif logs is None or _never_left(logs):
        return []
    else:
        causes = _causes_below(logs, logged_only)
    return [
        Finding(
            "constant_weight",
            "error",
            f"All importance weights are {figure(weight)}, where their mean should be "
            f"1: weighted rewards count {figure(weight, 3)} times what they should.",
            causes,
            number=weight,
            effect=weight - 1,
            category=PropensityWarning,
        )
    ]


def _never_left(logs):
    """Whether a right logger may have done the same thing in all rounds by chance."""
    # What the policy does more often than the logger is then what was not logged.
    chance = logs._mean_log_propensity
    units = len(logs) if logs.group is None else logs.n_groups
    return -chance * units <= EVIDENT or len(logs._unseen) > 0


def _chance_text(evidence):
    chance = max(exp(-max(evidence, 0.0)), 1e-12)
    return f"probability below {chance:.0e} if the log is right"


def _causes_above(logs, logged_only, given):
    """Return what may have made weights too large, the most likely first."""
    wrong = wrong_propensities("small", logs)
    causes = (wrong, MADE_FROM_ACTIONS)
    if logged_only:
        causes = (NO_DISTRIBUTION, MADE_FROM_ACTIONS, wrong)
    elif given:
        causes = (MADE_FROM_ACTIONS, wrong)
    return with_dropped(causes, logs)


def _causes_below(logs, logged_only):
    """Return the same where they are too small."""
    causes = (NEVER_TAKEN_THERE, wrong_propensities("large", logs))
    return with_dropped((NO_DISTRIBUTION, *causes) if logged_only else causes, logs)


def wrong_propensities(size, logs=None, estimated=False):
    """Return what to do where propensities are too small, or too large."""
    if estimated or getattr(logs, "propensity_estimated", False):
        return f"The estimated propensities are too {size}: {OTHER_CLASSIFIER}"
    step = "" if logs is None else f", or estimate them with {estimating_step(logs)}"
    return f"The propensities are too {size}: check how they were logged{step}."
