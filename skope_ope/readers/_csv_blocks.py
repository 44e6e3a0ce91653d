# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Blocks of whole rows of a csv file, of which every reader makes the same cells."""

import numpy as np

from skope_ope.readers._text_files import LONGEST_CELL, DoubtError, open_bytes

FIRST = 2**16  # bytes: it tells which columns hold texts
SIZE = 2**22  # bytes that are held as text at a time
COMMA, NEWLINE, RETURN, QUOTE = b',\n\r"'


def csv_blocks(path):
    """Yield the rows below the header as memoryviews, valid until the next one.

    Raises
    ------
    DoubtError
        If there are quotes inside cells or line ends inside quotes, carriage returns
        that end no line, null bytes, long lines, or a header of several lines.
    """
    with open_bytes(path) as stream:
        header = stream.readline(LONGEST_CELL)
        _doubt(not header.endswith(b"\n") or not header.strip())
        _doubt(header.count(b'"') % 2)
        text = bytearray(FIRST)
        held = 0  # bytes of a row whose end is not read yet
        while True:
            n_read = _fill(stream, text, held)
            end = held + n_read
            stop = text.rfind(b"\n", 0, end) + 1 if n_read else end
            if stop:
                _check(text, stop, last=not n_read)
                yield memoryview(text)[:stop]
            if not n_read:
                return
            rest = text[stop:end]
            held = len(rest)
            _doubt(held > LONGEST_CELL)
            if len(text) < SIZE:
                text = bytearray(SIZE)
            text[:held] = rest


def _fill(stream, text, start):
    """Read bytes into `text` until it is full, and return their number."""
    stop = start
    with memoryview(text) as view:
        while stop < len(text) and (n_read := stream.readinto(view[stop:])):
            stop += n_read
    return stop - start


def _doubt(found):
    if found:
        raise DoubtError


def _check(text, stop, last):
    """Raise where readers may differ."""
    _doubt(text.find(b"\0", 0, stop) >= 0)
    if text.find(b"\r", 0, stop) >= 0:
        _doubt(text.count(b"\r", 0, stop) != text.count(b"\r\n", 0, stop))
    window = LONGEST_CELL // 2  # a line end in each: no line is as long as two
    for start in range(0, stop - window, window):
        _doubt(text.find(b"\n", start, start + window) < 0)
    if text.find(b'"', 0, stop) >= 0:
        _check_quotes(np.frombuffer(text, np.uint8, stop))


def _check_quotes(text):
    """Raise unless all quotes stand around whole cells, or twice inside them."""
    quotes = np.flatnonzero(text == QUOTE)
    _doubt(len(quotes) % 2)
    opening, closing = quotes[::2], quotes[1::2]
    before = text[opening[opening > 0] - 1]
    after = text[closing[closing + 1 < len(text)] + 1]
    _doubt(not np.isin(before, (COMMA, NEWLINE, QUOTE)).all())
    _doubt(not np.isin(after, (COMMA, NEWLINE, RETURN, QUOTE)).all())
    line_ends = np.flatnonzero(text == NEWLINE)
    _doubt((np.searchsorted(quotes, line_ends) % 2).any())
