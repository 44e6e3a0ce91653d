# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""What tells scikit-learn's callbacks how far a fit is."""

from contextlib import contextmanager, nullcontext

from skope_ope._sklearn import callbacks_torn_down


def untold(results, n=None, name=None):
    """Return results as they are, in place of `Progress`: nobody wants to know."""
    return results


UNTOLD = nullcontext(untold)


def fit_progress(estimator, logs, n_steps=None):
    """Return a context that gives what is told of a fit, `untold` or `Progress`.

    Callbacks are torn down whatever the body raises.

    Parameters
    ----------
    estimator : estimator
        What is fitted.
    logs : logs
        What it is fitted to.
    n_steps : int, default=None
        How often, at most, progress is called. `None`: once.
    """
    if "_skl_callbacks" not in vars(estimator):
        return UNTOLD
    return _told(estimator, logs, n_steps)


@contextmanager
def _told(estimator, logs, n_steps):
    with callbacks_torn_down(estimator):
        progress = Progress(estimator, logs)
        if n_steps is not None:
            progress.begin(n_steps)
        yield progress
        progress.end()


class Progress:
    """Tell the callbacks of an estimator of every result, once it is there.

    It is an argument of what makes results, and stays in the process of the fit.

    Parameters
    ----------
    estimator : estimator
        What is fitted.
    logs : logs
        What it is fitted to.
    """

    def __init__(self, estimator, logs):
        self._told = {"estimator": estimator, "X": logs}
        self._root = None

    def begin(self, n_subtasks):
        """Begin the task of the whole fit."""
        start = self._told["estimator"]._init_callback_context
        self._root = start(max_subtasks=n_subtasks).call_on_fit_task_begin(**self._told)
        return self._root

    def __call__(self, results, n, name):
        """Yield results, each of which is a subtask.

        Parameters
        ----------
        results : iterable
            They are made when they are asked for, or come from workers.
        n : int
            How many there are.
        name : str
            What makes one.
        """
        told, results = self._told, iter(results)
        step = None
        if self._root is None:
            parent = self.begin(n)
        else:
            step = self._root.subcontext(task_name=f"{name}s", max_subtasks=n)
            parent = step.call_on_fit_task_begin(**told)
        for _ in range(n):
            task = parent.subcontext(task_name=name).call_on_fit_task_begin(**told)
            yield next(results)
            task.call_on_fit_task_end(**told)
        if step is not None:
            step.call_on_fit_task_end(**told)

    def end(self):
        """End the task of the whole fit."""
        root = self.begin(0) if self._root is None else self._root
        root.call_on_fit_task_end(**self._told)

    def __reduce__(self):
        return _untold, ()


def _untold():
    return untold
