# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Names that scikit-learn keeps private, imported in this one place.

Each was tried on scikit-learn 1.6.0 (the oldest that is supported) and 1.9.1; the
tests run on both. Where a later version moves one of them, this is the file to mend.
"""

import os
from contextlib import contextmanager
from importlib.metadata import PackageNotFoundError, metadata
from importlib.util import find_spec

from sklearn.base import _fit_context as fit_context
from sklearn.utils import _safe_indexing as safe_indexing
from sklearn.utils._param_validation import (
    HasMethods,
    Interval,
    Options,
    StrOptions,
    validate_parameter_constraints,
    validate_params,
)

__all__ = [
    "CallbackSupport",
    "DocLinked",
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


DOCS_URL = "SKOPE_OPE_DOCS_URL"  # environment variable: where our pages stand


class DocLinked:
    """The "?" of HTML diagrams leads to our pages, or nowhere.

    scikit-learn's own pages know nothing of these classes. Ours stand at the address in
    the environment variable ``SKOPE_OPE_DOCS_URL``, otherwise at the one that the
    installed package names as its documentation. Without either there is no link.
    """

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
