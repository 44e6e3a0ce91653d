# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Many datetimes at once, where they are written in the plain way.

That is `2026-01-31 12:00:00`, also with a T, with up to six digits of a fraction, and
with the zone of UTC. NumPy reads them as `utc_microseconds` does, but would also take
what is no moment: hence the look at every character.
"""

import numpy as np

LAYOUT = b"0000-00-00 00:00:00.000000"  # of digits and signs
SHORTEST = 19  # up to the seconds
ZONES = (b"Z", b"+00:00", b"")
BLANK, T = b" T"
ZERO, NINE = b"09"


def plain_moments(texts):
    """Read datetimes that are written in the plain way.

    Parameters
    ----------
    texts : sequence of str
        Datetimes.

    Returns
    -------
    microseconds : ndarray of int64, shape (n_texts,)
        From 1970, UTC; any number where the text is not plain.
    is_plain : ndarray of bool, shape (n_texts,)
        Whether it is.
    """
    found = np.zeros(len(texts), dtype=np.int64)
    is_plain = np.zeros(len(texts), dtype=bool)
    longest = len(LAYOUT) + max(map(len, ZONES))
    lengths = np.fromiter(map(len, texts), np.intp, len(texts))
    for length in np.unique(lengths):
        if not SHORTEST <= length <= longest:
            continue
        rows = np.flatnonzero(lengths == length)
        part = texts if len(rows) == len(texts) else [texts[row] for row in rows]
        try:
            cells = np.array(part, dtype=f"S{length}")
        except UnicodeEncodeError:
            continue
        for zone in ZONES:
            size = length - len(zone)
            plain = _is_plain(cells.view(np.uint8).reshape(-1, length), size, zone)
            if plain.any():
                try:
                    moments = cells[plain].astype(f"S{size}").astype("datetime64[us]")
                except ValueError:  # no such day or time
                    continue
                found[rows[plain]] = moments.view(np.int64)
                is_plain[rows[plain]] = True
    return found, is_plain


def _is_plain(signs, size, zone):
    """Tell which rows of characters are moments of `size` characters and a zone."""
    if not SHORTEST <= size <= len(LAYOUT) or size == SHORTEST + 1:
        return np.zeros(len(signs), dtype=bool)
    plain = (signs[:, :4] != ZERO).any(axis=1)  # there is no year 0
    for place, sign in enumerate(LAYOUT[:size] + zone):
        column = signs[:, place]
        if sign == ZERO and place < size:
            plain &= (column >= ZERO) & (column <= NINE)
        elif sign == BLANK:
            plain &= (column == BLANK) | (column == T)
        else:
            plain &= column == sign
    return plain
