# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Names that scikit-learn keeps private, imported in this one place.

Each was tried on scikit-learn 1.6.0 (the oldest that is supported) and 1.9.1; the
tests run on both. Where a later version moves one of them, this is the file to mend.
"""

from contextlib import contextmanager
from importlib.util import find_spec
from inspect import signature

from sklearn.base import _fit_context as fit_context
from sklearn.utils import _safe_indexing as safe_indexing
from sklearn.utils._param_validation import (
    HasMethods as _HasMethods,
)
from sklearn.utils._param_validation import (
    Interval,
    Options,
    StrOptions,
    validate_parameter_constraints,
    validate_params,
)

__all__ = [
    "CallbackSupport",
    "HasMethods",
    "Interval",
    "Options",
    "StrOptions",
    "callbacks_torn_down",
    "fit_context",
    "has_method",
    "safe_indexing",
    "scorer_weighs",
    "validate_parameter_constraints",
    "validate_params",
    "weight_request",
]


class HasMethods(_HasMethods):
    """`HasMethods` of scikit-learn, for models that show a method after `fit` only."""

    def is_satisfied_by(self, val):
        """Tell whether the value has the methods, see `has_method`."""
        return all(has_method(val, name) for name in self.methods)


def has_method(model, name):
    """Tell whether a model has a method, or will have it once it is fitted.

    StackingRegressor without a final estimator, say, shows its `predict` after `fit`.
    """
    if callable(getattr(model, name, None)):
        return True
    while True:
        if hasattr(model, "steps"):  # a Pipeline shows what its last step shows
            model = model.steps[-1][1]
        elif hasattr(model, "estimator") and hasattr(model, "error_score"):
            model = model.estimator  # and a search what its estimator shows
        else:
            break
    late = name == "predict" or getattr(model, "final_estimator", model) is None
    return late and callable(getattr(type(model), name, None))


def scorer_weighs(scorer):
    """Tell whether a scorer of scikit-learn can be given row weights."""
    return "sample_weight" in signature(scorer._score_func).parameters


def weight_request(part, method):
    """Return what an estimator requests of row weights by metadata routing.

    Parameters
    ----------
    part : object
        An estimator, a scorer or anything else.
    method : {"fit", "score"}
        For which of its methods.

    Returns
    -------
    request : bool, str or None
        "open" where the user has not set it; None where it takes no weights.
    """
    if not hasattr(part, f"set_{method}_request") or isinstance(part, type):
        return None
    known = getattr(part._get_metadata_request(), method).requests
    if "sample_weight" not in known:
        return None
    request = known["sample_weight"]
    return "open" if request is None else request


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
