# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""
What does a log cost that is larger than memory?
================================================

Parquet files with a policy's probability in a column are evaluated row group by row
group. It should take little more than to read the columns and to sum them in memory,
in a few hundred MiB whatever the number of files; two worker processes should halve the
wait; and where the log lies in a database, our query should cost what one written by
hand does. Run it as ::

    python examples/5_benchmarks/bench_partitions.py
    python examples/5_benchmarks/bench_partitions.py --full

The default is 24 files of 1e6 rounds; ``--full`` builds 1e8 rounds in 100 files, about
2.6 GB in a temporary folder (``--folder`` says where). Ratios are of wall clocks that
take turns; the file cache is warm. Each peak is measured in a separate process. What is
asserted leaves a quarter for other machines.

- **columns**: IPS and SNIPS beside the sum of what pyarrow needs to read the same
  columns and `evaluate` needs for them in memory, without intervals;
- **groups**: the same with users as groups;
- **two jobs**: one job beside a pool of two that is there already;
- **peak**: MiB of the process, at a tenth of the rounds and at all of them;
- **pushdown**: duckdb and polars beside a query written by hand.
"""

import argparse
import resource
import subprocess
import sys
import tempfile
from functools import partial
from pathlib import Path
from time import perf_counter

import numpy as np
from _hand_queries import hand_queries
from _measure import alternate, missing, ratio

from skope_ope import BanditLogs, evaluate, scan_logs

FILE = 1_000_000  # rounds of a file
ROW_GROUP = 250_000
USERS = 50_000
EVALUATORS = ["IPS", "SNIPS"]
ROLES = {"action": "action", "reward": "reward", "propensity": "propensity"}
MOST = {"columns": 1.5, "groups": 1.5, "pushdown": 2.0}
LEAST = {"two jobs": 1.7}
PEAK, GROWTH = 400, 1.15  # MiB; from a tenth of the rounds to all of them
SLACK = 1.25  # of what is asserted, for other machines and what runs beside


def one_file(seed):
    """Columns of the rounds of one file."""
    rng = np.random.default_rng(seed)
    liked = rng.integers(0, 10, FILE, dtype=np.int64)  # by the logger, half of the time
    action = np.where(rng.random(FILE) < 0.5, liked, rng.integers(0, 10, FILE))
    return {
        "user": rng.integers(0, USERS, FILE, dtype=np.int64),
        "action": action,
        "propensity": np.where(action == liked, 0.55, 0.05),
        "pi": np.where(action == liked, 0.73, 0.03),
        "reward": (rng.random(FILE) < 0.02 + 0.01 * action).astype(float),
    }


def write_files(folder, n_files):
    """Write the files that are not there yet."""
    import pyarrow as pa
    from pyarrow import parquet

    folder.mkdir(parents=True, exist_ok=True)
    for k in range(n_files):
        path = folder / f"part-{k:04d}.parquet"
        if not path.exists():
            table = pa.table(one_file(k))
            parquet.write_table(table, path, row_group_size=ROW_GROUP)


def lazy_logs(files, groups=False):
    """Scan some files: users are groups, or they are not read."""
    more = {"group": "user"} if groups else {}
    actions = np.arange(10)
    return scan_logs(files, **ROLES, **more, actions=actions, columns=["pi"])


def read_alone(files, groups=False):
    """Read the same columns by pyarrow, row group by row group."""
    from pyarrow import parquet

    names = [*ROLES.values(), "pi", *(["user"] if groups else [])]
    for path in files:
        file = parquet.ParquetFile(path, pre_buffer=False, buffer_size=1 << 20)
        for number in range(file.num_row_groups):
            table = file.read_row_group(number, columns=names)
            for column in table.columns:
                column.to_numpy()


def in_memory(files, groups=False):
    """Logs of one file, and how often their sums stand for those of all files."""
    columns = one_file(0)
    logs = BanditLogs(
        np.empty((FILE, 0)),
        *(columns[name] for name in ROLES.values()),
        group=columns["user"] if groups else None,
    )
    return logs.with_columns(pi=columns["pi"]), len(files)


def sum_alone(logs, times):
    """Evaluate the logs of one file as often as there are files."""
    for _ in range(times):
        fresh = logs[:]  # what logs know of themselves is found anew, as for every file
        evaluate("pi", fresh, evaluators=EVALUATORS)


def beside_its_parts(files, groups, n_repeats):
    """Return time of the whole / (time to read + time to sum)."""
    logs = in_memory(files, groups)
    times = alternate(
        {
            "whole": lambda: evaluated(files, groups),
            "read": lambda: read_alone(files, groups),
            "sum": lambda: sum_alone(*logs),
        },
        n_repeats,
        perf_counter,
    )
    parts = [a + b for a, b in zip(times["read"], times["sum"], strict=True)]
    return ratio({"whole": times["whole"], "parts": parts}, "whole", "parts")


def evaluated(files, groups=False, n_jobs=None):
    """Values of the recorded policy."""
    return evaluate(
        "pi", lazy_logs(files, groups), evaluators=EVALUATORS, n_jobs=n_jobs
    )


def two_jobs(files, n_repeats):
    """Return how many times faster two jobs are."""
    calls = {
        "one": partial(evaluated, files),
        "two": partial(evaluated, files, n_jobs=2),
    }
    return ratio(alternate(calls, n_repeats, perf_counter), "one", "two")


def own_peak():
    """Return the peak of this process in MiB, without that of the one it came from."""
    status = Path("/proc/self/status")
    if status.exists():  # `ru_maxrss` begins with what the parent process holds
        words = status.read_text().split()
        return int(words[words.index("VmHWM:") + 1]) / 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def peak(folder, n_files, groups=False):
    """Return the peak of a process that evaluates some files, in MiB."""
    words = [sys.executable, __file__, "--folder", str(folder), "--peak", str(n_files)]
    words += ["--groups"] if groups else []
    done = subprocess.run(words, capture_output=True, text=True, check=True)
    return float(done.stdout)


def pushed_down(files, n_repeats):
    """Return time of our query / time of one by hand, by engine and kind."""
    found = {}
    for engine, kind, frame, by_hand in hand_queries(files):
        roles = dict(ROLES, columns=["pi"], actions=np.arange(10))
        if kind == "groups":
            roles["group"] = "user"
        lazy = scan_logs(frame, **roles)
        calls = {
            "ours": partial(evaluate, "pi", lazy, evaluators=EVALUATORS),
            "by hand": by_hand,
        }
        times = alternate(calls, n_repeats, perf_counter)
        found[engine, kind] = ratio(times, "ours", "by hand")
    return found


def main():
    """Measure, print and assert."""
    parser = argparse.ArgumentParser(allow_abbrev=False)
    parser.add_argument("--files", type=int, default=24)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--full", action="store_true")
    parser.add_argument("--slack", type=float, default=SLACK, help="factor of all aims")
    parser.add_argument("--folder", type=Path)
    parser.add_argument("--peak", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--groups", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_known_args()[0]
    if args.peak:
        evaluated(sorted(args.folder.glob("*.parquet"))[: args.peak], args.groups)
        print(own_peak())
        return
    try:
        import pyarrow  # noqa: F401
    except ImportError:
        missing("pyarrow", "pip install 'skope-ope[lazy]'")
        return
    n_files = 100 if args.full else args.files
    with tempfile.TemporaryDirectory() as scratch:
        folder = args.folder or Path(scratch)
        write_files(folder, n_files)
        files = sorted(folder.glob("*.parquet"))[:n_files]
        report(files, 1 if args.full else args.repeats, args.slack)


def report(files, n_repeats, slack=SLACK):
    """Print what was measured of some files, and assert it."""
    print(f"{len(files) * FILE:.0e} rounds in {len(files)} files")
    for name, groups in (("columns", False), ("groups", True)):
        found = beside_its_parts(files, groups, n_repeats)
        print(f"{name:10} {found:6.2f} times (read + sum)       at most {MOST[name]}")
        assert found <= slack * MOST[name]
    found = two_jobs(files, n_repeats)
    print(
        f"two jobs   {found:6.2f} times as fast            at least {LEAST['two jobs']}"
    )
    assert slack * found >= LEAST["two jobs"]
    folder, few = files[0].parent, max(len(files) // 10, 1)
    for groups in (False, True):
        small, large = peak(folder, few, groups), peak(folder, len(files), groups)
        name = "peak, groups" if groups else "peak"
        print(
            f"{name:12} {small:4.0f} to {large:4.0f} MiB               at most {PEAK}"
        )
        assert large <= slack * PEAK
        assert large <= slack * (GROWTH * small + 16)
    for (engine, kind), found in pushed_down(files, n_repeats).items():
        name = f"{engine}, {kind}"
        print(f"{name:16} {found:5.2f} times by hand        at most {MOST['pushdown']}")
        assert found <= slack * MOST["pushdown"]


if __name__ == "__main__":
    main()
