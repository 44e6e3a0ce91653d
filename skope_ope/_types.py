# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Names for what public signatures take, for readers, editors and type checkers.

They are wide on purpose: what an argument must hold is checked, with a sentence, where
it arrives; a type only says which kind of object to hand over.
"""

from os import PathLike
from typing import Any, TypeAlias

from numpy.random import RandomState
from numpy.typing import ArrayLike, NDArray

FloatArray: TypeAlias = NDArray[Any]
Frame: TypeAlias = Any  # pandas, polars, pyarrow or another that narwhals knows
Label: TypeAlias = Any  # an action, a logger, a group: a text, an int, ...
Path: TypeAlias = str | PathLike[str]
RandomSeed: TypeAlias = int | RandomState | None
# A policy, an array of its probabilities, or the name of a column that holds them.
PolicyLike: TypeAlias = Any
# A regressor, a classifier, an ActionRewardModel, an array or a number.
RewardModelLike: TypeAlias = Any

__all__ = [
    "ArrayLike",
    "FloatArray",
    "Frame",
    "Label",
    "Path",
    "PolicyLike",
    "RandomSeed",
    "RewardModelLike",
]
