# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""What logs tell about themselves: findings, and the tests that they come from."""
