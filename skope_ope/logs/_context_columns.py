# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""What a column of a context becomes: a scaled number, or one column per text."""

import numpy as np

MAX_CATEGORIES = 100  # columns that one text feature may take


def scale_of(values):
    """Return (mean, standard deviation) of the known ones among some numbers.

    The deviation is 1 where they do not differ, and the mean 0 where there are none.
    """
    known = values[~np.isnan(values)]
    spread = float(known.std()) if known.size else 0.0
    return (float(known.mean()) if known.size else 0.0), spread or 1.0


def columns_of(texts, counts, most):
    """Return the column of every text, and how many texts have one to themselves.

    Parameters
    ----------
    texts : sequence of str
        Distinct texts.
    counts : ndarray of shape (n_texts,)
        How often each occurs.
    most : int
        Columns there may be. Where there are more texts, the rarest ones share the
        last column.

    Returns
    -------
    columns : dict
        Column by text; those with one to themselves come first, sorted.
    n_kept : int
        How many these are.
    """
    order = sorted(range(len(counts)), key=lambda code: (-counts[code], code))
    kept = order[: most - 1] if len(order) > most else order
    columns = {text: j for j, text in enumerate(sorted(texts[c] for c in kept))}
    columns.update((texts[code], len(kept)) for code in order[len(kept) :])
    return columns, len(kept)


def names_of(name, columns):
    """Return what the columns of a text feature hold, such as "city = Rome"."""
    held = {}
    for text, j in columns.items():
        held.setdefault(j, []).append(text)
    return [
        f"{name} = {texts[0]}" if len(texts) == 1 else f"{name}, other texts"
        for _, texts in sorted(held.items())
    ]
