# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Errors of logs, told with the file that they are read from."""

from contextlib import contextmanager

from skope_ope.exceptions import RowError


@contextmanager
def errors_of_file(path, line_of=None):
    """Let errors of the logs that are built inside name the file."""
    try:
        yield
    except RowError as error:
        told = str(error) if line_of is None else _at_line(error, line_of)
        raise ValueError(f"{path}: {told}") from error
    except (TypeError, ValueError) as error:
        raise type(error)(f"{path}: {error}") from error


def _at_line(error, line_of):
    return error.told_of(f"line {line_of(error.row)}")
