# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""How benchmarks measure: things take turns in one process, and ratios are what counts.

Seconds say as much about the machine as about the code, so nothing here prints them.
BLAS and OpenMP get one thread while something is measured.
"""

import contextlib
import io
import runpy
import sys
import tracemalloc
import warnings
from statistics import median
from time import process_time
from unittest.mock import patch

from threadpoolctl import threadpool_limits

LEAST = 0.01  # seconds that one measurement takes at least: the clock has steps


def alternate(calls, n_repeats=5, clock=process_time):
    """Measure calls that take turns.

    Parameters
    ----------
    calls : dict of callable
        What is measured, by name. Each is called once before, which warms caches and
        tells how many calls make a measurement that the clock resolves.
    n_repeats : int, default=5
        Measurements of each.
    clock : callable, default=time.process_time
        Processor time of the process, user and system; a wall clock for what runs in
        other processes.

    Returns
    -------
    times : dict of list of float
        Seconds of one call, by name, in the order of the rounds.
    """
    times = {name: [] for name in calls}
    with threadpool_limits(1):
        n_calls = {
            name: max(1, round(LEAST / max(_seconds(call, 1, clock), 1e-6)))
            for name, call in calls.items()
        }
        for _ in range(n_repeats):
            for name, call in calls.items():
                times[name].append(_seconds(call, n_calls[name], clock))
    return times


def _seconds(call, n_calls, clock):
    start = clock()
    for _ in range(n_calls):
        call()
    return (clock() - start) / n_calls


def ratio(times, name, base):
    """Return the median of time / time of what was measured in the same rounds."""
    return median(a / b for a, b in zip(times[name], times[base], strict=True))


def times_of(call, other, n_repeats=5, clock=process_time):
    """Return how many times of `other` a call takes."""
    return ratio(
        alternate({"it": call, "other": other}, n_repeats, clock), "it", "other"
    )


def peak_mib(call):
    """Return the peak of the memory that a call needs beside what is there, in MiB."""
    tracemalloc.start()
    try:
        call()
        return tracemalloc.get_traced_memory()[1] / 2**20
    finally:
        tracemalloc.stop()


def shell(*words):
    """Run ``python -m skope_ope`` in this process, with its words caught."""
    with (
        patch.object(sys, "argv", ["skope_ope", *words]),
        contextlib.redirect_stdout(io.StringIO()),
        contextlib.redirect_stderr(io.StringIO()) as errors,
    ):
        try:
            runpy.run_module("skope_ope", run_name="__main__")
        except SystemExit as stop:
            code = stop.code
    if code:
        raise RuntimeError(f"exit code {code} of the shell: {errors.getvalue()}")


def missing(name, hint="pip install"):
    """Say that something is not measured because a package is not installed."""
    print(
        f"  {name} cannot be imported ({hint}): left out, with what is asserted of it"
    )


# %%
# The competitor that needs help
# ------------------------------
# obp 0.5.7 asks for Python below 3.11 and for torch. What is measured needs neither:
# an empty module stands in the place of torch while obp is imported.


class _AnyName(type):
    def __getattr__(cls, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return Anything


class Anything(metaclass=_AnyName):
    """Stands for every class of a module that is imported but not used."""


def import_obp():
    """Return `obp.ope`, or None where obp is not installed."""
    names = ["torch", "torch.nn", "torch.nn.functional", "torch.optim"]
    stubs = {name: Anything for name in names if name not in sys.modules}
    sys.modules.update(stubs)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            import obp.ope
    except ImportError:
        missing("obp", "bench_static.py tells how to get it")
        return None
    finally:
        for name in stubs:
            del sys.modules[name]
    return obp.ope
