# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Values of several policies on the rounds about which all of them say something.

An evaluator may know nothing of a policy in some rounds: of a slate, say, that the
logger never composes. Its value is then that of the other rounds. A difference of two
such values compares other rounds as well as other policies, unless both are estimated
anew on the rounds that they have in common.
"""

import numpy as np

from skope_ope.exceptions import SupportWarning


def on_common_rounds(values):
    """Return values on the rounds that all of them are about."""
    known = {name: one for name, one in values.items() if not np.isnan(one.value)}
    left_out = _in_any(one._rows.left_out for one in known.values())
    if left_out is None:
        return dict(values), ()
    found = {
        name: one._without(left_out) if name in known else one
        for name, one in values.items()
    }
    return found, (_warning(known, left_out),)


def _in_any(masks):
    """Return the rounds that one of the masks has; None where all are the same."""
    masks = list(masks)
    if all(mask is masks[0] for mask in masks):
        return None
    given = [mask for mask in masks if mask is not None]
    union = np.logical_or.reduce(given)
    if len(given) == len(masks) and all((mask == union).all() for mask in given):
        return None
    return union


def _warning(values, left_out):
    """Return the warning that says how many rounds of how many are compared."""
    rows = [one._rows for one in values.values()]
    counted = np.logical_or.reduce([one.counted for one in rows])
    n_rounds = int(np.count_nonzero(counted))
    n_common = int(np.count_nonzero(counted & ~left_out))
    lost = ", ".join(
        f"{name} ({one.n_left_out:,} rounds)"
        for name, one in zip(values, rows, strict=True)
        if one.n_left_out
    )
    told = (
        "The values and their differences are about the common rounds only."
        if n_common
        else "Nothing can be compared: the values are NaN."
    )
    return SupportWarning(
        f"{n_common:,} of {n_rounds:,} rounds are common to all values; the others "
        f"lie outside the range of the logger for {lost}. {told}",
        1 - n_common / n_rounds,
    )
