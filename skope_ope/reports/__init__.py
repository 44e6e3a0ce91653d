# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""WHAT WE TELL: one page from the question to a recommendation."""

from skope_ope.reports._report import Report, report

__all__ = ["Report", "report"]
