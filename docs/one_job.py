# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""What the gallery does before each example."""

import joblib


def one_job(gallery_conf, script):
    """Let an example run its jobs one after the other where examples run in parallel.

    Inside a process of the gallery, joblib would run them in threads, which share one
    list of warnings filters.
    """
    if gallery_conf["parallel"]:
        joblib.parallel_config(backend="sequential")
