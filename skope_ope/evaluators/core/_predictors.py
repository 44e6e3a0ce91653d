# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""What policies and models say of the rounds of a pass, here or from workers."""

from functools import partial

import numpy as np

from skope_ope._parallel import run_tasks
from skope_ope.evaluators.core._blocks import Chunks
from skope_ope.evaluators.core._drowned import beyond_floats
from skope_ope.evaluators.core._halves import middle_of_range
from skope_ope.evaluators.core._rounds import Block, TargetBlock, model_values
from skope_ope.logs._row_container import own

MODEL_ENTRIES = 1 << 24  # predictions of models that are asked per action
PER_WORKER = 4  # chunks of a stretch: workers that are done early wait for the others


class Blocks:
    """The blocks of a pass."""

    def __init__(self, logs, size, positive, shift):
        self.logs, self.size = logs, size
        self.positive, self.shift = positive, shift
        self._offsets = np.arange(0, size * logs.n_actions, logs.n_actions)
        self._middle = middle_of_range(logs.reward_range)

    def starts(self, low, high):
        """Return where the blocks of the rounds low..high-1 begin."""
        return range(low, min(high, len(self.logs)), self.size)

    def at(self, low):
        """Return the block that begins at a round."""
        high = min(low + self.size, len(self.logs))
        about = self.positive, self.shift, self._offsets, self._middle
        return Block(self.logs, low, high, *about)


class Predictors:
    """The policies and models of some jobs, and for how many rounds."""

    # Policies are asked about a bounded number of entries at once. So are models that
    # read a table; those that ask a scikit-learn model for every action have another
    # bound, because every call takes time.

    def __init__(self, logs, jobs, rows, entries, tables=False):
        self.logs = logs
        self.targets = {id(job.target): job.target for job in jobs}
        sources = {id(j.source): j.source for j in jobs if j.source is not None}
        self.models_of = {key: set() for key in self.targets}
        for job in jobs:
            if job.source is not None:
                self.models_of[id(job.target)].add(id(job.source))
        self.alone = {
            key
            for key, target in self.targets.items()
            if not tables and target.answers_alone(logs) and not self.models_of[key]
        }
        n_actions = logs.n_actions
        entries //= n_actions if tables or sources or self._has_tables() else 1
        self.block = max(min(rows, entries, len(logs)), 1)
        calls = max(entries, min(rows, MODEL_ENTRIES // n_actions))
        self._said = {}  # a table, or what is asked and about how many rounds
        self.chunk, self.slow = self.block, False
        for key, target in self.targets.items():
            if target.array is not None:
                self._said[key] = target.array
            elif key in self.alone:
                self._add(key, target.logged, entries)
            else:
                self._add(key, target.chunk, entries, slow=True)
        for key, source in sources.items():
            if hasattr(source, "table_of"):
                self._said[key] = source.table_of(logs)
            elif getattr(source, "asks_models", True):
                self._add(key, source.bind(logs), calls, slow=True)
            else:
                self._add(key, source.bind(logs), entries)

    def _has_tables(self):
        """Whether something has an entry for every action of a round."""
        logged = (
            key in self.alone or target.logged_only
            for key, target in self.targets.items()
        )
        return self.logs.available is not None or not all(logged)

    def _add(self, key, ask, rows, slow=False):
        size = max(rows // self.block, 1) * self.block
        self._said[key] = ask, size
        self.chunk, self.slow = max(size, self.chunk), self.slow or slow

    def walk(self):
        """Return what is said of block after block."""
        return Walk(self)

    def rows_of(self, key):
        """Return a function that gives what one says of the rounds low..high-1."""
        said = self._said[key]
        if isinstance(said, np.ndarray):
            return lambda low, high: said[low:high]
        return Chunks(said[0], self.logs, said[1]).rows

    def mass_on(self, key, block, codes):
        """Return the probability of some actions, of a policy that answers alone."""
        whole = block.high - block.low == len(self.logs)
        rounds = self.logs if whole else self.logs[block.rows]
        policy = self.targets[key].policy
        return policy.mass_on(own(rounds, policy), codes)


class Walk:
    """What policies and models say of blocks in order, asked when it is wanted."""

    def __init__(self, predictors):
        self._predictors, self._rows = predictors, {}

    def _of(self, key, block):
        if key not in self._rows:
            self._rows[key] = self._predictors.rows_of(key)
        return self._rows[key](block.low, block.high)

    def target(self, key, block):
        """Return what a policy does in a block."""
        mass_on = None
        if key in self._predictors.alone:
            mass_on = partial(self._predictors.mass_on, key, block)
        return TargetBlock(block, self._of(key, block), mass_on)

    def values(self, key, target):
        """Return the values of a model for a policy, and for the logged actions."""
        return model_values(target, self._of(key, target.block))


class Ahead:
    """The same from workers, who are asked about a stretch of many blocks at a time."""

    # They hand back a few numbers of every round, and no table. These do not depend on
    # who found them, and what follows adds them up in order.

    def __init__(self, predictors, blocks, workers, readers):
        self._predictors, self._workers = predictors, workers
        self._about = predictors, blocks, readers
        self._found, self._told = {}, set()

    def _of(self, key, block):
        if block.low not in self._found:
            self._found.clear()
            chunk = self._predictors.chunk
            stop = min(block.low + PER_WORKER * self._workers * chunk, block.n_rounds)
            tasks = [
                partial(_numbers, *self._about, low, low + chunk)
                for low in range(block.low, stop, chunk)
            ]
            for part in run_tasks(tasks, self._workers, self._told, prefer="threads"):
                self._found |= part
        return self._found[block.low][key]

    def target(self, key, block):
        """Return what a policy does in a block."""
        pi, missing, _, read = self._of(key, block)
        target = TargetBlock(block, pi)
        target.key, target.missing, target.read = key, missing, read
        return target

    def values(self, key, target):
        """Return the values of a model for a policy, and for the logged actions."""
        return self._of(target.key, target.block)[2][key]


def _numbers(predictors, blocks, readers, low, high):
    """Return what `Ahead` knows of the rounds low..high-1, by block and policy."""
    walk, found = predictors.walk(), {}
    for start in blocks.starts(low, high):
        block, of_block = blocks.at(start), {}
        with beyond_floats():
            for key, models in predictors.models_of.items():
                target = walk.target(key, block)
                values = {model: walk.values(model, target) for model in models}
                read = {name: one.read(key, target) for name, one in readers.items()}
                of_block[key] = target.pi, target.missing, values, read
        found[start] = of_block
    return found
