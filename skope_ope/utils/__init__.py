# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Checks for your own evaluators, what there is, and what is installed."""

from skope_ope.utils._show_versions import show_versions
from skope_ope.utils.discovery import (
    all_evaluators,
    all_policies,
    all_slate_policies,
)

__all__ = ["all_evaluators", "all_policies", "all_slate_policies", "show_versions"]
