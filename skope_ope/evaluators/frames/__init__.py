# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Sums inside a database: one query, no rows."""
