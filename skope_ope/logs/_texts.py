# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Columns of texts, and the labels that their distinct texts stand for."""

import math
import re
from dataclasses import dataclass
from functools import partial

import numpy as np

TRUTH = {"true": True, "false": False}
INTEGER = re.compile(r"0|-?[1-9][0-9]{0,18}")
INT64_LIMIT = 2**63  # of 64 bits
LONGEST_FLOAT = 25  # characters; no float is written longer


@dataclass(frozen=True)
class Texts:
    """A column of texts: codes of the rows, and the texts by code."""

    codes: np.ndarray
    values: list

    def __len__(self):
        return len(self.codes)

    def array(self):
        """Return the texts of the rows, dtype object."""
        return np.array(self.values, dtype=object)[self.codes]

    def row_of(self, text):
        """Return the first row of a text."""
        return int((self.codes == self.values.index(text)).argmax())


def coded_texts(cells, seen=None):
    """Return cells as `Texts`, in the order in which they first occur."""
    seen = {} if seen is None else seen
    codes = [seen.setdefault(cell, len(seen)) for cell in cells]
    return Texts(np.array(codes, dtype=np.intp), list(seen))


def _is_integer(text):
    return bool(INTEGER.fullmatch(text)) and -INT64_LIMIT <= int(text) < INT64_LIMIT


def _is_float(whole, text):
    """Tell whether a text is the way to write a float, `whole` after whole ones."""
    try:
        number = float(text) if len(text) < LONGEST_FLOAT else math.inf
    except ValueError:
        return False
    written = repr(number).removesuffix(".0")
    written += whole if written.lstrip("-").isdigit() else ""
    return math.isfinite(number) and text == written and (number != 0 or text[0] != "-")


def _of_truth(text):
    return TRUTH[text.lower()]


# kinds of labels that are no texts: whether a text is the one way to write such a
# label, and how it is read. 7 and 007, 1.1 and 1.10, true and 1 are two labels
LABEL_KINDS = {
    "integer": (_is_integer, int),
    "float": (partial(_is_float, ".0"), float),
    "short": (partial(_is_float, ""), float),
    **{
        word: ({word, other}.__contains__, _of_truth)
        for word, other in (("True", "False"), ("true", "false"), ("TRUE", "FALSE"))
    },
}


def kinds_of(texts, kinds=tuple(LABEL_KINDS)):
    """Return those of some kinds of labels that all texts are of, in their order."""
    return [kind for kind in kinds if all(map(LABEL_KINDS[kind][0], texts))]


def parse_labels(texts, kinds=None):
    """Turn distinct texts into ints, floats or booleans where all of them are such."""
    # That is the first of `kinds`, by default of `kinds_of` these texts.
    kinds = kinds_of(texts) if kinds is None else kinds
    return np.array(
        [LABEL_KINDS[kinds[0]][1](text) for text in texts] if kinds else texts
    )
