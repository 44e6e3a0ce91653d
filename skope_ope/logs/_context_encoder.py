# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Contexts of any columns as a matrix of numbers."""

from __future__ import annotations

from numbers import Integral
from typing import Any, Literal

import numpy as np
from scipy import sparse
from sklearn.base import TransformerMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from skope_ope._sklearn import Estimator, Interval, StrOptions
from skope_ope.logs._context_columns import MAX_CATEGORIES
from skope_ope.logs._encoder_parts import Number, parts_of
from skope_ope.logs._frame_columns import kind_of_column, views_of
from skope_ope.logs._frames import import_narwhals
from skope_ope.logs._validation import is_frame


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
                parts_of(kind, views, self.max_categories) for kind, views in columns
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
            rows = sparse.csr_matrix(X)
            rows = rows.multiply(1 / scale).tocsr()
            return rows if self._is_sparse else rows.toarray()
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
        out = []
        for name, parts in zip(names, self._parts, strict=True):
            for _, part in parts:
                out += part.names(name)
        return np.array(out, dtype=object)

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
