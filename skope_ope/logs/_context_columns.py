# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""What a column of a context becomes: a scaled number, or one column per text."""

import numpy as np

MAX_CATEGORIES = 100  # columns that one text feature may take


def scale_of(values):
    """Return (mean, standard deviation) of the known ones among some numbers."""
    # The deviation is 1 where they do not differ, and the mean 0 where there are none.
    known = values[~np.isnan(values)]
    spread = float(known.std()) if known.size else 0.0
    return (float(known.mean()) if known.size else 0.0), spread or 1.0


def columns_of(texts, counts, most):
    """Return the column of every text, and how many texts have one to themselves."""
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
