# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Warnings that carry the number that triggered them, and errors that name a row."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from skope_ope._harmless import harmless

if TYPE_CHECKING:
    from typing import Literal


class OPEWarning(UserWarning):
    """Base class of all warnings of skope_ope.

    Parameters
    ----------
    message : str
        What was found and what to do about it. Controls in it, as a label may hold, are
        shown as escapes.
    value : float or int, default=None
        The number that triggered the warning.
    name : str, default=None
        Name of the finding that it tells of, as in an audit. `None`: that of its
        class.
    severity : {"error", "warning"}, default="warning"
        "error": what it is about is wrong until something is mended; "warning": it may
        be wrong.

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
        severity: Literal["error", "warning"] = "warning",
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
    """The policy wants actions that the logger could not have taken."""


class LowOverlapWarning(OPEWarning):
    """Few logged rounds carry most of the weight."""


class PropensityWarning(OPEWarning):
    """The logged propensities contradict the logged actions, or were altered."""


class BiasWarning(PropensityWarning):
    """The acceptance ratio biases the simulated history of a policy, by design.

    Its value is the estimated bias mass; :class:`~skope_ope.DRns` warns above .1.
    """


class ExplorationWarning(OPEWarning):
    """The logged action can be predicted from the context, where it must not."""


class LearnedRoundsWarning(OPEWarning):
    """A policy is evaluated on rounds that it has learned from."""


class ModelErrorWarning(OPEWarning):
    """A standard error that leaves out the error of the reward model."""


class LogsWarning(OPEWarning):
    """Rows of a log were skipped, or its order is not what it seems."""


class HorizonWarning(OPEWarning):
    """The logs were too short for the wanted history, or that for its estimate.

    ``warnings.simplefilter("error", HorizonWarning)`` turns it into an error.
    """


class SingleTrajectoryWarning(OPEWarning):
    """A single history of a policy that learns: no standard error of its value."""


class LoggerWarning(OPEWarning):
    """The rounds of one of several loggers do not bear the weight they get.

    Or they get none, or are too few to tell their spread, or do not average to the
    value by themselves.
    """


class AdaptiveLoggerWarning(OPEWarning):
    """The logger learned while it acted: its propensities follow earlier rewards.

    Its value is the chance of what was found, had they not. Intervals of independent
    rounds are too narrow then for actions that it gave up; see
    :class:`~skope_ope.AdaptiveDR`.
    """


class FewGroupsWarning(OPEWarning):
    r"""A standard error rests on few groups: below 40 effective ones, or on one.

    Its value is the effective number of groups, :math:`(\sum_g n_g)^2 / \sum_g n_g^2`
    for groups of :math:`n_g` rounds.
    """


class FewEventsWarning(OPEWarning):
    r"""An interval rests on few effective events: below ten.

    Its value is their number, :math:`(\sum_i c_i)^2 / \sum_i c_i^2` over the
    deviations of the round values above the estimate, or below it if these are fewer.
    """


class TailWarning(OPEWarning):
    r"""An interval may miss the truth: a few rounds make most of the spread.

    Student's interval needs many rounds that differ. Its value is
    :math:`G = |\sum_i c_i^3| / (\sum_i c_i^2)^{3/2}` of the deviations of the round
    values from the estimate; it is NaN where they are all alike.
    """


class ZeroBaselineWarning(OPEWarning):
    """A relative gain over a baseline that may be zero.

    Its value is the lower limit of the baseline, NaN where it has no interval.
    """


class RowError(ValueError):
    """A round that cannot be; who knows the row's place elsewhere can name it there.

    Parameters
    ----------
    before : str
        The sentence up to "at row 3", without a blank at its end.
    row : int
        The row, from 0.
    after : str, default=""
        The sentence from there on, with its remedy.

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
        """Return the message with another name of the row.

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
