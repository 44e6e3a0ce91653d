# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Tasks, and parts of a log, that joblib works on; dot products in one thread.

Results of parts add up. Tasks are several parts each, and are merged where they were
worked on: little comes back. Whatever a task raises comes back as a result, because
some engines lose what their workers raise, and is raised here.
"""

import os
import traceback
import warnings
from concurrent.futures.process import BrokenProcessPool
from contextlib import ExitStack, contextmanager
from contextvars import ContextVar
from functools import partial
from numbers import Integral
from pickle import PicklingError

import numpy as np
from joblib import Parallel, delayed, effective_n_jobs
from sklearn import config_context, get_config
from threadpoolctl import threadpool_limits

from skope_ope._progress import untold
from skope_ope._texts import one_line

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


# -- dot products of long arrays in one thread -----------------------------------------

LONGEST_PRODUCT = 10_000  # entries: a longer product wakes the threads of BLAS


def dot(a, b):
    """Return the dot product of two arrays of any length, in one thread."""
    # Threads save nothing here, for the arrays come from memory, and they wait for each
    # other: beside a busy neighbour a product took a hundred times as long.
    if len(a) <= LONGEST_PRODUCT:
        return float(a.dot(b))
    pieces = [slice(k, k + LONGEST_PRODUCT) for k in range(0, len(a), LONGEST_PRODUCT)]
    return sum([float(a[piece].dot(b[piece])) for piece in pieces])


# -- work on parts of a log, whose results add up --------------------------------------

LARGE_VALUE = 1 << 20  # bytes that do not go with every task


def merge_parts(
    work,
    tasks,
    given=None,
    *,
    read=None,
    n_jobs=None,
    verbose=0,
    progress=untold,
    name="task",
):
    """Add up what is found in the parts of several tasks."""
    # Parts are added in their order, within tasks and then the tasks, so the result
    # does not depend on who worked on them. What workers warn of is ignored: results
    # carry what is to be told.
    check_n_jobs(n_jobs)
    tasks = [tuple(parts) for parts in tasks]
    if len(tasks) < 2:  # one needs no second worker; a cluster takes it all the same
        n_jobs = 1
    shared = Carried((work, read, given))
    config = get_config()
    calls = (delayed(_merged)(shared, parts, config) for parts in tasks)
    total = None
    with ExitStack() as stack:
        # for the tasks that stay in this process: filters and threads are of all of it
        stack.enter_context(warnings.catch_warnings())
        warnings.simplefilter("ignore")
        if effective_n_jobs(n_jobs) > 1:
            stack.enter_context(threadpool_limits(1))
        stack.callback(shared.stop)
        for result in progress(
            _results(calls, n_jobs, verbose, shared), len(tasks), name
        ):  # no name for what tasks found: an error must end them at once
            if isinstance(result, Failed):
                raise result.error
            if result is not None:
                total = result if total is None else total + result
    return total


def task_count(n_parts):
    """Return how many tasks parts are shared out to: 16 to 256 of several parts."""
    return min(n_parts, max(16, min(256, n_parts // 4)))


class Carried:
    """Something that goes to workers, or comes from them, on any engine."""

    # Engines pickle in different ways, some know nothing of classes that were defined
    # in a notebook. It is pickled once, and not at all between threads.

    def __init__(self, value, away=False):
        self.value, self.away = value, away
        self.stopped = False
        self.failure = None
        self._packed = None

    def stop(self):
        """Tell tasks that still run in threads of this process to end."""
        self.stopped = True

    @property
    def packed(self):
        """Its pickle, an array of bytes."""
        if self._packed is None:
            try:
                packed = cloudpickle.dumps(self.value)
            except Exception as error:  # whatever a pickling raises
                self.failure = error
                raise
            # joblib keeps large arrays in one file for all workers
            self._packed = np.frombuffer(packed, np.uint8)
        return self._packed

    def __reduce__(self):
        return _arrived, (self.packed,)

    def __sizeof__(self):
        """Return few bytes, or those of a large pickle."""
        # Dask's joblib puts what is not small on a worker once, for all tasks; but what
        # was put there is lost with that worker, and then its tasks cannot be repeated.
        try:
            size = self.packed.nbytes
        except Exception:  # told where it is sent
            size = 0
        return size if size > LARGE_VALUE else 64


def _arrived(packed):
    return Carried(cloudpickle.loads(packed.data), away=True)


def named(error, place):
    """Return an error whose text names a place, of the same type where it can be."""
    text = str(error)
    if place in text:
        return error
    if isinstance(error, KeyError):  # its text is that of the key alone
        text = f"KeyError: {text}"
    out = like(error, f"{place}: {text}")
    out.__cause__ = error
    return out


def like(error, text):
    """Return an error with another text, of the same type where it can be."""
    for kind in type(error).__mro__:
        if kind is Exception:
            break
        try:
            found = kind(text)
        except Exception:  # it wants other arguments
            continue
        said = str(found.args[0]) if isinstance(found, KeyError) else str(found)
        if said == text:
            return found
    return RuntimeError(f"{type(error).__name__}: {text}")


def _merged(shared, parts, config):
    """Return what was found in the parts of a task; errors are returned, too."""
    with ExitStack() as stack:
        stack.enter_context(config_context(**config))
        if shared.away:
            stack.enter_context(warnings.catch_warnings())
            warnings.simplefilter("ignore")
            stack.enter_context(threadpool_limits(1))
        try:
            return Carried(_sum_of(shared, parts))
        except Exception as error:
            return Failed(error)


def _sum_of(shared, parts):
    """Return the sum of what was found; errors name the part."""
    work, read, given = shared.value
    walk = iter(zip(parts, parts, strict=True) if read is None else read(parts))
    total, done = None, 0
    while done < len(parts) and not shared.stopped:
        with _naming_part(parts[done]):
            some, one = next(walk)
        some = some if isinstance(some, tuple) else (some,)
        done += len(some)
        try:
            found = None if one is None else work(one, given)
        except Exception as error:
            told = _error_of_part(error, some, work, read, given)
            raise told from told.__cause__
        if found is not None:
            total = found if total is None else total + found
        del one, found  # before the next is read
    return total


def _error_of_part(error, some, work, read, given):
    """Return an error that names the part at fault, of some that were read as one."""
    if len(some) == 1:
        return named(error, some[0].name)
    for part in some:
        for _, one in read((part,)):
            try:
                if one is not None:
                    work(one, given)
            except Exception as its_own:
                return named(its_own, part.name)
    return named(error, f"{some[0].name} to {some[-1].name}")


@contextmanager
def _naming_part(part):
    try:
        yield
    except Exception as error:
        told = named(error, part.name)
        raise told from told.__cause__


def _results(calls, n_jobs, verbose, shared):
    """Yield what the tasks found, in their order."""
    options = {"n_jobs": n_jobs, "batch_size": 1}
    if verbose:
        options["verbose"] = verbose
    try:
        parallel = streaming(**options)
        with errors_called_back(parallel):
            done = parallel(calls)
            try:
                for result in done:
                    yield result.value if isinstance(result, Carried) else result
            finally:
                if hasattr(done, "close"):
                    done.close()
    except GeneratorExit:
        raise
    except Exception as error:
        raise _engine_error(error, shared) from error


def _engine_error(error, shared):
    """Return what is said where not a task failed, but the engine that ran it."""
    if shared.failure is not None:
        return like(
            shared.failure,
            "a policy, an evaluator or a reward model cannot be sent to the workers: "
            f"{shared.failure}. Pass n_jobs=1, or use threads: "
            'joblib.parallel_config("threading").',
        )
    why = f"{type(error).__name__}: {one_line(error, 200)}"
    return like(
        error,
        f"a worker process died, or the engine that runs it failed ({why}). There is "
        "no result, not even for a part. The usual cause is too little memory. Use "
        "fewer workers with n_jobs, or smaller partitions. To see the cause, pass "
        "n_jobs=1 outside of joblib.parallel_config.",
    )
