# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Which column of a file is the logger's probability of which action."""

import numpy as np

from skope_ope.logs._columns_of_labels import check_order
from skope_ope.logs._texts import parse_labels
from skope_ope.readers._context_fields import inner_fields
from skope_ope.readers._read_table import check_names


def proba_columns(given, names):
    """Return columns by what they are called: a label, or the end of their names."""
    if len(given) == 1 and given[0] not in names:
        given = inner_fields(given[0], names) or given
    found = {}
    for one in given:
        label, column = one.rpartition(".")[2], one
        if one not in names and "=" in one:
            label, _, column = one.partition("=")
        elif "=" not in one and label in found:
            label = one
        if label in found:
            raise ValueError(f"--logging-proba names {label!r} twice: name each once.")
        found[label] = column
    check_names("the log", names, list(found.values()))
    return found


def labels_told(columns, action):
    """Return the labels of the actions, as texts in their order."""
    # Those that the columns are called, if all logged ones are among them, else the
    # logged ones.
    logged = set(map(str, np.unique(action).tolist()))
    labels = columns if logged <= set(columns) else logged
    return [str(one) for one in np.sort(parse_labels(list(labels))).tolist()]


def order_of(columns, actions):
    """Return which column is that of each action."""
    labels, called = list(map(str, actions.tolist())), list(columns)
    if set(labels) == set(called):
        return [called.index(label) for label in labels]
    named = list(columns.values())
    if len(labels) != len(named):
        raise ValueError(
            f"--logging-proba names {len(named)} columns ({', '.join(called)}), but "
            f"there are {len(labels)} actions: {', '.join(labels[:12])}. Name one "
            "column for each, as LABEL=COLUMN, or all actions with --actions."
        )
    check_order("--logging-proba", named, actions, ", or as LABEL=COLUMN")
    return list(range(len(named)))
