# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Sums of policies by evaluators over parts of a log."""
