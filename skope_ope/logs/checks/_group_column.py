# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Columns of the context that name who a round belongs to."""

import re

from skope_ope.logs._frames import import_narwhals
from skope_ope.logs._validation import is_frame
from skope_ope.logs.checks._context_columns import capital, chosen_columns, label_of
from skope_ope.logs.checks._finding import Finding

FEWEST = 100  # values: fewer are categories
MOST_ALONE = 0.95  # values per round: more, and hardly one comes back
LEAST_ALONE = 0.01  # fewer, and each has a hundred rounds: a shop or a country
# Numbers that come back are also prices and counts: only a name tells them apart.
NAMES = re.compile(
    r"(^|[_\W])(id|uid|uuid|user|visitor|customer|client|member|session|account)s?"
    r"($|[_\W])",
    re.IGNORECASE,
)


def group_column_findings(logs, random_state=None):
    """Ask whether a column is the group, where the logs have none."""
    if logs.group is not None or not is_frame(logs.context):
        return {}, []
    frame = import_narwhals().from_native(logs.context, eager_only=True)
    names = list(frame.columns)
    found = []
    for name in (names[j] for j in chosen_columns(logs.context)):
        if NAMES.search(str(name)):
            n_values = frame.get_column(name).n_unique()
            share = n_values / len(logs)
            if n_values >= FEWEST and LEAST_ALONE <= share <= MOST_ALONE:
                found.append(_finding(name, n_values, len(logs)))
    return {}, found


def _finding(name, n_values, n_rounds):
    label = label_of(name, named=True)
    return Finding(
        "group_in_context",
        "note",
        f"{capital(label)} has {n_values:,} values in {n_rounds:,} rounds, and they "
        "come back: is it a group, such as a user?",
        (
            f"If so, pass group={name!r} and leave it out of the context. Then the "
            "standard errors count groups, and models cannot learn single groups by "
            "heart.",
        ),
        effect=1 - n_values / n_rounds,
        columns=[name],
    )
