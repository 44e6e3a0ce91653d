# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Whether contexts suit a model that is to be fitted on them."""

from contextlib import contextmanager

import numpy as np
from scipy import sparse

from skope_ope.logs._frames import import_narwhals
from skope_ope.logs._row_container import take_rows
from skope_ope.logs._validation import is_frame


def check_features(logs, whose, takes_missing):
    """Raise unless the context suits the model."""
    X = logs.context
    if X.shape[1] == 0:
        raise ValueError(
            f"{whose} needs features: name what was known before the decision with "
            "--context."
        )
    if sparse.issparse(X):
        if takes_missing:
            raise ValueError(
                f"{whose} cannot take the {X.shape[1]:,} hashed columns of this log. "
                "Use 'logistic', or 'ridge' as a reward model."
            )
        return
    missing = np.isnan(X).any(axis=1)
    if missing.any() and not takes_missing:
        raise ValueError(
            f"{whose} takes no missing values, but the context has some at row "
            f"{np.flatnonzero(missing)[0]} ({missing.sum()} such rows). Use 'hist', or "
            "fill them."
        )


# -- rows of a frame by which some models fail: gaps, and texts that are no numbers
# A part of a log, such as the rounds of an action, may have none of them although the
# log has some.

FIRST_ROWS = 100  # rows that are looked at before the others: most texts are no numbers


def odd_rows(context):
    """Return a few rows that show what is odd in the columns of a context."""
    rows = {row for series in series_of(context) for _, row in _oddities(series)}
    return np.array(sorted(rows), dtype=np.intp)


def odd_part(context):
    """Return these rows themselves, or None where there are none."""
    rows = odd_rows(context)
    return take_rows(context, rows) if rows.size else None


def oddities(context):
    """Return what is odd in a context, a set of pairs of a column and a kind."""
    found = ((one.name, _oddities(one)) for one in series_of(context))
    return {(name, kind) for name, odd in found for kind, _ in odd}


def _oddities(series):
    """Yield (kind, first row) of what is odd in a column."""
    missing = gaps_of(series)
    if missing.any():
        yield "gap", int(missing.argmax())
    if type(series.dtype).__name__ in TEXT_TYPES:
        for part in (slice(0, FIRST_ROWS), slice(FIRST_ROWS, None)):
            values = series[part].to_list()
            for row in np.flatnonzero(~missing[part]).tolist():
                if not _spells_number(values[row]):
                    yield "text", part.start + row
                    return


def gaps_of(series):
    """Tell of every row of a column whether its value is missing, or NaN."""
    missing = series.is_null().to_numpy().astype(bool)
    if series.dtype.is_float():
        missing |= series.is_nan().fill_null(value=True).to_numpy().astype(bool)
    return missing


def _spells_number(value):
    try:
        float(value)
    except (TypeError, ValueError):
        return False
    return True


# -- what to do where a model does not take texts or missing values of a context -------

NOTED = 10  # columns in a note
TEXT_TYPES = "String", "Categorical", "Enum", "Object"


@contextmanager
def encoding_explained(context):
    """Add to an error of scikit-learn which columns are the cause, and what to do."""
    try:
        yield
    except ValueError as error:
        note = encoding_note(str(error), context)
        if note and note not in getattr(error, "__notes__", ()):
            error.add_note(note)
        raise


def encoding_note(message, context):
    """Return what to do about an error, or None where no column is its cause."""
    if "Found unknown categories" in message:
        return (
            "A part of the log, such as a fold, may lack some categories. Use "
            "OneHotEncoder(handle_unknown='ignore')."
        )
    columns, what, remedy = [], "", ""
    if "contains NaN" in message:
        columns, what = missing_columns(context), "has missing values"
        remedy = (
            "Fit it in a Pipeline that fills them: make_pipeline(ContextEncoder(), "
            "model) or make_pipeline(SimpleImputer(), model)."
        )
    elif "could not convert string to float" in message:
        columns, what = names_of_texts(context), "holds texts"
        remedy = (
            "Encode them in a Pipeline: make_pipeline(ContextEncoder(), model). Or "
            "name them in your ColumnTransformer."
        )
    shown = ", ".join(map(repr, columns[:NOTED]))
    does_not = "which this model does not accept"
    told = f"The context {what} ({shown}), {does_not}. {remedy}"
    return told if columns else None


def has_other_columns(context):
    """Tell whether a frame has columns that many models do not take."""
    # These are all but numbers and booleans, and those with missing values.
    types = [one.dtype for one in series_of(context)]
    plain = all(one.is_numeric() or type(one).__name__ == "Boolean" for one in types)
    return not plain or bool(missing_columns(context))


def names_of_texts(context):
    """Return the names of the columns of a frame that hold texts."""
    found = series_of(context)
    return [one.name for one in found if type(one.dtype).__name__ in TEXT_TYPES]


def missing_columns(context):
    """Return the names of the columns of a frame that have missing values, or NaN."""
    return [one.name for one in series_of(context) if gaps_of(one).any()]


def series_of(context):
    """Return the columns of a frame; none of what is no frame with names."""
    if not is_frame(context):
        return []
    try:
        return list(import_narwhals().from_native(context).iter_columns())
    except (ImportError, TypeError):  # not here, or of columns that have no names
        return []
