# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Tasks that joblib works on, and what is said where one of its workers dies."""

import os
import traceback
import warnings
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from contextvars import ContextVar
from functools import partial
from numbers import Integral
from pickle import PicklingError

from joblib import Parallel, delayed, effective_n_jobs
from sklearn import config_context, get_config

from skope_ope._progress import untold

try:
    import cloudpickle  # joblib depends on it from 1.6 on
except ImportError:
    from joblib.externals import cloudpickle


_told_of_call = ContextVar("texts that one call has warned of", default=None)


def check_n_jobs(n_jobs):
    """Raise unless `n_jobs` is None or a number of workers."""
    if n_jobs is not None and (not isinstance(n_jobs, Integral) or n_jobs == 0):
        raise ValueError(
            f"n_jobs must be None or an int other than 0, got {n_jobs!r}; -1 is all "
            "processors."
        )


@contextmanager
def one_call():
    """Let `told_before` know what belongs to one call of the user: all in the body."""
    if _told_of_call.get() is not None:
        yield
        return
    token = _told_of_call.set(set())
    try:
        yield
    finally:
        _told_of_call.reset(token)


def told_before(text):
    """Tell whether this was asked of the first words of a warning, in the same call."""
    told = _told_of_call.get()
    if told is None or text not in told:
        if told is not None:
            told.add(text)
        return False
    return True


def run_tasks(
    tasks, n_jobs=None, told=None, *, progress=untold, name="task", **options
):
    """Call functions without arguments, and return their results in order."""
    # Their warnings are given here, from all workers.
    check_n_jobs(n_jobs)
    workers = len(tasks)
    if workers > 1:
        workers = min(effective_n_jobs(n_jobs), workers)
    if workers < 2:
        with one_call():
            return list(progress((task() for task in tasks), len(tasks), name))
    make = Parallel if progress is untold else streaming
    parallel = make(n_jobs=workers, **options)
    with one_call():
        once = _told_of_call.get()
    heard = partial(_heard, os.getpid(), get_config(), once)
    try:
        with errors_called_back(parallel):
            done = parallel(delayed(heard)(task) for task in tasks)
            done = list(progress(done, len(tasks), name))
    except (PicklingError, TypeError, AttributeError) as error:
        # tasks return their errors, so this is of the engine
        if "pickle" not in str(error):
            raise
        # joblib has the cause as a traceback in words
        why = str(error.__cause__ or error).strip('"\n').splitlines()[-1]
        raise type(error)(
            "a model, a policy or an evaluator cannot be sent to the workers, or back "
            f"from them ({why}). Pass n_jobs=1, or use threads: "
            'joblib.parallel_config("threading").'
        ) from error
    except Exception as error:
        if not _is_death(error):
            raise
        raise RuntimeError(
            f"a worker process died while {workers} of them shared {len(tasks)} tasks. "
            "There is no result. The usual cause is too little memory. Use fewer "
            "workers with n_jobs, or pass n_jobs=1 to see the cause."
        ) from error
    for result, heard, keys in done:
        known = tuple(once)
        for one in heard:
            key = (str(one[0]), *one[1:])
            if (told is None or key not in told) and not key[0].startswith(known):
                warnings.warn_explicit(*one)
            if told is not None:
                told.add(key)
        once |= keys
        if isinstance(result, Failed):  # the first in order, not in time
            raise result.error
    return [result for result, *_ in done]


def streaming(**options):
    """Return a `joblib.Parallel` that gives results as they come."""
    # Where its engine cannot, it gives all of them at once.
    try:
        return Parallel(return_as="generator", **options)
    except ValueError:
        return Parallel(**options)


def _is_death(error):
    """Tell whether an error says that a process of an engine died."""
    names = {"KilledWorker", "RayActorError", "ActorDiedError", "WorkerCrashedError"}
    return isinstance(error, BrokenProcessPool) or type(error).__name__ in names


@contextmanager
def errors_called_back(parallel):
    """Let joblib know that a task failed on Dask, which it would wait for otherwise."""
    # Its Dask backend calls back about results alone, so that a call would never return
    # once the workers of a task have died, or cannot import what it needs.
    backend = parallel._backend
    if type(backend).__name__ != "DaskDistributedBackend":
        yield
        return
    name = "submit" if hasattr(backend, "submit") else "apply_async"
    submit = getattr(backend, name)

    def submitted(func, callback=None):
        future = submit(func, callback)
        if callback is not None:
            future.add_done_callback(partial(_call_back, callback))
        return future

    setattr(backend, name, submitted)
    try:
        yield
    finally:
        delattr(backend, name)


def _call_back(callback, future):
    error = future.exception()
    if error is not None:
        callback(error)  # joblib ignores what it has been told of


class Failed:
    """In place of a result: an error. It can be pickled whatever the error holds."""

    # Some engines lose what their workers raise, so that it is returned.

    def __init__(self, error):
        self.error = error

    def __reduce__(self):
        text = "".join(traceback.format_exception(self.error.__cause__ or self.error))
        error = self.error.with_traceback(None)
        error.__cause__ = None
        error.add_note(f"In a worker:\n{text}")
        try:
            packed = cloudpickle.dumps(error)
            cloudpickle.loads(packed)
        except Exception:  # whatever its pickling raises
            text = f"{type(error).__name__}: {error}"
            packed = cloudpickle.dumps(RuntimeError(text))
        return _failed, (packed,)


def _failed(packed):
    return Failed(cloudpickle.loads(packed))


def _heard(home, config, told, task):
    """Return the result of a task, and what it warned of in a process of its own."""
    # There the filters of the caller do not hold, and nobody reads what is printed. In
    # threads they do: to record there would change them for all threads.
    _told_of_call.set(told)  # the set itself in threads, a copy in processes
    with config_context(**config):
        if os.getpid() == home:
            return _result(task), [], told
        with warnings.catch_warnings(record=True) as heard:
            warnings.simplefilter("always")
            result = _result(task)
    heard = [(one.message, one.category, one.filename, one.lineno) for one in heard]
    return result, heard, told


def _result(task):
    try:
        return task()
    except Exception as error:  # told to the caller by `run_tasks`
        return Failed(error)
