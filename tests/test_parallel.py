# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause

import os
import threading
import time
import warnings
from functools import partial
from pickle import PicklingError

import pytest

from skope_ope._parallel import run_tasks


def square(number):
    if number == 3:
        warnings.warn("three is odd", UserWarning, stacklevel=2)
    return number**2


def fail():
    raise ValueError("no such number")


@pytest.mark.parametrize("options", [{}, {"prefer": "threads"}])
@pytest.mark.parametrize("n_jobs", [None, 1, 2, 50])
def test_results_and_warnings_do_not_depend_on_the_workers(n_jobs, options):
    with pytest.warns(UserWarning, match="three is odd") as told:
        found = run_tasks([partial(square, i) for i in range(5)], n_jobs, **options)
    assert found == [0, 1, 4, 9, 16]
    assert len(told) == 1


def test_no_task_and_no_worker():
    assert run_tasks([], 2) == []
    with pytest.raises(ValueError, match="n_jobs must be None or an int other than 0"):
        run_tasks([os.getpid] * 2, 0)
    here = os.getpid()
    assert run_tasks([os.getpid], 2) == [here]  # one task needs none
    assert here not in run_tasks([os.getpid] * 2, 2)


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_errors_of_tasks_are_raised_as_they_are(n_jobs):
    with pytest.raises(ValueError, match="no such number"):
        run_tasks([fail, fail], n_jobs)


def fail_after(seconds):
    time.sleep(seconds)
    raise ValueError(f"after {seconds} s")


def test_the_error_of_threads_is_that_of_the_first_task():
    tasks = [partial(square, 2), partial(fail_after, 0.2), partial(fail_after, 0.0)]
    for n_jobs in (1, 2, 3):
        with pytest.raises(ValueError, match=r"after 0\.2 s"):
            run_tasks(tasks, n_jobs, prefer="threads")


@pytest.mark.thorough
def test_a_worker_that_dies_is_named_and_the_next_call_works():
    tasks = [partial(os._exit, 1), partial(square, 2)]
    with pytest.raises(RuntimeError, match=r"worker process died.*2 tasks.*n_jobs=1"):
        run_tasks(tasks, 2)
    assert run_tasks([partial(square, 2)] * 2, 2) == [4, 4]


@pytest.mark.thorough
@pytest.mark.parametrize("task", [partial(id, threading.Lock()), threading.Lock])
def test_what_cannot_travel_is_explained(task):
    match = r"cannot be sent to the workers.*lock.*n_jobs=1"
    with pytest.raises((TypeError, PicklingError), match=match):
        run_tasks([task] * 2, 2)
    assert len(run_tasks([task] * 2, 2, prefer="threads")) == 2
