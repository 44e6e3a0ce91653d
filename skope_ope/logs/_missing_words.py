# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""What to do about rows with a missing entry, by what is missing."""

DROP_OR_FILL = "Drop or fill these rows."
DROP_REWARDS = (
    "Drop them only if feedback goes missing for reasons unrelated to action and "
    "outcome; never fill with 0."
)


def remedy_of(field, otherwise=DROP_OR_FILL):
    """Return what to do about missing entries of a field of the logs."""
    return DROP_REWARDS if field == "reward" else otherwise
