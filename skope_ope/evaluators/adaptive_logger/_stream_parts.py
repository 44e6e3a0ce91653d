# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Parts of a stream of rounds: logs in memory, and partitions that are read in turn."""

from skope_ope.logs.lazy._lazy_logs import LazyLogs
from skope_ope.logs.lazy._partitions import Partition, read_partitions


def stream_parts(logs):
    """Yield every part: its name, where its rows lie, and its rounds."""
    # Logs in memory have no name, and lie nowhere: both are None.
    lazy = isinstance(logs, LazyLogs)
    if not (lazy or isinstance(logs, Partition)):
        yield None, None, logs
        return
    if lazy and logs.partitions is None:
        raise TypeError(
            "a confidence sequence takes rounds in the order of time, and a lazy "
            "frame has no order. Sort the frame by time, write it to parquet "
            "files, and scan these."
        )
    partitions = logs.labelled().partitions if lazy else (logs,)
    empty = True
    for partition, part in read_partitions(partitions):
        if part is not None:
            empty = False
            yield partition.name, partition.key, part
    if empty:
        raise ValueError("the logs are empty: a part needs at least one round.")
