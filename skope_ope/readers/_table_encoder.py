# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Columns of files of tables as a context of floats."""

import warnings

import numpy as np

from skope_ope.exceptions import LogsWarning
from skope_ope.logs._context_columns import (
    MAX_CATEGORIES,
    columns_of,
    names_of,
    scale_of,
)
from skope_ope.logs._texts import Texts


class TableEncoder:
    """Numbers standardised and texts one-hot, as they were in one file."""

    def __init__(self, features):
        self.parts = {
            name: _categories(name, values)
            if isinstance(values, Texts)
            else scale_of(values)
            for name, values in features.items()
        }

    def names(self):
        """Return what the columns of the context hold, such as "city = Rome"."""
        out = []
        for name, part in self.parts.items():
            out += names_of(name, part) if isinstance(part, dict) else [name]
        return out

    def transform(self, features):
        """Return an array with the columns of all features side by side."""
        blocks = [np.empty((len(next(iter(features.values()))), 0))] if features else []
        for name, part in self.parts.items():
            values = features[name]
            if isinstance(values, Texts) != isinstance(part, dict):
                raise ValueError(
                    f"column {name!r} holds texts in one of the files and numbers in "
                    "the other. Name columns that agree."
                )
            if isinstance(part, dict):
                blocks.append(_one_hot(values, part))
            else:
                centre, scale = part
                blocks.append(((values - centre) / scale)[:, None])
        return np.hstack(blocks)


def _categories(name, texts):
    """Return {text: column}; rare texts share the last column."""
    counts = np.bincount(texts.codes, minlength=len(texts.values))
    columns, n_kept = columns_of(texts.values, counts, MAX_CATEGORIES)
    if n_kept < len(counts):
        warnings.warn(
            LogsWarning(
                f"column {name!r} holds {len(counts)} different texts. The {n_kept} "
                "most frequent ones have a column each, the others share one. Leave "
                "the column out if it names single rounds or users.",
                len(counts),
            ),
            stacklevel=5,
        )
    return columns


def _one_hot(texts, columns):
    """Return indicator columns; a text unknown to the first file has none."""
    width = max(columns.values()) + 1
    codes = np.array([columns.get(text, width) for text in texts.values])[texts.codes]
    return (codes[:, None] == np.arange(width)).astype(np.float64)
