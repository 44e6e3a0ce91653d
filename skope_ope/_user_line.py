# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Warnings that point at the user's line, whatever calls stand between."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterable

BETWEEN = ("skope_ope", "sklearn", "joblib")  # packages that call us, or are us


def warn_user(found: Iterable[Warning]) -> None:
    """Warn at the innermost line that is neither ours nor scikit-learn's."""
    # A number of frames to skip is right for one way of calling only: `score` is called
    # by users, by pipelines and by scorers.
    found = list(found)
    if not found:
        return
    frame = sys._getframe(1)
    while frame.f_back is not None and _is_between(frame):
        frame = frame.f_back
    names = frame.f_globals
    for warning in found:
        warnings.warn_explicit(
            warning,
            type(warning),
            frame.f_code.co_filename,
            frame.f_lineno,
            module=names.get("__name__"),
            registry=names.setdefault("__warningregistry__", {}),
        )


def _is_between(frame):
    return str(frame.f_globals.get("__name__")).partition(".")[0] in BETWEEN
