# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""What tells scikit-learn's callbacks how far a fit is."""

from contextlib import contextmanager, nullcontext
from functools import wraps
from inspect import isfunction

from skope_ope._sklearn import CallbackSupport, callbacks_torn_down


def untold(results, n=None, name=None):
    """Return results as they are, in place of `Progress`: nobody wants to know."""
    return results


TELLING_NOBODY = nullcontext(untold)


def fit_progress(estimator, logs, n_steps=None, more=0):
    """Return a context that gives what is told of a fit, `untold` or `Progress`."""
    # Callbacks are torn down whatever the body raises.
    if "_skl_callbacks" not in vars(estimator):
        return TELLING_NOBODY
    return _telling_of_fit(estimator, logs, n_steps, more)


@contextmanager
def _telling_of_fit(estimator, logs, n_steps, more):
    with callbacks_torn_down(estimator):
        progress = Progress(estimator, logs, more)
        if n_steps is not None:
            progress.begin(n_steps)
        yield progress
        progress.end()


class Progress:
    """Tell the callbacks of an estimator of every result, once it is there."""

    # It is an argument of what makes results, and stays in the process of the fit.

    def __init__(self, estimator, logs, more=0):
        self._told = {"estimator": estimator, "X": logs}
        self._root, self._more = None, more

    def begin(self, n_subtasks):
        """Begin the task of the whole fit."""
        start = self._told["estimator"]._init_callback_context
        self._root = start(max_subtasks=n_subtasks).call_on_fit_task_begin(**self._told)
        return self._root

    def __call__(self, results, n, name):
        """Yield results, each of which is a subtask."""
        told, results = self._told, iter(results)
        step = None
        if self._root is None:
            parent = self.begin(n + self._more)
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


class TellsOfFit(CallbackSupport):
    """Base class of estimators whose callbacks hear when a fit begins and ends."""

    # It holds for the `fit` of every subclass, that of a user as well: scikit-learn
    # waits for the end of what it handed its callbacks to. What is fitted step after
    # step sets `_has_steps` and tells of each by `step` or `steps`.

    _has_steps = False

    def __init_subclass__(cls, **kwargs):
        super().__init_subclass__(**kwargs)
        fit = vars(cls).get("fit")
        if isfunction(fit):
            cls.fit = _ToldFit(fit)


class _ToldFit:
    """A method `fit` that tells callbacks where an estimator has some."""

    # Without callbacks the method itself is called, so that warnings are those of the
    # line that calls it.

    def __init__(self, fit):
        self.plain = fit
        self.__doc__ = fit.__doc__

    def __get__(self, estimator, kind=None):
        plain = self.plain.__get__(estimator, kind)
        if "_skl_callbacks" not in getattr(estimator, "__dict__", {}):
            return plain

        @wraps(plain)
        def told(*args, **kwargs):
            if "_callback_fit_ctx" in vars(estimator):  # `fit` of a parent class
                return plain(*args, **kwargs)
            logs = args[0] if args else next(iter(kwargs.values()), None)
            with callbacks_torn_down(estimator):
                progress = Progress(estimator, logs)
                progress.begin(None if estimator._has_steps else 0)
                found = plain(*args, **kwargs)
                progress.end()
            return found

        return told


def step(estimator, logs, name, inner=None):
    """Return a context that is a subtask of a fit under way, where that is told."""
    root = vars(estimator).get("_callback_fit_ctx")
    if root is None:
        return nullcontext()
    return _step(root, {"estimator": estimator, "X": logs}, name, inner)


@contextmanager
def _step(root, told, name, inner):
    task = root.subcontext(task_name=name)
    handed = nullcontext() if inner is None else task.propagate_callback_context(inner)
    with handed:
        task.call_on_fit_task_begin(**told)
        yield
    task.call_on_fit_task_end(**told)


def steps(estimator, logs, items, name):
    """Yield items; what is done with each of them is a `step`."""
    for item in items:
        with step(estimator, logs, name):
            yield item
