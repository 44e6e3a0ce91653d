# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""What the constructor advises of arrays, in the words of frames."""

from contextlib import contextmanager

from skope_ope.exceptions import RowError

OF_ARRAYS = "logging_proba / logging_proba.sum(axis=1, keepdims=True)"
OF_FRAMES = "frame[names] = frame[names].div(frame[names].sum(axis=1), axis=0)"


@contextmanager
def remedies_of_frames():
    """Let errors of the logs that are built inside advise on columns of a frame."""
    try:
        yield
    except RowError as error:
        before, row, after = error.args
        if OF_ARRAYS not in after:
            raise
        raise RowError(before, row, after.replace(OF_ARRAYS, OF_FRAMES)) from error
