# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
