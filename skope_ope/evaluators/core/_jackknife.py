# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""The jackknife: what the value would be without one group, for every group."""

from math import isnan, nan, sqrt

import numpy as np

from skope_ope.evaluators.core._bootstrap import parts_of


def jackknife_error(value):
    r"""Return the standard error of a value by leaving out one group at a time."""
    # .. math:: SE^2 = \frac{G - 1}{G} \sum_g (\hat V_{-g} - \bar V)^2,
    #
    # with the estimate :math:`\hat V_{-g}` from all groups (or hash buckets of groups)
    # but one, and their mean.
    if not value._estimate.frame.clustered:
        raise ValueError(
            "method='jackknife' leaves out one group at a time, and these rounds have "
            "none. Give the logs their group=..., or use 'student': for independent "
            "rounds it is the same in all but name."
        )
    if isnan(value.value) or isnan(value.standard_error):
        return nan
    without = [_without_each(part) for part in parts_of(value)]
    if len({len(one) for one in without}) > 1:
        raise ValueError(
            "method='jackknife' of a difference needs two values of the same groups."
        )
    without = sum(without)
    n = len(without)
    change = without - without.mean()
    return sqrt((n - 1) / n * float(change @ change))


def _without_each(part):
    """Return the estimates without one group each, ndarray of shape (n_groups,)."""
    columns = np.stack(part.columns_of_groups(), axis=1)
    values, _ = part.statistic.of(columns.sum(axis=0) - columns)
    return part.sign * values
