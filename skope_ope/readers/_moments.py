# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Many datetimes at once, where they are written in the plain way.

That is `2026-01-31 12:00:00`, also with a T, with up to six digits of a fraction, and
with the zone of UTC. Their digits are read column by column: NumPy's own way from texts
takes more than `utc_microseconds` does, and old versions of it crash at a wrong day.
"""

import numpy as np

LAYOUT = b"0000-00-00 00:00:00.000000"  # of digits and signs
SHORTEST = 19  # up to the seconds
ZONES = (b"Z", b"+00:00", b"")
BLANK, T = b" T"
ZERO, NINE = b"09"
DIGITS = 6  # of microseconds


def plain_moments(texts):
    """Return microseconds from 1970, UTC, and which texts are plain datetimes."""
    # Where one is not, its number means nothing.
    found = np.zeros(len(texts), dtype=np.int64)
    is_plain = np.zeros(len(texts), dtype=bool)
    longest = len(LAYOUT) + max(map(len, ZONES))
    lengths = [len(text) if text.isascii() else 0 for text in texts]
    lengths = np.array(lengths, dtype=np.intp)
    for length in np.unique(lengths):
        if not SHORTEST <= length <= longest:
            continue
        rows = np.flatnonzero(lengths == length)
        part = texts if len(rows) == len(texts) else [texts[row] for row in rows]
        signs = np.array(part, dtype=f"S{length}").view(np.uint8).reshape(-1, length)
        for zone in ZONES:
            size = length - len(zone)
            plain = np.flatnonzero(_is_plain(signs, size, zone))
            moments, exists = _microseconds(signs[plain, :size])
            found[rows[plain]] = moments
            is_plain[rows[plain]] = exists
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


def _microseconds(signs):
    """Return the moments that rows of characters stand for, and whether they exist."""
    year, month, day, hour, minute, second = (
        _number(signs[:, start:stop])
        for start, stop in ((0, 4), (5, 7), (8, 10), (11, 13), (14, 16), (17, 19))
    )
    months = 12 * (year - 1970) + month - 1
    first, end = (
        after.astype("datetime64[M]").astype("datetime64[D]").astype(np.int64)
        for after in (months, months + 1)
    )
    exists = (month >= 1) & (month <= 12) & (day >= 1) & (day <= end - first)
    exists &= (hour < 24) & (minute < 60) & (second < 60)
    fraction = signs[:, SHORTEST + 1 :]
    seconds = (((first + day - 1) * 24 + hour) * 60 + minute) * 60 + second
    part = _number(fraction) * 10 ** (DIGITS - fraction.shape[1])
    return seconds * 10**DIGITS + part, exists


def _number(digits):
    total = np.zeros(len(digits), dtype=np.int64)
    for column in digits.T:
        total = 10 * total + (column - ZERO)
    return total
