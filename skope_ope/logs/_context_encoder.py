# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Contexts of any columns as a matrix of numbers, and which of them models take."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from datetime import date, time, timedelta
from decimal import Decimal
from itertools import chain
from numbers import Integral, Real
from typing import Any, Literal

import numpy as np
from scipy import sparse
from sklearn.base import TransformerMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from skope_ope._sklearn import Estimator, Interval, StrOptions
from skope_ope.logs._frames import import_narwhals
from skope_ope.logs._labels import factorise
from skope_ope.logs._row_container import take_rows
from skope_ope.logs._validation import is_frame, is_missing

# -- what a column of a context becomes: a scaled number, or one column per text -------

MAX_CATEGORIES = 100  # columns that one text feature may take


def scale_of(values):
    """Return (mean, standard deviation) of the known ones among some numbers."""
    # The deviation is 1 where they do not differ, and the mean 0 where there are none.
    known = values[~np.isnan(values)]
    spread = float(known.std()) if known.size else 0.0
    return (float(known.mean()) if known.size else 0.0), spread or 1.0


def category_columns(texts, counts, most):
    """Return the column of every text, and how many texts have one to themselves."""
    order = sorted(range(len(counts)), key=lambda code: (-counts[code], code))
    kept = order[: most - 1] if len(order) > most else order
    columns = {text: j for j, text in enumerate(sorted(texts[c] for c in kept))}
    columns.update((texts[code], len(kept)) for code in order[len(kept) :])
    return columns, len(kept)


def category_names(name, columns):
    """Return what the columns of a text feature hold, such as "city = Rome"."""
    held = {}
    for text, j in columns.items():
        held.setdefault(j, []).append(text)
    return [
        f"{name} = {texts[0]}" if len(texts) == 1 else f"{name}, other texts"
        for _, texts in sorted(held.items())
    ]


# --------------------------------------------------------------------------------------


class ContextEncoder(TransformerMixin, Estimator):
    """Encode the texts, categories, dates and booleans of a context as numbers.

    - Numbers are standardised. Missing ones become the mean. If `fit` saw missing
      values, one more column marks them.
    - Texts and categories are one-hot encoded. Beyond `max_categories`, the rarest
      values share the last column. A value that is new in `transform` goes to the
      shared column; if there is none, all columns are 0. If `fit` saw missing values,
      they have a column.
    - Booleans become 0 or 1.
    - Dates become the number of days (standardised), the weekday and the hour of the
      day. The last two are categories; the hour is left out if it never changes.
      Dates with a time zone use the local time.

    Arrays are treated as numbers. Sparse matrices are scaled but not centred, so that
    zeros stay zeros. Read more in the :ref:`User Guide <texts_and_dates>`.

    Parameters
    ----------
    max_categories : int, default=100
        Maximum number of columns for one text column.
    sparse_output : bool or "auto", default=True
        Whether the result is a CSR matrix. `False`: a dense array, which models such
        as `HistGradientBoostingRegressor` need. "auto": sparse if the input is sparse,
        or if a row has more than three columns per stored entry.

    Attributes
    ----------
    n_features_in_ : int
        Number of columns seen in `fit`.
    feature_names_in_ : ndarray of shape (n_features,)
        Names of these columns, if the names are texts.
    n_features_out_ : int
        Number of columns of the result.

    See Also
    --------
    ClassifierPolicy : Learns from frames, and uses this encoder if needed.

    Examples
    --------
    >>> import numpy as np
    >>> from skope_ope import ContextEncoder
    >>> X = np.array([[20.0, 1.0], [np.nan, 1.0], [40.0, 3.0]])
    >>> encoder = ContextEncoder(sparse_output=False).fit(X)
    >>> encoder.transform(X).round(2)
    array([[-1.  ,  0.  , -0.71],
           [ 0.  ,  1.  , -0.71],
           [ 1.  ,  0.  ,  1.41]])
    >>> encoder.get_feature_names_out(["age", "visits"])
    array(['age', 'age is missing', 'visits'], dtype=object)
    """

    _parameter_constraints: dict = {
        "max_categories": [Interval(Integral, 2, None, closed="left")],
        "sparse_output": ["boolean", StrOptions({"auto"})],
    }

    def __init__(
        self,
        *,
        max_categories: int = MAX_CATEGORIES,
        sparse_output: bool | Literal["auto"] = True,
    ) -> None:
        self.max_categories = max_categories
        self.sparse_output = sparse_output

    def fit(self, X: Any, y: Any = None) -> ContextEncoder:
        """Learn means, standard deviations and categories.

        Parameters
        ----------
        X : frame, array-like or sparse matrix of shape (n_samples, n_features)
            Contexts.
        y : object, default=None
            Ignored.

        Returns
        -------
        self : ContextEncoder
            The fitted encoder.
        """
        self._validate_params()
        X = self._checked(X, reset=True)
        if sparse.issparse(X):
            self._kinds = ["number"] * X.shape[1]
            self._parts = [[(0, Number(0.0, scale))] for scale in _spreads(X)]
        else:
            columns = self._columns_of(X)
            self._kinds = [kind for kind, _ in columns]
            self._parts = [
                encoder_parts(kind, views, self.max_categories)
                for kind, views in columns
            ]
        self._is_scaler = sparse.issparse(X)
        widths = [part.width for parts in self._parts for _, part in parts]
        self.n_features_out_ = sum(widths)
        self._is_sparse = self.sparse_output
        if self.sparse_output == "auto":
            self._is_sparse = self._is_scaler or sum(widths) > 3 * len(widths)
        return self

    def transform(self, X: Any) -> Any:
        """Return the contexts as numbers.

        Parameters
        ----------
        X : frame, array-like or sparse matrix of shape (n_samples, n_features)
            Contexts with the same columns as in `fit`.

        Returns
        -------
        X_out : CSR matrix or ndarray of shape (n_samples, n_columns)
            The encoded contexts.
        """
        check_is_fitted(self)
        X = self._checked(X, reset=False)
        if self._is_scaler and not is_frame(X):
            scale = np.array([parts[0][1].scale for parts in self._parts])
            rows = sparse.csr_matrix(X).multiply(1 / scale).tocsr()
            return rows if self._is_sparse else rows.toarray()
        parts = [part for parts in self._parts for _, part in parts]
        if not (self._is_sparse or is_frame(X)) and all(
            isinstance(part, Number) for part in parts
        ):  # all columns at once
            centre, scale, fill = np.array(
                [(part.centre, part.scale, part.fill) for part in parts]
            ).T
            return np.where(np.isnan(X), fill, (X - centre) / scale) + 0.0  # no -0.0
        columns = self._columns_of(X, self._kinds)
        found = [
            part.entries(views[position])
            for parts, (_, views) in zip(self._parts, columns, strict=True)
            for position, part in parts
        ]
        return self._joined(X.shape[0], found)

    def get_feature_names_out(self, input_features: Any = None) -> Any:
        """Return the names of the encoded columns, such as "city = Rome".

        Parameters
        ----------
        input_features : array-like of str of shape (n_features,), default=None
            Names of the columns. `None`: those seen in `fit`, or x0, x1, ...

        Returns
        -------
        names : ndarray of str objects of shape (n_columns,)
            The names.
        """
        check_is_fitted(self)
        known = getattr(self, "feature_names_in_", None)
        if input_features is None:
            names = [f"x{j}" for j in range(self.n_features_in_)]
            names = names if known is None else known
        else:
            names = np.asarray(input_features, dtype=object)
            if known is not None and not np.array_equal(names, known):
                raise ValueError("input_features is not equal to feature_names_in_")
            if len(names) != self.n_features_in_:
                raise ValueError(
                    "input_features should have length equal to number of features "
                    f"({self.n_features_in_}), got {len(names)}"
                )
        pairs = zip(names, self._parts, strict=True)
        out = [part.names(name) for name, parts in pairs for _, part in parts]
        return np.array([*chain(*out)], dtype=object)

    def _checked(self, X, reset):
        """Return an array or sparse matrix of numbers, or a frame as it is."""
        if is_frame(X):
            validate_data(self, X, reset=reset, skip_check_array=True)
            if reset and not len(X):
                raise ValueError("ContextEncoder learns from rows; the frame has none.")
            return X
        X = validate_data(
            self,
            X,
            reset=reset,
            accept_sparse="csr",
            dtype=np.float64,
            ensure_all_finite=True if sparse.issparse(X) else "allow-nan",
        )
        dense_fit = not reset and not self._is_scaler
        return X.toarray() if dense_fit and sparse.issparse(X) else X

    def _columns_of(self, X, kinds=None):
        """Return (kind, views) of every column; the kinds are those of fit, if any."""
        if not is_frame(X):
            if not {"text", "date"}.isdisjoint(kinds or ()):
                raise ValueError(
                    "ContextEncoder was fitted on a frame with texts or dates, and "
                    "this is an array of numbers. Pass a frame with the same columns."
                )
            return [("number", (column,)) for column in X.T]
        frame = import_narwhals().from_native(X, eager_only=True)
        out = []
        for j, series in enumerate(frame.iter_columns()):
            kind = kind_of_column(series)
            if kinds is not None:
                kind = _kind_as_in_fit(series, kind, kinds[j], self._parts[j])
            out.append((kind, views_of(series, kind)))
        return out

    def _joined(self, n_rows, found):
        """Return the columns of all parts side by side, from their entries."""
        width, parts = 0, [part for parts in self._parts for _, part in parts]
        columns = np.empty((n_rows, len(parts)), dtype=np.intp)
        values = np.empty((n_rows, len(parts)))
        for j, (part, (column, value)) in enumerate(zip(parts, found, strict=True)):
            columns[:, j] = width + column
            values[:, j] = np.where(column < 0, 0.0, value)
            width += part.width
        there = values != 0
        if self._is_sparse:
            ends = np.concatenate([[0], there.sum(axis=1).cumsum()])
            entries = values[there], columns[there], ends
            return sparse.csr_matrix(entries, shape=(n_rows, width))
        out = np.zeros((n_rows, width))
        out[np.nonzero(there)[0], columns[there]] = values[there]
        return out

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.input_tags.allow_nan = True
        return tags


def _kind_as_in_fit(series, kind, known, parts):
    """Return the kind of a column as fit knows it; raise where it is another one."""
    numbers = {"number", "truth"}
    if kind == known or {kind, known} == numbers or series.is_null().all():
        return known
    if known == "text" and not parts[0][1].columns:  # fit saw no values at all
        return known
    holds = {"number": "numbers", "truth": "booleans", "text": "texts", "date": "dates"}
    raise ValueError(
        f"column {series.name!r} of the context holds {holds[kind]}, but held "
        f"{holds[known]} in fit. Convert it to the type that it had in fit."
    )


def _spreads(X):
    """Return the standard deviations of the columns of a sparse matrix, 1 for 0."""
    from sklearn.preprocessing import StandardScaler

    return StandardScaler(with_mean=False).fit(X).scale_.tolist()


# -- what `ContextEncoder` makes of one column of a context ----------------------------
# A part knows what it learned in `fit`. `entries(values)` returns for every row one of
# the part's columns, -1 for none, and the number that stands there.

WEEKDAYS = "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"
HOURS = 25  # more than a day has: none of them is shared


@dataclass(frozen=True)
class Number:
    """A number less its centre, over its scale; the fill where it is missing."""

    centre: float
    scale: float
    fill: float = 0.0
    width = 1

    def entries(self, values):
        """Return the column of every row, and what stands there."""
        scaled = (values - self.centre) / self.scale
        filled = np.where(np.isnan(values), self.fill, scaled)
        return np.zeros(len(values), dtype=np.intp), filled

    def names(self, name):
        """Return what the columns hold."""
        return [name]


@dataclass(frozen=True)
class Missing:
    """One where a number is missing."""

    width = 1

    def entries(self, values):
        """Return the column of every row, and what stands there."""
        return np.where(np.isnan(values), 0, -1), np.ones(len(values))

    def names(self, name):
        """Return what the columns hold."""
        return [f"{name} is missing"]


@dataclass(frozen=True)
class Categories:
    """A column for each text; the rare ones share one, and so do new ones, if any."""

    columns: dict
    n_kept: int
    missing: bool  # whether missing ones have a column, the last
    what: str = ""

    @property
    def width(self):
        """How many columns there are."""
        return max(self.columns.values(), default=-1) + 1 + self.missing

    def entries(self, values):
        """Return the column of every row, and what stands there."""
        texts, codes = values
        new = self.n_kept if self.n_kept in self.columns.values() else -1
        known = [self.columns.get(text, new) for text in texts]
        known.append(self.width - 1 if self.missing else -1)  # code -1 is the last
        return np.array(known, dtype=np.intp)[codes], np.ones(len(codes))

    def names(self, name):
        """Return what the columns hold."""
        named = category_names(f"{name}{self.what}", self.columns)
        return [*named, f"{name} is missing"] if self.missing else named


def encoder_parts(kind, views, max_categories):
    """Return what is learned from a column: pairs of a view's position and a part."""
    if kind == "text":
        return [(0, _category_part(views[0], max_categories))]
    mean, spread = scale_of(views[0])
    truth = kind == "truth"
    out = [(0, Number(0.0, 1.0, fill=mean) if truth else Number(mean, spread))]
    if np.isnan(views[0]).any():
        out.append((0, Missing()))
    if kind == "date":
        days = {day: j for j, day in enumerate(WEEKDAYS)}
        out.append((1, Categories(days, len(days), False, " weekday")))
        if len(views[2][0]) > 1:  # else these are dates without a time
            out.append((2, _category_part(views[2], HOURS, " hour")))
    return out


def _category_part(values, most, what=""):
    texts, codes = values
    counts = np.bincount(codes[codes >= 0], minlength=len(texts))
    missing = not what and bool((codes < 0).any())  # dates have a flag already
    return Categories(*category_columns(texts, counts, most), missing, what)


# -- columns of frames as arrays: numbers, texts with codes, and what dates tell -------

DAY, HOUR = np.timedelta64(1, "D"), np.timedelta64(1, "h")
DTYPE_KINDS = {
    "Boolean": "truth",
    "String": "text",
    "Categorical": "text",
    "Enum": "text",
    "Unknown": "text",  # a column without values
    "Date": "date",
    "Datetime": "date",
    "Duration": "number",
    "Time": "number",
}
# What objects in a column may be, from the narrower type on.
OBJECT_KINDS = (
    ((bool, np.bool_), "truth"),
    ((Real, Decimal, timedelta, time), "number"),
    ((date,), "date"),
)
NOT_SINGLE = (dict, list, tuple, set, bytes, np.ndarray)  # no single values


def kind_of_column(series):
    """Return "number", "truth", "text" or "date": what a column of a frame holds."""
    name = type(series.dtype).__name__
    if series.dtype.is_numeric():
        return "number"
    if name == "Object":
        values = series.drop_nulls().to_list()
        for types, kind in OBJECT_KINDS:
            if values and all(isinstance(one, types) for one in values):
                return kind
        if not any(isinstance(one, NOT_SINGLE) for one in values):
            return "text"
    if name not in DTYPE_KINDS:
        raise TypeError(
            f"column {series.name!r} of the context holds values of type {name}, which "
            "ContextEncoder does not accept. Convert it to numbers, texts or dates, or "
            "leave it out."
        )
    return DTYPE_KINDS[name]


def views_of(series, kind):
    """Return what can be read of a column as a tuple of views."""
    if kind == "text":
        return (_coded_series(series),)
    if kind == "date":
        return _views_of_dates(series)
    numbers = _series_numbers(series)
    if np.isinf(numbers).any():
        row = int(np.flatnonzero(np.isinf(numbers))[0])
        raise ValueError(
            f"column {series.name!r} of the context is infinite at row {row}. Correct "
            "the value, or make it a missing one."
        )
    return (numbers,)


def _series_numbers(series):
    if series.dtype.is_numeric() and not series.is_null().any():
        return series.to_numpy().astype(np.float64)
    return np.array([_object_number(one) for one in series.to_list()], dtype=np.float64)


def _object_number(value):
    if isinstance(value, timedelta):
        return value / timedelta(days=1)
    if isinstance(value, time):
        return value.hour + value.minute / 60 + value.second / 3600
    return np.nan if is_missing(value) else float(value)


def _coded_series(series):
    missing = series.is_null().to_numpy().astype(bool)
    codes = np.full(len(missing), -1, dtype=np.intp)
    present = series.drop_nulls().to_list()
    if not present:
        return [], codes
    texts, codes[~missing] = factorise(np.array([str(one) for one in present]))
    return texts.tolist(), codes


def _views_of_dates(series):
    if getattr(series.dtype, "time_zone", None) is not None:  # the clock on the spot
        series = series.dt.replace_time_zone(None)
    moments = series.to_numpy()
    if moments.dtype.kind != "M":
        moments = [None if is_missing(one) else one for one in series.to_list()]
    moments = np.array(moments, dtype="datetime64[us]")
    missing = np.isnat(moments)
    moments = np.where(missing, np.datetime64(0, "us"), moments)
    days = moments.astype("datetime64[D]")
    number = np.where(missing, np.nan, (moments - np.datetime64(0, "us")) / DAY)
    # the first day, 1970-01-01, was a Thursday
    weekday = np.where(missing, -1, (days.astype(np.int64) + 3) % 7)
    hour = ((moments - days) // HOUR).astype(np.int64)
    seen = np.unique(hour[~missing])
    codes = np.where(missing, -1, np.searchsorted(seen, hour))
    return number, (WEEKDAYS, weekday), ([f"{one:02d}" for one in seen], codes)


# -- whether contexts suit a model that is to be fitted on them ------------------------


def check_features(logs, whose, takes_sparse=True):
    """Raise unless the context suits the model."""
    if logs.n_features == 0:
        raise ValueError(
            f"{whose} needs features: name what was known before the decision with "
            "--context."
        )
    if sparse.issparse(logs.context) and not takes_sparse:
        raise ValueError(
            f"{whose} cannot take the {logs.n_features:,} hashed columns of this log. "
            "Use 'logistic', or 'ridge' as a reward model."
        )


# -- rows of a frame by which some models fail: gaps, and texts that are no numbers
# A part of a log, such as the rounds of an action, may have none of them although the
# log has some.

FIRST_LOOKED_AT = 100  # rows, before the others: most texts are no numbers


def odd_rows(context):
    """Return a few rows that show what is odd in the columns of a context."""
    rows = {row for _, odd in _odd_columns(context) for _, row in odd}
    return np.array(sorted(rows), dtype=np.intp)


def odd_part(context):
    """Return these rows themselves, or None where there are none."""
    rows = odd_rows(context)
    return take_rows(context, rows) if rows.size else None


def oddities(context):
    """Return what is odd in a context, a set of pairs of a column and a kind."""
    return {(name, kind) for name, odd in _odd_columns(context) for kind, _ in odd}


def _odd_columns(context):
    """Yield the name of every column, and (kind, first row) of what is odd in it."""
    for name, missing, series in _gaps_by_column(context):
        yield name, _oddities(missing, series)


def _oddities(missing, series):
    if missing.any():
        yield "gap", int(missing.argmax())
    if series is not None and type(series.dtype).__name__ in TEXT_TYPES:
        for part in (slice(0, FIRST_LOOKED_AT), slice(FIRST_LOOKED_AT, None)):
            values = series[part].to_list()
            for row in np.flatnonzero(~missing[part]).tolist():
                if not _spells_number(values[row]):
                    yield "text", part.start + row
                    return


def _gaps_by_column(context):
    """Yield (name, whether each row is missing, column of a frame or None)."""
    # An array without NaN has a sum, as a rule: then its columns are not looked at.
    array = isinstance(context, np.ndarray) and context.dtype.kind == "f"
    if array and not np.isfinite(context.sum()):
        for place, column in enumerate(context.T):
            yield place, np.isnan(column), None
    for series in series_of(context):
        yield series.name, gaps_of(series), series


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
    """Tell whether a context has columns that many models do not take."""
    # These are all but numbers and booleans, and those with missing values: of frames
    # and of arrays alike.
    types = [one.dtype for one in series_of(context)]
    plain = all(one.is_numeric() or type(one).__name__ == "Boolean" for one in types)
    return not plain or bool(missing_columns(context))


def names_of_texts(context):
    """Return the names of the columns of a frame that hold texts."""
    found = series_of(context)
    return [one.name for one in found if type(one.dtype).__name__ in TEXT_TYPES]


def missing_columns(context):
    """Return the names, or places, of the columns that have missing values, or NaN."""
    return [name for name, missing, _ in _gaps_by_column(context) if missing.any()]


def series_of(context):
    """Return the columns of a frame; none of what is no frame with names."""
    if not is_frame(context):
        return []
    try:
        return list(import_narwhals().from_native(context).iter_columns())
    except (ImportError, TypeError):  # not here, or of columns that have no names
        return []
