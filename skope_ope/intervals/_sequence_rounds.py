# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""What confidence sequences share: after which rounds they are asked, and sums."""

import numpy as np


def after_rounds(after, n_rounds):
    """Return numbers of rounds after which an interval is wanted, checked.

    Parameters
    ----------
    after : array-like of int or None
        `None`: after every round.
    n_rounds : int
        How many there are.
    """
    if after is None:
        return np.arange(1, n_rounds + 1)
    after = np.asarray(after)
    rising = after.ndim == 1 and len(after) > 0 and bool((np.diff(after) > 0).all())
    if not rising or after.dtype.kind not in "iu":
        raise ValueError(
            "after must be rising numbers of rounds, such as [100, 200], got "
            f"{after.tolist()!r}."
        )
    if after[0] < 1 or after[-1] > n_rounds:
        raise ValueError(
            f"after must lie between 1 and the {n_rounds} rounds that there are, got "
            f"{after[0]} to {after[-1]}."
        )
    return after


def running_sums(before, values):
    """Return `before`, and the sums of it and the first values, one after the other.

    Parameters
    ----------
    before : float
        The sum of what came before.
    values : ndarray of shape (n_rounds,)
        What comes now.

    Returns
    -------
    sums : ndarray of shape (n_rounds + 1,)
        The same numbers to the last digit, however the values are cut into parts.
    """
    sums = np.empty(len(values) + 1)
    sums[0], sums[1:] = before, values
    return np.cumsum(sums, out=sums)
