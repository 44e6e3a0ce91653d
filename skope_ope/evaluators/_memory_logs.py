# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Logs in memory as lazy logs of one partition."""

from sklearn.utils import check_random_state


class MemoryLogs:
    """What reward models for partitions ask of lazy logs, of logs in memory."""

    name = "the logs in memory"
    frame = None

    def __init__(self, logs):
        self._logs, self._log_type = logs, type(logs)
        self.n_rounds, self.columns = len(logs), logs.columns
        self.partitions = (self,)
        self.roles = {} if logs.group is None else {"group": ("group",)}

    @property
    def _origin(self):
        """Token of the rows."""
        return self._logs.row_id.origin

    def read(self):
        """Yield the one partition and all rounds."""
        yield self, self._logs

    def logs(self, reader):
        """Return all rounds, as a partition does."""
        return self._logs

    def _needing(self, context=True, columns=None):
        """Return self: all of it is in memory."""
        return self

    def _tasks(self, n_tasks):
        """Return the one partition as a task."""
        return [self.partitions]

    def sample(self, n, random_state=None, n_jobs=None):
        """Return some rounds, or all."""
        if n >= self.n_rounds:
            return self._logs
        rng = check_random_state(random_state)
        return self._logs[rng.permutation(self.n_rounds)[:n]]
