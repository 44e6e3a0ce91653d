# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Names for what public signatures take, for readers, editors and type checkers.

They say which kind of object to hand over. What it must hold is checked, with a
sentence, where it arrives: a type checker sees no shapes. Where almost anything is
taken (a frame of any library, a label of any kind), the name stands for `Any`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from os import PathLike
from typing import Any, Literal, Protocol, TypeAlias

from numpy.random import RandomState
from numpy.typing import ArrayLike, NDArray

__all__ = [
    "AnyEvaluator",
    "Array",
    "ArrayLike",
    "AuditLike",
    "Axes",
    "Contexts",
    "Frame",
    "IntervalMethod",
    "Label",
    "Path",
    "PolicyLike",
    "RandomSeed",
    "RewardModelLike",
    "SequenceLike",
    "SlatePolicyLike",
    "Splitter",
    "SplitterLike",
    "ValueLike",
]


class Splitter(Protocol):
    """What scikit-learn takes as `cv`, such as `KFold`."""

    def split(self, X: Any, y: Any = None, groups: Any = None) -> Iterator[Any]:
        """Yield pairs of rows: to learn from, to test on."""

    def get_n_splits(self, X: Any = None, y: Any = None, groups: Any = None) -> int:
        """Return the number of pairs."""


class AuditLike(Protocol):
    """An `Audit`, which logs return and stand above."""

    facts: dict[str, Any]
    findings: tuple[Any, ...]
    alarms: tuple[Any, ...]
    ok: bool


class ValueLike(Protocol):
    """A `PolicyValue`, which displays show and stand above."""

    @property
    def estimator(self) -> str:
        """Name of the evaluator."""

    def confidence_interval(self, level: float = ...) -> Any:
        """Return the interval of the value."""


Array: TypeAlias = NDArray[Any]
Axes: TypeAlias = Any  # of matplotlib, an optional package; None makes new ones
Contexts: TypeAlias = Any  # array, scipy sparse matrix, or frame
Frame: TypeAlias = Any  # of pandas, polars, pyarrow, or another that narwhals knows
IntervalMethod: TypeAlias = Literal[
    "auto",
    "gamma",
    "student",
    "normal",
    "jackknife",
    "clopper_pearson",
    "betting",
    "hoeffding",
    "empirical_bernstein",
    "empirical_likelihood",
    "cressie_read",
    "log_smoothing",
    "bootstrap",
    "percentile",
]
Label: TypeAlias = Any  # an action, a logger, a group: a text, an int, ...
Path: TypeAlias = str | PathLike[str]
RandomSeed: TypeAlias = int | RandomState | None
SplitterLike: TypeAlias = int | Splitter | Iterable[Any]
# A policy, an array of its probabilities or labels, or the name of a column of them.
PolicyLike: TypeAlias = Any
SlatePolicyLike: TypeAlias = Any
# A regressor, a classifier, an ActionRewardModel, an array or a number.
RewardModelLike: TypeAlias = Any
# An evaluator, its name, or a search or Pipeline that ends in one.
AnyEvaluator: TypeAlias = Any
SequenceLike: TypeAlias = Any  # a ConfidenceSequence
