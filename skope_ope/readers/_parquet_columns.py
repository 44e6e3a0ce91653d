# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Columns of parquet files as arrays; pyarrow is imported when such a file comes."""

import numpy as np

from skope_ope.logs._text_files import empty_file, utc_microseconds
from skope_ope.logs._texts import coded_texts
from skope_ope.logs._validation import DROP_OR_FILL, DROP_REWARDS


def open_parquet(path):
    """Open a parquet file, which must be closed."""
    try:
        from pyarrow import ArrowException, parquet
    except ImportError as error:
        raise ImportError(
            f"{path}: parquet files need pyarrow: pip install 'skope-ope[frames]'. Or "
            "save the log as csv."
        ) from error
    try:
        return parquet.ParquetFile(path)
    except (ArrowException, OSError) as error:
        raise ValueError(f"{path} cannot be read as parquet: {error}.") from error


def read_parquet(path, wanted):
    """Read columns of a parquet file, a dict by (name, kind)."""
    from pyarrow import ArrowException

    with open_parquet(path) as file:
        try:
            table = file.read(columns=list(dict.fromkeys(name for name, _ in wanted)))
        except (ArrowException, OSError) as error:
            raise ValueError(f"{path} cannot be read: {error}.") from error
    if not table.num_rows:
        raise empty_file(path)
    return {
        (name, kind): PARQUET_KINDS[kind](_Column(path, name, table.column(name)))
        for name, kind in wanted
    }


class _Column:
    """A column of a parquet file."""

    def __init__(self, path, name, values):
        from pyarrow import types

        self.path, self.name, self.values = path, name, values
        self.type = values.type
        is_dictionary = types.is_dictionary(self.type)
        kind = str(self.type.value_type if is_dictionary else self.type)
        self.is_text = kind in ("string", "large_string", "string_view")
        self.is_bytes = "binary" in kind

    def refuse(self, what, wrong, remedy=DROP_OR_FILL):
        """Raise where rows are wrong."""
        rows = np.flatnonzero(wrong)
        if rows.size:
            raise ValueError(
                f"{self.path}: column {self.name!r} is {what} at row {rows[0]} "
                f"({rows.size} such rows). {remedy}"
            )

    def refuse_nulls(self, remedy=DROP_OR_FILL):
        """Raise where values are missing."""
        if self.values.null_count:
            self.refuse("missing", self.values.is_null().to_numpy(), remedy)

    def wrong_type(self, expected):
        """Return the error of a column that holds something else."""
        return ValueError(
            f"{self.path}: column {self.name!r} has type {self.type}, expected "
            f"{expected}. Name another column, or convert it where the file is written."
        )

    def floats(self):
        """Return numbers, NaN where one is missing."""
        import pyarrow

        if self.is_text or self.is_bytes:  # pyarrow would parse them
            raise self.wrong_type("numbers")
        values = self.values
        try:
            if pyarrow.types.is_boolean(self.type):
                values = values.cast(pyarrow.int8())
            return values.cast(pyarrow.float64(), safe=False).to_numpy()
        except pyarrow.ArrowException:
            raise self.wrong_type("numbers") from None

    def numbers(self, remedy=DROP_OR_FILL):
        """Return finite numbers."""
        self.refuse_nulls(remedy)
        numbers = self.floats()
        self.refuse("not finite", ~np.isfinite(numbers))
        return numbers

    def rewards(self):
        """Return finite numbers, with other advice where one is missing."""
        return self.numbers(DROP_REWARDS)

    def labels(self):
        """Return texts, numbers or booleans."""
        from pyarrow.types import is_nested

        self.refuse_nulls()
        if self.is_text:
            labels = np.array(self.values.to_pylist())
            self.refuse("empty", labels == "")
            return labels
        if is_nested(self.type) or self.is_bytes:
            raise self.wrong_type("texts, numbers or booleans")
        return self.values.to_numpy()

    def moments(self):
        """Return numbers or datetimes."""
        from pyarrow import types

        self.refuse_nulls()
        if types.is_timestamp(self.type) or types.is_date(self.type):
            return self.values.to_numpy().astype("datetime64[us]")
        if not self.is_text:
            return self.numbers()
        moments = np.empty(len(self.values), dtype=np.int64)
        for row, text in enumerate(self.values.to_pylist()):
            try:
                moments[row] = utc_microseconds(text)
            except (ValueError, OverflowError) as error:
                raise ValueError(
                    f"{self.path}: column {self.name!r} at row {row}: {error}."
                ) from None
        return moments.view("datetime64[us]")

    def features(self):
        """Return numbers, NaN where one is missing, or texts, "" where one is."""
        if not self.is_text:
            numbers = self.floats()
            self.refuse("infinite", np.isinf(numbers))
            return numbers
        texts = self.values.to_pylist()
        return coded_texts("" if text is None else text for text in texts)


PARQUET_KINDS = {
    "number": _Column.numbers,
    "reward": _Column.rewards,
    "label": _Column.labels,
    "moment": _Column.moments,
    "feature": _Column.features,
}
