# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""What all evaluators stand on: the one statistic, its result, what it rests on."""
