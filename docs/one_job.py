# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""What the gallery does before each example."""

import warnings
from pathlib import Path

import joblib


def one_job(gallery_conf, script):
    """Let an example run its jobs one after the other where examples run in parallel.

    Inside a process of the gallery, joblib would run them in threads, which share one
    list of warnings filters.
    """
    if gallery_conf["parallel"]:
        joblib.parallel_config(backend="sequential")


def short_warnings(gallery_conf, script):
    """Let a warning name the file of its line, and not where that lies on a disk."""

    def formatted(message, category, filename, lineno, line=None):
        return f"{Path(filename).name}:{lineno}: {category.__name__}: {message}\n"

    warnings.formatwarning = formatted
