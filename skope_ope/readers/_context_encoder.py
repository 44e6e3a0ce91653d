# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Columns of files of tables as a context of floats."""

import warnings

import numpy as np

from skope_ope.exceptions import LogsWarning
from skope_ope.readers._texts import Texts

MAX_CATEGORIES = 100  # columns that one text feature may take


class ContextEncoder:
    """Numbers standardised and texts one-hot, as they were in one file.

    Parameters
    ----------
    features : dict
        Arrays of numbers or `Texts` by name.
    """

    def __init__(self, features):
        self.parts = {
            name: _categories(name, values)
            if isinstance(values, Texts)
            else _scale(values)
            for name, values in features.items()
        }

    def names(self):
        """Return what the columns of the context hold, such as "city = Rome"."""
        out = []
        for name, part in self.parts.items():
            if not isinstance(part, dict):
                out.append(name)
                continue
            held = {}
            for text, j in part.items():
                held.setdefault(j, []).append(text)
            out += [
                f"{name} = {texts[0]}" if len(texts) == 1 else f"{name}, other texts"
                for _, texts in sorted(held.items())
            ]
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


def _scale(values):
    known = values[~np.isnan(values)]
    spread = float(known.std()) if known.size else 0.0
    return (float(known.mean()) if known.size else 0.0), spread or 1.0


def _categories(name, texts):
    """Return {text: column}; rare texts share the last column."""
    counts = np.bincount(texts.codes, minlength=len(texts.values))
    order = sorted(range(len(counts)), key=lambda code: (-counts[code], code))
    kept = order
    if len(order) > MAX_CATEGORIES:
        kept = order[: MAX_CATEGORIES - 1]
        warnings.warn(
            LogsWarning(
                f"column {name!r} holds {len(order)} different texts: the context "
                f"tells the {len(kept)} most frequent ones apart, the others share a "
                "column. Leave the column out if it names single rounds or users.",
                len(order),
            ),
            stacklevel=5,
        )
    columns = {text: j for j, text in enumerate(sorted(texts.values[c] for c in kept))}
    columns.update((texts.values[code], len(kept)) for code in order[len(kept) :])
    return columns


def _one_hot(texts, columns):
    """Return indicator columns; a text unknown to the first file has none."""
    width = max(columns.values()) + 1
    codes = np.array([columns.get(text, width) for text in texts.values])[texts.codes]
    return (codes[:, None] == np.arange(width)).astype(np.float64)
