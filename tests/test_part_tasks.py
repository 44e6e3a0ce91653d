# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause

import _thread
import pickle
import signal
import sys
import threading
import time
import warnings
from dataclasses import dataclass

import numpy as np
import pytest
from joblib import parallel_config
from sklearn import config_context, get_config

from skope_ope._part_tasks import Carried, like, merge_parts, named, task_count
from skope_ope.exceptions import RowError


@dataclass(frozen=True)
class Part:
    name: str
    number: int


class TwoWords(Exception):
    def __init__(self, one, two):
        super().__init__(one, two)


TASKS = [
    tuple(Part(f"day{task}.parquet, row group {i}", 3 * task + i) for i in range(3))
    for task in range(5)
]
BACKENDS = [{}, {"backend": "threading", "n_jobs": 2}]


def work(part, given):
    """Say which part it was, as a list, so that the order of the sum is seen."""
    warnings.warn("nobody hears this", UserWarning, stacklevel=2)
    if given is not None and part.number == 7:
        raise given
    return None if part.number == 4 else [part.number]


@pytest.mark.parametrize("backend", BACKENDS)
def test_parts_are_added_in_their_order_and_nothing_is_nothing(backend):
    with parallel_config(**backend):
        assert merge_parts(work, TASKS) == [0, 1, 2, 3, *range(5, 15)]
        assert merge_parts(work, [(TASKS[1][1],)]) is None
        assert merge_parts(work, []) is None
        assert merge_parts(work, [(), *TASKS[:1]]) == [0, 1, 2]


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (ValueError("bad weights"), ValueError),
        (TypeError("bad weights"), TypeError),
        (KeyError("bad weights"), KeyError),
        (FileNotFoundError(2, "bad weights"), FileNotFoundError),
        (RowError("bad weights", 3, ": drop it."), ValueError),
        (TwoWords("bad weights", "here"), RuntimeError),
    ],
)
def test_errors_keep_their_type_and_name_the_part(backend, error, kind):
    with parallel_config(**backend), pytest.raises(kind) as told:
        merge_parts(work, TASKS, error)
    assert "day2.parquet, row group 1: " in str(told.value)
    assert "bad weights" in str(told.value)
    assert told.value.__cause__ is error  # of this process: where it came from


def test_a_name_is_not_told_twice():
    error = ValueError("a.parquet, row group 2: propensity is 0")
    assert named(error, "a.parquet, row group 2") is error
    wants_more = UnicodeDecodeError("a", b"", 0, 1, "b")
    assert type(like(wants_more, "text")) is UnicodeError


def test_the_first_part_that_fails_is_told_whoever_is_first_in_time():
    def slow(part, given):
        if part.number in (2, 9):
            given.wait(0.2 if part.number == 2 else 0)
            raise ValueError("late")
        return 1

    with (
        parallel_config("threading", n_jobs=2),
        pytest.raises(ValueError, match="row group 2: late"),
    ):
        merge_parts(slow, TASKS, threading.Event())


def test_threads_end_where_one_has_failed():
    done = []

    def slow(part, given):
        if part.number == 0:
            raise ValueError("at once")
        given.wait(0.05)
        done.append(part.number)
        return 1

    with parallel_config("threading", n_jobs=2), pytest.raises(ValueError):
        merge_parts(slow, TASKS, threading.Event())
    assert len(done) < 6


@pytest.fixture
def interruptible():
    """Ctrl-C raises, which runners of tests in several processes may turn off."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def test_an_interrupt_is_passed_on_and_stops_the_rest(interruptible):
    done = []

    def interrupted(part, given):
        if part.number == 2:
            _thread.interrupt_main()
        time.sleep(0.05)
        done.append(part.number)
        return 1

    for backend in BACKENDS:
        done.clear()
        with parallel_config(**backend), pytest.raises(KeyboardInterrupt):
            merge_parts(interrupted, TASKS)
        time.sleep(0.2)  # threads that were at work have seen it
        assert len(done) < 10


@pytest.mark.parametrize("backend", BACKENDS)
def test_settings_of_the_caller_hold_and_are_left_alone(backend):
    def seen(part, given):
        return [get_config()["assume_finite"]]

    filters = list(warnings.filters)
    with parallel_config(**backend), config_context(assume_finite=True):
        assert merge_parts(seen, TASKS[:2]) == [True] * 6
    assert warnings.filters == filters


@pytest.mark.parametrize("n_jobs", [0, 1.5])
def test_n_jobs_are_checked(n_jobs):
    with pytest.raises(ValueError, match="n_jobs must be None or an int"):
        merge_parts(work, TASKS, n_jobs=n_jobs)


def test_tasks_are_16_to_256_of_several_parts():
    assert [task_count(n) for n in (0, 1, 10, 40, 100, 500, 10_000)] == [
        0,
        1,
        10,
        16,
        25,
        125,
        256,
    ]


def test_what_is_carried_is_pickled_once_whatever_pickles_it():
    table = np.arange(1000.0)
    carried = Carried((lambda x: x + 1, table))  # which pickle itself cannot do
    one, two = pickle.dumps(carried), pickle.dumps(carried)
    assert one == two
    back = pickle.loads(one)
    assert back.away and not carried.away
    function, found = back.value
    assert function(1) == 2
    assert found.tolist() == table.tolist()


def test_only_what_is_large_is_put_on_a_worker():
    assert sys.getsizeof(Carried(np.zeros(10))) < 1000
    assert sys.getsizeof(Carried(np.zeros(200_000))) > 1_600_000
    assert sys.getsizeof(Carried(threading.Lock())) < 1000  # no error here
