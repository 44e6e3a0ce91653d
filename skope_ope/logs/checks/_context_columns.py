# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Context columns one by one, whatever holds them: names, numbers, categories."""

from dataclasses import dataclass
from decimal import Decimal
from math import nan
from numbers import Real

import numpy as np
from scipy import sparse
from sklearn.utils import check_random_state

from skope_ope.logs._factorise import factorise
from skope_ope.logs._frames import import_narwhals
from skope_ope.logs._row_container import take_rows
from skope_ope.logs._validation import is_frame
from skope_ope.logs.checks._moderate import moderate

MOST_COLUMNS = 200  # that a check looks at one by one
MOST_CATEGORIES = 512  # that are told apart; the others count as one
MOST_NAMED = 5  # columns in a sentence
FEW_VALUES = 64  # distinct numbers that are taken as they are


@dataclass(frozen=True)
class Column:
    """One column of the context."""

    name: object  # its name in a frame, its position elsewhere
    # Numbers of moderate size, NaN where they are missing or infinite; codes of the
    # categories from the most frequent one where `categorical`
    values: np.ndarray
    categorical: bool  # whether the values are texts or other labels without an order
    named: bool  # whether the name comes from a frame
    labels: tuple = ()  # the categories by code

    @property
    def label(self):
        """What messages call it."""
        return label_of(self.name, self.named)


def column_names(context):
    """Return the names of the columns of a frame, positions elsewhere."""
    if is_frame(context):
        return list(getattr(context, "column_names", None) or context.columns)
    return range(context.shape[1])


def label_of(name, named):
    """Return what messages call a column."""
    return f"column {name!r}" if named else f"context column {name}"


def listed(texts):
    """Return some texts as a list in a sentence."""
    more = len(texts) - MOST_NAMED
    shown = [*texts[:MOST_NAMED], *([f"{more:,} more"] if more > 0 else [])]
    return shown[0] if len(shown) == 1 else f"{', '.join(shown[:-1])} and {shown[-1]}"


def capital(text):
    """Return a sentence that begins with a large letter."""
    return text[0].upper() + text[1:]


def sampled_rows(n_rounds, most, random_state):
    """Return all rows, or a random sample of `most`, ascending."""
    if n_rounds <= most:
        return np.arange(n_rounds)
    random = check_random_state(random_state)
    # with replacement and without its repeats: no permutation of all rows, no sort
    drawn = np.zeros(n_rounds, dtype=bool)
    drawn[random.randint(0, n_rounds, most)] = True
    return np.flatnonzero(drawn)


def rows_apart(logs, most, random):
    """Return rows at random, ascending: of each group one, where there are groups."""
    if logs.group is None:
        return sampled_rows(len(logs), most, random)
    rows = random.permutation(len(logs))
    of_group = np.full(logs.n_groups, -1)
    of_group[logs.group_index[rows]] = rows  # the last one in random order stays
    of_group = of_group[of_group >= 0]
    return np.sort(random.permutation(of_group)[:most])


def columns_of(context, rows=None):
    """Return the columns of some rows, at most `MOST_COLUMNS` of them."""
    # Of wide contexts these are the ones with the most entries that are not zero (a
    # sparse matrix) or the first ones.
    if rows is not None:
        context = take_rows(context, rows)
    chosen = chosen_columns(context)
    if is_frame(context):
        frame = import_narwhals().from_native(context, eager_only=True)
        names = list(frame.columns)
        return [_column(names[j], frame.get_column(names[j]), True) for j in chosen]
    context = dense_columns(context, chosen)
    return [
        Column(int(j), moderate(np.asarray(context[:, k], dtype=float)), False, False)
        for k, j in enumerate(chosen)
    ]


def chosen_columns(context):
    """Return the positions of the columns that are looked at one by one."""
    chosen = np.arange(min(context.shape[1], MOST_COLUMNS))
    if sparse.issparse(context) and len(chosen) < context.shape[1]:
        filled = np.bincount(context.indices, minlength=context.shape[1])
        chosen = np.sort(np.argsort(-filled, kind="stable")[:MOST_COLUMNS])
    return chosen


def dense_columns(context, chosen):
    """Return some columns of an array or a sparse matrix as an array."""
    if sparse.issparse(context):
        return context[:, chosen].toarray()
    return context[:, chosen]


def columns_tested(context):
    """Say which columns the checks look at where these are not all, else None."""
    if context.shape[1] <= MOST_COLUMNS:
        return None
    which = "those with the most entries" if sparse.issparse(context) else "the first"
    return f"{MOST_COLUMNS} of {context.shape[1]:,} ({which})"


def _column(name, series, named):
    values = series.to_numpy()
    kind = values.dtype.kind
    if kind in "biuf":
        return Column(name, moderate(values.astype(float)), False, named)
    if kind in "mM":
        times = values.astype(np.int64).astype(float)
        return Column(name, np.where(np.isnat(values), np.nan, times), False, named)
    missing = series.is_null().to_numpy().astype(bool)
    labels = values.tolist()
    if all(
        isinstance(v, (Real, Decimal)) or gone
        for v, gone in zip(labels, missing, strict=True)
    ):
        numbers = [
            nan if gone else float(v) for v, gone in zip(labels, missing, strict=True)
        ]
        return Column(name, moderate(np.array(numbers)), False, named)
    texts = np.array([str(label) for label in labels], dtype=object)
    codes, labels = _by_frequency(texts)
    return Column(name, np.where(missing, nan, codes), True, named, tuple(labels))


def _by_frequency(texts):
    """Return codes of texts, 0 for the most frequent, and the texts by code."""
    labels, codes = factorise(texts)
    order = np.argsort(-np.bincount(codes), kind="stable")
    rank = np.empty(len(order))
    rank[order] = np.arange(len(order))
    return rank[codes], labels[order]


def binned(column, n_bins=16):
    """Return codes from 0 on of the values of a column: bins, or the values."""
    # Categories and few distinct numbers stay what they are (at most `MOST_CATEGORIES`
    # of them); other numbers fall into bins of equal counts. Missing values are a
    # separate bin, and so are values that make more than a bin's share.
    values = column.values
    missing = np.isnan(values)
    known = values[~missing]
    codes = np.zeros(len(values), dtype=np.intp)
    if column.categorical:
        codes[~missing] = 1 + np.minimum(known, MOST_CATEGORIES).astype(np.intp)
        return codes
    distinct = _few_distinct(known, max(FEW_VALUES, n_bins))
    if distinct is None:
        ordered = np.sort(known)  # quantiles of infinite numbers, too
        edges = ordered[np.arange(1, n_bins) * len(ordered) // n_bins]
        heavy = edges[1:][edges[1:] == edges[:-1]]  # fills more than a bin: it is one
        distinct = np.union1d(edges, np.nextafter(heavy, -np.inf))
    codes[~missing] = 1 + np.searchsorted(distinct, known)
    return codes


def _few_distinct(values, most):
    """Return the sorted distinct values where they are at most `most`, else None."""
    if len(values) > 4 * most and len(np.unique(values[: 4 * most])) > most:
        return None
    distinct = np.unique(values)
    return distinct if len(distinct) <= most else None
