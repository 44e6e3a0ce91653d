# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Columns that stand for a label each: by name, and in which order."""

from collections.abc import Mapping
from itertools import combinations

import numpy as np

from skope_ope.logs._factorise import factorise, objects
from skope_ope.logs._validation import check_labels, is_frame, short

NAMES_SHOWN = 8  # names in a message


def columns_by_name(columns, actions=None, logging_proba=None):
    """Get the columns that are named, in the order of the actions where dicts tell."""
    if isinstance(columns, str):
        raise TypeError(
            f"columns must be a list of names or a dict, got the text {columns!r}. Use "
            f"[{columns!r}]."
        )
    if not isinstance(columns, Mapping):
        columns = {name: name for name in columns or ()}
    given = {"logging_proba": logging_proba}
    given |= {f"columns[{name!r}]": some for name, some in columns.items()}
    for what, some in given.items():
        if isinstance(some, Mapping):
            if actions is None:
                actions, _ = factorise(check_labels("actions", list(some)))
            labels = check_labels("actions", actions).tolist()
            if set(labels) != set(some):
                raise ValueError(
                    f"{what} names columns for {short(objects(some))}, but the "
                    f"actions are {short(objects(labels))}. Name one column for each "
                    "action."
                )
            given[what] = tuple(some[label] for label in labels)
    proba, *tables = given.values()
    tables = [
        tuple(some) if np.iterable(some) and not isinstance(some, str) else some
        for some in tables
    ]
    return dict(zip(columns, tables, strict=True)), actions, proba


def refuse_one_table(argument, names, frame):
    """Raise where one column of lists, or an array, holds the probabilities of all."""
    single = names[0] if isinstance(names, (list, tuple)) and len(names) == 1 else names
    width, found, values = 0, "an array", "values"
    if isinstance(single, str) and single in frame.columns:
        width = _width_of_lists(frame.get_column(single))
        found = f"the column {single!r}, which holds lists"
        values = f"frame[{single!r}]"
    elif hasattr(names, "__array__") and not is_frame(names):
        shape = np.shape(names)
        width = shape[1] if len(shape) == 2 else 0
    if not width:
        return
    name = single if isinstance(single, str) else "proba"
    new = [f"{name}_{j}" for j in range(width)]
    if width > NAMES_SHOWN:
        pattern = name + "_{j}"
        new = f"[f{pattern!r} for j in range({width})]"
    how = "Make a column of each of its entries"
    if frame.implementation.is_pandas():
        listed = f"{values}.tolist()" if values != "values" else values
        how += f": frame[{new}] = {listed}"
    elif frame.implementation.is_polars() and values != "values":
        how += f": frame = frame.hstack({values}.list.to_struct(fields={new})"
        how += ".struct.unnest())"
    told = "these names, in the order of the sorted loggers"
    if argument == "logging_proba":
        told = "logging_proba={action: name, ...} with the name of each action's column"
    raise TypeError(
        f"{argument} must be a list of column names, got {found}. {how}. Pass {told}."
    )


def _width_of_lists(column):
    """Return the length of the first list in a column, 0 where it holds none."""
    first = column.drop_nulls().head(1).to_list()
    if not first or not isinstance(first[0], (list, tuple, np.ndarray)):
        return 0
    return len(first[0])


def check_order(what, columns, labels, remedy, are="actions"):
    """Raise where columns are named like the labels, and stand in another order."""
    lists = labels is not None and len(columns) and not isinstance(columns, str)
    if not lists or len(columns) != len(labels):
        return
    names, texts = list(map(str, columns)), list(map(str, labels.tolist()))
    known, first = set(texts), names[0]
    for low, high in combinations(range(len(first) + 1), 2):
        if first[low:high] in known:
            like = [f"{first[:low]}{text}{first[high:]}" for text in texts]
            if names != like and sorted(names) == sorted(like):
                raise ValueError(
                    f"{what} names {short(objects(columns))}, but the {are} are "
                    f"{short(labels)}. Name the columns in this order{remedy}."
                )


def check_tables(columns, logging_proba, actions, logger_proba=(), loggers=None):
    """Raise where columns of actions or loggers stand in another order than these."""
    named = {f"columns[{name!r}]": some for name, some in columns.items()}
    named["logging_proba"] = logging_proba or ()
    for what, some in named.items():
        remedy = ", or pass a dict that tells the column of every action"
        check_order(what, some, actions, remedy)
    check_order("logger_proba", logger_proba or (), loggers, "", "loggers")
