# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Sums inside a database: few queries, few rows."""
