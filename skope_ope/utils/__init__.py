# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Checks for your own evaluators, what there is, and what is installed."""

from importlib import import_module
from typing import TYPE_CHECKING

from skope_ope.utils._show_versions import show_versions
from skope_ope.utils.discovery import all_evaluators, all_policies, all_slate_policies

__all__ = ["all_evaluators", "all_policies", "all_slate_policies", "show_versions"]


if not TYPE_CHECKING:  # a type checker would take any name to be one of the module

    def __getattr__(name):
        if name == "estimator_checks":  # needs more than most users do
            return import_module("skope_ope.utils.estimator_checks")
        raise AttributeError(f"module 'skope_ope.utils' has no attribute {name!r}")
