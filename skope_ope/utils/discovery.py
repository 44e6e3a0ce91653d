# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""All public evaluators and policies, for tests and tables over every one of them."""

from __future__ import annotations

import inspect
import pkgutil
from importlib import import_module
from typing import Any

from skope_ope.evaluators.base._evaluator import BaseEvaluator
from skope_ope.policies._base import BasePolicy
from skope_ope.policies.slate._slate_base import BaseSlatePolicy

__all__ = ["all_evaluators", "all_policies", "all_slate_policies"]

PACKAGE = "skope_ope"


def all_evaluators() -> list[tuple[str, type[Any]]]:
    """List the public evaluators.

    Returns
    -------
    evaluators : list of (str, class)
        Names and classes, sorted by name; base classes are left out.

    Examples
    --------
    >>> from skope_ope.utils import all_evaluators
    >>> dict(all_evaluators())["DRns"]
    <class 'skope_ope.evaluators...DRns'>
    """
    return _public_subclasses(BaseEvaluator)


def all_policies() -> list[tuple[str, type[Any]]]:
    """List the public policies, learned ones included.

    Returns
    -------
    policies : list of (str, class)
        Names and classes, sorted by name; base classes are left out.

    Examples
    --------
    >>> from skope_ope.utils import all_policies
    >>> [name for name, _ in all_policies()][:2]
    ['AdaptiveFunctionPolicy', 'BatchPolicy']
    """
    return _public_subclasses(BasePolicy)


def all_slate_policies() -> list[tuple[str, type[Any]]]:
    """List the public slate policies.

    Returns
    -------
    policies : list of (str, class)
        Names and classes, sorted by name; base classes are left out.

    Examples
    --------
    >>> from skope_ope.utils import all_slate_policies
    >>> [name for name, _ in all_slate_policies()][:2]
    ['EmpiricalSlatePolicy', 'MixtureSlatePolicy']
    """
    return _public_subclasses(BaseSlatePolicy)


def _public_subclasses(base):
    found = {}
    extension_points = import_module(f"{PACKAGE}.base").__all__
    for module in _public_modules():
        for name in getattr(module, "__all__", ()):
            value = getattr(module, name)
            if not inspect.isclass(value) or not issubclass(value, base):
                continue
            if name not in extension_points:
                found[name] = value
    return sorted(found.items())


def _public_modules():
    path = import_module(PACKAGE).__path__
    for info in pkgutil.walk_packages(path, f"{PACKAGE}."):
        if not any(part.startswith("_") for part in info.name.split(".")):
            yield import_module(info.name)
