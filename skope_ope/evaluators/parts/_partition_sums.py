# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Tasks over the partitions of lazy logs, and what they bring back."""

from collections import Counter

import numpy as np

from skope_ope._part_tasks import merge_parts, task_count
from skope_ope.logs.lazy._partitions import read_together


def partition_sums(stated, lazy, n_jobs=None, verbose=0):
    """Return the sums over all partitions of lazy logs."""
    found = sum_over(lazy, _sums_of, stated, n_jobs, verbose)
    if found is None:
        raise ValueError("the logs are empty: an estimate needs at least one round.")
    return found


def head_of(lazy):
    """Return a few rounds of lazy logs, with all that will be read."""
    head = lazy.head() if hasattr(lazy, "head") else None
    for _, logs in lazy.read() if head is None else ():
        if logs is not None:
            head = logs[:5]
            break
    if head is None or not len(head):
        raise ValueError("the logs are empty: an estimate needs at least one round.")
    return head


def sum_over(lazy, work, given=None, n_jobs=None, verbose=0):
    """Add up what `work(logs, given)` finds in all partitions that have rounds."""
    tasks = lazy._tasks(task_count(len(lazy.partitions)))
    return merge_parts(
        work, tasks, given, read=read_together, n_jobs=n_jobs, verbose=verbose
    )


def _sums_of(logs, stated):
    """Return the sums of a partition; None where it has no rounds."""
    return stated.sums_of(logs) if len(logs) else None


def logger_shares(logs, n_jobs=None):
    """Return the share of every logger in the sample weights of a log."""
    if logs.loggers is None or len(logs.loggers) == 1:
        return None
    if hasattr(logs, "partitions"):
        narrow = logs._needing(context=False, columns=[])
        masses = sum_over(narrow, _masses, n_jobs=n_jobs)
    else:
        masses = _masses(logs)
    total = sum(masses.values())
    return {label: masses[label] / total for label in logs.loggers.tolist()}


def _masses(logs, given=None):
    """Return the sample weight of every logger."""
    masses = np.bincount(logs.logger_index, logs.sample_weight, len(logs.loggers))
    return Counter(dict(zip(logs.loggers.tolist(), masses.tolist(), strict=True)))
