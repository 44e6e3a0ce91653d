# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Columns of a file that are the probabilities of all actions, perhaps rounded ones."""

import numpy as np

from skope_ope._user_line import warn_user
from skope_ope.exceptions import LogsWarning
from skope_ope.logs._rounded_proba import rounding
from skope_ope.logs._validation import PROBABILITY_TOLERANCE, row_sums


def made_whole(path, columns):
    """Get columns whose rows sum to one wherever rounding explains that they do not."""
    # Other rows stay as they are: the logs refuse them.
    proba = np.column_stack(columns)
    sums = row_sums(proba)
    off = np.abs(sums - 1) > PROBABILITY_TOLERANCE
    if not off.any():
        return proba
    digits, bound = rounding(proba)
    mended = off & (np.abs(sums - 1) <= bound)
    n_mended = int(mended.sum())
    if not n_mended:
        return proba
    proba[mended] /= sums[mended, None]
    farthest = sums[mended][np.abs(sums[mended] - 1).argmax()]
    warn_user(
        [
            LogsWarning(
                f"{path}: the probabilities of all actions are rounded to {digits} "
                f"digits, so {n_mended:,} of {len(proba):,} rows do not sum to 1 (the "
                f"farthest sums to {farthest:.9g}). These rows were divided by their "
                "sums. Log more digits if you can.",
                n_mended,
            )
        ]
    )
    return proba
