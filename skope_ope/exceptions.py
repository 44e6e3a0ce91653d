# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Warnings that carry the number that triggered them, and errors that name a row."""

from __future__ import annotations

import re
import sys
import warnings
from collections.abc import Iterable
from typing import Literal

from skope_ope._texts import harmless

__all__ = [
    "AdaptiveLoggerWarning",
    "BiasWarning",
    "ExplorationWarning",
    "FewEventsWarning",
    "FewGroupsWarning",
    "HorizonWarning",
    "LearnedRoundsWarning",
    "LoggerWarning",
    "LogsWarning",
    "LowOverlapWarning",
    "ModelErrorWarning",
    "OPEWarning",
    "PropensityWarning",
    "RowError",
    "SingleTrajectoryWarning",
    "SupportWarning",
    "TailWarning",
    "ZeroBaselineWarning",
]


class OPEWarning(UserWarning):
    """Base class of all warnings of skope_ope.

    Parameters
    ----------
    message : str
        What was found and what to do about it. Control characters, such as those of a
        label, are shown as escapes.
    value : float or int, default=None
        The number that triggered the warning.
    name : str, default=None
        Name of the finding, as in an audit. `None`: the name of the class.
    severity : {"error", "warning", "note"}, default="warning"
        "error": the result is wrong until you correct the cause. "warning": the result
        may be wrong. "note": worth knowing.

    Examples
    --------
    >>> from skope_ope.exceptions import SupportWarning
    >>> told = SupportWarning("12% of the policy's mass was never logged.", 0.12)
    >>> told.value, told.name
    (0.12, 'support')
    """

    def __init__(
        self,
        message: str,
        value: float | None = None,
        name: str | None = None,
        severity: Literal["error", "warning", "note"] = "warning",
    ) -> None:
        super().__init__(harmless(message))
        self.value, self.severity = value, severity
        self.name = _name_of(type(self)) if name is None else name

    def __reduce__(self):
        # Warnings travel back from joblib's workers with their number.
        return type(self), (self.args[0], self.value, self.name, self.severity)


def _name_of(kind):
    """Return the name of a warning's class as findings are named: few_events."""
    words = re.findall("OPE|[A-Z][a-z]+", kind.__name__.removesuffix("Warning"))
    return "_".join(words).lower()


class SupportWarning(OPEWarning):
    """The policy takes actions that the logger cannot take."""


class LowOverlapWarning(OPEWarning):
    """A few rounds have most of the importance weight."""


class PropensityWarning(OPEWarning):
    """The propensities contradict the logged actions, or were changed."""


class BiasWarning(PropensityWarning):
    """A large acceptance ratio biases the simulated history of a policy.

    `value` is the estimated bias mass. :class:`~skope_ope.DRns` warns above .1.
    """


class ExplorationWarning(OPEWarning):
    """The context predicts the logged action, while the method assumes it does not."""


class LearnedRoundsWarning(OPEWarning):
    """A policy is evaluated on rounds that it learned from."""


class ModelErrorWarning(OPEWarning):
    """The standard error leaves out the error of the reward model."""


class LogsWarning(OPEWarning):
    """Rows were skipped, or may be in another order, or look like other rows."""


class HorizonWarning(OPEWarning):
    """The logs are too short for the horizon, or the horizon for its estimate.

    ``warnings.simplefilter("error", HorizonWarning)`` turns it into an error.
    """


class SingleTrajectoryWarning(OPEWarning):
    """One trajectory of a policy that learns has no standard error."""


class LoggerWarning(OPEWarning):
    """The rounds of one of several loggers do not support the estimate.

    Their weight is too large or zero, they are too few to estimate their variance, or
    their own estimate contradicts the value.
    """


class AdaptiveLoggerWarning(OPEWarning):
    """The logger is adaptive: its propensities follow earlier rewards.

    `value` is the p-value of this finding. Intervals that assume independent rounds
    are then too narrow for actions that the logger gave up. Use
    :class:`~skope_ope.AdaptiveDR`.
    """


class FewGroupsWarning(OPEWarning):
    r"""A standard error uses one group only, or fewer than 40 effective groups.

    `value` is the effective number of groups, :math:`(\sum_g n_g)^2 / \sum_g n_g^2`
    for groups of :math:`n_g` rounds.
    """


class FewEventsWarning(OPEWarning):
    r"""An interval uses fewer than ten effective events.

    `value` is their number, :math:`(\sum_i c_i)^2 / \sum_i c_i^2` over the deviations
    of the round values above the estimate, or below it if these are fewer.
    """


class TailWarning(OPEWarning):
    r"""An interval may miss the true value: a few rounds make most of the variance.

    Student's interval needs many different round values. `value` is
    :math:`G = |\sum_i c_i^3| / (\sum_i c_i^2)^{3/2}` of the deviations of the round
    values from the estimate. It is NaN if all round values are the same.
    """


class ZeroBaselineWarning(OPEWarning):
    """A relative gain is over a baseline that may be zero.

    `value` is the lower limit of the baseline, or NaN if it has no interval.
    """


class RowError(ValueError):
    """An impossible round. Readers of files can name its line instead of its row.

    Parameters
    ----------
    before : str
        The sentence up to "at row 3", without a space at its end.
    row : int
        The row, from 0.
    after : str, default=""
        The rest of the sentence, with the remedy.

    Examples
    --------
    >>> from skope_ope.exceptions import RowError
    >>> error = RowError("propensity is 0", 3, ": drop the row.")
    >>> str(error)
    'propensity is 0 at row 3: drop the row.'
    >>> error.told_of("line 5")
    'propensity is 0 at line 5: drop the row.'
    """

    def __init__(self, before: str, row: int, after: str = "") -> None:
        super().__init__(before, int(row), after)

    @property
    def row(self) -> int:
        """The row, from 0."""
        return self.args[1]

    def told_of(self, place: str) -> str:
        """Return the message with another name for the row.

        Parameters
        ----------
        place : str
            Such as "line 7".

        Returns
        -------
        message : str
        """
        before, _, after = self.args
        return f"{before} at {place}{after}"

    def __str__(self):
        return self.told_of(f"row {self.row}")


# -- warnings that point at the user's line, whatever calls stand between --------------

BETWEEN = ("skope_ope", "sklearn", "joblib")  # packages that call us, or are us


def warn_user(found: Iterable[Warning]) -> None:
    """Warn at the innermost line that is neither ours nor scikit-learn's."""
    # A number of frames to skip is right for one way of calling only: `score` is called
    # by users, by pipelines and by scorers.
    found = list(found)
    if not found:
        return
    frame = sys._getframe(1)
    while frame.f_back is not None and _is_between(frame):
        frame = frame.f_back
    names = frame.f_globals
    for warning in found:
        warnings.warn_explicit(
            warning,
            type(warning),
            frame.f_code.co_filename,
            frame.f_lineno,
            module=names.get("__name__"),
            registry=names.setdefault("__warningregistry__", {}),
        )


def _is_between(frame):
    return str(frame.f_globals.get("__name__")).partition(".")[0] in BETWEEN
