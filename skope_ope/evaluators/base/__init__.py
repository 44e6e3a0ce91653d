# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""What every evaluator shares, and how it is asked about logs of any source."""
