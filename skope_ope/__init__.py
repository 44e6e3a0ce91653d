# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Off-policy evaluation of contextual bandits for scikit-learn."""

from skope_ope.logs import BanditLogs
from skope_ope.policies import (
    ClassifierPolicy,
    ConstantPolicy,
    FunctionPolicy,
    MixturePolicy,
    UniformPolicy,
    action_probabilities,
)

__version__ = "0.1.0"

__all__ = ["BanditLogs"]
