# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Aligned tables and paragraphs as plain text, for terminals."""

import shutil
import textwrap

from skope_ope._harmless import harmless


def text_table(header, rows, n_left=1, left=()):
    """Return the lines of a table of texts."""
    cells = [[harmless(text) for text in row] for row in (header, *rows)]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    lines = []
    for row in cells:
        texts = [
            text.ljust(width) if j < n_left or header[j] in left else text.rjust(width)
            for j, (text, width) in enumerate(zip(row, widths, strict=True))
        ]
        lines.append("  ".join(texts).rstrip())
    return lines


def wrapped(text, first="", rest=None):
    """Return lines no wider than the terminal, with what stands in front of them."""
    width = min(max(shutil.get_terminal_size().columns, 60), 100)
    return textwrap.wrap(
        harmless(" ".join(text.split())),
        width,
        initial_indent=harmless(first),
        subsequent_indent=" " * len(first) if rest is None else rest,
        break_long_words=False,
        break_on_hyphens=False,
    )
