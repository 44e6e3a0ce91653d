# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Values of broken evaluators, which say the same whatever the logs hold."""

from collections import defaultdict


class Interval(tuple):
    """Two limits without a warning."""

    warnings = ()


class Stuck:
    """A value that no log has told.

    Parameters
    ----------
    value, standard_error : float
    step : float
        By how much the value of the next of two groups differs.
    **intervals : tuple of float
        The limits by method; "other" is for all that have no name here.
    """

    effective_sample_size = 1.0
    warnings = ()

    def __init__(self, value=0.0, standard_error=1.0, step=0.0, **intervals):
        self.value, self.standard_error, self.step = value, standard_error, step
        self.intervals = intervals

    def __sub__(self, other):
        return self

    def by(self, key):
        return {k: Stuck(self.value + k * self.step, 0.01) for k in (0, 1)}

    def confidence_interval(self, level=0.95, method="auto"):
        return Interval(self.intervals.get(method, self.intervals.get("other")))


def says(value, step=0.0):
    """Return a replacement of `evaluate`: the same value for all evaluators."""

    def evaluate(policies, logs, *, evaluators, **_):
        return dict.fromkeys(evaluators, Stuck(value, 0.01, step))

    return {"evaluate": evaluate}


def evaluates_to(n_rows=1, **intervals):
    """Return a replacement of `evaluate` by a table that holds one value only."""

    class Table(defaultdict):
        def values(self):
            return n_rows * [self[None]]

    table = Table(lambda: Stuck(**intervals))
    return {"evaluate": lambda *_, **__: table}
