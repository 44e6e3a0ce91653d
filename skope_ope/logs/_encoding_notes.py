# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""What to do where a model does not take texts or missing values of a context."""

from contextlib import contextmanager

from skope_ope.logs._frames import import_narwhals
from skope_ope.logs._validation import is_frame

LISTED = 10  # columns in a note
TEXTS = "String", "Categorical", "Enum", "Object"


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
    if "contains NaN" in message:
        columns = missing_columns(context)
        shown = ", ".join(map(repr, columns[:LISTED]))
        return columns and (
            f"The context has missing values ({shown}), which this model does not "
            "accept. Fit it in a Pipeline that fills them: "
            "make_pipeline(ContextEncoder(), model) or "
            "make_pipeline(SimpleImputer(), model)."
        )
    if "could not convert string to float" not in message:
        return None
    columns = text_columns(context)
    if not columns:
        return None
    shown = ", ".join(map(repr, columns[:LISTED]))
    return (
        f"The context holds texts ({shown}), which this model does not accept. Encode "
        "them in a Pipeline: make_pipeline(ContextEncoder(), model). Or name them in "
        "your ColumnTransformer."
    )


def has_other_columns(context):
    """Tell whether a frame has columns that many models do not take."""
    # These are all but numbers and booleans, and those with missing values.
    series = columns_of(context)
    plain = all(
        one.dtype.is_numeric() or type(one.dtype).__name__ == "Boolean"
        for one in series
    )
    return not plain or bool(missing_columns(context))


def text_columns(context):
    """Return the names of the columns of a frame that hold texts."""
    return [
        one.name for one in columns_of(context) if type(one.dtype).__name__ in TEXTS
    ]


def missing_columns(context):
    """Return the names of the columns of a frame that have missing values, or NaN."""
    return [
        one.name
        for one in columns_of(context)
        if one.is_null().any() or (one.dtype.is_float() and one.is_nan().any())
    ]


def columns_of(context):
    """Return the columns of a frame; none of what is no frame with names."""
    if not is_frame(context):
        return []
    try:
        return list(import_narwhals().from_native(context).iter_columns())
    except (ImportError, TypeError):  # not here, or of columns that have no names
        return []
