# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Private names of scikit-learn, imported in this one place; what searches hold.

Each was tried on scikit-learn 1.6.0 (the oldest that is supported) and 1.9.1; the
tests run on both. Where a later version moves one of them, this is the file to mend.
"""

from __future__ import annotations

import os
from contextlib import contextmanager
from copy import copy
from importlib.metadata import PackageNotFoundError, metadata
from importlib.util import find_spec
from inspect import signature
from types import MethodType
from typing import TYPE_CHECKING, Any, Self, TypeVar

from sklearn.base import BaseEstimator
from sklearn.utils import _safe_indexing as safe_indexing
from sklearn.utils._param_validation import HasMethods as _HasMethods
from sklearn.utils._param_validation import (
    Interval,
    InvalidParameterError,
    Options,
    StrOptions,
)
from sklearn.utils._param_validation import (
    validate_parameter_constraints as scikit_learns_validation,
)
from sklearn.utils.validation import _check_sample_weight as check_sample_weight
from sklearn.utils.validation import check_is_fitted

from skope_ope._texts import meant

if TYPE_CHECKING:
    from collections.abc import Callable

    Decorated = TypeVar("Decorated")

    # scikit-learn has no types: a checker would know nothing of what it decorates.
    def fit_context(
        *, prefer_skip_nested_validation: bool
    ) -> Callable[[Decorated], Decorated]: ...

    def validate_params(
        parameter_constraints: dict[str, Any], *, prefer_skip_nested_validation: bool
    ) -> Callable[[Decorated], Decorated]: ...

    def once_fitted(method: Decorated) -> Decorated: ...

else:
    from sklearn.base import _fit_context as fit_context
    from sklearn.utils._param_validation import validate_params

    class once_fitted:
        """A method that an estimator has once it is fitted, like `available_if`."""

        # Before, it raises NotFittedError, which is an AttributeError, too.
        def __init__(self, method):
            self.method = method

        def __get__(self, instance, owner=None):
            if instance is None:
                return self.method
            check_is_fitted(instance)
            return MethodType(self.method, instance)


__all__ = [
    "CallbackSupport",
    "Estimator",
    "HasMethods",
    "Interval",
    "Options",
    "StrOptions",
    "callbacks_torn_down",
    "check_sample_weight",
    "fit_context",
    "has_method",
    "once_fitted",
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
    """Tell whether a model has a method, or will have it once it is fitted."""
    # StackingRegressor without a final estimator, say, shows its `predict` after `fit`.
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
    """Return what an estimator requests of row weights by metadata routing."""
    if not hasattr(part, f"set_{method}_request") or isinstance(part, type):
        return None
    known = getattr(part._get_metadata_request(), method).requests
    if "sample_weight" not in known:
        return None
    request = known["sample_weight"]
    return "open" if request is None else request


def validate_parameter_constraints(constraints, parameters, caller_name):
    """Raise as scikit-learn does, and name the option that may have been meant."""
    for name, found in parameters.items():
        try:
            scikit_learns_validation(constraints, {name: found}, caller_name)
        except InvalidParameterError as error:
            texts = {
                option
                for one in constraints[name]
                if isinstance(one, Options)
                for option in one.options
                if isinstance(option, str)
            }
            hint = meant(found, texts) if isinstance(found, str) else ""
            if not hint:
                raise
            raise InvalidParameterError(f"{error}{hint}") from None


class ParameterChecks:
    """Errors about parameters that say what may have been meant."""

    def _validate_params(self):
        validate_parameter_constraints(
            self._parameter_constraints,
            self.get_params(deep=False),
            type(self).__name__,
        )

    def set_params(self, **params: Any) -> Self:
        """Set the parameters of this estimator.

        Parameters
        ----------
        **params : dict
            Values by name; `<component>__<name>` is that of a nested object.

        Returns
        -------
        self : estimator
        """
        try:
            return super().set_params(**params)
        except ValueError as error:
            known = self.get_params(deep=False)
            names = [name.partition("__")[0] for name in params]
            hint = next((meant(one, known) for one in names if one not in known), "")
            if not hint:
                raise
            raise ValueError(f"{error}{hint}") from None


DOCS_URL = "SKOPE_OPE_DOCS_URL"  # environment variable: where our pages stand


class DocLinked:
    """The "?" of HTML diagrams leads to our pages, or nowhere."""

    # scikit-learn's own pages know nothing of these classes. Ours stand at the address
    # in the environment variable ``SKOPE_OPE_DOCS_URL``, otherwise at the one that the
    # installed package names as its documentation. Without either there is no link.

    _doc_link_module = "skope_ope"

    @property
    def _doc_link_template(self):
        url = docs_url().replace("{", "{{").replace("}", "}}")
        return url and f"{url}/generated/skope_ope.{{estimator_name}}.html"


def docs_url() -> str:
    """Return the address of our pages without a slash at its end, or nothing."""
    if DOCS_URL in os.environ:
        return os.environ[DOCS_URL].rstrip("/")
    try:
        named = metadata("skope-ope").get_all("Project-URL") or []
    except PackageNotFoundError:  # run from its folder
        return ""
    urls = dict(text.split(", ", 1) for text in named if ", " in text)
    return urls.get("Documentation", "").rstrip("/")


class CallbackSupport:
    """`CallbackSupportMixin` of scikit-learn 1.9, imported when it is first used."""

    if find_spec("sklearn.callback"):

        def set_callbacks(self, *callbacks: Any) -> Self:
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


class Estimator(ParameterChecks, DocLinked, BaseEstimator):
    """What every estimator here is: scikit-learn's, with our errors and our pages."""


# -- what is inside of searches and Pipelines ------------------------------------------


def inside(estimator):
    """Return the last step of a Pipeline or what a search tries, fitted or not."""
    while True:
        if hasattr(estimator, "best_estimator_"):
            estimator = estimator.best_estimator_
        elif is_search(estimator):
            estimator = estimator.estimator
        elif hasattr(estimator, "steps"):
            estimator = estimator.steps[-1][1]
        else:
            return estimator


SEARCHES = {"BaseSearchCV", "BaseSearch"}


def is_search(estimator):
    """Tell whether something has chosen or is a search of scikit-learn's or ours."""
    bases = {base.__name__ for base in type(estimator).__mro__}  # imports are slow
    return hasattr(estimator, "best_estimator_") or not bases.isdisjoint(SEARCHES)


def fitted_part(estimator):
    """Return the last step of a Pipeline or of a search's best one, and its steps."""
    pipeline = None
    while True:
        if hasattr(estimator, "best_estimator_"):
            estimator = estimator.best_estimator_
        elif hasattr(estimator, "steps"):
            inner, estimator = estimator, estimator.steps[-1][1]
            if pipeline is None:
                pipeline = inner
            else:  # a Pipeline at the end of another: all steps in turn
                pipeline = copy(pipeline)
                pipeline.steps = [*pipeline.steps[:-1], *inner.steps]
        else:
            return estimator, pipeline


def fitted_evaluator(evaluator, logs=None):
    """Get the evaluator inside of what was fitted, and the rounds as it takes them."""
    check_is_fitted(evaluator)
    last, pipeline = fitted_part(evaluator)
    if is_search(last):
        raise TypeError(no_best(last))
    if logs is not None and pipeline is not None and len(pipeline.steps) > 1:
        logs = pipeline[:-1].transform(logs)
    return last, logs


def no_best(search):
    """Return why a search that was fitted cannot stand for what it tried."""
    return (
        f"this {type(search).__name__} has no best_estimator_: with refit=False there "
        "is nothing to score."
    )
