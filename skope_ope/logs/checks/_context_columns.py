# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Context columns one by one, whatever holds them: names, numbers, categories."""

import re
from collections.abc import Hashable
from dataclasses import dataclass
from decimal import Decimal
from functools import cached_property
from itertools import chain
from math import nan
from numbers import Real

import numpy as np
from scipy import sparse
from sklearn.utils import check_random_state

from skope_ope.exceptions import LogsWarning
from skope_ope.logs._frames import import_narwhals
from skope_ope.logs._labels import factorise
from skope_ope.logs._row_container import take_rows
from skope_ope.logs._validation import frame_names, is_frame, is_missing
from skope_ope.logs.checks._finding import Finding

COLUMNS_TESTED = 200  # that a check looks at one by one
CATEGORIES_APART = 512  # that are told apart; the others count as one
COLUMNS_NAMED = 5  # columns in a sentence
FEW_NUMBERS = 64  # distinct numbers that are taken as they are


@dataclass(frozen=True)
class ContextColumn:
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

    @cached_property
    def coded(self):
        """The distinct values, and the place of every round's among them."""
        return np.unique(self.values, return_inverse=True)


def label_of(name, named):
    """Return what messages call a column."""
    return f"column {name!r}" if named else f"context column {name}"


def in_words(texts):
    """Return some texts as a list in a sentence."""
    more = len(texts) - COLUMNS_NAMED
    shown = [*texts[:COLUMNS_NAMED], *([f"{more:,} more"] if more > 0 else [])]
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


def thinned(rows, weight, random):
    """Return rows, each kept with a probability in proportion to its weight."""
    # That undoes what subsampling did to the frequencies of the actions.
    if weight is None:
        return rows
    weight = weight[rows]
    return rows[random.random_sample(len(rows)) * weight.max() < weight]


def context_columns(context, rows=None):
    """Return the columns of some rows, at most `COLUMNS_TESTED` of them."""
    # Of wide contexts these are the ones with the most entries that are not zero (a
    # sparse matrix) or the first ones.
    if rows is not None:
        context = take_rows(context, rows)
    chosen = chosen_columns(context)
    if is_frame(context):
        series = frame_columns(context)
        return [_context_column(series[j].name, series[j], True) for j in chosen]
    context = dense_columns(context, chosen)
    return [
        ContextColumn(
            int(j), moderate(np.asarray(context[:, k], dtype=float)), False, False
        )
        for k, j in enumerate(chosen)
    ]


def frame_columns(frame):
    """Return the columns of a frame as narwhals series."""
    frame = import_narwhals().from_native(frame, eager_only=True)
    return list(frame.iter_columns())


def chosen_columns(context):
    """Return the positions of the columns that are looked at one by one."""
    chosen = np.arange(min(context.shape[1], COLUMNS_TESTED))
    if sparse.issparse(context) and len(chosen) < context.shape[1]:
        filled = np.bincount(context.indices, minlength=context.shape[1])
        chosen = np.sort(np.argsort(-filled, kind="stable")[:COLUMNS_TESTED])
    return chosen


def dense_columns(context, chosen):
    """Return some columns of an array or a sparse matrix as an array."""
    some = context[:, chosen]
    return some.toarray() if sparse.issparse(some) else some


def columns_tested(context):
    """Say which columns the checks look at where these are not all, else None."""
    if context.shape[1] <= COLUMNS_TESTED:
        return None
    which = "those with the most entries" if sparse.issparse(context) else "the first"
    return f"{COLUMNS_TESTED} of {context.shape[1]:,} ({which})"


def _context_column(name, series, named):
    values = series.to_numpy()
    kind = values.dtype.kind
    if kind in "biuf":
        return ContextColumn(name, moderate(values.astype(float)), False, named)
    if kind in "mM":
        times = values.astype(np.int64).astype(float)
        return ContextColumn(
            name, np.where(np.isnat(values), np.nan, times), False, named
        )
    missing = series.is_null().to_numpy().astype(bool)
    labels = values.tolist()
    pairs = list(zip(labels, missing, strict=True))
    if all(isinstance(v, (Real, Decimal)) or gone for v, gone in pairs):
        numbers = [nan if gone else float(v) for v, gone in pairs]
        return ContextColumn(name, moderate(np.array(numbers)), False, named)
    texts = np.array([str(label) for label in labels], dtype=object)
    codes, labels = _by_frequency(texts)
    return ContextColumn(
        name, np.where(missing, nan, codes), True, named, tuple(labels)
    )


def _by_frequency(texts):
    """Return codes of texts, 0 for the most frequent, and the texts by code."""
    labels, codes = factorise(texts)
    order = np.argsort(-np.bincount(codes), kind="stable")
    rank = np.empty(len(order))
    rank[order] = np.arange(len(order))
    return rank[codes], labels[order]


def binned(column, n_bins=16):
    """Return codes from 0 on of the values of a column: bins, or the values."""
    # Categories and few distinct numbers stay what they are (at most `CATEGORIES_APART`
    # of them); other numbers fall into bins of equal counts. Missing values are a
    # separate bin, and so are values that make more than a bin's share.
    values = column.values
    missing = np.isnan(values)
    known = values[~missing]
    codes = np.zeros(len(values), dtype=np.intp)
    if column.categorical:
        codes[~missing] = 1 + np.minimum(known, CATEGORIES_APART).astype(np.intp)
        return codes
    distinct = _few_distinct(known, max(FEW_NUMBERS, n_bins))
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


# -- what is odd about single columns of the context, whatever they mean ---------------

ROUNDS_SAMPLED = 1000  # rounds that show which columns may be constant or alike


def column_findings(logs, random_state=0):
    """Return missing values, constant columns and columns that are there twice."""
    context, n_rounds = logs.context, len(logs)
    named = is_frame(context)
    names = frame_names(context) if named else range(context.shape[1])
    missing = _missing_by_column(context)
    facts, findings = {}, []
    part = columns_tested(context)
    constant, alike = _constant_and_alike(context, n_rounds, random_state)

    def labels(which):
        return in_words([label_of(names[j], named) for j in which])

    if missing:
        lacking, counts = [names[j] for j in missing], list(missing.values())
        facts["missing values"] = {"column": lacking, "rounds": counts}
        most = max(counts)
        found = (
            f"Values are missing or infinite in {labels(missing)}: up to {most:,} of "
            f"{n_rounds:,} rounds."
        )
        advice = (
            "Models and policies must take them, as trees on histograms do, or fill "
            "them. What is missing only where something happened later gives away "
            "what happened."
        )
        about = lacking, most, most / n_rounds
        findings.append(_note("missing_values", found, advice, *about))
    if part is not None:
        facts["columns tested"] = part
    if constant and n_rounds > 1:
        have = "has" if len(constant) == 1 else "have"
        found = f"{labels(constant)} {have} the same value in all rounds."
        advice = "Such a column tells nothing: check whether its values were lost."
        about = [names[j] for j in constant], len(constant)
        findings.append(_note("constant_column", found, advice, *about))
    if alike:
        pairs = [
            f"{label_of(names[j], named)} is {label_of(names[i], named)} again"
            for i, j in alike
        ]
        found = f"{capital(in_words(pairs))}."
        advice = "Keep one of each: models share out weight between copies at random."
        about = [names[j] for _, j in alike], len(alike)
        findings.append(_note("duplicate_column", found, advice, *about))
    return facts, findings


def _constant_and_alike(context, n_rounds, random_state):
    """Return columns of one value, and pairs of equal ones: what a sample shows."""
    # Only columns that are constant or alike in the sample are read in all rounds.
    rows = sampled_rows(n_rounds, ROUNDS_SAMPLED, random_state)
    some = _column_arrays(take_rows(context, rows), chosen_columns(context))
    still = [j for j, values in some.items() if _one_value(values)]
    twins = [pair for pair in _twins(some) if pair[1] not in still]
    whole = _column_arrays(context, sorted({*still, *chain(*twins)}))
    constant = [j for j in still if _one_value(whole[j])]
    if sparse.issparse(context):
        filled = np.bincount(context.indices, minlength=context.shape[1])
        constant = np.flatnonzero(filled == 0).tolist()
    return constant, [(i, j) for i, j in twins if _are_equal(whole[i], whole[j])]


def _note(name, found, advice, columns, number, effect=float("nan")):
    about = {"number": float(number), "effect": effect, "columns": columns[:10]}
    return Finding(name, "note", capital(found), advice, **about, category=LogsWarning)


def _column_arrays(context, chosen):
    """Return some columns as arrays, by position."""
    if is_frame(context):
        series = frame_columns(context)
        return {j: _with_none(series[j].to_numpy()) for j in chosen}
    table = dense_columns(context, chosen)
    return {int(j): table[:, k] for k, j in enumerate(chosen)}


def _with_none(values):
    """Return objects with None for what is missing, whatever the library calls it."""
    if values.dtype != object:
        return values
    out = np.empty(len(values), dtype=object)
    out[:] = [
        None if is_missing(one) else one if isinstance(one, Hashable) else str(one)
        for one in values.tolist()
    ]
    return out


def _missing_by_column(context):
    """Return how many values are missing or infinite, by column that has some."""
    if is_frame(context):
        counts = list(map(_missing_in_series, frame_columns(context)))
        return {j: count for j, count in enumerate(counts) if count}
    if context.dtype.kind != "f":
        return {}
    if sparse.issparse(context):
        counts = np.bincount(context.indices[~np.isfinite(context.data)])
        return {int(j): int(counts[j]) for j in np.flatnonzero(counts)}
    with np.errstate(over="ignore", invalid="ignore"):
        if np.isfinite(context.sum()):  # then all are: much faster than by column
            return {}
        suspicious = np.flatnonzero(~np.isfinite(context.sum(axis=0)))
    counts = {int(j): int((~np.isfinite(context[:, j])).sum()) for j in suspicious}
    return {j: count for j, count in counts.items() if count}


def _missing_in_series(series):
    if not series.dtype.is_float():
        return int(series.null_count())
    values = series.to_numpy()  # NaN and null are both NaN here
    return int((~np.isfinite(values.astype(float))).sum())


def _one_value(values):
    first = values[0]
    same = values != values if first != first else values == first  # NaN
    return bool(same.all())


def _twins(columns):
    """Return pairs (first, later) of columns that are equal in these rounds."""
    first, pairs = {}, []
    for j, values in columns.items():
        is_number = values.dtype.kind in "biuf"
        key = values.astype(float).tobytes() if is_number else repr(values.tolist())
        i = first.setdefault(key, j)
        if i != j:
            pairs.append((i, j))
    return pairs


def _are_equal(a, b):
    missing = a != a
    return bool(np.array_equal(missing, b != b) and (a == b)[~missing].all())


# -- columns of the context that name who a round belongs to ---------------------------

FEWEST_LABELS = 100  # values: fewer are categories
MOST_ONCE = 0.95  # values per round: more, and hardly one comes back
LEAST_ALONE = 0.01  # fewer, and each has a hundred rounds: a shop or a country
# Numbers that come back are also prices and counts: only a name tells them apart.
GROUP_NAMES = re.compile(
    r"(^|[_\W])(id|uid|uuid|user|visitor|customer|client|member|session|account)s?"
    r"($|[_\W])",
    re.IGNORECASE,
)


def group_column_findings(logs, random_state=None):
    """Ask whether a column is the group, where the logs have none."""
    if logs.group is not None or not is_frame(logs.context):
        return {}, []
    found, columns = [], frame_columns(logs.context)
    for column in (columns[j] for j in chosen_columns(logs.context)):
        name = column.name
        if GROUP_NAMES.search(str(name)):
            n_values = column.n_unique()
            share = n_values / len(logs)
            if n_values >= FEWEST_LABELS and LEAST_ALONE <= share <= MOST_ONCE:
                found.append(_group_finding(name, n_values, len(logs)))
    return {}, found


def _group_finding(name, n_values, n_rounds):
    label = label_of(name, named=True)
    found = (
        f"{capital(label)} has {n_values:,} values in {n_rounds:,} rounds, and they "
        "come back: is it a group, such as a user?"
    )
    advice = (
        f"If so, pass group={name!r} and leave it out of the context. Then the "
        "standard errors count groups, and models cannot learn single groups by heart."
    )
    about = {"effect": 1 - n_values / n_rounds, "columns": [name]}
    return Finding("group_in_context", "note", found, advice, **about)


# -- numbers of moderate size, for sums of squares -------------------------------------

HUGE_NUMBER = 1e100  # squares of more, and sums of them, may be infinite


def moderate(values):
    """Get numbers whose squares are neither infinite nor zero by their size alone."""
    # They are divided by a power of two, which changes no digit, where the largest is
    # above `HUGE_NUMBER` or below its inverse.
    finite = np.isfinite(values)
    if not finite.all():
        values = np.where(finite, values, np.nan)
    largest = np.abs(values).max(where=finite, initial=0.0)
    if largest == 0 or 1 / HUGE_NUMBER < largest < HUGE_NUMBER:
        return values
    return np.ldexp(values, -int(np.frexp(largest)[1]))
