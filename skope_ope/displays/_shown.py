# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""What a display says of itself: `plot` returns it, so consoles and pages print it."""

from __future__ import annotations


class Shown:
    """Base of displays; a subclass tells in `_held()` what it draws, in a few words."""

    def __repr__(self):
        return f"{type(self).__name__}({self._held()})"


def counted(n: int, word: str) -> str:
    """Return a number of things: "1 value", "2,000 rounds"."""
    return f"{n:,} {word}" + ("" if n == 1 else "s")
