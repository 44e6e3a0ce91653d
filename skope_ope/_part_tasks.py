# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Work on parts of a log, wherever joblib sends it, whose results add up.

Tasks are several parts each, and are merged where they were worked on: little comes
back. Whatever a part raises comes back as a result, because some engines lose what
their workers raise, and is raised here with the name of the part.
"""

import warnings
from contextlib import ExitStack, contextmanager

import numpy as np
from joblib import delayed, effective_n_jobs
from sklearn import config_context, get_config
from threadpoolctl import threadpool_limits

from skope_ope._parallel import (
    Failed,
    check_n_jobs,
    cloudpickle,
    errors_called_back,
    streaming,
)
from skope_ope._progress import untold

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
    return like(
        error,
        f"a worker process died, or the engine that runs it failed "
        f"({type(error).__name__}: {_cut(error)}). There is no result, not even for "
        "a part. The usual cause is too little memory. Use fewer workers with n_jobs, "
        "or smaller partitions. To see the cause, pass n_jobs=1 outside of "
        "joblib.parallel_config.",
    )


def _cut(error, n=200):
    text = " ".join(str(error).split())
    return text if len(text) <= n else f"{text[:n]}..."
