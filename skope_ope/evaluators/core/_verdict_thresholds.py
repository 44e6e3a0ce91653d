# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""The numbers from which a verdict follows."""

from collections.abc import Collection
from dataclasses import dataclass, fields
from numbers import Real

from skope_ope.intervals._weighted_rewards import check_level

RISING = (
    "skewness",
    "unsupported",
    "missing_weight",
    "range_share",
)  # the larger, the worse
NO_ESTIMATE = "no_estimate"  # a reason that nobody can accept


@dataclass(frozen=True)
class VerdictThresholds:
    """The numbers from which a `Verdict` follows.

    Each parameter is a pair. Beyond the first number the answer is "caution", beyond
    the second one "not supported". Read more in the :ref:`User Guide <verdict>`.

    Parameters
    ----------
    effective_rounds : pair of float, default=(30, 5)
        Effective sample size. Below it, few rounds decide the value.
    effective_events : pair of float, default=(10, 0)
        Effective events. Below it, the interval rests on its assumptions.
    skewness : pair of float, default=(0.1, 1)
        Skewness of the mean of the round values. Above it, few rounds make most of the
        spread. It is used if the range of the rewards is not known. 100 events have a
        skewness of 0.1.
    effective_groups : pair of float, default=(40, 5)
        Effective groups. Below it, the standard error is uncertain.
    unsupported : pair of float, default=(0.005, 0.1)
        Share of the policy's decisions that the logger never takes. Above it, the
        missing rewards matter.
    missing_weight : pair of float, default=(0.1, 0.5)
        1 minus the mean weight. Above it, rare rounds of large weights are missing.
    range_share : pair of float, default=(0.5, 0.8)
        Width of the interval as a share of the range of the rewards, if that is known.
        Above it, the interval says little.
    level : float, default=0.95
        Level of the interval.
    accepted : collection of str, default=()
        Names of reasons that you know of and accept. They are shown, but do not change
        the answer.

    Examples
    --------
    >>> from skope_ope.audit import VerdictThresholds
    >>> VerdictThresholds(effective_rounds=(100, 30)).effective_rounds
    (100, 30)
    """

    effective_rounds: tuple = (30, 5)
    effective_events: tuple = (10, 0)
    skewness: tuple = (0.1, 1)
    effective_groups: tuple = (40, 5)
    unsupported: tuple = (0.005, 0.1)
    missing_weight: tuple = (0.1, 0.5)
    range_share: tuple = (0.5, 0.8)
    level: float = 0.95
    accepted: tuple = ()

    def __post_init__(self):
        for one in fields(self)[:7]:
            self._check_pair(one.name, rising=one.name in RISING)
        check_level(self.level)
        if isinstance(self.accepted, str):
            raise TypeError(
                f"accepted must be a collection of names, ({self.accepted!r},), got a "
                "single string."
            )
        if not isinstance(self.accepted, Collection):
            raise TypeError(
                "accepted must be a collection of names, () for none, got "
                f"{type(self.accepted).__name__}."
            )
        if NO_ESTIMATE in self.accepted:
            raise ValueError(
                f"accepted cannot hold {NO_ESTIMATE!r}: without a value or an "
                "interval you cannot act."
            )
        object.__setattr__(self, "accepted", tuple(self.accepted))

    def _check_pair(self, name, rising):
        pair = getattr(self, name)
        try:
            caution, lost = pair
            known = all(isinstance(one, Real) and one >= 0 for one in (caution, lost))
        except (TypeError, ValueError):
            known = False
        if not known:
            raise ValueError(
                f"{name} must be a pair of numbers, one for 'caution' and one for "
                f"'not supported', got {pair!r}."
            )
        if caution != lost and (caution < lost) != rising:
            raise ValueError(
                f"{name} must be a pair whose second number is the worse one, got "
                f"{pair!r}. Swap the two numbers."
            )
        object.__setattr__(self, name, (caution, lost))
