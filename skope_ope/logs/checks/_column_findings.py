# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""What is odd about single columns of the context, whatever they mean."""

from itertools import chain

import numpy as np
from scipy import sparse

from skope_ope.exceptions import LogsWarning
from skope_ope.logs._frames import import_narwhals
from skope_ope.logs._row_container import take_rows
from skope_ope.logs._validation import is_frame, is_missing
from skope_ope.logs.checks._context_columns import (
    capital,
    chosen_columns,
    column_names,
    columns_tested,
    dense_columns,
    label_of,
    listed,
    sampled_rows,
)
from skope_ope.logs.checks._finding import Finding

SAMPLE = 1000  # rounds that show which columns may be constant or alike


def column_findings(logs, random_state=0):
    """Return missing values, constant columns and columns that are there twice."""
    context, n_rounds = logs.context, len(logs)
    names, named = column_names(context), is_frame(context)
    missing = _missing(context)
    facts = {}
    if missing:
        facts["missing values"] = {
            "column": [names[j] for j in missing],
            "rounds": list(missing.values()),
        }
    part = columns_tested(context)
    if part is not None:
        facts["columns tested"] = part
    constant, alike = _constant_and_alike(context, n_rounds, random_state)

    def labels(which):
        return listed([label_of(names[j], named) for j in which])

    findings = []
    if missing:
        most = max(missing.values())
        findings.append(
            _note(
                "missing_values",
                f"Values are missing or infinite in {labels(missing)}: "
                f"up to {most:,} of {n_rounds:,} rounds.",
                "Models and policies must take them, as trees on histograms do, or "
                "fill them. What is missing only where something happened later "
                "gives away what happened.",
                [names[j] for j in missing],
                most,
                most / n_rounds,
            )
        )
    if constant and n_rounds > 1:
        findings.append(
            _note(
                "constant_column",
                f"{labels(constant)} {_have(constant)} the same value in all rounds.",
                "Such a column tells nothing: check whether its values were lost.",
                [names[j] for j in constant],
                len(constant),
            )
        )
    if alike:
        pairs = [
            f"{label_of(names[j], named)} is {label_of(names[i], named)} again"
            for i, j in alike
        ]
        findings.append(
            _note(
                "duplicate_column",
                f"{capital(listed(pairs))}.",
                "Keep one of each: models share out weight between copies at random.",
                [names[j] for _, j in alike],
                len(alike),
            )
        )
    return facts, findings


def _constant_and_alike(context, n_rounds, random_state):
    """Return columns of one value, and pairs of equal ones: what a sample shows."""
    # Only columns that are constant or alike in the sample are read in all rounds.
    rows = sampled_rows(n_rounds, SAMPLE, random_state)
    some = _columns(take_rows(context, rows), chosen_columns(context))
    still = [j for j, values in some.items() if _one_value(values)]
    twins = [pair for pair in _twins(some) if pair[1] not in still]
    whole = _columns(context, sorted({*still, *chain(*twins)}))
    constant = [j for j in still if _one_value(whole[j])]
    if sparse.issparse(context):
        constant = _without_entry(context)
    return constant, [(i, j) for i, j in twins if _same(whole[i], whole[j])]


def _note(name, found, advice, columns, number, effect=float("nan")):
    return Finding(
        name,
        "note",
        capital(found),
        (advice,),
        number=float(number),
        effect=effect,
        columns=columns[:10],
        category=LogsWarning,
    )


def _columns(context, chosen):
    """Return some columns as arrays, by position."""
    if is_frame(context):
        frame = import_narwhals().from_native(context, eager_only=True)
        names = list(frame.columns)
        return {j: _plain(frame.get_column(names[j]).to_numpy()) for j in chosen}
    table = dense_columns(context, chosen)
    return {int(j): table[:, k] for k, j in enumerate(chosen)}


def _plain(values):
    """Return objects with None for what is missing, whatever the library calls it."""
    if values.dtype != object:
        return values
    out = np.empty(len(values), dtype=object)
    out[:] = [None if is_missing(value) else value for value in values.tolist()]
    return out


def _missing(context):
    """Return how many values are missing or infinite, by column that has some."""
    if is_frame(context):
        frame = import_narwhals().from_native(context, eager_only=True)
        counts = [_missing_in_series(frame.get_column(name)) for name in frame.columns]
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


def _without_entry(context):
    filled = np.bincount(context.indices, minlength=context.shape[1])
    return np.flatnonzero(filled == 0).tolist()


def _one_value(values):
    first = values[0]
    if first != first:  # NaN
        return bool((values != values).all())
    return bool((values == first).all())


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


def _same(a, b):
    missing = a != a
    return bool(np.array_equal(missing, b != b) and (a == b)[~missing].all())


def _have(columns):
    return "has" if len(columns) == 1 else "have"
