# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""How much of some logs a policy knows."""

from skope_ope.policies._learned_rounds import learned_rounds


def learned_share(policy, logs):
    return float(learned_rounds(policy, logs).mean())
