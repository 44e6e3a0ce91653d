# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Values of broken evaluators, which say the same whatever is asked."""

from collections import defaultdict


class Interval(tuple):
    """Two limits without a warning."""

    warnings = ()


class Stuck:
    """A value whose intervals, by method, do not depend on the log.

    Parameters
    ----------
    **intervals : tuple of float
        The limits by method; "other" is for all that have no name here.
    """

    value = 0.0
    standard_error = 1.0
    effective_sample_size = 1.0

    def __init__(self, **intervals):
        self.intervals = intervals

    def __sub__(self, other):
        return self

    def confidence_interval(self, level=0.95, method="auto"):
        limits = self.intervals.get(method, self.intervals.get("other"))
        return Interval(limits)


def evaluates_to(n_rows=1, **intervals):
    """Return the replacement of `evaluate` by a table that holds one value only."""

    class Table(defaultdict):
        def values(self):
            return n_rows * [self[None]]

    table = Table(lambda: Stuck(**intervals))
    return {"skope_ope.evaluate": lambda *_, **__: table}
