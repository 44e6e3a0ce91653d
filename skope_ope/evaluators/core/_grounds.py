# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""What a value rests on besides its numbers: kept by differences, groups, pickles."""

from math import isnan, nan
from typing import NamedTuple

from skope_ope.logs._known_range import known_range
from skope_ope.logs.sums._log_sums import has_field

RECORDED, ESTIMATED, UNKNOWN = "recorded", "estimated", "unknown"
DOUBT = 2.0  # standard errors: below, no weight need be missing


class Grounds(NamedTuple):
    """What a value rests on."""

    warnings: tuple  # what the evaluations have warned of
    effective_rounds: float  # least effective sample size; NaN: no weights are used
    propensities: str | None  # where those of the logs come from. None: not known
    evaluators: tuple  # what estimated the values
    # Share of what the policies do that would be in rare rounds of large weights, which
    # the logs do not hold: what the mean weight lacks to the one that is expected,
    # where it lacks more than `DOUBT` standard errors
    missing_weight: float = 0.0
    # Whether it is known what the policies do of what the loggers never did
    support_known: bool = True
    # Of the rewards, see `width_where_weights_tell`; NaN where that is None
    width: float = nan
    # Of the value whose mean weight is farthest from one; NaN: there are none
    mean_weight: float = nan
    # Of the value whose mean weight is farthest from one; NaN: there are none
    mean_weight_z: float = nan

    def beside(self, other):
        """Return what a value rests on that was made from both."""
        sizes = [self.effective_rounds, other.effective_rounds]
        weights = [one for one in (self, other) if not isnan(one.mean_weight)]
        far = max(weights, key=lambda one: abs(one.mean_weight - 1), default=self)
        return Grounds(
            tuple(dict.fromkeys((*self.warnings, *other.warnings))),
            min((size for size in sizes if not isnan(size)), default=nan),
            self.propensities or other.propensities,
            (*other.evaluators, *self.evaluators),
            max(self.missing_weight, other.missing_weight),
            self.support_known and other.support_known,
            other.width if isnan(self.width) else self.width,
            far.mean_weight,
            far.mean_weight_z,
        )


def missing_weight(diagnostics):
    """Return what the mean weight lacks, see `Grounds`."""
    if not diagnostics.get("mean_weight_z", 0.0) < -DOUBT:
        return 0.0
    unsupported = diagnostics.get("unsupported_mass", 0.0)
    unsupported = 0.0 if isnan(unsupported) else unsupported
    expected = diagnostics.get("expected_weight", 1.0) - unsupported
    return max(float(expected - diagnostics["mean_weight"]), 0.0)


def propensities_of(logs):
    """Return where the propensities of some logs come from."""
    if logs is None:
        return None
    if not (has_field(logs, "propensity") or has_field(logs, "logging_policy")):
        return UNKNOWN
    return ESTIMATED if getattr(logs, "propensity_estimated", False) else RECORDED


def width_where_weights_tell(logs):
    """Return the width of the rewards where only weights tell what a log may lack."""
    # None where the logging distribution is known, or propensities belong to the
    # actions alone: a mean weight below one is then chance. The range is the one that
    # is known, otherwise the observed one.
    told = any(has_field(logs, name) for name in ("logging_proba", "logging_policy"))
    if told or not has_field(logs, "propensity"):
        return None
    if getattr(logs, "_action_count_law", None) is not None:
        return None
    low, high = known_range(logs) or logs._reward_extremes or (0.0, 0.0)
    return high - low
