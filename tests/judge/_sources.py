# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Where the rounds of a world lie: memory, days that are added, files, lazy frames."""

import weakref
from functools import reduce
from operator import add

import numpy as np

from skope_ope import evaluate, summarize
from skope_ope.logs import BanditLogs, HashKFold, SlateLogs, scan_logs
from tests.evaluators._parquet_worlds import columns_of, lazy_world

FOLDS = HashKFold(3)  # the same folds wherever the rounds lie


class Whole:
    """Rounds that can be evaluated at once."""

    def __init__(self, logs, sample_weight=None):
        self.logs = logs
        self.holds_rounds = isinstance(logs, (BanditLogs, SlateLogs))
        self.weights = {} if sample_weight is None else {"sample_weight": sample_weight}

    def table(self, policies, evaluators, **given):
        """Values of policies by evaluators."""
        how = {"random_state": 0, **self.weights, **given}
        return evaluate(policies, self.logs, evaluators=evaluators, **how)

    def of_every_row(self, asks):
        """What is asked of further rows of a table."""
        return asks if self.holds_rounds else {}


class Days(Whole):
    """Rounds of which only the sums of every day are kept."""

    def __init__(self, logs, sample_weight=None):
        super().__init__(logs, sample_weight)
        self.holds_rounds = False

    def of_every_row(self, asks):
        """All but round values, which sums do not have: once is enough."""
        return {word: ask for word, ask in asks.items() if word != "rounds"}

    def table(self, policies, evaluators, **given):
        """Values of the sums of all days."""
        day = np.asarray(self.logs.columns["day"])
        sums = []
        for one in np.unique(day):
            rows = np.flatnonzero(day == one)
            how = {name: omega[rows] for name, omega in self.weights.items()}
            how |= {"random_state": 0, "by": "day", **given}
            part = summarize(policies, self.logs[rows], evaluators=evaluators, **how)
            sums.append(part)
        return reduce(add, sums).values()


def csv_world(logs, folder):
    """Write three csv files, the second without rows, and scan them."""
    import pyarrow as pa
    import pyarrow.csv

    data, roles = columns_of(logs)
    table = pa.table({name: np.ascontiguousarray(v) for name, v in data.items()})
    half = len(logs) // 2
    for k, part in enumerate((table[:half], table[half:half], table[half:])):
        pyarrow.csv.write_csv(part, folder / f"part{k}.csv")
    return scan_logs(folder, **roles)


def frame_world(logs, engine):
    """A lazy frame of polars, or a relation of duckdb."""
    import pyarrow as pa

    data, roles = columns_of(logs)
    roles.pop("context", None)
    table = pa.table({name: np.ascontiguousarray(v) for name, v in data.items()})
    if engine == "polars":
        import polars

        return scan_logs(polars.from_arrow(table).lazy(), **roles)
    import duckdb

    connection = duckdb.connect(config={"threads": 1})
    lazy = scan_logs(connection.from_arrow(table), **roles)
    weakref.finalize(lazy, connection.close)  # duckdb 1.1 closes what nobody holds
    return lazy


def in_columns(world):
    """Whether columns can say all that the logs know."""
    logs = world.logs
    if world.sample_weight is not None or "calls" in world.facts:
        return False
    if isinstance(logs, BanditLogs):
        return logs.available is None and logs.action_context is None
    return np.ndim(logs.n_candidates) == 0


def memory_and_days(world):
    """The sources that need no further package."""
    given = (world.logs, world.sample_weight)
    found = {"memory": Whole(*given)}
    return found if "calls" in world.facts else found | {"days": Days(*given)}


def files_and_frames(world, folder):
    """Files of one of two formats, or a frame of one of two engines, if they can."""
    if not in_columns(world):
        return {}
    n, family = len(world.logs), world.facts["family"]
    in_frame = family in ("static", "multi_logger", "scavenging", "lottery")
    if in_frame and n % 2:
        engine = ("polars", "duckdb")[n // 2 % 2]
        return {"frame": Whole(frame_world(world.logs, engine))}
    dates = getattr(world.logs, "actions", np.zeros(0)).dtype.kind == "M"
    if n % 3 or dates:  # labels of csv files that are no numbers are texts
        lazy = lazy_world(world.logs, folder, np.random.RandomState(n), n_files=3)
    else:
        lazy = csv_world(world.logs, folder)
    return {"files": Whole(lazy)}
