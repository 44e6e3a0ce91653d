# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Whether what pandas labels belongs to the rows at whose positions it stands."""

import sys

import numpy as np

from skope_ope.exceptions import LogsWarning, RowError, warn_user


def index_of(values, n_rounds):
    """Return the index of a pandas Series or frame with a row per round, else None."""
    pandas = sys.modules.get("pandas")
    if pandas is None or not isinstance(values, (pandas.Series, pandas.DataFrame)):
        return None
    return values.index if len(values) == n_rounds else None


def is_anew(index):
    """Tell whether labels are 0, 1, 2, ..., as those of a new frame are."""
    return index.equals(sys.modules["pandas"].RangeIndex(len(index)))


def first_of_another_row(index, other):
    """Return the first row whose label shows that rows are in another order."""
    # Labels that cannot be compared show nothing: those of a new frame against those of
    # some rows of another one, labels of another kind or with another name, and keys of
    # a table, which come several times.
    if index.equals(other):
        return None, True
    same = _counts_alike(index, other)
    named_alike = list(index.names) == list(other.names)
    anew = is_anew(index) or is_anew(other)
    if same:
        shows = named_alike or not (anew or _are_numbers_from_zero(index))
    else:
        unique = index.is_unique and other.is_unique
        alike = named_alike and index.inferred_type == other.inferred_type
        shows = unique and alike and not anew
    return (_first_difference(index, other) if shows else None), same


def _counts_alike(index, other):
    """Tell whether both have every label equally often."""
    if index.nlevels != other.nlevels or index.inferred_type != other.inferred_type:
        return False
    if index.is_unique and other.is_unique:
        return bool(index.isin(other).all())
    counts, others = (
        one.value_counts(sort=False, dropna=False) for one in (index, other)
    )
    alike = len(counts) == len(others) and bool(counts.index.isin(others.index).all())
    return alike and bool((counts == others.reindex(counts.index)).all())


def _are_numbers_from_zero(index):
    return index.inferred_type == "integer" and is_anew(index.sort_values())


def _first_difference(index, other):
    low, high = 0, len(index)  # the labels before `low` agree, those before `high` not
    while high - low > 1:
        middle = (low + high) // 2
        if index[low:middle].equals(other[low:middle]):
            low = middle
        else:
            high = middle
    return low


def _label_at(index, row):
    return repr(index[row : row + 1].tolist()[0])


def check_labels_of(
    name, index, other_name, other, *, is_table=False, code=None, is_made=False
):
    """Raise where an index has the labels of other rows."""
    # Labels 0, 1, 2, ... are those of a frame that was read and then sorted, or those
    # of a new frame. A table of them was mostly made of an array, so a warning tells.
    row, same = first_of_another_row(index, other)
    if row is None:
        return
    beside_table = other_name == "that of context"  # which may be made of an array
    anew = is_anew(index) or (beside_table and is_anew(other))
    drop = "drop the index with values.to_numpy()"
    if is_made:
        drop = f"give the table this index, with set_axis({name}.index)"
    elif is_table:
        drop = "give it the index of this frame, with set_axis"
        drop = f"set its index, values.set_axis({code})" if code else drop
    bring = "bring the rows into this order"
    if code and index.is_unique:
        bring += f", values.loc[{code}]"
    start = f"the index of {name} has the label {_label_at(index, row)}"
    found, end = "The labels are the same, in another order. ", "the order is right"
    if not same:
        found = "These are labels of other rows. Pass the same rows."
    elif not anew:
        found += f"B{bring[1:]}."
    else:
        found += "Labels 0, 1, 2, ... may also be those of a new frame."
        end, drop = "these go together", f"{drop}. If not, {bring}"
    found = f", where {other_name} has {_label_at(other, row)}. {found}"
    found += f" Rows count by their positions: if {end}, {drop}."
    if same and (is_made or (is_table and is_anew(index))):
        warn_user([LogsWarning(f"{start} at row {row}{found}", float(row))])
    else:
        raise RowError(start, row, found)


def labels_to_keep(fields, n_rounds):
    """Compare the indices of fields; return one that the context does not tell."""
    seen, kept = [], ()
    context = fields["context"]
    common = _index_beside_made(fields, n_rounds)
    for name, values in fields.items():
        index = index_of(values, n_rounds)
        if index is None or any(index.equals(other) for _, other in seen):
            continue
        is_table = values.ndim > 1
        if name not in ("context", "group"):
            group = fields["group"]
            keys = _index_keys(index, context, group, {}, ("context", "group"))
            if _is_a_key(name, index, keys, is_table):
                continue
        made = common is not None and index.equals(common)
        for other_name, other in seen:
            how = {"is_table": is_table, "is_made": made and other_name == "context"}
            told, code = f"that of {other_name}", f"{other_name}.index"
            check_labels_of(name, index, told, other, code=code, **how)
        seen.append((name, index))
        if not kept and name != "context" and not is_anew(index):
            kept = (index,)
    return kept


def _index_beside_made(fields, n_rounds):
    """Return the index of all Series where the context has 0, 1, 2, ..., else None."""
    # Such a context seems to be a new table that was made of an array.
    context = index_of(fields["context"], n_rounds)
    if context is None or not is_anew(context):
        return None
    others = [(v, index_of(v, n_rounds)) for k, v in fields.items() if k != "context"]
    found = [index for v, index in others if index is not None and v.ndim == 1]
    if len(found) < 2 or not all(found[0].equals(one) for one in found[1:]):
        return None
    return None if is_anew(found[0]) else found[0]


def check_row_labels(name, values, logs):
    """Raise where the index of values is that of other rows than those of logs."""
    n_rounds = len(logs)
    index = index_of(values, n_rounds)
    if index is None:
        return
    is_table = values.ndim > 1
    own = index_of(logs.context, n_rounds)
    known = [*logs._labels] if own is None else [own, *logs._labels]
    if any(index.equals(one) for one in known):
        return
    called = ("logs.context", "logs.group")
    keys = _index_keys(index, logs.context, logs.group, logs.columns, called)
    if _is_a_key(name, index, keys, is_table):
        return
    frame = [("the frame that the logs were built from", one) for one in logs._labels]
    expected = [(told, one, None) for told, one in frame]
    if own is not None:
        of_context = ("that of logs.context", own, "logs.context.index")
        # a context of new labels was made of an array: the others say more
        expected.insert(len(expected) if is_anew(own) else 0, of_context)
    for told, one, code in expected:
        check_labels_of(name, index, told, one, is_table=is_table, code=code)
    if own is None and all(one.name is not None for one in logs._labels):
        pandas = sys.modules["pandas"]
        positions = pandas.Index(logs.row_id.position)
        if index.equals(positions) or is_anew(index):
            return
        told, code = "the row of the logs", "logs.row_id.position"
        for expected in (positions, pandas.RangeIndex(n_rounds)):
            if first_of_another_row(index, expected)[1]:
                how = {"is_table": is_table, "code": code}
                check_labels_of(name, index, told, expected, **how)


def _index_keys(index, context, group, columns, called):
    """Yield what an index may have as its labels, with its name and its code."""
    # Sums by user, for instance, have the users as their index.
    pandas, n_rounds = sys.modules["pandas"], len(index)
    users = _index_of_group(group)
    if users is not None and len(users) == n_rounds:
        yield "the group", called[1], users
    name = index.name
    if name is None:
        return
    if index_of(context, n_rounds) is not None and name in context.columns:
        code = f"{called[0]}[{name!r}]"
        yield f"column {name!r} of the context", code, pandas.Index(context[name])
    if name in columns and columns[name].ndim == 1:
        code = f"logs.columns[{name!r}]"
        yield f"column {name!r} of the logs", code, pandas.Index(columns[name])


def _index_of_group(group):
    """Return labels of groups as an index, None where they have several columns."""
    if not isinstance(group, (list, tuple)):
        group = np.asarray(group)
        if group.ndim != 1 or group.dtype.names:
            return None
        if group.dtype == object:
            group = group.tolist()  # tuples make an index of several levels
    elif len(group) and isinstance(group[0], list):
        return None
    return sys.modules["pandas"].Index(group)


def _is_a_key(name, index, keys, is_table):
    """Tell whether an index is a key of the rows; raise for one in another order."""
    unnamed = index.name is None and index.nlevels == 1
    if unnamed and is_anew(index):
        return False
    by_chance = unnamed and index.inferred_type == "integer"  # as numbers of rows are
    for told, code, key in keys:
        if index.equals(key):
            return True
        if not by_chance and _counts_alike(index, key):
            key = key.set_names(index.names)
            check_labels_of(name, index, told, key, is_table=is_table, code=code)
    return False


def check_output_labels(name, values, X):
    """Raise where a function of contexts gives their rows in another order."""
    n_rounds = X.shape[0] if hasattr(X, "shape") else len(X)
    index = index_of(values, n_rounds)
    own = index_of(X, n_rounds)
    if index is None or own is None or is_anew(index):
        return
    how = {"is_table": values.ndim > 1, "code": "X.index"}
    check_labels_of(name, index, "that of X", own, **how)
