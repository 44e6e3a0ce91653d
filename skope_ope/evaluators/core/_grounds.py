# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""What a value rests on besides its numbers: kept by differences, groups, pickles."""

from math import isnan, nan
from typing import NamedTuple

from skope_ope.logs import BanditLogs

RECORDED, ESTIMATED, UNKNOWN = "recorded", "estimated", "unknown"
DOUBT = 2.0  # standard errors: below, no weight need be missing


class Grounds(NamedTuple):
    """What a value rests on.

    Attributes
    ----------
    warnings : tuple of OPEWarning
        What the evaluations have warned of.
    effective_rounds : float
        Least effective sample size; NaN: no weights are used.
    propensities : {"recorded", "estimated", "unknown"} or None
        Where those of the logs come from. None: not known.
    evaluators : tuple of str
        What estimated the values.
    missing_weight : float
        Share of what the policies do that would be in rare rounds of large weights,
        which the logs do not hold: what the mean weight lacks to the one that is
        expected, where it lacks more than `DOUBT` standard errors.
    support_known : bool
        Whether it is known what the policies do of what the loggers never did.
    """

    warnings: tuple
    effective_rounds: float
    propensities: str | None
    evaluators: tuple
    missing_weight: float = 0.0
    support_known: bool = True

    def beside(self, other):
        """Return what a value rests on that was made from both."""
        sizes = [self.effective_rounds, other.effective_rounds]
        return Grounds(
            tuple(dict.fromkeys((*self.warnings, *other.warnings))),
            min((size for size in sizes if not isnan(size)), default=nan),
            self.propensities or other.propensities,
            (*other.evaluators, *self.evaluators),
            max(self.missing_weight, other.missing_weight),
            self.support_known and other.support_known,
        )


def missing_weight(diagnostics):
    """Return what the mean weight lacks, see `Grounds`.

    Parameters
    ----------
    diagnostics : Diagnostics
        Of a value.
    """
    if not diagnostics.get("mean_weight_z", 0.0) < -DOUBT:
        return 0.0
    unsupported = diagnostics.get("unsupported_mass", 0.0)
    unsupported = 0.0 if isnan(unsupported) else unsupported
    expected = diagnostics.get("expected_weight", 1.0) - unsupported
    return max(float(expected - diagnostics["mean_weight"]), 0.0)


def propensities_of(logs):
    """Return where the propensities of some logs come from.

    Parameters
    ----------
    logs : BanditLogs, SlateLogs or None

    Returns
    -------
    propensities : {"recorded", "estimated", "unknown"} or None
        None: no logs are available.
    """
    if logs is None:
        return None
    if isinstance(logs, BanditLogs):
        if logs.propensity is None:
            return UNKNOWN
        return ESTIMATED if logs.propensity_estimated else RECORDED
    known = logs.logging_policy is not None or logs.propensity is not None
    return RECORDED if known else UNKNOWN


def propensities_of_sums(log):
    """Return where the propensities of a log come from, from its `LogSums`."""
    if log is None:
        return None
    if log.actions is None:  # slates
        return RECORDED
    if not log.has_propensity:
        return UNKNOWN
    return ESTIMATED if log.propensity_estimated else RECORDED
