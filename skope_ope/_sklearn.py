# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Names that scikit-learn keeps private, imported in this one place.

Each was tried on scikit-learn 1.6.0 (the oldest that is supported) and 1.9.1; the
tests run on both. Where a later version moves one of them, this is the file to mend.
"""

from __future__ import annotations

from contextlib import contextmanager
from importlib.util import find_spec
from typing import TYPE_CHECKING, TypeVar

from sklearn.utils import _safe_indexing as safe_indexing
from sklearn.utils._param_validation import (
    HasMethods,
    Interval,
    Options,
    StrOptions,
    validate_parameter_constraints,
)

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    Decorated = TypeVar("Decorated")

    # scikit-learn has no types: a checker would know nothing of what it decorates.
    def fit_context(
        *, prefer_skip_nested_validation: bool
    ) -> Callable[[Decorated], Decorated]: ...

    def validate_params(
        parameter_constraints: dict[str, Any], *, prefer_skip_nested_validation: bool
    ) -> Callable[[Decorated], Decorated]: ...

else:
    from sklearn.base import _fit_context as fit_context
    from sklearn.utils._param_validation import validate_params


__all__ = [
    "CallbackSupport",
    "HasMethods",
    "Interval",
    "Options",
    "StrOptions",
    "callbacks_torn_down",
    "fit_context",
    "safe_indexing",
    "validate_parameter_constraints",
    "validate_params",
]


class CallbackSupport:
    """`CallbackSupportMixin` of scikit-learn 1.9, imported when it is first used."""

    if find_spec("sklearn.callback"):

        def set_callbacks(self, *callbacks):
            """Set callbacks of scikit-learn, such as `ProgressBar`, for `fit`.

            Parameters
            ----------
            *callbacks : callback instances
                Those of `sklearn.callback`; none takes away what was set.

            Returns
            -------
            self : estimator
            """
            return _mixin().set_callbacks(self, *callbacks)

        def _init_callback_context(self, **about):
            return _mixin()._init_callback_context(self, **about)


def _mixin():
    from sklearn.callback import CallbackSupportMixin

    return CallbackSupportMixin


@contextmanager
def callbacks_torn_down(estimator):
    """Tear down what `_init_callback_context` has set up, whatever the body raises."""
    from sklearn.callback._callback_support import callback_management_context

    with callback_management_context(estimator):
        yield
