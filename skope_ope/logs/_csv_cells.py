# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Cells of csv files as numbers, labels and texts: the same for files and for parts."""

import csv
import io
from contextlib import suppress

import numpy as np

from skope_ope.exceptions import RowError
from skope_ope.logs._numbers import number, numbers, quoted
from skope_ope.logs._texts import TRUTH, Texts, parse_labels, texts_of

MANY = 100  # texts that tell whether others may be of a type
DROP = "Correct or drop the row."
# words for missing, in any case and with blanks around them; "none" only in place of a
# number, as a label it may be an action: to do nothing
MISSING = {"", "na", "n/a", "nan", "null"}
NUMBERS = {**dict.fromkeys((*MISSING, "none"), np.nan), **TRUTH}
SPELT = [
    spelt(word)
    for word in sorted({*NUMBERS} - {*TRUTH})
    for spelt in (str.lower, str.upper, str.capitalize)
] + ["NaN"]


def is_missing(text):
    """Tell whether a text is a word for a missing one."""
    return text.strip().lower() in MISSING


def cell_number(text):
    """Return the number that a cell holds, NaN where it is missing."""
    word = NUMBERS.get(text.strip().lower())
    return number(text) if word is None else float(word)


def numbers_of(name, cells, remedy=DROP, optional=False):
    """Return cells, floats or `Texts`, as finite floats, or NaN where `optional`."""
    if isinstance(cells, Texts):
        values = np.empty(len(cells.values))
        for code, text in enumerate(cells.values):
            try:
                values[code] = cell_number(text)
            except ValueError:
                raise bad_cell(name, cells, text, "a number") from None
        found = values[cells.codes]
    else:
        found = cells
    bad = ~np.isfinite(found)
    if optional:
        bad &= ~np.isnan(found)
    if bad.any():
        row = int(bad.argmax())
        what = "missing" if np.isnan(found[row]) else f"{found[row]:g}"
        remedy = remedy if what == "missing" else DROP
        raise RowError(
            f"column {name!r} is {what}", row, f", expected a finite number. {remedy}"
        )
    return found


def labels_of(name, texts, kinds=None):
    """Return distinct labels and the codes of the rows, without blanks around them."""
    stripped, codes = [text.strip() for text in texts.values], texts.codes
    if not MISSING.isdisjoint(map(str.lower, stripped)):
        text = next(filter(is_missing, texts.values))
        raise bad_cell(name, texts, text, "a label")
    if stripped != texts.values:
        merged = texts_of(stripped)
        stripped, codes = merged.values, merged.codes[codes]
    return parse_labels(stripped, kinds), codes


def bad_cell(name, texts, text, expected):
    """Return the error for a text in a column."""
    found, more = f"is {quoted(text)}", ""
    if not text.strip():
        found = "is missing"
    elif is_missing(text) and expected == "a label":
        found, more = f"is {quoted(text)}, a word for missing", " Or rename the label."
    return RowError(
        f"column {name!r} {found}",
        texts.row_of(text),
        f", expected {expected}. {DROP}{more}",
    )


def text_columns(block, n_columns, texts):
    """Get columns of a block by place: `Texts`, or floats where all cells are such."""
    # `texts` are the places, and which of them are texts anyhow. `ValueError`: rows are
    # not as long as the header.
    try:
        import pyarrow
    except ImportError:
        return _by_python(block, n_columns, texts)
    types = {
        place: text_type() if told else pyarrow.float64()
        for place, told in texts.items()
    }
    _, found = arrow_columns(block, n_columns, types)
    return {place: of_arrow(column) for place, column in found.items()}


def _by_python(block, n_columns, texts):
    text = block.decode("utf-8", "backslashreplace")
    rows = [
        row for row in csv.reader(io.StringIO(text, newline=""), strict=True) if row
    ]
    if {*map(len, rows)} != {n_columns}:
        raise ValueError("the rows are not as long as the header")
    columns = list(zip(*rows, strict=True))
    found = {}
    for place, told in texts.items():
        cells = columns[place]
        try:
            if told:
                raise ValueError
            found[place] = np.fromiter(numbers(cells), np.float64, len(cells))
        except ValueError:
            found[place] = texts_of(cells)
    return found


def text_type():
    """Return the type of pyarrow in which texts are read."""
    import pyarrow

    return pyarrow.dictionary(pyarrow.int32(), pyarrow.string())


def of_arrow(column):
    """Return a column of `arrow_columns` as floats or `Texts`."""
    from pyarrow.types import is_dictionary

    if not is_dictionary(column.type):
        return column.to_numpy(zero_copy_only=False)
    return Texts(column.indices.to_numpy(), column.dictionary.to_pylist())


def arrow_columns(block, n_columns, types):
    """Return the number of rows, and arrays of pyarrow by place."""
    # An array has the type that `types` asks for, or is one of texts where a cell does
    # not fit.
    import pyarrow
    from pyarrow import compute
    from pyarrow import csv as reader

    if not block.isascii():  # other encodings keep their bytes apart
        block = block.decode("utf-8", "backslashreplace").encode()

    def parse(types):
        table = reader.read_csv(
            pyarrow.BufferReader(block),
            reader.ReadOptions(
                use_threads=False,
                block_size=len(block) + 1,
                column_names=[str(place) for place in range(n_columns)],
            ),
            reader.ParseOptions(newlines_in_values=b'"' in block),
            reader.ConvertOptions(
                include_columns=[str(place) for place in types],
                column_types={str(place): kind for place, kind in types.items()},
                null_values=SPELT,
                strings_can_be_null=False,
            ),
        )
        found = {place: table.column(str(place)).combine_chunks() for place in types}
        for column in found.values():
            floats = pyarrow.types.is_floating(column.type)
            if floats and compute.any(compute.is_nan(column)).as_py():
                raise pyarrow.ArrowInvalid("nan(1), say")
        return len(table), found

    try:
        return parse(types)
    except pyarrow.ArrowInvalid:
        n_rows, found = parse(dict.fromkeys(types, text_type()))
    types = {p: kind for p, kind in types.items() if fits(found[p].dictionary, kind)}
    with suppress(pyarrow.ArrowInvalid):
        found |= parse(types)[1] if types else {}
    return n_rows, found


def missing_among(texts):
    """Return which texts of an array of pyarrow are words for missing ones."""
    import pyarrow
    from pyarrow import compute

    words = compute.utf8_lower(compute.utf8_trim_whitespace(texts))
    return compute.is_in(words, value_set=pyarrow.array(sorted(MISSING)))


def cast(texts, kind):
    """Return texts of pyarrow with another type."""
    texts[:MANY].cast(kind)  # an error costs something for every text
    return texts.cast(kind)


def fits(texts, kind):
    """Tell whether all texts of an array are missing or of a type."""
    import pyarrow
    from pyarrow import compute

    if pyarrow.types.is_dictionary(kind):
        return True
    try:
        cast(texts.filter(compute.invert(missing_among(texts))), kind)
    except pyarrow.ArrowInvalid:
        return False
    return True
