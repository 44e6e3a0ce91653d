# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""FROM THE SHELL: options in, an answer and an exit code out."""
