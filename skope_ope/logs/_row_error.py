# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Errors that name a row of the logs."""


class RowError(ValueError):
    """A round that cannot be; who knows the row's place elsewhere can name it there.

    Parameters
    ----------
    before : str
        The sentence up to "at row 3", without a blank at its end.
    row : int
        The row, from 0.
    after : str, default=""
        The sentence from there on, with its remedy.
    """

    def __init__(self, before, row, after=""):
        super().__init__(before, int(row), after)

    @property
    def row(self):
        """The row, from 0."""
        return self.args[1]

    def told_of(self, place):
        """Return the message with another name of the row, such as "line 7"."""
        before, _, after = self.args
        return f"{before} at {place}{after}"

    def __str__(self):
        return self.told_of(f"row {self.row}")
