# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""What is said where logs in memory are needed and lazy logs are given."""

from skope_ope.logs.lazy._lazy_logs import LazyLogs

REMEDY = "draw some, lazy.sample(100_000, random_state=0)"


def kind_of(value):
    """Return the name of a type; of lazy logs with what to do about them."""
    if isinstance(value, LazyLogs):
        return f"LazyLogs, whose rounds are not in memory: {REMEDY}"
    return type(value).__name__


def refuse_lazy(logs):
    """Raise where rounds themselves are needed and logs hold none."""
    if isinstance(logs, LazyLogs):
        raise TypeError(
            "this needs every round in memory, and the rounds of LazyLogs are not in "
            f"memory: {REMEDY}, and fit on them."
        )
