# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Logs that stay where they are: files, and lazy frames."""
