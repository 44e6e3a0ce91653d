# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Old names of parameters, values and orders, accepted for one release.

Each warns with a FutureWarning that says what to write instead.
"""

from __future__ import annotations

import inspect
import warnings
from functools import wraps
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

Decorated = TypeVar("Decorated")  # type checkers see what stands below the decorator

SINCE, UNTIL = "0.2", "0.3"


def renamed_keywords(**names: str) -> Callable[[Decorated], Decorated]:
    """Decorate a function some of whose keyword arguments have new names."""

    def decorate(function):
        title = _title(function)

        @wraps(function)
        def call(*args, **kwargs):
            return function(*args, **_with_new_names(title, kwargs, names))

        return call

    return decorate


def renamed_parameters(**names: str) -> Callable[[Decorated], Decorated]:
    """Decorate an estimator class some of whose parameters have new names."""
    # The constructor, `set_params` (so parameter grids, nested ones too) and attributes
    # take the old names; `get_params` and the signature show the new ones only.

    def decorate(cls):
        title, set_params, set_attribute = cls.__name__, cls.set_params, cls.__setattr__

        # inspect.signature, and so get_params, sees through `wraps`
        cls.__init__ = renamed_keywords(**names)(cls.__init__)

        @wraps(set_params)
        def renamed_set_params(self, **params):
            return set_params(self, **_with_new_names(title, params, names))

        renamed_attributes(**names)(cls)

        def __setattr__(self, name, value):
            if name in names:
                _warn(_sentence(title, name, names[name]), stacklevel=2)
            set_attribute(self, names.get(name, name), value)

        cls.set_params = renamed_set_params
        cls.__setattr__ = __setattr__
        return cls

    return decorate


def renamed_attributes(**names):
    """Decorate a class some of whose attributes have new names, which are read."""

    def decorate(cls):
        others = getattr(cls, "__getattr__", object.__getattribute__)

        def __getattr__(self, name):  # called where there is no such attribute
            if name not in names:
                return others(self, name)  # which raises its own error
            # a missing new one is told by its own name, and nobody is warned
            found = getattr(self, names[name])
            _warn(_sentence(type(self).__name__, name, names[name]), stacklevel=2)
            return found

        cls.__getattr__ = __getattr__
        return cls

    return decorate


def dropped_keyword(name: str, instead: str) -> Callable[[Decorated], Decorated]:
    """Decorate a function or a class that no longer has a keyword argument."""

    def decorate(function):
        if inspect.isclass(function):
            function.__init__ = decorate(function.__init__)
            return function
        title = _title(function)

        @wraps(function)
        def call(*args, **kwargs):
            if name in kwargs:
                del kwargs[name]
                _warn(
                    f"{name} of {title} has no effect since skope_ope {SINCE}, and is "
                    f"an error from {UNTIL} on. {instead}",
                    stacklevel=2,
                )
            return function(*args, **kwargs)

        return call

    return decorate


def keyword_only(*names: str) -> Callable[[Decorated], Decorated]:
    """Decorate a class whose constructor took these parameters by position."""

    def decorate(cls):
        init = cls.__init__

        @wraps(init)
        def __init__(self, *args, **kwargs):
            if 0 < len(args) <= len(names):
                given = names[: len(args)]
                call = ", ".join(f"{name}=..." for name in given)
                _warn(
                    f"{cls.__name__} takes its parameters by name since skope_ope "
                    f"{SINCE}: write {cls.__name__}({call}). By position they are "
                    f"accepted until {UNTIL}.",
                    stacklevel=2,
                )
                init(self, **dict(zip(given, args, strict=True)), **kwargs)
            else:
                init(self, *args, **kwargs)

        cls.__init__ = __init__
        return cls

    return decorate


def reordered(
    *old: str, told_by: Callable[..., bool]
) -> Callable[[Decorated], Decorated]:
    """Decorate a function whose positional arguments stood in another order."""

    def decorate(function):
        now = ", ".join(
            f"{name}={name}" if value.kind is value.KEYWORD_ONLY else name
            for name, value in inspect.signature(function).parameters.items()
            if name in old
        )
        title = _title(function)

        @wraps(function)
        def call(*args, **kwargs):
            if not 0 < len(args) <= len(old) or not told_by(*args, **kwargs):
                return function(*args, **kwargs)
            _warn(
                f"the order of the arguments changed in skope_ope {SINCE}: write "
                f"{title}({now}). {title}({', '.join(old)}) is accepted until {UNTIL}.",
                stacklevel=2,
            )
            named = zip(old, args, strict=False)  # a name given twice is a TypeError
            return function(**dict(named), **kwargs)

        return call

    return decorate


def renamed_value(parameter, value, names, stacklevel=2):
    """Return what an old value of a parameter is called now, with a warning."""
    for old, new in names.items():
        if isinstance(value, type(old)) and value == old:
            _warn(
                f"{parameter}={old!r} is called {parameter}={new!r} since skope_ope "
                f"{SINCE}; the old name is accepted until {UNTIL}.",
                stacklevel=stacklevel + 1,
            )
            return new
    return value


def renamed_method(cls, old, new):
    """Warn that a method has a new name; the one of the old name calls this."""
    _warn(_sentence(cls.__name__, old, new), stacklevel=3)


def _with_new_names(title, given, names):
    """Replace old names among keywords, with or without a nested parameter."""
    renamed = {}
    for key, value in given.items():
        name, *nested = key.split("__", 1)
        new = "__".join([names.get(name, name), *nested])
        if name in names:
            if new in given:
                raise TypeError(
                    f"{title} got {key} and {new}, two names of one parameter: drop "
                    f"{key}, which is the old one."
                )
            _warn(_sentence(title, name, names[name]), stacklevel=3)
        renamed[new] = value
    return renamed


def _sentence(title, old, new):
    return (
        f"{old} of {title} is called {new} since skope_ope {SINCE}; the old name is "
        f"accepted until {UNTIL}."
    )


def _title(function):
    return function.__qualname__.removesuffix(".__init__")


def _warn(message, stacklevel):
    """Warn as if the caller of this function called `warnings.warn`."""
    warnings.warn(message, FutureWarning, stacklevel=stacklevel + 1)
